"""Delta tables without Spark: a version, its files and the rows that are not deleted; commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from time import sleep, time_ns
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from cerise.errors import StoreError
from cerise.kinds import canonical, kind_of
from cerise.store.writing.faults import reached
from cerise.store.writing.places import Folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

# What a reader must understand of a table, and we do; any other feature changes what its files mean.
DELETIONS = "deletionVectors"
KNOWN_FEATURES = frozenset({"timestampNtz", DELETIONS})
LOG = "_delta_log"
# How often the log is summed up: deltalake's 100 commits make opening a table of small appends slow.
CONFIGURATION = {"delta.checkpointInterval": "10"}


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
    held = version_of(path, version)
    files = [LiveFile(str(path.absolute() / each.path), each.values, each.kept) for each in held.files]
    return Live(sorted(files, key=lambda each: Path(each.path).name), held.columns)


class HeldFile(NamedTuple):
    """A file of a version, as the log describes it.

    Attributes:
        path: where it is in the table.
        size: how many bytes it has.
        modified: when it was written, in milliseconds since 1970.
        values: what the partition columns are in it.
        kept: which of its rows are not deleted; None: all.
        rows: how many rows it has, where the log says so.
        first, last: the times of its first and last event, where they were asked for and the log has them.
    """

    path: str
    size: int
    modified: int
    values: dict[str, Any]
    kept: pa.BooleanArray | None = None
    rows: int | None = None
    first: int | None = None
    last: int | None = None


class Version(NamedTuple):
    """A version of a Delta table: its number, its files and its columns."""

    number: int
    files: list[HeldFile]
    columns: pa.Schema


def version_of(root: str | Path, version: int | None = None, time: str | None = None) -> Version:
    """Return a version of a Delta table; the newest by default.

    Args:
        root: where the table is.
        version: which version.
        time: the column whose least and greatest values are asked for.

    Raises:
        UnknownFeature: its files cannot be read without knowing more.
        StoreError: there is no such table or version, or which rows are deleted cannot be read.
    """
    table = _opened(root, version)
    _reject_unknown_features(table, root)
    columns = pa.schema(table.schema().to_arrow())
    actions = pa.table(table.get_add_actions(flatten=True))
    kept = _kept_rows(table, root)
    parted = table.metadata().partition_columns
    base = _base(root)
    firsts, lasts = (_moments(actions, f"{end}.{time}", columns, time) for end in ("min", "max"))
    files = []
    for row, first, last in zip(actions.to_pylist(), firsts, lasts, strict=True):
        path = unquote(row["path"])
        values = {name: row[f"partition.{name}"] for name in parted}
        left = kept.pop(f"{base}/{path}", None)
        size, modified, rows = row["size_bytes"], row["modification_time"], row.get("num_records")
        files.append(HeldFile(path, size, modified, values, left, rows, first, last))
    if kept:
        raise StoreError(f"the Delta table {root} deletes rows of {next(iter(kept))}, which is no file of it")
    return Version(table.version(), files, columns)


def _moments(actions: pa.Table, name: str, columns: pa.Schema, time: str | None) -> list[int | None]:
    """Return one end of the time of each file, in the form of `events.read_times`."""
    if time is None or name not in actions.column_names:
        return [None] * len(actions)
    found: list[int | None] = canonical(
        actions.column(name), kind_of(columns.field(time).type), time
    ).to_pylist()
    return found


def _base(root: str | Path) -> str:
    """Return the path by which deletion vectors know a table."""
    return urlsplit(str(root)).path.rstrip("/") if "://" in str(root) else str(Path(root).resolve())


def _kept_rows(table: DeltaTable, path: str | Path) -> dict[str, pa.BooleanArray]:
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


def columns(path: str | Path) -> pa.Schema:
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


def _opened(path: str | Path, version: int | None) -> DeltaTable:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(path, version=version)
    except (DeltaError, OSError, ValueError) as error:
        at = "" if version is None else f" at version {version}"
        raise StoreError(
            f"cannot open the Delta table {path}{at}: {str(error).strip().splitlines()[0]}",
            hint=f"does {path}/{LOG} hold its log, and that version?",
        ) from error


def _reject_unknown_features(table: DeltaTable, path: str | Path) -> None:
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


# ---- writing


class NewFile(NamedTuple):
    """A file that a commit adds.

    Attributes:
        path: where it is in the table.
        size: how many bytes it has.
        modified: when it was written, in milliseconds since 1970.
        statistics: what Delta's log says of its columns, as JSON.
        fresh: whether its events are new; else they are those of the files that the commit removes.
    """

    path: str
    size: int
    modified: int
    statistics: str
    fresh: bool = True


class Change(NamedTuple):
    """What a commit does."""

    add: Sequence[NewFile]
    remove: Sequence[HeldFile] = ()


class Overtaken(StoreError):
    """Another commit has removed a file that this one was to remove; nothing was committed."""


class NotCommitted(StoreError):
    """Nothing was committed, and nothing of the commit will appear later."""


def create(root: str, columns: pa.Schema) -> None:
    """Make a Delta table without rows.

    Raises:
        StoreError: there is one already, or it cannot be written.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        DeltaTable.create(root, columns, mode="error", configuration=CONFIGURATION)
    except (DeltaError, OSError) as error:
        raise StoreError(
            f"cannot create a table at {root}: {_first_line(error)}",
            hint="give the path of a folder of its own",
        ) from error


def commit(root: str, change: Change, waits: Iterable[float]) -> int:
    """Commit files as one version, whatever others commit meanwhile.

    deltalake itself would accept files that are missing, and remove files that are not there: so it may not
    try again by itself, and each try of ours looks at the newest version first.

    Args:
        root: where the table is.
        change: the files to add and to remove.
        waits: how many seconds to wait before each further try.

    Returns:
        A version in which the change is there.

    Raises:
        Overtaken: a file to remove is no longer there.
        NotCommitted: a file to add is missing or of another size, or others were always quicker.
        StoreError: the log cannot be written.
    """
    tries = 0
    for wait in (0.0, *waits):
        sleep(wait)
        tries += 1
        table = _opened(root, None)
        _check_change(root, change, table)
        reached("about to commit")
        if _is_committed(root, change, table):
            reached("committed")
            return table.version() + 1
    raise NotCommitted(
        f"others have committed to {root} before each of {tries} tries",
        hint="try again when fewer are writing",
    )


def _live(table: DeltaTable) -> set[str]:
    return set(pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist())


def _check_change(root: str, change: Change, table: DeltaTable) -> None:
    live = _live(table)
    deleted = _kept_rows(table, root) if change.remove else {}
    for old in change.remove:
        if old.path not in live:
            raise Overtaken(f"{old.path} is no longer a file of {root}", hint="look at the table again")
        if f"{_base(root)}/{old.path}" in deleted:  # deltalake cannot remove it, and its rows would come back
            raise Overtaken(f"rows of {old.path} in {root} were deleted", hint="look at the table again")
    sizes = Folder.of(root).sizes([new.path for new in change.add])
    for new, size in zip(change.add, sizes, strict=True):
        if new.path in live:
            raise NotCommitted(f"{new.path} is a file of {root} already", hint="write it under another name")
        if size != new.size:
            found = "is missing" if size is None else f"has {size:,} bytes instead of {new.size:,}"
            raise NotCommitted(
                f"{new.path} {found}, so it cannot become a file of {root}",
                hint="who has touched it? Write the events again",
            )


def _is_committed(root: str, change: Change, table: DeltaTable) -> bool:
    """Write the version after the one that was opened; tell whether it is ours: another may be quicker."""
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, CommitProperties, RemoveAction

    now = time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        AddAction(new.path, new.size, {}, new.modified, new.fresh, new.statistics) for new in change.add
    ]
    actions += [RemoveAction(old.path, False, now, old.size, {}) for old in change.remove]
    try:
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=CommitProperties(max_commit_retries=0)
        )
    except (DeltaError, OSError) as error:
        newest = _opened(root, None)
        if newest.version() == table.version():
            raise StoreError(
                f"cannot commit to {root}: {_first_line(error)}",
                hint="can its log be written, and by this version?",
            ) from error
        return bool(change.add) and {new.path for new in change.add} <= _live(newest)  # names are used once
    return True


def unused_files(root: str, hours: int) -> list[str]:
    """Return the files that no version has needed for some hours, or that are as old and in none."""
    return list(_opened(root, None).vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
