"""Matches of a row pattern as arrays: what every engine finds, and what the output is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.uint8] | npt.NDArray[np.int64]  # a bit for each label


@dataclass(frozen=True, slots=True)
class RowMatches:
    """Matches in the order in which they were found: by partition, then by their first row.

    Attributes:
        starts: the first row of each match in the prepared table; of an empty match, where it was found.
        lengths: how many rows it has.
        numbers: its MATCH_NUMBER().
        partition: the number of its partition.
        labels: of all rows of all matches, match after match: which of `BoundRows.labels` it is mapped to.
        excluded: whether each of these rows is not to be shown (M38); None: all are.
        timeouts: which matches are partial ones whose window expired (M46); None: none.
        unmatched: the rows to show as belonging to no match, ascending (M36); None: none.
    """

    starts: Ints
    lengths: Ints
    numbers: Ints
    partition: Ints
    labels: npt.NDArray[np.int16]
    excluded: Bools | None = None
    timeouts: Bools | None = None
    unmatched: Ints | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def firsts(self) -> Ints:
        """Where the rows of each match begin in `labels`."""
        return self.ends - self.lengths

    @property
    def ends(self) -> Ints:
        """Where the rows of each match end in `labels`."""
        return np.cumsum(self.lengths, dtype=np.int64)

    @property
    def owners(self) -> Ints:
        """Which match each of the rows in `labels` belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    @property
    def rows(self) -> Ints:
        inside = np.arange(len(self.labels), dtype=np.int64) - np.repeat(self.firsts, self.lengths)
        return np.repeat(self.starts, self.lengths) + inside


def joined(parts: list[RowMatches]) -> RowMatches:
    """Return matches that were found one after another as one."""
    if len(parts) == 1:
        return parts[0]

    def whole(name: str) -> Ints:
        return np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) for each in parts)])

    def flags(name: str, like: str) -> Bools | None:
        if all(getattr(each, name) is None for each in parts):
            return None
        known = [(getattr(each, name), len(getattr(each, like))) for each in parts]
        return np.concatenate([np.zeros(size, np.bool_) if each is None else each for each, size in known])

    return RowMatches(
        whole("starts"), whole("lengths"), whole("numbers"), whole("partition"),
        whole("labels").astype(np.int16), flags("excluded", "labels"), flags("timeouts", "starts"),
    )  # fmt: skip


def unmatched_rows(matches: RowMatches, total: int, first: int = 0) -> Ints:
    """Return the rows, of so many from the first on, in no match and not the start of an empty one (M36)."""
    ends = matches.starts + np.maximum(matches.lengths, 1)
    changes = np.zeros(total + 1, np.int64)
    np.add.at(changes, matches.starts - first, 1)
    np.add.at(changes, ends - first, -1)
    return np.flatnonzero(np.cumsum(changes[:-1]) == 0).astype(np.int64) + first
