"""What every engine offers, what it is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from cerise.errors import PlanError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a query; never what it means.

    Args:
        engine: the engine's name; None lets Cerise choose.
        max_runs: how many runs may be alive at once before the query is given up with an error.
        partitions: into how many Spark tasks the events are exchanged; None leaves it to Spark.
        strict: whether a warning about the query is an error.
    """

    engine: str | None = None
    max_runs: int = 1_000_000
    partitions: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        for name, value in {"max_runs": self.max_runs, "partitions": self.partitions}.items():
            if value is not None and value < 1:
                raise PlanError(f"{name} is {value}", hint="it must be at least 1")


@dataclass(frozen=True, slots=True)
class Matches:
    """Some matches: for each variable the rows of `events` that each match binds to it.

    Attributes:
        events: the events that the bindings point into.
        rows: one list column per variable, in pattern order; null where the variable is not bound.
    """

    events: EventBatch
    rows: Mapping[str, pa.ListArray]

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))


@dataclass(slots=True)
class Report:
    """What an engine counted while it ran."""

    events: int = 0
    matches: int = 0
    most_runs: int = 0
    uncomputable: int = 0

    def __str__(self) -> str:
        counted = f"{self.events} events, {self.matches} matches, at most {self.most_runs} runs at once"
        faults = f"; {self.uncomputable} values could not be computed and were null"
        return counted + (faults if self.uncomputable else "")


class Matcher(Protocol):
    """One query running over one stream, of any number of partitions; all mutable state is here."""

    report: Report

    def feed(self, events: EventBatch) -> Matches:
        """Take the next events in stream order; return the matches that have become final."""
        ...

    def flush(self) -> Matches:
        """Return the matches that the end of the stream makes final."""
        ...

    def save(self) -> bytes:
        """Return the state, for `load` in another process."""
        ...

    def load(self, state: bytes) -> None:
        """Go on from a saved state of the same query."""
        ...


class Engine(Protocol):
    """An algorithm. Its modules hold no state."""

    name: str

    def why_not(self, bound: Bound) -> str | None:
        """Say in a sentence why this engine cannot run a query; None where it can."""
        ...

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        ...
