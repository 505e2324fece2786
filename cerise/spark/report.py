"""What a run on Spark did: figures that tasks note, each task once however often it was tried."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from cerise.errors import BindError, CeriseWarning

Note = dict[str, float]
Noted = dict[tuple[str, Hashable], Note]

log = logging.getLogger(__name__)

TIES = "events whose order a hash decides"
ORDER_HINT = "name columns that decide it: order=[…]; in SQL, ORDER BY"


class _Latest(AccumulatorParam[Noted]):
    """Notes by step and task: one that was tried twice, or by two workers at once, counts once.

    Args:
        told: is told all notes, on the driver, when there are new ones.
    """

    def __init__(self, told: Callable[[Noted], None] | None = None) -> None:
        self.told = told

    def __reduce__(self) -> tuple[Any, ...]:
        """In tasks nothing is told."""
        return _Latest, ()

    def zero(self, value: Noted) -> Noted:  # noqa: ARG002
        """Return no notes."""
        return {}

    def addInPlace(self, one: Noted, other: Noted) -> Noted:  # noqa: N802
        """Take over notes."""
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
    def _told(cls, spark: Any, told: Callable[[Noted], None] | None, only: str | None) -> Records:
        context = getattr(spark, "_sc", None)
        return cls() if context is None else cls(context.accumulator({}, _Latest(told)), only)

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
        """Return the number of the task that this runs in."""
        context = TaskContext.get()
        return 0 if context is None else context.partitionId()


class _Warned:
    """Warns once of ties, from the thread in which accumulators arrive: nothing may be raised there."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, notes: Noted) -> None:
        """Warn, where notes tell of ties."""
        ties = tied(notes)
        if ties and not self.done:
            self.done = True
            try:
                warnings.warn(f"at least {_said(ties)}: {ORDER_HINT}", CeriseWarning, stacklevel=2)
            except CeriseWarning as warning:  # warnings are errors here, and the action must not hang
                log.warning("%s", warning)


def tied(notes: Noted) -> int:
    """Return how many events have an order that only a hash decides (S1.2)."""
    return int(sum(note.get(TIES, 0) for note in notes.values()))


def warn_of_ties(records: Records) -> None:
    """Warn of ties when an action of Cerise has run."""
    ties = 0 if records.accumulator is None else tied(records.accumulator.value)
    if ties:
        warnings.warn(f"{_said(ties)}: {ORDER_HINT}", CeriseWarning, stacklevel=4)


def note_ties(note: Note, ties: int, *, strict: bool) -> None:
    """Note in a task how many events have an order that only a hash decides.

    Raises:
        BindError: there are such events, and warnings are errors.
    """
    if ties:
        count(note, TIES, ties)
        if strict:
            raise BindError(_said(ties), hint=f"{ORDER_HINT}; Options(strict=True) makes this an error")


def _said(ties: int) -> str:
    shared = "1 event shares its" if ties == 1 else f"{ties:,} events share their"
    return f"{shared} time (and partition) with an event before, and no order column decides which is first"


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
    "bytes of the index read", "events kept", "events matched over", TIES, "matches", RESULT,
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
        if TIES in figures:
            lines.append(f"no order column decides the order of {figures[TIES]:,} events: {ORDER_HINT}")
        return "\n".join(lines)
