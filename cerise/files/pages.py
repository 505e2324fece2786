"""Reads columns of Parquet files at given rows, and finds the rows of wanted strings, without decoding all.

A page without a wanted row is not unpacked, and in the others a value costs one load where Arrow decodes all.
Flat columns of numbers, times and coded strings are read; this module leaves all else to Arrow: other types,
encodings and compressions, nested columns, and damaged pages, which Arrow reports best.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.files.checksums import chunk_start
from cerise.kernels.pages import headers as h
from cerise.kernels.pages.page_values import CODES, OLD_CODES, keep_codes, list_strings, take_values

Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint8]
UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
NUMBERS = {
    "INT32": (pa.int32(), pa.uint32(), pa.date32()),
    "INT64": (pa.int64(), pa.uint64()),
    "FLOAT": (pa.float32(),),
    "DOUBLE": (pa.float64(),),
}
SIZES = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8}
TEXT = (pa.string(), pa.large_string())
CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
FEWEST_ROWS, MORE_PAGES = 100, 64  # of a page, on average; the list of pages has no room for smaller ones
WORD = 8  # bytes that kernels read at once
MANY_WORDS = 100  # of a dictionary: the unused ones are dropped, which makes it cheaper to join with others


def item_of(described: Any, kind: pa.DataType) -> int | None:
    """Return how many bytes a plain value of a column takes, 0 for strings; None: Arrow must read it.

    Args:
        described: the footer's entry for the column in the schema.
        kind: the type of the column in the file's schema.
    """
    if described.max_repetition_level or described.max_definition_level > 1 or "." in described.path:
        return None
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    physical = described.physical_type
    if physical == "BYTE_ARRAY":
        return 0 if kind in TEXT else None
    if pa.types.is_timestamp(kind) and physical == "INT64":
        return 8 if f"timeUnit={UNITS.get(kind.unit)}," in str(described.logical_type) else None
    return SIZES[physical] if kind in NUMBERS.get(physical, ()) else None


def open_pages(
    read: Callable[[int, int], Any], chunk: Any, kind: pa.DataType, item: int, *, optional: bool, summed: bool
) -> ColumnPages | None:
    """Read a column of a row group; None: Arrow must read it.

    Args:
        read: returns bytes of the file, by offset and size.
        chunk: the footer's entry for the column in this row group.
        kind: the type of the column in the file's schema.
        item: how many bytes a value takes, from `item_of`.
        optional: whether the column may hold nulls.
        summed: whether checksums of pages are compared.
    """
    if chunk.compression not in CODECS:
        return None
    held = read(chunk_start(chunk), chunk.total_compressed_size)
    content = pa.py_buffer(held)
    pages = np.empty((MORE_PAGES + chunk.num_values // FEWEST_ROWS, h.P_WORDS), np.int64)
    count = h.read_headers(content.address, content.size, pages)
    pages = pages[: max(count, 0)]
    leads = int(len(pages) > 0 and pages[0, h.P_KIND] == h.DICTIONARY)
    data = pages[leads:]
    kinds = (data[:, h.P_KIND] == h.DATA) | (data[:, h.P_KIND] == h.DATA_V2)
    values = data[:, h.P_VALUES]
    if not len(data) or not kinds.all() or values.min() < 0 or values.sum() != chunk.num_values:
        return None
    name = CODECS[chunk.compression]
    codec = None if name is None else pa.Codec(name)
    return ColumnPages(content, codec, kind, item, optional, summed, data, pages[0] if leads else None)


@dataclass(slots=True)
class ColumnPages:
    """The pages of a column of a row group; each is unpacked when a value of its rows is wanted.

    Attributes:
        content: the bytes of the column.
        codec: unpacks a page; None: pages are not compressed.
        kind: the type of the column.
        item: how many bytes a value takes; 0: they are strings.
        optional: whether pages have definition levels.
        summed: whether checksums of pages are compared.
        pages: a row for each data page, see `kernels.pages.headers`.
        first: the page of the dictionary.
    """

    content: pa.Buffer
    codec: pa.Codec | None
    kind: pa.DataType
    item: int
    optional: bool
    summed: bool
    pages: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64] | None
    _unpacked: dict[int, Any] = field(default_factory=dict)
    _words: pa.Array | pa.Buffer | None = None

    def find_rows(self, judge: Callable[[pa.Array], Marks]) -> Ints | None:
        """Return the rows whose strings a function marks; None: Arrow must read them.

        Args:
            judge: returns a mark for each string of a dictionary, 0 for unwanted ones.
        """
        words = self._dictionary()
        if words is None or self.item or not self._is_coded():
            return None
        states = np.append(judge(words), np.zeros(1, np.uint8))
        if not states.any():
            return np.zeros(0, np.int64)
        if not self._unpack(range(len(self.pages))):
            return None
        rows = np.empty(1 + self._rows(), np.int64)
        found = keep_codes(self.pages, self.optional, states, self._scratch()[0], rows)
        return None if found < 0 else rows[:found].copy()

    def take(self, rows: Ints) -> pa.Array | None:
        """Return the values of ascending rows, strings as codes; None: Arrow must read them."""
        words = self._dictionary()
        if self.first is not None and words is None:
            return None
        if not self.item and (words is None or not self._is_coded()):
            return None
        ends = np.searchsorted(rows, np.cumsum(self.pages[:, h.P_VALUES]))
        wanted = [p for p, (a, b) in enumerate(pairwise([0, *ends.tolist()])) if a < b]
        if not self._unpack(wanted):
            return None
        size = 0 if self.first is None else int(self.first[h.P_VALUES])
        out, valid = np.empty(len(rows), np.int64), np.ones(len(rows), np.uint8)
        address = words.address if self.item and words is not None else 0
        scratch = self._scratch()
        if take_values(self.pages, self.optional, address, size, self.item, rows, scratch, out, valid):
            return None
        return self._finish(out, valid, words)

    def _finish(self, out: Ints, valid: Marks, words: Any) -> pa.Array:
        nulls = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        if self.item == WORD:
            return pa.Array.from_buffers(self.kind, len(out), [nulls, pa.py_buffer(out)])
        if not self.item and len(words) > MANY_WORDS:
            words, out = _compact_words(words, out)
        narrow = [nulls, pa.py_buffer(out.astype(np.uint32))]
        if self.item:
            return pa.Array.from_buffers(self.kind, len(out), narrow)
        return pa.DictionaryArray.from_arrays(pa.Array.from_buffers(pa.int32(), len(out), narrow), words)

    def _rows(self) -> int:
        return int(self.pages[:, h.P_VALUES].sum())

    def _scratch(self) -> Ints:
        """Return room for the rows of the largest page, if pages may hold nulls."""
        return np.empty((3, int(self.pages[:, h.P_VALUES].max()) if self.optional else 0), np.int64)

    def _is_coded(self) -> bool:
        ways = self.pages[:, h.P_ENCODING]
        return bool(((ways == CODES) | (ways == OLD_CODES)).all())

    # ---- unpacking

    def _unpack(self, numbers: Iterable[int]) -> bool:
        """Unpack data pages, and note where their content lies; return False for a damaged page."""
        for number in numbers:
            if number not in self._unpacked:
                page = self.pages[number]
                levels = int(page[h.P_DEFINED]) if page[h.P_KIND] == h.DATA_V2 else 0
                body = self._body(page, levels)
                if body is None:
                    return False
                page[h.P_LEVELS] = self.content.address + int(page[h.P_START])
                page[h.P_BODY], page[h.P_END] = body.address, body.address + body.size
                self._unpacked[number] = body
        return True

    def _body(self, page: Ints, levels: int) -> pa.Buffer | None:
        """Return the content of a page behind its levels, with room before it; None: it is damaged."""
        start, size, whole = int(page[h.P_START]), int(page[h.P_SIZE]), int(page[h.P_WHOLE])
        if page[h.P_REPEATED] or not 0 <= levels <= min(size, whole):
            return None
        raw = self.content.slice(start, size)
        if self.summed and page[h.P_SUMMED] and zlib.crc32(raw) != int(page[h.P_SUM]) & 0xFFFF_FFFF:
            return None
        raw, whole = raw.slice(levels), whole - levels
        if self.codec is not None and page[h.P_PACKED]:
            try:
                raw = self.codec.decompress(raw, whole) if whole else raw.slice(0, 0)
            except (pa.ArrowException, OSError):
                return None
        if raw.size != whole:
            return None
        return raw if raw.size >= WORD else pa.py_buffer(bytes(WORD) + raw.to_pybytes()).slice(WORD)

    def _dictionary(self) -> pa.Array | pa.Buffer | None:
        """Return the words of the dictionary, or its numbers; None: there is none, or it is damaged."""
        if self._words is None and self.first is not None:
            body = self._body(self.first, 0)
            if body is not None:
                self._words = self._read_numbers(body) if self.item else self._read_words(body)
        return self._words

    def _read_numbers(self, body: pa.Buffer) -> pa.Buffer | None:
        assert self.first is not None
        if body.size < self.item * self.first[h.P_VALUES]:
            return None
        return body if self.item == WORD else pa.py_buffer(body.to_pybytes() + bytes(WORD))

    def _read_words(self, body: pa.Buffer) -> pa.Array | None:
        assert self.first is not None
        count = int(self.first[h.P_VALUES])
        if not 0 <= 4 * count <= body.size:
            return None
        offsets, text = np.empty(count + 1, np.int64), np.empty(body.size - 4 * count + WORD, np.uint8)
        if list_strings(body.address, body.address + body.size, offsets, text):
            return None
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.string(), count, buffers)


def _compact_words(words: pa.Array, codes: Ints) -> tuple[pa.Array, Ints]:
    """Return the words that codes name, and codes for these."""
    used = np.zeros(len(words), np.bool_)
    used[codes] = True
    return words.filter(pa.array(used)), (np.cumsum(used) - 1).take(codes)
