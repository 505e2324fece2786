"""Compaction rewrites what is worth it, vacuum removes what nobody needs, and readers go on."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cerise.cli.main import app
from cerise.errors import StoreError
from cerise.files.delta import LoggedFile
from cerise.store.table import compaction
from cerise.store.table import failpoints as faults
from cerise.store.table.commits import Overtaken
from cerise.store.table.compaction import find_runs
from cerise.store.table.data_file import Writing, data_name, is_fresh, write_file
from cerise.store.table.event_table import EventTable
from cerise.store.table.merging import merge
from cerise.store.table.settings import Settings
from cerise.store.table.snapshot import Snapshot
from tests.support.faults.event_tables import create, events, held, ids, litter, rows_of


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
        made.append(LoggedFile(name, 1, 1, {}, kept, rows, first, last, None, kind != ["foreign"]))
    runs = find_runs(Snapshot(Writing("", "", pa.schema([]), settings), 1, tuple(made)))
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
    assert table.compact() == (now.version, 0, ())
    assert table.verify() == []


def test_merging_holds_few_rows(table: EventTable) -> None:
    for number in range(6):
        table.append(events([6 * n + number for n in range(30)], 100 * number))
    merged = merge(table.snapshot().files, table.writing, least_rows=2)
    pieces = [piece["t"].to_pylist() for piece in merged]
    assert [each for piece in pieces for each in piece] == list(range(180))
    assert max(map(len, pieces)) <= 2 * 6


def test_a_file_that_is_not_in_order_is_not_merged(table: EventTable) -> None:
    table.append(events([1]))
    rows = [{**row, "_seq": {"append": 1, "row": 1}} for row in events([2, 1]).to_pylist()]
    wrong = pa.Table.from_pylist(rows, table.columns)
    table.commit_pieces([write_file([wrong], table.writing, data_name(1, 0, fresh=True), again=None)])
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


@pytest.fixture
def beside() -> Iterator[Callable[[Callable[[str], object]], None]]:
    """Return a function that has something done at every step of a writer, but not while it is being done."""

    def begin(work: Callable[[str], object]) -> None:
        def hook(step: str) -> None:
            faults.hook = None
            work(step)
            faults.hook = hook

        faults.hook = hook

    yield begin
    faults.hook = None


def two_runs(table: EventTable) -> None:
    """Append files that overlap at two times, with a large one between them."""
    for first in (0, 0, 2_000, 2_000):
        table.append(events(range(first, first + 20), first + len(ids(table))))
    table.append(events(range(1_000, 1_032), 5_000))


@pytest.mark.nightly
def test_a_compaction_does_the_runs_that_nobody_touches(table: EventTable, beside) -> None:  # type: ignore[no-untyped-def]
    two_runs(table)
    before, other = sorted(ids(table)), EventTable.open(table.writing.root)
    count = itertools.count(9_000, 20)
    assert len(find_runs(table.snapshot())) == 2

    def work(step: str) -> None:
        if step == "data written":  # the first run is changed again and again
            first = [each for each in other.snapshot().files if (each.first or 0) < 1_000]
            if len(first) > 1:
                compaction._rewrite(first, other.snapshot(), [0.0])
            other.append(events(range(20), next(count)))

    beside(work)
    done = table.compact()
    faults.hook = None
    assert done.files == 2  # of the second run
    assert done.left
    assert all((each.first or 0) < 1_000 for each in table.snapshot().files if each.path in done.left)
    assert [each.first for each in table.snapshot().files].count(2_000) == 1
    assert [each for each in sorted(ids(table)) if each < 9_000] == before
    assert table.verify() == []
    assert table.compact().left == ()


def test_a_compaction_beside_one_who_seals_small_appends(table: EventTable, beside) -> None:  # type: ignore[no-untyped-def]
    """Fresh files are sealed by those who append: after a loss a compaction leaves them to these."""
    two_runs(table)
    table.append(events([2_005] * 3, 700))
    other, count = EventTable.open(table.writing.root), itertools.count(10_000, 10)

    def work(step: str) -> None:
        if step == "data written":
            for _ in range(3):
                other.append(events([2_005] * 4, next(count)))

    beside(work)
    done = table.compact()
    faults.hook = None
    assert done.files >= 4
    assert all(is_fresh(path) or int(path[:16], 16) for path in done.left)
    assert table.verify() == []


def test_what_is_left_is_told_on_the_command_line(table: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(table)

    def overtaken(*_: object) -> int:
        raise Overtaken("x")

    monkeypatch.setattr(compaction, "_rewrite", overtaken)
    told = CliRunner().invoke(app, ["store", "compact", table.writing.root])
    assert told.exit_code == 0
    assert "nothing was done: version 5" in told.output
    assert "4 files left: others were writing meanwhile" in told.output


@pytest.mark.parametrize("harm", [lambda data: data[:-3], lambda data: b"", lambda data: b"x" * len(data)])
def test_a_compaction_mends_a_damaged_synopsis(table: EventTable, harm: Callable[[bytes], bytes]) -> None:
    table = replace(table, uncovered=1)
    for number in range(3):
        table.append(events(range(100 * number, 100 * number + 32), 32 * number))
    folder = Path(table.writing.index_root) / "synopsis"
    for file in folder.iterdir():
        file.write_bytes(harm(file.read_bytes()))
    assert table.verify() != []
    assert table.compact() == (3, 0, ())
    assert table.verify() == []
    assert list(folder.iterdir())


# ---- vacuum


def test_what_was_removed_is_named_once(table: EventTable) -> None:
    for number in range(3):
        table.append(events(range(9), 10 * number))
    table.compact()
    assert len(table.vacuum(0)) == 3
    assert table.vacuum(0) == []


def test_readers_of_an_old_version_go_on(table: EventTable) -> None:
    for number in range(3):
        table.append(events(range(9), 10 * number))
    before, version = ids(table), table.snapshot().version
    table.compact()
    assert table.vacuum(1) == []
    assert ids(table, version) == before
    assert table.load_index(table.snapshot(version)).broken == {}
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
    from cerise.store.table.data_file import AppendPart, write_piece

    table.append(events([1]))
    written = write_piece(events(range(9)), table.writing, AppendPart(table.next_append(), 0, 0))
    folder = Path(table.writing.root)
    for name in ("notes.txt", "others.parquet", "_cerise/index/x.parquet.cix.0a.tmp"):
        (folder / name).write_text("x")
    assert table.vacuum() == []  # somebody may be writing
    past = time.time() - 30 * 86_400
    for file in folder.rglob("*"):
        os.utime(file, (past, past))
    assert table.vacuum() == [written.path, "index/x.parquet.cix.0a.tmp"]
    assert litter(table) == ["notes.txt", "others.parquet"]
    assert ids(table) == [0]


def test_an_index_without_data_goes_at_once(table: EventTable) -> None:
    table.append(events(range(9)))
    orphan = Path(table.writing.index_root) / "index" / f"{data_name(1, 1)}.cix"
    orphan.write_text("x")
    assert table.vacuum() == [f"index/{orphan.name}"]
    assert table.verify() == []


@pytest.mark.parametrize("hours", [-1, 169, "1", None, float("nan"), True])
def test_a_retention_that_cannot_be_kept(table: EventTable, hours: float) -> None:
    with pytest.raises(StoreError, match=f"for {hours!r} hours"):
        table.vacuum(hours)
