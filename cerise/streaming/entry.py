"""Micro-batches as they arrive, and the journal entries that remember them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.events import Schema, read_column
from cerise.kinds import INT64_MIN
from cerise.streaming.container import pack, pack_json, pack_table, unpack, unpack_json, unpack_table
from cerise.streaming.watermark import TimeRules

LATE, FUTURE, NO_TIME, KNOWN = "late", "future", "no time", "in history"  # reasons to set an event aside
REASONS = ("", LATE, KNOWN, FUTURE, NO_TIME)  # by number; 0: the event is accepted
ONE_SOURCE = "events"  # the name of the only source of a stream
CONTROL = "queries"  # the source of changes of the queries
SOURCE, WATERMARK, REASON = "source", "watermark", "reason"  # further columns of events that are set aside


@dataclass(frozen=True, slots=True)
class Control:
    """A change of the queries while the stream runs.

    Attributes:
        add: whether the query is added; else it is removed.
        name: the name of the query.
        query: its text.
        params: values for its parameters.
        at: an added query takes events from this time on, a removed one those before; None: from the
            watermark before this batch.
    """

    add: bool
    name: str
    query: str = ""
    params: Mapping[str, Any] | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """Events of one source in one micro-batch.

    Attributes:
        source: the name of the source.
        top: the latest time that the source saw in the batch, in any bucket; None: it saw no event.
        events: the events of this bucket.
    """

    source: str
    top: int | None
    events: pa.Table


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The events of one step.

    Attributes:
        arrivals: the events of each source, in the order of their arrival.
        now: the time of the batch by the clock on the wall, the same in a replay; None: no rule uses it.
        floor: a time before which the caller knows that no event will come.
        controls: changes of the queries, which hold before the events of the batch.
        name: names the batch in an error.
    """

    arrivals: Sequence[Arrival]
    now: int | None = None
    floor: int | None = None
    controls: Sequence[Control] = ()
    name: str = "this batch"


def find_top(table: pa.Table, roles: Schema, rules: TimeRules, now: int | None) -> int | None:
    """Return the latest time of events, less those too far in the future; None: there are none."""
    times = read_column(table, roles, (roles.time,))
    if rules.ahead is not None and now is not None:
        times = times.filter(pc.less_equal(times, now + rules.ahead))
    top: int | None = pc.max(times).as_py()
    return top


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A journal entry: the accepted events of a micro-batch, and all else that its step depends on.

    Attributes:
        events: the accepted events.
        tops: the latest time that each source saw.
        now: the time of the batch by the clock on the wall.
        floor: a time before which the caller knows that no event will come.
        aside: how many events were set aside, by "source: reason".
        controls: changes of the queries.
        cut: for an entry of history, the first time after it.
    """

    events: pa.Table
    tops: Mapping[str, int]
    now: int | None = None
    floor: int | None = None
    aside: Mapping[str, int] = field(default_factory=dict)
    controls: tuple[Control, ...] = ()
    cut: int | None = None

    def to_bytes(self) -> bytes:
        plain: dict[str, Any] = {
            "tops": dict(self.tops), "now": self.now, "floor": self.floor, "aside": dict(self.aside),
        }  # fmt: skip
        if self.cut is not None:
            plain["cut"] = self.cut
        if self.controls:
            plain["controls"] = [asdict(each) for each in self.controls]
        events = pack_table(self.events) if len(self.events) else b""
        return pack({"plain": pack_json(plain), "events": events})

    @classmethod
    def of_bytes(cls, data: bytes, name: str, columns: pa.Schema) -> JournalEntry:
        parts = unpack(data, name)
        plain: dict[str, Any] = unpack_json(parts["plain"])
        events = unpack_table(parts["events"]) if parts["events"] else columns.empty_table()
        controls = tuple(Control(**each) for each in plain.get("controls", ()))
        return cls(
            events, plain["tops"], plain["now"], plain["floor"], plain["aside"], controls, plain.get("cut")
        )


def admit(
    batch: MicroBatch, roles: Schema, rules: TimeRules, watermark: int, cut: int = INT64_MIN
) -> tuple[JournalEntry, list[pa.Table]]:
    """Return the journal entry of a micro-batch, and the events that are set aside, with the reason.

    Args:
        batch: the micro-batch.
        roles: the time column, and the columns that queries need.
        rules: how long the stream waits.
        watermark: the watermark before this batch; earlier events are late.
        cut: the time up to which the history is known; earlier events are in it.
    """
    tops: dict[str, int] = {}
    accepted, aside = [roles.columns.empty_table()], []
    for each in batch.arrivals:
        if each.top is not None:
            tops[each.source] = max(each.top, tops.get(each.source, each.top))
        if not len(each.events):
            continue
        reasons = _find_reasons(each.events, roles, rules, batch.now, (watermark, cut))
        good = reasons == 0
        needed = each.events.select(roles.columns.names)
        accepted.append(needed if good.all() else needed.filter(pa.array(good)))
        if not good.all():
            aside.append(_mark(each, reasons, watermark))
    events = pa.concat_tables(accepted)
    return JournalEntry(events, tops, batch.now, batch.floor, _count(aside), tuple(batch.controls)), aside


def _count(aside: Sequence[pa.Table]) -> dict[str, int]:
    """Count events that are set aside, by source and reason."""
    counts: Counter[str] = Counter()
    for table in aside:
        pairs = zip(table.column(SOURCE).to_pylist(), table.column(REASON).to_pylist(), strict=True)
        counts.update(f"{source}: {reason}" for source, reason in pairs)
    return dict(counts)


def _find_reasons(
    table: pa.Table, roles: Schema, rules: TimeRules, now: int | None, borders: tuple[int, int]
) -> npt.NDArray[np.int8]:
    """Return for each event the number of the reason to set it aside; 0: the event is accepted."""
    times = read_column(table, roles, (roles.time,))
    known = np.asarray(times.fill_null(0), dtype=np.int64)
    watermark, cut = borders
    reasons = (known < watermark).astype(np.int8) * REASONS.index(LATE)
    reasons[known < cut] = REASONS.index(KNOWN)
    if rules.ahead is not None and now is not None:
        reasons[known > now + rules.ahead] = REASONS.index(FUTURE)
    if times.null_count:
        reasons[np.asarray(times.is_null())] = REASONS.index(NO_TIME)
    return reasons


def _mark(arrival: Arrival, reasons: npt.NDArray[np.int8], watermark: int) -> pa.Table:
    """Return the events that are set aside, with their source, the watermark and the reason."""
    which = np.flatnonzero(reasons)
    table = arrival.events.take(pa.array(which))
    further = {
        SOURCE: pa.array([arrival.source] * len(which)),
        WATERMARK: pa.array([watermark] * len(which), pa.int64()),
        REASON: pa.array([REASONS[each] for each in reasons[which]]),
    }
    for name, column in further.items():
        if name in table.schema.names:
            table = table.drop_columns([name])
        table = table.append_column(name, column)
    return table
