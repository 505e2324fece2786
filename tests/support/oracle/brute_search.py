"""The runs of one branch, searched from each start event (S3.3–S3.5), with a state per pattern node.

State of a variable: whether it has its event; of a Kleene variable: how many; of a SEQ: at which item, in
which state; of an AND: the states of its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cerise.pattern.expr import At, Expr
from cerise.pattern.query import And, Kleene, Node, Seq, Strategy, Var, walk_nodes
from tests.support.oracle.brute_values import Binding, bare, gathered, holds, instances
from tests.support.oracle.brute_world import World, equivalent, in_window, places, typed

State = Any
Move = tuple[
    str, State, bool
]  # the variable that binds the event, the state after, whether it leaves a Kleene


def searched(world: World) -> Iterator[Binding]:
    """The binding of every accepting run."""
    for start in range(len(world.events)):
        yield from Search(world, world.conjuncts(), start).runs()


def initial(node: Node) -> State:
    match node:
        case Var():
            return False
        case Kleene():
            return 0
        case Seq(items):
            return (0, initial(items[0]))
        case And(items):
            return tuple(map(initial, items))
    raise AssertionError(node)


def done(node: Node, state: State) -> bool:
    match node:
        case Var():
            return bool(state)
        case Kleene(_, low):
            return bool(state >= low)
        case Seq(items):
            return state[0] == len(items) - 1 and done(items[-1], state[1])
        case And(items):
            return all(map(done, items, state))
    raise AssertionError(node)


def moves(node: Node, state: State) -> list[Move]:
    """The ways to bind one more event."""
    match node:
        case Var(name):
            return [] if state else [(name, True, False)]
        case Kleene(var, _, high):
            return [(var.name, state + 1, False)] if high is None or state < high else []
        case And(items):
            return [
                (name, (*state[:i], after, *state[i + 1 :]), proceeds)
                for i, item in enumerate(items)
                for name, after, proceeds in moves(item, state[i])
            ]
        case Seq(items):
            at, inner = state
            stay = moves(items[at], inner)
            found = [(name, (at, after), proceeds) for name, after, proceeds in stay]
            if done(items[at], inner) and at + 1 < len(items):
                entry = moves(items[at + 1], initial(items[at + 1]))
                found += [(name, (at + 1, after), bool(stay)) for name, after, _ in entry]
            return found
    raise AssertionError(node)


def over(node: Node, state: State) -> set[str]:
    """The variables that can take no event any more, because the run has gone past them."""
    match node:
        case And(items):
            return {name for item, inner in zip(items, state, strict=True) for name in over(item, inner)}
        case Seq(items):
            at, inner = state
            behind = {v.name for item in items[:at] for v in walk_nodes(item) if isinstance(v, Var)}
            return behind | over(items[at], inner)
    return set()


@dataclass(frozen=True)
class Known:
    """How many events each variable has, and which of them have all they will get."""

    counts: Mapping[str, int]
    final: set[str]

    def settles(self, test: Expr, number: Mapping[str, int]) -> bool:
        """Whether everything that one instance of a conjunct speaks of is there."""
        if any(self.counts.get(name, 0) < n for name, n in number.items()):
            return False
        for attr in bare(test):
            have = self.counts.get(attr.var, 0)
            if have < 1 or (attr.at is At.LAST and attr.var not in self.final):
                return False
            if isinstance(attr.at, int) and have < attr.at and attr.var not in self.final:
                return False
        return all(attr.at is not At.ALL or attr.var in self.final for attr in gathered(test))


@dataclass
class Search:
    """All runs that open on one event."""

    world: World
    tests: list[Expr]
    start: int

    def runs(self) -> Iterator[Binding]:
        yield from self.step(self.start, {}, initial(self.world.tree), None)

    def step(self, place: int, binding: Binding, state: State, known: Known | None) -> Iterator[Binding]:
        """Everything that a run can do from one event on."""
        if place == len(self.world.events) or not in_window(self.world, self.start, place):
            return
        wanted = False  # by an edge that needs no proceed move
        for name, after, proceeds in moves(self.world.tree, state):
            grown = {**binding, name: (*binding.get(name, ()), place)}
            then = self.known(grown, after)
            if self.allowed(name, place, grown, known, then):
                wanted |= not proceeds
                if done(self.world.tree, after) and self.judged(
                    grown, then, Known({}, set(grown)), rest=True
                ):
                    yield grown
                yield from self.step(place + 1, grown, after, then)
        if binding and self.ignores(wanted):
            yield from self.step(place + 1, binding, state, known)

    def ignores(self, wanted: bool) -> bool:
        match self.world.query.strategy:
            case Strategy.ANY:
                return True
            case Strategy.NEXT:
                return not wanted
        return False

    def known(self, binding: Binding, state: State) -> Known:
        counts = {name: len(taken) for name, taken in binding.items()}
        return Known(counts, over(self.world.tree, state) | self.world.missing)

    def allowed(self, name: str, place: int, grown: Binding, before: Known | None, after: Known) -> bool:
        """Whether the edge's formula holds: type, and each conjunct whose last identifier is bound now."""
        return (
            typed(self.world, self.world.vars[name], place)
            and equivalent(self.world, places(grown))
            and self.judged(grown, before, after)
        )

    def judged(self, binding: Binding, before: Known | None, after: Known, *, rest: bool = False) -> bool:
        """Whether all holds that `after` settles and `before` did not; of a complete match, all the rest."""
        scope = self.world.scope(binding)
        counts = {name: len(taken) for name, taken in binding.items()}
        return all(
            holds(test, scope, number)
            for test in self.tests
            for number in instances(test, counts, self.world.kleene)
            if (before is None or not before.settles(test, number)) and (rest or after.settles(test, number))
        )
