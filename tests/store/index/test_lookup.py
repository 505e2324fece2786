"""Look-ups find exactly the events that pass, and give their values, against a plain loop over the rows."""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerise.errors import PlanError
from cerise.kinds import Kind
from cerise.plan.pushdown import Comparison, Either, Test
from cerise.store.index.file import BrokenIndex
from cerise.store.index.layout import IndexLayout
from cerise.store.index.lookup import Criteria, Index
from tests.store.index.made import index_of

NAN, INF = math.nan, math.inf
COLUMNS = pa.schema(
    [
        ("t", pa.int64()), ("k", pa.string()), ("i", pa.int64()), ("n", pa.int8()), ("f", pa.float64()),
        ("g", pa.float32()), ("b", pa.bool_()), ("s", pa.string()), ("d", pa.decimal128(9, 2)),
        ("ts", pa.timestamp("ns")), ("tz", pa.timestamp("s", "UTC")), ("day", pa.date32()),
        ("c", pa.dictionary(pa.int8(), pa.string())),
    ]
)  # fmt: skip
ATTRIBUTES = tuple(COLUMNS.names[2:])
LAYOUT = IndexLayout(COLUMNS, "t", "k", ATTRIBUTES)
BIG = 2**63 - 1
INTS = [-BIG - 1, BIG, 2**53, 2**53 + 1, -3, -1, 0, 1, 2, 7]
FLOATS = [0.0, -0.0, NAN, INF, -INF, 0.1, 0.25, 1.5, -2.75, 3.0, 1e300, 5e-324]
WORDS = ["", "a", "ab", "b", "ä", "zz", "😀", "Z", "\uffff"]
MOMENTS = [-1_000_000, 0, 1, 999_999, 1_000_000, 5_000_000, 86_400_000_000]
VALUES: dict[str, list[Any]] = {
    "i": INTS, "n": [-128, 127, 0, 1, 5], "f": FLOATS, "g": FLOATS[:10], "b": [True, False], "s": WORDS,
    "d": [Decimal("0.10"), Decimal("-7.25"), Decimal("99.99"), Decimal(0)],
    "ts": [v * 1000 for v in MOMENTS] + [1, -1], "tz": [-1, 0, 1, 5, 86_400], "day": [-1, 0, 1, 19_782],
    "c": WORDS[:4],
}  # fmt: skip
KINDS = {
    "i": (Kind.INT, Kind.FLOAT), "n": (Kind.INT, Kind.FLOAT), "f": (Kind.FLOAT,), "g": (Kind.FLOAT,),
    "b": (Kind.BOOL,), "s": (Kind.STRING,), "d": (Kind.FLOAT,), "ts": (Kind.LOCAL,), "tz": (Kind.INSTANT,),
    "day": (Kind.DATE,), "c": (Kind.STRING,), "t": (Kind.INT, Kind.FLOAT), "k": (Kind.STRING,),
}  # fmt: skip
CONSTANTS: dict[Kind, list[Any]] = {
    Kind.INT: INTS, Kind.FLOAT: [*FLOATS, float(2**53), 9.3e18, -9.3e18, 99.99, 0.5],
    Kind.BOOL: [True, False], Kind.STRING: [*WORDS, "A", "aa", "c"],
    Kind.LOCAL: MOMENTS, Kind.INSTANT: MOMENTS,
    Kind.DATE: [v * 86_400_000_000 for v in (-2, -1, 0, 1, 19_782)],
}  # fmt: skip
OPS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


# ---- the plain loop


def measure(value: Any, kind: Kind) -> Any:
    """Return a value so that it compares as the semantics say."""
    match kind:
        case Kind.FLOAT:
            return (True, 0.0) if math.isnan(float(value)) else (False, float(value))
        case Kind.STRING:
            return value.encode()
    return value


def passes(test: Test, value: Any) -> bool:
    if isinstance(test, Either):
        return any(passes(each, value) for each in test.tests)
    if test.op in ("is null", "is not null"):
        return (value is None) == (test.op == "is null")
    if value is None:
        return False
    left, rights = measure(value, test.kind), [measure(each, test.kind) for each in test.values]
    return left in rights if test.op == "in" else bool(OPS[test.op](left, rights[0]))


def plain(name: str, value: Any) -> Any:
    """Return what a stored value is compared as."""
    scale = {"ts": 1 / 1000, "tz": 1_000_000, "day": 86_400_000_000}
    return value if value is None or name not in scale else value * scale[name]


# ---- random tables


def rows(dice: random.Random) -> list[dict[str, Any]]:
    nulls = {name: dice.choice([0.0, 0.0, 0.3, 1.0]) for name in VALUES}
    known = {name: dice.sample(values, dice.randint(1, len(values))) for name, values in VALUES.items()}
    return [
        {name: None if dice.random() < nulls[name] else dice.choice(known[name]) for name in VALUES}
        | {"t": dice.randint(0, 30), "k": dice.choice(["A", "B", "C", None])}
        for _ in range(dice.choice([0, 1, 5, 70, 200]))
    ]


def table_of(found: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {field.name: _column([row[field.name] for row in found], field.type) for field in COLUMNS}
    )


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_date32(type_):
        return pa.array(values, pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    if pa.types.is_float32(type_):
        return pa.array(values, pa.float64()).cast(type_)
    return pa.array(values, type_)


@st.composite
def comparison(draw: Any, name: str) -> Comparison:
    kind = draw(st.sampled_from(KINDS[name]))
    op = draw(st.sampled_from([*OPS, "in", "is null", "is not null"]))
    count = 0 if op.startswith("is") else draw(st.integers(1, 3)) if op == "in" else 1
    constants = st.sampled_from(CONSTANTS[kind])
    return Comparison((name,), kind, op, tuple(draw(constants) for _ in range(count)))


@st.composite
def one_test(draw: Any) -> Test:
    name = draw(st.sampled_from(list(KINDS)))
    if draw(st.integers(0, 3)):
        return draw(comparison(name))
    return Either((name,), tuple(draw(comparison(name)) for _ in range(2)))


@st.composite
def wanted(draw: Any) -> Criteria:
    types = draw(st.none() | st.lists(st.sampled_from(["A", "B", None, "no such"]), max_size=3))
    tests = draw(st.lists(one_test(), max_size=3))
    return Criteria(None if types is None else tuple(types), tuple(tests))


@st.composite
def intervals(draw: Any) -> tuple[list[int], list[int]] | None:
    if draw(st.booleans()):
        return None
    cuts = sorted(draw(st.sets(st.integers(-2, 33), max_size=8)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    return [low for low, _ in pairs], [high for _, high in pairs]


@st.composite
def cases(draw: Any) -> tuple[Any, ...]:
    dice = random.Random(draw(st.integers(0, 2**32)))
    files = [[rows(dice) for _ in range(dice.randint(1, 2))] for _ in range(dice.randint(0, 2))]
    return files, [draw(wanted()) for _ in range(4)], draw(intervals()), draw(st.booleans())


@settings(max_examples=60, deadline=None)
@given(cases())
def test_look_ups_find_what_a_loop_over_the_rows_finds(case: tuple[Any, ...]) -> None:
    files, asked, within, compress = case
    layout = IndexLayout(COLUMNS, "t", "k", ATTRIBUTES, compress=compress)
    with tempfile.TemporaryDirectory() as folder:
        tables = [[table_of(group) for group in groups] for groups in files]
        index = index_of(Path(folder), tables, layout, mapped=1)
        every = [
            (g, r, row) for g, group in enumerate(chain.from_iterable(files)) for r, row in enumerate(group)
        ]
        for each in asked:
            compare(index, every, each, within)


def compare(index: Index, every: list[Any], asked: Criteria, within: Any) -> None:
    expected = [
        (row["t"], g, r)
        for g, r, row in every
        if (asked.types is None or row["k"] in asked.types)
        and all(passes(test, plain(test.path[0], row32(row)[test.path[0]])) for test in asked.tests)
        and (within is None or any(a <= row["t"] <= b for a, b in zip(*within, strict=True)))
    ]
    found = index.look_up(asked, within)
    groups, at = index.rows(found.places)
    assert sorted(zip(found.times.tolist(), groups.tolist(), at.tolist(), strict=True)) == sorted(expected)
    assert found.times.tolist() == sorted(found.times.tolist())
    inside = list(zip(found.times.tolist(), groups.tolist(), strict=True))
    assert inside == sorted(inside)
    by_place = {(g, r): row for g, r, row in every}
    want = table_of([by_place[place] for place in zip(groups.tolist(), at.tolist(), strict=True)])
    for name in COLUMNS.names:
        column = index.column(name, found.places)
        assert column.type == COLUMNS.field(name).type
        assert repr(column.to_pylist()) == repr(want[name].to_pylist())
    assert index.estimate(asked) >= 0.0


def row32(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its narrow number as it is stored."""
    narrow = row["g"]
    return row | {"g": None if narrow is None else float(np.float32(narrow))}


# ---- single cases


def small(tmp_path: Path, **columns: Any) -> Index:
    table = pa.table(columns)
    return index_of(tmp_path, [[table]], IndexLayout(table.schema, "t", None, tuple(list(columns)[1:])))


def test_times_at_the_ends_of_what_fits(tmp_path: Path) -> None:
    index = small(tmp_path, t=[BIG, -BIG - 1, 0, BIG], x=[-BIG - 1, BIG, None, 0])
    assert index.look_up(Criteria(None)).times.tolist() == [-BIG - 1, 0, BIG, BIG]
    assert index.look_up(Criteria(None), ([0], [BIG])).times.tolist() == [0, BIG, BIG]
    assert index.look_up(Criteria(None), ([-BIG - 1], [-1])).times.tolist() == [-BIG - 1]
    found = index.look_up(Criteria(None, (Comparison(("x",), Kind.INT, ">=", (0,)),)))
    assert index.column("x", found.places).to_pylist() == [BIG, 0]


@pytest.mark.parametrize("apart", [7, 200])  # more intervals than that are judged after other tests
def test_many_intervals_in_one_cluster(tmp_path: Path, apart: int) -> None:
    times = np.sort(np.random.default_rng(0).integers(0, 10_000, 5_000))
    index = small(tmp_path, t=times, x=np.arange(5_000))
    starts = np.arange(0, 10_000, apart)
    found = index.look_up(Criteria(None), (starts, starts + 2))
    assert found.times.tolist() == times[times % apart <= 2].tolist()
    assert index.column("x", found.places).to_pylist() == np.flatnonzero(times % apart <= 2).tolist()


@pytest.mark.parametrize(("mapped", "compress"), [(1, True), (10, True), (10, False)])
def test_files_that_overlap_are_merged_in_the_order_of_row_groups(
    tmp_path: Path, mapped: int, *, compress: bool
) -> None:
    columns = pa.schema([("t", pa.timestamp("ms")), ("k", pa.int16()), ("x", pa.int64())])
    files = [
        [[[5, 5, 6], [1, 1, 1], [0, 1, 2]], [[4], [1], [3]]],
        [[[6, 5, 1], [1, 2, 1], [4, 5, 6]], [[], [], []]],
    ]
    tables = [[pa.table(group, schema=columns) for group in groups] for groups in files]
    index = index_of(tmp_path, tables, IndexLayout(columns, "t", "k", ("x",), compress=compress), mapped)
    found = index.look_up(Criteria((1,)))
    assert found.times.tolist() == [1000, 4000, 5000, 5000, 6000, 6000]
    assert index.column("x", found.places).to_pylist() == [6, 3, 0, 1, 2, 4]
    assert index.column("t", found.places).type == pa.timestamp("ms")
    assert index.column("k", found.places).to_pylist() == [1] * 6
    assert [each.tolist() for each in index.rows(found.places)] == [[2, 1, 0, 0, 0, 2], [2, 0, 0, 1, 2, 0]]
    some = index.look_up(Criteria(None), groups=[2])
    assert index.column("x", some.places).to_pylist() == [6, 5, 4]
    assert index.groups.rows.tolist() == [3, 1, 3, 0]
    assert index.groups.file.tolist() == [0, 0, 1, 1]
    assert index.groups.last.tolist()[:3] == [6000, 4000, 6000]


def test_the_arrival_of_events(tmp_path: Path) -> None:
    arrival = pa.array([{"append": 9, "row": 100 + i} for i in range(4)] + [{"append": 3, "row": -7}])
    table = pa.table({"t": [3, 1, 2, 2, 0], "x": [0, 1, 2, 3, 4], "_seq": arrival})
    index = index_of(tmp_path, [[table]], IndexLayout(table.schema, "t", None, ("x",), sequence=True))
    found = index.look_up(Criteria(None))
    append, row = index.sequence(found.places)
    assert append.tolist() == [3, 9, 9, 9, 9]
    assert row.tolist() == [-7, 101, 102, 103, 100]


def test_clusters_out_of_range_are_not_read(tmp_path: Path) -> None:
    table = pa.table({"t": range(1000), "x": range(1000), "s": [f"w{i:03}" for i in range(1000)]})
    parts = [table.slice(i, 100) for i in range(0, 1000, 100)]
    index = index_of(tmp_path, [parts], IndexLayout(table.schema, "t", None, ("x", "s")))
    tests = (Comparison(("x",), Kind.INT, ">", (849,)), Comparison(("s",), Kind.STRING, "<", ("w950",)))
    assert len(index.look_up(Criteria(None, tests)).times) == 100
    assert (index.counts.considered, index.counts.pruned, index.counts.read) == (10, 8, 2)
    assert len(index.look_up(Criteria(None, tests), ([0], [799])).times) == 0
    assert index.counts.read == 2
    assert index.estimate(Criteria(None, tests[:1])) == pytest.approx(150, rel=0.01)
    assert index.estimate(Criteria(None)) == 1000


def test_what_the_index_does_not_hold(tmp_path: Path) -> None:
    index = small(tmp_path, t=[1], x=[2])
    with pytest.raises(PlanError, match="does not hold 'y'"):
        index.look_up(Criteria(None, (Comparison(("y",), Kind.INT, "=", (1,)),)))
    with pytest.raises(PlanError, match="does not hold 'y'"):
        index.column("y", np.array([0]))
    with pytest.raises(PlanError, match="no type column"):
        index.look_up(Criteria(("A",)))
    with pytest.raises(PlanError, match="no arrival"):
        index.sequence(np.array([0]))


def test_files_are_opened_only_when_events_are_touched(tmp_path: Path) -> None:
    index = small(tmp_path, t=[1, 2, 3], s=["a", "b", "c"])
    test = Comparison(("s",), Kind.STRING, ">", ("a",))
    (tmp_path / "part-0.index").rename(tmp_path / "away")
    assert index.estimate(Criteria(None, (test,))) == pytest.approx(1.9, abs=0.1)
    with pytest.raises(BrokenIndex, match="cannot be read"):
        index.look_up(Criteria(None))
    (tmp_path / "away").rename(tmp_path / "part-0.index")
    assert index.look_up(Criteria(None, (test,))).times.tolist() == [2, 3]
    index.close()
    assert index.look_up(Criteria(None)).times.tolist() == [1, 2, 3]


def test_threads_share_an_index(tmp_path: Path) -> None:
    table = pa.table({"t": range(4_000), "k": ["A", "B"] * 2_000, "x": [i % 97 for i in range(4_000)]})
    parts = [[table.slice(i, 500)] for i in range(0, 4_000, 500)]
    index = index_of(tmp_path, parts, IndexLayout(table.schema, "t", "k", ("x",)), mapped=2)
    asked = [Criteria(("A",), (Comparison(("x",), Kind.INT, "<", (n,)),)) for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(index.look_up, asked))
    for n, events in enumerate(found):
        assert events.times.tolist() == [i for i in range(0, 4_000, 2) if i % 97 < n]
    assert index.counts.read + index.counts.pruned == index.counts.considered


def test_dictionaries_with_more_words_than_a_row_group_had(tmp_path: Path) -> None:
    type_ = pa.dictionary(pa.int8(), pa.string())
    parts = [
        pa.table({"t": range(100), "s": pa.array([f"{n}-{i}" for i in range(100)], type_)}) for n in range(2)
    ]
    index = index_of(tmp_path, [parts], IndexLayout(parts[0].schema, "t", None, ("s",)))
    found = index.column("s", index.look_up(Criteria(None)).places)
    assert sorted(found.to_pylist()) == sorted(f"{n}-{i}" for n in range(2) for i in range(100))
    assert index.column("s", index.look_up(Criteria(None), groups=[1]).places).type == type_


def test_encodings_that_differ_from_block_to_block(tmp_path: Path) -> None:
    values = [[1.0, 2.5], [-0.0, NAN], [1e300, 0.25], [3.125, None]]
    for type_ in (pa.float64(), pa.dictionary(pa.int32(), pa.float64())):
        parts = [pa.table({"t": range(2), "f": _numbers(each, type_)}) for each in values]
        index = index_of(tmp_path, [parts], IndexLayout(parts[0].schema, "t", None, ("f",)))
        found = index.column("f", index.look_up(Criteria(None)).places)
        assert found.type == type_
        assert repr(found.to_pylist()) == repr([each[0] for each in values] + [each[1] for each in values])
        below = index.look_up(Criteria(None, (Comparison(("f",), Kind.FLOAT, "<=", (2.5,)),)))
        assert repr(index.column("f", below.places).to_pylist()) == "[1.0, -0.0, 2.5, 0.25]"


def _numbers(values: list[Any], type_: pa.DataType) -> pa.Array:
    numbers = pa.array(values, pa.float64())
    return numbers.dictionary_encode() if pa.types.is_dictionary(type_) else numbers


def test_dates_as_time(tmp_path: Path) -> None:
    days = [dt.date(2024, 1, 2), dt.date(2024, 1, 1), dt.date(2024, 1, 9)]
    index = small(tmp_path, t=pa.array(days, pa.date32()))
    day = 86_400_000_000
    after = Comparison(("t",), Kind.DATE, ">", (19_723 * day,))
    found = index.look_up(Criteria(None, (after,)))
    assert index.column("t", found.places).to_pylist() == [days[0], days[2]]
