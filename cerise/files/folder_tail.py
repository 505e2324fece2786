"""The Parquet files that a folder gains, in the order of their modification times: the source of a stream.

An offset names the last file that was read, with its time. A file that appears later with an earlier time
would be left out; it is an error instead. Files have to appear whole: written elsewhere, or under a name that
begins with `.` or `_`, and then renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import time_ns

import pyarrow as pa
from pyarrow import fs

from cerise.errors import StoreError
from cerise.files.checksums import Expected
from cerise.files.delta_tail import Arrived, Offset
from cerise.files.folder import Folder
from cerise.files.lake import File, hive_values, reject_other

SETTLED = 1_000_000_000  # nanoseconds: younger files wait, as one that is about to appear may be older
UNKNOWN = -1
Key = tuple[int, str]


@dataclass(slots=True)
class FolderTail:
    """The Parquet files of a folder in the order of (modification time, name).

    Attributes:
        root: the path or URI of the folder.
        columns: the columns that the stream has.
        settled: how many nanoseconds old a file must be.
    """

    root: str
    columns: pa.Schema
    settled: int = SETTLED
    _listed: set[Key] | None = None

    def start(self) -> Offset:
        """Return the offset of a new stream."""
        return _offset((0, ""), 0)

    def newest(self) -> Offset:
        """Return the offset after all files that are there now."""
        return _offset(max(self._list(), default=(0, "")), UNKNOWN)

    def arrivals(self, start: Offset, stop: Offset | None = None) -> Iterator[Arrived]:
        """Yield the files after an offset, up to another; None: all that are settled.

        Raises:
            StoreError: a file has appeared with an earlier time than one that was read, or is gone.
        """
        held = self._list()
        low, high = _key(start), (time_ns() - self.settled, "") if stop is None else _key(stop)
        self._reject_late([key for key in held if key <= low], start)
        found = sorted(key for key in held if low < key <= high)
        if stop is not None and stop["files"] not in (UNKNOWN, start["files"] + len(found)):
            raise StoreError(
                f"{self.root} has {len(found)} files after '{low[1]}' up to '{high[1]}', and had "
                f"{stop['files'] - start['files']} when the stream planned to read them",
                hint="put back files that are gone, and touch those that have appeared",
            )
        if stop is None:
            self._listed = set(held)
        for count, key in enumerate(found, start["files"] + 1):
            yield Arrived(self._file(held[key]), None, _offset(key, count))

    def _reject_late(self, past: list[Key], start: Offset) -> None:
        """Refuse files that have appeared among those that were read, known by name or by number."""
        new = [] if self._listed is None else [key for key in past if key not in self._listed]
        if new or len(past) > start["files"]:
            shown = f", such as {new[0][1]}" if new else ""
            raise StoreError(
                f"{self.root}: a file has appeared that is older than files already read{shown}",
                hint="touch it, and it is read as a new file; let files appear in the order of their times",
            )

    def _list(self) -> dict[Key, fs.FileInfo]:
        folder = Folder.of(self.root)
        found = folder.system.get_file_info(fs.FileSelector(folder.base, recursive=True))
        inside = [(each, each.path[len(folder.base) :].strip("/")) for each in found]
        return {
            (int(each.mtime_ns or 0), name): each
            for each, name in inside
            if each.type == fs.FileType.File and _is_visible(name)
        }

    def _file(self, found: fs.FileInfo) -> File:
        reject_other(found.path)
        base = Folder.of(self.root).base
        folders = found.path[len(base) :].strip("/").split("/")[:-1]
        return File(found.path, hive_values(folders, self.root, self.columns), None, Expected(found.size))


def _is_visible(name: str) -> bool:
    return not any(part.startswith((".", "_")) for part in name.split("/"))


def _offset(key: Key, files: int) -> Offset:
    return {"time": key[0], "name": key[1], "files": files}


def _key(offset: Offset) -> Key:
    return offset["time"], offset["name"]
