"""Internal limits change no result: at their smallest values, and on streams that pass their real ones.

CERISE_EXAMPLES=5000 asks for more pairs of a query and a stream than `make test` tries.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cerise
from cerise.engines import nfa
from cerise.engines.base import Options, Progress
from cerise.engines.choose import ENGINES, choose
from cerise.engines.limits import Limits
from cerise.errors import DataError, PlanError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.query import Count, Strategy
from cerise.sources import How, Roles, ask
from tests.support.cases.runners import RUNNERS
from tests.support.cases.runners import whole as run
from tests.support.strategies.pairs import Pair, pairs
from tests.support.strategies.totals import totalled
from tests.test_agreement import COMPILED, bound_of, examples, rows, uncounted
from tests.tiers import mostly_nightly

SIZES = (1, 2, 3)
RUN_IN_PROCESS = ("whole", "batches of 3", "saved and loaded", "7 threads", "filtered first")
AS_TASKS = ("exchanged to 7", "from files, 7 slices", "from a store, by stretches")


def small(size: int, engine: str | None = None) -> Options:
    return Options(engine=engine, limits=Limits.all(size))


def able(bound: Bound) -> list[str]:
    return [name for name in COMPILED if ENGINES[name].why_not(bound) is None]


# ---- at their smallest


@pytest.mark.parametrize("size", mostly_nightly(SIZES, (1,)))
@pytest.mark.parametrize("runner", RUN_IN_PROCESS + AS_TASKS)
def test_the_smallest_limits_find_the_same_matches(runner: str, size: int) -> None:
    @examples(15, len(SIZES) * len(RUN_IN_PROCESS + AS_TASKS), size)
    @given(pairs(returns=False))
    def agrees(pair: Pair) -> None:
        bound = bound_of(pair)
        expected = rows(run(bound, pair.table, Options(engine="reference")))
        for engine in able(bound)[: 1 if runner in AS_TASKS else None]:  # to others a task is a thread
            assert rows(RUNNERS[runner](bound, pair.table, small(size, engine))) == expected, engine

    agrees()


@pytest.mark.parametrize("size", mostly_nightly(SIZES, (1,)))
def test_the_smallest_limits_count_the_same_matches(size: int) -> None:
    @examples(25, len(SIZES), size)
    @given(pairs(), st.sampled_from(RUN_IN_PROCESS))
    def agrees(pair: Pair, runner: str) -> None:
        pair = uncounted(pair)
        counting = bound_of(pair, replace(pair.query, returns=Count()))
        expected = rows(run(counting, pair.table, Options(engine="reference")))
        for engine in able(counting):
            assert rows(RUNNERS[runner](counting, pair.table, small(size, engine))) == expected, engine

    agrees()


@pytest.mark.parametrize("size", mostly_nightly(SIZES, (1,)))
def test_the_smallest_limits_give_the_same_totals(size: int) -> None:
    @examples(12, len(SIZES), size)
    @given(totalled(), st.sampled_from(RUN_IN_PROCESS))
    def agrees(family: list[Pair], runner: str) -> None:
        bound = bound_of(family[0])
        for pair in family[:3]:
            expected = outcome(bound, pair, "whole", Options(engine="reference"))
            for engine in able(bound):
                assert outcome(bound, pair, runner, small(size, engine)) == expected, engine

    agrees()


def outcome(bound: Bound, pair: Pair, runner: str, options: Options) -> Counter[str] | str:
    """The rows of a result, or that a value of a match cannot be computed."""
    try:
        return rows(RUNNERS[runner](bound, pair.table, options))
    except DataError:
        return "an error"


@pytest.mark.parametrize("size", mostly_nightly(SIZES, (1,)))
def test_the_smallest_limits_compress_the_same_matches(size: int) -> None:
    engine = nfa.ENGINES["nfa-merge"]

    @examples(40, len(SIZES), size)
    @given(pairs(returns=False, strategies=(Strategy.ANY,)))
    def agrees(pair: Pair) -> None:
        bound = bound_of(uncounted(pair))
        if engine.why_not(bound) is None:
            batch = EventBatch.of(pair.table, bound.schema, reads=bound.ties)
            one, other = (engine.compress(bound, batch, each) for each in (Options(), small(size)))
            assert one.count() == other.count()
            assert spelled(one) == spelled(other)

    agrees()


def spelled(found: Any) -> Counter[str]:
    ids = found.events.column("id").to_pylist()
    return Counter(repr({var: [ids[row] for row in taken] for var, taken in each.items()}) for each in found)


@pytest.mark.parametrize("size", mostly_nightly(SIZES, (1,)))
def test_the_engine_that_is_chosen_agrees_whatever_the_limits(size: int) -> None:
    @examples(25, len(SIZES), size)
    @given(pairs(returns=False))
    def agrees(pair: Pair) -> None:
        bound = bound_of(pair)
        assert choose(bound, small(size)).why_not(bound) is None
        expected = rows(run(bound, pair.table, Options(engine="reference")))
        assert rows(run(bound, pair.table, small(size))) == expected

    agrees()


MISSED = {
    "SASE+": ("PATTERN SEQ(A a, B+ b[], C c) WHERE b.x > a.x WITHIN 5", {"time": "t", "type": "kind"}),
    "SQL": (
        """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES A.x AS x PATTERN (A B+ C) WITHIN 5
           DEFINE A AS kind = 'A', B AS kind = 'B' AND x > A.x, C AS kind = 'C')""",
        {},
    ),
}


@pytest.mark.parametrize("size", mostly_nightly(SIZES, (1,)))
@pytest.mark.parametrize("name", MISSED)
def test_the_smallest_limits_explain_the_same_misses(name: str, size: int) -> None:
    rng, (query, roles) = np.random.default_rng(3), MISSED[name]
    table = pa.table({
        "t": np.cumsum(rng.integers(0, 3, 80)),
        "kind": np.array(list("AABC"))[rng.integers(0, 4, 80)],
        "x": rng.integers(0, 4, 80),
    })  # fmt: skip
    found, expected = (
        cerise.explain_misses(table, query, **roles, options=each).table for each in (small(size), Options())
    )
    assert len(expected) > 10
    assert found.equals(expected)


# ---- past their real values


EVENTS = 1_000_000
QUERIES = {
    "one after another": "PATTERN SEQ(A a, C c) WITHIN 10 OUTPUT NON_OVERLAPPING",
    "next": "PATTERN SEQ(A a, C c) WITHIN 10",
    "any": "PATTERN SEQ(A a, B b, C c) USE skip_till_any_match WITHIN 6",
    "few per event": "PATTERN SEQ(A a, C c) USE skip_till_any_match WITHIN 6 LIMIT 1 PER EVENT",
    "keyed": "PATTERN SEQ(A a, C c) PARTITION BY k WITHIN 3000 OUTPUT NON_OVERLAPPING",
    "not after": "PATTERN SEQ(A a, C c, ~(B b)) WITHIN 4",
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WITHIN 6",
}


@pytest.fixture(scope="module")
def many() -> pa.Table:
    rng = np.random.default_rng(19)
    return pa.table(
        {
            "t": np.arange(EVENTS),
            "type": np.array(list("AABC"))[rng.integers(0, 4, EVENTS)],
            "k": rng.integers(0, 1_000, EVENTS),
        }
    )


@pytest.mark.parametrize("name", mostly_nightly(QUERIES, ("one after another", "next", "keyed")))
def test_streams_that_pass_the_real_limits_are_counted_as_they_are_found(name: str, many: pa.Table) -> None:
    found, roles = {}, {"time": "t", "type": "type"}
    bound = ask(many, QUERIES[name], Roles(**roles), How()).bounds[0]
    for engine in able(bound):
        for threads in (1, 2):
            options = Options(engine=engine, threads=threads)
            found["find", engine, threads] = len(cerise.find(many, QUERIES[name], **roles, options=options))
            found["count", engine, threads] = cerise.count(many, QUERIES[name], **roles, options=options)
    assert len(set(found.values())) == 1, found
    assert found.popitem()[1] > 1 << 17


# ---- limits themselves


def test_limits_are_whole_numbers_from_1_on() -> None:
    for each in fields(Limits):
        with pytest.raises(PlanError, match=rf"the limit {each.name} is 0\nhint: .*from 1 on"):
            Limits(**{each.name: 0})
    with pytest.raises(PlanError, match=r"is 1.5"):
        Limits(matches=1.5)  # type: ignore[arg-type]


def test_a_loop_that_does_not_move_on_is_ended() -> None:
    progress = Progress()
    progress.check((0, b"registers"))
    progress.check((1, b"registers"))
    with pytest.raises(PlanError, match=r"makes no progress.*\nhint: please report"):
        progress.check((1, b"registers"))
