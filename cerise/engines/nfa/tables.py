"""The tables of a machine as arrays: made, grown, and read from Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.engines.base import Options
from cerise.engines.nfa import machine as at
from cerise.engines.nfa import upkeep
from cerise.engines.nfa.layout import AT, CAND_VALUES, KEY, MATCH_WORDS, NODE, NULLS
from cerise.engines.nfa.program import Program
from cerise.engines.nfa.rows import B_WAIT, E_BIT, S_FIRST, S_LAST, V_BIT
from cerise.kinds import Kind
from cerise.pattern.query import Output

Ints = npt.NDArray[np.int64]


class Memory:
    """All tables of one matcher. They move when they grow: the machine is told where to."""

    def __init__(self, program: Program, options: Options, *, backtracks: bool) -> None:
        rows = options.limits.first_rows
        layout, tables = program.layout, program.tables
        self.m = np.zeros(at.MACHINE_WORDS, np.int64)
        self.runs = np.zeros((rows, layout.run_width), np.int64)
        self.nodes = np.zeros((rows, layout.node_width), np.int64)
        self.cands = np.zeros((max(rows // 4, 1), layout.candidate_width), np.int64)
        self.matches = np.zeros((16 * rows, MATCH_WORDS), np.int64)
        self.heads = np.zeros((0, at.LIST_WORDS), np.int64)
        self.cand_heads = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)
        self.table = np.full(1 << 12 if program.merging else 1, -1, np.int64)
        self.stack = np.zeros(2 * len(self.nodes) + 2, np.int64)
        self._tables, self._layout = tables, layout
        self.m[at.G_FREE] = self.m[at.G_POSTPONED] = self.m[at.G_CURSOR] = self.m[at.G_BEST] = -1
        self.m[at.H_BACKTRACKS] = backtracks
        self.m[at.G_RUNS] = self.m[at.G_CANDS] = 1  # run 0 has bound nothing; candidate 0 is scratch
        self.runs[0, NODE] = self.runs[0, KEY] = -1
        self.runs[0, NULLS] = (1 << len(layout.slots)) - 1
        self._settle(program, options)
        self.spread(1)

    @property
    def address(self) -> int:
        """Where the machine lies."""
        return int(self.m.ctypes.data)

    @property
    def lists(self) -> int:
        """How many lists of runs there are."""
        return len(self.heads)

    @property
    def unfinished(self) -> bool:
        """Whether backtracking has stopped half-way."""
        return bool(self.m[at.G_POSTPONED] >= 0 or self.m[at.G_CURSOR] != -1)

    def position(self) -> tuple[bytes, tuple[int, ...]]:
        """Return where a kernel stands: the registers, and the room of each table."""
        return self.m[: at.H_MODE].tobytes(), tuple(
            map(len, (self.runs, self.nodes, self.cands, self.matches))
        )

    def stopped_at(self, done: int) -> int:
        """Return the event at which a kernel stopped: that of the run it put back, or the last done."""
        postponed = int(self.m[at.G_POSTPONED])
        return int(self.runs[postponed, AT]) if postponed >= 0 else max(done - 1, 0)

    def spread(self, partitions: int) -> None:
        """Make room for new partitions."""
        if len(self.counts) < partitions:
            size = max(partitions, 2 * len(self.counts))
            self.counts = _longer(self.counts, size, 0)
            self.heads = _longer(self.heads, size * int(self.m[at.H_STATES]), -1)
            self.heads[self.heads[:, at.L_HEAD] < 0, at.L_LENGTH] = 0
            self.cand_heads = _longer(self.cand_heads, size * int(self.m[at.H_KINDS]), -1)
            self._tell()

    def busy(self) -> npt.NDArray[np.bool_]:
        """Return which partitions hold a run or a candidate."""
        size, kinds = len(self.counts), int(self.m[at.H_KINDS])
        lists = self.heads[:, at.L_HEAD].reshape(size, -1)
        cands = self.cand_heads.reshape(size, kinds)
        return np.asarray((lists >= 0).any(axis=1) | (cands >= 0).any(axis=1))

    def keep_partitions(self, which: npt.NDArray[np.bool_]) -> None:
        """Forget all partitions but some, which are numbered anew in their order."""
        states, kinds = int(self.m[at.H_STATES]), int(self.m[at.H_KINDS])
        moved = np.cumsum(which) - 1
        held = self.runs[1 : self.m[at.G_RUNS], KEY]
        held[held >= 0] = moved[held[held >= 0] // states] * states + held[held >= 0] % states
        self.heads = np.ascontiguousarray(
            self.heads.reshape(len(which), -1)[which].reshape(-1, at.LIST_WORDS)
        )
        self.cand_heads = np.ascontiguousarray(self.cand_heads.reshape(len(which), kinds)[which].reshape(-1))
        self.counts = self.counts[which].copy()
        self._tell()

    def make_room(self, *, matches: int = 0) -> None:
        """Make room for the event that a kernel stopped before, or for some matches."""
        m, need = self.m, int(self.m[at.G_NEED])
        self.runs = _with_room(self.runs, int(m[at.G_RUNS]), 2 * need)
        self.nodes = _with_room(self.nodes, int(m[at.G_NODES]), 2 * need)
        self.cands = _with_room(self.cands, int(m[at.G_CANDS]), int(m[at.H_KINDS]))
        self.matches = _with_room(self.matches, int(m[at.G_MATCHES]), need + matches)
        if m[at.H_MERGES]:
            if len(self.table) < len(self.runs):
                self.table = np.full(2 * len(self.table), -1, np.int64)
            if m[at.H_COUNTS] and len(self.stack) < 2 * len(self.nodes) + 2:
                self.stack = np.zeros(2 * len(self.nodes) + 2, np.int64)
        self._tell()

    def make_room_for_candidates(self, events: int) -> None:
        """Make room for as many candidates as some events can be."""
        self.cands = _with_room(self.cands, int(self.m[at.G_CANDS]), events * int(self.m[at.H_KINDS]))
        self._tell()

    def forget_candidates(self, now: Ints) -> None:
        """Let go of the candidates that can veto nothing any more."""
        kept = np.empty_like(self.cands)
        upkeep.forget_candidates(self.address, len(self.counts), now, kept)
        self.cands = kept
        self._tell()

    def saved(self) -> dict[str, Ints]:
        """Return everything that is not known from the query."""
        m = self.m
        return {
            "registers": m[: at.H_MODE], "runs": self.runs[: m[at.G_RUNS]],
            "nodes": self.nodes[: m[at.G_NODES]], "cands": self.cands[: m[at.G_CANDS]], "heads": self.heads,
            "cand_heads": self.cand_heads, "counts": self.counts,
        }  # fmt: skip

    def restore(self, saved: dict[str, Ints]) -> None:
        """Take what was saved."""
        self.m[: at.H_MODE] = saved["registers"]
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
            self.runs[: m[at.G_RUNS], slot.word] for slot in layout.slots.values() if slot.kind is Kind.STRING
        ]
        nodes, cands = self.nodes[: m[at.G_NODES]], self.cands[: m[at.G_CANDS]]
        first = layout.node_words + 1
        for fields in layout.payload.values():
            found += [nodes[:, first + f.number] for f in fields.values() if f.kind is Kind.STRING]
        for kept in layout.candidates.values():
            found += [cands[:, CAND_VALUES + f.number] for f in kept.values() if f.kind is Kind.STRING]
        return found

    def _tell(self) -> None:
        """Write where the tables lie, and how much room they have."""
        m = self.m
        for word, array in (
            (at.A_RUNS, self.runs), (at.A_NODES, self.nodes), (at.A_CANDS, self.cands),
            (at.A_MATCHES, self.matches), (at.A_HEADS, self.heads), (at.A_CAND_HEADS, self.cand_heads),
            (at.A_TABLE, self.table), (at.A_STACK, self.stack), (at.A_EDGES, self._tables.edges),
            (at.A_STATES, self._tables.states), (at.A_SLOTS, self._tables.slots),
            (at.A_BRANCHES, self._tables.branches), (at.A_NEGATIONS, self._tables.negations),
            (at.A_NEGATED, self._tables.negated),
        ):  # fmt: skip
            m[word] = array.ctypes.data
        m[at.A_RUN_BYTES], m[at.A_RUN_ROOM] = 8 * self.runs.shape[1], len(self.runs)
        m[at.A_NODE_BYTES], m[at.A_NODE_ROOM] = 8 * self.nodes.shape[1], len(self.nodes)
        m[at.A_CAND_BYTES], m[at.A_CAND_ROOM] = 8 * self.cands.shape[1], len(self.cands)
        m[at.A_MATCH_ROOM] = len(self.matches)
        m[at.A_TABLE_MASK] = len(self.table) - 1

    def _settle(self, program: Program, options: Options) -> None:
        """Write how the query is to be run."""
        m, tables, bound = self.m, program.tables, program.bound
        m[at.H_MODE] = program.mode
        m[at.H_WITHIN] = -1 if bound.within is None else int(str(bound.within.size))
        m[at.H_SLIDE] = 0 if bound.slide is None else int(str(bound.slide.size))
        m[at.H_BY_POSITION] = program.by_position
        m[at.H_ALONE] = bound.query.output is Output.NON_OVERLAPPING
        m[at.H_COUNTS] = program.counts_only and bound.query.limit is None
        m[at.H_MERGES] = 0 if not program.merging else at.COUNTING if program.counts_only else 1
        m[at.H_MAX_RUNS] = options.max_runs
        needed = not m[at.H_COUNTS] or program.history or len(tables.negated) > 0
        m[at.H_NODES] = 1 if needed else 2 if program.merging else 0
        m[at.H_STATES], m[at.H_KINDS] = len(tables.states), len(tables.negated)
        m[at.H_STARTS], m[at.H_STARTS_END] = tables.starts
        m[at.H_START_MASK] = np.bitwise_or.reduce(tables.edges[slice(*tables.starts), E_BIT], initial=0)
        m[at.H_NEG_MASK] = np.bitwise_or.reduce(tables.negated[:, V_BIT], initial=0)
        widths = tables.states[:, S_LAST] - tables.states[:, S_FIRST]
        m[at.H_FAN] = 1 + max(tables.starts[1] - tables.starts[0], int(widths.max(initial=0)))
        chosen_later = bound.query.limit is not None or bool(m[at.H_ALONE])
        m[at.H_FULL] = at.MAX if m[at.H_BACKTRACKS] and chosen_later else options.limits.matches
        m[at.H_WAITS] = len(tables.states) - int((tables.branches[:, B_WAIT] >= 0).sum())


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
