"""The tasks of Spark: functions from Arrow batches to Arrow batches, without DataFrames.

A run is made of a few of them: `SliceTask` reads and answers slices; or `CutTask` cuts events for targets and
`MatchTask` answers what they bring; `ChooseTask` chooses among candidates, `CombineTask` adds up totals.
`WriteTask` appends to a store.
"""

from __future__ import annotations

import logging
import pickle
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from cerise.engines.base import Options
from cerise.engines.threads import Threads
from cerise.errors import CeriseWarning, DataError, StoreError
from cerise.events import raw_column
from cerise.kinds import plain_table
from cerise.run.access import Access
from cerise.run.find import Sliced, answer, reread
from cerise.run.question import Note, Question, Questions, Work, add
from cerise.run.report import ORDER_HINT, TIES, Report, say_ties
from cerise.spark.exchange import Cutter, arrange, gather
from cerise.spark.frames import quoted
from cerise.store.table.data_file import Part, Writing, Written, write_piece

Batches = Iterable[pa.RecordBatch]
FILES_PER_TASK = 100
ROWS_PER_TASK = 40  # bits


def numbers_of(batches: Batches) -> Iterator[int]:
    """Yield the numbers of the slices or portions that Spark gives a task."""
    return (each for batch in batches for each in batch.column(0).to_pylist())


@dataclass(frozen=True, slots=True)
class SliceTask:
    """Reads slices of a source, and answers each."""

    plan: Sliced
    records: Records

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the answers, or candidates, of the slices whose numbers are given."""
        limits = self.plan.options.limits
        for number in numbers_of(batches):
            before = self.plan.access.counters()
            with self.records.noted("match", number) as note:
                for table in answer(self.plan, number, note, Threads(limits=limits)):
                    yield from table.to_batches(max_chunksize=limits.output_rows)
                touched = self.plan.access.counters().items()
                add(note, {name: value - before.get(name, 0) for name, value in touched})


@dataclass(frozen=True, slots=True)
class CutTask:
    """Cuts events into blobs, each for one target.

    Attributes:
        cutter: cuts tables.
        records: where figures are noted.
        access: how the task reads events; None: Spark hands rows over.
        portions: what each task reads.
    """

    cutter: Cutter
    records: Records
    access: Access | None = None
    portions: Sequence[Any] = ()

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of the rows, or of the portions whose numbers are given."""
        if self.access is None:
            with self.records.noted("hand over", self.records.task()) as note:
                yield from self._cut((self._settle(each) for each in batches), note)
            return
        for number in numbers_of(batches):
            with self.records.noted("read", number) as note:
                yield from self._cut(self.access.tables(self.portions[number], note), note)

    def _cut(self, tables: Iterable[pa.Table], note: Note) -> Iterator[pa.RecordBatch]:
        def counted() -> Iterator[pa.Table]:
            for table in tables:
                add(note, {"events handed over": len(table)})
                yield table

        for blob in self.cutter(counted()):
            add(note, {"bytes exchanged": blob.nbytes})
            yield blob

    def _settle(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows in the types that the questions are bound to: Spark's time zone may be another."""
        columns, roles = self.cutter.columns, self.cutter.needs.roles
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(batch.columns, columns, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, schema=columns)
        if roles is not None:
            _refuse_null_times(table, roles.time)
        return table


def _refuse_null_times(table: pa.Table, name: str) -> None:
    """The rows of a DataFrame have no numbers: show the rows themselves."""
    times = raw_column(table, (name,))
    if times.null_count:
        shown = table.filter(times.is_null()).slice(0, 3).to_pylist()
        raise DataError(
            f"{times.null_count} events have no time: '{name}' is null, as in {shown}",
            hint=f"filter them out first: df.where('{quoted((name,))} IS NOT NULL')",
        )


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Answers questions over the events that blobs bring.

    Attributes:
        asked: the questions.
        options: how to run.
        records: where figures are noted.
        counts_ties: whether events are counted whose order only a hash decides: the user can mend that.
    """

    asked: Questions
    options: Options
    records: Records
    counts_ties: bool = False

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the answers for the targets that a task has."""
        limits = self.options.limits
        for number, table in enumerate(gather(batches)):
            with self.records.noted("match", (self.records.task(), number)) as note:
                add(note, {"events matched over": len(table)})
                work = Work(self.options, note, threads=Threads(limits=limits), counts_ties=self.counts_ties)
                for query, question in enumerate(self.asked.each):
                    search = question.start(work)
                    found = chain(search.feed(arrange(table, question.needs)), search.flush())
                    for each in self.asked.tag(query, found):
                        yield from each.to_batches(max_chunksize=limits.output_rows)


@dataclass(frozen=True, slots=True)
class ChooseTask:
    """Chooses, among candidates in order, those that are matches."""

    plan: Sliced
    records: Records

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the answer."""
        (question,) = self.plan.asked.each
        limits = self.plan.options.limits
        with self.records.noted("choose", 0) as note:
            work = Work(self.plan.options, note)
            for table in question.choose(batches, partial(reread, self.plan), work):
                yield from table.to_batches(max_chunksize=limits.output_rows)


@dataclass(frozen=True, slots=True)
class CombineTask:
    """Makes one answer of partial ones.

    Attributes:
        question: the question.
        options: how to run.
        nested: whether the partial answers come as one list, which may be empty: then there is a row all the
            same.
    """

    question: Question
    options: Options
    nested: bool

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = (batch.column(0).flatten() if self.nested else batch.to_struct_array() for batch in batches)
        whole = self.question.finish([pa.Table.from_struct_array(each) for each in rows])
        yield from whole.to_batches(max_chunksize=self.options.limits.output_rows)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes rows as files of an append, in the order of time, with their index.

    Attributes:
        writing: where and how.
        append: the number of the append.
    """

    writing: Writing
    append: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield what was written."""
        context = TaskContext.get()
        task, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        first = task << ROWS_PER_TASK
        for number, piece in enumerate(_pieces(batches, self.writing.settings.file_rows)):
            if number >= FILES_PER_TASK:
                raise StoreError(
                    f"one task was given more than {first:,} events to append",
                    hint="append them in parts, or set spark.sql.shuffle.partitions to more",
                )
            part = Part(self.append, FILES_PER_TASK * task + number, first, attempt)
            written: Written = write_piece(piece, self.writing, part)
            first += len(piece)
            yield pa.RecordBatch.from_pydict({"written": [pickle.dumps(written)]})


def _pieces(batches: Batches, most: int) -> Iterator[pa.Table]:
    """Yield batches as tables that have a number of rows."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= most:
            yield plain_table(pa.Table.from_batches(held))
            held = []
    if sum(map(len, held)):
        yield plain_table(pa.Table.from_batches(held))


Notes = dict[tuple[str, Hashable], Note]


log = logging.getLogger(__name__)


class _Latest(AccumulatorParam[Notes]):
    """Notes by step and task: one that was tried twice, or by two workers at once, counts once.

    Args:
        told: is told all notes, on the driver, when there are new ones.
    """

    def __init__(self, told: Callable[[Notes], None] | None = None) -> None:
        self.told = told

    def __reduce__(self) -> tuple[Any, ...]:
        return _Latest, ()

    def zero(self, value: Notes) -> Notes:  # noqa: ARG002
        return {}

    def addInPlace(self, one: Notes, other: Notes) -> Notes:  # noqa: N802
        one.update(other)
        if self.told is not None:
            self.told(one)
        return one


@dataclass(frozen=True, slots=True)
class Records:
    """Where tasks note what they did; nowhere, where Spark has no way to tell.

    Attributes:
        accumulator: brings the notes to the driver.
        only: the one figure that is noted; None: all.
    """

    accumulator: Any = None
    only: str | None = None

    @classmethod
    def of(cls, spark: Any) -> Records:
        """Return records that the driver can read; none on Connect, which has no accumulators."""
        return cls._told(spark, None, None)

    @classmethod
    def of_frame(cls, spark: Any, *, noted: bool) -> Records:
        """Return records of matches in a DataFrame: when an action runs, the user is warned of ties (S1.2).

        Args:
            spark: the session.
            noted: whether everything is noted, or ties only.
        """
        return cls._told(spark, _Warned(), None if noted else TIES)

    @classmethod
    def _told(cls, spark: Any, told: Callable[[Notes], None] | None, only: str | None) -> Records:
        context = getattr(spark, "_sc", None)
        return cls() if context is None else cls(context.accumulator({}, _Latest(told)), only)

    def report(self, known: dict[str, float], access: dict[str, str]) -> Report:
        if self.accumulator is None:
            missing = "Spark Connect cannot tell what its tasks did; what was known before they ran:"
            return Report(known, access, missing=missing)
        return Report(known, access, lambda: self.accumulator.value)

    @contextmanager
    def noted(self, step: str, task: Hashable) -> Iterator[Note]:
        """Note what is done inside, when it is done whole."""
        note: Note = {}
        begun = time.perf_counter()
        yield note
        note["seconds"] = time.perf_counter() - begun
        if self.only is not None:
            note = {self.only: note[self.only]} if note.get(self.only) else {}
        if self.accumulator is not None and note:
            self.accumulator.add({(step, task): note})

    @staticmethod
    def task() -> int:
        context = TaskContext.get()
        return 0 if context is None else context.partitionId()


class _Warned:
    """Warns once of ties, from the thread in which accumulators arrive: nothing may be raised there."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, notes: Notes) -> None:
        """Warn, where notes tell of ties."""
        ties = tied(notes)
        if ties and not self.done:
            self.done = True
            try:
                warnings.warn(f"at least {say_ties(ties)}: {ORDER_HINT}", CeriseWarning, stacklevel=2)
            except CeriseWarning as warning:  # warnings are errors here, and the action must not hang
                log.warning("%s", warning)


def tied(notes: Notes) -> int:
    """Return how many events have an order that only a hash decides (S1.2)."""
    return int(sum(note.get(TIES, 0) for note in notes.values()))


def warn_of_ties(records: Records) -> None:
    """Warn of ties when an action of Cerise has run."""
    ties = 0 if records.accumulator is None else tied(records.accumulator.value)
    if ties:
        warnings.warn(f"{say_ties(ties)}: {ORDER_HINT}", CeriseWarning, stacklevel=4)
