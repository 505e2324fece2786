"""A filtered read loses no row that matters: it is compared with a whole read that is judged afterwards."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerise.files import footers, lake
from cerise.files.reader import GroupReader, Reading
from cerise.kinds import Kind
from cerise.plan.pushdown import Comparison, Needed, Range
from cerise.plan.router import router_of
from tests.test_agreement import examples

FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 3.0, None]
INTS = [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1, None]
LONG = "x" * 40
TEXTS = ["", "A", "B", "C", LONG + "a", LONG + "b", "é", "longer than eight", None]
COLUMNS = {
    "kind": (pa.string(), TEXTS),
    "word": (pa.large_string(), TEXTS),
    "small": (pa.int32(), INTS),
    "tiny": (pa.int8(), [-128, -1, 0, 1, 2, 3, 127, None]),
    "large": (pa.int64(), [*INTS, 2**63 - 1, -(2**63), 2**53 + 1]),
    "real": (pa.float64(), FLOATS),
    "half": (pa.float32(), FLOATS),
    "flag": (pa.bool_(), [True, False, None]),
    "price": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-3.00"), None]),
    "seconds": (pa.timestamp("s"), [0, 1, 2**31, None]),
    "millis": (pa.timestamp("ms", "UTC"), [-5, 1, 10**12, None]),
    "micros": (pa.timestamp("us"), [-5, 1, 10**15, None]),
    "nanos": (pa.timestamp("ns"), [-5_000, 1_000, 10**18, None]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2020, 1, 1), None]),
    "list": (pa.list_(pa.int32()), [[1, 2], [], None]),
    "place": (pa.struct([("x", pa.int32())]), [{"x": 1}, {"x": None}, None]),
}
TESTED = {
    "kind": Kind.STRING, "word": Kind.STRING, "small": Kind.INT, "tiny": Kind.INT, "large": Kind.INT,
    "real": Kind.FLOAT, "half": Kind.FLOAT, "flag": Kind.BOOL,
}  # fmt: skip
OPS = ("=", "!=", "<", "<=", ">", ">=", "in")
WRITTEN = st.fixed_dictionaries(
    {
        "row_group_size": st.sampled_from([7, 100, 1_000]),
        "data_page_size": st.sampled_from([50, 200, 1 << 20]),
        "write_batch_size": st.sampled_from([4, 16, 1024]),
        "use_dictionary": st.sampled_from([True, False, ["kind", "large"], ["word", "real", "micros"]]),
        "dictionary_pagesize_limit": st.sampled_from([20, 1 << 20]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "compression": st.sampled_from(["none", "snappy", "zstd", "gzip", "brotli"]),
        "write_statistics": st.sampled_from([True, False, ["kind", "small"]]),
        "write_page_checksum": st.booleans(),
        "store_schema": st.booleans(),
    }
)


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    name = draw(st.sampled_from(["kind", "kind", *TESTED]))
    kind, op = TESTED[name], draw(st.sampled_from(OPS))
    known = [each for each in COLUMNS[name][1] if each is not None]
    values = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3 if op == "in" else 1))
    if kind is Kind.FLOAT:
        values = [float(each) for each in values]
    return Comparison((name,), kind, op, tuple(values))


NEEDED = st.lists(st.lists(comparisons(), min_size=1, max_size=3).map(tuple), min_size=1, max_size=4).map(
    tuple
)


def make_table(seed: int) -> pa.Table:
    """Return some hundred rows: runs of equal values, few distinct ones, nulls in all or in few columns."""
    dice = np.random.default_rng(seed)
    rows, nulls = int(dice.choice([1, 30, 300])), dice.random() < 0.7
    columns = {}
    for name, (kind, values) in COLUMNS.items():
        some = values if nulls else [each for each in values if each is not None]
        some = [some[i] for i in dice.permutation(len(some))[: dice.integers(1, len(some) + 1)]]
        drawn = dice.integers(0, len(some), rows)
        drawn = np.sort(drawn) if dice.random() < 0.4 else drawn
        columns[name] = pa.array([some[i] for i in drawn], kind)
    return pa.table(columns)


def fits(test: Comparison, value: Any) -> bool:
    """Whether a value passes a comparison by S4.6: NaN equals itself and is above all; a null passes none."""
    if value is None:
        return False

    def rank(each: Any) -> Any:
        if isinstance(each, float):
            return (1, 0.0) if math.isnan(each) else (0, each)
        return each.encode() if isinstance(each, str) else each

    own, others = rank(value), [rank(each) for each in test.values]
    match test.op:
        case "=" | "in":
            return own in others
        case "!=":
            return bool(own != others[0])
        case "<":
            return bool(own < others[0])
        case "<=":
            return bool(own <= others[0])
        case ">":
            return bool(own > others[0])
    return bool(own >= others[0])


def list_needed(table: pa.Table, wanted: Needed) -> list[int]:
    rows = table.to_pylist()
    return [
        number
        for number, row in enumerate(rows)
        if any(all(fits(test, row[test.path[0]]) for test in tests) for tests in wanted)
    ]


def check(path: Path, wanted: Needed, kept: list[int] | None = None) -> int:
    """Compare a filtered read with the whole table; return how many rows were left out."""
    opened = lake.open_lake(path)
    whole = pq.read_table(path).cast(opened.columns)
    if kept is not None:
        mask = np.isin(np.arange(len(whole)), kept)
        held = lake.File(opened.files[0].path, kept=pa.array(mask))
        opened = lake.lake_of(str(path), [held], opened.columns)
    names = tuple(dict.fromkeys([*opened.columns.names]))
    coded = opened.choose_code_columns(names)
    reading = Reading(str(path), dict(enumerate(opened.files)), opened.columns, names, coded=coded)
    groups, router = opened.list_groups(wanted), router_of(wanted)
    reader, found = GroupReader(reading, groups), []
    sizes = [opened.footers[0].row_group(i).num_rows for i in range(opened.footers[0].num_row_groups)]
    for group in groups:
        table, rows = reader.read_where(group, names, router)
        if len(table):
            first = sum(sizes[: group.number])
            places = first + (np.arange(len(table)) if rows is None else rows)
            assert bool(np.all(np.diff(places) > 0))
            assert len(places) == len(table)
            expected = whole.take(pa.array(places))
            assert [plain(row) for row in table.cast(whole.schema).to_pylist()] == [
                plain(row) for row in expected.to_pylist()
            ]
            found += places.tolist()
    needed = [row for row in list_needed(whole, wanted) if kept is None or row in set(kept)]
    assert set(needed) <= set(found)
    assert kept is None or set(found) <= set(kept)
    return len(whole) - len(found)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Make NaN equal to itself, and tell -0.0 from 0.0."""
    return {name: repr(value) if isinstance(value, float) else value for name, value in row.items()}


@examples(150)
@given(st.integers(0, 2**32), NEEDED, WRITTEN)
def test_a_filtered_read_loses_no_row_that_matters(
    tmp_path_factory: pytest.TempPathFactory, seed: int, wanted: Needed, how: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("filtered") / "events.parquet"
    table = make_table(seed)
    pq.write_table(table, path, coerce_timestamps=None, **how)
    check(path, wanted)
    if seed % 2:
        check(
            path, wanted, kept=np.flatnonzero(np.random.default_rng(seed).random(len(table)) < 0.7).tolist()
        )


def cut(column: Any) -> Range | None:
    """Return statistics as writers give them that cut long strings after 36 characters."""
    found = footers.range_of(column)
    if found is None or not isinstance(found.least, str):
        return found
    return Range(found.least[:36], found.most[:36] + ("y" if len(found.most) > 36 else ""))


@examples(60)
@given(st.integers(0, 2**32), NEEDED)
def test_cut_statistics_lose_no_row_that_matters(
    tmp_path_factory: pytest.TempPathFactory, seed: int, wanted: Needed
) -> None:
    path = tmp_path_factory.mktemp("cut") / "events.parquet"
    pq.write_table(make_table(seed), path, row_group_size=9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lake, "range_of", cut)
        check(path, wanted)


def test_a_filter_leaves_rows_out(tmp_path: Path) -> None:
    kinds = np.random.default_rng(0).choice(["A", "B", "C", "D"], 10_000)
    pq.write_table(pa.table({"kind": kinds, "large": range(10_000)}), tmp_path / "events.parquet")
    one = (Comparison(("kind",), Kind.STRING, "=", ("A",)),)
    both = (Comparison(("kind",), Kind.STRING, "=", ("B",)), Comparison(("large",), Kind.INT, "<", (100,)))
    left = int(np.count_nonzero(kinds == "A")) + int(np.count_nonzero(kinds[:100] == "B"))
    assert check(tmp_path / "events.parquet", (one, both)) == 10_000 - left


def test_a_reader_that_drops_a_row_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"kind": ["A", "B", "A"]}), tmp_path / "events.parquet")
    wanted = ((Comparison(("kind",), Kind.STRING, "=", ("A",)),),)
    read = GroupReader.read_where

    def drop(*given: Any) -> Any:
        table, rows = read(*given)
        return table.slice(1), None if rows is None else rows[1:]

    monkeypatch.setattr(GroupReader, "read_where", drop)
    with pytest.raises(AssertionError):
        check(tmp_path / "events.parquet", wanted)
