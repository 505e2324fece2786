"""Races engines on the first events of a stream: the fastest one runs the query.

The number of runs of a query depends on its events: on how many fit a Kleene variable within a window, and
on how often predicates between them hold. So the race measures: the engines run over the first events for
some milliseconds, in laps that grow, and the last lap that two engines have finished decides between them.
The first lap only warms them up. An engine that falls far behind is stopped, and no lap starts that would
exceed the time. The matches of a race are not used.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cerise.engines.base import Engine, EngineReport, Finding, Matcher, Options, refuse_disorder, refuse_state
from cerise.engines.census import EMPTY, Census, Evictable, Ints, Load
from cerise.errors import PlanError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound

log = logging.getLogger(__name__)

TRIED = 1 << 17  # the most events that race
GROWTH = 4  # each lap has 4 times as many events as the lap before
SECONDS = 0.02  # for each engine, if the first batch has at least
WHOLE = 50_000  # events; in proportion less if it has fewer
SHARE = 1 / 32  # of the time that the engine would take for the batch, where that is less
BETTER = 0.8  # the last engine is safe: another wins if it takes less than 0.8 of its time
HOPELESS = 2  # an engine that takes twice as long ends the race: later engines keep even more runs
_WAITING = re.compile(rb"(-?\d{1,19})?")  # the state of a race before its first event, after the line's end
BEATEN = 3  # an engine that takes 3 times as long as the best for the same events has lost
CLEAR = 0.4  # an engine that takes less than this share of the safe one's time need not beat it twice


@dataclass(frozen=True, slots=True)
class Trial:
    """An engine that is one of several; the first events decide which one.

    Attributes:
        engines: the engines in the race; engines that keep most runs come first.
    """

    engines: tuple[Engine, ...]

    @property
    def name(self) -> str:
        return " or ".join(engine.name for engine in self.engines)

    def why_not(self, bound: Bound) -> str | None:
        """Say why one of the engines cannot run a query; None if all can."""
        reasons = [engine.why_not(bound) for engine in self.engines]
        return next((reason for reason in reasons if reason is not None), None)

    def start(self, bound: Bound, options: Options) -> Matcher:
        return TrialMatcher(self.engines, bound, options)

    def explain(self, bound: Bound) -> Mapping[str, str]:
        facts: dict[str, str] = {}
        for engine in self.engines:
            facts |= engine.explain(bound)  # engines that explain the same name explain it alike
        return facts


class TrialMatcher:
    """The matcher of a query whose first events choose its engine."""

    def __init__(self, engines: Sequence[Engine], bound: Bound, options: Options) -> None:
        self.engines = {engine.name: engine for engine in engines}
        self.bound, self.options = bound, options
        self.chosen: str | None = None
        self.report = EngineReport()
        self._matcher: Matcher | None = None
        self._advanced: int | None = None  # the time before which no event will come, until an engine runs

    def feed(self, events: EventBatch) -> Iterator[Finding]:
        """Take the next events in stream order; the first batch chooses the engine."""
        if not len(events):
            return
        if self._matcher is None:
            refuse_disorder(self._advanced, events)
            self._start(self._find_fastest(events))
        assert self._matcher is not None
        yield from self._matcher.feed(events)

    def advance(self, time: int) -> Iterator[Finding]:
        """No event before `time` will come; yield the matches that this makes final."""
        if self._matcher is None:
            self._advanced = time if self._advanced is None else max(time, self._advanced)
            return
        yield from self._matcher.advance(time)

    def flush(self) -> Iterator[Finding]:
        if self._matcher is None:
            self._start(next(iter(self.engines)))
        assert self._matcher is not None
        yield from self._matcher.flush()

    def save(self) -> bytes:
        """Return the state, for `load` in another process: the engine's name and the engine's state."""
        if self._matcher is None or self.chosen is None:
            return b"\n" + (b"" if self._advanced is None else str(self._advanced).encode())
        return self.chosen.encode() + b"\n" + self._matcher.save()

    def load(self, state: bytes) -> None:
        """Go on from a saved state of the same query."""
        name, ends, rest = state.partition(b"\n")
        if ends and not name and _WAITING.fullmatch(rest):
            self._matcher, self.chosen, self._advanced = None, None, int(rest) if rest else None
            return
        if (known := name.decode(errors="replace")) not in self.engines:
            raise refuse_state(state)
        self._advanced = None
        self._start(known)
        assert self._matcher is not None
        self._matcher.load(rest)

    @property
    def alive(self) -> Mapping[str, int]:
        return {} if self._matcher is None else self._matcher.alive

    def measure(self, *, by_partition: bool) -> Load:
        return Load(0, 0, 0) if self._matcher is None else self._evictable.measure(by_partition=by_partition)

    def census(self) -> Census:
        return EMPTY if self._matcher is None else self._evictable.census()

    def evict(self, places: Ints) -> None:
        self._evictable.evict(places)

    @property
    def _evictable(self) -> Evictable:
        assert isinstance(self._matcher, Evictable)  # the reference does not race
        return self._matcher

    def _start(self, name: str) -> None:
        self.chosen = name
        self._matcher = self.engines[name].start(self.bound, self.options)
        if self._advanced is not None:
            for _ in self._matcher.advance(self._advanced):  # without events, nothing can match
                pass
            self._advanced = None
        self.report = self._matcher.report

    def _find_fastest(self, events: EventBatch) -> str:
        """Return the engine that runs the query; it is asked once, with the first events."""
        return self._run_race(events, list(self.engines))

    def _run_race(self, events: EventBatch, names: Sequence[str]) -> str:
        """Return the engine that is fastest over the first events; the last one is safe and wins ties."""
        safe, *others = reversed(names)
        if not others or len(events) < self.options.limits.raced_events:
            return safe
        best, record, clear = safe, self._race_safe(events, safe), False
        for name in others:
            times = self._race(self.engines[name], events, record)
            log.info("%s against %s: %s against %s", name, best, _show(times), _show(record))
            last = min(len(times), len(record)) - 1
            if times[last] < record[last]:
                clear = last > 1 and times[last] < CLEAR * record[last]  # the first laps may warm up
                best, record = name, times
            elif times[last] > HOPELESS * record[last]:
                break
        if best == safe or clear:
            return best
        again = self._race_safe(
            events, safe
        )  # it raced first, when the data that engines share was not cached
        last = min(len(again), len(record)) - 1
        log.info("%s against %s: %s against %s", best, safe, _show(record), _show(again))
        return best if record[last] < again[last] else safe

    def _race_safe(self, events: EventBatch, safe: str) -> list[float]:
        """Return the seconds for each lap that another engine must beat to be preferred to the safe one."""
        return [BETTER * each for each in self._race(self.engines[safe], events, [])]

    def _race(self, engine: Engine, events: EventBatch, record: Sequence[float]) -> list[float]:
        """Return the seconds that an engine takes for each lap over events; infinite for a lap it gives up.

        Args:
            engine: the engine.
            events: the first events of the stream.
            record: the seconds for each lap of the best engine so far; an engine far behind stops.
        """
        careful = replace(self.options, max_runs=min(self.options.limits.raced_runs, self.options.max_runs))
        seconds = SECONDS * min(1.0, len(events) / WHOLE)
        matcher = engine.start(self.bound, careful)
        times: list[float] = []
        done, whole = 0, math.inf
        while done < min(TRIED, len(events)):
            spent = sum(times[1:])
            if len(times) > 1 and spent + times[-1] * GROWTH > min(seconds, SHARE * whole):
                break
            part = replace(
                events.slice(done, done + self.options.limits.first_race * GROWTH ** len(times)), opens=None
            )
            now = time.thread_time()
            try:
                for _ in matcher.feed(part):
                    if spent + time.thread_time() - now > seconds:  # one event may complete many matches
                        return [*times, math.inf]
            except PlanError:
                return [*times, math.inf]
            times.append(time.thread_time() - now)
            whole = times[-1] / len(part) * len(events)
            known = record[len(times) - 1] if len(times) <= len(record) else math.inf
            if len(times) > 1 and times[-1] > BEATEN * known:
                break
            done += len(part)
        return times


def _show(times: Sequence[float]) -> str:
    return " ".join(f"{1e3 * each:.3g}" for each in times) + " ms"
