"""Questions about events and searches for their answers: the protocols that both languages implement.

A question is frozen and travels to tasks. A search holds the mutable state of one answer: it takes the
events of a slice, batch after batch, and gives tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.census import EvictableSearch
from cerise.engines.threads import ALONE, Threads
from cerise.errors import BindError, UnsupportedError
from cerise.events import EventBatch, RowBatch
from cerise.pattern.evaluate import OnFault
from cerise.plan.needs import Needs, fold
from cerise.plan.slicing import Halo, Slice

TAG = "query"  # the column that names the query of a match, if there are several queries
Batch = EventBatch | RowBatch
Note = dict[str, float]  # figures of one step of the work, by name
MOST_RUNS = "most runs at once"


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


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions over the same source, answered in one pass.

    Attributes:
        each: the questions.
        tags: the name of each question; None: there is one question, and its answer has no tag.
        union: the columns of all answers; None: there is one question.
    """

    each: tuple[Question, ...]
    tags: tuple[str, ...] | None = None
    union: pa.Schema | None = None

    @classmethod
    def of(cls, questions: Sequence[Question]) -> Questions:
        """Combine questions.

        Raises:
            BindError: two questions have the same name, or a column has different types.
            UnsupportedError: a question cannot be one of several.
        """
        if len(questions) == 1:
            return cls((questions[0],))
        for each in questions:
            if each.inner is not None:
                raise UnsupportedError(
                    "a query over the matches of another cannot be one of several",
                    hint="call find for it alone",
                )
            if each.partial != each.result:
                raise BindError(
                    "RETURN COUNT(*), or other totals, cannot be one of several queries",
                    hint="ask for them on their own: find, or cerise.count",
                )
        names = tuple(each.name or str(number) for number, each in enumerate(questions, 1))
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BindError(f"two queries are named '{twice}'", hint="give them different names after INTO")
        return cls(tuple(questions), names, union_schemas([each.result for each in questions]))

    @property
    def result(self) -> pa.Schema:
        return self.each[0].result if self.union is None else self.union

    @property
    def needs(self) -> Needs:
        return self.each[0].needs if len(self.each) == 1 else fold([each.needs for each in self.each])

    @property
    def partial(self) -> pa.Schema:
        return self.each[0].partial if self.tags is None else self.result

    def tag(self, number: int, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the answers of one question with the columns of all; columns of other questions are null."""
        if self.tags is None or self.union is None:
            yield from tables
            return
        for table in tables:
            columns = [
                pa.repeat(self.tags[number], len(table)) if field.name == TAG
                else table.column(field.name) if field.name in table.schema.names
                else pa.nulls(len(table), field.type)
                for field in self.union
            ]  # fmt: skip
            yield pa.table(columns, schema=self.union)

    def finish(self, parts: Sequence[pa.Table]) -> pa.Table:
        if self.tags is None:
            return self.each[0].finish(parts)
        return concat(parts, self.result)


def concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenate tables; without tables, return an empty table of the schema."""
    filled = [each for each in tables if len(each)] or list(tables[:1])
    return pa.concat_tables(filled) if filled else schema.empty_table()


def union_schemas(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of several answers in one table, after the column that names the query.

    Raises:
        BindError: two answers have a column of the same name and different types.
    """
    fields: dict[str, pa.Field] = {TAG: pa.field(TAG, pa.string())}
    for number, schema in enumerate(schemas, 1):
        for each in schema:
            before = fields.setdefault(each.name, each)
            if before.type != each.type or each.name == TAG:
                raise BindError(
                    f"column '{each.name}' is {each.type} in query {number}, and {before.type} before",
                    hint="give the variables, or the columns of RETURN, names of their own",
                )
    return pa.schema(list(fields.values()))
