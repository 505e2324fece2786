"""Events in memory as a source for filters: what an index answers, without one."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
import pyarrow as pa

from cerise.events import EventBatch, Schema
from cerise.plan.intervals import Intervals, Ints
from cerise.store.index.lookup import Criteria, Events
from cerise.store.unindexed import test_events


@dataclass
class InMemory:
    """A table in stream order. Places say nothing of the order of events, as those of an index do not."""

    table: pa.Table
    schema: Schema
    asked: list[Criteria] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.times = EventBatch.in_order(self.table, self.schema).times
        count = len(self.table)
        self.places = np.array(Random(count).sample(range(count), count), np.int64)

    def rows(self, events: Events) -> Ints:
        """Return the rows of events, in stream order."""
        return np.sort(np.argsort(self.places)[events.places])

    def estimate(self, wanted: Criteria) -> float:
        return float(len(self._rows(wanted)))

    def look_up(self, wanted: Criteria, within: tuple[Ints, Ints] | None = None) -> Events:
        self.asked.append(wanted)
        rows = self._rows(wanted)
        if within is not None:
            rows = rows[Intervals(*within).holds(self.times[rows])]
        rows = rows[np.lexsort((self.places[rows], self.times[rows]))]
        return Events(self.times[rows], self.places[rows])

    def _rows(self, wanted: Criteria) -> Ints:
        return np.flatnonzero(test_events(wanted, self.table, self.times, self.schema))
