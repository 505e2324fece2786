"""A snapshot: one version of an event table, with its files in the order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from cerise.files import delta
from cerise.files.delta import LoggedFile
from cerise.files.folder import Folder
from cerise.files.lake import File
from cerise.store.table.data_file import Writing, is_fresh, is_ours
from cerise.store.table.settings import index_name


def file_of(file: LoggedFile, folder: Folder) -> File:
    """Return a data file in the form that `files.reader` reads."""
    return File(folder.path(file.path), file.values, file.kept, file.expected)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of an event table.

    Attributes:
        writing: the table: its path, columns and settings.
        version: its number; None: external Parquet files, which have no versions.
        files: its files in the order of arrival: by name.
    """

    writing: Writing
    version: int | None
    files: tuple[LoggedFile, ...]

    @property
    def columns(self) -> pa.Schema:
        return self.writing.columns

    @property
    def fresh(self) -> tuple[LoggedFile, ...]:
        """The files of small appends, which wait to be sealed."""
        return tuple(each for each in self.files if is_fresh(each.path))

    @property
    def sealed(self) -> tuple[LoggedFile, ...]:
        return tuple(each for each in self.files if each.index is not None)

    @property
    def rows(self) -> int:
        return sum(max(each.rows - each.deleted, 0) for each in self.files)  # 0: the log does not count


def own_snapshot(writing: Writing, version: int | None = None) -> Snapshot:
    """Return a version of a table that Cerise writes; the newest by default."""
    found = delta.version_of(writing.root, version, writing.settings.time)
    files = [_describe(each) for each in sorted(found.files, key=lambda each: each.path)]
    return Snapshot(writing, found.number, tuple(files))


def _describe(file: LoggedFile) -> LoggedFile:
    ours = is_ours(file.path)
    return replace(file, ours=ours, index=index_name(file.path) if ours and not is_fresh(file.path) else None)
