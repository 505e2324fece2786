"""The router against a slow twin that tests each value by itself, and never loses an event (S4.6)."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from cerise.kinds import Kind
from cerise.plan.pushdown import Comparison
from cerise.plan.router import Router, router_of
from cerise.plan.routes.key_ranges import RouteLimits
from tests.support.random_leaves import ORDERS, Leaves, judge, random_leaves, random_table

SMALL = [RouteLimits.all(1), RouteLimits.all(2), RouteLimits.all(3)]
EVERY = [*SMALL, RouteLimits(), RouteLimits(column_tests=1, row_tests=1), RouteLimits(column_tests=10**6)]


def check(leaves: Leaves, table: pa.Table, limits: RouteLimits) -> None:
    expected = judge(leaves, table)
    router = Router(leaves, limits)
    found = router.route(table)
    assert [found.of(leaf).tolist() for leaf in range(len(leaves))] == expected
    assert found.starts[-1] == len(found.rows)
    kept = set().union(*expected) if expected else set()
    assert np.flatnonzero(router.mask(table)).tolist() == sorted(kept)


@pytest.mark.parametrize("limits", EVERY, ids=range(len(EVERY)))
def test_events_go_to_the_leaves_they_fit(limits: RouteLimits) -> None:
    rng = random.Random(EVERY.index(limits))
    for _ in range(150):
        check(random_leaves(rng), random_table(rng), limits)


# ---- many, wide, none


@pytest.mark.parametrize("limits", [RouteLimits(), RouteLimits(words=1 << 14)], ids=["interned", "hashed"])
@pytest.mark.parametrize("coded", [False, True])
def test_ten_thousand_types(limits: RouteLimits, *, coded: bool) -> None:
    words = [f"type {i}" if i % 3 else f"a type with a long name, {i}" for i in range(10_000)]
    is_type = [(Comparison(("kind",), Kind.STRING, "=", (word,)),) for word in words]
    above = [(*leaf, Comparison(("x",), Kind.INT, ">", (i % 50,))) for i, leaf in enumerate(is_type)]
    rng = np.random.default_rng(5)
    kinds, x = rng.integers(0, 11_000, 30_000), rng.integers(0, 60, 30_000)
    known = [*words, *(f"unknown {i}" for i in range(1_000))]
    column = pa.array([known[i] for i in kinds])
    table = pa.table({"kind": column.dictionary_encode() if coded else column, "x": x})
    router = Router([*is_type, *above], limits)
    found = router.route(table)
    order = np.argsort(kinds, kind="stable")
    rows = order[kinds[order] < 10_000]
    assert found.rows[: len(rows)].tolist() == rows.tolist()
    assert (
        found.starts[1:10_001].tolist() == np.cumsum(np.bincount(kinds, minlength=10_000)[:10_000]).tolist()
    )
    wanted = rows[x[rows] > kinds[rows] % 50]
    assert found.rows[len(rows) :].tolist() == wanted.tolist()
    assert np.flatnonzero(router.mask(table)).tolist() == sorted(rows.tolist())
    assert np.flatnonzero(Router(above, limits).mask(table)).tolist() == sorted(wanted.tolist())


@pytest.mark.parametrize("limits", [SMALL[0], RouteLimits()], ids=["small", "usual"])
def test_ranges_that_overlap_or_have_one_end(limits: RouteLimits) -> None:
    rng = random.Random(3)
    table = pa.table({"x": [rng.randrange(300) for _ in range(200)], "y": [rng.random() for _ in range(200)]})
    leaves: list[tuple[Comparison, ...]] = [
        (Comparison(("x",), Kind.INT, rng.choice((">", "<")), (rng.randrange(300),)),) for _ in range(120)
    ]
    for _ in range(120):
        low = rng.randrange(300)
        ends = Comparison(("x",), Kind.INT, ">=", (low,)), Comparison(("x",), Kind.INT, "<", (low + 40,))
        leaves.append((*ends, Comparison(("y",), Kind.FLOAT, "<", (rng.random(),)))[: rng.randrange(2, 4)])
    check(leaves, table, limits)


def test_long_lists_of_numbers_and_of_words() -> None:
    rng = random.Random(4)
    table = pa.table(
        {"x": [rng.randrange(400) for _ in range(80)], "kind": [rng.choice("abc") for _ in range(80)]}
    )
    some = tuple(rng.sample(range(400), 160))
    is_some = Comparison(("x",), Kind.INT, "in", some)
    differs = [Comparison(("x",), Kind.INT, "!=", (each,)) for each in some[:90]]
    is_word = Comparison(("kind",), Kind.STRING, "in", (*map(str, range(400)), "a", "b"))
    for limits in (RouteLimits(), SMALL[0]):
        for leaf in ((is_some,), tuple(differs), (is_word,), (is_word, is_some)):
            check([leaf], table, limits)
            check([leaf, (is_some, is_word), (*differs, is_word)], table, limits)


def test_no_leaves_no_rows_no_tests() -> None:
    table = pa.table({"x": [1, 2]})
    check([], table, RouteLimits())
    check([(), (Comparison(("x",), Kind.INT, ">", (1,)),)], table, RouteLimits())
    check([(Comparison(("x",), Kind.INT, ">", (1,)),)], table.slice(0, 0), RouteLimits())
    assert Router([()]).mask(table.select([])).tolist() == [True, True]
    assert Router([()]).route(table.select([])).of(0).tolist() == [0, 1]


def test_a_column_without_a_type_is_null() -> None:
    table = pa.table({"x": pa.nulls(3)})
    for kind, value in ((Kind.STRING, "a"), (Kind.INT, 1), (Kind.FLOAT, 1.0)):
        leaves = [(Comparison(("x",), kind, op, (value,)),) for op in ORDERS]
        check([*leaves, (Comparison(("x",), kind, "is null", ()),)], table, RouteLimits())
        check(leaves, table, SMALL[0])


def test_threads_share_a_router() -> None:
    leaves = [
        (Comparison(("kind",), Kind.STRING, "=", (f"{i}",)), Comparison(("y",), Kind.FLOAT, ">", (i / 400,)))
        for i in range(400)
    ]
    tables = [
        pa.table(
            {"kind": [f"{(i * seed) % 500}" for i in range(20_000)], "y": [i % 7 / 7 for i in range(20_000)]}
        )
        for seed in range(1, 9)
    ]
    for several in (leaves, leaves[:5]):
        expected = [Router(several).route(each).rows.tolist() for each in tables]
        shared = router_of(tuple(several))
        with ThreadPoolExecutor(4) as pool:
            assert [each.rows.tolist() for each in pool.map(shared.route, tables)] == expected
    assert router_of(tuple(leaves)) is router_of(tuple(leaves))
