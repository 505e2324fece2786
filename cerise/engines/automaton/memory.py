"""The state of an automaton between batches: its tables in raw memory, and the events that its runs bind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.automaton.layout import COUNTING
from cerise.engines.automaton.program import Program
from cerise.engines.automaton.records import (
    BranchRecord,
    Candidate,
    EdgeRecord,
    Machine,
    Match,
    Negated,
    Run,
    RunList,
    StateRecord,
)
from cerise.engines.base import Matches, Options
from cerise.engines.match_ids import Ties
from cerise.events import EventBatch, concat_events
from cerise.kernels import jit
from cerise.kernels.records import number
from cerise.kinds import Kind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output

Ints = npt.NDArray[np.int64]
JOINED_EVENTS = 1 << 16  # that pieces of kept events are joined to, at most


class Memory:
    """All tables of one matcher. A table that grows moves; the machine then gets its new address."""

    def __init__(self, program: Program, options: Options) -> None:
        rows = options.limits.first_rows
        widths, tables = program.widths, program.tables
        self.words = np.zeros(Machine.WORDS, np.int64)
        self.m = Machine(self.address)
        self.runs = np.zeros((rows, widths.run), np.int64)
        self.nodes = np.zeros((rows, widths.node), np.int64)
        self.cands = np.zeros((max(rows // 4, 1), widths.candidate), np.int64)
        self.matches = np.zeros((16 * rows, Match.WORDS), np.int64)
        self.heads = np.zeros((0, RunList.WORDS), np.int64)
        self.cand_heads = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)
        self.table = np.full(1 << 12 if program.merging else 1, -1, np.int64)
        self.stack = np.zeros(2 * len(self.nodes) + 2, np.int64)
        self._tables, self._layout = tables, program.layout
        self.m.free = self.m.postponed = self.m.cursor = self.m.best = -1
        self.m.run_count = self.m.cand_count = 1  # run 0 has bound nothing; candidate 0 is scratch
        self.runs[0, Run.node] = self.runs[0, Run.key] = -1
        self.runs[0, Run.nulls] = (1 << len(program.layout.slots)) - 1
        self._settle(program, options)
        self.spread(1)

    @property
    def address(self) -> int:
        """The address of the machine."""
        return int(self.words.ctypes.data)

    @property
    def lists(self) -> int:
        return len(self.heads)

    def position(self) -> tuple[bytes, tuple[int, ...]]:
        """Return the state from which a kernel goes on: the registers, and the room of each table."""
        return self.words[: Machine.mode].tobytes(), tuple(
            map(len, (self.runs, self.nodes, self.cands, self.matches))
        )

    def spread(self, partitions: int) -> None:
        """Make room for new partitions."""
        if len(self.counts) < partitions:
            size = max(partitions, 2 * len(self.counts))
            self.counts = _longer(self.counts, size, 0)
            self.heads = _longer(self.heads, size * self.m.state_count, -1)
            self.heads[self.heads[:, RunList.head] < 0, RunList.length] = 0
            self.cand_heads = _longer(self.cand_heads, size * self.m.kinds, -1)
            self._tell()

    def busy(self) -> npt.NDArray[np.bool_]:
        """Return which partitions hold a run or a candidate."""
        size, kinds = len(self.counts), self.m.kinds
        lists = self.heads[:, RunList.head].reshape(size, -1)
        cands = self.cand_heads.reshape(size, kinds)
        return np.asarray((lists >= 0).any(axis=1) | (cands >= 0).any(axis=1))

    def keep_partitions(self, which: npt.NDArray[np.bool_]) -> None:
        """Drop all partitions except the marked ones, which get new numbers in the same order."""
        states, kinds = self.m.state_count, self.m.kinds
        moved = np.cumsum(which) - 1
        keys = self.runs[1 : self.m.run_count, Run.key]
        keys[keys >= 0] = moved[keys[keys >= 0] // states] * states + keys[keys >= 0] % states
        self.heads = np.ascontiguousarray(
            self.heads.reshape(len(which), -1)[which].reshape(-1, RunList.WORDS)
        )
        self.cand_heads = np.ascontiguousarray(self.cand_heads.reshape(len(which), kinds)[which].reshape(-1))
        self.counts = self.counts[which].copy()
        self._tell()

    def make_room(self, *, matches: int = 0) -> None:
        """Make room for the event before which a kernel stopped, and for a number of matches."""
        m, need = self.m, self.m.need
        self.runs = _with_room(self.runs, m.run_count, 2 * need)
        self.nodes = _with_room(self.nodes, m.node_count, 2 * need)
        self.cands = _with_room(self.cands, m.cand_count, m.kinds)
        self.matches = _with_room(self.matches, m.match_count, need + matches)
        if m.merges:
            if len(self.table) < len(self.runs):
                self.table = np.full(2 * len(self.table), -1, np.int64)
            if m.counts and len(self.stack) < 2 * len(self.nodes) + 2:
                self.stack = np.zeros(2 * len(self.nodes) + 2, np.int64)
        self._tell()

    def make_room_for_candidates(self, events: int) -> None:
        self.cands = _with_room(self.cands, self.m.cand_count, events * self.m.kinds)
        self._tell()

    def keep_candidates(self, kept: Ints) -> None:
        self.cands = kept
        self._tell()

    def save(self) -> dict[str, Ints]:
        """Return everything that the query alone does not determine."""
        m = self.m
        return {
            "registers": self.words[: Machine.mode], "runs": self.runs[: m.run_count],
            "nodes": self.nodes[: m.node_count], "cands": self.cands[: m.cand_count], "heads": self.heads,
            "cand_heads": self.cand_heads, "counts": self.counts,
        }  # fmt: skip

    def restore(self, saved: dict[str, Ints]) -> None:
        """Take over saved tables."""
        self.words[: Machine.mode] = saved["registers"]
        self.runs, self.nodes, self.cands = (saved[name].copy() for name in ("runs", "nodes", "cands"))
        self.heads, self.cand_heads, self.counts = (
            saved[n].copy() for n in ("heads", "cand_heads", "counts")
        )
        self.stack = np.zeros(2 * len(self.nodes) + 2, np.int64)
        self._tell()

    def strings(self) -> list[Ints]:
        """Return views of all words that hold the code of a string."""
        m, layout = self.m, self._layout
        found = [
            self.runs[: m.run_count, slot.word] for slot in layout.slots.values() if slot.kind is Kind.STRING
        ]
        nodes, cands = self.nodes[: m.node_count], self.cands[: m.cand_count]
        first = layout.node_words + 1
        for fields in layout.payload.values():
            found += [nodes[:, first + f.number] for f in fields.values() if f.kind is Kind.STRING]
        for kept in layout.candidates.values():
            found += [cands[:, Candidate.WORDS + f.number] for f in kept.values() if f.kind is Kind.STRING]
        return found

    def _tell(self) -> None:
        """Write the addresses of the tables and their room into the machine."""
        m, tables = self.m, self._tables
        for table, array in ((m.runs, self.runs), (m.nodes, self.nodes), (m.cands, self.cands)):
            table.start, table.width, table.room = array.ctypes.data, 8 * array.shape[1], len(array)
        m.match_room, m.table_mask = len(self.matches), len(self.table) - 1
        for word, array in (
            (Machine.matches, self.matches), (Machine.lists, self.heads), (Machine.table, self.table),
            (Machine.cand_heads, self.cand_heads), (Machine.stack, self.stack), (Machine.edges, tables.edges),
            (Machine.states, tables.states), (Machine.slots, tables.slots), (Machine.negated, tables.negated),
            (Machine.branches, tables.branches), (Machine.negations, tables.negations),
        ):  # fmt: skip
            self.words[number(word)] = array.ctypes.data

    def _settle(self, program: Program, options: Options) -> None:
        """Write the settings of the query into the machine."""
        m, tables, bound = self.m, program.tables, program.bound
        m.mode = program.mode
        m.within = -1 if bound.within is None else int(str(bound.within.size))
        m.slide = 0 if bound.slide is None else int(str(bound.slide.size))
        m.by_position = program.by_position
        m.alone = bound.query.output is Output.NON_OVERLAPPING
        m.counts = program.counts_only and bound.query.limit is None
        m.merges = 0 if not program.merging else COUNTING if program.counts_only else 1
        m.max_runs = options.max_runs
        needed = not m.counts or program.history or len(tables.negated) > 0
        m.keeps_nodes = 1 if needed else 2 if program.merging else 0
        m.state_count, m.kinds = len(tables.states), len(tables.negated)
        m.starts, m.starts_end = tables.starts
        m.start_mask = np.bitwise_or.reduce(tables.edges[slice(*tables.starts), EdgeRecord.bit], initial=0)
        m.negated_mask = np.bitwise_or.reduce(tables.negated[:, Negated.bit], initial=0)
        widths = tables.states[:, StateRecord.last] - tables.states[:, StateRecord.first]
        m.fan = 1 + max(tables.starts[1] - tables.starts[0], int(widths.max(initial=0)))
        m.full = options.limits.matches
        m.waits = len(tables.states) - int((tables.branches[:, BranchRecord.wait] >= 0).sum())


def _with_room(rows: Ints, used: int, more: int) -> Ints:
    if used + more <= len(rows):
        return rows
    larger = np.zeros((max(2 * len(rows), used + more), rows.shape[1]), np.int64)
    larger[:used] = rows[:used]
    return larger


def _longer(words: Ints, size: int, fill: int) -> Ints:
    longer = np.full((size, *words.shape[1:]), fill, np.int64)
    longer[: len(words)] = words
    return longer


@dataclass(frozen=True, slots=True)
class Piece:
    """Some kept events, and their numbers in the stream, ascending."""

    numbers: Ints
    events: EventBatch

    def __len__(self) -> int:
        return len(self.numbers)

    def keep(self, used: Ints) -> Piece:
        rows = np.flatnonzero(mark_members(self.numbers, used))
        return self if len(rows) == len(self) else Piece(self.numbers[rows], self.events.take(rows))


class Retained:
    """Events by number: the events kept of earlier batches, in pieces, and all events of the current batch.

    Attributes:
        nothing: no events.
        batch: the current batch.
        start: the number of its first event.
        ties: counts how often equal events have occurred before.
    """

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.nothing = EventBatch.in_order(bound.schema.columns.empty_table(), bound.schema)
        self.batch: EventBatch | None = None
        self.start = 0
        self.ties = Ties(bound)
        self._pieces: list[Piece] = []

    @property
    def kept(self) -> EventBatch:
        """The events kept of earlier batches."""
        return concat_events([each.events for each in self._pieces]) if self._pieces else self.nothing

    @property
    def numbers(self) -> Ints:
        """The numbers of the kept events in the stream, ascending."""
        return np.concatenate([np.zeros(0, np.int64), *(each.numbers for each in self._pieces)])

    @property
    def nbytes(self) -> int:
        return sum(each.events.table.nbytes for each in self._pieces)

    def restore(self, kept: EventBatch, numbers: Ints) -> None:
        self._pieces = [Piece(numbers, kept)] if len(kept) else []

    def begin(self, batch: EventBatch) -> None:
        self.batch = batch

    def end(self, held: Ints) -> None:
        """End the current batch: keep its events with the given numbers, which ascend, drop the others."""
        assert self.batch is not None
        fresh = held[np.searchsorted(held, self.start) :] - self.start
        if len(fresh):
            self._pieces = _join([*self._pieces, Piece(fresh + self.start, self._take_batch(fresh))])
        self.ties.follow(self.batch)
        self.start += len(self.batch)
        self.batch = None

    def prune(self, used: Ints) -> None:
        """Drop the events of earlier batches, except those whose numbers are given, in any order."""
        self._pieces = _join([left for each in self._pieces if len(left := each.keep(used))])

    def matches(self, lengths: Ints, events: Ints, fill: Ints) -> Matches:
        """Return matches with their events.

        Args:
            lengths: how many events each match binds to each variable.
            events: for each variable the numbers of its events, over all matches; overwritten.
            fill: how many numbers each variable has.
        """
        table = self.take(number_events(events, fill))
        return Matches(table, list_events(self.bound, lengths, events, fill))

    def take(self, used: Ints) -> EventBatch:
        """Return the events with the given numbers, which ascend."""
        parts, low = [], 0
        for piece in self._pieces:
            high = int(np.searchsorted(used, piece.numbers[-1], "right"))
            if high > low:
                parts.append(piece.events.take(np.searchsorted(piece.numbers, used[low:high])))
            low = high
        if low < len(used):
            parts.append(self._take_batch(used[low:] - self.start))
        return concat_events(parts) if parts else self.nothing

    def _take_batch(self, rows: Ints) -> EventBatch:
        assert self.batch is not None
        return self.batch.take(rows, self.ties.numbers(self.batch, rows))


def _join(pieces: list[Piece]) -> list[Piece]:
    """Join a piece with the piece before it, if that has at most twice as many events: few pieces stay."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        group = [piece]
        while groups and (before := sum(map(len, groups[-1]))) <= 2 * (size := sum(map(len, group))):
            if before + size > JOINED_EVENTS:
                break
            group = groups.pop() + group
        groups.append(group)
    return [group[0] if len(group) == 1 else _concat(group) for group in groups]


def _concat(pieces: list[Piece]) -> Piece:
    events = concat_events([each.events for each in pieces])
    numbers = np.concatenate([each.numbers for each in pieces])
    return Piece(numbers, replace(events, table=events.table.combine_chunks()))


def mark_members(numbers: Ints, used: Ints) -> npt.NDArray[np.bool_]:
    """Return which of some ascending numbers are used; no other number between them is."""
    low, span = int(numbers[0]), int(numbers[-1] - numbers[0]) + 1
    inside = used[(used >= low) & (used < low + span)]
    dense = span <= 64 * len(inside) + 1024
    marks = np.zeros(span if dense else len(numbers), np.bool_)
    marks[inside - low if dense else np.searchsorted(numbers, inside)] = True
    return marks[numbers - low] if dense else marks


def list_events(bound: Bound, lengths: Ints, events: Ints, fill: Ints) -> dict[str, pa.ListArray]:
    """Return the events of matches as a list column for each variable; see `Retained.matches`."""
    return {var.name: _lists(lengths[:, i], events[i, : fill[i]]) for i, var in enumerate(bound.variables)}


def number_events(events: Ints, fill: Ints) -> Ints:
    """Return the distinct numbers of a table; each number in it is replaced by its position among them."""
    rows = [row[:count] for row, count in zip(events, fill, strict=True) if count]
    if not rows:
        return np.zeros(0, np.int64)
    low = min(int(row.min()) for row in rows)
    span = max(int(row.max()) for row in rows) - low + 1
    if span > 64 * int(fill.sum()) + 1024:
        used = np.unique(np.concatenate(rows))
        for row in rows:
            row[:] = np.searchsorted(used, row)
        return used
    places, used = np.empty(span, np.int64), np.empty(min(span, int(fill.sum())) + 1, np.int64)
    count = number_distinct(events, fill, low, np.zeros(span, np.uint8), places, used)
    return used[:count]


def _lists(lengths: Ints, values: Ints) -> pa.ListArray:
    """Return lists of the given lengths, one after another; lists of length 0 are null.

    The values are copied, because matches outlive the memory that kernels wrote them to.
    """
    values = values.copy()
    if len(values) == len(lengths) and bool((lengths == 1).all()):
        offsets = np.arange(len(lengths) + 1, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, pa.int64()))
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = pa.array(lengths == 0) if (lengths == 0).any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, pa.int64()), mask=mask)


@jit.kernel(jit.int64(jit.Table, jit.Ints, jit.int64, jit.Marks, jit.Ints, jit.Ints))
def number_distinct(events: Any, fill: Any, low: int, marks: Any, places: Any, used: Any) -> int:
    """Replace each number by its position among the distinct numbers; return how many are distinct.

    Args:
        events: rows of numbers.
        fill: how many numbers each row has.
        low: the lowest number.
        marks: a zero byte for every number from the lowest to the highest.
        places: room for a word for every number from the lowest to the highest.
        used: room for the distinct numbers, and for one more.
    """
    for row in range(len(fill)):
        for i in range(fill[row]):
            marks[events[row, i] - low] = 1
    count = 0
    for n in range(len(marks)):  # without branches, which the processor would mispredict
        places[n] = count
        used[count] = n + low
        count += int(marks[n])
    for row in range(len(fill)):
        for i in range(fill[row]):
            events[row, i] = places[events[row, i] - low]
    return count
