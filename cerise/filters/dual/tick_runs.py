"""Covered time as runs of ticks: sorted and disjoint, compact as bytes, and without collisions.

A tick is a fixed length of time; a run covers all time of the ticks from its first to its last. With ticks of
one unit, runs are exact. Runs may have keys: then they cover the time of one partition each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce

import numpy as np
import numpy.typing as npt

from cerise.errors import DataError, PlanError
from cerise.filters.dual.sealing import HINT, seal, unseal
from cerise.plan.intervals import Intervals, Ints, shift_times
from cerise.plan.slicing import MAX_TIME, MIN_TIME

Bools = npt.NDArray[np.bool_]
NOTHING = np.zeros(0, np.int64)
TAG_BITS = 20  # ticks of a window [DFS §VI-A3]
RUNS = 1  # the kind of the message
LONGEST_VARINT = 10
HEAD_WORDS = 4


class MatchPart(Enum):
    """Which end of a match a variable always binds."""

    FIRST = "first"
    LAST = "last"
    BETWEEN = "between"


def reach_of(role: MatchPart, window: int, *, reaches: bool = False) -> tuple[int, int]:
    """Return how long before and after an event its matches may lie [DFS Eq. 1].

    Args:
        role: what the event's variable is in a match.
        window: how much time a match spans at most.
        reaches: whether the query looks at events up to a window beyond the match.
    """
    wider = window if reaches else 0
    return wider + (0 if role is MatchPart.FIRST else window), wider + (
        0 if role is MatchPart.LAST else window
    )


def tick_of(window: int, tag_bits: int = TAG_BITS) -> int:
    """Return the length of a tick for windows of this length."""
    return max(1, -(-min(window, MAX_TIME) // tag_bits))


@dataclass(frozen=True, slots=True, eq=False)
class TickRuns:
    """Runs of ticks, sorted by key and first tick; between two runs of a key lies a tick that is not covered.

    Attributes:
        tick: the length of a tick.
        firsts: the number of the first tick of each run.
        lasts: the number of its last tick.
        keys: the key of each run; None: the runs speak of all events.
    """

    tick: int
    firsts: Ints
    lasts: Ints
    keys: Ints | None = None

    @classmethod
    def of(cls, times: Ints, before: int, after: int, *, tick: int, keys: Ints | None = None) -> TickRuns:
        """Return the time that matches of some events may cover.

        Args:
            times: the times of the events, in any order.
            before: how long before an event its matches may begin; see `reach_of`.
            after: how long after it they may end.
            tick: the length of a tick.
            keys: the partition of each event.
        """
        starts, ends = shift_times(times, -before), shift_times(times, after)
        return cls.from_intervals(starts, ends, tick=tick, keys=keys)

    @classmethod
    def from_intervals(cls, starts: Ints, ends: Ints, *, tick: int, keys: Ints | None = None) -> TickRuns:
        """Return the ticks that intervals touch; intervals may overlap and come in any order."""
        return _tidy(tick, starts // tick, ends // tick, keys)

    @classmethod
    def always(cls, tick: int) -> TickRuns:
        """Return all time, without keys."""
        return cls(tick, np.array([MIN_TIME // tick]), np.array([MAX_TIME // tick]))

    @classmethod
    def never(cls, tick: int, *, keyed: bool) -> TickRuns:
        return cls(tick, NOTHING, NOTHING, NOTHING if keyed else None)

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def keyed(self) -> bool:
        return self.keys is not None

    @property
    def covered(self) -> int:
        """Return how much time is covered, added up over the keys."""
        ticks = self.lasts.astype(object) - self.firsts.astype(object) + 1 if self._is_long() else None
        if ticks is None:
            return int((self.lasts - self.firsts + 1).sum()) * self.tick
        return int(ticks.sum()) * self.tick

    def intervals(self) -> Intervals:
        """Return the covered time of runs without keys as intervals."""
        if self.keys is not None:
            raise PlanError("the covered time of partitions is not one list of intervals")
        return Intervals(*self._spans())

    def holds(self, times: Ints, keys: Ints | None = None) -> Bools:
        """Return for each event whether its time is covered, of its partition if the runs have keys."""
        from cerise.filters.dual.run_kernels import mark_by_key

        check_keys(self.keyed, keys)
        if self.keys is None or keys is None:
            return self.intervals().holds(times)
        inside = np.zeros(len(times), bool)
        mark_by_key(self.keys, *self._spans(), _flat(keys), _flat(times), inside.view(np.uint8))
        return inside

    def shrink(self, runs: TickRuns) -> TickRuns:
        """Return the ticks that these runs share with others of the same tick."""
        return intersect([self, runs])

    def arrays(self) -> tuple[Ints, Ints, Ints]:
        """Return keys, or no keys, with the first and the last ticks, as kernels take them."""
        return (NOTHING if self.keys is None else _flat(self.keys)), _flat(self.firsts), _flat(self.lasts)

    def to_bytes(self) -> bytes:
        """Return the runs as a message: distances as numbers of few bytes."""
        from cerise.filters.dual.run_kernels import write_varints

        columns = [self.firsts - _before_each(self.lasts), self.lasts - self.firsts]
        base = 0
        if self.keys is not None:
            fresh = np.append(True, self.keys[1:] != self.keys[:-1])[: len(self)]
            base = int(self.firsts.min()) if len(self) else 0
            columns[0] = np.where(fresh, self.firsts - np.int64(base), columns[0])
            columns.insert(0, self.keys - _before_each(self.keys))
        numbers = np.ascontiguousarray(np.stack(columns, axis=1).ravel())
        out = np.empty(LONGEST_VARINT * len(numbers), np.uint8)
        size = write_varints(numbers, out)
        head = np.array([self.tick, len(self), self.keyed, base], "<i8")
        return seal(RUNS, head.tobytes() + out[:size].tobytes())

    @classmethod
    def from_bytes(cls, message: bytes) -> TickRuns:
        """Return the runs of a message.

        Raises:
            DataError: the message is cut, changed, of another version, or of another kind.
        """
        from cerise.filters.dual.run_kernels import read_varints

        body = unseal(RUNS, message)
        if len(body) < 8 * HEAD_WORDS:
            raise DataError("covered time arrived without its head", hint=HINT)
        tick, count, keyed, base = np.frombuffer(body, "<i8", HEAD_WORDS).tolist()
        data = np.frombuffer(body, np.uint8, offset=8 * HEAD_WORDS).copy()
        width = 3 if keyed else 2
        if tick < 1 or count < 0 or count * width > len(data):
            raise DataError("covered time arrived with a wrong head", hint=HINT)
        numbers = np.empty(count * width, np.int64)
        if read_varints(data, numbers) != len(data):
            raise DataError("covered time arrived with too few or too many runs", hint=HINT)
        return _unpack(numbers.reshape(count, width), tick, base, keyed=bool(keyed))

    def _spans(self) -> tuple[Ints, Ints]:
        """Return the first and the last time of each run."""
        least = -(-MIN_TIME // self.tick)  # ticks before it begin before the least time
        most = (MAX_TIME - self.tick + 1) // self.tick
        starts = np.where(self.firsts < least, MIN_TIME, np.maximum(self.firsts, least) * self.tick)
        ends = np.minimum(self.lasts, most) * self.tick + (self.tick - 1)
        return starts, np.where(self.lasts > most, MAX_TIME, ends)

    def _is_long(self) -> bool:
        """Whether a sum of the runs' lengths may exceed 64 bits."""
        return bool(len(self)) and (
            int(self.lasts.max()) - int(self.firsts.min()) >= MAX_TIME // max(len(self), 1)
        )


def unite(parts: Sequence[TickRuns]) -> TickRuns:
    """Return the ticks of any of several parts, such as those of tasks or sites."""
    _check_alike(parts)
    if len(parts) == 1:
        return parts[0]
    keys = None if parts[0].keys is None else np.concatenate([each.keys for each in parts])
    firsts, lasts = (np.concatenate(each) for each in zip(*((p.firsts, p.lasts) for p in parts), strict=True))
    return _tidy(parts[0].tick, firsts, lasts, keys)


def intersect(parts: Sequence[TickRuns]) -> TickRuns:
    """Return the ticks that are in each of several sets, such as those of variables."""
    _check_alike(parts)
    return reduce(_intersect, parts)


def check_keys(keyed: bool, keys: Ints | None) -> None:
    """Refuse to look up events with keys where time has none, or the other way round."""
    if keyed != (keys is not None):
        held, asked = ("is by partition", "without") if keyed else ("is of all events", "with")
        raise PlanError(f"covered time {held}, and is asked {asked} keys")


def _intersect(left: TickRuns, right: TickRuns) -> TickRuns:
    from cerise.filters.dual.run_kernels import intersect_runs

    room = len(left) + len(right)
    keyed = left.keys is not None
    keys, firsts, lasts = (np.empty(each, np.int64) for each in (room if keyed else 0, room, room))
    count = intersect_runs(*left.arrays(), *right.arrays(), keys, firsts, lasts)
    return TickRuns(
        left.tick, firsts[:count].copy(), lasts[:count].copy(), keys[:count].copy() if keyed else None
    )


def _check_alike(parts: Sequence[TickRuns]) -> None:
    if len({(each.tick, each.keyed) for each in parts}) != 1:
        raise PlanError("covered times of different ticks, with and without keys, or none, cannot be joined")


def _tidy(tick: int, firsts: Ints, lasts: Ints, keys: Ints | None) -> TickRuns:
    """Return runs sorted and merged."""
    from cerise.filters.dual.run_kernels import merge_runs

    if keys is None:
        order = np.argsort(firsts, kind="stable") if np.any(firsts[1:] < firsts[:-1]) else None
    else:
        order = np.lexsort((firsts, keys))
    firsts, lasts = (each.copy() if order is None else each[order] for each in (firsts, lasts))
    known = NOTHING if keys is None else keys[order]
    count = merge_runs(known, firsts, lasts)
    return TickRuns(
        tick, firsts[:count].copy(), lasts[:count].copy(), None if keys is None else known[:count].copy()
    )


def _unpack(numbers: Ints, tick: int, base: int, *, keyed: bool) -> TickRuns:
    lengths, gaps = numbers[:, -1], numbers[:, -2]
    keys = np.cumsum(numbers[:, 0]) if keyed else None
    steps = gaps + _before_each(lengths)  # from one run's first tick to the next one's
    if keys is None:
        firsts = np.cumsum(steps)
    else:
        fresh = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        steps = np.where(fresh, gaps + np.int64(base), steps)
        upto = np.cumsum(steps)
        begins = np.flatnonzero(fresh)
        before = upto[begins] - steps[begins]
        firsts = upto - np.repeat(before, np.diff(np.append(begins, len(keys))))
    return TickRuns(tick, firsts, firsts + lengths, keys)


def _before_each(numbers: Ints) -> Ints:
    """Return each number's predecessor; of the first one 0."""
    return np.append(np.int64(0), numbers)[: len(numbers)]


def _flat(numbers: Ints) -> Ints:
    return np.ascontiguousarray(numbers)
