"""The event store in an object store: the same layer reads and writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

import cerise
from cerise.errors import StoreError
from cerise.event_store import Store
from cerise.files import delta
from cerise.files.delta_tail import DeltaTail
from cerise.files.folder import Folder
from cerise.store.index.lookup import Index
from cerise.store.table.batch_table import BatchTable
from cerise.store.table.commits import StreamBatch
from cerise.store.table.data_file import AppendPart
from tests.store.test_store_edges import BY_INDEX, times
from tests.support.faults.object_store import Objects, object_store

QUERY = "PATTERN SEQ(A a, B b) WHERE a.n = 3 AND b.n > 4 AND b.word = 'x' WITHIN 20"


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    with object_store() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def events(first: int, size: int) -> pa.Table:
    numbers = range(first, first + size)
    return pa.table(
        {
            "t": numbers,
            "kind": [("A", "B", "C")[i % 3] for i in numbers],
            "n": [i * 7 % 11 for i in numbers],
            "word": [("x", "y")[i % 2] for i in numbers],
        }
    )


def test_a_store_among_objects(objects: Objects) -> None:
    parts = [events(i * 300, 300) for i in range(4)]
    path = "s3://bucket/some/store"
    store = Store.create(
        path, schema=parts[0].schema, time="t", type="kind", index=["n"], block_rows=64, pool_rows=500
    )
    for part in parts:
        store.append(part)
    expected = times(cerise.find(pa.concat_tables(parts), QUERY, time="t", type="kind"))
    assert expected
    found = cerise.profile(Store(path), QUERY, options=BY_INDEX)
    assert "by index" in found.report.access
    assert times(found.matches) == expected
    store.compact()
    assert times(Store(path).find(QUERY, options=BY_INDEX)) == expected
    assert Store(path).verify() == []
    store.vacuum(0)
    assert times(Store(path).find(QUERY, options=BY_INDEX)) == expected
    assert all(key.startswith("some/store/") for key in objects.held)


def read_of_indexes(objects: Objects) -> int:
    """How many bytes of index files were asked for."""
    ranges = [re.fullmatch(r"GET \S+\.cix bytes=(\d+)-(\d+)", each) for each in objects.asked]
    assert not any(re.fullmatch(r"GET \S+\.cix", each) for each in objects.asked)
    return sum(int(each[2]) - int(each[1]) + 1 for each in ranges if each)


def test_only_what_is_touched_of_an_index_is_read(objects: Objects) -> None:
    table, path = events(0, 12_000), "s3://bucket/store"
    store = Store.create(
        path, schema=table.schema, time="t", type="kind", index=["n", "word"], block_rows=512, pool_rows=1_000
    )
    store.append(table)
    query = "PATTERN SEQ(A a, B b) WHERE a.n = 3 AND a.t < 900 AND b.n > 4 AND b.word = 'x' WITHIN 20"
    expected = times(cerise.find(table, query, time="t", type="kind"))
    size = sum(len(body) for key, body in objects.held.items() if key.endswith(".cix"))
    reader = Store(path)
    view = reader.view_of(None)
    synopsis, folder = view.indexed.synopsis, Folder.of(view.indexed.snapshot.writing.index_root)
    view.index = Index(synopsis, synopsis.layout, folder.system, gap=0)
    later = query.replace("a.t < 900", "a.t > 11900")
    reader.find(later, options=BY_INDEX)  # reads what describes the table, too
    objects.asked.clear()
    assert times(reader.find(query, options=BY_INDEX)) == expected
    first = read_of_indexes(objects)
    assert 0 < first < size / 4
    objects.asked.clear()
    assert times(reader.find(query, options=BY_INDEX)) == expected
    assert read_of_indexes(objects) == 0


def test_what_is_damaged_among_objects_is_read_from_the_data(objects: Objects) -> None:
    table, path = events(0, 2_000), "s3://bucket/store"
    Store.create(
        path, schema=table.schema, time="t", type="kind", index=["n"], block_rows=256, pool_rows=1_000
    ).append(table)
    expected = times(cerise.find(table, QUERY, time="t", type="kind"))
    reader = Store(path)
    for key in [key for key in objects.held if key.endswith(".cix")]:
        body = objects.held[key]
        objects.held[key] = (
            body[:8] + bytes(200) + body[208:]
        )  # of the first clusters; what describes them is whole
    with pytest.warns(UserWarning, match="damaged"):
        assert times(reader.find(QUERY, options=BY_INDEX)) == expected


def test_two_appenders_to_objects_lose_nothing(objects: Objects) -> None:
    path = "s3://bucket/store"
    one = Store.create(path, schema=events(0, 1).schema, time="t", type="kind", index=["n"], block_rows=64)
    other = Store(path)
    one.append(events(0, 100))
    other.append(events(100, 100))  # from an older version
    one.append(events(200, 100))
    assert Store(path).info().events == 300


def test_what_is_not_there_is_said(objects: Objects) -> None:
    with pytest.raises(StoreError):
        Store("s3://bucket/nothing")


@pytest.mark.parametrize("kind", ["table", "store"])
def test_batches_of_a_stream_among_objects(objects: Objects, kind: str) -> None:
    path, parts = "s3://bucket/some/alerts", [events(10 * i, 10) for i in range(3)]
    if kind == "store":
        Store.create(path, schema=parts[0].schema, time="t", type="kind", pool_rows=15)
    table = BatchTable.open(path, None, parts[0].schema)
    for number, part in enumerate(parts):
        batch = StreamBatch("a", number)
        left = table.begin(batch)
        table.write(part, AppendPart(left.append, 0, 0))  # an attempt that came to nothing
        begun = table.begin(batch)
        written = table.write(part, AppendPart(begun.append, 0, 0))
        assert table.commit([written], batch, begun)
        assert table.holds(batch)
        table.seal_if_due()
    tail = DeltaTail(path, parts[0].schema, after=-1)
    found = list(tail.arrivals(tail.start()))
    assert [each.rows for each in found] == [10, 10, 10]
    assert list(tail.arrivals(found[0].after, found[1].after)) == found[1:2]
    live = {f"some/alerts/{each.path}" for each in delta.version_of(path).files}
    data = {key for key in objects.held if key.endswith(".parquet") and "_delta_log" not in key}
    sealed = {each.file.path.removeprefix("bucket/") for each in found} if kind == "store" else set()
    assert data == live | sealed
