"""Offsets of the parts of a cluster: its lists, then its range bitmaps, without gaps.

All offsets follow from the facts in the directory, so that the file does not store them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cerise.events import Ints
from cerise.kinds import INT64_MIN
from cerise.store.index.layout import IndexLayout
from cerise.store.index.packed import Packing, bits, frames, sizes

Facts = Mapping[str, Ints]  # facts of the directory by column: a number for each cluster


class PackedList(NamedTuple):
    """One list of every cluster: its packing, and at which byte of the cluster it starts."""

    frame: Packing
    offset: Ints


class Slices(NamedTuple):
    """The range bitmap of each cluster for one attribute.

    Attributes:
        base: the number subtracted from the codes.
        width: how many slices the bitmap has.
        marked: 1 if a slice of the events that have a value comes first.
        offset: at which byte of the cluster the bitmap starts.
    """

    base: Ints
    width: Ints
    marked: Ints
    offset: Ints


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """Offsets of the parts of clusters.

    Attributes:
        lists: times, rows and, if rows carry their arrival, append and arrival.
        slices: a range bitmap for each attribute.
        length: how many bytes each cluster has.
    """

    lists: dict[str, PackedList]
    slices: tuple[Slices, ...]
    length: Ints

    def of(self, clusters: Ints) -> ClusterParts:
        lists = {
            name: PackedList(Packing(*(each[clusters] for each in frame)), offset[clusters])
            for name, (frame, offset) in self.lists.items()
        }
        slices = tuple(Slices(*(each[clusters] for each in one)) for one in self.slices)
        return ClusterParts(lists, slices, self.length[clusters])


def lists_of(layout: IndexLayout) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each list of a cluster, and the facts with its least and greatest numbers."""
    yield "times", "first", "last"
    yield "rows", "row_least", "row_most"
    if layout.sequence:
        yield "append", "append_least", "append_most"
        yield "arrival", "arrival_least", "arrival_most"


def parts_of(facts: Facts, layout: IndexLayout) -> ClusterParts:
    """Compute the offsets of the parts of clusters."""
    counts = facts["count"]
    offset = np.zeros(len(counts), np.int64)
    lists, slices = {}, []
    for name, least, most in lists_of(layout):
        step = facts["step"] if name == "times" else 1
        frame = frames(facts[least], facts[most], step, compress=layout.compress)
        lists[name] = PackedList(frame, offset)
        offset = offset + sizes(counts, frame.width)
    for i in range(len(layout.attributes)):
        slices.append(_slices(facts, i, offset, compress=layout.compress))
        offset = offset + ((counts + 7) >> 3) * (slices[-1].width + slices[-1].marked)
    return ClusterParts(lists, tuple(slices), offset)


def _slices(facts: Facts, i: int, offset: Ints, *, compress: bool) -> Slices:
    least, most, nulls = facts[f"least.{i}"], facts[f"most.{i}"], facts[f"nulls.{i}"]
    marked = ((nulls > 0) & (nulls < facts["count"])).astype(np.int64)
    if not compress:
        return Slices(np.full(least.shape, INT64_MIN), np.full(least.shape, 64), marked, offset)
    width = bits(most - least)
    return Slices(np.where(width == 64, INT64_MIN, least), width, marked, offset)
