"""Delta tables are read without Spark, and refused where reading their files would give wrong events."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cerise.errors import StoreError
from cerise.files import event_files as files
from cerise.files.delta import is_table, read
from cerise.files.lake import NotDirect, open_lake


def events(*numbers: int) -> pa.Table:
    return pa.table({"t": pa.array(numbers, pa.int64()), "k": [f"k{n % 2}" for n in numbers]})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "table", events(1, 2))
    write_deltalake(tmp_path / "table", events(3), mode="append")
    return tmp_path / "table"


def require(table: Path, **protocol: object) -> None:
    """Make a table ask more of its readers."""
    line = json.dumps({"protocol": protocol})
    (table / "_delta_log" / f"{DeltaTable(table).version() + 1:020}.json").write_text(line)


def test_the_newest_version(table: Path) -> None:
    assert is_table(table)
    assert sorted(read(table)["t"].to_pylist()) == [1, 2, 3]
    assert sorted(files.read(table, time="t")["t"].to_pylist()) == [1, 2, 3]


def test_an_earlier_version(table: Path) -> None:
    assert read(table, version=0)["t"].to_pylist() == [1, 2]


def test_rows_come_by_file_name(table: Path) -> None:
    order = sorted(Path(file).name for file in DeltaTable(table).file_uris())
    rows = {
        Path(file).name: pa.parquet.read_table(file)["t"].to_pylist()
        for file in DeltaTable(table).file_uris()
    }
    assert read(table)["t"].to_pylist() == [n for name in order for n in rows[name]]


def test_partition_columns_are_there(tmp_path: Path) -> None:
    write_deltalake(tmp_path, events(1, 2, 3), partition_by=["k"])
    assert sorted(map(tuple, map(dict.values, read(tmp_path).to_pylist()))) == [
        (1, "k1"),
        (2, "k0"),
        (3, "k1"),
    ]


def test_removed_files_are_not_read(table: Path) -> None:
    write_deltalake(table, events(9), mode="overwrite")
    assert read(table)["t"].to_pylist() == [9]


def test_an_empty_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path, events())
    assert read(tmp_path).schema.names == ["t", "k"]


def test_times_without_zone_are_known(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"t": pa.array([1], pa.timestamp("us"))}))
    assert read(tmp_path).schema.field("t").type == pa.timestamp("us")


@pytest.mark.parametrize(
    ("protocol", "named"),
    [
        ({"minReaderVersion": 2, "minWriterVersion": 5}, "columnMapping"),
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["typeWidening"],
                "writerFeatures": ["typeWidening"],
            },
            "typeWidening",
        ),
    ],
)
def test_unknown_features_are_refused(table: Path, protocol: dict[str, object], named: str) -> None:
    require(table, **protocol)
    with pytest.raises(StoreError, match=named) as caught:
        read(table)
    assert "through Spark" in str(caught.value)


def test_a_version_that_is_not_there(table: Path) -> None:
    with pytest.raises(StoreError, match="at version 9"):
        read(table, version=9)


def test_a_log_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(StoreError, match="cannot open the Delta table"):
        read(tmp_path)


def test_a_data_file_that_is_gone(table: Path) -> None:
    next(table.glob("*.parquet")).unlink()
    with pytest.raises(StoreError, match="cannot read a file of"):
        read(table)


def test_a_remote_delta_table_is_not_taken_for_a_folder(table: Path) -> None:
    """Its folder holds files that no version has any more."""
    with pytest.raises(NotDirect, match="is a Delta table"):
        open_lake(table.as_uri())
