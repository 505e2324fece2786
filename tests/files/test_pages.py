"""Integers picked from pages of Parquet columns are those that Arrow reads; what is odd is left to it."""

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


def picked(content: bytes, rows: list[int], group: int = 0, footer: Any = None) -> pa.Array | None:
    file = pq.ParquetFile(pa.BufferReader(content), metadata=footer)
    chunk, kind = file.metadata.row_group(group).column(0), file.schema_arrow.field(0).type
    held = memoryview(content)
    read = lambda start, size: held[start : start + size]  # noqa: E731
    return pages.pick(read, chunk, file.schema.column(0), kind, np.array(rows, np.int64))


@examples(200)
@given(
    NUMBERS, st.lists(st.integers(0, 2**32), max_size=20), st.booleans(), st.sampled_from([64, 900, 1 << 20])
)
def test_what_is_picked_is_what_arrow_reads(
    numbers: list[int], wanted: list[int], nullable: bool, page_size: int
) -> None:
    content = written(pa.array(numbers, pa.int64()), nullable, data_page_size=page_size, write_batch_size=50)
    rows = sorted(each % len(numbers) for each in wanted)
    found = picked(content, rows)
    if found is None:  # more pages than there is room for, or too little to look at
        assert page_size < 1_000 or len(numbers) < 8
    else:
        assert found.to_pylist() == [numbers[row] for row in rows]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_in_several_row_groups(unit: str) -> None:
    times = pa.array(np.arange(1_000) ** 2, pa.timestamp(unit, "UTC"))
    content = written(times, row_group_size=400)
    assert picked(content, [0, 7, 7, 399], group=1) == times.take(pa.array([400, 407, 407, 799]))


@pytest.mark.parametrize(
    ("column", "how"),
    [
        (pa.array([1, None, 3]), {}),
        (pa.array([1, 2, 3]), {"compression": "zstd"}),
        (pa.array([1, 2, 3]), {"data_page_version": "2.0"}),
        (pa.array([1, 2, 3]), {"column_encoding": {"x": "PLAIN"}}),
        (pa.array([1, 2, 3]), {"use_dictionary": True, "column_encoding": None}),
        (pa.array([1, 2, 3]), {"write_statistics": False}),
        (pa.array([1, 2, 3], pa.int32()), {}),
        (pa.array([1, 2, 3], pa.uint64()), {}),
    ],
)
def test_other_columns_are_left_to_arrow(column: pa.Array, how: dict[str, Any]) -> None:
    assert picked(written(column, **how), [0]) is None


@examples(300)
@given(st.integers(0, 2**32), st.integers(0, 255), st.integers(1, 60))
def test_damage_is_never_read_beyond(where: int, byte: int, width: int) -> None:
    numbers = walked(5, width, 1)
    content = bytearray(written(pa.array(numbers), data_page_size=2_000, write_batch_size=50))
    footer = pq.read_metadata(pa.BufferReader(bytes(content)))
    size = footer.row_group(0).column(0).total_compressed_size
    content[4 + where % size] = byte
    found = picked(bytes(content), [0, 500, 2_999], footer=footer)
    assert found is None or len(found) == 3
    assert picked(bytes(content[: size // 2]), [0], footer=footer) is None


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

    pick = pages.pick

    def counted(*args: Any) -> pa.Array | None:
        found = pick(*args)
        picks[found is not None] += 1
        return found

    monkeypatch.setattr(pages, "pick", counted)
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
