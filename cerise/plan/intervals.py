"""Stretches of time that may hold matches: sorted, apart from each other, both ends inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerise.plan.slicing import MAX_TIME, MIN_TIME

Ints = npt.NDArray[np.int64]
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Stretches of time from `starts[i]` to `ends[i]`, which do not touch."""

    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def holds(self, times: Ints) -> npt.NDArray[np.bool_]:
        """Tell of each time whether an interval holds it."""
        if not len(self):
            return np.zeros(len(times), bool)
        from cerise.kernels.time_passes import mark_inside  # this brings numba

        times, inside = np.ascontiguousarray(times), np.empty(len(times), bool)
        starts, ends = np.ascontiguousarray(self.starts), np.ascontiguousarray(self.ends)
        where = (starts.ctypes.data, ends.ctypes.data, len(starts), times.ctypes.data)
        mark_inside(*where, inside.view(np.uint8))
        return inside

    def coalesced(self, gap: int, most: int | None = None) -> Intervals:
        """Return intervals with those joined that are at most `gap` apart, then, while more, the nearest."""
        if len(self) <= 1:
            return self
        between = _apart(self.starts[1:], self.ends[:-1])
        cut = between > np.uint64(gap)
        if most is not None and int(cut.sum()) + 1 > most:
            keep = np.argsort(between, kind="stable")[len(between) - (most - 1) :]
            cut = np.zeros(len(between), bool)
            cut[keep] = True
        return Intervals(self.starts[np.append(True, cut)], self.ends[np.append(cut, True)])

    def limited(self, first: int, last: int) -> Intervals:
        starts, ends = np.maximum(self.starts, first), np.minimum(self.ends, last)
        kept = starts <= ends
        return Intervals(starts[kept], ends[kept])


ALWAYS = Intervals(np.array([MIN_TIME]), np.array([MAX_TIME]))
NEVER = Intervals(NONE, NONE)


def union(starts: Ints, ends: Ints) -> Intervals:
    """Return the time that some stretches cover; they may overlap, and come in any order."""
    from cerise.kernels.time_passes import merge  # this brings numba

    if np.any(starts[1:] < starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    else:
        starts, ends = starts.copy(), ends.copy()
    count = merge(starts, ends)
    return Intervals(starts[:count], ends[:count])


def joined(parts: list[Intervals]) -> Intervals:
    """Return the time that any of several sets of intervals covers."""
    if len(parts) == 1:
        return parts[0]
    return union(
        np.concatenate([NONE, *(each.starts for each in parts)]),
        np.concatenate([NONE, *(each.ends for each in parts)]),
    )


def _apart(later: Ints, earlier: Ints) -> npt.NDArray[np.uint64]:
    """Return later − earlier, which may be more than an integer with a sign holds; 0 where they overlap."""
    gap = later.view(np.uint64) - earlier.view(np.uint64)
    return np.where(later > earlier, gap, np.uint64(0))


def shifted(times: Ints, by: int) -> Ints:
    """Return times moved, but not beyond the least and the greatest time."""
    if not len(times):
        return times
    if abs(by) > MAX_TIME:
        return np.array([min(max(int(each) + by, MIN_TIME), MAX_TIME) for each in times], np.int64)
    if int(times.min()) + by >= MIN_TIME and int(times.max()) + by <= MAX_TIME:
        return times + by
    if by >= 0:
        limit = MAX_TIME - by
        return np.where(times > limit, MAX_TIME, np.minimum(times, limit) + by)
    limit = MIN_TIME - by
    return np.where(times < limit, MIN_TIME, np.maximum(times, limit) + by)


def places_among(numbers: Ints, wanted: Ints, *, after: bool) -> Ints:
    """Return where wanted numbers come among sorted ones, before or after equals; quick where they ascend."""
    from cerise.kernels.time_passes import find_places  # this brings numba

    numbers, wanted = np.ascontiguousarray(numbers), np.ascontiguousarray(wanted)
    places = np.empty(len(wanted), np.int64)
    find_places(numbers.ctypes.data, len(numbers), wanted.ctypes.data, after, places)
    return places
