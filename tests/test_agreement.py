"""Random queries on random streams: every engine and runner gives the answer that the law gives.

CERISE_EXAMPLES=50000 asks for more pairs than the few thousand of `make test`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from cerise.engines.base import Matcher, Options
from cerise.engines.choose import ENGINES
from cerise.engines.results.match_table import to_table
from cerise.errors import DataError
from cerise.events import EventBatch, Schema
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Count, Query, Strategy
from tests.support.cases.runners import RUNNERS
from tests.support.cases.runners import whole as run
from tests.support.oracle import brute, brute_returns
from tests.support.strategies.pairs import QUERY, Pair, most_events, pairs, streams
from tests.support.strategies.queries import PARAMS, params_of, query_of
from tests.support.strategies.streams import ROW, Dice, shape_of, table_of
from tests.tiers import AT_LENGTH, mostly_nightly

F = TypeVar("F", bound=Callable[..., Any])
SKIPPING = (Strategy.NEXT, Strategy.ANY)
NFA = tuple(name for name in ENGINES if name.startswith("nfa"))
COMPILED = tuple(name for name in ENGINES if name != "reference")
GOES = tuple(range(5))  # the pairs of one property are split over tests, so that workers share them
GROUPS = 3  # of runners that are given the same pairs, so that a query is compiled once for all of them
STREAMS = 21  # for each query of a property in which compiling the query is most of the work


def examples(count: int, parts: int = len(GOES), go: int | None = None) -> Callable[[F], F]:
    """Settings for a property: the same examples in every run, and more of them where asked.

    Args:
        count: how many examples.
        parts: into how many tests the pairs that CERISE_EXAMPLES asks for are split.
        go: which of these tests it is; each has examples of its own.
    """
    asked = int(os.environ.get("CERISE_EXAMPLES", "0"))
    chosen = settings(
        max_examples=max(count, asked // parts), deadline=None, derandomize=not asked, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    return chosen if asked or go is None else lambda test: seed(go)(chosen(test))  # type: ignore[return-value]


def bound_of(pair: Pair, query: Query | None = None, schema: Schema | None = None) -> Bound:
    return bind(query or pair.query, schema or pair.schema, pair.params)


def uncounted(pair: Pair) -> Pair:
    """The same pair, but where the query asks only for the number of matches, it asks for them all."""
    if not isinstance(pair.query.returns, Count):
        return pair
    query = replace(pair.query, returns=None)
    return replace(pair, query=query, params={name: pair.params[name] for name in params_of(query)})


def bindings(bound: Bound, table: pa.Table, engine: str = "reference") -> Counter[brute.Match]:
    """The matches as a multiset: for each variable in pattern order, the ids of its events."""
    return found_by(ENGINES[engine].start(bound, Options()), bound, table)


def found_by(matcher: Matcher, bound: Bound, table: pa.Table) -> Counter[brute.Match]:
    """The same, of a matcher that has seen no event, or has been flushed."""
    events = EventBatch.of(table, bound.schema, reads=bound.ties)
    found: Counter[brute.Match] = Counter()
    for matches in chain(matcher.feed(events), matcher.flush()):
        ids = matches.events.table.column("id").to_pylist()
        rows = zip(*(column.to_pylist() for column in matches.rows.values()), strict=True)
        found.update(tuple(tuple(ids[place] for place in taken or ()) for taken in row) for row in rows)
    return found


def rows(table: pa.Table) -> Counter[str]:
    """The rows of a result as a multiset; NaN equals NaN, and 0.0 equals -0.0."""
    return Counter(str(_comparable(row)) for row in table.to_pylist())


def _comparable(value: Any) -> Any:
    match value:
        case dict():
            return {name: _comparable(each) for name, each in value.items()}
        case list():
            return [_comparable(each) for each in value]
        case float():
            return value + 0.0
        case Decimal():
            return int(value)
    return value


# ---- the reference and the law


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "rcep-left"])  # mostly `rcep` itself
@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_every_engine_finds_what_the_law_says(go: int, engine: str) -> None:
    @examples(30, len(GOES) * len(COMPILED), go) if engine in COMPILED else examples(120, go=go)
    @given(pairs(strategies=(Strategy.ANY,)) if engine.startswith("rcep") else pairs())
    def agrees(pair: Pair) -> None:
        pair = uncounted(pair)
        bound = bound_of(pair)
        if ENGINES[engine].why_not(bound) is None:
            law = Counter(brute.matches(pair.query, pair.schema, pair.table, pair.params))
            assert bindings(bound, pair.table, engine) == law

    agrees()


@examples(80)
@given(pairs(returns=True))
def test_columns_are_computed_as_the_law_says(pair: Pair) -> None:
    bound = bound_of(pair)
    expected = brute_returns.table(pair.query, pair.schema, pair.table, pair.params)
    if expected is None:
        with pytest.raises(DataError):
            run(bound, pair.table, Options())
    else:
        answer = run(bound, pair.table, Options())
        if not isinstance(pair.query.returns, Count):
            assert answer.schema == bound.output_schema
            answer = answer.drop_columns(["match_id", *(".".join(path) for path in bound.partition if path)])
        assert rows(answer) == Counter(str(_comparable(row)) for row in expected)


# ---- the compiled engines and the reference


@st.composite
def families(draw: st.DrawFn) -> list[Pair]:
    """Pairs of one query, so that it is compiled once; drawn as one number, so that no query comes twice."""
    rng = random.Random(draw(st.integers(0, 2**60)))
    dice = Dice(rng.randbytes(QUERY))
    shape = shape_of(dice)
    query = query_of(dice, shape, returns=False)
    sizes = [max(0, most_events(query) - rng.choice((0, 0, 0, 1, 3, 7))) for _ in range(STREAMS)]
    tables = [table_of(Dice(rng.randbytes(ROW * size)), shape, size) for size in sizes]
    params = {name: PARAMS[name] for name in params_of(query)}
    return [Pair(query, shape.schema, table, params) for table in tables]


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_the_nfa_engines_agree_with_the_reference(go: int) -> None:
    """Each engine has one matcher for all streams of a query: to flush is to forget."""

    @examples(24 if AT_LENGTH else 16, len(GOES) * STREAMS, go)
    @given(families())
    def agrees(family: list[Pair]) -> None:
        bound = bound_of(family[0])
        able = [name for name in NFA if ENGINES[name].why_not(bound) is None]
        matchers = {name: ENGINES[name].start(bound, Options()) for name in able}
        for pair in family:
            expected = bindings(bound, pair.table)
            for name, matcher in matchers.items():
                assert found_by(matcher, bound, pair.table) == expected, f"{name}\n{pair!r}"

    agrees()


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_recomputation_and_all_runners_agree_with_the_reference(go: int) -> None:
    """For skip_till_any_match, which is what it is for."""

    @examples(10, len(GOES), go)
    @given(pairs(strategies=(Strategy.ANY,), returns=False))
    def agrees(pair: Pair) -> None:
        bound = bound_of(pair)
        if ENGINES["rcep"].why_not(bound) is None:
            expected = rows(RUNNERS["whole"](bound, pair.table, Options(engine="reference")))
            for runner, run_so in RUNNERS.items():
                assert rows(run_so(bound, pair.table, Options(engine="rcep"))) == expected, runner

    agrees()


@examples(6, len(GOES) * STREAMS)
@given(families())
def test_every_engine_and_nfa_counts_as_many_matches_as_there_are(family: list[Pair]) -> None:
    counting = bound_of(family[0], replace(family[0].query, returns=Count()))
    able = [name for name in ENGINES if ENGINES[name].why_not(counting) is None]
    for pair in family:
        expected = bindings(bound_of(pair), pair.table).total()
        for name in able:
            answer = run(counting, pair.table, Options(engine=name))
            assert answer.to_pylist() == [{counting.output_schema.names[0]: expected}], f"{name}\n{pair!r}"


# ---- runners


@pytest.mark.parametrize("engine", [*NFA, "reference"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_runner_changes_nothing(group: int, engine: str) -> None:
    """Nor does an engine: the names of matches are the same too."""

    able = engine in ("nfa", "reference")  # to an engine a store is what threads are
    runners = [each for each in RUNNERS if each != "whole" and (able or not each.startswith("from a store"))]

    @examples(20, 1, GROUPS * list(ENGINES).index(engine) + group) if engine in NFA else examples(30)
    @given(pairs(returns=False))
    def agrees(pair: Pair) -> None:
        bound = bound_of(pair)
        if ENGINES[engine].why_not(bound) is None:
            whole = rows(RUNNERS["whole"](bound, pair.table, Options(engine="reference")))
            for runner in runners[group::GROUPS]:
                found = RUNNERS[runner](bound, pair.table, Options(engine=engine))
                assert rows(found) == whole, runner

    agrees()


@examples(40)
@given(pairs(returns=False), st.integers(0, 14))
def test_a_matcher_saved_before_its_first_event_and_after_its_last_goes_on(pair: Pair, cut: int) -> None:
    bound = bound_of(pair)
    events = EventBatch.of(pair.table, bound.schema, reads=bound.ties)
    found: Counter[str] = Counter()
    matcher = ENGINES["reference"].start(bound, Options())
    for part in (events.slice(0, 0), events.slice(0, min(cut, len(events))), events.slice(cut, len(events))):
        later = ENGINES["reference"].start(bound, Options())
        later.load(matcher.save())
        matcher = later
        for each in matcher.feed(part):
            found += rows(to_table(each, bound).drop_columns("match_id"))
    for each in matcher.flush():
        found += rows(to_table(each, bound).drop_columns("match_id"))
    assert found == rows(run(bound, pair.table, Options()).drop_columns("match_id"))


# ---- partitions, order, names


@examples(400)
@given(streams())
def test_a_stream_is_in_the_order_of_time_and_ties(source: tuple[Schema, pa.Table]) -> None:
    schema, table = source
    assert EventBatch.of(table, schema).table.column("id").to_pylist() == brute.stream(table, schema)[0]


@examples(60)
@given(pairs(partitioned=True, returns=False))
def test_partitions_are_matched_apart(pair: Pair) -> None:
    query = replace(pair.query, partition_by=pair.query.partition_by or (("k",),))
    schema = replace(pair.schema, key=())
    alone: Counter[brute.Match] = Counter()
    for part in by_key(pair.table, query.partition_by):
        alone += bindings(bound_of(pair, replace(query, partition_by=()), schema), part)
    assert bindings(bound_of(pair, query, schema), pair.table) == alone


def by_key(table: pa.Table, columns: Iterable[tuple[str, ...]]) -> list[pa.Table]:
    """The rows of each key: nulls together, NaN with NaN, 0.0 with -0.0."""
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(table.to_pylist()):
        key: list[Any] = []
        for path in columns:
            value: Any = row
            for name in path:
                value = None if value is None else value[name]
            key.append(_comparable(value))
        groups.setdefault(repr(key), []).append(number)
    return [table.take(pa.array(numbers)) for numbers in groups.values()]


@examples(60)
@given(pairs(returns=False), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_rows_does_not_matter_where_columns_give_it(
    pair: Pair, rng: random.Random, ordered: bool
) -> None:
    order = ("id",) if ordered else pair.schema.order
    bound = bound_of(pair, schema=replace(pair.schema, order=order, arrival=ordered))
    numbers = list(range(len(pair.table)))
    rng.shuffle(numbers)
    shuffled = pair.table.take(pa.array(numbers, pa.int64()))
    assert rows(run(bound, shuffled, Options())) == rows(run(bound, pair.table, Options()))


@examples(60)
@given(pairs(returns=False))
def test_a_match_has_a_name_of_its_own(pair: Pair) -> None:
    answer = run(bound_of(pair), pair.table, Options())
    names = answer.column("match_id").to_pylist()
    assert len(set(names)) == len(names)


@examples(60)
@given(pairs(strategies=SKIPPING, counted=False, returns=False))
def test_events_that_fit_no_variable_may_be_dropped(pair: Pair) -> None:
    bound = bound_of(pair)
    kept = brute.useful(pair.query, pair.schema, pair.table, pair.params)
    some = pair.table.take(pa.array(kept, pa.int64()))
    assert rows(run(bound, some, Options())) == rows(run(bound, pair.table, Options()))
