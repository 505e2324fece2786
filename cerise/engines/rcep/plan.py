"""How a query is recomputed: its automata, and what comparisons tell about them before anything is joined."""

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
from cerise.engines.rcep.comparisons import (
    TRANSITIVE,
    Comparison,
    Step,
    comparison_of,
    follows,
    is_sequence,
    judging,
    linking,
)
from cerise.engines.rcep.join_order import cost, mirrored
from cerise.pattern.bound import Bound
from cerise.pattern.expr import At
from cerise.pattern.query import Output, Strategy

WORTH_IT = 2.0  # how many times as much left-deep joins must cost: their matches come in order


class Joins(Enum):
    """Where joins begin [RCEP §2.2]: at the first variable, or at the trigger."""

    LEFT = "left-deep"
    RIGHT = "right-deep"


@dataclass(frozen=True, slots=True)
class Plan:
    """What recomputation knows about a query.

    Edges are numbered as in the program's tables.

    Attributes:
        program: the automata, their formulas and tables.
        steps: the edges.
        branches: the branch of each edge.
        compared: the comparisons that links, judged and equal name by number.
        links: for two edges that follow each other, a comparison between their events.
        judged: for an edge, comparisons of its event with the one that completes the match.
        equal: for an edge, an equality between an event bound before, by its variable, and its own.
        leaps: for an edge, an inequality between the newest event of a variable bound before and its own.
        waits: whether a NOT looks beyond the event that completes a match.
        mirror: the plan of the mirrored query, whose automata are walked where joins begin at the trigger.
        why: why joins begin where they do.
    """

    program: Program
    steps: tuple[Step, ...]
    branches: tuple[int, ...]
    compared: tuple[Comparison, ...]
    links: dict[tuple[int, int], int]
    judged: dict[int, tuple[int, ...]]
    equal: dict[int, int]
    leaps: dict[int, int]
    waits: bool
    mirror: Plan | None = None
    why: str = ""

    @property
    def by_start(self) -> bool:
        """Whether matches are found when their start is so far back that no NOT can forbid them any more."""
        query = self.program.bound.query
        return self.waits and query.output is not Output.NON_OVERLAPPING and query.limit is None

    @property
    def joins(self) -> Joins:
        """Where joins begin."""
        return Joins.LEFT if self.mirror is None else Joins.RIGHT


@functools.lru_cache(maxsize=64)
def plan_of(bound: Bound, joins: Joins | None = None) -> Plan:
    """Return the plan of a query, made once.

    Args:
        bound: the query.
        joins: where joins begin; None: where it should cost less.

    Raises:
        Unfit: recomputation cannot run the query, or so, or it makes no sense.
    """
    plan = _planned(bound)
    if joins is Joins.LEFT:
        return replace(plan, why="as asked")
    try:
        mirror = _planned(mirrored(bound))
    except Unfit as reason:
        if joins is Joins.RIGHT:
            raise
        return replace(plan, why=str(reason))
    if joins is Joins.RIGHT:
        return replace(plan, mirror=mirror, why="as asked")
    left, right = _cost(plan, plan), _cost(mirror, plan)
    why = f"about {left:.2g} partial matches per trigger if left-deep, {right:.2g} if right-deep"
    return replace(plan, mirror=mirror if left > WORTH_IT * right else None, why=why)


def _planned(bound: Bound) -> Plan:
    if bound.query.strategy is not Strategy.ANY:
        raise Unfit(
            f"{bound.query.strategy.value} leaves few runs: nothing is to be gained by recomputing them"
        )
    program = program_of(bound, merging=False)
    waits = any(looks_ahead(each.branch) for each in program.automata)
    if waits and program.by_position:
        raise Unfit("a NOT at the end of a window that counts events needs runs that wait")
    sequences = [is_sequence(each.branch.pattern) for each in program.automata]
    chooses = bound.query.output is Output.NON_OVERLAPPING or bound.query.limit is not None
    if chooses and not (len(sequences) <= 1 and all(sequences)):
        raise Unfit("it chooses among matches, and those of AND, OR and ? are recomputed in no order")
    return _Planner(program).plan(waits=waits)


def _cost(walked: Plan, plan: Plan) -> float:
    """Return what it should cost to walk the automata of a plan, or of its mirror, for one trigger."""
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
    """Collects the comparisons of a query."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.kleene = program.bound.kleene
        self.compared: dict[Comparison, int] = {}
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
            judged |= self._judged(here, known, automaton)
            equal |= self._equal(here, known)
            leaps |= self._leaps([j for j in here if j not in equal], known, automaton)
        return Plan(
            self.program, tuple(step for _, step in self.rows), tuple(branch for branch, _ in self.rows),
            tuple(self.compared), links, judged, equal, leaps, waits,
        )  # fmt: skip

    def _number(self, compared: Comparison) -> int:
        return self.compared.setdefault(compared, len(self.compared))

    def _links(self, here: list[int], known: list[Comparison]) -> dict[tuple[int, int], int]:
        """Return a comparison for each two edges of which one follows the other; of several, one of order."""
        found: dict[tuple[int, int], Comparison] = {}
        for j in here:
            for then in here:
                step, after = self.rows[j][1], self.rows[then][1]
                if after.edge.source != step.edge.target:
                    continue
                linked = [link for each in known if (link := linking(each, step, after, self.kleene))]
                if linked:
                    found[j, then] = min(linked, key=lambda link: (link.op == "!=", link.op == "="))
        return {pair: self._number(link) for pair, link in found.items()}

    def _judged(
        self, here: list[int], known: list[Comparison], automaton: Automaton
    ) -> dict[int, tuple[int, ...]]:
        """Return what the event that completes a match says about each edge's event."""
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
                if (test := judging(each, self.rows[j][1], last, self.kleene))
            )
            for j in here
        }
        return {j: tests for j, tests in found.items() if tests}

    def _equal(self, here: list[int], known: list[Comparison]) -> dict[int, int]:
        """Return for each edge an equality with the event of a single variable that is bound before."""
        found: dict[int, int] = {}
        for j in here:
            step = self.rows[j][1]
            before = self.program.automata[self.rows[j][0]].states[step.edge.source].started
            for each in known:
                for way in (each, each.flipped()):
                    bound = way.left.var in before and way.left.var not in self.kleene
                    mine = way.right.var == step.var and way.right.at is At.EVERY
                    if way.op == "=" and bound and mine:
                        found.setdefault(j, self._number(way))
        return found

    def _leaps(self, here: list[int], known: list[Comparison], automaton: Automaton) -> dict[int, int]:
        """Return for each edge an inequality with the newest event of a variable that is bound before."""
        found: dict[int, int] = {}
        ends = is_sequence(automaton.branch.pattern)  # else the newest event need not stay the last
        for j in here:
            step = self.rows[j][1]
            before = automaton.states[step.edge.source].started
            ways = [way for each in known for way in (each, each.flipped()) if way.op in TRANSITIVE]
            usable = [
                way
                for way in ways
                if way.left.var in before
                and (ends or way.left.at is not At.LAST)
                and follows(way, step, self.kleene)
            ]
            if usable:  # what is compared with the event before tells most
                found[j] = self._number(min(usable, key=lambda way: way.left.var != step.var))
        return found


def _rows(program: Program) -> list[tuple[int, Step]]:
    """Return the edges in the order of the program's table: those of states, then those that open runs."""
    inner: list[tuple[int, Step]] = []
    opening: list[tuple[int, Step]] = []
    for number, automaton in enumerate(program.automata):
        for state in range(len(automaton.states)):
            for edge in automaton.edges_from(state):
                step = Step(edge, edge.var not in automaton.states[state].started)
                (inner if state else opening).append((number, step))
    return inner + opening
