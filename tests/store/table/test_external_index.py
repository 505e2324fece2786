"""Tables of others are indexed where they lie, file by file as they appear, and never touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import cerise
from cerise.errors import BindError, DataError, StoreError
from cerise.store.table.event_table import EventTable, index_in_place
from tests.support.faults.deletions import delete, paths
from tests.support.faults.event_tables import create, events


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "lake"
    path.mkdir()
    for number, name in enumerate("ba"):
        pq.write_table(events(range(10), 10 * number), path / f"{name}.parquet", row_group_size=4)
    return path


def index(path: Path, **more: object) -> tuple[int, ...]:
    return tuple(index_in_place(path, "t", "kind", ["x"], **more))  # type: ignore[arg-type]


def content(path: Path) -> dict[str, bytes]:
    return {
        str(each): each.read_bytes()
        for each in path.rglob("*")
        if each.is_file() and "_cerise" not in each.parts
    }


def test_a_folder_of_parquet_files_as_it_grows(folder: Path) -> None:
    before = content(folder)
    assert index(folder) == (2, 0, 0)
    table = EventTable.open(folder)
    assert content(folder) == before
    assert table.verify() == []
    assert [each.about.path for each in table.load_index().synopsis.files] == ["a.parquet", "b.parquet"]
    assert index(folder) == (0, 2, 0)
    pq.write_table(events(range(5), 50), folder / "aa.parquet")
    assert [each.path for each in table.load_index().plain] == ["aa.parquet"]
    assert index(folder) == (1, 2, 0)
    assert [each.about.path for each in table.load_index().synopsis.files] == [
        "a.parquet",
        "aa.parquet",
        "b.parquet",
    ]
    (folder / "b.parquet").unlink()
    pq.write_table(events(range(6), 60), folder / "a.parquet")
    assert list(table.load_index().broken) == ["a.parquet"]
    assert index(folder) == (1, 1, 2)
    assert table.load_index().synopsis.rows == 11
    assert table.verify() == []


def test_a_synopsis_follows_the_order_of_names(folder: Path) -> None:
    index(folder, uncovered=1)
    assert len(list((folder / "_cerise" / "synopsis").iterdir())) == 1
    pq.write_table(events(range(5), 50), folder / "aa.parquet")
    index(folder, uncovered=1)
    found = EventTable.open(folder).load_index().synopsis
    assert [each.about.path for each in found.files] == ["a.parquet", "aa.parquet", "b.parquet"]
    assert found.group("file").tolist() == [0, 0, 0, 1, 2, 2, 2]


def test_one_file(folder: Path) -> None:
    assert index(folder / "a.parquet") == (1, 0, 0)
    table = EventTable.open(folder / "a.parquet")
    assert [each.path for each in table.snapshot().files] == ["a.parquet"]
    assert table.verify() == []
    assert index(folder) == (2, 0, 0)
    assert EventTable.open(folder).info().events == 20


def test_an_index_in_a_folder_of_its_own(folder: Path, tmp_path: Path) -> None:
    index(folder, index_dir=tmp_path / "index")
    assert sorted(each.name for each in folder.iterdir()) == ["a.parquet", "b.parquet"]
    table = EventTable.open(folder, index_dir=tmp_path / "index")
    assert table.verify() == []
    assert table.load_index().plain == ()
    with pytest.raises(StoreError, match="there is no event table"):
        EventTable.open(folder)


def test_folders_of_partitions(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(events(range(6), 10 * day), tmp_path / f"day={day}" / "part.parquet")
    assert tuple(index_in_place(tmp_path, "t", "kind", ["day", "x"])) == (2, 0, 0)
    table = EventTable.open(tmp_path)
    assert table.verify() == []
    assert [each.path for each in table.snapshot().files] == ["day=1/part.parquet", "day=2/part.parquet"]


def test_a_delta_table_of_others(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", events(range(9)), partition_by=["kind"])
    before = content(tmp_path / "t")
    assert index(tmp_path / "t") == (3, 0, 0)
    assert content(tmp_path / "t") == before
    write_deltalake(tmp_path / "t", events([50], 1), mode="append")
    table = EventTable.open(tmp_path / "t")
    assert (len(table.load_index().synopsis.files), len(table.load_index().plain)) == (3, 1)
    assert index(tmp_path / "t") == (1, 3, 0)
    assert table.verify() == []
    assert len(table.snapshot(version=0).files) == 3
    assert (
        DeltaTable(tmp_path / "t").vacuum(0, dry_run=False, enforce_retention_duration=False, full=True) == []
    )
    assert table.load_index().broken == {}


def test_a_column_that_is_added_costs_nothing(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", events(range(9)))
    index(tmp_path / "t")
    more = events([50]).append_column("y", pa.array([1]))
    write_deltalake(tmp_path / "t", more, mode="append", schema_mode="merge")
    assert index(tmp_path / "t") == (1, 1, 0)
    assert EventTable.open(tmp_path / "t").verify() == []


def test_deleted_rows_are_indexed_and_known_as_deleted(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", events(range(9)))
    index(tmp_path / "t")
    delete(tmp_path / "t", {file: [0, 3] for file in paths(tmp_path / "t")})
    assert index(tmp_path / "t") == (0, 1, 0)
    table = EventTable.open(tmp_path / "t")
    (file,) = table.snapshot().files
    assert (file.rows, file.deleted, table.info().events) == (9, 2, 7)
    assert table.load_index().synopsis.rows == 9
    assert table.verify() == []


def test_other_columns_make_another_index(folder: Path) -> None:
    index(folder)
    assert tuple(index_in_place(folder, "t", None, ["id", "x"], key=["kind"])) == (2, 0, 0)
    table = EventTable.open(folder)
    assert table.settings.key == ("kind",)
    assert table.verify() == []
    assert len(list((folder / "_cerise" / "index").iterdir())) == 2


def test_a_damaged_index_is_built_again(folder: Path) -> None:
    index(folder)
    next((folder / "_cerise" / "index").iterdir()).write_bytes(b"no")
    assert index(folder) == (1, 1, 0)
    assert EventTable.open(folder).verify() == []


def test_progress_is_told(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    index(folder, progress=lambda *done: told.append(done))
    assert told == [(1, 2), (2, 2)]


# ---- what is wrong


def test_what_cannot_be_indexed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BindError, match="'nope'"):
        index_in_place(folder, "nope")
    with pytest.raises(StoreError, match="nothing at"):
        index(tmp_path / "nowhere")
    assert not (folder / "_cerise").exists()
    pq.write_table(events([1, None]), folder / "c.parquet")  # type: ignore[list-item]
    with pytest.raises(DataError, match=r"c\.parquet: 1 of 2 events have no time"):
        index(folder)


def test_an_event_table_needs_it_not(tmp_path: Path) -> None:
    create(tmp_path / "t")
    with pytest.raises(StoreError, match="which appends keep up to date"):
        index(tmp_path / "t")


@pytest.mark.parametrize("what", ["append", "compact", "vacuum"])
def test_a_table_of_others_is_theirs_to_change(folder: Path, what: str) -> None:
    index(folder)
    table = EventTable.open(folder)
    with pytest.raises(StoreError, match=r"indexed in place.*\n.*tool that writes it"):
        getattr(table, what)(*([events([1])] if what == "append" else []))


def test_a_table_with_features_that_are_not_known(tmp_path: Path) -> None:
    from tests.files.test_delta import require

    write_deltalake(tmp_path / "t", events([1]))
    require(tmp_path / "t", minReaderVersion=2, minWriterVersion=5)
    with pytest.raises(StoreError, match="columnMapping"):
        index(tmp_path / "t")
    assert not (tmp_path / "t" / "_cerise").exists()
    shutil.rmtree(tmp_path / "t")


def test_a_file_without_events_is_searched(tmp_path: Path) -> None:
    """Its footer has a row group without rows, and its index has none."""
    names = ("t", "kind", "x", "y")
    none = pa.table({name: pa.array([], pa.string() if name == "kind" else pa.int64()) for name in names})
    pq.write_table(none, tmp_path / "a.parquet")
    cerise.index(str(tmp_path), time="t", type="kind", on=["x"])
    found = cerise.Store(str(tmp_path)).find("PATTERN SEQ(A a, B b) WHERE a.x < a.y WITHIN 5")
    assert found.num_rows == 0
