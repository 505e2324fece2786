"""The event store in an object store: the same layer reads and writes it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import cerise
from cerise.errors import StoreError
from cerise.indexed import Store
from cerise.store import ways
from tests.object_store import Objects, object_store
from tests.store.test_store_edges import times

QUERY = "PATTERN SEQ(A a, B b) WHERE a.n = 3 AND b.n > 4 AND b.word = 'x' WITHIN 20"


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    monkeypatch.setattr(ways, "WORTH_READING", 2.0)
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


@pytest.mark.timeout(120)
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
    found = Store(path).run_local(QUERY)
    assert found.report.way.query is not None
    assert times(found.matches) == expected
    store.compact()
    assert times(Store(path).find_local(QUERY)) == expected
    assert Store(path).verify() == []
    store.vacuum(0)
    assert times(Store(path).find_local(QUERY)) == expected
    assert all(key.startswith("some/store/") for key in objects.held)


@pytest.mark.timeout(120)
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
