"""The watermark of a stream: the time before which no event is waited for.

Each source tells the latest time that it has seen, its top. Its own watermark is the top less its delay; the
stream's is the least of all sources that are not idle. It never falls (S11.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cerise.kinds import INT64_MAX, INT64_MIN


@dataclass(frozen=True, slots=True)
class TimeRules:
    """How long a stream waits for events, in the units of its time column.

    Attributes:
        delays: for each source, how much later than its latest event an event may arrive.
        idle: how long a source may be silent before the others no longer wait for it; None: for ever.
        ahead: how far beyond the present an event may lie; a later one is set aside. None: any time.
    """

    delays: Mapping[str, int]
    idle: int | None = None
    ahead: int | None = None

    @property
    def uses_now(self) -> bool:
        return self.idle is not None or self.ahead is not None


@dataclass(slots=True)
class Watermark:
    """The watermark, and the facts that it follows from.

    Attributes:
        rules: how long the stream waits.
        time: the watermark: events before it are late.
        tops: the latest time that each source has seen.
        heard: the time, by the clock on the wall, of the last batch in which each source had events.
    """

    rules: TimeRules
    time: int = INT64_MIN
    tops: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)

    def observe(self, tops: Mapping[str, int], now: int | None, floor: int | None = None) -> None:
        """Follow a batch.

        Args:
            tops: the latest time that each source saw in the batch; a source without events is missing.
            now: the time of the batch by the clock on the wall; None: the rules do not use it.
            floor: a time before which the caller knows that no event will come.
        """
        for source, top in tops.items():
            self.tops[source] = max(top, self.tops.get(source, top))
        if now is not None:
            for source in self.rules.delays:
                if source in tops or source not in self.heard:
                    self.heard[source] = now
        known = self._of_sources(now)
        self.time = min(max(self.time, known, INT64_MIN if floor is None else floor), INT64_MAX)

    def _of_sources(self, now: int | None) -> int:
        active = [source for source in self.rules.delays if not self.is_idle(source, now)]
        if active:
            return min(self._of_source(source) for source in active)
        assert now is not None
        assert self.rules.idle is not None
        return now - max(self.rules.delays.values()) - self.rules.idle

    def _of_source(self, source: str) -> int:
        return self.tops[source] - self.rules.delays[source] if source in self.tops else INT64_MIN

    def is_idle(self, source: str, now: int | None) -> bool:
        """Whether a source has been silent for so long that the others no longer wait for it."""
        if self.rules.idle is None or now is None:
            return False
        return now - self.heard.get(source, now) >= self.rules.idle

    def slowest(self, now: int | None) -> str | None:
        """Return the source that holds the watermark back; None: all sources are idle."""
        active = [source for source in self.rules.delays if not self.is_idle(source, now)]
        return min(active, key=self._of_source, default=None)

    def save(self) -> dict[str, Any]:
        return {"time": self.time, "tops": self.tops, "heard": self.heard}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a source that is gone no longer counts."""
        self.time = int(state["time"])
        self.tops = {name: top for name, top in state["tops"].items() if name in self.rules.delays}
        self.heard = {name: at for name, at in state["heard"].items() if name in self.rules.delays}
