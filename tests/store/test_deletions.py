"""Rows that a Delta table's deletion vectors delete stay deleted, whoever wrote the vectors, and however."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cerise.errors import DataError, StoreError
from cerise.events import Schema
from cerise.files.delta import pad_kept, read
from cerise.files.lake import Lake, open_lake
from cerise.files.reader import Reading
from cerise.files.scan import Scan
from cerise.plan.slicing import Halo
from tests.support.faults.deletions import FEATURE, delete, paths, protocol, write

# Written by Spark 4.2 with Delta 4.4, row groups of 100 rows and a checkpoint every 4 versions; its
# checksums were removed:
#   CREATE TABLE … (t BIGINT, kind STRING, x INT, k STRING) USING delta PARTITIONED BY (k);
#   INSERT INTO … SELECT id, substr('ABC', 1 + id * id % 3, 1), id * 7 % 10, if(id % 2 = 0, 'p', 'q r')
#       FROM range(0, 600), then FROM range(600, 900);
#   DELETE FROM … WHERE x = 3; … WHERE t BETWEEN 150 AND 420; … WHERE t = 890
DELTAS_OWN = Path(__file__).parent / "deleted"


def events(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"t": pa.array(numbers, pa.int64()), "note": [f"note {n}" for n in numbers]})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table of two files with 30 events each, in row groups of 10."""
    path = tmp_path / "table"
    write(path, [events(30, 30), events(0, 30)], group=10)
    return path


def times(path: Path, version: int | None = None) -> list[int]:
    return sorted(read(path, version)["t"].to_pylist())


def all_but(*numbers: int, among: int = 60) -> list[int]:
    return sorted(set(range(among)) - set(numbers))


def delete_times(path: Path, *numbers: int, stored: str = "u") -> None:
    """Delete events of `table` by their times."""
    firsts = {"part-0.parquet": 30, "part-1.parquet": 0}
    rows = {file: [n - at for n in numbers if at <= n < at + 30] for file, at in firsts.items()}
    delete(path, {file: held for file, held in rows.items() if held}, stored)


# ---- whole tables


@pytest.mark.parametrize("stored", ["u", "i", "p"])
def test_deleted_rows_are_not_read(table: Path, stored: str) -> None:
    delete_times(table, 0, 9, 10, 29, 31, stored=stored)
    assert times(table) == all_but(0, 9, 10, 29, 31)
    assert pl.read_delta(str(table))["t"].sort().to_list() == times(table)


def test_what_is_deleted_later_is_added_to_it(table: Path) -> None:
    delete_times(table, 3, 4)
    delete_times(table, 3, 4, 5, 40)
    assert times(table) == all_but(3, 4, 5, 40)
    assert times(table, version=2) == all_but(3, 4)
    assert times(table, version=1) == all_but()


def test_a_table_that_may_delete_and_has_not(table: Path) -> None:
    delete(table, {})
    assert times(table) == all_but()
    assert all(file.kept is None for file in open_lake(table).files)


def test_all_rows_of_a_file(table: Path) -> None:
    delete_times(table, *range(30))
    assert times(table) == list(range(30, 60))
    delete_times(table, *range(30, 60))
    assert read(table).num_rows == open_lake(table).rows == 0


@pytest.mark.parametrize("name", ["a b", "100%", "50%25", "a/b", "é~#?&"])
def test_names_of_every_kind(tmp_path: Path, name: str) -> None:
    path = tmp_path / "100% é#?"
    kinds = pa.array([name] * 10 + ["other"] * 10)
    write_deltalake(path, events(0, 20).append_column("kind", kinds), partition_by=["kind"])
    delete(path, {file: [0, 1] for file in paths(path)})
    assert times(path) == all_but(0, 1, 10, 11, among=20)
    assert open_lake(path).rows == 16
    assert set(read(path)["kind"].to_pylist()) == {name, "other"}


def test_a_link_to_a_table(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delete_times(table, 7)
    (tmp_path / "link").symlink_to(table)
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "link", Path("link"), Path("table")):
        assert times(path) == all_but(7)


# ---- row groups


def lake_times(lake: Lake, **more: object) -> list[int]:
    schema = Schema(lake.columns, "t")
    reading = Reading(lake.root, dict(enumerate(lake.files)), schema, ("t",), **more)  # type: ignore[arg-type]
    groups = sorted(lake.list_event_groups(schema, None), key=lambda each: each.span.first)
    scan = Scan(pickle.loads(pickle.dumps(reading)), groups)
    found = [scan.complete(batch).table for batch in scan.events(None, Halo())]
    assert scan.counts.rows == lake.rows
    whole = pa.concat_tables(found)
    if "note" in whole.column_names:
        assert whole["note"].to_pylist() == [f"note {n}" for n in whole["t"].to_pylist()]
    return whole["t"].to_pylist()


def test_row_groups_count_what_is_left_of_them(table: Path) -> None:
    delete_times(table, 1, 2, *range(10, 20), 59)
    lake = open_lake(table)
    assert lake.rows == 60 - 13
    wanted = lake.list_event_groups(Schema(lake.columns, "t"), None)
    assert sorted((each.span.first, each.span.rows) for each in wanted) == [
        (0, 8), (20, 10), (30, 10), (40, 10), (50, 9),
    ]  # fmt: skip
    assert lake.groups == 6  # the one of which nothing is left is not read
    assert [each.place for each in lake.list_groups()] == sorted(each.place for each in wanted)


def test_columns_that_are_read_later_are_those_of_the_same_rows(table: Path) -> None:
    deleted = (1, 2, *range(10, 20), 35, 59)
    delete_times(table, *deleted)
    assert lake_times(open_lake(table)) == all_but(*deleted)
    assert lake_times(open_lake(table), late=("note",)) == all_but(*deleted)


def test_a_mask_is_sent_without_those_of_other_files(table: Path) -> None:
    delete_times(table, 1, 31)
    assert all(len(pickle.dumps(file)) < 1_000 for file in open_lake(table).files)


def test_deleted_events_need_no_time(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"t": pa.array([1, None, 3, None]), "note": ["note 1"] * 4}))
    (file,) = paths(tmp_path)
    delete(tmp_path, {file: [1, 3]})
    assert lake_times(open_lake(tmp_path)) == [1, 3]
    delete(tmp_path, {file: [1]})
    with pytest.raises(DataError, match=r"\.parquet, row group 0: 1 of 3 events have no time"):
        lake_times(open_lake(tmp_path))


def test_a_vector_that_fits(tmp_path: Path) -> None:
    some = pa.array([True, False])
    assert pad_kept(some, 4, "x").to_pylist() == [True, False, True, True]
    with pytest.raises(StoreError, match="about 2 rows, and the file has 1"):
        pad_kept(some, 1, "x")


# ---- what is wrong


def gone(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20])


def changed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-6] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("damage", [gone, cut, changed])
def test_a_damaged_vector_is_an_error(table: Path, damage: Callable[[Path], None]) -> None:
    delete_times(table, 3)
    damage(next(table.glob("*.bin")))
    for act in (read, open_lake):
        with pytest.raises(StoreError, match="cannot tell which rows of the Delta table"):
            act(table)
    assert times(table, version=1) == all_but()


def test_more_features_than_that_are_refused(table: Path) -> None:
    line = {"protocol": protocol(table, FEATURE, "columnMapping")}
    log = table / "_delta_log" / f"{DeltaTable(table).version() + 1:020}.json"
    log.write_text(json.dumps(line))
    with pytest.raises(StoreError, match="needs reader features columnMapping, which"):
        read(table)


# ---- written by Delta itself


def test_a_table_of_deltas_own() -> None:
    def left(n: int) -> bool:
        return n * 7 % 10 != 3 and not 150 <= n <= 420 and n != 890

    expected = [n for n in range(900) if left(n)]
    assert times(DELTAS_OWN) == lake_times(open_lake(DELTAS_OWN)) == expected
    assert sorted(pa.table(DeltaTable(DELTAS_OWN).scan())["t"].to_pylist()) == expected
    rows = {row["t"]: row for row in read(DELTAS_OWN).to_pylist()}
    assert rows[43] == {"t": 43, "kind": "B", "x": 1, "k": "q r"}
    for version, count in enumerate((0, 600, 900, 810, 566, 565)):
        assert len(times(DELTAS_OWN, version)) == open_lake(DELTAS_OWN, version).rows == count
    assert 420 not in expected
    assert open_lake(DELTAS_OWN).groups == 10
