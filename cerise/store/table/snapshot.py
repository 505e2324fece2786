"""A version of an event table: its files in the order of arrival, and what is known of each."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from cerise.files import delta
from cerise.files.checksums import Expected
from cerise.files.delta import HeldFile
from cerise.files.folder import Folder
from cerise.files.lake import File
from cerise.store.table.data_file import Writing, is_fresh, is_ours
from cerise.store.table.settings import index_name


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A data file of a version.

    Attributes:
        held: what the log, or the file system, says of it; its path is relative to the table.
        index: the name of its index file; None: it has none.
        ours: whether Cerise has written it.
    """

    held: HeldFile
    index: str | None
    ours: bool = True

    @property
    def path(self) -> str:
        return self.held.path

    @property
    def rows(self) -> int:
        """How many rows it has, those included that are deleted; 0 where that is not known."""
        return self.held.rows or 0

    @property
    def expected(self) -> Expected:
        return Expected(self.held.size, self.path if self.ours else None)

    @property
    def deleted(self) -> int:
        """How many of its rows a deletion vector deletes."""
        return 0 if self.held.kept is None else int(self.held.kept.false_count)


def file_of(file: StoreFile, folder: Folder) -> File:
    """Return how a data file of a table is read."""
    held = file.held
    return File(folder.path(file.path), held.values, held.kept, file.expected)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of an event table.

    Attributes:
        writing: where it is, its columns and settings.
        version: its number; None where there are no versions: Parquet files that others write.
        files: its files in the order of arrival: by name.
    """

    writing: Writing
    version: int | None
    files: tuple[StoreFile, ...]

    @property
    def columns(self) -> pa.Schema:
        return self.writing.columns

    @property
    def fresh(self) -> tuple[StoreFile, ...]:
        """The files of small appends, which wait to be sealed."""
        return tuple(each for each in self.files if is_fresh(each.path))

    @property
    def sealed(self) -> tuple[StoreFile, ...]:
        """The files that ought to have an index."""
        return tuple(each for each in self.files if each.index is not None)

    @property
    def rows(self) -> int:
        """How many events there are, as far as the log says so."""
        return sum(each.rows - each.deleted for each in self.files)


def own_snapshot(writing: Writing, version: int | None = None) -> Snapshot:
    """Return a version of a table that Cerise writes; the newest by default."""
    found = delta.version_of(writing.root, version, writing.settings.time)
    files = [_described(each) for each in sorted(found.files, key=lambda each: each.path)]
    return Snapshot(writing, found.number, tuple(files))


def _described(held: HeldFile) -> StoreFile:
    ours = is_ours(held.path)
    return StoreFile(held, index_name(held.path) if ours and not is_fresh(held.path) else None, ours)
