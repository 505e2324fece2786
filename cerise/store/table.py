"""Delta tables: a version of one as Arrow, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from cerise.errors import StoreError

if TYPE_CHECKING:
    from deltalake import DeltaTable

# What a reader must understand of a table, and we do; any other feature changes what its files mean.
KNOWN_FEATURES = frozenset({"timestampNtz"})
LOG = "_delta_log"


class UnknownFeature(StoreError):
    """A table whose files mean something else than they say."""


class Live(NamedTuple):
    """The files of a version: path and values of the partition columns, by file name; and the columns."""

    files: list[tuple[str, dict[str, Any]]]
    columns: pa.Schema


def live_files(path: Path, version: int | None = None) -> Live:
    """Return the files of a version of a Delta table, without reading them.

    Raises:
        UnknownFeature: they cannot be read without knowing more.
        StoreError: there is no such table or version.
    """
    table = _opened(path, version)
    _reject_unknown_features(table, path)
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = pa.schema(table.schema().to_arrow())
    parted = table.metadata().partition_columns
    files = []
    for row in actions.select(["path", *(f"partition.{name}" for name in parted)]).to_pylist():
        values = {name: row[f"partition.{name}"] for name in parted}
        files.append((str(path.absolute() / unquote(row["path"])), values))
    return Live(sorted(files, key=lambda each: Path(each[0]).name), columns)


def is_table(path: Path) -> bool:
    """Tell whether a path is a Delta table."""
    return (path / LOG).is_dir()


def read(path: Path, version: int | None = None) -> pa.Table:
    """Return the events of a Delta table in arrival order: file name, then row (S1.2).

    Args:
        path: the directory of the table.
        version: which version; the newest by default.

    Raises:
        StoreError: there is no such table or version, it needs a reader feature that we do not know, or a
            file of it cannot be read.
    """
    table = _opened(path, version)
    _reject_unknown_features(table, path)
    try:
        events = table.to_pyarrow_dataset()
        fragments = sorted(events.get_fragments(), key=lambda each: Path(each.path).name)
        return pa.concat_tables(
            [events.schema.empty_table(), *(each.to_table(schema=events.schema) for each in fragments)]
        )
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"cannot read a file of {path}: {error}", hint="was it vacuumed?") from error


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
    """Refuse deletion vectors, column mapping and whatever comes: reading past them gives wrong events."""
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
