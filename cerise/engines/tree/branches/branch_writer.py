"""Writes the branches of a query as joins, and says why a query cannot be written so."""

from __future__ import annotations

import math

from cerise.engines.automaton.program import Unfit
from cerise.engines.tree.branches.join_branch import (
    Catalog,
    Form,
    JoinBranch,
    PairEnd,
    PairTest,
    Repeat,
    Veto,
    Which,
    scope_of,
)
from cerise.kinds import Kind
from cerise.pattern.bound import Bound, Branch, Conjunct, Negation
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import Agg, At, Expr, Index, attributes, walk
from cerise.pattern.query import And, Kleene, Node, Output, Seq, Strategy, Unit, Var
from cerise.pattern.show import show_expr
from cerise.pattern.values import Fault
from cerise.plan.comparisons import EventComparison, comparison_of
from cerise.plan.joins import JoinPattern, JoinTest

MOST_SLOTS = 40


def join_branches(bound: Bound, catalog: Catalog) -> tuple[JoinBranch, ...]:
    """Return the branches of a query that can match at all, as joins.

    Raises:
        Unfit: the query cannot run as joins.
    """
    query = bound.query
    if query.strategy is not Strategy.ANY:
        raise Unfit(f"{query.strategy.value} is greedy: its variables cannot be joined in any order")
    if bound.within is not None and bound.within.unit is Unit.EVENTS and not int(str(bound.within.size)):
        return ()  # a window of no events holds no match
    bindings = {frozenset(var.name for var in branch.variables) for branch in bound.branches}
    if len(bindings) < len(bound.branches):
        raise Unfit("two branches of its OR bind the same variables")
    found = tuple(
        _BranchWriter(bound, branch, catalog).join() for branch in bound.branches if _is_possible(branch)
    )
    chooses = query.output is Output.NON_OVERLAPPING or query.limit is not None
    for branch in found:
        if branch.waits and chooses:
            raise Unfit("it chooses among matches that a NOT at their end leaves open")
        if branch.waits and branch.repeats:
            raise Unfit("a NOT at its end waits for matches of a Kleene variable")
        if branch.waits and not scope_of(bound).in_order:
            raise Unfit(
                "a NOT at the end of a window that counts the events of a partition needs runs that wait"
            )
    return found


def _is_possible(branch: Branch) -> bool:
    """Whether the predicates without variables hold."""
    constant = [each.expr for each in branch.conjuncts if not attributes(each.expr)]
    return all(compile_expr(each, _ignore)({}, {}, {}) is True for each in constant)


def _ignore(_fault: Fault) -> None:
    """A constant that cannot be computed is null."""


_WHICH: dict[Index, Which] = {
    At.EVERY: Which.EVERY, 1: Which.FIRST, At.LAST: Which.LAST, At.CURRENT: Which.LATER,
}  # fmt: skip


class _BranchWriter:
    """Writes one branch as a join."""

    def __init__(self, bound: Bound, branch: Branch, catalog: Catalog) -> None:
        self.bound, self.branch, self.catalog = bound, branch, catalog
        self.scope = scope_of(bound)
        self.slots = {var.name: slot for slot, var in enumerate(branch.variables)}
        if len(self.slots) > MOST_SLOTS:
            raise Unfit(f"it has more than {MOST_SLOTS} variables")
        filters = branch.filters
        self.leaves = [catalog.leaf(filters[name], self.scope) for name in self.slots]
        self.kleene = {
            each.var.name: each for each in _kleenes(branch.pattern) if each.high is None or each.high > 1
        }
        self.tests: list[JoinTest] = []
        self.pairs: list[PairTest] = []
        self.links: dict[str, list[tuple[int, str, int]]] = {name: [] for name in self.kleene}

    def join(self) -> JoinBranch:
        for conjunct in self.branch.conjuncts:
            if not conjunct.filters and attributes(conjunct.expr):
                self._place(conjunct)
        vetoes = tuple(self._veto(each) for each in self.branch.negations)
        repeats = tuple(
            Repeat(self.slots[name], each.low, each.high, tuple(self.links[name]))
            for name, each in self.kleene.items()
        )
        within = self.bound.within
        window = math.inf if within is None else float(int(str(within.size)))
        pattern = JoinPattern(
            tuple(self.leaves), _before(self.branch.pattern, self.slots), tuple(dict.fromkeys(self.tests)),
            window, self.scope, sum(1 << each.slot for each in repeats), tuple(each.leaf for each in vetoes),
        )  # fmt: skip
        return JoinBranch(tuple(self.slots), pattern, tuple(self.pairs), repeats, vetoes)

    def _place(self, conjunct: Conjunct) -> None:
        """Make a conjunct a test of the joins, of an expansion, or of neighbours."""
        test = self._test(conjunct.expr, {})
        if test is None:
            return  # a comparison of neighbours
        left, right = test.left, test.right
        joined = (Which.EVERY, Which.LAST)
        if right is not None and left.which in joined and right.which in joined:
            self.tests.append(JoinTest(left.slot, test.op, right.slot, left.side, right.side))
            if left.which is right.which is Which.LAST or not (self._has_more(left) or self._has_more(right)):
                return  # the joins see all events that it concerns
        self.pairs.append(test)

    def _has_more(self, end: PairEnd) -> bool:
        """Whether an end concerns events that are not in a slot."""
        return end.which is not Which.LAST and end.slot in {self.slots[name] for name in self.kleene}

    def _test(self, expr: Expr, negated: dict[str, int]) -> PairTest | None:
        """Return a predicate as a test; None: it compares neighbours, and is among the links now.

        Args:
            expr: the predicate.
            negated: the leaf of the negated variable, by its name.
        """
        named = {(each.var, each.at) for each in attributes(expr)}
        if any(isinstance(each, Agg) for each in walk(expr)) or any(not a.path for a in attributes(expr)):
            raise Unfit(f"{_show(expr)} needs all events of a Kleene variable")
        if len(named) == 1:
            ((name, at),) = named
            return PairTest(self._end(name, at, expr, Form.TRUTH, negated), "=", None)
        compared = comparison_of(expr)
        if compared is None:
            raise Unfit(f"{_show(expr)} is not a comparison between two events")
        form = _form(compared)
        left, right = compared.left, compared.right
        if left.var == right.var:
            self._link(compared, form)
            return None
        if right.var in negated:
            compared, left, right = compared.flip(), right, left
        return PairTest(
            self._end(left.var, left.at, left.expr, form, negated),
            compared.op,
            self._end(right.var, right.at, right.expr, form, negated),
        )

    def _end(self, name: str, at: Index, expr: Expr, form: Form, negated: dict[str, int]) -> PairEnd:
        if name in negated:
            return PairEnd(-1, Which.EVERY, self.catalog.side(negated[name], expr, form))
        slot = self.slots[name]
        if name not in self.kleene:
            which = Which.EVERY if at in (At.EVERY, At.LAST, 1) else None
        else:
            which = _WHICH.get(at)
        if which is None:
            raise Unfit(f"{_show(expr)} needs an event in the middle of a Kleene variable")
        return PairEnd(slot, which, self.catalog.side(self.leaves[slot], expr, form))

    def _link(self, compared: EventComparison, form: Form) -> None:
        """Add a comparison of an event of a Kleene variable with the event before it."""
        if compared.left.at is At.CURRENT:
            compared = compared.flip()
        if (compared.left.at, compared.right.at) != (At.PREVIOUS, At.CURRENT):
            raise Unfit(f"it compares events of {compared.left.var} that are not neighbours")
        name = compared.left.var
        if name not in self.kleene:
            return  # one event has no neighbours
        leaf = self.leaves[self.slots[name]]
        left, right = (self.catalog.side(leaf, each.expr, form) for each in (compared.left, compared.right))
        self.links[name].append((left, compared.op, right))

    def _veto(self, negation: Negation) -> Veto:
        absence = negation.absence
        name = absence.var.name
        leaf = self.catalog.leaf(self.branch.filters[name], self.scope)
        tests = []
        for each in negation.tests:
            if each.filters:
                continue
            test = self._test(each.expr, {name: leaf})
            assert test is not None  # a negated variable has no neighbours
            tests.append(test)
        after, before = (
            tuple(self.slots[each] for each in names) for names in (absence.after, absence.before)
        )
        return Veto(leaf, absence, after, before, tuple(tests))


def _form(compared: EventComparison) -> Form:
    """Return the form in which both sides of a comparison are columns."""
    kinds = {compared.left.kind, compared.right.kind}
    if Kind.STRING in kinds:
        if compared.op not in ("=", "!="):
            raise Unfit("it compares strings of two events by order")
        return Form.TEXT
    return Form.DOUBLE if Kind.FLOAT in kinds else Form.NUMBER


def _show(expr: Expr) -> str:
    return show_expr(expr)[:60]


def _kleenes(node: Node) -> list[Kleene]:
    match node:
        case Kleene():
            return [node]
        case Seq(items) | And(items):
            return [each for item in items for each in _kleenes(item)]
    return []


def _before(node: Node, slots: dict[str, int]) -> tuple[int, ...]:
    """Return for each slot the slots whose events come before, as bit masks."""
    before = [0] * len(slots)

    def visit(node: Node, earlier: int) -> int:
        """Order a node after earlier slots; return its own slots."""
        match node:
            case Var(name):
                before[slots[name]] = earlier
                return 1 << slots[name]
            case Kleene(var):
                return visit(var, earlier)
            case And(items):
                return sum(visit(item, earlier) for item in items)
            case Seq(items):
                own = 0
                for item in items:
                    own |= visit(item, earlier | own)
                return own
        raise AssertionError(node)

    visit(node, 0)
    return tuple(before)
