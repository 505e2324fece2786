"""Lays out a plan, a piece and its comparisons in the memory that the kernels of recomputation read."""

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
    EdgeLink,
    Equality,
    Inequality,
    JoinFrame,
    JoinWorkspace,
    PruneEdge,
    TriggerTest,
)
from cerise.engines.rcep.skip_index import extremes
from cerise.engines.rcep.window_events import EventPiece
from cerise.kernels.records import number

Ints = npt.NDArray[np.int64]
TAKE_AND_END = 2  # edges of a state with one take edge and one edge that ends the match


class WorkspaceMemory:
    """The arrays that kernels read and write, without the runs and nodes of the joins."""

    def __init__(self, plan: Plan, limits: Limits, *, counts: bool, limit: int, alone: bool) -> None:
        self.plan, self._limits = plan, limits
        self.words = np.zeros(JoinWorkspace.WORDS, np.int64)
        self.w = JoinWorkspace(self.address)
        self.variables = len(plan.program.bound.variables)
        edges = plan.program.tables.edges
        w = self.w
        w.edge_count, w.variables, w.depth = len(edges), self.variables, -1
        w.counts, w.limit, w.alone, w.right_deep = counts, limit, alone, plan.mirror is not None
        w.patience = limits.tested_events
        ends = edges[edges[:, EdgeRecord.accepts] != 0] if len(edges) else edges
        w.triggers = np.bitwise_or.reduce(ends[:, EdgeRecord.bit], initial=0)
        self._steps = np.zeros((len(edges), PruneEdge.WORDS), np.int64)
        states = plan.program.tables.states[edges[:, EdgeRecord.target]]
        same = [
            (PruneEdge.var, EdgeRecord.var),
            (PruneEdge.bit, EdgeRecord.bit),
            (PruneEdge.accepts, EdgeRecord.accepts),
        ]
        for word, column in (*same, (PruneEdge.terminal, EdgeRecord.terminal)):
            self._steps[:, word] = edges[:, column]
        for word, column in ((PruneEdge.first, StateRecord.first), (PruneEdge.last, StateRecord.last)):
            self._steps[:, word] = states[:, column]
        self.lengths = np.zeros((0 if counts else limits.matches, self.variables), np.int64)
        self.found = np.zeros((self.variables, 0), np.int64)
        self.fill = np.zeros(self.variables, np.int64)
        self.frames = np.zeros((max(limits.first_rows // 4, 1), JoinFrame.WORDS), np.int64)
        self._arrays: dict[object, Ints] = {}
        self._keys: list[Keys | None] = []
        self._set(JoinWorkspace.edges, self._steps)
        every = counts or limit or alone
        self._set(
            JoinWorkspace.free, np.full(len(edges) + 1, -1, np.int64) if every else _free(plan.program.tables)
        )
        self._set(JoinWorkspace.has, np.zeros(max(len(edges), 1), np.int64))
        self._set(JoinWorkspace.lengths, self.lengths)
        self._set(JoinWorkspace.fill, self.fill)
        w.rows = len(self.lengths)
        self.deepen(len(self.frames))

    @property
    def address(self) -> int:
        """The address of the workspace."""
        return int(self.words.ctypes.data)

    @property
    def floors(self) -> Ints:
        """For each partition the last event of its last match, if matches must not overlap; -1: none."""
        return self._arrays[JoinWorkspace.floors]

    def _set(self, field: object, array: Ints) -> None:
        self._arrays[field] = array
        self.words[number(field)] = array.ctypes.data

    def _room(self, field: object, size: int) -> Ints:
        """Return an array of a size in memory that is reused; its values are those of its last use."""
        array = self._arrays.get(field)
        if array is None or len(array) < size:
            self._set(field, np.zeros(max(size, 1), np.int64))
        return self._arrays[field][:size]

    def deepen(self, depth: int) -> None:
        """Make room for matches of up to `depth` events."""
        frames = np.zeros((depth, JoinFrame.WORDS), np.int64)
        frames[: len(self.frames)] = self.frames[:depth]
        self.frames = frames
        self._set(JoinWorkspace.frames, frames)
        for field in (JoinWorkspace.picks, JoinWorkspace.taken):
            longer = np.zeros(depth, np.int64)
            longer[: len(self._arrays.get(field, ()))] = self._arrays.get(field, ())
            self._set(field, longer)
        self.w.room = depth

    def lay(self, piece: EventPiece, masks: Ints, keys: list[Keys | None]) -> None:
        """Lay out a piece: its events, lists of events, and the keys of comparisons."""
        w, events = self.w, len(piece)
        w.events, w.partitions = events, piece.partitions
        self._set(JoinWorkspace.masks, masks)
        self._set(JoinWorkspace.parts, piece.parts)
        self._set(JoinWorkspace.points, np.ascontiguousarray(piece.points))
        self._set(JoinWorkspace.numbers, piece.numbers)
        self._set(JoinWorkspace.opens, piece.opens)
        parts, states = max(piece.partitions, 1), max(len(self.plan.program.tables.states), 1)
        self._room(JoinWorkspace.floors, parts)[:] = -1
        self._room(JoinWorkspace.latest, parts * states)[:] = -1
        self._room(JoinWorkspace.stamps, w.edge_count * events)  # stamps only grow, so old ones do no harm
        if self.plan.mirror is not None:
            self._room(JoinWorkspace.alive, self.variables * events)
        self._list_events(masks, piece)
        self._keys = keys
        self._lay_links()
        self._lay_tests()
        self._lay_equals(piece)
        self._lay_leaps(piece)
        room = max(self._limits.matches, events + 2)
        if not w.counts and self.found.shape[1] < room:
            self.found = np.zeros((self.variables, room), np.int64)
            self._set(JoinWorkspace.found, self.found)
        w.found_room = self.found.shape[1]

    def _list_events(self, masks: Ints, piece: EventPiece) -> None:
        starts = self._room(JoinWorkspace.starts, (self.variables + 1) * (piece.partitions + 1))
        starts[:2] = piece.partitions, self.variables
        lists = self._room(JoinWorkspace.lists, (self.variables + 1) * len(piece))
        places = self._room(JoinWorkspace.positions, len(piece))
        fill_lists(masks, piece.parts, starts, lists, places)

    # ---- comparisons

    def _lay_links(self) -> None:
        edges, plan = self.w.edge_count, self.plan
        used = [(pair, each) for pair, each in plan.links.items() if self._keys[each] is not None]
        link_of = np.full((max(edges, 1), max(edges, 1)), -1, np.int64)
        links = np.zeros((len(used), EdgeLink.WORDS), np.int64)
        by_right: list[list[int]] = [[] for _ in range(edges)]
        for link, ((j, then), compared) in enumerate(used):
            keys = self._keys[compared]
            assert keys is not None
            link_of[j, then] = link
            by_right[then].append(link)
            op = OPS[plan.compared[compared].op]
            links[link] = [op, keys.left.ctypes.data, keys.right.ctypes.data, 0, 0]
        self._link_of = link_of
        self._set(JoinWorkspace.links, links)
        self.w.link_count = len(links)
        self._set(JoinWorkspace.by_right, np.array([each for some in by_right for each in some], np.int64))
        self._steps[:, number(PruneEdge.links)] = [row.ctypes.data for row in link_of[:edges]]
        ends = np.cumsum([len(each) for each in by_right], dtype=np.int64)
        self._steps[:, PruneEdge.right_end], self._steps[1:, PruneEdge.right] = ends, ends[:-1]

    def _lay_tests(self) -> None:
        edges, plan = self.w.edge_count, self.plan
        rows: list[list[list[int]]] = [[] for _ in range(edges)]
        for j, numbers in plan.judged.items():
            for compared in numbers:
                if (keys := self._keys[compared]) is not None:
                    op = OPS[plan.compared[compared].op]
                    rows[j].append([op, keys.left.ctypes.data, keys.right.ctypes.data])
        flat = [row for each in rows for row in each]
        self._set(JoinWorkspace.judged, np.array(flat, np.int64).reshape(len(flat), TriggerTest.WORDS))
        ends = np.cumsum([len(each) for each in rows], dtype=np.int64)
        self._steps[:, PruneEdge.judged_end], self._steps[1:, PruneEdge.judged] = ends, ends[:-1]

    def _lay_equals(self, piece: EventPiece) -> None:
        """List the events of each equality by partition and value, and the range of each value."""
        plan, every_key = self._plan_of_joins()
        rows = np.full((max(len(plan.steps), 1), Equality.WORDS), -1, np.int64)
        names = [var.name for var in plan.program.bound.variables]
        self._equal: list[Ints] = []
        for j, compared in plan.equal.items():
            keys = every_key[compared]
            if keys is None:
                continue
            var = names.index(plan.steps[j].var)
            mine = np.flatnonzero(
                ((self._arrays[JoinWorkspace.masks] >> var) & 1 != 0)
                & (piece.parts >= 0)
                & (keys.right != NULL)
            )
            order = mine[np.lexsort((mine, keys.right[mine], piece.parts[mine]))]
            low, high = _places(order, keys, piece.parts)
            self._equal += [order, low, high]
            rows[j] = [
                names.index(plan.compared[compared].left.var),
                *(a.ctypes.data for a in (order, low, high)),
            ]
        self._set(JoinWorkspace.equals, rows)

    def _lay_leaps(self, piece: EventPiece) -> None:
        """Build the skip indexes of inequalities over long lists."""
        plan, every_key = self._plan_of_joins()
        rows = np.full((max(len(plan.steps), 1), Inequality.WORDS), -1, np.int64)
        names = [var.name for var in plan.program.bound.variables]
        starts = self._arrays[JoinWorkspace.starts]
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
                    keys.right[self._arrays[JoinWorkspace.lists][here[0] : here[-1]]], op
                )
            runs = [each.ctypes.data for each in self._runs[compared]]
            left, right = keys.left.ctypes.data, keys.right.ctypes.data
            rows[j] = [op, names.index(plan.compared[compared].left.var), left, right, long, here[0], *runs]
        self._set(JoinWorkspace.leaps, rows)

    def _plan_of_joins(self) -> tuple[Plan, list[Keys | None]]:
        """Return the plan whose automata the joins follow, and the keys of its comparisons."""
        if self.plan.mirror is None:
            return self.plan, self._keys
        return self.plan.mirror, self._keys[len(self.plan.compared) :]


def _free(tables: Tables) -> Ints:
    """Return for each edge that begins a free Kleene variable the edge that ends the match; else -1.

    A Kleene variable is free if its predicates, and those of the event that ends the match, read one event.
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
    """Return for each event the range of its equals in a list sorted by partition and value."""
    values = np.unique(keys.right[order])
    width = len(values) + 1
    listed = parts[order] * width + np.searchsorted(values, keys.right[order])
    at_value = np.searchsorted(values, keys.left)
    occurs = (at_value < len(values)) & (parts >= 0)
    occurs[occurs] = values[at_value[occurs]] == keys.left[occurs]
    wanted = np.where(occurs, parts * width + at_value, -1)
    return np.searchsorted(listed, wanted), np.where(occurs, np.searchsorted(listed, wanted, side="right"), 0)
