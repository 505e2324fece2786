"""An index file as memory of its size: of it only what is touched is read.

It is not mapped: a mapped file that is cut by somebody else ends the process that touches it.
"""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from cerise.events import Ints
from cerise.store.index.file import BrokenIndex, local_path

GAP = 1 << 16  # bytes between two parts that it is quicker to read than to ask again for what follows


class Brought:
    """An index file; memory is taken by what has been read, not by its size.

    Attributes:
        data: its bytes, anything where nothing has been read.
        path: its name.
        size: how many bytes it must have.
        ticket: a number that no other has.
    """

    def __init__(self, filesystem: pafs.FileSystem, path: str, size: int, ticket: int) -> None:
        self.path, self.size, self.ticket = path, size, ticket
        self._filesystem = filesystem
        try:
            self._room = np.empty(max(size, 8), np.uint8)  # pages of it are there once they are written
        except (MemoryError, ValueError) as error:
            raise self._broken(f"cannot have {size} bytes") from error
        self.data = pa.py_buffer(self._room)
        self._read: set[tuple[int, int]] = set()  # offset and length of the parts that are here
        self._lock = threading.Lock()
        self._file: pa.NativeFile | None = None  # of one that lies elsewhere; a local one is opened again

    def bring(self, offsets: Ints, lengths: Ints) -> None:
        """Read the parts of the file that are not here yet.

        Raises:
            BrokenIndex: the file cannot be read any more, or has another size.
        """
        with self._lock:
            parts = list(zip(offsets.tolist(), lengths.tolist(), strict=True))
            missing = np.array([part not in self._read for part in parts], bool)
            if missing.any():
                try:
                    self._bring(offsets[missing], lengths[missing])
                except OSError as error:
                    raise self._broken(f"cannot be read: {error}") from error
                self._read.update(parts)

    def _bring(self, offsets: Ints, lengths: Ints) -> None:
        file = self._file or self._filesystem.open_input_file(self.path)
        try:
            if (found := file.size()) != self.size:
                raise self._broken(f"has {found} bytes, not {self.size}")
            order = np.argsort(offsets, kind="stable")
            starts, ends = offsets[order], (offsets + lengths)[order]
            reach = np.maximum.accumulate(ends)
            cuts = [0, *(np.flatnonzero(starts[1:] - reach[:-1] > GAP) + 1).tolist(), len(starts)]
            for first, last in pairwise(cuts):
                self._put(file, starts[first:last], ends[first:last])
        finally:
            if local_path(self._filesystem, self.path) is None:
                self._file = file
            else:
                file.close()

    def _put(self, file: pa.NativeFile, starts: Ints, ends: Ints) -> None:
        """Read parts that are near each other as one; what is here already is not written again."""
        low, high = int(starts[0]), int(ends.max())
        if not self._read:  # nobody looks at any of it yet
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
