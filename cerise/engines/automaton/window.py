"""The window rule, compiled: which points, times or positions, one window holds (S5, S6)."""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.records import Machine
from cerise.kernels.jit import Ints, kernel, void

MAX = 2**63 - 1
NEVER = -(2**63)


@kernel()
def deadline_of(m: Machine, point: int) -> int:
    """Return the last point, in time or in position, that a run opened at a point may reach (S5)."""
    within, slide = m.within, m.slide
    if within < 0:
        return MAX
    if slide == 0:
        return until(m, point)
    left = within - 1 - point % slide  # to the end of the last window that begins at the point or before
    if left < 0:
        return NEVER
    return MAX if point > MAX - left else point + left


@kernel()
def reaches(m: Machine, point: int, later: int) -> bool:
    """Whether one window holds a point and a later one, or the same: SLIDE may leave gaps (S5.3)."""
    slide = m.slide
    if slide > 0 and point % slide >= m.within:
        return False  # NEVER equals the least time, which may lie in a gap
    return deadline_of(m, point) >= later


@kernel()
def until(m: Machine, point: int) -> int:
    """Return the last point that is within w of a point; SLIDE does not matter (S6.2–S6.4)."""
    within = m.within
    return MAX if point > MAX - within else point + within - m.by_position


@kernel()
def since_when(m: Machine, point: int) -> int:
    """Return the first point that is within w of a point; SLIDE does not matter (S6.2–S6.4)."""
    within = m.within
    return NEVER if point < NEVER + within else point - within + m.by_position


@kernel(void(Ints, Ints, Ints))
def number_in_partition(part: Any, points: Any, counts: Any) -> None:
    """Write the position of each event in its partition, and advance the counts."""
    for e in range(len(part)):
        if part[e] >= 0:
            points[e] = counts[part[e]]
            counts[part[e]] += 1
