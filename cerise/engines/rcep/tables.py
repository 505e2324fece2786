"""The desk of the kernels: a plan, a piece and its comparisons as rows of numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.engines.limits import Limits
from cerise.engines.nfa.numbered import (
    B_NEGATES,
    E_ACCEPT_TEST,
    E_ACCEPTS,
    E_BIT,
    E_BRANCH,
    E_TARGET,
    E_TERMINAL,
    E_TEST,
    E_VAR,
    S_FIRST,
    S_LAST,
)
from cerise.engines.nfa.rows import Tables
from cerise.engines.rcep import desk as at
from cerise.engines.rcep.leaps import extremes
from cerise.engines.rcep.plan import Plan
from cerise.engines.rcep.prune import fill_lists
from cerise.engines.rcep.sides import Keys
from cerise.engines.rcep.window import Piece

Ints = npt.NDArray[np.int64]
TAKE_AND_END = 2  # edges


class Desk:
    """All that kernels read and write, but for the runs and nodes of the walk."""

    def __init__(self, plan: Plan, limits: Limits, *, counts: bool, limit: int, alone: bool) -> None:
        self.plan, self._limits = plan, limits
        self.w = np.zeros(at.DESK_WORDS, np.int64)
        self.variables = len(plan.program.bound.variables)
        edges = plan.program.tables.edges
        w = self.w
        w[at.D_EDGES], w[at.D_VARS], w[at.D_DEPTH] = len(edges), self.variables, -1
        w[at.D_COUNTS], w[at.D_LIMIT], w[at.D_ALONE] = counts, limit, alone
        w[at.D_PATIENCE] = limits.tested_events
        ends = edges[edges[:, E_ACCEPTS] != 0] if len(edges) else edges
        w[at.D_TRIGGERS] = np.bitwise_or.reduce(ends[:, E_BIT], initial=0)
        self._ways = np.zeros((len(edges), at.P_WORDS), np.int64)
        states = plan.program.tables.states[edges[:, E_TARGET]]
        for word, column in (
            (at.P_VAR, edges[:, E_VAR]), (at.P_BIT, edges[:, E_BIT]), (at.P_ACCEPTS, edges[:, E_ACCEPTS]),
            (at.P_TERMINAL, edges[:, E_TERMINAL]), (at.P_FIRST, states[:, S_FIRST]),
            (at.P_LAST, states[:, S_LAST]),
        ):  # fmt: skip
            self._ways[:, word] = column
        self.lengths = np.zeros((0 if counts else limits.matches, self.variables), np.int64)
        self.found = np.zeros((self.variables, 0), np.int64)
        self.fill = np.zeros(self.variables, np.int64)
        self.frames = np.zeros((max(limits.first_rows // 4, 1), at.F_WORDS), np.int64)
        self._arrays: dict[int, Ints] = {}
        self._keys: list[Keys | None] = []
        self._put(at.D_WAYS, self._ways)
        every = counts or limit or alone
        self._put(at.D_FREE, np.full(len(edges) + 1, -1, np.int64) if every else _free(plan.program.tables))
        self._put(at.D_HAS, np.zeros(max(len(edges), 1), np.int64))
        self._put(at.D_LENGTHS, self.lengths)
        self._put(at.D_FILL, self.fill)
        w[at.D_ROWS] = len(self.lengths)
        self.deepen(len(self.frames))

    @property
    def address(self) -> int:
        """Where kernels find it."""
        return int(self.w.ctypes.data)

    @property
    def floors(self) -> Ints:
        """For each partition the last event of its last match, where matches may not overlap; -1: none."""
        return self._arrays[at.D_FLOORS]

    def _put(self, word: int, array: Ints) -> None:
        self._arrays[word] = array
        self.w[word] = array.ctypes.data

    def _room(self, word: int, size: int) -> Ints:
        """Return an array of a size, in memory that is used again; what it holds is left as it was."""
        array = self._arrays.get(word)
        if array is None or len(array) < size:
            self._put(word, np.zeros(max(size, 1), np.int64))
        return self._arrays[word][:size]

    def deepen(self, depth: int) -> None:
        """Make room for a walk of so many events."""
        frames = np.zeros((depth, at.F_WORDS), np.int64)
        frames[: len(self.frames)] = self.frames[:depth]
        self.frames = frames
        self._put(at.D_FRAMES, frames)
        for word in (at.D_PICKS, at.D_TAKEN):
            longer = np.zeros(depth, np.int64)
            longer[: len(self._arrays.get(word, ()))] = self._arrays.get(word, ())
            self._put(word, longer)
        self.w[at.D_ROOM] = depth

    def lay(self, piece: Piece, masks: Ints, keys: list[Keys | None]) -> None:
        """Lay a piece on the desk: its events, lists of them, and what compares them."""
        w, events = self.w, len(piece)
        w[at.D_EVENTS], w[at.D_COUNT_PARTS] = events, piece.partitions
        for word, array in (
            (at.D_MASKS, masks), (at.D_PARTS, piece.parts), (at.D_POINTS, np.ascontiguousarray(piece.points)),
            (at.D_NUMBERS, piece.numbers), (at.D_OPENS, piece.opens),
        ):  # fmt: skip
            self._put(word, array)
        parts, states = max(piece.partitions, 1), max(len(self.plan.program.tables.states), 1)
        self._room(at.D_FLOORS, parts)[:] = -1
        self._room(at.D_LATEST, parts * states)[:] = -1
        self._room(at.D_STAMPS, int(w[at.D_EDGES]) * events)  # stamps of former pieces are older than any
        if self.plan.mirror is not None:
            self._room(at.D_ALIVE, self.variables * events)
        self._list_events(masks, piece)
        self._keys = keys
        self._lay_links()
        self._lay_judged()
        self._lay_equals(piece)
        self._lay_leaps(piece)
        room = max(self._limits.matches, events + 2)
        if not w[at.D_COUNTS] and self.found.shape[1] < room:
            self.found = np.zeros((self.variables, room), np.int64)
            self._put(at.D_FOUND, self.found)
        w[at.D_FOUND_ROOM] = self.found.shape[1]

    def _list_events(self, masks: Ints, piece: Piece) -> None:
        starts = self._room(at.D_STARTS, (self.variables + 1) * (piece.partitions + 1))
        starts[:2] = piece.partitions, self.variables
        lists = self._room(at.D_LISTS, (self.variables + 1) * len(piece))
        places = self._room(at.D_PLACES, len(piece))
        fill_lists(masks, piece.parts, starts, lists, places)

    # ---- comparisons

    def _lay_links(self) -> None:
        edges, plan = int(self.w[at.D_EDGES]), self.plan
        used = [(pair, number) for pair, number in plan.links.items() if self._keys[number] is not None]
        link_of = np.full((max(edges, 1), max(edges, 1)), -1, np.int64)
        slots = np.zeros((len(used), at.L_WORDS), np.int64)
        by_right: list[list[int]] = [[] for _ in range(edges)]
        for slot, ((j, then), number) in enumerate(used):
            keys = self._keys[number]
            assert keys is not None
            link_of[j, then] = slot
            by_right[then].append(slot)
            slots[slot, at.L_OP] = at.OPS[plan.compared[number].op]
            slots[slot, at.L_LEFT], slots[slot, at.L_RIGHT] = keys.left.ctypes.data, keys.right.ctypes.data
        self._put(at.D_LINK_OF, link_of)
        self._put(at.D_SLOTS, slots)
        self.w[at.D_SLOT_COUNT] = len(slots)
        self._put(at.D_BY_RIGHT, np.array([each for some in by_right for each in some], np.int64))
        self._ways[:, at.P_LINKS] = [row.ctypes.data for row in link_of[:edges]]
        ends = np.cumsum([len(each) for each in by_right], dtype=np.int64)
        self._ways[:, at.P_RIGHT_END], self._ways[1:, at.P_RIGHT] = ends, ends[:-1]

    def _lay_judged(self) -> None:
        edges, plan = int(self.w[at.D_EDGES]), self.plan
        rows: list[list[list[int]]] = [[] for _ in range(edges)]
        for j, numbers in plan.judged.items():
            for number in numbers:
                if (keys := self._keys[number]) is not None:
                    op = at.OPS[plan.compared[number].op]
                    rows[j].append([op, keys.left.ctypes.data, keys.right.ctypes.data])
        flat = [row for each in rows for row in each]
        self._put(at.D_JUDGED, np.array(flat, np.int64).reshape(len(flat), at.J_WORDS))
        ends = np.cumsum([len(each) for each in rows], dtype=np.int64)
        self._ways[:, at.P_JUDGED_END], self._ways[1:, at.P_JUDGED] = ends, ends[:-1]

    def _lay_equals(self, piece: Piece) -> None:
        """List the events that an equality finds, by partition and value, and where each value's are."""
        plan, every_key = self._walked()
        rows = np.full((max(len(plan.steps), 1), at.Q_WORDS), -1, np.int64)
        names = [var.name for var in plan.program.bound.variables]
        self._equal: list[Ints] = []
        for j, number in plan.equal.items():
            keys = every_key[number]
            if keys is None:
                continue
            var = names.index(plan.steps[j].var)
            mine = np.flatnonzero(
                ((self._arrays[at.D_MASKS] >> var) & 1 != 0) & (piece.parts >= 0) & (keys.right != at.NULL)
            )
            order = mine[np.lexsort((mine, keys.right[mine], piece.parts[mine]))]
            low, high = _places(order, keys, piece.parts)
            self._equal += [order, low, high]
            rows[j] = [
                names.index(plan.compared[number].left.var),
                *(a.ctypes.data for a in (order, low, high)),
            ]
        self._put(at.D_EQUALS, rows)

    def _lay_leaps(self, piece: Piece) -> None:
        """Find the extremes of inequalities over runs of the long lists that they are asked in."""
        plan, every_key = self._walked()
        rows = np.full((max(len(plan.steps), 1), at.X_WORDS), -1, np.int64)
        names = [var.name for var in plan.program.bound.variables]
        starts = self._arrays[at.D_STARTS]
        self._runs: dict[int, list[Ints]] = {}
        long = self._limits.skipped_events
        for j, number in plan.leaps.items():
            keys, var = every_key[number], names.index(plan.steps[j].var)
            here = starts[var * (piece.partitions + 1) : (var + 1) * (piece.partitions + 1)]
            if keys is None or np.diff(here).max(initial=0) < long:
                continue
            op = at.OPS[plan.compared[number].op]
            if number not in self._runs:
                self._runs[number] = extremes(keys.right[self._arrays[at.D_LISTS][here[0] : here[-1]]], op)
            runs = [each.ctypes.data for each in self._runs[number]]
            left, right = keys.left.ctypes.data, keys.right.ctypes.data
            rows[j] = [op, names.index(plan.compared[number].left.var), left, right, long, here[0], *runs]
        self._put(at.D_LEAPS, rows)

    def _walked(self) -> tuple[Plan, list[Keys | None]]:
        """Return the plan whose automata are walked, and the keys of its comparisons."""
        if self.plan.mirror is None:
            return self.plan, self._keys
        return self.plan.mirror, self._keys[len(self.plan.compared) :]


def _free(tables: Tables) -> Ints:
    """Return for each edge that begins a free Kleene variable the edge that ends the match; else -1.

    Nothing is asked of its events but what they are by themselves, nor of the one that ends the match.
    """
    edges, states = tables.edges, tables.states
    free = np.full(len(edges) + 1, -1, np.int64)
    plain = (edges[:, E_TEST] < 0) & (edges[:, E_ACCEPT_TEST] < 0)
    for j in range(tables.starts[0]):
        first, last = states[edges[j, E_TARGET], [S_FIRST, S_LAST]]
        if last - first != TAKE_AND_END or not plain[[j, first, first + 1]].all():
            continue
        take, end = sorted((first, first + 1), key=lambda edge: edges[edge, E_VAR] != edges[j, E_VAR])
        loops = edges[take, E_VAR] == edges[j, E_VAR] and edges[take, E_TARGET] == edges[j, E_TARGET]
        ends = edges[end, E_ACCEPTS] and edges[end, E_TERMINAL]
        if loops and ends and not tables.branches[edges[j, E_BRANCH], B_NEGATES]:
            free[j] = end
    return free


def _places(order: Ints, keys: Keys, parts: Ints) -> tuple[Ints, Ints]:
    """Return for each event where the events that equal it begin and end in a list by partition and value."""
    values = np.unique(keys.right[order])
    width = len(values) + 1
    listed = parts[order] * width + np.searchsorted(values, keys.right[order])
    at_value = np.searchsorted(values, keys.left)
    there = (at_value < len(values)) & (parts >= 0)
    there[there] = values[at_value[there]] == keys.left[there]
    asked = np.where(there, parts * width + at_value, -1)
    return np.searchsorted(listed, asked), np.where(there, np.searchsorted(listed, asked, side="right"), 0)
