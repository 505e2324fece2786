"""The event store as users see it: a table of events with an index that queries read first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise import api
from cerise.engines.base import Options
from cerise.errors import UnsupportedError
from cerise.filters.two_phase import Filtering
from cerise.plan.needs import Needs
from cerise.plan.slicing import Halo
from cerise.run import find as flow
from cerise.run.kept_events import KeptEvents
from cerise.run.question import Questions
from cerise.run.row_search import Rows
from cerise.run.sase_search import Sase
from cerise.run.store_access import StoreAccess, stream_roles
from cerise.sources import AnyQuery, Columns, How, Params, Roles, ask, is_spark, only
from cerise.store.index.layout import SEQUENCE
from cerise.store.table.append_sources import Progress as Reading
from cerise.store.table.compaction import Compacted
from cerise.store.table.event_table import EventTable, Info, index_in_place
from cerise.store.table.external_index import Built
from cerise.store.table.settings import Settings
from cerise.store.table.verification import Finding
from cerise.store.view import Held, View

Progress = Callable[[int, int], None]


class Store:
    """An event store: a Delta table of events, and an index by which queries read only what can match.

    Args:
        path: where it is: made by `Store.create`, or a table of others that `cerise.index` has indexed.
        index: where its index is, if not beside the data.

    Raises:
        StoreError: there is none, or a newer Cerise has written it.
    """

    def __init__(self, path: str | Path, *, index: str | Path | None = None) -> None:
        self._table = EventTable.open(path, index)
        self._view: View | None = None
        self.filtering: Filtering | None = None  # how the index is asked, for experiments

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
            path: a folder that is not there yet, or empty.
            schema: the columns of the events: an Arrow or Spark schema, or a table or DataFrame that has it.
            time: the column that says when an event happened: timestamp, date or integer.
            type: the column that says what kind of event it is.
            key: the columns that partition the events.
            order: the columns that break ties between events of equal time; the order of arrival by default.
            index: the columns that queries compare with constants.
            block_rows: how many events a block of the index, and a row group of the data, has.
            pool_rows: how many events of small appends may wait, unindexed, before they are sealed.
            compress: whether the index is compressed.

        Raises:
            StoreError: there is something at the path, or a column cannot be stored.
            BindError: a column is not there, or cannot play its part or be indexed.
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
        """Which column plays which part, what is indexed, and how large blocks are."""
        return self._table.settings

    @property
    def version(self) -> int | None:
        """The number of the newest version; None for Parquet files that others write."""
        return self._table.snapshot().version

    def append(self, events: Any, progress: Reading | None = None) -> int:
        """Append events, as one version.

        Args:
            events: whatever speaks Arrow, the path of Parquet files or of a Delta table, or a Spark
                DataFrame, whose tasks write.
            progress: told how many events were read, of how many; None where that is not known. Spark shows
                its own.

        Returns:
            The version in which they are there.
        """
        if is_spark(events):
            from cerise.spark import store

            return store.append(self._table, events)
        return self._table.append(events, progress)

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Seal fresh events, and make few large files in stream order of small and overlapping ones.

        Returns:
            The version in which that is done, how many files were rewritten, and which ones were left
            because others changed them meanwhile.
        """
        return self._table.compact(progress)

    def vacuum(self, retention_hours: float = 168) -> list[str]:
        """Remove files that no version of the last hours has; return their names."""
        return self._table.vacuum(retention_hours)

    def info(self, version: int | None = None) -> Info:
        """Return figures of a version."""
        return self._table.info(version)

    def verify(self, progress: Progress | None = None) -> list[Finding]:
        """Compare everything with everything; return what is wrong."""
        return self._table.verify(progress)

    # ---- queries

    def view_of(self, version: int | None) -> View:
        """Return a version as queries see it; the same view while it is the newest version."""
        if version is not None:
            return View(Held.of(self._table.snapshot(version)))
        if self._view is None or not self._table.is_newest(self._view.held.snapshot):
            self._view = View(Held.of(self._table.snapshot()))
        return self._view

    def find(
        self,
        query: AnyQuery | Sequence[AnyQuery],
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
        """Return the events that can be part of a match, in stream order, for any other engine.

        A pyarrow Table; a lazy Spark DataFrame where `spark` is given.
        """
        asked = ask(self, query, Roles(params=params), How(options or Options(), version, dialect, spark))
        asked.warn()
        view, question = self.view_of(version), only(asked)
        while question.inner is not None:  # its matches are the events of the query
            question = question.inner
        limits = asked.options.limits
        by_index = StoreAccess.of(view, Questions.of([question]), limits=limits).way.query is not None
        roles = replace(view.roles, columns=view.columns)
        if isinstance(question, Rows):
            roles = stream_roles(view)
        names = roles.columns.names
        reads = tuple(name for name in names if name in view.known or not by_index)
        late = tuple(name for name in names if name not in reads)
        wanted = question.needs.filter if isinstance(question, Sase) else None
        kept = KeptEvents(question, Needs(roles.columns, reads, late, roles, filter=wanted, halo=Halo()))
        return flow.find(asked.source, Questions.of([kept]), asked.options, asked.runner).matches


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
    """Index a Delta table or Parquet files that others write, beside them, without touching them.

    Called again, it indexes the files that are new. `Store(path)` then answers queries by the index.

    Args:
        path: a Delta table, a Parquet file or a folder of them.
        time: the column that says when an event happened.
        type: the column that says what kind of event it is.
        on: the columns that queries compare with constants.
        key: the columns that partition the events.
        order: the columns that break ties between events of equal time.
        at: where the index goes, if not beside the data.
        progress: told how many of how many files are done.
    """
    return index_in_place(
        path, time, type, _names(on), index_dir=at, key=_names(key), order=_names(order), progress=progress
    )


def _names(columns: Columns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _arrow_schema(given: Any) -> pa.Schema:
    """Return the columns that a schema, a table or a DataFrame has."""
    if isinstance(given, pa.Schema):
        return given
    if is_spark(given):
        from cerise.spark import frames

        return frames.arrow_schema(getattr(given, "schema", given))  # of a stream as well
    if isinstance(getattr(given, "schema", None), pa.Schema):
        return given.schema
    raise UnsupportedError(
        f"a {given.__class__.__name__} is no schema",
        hint="give an Arrow or Spark schema, or a table that has it",
    )
