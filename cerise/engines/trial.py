"""Two engines tried on the first events of a stream: the faster one runs the query.

How many partial matches a query has depends on its events: on how many fit a Kleene variable within a
window, and on how often predicates between them hold. So this is measured, not guessed: both engines run
over the first events for some milliseconds, and what counts is how far each comes. Neither result is used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cerise.engines.base import Engine, Finding, Matcher, Options, Report
from cerise.errors import DataError, PlanError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound

log = logging.getLogger(__name__)

WORTH_A_TRIAL = 10_000  # events: with fewer, the last of the engines, which is safe, runs the query
TRIED = 1 << 17  # events, at most
FIRST_STEP = 1 << 10  # events between two looks at the clock, at first
SECONDS = 0.03  # for each engine, of a first batch that has
WHOLE = 50_000  # events; less for fewer
MAX_RUNS = 100_000  # an engine that keeps more at a time has lost


@dataclass(frozen=True, slots=True)
class Trial:
    """An engine that is one of others; which one is known when the first events are there."""

    engines: tuple[Engine, ...]

    @property
    def name(self) -> str:
        """What users call it."""
        return " or ".join(engine.name for engine in self.engines)

    def why_not(self, bound: Bound) -> str | None:
        """Say why none of the engines can run a query; None where they can."""
        reasons = [engine.why_not(bound) for engine in self.engines]
        return next((reason for reason in reasons if reason is not None), None)

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        return TrialMatcher(self.engines, bound, options)

    def explain(self, bound: Bound) -> Mapping[str, str]:
        """Say what is to be known about how each of the engines runs a query."""
        said: dict[str, str] = {}
        for engine in self.engines:
            said |= engine.explain(bound)  # what two of them say, they say alike
        return said


class TrialMatcher:
    """A query that waits for its first events, and then for nothing but its engine."""

    def __init__(self, engines: Sequence[Engine], bound: Bound, options: Options) -> None:
        self.engines = {engine.name: engine for engine in engines}
        self.bound, self.options = bound, options
        self.chosen: str | None = None
        self.report = Report()
        self._matcher: Matcher | None = None

    def feed(self, events: EventBatch) -> Iterator[Finding]:
        """Take the next events in stream order; the first ones choose the engine."""
        if not len(events):
            return
        if self._matcher is None:
            self._start(self._better(events))
        assert self._matcher is not None
        yield from self._matcher.feed(events)

    def flush(self) -> Iterator[Finding]:
        """Yield the matches that the end of the stream makes final."""
        if self._matcher is None:
            self._start(next(iter(self.engines)))
        assert self._matcher is not None
        yield from self._matcher.flush()

    def save(self) -> bytes:
        """Return the state, for `load` in another process: the engine's name and its own."""
        if self._matcher is None or self.chosen is None:
            return b"\n"
        return self.chosen.encode() + b"\n" + self._matcher.save()

    def load(self, state: bytes) -> None:
        """Go on from a saved state of the same query."""
        name, ends, rest = state.partition(b"\n")
        if ends and not name and not rest:
            self._matcher, self.chosen = None, None
            return
        if (known := name.decode(errors="replace")) not in self.engines:
            raise DataError("these bytes are no saved state of this query", hint="start the query afresh")
        self._start(known)
        assert self._matcher is not None
        self._matcher.load(rest)

    def _start(self, name: str) -> None:
        self.chosen = name
        self._matcher = self.engines[name].start(self.bound, self.options)
        self.report = self._matcher.report

    def _better(self, events: EventBatch) -> str:
        """Return the engine that comes further over the first events."""
        if len(events) < WORTH_A_TRIAL:
            return list(self.engines)[-1]
        speeds = {name: self._speed(engine, events) for name, engine in self.engines.items()}
        best = max(reversed(speeds), key=lambda name: speeds[name])  # of equals the last, which is safe
        log.info("%s", ", ".join(f"{name}: {speed:,.0f} events/s" for name, speed in speeds.items()))
        return best

    def _speed(self, engine: Engine, events: EventBatch) -> float:
        """Return how many events a second an engine takes, in the last of ever longer goes; -1: none."""
        careful = replace(self.options, max_runs=min(MAX_RUNS, self.options.max_runs))
        seconds = SECONDS * min(1.0, len(events) / WHOLE)
        matcher = engine.start(self.bound, careful)
        done, step, speed, begun = 0, FIRST_STEP, 0.0, time.thread_time()
        while done < min(TRIED, len(events)):
            now = time.thread_time()
            part = replace(events.slice(done, done + step), opens=None)
            try:
                for _ in matcher.feed(part):
                    if time.thread_time() - begun > seconds:  # one event may complete any number of matches
                        return min(speed, len(part) / (time.thread_time() - now)) if speed else 0.0
            except PlanError:
                return -1.0
            speed = len(part) / max(time.thread_time() - now, 1e-9)
            if time.thread_time() - begun > seconds:
                break
            done, step = done + len(part), 2 * step
        return speed
