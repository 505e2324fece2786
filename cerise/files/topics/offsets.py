"""Offsets of partitions: ranges of them, and which ones the next batch takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of a partition from `start` to before `stop`."""

    partition: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"partition {self.partition}, offsets {self.start:,} to {self.stop - 1:,}"


def share_out(before: Mapping[str, int], newest: Mapping[str, int], most: int | None) -> dict[str, int]:
    """Return the offsets after the next events of all partitions, which are `most` at most.

    Partitions give shares in proportion to the events that wait in them, but at least one each, if it can be:
    so partitions that were filled at the same time are read in step.

    Args:
        before: the next offset of each partition; of one that is new, 0.
        newest: the offset after the last event of each partition.
        most: how many events to take at most; None: all.
    """
    begun = {name: before.get(name, 0) for name in newest}
    waiting = {name: max(0, end - begun[name]) for name, end in newest.items()}
    if most is None or sum(waiting.values()) <= most:
        return {name: begun[name] + count for name, count in waiting.items()}
    shares = {name: min(1, count) for name, count in waiting.items()}
    left, rest = most - sum(shares.values()), sum(waiting.values()) - sum(shares.values())
    if left < 0:
        longest = sorted(waiting, key=lambda name: -waiting[name])[:most]
        return {name: begun[name] + (name in longest) for name in waiting}
    exact = {name: (count - shares[name]) * left for name, count in waiting.items()}  # times `rest`
    for name in waiting:
        shares[name] += exact[name] // rest
    missing = most - sum(shares.values())  # by rounding
    for name in sorted(waiting, key=lambda name: -(exact[name] % rest))[:missing]:
        shares[name] += 1
    return {name: begun[name] + share for name, share in shares.items()}


def divide_range(whole: OffsetRange, size: int) -> Iterator[OffsetRange]:
    """Yield pieces of about the size."""
    pieces = max(1, round(len(whole) / size))
    bounds = [whole.start + len(whole) * n // pieces for n in range(pieces + 1)]
    for start, stop in pairwise(bounds):
        yield OffsetRange(whole.partition, start, stop)
