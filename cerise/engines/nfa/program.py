"""A bound query as something to run: generated code for its formulas, and tables for the kernels.

Nothing here is compiled yet, and numba is not imported: a program is text and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cerise.engines.nfa.automaton import Automaton, Edge, State, Test, build
from cerise.engines.nfa.derived import Derived, plain
from cerise.engines.nfa.formulas import (
    NODE_WIDTH_MARK,
    Scope,
    is_trivial,
    write_accept,
    write_candidate,
    write_edge,
    write_negation,
    write_update,
)
from cerise.engines.nfa.layout import (
    COL_FAULTS,
    COUNTED_NODE_WORDS,
    MERGED_NODE_WORDS,
    NODE_WORDS,
    Key,
    Layout,
    Slot,
)
from cerise.events import Path
from cerise.kernels.predicates import Writer, truth
from cerise.kinds import Kind
from cerise.pattern.bound import Bound, Branch, Conjunct
from cerise.pattern.check import kind_of
from cerise.pattern.expr import COMPARISONS, Agg, Attr, Binary, Call, Expr, In, Literal, children, walk
from cerise.pattern.query import Count, Output, Strategy, Unit

Ints = npt.NDArray[np.int64]

HEAD = """\
def count_fault(cols) -> None:
    store(cols + {faults}, load(cols + {faults}) + 1)


def edge(k, r, d, e, cols, nodes):
"""
FITS = """\


def fits(n, cols, out) -> None:
    for e in range(n):
        m = 0
"""

# the columns of an edge in the tables
(
    E_BIT,
    E_TEST,
    E_RESULT,
    E_TARGET,
    E_UPDATE,
    E_ACCEPTS,
    E_ACCEPT_TEST,
    E_TERMINAL,
    E_VAR,
    E_BRANCH,
    E_WORDS,
) = range(11)
# of a state
S_FIRST, S_LAST, S_MASK, S_MERGES, S_SLOTS, S_SLOTS_END, S_NULLS, S_BRANCH, S_WORDS = range(9)
# of a branch
B_WAIT, B_PAST, B_PAST_END, B_AHEAD, B_AHEAD_END, B_NEGATES, B_WORDS = range(7)
# of a negation: in the past of a match, and ahead of it
N_NUMBER, N_RANGE, N_TEST, N_AFTER, N_BEFORE, N_FIRST, N_POINT, N_WORDS = range(8)
BETWEEN, LEADING, ANYWHERE, TRAILING = range(4)
# of a negated variable
V_BIT, V_WRITE, V_KEPT, V_WORDS = range(4)


MAX_FORMULAS = 1000


class Unfit(Exception):
    """A query that this engine cannot run; the message says why."""


@dataclass(frozen=True, slots=True)
class Tables:
    """An automaton as numbers."""

    edges: Ints
    states: Ints
    starts: tuple[int, int]
    slots: Ints
    branches: Ints
    negations: Ints
    negated: Ints


@dataclass(frozen=True, slots=True)
class Program:
    """A query, ready for its kernels.

    Attributes:
        bound: the query.
        automata: the branches that can match at all.
        source: the generated module.
        layout: the places of values in runs, nodes and candidates.
        tables: the automata as numbers.
        derived: the columns that are computed before matching.
        ordered: whether strings are compared by order, not only for equality.
        literal_only: the string attributes that are only ever compared with strings of the query.
        merging: whether equivalent runs may be merged.
        why_not_merging: why they may not.
    """

    bound: Bound
    automata: tuple[Automaton, ...]
    source: str
    layout: Layout
    tables: Tables
    derived: dict[Path, Derived]
    ordered: bool
    literal_only: frozenset[Path]
    merging: bool
    why_not_merging: str | None
    history: bool

    @property
    def mode(self) -> int:
        """The strategy as the kernels know it: 0 contiguous, 1 next, 2 any."""
        strategy = self.bound.query.strategy
        return 0 if strategy.contiguous else 1 if strategy is Strategy.NEXT else 2

    @property
    def by_position(self) -> bool:
        """Whether the window counts events."""
        return self.bound.within is not None and self.bound.within.unit is Unit.EVENTS

    @property
    def counts_only(self) -> bool:
        """Whether the matches themselves are never asked for."""
        return isinstance(self.bound.query.returns, Count)


def compile_program(bound: Bound, *, merging: bool) -> Program:
    """Return the program of a query.

    Raises:
        Unfit: the query is beyond this engine.
    """
    derived: dict[Path, Derived] = {}
    branches = [_derive(branch, derived) for branch in bound.branches]
    if len({frozenset(v.name for v in branch.variables) for branch in branches}) < len(branches):
        raise Unfit("two branches of its OR bind the same variables")
    if _chooses(bound) and any(_looks_ahead(branch) for branch in branches):
        raise Unfit(
            "it chooses among matches that a NOT at their end leaves open until the window has passed"
        )
    names = frozenset(var.name for var in bound.variables)
    automata = []
    for branch in branches:
        here = frozenset(var.name for var in branch.variables)
        automaton = build(branch, bound.kleene, names - here)
        if automaton.too_large:
            raise Unfit("its AND has more than a thousand states")
        if automaton.possible:
            automata.append(automaton)
    why_not = _why_not_merging(bound)
    merges = merging and why_not is None
    counts = isinstance(bound.query.returns, Count)
    words = NODE_WORDS if not merges else COUNTED_NODE_WORDS if counts else MERGED_NODE_WORDS
    writer = _ProgramWriter(bound, automata, Layout(words))
    source = writer.source()
    if writer.formulas > MAX_FORMULAS:
        raise Unfit(f"its AND needs {writer.formulas} different formulas")
    if (too_wide := writer.layout.too_wide()) is not None or len(names) > 62:
        raise Unfit(too_wide or "it has more than 62 variables")
    return Program(
        bound, tuple(automata), source, writer.layout, writer.tables(), derived,
        _needs_order(branches), _literal_only(branches), merges, why_not if merging else None, writer.history,
    )  # fmt: skip


def _why_not_merging(bound: Bound) -> str | None:
    """Say why runs with equal futures may not be merged; None where they may."""
    if any(branch.negations for branch in bound.branches):
        return "a NOT looks at what each run has bound"
    return "matches are chosen one by one" if _chooses(bound) else None


def _chooses(bound: Bound) -> bool:
    """Whether not all matches are wanted."""
    return bound.query.output is Output.NON_OVERLAPPING or bound.query.limit is not None


def _looks_ahead(branch: Branch) -> bool:
    """Whether a NOT reaches beyond the last event of a match."""
    return any(n.absence.anywhere or not n.absence.before for n in branch.negations)


def _derive(branch: Branch, derived: dict[Path, Derived]) -> Branch:
    """Return a branch whose predicates compute with numbers only."""

    def change(conjunct: Conjunct) -> Conjunct:
        return replace(conjunct, expr=plain(conjunct.expr, derived))

    return replace(
        branch,
        conjuncts=tuple(map(change, branch.conjuncts)),
        negations=tuple(replace(n, tests=tuple(map(change, n.tests))) for n in branch.negations),
    )


def _predicates(branches: Iterable[Branch]) -> list[Expr]:
    exprs: list[Expr] = []
    for branch in branches:
        exprs += [c.expr for c in branch.conjuncts]
        exprs += [c.expr for n in branch.negations for c in n.tests]
    return exprs


def _literal_only(branches: Iterable[Branch]) -> frozenset[Path]:
    found: set[Path] = set()
    others: set[Path] = set()

    def visit(expr: Expr) -> None:
        match expr:
            case Binary("=" | "!=", Attr(path=path), Literal()) | Binary(
                "=" | "!=", Literal(), Attr(path=path)
            ):
                found.add(path)
            case In(Attr(path=path), items) if all(isinstance(item, Literal) for item in items):
                found.add(path)
            case Attr(path=path):
                others.add(path)
            case _:
                for child in children(expr):
                    visit(child)

    for root in _predicates(branches):
        visit(root)
    return frozenset(found - others)


def _needs_order(branches: Iterable[Branch]) -> bool:
    for expr in (each for root in _predicates(branches) for each in walk(root)):
        match expr:
            case Binary(op, left, _) if op in COMPARISONS - {"=", "!="} and kind_of(left) is Kind.STRING:
                return True
            case Call("least" | "greatest") if kind_of(expr) is Kind.STRING:
                return True
            case Agg("min" | "max", arg) if kind_of(arg) is Kind.STRING:
                return True
    return False


class _ProgramWriter:
    """Writes the code of a query; all formulas of all branches are cases of one function."""

    def __init__(self, bound: Bound, automata: list[Automaton], layout: Layout) -> None:
        self.bound = bound
        self.automata = automata
        self.layout = layout
        self.numbers = {var.name: i for i, var in enumerate(bound.variables)}
        self.history = False
        self._cases: dict[str, int] = {}
        self._edge_rows: list[list[int]] = []
        self._state_rows: list[list[int]] = []
        self._slot_words: list[int] = []
        self._branch_rows: list[list[int]] = []
        self._negation_rows: list[list[int]] = []
        self._negated_rows: list[list[int]] = []
        self._starts = (0, 0)

    def source(self) -> str:
        """Write everything and return the module's text."""
        parts = [_Part(self, number, automaton) for number, automaton in enumerate(self.automata)]
        negated = self._number_negated()
        for part in parts:
            part.write_formulas(negated)
        for part in parts:
            part.find_relevant()
        self._number_states(parts)
        for part in parts:
            part.write_rows()
        first = len(self._edge_rows)
        for part in parts:
            part.write_starts()
        self._starts = (first, len(self._edge_rows))
        self._write_candidates(negated)
        fits = self._fits()
        cases = [f"    if k == {k}:\n{text}" for text, k in self._cases.items()]
        body = "\n".join(cases) if cases else ""
        text = HEAD.format(faults=8 * COL_FAULTS) + body + "\n    return 0\n" + fits
        return text.replace(str(8 * NODE_WIDTH_MARK), str(8 * self.layout.node_width))

    @property
    def formulas(self) -> int:
        """How many different formulas there are."""
        return len(self._cases)

    def case(self, writer: Writer) -> int:
        """Return the number of a case; equal ones are written once."""
        return self._cases.setdefault("\n".join(writer.lines), len(self._cases))

    def scope(self, automaton: Automaton) -> Scope:
        """Return where the formulas of a branch find their values."""
        here = {var.name for var in automaton.branch.variables}
        absent = frozenset(self.numbers) - here
        return Scope(self.layout, self.bound.kleene, self.numbers, absent)

    def _number_negated(self) -> dict[str, int]:
        names = [n.absence.var.name for a in self.automata for n in a.branch.negations]
        return {name: i for i, name in enumerate(dict.fromkeys(names))}

    def _number_states(self, parts: list[_Part]) -> None:
        """Number the states of all branches, later ones first: an event moves no run twice."""
        listed = [(-len(s.started), part.number, i) for part in parts for i, s in part.listed()]
        order = {(number, i): n for n, (_, number, i) in enumerate(sorted(listed))}
        for part in parts:
            part.order = {i: order[part.number, i] for i, _ in part.listed()}
        waiting = [part for part in parts if part.waits]
        for n, part in enumerate(waiting):
            part.wait_state = len(order) + n
        self._state_rows = [[0] * S_WORDS for _ in range(len(order) + len(waiting))]

    def _write_candidates(self, negated: dict[str, int]) -> None:
        for name, number in negated.items():
            automaton = next(
                a for a in self.automata if any(n.absence.var.name == name for n in a.branch.negations)
            )
            writer = _new_writer()
            write_candidate(name, self.scope(automaton), writer)
            past = any(row[N_NUMBER] == number and row[N_RANGE] != TRAILING for row in self._negation_rows)
            self._negated_rows.append([1 << self.numbers[name], self.case(writer), int(past)])

    def _fits(self) -> str:
        """Write which variables an event could be: type and independent predicates, as one bit each."""
        writer = Writer(depth=2)
        done: set[str] = set()
        for automaton in self.automata:
            for name, filters in automaton.filters.items():
                if name in done:
                    continue
                done.add(name)
                scope = self.scope(automaton)
                scope.newest = name
                fits = f"fits{self.numbers[name]}"
                writer.line(f"{fits} = True")
                for expr in filters:
                    with writer.block(f"if {fits}:"):
                        writer.line(f"{fits} = {truth(expr, scope, writer).true}")
                with writer.block(f"if {fits}:"):
                    writer.line(f"m |= {1 << self.numbers[name]}")
        writer.line("store(out + 8 * e, m)")
        return FITS + "\n".join(writer.lines) + "\n"

    def tables(self) -> Tables:
        """Return the automata as numbers."""
        return Tables(
            _table(self._edge_rows, E_WORDS), _table(self._state_rows, S_WORDS), self._starts,
            np.array(self._slot_words, np.int64), _table(self._branch_rows, B_WORDS),
            _table(self._negation_rows, N_WORDS), _table(self._negated_rows, V_WORDS),
        )  # fmt: skip


class _Part:
    """The code and the rows of one branch."""

    def __init__(self, program: _ProgramWriter, number: int, automaton: Automaton) -> None:
        self.program = program
        self.number = number
        self.automaton = automaton
        self.order: dict[int, int] = {}
        self.wait_state = -1
        self.waits = _looks_ahead(automaton.branch)
        self._tests: dict[Edge, int] = {}
        self._accepts: dict[int, int] = {}
        self._uses: dict[int, set[Slot]] = {i: set() for i in range(len(automaton.states))}
        self._walks: dict[int, set[str]] = {i: set() for i in range(len(automaton.states))}
        self._negations: list[list[int]] = []

    def listed(self) -> list[tuple[int, State]]:
        """Return the states in which runs wait: all but the start."""
        return [(i, state) for i, state in enumerate(self.automaton.states) if i]

    # ---- formulas

    def write_formulas(self, negated: dict[str, int]) -> None:
        """Write what edges, matches and negations ask; note which values of V they use."""
        for edge in self.automaton.edges:
            self._tests[edge] = self._write_edge(edge)
        for i, state in enumerate(self.automaton.states):
            if state.accepts is not None and (state.accepts or state.open_tests):
                writer, scope = _new_writer(), self.program.scope(self.automaton)
                write_accept(state.accepts, state.open_tests, scope, writer)
                self._note(i, scope)
                self._accepts[i] = self.program.case(writer)
        final = [i for i, state in enumerate(self.automaton.states) if state.accepts is not None]
        for n, tests in enumerate(self.automaton.negations):
            self._write_negation(n, tests, negated, final)

    def _write_edge(self, edge: Edge) -> int:
        if is_trivial(edge):
            return -1
        writer, scope = _new_writer(), self.program.scope(self.automaton)
        write_edge(edge, self.automaton.states[edge.source].started, scope, writer)
        self._note(edge.source, scope)
        return self.program.case(writer)

    def _note(self, state: int, scope: Scope) -> None:
        self._uses[state] |= scope.uses
        self._walks[state] |= scope.history
        self.program.history |= bool(scope.history)

    def _write_negation(
        self, n: int, tests: tuple[Test, ...], negated: dict[str, int], final: list[int]
    ) -> None:
        absence = self.automaton.branch.negations[n].absence
        scope = self.program.scope(self.automaton)
        name = absence.var.name
        scope.negated = (name, "d")
        scope.absent = scope.absent - {name}
        test = -1
        if tests:
            writer = _new_writer()
            write_negation(tests, scope, writer)
            test = self.program.case(writer)
        kind = (
            ANYWHERE if absence.anywhere
            else LEADING if not absence.after
            else TRAILING if not absence.before
            else BETWEEN
        )  # fmt: skip
        words = {
            what: scope.slot(Key("", what, path), Kind.INT).word
            for what, path in (
                ("after", absence.after), ("before", absence.before), ("first_seq", ()), ("first_point", ()),
            )
        }  # fmt: skip
        for state in final:
            self._note(state, scope)
        self._negations.append([
            negated[name], kind, test,
            words["after"], words["before"], words["first_seq"], words["first_point"],
        ])  # fmt: skip

    # ---- which values of V matter from a state on [SASE08 §5.2.2: the masks M]

    def find_relevant(self) -> None:
        """Let every state know what the states after it use."""
        for edge in reversed(self.automaton.edges):  # edges lead from earlier states to later ones
            self._uses[edge.source] |= self._uses[edge.target]
            self._walks[edge.source] |= self._walks[edge.target]

    # ---- rows

    def write_rows(self) -> None:
        """Write the rows of this branch's states and of the edges between them."""
        program = self.program
        self._write_branch()
        for i, state in enumerate(self.automaton.states):
            if not i:
                continue
            row = program._state_rows[self.order[i]]
            row[S_FIRST] = len(program._edge_rows)
            for edge in self.automaton.leaving(i):
                program._edge_rows.append(self._edge_row(edge))
                row[S_MASK] |= 1 << program.numbers[edge.var]
            row[S_LAST] = len(program._edge_rows)
            relevant = sorted(
                (s for s in self._uses[i] if not s.key.var or s.key.var in state.started),
                key=lambda s: s.number,
            )
            row[S_SLOTS] = len(program._slot_words)
            program._slot_words += [slot.word for slot in relevant]
            row[S_SLOTS_END] = len(program._slot_words)
            row[S_NULLS] = sum(1 << slot.number for slot in relevant)
            row[S_MERGES] = int(not self._walks[i] & state.started)
            row[S_BRANCH] = self.number
        if self.waits:
            row = program._state_rows[self.wait_state]
            row[S_BRANCH] = self.number
            row[S_MASK] = sum(
                1 << program.numbers[n.absence.var.name]
                for n in self.automaton.branch.negations
                if n.absence.anywhere or not n.absence.before
            )

    def write_starts(self) -> None:
        """Write the edges that open a run."""
        self.program._edge_rows += [self._edge_row(edge) for edge in self.automaton.leaving(0)]

    def _edge_row(self, edge: Edge) -> list[int]:
        program = self.program
        states = self.automaton.states
        accepts = states[edge.target].accepts is not None
        terminal = not self.automaton.leaving(edge.target)
        static = 1 if any(high is None for _, high in edge.opens) else 2
        update = -1
        relevant = self._uses[edge.target]
        writer, scope = _new_writer(), program.scope(self.automaton)
        if write_update(edge, states[edge.source].started, relevant, scope, writer):
            update = program.case(writer)
        return [
            1 << program.numbers[edge.var], self._tests[edge], static, self.order[edge.target], update,
            int(accepts), self._accepts.get(edge.target, -1), int(terminal), program.numbers[edge.var],
            self.number,
        ]  # fmt: skip

    def _write_branch(self) -> None:
        program = self.program
        rows = program._negation_rows
        past = len(rows)
        rows += [row for row in self._negations if row[N_RANGE] != TRAILING]
        ahead = len(rows)
        rows += [row for row in self._negations if row[N_RANGE] in (TRAILING, ANYWHERE)]
        program._branch_rows.append(
            [self.wait_state, past, ahead, ahead, len(rows), int(bool(self._negations))]
        )


def _new_writer() -> Writer:
    return Writer(depth=2)


def _table(rows: list[list[int]], width: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), width)
