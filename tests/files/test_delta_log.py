"""The log of a store is on the disk before an append returns, and one that is not sound is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import cerise
from cerise.cli.main import app
from cerise.errors import StoreError
from cerise.event_store import Store
from cerise.files import delta_log as log
from cerise.store.table.event_table import EventTable
from tests.support.faults.event_tables import create, events, ids

Harm = Callable[[bytes], bytes]
HARMS: dict[str, Harm] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-20],
    "cut after a line": lambda data: data[: data.index(b"\n")],
    "cut after the last line but one": lambda data: data[: data.rindex(b"\n") + 1],
    "zeros": lambda data: bytes(len(data)),
    "another size": lambda data: data.replace(b'"size":', b'"size":1'),
}


@pytest.fixture
def table(tmp_path: Path) -> EventTable:
    found = create(tmp_path / "table", pool_rows=100)
    for number in range(3):
        found.append(events([number], number))
    return found


def entry(table: EventTable, version: int) -> Path:
    return Path(table.writing.root) / log.LOG / f"{version:020d}.json"


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("version", [2, 3])
def test_an_entry_that_is_not_whole_is_refused_and_reported(
    table: EventTable, version: int, harm: str
) -> None:
    file = entry(table, version)
    before = sorted(Path(table.writing.root).rglob("*"))
    file.write_bytes(HARMS[harm](file.read_bytes()))
    for work in (
        lambda: EventTable.open(table.writing.root),
        table.snapshot,
        lambda: Store(table.writing.root),
        lambda: table.append(events([9], 9)),
        table.compact,
        lambda: table.vacuum(0),
    ):
        with pytest.raises(StoreError, match=rf"is not sound: _delta_log/{file.name} is (empty|cut)"):
            work()
    assert [each.place for each in table.verify()] == [f"_delta_log/{file.name}"]
    assert sorted(Path(table.writing.root).rglob("*")) == before
    told = CliRunner().invoke(app, ["store", "verify", table.writing.root])
    assert told.exit_code != 0


def test_the_hint_can_be_followed(table: EventTable) -> None:
    entry(table, 3).write_bytes(b"")
    with pytest.raises(
        StoreError, match="move it out of _delta_log: the table is then as it was at version 2"
    ):
        table.snapshot()
    entry(table, 3).rename(Path(table.writing.root).with_name("moved"))
    assert ids(table) == [0, 1]
    assert table.append(events([2], 2)) == 3
    assert ids(table) == [0, 1, 2]


def test_entries_that_a_checkpoint_sums_up_stop_vacuum_only(table: EventTable) -> None:
    for number in range(3, 12):
        table.append(events([number], number))
    assert list(entry(table, 0).parent.glob("*.checkpoint.parquet"))
    entry(table, 5).write_bytes(b"")
    assert ids(table) == list(range(12))
    assert table.append(events([12], 12)) == 13
    with pytest.raises(StoreError, match="nothing is removed"):
        table.vacuum(0)
    assert [each.place for each in table.verify()] == [f"_delta_log/{5:020d}.json"]


def test_entries_of_others_need_not_be_signed(table: EventTable) -> None:
    from deltalake import write_deltalake

    rows = pa.Table.from_pylist([{**row, "_seq": None} for row in events([3], 7).to_pylist()], table.columns)
    write_deltalake(table.writing.root, rows, mode="append")
    assert table.info().events == 4
    entry(table, 4).write_bytes(b"\n")
    assert table.info().events == 3  # a version without actions: its writer says no more


def test_entries_that_go_or_cannot_be_read_meanwhile(
    table: EventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(log, "_names", lambda _: [f"{99:020d}.json"])
        assert log.faults(table.writing.root) == []
    entry(table, 99).symlink_to(entry(table, 99))
    (found,) = log.faults(table.writing.root)
    assert found.what.startswith("cannot be read: ")


@pytest.mark.parametrize("rows", [1, 40])
def test_an_append_returns_when_its_entry_is_on_the_disk(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path / "table", pool_rows=10)
    synced: list[tuple[str, int]] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append((path.name, len(list(path.iterdir())) if path.is_dir() else path.stat().st_size))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    for version in range(1, 11):
        synced.clear()
        assert table.append(events(range(rows), version * rows)) == version
        file = entry(table, version)
        assert (file.name, file.stat().st_size) in synced
        at = synced.index((file.name, file.stat().st_size))
        assert (log.LOG, len(list(file.parent.iterdir()))) in synced[at:]  # with the entry in it
        for more in file.parent.glob(f"{version:020d}.checkpoint*"):
            assert (more.name, more.stat().st_size) in synced
    assert list((tmp_path / "table" / log.LOG).glob("*.checkpoint*"))


def test_a_disk_that_does_not_sync_is_told_of(table: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(root: str, version: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(log, "settle", failing)
    with pytest.raises(StoreError, match=r"version 4 .* is committed, but may be lost .*Input/output error"):
        table.append(events([3], 3))
    assert ids(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("version", [-1, 2**63, 2**70, 1.0, "1", True])
def test_what_is_not_a_version(table: EventTable, version: object) -> None:
    with pytest.raises(StoreError, match="is not a version"):
        cerise.count(Store(table.writing.root), "PATTERN SEQ(A a)", version=version)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["o%41x", "a\\b", "%25"])
def test_a_place_that_delta_takes_for_another_is_refused(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    with pytest.raises(StoreError, match="a Delta table cannot lie at"):
        Store.create(place, schema=events([1]), time="t")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["c%", "100 %", "a b", "ü", "a#b?", "x+y", "[1]", "%zz"])
def test_odd_names_of_folders(tmp_path: Path, name: str) -> None:
    store = Store.create(tmp_path / name, schema=events([1]), time="t", type="kind", pool_rows=1)
    store.append(events([1, 2, 3]))
    assert cerise.count(store, "PATTERN SEQ(A a, B b) WITHIN 5") == 1
    assert store.verify() == []
    assert [each.name for each in tmp_path.iterdir()] == [name]
