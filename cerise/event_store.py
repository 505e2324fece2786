"""The event store, as users call it: a table of events with an index that queries read first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise import api
from cerise.engines.base import Options
from cerise.errors import UnsupportedError, text_html
from cerise.filters.two_phase import Filtering
from cerise.plan.needs import Needs
from cerise.plan.slicing import Halo
from cerise.run import find as flow
from cerise.run.question import Questions
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.run.stores.kept_events import KeptEvents
from cerise.run.stores.store_access import StoreAccess, stream_roles
from cerise.sources import AnyQuery, Columns, How, Params, Queries, Roles, ask, is_spark, only
from cerise.store.index.layout import SEQUENCE
from cerise.store.table.append_sources import Progress as Reading
from cerise.store.table.compaction import Compacted
from cerise.store.table.event_table import EventTable, Info, index_in_place
from cerise.store.table.external_index import Built
from cerise.store.table.settings import Settings
from cerise.store.table.verification import Finding
from cerise.store.view import IndexedSnapshot, View

Progress = Callable[[int, int], None]


class Store:
    """An event store: a Delta table with an index, by which queries read only events that can match.

    Args:
        path: the folder of the store, made by `Store.create`, or of a table that `cerise.index` has indexed.
        index: the folder of the index, if it is not beside the data.

    Raises:
        StoreError: the path has no store, or a newer version of Cerise has written it.
    """

    def __init__(self, path: str | Path, *, index: str | Path | None = None) -> None:
        self._table = EventTable.open(path, index)
        self._view: View | None = None
        self.filtering: Filtering | None = None  # how filtering uses the index, for experiments

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        schema: Any,
        time: str,
        type: str | None = None,
        key: Columns = (),
        order: Columns = (),
        index: Columns = (),
        block_rows: int = 131_072,
        pool_rows: int = 65_536,
        compress: bool = True,
    ) -> Store:
        """Make an event store without events.

        Args:
            path: a folder that does not exist yet, or is empty.
            schema: the columns of the events: an Arrow or Spark schema, or a table or DataFrame that has it.
            time: the column that says when an event happened: timestamp, date or integer.
            type: the column that holds the event's type.
            key: the columns that partition the events.
            order: the columns that break ties between events of equal time; the order of arrival by default.
            index: the columns that queries compare with constants.
            block_rows: how many events a block of the index, and a row group of the data, has.
            pool_rows: how many events of small appends may wait, unindexed, before they are sealed.
            compress: whether the index is compressed.

        Raises:
            StoreError: the path is not empty, or a column cannot be stored.
            BindError: a column does not exist, or cannot play its part or be indexed.
        """
        EventTable.create(
            path, _arrow_schema(schema), time, type, key=_names(key), order=_names(order),
            index=_names(index), block_rows=block_rows, pool_rows=pool_rows, compress=compress,
        )  # fmt: skip
        return cls(path)

    # ---- the table

    @property
    def schema(self) -> pa.Schema:
        """The columns of the events."""
        return pa.schema([each for each in self._table.snapshot().columns if each.name != SEQUENCE])

    @property
    def settings(self) -> Settings:
        """Which column plays which part, which columns are indexed, and how large blocks are."""
        return self._table.settings

    @property
    def version(self) -> int | None:
        """The number of the newest version; None for plain Parquet files, which have no versions."""
        return self._table.snapshot().version

    def append(self, events: Any, progress: Reading | None = None) -> int:
        """Append events, as one version.

        Args:
            events: a table of any library that speaks Arrow, the path of Parquet files or of a Delta table,
                or a Spark DataFrame, whose tasks write.
            progress: called with the number of events read so far, and of all events (None if unknown).
                Spark shows its own progress.

        Returns:
            The first version that has the events.
        """
        if is_spark(events):
            from cerise.spark import store

            return store.append(self._table, events)
        return self._table.append(events, progress)

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Seal fresh events, and rewrite small and overlapping files as few large ones in stream order.

        Returns:
            The new version, how many files were rewritten, and which files were left because another writer
            changed them meanwhile.
        """
        return self._table.compact(progress)

    def vacuum(self, retention_hours: float = 168) -> list[str]:
        """Remove files that no version of the last `retention_hours` has; return their names."""
        return self._table.vacuum(retention_hours)

    def info(self, version: int | None = None) -> Info:
        """Return the figures of a version: events, files, bytes, times, and index files that are broken."""
        return self._table.info(version)

    def verify(self, progress: Progress | None = None) -> list[Finding]:
        """Check every file and checksum, and the index against the data; return the faults."""
        return self._table.verify(progress)

    def _repr_html_(self) -> str:
        info = self.info()
        facts = {
            "store": info.path,
            "version": info.version,
            "events": f"{info.events:,}",
            "files": f"{info.files:,}",
            "columns": ", ".join(self.schema.names),
        }
        return text_html("\n".join(f"{name:<8} {fact}" for name, fact in facts.items()))

    # ---- queries

    def view_of(self, version: int | None) -> View:
        """Return the view of a version, which queries read. The newest version's view is kept."""
        if version is not None:
            return View(IndexedSnapshot.of(self._table.snapshot(version)))
        if self._view is None or not self._table.is_newest(self._view.indexed.snapshot):
            self._view = View(IndexedSnapshot.of(self._table.snapshot()))
        return self._view

    def find(
        self,
        query: Queries,
        *,
        params: Params | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
        spark: Any = None,
    ) -> Any:
        """Find the matches of a query: `cerise.find(store, query, …)`."""
        return api.find(
            self, query, params=params, options=options, version=version, dialect=dialect, spark=spark
        )

    def candidates(
        self,
        query: AnyQuery,
        *,
        params: Params | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
        spark: Any = None,
    ) -> Any:
        """Return the events that can be part of a match, in stream order, for another engine to search.

        The result is a pyarrow Table; a lazy Spark DataFrame if `spark` is given.
        """
        how = How(options or Options(), version, dialect, spark)
        request = ask(self, query, Roles(params=params), how)
        request.warn()
        view, question = self.view_of(version), only(request)
        while question.inner is not None:  # the innermost query reads the store's events
            question = question.inner
        limits = request.options.limits
        by_index = StoreAccess.of(view, Questions.of([question]), limits=limits).way.query is not None
        roles = replace(view.roles, columns=view.columns)
        if isinstance(question, RowClause):
            roles = stream_roles(view)
        names = roles.columns.names
        reads = tuple(name for name in names if name in view.known or not by_index)
        late = tuple(name for name in names if name not in reads)
        wanted = question.needs.filter if isinstance(question, Sase) else None
        kept = KeptEvents(question, Needs(roles.columns, reads, late, roles, filter=wanted, halo=Halo()))
        return flow.find(request.source, Questions.of([kept]), request.options, request.runner).matches


def index(
    path: str | Path,
    *,
    time: str,
    type: str | None = None,
    on: Columns = (),
    key: Columns = (),
    order: Columns = (),
    at: str | Path | None = None,
    progress: Progress | None = None,
) -> Built:
    """Index a Delta table or Parquet files in place. The index goes beside the data, which stays as it is.

    A second call indexes only new files. `Store(path)` then answers queries by the index.

    Args:
        path: a Delta table, a Parquet file or a folder of Parquet files.
        time: the column that says when an event happened.
        type: the column that holds the event's type.
        on: the columns that queries compare with constants.
        key: the columns that partition the events.
        order: the columns that break ties between events of equal time.
        at: the folder for the index, if not beside the data.
        progress: called with the number of files indexed so far, and of all files.
    """
    return index_in_place(
        path, time, type, _names(on), index_dir=at, key=_names(key), order=_names(order), progress=progress
    )


def _names(columns: Columns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _arrow_schema(given: Any) -> pa.Schema:
    """Return the Arrow schema of a schema, a table or a DataFrame."""
    if isinstance(given, pa.Schema):
        return given
    if is_spark(given):
        from cerise.spark import frames

        return frames.arrow_schema(getattr(given, "schema", given))  # streams have a schema, too
    if isinstance(getattr(given, "schema", None), pa.Schema):
        return given.schema
    raise UnsupportedError(
        f"a {given.__class__.__name__} is not a schema",
        hint="give an Arrow or Spark schema, or a table that has it",
    )
