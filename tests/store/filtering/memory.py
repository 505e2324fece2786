"""Events in memory as a source for filters: what an index answers, without one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from cerise.events import EventBatch, Schema
from cerise.store.filtering.intervals import Intervals, Ints
from cerise.store.index.lookup import Events, Wanted
from cerise.store.pool import judged


@dataclass
class InMemory:
    """A table in stream order; the place of an event is its row."""

    table: pa.Table
    schema: Schema
    asked: list[Wanted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.times = EventBatch.in_order(self.table, self.schema).times

    def estimate(self, wanted: Wanted) -> float:
        return float(len(self._rows(wanted)))

    def look_up(self, wanted: Wanted, within: tuple[Ints, Ints] | None = None) -> Events:
        self.asked.append(wanted)
        rows = self._rows(wanted)
        if within is not None:
            rows = rows[Intervals(*within).holds(self.times[rows])]
        return Events(self.times[rows], rows)

    def _rows(self, wanted: Wanted) -> Ints:
        return np.flatnonzero(judged(wanted, self.table, self.times, self.schema))
