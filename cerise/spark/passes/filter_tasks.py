"""The tasks of passes over files: summarise a variable, merge summaries, exchange events inside.

The filter travels as the broadcast of one row. Each task gives the same bytes when it runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from cerise.filters.passes.summaries import Passes, Summary, merge_summaries
from cerise.run.files_access import FilesAccess
from cerise.run.question import Note, add
from cerise.run.report import PASSED

Batches = Iterable[pa.RecordBatch]
Writer = Callable[[Iterable[pa.Table], Note], Iterator[pa.RecordBatch]]  # makes blobs of tables
SUMMARIES = "branch int, edge int, name string, message binary"
FILTER = "filter binary"
RECEIVED = -1  # in place of a branch: the filter that a pass was given
COLUMNS = pa.schema(
    [("branch", pa.int32()), ("edge", pa.int32()), ("name", pa.string()), ("message", pa.binary())]
)


class Notebook(Protocol):
    """Where tasks note their figures."""

    def record(self, step: str, task: Hashable) -> AbstractContextManager[Note]:
        """Keep the figures that the body notes, if it ends without an error."""
        ...


def read_given(batches: Batches) -> Iterator[tuple[int, bytes | None]]:
    """Yield the numbers of a task's portions, each with the filter of the passes before, if there is one."""
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from zip(columns[0], columns[1] if len(columns) > 1 else [None] * len(columns[0]), strict=True)


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """Reads a portion for a pass, and summarises the events of the variables that the pass verifies.

    Attributes:
        access: the access path to the files.
        portions: the portions of the files, one for each task.
        passes: the passes.
        step: the number of this one.
        records: where the task notes its figures.
    """

    access: FilesAccess
    portions: Sequence[Any]
    passes: Passes
    step: int
    records: Notebook

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the summary of each portion; the first portion hands on the filter that it was given."""
        names, router = self.passes.columns(self.step), self.passes.router(self.step)
        for number, received in read_given(batches):
            with self.records.record("summarise", (self.step, number)) as note:
                summary = Summary(self.passes, self.step, received)
                for table in self.access.keep_rows(self.portions[number], names, router, note):
                    summary.add(table)
                add(note, {f"events of pass {self.step + 1}": summary.events})
                parts = [*summary.parts()]
                if number == 0 and received is not None:
                    parts.append((RECEIVED, RECEIVED, "", received))
                columns = [
                    pa.array(each, kind)
                    for each, kind in zip(zip(*parts, strict=True), COLUMNS.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merges the summaries of a pass into one filter.

    Attributes:
        passes: the passes.
        step: the number of this one.
        records: where the task notes its figures.
    """

    passes: Passes
    step: int
    records: Notebook

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the filter."""
        with self.records.record("merge", self.step) as note:
            parts = [
                part
                for batch in batches
                for part in zip(*(each.to_pylist() for each in batch.columns), strict=True)
            ]
            received = next((message for branch, _, _, message in parts if branch == RECEIVED), None)
            message = merge_summaries(
                self.passes, self.step, received, [each for each in parts if each[0] != RECEIVED]
            )
            add(note, {"bytes of filters": len(message)})
            yield pa.RecordBatch.from_pydict({"filter": [message]})


@dataclass(frozen=True, slots=True)
class FilterTask:
    """Reads a portion for the last pass, and cuts the events that the filter keeps into blobs.

    Attributes:
        write: makes blobs of events.
        access: the access path to the files.
        portions: the portions of the files, one for each task.
        passes: the passes.
        records: where the task notes its figures.
    """

    write: Writer
    access: FilesAccess
    portions: Sequence[Any]
    passes: Passes
    records: Notebook

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of the portions."""
        for number, message in read_given(batches):
            with self.records.record("read", number) as note:
                keep = self.passes.filter_of(message)
                names = self.access.needs.columns.names
                tables = self.access.keep_rows(self.portions[number], names, keep, note)
                yield from self.write(tables, note)
                add(note, {PASSED: keep.counts["wanted"]})
