"""The memory of recomputation: a plan, a piece and its comparisons, where kernels find them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.layout import Tables
from cerise.engines.automaton.records import BranchRecord, EdgeRecord, StateRecord
from cerise.engines.limits import Limits
from cerise.engines.rcep.keys import Keys
from cerise.engines.rcep.plan import Plan
from cerise.engines.rcep.prune import fill_lists
from cerise.engines.rcep.records import (
    NULL,
    OPS,
    Equality,
    Frame,
    Inequality,
    Judged,
    Link,
    Step,
    Workspace,
)
from cerise.engines.rcep.skip_index import extremes
from cerise.engines.rcep.window import Piece
from cerise.kernels.records import number

Ints = npt.NDArray[np.int64]
TAKE_AND_END = 2  # edges


class WorkspaceMemory:
    """All that kernels read and write, but for the runs and nodes of the walk."""

    def __init__(self, plan: Plan, limits: Limits, *, counts: bool, limit: int, alone: bool) -> None:
        self.plan, self._limits = plan, limits
        self.words = np.zeros(Workspace.WORDS, np.int64)
        self.w = Workspace(self.address)
        self.variables = len(plan.program.bound.variables)
        edges = plan.program.tables.edges
        w = self.w
        w.edge_count, w.variables, w.depth = len(edges), self.variables, -1
        w.counts, w.limit, w.alone, w.right_deep = counts, limit, alone, plan.mirror is not None
        w.patience = limits.tested_events
        ends = edges[edges[:, EdgeRecord.accepts] != 0] if len(edges) else edges
        w.triggers = np.bitwise_or.reduce(ends[:, EdgeRecord.bit], initial=0)
        self._steps = np.zeros((len(edges), Step.WORDS), np.int64)
        states = plan.program.tables.states[edges[:, EdgeRecord.target]]
        same = [(Step.var, EdgeRecord.var), (Step.bit, EdgeRecord.bit), (Step.accepts, EdgeRecord.accepts)]
        for word, column in (*same, (Step.terminal, EdgeRecord.terminal)):
            self._steps[:, word] = edges[:, column]
        for word, column in ((Step.first, StateRecord.first), (Step.last, StateRecord.last)):
            self._steps[:, word] = states[:, column]
        self.lengths = np.zeros((0 if counts else limits.matches, self.variables), np.int64)
        self.found = np.zeros((self.variables, 0), np.int64)
        self.fill = np.zeros(self.variables, np.int64)
        self.frames = np.zeros((max(limits.first_rows // 4, 1), Frame.WORDS), np.int64)
        self._arrays: dict[object, Ints] = {}
        self._keys: list[Keys | None] = []
        self._put(Workspace.edges, self._steps)
        every = counts or limit or alone
        self._put(
            Workspace.free, np.full(len(edges) + 1, -1, np.int64) if every else _free(plan.program.tables)
        )
        self._put(Workspace.has, np.zeros(max(len(edges), 1), np.int64))
        self._put(Workspace.lengths, self.lengths)
        self._put(Workspace.fill, self.fill)
        w.rows = len(self.lengths)
        self.deepen(len(self.frames))

    @property
    def address(self) -> int:
        """Where kernels find it."""
        return int(self.words.ctypes.data)

    @property
    def floors(self) -> Ints:
        """For each partition the last event of its last match, where matches may not overlap; -1: none."""
        return self._arrays[Workspace.floors]

    def _put(self, field: object, array: Ints) -> None:
        self._arrays[field] = array
        self.words[number(field)] = array.ctypes.data

    def _room(self, field: object, size: int) -> Ints:
        """Return an array of a size, in memory that is used again; what it holds is left as it was."""
        array = self._arrays.get(field)
        if array is None or len(array) < size:
            self._put(field, np.zeros(max(size, 1), np.int64))
        return self._arrays[field][:size]

    def deepen(self, depth: int) -> None:
        """Make room for a walk of so many events."""
        frames = np.zeros((depth, Frame.WORDS), np.int64)
        frames[: len(self.frames)] = self.frames[:depth]
        self.frames = frames
        self._put(Workspace.frames, frames)
        for field in (Workspace.picks, Workspace.taken):
            longer = np.zeros(depth, np.int64)
            longer[: len(self._arrays.get(field, ()))] = self._arrays.get(field, ())
            self._put(field, longer)
        self.w.room = depth

    def lay(self, piece: Piece, masks: Ints, keys: list[Keys | None]) -> None:
        """Lay out a piece: its events, lists of them, and what compares them."""
        w, events = self.w, len(piece)
        w.events, w.partitions = events, piece.partitions
        self._put(Workspace.masks, masks)
        self._put(Workspace.parts, piece.parts)
        self._put(Workspace.points, np.ascontiguousarray(piece.points))
        self._put(Workspace.numbers, piece.numbers)
        self._put(Workspace.opens, piece.opens)
        parts, states = max(piece.partitions, 1), max(len(self.plan.program.tables.states), 1)
        self._room(Workspace.floors, parts)[:] = -1
        self._room(Workspace.latest, parts * states)[:] = -1
        self._room(Workspace.stamps, w.edge_count * events)  # stamps of former pieces are older than any
        if self.plan.mirror is not None:
            self._room(Workspace.alive, self.variables * events)
        self._list_events(masks, piece)
        self._keys = keys
        self._lay_links()
        self._lay_judged()
        self._lay_equals(piece)
        self._lay_leaps(piece)
        room = max(self._limits.matches, events + 2)
        if not w.counts and self.found.shape[1] < room:
            self.found = np.zeros((self.variables, room), np.int64)
            self._put(Workspace.found, self.found)
        w.found_room = self.found.shape[1]

    def _list_events(self, masks: Ints, piece: Piece) -> None:
        starts = self._room(Workspace.starts, (self.variables + 1) * (piece.partitions + 1))
        starts[:2] = piece.partitions, self.variables
        lists = self._room(Workspace.lists, (self.variables + 1) * len(piece))
        places = self._room(Workspace.positions, len(piece))
        fill_lists(masks, piece.parts, starts, lists, places)

    # ---- comparisons

    def _lay_links(self) -> None:
        edges, plan = self.w.edge_count, self.plan
        used = [(pair, each) for pair, each in plan.links.items() if self._keys[each] is not None]
        link_of = np.full((max(edges, 1), max(edges, 1)), -1, np.int64)
        links = np.zeros((len(used), Link.WORDS), np.int64)
        by_right: list[list[int]] = [[] for _ in range(edges)]
        for link, ((j, then), compared) in enumerate(used):
            keys = self._keys[compared]
            assert keys is not None
            link_of[j, then] = link
            by_right[then].append(link)
            op = OPS[plan.compared[compared].op]
            links[link] = [op, keys.left.ctypes.data, keys.right.ctypes.data, 0, 0]
        self._link_of = link_of
        self._put(Workspace.links, links)
        self.w.link_count = len(links)
        self._put(Workspace.by_right, np.array([each for some in by_right for each in some], np.int64))
        self._steps[:, number(Step.links)] = [row.ctypes.data for row in link_of[:edges]]
        ends = np.cumsum([len(each) for each in by_right], dtype=np.int64)
        self._steps[:, Step.right_end], self._steps[1:, Step.right] = ends, ends[:-1]

    def _lay_judged(self) -> None:
        edges, plan = self.w.edge_count, self.plan
        rows: list[list[list[int]]] = [[] for _ in range(edges)]
        for j, numbers in plan.judged.items():
            for compared in numbers:
                if (keys := self._keys[compared]) is not None:
                    op = OPS[plan.compared[compared].op]
                    rows[j].append([op, keys.left.ctypes.data, keys.right.ctypes.data])
        flat = [row for each in rows for row in each]
        self._put(Workspace.judged, np.array(flat, np.int64).reshape(len(flat), Judged.WORDS))
        ends = np.cumsum([len(each) for each in rows], dtype=np.int64)
        self._steps[:, Step.judged_end], self._steps[1:, Step.judged] = ends, ends[:-1]

    def _lay_equals(self, piece: Piece) -> None:
        """List the events that an equality finds, by partition and value, and where each value's are."""
        plan, every_key = self._walked()
        rows = np.full((max(len(plan.steps), 1), Equality.WORDS), -1, np.int64)
        names = [var.name for var in plan.program.bound.variables]
        self._equal: list[Ints] = []
        for j, compared in plan.equal.items():
            keys = every_key[compared]
            if keys is None:
                continue
            var = names.index(plan.steps[j].var)
            mine = np.flatnonzero(
                ((self._arrays[Workspace.masks] >> var) & 1 != 0) & (piece.parts >= 0) & (keys.right != NULL)
            )
            order = mine[np.lexsort((mine, keys.right[mine], piece.parts[mine]))]
            low, high = _places(order, keys, piece.parts)
            self._equal += [order, low, high]
            rows[j] = [
                names.index(plan.compared[compared].left.var),
                *(a.ctypes.data for a in (order, low, high)),
            ]
        self._put(Workspace.equals, rows)

    def _lay_leaps(self, piece: Piece) -> None:
        """Find the extremes of inequalities over runs of the long lists that they are asked in."""
        plan, every_key = self._walked()
        rows = np.full((max(len(plan.steps), 1), Inequality.WORDS), -1, np.int64)
        names = [var.name for var in plan.program.bound.variables]
        starts = self._arrays[Workspace.starts]
        self._runs: dict[int, list[Ints]] = {}
        long = self._limits.skipped_events
        for j, compared in plan.leaps.items():
            keys, var = every_key[compared], names.index(plan.steps[j].var)
            here = starts[var * (piece.partitions + 1) : (var + 1) * (piece.partitions + 1)]
            if keys is None or np.diff(here).max(initial=0) < long:
                continue
            op = OPS[plan.compared[compared].op]
            if compared not in self._runs:
                self._runs[compared] = extremes(
                    keys.right[self._arrays[Workspace.lists][here[0] : here[-1]]], op
                )
            runs = [each.ctypes.data for each in self._runs[compared]]
            left, right = keys.left.ctypes.data, keys.right.ctypes.data
            rows[j] = [op, names.index(plan.compared[compared].left.var), left, right, long, here[0], *runs]
        self._put(Workspace.leaps, rows)

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
    plain = (edges[:, EdgeRecord.test] < 0) & (edges[:, EdgeRecord.accept_test] < 0)
    for j in range(tables.starts[0]):
        first, last = states[edges[j, EdgeRecord.target], [StateRecord.first, StateRecord.last]]
        if last - first != TAKE_AND_END or not plain[[j, first, first + 1]].all():
            continue
        take, end = sorted(
            (first, first + 1), key=lambda edge: edges[edge, EdgeRecord.var] != edges[j, EdgeRecord.var]
        )
        loops = (
            edges[take, EdgeRecord.var] == edges[j, EdgeRecord.var]
            and edges[take, EdgeRecord.target] == edges[j, EdgeRecord.target]
        )
        ends = edges[end, EdgeRecord.accepts] and edges[end, EdgeRecord.terminal]
        if loops and ends and not tables.branches[edges[j, EdgeRecord.branch], BranchRecord.negates]:
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
