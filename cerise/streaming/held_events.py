"""Events that wait for the watermark, in the order of their arrival."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.census import weigh
from cerise.errors import StoreError
from cerise.events import Ints, Schema, read_times
from cerise.streaming.container import pack_table, unpack_table


class HeldEvents:
    """Holds events until the watermark has passed them, and releases them in the order of time."""

    def __init__(self, roles: Schema) -> None:
        self._roles = roles
        self._tables: list[pa.Table] = []
        self._times: list[Ints] = []

    def __len__(self) -> int:
        return sum(map(len, self._times))

    @property
    def columns(self) -> pa.Schema | None:
        """The columns of held events; None: no event is held."""
        return self._tables[0].schema if self._tables else None

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._tables)

    @property
    def weight(self) -> int:
        """The bytes of the events, however they are cut into tables."""
        return weigh(pa.concat_tables(self._tables)) if self._tables else 0

    @property
    def first_time(self) -> int | None:
        """The earliest time of a held event."""
        return min((int(each.min()) for each in self._times), default=None)

    @property
    def all(self) -> pa.Table:
        """The held events in the order of their arrival."""
        tables = self._tables or [self._roles.columns.empty_table()]
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks()

    def add(self, table: pa.Table) -> None:
        """Hold events, which all have a time."""
        if len(table):
            self._tables.append(table)
            self._times.append(read_times(table, self._roles))

    def release(self, before: int) -> pa.Table | None:
        """Return the events before a time, by time and then by arrival; None: there are none."""
        if not self._tables:
            return None
        times = np.concatenate(self._times)
        return self._take(times, times < before)

    def release_all(self) -> pa.Table | None:
        """Return all events, by time and then by arrival; None: there are none."""
        if not self._tables:
            return None
        times = np.concatenate(self._times)
        return self._take(times, np.ones(len(times), np.bool_))

    def _take(self, times: Ints, ready: npt.NDArray[np.bool_]) -> pa.Table | None:
        if not ready.any():
            return None
        table = pa.concat_tables(self._tables).unify_dictionaries().combine_chunks()
        self._tables, self._times = [], []
        if not ready.all():
            kept = np.flatnonzero(~ready)
            self._tables, self._times = [table.take(pa.array(kept))], [times[kept]]
        which = np.flatnonzero(ready)
        order = which[np.argsort(times[which], kind="stable")]
        in_order = len(order) == len(table) and bool(np.all(order[1:] > order[:-1]))
        return table if in_order else table.take(pa.array(order))

    def save(self) -> bytes:
        if not self._tables:
            return b""
        return pack_table(pa.concat_tables(self._tables))

    def load(self, state: bytes) -> None:
        self._tables, self._times = [], []
        if state:
            self.add(unpack_table(state))


def check_columns(saved: pa.Schema | None, needed: pa.Schema) -> None:
    """Refuse saved events whose columns differ from the columns that the queries need.

    Args:
        saved: the columns of the saved events; None: no event was saved.
        needed: the columns that the queries need.
    """
    for column in needed if saved is not None else ():
        assert saved is not None
        known = saved.field(column.name).type if column.name in saved.names else None
        if known != column.type:
            was = "did not exist" if known is None else f"was {known}"
            raise StoreError(
                f"column '{column.name}' is {column.type} now, and {was} in the saved state",
                hint="restore the column, or start with a new checkpoint",
            )
