"""Compaction rewrites what is worth it, vacuum removes what nobody needs, and readers go on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cerise.errors import StoreError
from cerise.store.event_table import EventTable
from cerise.store.table import HeldFile
from cerise.store.upkeep.compaction import worth_rewriting
from cerise.store.upkeep.merging import merged
from cerise.store.writing.pieces import Writing, data_name
from cerise.store.writing.settings import Settings
from cerise.store.writing.snapshots import Snapshot, StoreFile
from tests.event_tables import create, events, held, ids, litter, rows_of


@pytest.fixture
def table(tmp_path: Path) -> EventTable:
    return create(tmp_path / "table")


# ---- which files


def chosen(*files: tuple[int, int, int] | tuple[int, int, int, str]) -> list[list[int]]:
    """Return which files are rewritten together, of files given by first time, last time, rows and kind."""
    settings = Settings("t", block_rows=4)  # files of 32
    made = []
    for number, (first, last, rows, *kind) in enumerate(files):
        name = data_name(number, number, fresh=kind == ["fresh"])
        kept = pa.array([False]) if kind == ["deleted"] else None
        made.append(StoreFile(HeldFile(name, 1, 1, {}, kept, rows, first, last), None, kind != ["foreign"]))
    runs = worth_rewriting(Snapshot(Writing("", "", pa.schema([]), settings), 1, tuple(made)))
    return [[made.index(file) for file in run] for run in runs]


def test_large_files_in_order_are_left_alone() -> None:
    assert chosen() == []
    assert chosen((0, 9, 32), (9, 20, 32), (21, 30, 16)) == []


def test_overlapping_files_are_merged() -> None:
    assert chosen((0, 10, 32), (9, 20, 32), (20, 30, 32)) == [[0, 1]]
    assert chosen((0, 100, 32), (5, 6, 32), (7, 8, 32), (100, 101, 32)) == [[0, 1, 2]]
    assert chosen((20, 29, 32), (0, 9, 32), (5, 19, 32)) == [[1, 2]]


def test_small_neighbours_are_merged_and_a_single_one_is_not() -> None:
    assert chosen((0, 1, 5), (2, 3, 5), (4, 9, 32), (10, 11, 5), (12, 19, 32)) == [[0, 1]]


def test_fresh_files_are_always_sealed() -> None:
    assert chosen((0, 9, 32), (10, 11, 1, "fresh"), (12, 19, 32)) == [[1]]
    assert chosen((0, 9, 32), (5, 5, 1, "fresh"), (12, 19, 32)) == [[0, 1]]


def test_files_of_others_and_with_deleted_rows_are_left_alone() -> None:
    assert chosen((0, 9, 5), (0, 9, 5, "foreign"), (0, 9, 5, "deleted")) == []


# ---- compaction


def test_compaction_keeps_events_and_sequences(table: EventTable) -> None:
    for number in range(5):
        table.append(events([(7 * n + number) % 40 for n in range(15 * number + 3)], 100 * number))
    rows = sorted(rows_of(table.snapshot()), key=lambda row: row["id"])
    table.compact()
    now = table.snapshot()
    assert sorted(rows_of(now), key=lambda row: row["id"]) == rows
    assert [each.rows for each in now.files] == [32, 32, 32, 32, 32, 5]
    order = [(row["t"], row["_seq"]["append"], row["_seq"]["row"]) for file in held(now) for row in file]
    assert order == sorted(order)
    assert table.compact() == now.version
    assert table.verify() == []


def test_merging_holds_few_rows(table: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerise.store.upkeep.merging.LEAST_ROWS", 2)
    for number in range(6):
        table.append(events([6 * n + number for n in range(30)], 100 * number))
    pieces = [piece["t"].to_pylist() for piece in merged(table.snapshot().files, table.writing)]
    assert [each for piece in pieces for each in piece] == list(range(180))
    assert max(map(len, pieces)) <= 2 * 6


def test_a_file_that_is_not_in_order_is_not_merged(table: EventTable) -> None:
    table.append(events([1]))
    table.append(events([2]))
    first = Path(table.writing.root) / table.snapshot().files[0].path
    rows = [{**row, "_seq": {"append": 1, "row": 1}} for row in events([2, 1]).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.columns), first)
    with pytest.raises(StoreError, match="is not in the order of time"):
        table.compact()
    assert len(litter(table)) == 0


def test_progress_is_told(table: EventTable) -> None:
    told: list[tuple[int, int]] = []
    table.append(events(range(9)))
    table.append(events(range(9)))
    table.compact(progress=lambda *done: told.append(done))
    table.verify(progress=lambda *done: told.append(done))
    assert told == [(1, 1), (1, 1)]


# ---- vacuum


def test_readers_of_an_old_version_go_on(table: EventTable) -> None:
    for number in range(3):
        table.append(events(range(9), 10 * number))
    before, version = ids(table), table.snapshot().version
    table.compact()
    assert table.vacuum(1) == []
    assert ids(table, version) == before
    assert table.indexed(table.snapshot(version)).broken == {}
    gone = table.vacuum(0)
    assert len(gone) == 3
    assert litter(table) == []
    assert ids(table) == before
    with pytest.raises(FileNotFoundError):
        ids(table, version)


def test_the_log_may_be_summed_up_meanwhile(tmp_path: Path) -> None:
    table = create(tmp_path / "table", pool_rows=1000)
    for number in range(4):
        table.append(events([number], number))
    table.compact()
    for number in range(12):
        table.append(events([number], 10 + number))
    assert list((tmp_path / "table" / "_delta_log").glob("*.checkpoint.parquet"))
    assert table.vacuum(1) == []
    assert ids(table, version=4) == [0, 1, 2, 3]
    assert (table.info().events, table.info().first, table.info().last) == (16, 0, 11)
    assert len(table.vacuum(0)) == 4
    assert table.verify() == []


def test_what_was_never_committed_goes_when_it_is_old(table: EventTable) -> None:
    from cerise.store.writing.pieces import Part, write_piece

    table.append(events([1]))
    written = write_piece(events(range(9)), table.writing, Part(table.next_append(), 0, 0))
    folder = Path(table.writing.root)
    for name in ("notes.txt", "others.parquet", "_cerise/index/x.parquet.cix.0a.tmp"):
        (folder / name).write_text("x")
    assert table.vacuum() == []  # somebody may be writing
    past = time.time() - 30 * 86_400
    for file in folder.rglob("*"):
        os.utime(file, (past, past))
    assert table.vacuum() == [written.file.path, "index/x.parquet.cix.0a.tmp"]
    assert litter(table) == ["notes.txt", "others.parquet"]
    assert ids(table) == [0]


def test_an_index_without_data_goes_at_once(table: EventTable) -> None:
    table.append(events(range(9)))
    orphan = Path(table.writing.index_root) / "index" / f"{data_name(1, 1)}.cix"
    orphan.write_text("x")
    assert table.vacuum() == [f"index/{orphan.name}"]
    assert table.verify() == []


@pytest.mark.parametrize("hours", [-1, 169])
def test_a_retention_that_cannot_be_kept(table: EventTable, hours: int) -> None:
    with pytest.raises(StoreError, match=f"for {hours} hours"):
        table.vacuum(hours)
