"""The exchange of events between tasks: cut by target into Arrow blobs, which Spark's shuffle moves as rows.

Single rows would cross between the JVM and Python one by one, twice. A blob crosses as bytes (decision D2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.limits import DEFAULT, Limits
from cerise.events import EventBatch, Ints, RowBatch
from cerise.files.scan import ROW
from cerise.plan.needs import Needs
from cerise.plan.router import router_of
from cerise.plan.slicing import Targets
from cerise.run.access import ARRIVED
from cerise.run.report import to_bytes

OPENS = "__cerise_opens"  # whether a match may start with an event, because the target owns it
BLOBS = "target int, events binary"
MOST_NARROW = 1 << 15  # targets that 16 bits number, which numpy sorts several times faster


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts tables into blobs, each for one target.

    Attributes:
        needs: the needs of the questions: keys, times and columns.
        targets: the targets of events.
        filters: whether to leave out rows that cannot matter; False if Spark has filtered them.
        limits: how many events to cut at a time, and to put into one blob.
    """

    needs: Needs
    targets: Targets
    filters: bool
    limits: Limits = DEFAULT

    @property
    def columns(self) -> pa.Schema:
        return self.needs.columns

    def __call__(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield blobs, each with the number that makes Spark send it to its target."""
        waiting: list[pa.Table] = []
        wanted = self.needs.filter if self.filters else None
        router = None if wanted is None else router_of(wanted)
        for table in tables:
            waiting.append(table if router is None else table.filter(pa.array(router.mask(table))))
            if sum(map(len, waiting)) >= self.limits.cut_events:
                yield from self._blobs(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            yield from self._blobs(pa.concat_tables(waiting))

    def _blobs(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        moved, targets = self._route(table)
        cut = np.append(np.flatnonzero(np.diff(targets, prepend=-1)), len(targets))
        numbers = NUMBERS(self.targets.count)
        size = self.limits.blob_events
        for start, stop in pairwise(cut.tolist()):
            for first in range(start, stop, size):
                yield blob(numbers[int(targets[start])], moved.slice(first, min(size, stop - first)))

    def _route(self, table: pa.Table) -> tuple[pa.Table, Ints]:
        """Return rows sorted by target, and the target of each; a row may go to several targets."""
        if self.targets.count == 1:
            opens = pa.array(np.ones(len(table), bool))
            return table.append_column(OPENS, opens), np.zeros(len(table), np.int64)
        times = np.zeros(len(table), np.int64)
        if self.targets.length is not None or self.needs.roles is not None:
            times = self.needs.times(table)
        sent = self.targets.of(times, self.needs.keys(table))
        rows = np.concatenate([each for each, _ in sent])
        targets = np.concatenate([each for _, each in sent])
        opens = np.zeros(len(rows), bool)
        opens[: len(sent[0][0])] = True
        narrow = targets.astype(np.int16 if self.targets.count <= MOST_NARROW else np.int32)  # radix sort
        order = np.argsort(narrow, kind="stable")
        moved = table.take(pa.array(rows[order])).append_column(OPENS, pa.array(opens[order]))
        return moved, targets[order]


def blob(target: int, table: pa.Table) -> pa.RecordBatch:
    """Return a table as one row for Spark, with the number that makes Spark send it to its task."""
    events = pa.array([to_bytes(table.unify_dictionaries().combine_chunks())], pa.binary())
    return pa.RecordBatch.from_arrays([pa.array([target], pa.int32()), events], names=["target", "events"])


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the events of each target of a task, in the order of their arrival if it is known."""
    blobs: dict[int, list[pa.Table]] = defaultdict(list)
    for batch in batches:
        for target, events in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            blobs[target].append(pa.ipc.open_stream(events.as_buffer()).read_all())
    for target in sorted(blobs):
        parts = blobs.pop(target)
        if ROW in parts[0].schema.names:
            parts.sort(key=_first_row)  # each part is in order, and few parts overlap
        yield _in_arrival(pa.concat_tables(parts).unify_dictionaries().combine_chunks())


def _in_arrival(table: pa.Table) -> pa.Table:
    names = [name for name in (ROW, *ARRIVED) if name in table.schema.names]
    if not names or not len(table):
        return table
    keys = [table.column(name).to_numpy() for name in names]
    if len(keys) == 1 and bool(np.all(keys[0][1:] >= keys[0][:-1])):
        return table
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    return table.take(pa.array(order))


def _first_row(table: pa.Table) -> int:
    return int(table.column(ROW)[0].as_py()) if len(table) else -1


def arrange(table: pa.Table, needs: Needs) -> EventBatch | RowBatch:
    """Return gathered events in the order that a question needs: stream order (S1.2), or arrival order."""
    names = [name for name in table.schema.names if name not in (OPENS, ROW, *ARRIVED)]
    if needs.roles is None:
        opens = table.column(OPENS).combine_chunks().to_numpy(zero_copy_only=False)
        return RowBatch(table.select(names), None if bool(opens.all()) else opens)
    events = EventBatch.of(table, needs.roles, reads=needs.ties)
    opens = events.table.column(OPENS).combine_chunks().to_numpy(zero_copy_only=False)
    return replace(events, table=events.table.select(names), opens=None if bool(opens.all()) else opens)


# ---- Spark chooses a task by the hash of a number: numbers that it sends to task 0, 1, 2, …


class _Numbers:
    def __init__(self) -> None:
        self._known: dict[int, list[int]] = {}

    def __call__(self, count: int) -> list[int]:
        """Return for each of `count` tasks a number that Spark's repartition sends to it."""
        if count not in self._known:
            found: dict[int, int] = {}
            number = 0
            while len(found) < count:
                found.setdefault(murmur3(number) % count, number)
                number += 1
            self._known[count] = [found[task] for task in range(count)]
        return self._known[count]


NUMBERS = _Numbers()


def number_states(count: int) -> list[int]:
    """Return the numbers that stand for states in Spark's state store; each goes to a task of its own.

    The first is 0 whatever the count: so a stream with another number of buckets finds its state, and is
    refused.

    >>> [murmur3(each) % 4 for each in number_states(4)]
    [3, 0, 1, 2]
    """
    first = murmur3(0) % count
    return [0, *(number for task, number in enumerate(NUMBERS(count)) if task != first)]


def murmur3(number: int, seed: int = 42) -> int:
    """Return Spark's hash of an int, by which it partitions: Murmur3 of 32 bits, signed."""
    mask = 0xFFFFFFFF
    word = (number * 0xCC9E2D51) & mask
    word = ((word << 15) | (word >> 17)) & mask
    word = (word * 0x1B873593) & mask
    hashed = seed ^ word
    hashed = ((hashed << 13) | (hashed >> 19)) & mask
    hashed = (hashed * 5 + 0xE6546B64) & mask
    hashed ^= 4  # the length of the input in bytes
    hashed ^= hashed >> 16
    hashed = (hashed * 0x85EBCA6B) & mask
    hashed ^= hashed >> 13
    hashed = (hashed * 0xC2B2AE35) & mask
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed
