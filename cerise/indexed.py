"""The event store as users see it: a table of events with an index that queries read first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.api import Found, counting
from cerise.engines.base import Options
from cerise.engines.choose import choose, reasons
from cerise.engines.rows.run import explained as explained_rows
from cerise.engines.several import Queries
from cerise.errors import UnsupportedError, memory_bounds, warn
from cerise.events import Schema
from cerise.files.column_values import held_values
from cerise.filters.finder import Finder
from cerise.filters.row_index_query import asked_rows
from cerise.filters.running import gathered, run_rows_view, run_view
from cerise.filters.two_phase import Filtering
from cerise.filters.ways import Wants, Way, situation, way_for, way_of
from cerise.given import AnyQuery, Columns, Params, Roles, asks_sql, is_spark, parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound, of_types
from cerise.pattern.row_pattern import BoundRows
from cerise.plan.explain import describe
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

    def find(
        self,
        query: AnyQuery | Sequence[AnyQuery],
        *,
        params: Params | None = None,
        engine: str | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> Any:
        """Find the matches of a query, or of several, as a Spark DataFrame. See `cerise.find`."""
        return self.run(
            query, params=params, engine=engine, options=options, version=version, dialect=dialect
        ).matches

    def run(
        self,
        query: AnyQuery | Sequence[AnyQuery],
        *,
        params: Params | None = None,
        engine: str | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> Found:
        """Find the matches of a query as a Spark DataFrame, and keep account of what is done."""
        from cerise.spark import store

        view, options = self._now(version), _options(options, engine)
        if _asks_sql(query, params, dialect):
            clause = self._clause(str(query), view, dialect)
            return Found(*store.find_rows(view, clause, view.roles, options))
        return Found(*store.find(view, self._bound(query, view, params, options), options))

    def count(
        self,
        query: AnyQuery,
        *,
        params: Params | None = None,
        engine: str | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> int:
        """Count the matches of a query on Spark without making them; of SQL, the rows of the result."""
        from cerise.spark import store

        view, options = self._now(version), _options(options, engine)
        if _asks_sql(query, params, dialect):
            return int(self.find(query, options=options, version=version, dialect=dialect).count())
        return store.count(view, self._bound(counting(query), view, params, options)[0], options)

    def find_local(
        self,
        query: AnyQuery | Sequence[AnyQuery],
        *,
        params: Params | None = None,
        engine: str | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> pa.Table:
        """Find the matches of a query, or of several, in this process, without Spark."""
        return self.run_local(
            query, params=params, engine=engine, options=options, version=version, dialect=dialect
        ).matches

    @memory_bounds()
    def run_local(
        self,
        query: AnyQuery | Sequence[AnyQuery],
        *,
        params: Params | None = None,
        engine: str | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
        filtering: Filtering | None = None,
    ) -> Found:
        """Find the matches of a query in this process, and keep account of what is done.

        Args:
            query: as in `cerise.find`.
            params: as in `cerise.find`.
            engine: as in `cerise.find`.
            options: as in `cerise.find`.
            version: which version of the store; the newest by default.
            dialect: as in `cerise.find`.
            filtering: how events are filtered, for experiments.
        """
        view, options = self._now(version), _options(options, engine)
        if _asks_sql(query, params, dialect):
            clause = self._clause(str(query), view, dialect)
            return Found(*run_rows_view(view, clause, _roles(view), options, filtering))
        bounds = self._bound(query, view, params, options)
        if len(bounds) == 1:
            return Found(*run_view(view, bounds[0], options, filtering))
        queries = Queries.of(bounds, options)
        found = [run_view(view, bound, options, filtering) for bound in bounds]
        tables = [queries.tagged(table, number) for number, (table, _) in enumerate(found)]
        return Found(pa.concat_tables(tables), [report for _, report in found])

    def count_local(
        self,
        query: AnyQuery,
        *,
        params: Params | None = None,
        engine: str | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> int:
        """Count the matches of a query in this process, without making them; of SQL, the rows."""
        if _asks_sql(query, params, dialect):
            found = self.find_local(query, engine=engine, options=options, version=version, dialect=dialect)
            return len(found)
        found = self.find_local(
            counting(query), params=params, engine=engine, options=options, version=version
        )
        return int(Decimal(found.column(0)[0].as_py()))

    def candidates(
        self,
        query: AnyQuery,
        *,
        params: Params | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> Any:
        """Return the events that can be part of a match, for any other engine, as a Spark DataFrame."""
        from cerise.spark import store

        view = self._now(version)
        way, wants = self._candidates(query, view, params, dialect)
        return store.candidates(view, way, wants)

    def candidates_local(
        self,
        query: AnyQuery,
        *,
        params: Params | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> pa.Table:
        """Return the events that can be part of a match, in stream order, for any other engine."""
        view = self._now(version)
        return gathered(Finder(view, *self._candidates(query, view, params, dialect)))

    def explain(
        self,
        query: AnyQuery | Sequence[AnyQuery],
        *,
        params: Params | None = None,
        engine: str | None = None,
        options: Options | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> str:
        """Say how a query, or each of several, would be run; only the synopsis of the index is read."""
        view, options = self._now(version), _options(options, engine)
        if _asks_sql(query, params, dialect):
            clause = self._clause(str(query), view, dialect)
            way = way_for(view, asked_rows(clause, _roles(view), view.known), Filtering())
            facts = {**situation(view, way), **explained_rows(clause, options)}
            return "\n".join(f"{name:<10} {text}" for name, text in facts.items())
        bounds = self._bound(query, view, params, options)
        return "\n\n".join(_explained(view, bound, options) for bound in bounds)

    # ---- what a query meets

    def _now(self, version: int | None) -> View:
        """Return a view of a version; the one that is there already, while it is of the newest."""
        if version is not None:
            return View(Held.of(self._table.snapshot(version)))
        if self._view is None or not self._table.is_newest(self._view.held.snapshot):
            self._view = View(Held.of(self._table.snapshot()))
        return self._view

    def _bound(self, query: Any, view: View, params: Params | None, options: Options) -> tuple[Bound, ...]:
        several = query if isinstance(query, Sequence) and not isinstance(query, str) else [query]
        if not several:
            raise UnsupportedError(
                "an empty list is not a query", hint="give SASE+ text, seq(…), or a list of these"
            )
        bounds = tuple(bind(parse(each), _roles(view), params) for each in several)
        for bound in bounds:
            _check(bound, options)
        warn(of_types(bounds, partial(_types, view), asked=False), strict=options.strict)
        return bounds

    def _clause(self, text: str, view: View, dialect: str) -> BoundRows:
        from cerise.lang import match_recognize  # brings sqlglot

        return match_recognize.bind_rows(match_recognize.parse_alone(text, dialect), view.columns)

    def _candidates(
        self, query: AnyQuery, view: View, params: Params | None, dialect: str
    ) -> tuple[Way, Wants]:
        roles = _roles(view)
        if _asks_sql(query, params, dialect):
            clause = self._clause(str(query), view, dialect)
            way = way_for(view, asked_rows(clause, roles, view.known), Filtering())
            needed = None
        else:
            bounds = self._bound(query, view, params, Options())
            way, needed = way_of(view, bounds), Wants.of(bounds).needed
        every = tuple(roles.columns.names)
        known = tuple(name for name in every if name in view.known or way.query is None)
        late = tuple(name for name in every if name not in known)
        return way, Wants(roles, known, late, needed)


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


def _asks_sql(query: Any, params: Params | None, dialect: str) -> bool:
    return asks_sql(query, Roles(None, params=params), dialect)


def _explained(view: View, bound: Bound, options: Options) -> str:
    chosen = choose(bound, options)
    facts = {
        **situation(view, way_of(view, [bound])),
        "engine": f"{chosen.name} ({reasons(bound, options)})",
        **chosen.explain(bound),
    }
    return describe(bound, facts)


def _roles(view: View) -> Schema:
    """Return which column plays which part; the sequence of arrival is nobody's to see."""
    return replace(view.roles, columns=view.columns)


def _check(bound: Bound, options: Options) -> None:
    if bound.source is not None:
        raise UnsupportedError(
            "a query over the matches of another reads no events of the store",
            hint="find the first query's matches, and give them to cerise.find",
        )
    warn(bound.warnings, strict=options.strict)


def _types(view: View, column: str, names: Collection[str]) -> set[str]:
    """Return which of some names are types of events, as far as the index and the files tell."""
    indexed = set(view.held.synopsis.types.to_pylist()) & set(names)
    return indexed or held_values(view.lake, column, names)


def _options(options: Options | None, engine: str | None) -> Options:
    options = options or Options()
    return options if engine is None else replace(options, engine=engine)


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
