"""Data files that carry checksums of all their bytes: the writer adds the sums, the reader compares them.

    Parquet's row groups · name · sums · trailer · Parquet's footer

Each sum covers a stretch of 16 KiB of the bytes before the name. The trailer holds the checksum of name, sums
and footer. Parquet finds everything by offsets, so other readers do not notice the additions. Files without
sums have at best page checksums, which Arrow compares; these cover neither page headers nor footers.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from cerise.errors import StoreError

MAGIC = b"CERISESU"
TRAILER = struct.Struct("<QQQQ8s")  # bytes of the name, number of sums, bytes of a stretch, checksum; magic
STRETCH = 1 << 14
PARQUET = b"PAR1"
NEAR = 1 << 16  # bytes at the end of a file that are read at once
GAP = 1 << 13  # bytes between two parts: up to here, reading them is quicker than a second request
THREADS = 8
RESTORE = "restore the file from a copy; verify() lists all other damage"


class Sums(NamedTuple):
    """The checksums of a data file.

    Attributes:
        name: the name under which the file was written.
        stretch: how many bytes a stretch has; the last may have fewer.
        each: the checksum of each stretch.
        covered: how many bytes the checksums cover: all bytes before the name.
    """

    name: str
    stretch: int
    each: tuple[int, ...]
    covered: int


class Expected(NamedTuple):
    """The size of a file, and the name under which Cerise wrote it, as its table records them."""

    size: int | None = None
    name: str | None = None


ANY = Expected()


class Tail(NamedTuple):
    """The end of a Parquet file: its footer, and its checksums if it carries any."""

    footer: pq.FileMetaData
    sums: Sums | None


# ---- writing


class Summing(io.RawIOBase):
    """A sink that passes bytes on, and inserts their checksums before Parquet's footer."""

    def __init__(self, sink: pa.NativeFile, name: str) -> None:
        self._sink, self._name = sink, name.encode()
        self._sums: list[int] = []
        self._open, self._room = xxhash.xxh64(), STRETCH
        self._at = 0
        self._held: bytearray | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        """Write bytes; after `end`, hold them back."""
        content = memoryview(data).cast("B")
        self._at += len(content)
        if self._held is None:
            self._pass_on(content)
        else:
            self._held += content
        return len(content)

    def end(self) -> None:
        """Treat all further bytes as the end of the file: the footer, its length and Parquet's magic."""
        self._held = bytearray()

    def finish(self) -> None:
        """Write the checksums, then the end of the file."""
        held = memoryview(self._held or b"")
        start = len(held) - 8 - int.from_bytes(held[-8:-4], "little")
        self._pass_on(held[:start])
        if self._room < STRETCH:
            self._sums.append(self._open.intdigest())
        record = self._name + struct.pack(f"<{len(self._sums)}Q", *self._sums)
        facts = len(self._name), len(self._sums), STRETCH
        footer = held[start:]
        self._sink.write(record)
        self._sink.write(TRAILER.pack(*facts, _checksum(record, facts, footer), MAGIC))
        self._sink.write(footer)

    def _pass_on(self, data: memoryview) -> None:
        rest = data
        while len(rest):
            self._open.update(rest[: self._room])
            taken = min(self._room, len(rest))
            self._room -= taken
            rest = rest[taken:]
            if not self._room:
                self._sums.append(self._open.intdigest())
                self._open, self._room = xxhash.xxh64(), STRETCH
        self._sink.write(data)


def _checksum(record: bytes, facts: tuple[int, int, int], footer: memoryview | bytes) -> int:
    found = xxhash.xxh64(record)
    found.update(struct.pack("<QQQ", *facts))
    found.update(footer)
    return found.intdigest()


# ---- reading


def read_tail(source: pa.NativeFile, path: str, expected: Expected = ANY) -> Tail:
    """Return the footer and the checksums of a Parquet file.

    Args:
        source: the file.
        path: its name, for messages.
        expected: its size and its name when written, where its table records them.

    Raises:
        StoreError: the footer is damaged, or another file lies at the path.
        ArrowException, OSError: the file cannot be read.
    """
    size = source.size()
    if expected.size not in (None, size):
        raise StoreError(
            f"{path} has {size:,} bytes, and its table says {expected.size:,}: "
            "it is cut, or another file in its place",
            hint=RESTORE,
        )
    tail = _tail(source, path, size)
    if tail.sums is not None and expected.name not in (None, tail.sums.name):
        raise StoreError(
            f"{path} is another file: it was written as {tail.sums.name}",
            hint="who has moved it? Put the right one in its place",
        )
    return tail


def _tail(source: pa.NativeFile, path: str, size: int) -> Tail:
    near = source.read_at(min(size, NEAR), max(size - NEAR, 0))
    start = size - 8 - int.from_bytes(near[-8:-4], "little")
    if near[-4:] != PARQUET or start < len(PARQUET) + TRAILER.size:
        return Tail(pq.read_metadata(source), None)  # Arrow reports the damage

    def part(low: int, high: int) -> bytes:
        first = size - len(near)
        return bytes(near[low - first : high - first] if low >= first else source.read_at(high - low, low))

    footer = part(start, size)
    trailer = part(start - TRAILER.size, start)
    sums = None
    if trailer.endswith(MAGIC):
        sums = _sums(trailer, footer, start - TRAILER.size, part)
    first = size - len(near)
    trailers = (first + found.end() - TRAILER.size for found in re.finditer(re.escape(MAGIC), near))
    if sums is None and any(_count_bytes(part(at, at + TRAILER.size), at) for at in trailers if at > 0):
        raise StoreError(f"the footer of {path} is damaged", hint=RESTORE)
    return Tail(pq.read_metadata(pa.BufferReader(footer)), sums)


def _sums(trailer: bytes, footer: bytes, end: int, part: Callable[[int, int], bytes]) -> Sums | None:
    """Return the checksums that end at an offset; None: they, or the footer, are damaged."""
    letters, count, stretch, checksum, _ = TRAILER.unpack(trailer)
    covered = _count_bytes(trailer, end)
    if covered is None:
        return None
    record = part(covered, end)
    if _checksum(record, (letters, count, stretch), footer) != checksum:
        return None
    return Sums(record[:letters].decode(), stretch, struct.unpack(f"<{count}Q", record[letters:]), covered)


def _count_bytes(trailer: bytes, end: int) -> int | None:
    """Return how many bytes the checksums before a trailer cover; None: its numbers are not of a trailer."""
    letters, count, stretch, _, _ = TRAILER.unpack(trailer)
    covered: int = end - letters - 8 * count
    return None if covered < 0 or not stretch or count != -(-covered // stretch) else covered


class CheckedFile(io.RawIOBase):
    """A data file with checksums, as a file that Arrow can read; every read checks the bytes.

    Args:
        source: the file.
        path: its name, for messages.
        tail: its footer and checksums; the checksums must not be None.
    """

    def __init__(self, source: pa.NativeFile, path: str, tail: Tail) -> None:
        assert tail.sums is not None
        self._source, self._path = source, path
        self._footer, self._sums = tail.footer, tail.sums
        self._size = source.size()
        self._at = 0
        self._brought: dict[tuple[int, int], memoryview] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> Any:
        size = self._size - self._at if size < 0 else size
        found = self._brought.pop((self._at, size), None)
        found = self.read_at(self._at, size) if found is None else found
        self._at += len(found)
        return found

    def prefetch(self, parts: Sequence[tuple[int, int]]) -> None:
        """Read the parts that Arrow asks for next, by offset and size: in parallel, neighbours as one."""
        runs: list[list[tuple[int, int]]] = []
        for start, size in sorted(parts):
            if runs and start - sum(runs[-1][-1]) <= GAP:
                runs[-1].append((start, size))
            else:
                runs.append([(start, size)])
        firsts = [run[0][0] for run in runs]
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(self.read_at, firsts, [sum(run[-1]) - run[0][0] for run in runs]))
        self._brought = {
            (start, size): data[start - first : start - first + size]
            for run, first, data in zip(runs, firsts, found, strict=True)
            for start, size in run
        }

    def read_at(self, start: int, size: int) -> memoryview:
        """Return bytes of the file.

        Raises:
            StoreError: they are damaged, or cannot be read.
        """
        stretch = self._sums.stretch
        low = start // stretch * stretch
        high = min(-(-(start + size) // stretch) * stretch, self._sums.covered)
        try:
            found = memoryview(self._source.read_at(max(high, start + size) - low, low))
        except OSError as error:
            raise StoreError(f"cannot read {self._path}: {error}", hint=RESTORE) from error
        for at in range(low, high, stretch):
            end = min(at + stretch, high)
            if xxhash.xxh64_intdigest(found[at - low : end - low]) != self._sums.each[at // stretch]:
                raise self._damage_error((at, end), (start, start + size))
        return found[start - low : start - low + size]

    def _damage_error(self, stretch: tuple[int, int], read: tuple[int, int]) -> StoreError:
        """Return the error for a damaged stretch, found by a read of the bytes `read`."""
        inside, wanted = self._columns(*stretch), self._columns(*read)
        others = [name for name in inside if name not in wanted]
        too = f", which hold column{'s' * (len(others) > 1)} {', '.join(others)} too" if others else ""
        return StoreError(
            f"cannot read column {', '.join(wanted)} of {self._path}: "
            f"bytes {stretch[0]:,} to {stretch[1]:,} are damaged{too}",
            hint=RESTORE,
        )

    def _columns(self, start: int, end: int) -> list[str]:
        """Return the names of the columns that have bytes in a part of the file."""
        found: dict[str, None] = {}
        for i in range(self._footer.num_row_groups):
            group = self._footer.row_group(i)
            for chunk in map(group.column, range(group.num_columns)):
                first = chunk_start(chunk)
                if first < end and first + chunk.total_compressed_size > start:
                    found[f"'{chunk.path_in_schema}'"] = None
        return list(found)


def chunk_start(chunk: Any) -> int:
    """Return where the bytes of a column of a row group start."""
    first = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if first is None else min(first, chunk.data_page_offset))


def open_parquet(source: pa.NativeFile, path: str, tail: Tail | None = None, **how: Any) -> pq.ParquetFile:
    """Open a Parquet file so that reading a damaged byte raises, as far as its checksums reach.

    Args:
        source: the file.
        path: its name, for messages.
        tail: its footer and checksums; None: read them first.
        how: further arguments of `pyarrow.parquet.ParquetFile`.
    """
    tail = tail or read_tail(source, path)
    if tail.sums is None:
        return pq.ParquetFile(source, metadata=tail.footer, page_checksum_verification=True, **how)
    return pq.ParquetFile(CheckedFile(source, path, tail), metadata=tail.footer, **how)
