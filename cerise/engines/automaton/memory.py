"""The tables of a machine as arrays: made, grown, and read from Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.layout import (
    COUNTING,
)
from cerise.engines.automaton.program import Program
from cerise.engines.automaton.records import (
    Branch,
    Candidate,
    Edge,
    Machine,
    Match,
    Negated,
    Run,
    RunList,
    State,
)
from cerise.engines.base import Options
from cerise.kernels.records import number
from cerise.kinds import Kind
from cerise.pattern.query import Output

Ints = npt.NDArray[np.int64]


class Memory:
    """All tables of one matcher. They move when they grow: the machine is told where to."""

    def __init__(self, program: Program, options: Options) -> None:
        rows = options.limits.first_rows
        layout, tables = program.layout, program.tables
        self.words = np.zeros(Machine.WORDS, np.int64)
        self.m = Machine(self.address)
        self.runs = np.zeros((rows, layout.run_width), np.int64)
        self.nodes = np.zeros((rows, layout.node_width), np.int64)
        self.cands = np.zeros((max(rows // 4, 1), layout.candidate_width), np.int64)
        self.matches = np.zeros((16 * rows, Match.WORDS), np.int64)
        self.heads = np.zeros((0, RunList.WORDS), np.int64)
        self.cand_heads = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)
        self.table = np.full(1 << 12 if program.merging else 1, -1, np.int64)
        self.stack = np.zeros(2 * len(self.nodes) + 2, np.int64)
        self._tables, self._layout = tables, layout
        self.m.free = self.m.postponed = self.m.cursor = self.m.best = -1
        self.m.run_count = self.m.cand_count = 1  # run 0 has bound nothing; candidate 0 is scratch
        self.runs[0, Run.node] = self.runs[0, Run.key] = -1
        self.runs[0, Run.nulls] = (1 << len(layout.slots)) - 1
        self._settle(program, options)
        self.spread(1)

    @property
    def address(self) -> int:
        """Where the machine lies."""
        return int(self.words.ctypes.data)

    @property
    def lists(self) -> int:
        return len(self.heads)

    def position(self) -> tuple[bytes, tuple[int, ...]]:
        """Return where a kernel stands: the registers, and the room of each table."""
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
        """Forget all partitions but some, which are numbered anew in their order."""
        states, kinds = self.m.state_count, self.m.kinds
        moved = np.cumsum(which) - 1
        held = self.runs[1 : self.m.run_count, Run.key]
        held[held >= 0] = moved[held[held >= 0] // states] * states + held[held >= 0] % states
        self.heads = np.ascontiguousarray(
            self.heads.reshape(len(which), -1)[which].reshape(-1, RunList.WORDS)
        )
        self.cand_heads = np.ascontiguousarray(self.cand_heads.reshape(len(which), kinds)[which].reshape(-1))
        self.counts = self.counts[which].copy()
        self._tell()

    def make_room(self, *, matches: int = 0) -> None:
        """Make room for the event that a kernel stopped before, or for some matches."""
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

    def saved(self) -> dict[str, Ints]:
        """Return everything that is not known from the query."""
        m = self.m
        return {
            "registers": self.words[: Machine.mode], "runs": self.runs[: m.run_count],
            "nodes": self.nodes[: m.node_count], "cands": self.cands[: m.cand_count], "heads": self.heads,
            "cand_heads": self.cand_heads, "counts": self.counts,
        }  # fmt: skip

    def restore(self, saved: dict[str, Ints]) -> None:
        """Take what was saved."""
        self.words[: Machine.mode] = saved["registers"]
        self.runs, self.nodes, self.cands = (saved[name].copy() for name in ("runs", "nodes", "cands"))
        self.heads, self.cand_heads, self.counts = (
            saved[n].copy() for n in ("heads", "cand_heads", "counts")
        )
        self.stack = np.zeros(2 * len(self.nodes) + 2, np.int64)
        self._tell()

    def strings(self) -> list[Ints]:
        """Return every place where the code of a string is kept, as views."""
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
        """Write where the tables lie, and how much room they have."""
        m, tables = self.m, self._tables
        for table, array in ((m.runs, self.runs), (m.nodes, self.nodes), (m.cands, self.cands)):
            table.start, table.width, table.room = array.ctypes.data, 8 * array.shape[1], len(array)
        m.match_room, m.table_mask = len(self.matches), len(self.table) - 1
        for field, array in (
            (Machine.matches, self.matches), (Machine.lists, self.heads), (Machine.table, self.table),
            (Machine.cand_heads, self.cand_heads), (Machine.stack, self.stack), (Machine.edges, tables.edges),
            (Machine.states, tables.states), (Machine.slots, tables.slots), (Machine.negated, tables.negated),
            (Machine.branches, tables.branches), (Machine.negations, tables.negations),
        ):  # fmt: skip
            self.words[number(field)] = array.ctypes.data

    def _settle(self, program: Program, options: Options) -> None:
        """Write how the query is to be run."""
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
        m.start_mask = np.bitwise_or.reduce(tables.edges[slice(*tables.starts), Edge.bit], initial=0)
        m.negated_mask = np.bitwise_or.reduce(tables.negated[:, Negated.bit], initial=0)
        widths = tables.states[:, State.last] - tables.states[:, State.first]
        m.fan = 1 + max(tables.starts[1] - tables.starts[0], int(widths.max(initial=0)))
        m.full = options.limits.matches
        m.waits = len(tables.states) - int((tables.branches[:, Branch.wait] >= 0).sum())


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
