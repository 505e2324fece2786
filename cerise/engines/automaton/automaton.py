"""A branch of a query as an NFA^b: states, edges and the formulas on them [SASE08 §3.2].

A state is the set of variables that have begun: this set, and the number of events of each Kleene variable,
determine where a run stands. So SEQ gives a line of states, AND the product of its members (S3.5), and the
pair p[1], p[i] of 004 is the edge that begins p and the state that p has begun. A run never follows a proceed
edge on its own (step 6): it is part of the edge that begins the next variable.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from cerise.pattern.bound import STEP, Branch, Conjunct, constant_indices, final_variables
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import At, Expr, attributes, outside_aggregates
from cerise.pattern.query import And, Kleene, Node, Seq, Var, variables
from cerise.pattern.values import Fault

Started = frozenset[str]
Bounds = tuple[tuple[str, int], ...]  # (Kleene variable, a number of events)
MAX_STATES = 1024


@dataclass(frozen=True, slots=True)
class Test:
    """A conjunct, and the bindings it needs before it can be judged (S4.1, S4.3).

    Attributes:
        expr: the predicate.
        needs: the variables that must have an event.
        finals: the Kleene variables that the run must have left.
        indexed: the (variable, k) of every b[k].
        runs_over: the Kleene variables whose events it tests one by one, each with the number of the first
            event it tests.
    """

    expr: Expr
    needs: frozenset[str]
    finals: frozenset[str]
    indexed: Bounds
    runs_over: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, conjunct: Conjunct, kleene: frozenset[str]) -> Test:
        """Return the test of a bound conjunct."""
        expr = conjunct.expr
        every = [each.var for each in outside_aggregates(expr) if each.at is At.EVERY and each.var in kleene]
        step = [each.var for each in attributes(expr) if each.at in STEP]
        return cls(
            expr,
            conjunct.variables,
            final_variables(expr),
            tuple(dict.fromkeys((each.var, int(str(each.at))) for each in constant_indices(expr))),
            tuple((dict.fromkeys(every, 1) | dict.fromkeys(step, 2)).items()),
        )


@dataclass(frozen=True, slots=True)
class Check:
    """A test on an edge, and the events that decide whether the edge makes it.

    Attributes:
        test: the test.
        before: the b[k] that a run has if an earlier edge has made the test; None: no earlier edge makes it.
        after: the b[k] that a run must have for the test to be made now.
    """

    test: Test
    before: Bounds | None
    after: Bounds


@dataclass(frozen=True, slots=True)
class Edge:
    """A begin or take edge, with the proceed move that may come before it.

    Attributes:
        source: the state it leaves.
        target: the state it leads to.
        var: the variable that binds the event.
        least: how many events the Kleene variables that it leaves must have.
        below: the number of events that its own Kleene variable must be below; None: no limit.
        opens: the Kleene variables that it leaves although they could take more events, each with the
            largest number of events it can take; None: no limit.
        checks: the tests that it makes.
    """

    source: int
    target: int
    var: str
    least: Bounds
    below: int | None
    opens: tuple[tuple[str, int | None], ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A position in the pattern.

    Attributes:
        started: the variables that have begun.
        accepts: how many events Kleene variables must have for a match here; None: no match here.
        open_tests: the tests that only a match here makes.
    """

    started: Started
    accepts: Bounds | None
    open_tests: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Automaton:
    """The NFA^b of one branch; state 0 is the start, where nothing is bound."""

    branch: Branch
    states: tuple[State, ...]
    edges: tuple[Edge, ...]
    filters: dict[str, tuple[Expr, ...]]
    negations: tuple[tuple[Test, ...], ...]
    possible: bool = True
    too_large: bool = field(default=False)

    def edges_from(self, state: int) -> tuple[Edge, ...]:
        """Return the edges that leave a state; `edges` is sorted by source."""
        first, last = (bisect_left(self.edges, n, key=lambda edge: edge.source) for n in (state, state + 1))
        return self.edges[first:last]


def looks_ahead(branch: Branch) -> bool:
    """Whether a NOT reaches beyond the last event of a match."""
    return any(n.absence.anywhere or not n.absence.before for n in branch.negations)


def build(branch: Branch, kleene: frozenset[str], absent: frozenset[str]) -> Automaton:
    """Compile a branch.

    Args:
        branch: an OR-free query.
        kleene: the Kleene variables.
        absent: the variables of other branches that this branch lacks.
    """
    tests = tuple(Test.of(c, kleene) for c in branch.conjuncts if not c.filters)
    judge = _Judge(tests, branch.pattern, absent)
    found: dict[Started, int] = {frozenset(): 0}
    edges: list[Edge] = []
    queue: list[Started] = [frozenset()]
    for started in queue:  # grows during the loop
        if len(found) > MAX_STATES:
            return Automaton(branch, (), (), {}, (), too_large=True)
        for edge in _find_edges(branch.pattern, started):
            after = started | {edge.var}
            if after not in found:
                found[after] = len(found)
                queue.append(after)
            checks = judge.on_edge(started, after, edge.var)
            edges.append(
                Edge(found[started], found[after], edge.var, edge.least, edge.below, edge.opens, checks)
            )
    states = tuple(
        State(
            s, complete := _completes(branch.pattern, s), judge.find_open(s) if complete is not None else ()
        )
        for s in found
    )
    negations = tuple(
        tuple(Test.of(c, kleene) for c in each.tests if not c.filters) for each in branch.negations
    )
    return Automaton(branch, states, tuple(edges), branch.filters, negations, judge.constants_hold())


# ---- structure


@dataclass(frozen=True, slots=True)
class _BareEdge:
    """An edge before its formula is known."""

    var: str
    least: Bounds = ()
    below: int | None = None
    opens: tuple[tuple[str, int | None], ...] = ()


def _find_edges(node: Node, started: Started) -> list[_BareEdge]:
    """Return the begin and take edges that lead on (S3.3, S3.5)."""
    match node:
        case Var(name):
            return [] if name in started else [_BareEdge(name)]
        case Kleene(var, _, high):
            if var.name in started:
                return [] if high == 1 else [_BareEdge(var.name, below=high)]
            return [_BareEdge(var.name)]
        case And(items):
            return [edge for item in items for edge in _find_edges(item, started)]
        case Seq(items):
            now = _current(items, started)
            edges_on = _find_edges(items[now], started)
            least = _completes(items[now], started)
            if least is not None and now + 1 < len(items):
                opens = _opens(items[now])
                edges_on += [
                    _BareEdge(edge.var, least + edge.least, edge.below, opens + edge.opens)
                    for edge in _find_edges(items[now + 1], started)
                ]
            return edges_on
    raise AssertionError(node)


def _current(items: tuple[Node, ...], started: Started) -> int:
    """Return the item of a SEQ at which a run stands: the last item that has an event."""
    begun = (i for i, item in enumerate(items) if any(var.name in started for var in variables(item)))
    return max(begun, default=0)


def _completes(node: Node, started: Started) -> Bounds | None:
    """Return how many events Kleene variables need for a node to be complete; None: it is not complete."""
    match node:
        case Var(name):
            return () if name in started else None
        case Kleene(var, low):
            if var.name not in started:
                return None
            return ((var.name, low),) if low > 1 else ()
        case And(items):
            parts = [_completes(item, started) for item in items]
            known = [part for part in parts if part is not None]
            return sum(known, ()) if len(known) == len(parts) else None
        case Seq(items):
            last = _current(items, started) == len(items) - 1
            return _completes(items[-1], started) if last else None
    raise AssertionError(node)


def _opens(node: Node) -> tuple[tuple[str, int | None], ...]:
    """Return the Kleene variables of a complete node that could still take events."""
    match node:
        case Kleene(var, _, high):
            return () if high == 1 else ((var.name, high),)
        case And(items):
            return sum((_opens(item) for item in items), ())
        case Seq(items):
            return _opens(items[-1])
    return ()


def _find_final(node: Node, started: Started) -> frozenset[str]:
    """Return the variables that a run has left for good, so that their final values are known."""
    match node:
        case And(items):
            return frozenset().union(*(_find_final(item, started) for item in items))
        case Seq(items):
            now = _current(items, started)
            passed = (var.name for item in items[:now] for var in variables(item))
            return _find_final(items[now], started).union(passed)
    return frozenset()


# ---- predicates: each is judged on the edge of its last identifier (step 2)


@dataclass(frozen=True, slots=True)
class _Judge:
    tests: tuple[Test, ...]
    pattern: Node
    absent: frozenset[str]

    def on_edge(self, before: Started, after: Started, var: str) -> tuple[Check, ...]:
        """Return the tests that can be judged once an edge has bound one more event."""
        checks = []
        for test in self.tests:
            now, then = self._find_bounds(test, after), self._find_bounds(test, before)
            again = var in dict(test.runs_over)
            if now is None or (then == () and not again):
                continue
            if then is None or then or again:
                checks.append(Check(test, then, now))
        return tuple(checks)

    def find_open(self, started: Started) -> tuple[Check, ...]:
        """Return the tests that only a match in a state makes."""
        found = [(test, self._find_bounds(test, started)) for test in self.tests]
        return tuple(Check(test, now, ()) for test, now in found if now != ())

    def constants_hold(self) -> bool:
        """Judge the tests that need no event: constants, and aggregates of variables not in this branch."""
        known = [t for t in self.tests if self._find_bounds(t, frozenset()) == () and not t.runs_over]
        return all(compile_expr(test.expr, _ignore)({}, {}, {}) is True for test in known)

    def _find_bounds(self, test: Test, started: Started) -> Bounds | None:
        """Return the b[k] that a run must have for a test to be judged; None: it cannot be judged yet."""
        final = _find_final(self.pattern, started) | self.absent
        if not (test.needs <= started and test.finals <= final):
            return None
        return tuple((var, k) for var, k in test.indexed if var not in final and k > 1)


def _ignore(_fault: Fault) -> None:
    """A constant that cannot be computed is null."""
