"""Random queries on random streams: the answer is that of batch, less the late events (S11.1)."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.errors import DataError, UnsupportedError
from cerise.events import read_times
from cerise.kinds import INT64_MIN
from cerise.run.sase_search import Sase
from cerise.streaming.live_query import check_query
from tests.support.cases.runners import whole
from tests.support.cases.stream_runner import disorder, plan_of, play, split, unite
from tests.support.strategies.pairs import Pair, pairs
from tests.test_agreement import bound_of, examples, rows
from tests.tiers import mostly_nightly

GOES = tuple(range(6))
DISORDER = ((0, 0), (2, 2), (5, 2), (50, 0), (50, 0), (50, 2))  # by how much events move, and the delay


def late_ids(batches: list[pa.Table], time: str, delay: int, pair: Pair) -> set[int]:
    """The ids of late events: earlier than the latest event of all batches before, less the delay."""
    late, watermark = set(), INT64_MIN
    for batch in batches:
        times = read_times(batch, pair.schema)
        late |= {
            each for each, when in zip(batch.column("id").to_pylist(), times, strict=True) if when < watermark
        }
        watermark = max(watermark, int(times.max()) - delay) if len(times) else watermark
    return late


def answer_of(question: Sase, table: pa.Table, options: Options) -> Counter[str] | None:
    """Return the rows that batch finds; None: RETURN cannot be computed on one of them (S4.6)."""
    try:
        return rows(whole(question.bound, table, options))
    except DataError:
        return None


@pytest.mark.parametrize("engine", [None, "nfa", "rcep", "reference"])
@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_a_stream_answers_as_batch_does_without_the_late_events(go: int, engine: str | None) -> None:
    @examples(60, len(GOES) * 4, go)
    @given(pairs(), st.integers(0, 2**32))
    def agrees(pair: Pair, seed: int) -> None:
        dice = random.Random(seed)
        question = Sase(bound_of(pair))
        options = Options(engine=engine, limits=dice.choice((Limits(), Limits.all(1), Limits.all(3))))
        try:
            check_query("q", question, Options(), unbounded=True)
            question.prepare(options)
        except UnsupportedError:
            return
        moved, delay = dice.choice(DISORDER)
        ordered = pair.table.take(pa.array(np.argsort(read_times(pair.table, pair.schema), kind="stable")))
        arrived = disorder(ordered, pair.schema, dice, moved, ties=True)
        batches = split(arrived, dice)
        late = late_ids(batches, pair.schema.time, delay, pair)
        plan = plan_of(question, arrived, pair.schema.time, options, delay)
        accepted = arrived.filter(
            pa.array([each not in late for each in arrived.column("id").to_pylist()], pa.bool_())
        )
        expected = answer_of(question, accepted, options)
        if expected is None:
            with pytest.raises(DataError, match="in RETURN"):
                play(plan, batches, dice)
            return
        played = play(plan, batches, dice)
        assert sum(map(len, played.aside)) == len(late)
        assert rows(unite(question, played.found)) == expected

    agrees()
