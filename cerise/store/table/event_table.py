"""An event table: a Delta table of events in stream order, with index files beside it.

    table/
      _delta_log/                            the versions: lists of data files
      <append>-<number>.parquet              events of one append, in stream order
      <append>-<number>-<made>.parquet       events of appends up to this one: sealed or compacted
      <append>-<number>.fresh.parquet        a small append, which has no index yet
      _cerise/store.json                     the settings of the table
      _cerise/index/<data file>.cix          the index of a data file
      _cerise/synopsis/<version>             the synopsis of a version: a cache
      _cerise/into/<stream>.json             the appends that have tried to write the last batch of a stream

Numbers of appends are hexadecimal and grow with time. Events carry the number of their append, and their row
in it, in the column `_seq`. Other engines can read the table as a plain Delta table.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.errors import StoreError
from cerise.files import delta
from cerise.files import delta_log as log
from cerise.files.folder import Folder
from cerise.store.table import appending, commits, compaction, settings, vacuum, verification
from cerise.store.table import external_index as in_place
from cerise.store.table.append_sources import Progress, report_progress, source_of
from cerise.store.table.column_types import to_delta_columns
from cerise.store.table.compaction import Compacted
from cerise.store.table.data_file import Writing, Written
from cerise.store.table.failpoints import mark_step
from cerise.store.table.settings import Settings
from cerise.store.table.snapshot import Snapshot, own_snapshot
from cerise.store.table.synopses import UNCOVERED, Indexed, load_index, save_if_due


@dataclass(frozen=True, slots=True)
class Info:
    """Facts about a version of an event table.

    Attributes:
        path: the path of the table.
        version: the number of the version; None: a table without versions.
        events: how many events it has.
        files: how many data files it has.
        fresh_files: how many files wait to be sealed.
        fresh_events: how many events the fresh files have.
        data_bytes: the total size of the data files.
        index_bytes: the total size of the index files.
        first, last: the times of the first and the last event, as integers; None: unknown.
        broken: the problems of index files that cannot be used, by data file.
        settings: the settings of the table.
    """

    path: str
    version: int | None
    events: int
    files: int
    fresh_files: int
    fresh_events: int
    data_bytes: int
    index_bytes: int
    first: int | None
    last: int | None
    broken: dict[str, str]
    settings: Settings


@dataclass(frozen=True, slots=True)
class EventTable:
    """An event table.

    Attributes:
        writing: its path, columns and settings.
        rng: the random numbers for waits between tries to commit.
        uncovered: how many index files the last saved synopsis may lack.
    """

    writing: Writing
    rng: random.Random = field(default_factory=random.Random, repr=False, compare=False)
    uncovered: int = UNCOVERED

    @classmethod
    def create(
        cls,
        path: str | Path,
        schema: pa.Schema,
        time: str,
        type: str | None = None,
        *,
        key: Sequence[str] = (),
        order: Sequence[str] = (),
        index: Sequence[str] = (),
        block_rows: int = 131_072,
        pool_rows: int = 65_536,
        compress: bool = True,
    ) -> EventTable:
        """Create an empty event table.

        Args:
            path: a new or empty folder.
            schema: the columns of the events.
            time: the column of times.
            type: the column of types.
            key: the columns that partition the events.
            order: the columns that break ties between events of equal time.
            index: further columns to index.
            block_rows: how many events a block has.
            pool_rows: how many fresh events may wait before they are sealed.
            compress: whether to compress the index.

        Raises:
            StoreError: the path is not empty, or a column cannot be stored.
            BindError: a column does not exist, or cannot play its part or be indexed.
        """
        decided = Settings(
            time, type, _names(key), _names(order), _names(index), block_rows, pool_rows, compress
        )
        log.check_place(str(path))
        columns = to_delta_columns(schema)
        decided.roles(pa.schema([each for each in columns if each.name in schema.names]))
        decided.layout(columns)
        folder = Folder.of(path)
        begun = {settings.FOLDER} if _has_log(folder) else {settings.FOLDER, log.LOG}
        taken = [folder.name] if folder.is_file else [n for n in folder.names() if n not in begun]
        if taken:
            raise StoreError(
                f"there is something at {path} already: {taken[0]}",
                hint="give a path of its own; cerise.Store(path) opens a store that is there",
            )
        settings.save(decided, folder.inside(settings.FOLDER))
        mark_step("settings written")
        commits.create(folder.root, columns)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path, index_dir: str | Path | None = None) -> EventTable:
        """Open an event table, or a table that `index_in_place` has indexed.

        Args:
            path: the path of the table.
            index_dir: the folder of its index, if not beside the data.

        Raises:
            StoreError: the table does not exist, or a newer Cerise has written it.
        """
        folder = Folder.of(path)
        index = in_place.index_folder(folder, index_dir)
        decided = settings.load(index)
        if not decided.sequence:
            return cls(in_place.open_external(folder, index, decided))
        if not _has_log(folder):
            raise StoreError(
                f"there is no event table at {path}: its creation was broken off", hint="create it again"
            )
        return cls(Writing(folder.root, index.root, delta.columns(folder.root), decided))

    # ---- reading

    @property
    def settings(self) -> Settings:
        return self.writing.settings

    @property
    def columns(self) -> pa.Schema:
        return self.writing.columns

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return a version; the newest by default.

        Raises:
            StoreError: the version does not exist.
        """
        if self.settings.sequence:
            return own_snapshot(self.writing, version)
        return in_place.snapshot(self.writing, version)

    def is_newest(self, now: Snapshot) -> bool:
        if now.version is not None:
            return not Folder.of(self.writing.root).holds(f"{log.LOG}/{now.version + 1:020d}.json")
        return self.snapshot().files == now.files

    def load_index(self, now: Snapshot | None = None) -> Indexed:
        """Return the synopsis of a version, and the files without a usable index."""
        return load_index(now or self.snapshot())

    def info(self, version: int | None = None) -> Info:
        now = self.snapshot(version)
        sizes = Folder.of(self.writing.index_root).sizes([each.index for each in now.sealed if each.index])
        found = load_index(now)
        first, last = _span(now, found)
        return Info(
            path=self.writing.root,
            version=now.version,
            events=now.rows,
            files=len(now.files),
            fresh_files=len(now.fresh),
            fresh_events=sum(each.rows for each in now.fresh),
            data_bytes=sum(each.size for each in now.files),
            index_bytes=sum(size or 0 for size in sizes),
            first=first,
            last=last,
            broken=found.broken,
            settings=self.settings,
        )

    def verify(self, progress: Callable[[int, int], None] | None = None) -> list[verification.Finding]:
        """Check all files, checksums, order and sequence of events, index files and synopses.

        Args:
            progress: called with the number of files done, and their total.

        Returns:
            The problems found; empty if the table is sound.
        """
        faults = log.faults(self.writing.root)
        if faults:  # the files of the table are unknown then
            return [verification.Finding(each.name, f"it {each.what}") for each in faults]
        return verification.verify(self.snapshot(), progress)

    # ---- writing

    def append(self, events: Any, progress: Progress | None = None) -> int:
        """Append events, as one version.

        Args:
            events: Arrow data, or the path of a Parquet file, a folder of them or a Delta table.
            progress: called with the number of events read, and their total; None: unknown.

        Returns:
            The version with the events.

        Raises:
            StoreError: the columns differ from those of the table, or the events cannot be read or written.
            DataError: an event has no time, or a value does not fit.
        """
        self.require_own("append to it")
        source = source_of(events) if progress is None else report_progress(source_of(events), progress)
        appended = appending.append(source, self.writing, self._waits())
        if appended.indexed:
            save_if_due(own_snapshot(self.writing), self.uncovered)
        return appended.version

    def commit_pieces(self, written: Sequence[Written]) -> int:
        """Commit files that `data_file.write_piece` has written, in any process, as one version."""
        self.require_own("append to it")
        if not written:
            return own_snapshot(self.writing).version or 0
        version = appending.commit_pieces(written, self.writing, self._waits())
        save_if_due(own_snapshot(self.writing), self.uncovered)
        return version

    def next_append(self) -> int:
        return appending.append_number(own_snapshot(self.writing))

    def compact(self, progress: Callable[[int, int], None] | None = None) -> Compacted:
        """Rewrite fresh, small and overlapping files as few large ones in stream order.

        Returns:
            The new version, how many files were rewritten, and the files left over because concurrent
            commits changed them.
        """
        self.require_own("compact it")
        done = compaction.compact(self.writing, self._waits(), progress)
        save_if_due(own_snapshot(self.writing), self.uncovered)
        return done

    def vacuum(self, retention_hours: float = vacuum.WEEK) -> list[str]:
        """Remove files that no version of the last hours has, and their index.

        Only use 0 hours if no process is writing, or reading an older version.

        Returns:
            The names of the removed files.
        """
        self.require_own("vacuum it")
        return vacuum.vacuum(self.writing, retention_hours, time.time_ns() // 1_000_000)

    def require_own(self, what: str) -> None:
        """Refuse to write to a table that other tools write."""
        if not self.settings.sequence:
            raise StoreError(
                f"{self.writing.root} is a table of others, indexed in place: Cerise does not {what}",
                hint="change it with the tool that writes it, and index it again",
            )

    def _waits(self) -> list[float]:
        return appending.patience(self.rng)


def _has_log(folder: Folder) -> bool:
    return bool(folder.inside(log.LOG).names())


def _span(now: Snapshot, found: Indexed) -> tuple[int | None, int | None]:
    """Return the times of the first and the last event, from the log or, if it lacks some, from the index."""
    firsts = [each.first for each in now.files if each.first is not None]
    lasts = [each.last for each in now.files if each.last is not None]
    if len(firsts) != len(now.files) and not found.plain:
        some = found.synopsis.group("rows") > 0
        firsts, lasts = (found.synopsis.group(name)[some].tolist() for name in ("first", "last"))
    elif len(firsts) != len(now.files):
        return None, None
    return min(firsts, default=None), max(lasts, default=None)


def index_in_place(
    path: str | Path,
    time: str,
    type: str | None = None,
    on: Sequence[str] = (),
    *,
    index_dir: str | Path | None = None,
    key: Sequence[str] = (),
    order: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
    uncovered: int = UNCOVERED,
) -> in_place.Built:
    """Index a Delta table or Parquet files that other tools write, without touching them.

    A second call indexes new files, and drops the index of files that are gone or changed. `EventTable.open`
    opens the table with its index.

    Args:
        path: a Delta table, a Parquet file or a folder of them.
        time: the column of times.
        type: the column of types.
        on: further columns to index.
        index_dir: the folder of the index, if not beside the data.
        key: the columns that partition the events.
        order: the columns that break ties between events of equal time.
        progress: called with the number of files done, and their total.
        uncovered: how many index files the last saved synopsis may lack.

    Raises:
        StoreError: the path holds no table, or only Spark can read it.
        BindError: a column does not exist, or cannot play its part or be indexed.
        DataError: an event has no time.
    """
    decided = Settings(time, type, _names(key), _names(order), _names(on), sequence=False)
    return in_place.index_in_place(path, decided, index_dir, progress, uncovered=uncovered)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
