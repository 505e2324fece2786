"""Values and rows read from pages equal those that Arrow reads; unusual pages are left to Arrow."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cerise
from cerise.event_store import Store
from cerise.files import pages
from tests.test_agreement import examples, rows

WIDE = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.one_of(
    st.lists(WIDE, min_size=1, max_size=300),
    st.lists(st.integers(0, 9), min_size=1, max_size=2_000),
    st.tuples(WIDE, st.integers(1, 62), st.integers(0, 2**32)).map(lambda given: walked(*given)),
)


def walked(first: int, width: int, seed: int) -> list[int]:
    """Return numbers whose differences have so many bits, and wrap."""
    steps = np.random.default_rng(seed).integers(-(1 << width), 1 << width, 3_000)
    return (np.cumsum(steps) + np.int64(first)).tolist()  # type: ignore[no-any-return]


def written(column: pa.Array, nullable: bool = True, **how: Any) -> bytes:
    sink = pa.BufferOutputStream()
    schema = pa.schema([pa.field("x", column.type, nullable)])
    settings = {
        "compression": "none", "use_dictionary": False, "column_encoding": {"x": "DELTA_BINARY_PACKED"},
    }  # fmt: skip
    pq.write_table(pa.table([column], schema=schema), sink, **{**settings, **how})
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def opened(content: bytes, group: int = 0, footer: Any = None) -> pages.ColumnPages | None:
    file = pq.ParquetFile(pa.BufferReader(content), metadata=footer)
    kind, described = file.schema_arrow.field(0).type, file.schema.column(0)
    item = pages.item_of(described, kind)
    if item is None:
        return None
    held, optional = memoryview(content), bool(described.max_definition_level)
    chunk = file.metadata.row_group(group).column(0)
    read = lambda start, size: held[start : start + size]  # noqa: E731
    return pages.open_pages(read, chunk, kind, item, optional=optional, summed=True)


def picked(content: bytes, rows: list[int], group: int = 0, footer: Any = None) -> pa.Array | None:
    column = opened(content, group, footer)
    found = None if column is None else column.take(np.array(rows, np.int64))
    return found.dictionary_decode() if found is not None and pa.types.is_dictionary(found.type) else found


@examples(200)
@given(
    NUMBERS, st.lists(st.integers(0, 2**32), max_size=20), st.booleans(), st.sampled_from([64, 900, 1 << 20])
)
def test_packed_differences_at_rows_are_what_arrow_reads(
    numbers: list[int], wanted: list[int], nullable: bool, page_size: int
) -> None:
    content = written(pa.array(numbers, pa.int64()), nullable, data_page_size=page_size, write_batch_size=50)
    rows = sorted(each % len(numbers) for each in wanted)
    found = picked(content, rows)
    assert found is not None
    assert found.to_pylist() == [numbers[row] for row in rows]


KINDS = [
    pa.int32(), pa.uint32(), pa.date32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string(),
    pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"),
]  # fmt: skip
WAYS = [
    {},
    {"data_page_version": "2.0"},
    {"use_dictionary": False},
    {"use_dictionary": False, "data_page_version": "2.0"},
    {"dictionary_pagesize_limit": 200},  # the dictionary is given up, and plain pages follow
    {"write_page_checksum": True},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("packing", ["none", "snappy", "zstd"])
def test_values_at_rows_are_those_that_arrow_reads(
    kind: pa.DataType, way: dict[str, Any], packing: str
) -> None:
    dice = np.random.default_rng(len(str(kind)) + len(str(way)))
    texts = kind == pa.string()
    for share, distinct in ((0.0, 500), (0.0, 1), (0.3, 40), (1.0, 3)):
        numbers = dice.integers(0, distinct, 2_000) ** 2
        values = numbers.astype(str) if texts else numbers.astype(np.int64)
        column = pa.array(values, mask=dice.random(2_000) < share if share else None)
        column = (
            column
            if texts
            else column.cast(pa.int32()).cast(kind)
            if kind == pa.date32()
            else column.cast(kind)
        )
        how = {
            "use_dictionary": True,
            "column_encoding": None,
            "data_page_size": 1_000,
            "write_batch_size": 64,
        }
        content = written(column, compression=packing, **{**how, **way})
        rows = np.flatnonzero(dice.random(2_000) < dice.choice([0.01, 0.5, 1.0])).tolist()
        found = picked(content, rows)
        plain = texts and ("use_dictionary" in way or "dictionary_pagesize_limit" in way)
        if found is None:
            assert plain
        else:
            assert found.to_pylist() == column.take(pa.array(rows, pa.int64())).to_pylist()


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("distinct", [1, 3, 700])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_rows_of_wanted_strings(version: str, distinct: int, share: float) -> None:
    dice = np.random.default_rng(distinct)
    texts = np.sort(dice.integers(0, distinct, 4_000))
    dice.shuffle(texts[1_000:])  # runs, then single codes
    column = pa.array(texts.astype(str), mask=dice.random(4_000) < share if share else None)
    how = {"use_dictionary": True, "column_encoding": None, "data_page_size": 900, "write_batch_size": 100}
    content = written(column, compression="snappy", data_page_version=version, **how)
    wanted = {"0", "2", "77", "none"}
    held = opened(content)
    assert held is not None
    found = held.find_rows(lambda words: np.array([word in wanted for word in words.to_pylist()], np.uint8))
    assert found is not None
    assert found.tolist() == [row for row, text in enumerate(column.to_pylist()) if text in wanted]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_in_several_row_groups(unit: str) -> None:
    times = pa.array(np.arange(1_000) ** 2, pa.timestamp(unit, "UTC"))
    content = written(times, row_group_size=400)
    assert picked(content, [0, 7, 7, 399], group=1) == times.take(pa.array([400, 407, 407, 799]))


@pytest.mark.parametrize(
    ("column", "how"),
    [
        (pa.array([1, None, 3]), {}),  # packed differences with nulls
        (pa.array([1, 2, 3]), {"compression": "brotli"}),
        (pa.array([1.0, 2.0]), {"column_encoding": {"x": "BYTE_STREAM_SPLIT"}}),
        (pa.array([1, 2, 3], pa.int16()), {}),
        (pa.array([True, False]), {"column_encoding": {"x": "PLAIN"}}),
        (pa.array(["a", "b"]), {"column_encoding": {"x": "DELTA_BYTE_ARRAY"}}),
        (pa.array([[1], [2, 3]]), {"column_encoding": {"x.list.element": "PLAIN"}}),
        (pa.array([{"a": 1}]), {"column_encoding": {"x.a": "PLAIN"}}),
    ],
    ids=str,
)
def test_other_columns_are_left_to_arrow(column: pa.Array, how: dict[str, Any]) -> None:
    assert picked(written(column, **how), [0]) is None


@examples(400)
@given(st.integers(0, 2**32), st.integers(0, 255), st.integers(1, 60), st.sampled_from([{}, *WAYS]))
def test_damage_is_never_read_beyond(where: int, byte: int, width: int, way: dict[str, Any]) -> None:
    numbers = walked(5, width, 1)
    how = {"use_dictionary": True, "column_encoding": None, **way} if way else {}
    content = bytearray(written(pa.array(numbers), data_page_size=2_000, write_batch_size=50, **how))
    footer = pq.read_metadata(pa.BufferReader(bytes(content)))
    size = footer.row_group(0).column(0).total_compressed_size
    content[4 + where % size] = byte
    found = picked(bytes(content), [0, 500, 2_999], footer=footer)
    assert found is None or len(found) == 3
    assert picked(bytes(content[: size // 2]), [0, 2_999], footer=footer) is None


@examples(200)
@given(st.integers(0, 2**32), st.integers(0, 255))
def test_damaged_codes_are_never_read_beyond(where: int, byte: int) -> None:
    texts = np.random.default_rng(1).integers(0, 300, 3_000).astype(str)
    how = {"use_dictionary": True, "column_encoding": None}
    content = bytearray(written(pa.array(texts), data_page_size=2_000, write_batch_size=50, **how))
    footer = pq.read_metadata(pa.BufferReader(bytes(content)))
    content[4 + where % footer.row_group(0).column(0).total_compressed_size] = byte
    held = opened(bytes(content), footer=footer)
    found = None if held is None else held.find_rows(lambda words: np.ones(len(words), np.uint8))
    assert found is None or len(found) <= 3_000


def test_a_page_with_another_checksum_is_left_to_arrow() -> None:
    how = {"use_dictionary": False, "column_encoding": None, "write_page_checksum": True}
    content = bytearray(written(pa.array(range(1_000)), **how))
    assert picked(bytes(content), [999]) is not None
    content[5_000] ^= 1
    assert picked(bytes(content), [999]) is None


@pytest.mark.parametrize("nulls", [False, True])
def test_a_store_picks_what_it_has_not_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, nulls: bool
) -> None:
    dice = np.random.default_rng(3)
    jobs = dice.integers(0, 2**40, 400)[dice.integers(0, 400, 40_000)]
    events = pa.table(
        {
            "t": np.sort(dice.integers(0, 10**7, 40_000)),
            "kind": pa.array(np.array(["A", "B", "C"])[dice.choice(3, 40_000, p=[0.01, 0.01, 0.98])]),
            "job": pa.array(jobs, mask=dice.random(40_000) < 0.1 if nulls else None),
            "seen": pa.array(dice.integers(0, 10**15, 40_000), pa.timestamp("us", "UTC")),
        }
    )
    store = Store.create(
        tmp_path / "store", schema=events.schema, time="t", type="kind", block_rows=4_096, pool_rows=1
    )
    store.append(events)
    picks = Counter[bool]()

    take = pages.ColumnPages.take

    def counted(column: pages.ColumnPages, wanted: Any) -> pa.Array | None:
        found = take(column, wanted)
        picks[found is not None] += 1
        return found

    monkeypatch.setattr(pages.ColumnPages, "take", counted)
    query = "PATTERN SEQ(A a, B b) WHERE a.job <= b.job AND a.seen < b.seen WITHIN 20000"
    found = store.find(query)
    assert found.num_rows > 50
    assert rows(found) == rows(cerise.find(events, query, time="t", type="kind"))
    assert picks[True] > 0  # of `seen`, at least
    assert (picks[False] > 0) == nulls


WHOLE = [pa.uint64(), pa.uint32(), pa.int64(), pa.int32(), pa.date32(), pa.timestamp("us", "UTC")]


@pytest.mark.parametrize("kind", WHOLE, ids=str)
def test_whole_numbers_of_every_type_are_written_and_read_back(tmp_path: Path, kind: pa.DataType) -> None:
    top = {"uint64": 2**64 - 1, "uint32": 2**32 - 1}.get(str(kind), 100_000)
    dice = np.random.default_rng(5)
    numbers = [top, None, *(int(each) % (top + 1) for each in dice.integers(0, 2**64 - 1, 500, np.uint64))]
    events = pa.table({"t": range(len(numbers)), "x": pa.array(numbers, kind)})
    store = Store.create(tmp_path / "store", schema=events.schema, time="t", pool_rows=1, block_rows=100)
    store.append(events)
    found = store.find("PATTERN SEQ(a) WITHIN 1 RETURN a.x AS x")
    assert found.column("x").to_pylist() == events.column("x").to_pylist()
