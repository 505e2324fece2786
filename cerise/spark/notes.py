"""What a run on Spark did: figures that tasks note, each task once however often it was tried."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from cerise.errors import CeriseWarning
from cerise.run.question import Note
from cerise.run.report import ORDER_HINT, TIES, Report, say_ties

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
