"""Reads the values of events from the index, at their places."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.events import Ints
from cerise.kinds import Kind, restore_as
from cerise.store.index.bounds import check_clusters, check_codes
from cerise.store.index.cluster_layout import ClusterParts, parts_of
from cerise.store.index.codes import decode, in_dictionary
from cerise.store.index.file_cache import HeldFiles, OpenFiles
from cerise.store.index.ranges import Threshold
from cerise.store.index.search import (
    R_WORDS,
    copy_words,
    measure_words,
    place_words,
    read_codes,
    read_list,
)
from cerise.store.index.synopsis import Synopsis

Marks = npt.NDArray[np.uint8]
PLACE = 32  # bits of a place for the position in the cluster; the number of the cluster is above them


class ResidentEvents(NamedTuple):
    """Events whose index files are in memory together.

    Attributes:
        some: the positions of the events among all requested places.
        places: their places.
        rows: for each cluster of the table, its row in `clusters`, `address` and `parts`.
        clusters: the clusters of the events.
        address: the address of each cluster.
        parts: the offsets of the parts of each cluster.
        held: keeps the files in memory.
    """

    some: Ints | slice
    places: Ints
    rows: Ints
    clusters: Ints
    address: Ints
    parts: ClusterParts
    held: HeldFiles


class EventValues:
    """Reads lists, codes and words from the index files of a table."""

    def __init__(self, synopsis: Synopsis, files: OpenFiles) -> None:
        self._synopsis = synopsis
        self._layout = synopsis.layout
        self._files = files
        self._last: tuple[Ints, list[ResidentEvents]] = np.empty(0, np.int64), []

    @cached_property
    def _parts(self) -> ClusterParts:
        """The offsets of the parts of all clusters."""
        found = parts_of(self.facts(np.arange(len(self._synopsis.clusters))), self._layout)
        check_clusters(self._synopsis, found)
        return found

    def parts(self, clusters: Ints) -> ClusterParts:
        return self._parts.of(clusters)

    def facts(self, clusters: Ints) -> dict[str, Ints]:
        names = set(self._synopsis.clusters.column_names) - {"checksum", "type", "group"}
        found = {name: self._synopsis.cluster(name)[clusters] for name in names}
        found["step"] = self._synopsis.group("step")[self._synopsis.cluster("group")[clusters]]
        return found

    def file_of(self, clusters: Ints) -> Ints:
        return self._synopsis.group("file")[self._synopsis.cluster("group")[clusters]]

    def batches(self, files: Ints) -> Iterator[Ints]:
        """Yield the distinct files in batches that fit into memory."""
        return self._files.batches(files)

    # ---- lists and codes

    def numbers(self, name: str, places: Ints) -> Ints:
        """Return the numbers of a list (times, rows, append or arrival) at places."""
        out = np.zeros(len(places), np.int64)
        for here in self._resident(places):
            frame, offset = here.parts.lists[name]
            lists = _table(here.address + offset, frame.base, frame.step, frame.width)
            found = np.zeros(len(here.places), np.int64)
            read_list(lists, here.rows, here.places, found)
            out[here.some] = found
        return out

    def column(self, i: int, places: Ints) -> pa.Array:
        name = self._layout.attributes[i]
        codes, valid = self._codes(i, places)
        known = None if valid.all() else valid.view(np.bool_)
        groups = self._synopsis.cluster("group")[places >> PLACE]
        type_ = self._layout.type_of(name)
        if self._layout.kind(name) is Kind.STRING:
            return self._words(i, codes, valid, groups)
        encodings = self._synopsis.group(f"encoding.{i}")[groups]
        different = np.unique(encodings).tolist()
        if len(different) <= 1:
            return decode(codes, known, different[0] if different else 0, type_)
        parts = [(np.flatnonzero(encodings == each), each) for each in different]
        arrays = [decode(codes[at], None if known is None else known[at], each, type_) for at, each in parts]
        order = np.argsort(np.concatenate([at for at, _ in parts]))
        return pa.concat_arrays(arrays).take(pa.array(order))

    def _codes(self, i: int, places: Ints) -> tuple[Ints, Marks]:
        out, valid = np.zeros(len(places), np.int64), np.zeros(len(places), np.uint8)
        for here in self._resident(places):
            slices = here.parts.slices[i]
            count = self._synopsis.cluster("count")[here.clusters]
            empty = count == self._synopsis.cluster(f"nulls.{i}")[here.clusters]
            at = here.address + slices.offset
            bitmaps = _table(at, slices.base, 1, slices.width, count, slices.marked, empty)
            codes, known = np.zeros(len(here.places), np.int64), np.zeros(len(here.places), np.uint8)
            read_codes(bitmaps, here.rows, here.places, codes, known)
            out[here.some], valid[here.some] = codes, known
        return out, valid

    def _resident(self, places: Ints) -> list[ResidentEvents]:
        """Return the events by batches of files that fit into memory; cached for the next column."""
        known, found = self._last
        if known is not places or not found:
            found = list(self._load(places))
            self._last = places, found if len(found) == 1 else []
        return found

    def _load(self, places: Ints) -> Iterator[ResidentEvents]:
        numbers = places >> PLACE
        marks = np.zeros(len(self._synopsis.clusters), np.bool_)
        marks[numbers] = True
        touched = np.flatnonzero(marks)
        files = self.file_of(touched)
        rows = np.zeros(len(marks), np.int64)
        for batch in self.batches(files):
            clusters = touched[np.isin(files, batch)]
            rows[clusters] = np.arange(len(clusters))
            held = self._files.hold(batch)
            self._files.verify_clusters(clusters, held)
            address = held.addresses[self.file_of(clusters)] + self._synopsis.cluster("offset")[clusters]
            whole = len(clusters) == len(touched)
            some = slice(None) if whole else np.flatnonzero(np.isin(self.file_of(numbers), batch))
            yield ResidentEvents(some, places[some], rows, clusters, address, self.parts(clusters), held)

    # ---- words

    def _words(self, i: int, codes: Ints, valid: Marks, groups: Ints) -> pa.Array:
        type_ = self._layout.type_of(self._layout.attributes[i])
        sizes = self._synopsis.group(f"words.{i}")[groups]
        codes, present = np.where(valid, codes, 0), np.flatnonzero(valid)
        files = self._synopsis.group("file")[groups[present]]
        check_codes(self._synopsis, files, codes[present], sizes[present])
        pieces, order = [], []
        for some, at, _held in self._dictionaries(i, groups):
            ends = np.empty(len(some) + 1, np.int64)
            measure_words(at, codes[some], valid[some].astype(np.int64), ends)
            text = np.empty(int(ends[-1]), np.uint8)
            copy_words(at, sizes[some], codes[some], ends, text)
            pieces.append(_strings(ends, text, valid[some]))
            order.append(some)
        if not pieces:
            return pa.array([], type_)
        found = (
            pieces[0]
            if len(pieces) == 1
            else pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(order))))
        )
        return in_dictionary(found, type_) if pa.types.is_dictionary(type_) else found.cast(type_)

    def thresholds(self, groups: Ints, i: int, constants: tuple[str, ...]) -> Threshold:
        """Return the first word at least, and the first above, each constant, by dictionary."""
        texts = [constant.encode() for constant in constants]
        ends = np.append(0, np.cumsum([len(text) for text in texts], dtype=np.int64)).astype(np.int64)
        text = np.frombuffer(b"".join(texts) + bytes(8), np.uint8)
        sizes = self._synopsis.group(f"words.{i}")[groups]
        least, above = np.zeros((2, len(groups), len(texts)), np.int64)
        for some, at, _held in self._dictionaries(i, groups):
            found = np.zeros((2, len(some), len(texts)), np.int64)
            place_words(at, sizes[some], text.ctypes.data, ends, found[0], found[1])
            least[some], above[some] = found
        return Threshold(least, above)

    def _dictionaries(self, i: int, groups: Ints) -> Iterator[tuple[Ints, Ints, HeldFiles]]:
        """Yield batches of groups whose files are in memory, and the addresses of their dictionaries."""
        files = self._synopsis.group("file")[groups]
        for batch in self.batches(files):
            some = np.flatnonzero(np.isin(files, batch))
            held = self._files.hold(batch)
            self._files.verify_words(np.unique(groups[some]), i, held)
            offset = self._synopsis.group(f"words_offset.{i}")[groups[some]]
            yield some, held.addresses[files[some]] + offset, held

    # ---- types

    def types(self, places: Ints) -> pa.Array:
        name = str(self._layout.type)
        codes = self._synopsis.cluster("type")[places >> PLACE]
        return restore_as(
            self._synopsis.types.take(pa.array(codes, mask=codes < 0)), self._layout.type_of(name)
        )


def _table(address: Ints, *others: npt.NDArray[Any] | int) -> Ints:
    found = np.zeros((len(address), R_WORDS), np.int64)
    for i, column in enumerate((address, *others)):
        found[:, i] = column
    return found


def _strings(ends: Ints, text: Marks, valid: Marks) -> pa.Array:
    known = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [known, pa.py_buffer(ends), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.large_string(), len(valid), buffers)
