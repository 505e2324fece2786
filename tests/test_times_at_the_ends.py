"""Random queries on streams whose times lie at the ends of 64 bits: every engine and runner agrees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.errors import CeriseError
from cerise.kinds import INT64_MAX, INT64_MIN
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Window
from tests.support.cases.runners import RUNNERS, Runner
from tests.support.strategies.pairs import QUERY, Pair, most_events
from tests.support.strategies.queries import PARAMS, params_of, query_of
from tests.support.strategies.streams import ROW, Dice, Shape, shape_of, table_of
from tests.test_agreement import COMPILED, GOES, examples, rows
from tests.tiers import mostly_nightly

WIDE = (2**62, INT64_MAX, 2**63 - 2, 2**62 + 1, 2**63 - 5, 3 * 2**61)


@st.composite
def pairs_at_the_ends(draw: st.DrawFn) -> Pair:
    """A query and a stream of integer times that begin at the least, end at the last, or do both."""
    dice = Dice(draw(st.binary(min_size=QUERY, max_size=QUERY)))
    shape = shape_of(dice)
    place = shape.schema.columns.get_field_index("t")
    columns = shape.schema.columns.set(place, pa.field("t", pa.int64()))
    shape = Shape(replace(shape.schema, columns=columns), 0, 1)
    query = query_of(dice, shape)
    if query.within is not None and dice.chance(25):
        query = replace(query, within=Window(dice.pick(WIDE), query.within.unit))
        if query.slide is not None:
            query = replace(query, slide=Window(dice.pick(WIDE), query.slide.unit))
    size = most_events(query)
    table = table_of(Dice(draw(st.binary(min_size=ROW * size, max_size=ROW * size))), shape, size)
    moved = pa.array(_moved(table.column("t").to_pylist(), dice.below(3), dice.below(12)), pa.int64())
    return Pair(
        query, shape.schema, table.set_column(place, columns.field("t"), moved),
        {name: PARAMS[name] for name in params_of(query)},
    )  # fmt: skip


def _moved(times: list[int], end: int, apart: int) -> list[int]:
    """Return times moved to the last, to the least, or, from a time on, to either."""
    least, most = min(times, default=0), max(times, default=0)
    down, up = INT64_MIN - least, INT64_MAX - most
    if end == 2:
        return [time + (down if time < apart else up) for time in times]
    return [time + (down if end else up) for time in times]


def answer(runner: Runner, bound: Bound, table: pa.Table, engine: str) -> Counter[str] | str:
    """The rows of the answer, or the error that there is instead."""
    try:
        return rows(runner(bound, table, Options(engine=engine)))
    except CeriseError as error:
        return type(error).__name__


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_every_engine_agrees_at_the_ends(go: int) -> None:
    @examples(16, go=go)
    @given(pairs_at_the_ends())
    def agrees(pair: Pair) -> None:
        bound = bind(pair.query, pair.schema, pair.params)
        expected = answer(RUNNERS["whole"], bound, pair.table, "reference")
        for engine in COMPILED:
            if ENGINES[engine].why_not(bound) is None:
                assert answer(RUNNERS["whole"], bound, pair.table, engine) == expected, engine

    agrees()


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_every_runner_agrees_at_the_ends(go: int) -> None:
    @examples(5, go=go)
    @given(pairs_at_the_ends())
    def agrees(pair: Pair) -> None:
        bound = bind(pair.query, pair.schema, pair.params)
        expected = answer(RUNNERS["whole"], bound, pair.table, "reference")
        for engine in ("reference", "nfa", "rcep"):
            if ENGINES[engine].why_not(bound) is None:
                for name, runner in RUNNERS.items():
                    assert answer(runner, bound, pair.table, engine) == expected, (name, engine)

    agrees()
