"""Where the parts of a cluster lie: its lists, then its range bitmaps, one after the other without gaps.

All of it follows from what the directory says of a cluster, so that nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cerise.events import Ints
from cerise.kinds import INT64_MIN
from cerise.store.index.layout import Layout
from cerise.store.index.packed import Frame, bits, frames, sizes

Facts = Mapping[str, Ints]  # what the directory says, by column: a number for each cluster


class List(NamedTuple):
    """A list of each cluster: how it is written, and at which byte of the cluster it starts."""

    frame: Frame
    offset: Ints


class Slices(NamedTuple):
    """The range bitmap of each cluster for one attribute.

    Attributes:
        base: what is taken off the codes.
        width: how many slices there are.
        marked: 1 where a slice that says which events have a value comes first.
        offset: at which byte of the cluster it starts.
    """

    base: Ints
    width: Ints
    marked: Ints
    offset: Ints


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of some clusters lie.

    Attributes:
        lists: times, rows and, where rows carry their arrival, append and arrival.
        slices: a range bitmap for each attribute.
        length: how many bytes each cluster has.
    """

    lists: dict[str, List]
    slices: tuple[Slices, ...]
    length: Ints

    def of(self, clusters: Ints) -> Parts:
        lists = {
            name: List(Frame(*(each[clusters] for each in frame)), offset[clusters])
            for name, (frame, offset) in self.lists.items()
        }
        slices = tuple(Slices(*(each[clusters] for each in one)) for one in self.slices)
        return Parts(lists, slices, self.length[clusters])


def lists_of(layout: Layout) -> Iterator[tuple[str, str, str]]:
    """Yield the lists of a cluster, with the facts that tell their least and greatest numbers."""
    yield "times", "first", "last"
    yield "rows", "row_least", "row_most"
    if layout.sequence:
        yield "append", "append_least", "append_most"
        yield "arrival", "arrival_least", "arrival_most"


def parts_of(facts: Facts, layout: Layout) -> Parts:
    """Return where the parts of clusters lie."""
    counts = facts["count"]
    offset = np.zeros(len(counts), np.int64)
    lists, slices = {}, []
    for name, least, most in lists_of(layout):
        step = facts["step"] if name == "times" else 1
        frame = frames(facts[least], facts[most], step, compress=layout.compress)
        lists[name] = List(frame, offset)
        offset = offset + sizes(counts, frame.width)
    for i in range(len(layout.attributes)):
        slices.append(_slices(facts, i, offset, compress=layout.compress))
        offset = offset + ((counts + 7) >> 3) * (slices[-1].width + slices[-1].marked)
    return Parts(lists, tuple(slices), offset)


def _slices(facts: Facts, i: int, offset: Ints, *, compress: bool) -> Slices:
    least, most, nulls = facts[f"least.{i}"], facts[f"most.{i}"], facts[f"nulls.{i}"]
    marked = ((nulls > 0) & (nulls < facts["count"])).astype(np.int64)
    if not compress:
        return Slices(np.full(least.shape, INT64_MIN), np.full(least.shape, 64), marked, offset)
    width = bits(most - least)
    return Slices(np.where(width == 64, INT64_MIN, least), width, marked, offset)
