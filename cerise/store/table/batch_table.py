"""A table that takes the batches of streams, each exactly once: a Delta table, or an event table.

A batch is committed together with its number, so a batch that comes again is recognised (StreamBatch).
Before its files are written, the number of their append is noted in `_cerise/into/`. Once the batch is in the
table, files of earlier attempts at it can never be committed, and are removed.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import xxhash

from cerise.errors import DataError, StoreError, UnsupportedError
from cerise.files import delta
from cerise.files import delta_log as log
from cerise.files.folder import Folder, attempt
from cerise.store.table import commits, settings
from cerise.store.table.appending import append_number, patience, seal
from cerise.store.table.column_types import cast_columns, check, to_delta_columns
from cerise.store.table.commits import BatchKnown, Change, NotCommitted, Overtaken, StreamBatch
from cerise.store.table.data_file import (
    NAME,
    NOISE,
    AppendPart,
    Writing,
    Written,
    data_name,
    discard,
    newest_append,
    next_append,
    row_groups,
    write_data,
    write_piece,
)
from cerise.store.table.event_table import EventTable
from cerise.store.table.failpoints import mark_step
from cerise.store.table.settings import SEQUENCE_FIELD, index_name
from cerise.store.table.snapshot import own_snapshot

if TYPE_CHECKING:
    from deltalake import DeltaTable

NOTES = f"{settings.FOLDER}/into"
GROUP_ROWS = 131_072
POOL_FILES = 256  # fresh files of a store, at most, before they are sealed
WRITTEN_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz", delta.DELETIONS})


class Begun(NamedTuple):
    """A batch about to be written: the number of its append, and earlier appends that came to nothing."""

    append: int
    failed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BatchTable:
    """A table that takes the batches of streams.

    Attributes:
        root: its path or URI.
        columns: its columns.
        store: where and how to write, if it is an event table; None: a plain Delta table.
    """

    root: str
    columns: pa.Schema
    store: Writing | None = None

    @classmethod
    def open(cls, root: str, index: str | None, schema: pa.Schema) -> BatchTable:
        """Open a table for events of a schema; create a Delta table if there is none.

        Raises:
            StoreError: the columns differ, or something else is at that path.
            UnsupportedError: the table wants more of its writers than Cerise does.
        """
        folder = Folder.of(root)
        if index is not None or folder.inside(settings.FOLDER).holds(settings.FILE):
            table = EventTable.open(root, index)
            table.require_own("append to it")
            check(schema, table.columns)
            return cls(table.writing.root, table.columns, table.writing)
        if not folder.inside(log.LOG).names():
            _create(folder, schema)
        columns = _writable(folder.root)
        check(schema, columns)
        return cls(folder.root, columns)

    # ---- one batch

    def holds(self, batch: StreamBatch) -> bool:
        """Tell whether the table has a batch, or a later one of its stream."""
        return batch.is_in(delta.open_table(self.root, None))

    def newest(self, app: str) -> int | None:
        """Return the number of the newest batch of a stream in the table; None: it has none."""
        found: int | None = delta.open_table(self.root, None).transaction_version(app)
        return found

    def begin(self, batch: StreamBatch) -> Begun:
        """Note the number of the append that will write a batch."""
        table = delta.open_table(self.root, None)
        failed = _list_leftovers(self._notes, batch, table)
        number = next_append(newest_append(_live(table)), secrets.randbits(NOISE))
        self._note(batch, (*failed, number))
        mark_step("append noted")
        return Begun(number, failed)

    def write(self, table: pa.Table, part: AppendPart) -> Written:
        """Write a piece of a batch as one file.

        Raises:
            DataError: a value does not fit.
        """
        if self.store is not None:
            return write_piece(table, self.store, part, fresh=len(table) < self.store.settings.pool_rows)
        events = cast_columns(table, self.columns)
        _reject_nulls(events, self.columns)
        name = data_name(part.append, part.number, made=part.attempt)
        groups = row_groups(events, GROUP_ROWS)
        try:
            with attempt(f"write {name} in {self.root}", "nothing of it is in the table"):
                return write_data(groups, self.root, self.columns, name)
        except BaseException:
            Folder.of(self.root).tidy(name)
            raise

    def commit(self, written: Sequence[Written], batch: StreamBatch, begun: Begun) -> bool:
        """Commit the files of a batch, and remove those of earlier attempts.

        Returns:
            Whether this call has committed it; False: another attempt was faster.

        Raises:
            NotCommitted: nothing was committed.
        """
        mine = False
        if written:
            try:
                commits.commit(self.root, Change(written, batch=batch), self._waits())
                mine = True
            except BatchKnown:
                self._discard(written)
            except NotCommitted:
                self._discard(written)
                raise
        mark_step("batch committed")
        if begun.failed and (mine or self.holds(batch)):
            self._remove(begun.failed)
            self._note(batch, (begun.append,))
        return mine

    def tidy_up(self, batch: StreamBatch) -> None:
        """Remove the files of attempts at a batch that the table has."""
        table = delta.open_table(self.root, None)
        if failed := _list_leftovers(self._notes, batch, table):
            self._remove(failed)
            self._note(batch, ())

    def seal_if_due(self) -> None:
        """Seal the fresh files of a store, if they are many; if another writer does so, leave it to that."""
        if self.store is None:
            return
        now = own_snapshot(self.store)
        pool = [each for each in now.fresh if each.kept is None]
        few = sum(each.rows for each in pool) < self.store.settings.pool_rows and len(pool) < POOL_FILES
        if few:
            return
        sealed = seal(pool, self.store, append_number(now))
        try:
            commits.commit(self.root, Change([sealed], pool), self._waits())
        except (Overtaken, NotCommitted):
            discard([sealed], self.store)

    # ---- notes, and files that came to nothing

    @property
    def _notes(self) -> Folder:
        return Folder.of(self.root).inside(NOTES)

    def _note(self, batch: StreamBatch, appends: Iterable[int]) -> None:
        text = json.dumps({"app": batch.app, "batch": batch.number, "appends": list(appends)})
        with attempt(f"write to {self._notes.root}", "nothing was written"):
            self._notes.write(_note_name(batch.app), text.encode())

    def _discard(self, written: Iterable[Written]) -> None:
        for each in written:
            self._remove_file(each.path)

    def _remove(self, appends: Sequence[int]) -> None:
        """Remove the files of appends that are not in the table."""
        folder = Folder.of(self.root)
        live = set(_live(delta.open_table(self.root, None)))
        for name in folder.files():
            found = NAME.match(name)
            if found is not None and int(found["append"], 16) in appends and name not in live:
                self._remove_file(name)
        mark_step("leftovers removed")

    def _remove_file(self, name: str) -> None:
        Folder.of(self.root).tidy(name)
        if self.store is not None:
            Folder.of(self.store.index_root).tidy(index_name(name))

    def _waits(self) -> list[float]:
        return patience(random.Random(secrets.randbits(32)))


def _live(table: DeltaTable) -> list[str]:
    found: list[str] = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
    return found


def _note_name(app: str) -> str:
    return f"{xxhash.xxh64_hexdigest(app.encode())}.json"


def _list_leftovers(notes: Folder, batch: StreamBatch, table: DeltaTable) -> tuple[int, ...]:
    """Return the appends of a stream that may have left files behind.

    If the table has the batch, the last append that was noted is the one that committed it.
    """
    name = _note_name(batch.app)
    if not notes.holds(name):
        return ()
    try:
        held: dict[str, Any] = json.loads(notes.read(name))
        noted = StreamBatch(batch.app, int(held["batch"]))
        appends = tuple(map(int, held["appends"]))
    except (ValueError, KeyError, TypeError):
        return ()  # a note only helps to tidy up, which vacuum does as well
    return appends[:-1] if noted.is_in(table) else appends


# ---- plain Delta tables


def _create(folder: Folder, schema: pa.Schema) -> None:
    """Create a Delta table; another writer may be faster."""
    log.check_place(folder.root)
    columns = pa.schema([each for each in to_delta_columns(schema) if each.name != SEQUENCE_FIELD.name])
    taken = [folder.name] if folder.is_file else [n for n in folder.names() if n != settings.FOLDER]
    if taken and not folder.inside(log.LOG).names():
        raise StoreError(
            f"there is something at {folder.root} already, and it is not a Delta table: {taken[0]}",
            hint="give a path of its own, a Delta table or a Store",
        )
    try:
        commits.create(folder.root, columns)
    except StoreError:
        if not folder.inside(log.LOG).names():
            raise


def _writable(root: str) -> pa.Schema:
    """Return the columns of a Delta table, if Cerise can append to it."""
    table = delta.open_table(root, None)
    delta.reject_unknown_features(table, root)
    schema = table.schema()
    wants = [f"is partitioned by {', '.join(parts)}"] if (parts := table.metadata().partition_columns) else []
    wants += [f"has the constraint {name}" for name in _constraints(table)]
    wants += [f"needs {name}" for name in _unknown_features(table)]
    wants += [
        f"computes or checks '{each.name}'"
        for each in schema.fields
        if any(name.startswith("delta.") for name in each.metadata)
    ]
    if wants:
        raise UnsupportedError(
            f"the Delta table {root} {wants[0]}, which cerise.into does not write",
            hint="write to a table that cerise.into has created, or with Delta's own sink for Spark",
        )
    return pa.schema(schema.to_arrow())


def _constraints(table: DeltaTable) -> list[str]:
    start = "delta.constraints."
    return [n.removeprefix(start) for n in table.metadata().configuration if n.startswith(start)]


def _unknown_features(table: DeltaTable) -> list[str]:
    return sorted(set(table.protocol().writer_features or ()) - WRITTEN_FEATURES)


def _reject_nulls(events: pa.Table, columns: pa.Schema) -> None:
    for each in columns:
        if not each.nullable and events.column(each.name).null_count:
            raise DataError(
                f"column '{each.name}' has nulls, and the table allows none",
                hint=f"filter them out first: WHERE {each.name} IS NOT NULL",
            )
