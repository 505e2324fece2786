"""Delta tables: a version of one, its files and the rows of them that are not deleted, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from cerise.errors import StoreError

if TYPE_CHECKING:
    from deltalake import DeltaTable

# What a reader must understand of a table, and we do; any other feature changes what its files mean.
DELETIONS = "deletionVectors"
KNOWN_FEATURES = frozenset({"timestampNtz", DELETIONS})
LOG = "_delta_log"


class UnknownFeature(StoreError):
    """A table whose files mean something else than they say."""


class LiveFile(NamedTuple):
    """A file of a version.

    Attributes:
        path: where it is.
        values: what the partition columns are in it.
        kept: which of its rows are not deleted; None: all.
    """

    path: str
    values: dict[str, Any]
    kept: pa.BooleanArray | None = None


class Live(NamedTuple):
    """The files of a version, by file name, and the columns."""

    files: list[LiveFile]
    columns: pa.Schema


def live_files(path: Path, version: int | None = None) -> Live:
    """Return the files of a version of a Delta table, without reading them.

    Raises:
        UnknownFeature: they cannot be read without knowing more.
        StoreError: there is no such table or version, or which rows are deleted cannot be read.
    """
    table = _opened(path, version)
    _reject_unknown_features(table, path)
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = pa.schema(table.schema().to_arrow())
    parted = table.metadata().partition_columns
    kept = _kept_rows(table, path)
    files = []
    for row in actions.select(["path", *(f"partition.{name}" for name in parted)]).to_pylist():
        values = {name: row[f"partition.{name}"] for name in parted}
        inside = unquote(row["path"])
        left = kept.pop(str(path.resolve() / inside), None)
        files.append(LiveFile(str(path.absolute() / inside), values, left))
    if kept:
        raise StoreError(f"the Delta table {path} deletes rows of {next(iter(kept))}, which is no file of it")
    return Live(sorted(files, key=lambda each: Path(each.path).name), columns)


def _kept_rows(table: DeltaTable, path: Path) -> dict[str, pa.BooleanArray]:
    """Return of each file that has a deletion vector which rows are left."""
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
    # Each mask as a copy of its own: a slice of the column would be pickled with all of it.
    return {
        unquote(urlsplit(uri).path): pa.array(mask.values.to_numpy(zero_copy_only=False))
        for uri, mask in zip(uris, masks, strict=True)
    }


def fitted(kept: pa.BooleanArray, rows: int, path: str) -> pa.BooleanArray:
    """Return which rows of a file are left; a deletion vector may end before the file does.

    Raises:
        StoreError: it is about more rows than there are.
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


def columns(path: Path) -> pa.Schema:
    """Return the columns of a Delta table, whatever features it has."""
    return pa.schema(_opened(path, None).schema().to_arrow())


def read(path: Path, version: int | None = None) -> pa.Table:
    """Return the events of a Delta table in arrival order: file name, then row (S1.2).

    Args:
        path: the directory of the table.
        version: which version; the newest by default.

    Raises:
        StoreError: there is no such table or version, it needs a reader feature that we do not know, or a
            file of it cannot be read.
    """
    held = live_files(path, version)
    try:
        found = [_rows(file, held.columns) for file in held.files]
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"cannot read a file of {path}: {error}", hint="was it vacuumed?") from error
    return pa.concat_tables([held.columns.empty_table(), *found])


def _rows(file: LiveFile, columns: pa.Schema) -> pa.Table:
    """Return the rows of a file that are not deleted, with the columns of the table."""
    inside = pa.schema([field for field in columns if field.name not in file.values])
    table = ds.dataset(file.path, schema=inside, format="parquet", filesystem=fs.LocalFileSystem()).to_table()
    if file.kept is not None:
        table = table.filter(fitted(file.kept, len(table), file.path))
    given = {
        name: pa.repeat(pa.scalar(value, columns.field(name).type), len(table))
        for name, value in file.values.items()
    }
    return pa.table([given[name] if name in given else table[name] for name in columns.names], schema=columns)


def _opened(path: Path, version: int | None) -> DeltaTable:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(path, version=version)
    except (DeltaError, OSError, ValueError) as error:
        at = "" if version is None else f" at version {version}"
        raise StoreError(
            f"cannot open the Delta table {path}{at}: {str(error).strip().splitlines()[0]}",
            hint=f"does {path / LOG} hold its log, and that version?",
        ) from error


def _reject_unknown_features(table: DeltaTable, path: Path) -> None:
    """Refuse column mapping and whatever comes: reading past them gives wrong events."""
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
