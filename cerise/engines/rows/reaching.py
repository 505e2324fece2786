"""Kernels that find rows of matches by their labels, each match for itself."""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Ints, Marks, int64, kernel, void


@kernel(void(Marks, Ints, Ints, int64, int64, Ints))
def reach(labels: Any, firsts: Any, ends: Any, chosen: int, nth: int, out: Any) -> None:
    """Find in each match the n-th row that has one of some labels.

    Args:
        labels: those of the rows of all matches; two bytes each, of which the first tells.
        firsts: where the rows of each match begin.
        ends: where they end.
        chosen: a bit for each of the labels.
        nth: which of these rows, from 0 for the first, or from -1 backwards for the last.
        out: room for the answer: which of the rows of all matches; -1 where there is none.
    """
    step = -1 if nth < 0 else 1
    for i in range(len(firsts)):
        left = -1 - nth if nth < 0 else nth
        out[i] = -1
        at = ends[i] - 1 if nth < 0 else firsts[i]
        while firsts[i] <= at < ends[i]:
            if (chosen >> labels[2 * at]) & 1:
                if left == 0:
                    out[i] = at
                    break
                left -= 1
            at += step


@kernel(void(Marks, Ints, Ints, int64, Ints))
def count_labels(labels: Any, firsts: Any, ends: Any, chosen: int, out: Any) -> None:
    """Count in each match the rows that have one of some labels; arguments are those of `reach`."""
    for i in range(len(firsts)):
        count = 0
        for at in range(firsts[i], ends[i]):
            count += (chosen >> labels[2 * at]) & 1
        out[i] = count
