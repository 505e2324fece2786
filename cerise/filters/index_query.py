"""What a query asks of single events, so that they can be looked up: a safe filter query (semantics.md §9).

A branch is a pattern of variables in sequence or in any order; what each asks of an event on its own is what
an index can judge of its type and predicates [ACER24 §2.1]. Whatever cannot be judged holds everywhere, so
the events that are found are always a superset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cerise.events import Schema
from cerise.kinds import Kind
from cerise.pattern.bound import Bound, Branch
from cerise.pattern.expr import Expr
from cerise.pattern.query import Node, Unit
from cerise.plan.pushdown import Comparison, Test, index_tests
from cerise.store.index.lookup import Wanted

ANYTHING = Wanted(None, ())


@dataclass(frozen=True, slots=True)
class AskedBranch:
    """An OR-free part of a query.

    Attributes:
        pattern: its positive part: Var, Kleene, Seq and And.
        wants: what each variable asks, by name.
        absent: what its negated variables ask, and whatever else is kept inside of intervals.
        reaches: whether events before the first variable or after the last one matter: a NOT looks there, or
            rows that need not be there belong to the match.
    """

    pattern: Node
    wants: Mapping[str, Wanted]
    absent: tuple[Wanted, ...] = ()
    reaches: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query asks.

    Attributes:
        branches: an event is kept if one of them keeps it.
        window: how much time a match spans at most; None: any.
        why_all: why every event of an interval is kept, also those that fit no variable; None: they go.
    """

    branches: tuple[AskedBranch, ...]
    window: int | None
    why_all: str | None = None


def asked(bounds: Sequence[Bound], indexed: Iterable[str]) -> Asked | str:
    """Return what queries ask that is looked for together, or say why an index cannot help.

    Args:
        bounds: the queries.
        indexed: the columns whose values the index knows, the time and the type among them.
    """
    known = frozenset(indexed)
    found = [_asked(bound, known) for bound in bounds]
    for each in found:
        if isinstance(each, str):
            return each
    parts = [each for each in found if isinstance(each, Asked)]
    windows = [each.window for each in parts]
    window = None if None in windows else max(each for each in windows if each is not None)
    why_all = next((each.why_all for each in parts if each.why_all is not None), None)
    return settled(Asked(tuple(branch for each in parts for branch in each.branches), window, why_all))


def settled(query: Asked) -> Asked | str:
    """Return what is asked, with why all events are kept; or why an index cannot help."""
    why_all = query.why_all
    for branch in query.branches:
        wants = branch.wants.values()
        if why_all is None and ANYTHING in (*wants, *branch.absent):
            why_all = "a variable fits every event, as far as the index can tell"
        if all(each == ANYTHING for each in wants):
            return "no variable asks for a type, or for values of columns that are indexed"
    if why_all is not None and query.window is None:
        return f"{why_all}, and without WITHIN a match may span all events"
    return Asked(query.branches, query.window, why_all)


def _asked(bound: Bound, indexed: frozenset[str]) -> Asked | str:
    window = None
    if bound.within is not None:
        if bound.within.unit is Unit.EVENTS:
            return "the window counts every event"
        assert isinstance(bound.within.size, int)
        window = bound.within.size
    why_all = "contiguity counts every event" if bound.query.strategy.contiguous else None
    branches = tuple(_branch(each, bound.schema, indexed) for each in bound.branches)
    return Asked(branches, window, why_all)


def _branch(branch: Branch, schema: Schema, indexed: frozenset[str]) -> AskedBranch:
    wants = {name: wanted(exprs, schema, indexed) for name, exprs in branch.filters.items()}
    absent = [each.absence.var.name for each in branch.negations]
    return AskedBranch(
        branch.pattern,
        {name: each for name, each in wants.items() if name not in absent},
        tuple(wants[name] for name in absent),
        any(each.absence.at_end for each in branch.negations),
    )


def _names_types(test: Comparison) -> bool:
    """Tell whether a test lists types; an integer that is compared as a double may be one of several."""
    return test.op in ("=", "in") and test.kind is not Kind.FLOAT


def wanted(exprs: tuple[Expr, ...], schema: Schema, indexed: frozenset[str]) -> Wanted:
    """Return what of some predicates on one event an index can judge."""
    types: tuple[object, ...] | None = None
    tests: list[Test] = []
    for test in index_tests(exprs):
        name = test.path[0]
        if name == schema.type and isinstance(test, Comparison) and _names_types(test):
            types = test.values if types is None else tuple(each for each in types if each in test.values)
        elif len(test.path) == 1 and name in indexed:
            tests.append(test)
    return Wanted(types, tuple(tests))
