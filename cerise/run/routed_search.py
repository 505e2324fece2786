"""Feeds the events of a slice to many queries: to each only the events that fit one of its variables.

An event that fits no variable of a query cannot touch its runs (semantics.md §9, row 1), unless contiguity or
a window in events counts it: then the query takes all events, once one of them fits. All queries share one
router, so that an event costs a hash and a search among few bounds, however many queries there are. A search
starts with the first event of its query; many queries run one after another over events that memory holds,
and one that has few events runs in the reference, which needs no machine code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.totals import Positions
from cerise.events import EventBatch, Ints, Path
from cerise.kinds import INT64_MAX
from cerise.pattern.bound import Bound
from cerise.pattern.query import Not, Seq, Strategy, Unit, Var, Window
from cerise.plan.pushdown import Comparison, Needed, tests_of
from cerise.plan.router import Router, router_of
from cerise.run.many.query_names import name_errors
from cerise.run.many.united_answers import Part
from cerise.run.question import Questions, Work, add
from cerise.run.sase_search import Sase, SaseSearch

LEAST_ROUTED = 2  # queries that are worth a router
MANY = 4  # times as many as few are worth one only to see which have no event
WORTH_ALL = 8  # a query takes all events if more than one event in 8 fits it
LASTING = 256  # queries whose machine code the next slice finds again: `kernels.formulas.KEPT`
GONE = 4  # times as many pairs as the reference searches for more queries than these
SPARSE = 64  # rows are sorted, not marked, if they are at most one in 64


def find_routed(questions: Questions, numbers: Iterable[int], options: Options) -> list[int]:
    """Return the numbers of the questions that get events by a router; none, if they are too few.

    Args:
        questions: the questions.
        numbers: the questions that are asked over the same events in the same order, each by itself.
        options: how to run.
    """
    tests = {number: tests_of_events(questions.each[number]) for number in numbers}
    known = [number for number, each in tests.items() if each is not None]
    if len(known) > MANY * options.limits.few_searches:
        return known
    found = [number for number in known if questions.each[number].needs.filter is not None]
    return found if len(found) >= LEAST_ROUTED else []


def tests_of_events(question: object) -> Needed | None:
    """Return the tests of events that fit a variable; None: every event may fit one."""
    if not isinstance(question, Sase) or question.inner is not None:
        return None
    if question.needs.filter is not None:
        return question.needs.filter
    filters = [exprs for branch in question.bound.branches for exprs in branch.filters.values()]
    tests = tuple(dict.fromkeys(map(tests_of, filters)))
    return tests if all(tests) and not Positions.wanted(question.bound) else None


def pick_events(events: EventBatch, rows: Ints) -> EventBatch:
    """Return the events at some rows, which ascend, with all that a search needs to know about them.

    >>> import pyarrow as pa
    >>> from cerise.events import Schema
    >>> table = pa.table({"t": [1, 2, 3]})
    >>> events = EventBatch.of(table, Schema(table.schema, "t"))
    >>> pick_events(events, np.array([0, 2])).positions.tolist()
    [0, 2]
    """
    opens = None if events.opens is None else events.opens[rows]
    return replace(events.take(rows), opens=opens)


class RoutedQuery:
    """The search of one query, which starts with its first event; errors name the query.

    Args:
        questions: the questions.
        number: the number of the one that is searched for.
        work: the environment of the search.
        pairs: pairs of events up to which the reference searches for it; see `Limits.small_pairs`.
    """

    def __init__(self, questions: Questions, number: int, work: Work, pairs: int = 0) -> None:
        question = questions.each[number]
        assert isinstance(question, Sase)
        self.number, self.question, self.tests = number, question, tests_of_events(question) or ()
        self._takes_all = question.needs.filter is None  # as soon as one event fits a variable
        self.shown, self._work, self._pairs = questions.show_name(number) or "", work, pairs
        self._search: SaseSearch | None = None

    def feed(self, events: EventBatch, rows: Ints) -> Iterator[Part]:
        """Take the next events; yield rows that become final.

        Args:
            events: the events of all queries.
            rows: the rows of those that fit a variable of this query.
        """
        if not len(rows) and (self._search is None or not self._takes_all):
            return
        with name_errors(self.shown):
            if self._search is None:
                self._search = self.question.start(self._work)
            every = self._takes_all or is_worth_all(len(rows), len(events))
            some = events if every else pick_events(events, rows)
            for table in self._search.feed(some):
                yield self.number, table

    def flush(self) -> Iterator[Part]:
        """Yield the rows that become final at the end of the events; free code, runs and buffers."""
        if self._search is None and self.question.bound.query.totals is None:
            return
        with name_errors(self.shown):
            search = self._search or self.start_small()
            self._search = None
            for table in search.flush():
                yield self.number, table

    def answer(self, batches: Sequence[EventBatch], rows: Sequence[Ints]) -> Iterator[Part]:
        """Yield the answer over all events of the query."""
        if self._takes_all and any(map(len, rows)):
            rows = [np.arange(len(events)) for events in batches]
        if self._search is None and self._is_small(batches, rows):
            batches = [pick_events(events, some) for events, some in zip(batches, rows, strict=True)]
            rows = [np.arange(len(some)) for some in rows]
            with name_errors(self.shown):
                self._search = self.start_small()
        for events, some in zip(batches, rows, strict=True):
            yield from self.feed(events, some)
        yield from self.flush()

    def start_small(self) -> SaseSearch:
        """Return a search that needs no machine code, for few events or none."""
        matcher = ENGINES["reference"].start(self.question.bound, self._work.options)
        return SaseSearch(self.question, self._work, matcher)

    def _is_small(self, batches: Sequence[EventBatch], rows: Sequence[Ints]) -> bool:
        """Whether the reference answers sooner than machine code is made."""
        options, bound, count = self._work.options, self.question.bound, sum(map(len, rows))
        if not count or options.engine is not None or any(each.equals is not None for each in batches):
            return False
        if not starts_one_run(bound):
            return count <= options.limits.small_forked
        if count > self._pairs or bound.query.strategy.contiguous:  # then runs end at once
            return count <= self._pairs
        times = np.concatenate([events.times[some] for events, some in zip(batches, rows, strict=True)])
        return count_pairs(times, bound.within) <= self._pairs


def count_pairs(times: Ints, within: Window | None) -> int:
    """Return how many pairs of events a window may hold, and the events themselves.

    Args:
        times: the times of the events, ascending.
        within: the window; one that counts events, or None, may hold all.

    >>> count_pairs(np.array([1, 2, 3]), None)
    6
    """
    span = int(times[-1]) - int(times[0])
    if within is None or within.unit is Unit.EVENTS or int(str(within.size)) >= span or span > INT64_MAX // 2:
        return len(times) * (len(times) + 1) // 2
    first = np.searchsorted(times - times[0], times - times[0] - int(str(within.size)))
    return int((np.arange(1, len(times) + 1) - first).sum())


def starts_one_run(bound: Bound) -> bool:
    """Whether each event that starts a run leads to at most one run at a time."""
    if bound.query.strategy is Strategy.ANY or bound.kleene or len(bound.branches) != 1:
        return False
    pattern = bound.branches[0].pattern
    items = pattern.items if isinstance(pattern, Seq) else (pattern,)
    return all(isinstance(each, Var | Not) for each in items)


class RoutedPart:
    """Queries that share a router, and their leaves, equal ones once.

    Args:
        queries: the queries.
    """

    def __init__(self, queries: Sequence[RoutedQuery]) -> None:
        known: dict[tuple[Comparison, ...], int] = {}
        self._queries = queries
        self._leaves = [[known.setdefault(tests, len(known)) for tests in each.tests] for each in queries]
        self._tests = tuple(known)

    @cached_property
    def router(self) -> Router:
        return router_of(self._tests)

    def route(self, batches: Sequence[EventBatch]) -> Iterator[tuple[RoutedQuery, list[Ints]]]:
        """Yield each query with its rows of each batch, ascending."""
        routed = [self.router.route(events.table) for events in batches]
        for query, leaves in zip(self._queries, self._leaves, strict=True):
            found = [[each.of(leaf) for leaf in leaves] for each in routed]
            yield query, [unite_rows(some, len(batch)) for some, batch in zip(found, batches, strict=True)]


class WholePart:
    """Queries that most events fit: to route them would cost more than it saves.

    Args:
        queries: the queries.
    """

    def __init__(self, queries: Sequence[RoutedQuery]) -> None:
        self._queries = queries

    def route(self, batches: Sequence[EventBatch]) -> Iterator[tuple[RoutedQuery, list[Ints]]]:
        """Yield each query with all rows of each batch."""
        rows = [np.arange(len(events)) for events in batches]
        for query in self._queries:
            yield query, rows


def unite_rows(lists: Sequence[Ints], total: int) -> Ints:
    """Return the rows of several lists, each once, ascending.

    Args:
        lists: the rows, in each list ascending.
        total: how many rows there are.

    >>> unite_rows([np.array([1, 4]), np.array([0, 4])], 5).tolist()
    [0, 1, 4]
    """
    found = [rows for rows in lists if len(rows)]
    if len(found) < 2:
        return found[0] if found else np.zeros(0, np.int64)
    if SPARSE * sum(map(len, found)) < total:
        return np.unique(np.concatenate(found))
    marks = np.zeros(total, np.bool_)
    for rows in found:
        marks[rows] = True
    return np.flatnonzero(marks)


def is_worth_all(rows: int, total: int) -> bool:
    """Whether a search over all events costs less than to pick those of a query."""
    return WORTH_ALL * rows > total


def divide_queries(
    queries: Sequence[RoutedQuery], batches: Sequence[EventBatch], limits: Limits
) -> list[RoutedPart | WholePart]:
    """Divide queries into those that most events fit, and parts whose rows fit in memory together.

    Args:
        queries: the queries.
        batches: the events that a router takes at once; a sample of each tells the rows of the queries.
        limits: the rows of a part, and the size of the sample.
    """
    together, total = RoutedPart(queries), sum(map(len, batches))
    if total <= limits.routed_sample:
        return [together]
    most = max(1, limits.routed_sample // len(batches))
    samples = [cut_middle(events, most) for events in batches]
    seen, held = [sum(map(len, rows)) for _, rows in together.route(samples)], sum(map(len, samples))
    whole = [query for query, rows in zip(queries, seen, strict=True) if is_worth_all(rows, held)]
    parts: dict[int, list[RoutedQuery]] = {}
    expected = 0.0
    for query, rows in zip(queries, seen, strict=True):
        if not is_worth_all(rows, held):
            parts.setdefault(int(expected // limits.routed_rows), []).append(query)
            expected += (rows + 1) * total / held
    routed = [together] if not whole and len(parts) == 1 else map(RoutedPart, parts.values())
    return [*([WholePart(whole)] if whole else []), *routed]


def cut_middle(events: EventBatch, most: int) -> EventBatch:
    """Return at most some events from the middle of a batch."""
    start = max(0, len(events) - most) // 2
    return events.slice(start, min(start + most, len(events)))


class RoutedSearch:
    """A search for the matches of queries that get their events by a router, each query by itself.

    Args:
        questions: the questions.
        numbers: the numbers of those that are routed.
        work: the environment of the searches.
    """

    def __init__(self, questions: Questions, numbers: Sequence[int], work: Work) -> None:
        inside = replace(work, counts_ties=False)
        pairs = work.options.limits.small_pairs * (1 if len(numbers) <= LASTING else GONE)
        self._queries = [RoutedQuery(questions, number, inside, pairs) for number in numbers]
        self._counters = dict[tuple[Path, ...], tuple[str, SaseSearch]]()
        for number in numbers if work.counts_ties else ():
            query = RoutedQuery(questions, number, work)
            if query.question.bound.partition not in self._counters:  # other queries have the same ties
                self._counters[query.question.bound.partition] = query.shown, query.start_small()
        self._work, self._limits = work, work.options.limits
        self._held: list[EventBatch] | None = [] if len(numbers) > self._limits.few_searches else None
        self._parts: list[RoutedPart | WholePart] | None = None

    def feed(self, events: EventBatch) -> Iterator[Part]:
        """Take the next events; yield rows that become final, each with the number of its question."""
        for shown, counter in self._counters.values():
            with name_errors(shown):
                counter.count_ties(events)
        if not len(events):
            return
        if self._held is None:
            yield from self._feed([events])
            return
        self._held.append(events)
        if sum(map(len, self._held)) > self._limits.held_events:
            held, self._held = self._held, None
            yield from self._feed(held)

    def flush(self) -> Iterator[Part]:
        """Yield the rows that become final at the end of the events."""
        add(self._work.note, {"matches": 0})
        held, self._held = self._held, None
        if held:
            for part in self._divide(held):
                for query, rows in part.route(held):
                    yield from query.answer(held, rows)
            return
        for query in self._queries:
            yield from query.flush()

    def _feed(self, batches: Sequence[EventBatch]) -> Iterator[Part]:
        parts = self._divide(batches)
        for events in batches:
            for part in parts:
                for query, (rows,) in part.route([events]):
                    yield from query.feed(events, rows)

    def _divide(self, batches: Sequence[EventBatch]) -> list[RoutedPart | WholePart]:
        if self._parts is None:
            self._parts = divide_queries(self._queries, batches, self._limits)
        return self._parts
