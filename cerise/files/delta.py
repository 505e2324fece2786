"""Delta tables without Spark: versions, their files, and their rows without the deleted ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from cerise.errors import StoreError
from cerise.files import delta_log as log
from cerise.files.checksums import CheckedFile, Expected, read_tail
from cerise.files.delta_log import LOG
from cerise.kinds import canonical, kind_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

# The reader features that Cerise understands; any other one changes the meaning of data files.
DELETIONS = "deletionVectors"
KNOWN_FEATURES = frozenset({"timestampNtz", DELETIONS})


PARQUET = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class UnknownFeature(StoreError):
    """A Delta table with a reader feature that changes the meaning of its data files."""


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A data file of a version, as the log, or the file system, describes it.

    Attributes:
        path: its path in the table.
        size: how many bytes it has.
        modified: when it was written, in milliseconds since 1970.
        values: the values of the partition columns in it.
        kept: a mask of the rows that are not deleted; None: all.
        counted: how many rows it has; None: the log does not say.
        first, last: the times of its first and last event; None: not asked for, or not in the log.
        index: the name of its index file; None: it has no index.
        ours: whether Cerise has written it.
    """

    path: str
    size: int
    modified: int
    values: dict[str, Any]
    kept: pa.BooleanArray | None = None
    counted: int | None = None
    first: int | None = None
    last: int | None = None
    index: str | None = None
    ours: bool = False

    @property
    def rows(self) -> int:
        """How many rows it has, deleted ones included; 0 if the log does not say."""
        return self.counted or 0

    @property
    def deleted(self) -> int:
        return 0 if self.kept is None else int(self.kept.false_count)

    @property
    def expected(self) -> Expected:
        return Expected(self.size, self.path if self.ours else None)


class Version(NamedTuple):
    """A version of a Delta table: its number, its files and its columns."""

    number: int
    files: list[LoggedFile]
    columns: pa.Schema


def live_files(path: Path, version: int | None = None) -> Version:
    """Return a version of a local Delta table, with its files sorted by name and their paths absolute.

    Raises:
        UnknownFeature: the table has a reader feature that Cerise does not know.
        StoreError: the table or version does not exist, or its deletion vectors cannot be read.
    """
    held = version_of(path, version)
    files = [replace(each, path=str(path.absolute() / each.path)) for each in held.files]
    return held._replace(files=sorted(files, key=lambda each: Path(each.path).name))


def version_of(root: str | Path, version: int | None = None, time: str | None = None) -> Version:
    """Return a version of a Delta table; the newest by default.

    Args:
        root: the path or URI of the table.
        version: which version.
        time: the column whose least and greatest values become `first` and `last` of the files.

    Raises:
        UnknownFeature: the table has a reader feature that Cerise does not know.
        StoreError: the table or version does not exist, or its deletion vectors cannot be read.
    """
    table = open_table(root, version)
    reject_unknown_features(table, root)
    columns = pa.schema(table.schema().to_arrow())
    actions = pa.table(table.get_add_actions(flatten=True))
    kept = read_kept_rows(table, root)
    parted = table.metadata().partition_columns
    base = base_of(root)
    firsts, lasts = (_moments(actions, f"{end}.{time}", columns, time) for end in ("min", "max"))
    files = []
    for row, first, last in zip(actions.to_pylist(), firsts, lasts, strict=True):
        path = unquote(row["path"])
        values = {name: row[f"partition.{name}"] for name in parted}
        left = kept.pop(f"{base}/{path}", None)
        size, modified, rows = row["size_bytes"], row["modification_time"], row.get("num_records")
        files.append(LoggedFile(path, size, modified, values, left, rows, first, last))
    if kept:
        raise StoreError(
            f"the Delta table {root} deletes rows of {next(iter(kept))}, which is not one of its files"
        )
    return Version(table.version(), files, columns)


def _moments(actions: pa.Table, name: str, columns: pa.Schema, time: str | None) -> list[int | None]:
    """Return the first or last time of each file, in the form of `events.read_times`."""
    if time is None or name not in actions.column_names:
        return [None] * len(actions)
    found: list[int | None] = canonical(
        actions.column(name), kind_of(columns.field(time).type), time
    ).to_pylist()
    return found


def base_of(root: str | Path) -> str:
    """Return the path of a table as deletion vectors write it."""
    return urlsplit(str(root)).path.rstrip("/") if "://" in str(root) else str(Path(root).resolve())


def read_kept_rows(table: DeltaTable, path: str | Path) -> dict[str, pa.BooleanArray]:
    """Return the masks of rows that are not deleted, by path, for the files with a deletion vector."""
    from deltalake.exceptions import DeltaError

    if DELETIONS not in (table.protocol().reader_features or ()):
        return {}
    try:
        found = pa.table(table.deletion_vectors())
    except (DeltaError, OSError) as error:
        raise StoreError(
            f"cannot tell which rows of the Delta table {path} are deleted: {str(error).splitlines()[0]}",
            hint="was it vacuumed? RESTORE it, or give an older version=",
        ) from error
    uris, masks = found.column("filepath").to_pylist(), found.column("selection_vector")
    # Copy each mask: a slice of the column would be pickled with the whole column.
    return {
        unquote(urlsplit(uri).path): pa.array(mask.values.to_numpy(zero_copy_only=False))
        for uri, mask in zip(uris, masks, strict=True)
    }


def pad_kept(kept: pa.BooleanArray, rows: int, path: str) -> pa.BooleanArray:
    """Extend a mask of kept rows to all rows of a file; a deletion vector may end before the file does.

    Raises:
        StoreError: the mask is longer than the file.
    """
    if len(kept) > rows:
        raise StoreError(
            f"the deletion vector of {path} is about {len(kept):,} rows, and the file has {rows:,}",
            hint="was the file replaced? Its table says otherwise",
        )
    return kept if len(kept) == rows else pa.concat_arrays([kept, pa.repeat(True, rows - len(kept))])


def is_table(path: Path) -> bool:
    """Tell whether a path is a Delta table."""
    return (path / LOG).is_dir()


def columns(path: str | Path) -> pa.Schema:
    """Return the columns of a Delta table, even of one with unknown features."""
    return pa.schema(open_table(path, None).schema().to_arrow())


def read(path: Path, version: int | None = None) -> pa.Table:
    """Return the events of a Delta table in arrival order: file name, then row (S1.2).

    Args:
        path: the directory of the table.
        version: which version; the newest by default.

    Raises:
        StoreError: the table or version does not exist, it has a reader feature that Cerise does not know, or
            one of its files cannot be read.
    """
    held = live_files(path, version)
    try:
        found = [_rows(file, held.columns) for file in held.files]
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"cannot read a file of {path}: {error}", hint="was it vacuumed?") from error
    return pa.concat_tables([held.columns.empty_table(), *found])


def _rows(file: LoggedFile, columns: pa.Schema) -> pa.Table:
    """Return the rows of a file that are not deleted, with the columns of the table."""
    inside = pa.schema([field for field in columns if field.name not in file.values])
    with fs.LocalFileSystem().open_input_file(file.path) as source:
        tail = read_tail(source, file.path, file.expected)
        checked = source if tail.sums is None else pa.PythonFile(CheckedFile(source, file.path, tail))
        table = PARQUET.make_fragment(checked).to_table(schema=inside)
    if file.kept is not None:
        table = table.filter(pad_kept(file.kept, len(table), file.path))
    given = {
        name: pa.repeat(pa.scalar(value, columns.field(name).type), len(table))
        for name, value in file.values.items()
    }
    return pa.table([given[name] if name in given else table[name] for name in columns.names], schema=columns)


def open_table(path: str | Path, version: int | None) -> DeltaTable:
    """Open a Delta table at a version; the newest by default.

    Raises:
        StoreError: the table or version does not exist, or its log is damaged.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if version is not None and not (type(version) is int and 0 <= version < 1 << 63):
        raise StoreError(
            f"{version!r} is not a version of {path}", hint="versions are whole numbers; 0 is the first"
        )
    log.check_place(str(path))
    log.check(str(path), version)
    try:
        return DeltaTable(path, version=version)
    except (DeltaError, OSError, ValueError) as error:
        at = "" if version is None else f" at version {version}"
        raise StoreError(
            f"cannot open the Delta table {path}{at}: {first_line(error)}",
            hint=f"does {path}/{LOG} hold its log, and that version?",
        ) from error


def reject_unknown_features(table: DeltaTable, path: str | Path) -> None:
    """Refuse column mapping and all later features: ignoring them would give wrong events."""
    protocol = table.protocol()
    unknown = sorted(set(protocol.reader_features or ()) - KNOWN_FEATURES)
    if protocol.min_reader_version == 2:  # the version that brought column mapping, before features had names
        unknown = ["columnMapping"]
    if unknown or protocol.min_reader_version > 3:
        what = (
            f"reader features {', '.join(unknown)}"
            if unknown
            else f"reader version {protocol.min_reader_version}"
        )
        raise UnknownFeature(
            f"the Delta table {path} needs {what}, which Cerise does not read by itself",
            hint="read it through Spark: cerise.find(spark.read.format('delta').load(path), …)",
        )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
