"""The events before a stream's first: a table, files or a store; a bucket reads the last window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.events import Schema, read_times
from cerise.files.scan import ROW
from cerise.kinds import INT64_MIN
from cerise.plan.needs import Needs
from cerise.run.files_access import FilesAccess


@dataclass(frozen=True)
class History:
    """Events that end at a cut, where the stream begins.

    Attributes:
        cut: the first time after the history.
        table: the events, if they are a table.
        access: the access path to the events, if they are files.
        replay: whether matches that end before the cut are given, too.
    """

    cut: int
    table: pa.Table | None = None
    access: FilesAccess | None = None
    replay: bool = False

    @classmethod
    def of_table(cls, table: pa.Table, roles: Schema, *, replay: bool) -> History:
        """Return a table as history."""
        table = table.select(roles.columns.names).cast(roles.columns)
        times = read_times(table, roles)
        return cls(int(times.max()) + 1 if len(times) else INT64_MIN, table, replay=replay)

    @classmethod
    def of_lake(cls, lake: Any, roles: Schema, *, replay: bool) -> History:
        """Return lake files as history; reads only their footers."""
        names = tuple(roles.columns.names)
        access = FilesAccess.of(lake, Needs(roles.columns, names, roles=roles))
        last = max((each.span.last for each in access.groups), default=INT64_MIN - 1)
        return cls(last + 1, access=access, replay=replay)

    def read(self, roles: Schema, reach: int | None) -> pa.Table:
        """Return the events that later matches may need.

        Args:
            roles: the time column, and the columns to read.
            reach: how far before the cut events matter; None: all do.
        """
        since = INT64_MIN if reach is None or self.replay else max(self.cut - reach, INT64_MIN)
        table = self.table if self.table is not None else self._read_files(since)
        table = table.select(roles.columns.names).cast(roles.columns)
        inside = read_times(table, roles) >= since
        return table if inside.all() else table.filter(pa.array(np.asarray(inside)))

    def _read_files(self, since: int) -> pa.Table:
        assert self.access is not None
        groups = tuple(each for each in self.access.groups if each.span.last >= since)
        tables = [each.drop_columns([ROW]) for each in self.access.tables(groups, {})] if groups else []
        columns = self.access.needs.columns
        return pa.concat_tables([columns.empty_table(), *(each.cast(columns) for each in tables)])
