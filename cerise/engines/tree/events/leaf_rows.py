"""Takes the events of a piece to the leaves of a team, with the columns that its tests read.

Types and predicates on one event are judged once for all queries, by the router; tests that it cannot
decide exactly, and the sides of comparisons, are computed for the events of a leaf alone, by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.tree.branches.join_branch import Catalog, Form, SideColumn
from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import JoinMachine, LeafRow
from cerise.events import EventBatch, Path
from cerise.kernels import jit
from cerise.kernels.jit import int64, kernel, void
from cerise.kernels.records import Words
from cerise.kinds import Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import Attr
from cerise.pattern.vectors import evaluate_rows, holds, order_keys
from cerise.plan.leaves import Leaf
from cerise.plan.router import Router

Ints = npt.NDArray[np.int64]
Read = Callable[[Path], pa.Array]
Side = tuple[bool, Ints, "Ints | None"]
Number = Callable[[int, Ints], "Ints | None"]
DENSE = 4  # a side that a quarter of the events need is computed for all


@dataclass(frozen=True, slots=True)
class LeafRows:
    """The events of a piece by leaf: those of leaf i are `rows[starts[i] : starts[i + 1]]`.

    Attributes:
        starts: where the rows of each leaf begin.
        rows: the events, as rows of the piece.
        sources: for each side of each leaf, a row: leaf, place, whether it has all events of the piece, the
            address of its values, and of its nulls (0: none).
        parts: for each scope the partition of each event; of events that fit no leaf, arbitrary.
        sides: for each leaf and place whether the arrays have all events of the piece; values; nulls.
        faults: how many values could not be computed.
    """

    starts: Ints
    rows: Ints
    sources: Ints
    parts: Ints
    sides: dict[tuple[int, int], Side]
    faults: int

    def of(self, leaf: int) -> Ints:
        """Return the events of a leaf."""
        return self.rows[self.starts[leaf] : self.starts[leaf + 1]]

    def values(self, leaf: int, place: int, some: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return a side of some events of a leaf, and where it is null."""
        dense, values, nulls = self.sides[leaf, place]
        rows = self.of(leaf)[some] if dense else some
        return values[rows], np.zeros(len(rows), np.bool_) if nulls is None else nulls[rows] != 0


class TextNumbers:
    """A number for each string: equal strings have equal numbers, for as long as the team runs."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, texts: pa.Array) -> Ints:
        """Return the number of each string; of a null, any."""
        coded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        known = self.known
        words = coded.dictionary.cast(pa.string()).to_pylist()
        codes = np.array([known.setdefault(word, len(known)) for word in words] or [0], np.int64)
        return codes[np.asarray(coded.indices.fill_null(0), np.int64)]


class LeafReader:
    """Finds the leaves of events, and computes their columns."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.texts = TextNumbers()
        leaves = list(catalog.leaves)
        tests: dict[Leaf, int] = {}
        self._of = [tests.setdefault(leaf, len(tests)) for leaf, _ in leaves]
        self._once = self._of == list(range(len(leaves)))
        self.scopes = list(dict.fromkeys(scope for _, scope in leaves))
        self.scope_of = np.array([self.scopes.index(scope) for _, scope in leaves], np.int64)
        self._router = Router([leaf.routed for leaf in tests])
        self._verified = {number: leaf.verified for leaf, number in tests.items() if leaf.verified}
        self._users: dict[int, list[tuple[int, int]]] = {}
        for leaf, used in enumerate(catalog.used):
            for side, place in used.items():
                self._users.setdefault(side, []).append((leaf, place))
        self._sides = list(catalog.sides)

    def fresh(self) -> LeafReader:
        """Return a reader of the same leaves, with numbers of strings of its own."""
        found = copy(self)
        found.texts = TextNumbers()
        return found

    def forget_texts(self) -> None:
        """Number strings anew: the leaves are empty, too."""
        self.texts = TextNumbers()

    def read(self, events: EventBatch, number: Number) -> LeafRows:
        """Return the events of a piece by leaf.

        Args:
            events: the piece.
            number: returns the partition of each event in a scope, given the events that are asked for; an
                event of partition -1 fits no leaf of the scope; None: all events share one.
        """
        columns: dict[Path, pa.Array] = {}

        def read(path: Path) -> pa.Array:
            if path not in columns:
                columns[path] = _column(events, path)
            return columns[path]

        starts, rows, faults = self._route(events, read)
        parts = self._partition(starts, rows, len(events), number)
        starts, rows = self._by_scope(starts, rows, parts)
        found = LeafRows(starts, rows, np.zeros((0, 5), np.int64), parts, {}, faults)
        return self._add_sides(found, read, len(events))

    def _partition(self, starts: Ints, rows: Ints, total: int, number: Number) -> Ints:
        """Return the partitions of events, scope by scope."""
        parts = np.zeros((len(self.scopes), total), np.int64)
        for scope in range(len(self.scopes)):
            if not self.scopes[scope].partition:
                continue
            fits = np.zeros(total, np.bool_)
            for leaf in np.flatnonzero(self.scope_of == scope).tolist():
                fits[rows[starts[self._of[leaf]] : starts[self._of[leaf] + 1]]] = True
            found = number(scope, np.flatnonzero(fits))
            if found is not None:
                parts[scope] = np.where(fits, found, 0)
        return parts

    def _route(self, events: EventBatch, read: Read) -> tuple[Ints, Ints, int]:
        """Return the events that fit the tests of each leaf, and how many tests could not be computed."""
        routed = self._router.route(events.table)
        if not self._verified:
            return routed.starts, routed.rows, 0
        faults, parts = 0, []
        for number in range(len(routed.starts) - 1):
            rows = routed.of(number)
            for expr in self._verified.get(number, ()) if len(rows) else ():
                whole = len(rows) == len(events)
                kept, failed = holds(expr, read if whole else _at(read, rows), len(rows))
                rows, faults = rows[kept], faults + failed
            parts.append(rows)
        return _offsets(parts), np.concatenate([np.zeros(0, np.int64), *parts]), faults

    def _by_scope(self, starts: Ints, rows: Ints, parts: Ints) -> tuple[Ints, Ints]:
        """Return the events of each leaf of each scope, without those that have no partition there."""
        lost = [bool(len(part)) and int(part.min()) < 0 for part in parts]
        if self._once and not any(lost):
            return starts, rows
        found = []
        for leaf, number in enumerate(self._of):
            own = rows[starts[number] : starts[number + 1]]
            scope = self.scope_of[leaf]
            found.append(own[parts[scope][own] >= 0] if lost[scope] else own)
        return _offsets(found), np.concatenate([np.zeros(0, np.int64), *found])

    def _add_sides(self, found: LeafRows, read: Read, total: int) -> LeafRows:
        """Compute the sides of comparisons."""
        counts, sources, faults = np.diff(found.starts), [], found.faults
        for side, users in self._users.items():
            busy = [(leaf, place) for leaf, place in users if counts[leaf]]
            if not busy:
                continue
            column = self._sides[side]
            needed = sum(int(counts[leaf]) for leaf, _ in busy)
            dense = isinstance(column.expr, Attr) or DENSE * needed >= total
            values, nulls, failed = self._compute(column, read, total) if dense else (None, None, 0)
            for leaf, place in busy:
                own, empty = values, nulls
                if values is None or failed:
                    rows = found.rows[found.starts[leaf] : found.starts[leaf + 1]]
                    own, empty, missing = self._compute(column, _at(read, rows), len(rows))
                    faults += missing
                assert own is not None
                is_dense = values is not None and not failed
                address = 0 if empty is None else empty.ctypes.data
                sources.append((leaf, place, is_dense, own.ctypes.data, address))
                found.sides[leaf, place] = is_dense, own, empty
        table = np.array(sources, np.int64).reshape(-1, 5)
        return replace(found, sources=table, faults=faults)

    def _compute(self, column: SideColumn, read: Read, rows: int) -> tuple[Ints, Ints | None, int]:
        """Return the words of a column, its nulls, and how many values could not be computed."""
        if column.form is Form.TRUTH:
            held, faults = holds(column.expr, read, rows)
            return held.astype(np.int64), None, faults
        vector, faults = evaluate_rows(column.expr, read, rows)
        nulls = None if vector.nulls is None else vector.nulls.astype(np.int64)
        if column.form is Form.TEXT:
            values: Any = vector.values
            return self.texts.of(values), nulls, faults
        keys, _ = order_keys(vector, kind_of(column.expr), as_double=column.form is Form.DOUBLE)
        return np.ascontiguousarray(keys), nulls, faults


def _column(events: EventBatch, path: Path) -> pa.Array:
    """Return an attribute in canonical form; a dictionary of strings stays one."""
    if events.schema.kind(path) is Kind.STRING:
        column = events.table.column(path[0])
        if len(path) == 1 and pa.types.is_dictionary(column.type):
            return column.unify_dictionaries().combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return events.column(path)


def _at(read: Read, rows: Ints) -> Read:
    """Return a reader of some rows."""
    return lambda path: read(path).take(pa.array(rows))


def _offsets(parts: Sequence[Ints]) -> Ints:
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return offsets


@kernel(void(int64, jit.Ints, jit.Ints, jit.Ints, jit.Ints, jit.Table, jit.Table, jit.Ints, jit.Table, int64))
def append_rows(
    machine: int, starts: Any, rows: Any, seqs: Any, opens: Any, points: Any, parts: Any, scopes: Any,
    sources: Any, flags: int,
) -> None:  # fmt: skip
    """Append events to the leaves; there is room.

    Args:
        machine: the address of the machine.
        starts: where the rows of each leaf begin.
        rows: the events of the leaves, as rows of the piece.
        seqs: the number of each event in the stream.
        opens: whether a match may start with each event.
        points: for each scope, the point of each event.
        parts: for each scope, the partition of each event.
        scopes: the scope of each leaf.
        sources: see `LeafRows`.
        flags: how many flags of nulls a word holds.
    """
    m = JoinMachine(machine)
    for leaf in range(len(starts) - 1):
        pool, scope = m.pools[leaf], scopes[leaf]
        columns, room = m.leaves[leaf].columns, m.leaves[leaf].room
        for k in range(starts[leaf], starts[leaf + 1]):
            event, place = rows[k], pool.count - pool.start
            columns[at.SEQ * room + place] = seqs[event]
            columns[at.POINT * room + place] = points[scope, event]
            columns[at.PART * room + place] = parts[scope, event]
            columns[at.OPENS * room + place] = opens[event]
            for column in range(m.leaves[leaf].first_flags, m.leaves[leaf].width):
                columns[column * room + place] = 0
            row = LeafRow(int(pool.rows) + 8 * pool.width * place)
            row.first, row.last = seqs[event], seqs[event]
            row.since, row.until = points[scope, event], points[scope, event]
            row.row = pool.count
            pool.count += 1
    for s in range(len(sources)):
        leaf, number = sources[s, 0], sources[s, 1]
        pool, record = m.pools[leaf], m.leaves[leaf]
        columns, room = record.columns, record.room
        values, nulls = Words(sources[s, 3]), Words(sources[s, 4])
        first = pool.old - pool.start
        bit = 1 << (number % flags)
        flag = (record.first_flags + number // flags) * room
        for k in range(starts[leaf], starts[leaf + 1]):
            place = first + k - starts[leaf]
            event = rows[k] if sources[s, 2] != 0 else k - starts[leaf]
            columns[(at.SIDES + number) * room + place] = values[event]
            if sources[s, 4] != 0 and nulls[event] != 0:
                columns[flag + place] |= bit
                record.nulls = 1
