"""Intervals of time that may hold matches: sorted, disjoint, with both ends inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerise.plan.slicing import MAX_TIME, MIN_TIME

Ints = npt.NDArray[np.int64]
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Disjoint intervals of time from `starts[i]` to `ends[i]`, in ascending order."""

    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def holds(self, times: Ints) -> npt.NDArray[np.bool_]:
        """Return for each time whether an interval holds it."""
        if not len(self):
            return np.zeros(len(times), bool)
        from cerise.kernels.time_passes import mark_inside  # imports numba

        times, inside = np.ascontiguousarray(times), np.empty(len(times), bool)
        starts, ends = np.ascontiguousarray(self.starts), np.ascontiguousarray(self.ends)
        where = (starts.ctypes.data, ends.ctypes.data, len(starts), times.ctypes.data)
        mark_inside(*where, inside.view(np.uint8))
        return inside

    def coalesce(self, gap: int, most: int | None = None) -> Intervals:
        """Merge intervals at most `gap` apart; then, while there are more than `most`, the nearest ones."""
        if len(self) <= 1:
            return self
        between = _apart(self.starts[1:], self.ends[:-1])
        cut = between > np.uint64(gap)
        if most is not None and int(cut.sum()) + 1 > most:
            keep = np.argsort(between, kind="stable")[len(between) - (most - 1) :]
            cut = np.zeros(len(between), bool)
            cut[keep] = True
        return Intervals(self.starts[np.append(True, cut)], self.ends[np.append(cut, True)])

    def clip(self, first: int, last: int) -> Intervals:
        """Return the parts of the intervals from `first` to `last`."""
        starts, ends = np.maximum(self.starts, first), np.minimum(self.ends, last)
        kept = starts <= ends
        return Intervals(starts[kept], ends[kept])


ALWAYS = Intervals(np.array([MIN_TIME]), np.array([MAX_TIME]))
NEVER = Intervals(NONE, NONE)


def union(starts: Ints, ends: Ints) -> Intervals:
    """Return the union of intervals, which may overlap and come in any order."""
    from cerise.kernels.time_passes import merge  # imports numba

    if np.any(starts[1:] < starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    else:
        starts, ends = starts.copy(), ends.copy()
    count = merge(starts, ends)
    return Intervals(starts[:count], ends[:count])


def union_of(parts: list[Intervals]) -> Intervals:
    """Return the union of several sets of intervals."""
    if len(parts) == 1:
        return parts[0]
    return union(
        np.concatenate([NONE, *(each.starts for each in parts)]),
        np.concatenate([NONE, *(each.ends for each in parts)]),
    )


def _apart(later: Ints, earlier: Ints) -> npt.NDArray[np.uint64]:
    """Return later − earlier, unsigned because it may exceed a signed integer; 0 if later ≤ earlier."""
    gap = later.view(np.uint64) - earlier.view(np.uint64)
    return np.where(later > earlier, gap, np.uint64(0))


def shift_times(times: Ints, by: int) -> Ints:
    """Return times plus `by`, clipped to the least and the greatest time."""
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
    """Return the positions of `wanted` among sorted numbers, before or after equal ones.

    Cost: one pass over both if `wanted` ascends.
    """
    from cerise.kernels.time_passes import find_places  # imports numba

    numbers, wanted = np.ascontiguousarray(numbers), np.ascontiguousarray(wanted)
    places = np.empty(len(wanted), np.int64)
    find_places(numbers.ctypes.data, len(numbers), wanted.ctypes.data, after, places)
    return places
