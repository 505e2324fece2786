"""The router against a slow twin that tests each value by itself, and never loses an event (S4.6)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cerise.kinds import Kind
from cerise.plan.pushdown import Comparison
from cerise.plan.router import Router, router_of
from cerise.plan.routes.key_ranges import RouteLimits

Leaves = Sequence[tuple[Comparison, ...]]
ORDERS = ("=", "!=", "<", "<=", ">", ">=", "in")
NULLS = ("is null", "is not null")
TEXTS = [
    "", "a", "a\0", "\0", "b", "é", "ÿ", "aé", "\U0001f600", "abcdefg", "abcdefgh", "abcdefgh\0", "abcdefghi",
    "abcdefghj", "abcdefgh" * 3, "abcdefgh" * 2 + "abcdefgX", "zz", "https://a/1", "https://a/2", "￿",
]  # fmt: skip
WHOLES = [0, 1, -1, 2, 3, 7, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 1.5, 2.0, 5e-324, -5e-324, 1e308, 2.0**53, 2.0**53 + 2, math.inf, -math.inf,
    math.nan,
]  # fmt: skip
SMALL = [RouteLimits.all(1), RouteLimits.all(2), RouteLimits.all(3)]
EVERY = [*SMALL, RouteLimits(), RouteLimits(column_tests=1, row_tests=1), RouteLimits(column_tests=10**6)]


# ---- the twin


def holds(test: Comparison, value: Any) -> bool:
    """Whether a value fits, in the words of S4.6."""
    if test.op in NULLS:
        return (value is None) == (test.op == "is null")
    if value is None:
        return False
    if test.op == "in":
        return any(rank(test, value) == rank(test, each) for each in test.values)
    one, other = rank(test, value), rank(test, test.values[0])
    found: bool = {
        "=": one == other, "!=": one != other, "<": one < other, "<=": one <= other, ">": one > other,
        ">=": one >= other,
    }[test.op]  # fmt: skip
    return found


def rank(test: Comparison, value: Any) -> Any:
    """Return a value as it compares: integers as doubles beside doubles, NaN above all."""
    if test.kind is not Kind.FLOAT:
        return value
    return (math.isnan(float(value)), 0.0 if math.isnan(float(value)) else float(value))


def value_at(row: dict[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = row
    for name in path:
        found = None if found is None else found[name]
    return found


def judge(leaves: Leaves, table: pa.Table) -> list[list[int]]:
    """Return the rows of each leaf."""
    rows = table.to_pylist()
    return [
        [i for i, row in enumerate(rows) if all(holds(test, value_at(row, test.path)) for test in leaf)]
        for leaf in leaves
    ]


def check(leaves: Leaves, table: pa.Table, limits: RouteLimits) -> None:
    expected = judge(leaves, table)
    router = Router(leaves, limits)
    found = router.route(table)
    assert [found.of(leaf).tolist() for leaf in range(len(leaves))] == expected
    assert found.starts[-1] == len(found.rows)
    kept = set().union(*expected) if expected else set()
    assert np.flatnonzero(router.mask(table)).tolist() == sorted(kept)


# ---- random events and leaves


def random_table(rng: random.Random) -> pa.Table:
    """Return columns of all forms, in chunks and slices of their own."""
    rows = rng.choice((0, 1, 7, 60))
    share = rng.choice((0.0, 0.2, 1.0))

    def draw(values: list[Any]) -> list[Any]:
        return [None if rng.random() < share else rng.choice(values) for _ in range(rows)]

    texts, wholes, doubles, flags = draw(TEXTS), draw(WHOLES), draw(DOUBLES), draw([True, False])
    inner = pa.struct([("x", pa.int64()), ("kind", pa.string())])
    nested = [
        None if rng.random() < share else {"x": a, "kind": b} for a, b in zip(wholes, texts, strict=True)
    ]
    columns = {
        "kind": pa.array(texts, pa.string()), "coded": code(draw(TEXTS), rng),
        "x": pa.array(wholes, pa.int64()), "y": pa.array(doubles, pa.float64()),
        "flag": pa.array(flags, pa.bool_()),
        "small": pa.array(draw([0, 1, -1, 100]), pa.int16()), "s": pa.array(nested, inner),
        "large": pa.array(draw(TEXTS), pa.large_string()),
    }  # fmt: skip
    return pa.table({name: cut(column, rng) for name, column in columns.items()})


def code(texts: list[str | None], rng: random.Random) -> pa.DictionaryArray:
    """Return strings as codes, among words that are there twice, are a null, or are not used."""
    words: list[str | None] = [*TEXTS, None, *TEXTS[:4]]
    rng.shuffle(words)
    places: dict[str | None, list[int]] = {}
    for i, word in enumerate(words):
        places.setdefault(word, []).append(i)
    indices = [rng.choice([*places[text], *([None] if text is None else [])]) for text in texts]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(words, pa.string()))


def cut(column: pa.Array, rng: random.Random) -> pa.ChunkedArray:
    """Return a column in chunks that are slices of longer arrays."""
    ends = sorted(rng.randrange(len(column) + 1) for _ in range(rng.randrange(3)))
    chunks = [
        pa.concat_arrays([column[:1], column[start:stop], column[:1]]).slice(len(column[:1]), stop - start)
        for start, stop in zip([0, *ends], [*ends, len(column)], strict=True)
    ]
    return pa.chunked_array(chunks, column.type)


COLUMNS: list[tuple[tuple[str, ...], Kind, list[Any]]] = [
    (("kind",), Kind.STRING, TEXTS), (("coded",), Kind.STRING, TEXTS), (("large",), Kind.STRING, TEXTS),
    (("x",), Kind.INT, WHOLES), (("x",), Kind.FLOAT, DOUBLES), (("small",), Kind.INT, [0, 1, 5, -1]),
    (("y",), Kind.FLOAT, DOUBLES), (("flag",), Kind.BOOL, [True, False]), (("s", "x"), Kind.INT, WHOLES),
    (("s", "kind"), Kind.STRING, TEXTS),
]  # fmt: skip


def random_test(rng: random.Random, columns: list[tuple[tuple[str, ...], Kind, list[Any]]]) -> Comparison:
    path, kind, values = rng.choice(columns)
    op = rng.choice((*ORDERS, *NULLS) if rng.random() < 0.2 else ORDERS)
    if op in NULLS:
        return Comparison(path, kind, op, ())
    count = rng.randrange(1, 6) if op == "in" else 1
    return Comparison(path, kind, op, tuple(rng.choice(values) for _ in range(count)))


def random_leaves(rng: random.Random) -> Leaves:
    columns = rng.sample(COLUMNS, rng.randrange(1, len(COLUMNS)))
    sizes = rng.choice(((1,), (1, 2), (0, 1, 2, 3), (2, 3, 4)))
    count = rng.choice((0, 1, 2, 5, 30))
    return [tuple(random_test(rng, columns) for _ in range(rng.choice(sizes))) for _ in range(count)]


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
