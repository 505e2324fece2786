"""Row groups give their events in stream order, one piece after another."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cerise.engines.limits import Limits
from cerise.events import EventBatch, Schema
from cerise.files import scan
from cerise.files.lake import open_lake
from cerise.plan.slicing import Halo


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_ties_over_the_border_of_row_groups(tmp_path: Path, ordered: bool, shuffled: bool) -> None:
    rng = random.Random(0)
    times = [rng.randrange(20) for _ in range(60)]
    table = pa.table({"t": times if shuffled else sorted(times), "number": rng.sample(range(60), 60)})
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=7)
    lake = open_lake(tmp_path)
    schema = Schema(lake.columns, "t", order=("number",) if ordered else ())
    groups = sorted(lake.list_event_groups(schema, None), key=lambda each: (each.span.first, each.span.last))
    reading = scan.Reading(lake.root, dict(enumerate(lake.files)), schema, ("t", "number"))
    batches = scan.Scan(reading, groups, Limits(scanned_events=1)).events(None, Halo())
    found = pa.concat_tables([batch.table.select(["t", "number"]) for batch in batches])
    assert found.to_pylist() == EventBatch.of(table, schema).table.to_pylist()
