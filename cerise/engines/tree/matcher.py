"""Runs one any-match query as a team of its own: the interface that all engines have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from cerise.engines.base import EngineReport, Finding, Options
from cerise.engines.census import Census, Load
from cerise.engines.tree.team import JoinTeam
from cerise.engines.tree.team_state import load_team, save_team
from cerise.events import EventBatch
from cerise.pattern.bound import Bound

Ints = npt.NDArray[np.int64]


class TreeMatcher:
    """The state of one query that runs as a tree of joins."""

    def __init__(self, bound: Bound, options: Options) -> None:
        self.team = JoinTeam([bound], options)
        self.report: EngineReport = self.team.report.team

    def feed(self, events: EventBatch) -> Iterator[Finding]:
        """Take the next events in stream order; yield the matches that become final, in batches."""
        for _, found in self.team.feed(events):
            yield found

    def advance(self, time: int) -> Iterator[Finding]:
        """No event before `time` will come; yield the matches that this makes final."""
        for _, found in self.team.advance(time):
            yield found

    def flush(self) -> Iterator[Finding]:
        """Yield the matches that the end of the stream makes final, and reset the state."""
        for _, found in self.team.flush():
            yield found

    def save(self) -> bytes:
        """Return the state, for `load` in another process."""
        return save_team(self.team)

    def load(self, state: bytes) -> None:
        """Go on from a saved state of the same query."""
        load_team(self.team, state)

    @property
    def alive(self) -> Mapping[str, int]:
        return {"events": len(self.team.events)}

    # ---- limits

    def measure(self, *, by_partition: bool) -> Load:  # noqa: ARG002
        """Return upper bounds of the events and bytes."""
        count = len(self.team.events)
        return Load(count, count, self.team.nbytes)

    def census(self) -> Census:
        """Drop expired events, and count the others."""
        return self.team.census()

    def evict(self, places: Ints) -> None:
        """Drop events of the last census."""
        self.team.evict(places)
