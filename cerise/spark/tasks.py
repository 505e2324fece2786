"""The tasks of Spark: functions from Arrow batches to Arrow batches, without DataFrames.

`SliceTask` reads and answers slices. Or `CutTask` cuts events into blobs for targets, and `MatchTask` answers
over the events of a target. `ChooseTask` chooses among candidates, `CombineTask` adds up partial totals, and
`WriteTask` appends to a store.
"""

from __future__ import annotations

import logging
import pickle
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from cerise.engines.base import Options
from cerise.engines.threads import Threads, start_threads
from cerise.errors import CeriseWarning, DataError, StoreError
from cerise.events import raw_column
from cerise.kinds import plain_table
from cerise.run.access import Access
from cerise.run.find import Sliced, answer, reread
from cerise.run.many.united_answers import Part
from cerise.run.question import Note, Questions, Work, add
from cerise.run.report import ORDER_HINT, TIES, Report, say_ties
from cerise.run.searching import search_events, start_searches
from cerise.spark.exchange import Cutter, arrange, gather
from cerise.spark.frames import quote_path

if TYPE_CHECKING:
    from cerise.store.table.data_file import Writing

Batches = Iterable[pa.RecordBatch]
FILES_PER_TASK = 100
ROWS_PER_TASK = 40  # bits of a row's number in its task


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
            several = self.plan.threads > 1
            alone = nullcontext(Threads(limits=limits))
            with (
                self.records.record("match", number) as note,
                start_threads(self.plan.threads, limits=limits) if several else alone as threads,
            ):
                found = answer(self.plan, number, note, threads)
                for table in self._tables(found):
                    yield from table.to_batches(max_chunksize=limits.output_rows)
                touched = self.plan.access.counters().items()
                add(note, {name: value - before.get(name, 0) for name, value in touched})

    def _tables(self, found: Iterator[Part]) -> Iterator[pa.Table]:
        """Yield tables of what searches give; candidates are of one question, and have no name yet."""
        questions = self.plan.questions
        if self.plan.chained:
            return (table for _, table in found)
        return questions.tag(found, self.plan.options.limits.output_rows, questions.partial)


@dataclass(frozen=True, slots=True)
class CutTask:
    """Cuts events into blobs, each for one target.

    Attributes:
        cutter: cuts tables into blobs.
        records: where the task notes its figures.
        access: the access path to the events; None: Spark hands rows over.
        portions: the portions of the source, one for each task.
    """

    cutter: Cutter
    records: Records
    access: Access | None = None
    portions: Sequence[Any] = ()

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of the rows, or of the portions whose numbers are given."""
        if self.access is None:
            with self.records.record("hand over", self.records.task()) as note:
                yield from self.write_blobs((self._settle(each) for each in batches), note)
            return
        for number in numbers_of(batches):
            with self.records.record("read", number) as note:
                yield from self.write_blobs(self.access.tables(self.portions[number], note), note)

    def write_blobs(self, tables: Iterable[pa.Table], note: Note) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of tables, and note how many events and bytes they have."""

        def count_events() -> Iterator[pa.Table]:
            for table in tables:
                add(note, {"events handed over": len(table)})
                yield table

        for blob in self.cutter(count_events()):
            add(note, {"bytes exchanged": blob.nbytes})
            yield blob

    def _settle(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows in the types that the questions are bound to: Spark's time zone may differ."""
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
    """Refuse events without a time. The error shows rows, because rows of a DataFrame have no numbers."""
    times = raw_column(table, (name,))
    if times.null_count:
        shown = table.filter(times.is_null()).slice(0, 3).to_pylist()
        raise DataError(
            f"{times.null_count} events have no time: '{name}' is null, as in {shown}",
            hint=f"filter them out first: df.where('{quote_path((name,))} IS NOT NULL')",
        )


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Answers questions over the events of blobs.

    Attributes:
        questions: the questions.
        options: how to run.
        records: where the task notes its figures.
        counts_ties: whether to count events whose order only a hash decides, to warn the user.
    """

    questions: Questions
    options: Options
    records: Records
    counts_ties: bool = False

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the answers for the targets that a task has."""
        limits = self.options.limits
        for number, table in enumerate(gather(batches)):
            with self.records.record("match", (self.records.task(), number)) as note:
                add(note, {"events matched over": len(table)})
                work = Work(self.options, note, threads=Threads(limits=limits), counts_ties=self.counts_ties)
                found = self._search(table, work)
                for each in self.questions.tag(found, limits.output_rows, self.questions.partial):
                    yield from each.to_batches(max_chunksize=limits.output_rows)

    def _search(self, table: pa.Table, work: Work) -> Iterator[Part]:
        """Answer the questions over the events of a target, which are sorted once for each order of ties."""
        alike: dict[Hashable, list[int]] = defaultdict(list)
        for number, question in enumerate(self.questions.each):
            alike[question.needs.ties].append(number)
        for numbers in alike.values():
            events = arrange(table, self.questions.each[numbers[0]].needs)
            yield from search_events(start_searches(self.questions, work, numbers), [events])


@dataclass(frozen=True, slots=True)
class ChooseTask:
    """Chooses the matches among candidates, which come in order."""

    plan: Sliced
    records: Records

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the answer."""
        questions, limits = self.plan.questions, self.plan.options.limits
        (question,) = questions.each
        with self.records.record("choose", 0) as note:
            work = Work(self.plan.options, note)
            found = ((0, table) for table in question.choose(batches, partial(reread, self.plan), work))
            for table in questions.tag(found, limits.output_rows, questions.partial):
                yield from table.to_batches(max_chunksize=limits.output_rows)


@dataclass(frozen=True, slots=True)
class CombineTask:
    """Combines partial answers into the answer.

    Attributes:
        questions: the questions.
        options: how to run.
        nested: whether the partial answers come as one list, so that there is a row even for an empty list.
    """

    questions: Questions
    options: Options
    nested: bool

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = (batch.column(0).flatten() if self.nested else batch.to_struct_array() for batch in batches)
        tables = [pa.Table.from_struct_array(each) for each in rows]
        if tables:
            whole = self.questions.finish_table(pa.concat_tables(tables))
            yield from whole.to_batches(max_chunksize=self.options.limits.output_rows)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes rows as files of an append, in the order of time, with their index.

    Attributes:
        writing: where and how to write.
        append: the number of the append.
    """

    writing: Writing
    append: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield a description of each file written, pickled."""
        from cerise.store.table.data_file import AppendPart, write_piece  # imports the kernels of the index

        context = TaskContext.get()
        task, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        first = task << ROWS_PER_TASK
        for number, piece in enumerate(pieces_of(batches, self.writing.settings.file_rows)):
            if number >= FILES_PER_TASK:
                raise StoreError(
                    f"one task was given more than {first - (task << ROWS_PER_TASK):,} events to append",
                    hint="append them in parts, or set spark.sql.shuffle.partitions to more",
                )
            part = AppendPart(self.append, FILES_PER_TASK * task + number, first, attempt)
            written = write_piece(piece, self.writing, part)
            first += len(piece)
            yield pa.RecordBatch.from_pydict({"written": [pickle.dumps(written)]})


def pieces_of(batches: Batches, most: int) -> Iterator[pa.Table]:
    """Yield batches as tables of at least `most` rows, except the last."""
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
    """Notes by step and task: a task that ran twice, or on two workers at once, counts once.

    Args:
        on_change: called with all notes, on the driver, when new notes arrive.
    """

    def __init__(self, on_change: Callable[[Notes], None] | None = None) -> None:
        self.on_change = on_change

    def __reduce__(self) -> tuple[Any, ...]:
        return _Latest, ()

    def zero(self, value: Notes) -> Notes:  # noqa: ARG002
        return {}

    def addInPlace(self, notes: Notes, new: Notes) -> Notes:  # noqa: N802
        notes.update(new)
        if self.on_change is not None:
            self.on_change(notes)
        return notes


@dataclass(frozen=True, slots=True)
class Records:
    """Where tasks note their figures.

    Attributes:
        accumulator: brings the notes to the driver; None: notes are dropped, as on Connect.
        only: the only figure that is kept; None: all figures.
    """

    accumulator: Any = None
    only: str | None = None

    @classmethod
    def of(cls, spark: Any) -> Records:
        """Return records that the driver can read; on Connect, which has no accumulators, it drops notes."""
        return cls._with_callback(spark, None, None)

    @classmethod
    def of_frame(cls, spark: Any, *, noted: bool) -> Records:
        """Return records for a DataFrame as source, which warn of ties when an action runs (S1.2).

        Args:
            spark: the session.
            noted: whether to keep all figures, or only ties.
        """
        return cls._with_callback(spark, _TieWarning(), None if noted else TIES)

    @classmethod
    def _with_callback(
        cls, spark: Any, on_change: Callable[[Notes], None] | None, only: str | None
    ) -> Records:
        context = getattr(spark, "_sc", None)
        return cls() if context is None else cls(context.accumulator({}, _Latest(on_change)), only)

    def report(self, known: dict[str, float], access: dict[str, str]) -> Report:
        if self.accumulator is None:
            missing = "Spark Connect reports no figures of its tasks; figures known before the run:"
            return Report(known, access, missing=missing)
        return Report(known, access, lambda: self.accumulator.value)

    @contextmanager
    def record(self, step: str, task: Hashable) -> Iterator[Note]:
        """Keep the figures that the body notes, and its seconds, if the body ends without an error."""
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


class _TieWarning:
    """Warns once of ties, in the thread that receives accumulators, which must not raise."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, notes: Notes) -> None:
        """Warn if the notes have ties."""
        ties = count_ties(notes)
        if ties and not self.done:
            self.done = True
            try:
                warnings.warn(f"at least {say_ties(ties)}: {ORDER_HINT}", CeriseWarning, stacklevel=2)
            except (
                CeriseWarning
            ) as warning:  # the user's filter makes warnings errors: the action must not hang
                log.warning("%s", warning)


def count_ties(notes: Notes) -> int:
    """Return how many events have an order that only a hash decides (S1.2)."""
    return int(sum(note.get(TIES, 0) for note in notes.values()))


def warn_of_ties(records: Records) -> None:
    """Warn of ties after an action that Cerise itself runs."""
    ties = 0 if records.accumulator is None else count_ties(records.accumulator.value)
    if ties:
        warnings.warn(f"{say_ties(ties)}: {ORDER_HINT}", CeriseWarning, stacklevel=4)
