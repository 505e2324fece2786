"""Events that change tasks: cut by target into Arrow blobs, moved by Spark's shuffle as a few large rows.

Rows through Spark's own exchange would cross from the JVM to Python one by one, twice. A blob crosses as
bytes (design D2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.identity import hash_rows
from cerise.engines.limits import DEFAULT, Limits
from cerise.events import EventBatch, Path, Schema, read_times
from cerise.files.scan import ROW
from cerise.plan.filters import Needed, Sieve
from cerise.plan.overlap import Targets

OPENS = "__cerise_opens"  # whether a match may start with an event: it is the target's own
BLOBS = "place int, events binary"


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts tables into blobs, each for one target.

    Attributes:
        schema: which column plays which part.
        partition: the columns that events are brought together by.
        targets: where events go.
        needed: which events are needed; None: all.
        limits: how many events are cut, and travel, together.
    """

    schema: Schema
    partition: tuple[Path, ...]
    targets: Targets
    needed: Needed | None
    limits: Limits = DEFAULT

    def __call__(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield blobs, with the number by which Spark brings them to their target."""
        waiting: list[pa.Table] = []
        sieve = None if self.needed is None else Sieve(self.needed, self.schema)
        for table in tables:
            waiting.append(table if sieve is None else table.filter(pa.array(sieve.kept(table))))
            if sum(map(len, waiting)) >= self.limits.cut_events:
                yield from self._blobs(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            yield from self._blobs(pa.concat_tables(waiting))

    def _blobs(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        keys = hash_rows(table, self.schema, self.partition) if self.partition else None
        sent = self.targets.of(read_times(table, self.schema), keys)
        rows = np.concatenate([each for each, _ in sent])
        targets = np.concatenate([each for _, each in sent])
        opens = np.zeros(len(rows), bool)
        opens[: len(sent[0][0])] = True
        order = np.argsort(targets.astype(np.int32), kind="stable")
        rows, targets, opens = rows[order], targets[order], opens[order]
        cut = np.append(np.flatnonzero(np.diff(targets, prepend=-1)), len(rows))
        moved = table.take(pa.array(rows)).append_column(OPENS, pa.array(opens))
        numbers = NUMBERS(self.targets.count)
        size = self.limits.blob_events
        for start, stop in pairwise(cut):
            for first in range(int(start), int(stop), size):
                part = moved.slice(first, min(size, int(stop) - first))
                yield blob(numbers[int(targets[start])], part)


def blob(place: int, table: pa.Table) -> pa.RecordBatch:
    """Return a table as one row of Spark's, with the number by which it is brought to its task."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.unify_dictionaries().combine_chunks())
    events = pa.array([sink.getvalue().to_pybytes()], pa.binary())
    return pa.RecordBatch.from_arrays([pa.array([place], pa.int32()), events], names=["place", "events"])


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the events of each target that a task has, those of files in arrival order."""
    return (table for _, table in placed(batches))


def placed(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the numbers of the targets that a task has, each with its events, as `gathered` does."""
    blobs: dict[int, list[pa.Table]] = defaultdict(list)
    for batch in batches:
        for place, events in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            blobs[place].append(pa.ipc.open_stream(events.as_buffer()).read_all())
    for place in sorted(blobs):
        parts = blobs.pop(place)
        if ROW in parts[0].schema.names:
            parts.sort(key=_first_row)  # each is in order, and few of them overlap
        table = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
        if ROW in table.schema.names:
            rows = table.column(ROW).to_numpy()
            if not bool(np.all(rows[1:] >= rows[:-1])):
                table = table.take(pa.array(np.argsort(rows, kind="stable")))
        yield place, table


def _first_row(table: pa.Table) -> int:
    return int(table.column(ROW)[0].as_py()) if len(table) else -1


def in_stream_order(table: pa.Table, schema: Schema, ties: Sequence[Sequence[Path]]) -> EventBatch:
    """Return gathered events in stream order (S1.2)."""
    events = EventBatch.of(table, schema, reads=ties)
    opens = events.table.column(OPENS).combine_chunks().to_numpy(zero_copy_only=False)
    names = [name for name in events.table.schema.names if name not in (OPENS, ROW)]
    return replace(events, table=events.table.select(names), opens=None if bool(opens.all()) else opens)


# ---- Spark chooses a task by the hash of a number: these are numbers that it brings to task 0, 1, 2, …


class _Numbers:
    def __init__(self) -> None:
        self._known: dict[int, list[int]] = {}

    def __call__(self, count: int) -> list[int]:
        """Return for each of so many tasks a number that Spark's repartition brings there."""
        if count not in self._known:
            found: dict[int, int] = {}
            number = 0
            while len(found) < count:
                found.setdefault(murmur3(number) % count, number)
                number += 1
            self._known[count] = [found[task] for task in range(count)]
        return self._known[count]


NUMBERS = _Numbers()


def murmur3(number: int, seed: int = 42) -> int:
    """Return the hash of an int that Spark partitions by: Murmur3 of 32 bits, signed."""
    mask = 0xFFFFFFFF
    word = (number * 0xCC9E2D51) & mask
    word = ((word << 15) | (word >> 17)) & mask
    word = (word * 0x1B873593) & mask
    hashed = seed ^ word
    hashed = ((hashed << 13) | (hashed >> 19)) & mask
    hashed = (hashed * 5 + 0xE6546B64) & mask
    hashed ^= 4  # how many bytes there were
    hashed ^= hashed >> 16
    hashed = (hashed * 0x85EBCA6B) & mask
    hashed ^= hashed >> 13
    hashed = (hashed * 0xC2B2AE35) & mask
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed
