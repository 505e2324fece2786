"""The access path to an event store: events that the index does not rule out, or all events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.limits import DEFAULT, Limits
from cerise.events import EventBatch, RowBatch, Schema
from cerise.files.scan import ROW
from cerise.filters.access_path import AccessPath, Wants, choose_access_path, describe
from cerise.filters.event_reader import Finder
from cerise.filters.index_query import IndexQuery
from cerise.filters.index_query import build_index_query as asked_events
from cerise.filters.row_index_query import build_row_index_query
from cerise.filters.two_phase import Filtering
from cerise.plan.needs import Needs
from cerise.plan.slicing import MAX_TIME, MIN_TIME, Halo, Slice, slices
from cerise.run.access import ARRIVED
from cerise.run.files_access import FilesAccess
from cerise.run.question import Batch, Note, Questions, add
from cerise.run.report import VARIABLE
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.run.stores.kept_events import KeptEvents
from cerise.store.index.layout import SEQUENCE, SEQUENCE_FIELDS
from cerise.store.view import View

WORTH_A_THREAD = 1_000_000  # events


@dataclass(frozen=True)
class StoreAccess:
    """The access path to a version of an event store.

    Attributes:
        view: the view of the version.
        way: whether the index is used, and with which index query.
        needs: the needs of the questions.
        limits: how much is read and looked up together.
    """

    view: View
    way: AccessPath
    needs: Needs
    limits: Limits = DEFAULT
    worth: int = WORTH_A_THREAD

    @classmethod
    def of(
        cls, view: View, questions: Questions, filtering: Filtering | None = None, limits: Limits = DEFAULT
    ) -> StoreAccess:
        """Choose the access path to a version, before anything is read."""
        way = choose_access_path(view, index_query(view, questions), filtering or Filtering(), limits)
        return cls(view, way, questions.needs, limits)

    @property
    def rows(self) -> int:
        return self.view.rows

    @property
    def known(self) -> dict[str, float]:
        return {"events": self.view.rows, "events indexed": self.view.indexed.synopsis.rows}

    @cached_property
    def wants(self) -> Wants:
        """Which columns and events are read."""
        needs = self.needs
        if needs.roles is not None:
            return Wants(needs.roles, needs.reads, needs.late, needs.filter)
        roles = stream_roles(self.view)
        names = {*needs.reads, roles.time}
        return Wants(roles, tuple(name for name in roles.columns.names if name in names), (), needs.filter)

    def split(self, halo: Halo, most: int, *, amplified: float) -> list[Slice]:
        """Cut the store by time if the look-up is large, or the user sets the number of slices.

        Windows that count events are not cut.
        """
        whole = [Slice(MIN_TIME, MAX_TIME, ())]
        if halo.events or self.needs.roles is None or not (self.way.large or amplified > 2):
            return whole
        found = slices(self.view.spans(), halo, most, amplified=amplified)
        return found if len(found) > 1 else whole

    def open(self, part: Slice | None, halo: Halo) -> StoreReader:
        return StoreReader(self, part, halo)

    @cached_property
    def _files(self) -> FilesAccess | None:
        """The access path to the data files, if all are read and their rows are in the order of arrival."""
        plain = self.way.query is None and not self.view.arrival
        return FilesAccess.of(self.view.lake, self.needs, self.limits) if plain else None

    def portions(self, count: int) -> Sequence[Any]:
        """Cut the store by time, without halos: the exchange sends events to each slice that needs them."""
        if self._files is not None:
            return self._files.portions(count)
        if not self.way.large:
            return [None]
        found = slices(self.view.spans(), Halo(), count)
        return found if len(found) > 1 else [None]

    def tables(self, portion: Any, note: Note) -> Iterator[pa.Table]:
        """Yield the events of a portion, with columns that give the order of their arrival."""
        if self._files is not None:
            yield from self._files.tables(portion, note)
            return
        reader = self.open(portion, Halo())
        for events in reader.finder.events(portion, Halo()):
            table = reader.finder.complete(events).table
            for name, numbers in zip(ARRIVED, reader.arrivals(events), strict=True):
                table = table.append_column(name, numbers)
            yield table
        reader.close(note)

    def sample(self, most: int) -> tuple[EventBatch, float] | None:
        """Return events of a row group of the data files."""
        return FilesAccess.of(self.view.lake, self.needs, self.limits).sample(most)

    def counters(self) -> dict[str, int]:
        """Return counters of clusters and bytes of the index read so far; none if the index is not open."""
        if "index" not in self.view.__dict__:
            return {}
        counts = self.view.index.counts
        return {
            "clusters considered": counts.considered,
            "clusters left out by the synopsis": counts.pruned,
            "clusters read": counts.read,
            "bytes of the index read": counts.bytes,
        }

    def explain(self) -> dict[str, str]:
        return describe(self.view, self.way)


class StoreReader:
    """Reads one slice of a store."""

    def __init__(self, access: StoreAccess, part: Slice | None, halo: Halo) -> None:
        self._access = access
        whole = part is None or (part.start, part.stop) == (MIN_TIME, MAX_TIME)
        self._part, self._halo = None if whole else part, halo
        self.finder = Finder(access.view, access.way, access.wants, access.limits)

    def read(self) -> Iterator[Batch]:
        """Yield events in stream order; for row patterns without the index, all rows in arrival order."""
        finder = self.finder
        if self._access.needs.roles is not None:
            yield from finder.events(self._part, self._halo)
        elif self._access.way.query is None:
            yield RowBatch(finder.read_by_arrival())
        else:
            for events in finder.events(self._part, self._halo):
                yield RowBatch(finder.complete(events).table)

    def complete(self, events: EventBatch) -> EventBatch:
        """Return matched events with the columns that are only returned."""
        return self.finder.complete(events)

    def arrivals(self, events: EventBatch) -> list[pa.Array]:
        """Return two columns of numbers that sort events by arrival."""
        if SEQUENCE in events.table.schema.names:
            sequence = events.table.column(SEQUENCE).combine_chunks()
            return [sequence.field(name) for name in SEQUENCE_FIELDS]
        rows = np.ascontiguousarray(events.table.column(ROW).to_numpy())
        return [pa.array(each) for each in self.finder.view.arrivals(rows)]

    def close(self, note: Note) -> None:
        seen = self.finder.seen
        add(note, {"events kept": seen.kept})
        add(note, {"seconds filtering": seen.filtering, "seconds reading": seen.reading})
        for (name, events), intervals in zip(seen.trace.order, seen.trace.intervals, strict=False):
            add(note, {f"{VARIABLE}{name}: events": events, f"{VARIABLE}{name}: intervals left": intervals})


def stream_roles(view: View) -> Schema:
    """Return the roles of columns without order columns: ORDER BY orders the rows of a row pattern (M2)."""
    return replace(view.roles, columns=view.columns, order=())


def index_query(view: View, questions: Questions) -> IndexQuery | str:
    """Return the index query of questions, or the reason why the index cannot help."""
    inner = [each.question if isinstance(each, KeptEvents) else each for each in questions.each]
    if isinstance(inner[0], RowClause):
        return build_row_index_query(inner[0].bound, stream_roles(view), view.known)
    bounds = [each.bound for each in inner if isinstance(each, Sase)]
    if len(bounds) < len(inner):
        return "every event is asked about"
    return asked_events(bounds, view.known)
