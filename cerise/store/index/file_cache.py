"""A cache of index files in memory: bounded in number and bytes, with only the used parts of each file.

Files are not mapped: touching a mapped file that another process has cut kills the process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from cerise.events import Ints
from cerise.store.index.bounds import check_places, check_words
from cerise.store.index.file import BrokenIndex, check, local_path
from cerise.store.index.synopsis import Synopsis

MOST_BYTES = 1 << 29  # of index files in memory at once


class HeldFiles:
    """Files in memory, which stay there as long as this object lives.

    Attributes:
        files: the files by number; only their verified parts are loaded.
        addresses: the address of each file of the table; 0: not in memory.
        tickets: the ticket of each file.
    """

    def __init__(self, files: dict[int, CachedFile], count: int) -> None:
        self.files = files
        self.addresses, self.tickets = np.zeros((2, count), np.int64)
        for number, each in files.items():
            self.addresses[number] = each.data.address
            self.tickets[number] = each.ticket


class OpenFiles:
    """Loads parts of index files into memory, and verifies each part once."""

    def __init__(self, synopsis: Synopsis, filesystem: pafs.FileSystem, most: int, gap: int) -> None:
        self._synopsis = synopsis
        self._filesystem = filesystem
        self.most, self._gap = most, gap
        self._here: OrderedDict[int, CachedFile] = OrderedDict()
        self._bytes = 0  # their total size, whether loaded or not
        self._lock = threading.Lock()
        self._tickets = count(1)
        self._checked: dict[
            str, Ints
        ] = {}  # for each part, the ticket of the file when the part was verified

    def batches(self, files: Ints) -> Iterator[Ints]:
        """Yield the distinct files in batches that fit into memory."""
        different = np.unique(files)
        held = np.cumsum([self._synopsis.files[number].size for number in different.tolist()])
        start = 0
        while start < len(different):
            before = held[start - 1] if start else 0
            stop = max(int(np.searchsorted(held, before + MOST_BYTES, "right")), start + 1)
            stop = min(stop, start + self.most)
            yield different[start:stop]
            start = stop

    def hold(self, files: Ints) -> HeldFiles:
        """Return files; verify a part before using it, which loads it."""
        with self._lock:
            found = {number: self._file(number) for number in files.tolist()}
            while len(self._here) > max(1, self.most) or (self._bytes > MOST_BYTES and len(self._here) > 1):
                self._bytes -= self._here.popitem(last=False)[1].size
        return HeldFiles(found, len(self._synopsis.files))

    def close(self) -> None:
        with self._lock:
            self._here.clear()
            self._bytes = 0

    def _file(self, number: int) -> CachedFile:
        if number not in self._here:
            file = self._synopsis.files[number]
            ticket = next(self._tickets)
            self._here[number] = CachedFile(self._filesystem, file.path, file.size, ticket, self._gap)
            self._bytes += file.size
        self._here.move_to_end(number)
        return self._here[number]

    def verify_clusters(self, numbers: Ints, held: HeldFiles) -> int:
        """Load and check clusters that have not been checked yet; return how many bytes they have."""
        files = self._synopsis.group("file")[self._synopsis.cluster("group")[numbers]]
        return self._verify("clusters", "", numbers, files, held)

    def verify_words(self, groups: Ints, attribute: int, held: HeldFiles) -> int:
        """Load and check dictionaries that have not been checked yet; return how many bytes they have."""
        files = self._synopsis.group("file")[groups]
        return self._verify("groups", f".{attribute}", groups, files, held)

    def _verify(self, what: str, attribute: str, numbers: Ints, files: Ints, held: HeldFiles) -> int:
        table = self._synopsis.clusters if what == "clusters" else self._synopsis.groups
        prefix = "" if what == "clusters" else "words_"
        names = tuple(f"{prefix}{each}{attribute}" for each in ("offset", "length", "checksum"))
        checked = self._checked.setdefault(what + attribute, np.zeros(len(table), np.int64))
        fresh = checked[numbers] != held.tickets[files]
        if not fresh.any():
            return 0
        numbers, files = numbers[fresh], files[fresh]
        get = self._synopsis.cluster if what == "clusters" else self._synopsis.group
        offsets, lengths = (get(name)[numbers] for name in names[:2])
        check_places(self._synopsis, files, offsets, lengths)
        for number in np.unique(files).tolist():
            held.files[number].load(offsets[files == number], lengths[files == number])
        checksums = table.column(names[2]).take(pa.array(numbers)).to_pylist()
        groups = self._synopsis.cluster("group")[numbers] if what == "clusters" else numbers
        blocks = self._synopsis.group("row_group")[groups].tolist()
        for file, block, offset, length, checksum in zip(
            files.tolist(), blocks, offsets.tolist(), lengths.tolist(), checksums, strict=True
        ):
            data = memoryview(held.files[file].data)[offset : offset + length]
            check(data, checksum, self._synopsis.files[file].path, block)
        if what == "groups":
            for file, offset, length, words in zip(
                files.tolist(),
                offsets.tolist(),
                lengths.tolist(),
                get(f"words{attribute}")[numbers],
                strict=True,
            ):
                data = memoryview(held.files[file].data)[offset : offset + length]
                check_words(data, int(words), self._synopsis.files[file].path)
        checked[numbers] = held.tickets[files]
        return int(lengths.sum())


class CachedFile:
    """An index file in memory; pages without a loaded part take no memory.

    Attributes:
        data: its bytes; undefined where no part is loaded.
        path: its path.
        size: how many bytes it must have.
        ticket: a number of its own, which tells it from an earlier copy of the same file.
    """

    def __init__(self, filesystem: pafs.FileSystem, path: str, size: int, ticket: int, gap: int) -> None:
        self.path, self.size, self.ticket, self._gap = path, size, ticket, gap
        self._filesystem = filesystem
        try:
            self._room = np.empty(max(size, 8), np.uint8)  # the system allocates a page when it is written
        except (MemoryError, ValueError) as error:
            raise self._broken(f"cannot be loaded: it has {size} bytes") from error
        self.data = pa.py_buffer(self._room)
        self._read: set[tuple[int, int]] = set()  # offset and length of the loaded parts
        self._lock = threading.Lock()
        self._file: pa.NativeFile | None = None  # stays open if remote; a local file is opened again

    def load(self, offsets: Ints, lengths: Ints) -> None:
        """Load the parts of the file that are not loaded yet.

        Raises:
            BrokenIndex: the file cannot be read any more, or has another size.
        """
        with self._lock:
            parts = list(zip(offsets.tolist(), lengths.tolist(), strict=True))
            missing = np.array([part not in self._read for part in parts], bool)
            if missing.any():
                try:
                    self._read_parts(offsets[missing], lengths[missing])
                except OSError as error:
                    raise self._broken(f"cannot be read: {error}") from error
                self._read.update(parts)

    def _read_parts(self, offsets: Ints, lengths: Ints) -> None:
        file = self._file or self._filesystem.open_input_file(self.path)
        try:
            if (found := file.size()) != self.size:
                raise self._broken(f"has {found} bytes, not {self.size}")
            order = np.argsort(offsets, kind="stable")
            starts, ends = offsets[order], (offsets + lengths)[order]
            reach = np.maximum.accumulate(ends)
            cuts = [0, *(np.flatnonzero(starts[1:] - reach[:-1] > self._gap) + 1).tolist(), len(starts)]
            for first, last in pairwise(cuts):
                self._read_near(file, starts[first:last], ends[first:last])
        finally:
            if local_path(self._filesystem, self.path) is None:
                self._file = file
            else:
                file.close()

    def _read_near(self, file: pa.NativeFile, starts: Ints, ends: Ints) -> None:
        """Load neighbouring parts in one read; never overwrite loaded parts, which others may be reading."""
        low, high = int(starts[0]), int(ends.max())
        if not self._read:  # no part is in use yet
            file.seek(low)
            size = file.readinto(self._room[low:high])
        else:
            found = np.frombuffer(file.read_at(high - low, low), np.uint8)
            size = len(found)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                self._room[start:end] = found[start - low : end - low]
        if size != high - low:
            raise self._broken("is cut off")

    def _broken(self, problem: str) -> BrokenIndex:
        return BrokenIndex(f"index file {self.path} {problem}", path=self.path)
