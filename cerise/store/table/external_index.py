"""Indexes a Delta table or Parquet files in place: other tools write the data, which is not touched.

The name of an index file depends on path, size and modification time of its data file: a file that changes
gets a new index file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from cerise.errors import BindError, DataError, StoreError, did_you_mean
from cerise.files import delta
from cerise.files.checksums import read_tail
from cerise.files.delta import LoggedFile
from cerise.files.delta_log import LOG
from cerise.files.folder import DRAFT, Folder, attempt, milliseconds
from cerise.files.lake import Group, NotDirect, open_lake
from cerise.files.reader import Reading
from cerise.files.scan import ROW, Scan
from cerise.files.types import spark_type
from cerise.plan.slicing import GroupSpan
from cerise.store.index.file import DataFile, write_index
from cerise.store.table import settings
from cerise.store.table.data_file import Writing
from cerise.store.table.failpoints import mark_step
from cerise.store.table.settings import Settings
from cerise.store.table.snapshot import Snapshot, file_of
from cerise.store.table.synopses import FOLDER, UNCOVERED, list_synopses, save_if_due, unsound

Progress = Callable[[int, int], None]
DAY = 86_400_000  # in milliseconds: the writer of an older draft must be dead


class Built(NamedTuple):
    """How many index files indexing in place has built, kept and dropped."""

    built: int
    kept: int
    dropped: int


def index_in_place(
    path: str | Path,
    decided: Settings,
    index_dir: str | Path | None = None,
    progress: Progress | None = None,
    *,
    uncovered: int = UNCOVERED,
) -> Built:
    """Build the missing index files of an external table, and drop those of files that are gone or changed.

    Args:
        path: a Delta table, a Parquet file or a folder of them.
        decided: the settings: the parts of columns, and which to index.
        index_dir: the folder of the index, if not beside the data.
        progress: called with the number of files done, and their total.
        uncovered: how many index files the last saved synopsis may lack.

    Raises:
        StoreError: the path holds no table, or only Spark can read it.
        BindError: a column does not exist, or cannot play its part or be indexed.
        DataError: an event has no time.
    """
    folder = Folder.of(path)
    index = index_folder(folder, index_dir)
    decided = replace(decided, sequence=False)
    writing = open_external(folder, index, decided)
    decided.roles(writing.columns)
    for name in decided.index:
        if name not in writing.columns.names:
            raise BindError(
                f"column '{name}' is not in the table", hint=did_you_mean(name, writing.columns.names)
            )
    decided.layout(writing.columns)
    _decide(decided, index)
    now = snapshot(writing)
    broken = unsound(now)
    missing = [each for each in now.files if each.path in broken]
    for done, file in enumerate(missing):
        _build(file, now, index)
        if progress is not None:
            progress(done + 1, len(missing))
    dropped = _drop(index, {each.index for each in now.files})
    save_if_due(now, uncovered)
    return Built(len(missing), len(now.files) - len(missing), dropped)


def index_folder(folder: Folder, index_dir: str | Path | None) -> Folder:
    """Return the folder of a table's index: `index_dir` if given, else a folder beside the data."""
    if index_dir is not None:
        return Folder.of(index_dir)
    if folder.is_file:
        return folder.parent.inside(f"{settings.FOLDER}/{folder.name}")
    return folder.inside(settings.FOLDER)


def open_external(folder: Folder, index: Folder, decided: Settings) -> Writing:
    """Return the description of an external table, with its present columns."""
    columns = _list_files(folder, None).columns
    if folder.is_file:
        return Writing(folder.parent.root, index.root, columns, decided, only=folder.name)
    return Writing(folder.root, index.root, columns, decided)


def snapshot(writing: Writing, version: int | None = None) -> Snapshot:
    """Return the files of an external table, in the order of arrival: by name."""
    folder = Folder.of(writing.root)
    held = _list_files(folder if writing.only is None else folder.inside(writing.only), version)
    key = _key(writing)
    files = [replace(each, index=_index_name(each, key)) for each in held.files]
    return Snapshot(replace(writing, columns=held.columns), held.number, tuple(files))


# ---- which files


class _Listing(NamedTuple):
    number: int | None
    files: list[LoggedFile]
    columns: pa.Schema


def _list_files(folder: Folder, version: int | None) -> _Listing:
    try:
        is_delta = not folder.is_file and folder.holds(LOG)
        return _of_delta(folder, version) if is_delta else _of_parquet(folder, version)
    except NotDirect as error:
        raise StoreError(f"{folder.root} cannot be indexed: {error}", hint="read it through Spark") from error


def _of_delta(folder: Folder, version: int | None) -> _Listing:
    found = delta.version_of(folder.root, version)
    columns = pa.schema([pa.field(each.name, spark_type(each.type)) for each in found.columns])
    files = sorted(found.files, key=lambda each: each.path.rsplit("/", 1)[-1])
    return _Listing(found.number, files, columns)


def _of_parquet(folder: Folder, version: int | None) -> _Listing:
    lake = open_lake(folder.root, version)
    base = folder.parent.base if folder.is_file else folder.base
    found = folder.system.get_file_info([each.path for each in lake.files])
    files = [
        LoggedFile(
            each.path[len(base) + 1 :], info.size, milliseconds(info), dict(each.hive), None, footer.num_rows
        )
        for each, info, footer in zip(lake.files, found, lake.footers, strict=True)
    ]
    return _Listing(None, files, lake.columns)


def _key(writing: Writing) -> str:
    """Return a key for all that an index file depends on besides its data file."""
    layout = writing.settings.layout(writing.columns)
    names = [layout.time, *([] if layout.type is None else [layout.type]), *layout.attributes]
    return repr(
        (layout.type, layout.compress, [(each, str(writing.columns.field(each).type)) for each in names])
    )


def _index_name(held: LoggedFile, key: str) -> str:
    mark = xxhash.xxh64_hexdigest(repr((held.path, held.size, held.modified, key)).encode())
    return f"index/{mark}-{held.path.rsplit('/', 1)[-1][-100:]}.cix"


# ---- index files


def _decide(decided: Settings, index: Folder) -> None:
    """Save the settings; if others were saved, first drop the index that was built with them."""
    if index.holds(settings.FILE):
        before = settings.load(index)
        if before.sequence:
            raise StoreError(
                f"{index.root} is the index of an event table, which appends keep up to date",
                hint="there is nothing to do",
            )
        if before == decided:
            return
        _drop(index, set())
    with attempt(f"write to {index.root}", "nothing was indexed"):
        index.write(settings.FILE, decided.to_json().encode())


def _build(file: LoggedFile, now: Snapshot, index: Folder) -> None:
    assert file.index is not None
    layout = now.writing.settings.layout(now.columns)
    rows = _footer(now, file).num_rows
    about = DataFile(file.path, file.size, file.modified, rows)
    place = attempt(f"write the index of {file.path} in {index.root}", "earlier index files stay")
    try:
        with place, index.whole(file.index) as sink:
            write_index(read_groups(now, file, layout.columns.names), layout, about, sink)
    except DataError as error:
        raise DataError(f"{file.path}: {error.problem}", hint=error.hint) from error
    mark_step("index written")


def read_groups(now: Snapshot, file: LoggedFile, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield columns of the row groups of a file, deleted rows included."""
    footer = _footer(now, file)
    rows = (footer.row_group(i).num_rows for i in range(footer.num_row_groups))
    groups = [Group(0, i, i, GroupSpan(0, 0, count)) for i, count in enumerate(rows)]
    every = replace(file, kept=None)
    files = {0: file_of(every, Folder.of(now.writing.root))}
    scan = Scan(Reading(now.writing.root, files, now.columns, tuple(names)), groups)
    return (table.drop_columns([ROW]) for table in scan.rows())


def _footer(now: Snapshot, file: LoggedFile) -> pq.FileMetaData:
    try:
        with Folder.of(now.writing.root).open_input(file.path) as source:
            return read_tail(source, file.path, file.expected).footer
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"cannot read {file.path}: {error}", hint="is it a whole Parquet file?") from error


def _drop(index: Folder, needed: set[str | None]) -> int:
    """Remove index files that are not needed, old drafts and, if none is needed, synopses."""
    held = index.inside("index").files()
    gone = [name for name in held if name.endswith(".cix") and f"index/{name}" not in needed]
    day_ago = time.time_ns() // 1_000_000 - DAY
    drafts = [name for name in held if name.endswith(DRAFT) and milliseconds(held[name]) < day_ago]
    old = [f"index/{name}" for name in (*gone, *drafts)]
    old += [f"{FOLDER}/{name}" for name in ([] if needed else list_synopses(index))]
    with attempt(f"remove old index files in {index.root}", "some of them are left, and are not used"):
        for name in old:
            index.remove(name)
    return len(gone)
