"""The event store at the edges of types and times: what it finds is what is found in the same table."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.errors import StoreError
from cerise.event_store import Store

MOST = 2**63 - 1
BY_INDEX = Options(limits=Limits(kept_share=1))  # however many events fit a variable


def stored(folder: Path, *tables: pa.Table, schema: pa.Schema | None = None, **more: Any) -> Store:
    store = Store.create(
        folder / "store",
        **{
            "schema": schema or tables[0].schema,
            "time": "t",
            "type": "kind",
            "block_rows": 16,
            "pool_rows": 1,
        }
        | more,
    )
    for table in tables:
        store.append(table)
    return store


def same(store: Store, whole: pa.Table, query: str) -> int:
    """Check that a query finds in the store what it finds in the table, by its index; return how often."""
    found = cerise.profile(store, query, options=BY_INDEX)
    assert "by index" in found.report.access, "the index was not asked"
    expected = cerise.find(whole, query, time="t", type="kind")
    assert times(found.matches) == times(expected)
    return len(expected)


def times(matches: pa.Table) -> Counter[str]:
    spans = matches.select(["first_time", "last_time"]).to_pylist()
    return Counter(str(tuple(row.values())) for row in spans)


def test_dictionaries_beside_plain_strings(tmp_path: Path) -> None:
    """The same column comes as words, as a dictionary, and as one with other words and nulls."""
    words = [("x", "y", None, "z", "x")[i % 5] for i in range(48)]
    kinds = ["A", "B", "C"] * 16
    plain = pa.table({"t": range(48), "kind": kinds, "word": words})
    coded = pa.table({
        "t": range(48, 96), "kind": pa.array(kinds).dictionary_encode(),
        "word": pa.array(words[::-1]).dictionary_encode(),
    })  # fmt: skip
    other = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1] * 12, pa.int8()), ["q", "é", "x"])
    third = pa.table({"t": range(96, 144), "kind": kinds, "word": other})
    store = stored(tmp_path, plain, coded, third, index=["word"])
    whole = pa.concat_tables([each.cast(plain.schema) for each in (plain, coded, third)])
    query = "PATTERN SEQ(A a, B b) WHERE a.word = 'x' AND b.word {} WITHIN 9"
    for asked in ("= 'y'", "IN ('q', 'z')", "IS NULL", "> 'x'", "<> 'y'", "= 'nowhere'"):
        count = same(store, whole, query.format(asked))
        assert (count == 0) == (asked == "= 'nowhere'")


@pytest.mark.parametrize("op", ["=", "<", "<=", ">", ">=", "<>"])
def test_integers_compared_with_doubles_where_doubles_skip_some(op: str, tmp_path: Path) -> None:
    """2^53 and 2^53 + 1 are one double: doubles are compared (S4.6), and the index must not know better."""
    near = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, -(2**53), MOST, -MOST - 1, None, 0]
    table = pa.table({"t": range(40), "kind": ["A", "B"] * 20, "n": pa.array(near * 4, pa.int64())})
    store = stored(tmp_path, table, index=["n"])
    total = 0
    for value in (
        "9007199254740992.0",
        "9007199254740993.0",
        "-9007199254740992.0",
        "9.3e18",
        "-1e300",
        "0.5",
    ):
        total += same(
            store, table, f"PATTERN SEQ(A a, B b) WHERE a.n {op} {value} AND b.n IS NOT NULL WITHIN 5"
        )
    assert total > 0


@pytest.mark.parametrize("within", [1, 10, 2**62, MOST - 1, MOST])
def test_windows_and_times_near_the_largest_number(within: int, tmp_path: Path) -> None:
    moments = [-MOST - 1, -MOST, -5, 0, 7, MOST - 11, MOST - 10, MOST - 1, MOST]
    table = pa.table({
        "t": pa.array(np.repeat(np.array(moments, np.int64), 2)), "kind": ["A", "B"] * 9, "n": [1] * 18,
    })  # fmt: skip
    store = stored(tmp_path, table, index=["n"], block_rows=4)
    assert same(store, table, f"PATTERN SEQ(A a, B b) WHERE a.n = 1 AND b.n = 1 WITHIN {within}") >= 9


def test_one_store_is_asked_by_several_threads(tmp_path: Path) -> None:
    """The events that are not sealed yet are read once, and shared."""
    tables = [
        pa.table({"t": range(i, 400, 8), "kind": ["A", "B"] * 25, "n": [(i * k) % 7 for k in range(50)]})
        for i in range(8)
    ]
    store = stored(tmp_path, *tables, index=["n"], pool_rows=300)
    whole = pa.concat_tables(tables)
    queries = [f"PATTERN SEQ(A a, B b) WHERE a.n = {n} AND b.n > a.n WITHIN 6" for n in range(6)] * 4
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda query: times(store.find(query, options=BY_INDEX)), queries))
    expected = [times(cerise.find(whole, query, time="t", type="kind")) for query in queries]
    assert found == expected
    assert sum(map(len, expected)) > 20


# ---- names and settings


NAMES = ("at.t", "of.kind", "n.o", "x", "x.y", ".", "a..b", "s")


def test_names_with_dots(tmp_path: Path) -> None:
    size = 400
    columns = [
        pa.array(range(size)), pa.array(["A", "B"] * (size // 2)), pa.array([i % 7 for i in range(size)]),
        pa.array([i / 4 for i in range(size)]), pa.array([i * 2**20 + i**3 for i in range(size)]),
        pa.array([f"w{i}" for i in range(size)]), pa.array([None, 1] * (size // 2)),
        pa.array([{"a": i, "b.c": str(i)} for i in range(size)]),
    ]  # fmt: skip
    table = pa.table(dict(zip(NAMES, columns, strict=True)))
    store = Store.create(
        tmp_path / "store", schema=table, time="at.t", type="of.kind", index=["n.o", "."], block_rows=64,
        pool_rows=30,
    )  # fmt: skip
    for start in range(0, size, 100):
        store.append(table.slice(start, 100))
    store.append(table.slice(size - 9))
    whole = pa.concat_tables([table, table.slice(size - 9)])
    shown = ", ".join(f'a."{name}" AS c{i}' for i, name in enumerate(NAMES[:-1]))
    for query in (
        f'PATTERN SEQ(A a, B b) WHERE a."n.o" = 3 AND b."." <> \'w5\' WITHIN 3 RETURN {shown}',
        f'PATTERN SEQ(a, b) WHERE a."x.y" < b.x * 99999999 AND a.s.a > 3 WITHIN 2 RETURN {shown}',
    ):
        expected = cerise.find(whole, query, time="at.t", type="of.kind")
        found = store.find(query, options=BY_INDEX)
        assert len(expected) > 9
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
        assert cerise.count(store, query, options=BY_INDEX) == len(expected)
    store.compact()
    assert store.verify() == []
    assert store.info().last == size - 1


def test_names_that_parquet_cannot_tell_apart(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.int64()), ("a.b", pa.int64()), ("a", pa.struct([("b", pa.string())]))])
    with pytest.raises(StoreError, match=r"two columns are called a\.b in Parquet files"):
        Store.create(tmp_path / "store", schema=schema, time="t")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["block_rows", "pool_rows"])
@pytest.mark.parametrize("rows", ["9", 1.5, 0, -1, 2**31, None, True])
def test_rows_that_are_not_a_number(tmp_path: Path, name: str, rows: object) -> None:
    with pytest.raises(StoreError, match=f"{name} is {rows!r}"):
        Store.create(tmp_path / "store", schema=pa.schema([("t", pa.int64())]), time="t", **{name: rows})
    assert not (tmp_path / "store").exists()


def test_integers_of_pandas_with_nulls(tmp_path: Path) -> None:
    import pandas as pd

    schema = pa.schema([("t", pa.int64()), ("n", pa.int64())])
    store = Store.create(tmp_path / "store", schema=schema, time="t")
    frame = pd.DataFrame({"t": [1, 2], "n": [5, None]})
    with pytest.raises(StoreError, match=r"df\.astype\({'n': 'Int64'}\)"):
        store.append(frame)
    store.append(frame.astype({"n": "Int64"}))
    found = store.find("PATTERN SEQ(a) WITHIN 1 RETURN a.n AS n", options=BY_INDEX)
    assert found["n"].to_pylist() == [5, None]
