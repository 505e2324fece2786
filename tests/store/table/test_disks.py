"""Disks that are full or may not be written: an error with the cause, and what was changed or was not."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import cerise
from cerise.errors import StoreError
from cerise.files import folder as places
from cerise.store.table import commits
from cerise.store.table.event_table import EventTable, index_in_place
from tests.support.faults.event_tables import create, events, ids, litter


@pytest.fixture
def table(tmp_path: Path) -> EventTable:
    found = create(tmp_path / "table")
    found.append(events(range(20)))
    found.append(events(range(9), 20))
    found.append(events([1, 2], 29))
    return found


@contextmanager
def full(size: int) -> Iterator[None]:
    """Let no file grow beyond some bytes: the kernel refuses to write, to Arrow and to delta-rs alike."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class ReadOnly(pafs.FileSystemHandler):
    """A file system that can only be read."""

    def __init__(self) -> None:
        self.held = pafs.LocalFileSystem()

    def _refuse(self, *_: object, **__: object) -> Any:
        raise OSError(30, "Read-only file system")

    def get_type_name(self) -> str:
        return "local"

    def get_file_info(self, paths: list[str]) -> Any:
        return self.held.get_file_info(paths)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> Any:
        return self.held.get_file_info(selector)

    def open_input_stream(self, path: str) -> Any:
        return self.held.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self.held.open_input_file(path)

    def normalize_path(self, path: str) -> str:
        return path

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = move = _refuse
    copy_file = open_output_stream = open_append_stream = _refuse


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function from which on nothing can be written."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    def begin() -> None:
        of = places.Folder.of

        def closed(root: str | Path) -> places.Folder:
            found = of(root)
            return places.Folder(found.root, found.base, pafs.PyFileSystem(ReadOnly()))

        monkeypatch.setattr(places.Folder, "of", closed)
        monkeypatch.setattr(places.Folder, "local", True)
        monkeypatch.setattr("deltalake.DeltaTable.create_write_transaction", refuse)
        monkeypatch.setattr("deltalake.DeltaTable.create", refuse)
        monkeypatch.setattr(os, "link", refuse)

    return begin


def state(table: EventTable) -> dict[str, int]:
    return {str(each): each.stat().st_size for each in Path(table.writing.root).rglob("*") if each.is_file()}


# ---- full ones


@pytest.mark.parametrize("size", [0, 100, 1_000, 1_500])
@pytest.mark.parametrize("rows", [2, 40])
def test_a_full_disk_while_data_is_written(table: EventTable, size: int, rows: int) -> None:
    before = state(table)
    with full(size), pytest.raises(StoreError, match=r"cannot write .* File too large; nothing of it is in"):
        table.append(events(range(rows), 50))
    assert state(table) == before
    assert table.verify() == []


def test_a_full_disk_while_a_pool_is_sealed_or_compacted(table: EventTable) -> None:
    before = state(table)
    for work in (lambda: table.append(events([1] * 7, 50)), table.compact):
        with full(1_900), pytest.raises(StoreError, match=r"cannot write .* File too large"):
            work()
        assert state(table) == before


def test_a_full_disk_while_the_log_is_written(table: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    before, version = state(table), table.snapshot().version
    written = commits._is_committed

    def limited(*args: Any) -> bool:
        with full(100):
            return written(*args)

    monkeypatch.setattr(commits, "_is_committed", limited)
    for work in (lambda: table.append(events(range(40), 50)), lambda: table.append(events([1], 50))):
        with pytest.raises(StoreError, match=r"cannot commit to .*File too large.*; the table is as it was"):
            work()
        assert table.snapshot().version == version
        assert state(table) == before


def test_a_full_disk_while_a_store_is_created(tmp_path: Path) -> None:
    with full(10), pytest.raises(StoreError, match="File too large; nothing was created"):
        create(tmp_path / "new")
    with full(900), pytest.raises(StoreError, match=r"cannot create a table at .*File too large"):
        create(tmp_path / "new")
    assert create(tmp_path / "new").append(events([1])) == 1


def test_a_full_disk_while_a_table_of_others_is_indexed(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "lake").mkdir()
    pq.write_table(events(range(1_000)), tmp_path / "lake" / "a.parquet")
    with full(1_000), pytest.raises(StoreError, match=r"cannot write the index of a.parquet .*too large"):
        cerise.index(tmp_path / "lake", time="t", type="kind", on=["x"])
    assert not list((tmp_path / "lake" / "_cerise").rglob("*.tmp"))
    assert cerise.index(tmp_path / "lake", time="t", type="kind", on=["x"]).built == 1


# ---- such as may not be written


def test_a_disk_that_may_only_be_read(
    table: EventTable, tmp_path: Path, read_only: Callable[[], None]
) -> None:
    root = Path(table.writing.root)
    table.compact()
    (sealed,) = table.snapshot().sealed
    index = root / "_cerise" / str(sealed.index)
    for number in range(3):
        table.append(events([1], 40 + number))
    before = state(table)
    lake = tmp_path / "lake"
    shutil.copytree(root, lake, ignore=shutil.ignore_patterns("_*"))
    read_only()
    told = "Read-only file system"
    work: dict[str, Callable[[], object]] = {
        r"cannot write .*; nothing of it is in the table": lambda: table.append(events([1], 60)),
        r"cannot write [0-9a-f-]+\.parquet in .*; nothing of it is in the table": table.compact,
        r"cannot remove files of .*; 0 were removed": lambda: table.vacuum(0),
        r"cannot write to .*; nothing was created": lambda: create(tmp_path / "new"),
        r"cannot write to .*; nothing was indexed": lambda: index_in_place(lake, "t", "kind"),
    }
    for match, step in work.items():
        with pytest.raises(StoreError, match=match) as caught:
            step()
        assert told in str(caught.value)
        assert "may" in str(caught.value.hint)
    assert state(table) == before
    assert sorted(ids(table)) == [*range(31), 40, 41, 42]
    index.write_bytes(b"x")
    with pytest.raises(StoreError, match=r"cannot write the index of .* again: .*; it stays as it was"):
        table.compact()


def test_a_log_that_may_not_be_written(table: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(
            "Generic LocalFileSystem error\n   \x1b[31m↳\x1b[0m Unable to open file x\n"
            "  \x1b[31m↳\x1b[0m Permission denied (os error 13)\n"
        )

    monkeypatch.setattr("deltalake.DeltaTable.create_write_transaction", refuse)
    before = state(table)
    with pytest.raises(
        StoreError, match=r"Unable to open file x: Permission denied .*; the table is as it was"
    ):
        table.append(events([1], 60))
    assert state(table) == before
    assert litter(table) == []


def test_events_that_cannot_be_read_on(table: EventTable) -> None:
    schema = events([1]).schema

    def batches(rows: int) -> Iterator[pa.RecordBatch]:
        for number in range(4):
            yield events(range(rows), 50 + 50 * number).to_batches()[0]
        raise pa.ArrowInvalid("the line was cut")

    before = state(table)
    for rows in (2, 50):  # before the first file is written, and after it
        with pytest.raises(StoreError, match=r"cannot be read: .*the line was cut; nothing was appended"):
            table.append(pa.RecordBatchReader.from_batches(schema, batches(rows)))
        assert state(table) == before
