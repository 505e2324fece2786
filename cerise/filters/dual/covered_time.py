"""Covered time in either form: as runs of ticks, or as a shrinking window filter, whichever is smaller.

Every form has the hull property: take any events that could be the events of one match, and all time from the
first to the last of them is covered. So a form may cover more than another, never less.
"""

from __future__ import annotations

from typing import Protocol

from cerise.filters.dual.filter_theory import window_bytes
from cerise.filters.dual.sealing import HEAD, kind_of_message
from cerise.filters.dual.shrinking_window import (
    HEAD_WORDS,
    MOST_ENTRIES,
    WINDOWS,
    ShrinkingWindow,
    entries_of,
)
from cerise.filters.dual.tick_runs import Bools, TickRuns
from cerise.plan.intervals import Ints

HEADS = HEAD.size + 8 * HEAD_WORDS  # bytes before the entries of a table


class CoveredTime(Protocol):
    """Time that matches may cover, of all events or of each partition."""

    @property
    def keyed(self) -> bool:
        """Whether time is covered partition by partition."""
        ...

    def holds(self, times: Ints, keys: Ints | None = None) -> Bools:
        """Return for each event whether its time may be covered."""
        ...

    def shrink(self, runs: TickRuns) -> CoveredTime:
        """Return the time that runs cover, too."""
        ...

    def to_bytes(self) -> bytes:
        """Return a message that `read_cover` reads."""
        ...


def read_cover(message: bytes) -> TickRuns | ShrinkingWindow:
    """Return the covered time of a message, in the form that it has.

    Raises:
        DataError: the message is cut, changed, of another version, or holds no covered time.
    """
    if kind_of_message(message) == WINDOWS:
        return ShrinkingWindow.from_bytes(message)
    return TickRuns.from_bytes(message)


def choose_form(runs: TickRuns) -> TickRuns | ShrinkingWindow:
    """Return the form of covered time that takes fewer bytes; of equal ones runs, which never collide."""
    count = entries_of(runs)
    if count > MOST_ENTRIES or HEADS + window_bytes(count) >= len(runs.to_bytes()):
        return runs
    return ShrinkingWindow.of(runs)
