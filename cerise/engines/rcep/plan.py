"""Plans recomputation: the automata of a query, and the comparisons that prune events before the joins."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from enum import Enum

from cerise.engines.automaton.automaton import Automaton, looks_ahead
from cerise.engines.automaton.program import (
    Program,
    Unfit,
    program_of,
)
from cerise.engines.rcep.join_order import cost, mirror_query
from cerise.engines.rcep.plan_edges import PlanEdge, find_link, find_test, follows
from cerise.pattern.bound import Bound
from cerise.pattern.expr import At
from cerise.pattern.query import Output, Strategy
from cerise.plan.comparisons import TRANSITIVE, EventComparison, comparison_of, is_sequence

WORTH_IT = 2.0  # right-deep joins must cost half of left-deep joins, whose matches come in order


class Joins(Enum):
    """Where joins begin [RCEP §2.2]: at the first variable, or at the trigger."""

    LEFT = "left-deep"
    RIGHT = "right-deep"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of recomputing a query.

    Edges are numbered as in the program's tables; comparisons by their position in `compared`.

    Attributes:
        program: the automata, their formulas and tables.
        steps: the edges.
        branches: the branch of each edge.
        compared: the comparisons.
        links: for two consecutive edges, a comparison between their events.
        judged: for an edge, the comparisons of its event with the trigger.
        equal: for an edge, an equality between an earlier event of a single variable and its own event.
        leaps: for an edge, an inequality between the newest event of an earlier variable and its own event.
        waits: whether a NOT looks beyond the event that completes a match.
        mirror: the plan of the mirrored query, whose automata right-deep joins follow; None: left-deep joins.
        why: the reason for left- or right-deep joins.
    """

    program: Program
    steps: tuple[PlanEdge, ...]
    branches: tuple[int, ...]
    compared: tuple[EventComparison, ...]
    links: dict[tuple[int, int], int]
    judged: dict[int, tuple[int, ...]]
    equal: dict[int, int]
    leaps: dict[int, int]
    waits: bool
    mirror: Plan | None = None
    why: str = ""

    @property
    def by_start(self) -> bool:
        """Whether matches are found by their start, once no later event can veto them."""
        query = self.program.bound.query
        return self.waits and query.output is not Output.NON_OVERLAPPING and query.limit is None

    @property
    def joins(self) -> Joins:
        """Whether joins are left- or right-deep."""
        return Joins.LEFT if self.mirror is None else Joins.RIGHT


@functools.lru_cache(maxsize=64)
def plan_of(bound: Bound, joins: Joins | None = None) -> Plan:
    """Return the plan of a query, made once.

    Args:
        bound: the query.
        joins: left- or right-deep; None: the cheaper by the cost model.

    Raises:
        Unfit: recomputation cannot run the query, cannot join it that way, or has no advantage.
    """
    plan = _plan(bound)
    if joins is Joins.LEFT:
        return replace(plan, why="as asked")
    try:
        mirror = _plan(mirror_query(bound))
    except Unfit as reason:
        if joins is Joins.RIGHT:
            raise
        return replace(plan, why=str(reason))
    if joins is Joins.RIGHT:
        return replace(plan, mirror=mirror, why="as asked")
    left, right = _cost(plan, plan), _cost(mirror, plan)
    why = f"about {left:.2g} partial matches per trigger if left-deep, {right:.2g} if right-deep"
    return replace(plan, mirror=mirror if left > WORTH_IT * right else None, why=why)


def _plan(bound: Bound) -> Plan:
    if bound.query.strategy is not Strategy.ANY:
        raise Unfit(f"{bound.query.strategy.value} leaves few runs: recomputing them has no advantage")
    program = program_of(bound, merging=False)
    waits = any(looks_ahead(each.branch) for each in program.automata)
    if waits and program.by_position:
        raise Unfit("a NOT at the end of a window that counts events needs runs that wait")
    sequences = [is_sequence(each.branch.pattern) for each in program.automata]
    chooses = bound.query.output is Output.NON_OVERLAPPING or bound.query.limit is not None
    if chooses and not (len(sequences) <= 1 and all(sequences)):
        raise Unfit("it chooses among matches, and matches of AND, OR and ? are recomputed in no order")
    return _Planner(program).plan(waits=waits)


def _cost(walked: Plan, plan: Plan) -> float:
    """Return the estimated cost of joining a plan, or its mirror, for one trigger."""
    total = 0.0
    for number, automaton in enumerate(walked.program.automata):
        here = [j for j, branch in enumerate(plan.branches) if branch == number]
        (last,) = {
            plan.steps[j].var
            for j in here
            if plan.program.automata[number].states[plan.steps[j].edge.target].accepts is not None
        }
        judged = {
            plan.steps[j].var: tuple(plan.compared[test] for test in plan.judged.get(j, ())) for j in here
        }
        total += cost(automaton, last, judged)
    return total


class _Planner:
    """Assigns the comparisons of a query to the edges of its automata."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.kleene = program.bound.kleene
        self.compared: dict[EventComparison, int] = {}
        self.rows = list(_rows(program))

    def plan(self, *, waits: bool) -> Plan:
        links: dict[tuple[int, int], int] = {}
        judged: dict[int, tuple[int, ...]] = {}
        equal: dict[int, int] = {}
        leaps: dict[int, int] = {}
        for number, automaton in enumerate(self.program.automata):
            known = [
                each
                for conjunct in automaton.branch.conjuncts
                if not conjunct.filters and (each := comparison_of(conjunct.expr)) is not None
            ]
            here = [j for j, (branch, _) in enumerate(self.rows) if branch == number]
            if is_sequence(automaton.branch.pattern):
                links |= self._links(here, known)
            judged |= self._find_tests(here, known, automaton)
            equal |= self._equal(here, known)
            leaps |= self._leaps([j for j in here if j not in equal], known, automaton)
        return Plan(
            self.program, tuple(step for _, step in self.rows), tuple(branch for branch, _ in self.rows),
            tuple(self.compared), links, judged, equal, leaps, waits,
        )  # fmt: skip

    def _number(self, compared: EventComparison) -> int:
        return self.compared.setdefault(compared, len(self.compared))

    def _links(self, here: list[int], known: list[EventComparison]) -> dict[tuple[int, int], int]:
        """Return a comparison for each two consecutive edges; inequalities are preferred."""
        found: dict[tuple[int, int], EventComparison] = {}
        for j in here:
            for then in here:
                step, after = self.rows[j][1], self.rows[then][1]
                if after.edge.source != step.edge.target:
                    continue
                linked = [link for each in known if (link := find_link(each, step, after, self.kleene))]
                if linked:
                    found[j, then] = min(linked, key=lambda link: (link.op == "!=", link.op == "="))
        return {pair: self._number(link) for pair, link in found.items()}

    def _find_tests(
        self, here: list[int], known: list[EventComparison], automaton: Automaton
    ) -> dict[int, tuple[int, ...]]:
        """Return for each edge the comparisons of its event with the trigger."""
        ends = {
            self.rows[j][1].var
            for j in here
            if automaton.states[self.rows[j][1].edge.target].accepts is not None
        }
        if len(ends) != 1:
            return {}
        (last,) = ends
        found = {
            j: tuple(
                self._number(test)
                for each in known
                if (test := find_test(each, self.rows[j][1], last, self.kleene))
            )
            for j in here
        }
        return {j: tests for j, tests in found.items() if tests}

    def _equal(self, here: list[int], known: list[EventComparison]) -> dict[int, int]:
        """Return for each edge an equality with an earlier event of a single variable."""
        found: dict[int, int] = {}
        for j in here:
            step = self.rows[j][1]
            before = self.program.automata[self.rows[j][0]].states[step.edge.source].started
            for each in known:
                for way in (each, each.flip()):
                    bound = way.left.var in before and way.left.var not in self.kleene
                    mine = way.right.var == step.var and way.right.at is At.EVERY
                    if way.op == "=" and bound and mine:
                        found.setdefault(j, self._number(way))
        return found

    def _leaps(self, here: list[int], known: list[EventComparison], automaton: Automaton) -> dict[int, int]:
        """Return for each edge an inequality with the newest event of an earlier variable, or its own."""
        found: dict[int, int] = {}
        ends = is_sequence(automaton.branch.pattern)  # in AND a newest event need not stay the last
        for j in here:
            step = self.rows[j][1]
            before = automaton.states[step.edge.source].started
            ways = [way for each in known for way in (each, each.flip()) if way.op in TRANSITIVE]
            usable = [
                way
                for way in ways
                if way.left.var in before
                and (ends or way.left.at is not At.LAST)
                and follows(way, step, self.kleene)
            ]
            if usable:  # a comparison with the event just before is the most selective
                found[j] = self._number(min(usable, key=lambda way: way.left.var != step.var))
        return found


def _rows(program: Program) -> list[tuple[int, PlanEdge]]:
    """Return the edges in the order of the program's table: edges of states first, then starts."""
    inner: list[tuple[int, PlanEdge]] = []
    opening: list[tuple[int, PlanEdge]] = []
    for number, automaton in enumerate(program.automata):
        for state in range(len(automaton.states)):
            for edge in automaton.edges_from(state):
                step = PlanEdge(edge, edge.var not in automaton.states[state].started)
                (inner if state else opening).append((number, step))
    return inner + opening
