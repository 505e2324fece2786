"""The step of a bucket as a task: blobs of events in, blobs of matches and a report out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.events import Schema
from cerise.files.folder import Folder
from cerise.run.question import Questions
from cerise.run.report import to_bytes
from cerise.store.table.failpoints import mark_step
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan, BucketStep, Found
from cerise.streaming.entry import CONTROL, REASON, SOURCE, WATERMARK, Arrival, Control, MicroBatch
from cerise.streaming.generic_matches import to_generic
from cerise.streaming.history import History
from cerise.streaming.query_groups import StreamGroup
from cerise.streaming.state.journal import Journal
from cerise.streaming.state.saved_state import StateHome

MATCH, REPORT = "match", "report"  # kinds of rows that a task gives
PAYLOAD = "payload"  # the column of matches
LISTED = 1_000  # matches in a list, at most
OUTPUT = pa.schema(
    [
        ("kind", pa.string()), (PAYLOAD, pa.binary()), ("bucket", pa.int32()), ("events", pa.int64()),
        ("matches", pa.int64()), ("aside", pa.int64()), ("held", pa.int64()), ("watermark", pa.int64()),
        ("state_bytes", pa.int64()), ("evicted", pa.int64()), ("detail", pa.string()),
    ]
)  # fmt: skip


class Blob(NamedTuple):
    """A row that a cutter gives: events of one source as Arrow bytes, or the latest time of a task."""

    source: str | None
    top: int | None
    now: int | None
    events: bytes | None


@dataclass(frozen=True)
class BucketTask:
    """Runs the step of any bucket.

    Attributes:
        groups: the groups of queries.
        plans: the plan of each group's buckets.
        questions: all queries, with the columns that their matches share.
        keys: the number that stands for each bucket in a shuffle.
        late: the folder for events that are set aside; None: they are only counted.
        shape: the columns of the stream if queries come while it runs, so that matches have one shape.
        history: the events before the stream's first; None: there are none.
        listed: the columns of matches, if rows hold lists of them; None: rows hold blobs of them.
    """

    groups: tuple[StreamGroup, ...]
    plans: tuple[BucketPlan, ...]
    questions: Questions
    keys: tuple[int, ...]
    late: str | None = None
    shape: Schema | None = None
    history: History | None = None
    listed: pa.Schema | None = None

    def run(
        self, key: int, blobs: Iterable[Blob], home: StateHome, stream: str, batch: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the report of one bucket in one batch, then its matches; the state is kept before that.

        Args:
            key: the number that stands for the bucket.
            blobs: the rows of the bucket.
            home: where the state of the bucket rests.
            stream: identifies the streaming query, for the names of files of late events.
            batch: the number of the batch, for errors; None: it is not known.
        """
        number, of = self.keys.index(key), self.group_of(key)
        group = self.groups.index(of)
        plan = self.plans[group]
        mark_step("state about to be read")
        journal = Journal(plan, home, number, of)
        bucket = journal.open()
        before = self._begin(bucket, journal, of)
        evicted = bucket.counts.evicted.totals.total()
        name = f"this batch of bucket {number}" if batch is None else f"batch {batch} of bucket {number}"
        step = bucket.step(replace(_batch_of(blobs, plan.roles.columns), name=name))
        mark_step("stepped")
        aside = [*step.aside, *([_list_refusals(bucket)] if bucket.refused else [])]
        if self.late is not None and aside:
            self._write_aside(aside, stream, f"{journal.manifest.version}-{number}")
        journal.keep(bucket, step.entry)
        mark_step("state written")
        tables = list(self._tables(bucket, [*before, *step.found]))
        evicted = bucket.counts.evicted.totals.total() - evicted
        yield self._report(group, bucket, step, journal, matches=sum(map(len, tables)), evicted=evicted)
        for table in tables:
            if self.listed is None:
                yield self._row(MATCH, payload=to_bytes(table))
            else:
                yield from map(self._list_matches, table.cast(self.listed).combine_chunks().to_batches())

    def group_of(self, key: int) -> StreamGroup:
        """Return the group of queries that a bucket belongs to, given the number that stands for it."""
        number = self.keys.index(key)
        return next(each for each in self.groups if number < each.first + each.buckets)

    def _begin(self, bucket: Bucket, journal: Journal, group: StreamGroup) -> list[Found]:
        """Let a new bucket begin with the history; return the matches in it, if they are asked for."""
        history = self.history
        if history is None or journal.manifest.version:
            return []
        events = history.read(bucket.plan.roles, bucket.reach)
        entry, found = bucket.begin(
            events.filter(pa.array(group.numbers(events) == journal.number)), history.cut
        )
        journal.keep(bucket, entry)
        return found if history.replay else []

    def _report(
        self, group: int, bucket: Bucket, step: BucketStep, journal: Journal, *, matches: int, evicted: int
    ) -> pa.RecordBatch:
        """Return the figures of the bucket and of this batch.

        They come before the matches: a reader with LIMIT stops before the last.
        """
        place = {"bucket": journal.number, "group": group, "state_bytes": journal.manifest.state_bytes}
        detail = {**place, **bucket.figures(), "refused": bucket.refused}
        return self._row(
            REPORT, bucket=journal.number, events=len(step.entry.events), matches=matches,
            aside=sum(map(len, step.aside)), held=len(bucket.held), watermark=bucket.watermark.time,
            state_bytes=journal.manifest.state_bytes, evicted=evicted, detail=json.dumps(detail),
        )  # fmt: skip

    def _tables(self, bucket: Bucket, found: Iterable[Found]) -> Iterator[pa.Table]:
        """Yield matches with the columns that all queries share."""
        names = self.questions.tags
        for name, table in found:
            if self.shape is not None:
                yield to_generic(bucket.asked[name], table, self.shape)
            else:
                number = 0 if names is None else names.index(name)
                yield from self.questions.tag([(number, table)], most=len(table))

    @property
    def output(self) -> pa.Schema:
        """The columns of the rows that the task gives."""
        if self.listed is None:
            return OUTPUT
        matches = pa.list_(pa.struct(list(self.listed)))
        return OUTPUT.set(OUTPUT.get_field_index(PAYLOAD), pa.field(PAYLOAD, matches))

    def _row(self, kind: str, **values: Any) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"kind": kind, **values}], schema=self.output)

    def _list_matches(self, matches: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with a list of matches each; Spark looks at every row of a report, so rows are few."""
        starts = pa.array([*range(0, len(matches), LISTED), len(matches)], pa.int32())
        rows, schema = len(starts) - 1, self.output
        structs = pa.StructArray.from_arrays(matches.columns, fields=list(matches.schema))
        known = {"kind": pa.repeat(MATCH, rows), PAYLOAD: pa.ListArray.from_arrays(starts, structs)}
        columns = [known[each.name] if each.name in known else pa.nulls(rows, each.type) for each in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _write_aside(self, aside: Sequence[pa.Table], stream: str, name: str) -> None:
        """Write the events that were set aside; a repeated batch writes the same file again."""
        assert self.late is not None
        table = pa.concat_tables(aside, promote_options="default")
        with Folder.of(self.late).inside(stream).whole(f"{name}.parquet") as file:
            pq.write_table(table, file)


def _list_refusals(bucket: Bucket) -> pa.Table:
    """Return a row for each change of queries that was refused."""
    rows = len(bucket.refused)
    return pa.table(
        {
            SOURCE: [CONTROL] * rows, WATERMARK: pa.array([bucket.watermark.time] * rows, pa.int64()),
            REASON: ["query"] * rows, "error": bucket.refused,
        }
    )  # fmt: skip


def _batch_of(blobs: Iterable[Blob], columns: pa.Schema) -> MicroBatch:
    """Return blobs as a micro-batch: the same one in a replay, though Spark may change their order."""
    arrivals, now, controls = [], None, list[Control]()
    for blob in sorted(blobs, key=lambda each: (each.source or "", each.events or b"")):
        now = blob.now if blob.now is not None else now
        if blob.source is None:
            continue
        if blob.source == CONTROL and blob.events is not None:
            controls += [Control(**each) for each in json.loads(blob.events)]
            continue
        events = columns.empty_table()
        if blob.events is not None:
            events = pa.ipc.open_stream(pa.py_buffer(blob.events)).read_all()
        arrivals.append(Arrival(blob.source, blob.top, events))
    controls.sort(key=lambda each: (each.name, each.add))  # to replace a query is to remove, then to add it
    return MicroBatch(arrivals, now, controls=controls)


def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the matches in the rows of tasks."""
    for batch in batches:
        for payload in batch.column(0):
            yield from pa.ipc.open_stream(payload.as_buffer()).read_all().to_batches()
