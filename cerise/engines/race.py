"""Engines tried on the first events of a stream: the faster one runs the query.

How many partial matches a query has depends on its events: on how many fit a Kleene variable within a
window, and on how often predicates between them hold. So this is measured, not guessed: the engines run over
the first events for some milliseconds, in ever longer goes, and the last go that two of them have made
decides between them. The first go only warms them up. One that falls far behind is stopped, and no go is
begun for which there should be no time. No result is used.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cerise.engines.base import Engine, Finding, Matcher, Options, Report
from cerise.errors import DataError, PlanError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound

log = logging.getLogger(__name__)

TRIED = 1 << 17  # events, at most
GROWTH = 4  # times as many events has each go as the one before
SECONDS = 0.02  # for each engine, of a first batch that has
WHOLE = 50_000  # events; less for fewer
BETTER = 0.8  # of the time of the last engine, which is safe: another must take less to be preferred
HOPELESS = 2  # times as long as another: engines that keep more runs than this one are not tried
BEATEN = 3  # times as long as another for the same events: an engine that takes more has lost


@dataclass(frozen=True, slots=True)
class Trial:
    """An engine that is one of others; which one is known when the first events are there.

    Attributes:
        engines: those that keep most runs first.
    """

    engines: tuple[Engine, ...]

    @property
    def name(self) -> str:
        return " or ".join(engine.name for engine in self.engines)

    def why_not(self, bound: Bound) -> str | None:
        """Say why none of the engines can run a query; None where they can."""
        reasons = [engine.why_not(bound) for engine in self.engines]
        return next((reason for reason in reasons if reason is not None), None)

    def start(self, bound: Bound, options: Options) -> Matcher:
        return TrialMatcher(self.engines, bound, options)

    def explain(self, bound: Bound) -> Mapping[str, str]:
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
        """Return the engine that is faster over the first events; of near equals the last, which is safe."""
        safe, *others = reversed(self.engines)
        if len(events) < self.options.limits.raced_events:
            return safe
        best, record = safe, self._tried_safe(events)
        for name in others:
            times = self._tried(self.engines[name], events, record)
            log.info("%s against %s: %s against %s", name, best, _shown(times), _shown(record))
            last = min(len(times), len(record)) - 1
            if times[last] < record[last]:
                best, record = name, times
            elif times[last] > HOPELESS * record[last]:
                break
        if best == safe:
            return safe
        again = self._tried_safe(events)  # it went first: what it shares with the others was not warm
        last = min(len(again), len(record)) - 1
        log.info("%s against %s: %s against %s", best, safe, _shown(record), _shown(again))
        return best if record[last] < again[last] else safe

    def _tried_safe(self, events: EventBatch) -> list[float]:
        """Return what another engine must take less than, to be preferred to the last one."""
        return [BETTER * each for each in self._tried(self.engines[next(reversed(self.engines))], events, [])]

    def _tried(self, engine: Engine, events: EventBatch, record: Sequence[float]) -> list[float]:
        """Return the seconds that an engine takes for each go over events; infinite where it gives up.

        Args:
            engine: the engine.
            events: the first events of the stream.
            record: the seconds of the best engine so far; one that is far behind goes no further.
        """
        careful = replace(self.options, max_runs=min(self.options.limits.raced_runs, self.options.max_runs))
        seconds = SECONDS * min(1.0, len(events) / WHOLE)
        matcher = engine.start(self.bound, careful)
        times: list[float] = []
        done = 0
        while done < min(TRIED, len(events)):
            spent = sum(times[1:])
            if len(times) > 1 and spent + times[-1] * GROWTH > seconds:
                break
            part = replace(
                events.slice(done, done + self.options.limits.first_race * GROWTH ** len(times)), opens=None
            )
            now = time.thread_time()
            try:
                for _ in matcher.feed(part):
                    if spent + time.thread_time() - now > seconds:  # one event may complete any number
                        return [*times, math.inf]
            except PlanError:
                return [*times, math.inf]
            times.append(time.thread_time() - now)
            known = record[len(times) - 1] if len(times) <= len(record) else math.inf
            if len(times) > 1 and times[-1] > BEATEN * known:
                break
            done += len(part)
        return times


def _shown(times: Sequence[float]) -> str:
    return " ".join(f"{1e3 * each:.3g}" for each in times) + " ms"
