"""Event tables for tests: events that know who they are, and what a table holds of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.files.folder import Folder
from cerise.store.table.event_table import EventTable
from cerise.store.table.snapshot import Snapshot

SCHEMA = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("x", pa.float64()), ("id", pa.int64())])
Row = dict[str, Any]


def create(path: Path, *, block_rows: int = 4, pool_rows: int = 8, **more: Any) -> EventTable:
    """Make a table of small blocks."""
    return EventTable.create(
        path, SCHEMA, "t", "kind", index=["x"], block_rows=block_rows, pool_rows=pool_rows, **more
    )


def events(times: Sequence[int], first: int = 0) -> pa.Table:
    """Return events at some times, with ids that count from a number."""
    ids = range(first, first + len(times))
    return pa.table(
        {
            "t": times,
            "kind": ["ABC"[n % 3] for n in ids],
            "x": [None if n % 7 == 3 else n / 4 for n in ids],
            "id": ids,
        },
        schema=SCHEMA,
    )


def held(now: Snapshot) -> list[list[Row]]:
    """Return the rows of each file of a version, as they lie in it."""
    folder = Folder.of(now.writing.root)
    return [pq.read_table(folder.path(each.path)).to_pylist() for each in now.files]


def rows_of(now: Snapshot) -> list[Row]:
    """Return the rows of all files of a version."""
    return [row for file in held(now) for row in file]


def ids(table: EventTable, version: int | None = None) -> list[int]:
    """Return the ids of all events in stream order: time, then sequence."""
    rows = rows_of(table.snapshot(version))
    rows.sort(key=lambda row: (row["t"], row["_seq"]["append"], row["_seq"]["row"]))
    return [row["id"] for row in rows]


def litter(table: EventTable) -> list[str]:
    """Return the files in the folders of a table that its newest version does not know."""
    now = table.snapshot()
    data = set(Folder.of(now.writing.root).files()) - {each.path for each in now.files}
    folder = Folder.of(now.writing.index_root)
    index = set(folder.inside("index").files()) - {Path(str(each.index)).name for each in now.sealed}
    drafts = [name for place in (".", "index", "synopsis") for name in folder.inside(place).files()]
    return sorted([*data, *index, *(name for name in drafts if name.endswith(".tmp"))])
