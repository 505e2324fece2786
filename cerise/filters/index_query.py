"""Index queries: tests of a query that an index can make on single events, a safe filter (semantics.md §9).

A branch is a pattern of variables in sequence or in any order. For each variable, the index tests the type
and the predicates on the event alone [ACER24 §2.1]. Predicates that it cannot test count as true, so the
events found are always a superset of those in matches.
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
from cerise.store.index.lookup import Criteria

ANYTHING = Criteria(None, ())


@dataclass(frozen=True, slots=True)
class IndexQueryBranch:
    """An OR-free part of a query.

    Attributes:
        pattern: its positive part: Var, Kleene, Seq and And.
        wants: the criteria of each variable, by name.
        absent: the criteria of its negated variables, and of other events to keep inside intervals.
        reaches: whether events before the first variable or after the last one matter: for a NOT at the end,
            or for optional rows that belong to the match.
    """

    pattern: Node
    wants: Mapping[str, Criteria]
    absent: tuple[Criteria, ...] = ()
    reaches: bool = False


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """A query of the index.

    Attributes:
        branches: the branches; an event is kept if one of them keeps it.
        window: how much time a match spans at most; None: unbounded.
        why_all: why all events of an interval are kept, even if they fit no variable; None: they are dropped.
    """

    branches: tuple[IndexQueryBranch, ...]
    window: int | None
    why_all: str | None = None


def build_index_query(bounds: Sequence[Bound], indexed: Iterable[str]) -> IndexQuery | str:
    """Return one index query for several queries, or the reason why an index cannot help.

    Args:
        bounds: the queries, which share one scan.
        indexed: the indexed columns, with time and type.
    """
    known = frozenset(indexed)
    found = [_build_query(bound, known) for bound in bounds]
    for each in found:
        if isinstance(each, str):
            return each
    parts = [each for each in found if isinstance(each, IndexQuery)]
    windows = [each.window for each in parts]
    window = None if None in windows else max(each for each in windows if each is not None)
    why_all = next((each.why_all for each in parts if each.why_all is not None), None)
    return settle(IndexQuery(tuple(branch for each in parts for branch in each.branches), window, why_all))


def settle(query: IndexQuery) -> IndexQuery | str:
    """Return the query with its final `why_all`, or the reason why an index cannot help."""
    why_all = query.why_all
    for branch in query.branches:
        wants = branch.wants.values()
        if why_all is None and ANYTHING in (*wants, *branch.absent):
            why_all = "a variable fits every event, as far as the index can tell"
        if all(each == ANYTHING for each in wants):
            return "no variable asks for a type, or for values of columns that are indexed"
    if why_all is not None and query.window is None:
        return f"{why_all}, and without WITHIN a match may span all events"
    return IndexQuery(query.branches, query.window, why_all)


def _build_query(bound: Bound, indexed: frozenset[str]) -> IndexQuery | str:
    window = None
    if bound.within is not None:
        if bound.within.unit is Unit.EVENTS:
            return "the window counts every event"
        assert isinstance(bound.within.size, int)
        window = bound.within.size
    why_all = "contiguity counts every event" if bound.query.strategy.contiguous else None
    branches = tuple(_branch(each, bound.schema, indexed) for each in bound.branches)
    return IndexQuery(branches, window, why_all)


def _branch(branch: Branch, schema: Schema, indexed: frozenset[str]) -> IndexQueryBranch:
    wants = {name: select_tests(exprs, schema, indexed) for name, exprs in branch.filters.items()}
    absent = [each.absence.var.name for each in branch.negations]
    return IndexQueryBranch(
        branch.pattern,
        {name: each for name, each in wants.items() if name not in absent},
        tuple(wants[name] for name in absent),
        any(each.absence.at_end for each in branch.negations),
    )


def _names_types(test: Comparison) -> bool:
    """Tell whether a test lists types exactly; several large integers may equal one double."""
    return test.op in ("=", "in") and test.kind is not Kind.FLOAT


def select_tests(exprs: tuple[Expr, ...], schema: Schema, indexed: frozenset[str]) -> Criteria:
    """Return the criteria that an index can test, of predicates on one event."""
    types: tuple[object, ...] | None = None
    tests: list[Test] = []
    for test in index_tests(exprs):
        name = test.path[0]
        if name == schema.type and isinstance(test, Comparison) and _names_types(test):
            types = test.values if types is None else tuple(each for each in types if each in test.values)
        elif len(test.path) == 1 and name in indexed:
            tests.append(test)
    return Criteria(types, tuple(tests))
