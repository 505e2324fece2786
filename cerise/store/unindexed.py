"""Look-ups of events without an index: small appends that wait to be sealed, and files with a broken index.

Rows are read and tested one by one. Small row groups stay in memory, as queries read them again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.events import Schema, raw_column, read_column, read_times
from cerise.files.lake import Group
from cerise.files.reader import Reading
from cerise.files.scan import Scan
from cerise.plan.intervals import Intervals, Ints
from cerise.store.index.codes import encode
from cerise.store.index.lookup import Criteria, Events
from cerise.store.index.ranges import holds, intervals_of

KEPT_ROWS = 1 << 20  # events of small row groups that stay in memory
SMALL = 1 << 17  # events of a row group that counts as small


@dataclass(slots=True)
class Unindexed:
    """Row groups without an index.

    Attributes:
        reading: how to read them; its columns are those that an index would hold.
        groups: the row groups; the place of an event is the number of its row.
    """

    reading: Reading
    groups: Sequence[Group]
    _kept: dict[int, tuple[pa.Table, Ints, Ints]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(group.span.rows for group in self.groups)

    def look_up(self, criteria: Criteria, within: tuple[Ints, Ints] | None) -> list[Events]:
        """Return the events of each row group that meet the criteria, in time order."""
        intervals = None if within is None else Intervals(*within)
        needed = tuple(dict.fromkeys((self._roles.time, *_names(criteria, self._roles))))
        found = []
        for group in self.groups:
            if intervals is None or len(intervals.clip(group.span.first, group.span.last)):
                table, times, rows = self._read(group, needed)
                keep = test_events(criteria, table, times, self._roles)
                if intervals is not None:
                    keep &= intervals.holds(times)
                found.append(Events(times[keep], rows[keep]))
        return found

    @property
    def _roles(self) -> Schema:
        return self.reading.roles

    def _read(self, group: Group, names: tuple[str, ...]) -> tuple[pa.Table, Ints, Ints]:
        """Return columns of a row group in time order, with the times and the numbers of the rows."""
        if group.place in self._kept:
            return self._kept[group.place]
        small = group.span.rows <= SMALL and self._count_kept() + group.span.rows <= KEPT_ROWS
        reads = self.reading.reads if small else names
        (table,) = Scan(replace(self.reading, reads=reads), [group]).rows()
        rows = table.column(table.num_columns - 1).to_numpy()
        times = read_times(table, self._roles)
        if np.any(times[1:] < times[:-1]):
            order = np.argsort(times, kind="stable")
            table, times, rows = table.take(pa.array(order)), times[order], rows[order]
        if small:
            self._kept[group.place] = table, times, rows
        return table, times, rows

    def _count_kept(self) -> int:
        return sum(len(times) for _, times, _ in list(self._kept.values()))  # other threads add to it


def _names(criteria: Criteria, roles: Schema) -> tuple[str, ...]:
    types = () if criteria.types is None or roles.type is None else (roles.type,)
    return (*types, *(test.path[0] for test in criteria.tests))


def test_events(criteria: Criteria, table: pa.Table, times: Ints, roles: Schema) -> npt.NDArray[np.bool_]:
    """Return a mask of the events that meet the criteria."""
    keep = np.ones(len(table), bool)
    if criteria.types is not None and roles.type is not None:
        kinds = read_column(table, roles, (roles.type,))
        chosen = pc.is_in(kinds, value_set=pa.array(list(criteria.types), kinds.type))
        keep &= np.asarray(chosen.fill_null(False))
    for test in criteria.tests:
        name, kind = test.path[0], roles.type_of(test.path)
        if name == roles.time:
            keep &= Intervals(*intervals_of([test], kind)).holds(times)
        else:
            keep &= holds(test, encode(raw_column(table, test.path), name), kind)
    return keep
