"""Commits files to Delta tables as one version, without Spark and despite concurrent commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import sleep, time_ns
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from cerise.errors import StoreError
from cerise.files import delta_log as log
from cerise.files.delta import LoggedFile, base_of, open_table, read_kept_rows
from cerise.files.delta_log import LOG
from cerise.files.folder import Folder, cause_of
from cerise.store.table.data_file import Written
from cerise.store.table.failpoints import mark_step

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Commits between checkpoints: with deltalake's 100, opening a table of small appends is slow.
CONFIGURATION = {"delta.checkpointInterval": "10"}


class StreamBatch(NamedTuple):
    """A batch of a stream; a table holds its events once.

    Attributes:
        app: the name of the stream, unique and the same after a restart: the id of the streaming query.
        number: the number of the batch.
    """

    app: str
    number: int

    def is_in(self, table: DeltaTable) -> bool:
        """Tell whether a version of a table has this batch, or a later one."""
        newest = table.transaction_version(self.app)
        return newest is not None and newest >= self.number


class Change(NamedTuple):
    """The files that a commit adds and removes, and the batch of a stream that they are."""

    add: Sequence[Written]
    remove: Sequence[LoggedFile] = ()
    batch: StreamBatch | None = None


class Overtaken(StoreError):
    """Another commit has removed a file that this one was to remove; nothing was committed."""


class NotCommitted(StoreError):
    """Nothing was committed, and nothing of the commit will appear later."""


class BatchKnown(NotCommitted):
    """The table has the batch of the stream already."""


class Crowded(NotCommitted):
    """Other commits came first at every try."""


def create(root: str, columns: pa.Schema) -> None:
    """Create an empty Delta table.

    Raises:
        StoreError: the table exists already, or cannot be written.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        DeltaTable.create(root, columns, mode="error", configuration=CONFIGURATION)
        log.settle(root, 0)
    except (DeltaError, OSError) as error:
        raise StoreError(
            f"cannot create a table at {root}: {cause_of(error)}",
            hint="give the path of a new folder that can be written",
        ) from error


def commit(root: str, change: Change, waits: Iterable[float]) -> int:
    """Commit files as one version, despite concurrent commits.

    deltalake adds files that are missing, and removes files that have left the table. So its own
    retries are off, and each try here checks the newest version first.

    Args:
        root: the path or URI of the table.
        change: the files to add and to remove.
        waits: how many seconds to wait before each further try.

    Returns:
        A version that has the change.

    Raises:
        Overtaken: a file to remove has left the table.
        BatchKnown: the table has the batch of the stream already.
        NotCommitted: a file to add is missing or of another size, or other commits came first at every try.
        StoreError: the log cannot be written.
    """
    tries = 0
    for wait in (0.0, *waits):
        sleep(wait)
        tries += 1
        table = open_table(root, None)
        _check_change(root, change, table)
        mark_step("about to commit")
        if _is_committed(root, change, table):
            mark_step("entry written")
            _settle(root, table.version() + 1)
            mark_step("committed")
            return table.version() + 1
    raise Crowded(
        f"others have committed to {root} before each of {tries} tries",
        hint="try again when fewer are writing",
    )


def _settle(root: str, version: int) -> None:
    try:
        log.settle(root, version)
    except OSError as error:
        raise StoreError(
            f"version {version} of {root} is committed, but may be lost if the power is cut now: {error}",
            hint="is the disk sound?",
        ) from error


def _live(table: DeltaTable) -> set[str]:
    return set(pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist())


def _check_change(root: str, change: Change, table: DeltaTable) -> None:
    if change.batch is not None and change.batch.is_in(table):
        raise BatchKnown(f"{root} has batch {change.batch.number} of {change.batch.app} already")
    live = _live(table)
    deleted = read_kept_rows(table, root) if change.remove else {}
    for old in change.remove:
        if old.path not in live:
            raise Overtaken(f"{old.path} is no longer a file of {root}", hint="look at the table again")
        # deltalake cannot remove a file with deleted rows: the rows would come back.
        if f"{base_of(root)}/{old.path}" in deleted:
            raise Overtaken(f"rows of {old.path} in {root} were deleted", hint="look at the table again")
    sizes = Folder.of(root).sizes([each.path for each in change.add])
    for each, size in zip(change.add, sizes, strict=True):
        if each.path in live:
            raise NotCommitted(f"{each.path} is a file of {root} already", hint="write it under another name")
        if size != each.size:
            found = "is missing" if size is None else f"has {size:,} bytes instead of {each.size:,}"
            raise NotCommitted(
                f"{each.path} {found}, so it cannot become a file of {root}",
                hint="who has touched it? Write the events again",
            )


def _is_committed(root: str, change: Change, table: DeltaTable) -> bool:
    """Try to write the next version; return False if another commit came first."""
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

    now = time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        AddAction(each.path, each.size, {}, each.modified, each.new, each.statistics) for each in change.add
    ]
    actions += [RemoveAction(old.path, False, now, old.size, {}) for old in change.remove]
    signed = {log.SIGNED: _signature(change)}
    batches = [] if change.batch is None else [Transaction(*change.batch, now)]
    how = CommitProperties(max_commit_retries=0, custom_metadata=signed, app_transactions=batches)
    try:
        table.create_write_transaction(actions, "append", table.schema(), commit_properties=how)
    except (DeltaError, OSError) as error:
        newest = open_table(root, None)
        if newest.version() == table.version():
            raise _commit_error(root, error) from error
        return bool(change.add) and {each.path for each in change.add} <= _live(
            newest
        )  # file names are unique
    return True


def _commit_error(root: str, error: Exception) -> StoreError:
    """Return the error for a log that cannot be written; in an object store the entry may still appear."""
    kind, state = (StoreError, "") if "://" in root else (NotCommitted, "; the table is as it was")
    return kind(
        f"cannot commit to {root}: {cause_of(error)}{state}",
        hint=f"is there room, and may {root}/{LOG} be written?",
    )


def _signature(change: Change) -> str:
    adds = ((each.path, each.size, each.modified, each.new, each.statistics) for each in change.add)
    removes = ({"remove": {"path": old.path, "size": old.size}} for old in change.remove)
    batches = [] if change.batch is None else [dict(zip(log.CHECKED["txn"], change.batch, strict=True))]
    return log.signature([
        *({"add": dict(zip(log.ADDED, each, strict=True))} for each in adds),
        *removes,
        *({"txn": each} for each in batches),
    ])  # fmt: skip


def find_obsolete_files(root: str, hours: int) -> list[str]:
    """Return the files that left the table at least this many hours ago, or are as old and in no version.

    Raises:
        StoreError: the log is damaged, so that the files of the table are unknown.
    """
    for fault in log.faults(root):
        raise StoreError(
            f"the log of {root} is not sound: {fault.name} {fault.what}; nothing is removed",
            hint="restore the entry from a copy first",
        )
    return list(
        open_table(root, None).vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
    )
