"""An index file that lies elsewhere, as memory of its size: of it only what is touched is read."""

from __future__ import annotations

import mmap
import threading
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from cerise.events import Ints
from cerise.store.index.file import BrokenIndex

GAP = 1 << 16  # bytes between two parts that it is quicker to read than to ask again for what follows


class Remote:
    """A file of an object store; memory is taken by what has been read, not by its size.

    Attributes:
        data: its bytes, zeros where nothing has been read.
        path: its name.
    """

    def __init__(self, filesystem: pafs.FileSystem, path: str, size: int) -> None:
        self.path = path
        try:
            self._file = filesystem.open_input_file(path)
            found = self._file.size()
        except OSError as error:
            raise self._broken(error) from error
        if found != size:
            raise BrokenIndex(f"index file {path} has {found} bytes, not {size}", path=path)
        self._room = mmap.mmap(-1, max(size, 1))
        self.data = pa.py_buffer(self._room)
        self._read: set[tuple[int, int]] = set()  # offset and length of the parts that are here
        self._lock = threading.Lock()

    def bring(self, offsets: Ints, lengths: Ints) -> npt.NDArray[np.bool_]:
        """Read the parts of the file that are not here yet; tell which these are.

        Raises:
            BrokenIndex: the file cannot be read any more.
        """
        with self._lock:
            parts = list(zip(offsets.tolist(), lengths.tolist(), strict=True))
            missing = np.array([part not in self._read for part in parts], bool)
            for low, high in _stretches(offsets[missing], lengths[missing]):
                self._room[low:high] = self._bytes(low, high)
            self._read.update(parts)
        return missing

    def _bytes(self, low: int, high: int) -> bytes:
        try:
            found: bytes = self._file.read_at(high - low, low)
        except OSError as error:
            raise self._broken(error) from error
        if len(found) != high - low:
            raise BrokenIndex(f"index file {self.path} is cut off", path=self.path)
        return found

    def _broken(self, error: OSError) -> BrokenIndex:
        return BrokenIndex(f"index file {self.path} cannot be read: {error}", path=self.path)


def _stretches(offsets: Ints, lengths: Ints) -> list[tuple[int, int]]:
    """Return the bytes to read, from and up to: parts that are near each other are read as one."""
    if not len(offsets):
        return []
    order = np.argsort(offsets, kind="stable")
    starts, ends = offsets[order], np.maximum.accumulate((offsets + lengths)[order])
    cuts = [0, *(np.flatnonzero(starts[1:] - ends[:-1] > GAP) + 1).tolist(), len(starts)]
    return [(int(starts[first]), int(ends[last - 1])) for first, last in pairwise(cuts)]
