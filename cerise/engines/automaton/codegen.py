"""Generates the module of a query, and the tables of its automata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cerise.engines.automaton import records as at
from cerise.engines.automaton.automaton import Automaton, Edge, State, Test, looks_ahead
from cerise.engines.automaton.formulas import (
    NODE_WIDTH_MARK,
    Scope,
    is_trivial,
    write_accept,
    write_candidate,
    write_edge,
    write_negation,
    write_update,
)
from cerise.engines.automaton.layout import (
    ANYWHERE,
    BETWEEN,
    LEADING,
    TRAILING,
    ProgramLayout,
    Slot,
    TableRows,
    ValueKey,
)
from cerise.kernels.predicates import Writer, truth
from cerise.kinds import Kind
from cerise.pattern.bound import Bound
from cerise.pattern.expr import Expr

HEAD = """\
def count_fault(cols) -> None:
    store(cols + {faults}, load(cols + {faults}) + 1)


def edge(k, r, d, e, cols, nodes):
"""


class ModuleWriter:
    """Writes the code of a query: all formulas of all branches are cases of one function."""

    def __init__(self, bound: Bound, automata: list[Automaton], layout: ProgramLayout) -> None:
        self.bound = bound
        self.automata = automata
        self.layout = layout
        self.numbers = {var.name: i for i, var in enumerate(bound.variables)}
        self.history = False
        self._cases: dict[str, int] = {}
        self.rows = TableRows()

    def source(self) -> str:
        """Write everything and return the module's text."""
        parts = [BranchWriter(self, number, automaton) for number, automaton in enumerate(self.automata)]
        negated = self._number_negations()
        for part in parts:
            part.write_formulas(negated)
        for part in parts:
            part.find_relevant()
        self._number_states(parts)
        for part in parts:
            part.write_rows()
        first = len(self.rows.edges)
        for part in parts:
            part.write_starts()
        self.rows.starts = (first, len(self.rows.edges))
        self._write_candidates(negated)
        fits = write_fits(self.automata, self.numbers, self.scope)
        cases = [f"    if k == {k}:\n{text}" for text, k in self._cases.items()]
        body = "\n".join(cases) if cases else ""
        text = HEAD.format(faults=8 * at.Chunk.faults) + body + "\n    return 0\n\n\n" + fits
        return text.replace(str(8 * NODE_WIDTH_MARK), str(8 * self.layout.widths.node))

    @property
    def formulas(self) -> int:
        return len(self._cases)

    def case(self, writer: Writer) -> int:
        """Return the number of a case; equal ones are written once."""
        return self._cases.setdefault("\n".join(writer.lines), len(self._cases))

    def scope(self, automaton: Automaton) -> Scope:
        """Return the scope of the formulas of a branch."""
        absent = frozenset(self.numbers) - {var.name for var in automaton.branch.variables}
        return Scope(self.layout, self.bound.kleene, self.numbers, absent)

    def _number_negations(self) -> dict[str, int]:
        names = [n.absence.var.name for a in self.automata for n in a.branch.negations]
        return {name: i for i, name in enumerate(dict.fromkeys(names))}

    def _number_states(self, parts: list[BranchWriter]) -> None:
        """Number the states of all branches, later states first, so that an event moves no run twice."""
        listed = [(-len(s.started), part.number, i) for part in parts for i, s in part.list_states()]
        order = {(number, i): n for n, (_, number, i) in enumerate(sorted(listed))}
        for part in parts:
            part.order = {i: order[part.number, i] for i, _ in part.list_states()}
        waiting = [part for part in parts if part.waits]
        for n, part in enumerate(waiting):
            part.wait_state = len(order) + n
        self.rows.states = [[0] * at.StateRecord.WORDS for _ in range(len(order) + len(waiting))]

    def _write_candidates(self, negated: dict[str, int]) -> None:
        for name, number in negated.items():
            automaton = next(
                a for a in self.automata if any(n.absence.var.name == name for n in a.branch.negations)
            )
            writer = _new_writer()
            write_candidate(name, self.scope(automaton), writer)
            past = any(
                row[at.NegationRecord.number] == number and row[at.NegationRecord.range] != TRAILING
                for row in self.rows.negations
            )
            self.rows.negated.append([1 << self.numbers[name], self.case(writer), int(past)])


class BranchWriter:
    """Writes the code and the table rows of one branch."""

    def __init__(self, program: ModuleWriter, number: int, automaton: Automaton) -> None:
        self.program = program
        self.number = number
        self.automaton = automaton
        self.order: dict[int, int] = {}
        self.wait_state = -1
        self.waits = looks_ahead(automaton.branch)
        self._tests: dict[Edge, int] = {}
        self._accepts: dict[int, int] = {}
        self._uses: dict[int, set[Slot]] = {i: set() for i in range(len(automaton.states))}
        self._walks: dict[int, set[str]] = {i: set() for i in range(len(automaton.states))}
        self._negations: list[list[int]] = []

    def list_states(self) -> list[tuple[int, State]]:
        """Return the states in which runs wait: all but the start."""
        return [(i, state) for i, state in enumerate(self.automaton.states) if i]

    # ---- formulas

    def write_formulas(self, negated: dict[str, int]) -> None:
        """Write the formulas of edges, matches and negations; note which values of V they use."""
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
            what: scope.slot(ValueKey("", what, path), Kind.INT).word
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
        """Add to the values of each state the values that later states use."""
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
            row = program.rows.states[self.order[i]]
            row[at.StateRecord.first] = len(program.rows.edges)
            for edge in self.automaton.edges_from(i):
                program.rows.edges.append(self._edge_row(edge))
                row[at.StateRecord.mask] |= 1 << program.numbers[edge.var]
            row[at.StateRecord.last] = len(program.rows.edges)
            relevant = sorted(
                (s for s in self._uses[i] if not s.key.var or s.key.var in state.started),
                key=lambda s: s.number,
            )
            row[at.StateRecord.slots] = len(program.rows.slots)
            program.rows.slots += [slot.word for slot in relevant]
            row[at.StateRecord.slots_end] = len(program.rows.slots)
            row[at.StateRecord.nulls] = sum(1 << slot.number for slot in relevant)
            row[at.StateRecord.merges] = int(not self._walks[i] & state.started)
            row[at.StateRecord.branch] = self.number
        if self.waits:
            row = program.rows.states[self.wait_state]
            row[at.StateRecord.branch] = self.number
            row[at.StateRecord.mask] = sum(
                1 << program.numbers[n.absence.var.name]
                for n in self.automaton.branch.negations
                if n.absence.anywhere or not n.absence.before
            )

    def write_starts(self) -> None:
        self.program.rows.edges += [self._edge_row(edge) for edge in self.automaton.edges_from(0)]

    def _edge_row(self, edge: Edge) -> list[int]:
        program = self.program
        states = self.automaton.states
        accepts = states[edge.target].accepts is not None
        terminal = not self.automaton.edges_from(edge.target)
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
        rows = program.rows.negations
        past = len(rows)
        rows += [row for row in self._negations if row[at.NegationRecord.range] != TRAILING]
        ahead = len(rows)
        rows += [row for row in self._negations if row[at.NegationRecord.range] in (TRAILING, ANYWHERE)]
        program.rows.branches.append(
            [self.wait_state, past, ahead, ahead, len(rows), int(bool(self._negations))]
        )


def _new_writer() -> Writer:
    return Writer(depth=2)


FLAT = 24  # the most predicates, over all variables, that every event evaluates without branches


def write_fits(
    automata: Iterable[Automaton], numbers: Mapping[str, int], scope_of: Callable[[Automaton], Scope]
) -> str:
    """Write the function that finds the variables that each event of a chunk fits, one bit each.

    It runs over every event, so it branches as little as it can: a mispredicted branch costs more than some
    comparisons. A predicate that can fault, or that would make the branch-free part too long, is evaluated
    only where the predicates before it hold.
    """
    filters: dict[str, tuple[Scope, tuple[Expr, ...]]] = {}
    for automaton in automata:
        for name, exprs in automaton.filters.items():
            filters.setdefault(name, (scope_of(automaton), exprs))
    writer = Writer(depth=2)
    hoisted: dict[str, str] = {}
    flat = sum(len(exprs) for _, exprs in filters.values()) <= FLAT
    for name, (scope, exprs) in filters.items():
        scope.newest, scope.hoisted = name, hoisted
        _write_variable(f"fits{numbers[name]}", 1 << numbers[name], exprs, scope, writer, flat=flat)
    head = [f"    {name} = {code}" for code, name in hoisted.items()]
    lines = ["def fits(n, cols, out) -> None:", *head, "    for e in range(n):", "        m = 0"]
    return "\n".join([*lines, *writer.lines, "        store(out + 8 * e, m)", ""])


def _write_variable(
    fits: str, bit: int, exprs: Iterable[Expr], scope: Scope, writer: Writer, *, flat: bool
) -> None:
    later = []
    sure = ["True"]
    for expr in exprs:
        trial = Writer(depth=writer.depth, names=writer.names)
        holds = truth(expr, scope, trial).true
        if flat and not any("(cols)" in line or line.lstrip().startswith("if ") for line in trial.lines):
            writer.lines += trial.lines
            writer.names = trial.names
            sure.append(holds)
        else:
            later.append(expr)
    writer.line(f"{fits} = {' and '.join(sure)}")
    for expr in later:
        with writer.block(f"if {fits}:"):
            writer.line(f"{fits} = {truth(expr, scope, writer).true}")
    writer.line(f"m |= {bit} if {fits} else 0")
