"""The index files of a table, mapped when they are first touched, a bounded number at once."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from cerise.events import Ints
from cerise.store.index.file import check, mapped
from cerise.store.index.synopsis import Synopsis


class Held:
    """Some mapped files; they stay mapped as long as this lives.

    Attributes:
        addresses: where each file of the table lies in memory, 0 for those that are not here.
    """

    def __init__(self, files: dict[int, pa.Buffer], count: int) -> None:
        self.files = files
        self.addresses = np.zeros(count, np.int64)
        for number, data in files.items():
            self.addresses[number] = data.address


class OpenFiles:
    """Maps index files, and checks what is touched for the first time."""

    def __init__(self, synopsis: Synopsis, filesystem: pafs.FileSystem, most: int) -> None:
        self._synopsis = synopsis
        self._filesystem = filesystem
        self.most = most
        self._mapped: OrderedDict[int, pa.Buffer] = OrderedDict()
        self._lock = threading.Lock()

    def hold(self, files: Ints) -> Held:
        """Return some files, mapped."""
        with self._lock:
            found = {number: self._map(number) for number in files.tolist()}
            while len(self._mapped) > self.most:
                self._mapped.popitem(last=False)
        return Held(found, len(self._synopsis.files))

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._mapped.clear()

    def _map(self, number: int) -> pa.Buffer:
        data = self._mapped.get(number)
        if data is None:
            file = self._synopsis.files[number]
            data = mapped(self._filesystem, file.path, file.size)
            self._mapped[number] = data
        self._mapped.move_to_end(number)
        return data

    def verify_clusters(self, numbers: Ints, held: Held) -> int:
        """Check clusters that have not been checked yet; return how many bytes they have."""
        files = self._synopsis.group("file")[self._synopsis.cluster("group")[numbers]]
        return self._verify("clusters", "", numbers, files, held)

    def verify_words(self, groups: Ints, attribute: int, held: Held) -> int:
        """Check dictionaries that have not been checked yet; return how many bytes they have."""
        files = self._synopsis.group("file")[groups]
        return self._verify("groups", f".{attribute}", groups, files, held)

    def _verify(self, what: str, attribute: str, numbers: Ints, files: Ints, held: Held) -> int:
        table = self._synopsis.clusters if what == "clusters" else self._synopsis.groups
        done = self._synopsis.verified.setdefault(what + attribute, np.zeros(len(table), np.bool_))
        fresh = ~done[numbers]
        if not fresh.any():
            return 0
        some = table.take(pa.array(numbers[fresh]))
        prefix = "" if what == "clusters" else "words_"
        names = (f"{prefix}offset{attribute}", f"{prefix}length{attribute}", f"{prefix}checksum{attribute}")
        columns = [some.column(name).to_pylist() for name in names]
        groups = some.column("group").to_numpy() if what == "clusters" else numbers[fresh]
        blocks = self._synopsis.group("row_group")[groups].tolist()
        for file, block, offset, length, checksum in zip(
            files[fresh].tolist(), blocks, *columns, strict=True
        ):
            data = memoryview(held.files[file])[offset : offset + length]
            check(data, checksum, self._synopsis.files[file].path, block)
        done[numbers[fresh]] = True
        return sum(columns[1])
