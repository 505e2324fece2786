"""The files that a Delta table gains, commit by commit: the source of a stream.

An offset names a version and how many of its files were read. A stream begins with all files of one version
(`whole`), and goes on with the files that each later commit adds. Entries of the log never change, so the
files between two offsets are always the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from cerise.errors import StoreError, UnsupportedError
from cerise.files import delta
from cerise.files import delta_log as log
from cerise.files.checksums import Expected
from cerise.files.delta_log import LOG
from cerise.files.folder import Folder
from cerise.files.lake import File
from cerise.files.types import spark_type

Offset = dict[str, Any]
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
KEPT_COMMITS = 256  # whose files stay in memory
AGAIN = "start the stream again, with a new checkpoint"


class Arrived(NamedTuple):
    """A file that has arrived: how many rows it has (None: unknown), and the offset after it."""

    file: File
    rows: int | None
    after: Offset


@dataclass(slots=True)
class DeltaTail:
    """The files of a Delta table in the order of their commits.

    Attributes:
        root: the path or URI of the table.
        columns: the columns that the stream has; a later commit must not change their types.
        after: the version whose events, and all before it, are left out; None: begin with all events.
    """

    root: str
    columns: pa.Schema
    after: int | None = None
    _commits: dict[int, list[Arrived]] = field(default_factory=dict)
    _whole: tuple[int, list[Arrived]] | None = None

    def start(self) -> Offset:
        """Return the offset of a new stream."""
        if self.after is not None:
            return _offset(self.after + 1, 0)
        return _offset(delta.open_table(self.root, None).version(), 0, whole=True)

    def newest(self) -> Offset:
        """Return the offset after all files that are there now."""
        return _offset(delta.open_table(self.root, None).version(), 1 << 62)

    def arrivals(self, start: Offset, stop: Offset | None = None) -> Iterator[Arrived]:
        """Yield the files after an offset, up to another; None: all that are there.

        Raises:
            StoreError: a commit has removed events, or the log no longer has a commit.
        """
        version, done = start["version"], start["file"]
        if start["whole"]:
            yield from _until(self._files_of(version)[done:], stop)
            version, done = version + 1, 0
        while stop is None or (version <= stop["version"] and not stop["whole"]):
            found = self._list_commit(version, known=stop is not None and stop["file"] < 1 << 62)
            if found is None:
                return
            yield from _until(found[done:], stop)
            version, done = version + 1, 0

    def _files_of(self, version: int) -> list[Arrived]:
        """Return all files of a version, in arrival order: by name."""
        if self._whole is None or self._whole[0] != version:
            folder = Folder.of(self.root)
            held = delta.version_of(self.root, version).files
            held.sort(key=lambda each: Path(each.path).name)
            files = [
                File(folder.path(each.path), each.values, each.kept, Expected(each.size)) for each in held
            ]
            counted = [None if each.counted is None else each.counted - each.deleted for each in held]
            offsets = (_offset(version, i + 1, whole=True) for i in range(len(files)))
            self._whole = version, list(map(Arrived, files, counted, offsets))
        return self._whole[1]

    # ---- one commit

    def _list_commit(self, version: int, *, known: bool) -> list[Arrived] | None:
        """Return the files that a commit adds; None: the commit does not exist yet."""
        if version not in self._commits:
            actions = self._read(version, known=known)
            if actions is None:
                return None
            while len(self._commits) >= KEPT_COMMITS:
                self._commits.pop(next(iter(self._commits)))
            self._commits[version] = self._list_new(version, actions)
        return self._commits[version]

    def _read(self, version: int, *, known: bool) -> list[dict[str, Any]] | None:
        folder, name = Folder.of(self.root), f"{LOG}/{version:020d}.json"
        if not folder.holds(name):
            if known or self._find_checkpoint() >= version:
                raise StoreError(f"the log of {self.root} no longer has version {version}", hint=AGAIN)
            return None
        log.check(self.root)
        return [json.loads(line) for line in folder.read(name).splitlines() if line.strip()]

    def _find_checkpoint(self) -> int:
        """Return the version of the last checkpoint; -1: the log has none."""
        folder = Folder.of(self.root)
        if not folder.holds(LAST_CHECKPOINT):
            return -1
        return int(json.loads(folder.read(LAST_CHECKPOINT))["version"])

    def _list_new(self, version: int, actions: list[dict[str, Any]]) -> list[Arrived]:
        """Return the new files of a commit; files that it only rewrites are not new."""
        for each in actions:
            self._check(version, each)
        added = [each["add"] for each in actions if "add" in each and each["add"]["dataChange"]]
        added.sort(key=lambda each: Path(unquote(each["path"])).name)
        files = [self._file(each) for each in added]
        offsets = (_offset(version, i + 1) for i in range(len(files)))
        return list(map(Arrived, files, map(_count, added), offsets))

    def _check(self, version: int, action: Mapping[str, Any]) -> None:
        if "remove" in action and action["remove"]["dataChange"]:
            raise StoreError(
                f"version {version} of {self.root} removes events, which a stream cannot take back",
                hint=f"{AGAIN}; after={version} leaves out events that were read before",
            )
        if "protocol" in action:
            delta.reject_unknown_features(delta.open_table(self.root, None), self.root)
        if "metaData" in action:
            self._check_columns(version, delta.columns(self.root))

    def _check_columns(self, version: int, now: pa.Schema) -> None:
        other = [
            each.name
            for each in self.columns
            if each.name not in now.names or spark_type(now.field(each.name).type) != each.type
        ]
        if other:
            raise StoreError(
                f"version {version} of {self.root} changes columns of the stream: {', '.join(other)}",
                hint=AGAIN,
            )

    def _file(self, added: Mapping[str, Any]) -> File:
        path = unquote(added["path"])
        if "://" in path or path.startswith("/"):
            raise UnsupportedError(f"{self.root} has files elsewhere: {path}", hint="read it by Spark")
        if added.get("deletionVector"):
            raise UnsupportedError(f"{self.root} adds {path} with deleted rows", hint=AGAIN)
        values = {name: self._value(name, text) for name, text in added.get("partitionValues", {}).items()}
        return File(Folder.of(self.root).path(path), values, None, Expected(added["size"]))

    def _value(self, name: str, text: str | None) -> Any:
        if name not in self.columns.names or text is None:
            return None
        return pa.array([text]).cast(self.columns.field(name).type)[0].as_py()


def _offset(version: int, file: int, *, whole: bool = False) -> Offset:
    return {"version": version, "file": file, "whole": whole}


def _until(files: list[Arrived], stop: Offset | None) -> Iterator[Arrived]:
    for each in files:
        if stop is not None and _key(each.after) > _key(stop):
            return
        yield each


def _key(offset: Offset) -> tuple[int, bool, int]:
    return offset["version"], not offset["whole"], offset["file"]


def _count(added: Mapping[str, Any]) -> int | None:
    stats = json.loads(added.get("stats") or "{}")
    return None if "numRecords" not in stats else int(stats["numRecords"])
