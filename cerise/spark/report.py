"""What a run on Spark did: figures that tasks note, each task once however often it was tried."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

Note = dict[str, float]
Noted = dict[tuple[str, Hashable], Note]


class _Latest(AccumulatorParam[Noted]):
    """Notes by step and task: one that was tried twice, or by two workers at once, counts once."""

    def zero(self, value: Noted) -> Noted:  # noqa: ARG002
        """Return no notes."""
        return {}

    def addInPlace(self, one: Noted, other: Noted) -> Noted:  # noqa: N802
        """Take over notes."""
        one.update(other)
        return one


@dataclass(frozen=True, slots=True)
class Records:
    """Where tasks note what they did; nowhere, where nobody asked for it or Spark has no way to tell."""

    accumulator: Any = None

    @classmethod
    def of(cls, spark: Any) -> Records:
        """Return records that the driver can read; none on Connect, which has no accumulators."""
        context = getattr(spark, "_sc", None)
        return cls() if context is None else cls(context.accumulator({}, _Latest()))

    @contextmanager
    def noted(self, step: str, task: Hashable) -> Iterator[Note]:
        """Note what is done inside, when it is done whole."""
        note: Note = {}
        begun = time.perf_counter()
        yield note
        note["seconds"] = time.perf_counter() - begun
        if self.accumulator is not None:
            self.accumulator.add({(step, task): note})

    @staticmethod
    def task() -> int:
        """Return the number of the task that this runs in."""
        context = TaskContext.get()
        return 0 if context is None else context.partitionId()


def count(note: Note, name: str, more: float) -> None:
    """Add to a figure of a note."""
    note[name] = note.get(name, 0) + more


def exchanged(blobs: Iterable[pa.RecordBatch], note: Note) -> Iterator[pa.RecordBatch]:
    """Yield blobs, and note their size."""
    for each in blobs:
        count(note, "bytes exchanged", each.nbytes)
        yield each


RESULT = "rows of the result"
STEPS = {
    "read": "reading and cutting", "hand over": "handing over and cutting", "match": "matching",
    "chain": "choosing",
}  # fmt: skip
COUNTED = (
    "row groups read", "events read", "bytes read", "events handed over", "bytes exchanged",
    "bytes of the index read", "events kept", "events matched over", "matches", RESULT,
    "values that could not be computed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SparkReport:
    """The figures of a run.

    Attributes:
        known: what was known before it: events and row groups there are, and are left after pruning.
        records: what its tasks noted.
    """

    known: dict[str, int] = field(default_factory=dict)
    records: Records = field(default_factory=Records)

    @property
    def figures(self) -> dict[str, float]:
        """All figures by name: counts, then the seconds that all tasks of a step took together."""
        notes: Noted = {} if self.records.accumulator is None else self.records.accumulator.value
        found: dict[str, float] = dict(self.known)
        for name in COUNTED:
            values = [note[name] for note in notes.values() if name in note]
            if values:
                found[name] = sum(values)
        for step, said in STEPS.items():
            seconds = [note["seconds"] for (each, _), note in notes.items() if each == step]
            if seconds:
                found[f"tasks {said}"] = len(seconds)
                found[f"seconds {said}"] = round(sum(seconds), 3)
        return found

    def __str__(self) -> str:
        if self.records.accumulator is None:
            lines = ["Spark Connect cannot tell what its tasks did; what was known before they ran:"]
        elif not self.records.accumulator.value:
            lines = ["nothing has run yet: the matches are lazy; call an action on them first"]
        else:
            lines = []
        figures = self.figures
        width = max(map(len, figures), default=0)
        lines += [
            f"{name:<{width}}  {value:>15,}"
            if isinstance(value, int)
            else f"{name:<{width}}  {value:>15,.3f}"
            for name, value in figures.items()
        ]
        return "\n".join(lines)
