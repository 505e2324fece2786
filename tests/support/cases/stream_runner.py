"""Runs a query as a stream: random micro-batches, disorder within the delay, state saved and loaded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options
from cerise.events import Schema, read_times
from cerise.kinds import Kind, kind_of
from cerise.run.question import concat
from cerise.run.sase_search import Sase
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.entry import Arrival, JournalEntry, MicroBatch, find_top
from cerise.streaming.live_query import StreamQuery
from cerise.streaming.stages import StreamQuestion
from cerise.streaming.state import journal as journals
from cerise.streaming.state.journal import Journal, LiveBucket
from cerise.streaming.state.saved_state import MemoryHome
from cerise.streaming.watermark import TimeRules

SOURCE = "events"
PROCESSES = 3


@dataclass
class Played:
    """The matches of a stream, the events that it set aside, and the watermark after each batch."""

    found: list[pa.Table] = field(default_factory=list)
    aside: list[pa.Table] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)
    steps: list[list[pa.Table]] = field(default_factory=list)


def plan_of(question: StreamQuestion, table: pa.Table, time: str, options: Options, delay: int) -> BucketPlan:
    query = StreamQuery("q", question, "meaning")
    return BucketPlan((query,), Schema(table.schema, time), TimeRules({SOURCE: delay}), options)


class Processes:
    """Several processes: each step of a bucket runs in any; a process that has missed steps catches up."""

    def __init__(self, dice: random.Random, *, reload: float = 0.5) -> None:
        self._dice, self._reload = dice, reload
        self._live: list[LiveBucket | None] = [None] * PROCESSES
        self._number = 0

    def open(self, journal: Journal) -> Bucket:
        """Open a bucket in any of the processes, now and then from the saved state, as after a restart."""
        self._number = self._dice.randrange(PROCESSES)
        live = self._live[self._number]
        journals.CACHE.clear()
        if live is not None and self._dice.random() >= self._reload:
            journals.CACHE.add(live, 0)
        return journal.open()

    def keep(self, journal: Journal, bucket: Bucket, entry: JournalEntry) -> None:
        """Keep the state after a step."""
        journal.keep(bucket, entry)
        self._live[self._number] = journals.CACHE.take(journal.plan, 0)


def play(
    plan: BucketPlan,
    batches: Sequence[pa.Table],
    dice: random.Random,
    *,
    reload: float = 0.5,
    home: MemoryHome | None = None,
) -> Played:
    """Step through micro-batches in several processes."""
    home, played = home or MemoryHome(), Played()
    bucket, processes = None, Processes(dice, reload=reload)
    for batch in batches:
        journal = Journal(plan, home)
        bucket = processes.open(journal)
        top = find_top(batch, plan.roles, plan.rules, None) if len(batch) else None
        step = bucket.step(MicroBatch([Arrival(SOURCE, top, batch)]))
        processes.keep(journal, bucket, step.entry)
        played.steps.append([table for _, table in step.found])
        played.found += played.steps[-1]
        played.aside += step.aside
        played.watermarks.append(bucket.watermark.time)
    if bucket is None:
        bucket = Journal(plan, home).open()
    played.found += [table for _, table in bucket.flush()]
    return played


def split(table: pa.Table, dice: random.Random, most: int = 5) -> list[pa.Table]:
    """Cut a table into pieces of random sizes, some of them empty."""
    pieces, start = [], 0
    while start < len(table):
        size = dice.randrange(most)
        pieces.append(table.slice(start, size))
        start += size
    return pieces


def disorder(table: pa.Table, schema: Schema, dice: random.Random, delay: int, *, ties: bool) -> pa.Table:
    """Move events back by at most the delay; with `ties`, events of equal time may change places."""
    times = read_times(table, schema).astype(object)
    moved: dict[Any, int] = {}
    keys = [
        (time + (dice.randint(0, delay) if ties else moved.setdefault(time, dice.randint(0, delay))), n)
        for n, time in enumerate(times)
    ]
    order = sorted(range(len(keys)), key=lambda n: keys[n])
    return table.take(pa.array(np.array(order, np.int64)))


def as_a_stream(
    question: StreamQuestion, table: pa.Table, schema: Schema, options: Options, seed: int
) -> pa.Table:
    """Run a question over a table that arrives in disorder, which the delay allows; return its matches."""
    dice = random.Random(seed)
    delay = dice.choice((0, 1, 3, 10))
    if kind_of(schema.columns.field(schema.time).type) is not Kind.INT:
        delay *= 1_000_000
    ordered = table.take(pa.array(np.argsort(read_times(table, schema), kind="stable")))
    arrived = disorder(ordered, schema, dice, delay, ties=False)
    played = play(plan_of(question, table, schema.time, options, delay), split(arrived, dice), dice)
    assert not played.aside
    return unite(question, played.found)


def unite(question: StreamQuestion, found: Sequence[pa.Table]) -> pa.Table:
    """The rows that a stream gave, as one table: rows of totals are final, and need no finish."""
    return concat(found, question.result) if isinstance(question, Sase) else question.finish(found)
