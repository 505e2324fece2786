"""The index files of a table, a bounded number at once: mapped, or as much of them as is touched read."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from cerise.events import Ints
from cerise.store.index.file import check, local_path, mapped
from cerise.store.index.remote import Remote
from cerise.store.index.synopsis import Synopsis


class Held:
    """Some files in memory; they stay there as long as this lives.

    Attributes:
        files: their bytes by their numbers; of those that lie elsewhere, what was verified.
        remote: those that lie elsewhere.
        addresses: where each file of the table lies in memory, 0 for those that are not here.
    """

    def __init__(self, files: dict[int, pa.Buffer | Remote], count: int) -> None:
        self.remote = {number: each for number, each in files.items() if isinstance(each, Remote)}
        self.files = {
            number: each.data if isinstance(each, Remote) else each for number, each in files.items()
        }
        self.addresses = np.zeros(count, np.int64)
        for number, data in self.files.items():
            self.addresses[number] = data.address


class OpenFiles:
    """Brings index files to memory, and checks what is touched for the first time."""

    def __init__(self, synopsis: Synopsis, filesystem: pafs.FileSystem, most: int) -> None:
        self._synopsis = synopsis
        self._filesystem = filesystem
        self.most = most
        self._mapped: OrderedDict[int, pa.Buffer | Remote] = OrderedDict()
        self._lock = threading.Lock()

    def hold(self, files: Ints) -> Held:
        """Return some files; what is used of them must be verified first, which brings it."""
        with self._lock:
            found = {number: self._map(number) for number in files.tolist()}
            while len(self._mapped) > self.most:
                self._mapped.popitem(last=False)
        return Held(found, len(self._synopsis.files))

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._mapped.clear()

    def _map(self, number: int) -> pa.Buffer | Remote:
        data = self._mapped.get(number)
        if data is None:
            file = self._synopsis.files[number]
            bring = Remote if local_path(self._filesystem, file.path) is None else mapped
            data = bring(self._filesystem, file.path, file.size)
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
        prefix = "" if what == "clusters" else "words_"
        names = tuple(f"{prefix}{each}{attribute}" for each in ("offset", "length", "checksum"))
        done = self._synopsis.verified.setdefault(what + attribute, np.zeros(len(table), np.bool_))
        fresh = ~done[numbers]
        for number, elsewhere in held.remote.items():
            mine = np.flatnonzero(files == number)
            part = table.select(names[:2]).take(pa.array(numbers[mine]))
            offsets, lengths = (part.column(name).to_numpy().astype(np.int64) for name in names[:2])
            fresh[mine] |= elsewhere.bring(offsets, lengths)
        if not fresh.any():
            return 0
        some = table.take(pa.array(numbers[fresh]))
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
