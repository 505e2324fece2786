"""Chooses among the matches of a piece: LIMIT n PER EVENT, and matches that may not overlap (S7.1, S7.4).

All matches that an event completes are made in the piece of that event. So they are put in order there, and
only the end of the last match taken is kept, for each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Chooser:
    """Takes the matches of one query that S7.1 names.

    Attributes:
        limit: how many matches of one event are taken; None: all.
        alone: whether matches may not overlap.
        ends: for each partition the number of the last event of the last match taken.
    """

    limit: int | None
    alone: bool
    ends: dict[tuple[object, ...], int] = field(default_factory=dict)

    def choose(self, lengths: Ints, events: Sequence[Ints], keys: Sequence[tuple[object, ...]]) -> Ints:
        """Return the matches to take, as their places, in order.

        Args:
            lengths: how many events each match binds to each variable.
            events: for each variable the numbers of its events, over all matches.
            keys: the partition of each match.
        """
        bound = _split(lengths, events)
        every = [[number for events in match for number in events] for match in bound]
        order = sorted(range(len(bound)), key=lambda i: (max(every[i]), min(every[i]), bound[i]))
        if self.alone:
            return np.array([i for i in order if self._take(keys[i], min(every[i]), max(every[i]))], np.int64)
        taken: dict[tuple[tuple[object, ...], int], int] = {}
        chosen = []
        for i in order:
            at = (keys[i], max(every[i]))
            taken[at] = taken.get(at, 0) + 1
            if self.limit is None or taken[at] <= self.limit:
                chosen.append(i)
        return np.array(chosen, np.int64)

    def forget(self, number: int) -> None:
        """Drop the ends before an event: later matches start at it, or after it."""
        self.ends = {key: end for key, end in self.ends.items() if end >= number}

    def _take(self, key: tuple[object, ...], first: int, last: int) -> bool:
        if key in self.ends and first <= self.ends[key]:
            return False
        self.ends[key] = last
        return True


def _split(lengths: Ints, events: Sequence[Ints]) -> list[tuple[tuple[int, ...], ...]]:
    """Return for each match the events of each variable."""
    columns = []
    for var, numbers in enumerate(events):
        ends = np.cumsum(lengths[:, var])
        values = numbers.tolist()
        pairs = zip((ends - lengths[:, var]).tolist(), ends.tolist(), strict=True)
        columns.append([tuple(values[first:last]) for first, last in pairs])
    return list(zip(*columns, strict=True))
