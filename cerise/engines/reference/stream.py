"""The events of one partition for the reference, and the reach of its windows (S5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cerise.pattern.bound import Bound
from cerise.pattern.evaluate import Columns
from cerise.pattern.expr import Param
from cerise.pattern.query import Unit


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of one partition; the position of an event is its index here (S1.5).

    Attributes:
        columns: the attributes that the query reads.
        times: when each event happened.
        opens: whether a match may start with each event; None: with any event.
    """

    columns: Columns
    times: Sequence[int]
    opens: Sequence[bool] | None = None

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far apart events may be: WITHIN and SLIDE, in time or in positions."""

    within: int | None
    slide: int | None
    by_position: bool

    @classmethod
    def of(cls, bound: Bound) -> Reach:
        """Return the reach of a bound query."""
        size = bound.within.size if bound.within else None
        step = bound.slide.size if bound.slide else None
        assert not isinstance(size, Param)
        assert not isinstance(step, Param)
        return cls(size, step, bound.within is not None and bound.within.unit is Unit.EVENTS)

    def holds(self, stream: Stream, first: int, last: int) -> bool:
        """Whether one window holds the events at two positions and all events between (S5.1–S5.3)."""
        if self.within is None:
            return True
        start, end = self._points(stream, first, last)
        if self.slide is not None:
            return end < start // self.slide * self.slide + self.within
        return end - start < self.within if self.by_position else end - start <= self.within

    def near(self, stream: Stream, first: int, last: int) -> bool:
        """Whether two positions are within w of each other; SLIDE does not matter (S6.2–S6.4)."""
        return Reach(self.within, None, self.by_position).holds(stream, first, last)

    def passed(self, stream: Stream, first: int, now: int) -> bool:
        """Whether no event from a time on is within w of a position; windows of events ignore the time."""
        assert self.within is not None  # a NOT at the end needs WITHIN (S6.4)
        if self.by_position:
            return len(stream) > first + self.within
        return now > stream.times[first] + self.within

    def _points(self, stream: Stream, first: int, last: int) -> tuple[int, int]:
        return (first, last) if self.by_position else (stream.times[first], stream.times[last])
