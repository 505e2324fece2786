"""Questions about events and searches for their answers: the protocols that both languages implement.

A question is frozen and travels to tasks. A search holds the mutable state of one answer: it takes the
events of a slice, batch after batch, and gives tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.census import EvictableSearch
from cerise.engines.threads import ALONE, Threads
from cerise.errors import UnsupportedError
from cerise.events import EventBatch, RowBatch
from cerise.pattern.evaluate import OnFault
from cerise.plan.needs import Needs, fold
from cerise.plan.slicing import Halo, Slice
from cerise.run.many.query_names import NamedSearch, check_names, name_errors, show_name
from cerise.run.many.united_answers import Part, split, stack, union_schemas, unite

Batch = EventBatch | RowBatch
Note = dict[str, float]  # figures of one step of the work, by name
MOST_RUNS = "most runs at once"
JOIN = "rows joined: "  # how the figures of one join begin
LEAST_ROWS, FEW_COLUMNS = 256, 64  # a table of more columns has fewer rows, so that it fits in memory


def add(note: Note, figures: Mapping[str, float]) -> None:
    """Add figures to a note; for `MOST_RUNS`, keep the larger figure instead of the sum."""
    for name, value in figures.items():
        before = note.get(name, 0)
        note[name] = max(before, value) if name == MOST_RUNS else before + value


def as_it_is(events: EventBatch) -> EventBatch:
    """Return matched events, which have all their columns."""
    return events


@dataclass(frozen=True, slots=True)
class Work:
    """The environment of a search.

    Attributes:
        options: how to run.
        note: where the search writes its figures.
        number: the number of the slice.
        part: the slice of time whose events may start a match; None: all events may.
        halo: the events that the search reads around its slice.
        complete: fetches the columns of matched events that are only returned.
        threads: the threads that a search may use inside.
        counts_ties: whether the search counts events whose order only a hash decides.
        streams: whether the events are a stream: totals leave when they are final, with `advance`.
        forgive: called for each value of RETURN or MEASURES that cannot be computed, and is null; None: that
            is an error (S4.6).
    """

    options: Options
    note: Note = field(default_factory=dict)
    number: int = 0
    part: Slice | None = None
    halo: Halo = Halo()
    complete: Callable[[EventBatch], EventBatch] = as_it_is
    threads: Threads = ALONE
    counts_ties: bool = False
    streams: bool = False
    forgive: OnFault | None = None


class CandidateSearch(Protocol):
    """Finds in one slice the candidates of a question whose matches depend on earlier matches."""

    def feed(self, events: Any) -> Iterator[pa.Table]:
        """Take the next events; yield rows that become final. Exhaust the iterator before the next call."""
        ...

    def flush(self) -> Iterator[pa.Table]:
        """Yield the rows that become final at the end of the events."""
        ...


class Search(CandidateSearch, Protocol):
    """One question running over the events of one slice, or of a stream."""

    def save(self) -> bytes:
        """Return the state, for `load` in another process."""
        ...

    def load(self, state: bytes) -> None:
        """Continue from a saved state of the same question."""
        ...


class StreamSearch(Search, EvictableSearch, Protocol):
    """A search that can run over a stream that has no end."""

    @property
    def alive(self) -> Mapping[str, int]:
        """How many runs, events or rows the search keeps, by these names."""
        ...

    def advance(self, time: int) -> Iterator[pa.Table]:
        """No event before `time` will come; yield the rows that this makes final."""
        ...


class Question(Protocol):
    """A bound query, in either language, as plans and runners use it."""

    @property
    def name(self) -> str | None:
        """The name after INTO."""
        ...

    @property
    def needs(self) -> Needs:
        """The columns, rows and order of events that it needs."""
        ...

    @property
    def result(self) -> pa.Schema:
        """The columns of the answer."""
        ...

    @property
    def partial(self) -> pa.Schema:
        """The columns that a search gives: those of the answer, or those from which `finish` computes it."""
        ...

    @property
    def candidate_schema(self) -> tuple[pa.Schema, tuple[str, ...]]:
        """The columns that a search for candidates gives, and the columns that order candidates."""
        ...

    @property
    def inner(self) -> Question | None:
        """The question whose matches are the events of this one (FROM)."""
        ...

    @property
    def outer(self) -> Question:
        """This question over the matches of the inner question."""
        ...

    def prepare(self, options: Options) -> None:
        """Choose the engine once, before the question travels to tasks.

        Raises:
            PlanError, UnsupportedError: the engine that the options name is unknown, or cannot answer it.
        """
        ...

    def start(self, work: Work) -> Search:
        """Return a search."""
        ...

    def start_candidates(self, work: Work) -> CandidateSearch:
        """Return a search for candidates, among which `choose` chooses."""
        ...

    def choose(self, candidates: Iterable[pa.RecordBatch], again: Again, work: Work) -> Iterator[pa.Table]:
        """Yield the answer, given candidates in order.

        Args:
            candidates: the candidates of all slices, in order.
            again: returns the events of a slice, by its number, to search it again.
            work: how to run.
        """
        ...

    def finish(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Combine the tables of all searches into the answer."""
        ...


class Alone:
    """A question that reads a source itself, and whose matches do not depend on earlier slices."""

    @property
    def name(self) -> None:
        return

    @property
    def inner(self) -> Question | None:
        return None

    @property
    def result(self) -> pa.Schema:
        raise NotImplementedError

    @property
    def candidate_schema(self) -> tuple[pa.Schema, tuple[str, ...]]:
        raise AssertionError(self)

    def prepare(self, options: Options) -> None:
        """Do nothing: only one engine searches."""

    def start_candidates(self, work: Work) -> CandidateSearch:
        raise AssertionError(work)

    def choose(self, candidates: Iterable[pa.RecordBatch], again: Again, work: Work) -> Iterator[pa.Table]:
        raise AssertionError(candidates, again, work)

    def finish(self, parts: Sequence[pa.Table]) -> pa.Table:
        return concat(parts, self.result)


Again = Callable[[int], "tuple[Work, Iterator[Batch]]"]


class TeamSearch(Protocol):
    """A search for one question, or one that several questions share, over the events of one slice."""

    def feed(self, events: Any) -> Iterator[Part]:
        """Take the next events; yield rows that become final, each with the number of its question."""
        ...

    def flush(self) -> Iterator[Part]:
        """Yield the rows that become final at the end of the events."""
        ...


@dataclass(frozen=True, slots=True)
class SingleSearch:
    """The search for one question, which no other question shares.

    Attributes:
        number: the number of the question.
        search: the search.
    """

    number: int
    search: CandidateSearch

    def feed(self, events: Any) -> Iterator[Part]:
        for table in self.search.feed(events):
            yield self.number, table

    def flush(self) -> Iterator[Part]:
        for table in self.search.flush():
            yield self.number, table


@dataclass(frozen=True)
class Questions:
    """Questions over the same source, answered in one pass.

    Attributes:
        each: the questions.
        tags: the name of each question; None: there is one question, and its answer has no tag.
        union: the columns of all answers; None: there is one question.
        shared: the plan that some of the questions share, once it is made; see `run.team_plan`.
    """

    each: tuple[Question, ...]
    tags: tuple[str, ...] | None = None
    union: pa.Schema | None = None
    shared: Any = None

    @classmethod
    def of(cls, questions: Sequence[Question], names: Sequence[str] | None = None) -> Questions:
        """Combine questions.

        Args:
            questions: the questions.
            names: the name of each; None: its INTO name or its number from 1, or no name if it is the only
                one.

        Raises:
            BindError: two questions have the same name, or a column has different types.
            UnsupportedError: a question cannot be one of several.
        """
        if len(questions) == 1 and names is None:
            return cls((questions[0],))
        tags = tuple(each.name or str(i) for i, each in enumerate(questions, 1)) if names is None else names
        check_names(tags)
        for name, each in zip(tags, questions, strict=True):
            if each.inner is not None and len(questions) > 1:
                raise UnsupportedError(
                    f"{show_name(name)}: a query over the matches of another cannot be one of several",
                    hint="call find for it alone",
                )
        return cls(tuple(questions), tuple(tags), union_schemas([each.result for each in questions], tags))

    def select(self, numbers: Sequence[int]) -> Questions:
        """Return some of several questions, with their names."""
        assert self.tags is not None
        return Questions.of([self.each[i] for i in numbers], [self.tags[i] for i in numbers])

    @property
    def result(self) -> pa.Schema:
        return self.each[0].result if self.union is None else self.union

    @cached_property
    def needs(self) -> Needs:
        """The needs of all questions together."""
        if len(self.each) == 1:
            return self.each[0].needs
        needs = fold([each.needs for each in self.each])
        for number, each in enumerate(self.each):
            if isinstance(each.needs.halo, str):
                return replace(needs, halo=f"{self.show_name(number)}: {each.needs.halo}")
        return needs

    @cached_property
    def partial(self) -> pa.Schema:
        """The columns that searches give together.

        Raises:
            BindError: totals of different columns, which cannot share a plan of tasks.
        """
        if self.tags is None:
            return self.each[0].partial
        if not any(map(has_totals, self.each)):
            return self.result
        return union_schemas([each.partial for each in self.each], self.tags)

    def prepare(self, numbers: Iterable[int], options: Options) -> None:
        """Choose the engines of some questions once, before the questions travel to tasks."""
        for number in numbers:
            shown = self.show_name(number)
            with nullcontext() if shown is None else name_errors(shown):
                self.each[number].prepare(options)

    def start(self, number: int, work: Work, *, chained: bool = False) -> CandidateSearch:
        """Start the search for one question, or for its candidates; errors name one of several questions."""
        begin = self.each[number].start_candidates if chained else self.each[number].start
        shown = self.show_name(number)
        return begin(work) if shown is None else NamedSearch(shown, lambda: begin(work))

    def show_name(self, number: int) -> str | None:
        """Return the name of a question as errors show it; None: it is the only one."""
        return None if self.tags is None else show_name(self.tags[number])

    def tag(self, parts: Iterable[Part], most: int, columns: pa.Schema | None = None) -> Iterator[pa.Table]:
        """Yield answers with the columns of all; columns of other questions are null.

        Cost: linear in the answers and in the columns, because small answers are put together first.

        Args:
            parts: the answers.
            most: how many rows of few columns to put together.
            columns: the columns of all: `partial` in a task; None: `result`.
        """
        if self.tags is None:
            yield from (table for _, table in parts)
            return
        columns = self.result if columns is None else columns
        most = min(most, max(LEAST_ROWS, most * FEW_COLUMNS // len(columns)))
        held: list[Part] = []
        rows = 0
        for part in parts:
            held.append(part)
            rows += len(part[1])
            if rows >= most:
                yield unite(held, self.tags, columns).combine_chunks()
                held, rows = [], 0
        if rows:
            yield unite(held, self.tags, columns).combine_chunks()

    def finish(self, parts: Iterable[Part]) -> pa.Table:
        """Combine the tables of all searches into the answer, in the order of the questions."""
        tables: list[list[pa.Table]] = [[] for _ in self.each]
        for number, table in parts:
            tables[number].append(table)
        if self.tags is None:
            return self.each[0].finish(tables[0])
        found: list[Part] = []
        for number, (question, some) in enumerate(zip(self.each, tables, strict=True)):
            found += [(number, each) for each in ([question.finish(some)] if has_totals(question) else some)]
        return unite(found, self.tags, self.result)

    def finish_table(self, table: pa.Table) -> pa.Table:
        """Combine what the tasks of all searches gave, in one table, into the answer."""
        if self.tags is None:
            return self.finish([(0, table)])
        return self.finish(split(table, self.tags, [each.partial for each in self.each]))

    def stack(self, answers: Iterable[pa.Table]) -> pa.Table:
        """Return the answers to groups of these questions as one, in the order of the questions."""
        assert self.tags is not None
        return stack(answers, self.tags, [each.result for each in self.each], self.result)


def has_totals(question: Question) -> bool:
    """Whether searches for a question give partial results, which `finish` combines."""
    return not question.partial.equals(question.result)


def concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenate tables; without tables, return an empty table of the schema."""
    filled = [each for each in tables if len(each)] or list(tables[:1])
    return pa.concat_tables(filled) if filled else schema.empty_table()
