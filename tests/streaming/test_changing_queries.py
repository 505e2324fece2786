"""Queries that come and go while a stream runs, and streams that begin with a history."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.errors import BindError, UnsupportedError
from cerise.events import Schema, read_times
from cerise.kinds import INT64_MAX
from cerise.run.sase_search import Sase
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.entry import Arrival, Control, MicroBatch, find_top
from cerise.streaming.history import History
from cerise.streaming.live_query import StreamQuery, check_query
from cerise.streaming.stages import reach_of
from cerise.streaming.state import journal as journals
from cerise.streaming.state.journal import Journal
from cerise.streaming.state.saved_state import MemoryHome
from cerise.streaming.watermark import TimeRules
from tests.support.cases.runners import whole
from tests.support.cases.stream_runner import SOURCE, Processes, disorder, plan_of, play, split
from tests.support.strategies.pairs import Pair, pairs
from tests.support.strategies.queries import params_of
from tests.test_agreement import bound_of, examples, rows
from tests.tiers import mostly_nightly

GOES = tuple(range(4))
EVENTS = pa.table({"t": range(1, 9), "kind": list("ABABABAB"), "id": [1] * 8})
AB = "PATTERN SEQ(A a, B b) WITHIN 3"


def streamable(pair: Pair) -> Sase | None:
    """The query of a pair without RETURN, whose errors would end a stream; None: it cannot stream."""
    query = replace(pair.query, returns=None)
    question = Sase(
        bound_of(replace(pair, params={name: pair.params[name] for name in params_of(query)}), query)
    )
    try:
        check_query("q", question, Options(), unbounded=True)
    except UnsupportedError:
        return None
    return question


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0,)))
def test_a_query_that_comes_and_goes_answers_as_batch_over_its_time(go: int) -> None:
    @examples(100, len(GOES), go)
    @given(pairs(), st.integers(0, 2**32))
    def agrees(pair: Pair, seed: int) -> None:
        question, dice = streamable(pair), random.Random(seed)
        if question is None or not len(pair.table):
            return
        delay = dice.choice((0, 2, 5))
        ordered = pair.table.take(pa.array(np.argsort(read_times(pair.table, pair.schema), kind="stable")))
        arrived = disorder(ordered, pair.schema, dice, delay, ties=True)
        batches = split(arrived, dice)
        options = Options(limits=dice.choice((Limits(), Limits.all(1))))
        query = StreamQuery("q", question, "meaning")
        plan = BucketPlan(
            (), Schema(pair.table.schema, pair.schema.time), TimeRules({SOURCE: delay}), options,
            bind=lambda _: query,
        )  # fmt: skip
        comes = dice.randrange(len(batches))
        goes = dice.choice((None, dice.randrange(comes, len(batches))))
        since, until, found, home = None, INT64_MAX, [], MemoryHome()
        processes = Processes(dice)
        for number, batch in enumerate(batches):
            journal = Journal(plan, home)
            bucket = processes.open(journal)
            controls, watermark = [], bucket.watermark.time
            if number == comes:
                at = dice.choice((None, max(watermark, -100) + dice.randrange(6)))
                since = watermark if at is None else at
                controls.append(Control(True, "q", "…", at=at))
            if number == goes and ("q" in bucket.live or number == comes):
                at = dice.choice((None, max(watermark, -100) + dice.randrange(6)))
                until = watermark if at is None else at
                controls.append(Control(False, "q", at=at))
            top = find_top(batch, plan.roles, plan.rules, None) if len(batch) else None
            step = bucket.step(MicroBatch([Arrival(SOURCE, top, batch)], controls=controls))
            assert not bucket.refused
            processes.keep(journal, bucket, step.entry)
            found += [table for _, table in step.found]
        found += [table for _, table in bucket.flush()]
        times = read_times(arrived, pair.schema)
        assert since is not None
        inside = arrived.filter(pa.array((times >= since) & (times < until), pa.bool_()))
        assert rows(question.finish(found)) == rows(whole(question.bound, inside, replace(options)))

    agrees()


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0,)))
def test_a_stream_after_a_history_answers_as_batch_over_both(go: int) -> None:
    @examples(80, len(GOES), go)
    @given(pairs(), st.integers(0, 2**32))
    def agrees(pair: Pair, seed: int) -> None:
        question, dice = streamable(pair), random.Random(seed)
        if question is None or not len(pair.table):
            return
        ordered = pair.table.take(pa.array(np.argsort(read_times(pair.table, pair.schema), kind="stable")))
        times = read_times(ordered, pair.schema)
        cut = int(times[dice.randrange(len(times))]) + 1
        past, rest = ordered.filter(pa.array(times < cut)), ordered.filter(pa.array(times >= cut))
        plan = plan_of(question, ordered, pair.schema.time, Options(), 0)
        history = History.of_table(past, plan.roles, replay=dice.random() < 0.5)
        journals.CACHE.clear()
        home = MemoryHome()
        journal = Journal(plan, home)
        bucket = journal.open()
        entry, before = bucket.begin(history.read(plan.roles, reach_of(question)), history.cut)
        journal.keep(bucket, entry)
        found = [table for _, table in before] if history.replay else []
        played = play(plan, split(rest, dice), dice, home=home)
        answer = rows(question.finish([*found, *played.found]))
        expected = rows(whole(question.bound, ordered, Options()))
        if not history.replay:
            expected -= rows(question.finish([table for _, table in before]))
        assert answer == expected

    agrees()


def test_a_watcher_whose_queries_change() -> None:
    watcher = cerise.Watcher({}, EVENTS, time="t", type="kind", delay=0, changing=True)
    assert watcher.feed(EVENTS.slice(0, 3)).num_rows == 0
    watcher.add("ab", AB)
    watcher.add("none", "PATTERN SEQ(A a, NOT B b) WITHIN :w RETURN a.t AS x", params={"w": 3}, at=4)
    (match,) = watcher.feed(EVENTS.slice(3, 3)).to_pylist()
    assert (match["query"], match["first_time"], match["last_time"]) == ("ab", 3, 4)
    assert dict(match["events"])["b"] == [{"t": 4, "kind": "B", "id": 1}]
    state = watcher.save()
    watcher = cerise.Watcher({}, EVENTS, time="t", type="kind", delay=0, changing=True)
    watcher.load(state)
    watcher.remove("ab", at=7)
    assert watcher.feed(EVENTS.slice(6, 2))["last_time"].to_pylist() == [6]
    assert list(watcher.figures["matches"]) == ["none"]
    with pytest.raises(BindError, match="ends too early"):
        watcher.add("wrong", "PATTERN SEQ(A a, B b")
    with pytest.raises(BindError, match="query ab is unknown"):
        watcher.remove("ab")
    fixed = cerise.Watcher(AB, EVENTS, time="t", type="kind", delay=0)
    with pytest.raises(UnsupportedError, match="are fixed"):
        fixed.add("ab", AB)


@pytest.mark.parametrize("kind", ["table", "files", "store"])
def test_a_watcher_begins_with_a_history(tmp_path: Path, kind: str) -> None:
    past = EVENTS.slice(0, 5)
    history: object = past
    if kind == "files":
        pq.write_table(past, tmp_path / "past.parquet", row_group_size=2)
        history = tmp_path
    elif kind == "store":
        history = cerise.Store.create(tmp_path / "store", schema=past, time="t", type="kind")
        history.append(past)
    given = {"time": "t", "type": "kind", "delay": 0}
    watcher = cerise.Watcher(AB, EVENTS, history=history, **given)
    assert watcher.watermark == 6
    assert watcher.feed(EVENTS.slice(3, 5))["last_time"].to_pylist() == [6]
    assert watcher.late is not None
    assert watcher.late["reason"].to_pylist() == ["in history"] * 2
    replayed = cerise.Watcher(AB, EVENTS, history=history, replay=True, **given)
    assert replayed.feed(EVENTS.slice(5, 3))["last_time"].to_pylist() == [2, 4, 6]
    ended = cerise.Watcher(AB, EVENTS, history=history, replay=True, **given)
    assert ended.flush()["last_time"].to_pylist() == [2, 4]
