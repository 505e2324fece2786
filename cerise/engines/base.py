"""The interface of all engines: options, matchers, matches and reports."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.limits import DEFAULT, Limits
from cerise.errors import DataError, PlanError, StateLayoutError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound

if TYPE_CHECKING:
    from cerise.plan.multi.plan_search import PlanSearch

AFRESH = "start the query afresh"
AGAIN = "run the query again over the events of its windows, or start it afresh"
_STATE = re.compile(rb"([a-z-]+\n)?cerise\.|\n-?\d*\Z")  # of an engine, or of a race: see `TrialMatcher.save`


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a query; options never change the result.

    Args:
        engine: the engine's name; None lets Cerise choose.
        max_runs: how many runs may be alive at once before the query ends with an error.
        max_steps: how many steps the search for one row match may take before the query ends with an error;
            all searches together may take twice as many, and 10,000 more for each row they started from.
        partitions: how many Spark tasks share the events; None lets Cerise choose.
        passes: how many times tasks read files whose events are exchanged: 1 exchanges all that may matter;
            2 or 3 exchange only events near those of rare variables; None lets Cerise choose.
        threads: how many threads match a table in this process; None lets Cerise choose.
        strict: whether a warning about the query is an error.
        plan: how to search for the joins of several any-match queries; None: for at most a second.
        limits: the sizes of batches, buffers and tables; see `Limits`.
    """

    engine: str | None = None
    max_runs: int = 1_000_000
    max_steps: int = 50_000_000
    partitions: int | None = None
    passes: int | None = None
    threads: int | None = None
    strict: bool = False
    plan: PlanSearch | None = None
    limits: Limits = DEFAULT

    def __post_init__(self) -> None:
        for name in ("max_runs", "max_steps", "partitions", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError(f"{name} is {value}", hint="it must be at least 1")
        if self.passes not in (None, 1, 2, 3):
            raise PlanError(f"passes is {self.passes!r}", hint="it must be 1, 2 or 3")


@dataclass(frozen=True, slots=True)
class Matches:
    """A batch of matches: for each variable the rows of `events` that each match binds to it.

    Attributes:
        events: the events that the rows number.
        rows: one list column per variable, in pattern order; null where the variable is not bound.
        counted: how many matches there are, if the query asks only for their number (S7.2).
    """

    events: EventBatch
    rows: Mapping[str, pa.ListArray]
    counted: int | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def count(self) -> int:
        """How many matches there are; `len` cannot say more than 2^63."""
        return len(next(iter(self.rows.values()))) if self.counted is None else self.counted


@dataclass(frozen=True, slots=True)
class Tally:
    """How many matches one event completes, without the matches themselves (S7.2).

    An engine gives tallies only if each of `bound.arguments` is a value of one event (`is_single_event`):
    then an aggregate over matches follows from how many matches take their value from each event.

    Attributes:
        events: the events that the rows number.
        last: the row of the event that completes the matches.
        window: the number k of the window [k·s, k·s + w) that holds the matches, for PER WINDOW.
        count: how many matches there are.
        weights: for each index into `bound.arguments` the rows that supply the argument, and how many of the
            matches take it from each row: a Kleene variable's own values once for each of its events.
    """

    events: EventBatch
    last: int
    window: int | None
    count: int
    weights: Mapping[int, tuple[npt.NDArray[np.int64], Sequence[int]]]


Finding = Matches | Tally


@dataclass(slots=True)
class EngineReport:
    """The counters of an engine; 0 for a counter that the engine does not keep.

    Attributes:
        events: how many events the engine read.
        matches: how many matches it found.
        most_runs: the most runs that were alive at once.
        uncomputable: how many values could not be computed and were null (S4.6).
        run_steps: the sum over all events of the runs alive [SASE08 Table 2: runs per time step].
        matched_events: the sum of the lengths of all matches constructed [SASE08 Table 2: match length].
        opened_runs: how many events opened a run.
        merged_runs: how many runs were merged into another [SASE08 Table 3].
        buffer_updates: how many nodes were written to the shared buffer [SASE08 Table 3].
        reread_events: how often an event was read again [Expt 3].
        candidates: how many pairs of rows joins tested.
        joined_rows: how many of these pairs passed.
        matching_seconds: the time spent moving runs.
        construction_seconds: the time spent writing out matches.
    """

    events: int = 0
    matches: int = 0
    most_runs: int = 0
    uncomputable: int = 0
    run_steps: int = 0
    matched_events: int = 0
    opened_runs: int = 0
    merged_runs: int = 0
    buffer_updates: int = 0
    reread_events: int = 0
    candidates: int = 0
    joined_rows: int = 0
    matching_seconds: float = 0.0
    construction_seconds: float = 0.0

    @property
    def runs_per_step(self) -> float:
        return self.run_steps / self.events if self.events else 0.0

    @property
    def match_length(self) -> float:
        return self.matched_events / self.matches if self.matches else 0.0

    @property
    def figures(self) -> dict[str, float]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def summarize(self) -> dict[str, float]:
        figures = {"matches": self.matches, "most runs at once": self.most_runs}
        figures["values that could not be computed"] = self.uncomputable
        figures["candidates"], figures["joined rows"] = self.candidates, self.joined_rows
        return {name: value for name, value in figures.items() if value or name == "matches"}

    def add(self, other: EngineReport) -> None:
        for name, value in other.figures.items():
            best = max(self.most_runs, other.most_runs) if name == "most_runs" else None
            setattr(self, name, getattr(self, name) + value if best is None else best)

    def __str__(self) -> str:
        counted = f"{self.events} events, {self.matches} matches, at most {self.most_runs} runs at once"
        faults = f"; {self.uncomputable} values could not be computed and were null"
        return counted + (faults if self.uncomputable else "")


class Matcher(Protocol):
    """One query running over one stream, of any number of partitions; all mutable state is here."""

    report: EngineReport

    @property
    def alive(self) -> Mapping[str, int]:
        """How many runs or events the matcher keeps, by these names."""
        ...

    def feed(self, events: EventBatch) -> Iterator[Finding]:
        """Take the next events in stream order; yield the matches that become final, in batches.

        For a query that asks for totals an engine may yield tallies, matches or both. It reads events while
        the caller takes matches: exhaust the iterator before the next call.
        """
        ...

    def advance(self, time: int) -> Iterator[Finding]:
        """No event before `time` will come; yield the matches that this makes final.

        A match that waits for a veto is final as soon as `time` is after the last moment at which an event
        could veto it. Windows that count events do not depend on time.
        """
        ...

    def flush(self) -> Iterator[Finding]:
        """Yield the matches that the end of the stream makes final."""
        ...

    def save(self) -> bytes:
        """Return the state, for `load` in another process."""
        ...

    def load(self, state: bytes) -> None:
        """Go on from a saved state of the same query."""
        ...


def refuse_disorder(last: int | None, events: EventBatch) -> None:
    """Refuse events that are earlier than the last ones, or than the time to which a matcher advanced.

    Raises:
        DataError: the events go back in time.
    """
    if last is not None and events.times[0] < last:
        raise DataError(
            f"events go back in time, from {last} to {events.times[0]}", hint="feed batches in stream order"
        )


def refuse_state(state: bytes) -> DataError:
    """Return the error for bytes that are not a saved state of an engine; another engine's are told apart."""
    problem = "these bytes are not a saved state of this engine"
    if _STATE.match(state):
        return StateLayoutError(problem, hint=f"load it with the engine that saved it, or {AGAIN}")
    return DataError(problem, hint=AFRESH)


class Engine(Protocol):
    """An algorithm that finds matches. Its modules hold no state."""

    @property
    def name(self) -> str:
        """The name that users give in `Options(engine=…)`."""
        ...

    def why_not(self, bound: Bound) -> str | None:
        """Say in a sentence why this engine cannot run a query; None if it can."""
        ...

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        ...

    def explain(self, bound: Bound) -> Mapping[str, str]:
        """Describe how this engine runs a query, as named lines for `explain`."""
        ...


class Progress:
    """Ends a loop that calls a kernel again and again without progress.

    Kernels are deterministic: a kernel that returns twice in the same state would do so for ever.
    """

    def __init__(self) -> None:
        self._before: Hashable = None

    def check(self, state: Hashable) -> None:
        """Raise PlanError if a kernel returns in the same state as before.

        Args:
            state: everything that determines how the kernel goes on.
        """
        if state == self._before:
            raise PlanError(
                "the engine makes no progress: this is a fault of Cerise, and the query is ended",
                hint="please report the query; another engine may run it: Options(engine=…)",
            )
        self._before = state


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.uint8] | npt.NDArray[np.int64]  # a bit for each label


@dataclass(frozen=True, slots=True)
class RowMatches:
    """Row matches in the order in which they were found: by partition, then by their first row.

    Attributes:
        starts: the first row of each match in the prepared table; for an empty match, the row where it was
            found.
        lengths: how many rows each match has.
        numbers: the MATCH_NUMBER() of each match.
        partition: the number of the partition of each match.
        labels: for all rows of all matches, match after match, the index of the row's label in
            `BoundRows.labels`.
        excluded: whether the output omits each of these rows (M38); None: it shows all.
        timeouts: whether each match is a time-out: partial, its window expired (M46); None: none is.
        unmatched: the rows that the output shows without a match, ascending (M36); None: none.
    """

    starts: Ints
    lengths: Ints
    numbers: Ints
    partition: Ints
    labels: npt.NDArray[np.int16]
    excluded: Bools | None = None
    timeouts: Bools | None = None
    unmatched: Ints | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def firsts(self) -> Ints:
        """Where the rows of each match begin in `labels`."""
        return self.ends - self.lengths

    @property
    def ends(self) -> Ints:
        """Where the rows of each match end in `labels`."""
        return np.cumsum(self.lengths, dtype=np.int64)

    @property
    def owners(self) -> Ints:
        """The match of each row in `labels`."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    @property
    def rows(self) -> Ints:
        inside = np.arange(len(self.labels), dtype=np.int64) - np.repeat(self.firsts, self.lengths)
        return np.repeat(self.starts, self.lengths) + inside


def concat_matches(parts: list[RowMatches]) -> RowMatches:
    """Concatenate matches that were found one after another."""
    if len(parts) == 1:
        return parts[0]

    def whole(name: str) -> Ints:
        return np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) for each in parts)])

    def flags(name: str, like: str) -> Bools | None:
        if all(getattr(each, name) is None for each in parts):
            return None
        known = [(getattr(each, name), len(getattr(each, like))) for each in parts]
        return np.concatenate([np.zeros(size, np.bool_) if each is None else each for each, size in known])

    return RowMatches(
        whole("starts"), whole("lengths"), whole("numbers"), whole("partition"),
        whole("labels").astype(np.int16), flags("excluded", "labels"), flags("timeouts", "starts"),
    )  # fmt: skip


def find_rows_outside(matches: RowMatches, total: int, first: int = 0) -> Ints:
    """Return the rows, of `total` from `first` on, outside all matches; an empty match has one row (M36)."""
    ends = matches.starts + np.maximum(matches.lengths, 1)
    changes = np.zeros(total + 1, np.int64)
    np.add.at(changes, matches.starts - first, 1)
    np.add.at(changes, ends - first, -1)
    return np.flatnonzero(np.cumsum(changes[:-1]) == 0).astype(np.int64) + first
