"""A branch as places that chains of events go through, so that its matches can be counted, not enumerated.

A place is a position in the pattern: a single variable, the first, second, … event of a Kleene variable, or
all later events. Every predicate must compare two neighbours of a chain, or an event with the event that
completes the match, or an event with an anchor: the event at a place that every chain passes exactly once.
For any other predicate matches must be enumerated, and `Unfit` names the predicate.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

from cerise.engines.automaton.automaton import Automaton
from cerise.engines.automaton.program import Unfit
from cerise.engines.rcep.plan import plan_of
from cerise.pattern.bound import Bound
from cerise.pattern.expr import At, Expr, Index, attributes
from cerise.pattern.query import Kleene, Node, Output, Seq, Var
from cerise.pattern.resolve import is_single_event
from cerise.pattern.show import show_expr
from cerise.plan.comparisons import TRANSITIVE, EventComparison, Side, comparison_of, is_sequence

MOST_PLACES = 24
MOST_ANCHORS = 2


@dataclass(frozen=True, slots=True)
class PatternPlace:
    """A position in the pattern: the n-th event of a variable; if it repeats, also all later events."""

    var: str
    number: int
    repeats: bool = False


@dataclass(slots=True)
class Layers:
    """The matches of a branch as chains of events through places.

    Attributes:
        last: the variable of the trigger, the event that completes a match.
        places: the places of the events before the trigger.
        alone: whether the trigger may be a match on its own.
        steps: for each step from place to place the comparisons of the two events.
        ends: for each place that the trigger may follow the comparisons of its event, on the left, with the
            trigger.
        tests: for each place the comparisons of its event, on the left, with the trigger of its chain.
        anchors: for each pair of a place and an anchor the comparisons of the event at the place, on the
            left, with the event at the anchor.
    """

    last: str
    places: list[PatternPlace] = field(default_factory=list)
    alone: bool = False
    steps: dict[tuple[int, int], list[EventComparison]] = field(default_factory=dict)
    ends: dict[int, list[EventComparison]] = field(default_factory=dict)
    tests: dict[int, list[EventComparison]] = field(default_factory=dict)
    anchors: dict[tuple[int, int], list[EventComparison]] = field(default_factory=dict)

    @property
    def compared(self) -> list[EventComparison]:
        """All comparisons, each once."""
        groups = (*self.steps.values(), *self.ends.values(), *self.tests.values(), *self.anchors.values())
        return list(dict.fromkeys(each for group in groups for each in group))

    def of(self, var: str) -> list[int]:
        return [i for i, place in enumerate(self.places) if place.var == var]


@functools.lru_cache(maxsize=64)
def layers_for(bound: Bound) -> tuple[Layers, ...]:
    """Return the branches of a query as layers whose chains can be counted.

    Raises:
        Unfit: the matches of the query must be enumerated.
    """
    query = bound.query
    if query.totals is None:
        raise Unfit("it asks for the matches themselves")
    if query.output is Output.NON_OVERLAPPING or query.limit is not None:
        raise Unfit("it chooses among matches")
    found = tuple(layers_of(automaton) for automaton in plan_of(bound).program.automata)
    for arg in bound.arguments:
        if not is_single_event(arg):
            raise Unfit(f"{show_expr(arg)} is a value of several events")
        for layers in found:
            places_of_argument(layers, arg)
    return found


def layers_of(automaton: Automaton) -> Layers:
    """Return a branch as layers.

    Raises:
        Unfit: its matches must be enumerated to be counted.
    """
    pattern = automaton.branch.pattern
    if not is_sequence(pattern):
        raise Unfit("the events of an AND have no order")
    if automaton.branch.negations:
        raise Unfit("a NOT must be judged match by match")
    items = pattern.items if isinstance(pattern, Seq) else (pattern,)
    return _Builder(items).build(automaton)


def places_of_argument(layers: Layers, arg: Expr) -> tuple[list[int], bool]:
    """Return the places whose events supply an aggregate with values, and whether the trigger does too.

    Raises:
        Unfit: the place of an event does not decide whether it supplies a value.
    """
    attr = attributes(arg)[0]
    own = layers.of(attr.var)
    kleene = any(layers.places[i].number > 1 for i in own)
    if attr.at is At.EVERY or (not kleene and attr.var != layers.last):
        return own, attr.var == layers.last
    if attr.at is At.LAST and attr.var == layers.last:
        return [], True
    if attr.at == 1 and attr.var != layers.last:
        return [i for i in own if layers.places[i].number == 1], False
    raise Unfit(f"{show_expr(arg)} is a value of an event without a place of its own")


class _Builder:
    """Makes places for the items of a sequence, and assigns each predicate to places."""

    def __init__(self, items: tuple[Node, ...]) -> None:
        self.items = [item if isinstance(item, Kleene) else Kleene(_var(item), 1, 1) for item in items]
        self.names = [item.var.name for item in self.items]
        self.layers = Layers(self.names[-1])
        self.chained: dict[str, list[EventComparison]] = {}

    def build(self, automaton: Automaton) -> Layers:
        left: list[int] = []  # the places from which a chain can step to the next item
        for number, item in enumerate(self.items):
            left = self._add_item(item, left, last=number == len(self.items) - 1)
        if len(self.layers.places) > MOST_PLACES:
            raise Unfit(f"its pattern has more than {MOST_PLACES} places")
        found = []
        for conjunct in (c for c in automaton.branch.conjuncts if not c.filters):
            compared = comparison_of(conjunct.expr)
            if compared is None or any(isinstance(n, int) and n > 1 for n in _meant(compared)):
                raise Unfit(f"{conjunct} does not compare two events whose places are known")
            found.append(compared.flip() if _meant(compared) == (At.CURRENT, At.PREVIOUS) else compared)
        self.chained = {name: [c for c in found if _links(c, name)] for name in self.names}
        for compared in found:
            self._place(compared)
        if len({anchor for _, anchor in self.layers.anchors}) > MOST_ANCHORS:
            raise Unfit(f"more than {MOST_ANCHORS} events are compared with events that are not neighbours")
        return self.layers

    # ---- places

    def _add_item(self, item: Kleene, before: list[int], *, last: bool) -> list[int]:
        """Add the places of an item; of the last item, only those of the events before the trigger."""
        low, high = item.low, item.high
        exact = max(low, 1) if high is None else high - 1 if last else high
        first = len(self.layers.places)
        self.layers.places += [PatternPlace(item.var.name, n + 1) for n in range(min(exact, MOST_PLACES + 1))]
        if high is None:
            self.layers.places.append(PatternPlace(item.var.name, exact + 1, repeats=True))
        own = list(range(first, len(self.layers.places)))
        steps = [(i, i + 1) for i in own[:-1]] + [(i, i) for i in own if self.layers.places[i].repeats]
        steps += [(i, first) for i in before if own]
        self.layers.steps |= {pair: [] for pair in steps}
        if not last:
            return [i for i in own if self.layers.places[i].number >= low]
        self.layers.alone = len(self.items) == 1 and low <= 1
        ends = [i for i in before if low <= 1]
        ends += [i for i in own if self.layers.places[i].number + 1 >= low]
        self.layers.ends |= {i: [] for i in ends}
        return []

    def _first(self, var: str) -> int:
        return next(i for i in self.layers.of(var) if self.layers.places[i].number == 1)

    def _of(self, side: Side) -> list[int]:
        own = self.layers.of(side.var)
        if side.at == 1:
            return own[:1]
        return own[1:] if side.at is At.CURRENT else own

    def _is_one(self, side: Side) -> bool:
        """Whether a side reads an event that every chain has exactly once."""
        item = self.items[self.names.index(side.var)]
        return side.at == 1 or (side.at is At.EVERY and item.high == 1)

    # ---- predicates

    def _place(self, compared: EventComparison) -> None:
        if compared.left.var == compared.right.var:
            self._place_within(compared)
            return
        if self.names.index(compared.left.var) > self.names.index(compared.right.var):
            compared = compared.flip()
        compared = self._reduce(compared)
        if compared.right.var == self.layers.last:
            self._place_at_end(compared)
        else:
            self._place_between(compared)

    def _reduce(self, compared: EventComparison) -> EventComparison:
        """Replace every event of a rising or falling Kleene variable by its first or last: that suffices."""
        left, right, op = compared.left, compared.right, compared.op
        if left.at is At.EVERY and self._neighbours(compared) and self._runs(left, op):
            compared = replace(compared, left=replace(left, at=At.LAST))
        linked = self._neighbours(compared) and self._is_newest(compared.left)
        if right.at is At.EVERY and self._runs(right, op) and (linked or right.var != self.layers.last):
            compared = replace(compared, right=replace(right, at=1))
        return compared

    def _runs(self, side: Side, op: str) -> bool:
        links = [c for c in self.chained[side.var] if c.left.expr == c.right.expr == side.expr]
        return op in TRANSITIVE and any(TRANSITIVE.get(link.op) == TRANSITIVE[op] for link in links)

    def _place_within(self, compared: EventComparison) -> None:
        """Place a comparison between events of one Kleene variable."""
        layers, var = self.layers, compared.left.var
        for way in (compared, compared.flip()):
            if _meant(way) == (At.PREVIOUS, At.CURRENT):
                own = set(layers.of(var))
                for pair, tests in layers.steps.items():
                    if set(pair) <= own:
                        tests.append(way)
                if var == layers.last:
                    for i in own & set(layers.ends):
                        layers.ends[i].append(way)
                return
            if _meant(way) == (At.CURRENT, 1):
                self._anchor(way, [i for i in layers.of(var) if layers.places[i].number > 1])
                if var == layers.last:
                    layers.tests.setdefault(self._first(var), []).append(way.flip())
                return
        raise Unfit(f"{_show(compared)} compares events of '{var}' that are not neighbours")

    def _place_at_end(self, compared: EventComparison) -> None:
        """Place a comparison with the variable of the event that completes a match."""
        left, right, layers = compared.left, compared.right, self.layers
        single = self.items[-1].high == 1
        known = single or right.at in (At.EVERY, At.LAST)  # the right side reads the trigger
        if known and not self._is_last(left):
            for i in self._of(left):
                layers.tests.setdefault(i, []).append(compared)
            if not single and right.at is At.EVERY:
                self._place_between(compared)
        elif self._neighbours(compared) and self._is_newest(left) and (single or right.at == 1):
            self._link(compared)
            for i in set(layers.of(left.var)) & set(layers.ends):
                layers.ends[i].append(compared)
        else:
            raise Unfit(f"{_show(compared)} reads an event without a place of its own")

    def _link(self, compared: EventComparison) -> None:
        before, own = set(self.layers.of(compared.left.var)), self.layers.of(compared.right.var)
        for (source, target), tests in self.layers.steps.items():
            if source in before and target in own:
                tests.append(compared)

    def _neighbours(self, compared: EventComparison) -> bool:
        return self.names.index(compared.right.var) == self.names.index(compared.left.var) + 1

    def _is_last(self, side: Side) -> bool:
        return side.at is At.LAST and self.items[self.names.index(side.var)].high != 1

    def _is_newest(self, side: Side) -> bool:
        """Whether a side reads the last event before the next item begins."""
        item = self.items[self.names.index(side.var)]
        return side.at is At.LAST or (item.high == 1 and side.at in (At.EVERY, 1))

    def _place_between(self, compared: EventComparison) -> None:
        """Place a comparison between two variables before the last."""
        left, right = compared.left, compared.right
        if self._neighbours(compared) and self._is_newest(left) and self._is_one(right):
            self._link(compared)
            return
        if At.LAST in (left.at, right.at):
            raise Unfit(f"{_show(compared)} reaches beyond the neighbours of a last event")
        if self._is_one(left):
            self._anchor(compared.flip(), self._of(right))
        elif self._is_one(right):
            self._anchor(compared, self._of(left))
        else:
            raise Unfit(f"{_show(compared)} compares every event of two Kleene variables")

    def _anchor(self, compared: EventComparison, places: list[int]) -> None:
        """Make the event of the right side an anchor, and compare the events at the given places with it."""
        if compared.right.var == self.layers.last and self.items[-1].low <= 1:
            raise Unfit(f"{_show(compared)} reads a first event that may also be the last")
        anchor = self._first(compared.right.var)
        for i in places:
            self.layers.anchors.setdefault((i, anchor), []).append(compared)


def _var(node: Node) -> Var:
    assert isinstance(node, Var), node
    return node


def _links(compared: EventComparison, var: str) -> bool:
    return compared.left.var == compared.right.var == var and _meant(compared) == (At.PREVIOUS, At.CURRENT)


def _meant(compared: EventComparison) -> tuple[Index, Index]:
    return compared.left.at, compared.right.at


def _show(compared: EventComparison) -> str:
    return f"{show_expr(compared.left.expr)} {compared.op} {show_expr(compared.right.expr)}"
