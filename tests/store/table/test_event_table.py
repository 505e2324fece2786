"""Event tables: what is appended is there, once, in order, for us and for others."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from cerise.errors import BindError, DataError, StoreError
from cerise.files.delta import read
from cerise.store.table import appending, synopses
from cerise.store.table.append_sources import source_of
from cerise.store.table.data_file import AppendPart, is_fresh, write_piece
from cerise.store.table.event_table import EventTable
from tests.support.faults.event_tables import SCHEMA, create, events, held, ids, litter, rows_of


@pytest.fixture
def table(tmp_path: Path) -> EventTable:
    return create(tmp_path / "table")


# ---- appending


def test_a_new_table_is_empty(table: EventTable) -> None:
    assert table.snapshot().version == 0
    assert ids(table) == []
    assert table.verify() == []
    assert table.info().events == 0
    assert table.load_index().synopsis.rows == 0


def test_events_are_there_after_they_were_appended(table: EventTable) -> None:
    assert table.append(events([5, 3, 4])) == 1
    assert ids(table) == [1, 2, 0]
    assert ids(table, version=0) == []
    assert table.verify() == []


def test_integers_and_times_of_many_values_are_written_as_differences(tmp_path: Path) -> None:
    columns = {"t": range(9_000), "few": [i % 3 for i in range(9_000)], "many": [i * i for i in range(9_000)]}
    made = pa.table({**columns, "kind": ["A"] * 9_000, "none": pa.nulls(9_000, pa.int64())})
    table = EventTable.create(tmp_path / "table", made.schema, "t", "kind", index=[], pool_rows=10)
    table.append(made)
    (file,) = table.snapshot().files
    group = pq.ParquetFile(Path(table.writing.root) / file.path).metadata.row_group(0)
    chunks = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    packed = {name for name, encodings in chunks.items() if "DELTA_BINARY_PACKED" in encodings}
    assert packed == {"t", "many", "_seq.row"}
    assert table.verify() == []


def test_an_empty_append_is_no_version(table: EventTable) -> None:
    assert table.append(events([])) == 0
    assert table.append(events([1]).to_reader()) == 1


def test_small_appends_are_fresh_and_large_ones_sealed(table: EventTable) -> None:
    table.append(events([1, 2, 3]))
    assert [is_fresh(each.path) for each in table.snapshot().files] == [True]
    table.append(events(range(8), 3))
    now = table.snapshot()
    assert [is_fresh(each.path) for each in now.files] == [True, False]
    assert len(table.load_index().synopsis.files) == 1
    assert [each.path for each in table.load_index().plain] == [now.files[0].path]


def test_a_full_pool_is_sealed_in_the_commit_that_fills_it(table: EventTable) -> None:
    for number in range(3):
        assert table.append(events([number] * 3, 3 * number)) == number + 1
    now = table.snapshot()
    assert [(is_fresh(each.path), each.rows) for each in now.files] == [(False, 6), (True, 3)]
    assert ids(table) == list(range(9))
    assert ids(table, version=2) == list(range(6))
    assert table.verify() == []
    log = (Path(table.writing.root) / "_delta_log" / f"{3:020}.json").read_text()
    assert (
        log.count('"dataChange":false') == 3
    )  # what is only moved is no change to those who follow the table
    assert log.count('"dataChange":true') == 1


def test_a_large_append_is_cut_into_files_in_stream_order(table: EventTable) -> None:
    table.append(events([7 * n % 50 for n in range(70)]).to_reader(max_chunksize=9))
    now = table.snapshot()
    assert [each.rows for each in now.files] == [32, 32, 6]
    for file, described in zip(held(now), now.files, strict=True):
        order = [(row["t"], row["_seq"]["row"]) for row in file]
        assert order == sorted(order)
        assert (described.first, described.last) == (order[0][0], order[-1][0])
    assert [row["_seq"]["row"] for row in sorted(rows_of(now), key=lambda row: row["id"])] == list(range(70))
    groups = pq.read_metadata(Path(now.writing.root) / now.files[0].path)
    assert groups.num_row_groups == 8
    assert table.verify() == []


@pytest.mark.parametrize("kind", ["parquet", "delta", "reader", "polars", "batch"])
def test_whatever_speaks_arrow_and_lake_files(table: EventTable, tmp_path: Path, kind: str) -> None:
    given_ = events(range(20))
    if kind == "parquet":
        (tmp_path / "lake").mkdir()
        pq.write_table(given_.slice(0, 9), tmp_path / "lake" / "a.parquet", row_group_size=4)
        pq.write_table(given_.slice(9), tmp_path / "lake" / "b.parquet")
    elif kind == "delta":
        write_deltalake(tmp_path / "lake", given_)
    sources = {
        "reader": given_.to_reader, "polars": lambda: pl.from_arrow(given_),
        "batch": lambda: given_.combine_chunks().to_batches()[0],
    }  # fmt: skip
    table.append(sources[kind]() if kind in sources else str(tmp_path / "lake"))
    assert ids(table) == list(range(20))


def test_order_columns_break_ties_before_arrival_does(tmp_path: Path) -> None:
    table = create(tmp_path / "table", order=["id"])
    table.append(events([1, 1, 2], 10))
    table.append(events([1, 2, 2], 0))
    table.compact()
    assert [row["id"] for row in held(table.snapshot())[0]] == [0, 10, 11, 1, 2, 12]
    assert table.verify() == []


def test_pieces_written_elsewhere_are_committed_as_one(table: EventTable) -> None:
    number = table.next_append()
    writing = pickle.loads(pickle.dumps(table.writing))
    written = [
        write_piece(events([9, 3], 0), writing, AppendPart(number, 0, 0)),
        write_piece(events([1, 3], 2), writing, AppendPart(number, 1, 1 << 40)),
    ]
    written = pickle.loads(pickle.dumps(written))
    assert table.snapshot().version == 0
    assert table.commit_pieces(written) == 1
    assert ids(table) == [2, 1, 3, 0]
    assert table.verify() == []
    assert table.commit_pieces([]) == 1


def test_events_that_take_much_room_are_cut_sooner(table: EventTable) -> None:
    appending.append(source_of(events(range(7))), table.writing, [], piece_bytes=100)
    assert [each.rows for each in table.snapshot().files] == [6, 1]
    assert ids(table) == list(range(7))


def test_appends_grow_also_when_the_clock_goes_back(
    table: EventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(events([1]))
    monkeypatch.setattr("cerise.store.table.data_file.time.time_ns", lambda: 5)
    from cerise.store.table.data_file import newest_append, next_append

    newest = newest_append(each.path for each in table.snapshot().files)
    assert next_append(newest, 7, lambda: 5) == newest + 8
    assert next_append(newest, 7) > newest


# ---- random tables

appended = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, 0, 1])), max_size=9)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.one_of(appended, st.just("compact")), max_size=4), st.integers(2, 4), st.integers(1, 6))
def test_any_appends_and_compactions(tmp_path_factory, steps, block_rows, pool_rows) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("any") / "table"
    schema = pa.schema([("t", pa.int64()), ("o", pa.int64()), ("id", pa.int64())])
    table = EventTable.create(path, schema, "t", order=["o"], block_rows=block_rows, pool_rows=pool_rows)
    expected: list[tuple[int, int, int]] = []
    for step in steps:
        if step == "compact":
            table.compact()
            continue
        rows = [{"t": t, "o": o, "id": len(expected) + n} for n, (t, o) in enumerate(step)]
        table.append(pa.Table.from_pylist(rows, schema))
        expected += map(in_order, rows)
    check_files(table, expected)
    table.compact()
    check_files(table, expected)
    spans = [(file[0]["t"], file[-1]["t"]) for file in held(table.snapshot())]
    assert all(last <= first for (_, last), (first, _) in pairwise(spans))
    assert table.verify() == []
    shutil.rmtree(path)


def in_order(row: dict[str, int | None]) -> tuple[int, int, int]:
    """Return what events are ordered by: ids grow as sequences do, and nulls come first."""
    return row["t"], -1 if row["o"] is None else row["o"], row["id"]  # type: ignore[return-value]


def check_files(table: EventTable, expected: list[tuple[int, int, int]]) -> None:
    rows = [list(map(in_order, file)) for file in held(table.snapshot())]
    assert all(file == sorted(file) for file in rows)
    assert sorted(each for file in rows for each in file) == sorted(expected)


# ---- types


def test_columns_of_every_type(tmp_path: Path) -> None:
    columns = {
        "t": pa.array([dt.datetime(2024, 1, 1, 0, 0, 0, 5), dt.datetime(2024, 1, 1)], pa.timestamp("us")),
        "zoned": pa.array([1, None], pa.timestamp("ms", "Europe/Berlin")),
        "day": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        "day64": pa.array([dt.date(2000, 1, 1), None], pa.date64()),
        "coded": pa.array(["é", None]).dictionary_encode(),
        "large": pa.array(["a" * 50, "b"], pa.large_string()),
        "view": pa.array(["a", None], pa.string_view()),
        "bytes": pa.array([b"ab", None], pa.binary(2)),
        "tiny": pa.array([255, 0], pa.uint8()),
        "huge": pa.array([2**64 - 1, 0], pa.uint64()),
        "half": pa.array([1.5, None], pa.float16()),
        "exact": pa.array([Decimal("1.25"), None], pa.decimal128(12, 2)),
        "flag": pa.array([True, None]),
        "many": pa.array([[1, None], None], pa.list_(pa.int32())),
        "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)),
        "deep": pa.array([{"a": [{"b": "x"}], "c": 1}, None], pa.struct([
            ("a", pa.large_list(pa.struct([("b", pa.large_string())]))), ("c", pa.int8())])),
        "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        "a.b": pa.array([1, 2]),
    }  # fmt: skip
    given_ = pa.table(columns)
    table = EventTable.create(
        tmp_path / "t", given_.schema, "t", "coded", index=["tiny", "zoned", "exact"], pool_rows=2
    )
    table.append(given_)
    assert table.verify() == []
    for found in (read(tmp_path / "t"), DeltaTable(tmp_path / "t").to_pyarrow_table()):
        for name in given_.column_names:
            assert found[name].to_pylist() == given_[name].to_pylist()[::-1], name
    first = pl.read_delta(str(tmp_path / "t")).filter(pl.col("t") > dt.datetime(2024, 1, 1))
    assert first["large"].to_list() == ["a" * 50]


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.time64("us"), pa.null(), pa.decimal256(60, 2)])
def test_a_type_that_delta_has_not(tmp_path: Path, kind: pa.DataType) -> None:
    with pytest.raises(StoreError, match="which Delta tables do not have"):
        EventTable.create(tmp_path / "t", pa.schema([("t", pa.int64()), ("x", kind)]), "t")
    assert not (tmp_path / "t").exists()


def test_times_that_do_not_fit(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.timestamp("ns"))])
    table = EventTable.create(tmp_path / "t", schema, "t")
    table.append(pa.table({"t": pa.array([1000], pa.timestamp("ns"))}))
    with pytest.raises(DataError, match="has values that timestamp"):
        table.append(pa.table({"t": pa.array([1001], pa.timestamp("ns"))}))
    table.append(
        pa.table({"t": pa.array([3_000_000_000_000_000_00], pa.timestamp("us"))})
    )  # beyond the year 9999
    assert table.info().events == 2
    assert table.verify() == []


# ---- other engines


def test_others_read_it_and_skip_by_statistics(table: EventTable) -> None:
    table.append(events(range(20)))
    table.append(events([30, 31], 20))
    table.append(events(range(40, 60), 22))
    delta = DeltaTable(table.writing.root)
    assert sorted(delta.to_pyarrow_table(filters=[("t", ">=", 31)])["id"].to_pylist()) == list(range(21, 42))
    stats = {row["min.t"]: row for row in pa.table(delta.get_add_actions(flatten=True)).to_pylist()}
    assert {low: (row["max.t"], row["num_records"]) for low, row in stats.items()} == {
        0: (19, 20), 30: (31, 2), 40: (59, 20),
    }  # fmt: skip
    assert stats[40]["null_count.x"] == 3
    assert sorted(read(Path(table.writing.root))["id"].to_pylist()) == list(range(42))


def test_a_table_by_its_uri(tmp_path: Path) -> None:
    table = create(f"file://{tmp_path}/table")  # type: ignore[arg-type]
    table.append(events(range(20)))
    table.append(events([3]))
    table.compact()
    assert table.verify() == []
    assert EventTable.open(tmp_path / "table").info().events == 21


def test_a_column_that_another_engine_adds(table: EventTable) -> None:
    from deltalake import Field, Schema

    table.append(events(range(9)))
    table.append(events([3], 9))
    DeltaTable(table.writing.root).alter.add_columns([Field("y", Schema.from_arrow(SCHEMA).fields[0].type)])
    opened = EventTable.open(table.writing.root)
    assert opened.columns.names == [*SCHEMA.names, "_seq", "y"]
    assert {each.what for each in opened.verify()} == {"its index cannot be used: it has other columns"}
    opened.append(events([4], 10).append_column("y", pa.array([7])))
    opened.compact()
    assert opened.verify() == []
    assert [row["y"] for row in rows_of(opened.snapshot())] == [*[None] * 6, 7, *[None] * 4]


# ---- what is wrong


def refused(table: EventTable, given_: object, *words: str) -> None:
    before = table.snapshot().version
    with pytest.raises((StoreError, DataError)) as caught:
        table.append(given_)
    assert all(word in str(caught.value) for word in ("hint:", *words)), caught.value
    assert table.snapshot().version == before
    assert litter(table) == []


def test_columns_that_do_not_fit(table: EventTable) -> None:
    some = events(range(9))
    refused(table, some.drop_columns(["x"]), "no column 'x'")
    refused(table, some.append_column("y", some["x"]), "column 'y' that the table has not")
    refused(table, some.set_column(2, "x", pa.array(["a"] * 9)), "column 'x' has type string", "keeps double")
    refused(table, some.append_column("_seq", some["x"]), "'_seq'")
    refused(table, [1, 2], "a list cannot be appended")
    refused(table, "nowhere", "nothing at nowhere")


def test_narrower_types_and_nulls_fit(table: EventTable) -> None:
    some = events(range(3))
    narrow = some.set_column(0, "t", some["t"].cast(pa.int16())).set_column(2, "x", pa.nulls(3))
    table.append(narrow.select(["id", "x", "kind", "t"]))
    assert [row["x"] for row in held(table.snapshot())[0]] == [None] * 3


def test_null_times_are_named_and_nothing_is_left(table: EventTable) -> None:
    times = [*range(40), None, *range(30)]
    refused(table, events(times), "1 of 32 events have no time", "in rows 40")  # type: ignore[arg-type]
    refused(table, events([1, None]), "in rows 1")  # type: ignore[list-item]


def test_a_source_that_breaks_off_leaves_nothing(table: EventTable) -> None:
    def batches():  # type: ignore[no-untyped-def]
        yield from events(range(70)).to_batches(max_chunksize=35)
        raise pa.ArrowInvalid("the line is dead")

    with pytest.raises(StoreError, match="the line is dead; nothing was appended"):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert litter(table) == []
    assert table.snapshot().version == 0


def test_a_path_that_is_taken(table: EventTable, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"something at .* already"):
        create(tmp_path / "table")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"notes\.txt"):
        create(tmp_path / "other")


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no event table") as caught:
        EventTable.open(tmp_path)
    assert "cerise.Store.create" in str(caught.value)


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BindError, match="'time'"):
        EventTable.create(tmp_path / "t", SCHEMA, "time")
    with pytest.raises(BindError, match="'y'"):
        EventTable.create(tmp_path / "t", SCHEMA, "t", index=["y"])
    with pytest.raises(StoreError, match="block_rows is 0"):
        EventTable.create(tmp_path / "t", SCHEMA, "t", block_rows=0)
    with pytest.raises(StoreError, match="'_seq' is the name"):
        EventTable.create(tmp_path / "t", SCHEMA.append(pa.field("_seq", pa.int64())), "t")
    assert not (tmp_path / "t").exists()


def test_settings_of_a_newer_cerise_and_damaged_ones(table: EventTable) -> None:
    file = Path(table.writing.root) / "_cerise" / "store.json"
    text = file.read_text()
    file.write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(StoreError, match=r"has format 2.*\n.*newer Cerise"):
        EventTable.open(table.writing.root)
    for wrong in (text[:-9], text.replace('"time"', '"tide"'), "[]"):
        file.write_text(wrong)
        with pytest.raises(StoreError, match="is damaged"):
            EventTable.open(table.writing.root)


def test_a_creation_that_was_broken_off(tmp_path: Path) -> None:
    create(tmp_path / "table")
    shutil.rmtree(tmp_path / "table" / "_delta_log")
    with pytest.raises(StoreError, match="creation was broken off"):
        EventTable.open(tmp_path / "table")
    with pytest.raises(StoreError, match="settings of another table"):
        create(tmp_path / "table", block_rows=7)
    create(tmp_path / "table").append(events([1]))


# ---- synopses


def test_a_synopsis_is_saved_when_many_files_are_not_in_it(
    table: EventTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = replace(table, uncovered=2)
    folder = Path(table.writing.root) / "_cerise" / "synopsis"
    for number in range(7):
        table.append(events(range(8), 8 * number))
    assert sorted(each.name for each in folder.iterdir()) == [f"{3:020}", f"{6:020}"]
    assert [each.about.path for each in table.load_index().synopsis.files] == [
        f.path for f in table.snapshot().files
    ]
    assert len(table.load_index(table.snapshot(version=4)).synopsis.files) == 4
    table.vacuum()
    assert [each.name for each in folder.iterdir()] == [f"{6:020}"]

    def no_file(*_: object) -> None:
        raise AssertionError("an index file was opened")

    moved = EventTable.open(shutil.copytree(table.writing.root, tmp_path / "moved"))
    now = moved.snapshot(version=6)
    monkeypatch.setattr(synopses, "IndexFile", no_file)
    assert all(str(tmp_path / "moved") in each.path for each in moved.load_index(now).synopsis.files)
    with pytest.raises(AssertionError, match="was opened"):
        moved.load_index()  # version 7 has a file that the synopsis has not
