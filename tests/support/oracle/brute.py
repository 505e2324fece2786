"""A second oracle, from the law alone: no code of the reference, and none of the binder's rewrites.

Under skip_till_any_match and contiguity a match is *declared*: every assignment of events to variables is
written down and judged whole. Every strategy is also *searched*: from each start event, run by run, with an
explicit state per pattern node. Where both apply they must agree with each other, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import pyarrow as pa

from cerise.events import Schema
from cerise.pattern.expr import At, Expr
from cerise.pattern.query import And, Kleene, Node, Output, Query, Seq, Strategy, Unit, Var, walk_nodes
from tests.support.oracle.brute_search import searched
from tests.support.oracle.brute_values import Binding, bare, gathered, holds, instances
from tests.support.oracle.brute_world import (
    Absent,
    World,
    equivalent,
    in_window,
    partitions,
    places,
    size_of,
    stream,
    typed,
    worlds,
)  # fmt: skip

Match = tuple[tuple[int, ...], ...]  # for each variable in pattern order, the rows of the table


def matches(query: Query, schema: Schema, table: pa.Table, params: Mapping[str, Any]) -> list[Match]:
    """All matches that the query wants."""
    rows, events = stream(table, schema)
    names = [each.name for each in walk_nodes(query.pattern) if isinstance(each, Var)]
    wanted: list[Match] = []
    for inside in partitions(query, schema, events):
        own = [events[place] for place in inside]
        found: set[Match] = set()
        for world in worlds(query, schema, params, own):
            for binding in accepted(world):
                found.add(tuple(binding.get(name, ()) for name in names))
        wanted += [
            tuple(tuple(rows[inside[p]] for p in taken) for taken in match) for match in chosen(found, query)
        ]
    return wanted


# ---- what any match must satisfy


def accepted(world: World) -> list[Binding]:
    """The bindings of a branch: searched, and where a declaration is possible, declared as well."""
    found = {_frozen(each) for each in searched(world)}
    if world.query.strategy is not Strategy.NEXT and few(world):
        declared_too = {_frozen(each) for each in declared(world)}
        assert found == declared_too, f"the two oracles differ: {found ^ declared_too}"
    bindings: list[Binding] = [dict(each) for each in found]
    return [each for each in bindings if not vetoed(world, each)]


def _frozen(binding: Binding) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple(sorted(binding.items()))


def vetoed(world: World, binding: Binding) -> bool:
    """Whether a negated event occurs (S6)."""
    taken = places(binding)
    for absent in world.absences:
        tests = world.conjuncts(absent.var.name)
        for place in range(len(world.events)):
            if place in taken or not reaches(world, absent, binding, place):
                continue
            scope = world.scope({**binding, absent.var.name: (place,)})
            counts = {name: len(each) for name, each in binding.items()}
            if (
                typed(world, absent.var, place)
                and equivalent(world, [*taken, place])
                and all(holds(t, scope, n) for t in tests for n in instances(t, counts, world.kleene))
            ):
                return True
    return False


def reaches(world: World, absent: Absent, binding: Binding, place: int) -> bool:
    """Whether a negated event at this place would veto the match (S6.1–S6.4)."""
    taken = places(binding)
    after = [p for name in absent.after for p in binding[name]]
    before = [p for name in absent.before for p in binding[name]]
    if after and before:
        return max(after) < place < min(before)
    window = world.query.within
    assert window is not None
    size = size_of(world, window.size)
    if window.unit is Unit.EVENTS:
        early, late = taken[-1] - place < size, place - taken[0] < size
    else:
        early = world.time(place) >= world.time(taken[-1]) - size
        late = world.time(place) <= world.time(taken[0]) + size
    if absent.in_and:
        return early and late
    return early and place < taken[0] if not after else late and place > taken[-1]


# ---- declared: every assignment of events to variables


def declared(world: World) -> Iterator[Binding]:
    fits = {v.name: candidates(world, v) for v in walk_nodes(world.tree) if isinstance(v, Var)}
    tests = world.conjuncts()
    for binding in assignments(world.tree, fits, 0):
        taken = places(binding)
        gapless = taken[-1] - taken[0] == len(taken) - 1
        if (world.query.strategy is Strategy.ANY or gapless) and in_window(world, taken[0], taken[-1]):
            scope, counts = world.scope(binding), {name: len(each) for name, each in binding.items()}
            if equivalent(world, taken) and all(
                holds(test, scope, number)
                for test in tests
                for number in instances(test, counts, world.kleene)
            ):
                yield binding


def few(world: World) -> bool:
    """Whether all assignments can be written down."""
    count = 1
    for node in walk_nodes(world.tree):
        if isinstance(node, Var):
            count *= max(1, len(candidates(world, node)))
        elif isinstance(node, Kleene):
            count *= 2 ** len(candidates(world, node.var))
    return count <= 200_000


def candidates(world: World, var: Var) -> list[int]:
    """The events of a variable's type that satisfy what is said of each of its events alone."""
    own = [test for test in world.conjuncts() if alone(test, var.name)]
    return [
        place
        for place in range(len(world.events))
        if typed(world, var, place) and all(holds(t, world.scope({var.name: (place,)}), {}) for t in own)
    ]


def alone(test: Expr, name: str) -> bool:
    """Whether a conjunct speaks of each event of one variable and of nothing else."""
    attrs = bare(test)
    return bool(attrs) and not gathered(test) and all(a.var == name and a.at is At.EVERY for a in attrs)


def assignments(node: Node, fits: Mapping[str, list[int]], start: int) -> Iterator[Binding]:
    match node:
        case Var(name):
            yield from ({name: (place,)} for place in fits[name] if place >= start)
        case Kleene(var, low, high):
            later = [place for place in fits[var.name] if place >= start]
            for size in range(low, min(len(later), high or len(later)) + 1):
                yield from ({var.name: taken} for taken in combinations(later, size))
        case Seq((only,)) | And((only,)):
            yield from assignments(only, fits, start)
        case Seq((item, *rest)):
            for first in assignments(item, fits, start):
                for second in assignments(Seq(tuple(rest)), fits, max(places(first)) + 1):
                    yield {**first, **second}
        case And((item, *rest)):
            for first in assignments(item, fits, start):
                for second in assignments(And(tuple(rest)), fits, start):
                    if not set(places(first)) & set(places(second)):
                        yield {**first, **second}


# ---- which of the matches


def chosen(found: set[Match], query: Query) -> list[Match]:
    """OUTPUT and LIMIT (S7.1, S7.4)."""

    def rank(match: Match) -> tuple[int, int, Match]:
        taken = [place for each in match for place in each]
        return max(taken), min(taken), match

    kept = sorted(found, key=rank)
    if query.output is Output.NON_OVERLAPPING:
        rest, kept = kept, []
        while rest:
            kept.append(rest[0])
            rest = [match for match in rest if rank(match)[1] > rank(kept[-1])[0]]
    if query.limit is not None:
        firsts: dict[int, list[Match]] = {}
        for match in kept:
            firsts.setdefault(rank(match)[0], []).append(match)
        kept = [match for each in firsts.values() for match in each[: query.limit]]
    return kept


# ---- which events can matter at all


def useful(query: Query, schema: Schema, table: pa.Table, params: Mapping[str, Any]) -> list[int]:
    """The rows, in their order, with the type and own predicates of some variable (S9, row 1)."""
    order, events = stream(table, schema)
    kept: set[int] = set()
    for world in worlds(query, schema, params, events):
        for var in world.vars.values():
            kept |= set(candidates(world, var))
        for absent in world.absences:
            own = [test for test in world.conjuncts(absent.var.name) if alone(test, absent.var.name)]
            kept |= {
                place
                for place in range(len(events))
                if typed(world, absent.var, place)
                and all(holds(t, world.scope({absent.var.name: (place,)}), {}) for t in own)
            }
    return sorted(order[place] for place in kept)
