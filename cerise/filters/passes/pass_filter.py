"""The filter of a pass: covered time and keys of each branch, and the events of a table that it keeps.

It travels as one message, from the task that merges to all tasks. An event goes if every branch drops it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.events import Path, raw_column
from cerise.filters.dual.covered_time import read_cover
from cerise.filters.dual.shrinking_window import ShrinkingWindow
from cerise.filters.dual.tick_runs import TickRuns
from cerise.filters.dual.window_join import Near, WindowJoin
from cerise.filters.equalities import keys_of
from cerise.filters.passes.pass_branches import PassBranch
from cerise.kinds import canonical, kind_of
from cerise.plan.intervals import Ints
from cerise.plan.needs import hash_partition
from cerise.plan.pushdown import Needed
from cerise.plan.router import Router, router_of

Bools = npt.NDArray[np.bool_]
Covered = TickRuns | ShrinkingWindow
NEAR = {-1: Near.LATER, 0: Near.EITHER, 1: Near.EARLIER}  # by the order of the event that asks
MESSAGES = pa.schema(
    [("branch", pa.int32()), ("edge", pa.int32()), ("name", pa.string()), ("message", pa.binary())]
)


class EventColumns:
    """The columns of some events as filters read them, each computed once."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._columns: dict[Path, pa.Array] = {}
        self._partitions: dict[tuple[Path, ...], Ints | None] = {}

    def __len__(self) -> int:
        return len(self.table)

    def read(self, path: Path) -> pa.Array:
        """Return an attribute in canonical form."""
        if path not in self._columns:
            column = raw_column(self.table, path)
            self._columns[path] = canonical(column, kind_of(column.type), ".".join(path))
        return self._columns[path]

    def times(self, name: str) -> tuple[Ints, Bools | None]:
        """Return the times, and which rows have none."""
        column = self.read((name,))
        missing = np.asarray(column.is_null()) if column.null_count else None
        known = column.fill_null(0) if column.null_count else column
        return np.require(known, np.int64, ["C", "W"]), missing  # kernels take no read-only arrays

    def partition(self, paths: tuple[Path, ...]) -> Ints | None:
        """Return a hash of the partition of each event; None: all are of one."""
        if paths not in self._partitions:
            hashed = hash_partition(self.table, paths)
            self._partitions[paths] = None if hashed is None else hashed.view(np.int64)
        return self._partitions[paths]

    def lacks(self, paths: Sequence[Path]) -> Bools:
        """Return which events have a null in one of some attributes."""
        found = np.zeros(len(self), np.bool_)
        for path in paths:
            column = raw_column(self.table, path)
            if column.null_count:
                found |= np.asarray(column.is_null())
        return found


@dataclass(frozen=True, slots=True)
class BranchFilter:
    """The knowledge that a filter has of one branch.

    Attributes:
        covered: the time that matches may cover; None: all time.
        joins: the keys of the verified variable of an edge, by the number of the edge and the variable that
            asks.
    """

    covered: Covered | None = None
    joins: Mapping[tuple[int, str], WindowJoin] = field(default_factory=dict)

    def holds(self, branch: PassBranch, events: EventColumns) -> Bools:
        """Return which events lie in covered time; one without a time is in no window, and stays."""
        times, missing = events.times(branch.time)
        if self.covered is None:
            return np.ones(len(times), np.bool_)
        inside = self.covered.holds(times, events.partition(branch.partition))
        return inside if missing is None else inside | missing

    def join(self, branch: PassBranch, name: str, events: EventColumns) -> Bools:
        """Return which events, as events of a variable, find all keys of the edges that judge it."""
        times, missing = events.times(branch.time)
        found = np.ones(len(times), np.bool_)
        for number, edge in enumerate(branch.edges):
            if (number, name) in self.joins:
                keys, valid = keys_of(edge, name, events.read, len(events))
                join = self.joins[number, name]
                found &= valid & join.holds(keys.view(np.int64), times, NEAR[edge.order_of(name)])
        return found if missing is None else found | missing


@dataclass(frozen=True)
class PassFilter:
    """The filter of all branches.

    Attributes:
        branches: the branches.
        known: the knowledge of each.
        wanted: the tests of events that any variable needs; None: all events are needed.
    """

    branches: tuple[PassBranch, ...]
    known: tuple[BranchFilter, ...]
    wanted: Needed | None
    counts: dict[str, int] = field(default_factory=lambda: {"wanted": 0, "kept": 0})

    @classmethod
    def of(cls, branches: tuple[PassBranch, ...], wanted: Needed | None, message: bytes | None) -> PassFilter:
        """Return the filter of a message; without a message, one that keeps all needed events.

        Raises:
            DataError: the message is damaged, or of another version.
        """
        known = [BranchFilter() for _ in branches]
        for branch, edge, name, part in read_messages(message):
            joins = dict(known[branch].joins)
            if edge >= 0:
                joins[edge, name] = WindowJoin.from_bytes(part)
                known[branch] = replace(known[branch], joins=joins)
            else:
                known[branch] = replace(known[branch], covered=read_cover(part))
        return cls(branches, tuple(known), wanted)

    def to_bytes(self) -> bytes:
        rows = []
        for number, each in enumerate(self.known):
            if each.covered is not None:
                rows.append((number, -1, "", each.covered.to_bytes()))
            rows += [(number, edge, name, join.to_bytes()) for (edge, name), join in each.joins.items()]
        return write_messages(rows)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that it reads."""
        found: dict[str, None] = {}
        for branch, known in zip(self.branches, self.known, strict=True):
            found |= dict.fromkeys([branch.time, *(path[0] for path in branch.partition)])
            for edge, name in known.joins:
                found |= dict.fromkeys(sorted(path[0] for path in branch.edges[edge].paths(name)))
        tests = [test for each in self.wanted or () for test in each]
        tests += [test for branch in self.branches for _, several in branch.fits for test in several]
        return tuple(found | dict.fromkeys(test.path[0] for test in tests))

    @property
    def word_column(self) -> str | None:
        """No column of strings decides by itself."""
        return None

    @property
    def is_sure(self) -> bool:
        """No: time is asked, too."""
        return False

    def judge_words(self, words: pa.Array) -> npt.NDArray[np.uint8]:
        """Return that rows with any of the strings may stay."""
        return np.ones(len(words), np.uint8)

    def mask(self, table: pa.Table) -> Bools:
        """Return which events of a table may be part of a match, or may prevent one."""
        kept = np.ones(len(table), np.bool_) if self.wanted is None else router_of(self.wanted).mask(table)
        rows = np.flatnonzero(kept)
        self.counts["wanted"] += len(rows)
        some = table if len(rows) == len(table) else table.select(list(self.names)).take(pa.array(rows))
        events, inside = EventColumns(some), np.zeros(len(rows), np.bool_)
        for branch, known in zip(self.branches, self.known, strict=True):
            inside |= self._keep(branch, known, events)
        self.counts["kept"] += int(np.count_nonzero(inside))
        kept[rows] = inside
        return kept

    def _keep(self, branch: PassBranch, known: BranchFilter, events: EventColumns) -> Bools:
        inside = known.holds(branch, events)
        joined = {name for _, name in known.joins} if branch.drops else set[str]()
        if branch.why_all is not None or (len(self.branches) == 1 and not joined):
            return inside
        rows = np.flatnonzero(inside)
        some = EventColumns(events.table.take(pa.array(rows)))
        fits = np.zeros(len(rows), np.bool_)
        routed = Router([tests for _, tests in branch.fits]).route(some.table)
        for leaf, (name, _) in enumerate(branch.fits):
            mine = np.zeros(len(rows), np.bool_)
            mine[routed.of(leaf)] = True
            fits |= mine & known.join(branch, name, some) if name in joined else mine
        inside[rows] = fits
        return inside


def read_messages(message: bytes | None) -> Iterator[tuple[int, int, str, bytes]]:
    """Yield the parts of a message: branch, edge or -1, the variable that asks, the part's own message."""
    if message is not None:
        table = pa.ipc.open_stream(message).read_all()
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)


def write_messages(rows: Sequence[tuple[int, int, str, bytes | None]]) -> bytes:
    """Return parts as one message."""
    columns = list(zip(*rows, strict=True)) or [()] * len(MESSAGES)
    table = pa.table(
        [pa.array(each, kind) for each, kind in zip(columns, MESSAGES.types, strict=True)], schema=MESSAGES
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
