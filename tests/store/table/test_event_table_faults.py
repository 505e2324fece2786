"""Whatever happens to its writers and its index files, an event table is at one version or the next."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cerise.errors import StoreError
from cerise.files.delta import read
from cerise.store.table import failpoints as faults
from cerise.store.table.commits import Change, NotCommitted, Overtaken, commit
from cerise.store.table.compaction import find_runs
from cerise.store.table.data_file import (
    AppendPart,
    Written,
    data_name,
    write_file,
    write_its_index,
    write_piece,
)
from cerise.store.table.event_table import EventTable
from tests.support.faults.deletions import delete, paths
from tests.support.faults.event_tables import create, events, held, ids, litter

ROOT = Path(__file__).parents[3]
SCENARIOS = ("create", "small", "large", "seal", "compact", "vacuum")


def killing(what: str, folder: Path) -> None:
    program = [sys.executable, str(Path(__file__).with_name("killing.py")), what, str(folder)]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        program,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with what writers have left that were killed at each of their steps."""
    folder = tmp_path_factory.mktemp("killed")
    killing("kill", folder)
    return folder


@pytest.fixture
def table(tmp_path: Path) -> EventTable:
    return create(tmp_path / "table")


@pytest.fixture
def at_step() -> Iterator[Callable[[str, Callable[[], object]], None]]:
    """Return a function that has something done once when a writer reaches a step."""

    def set_hook(step: str, work: Callable[[], object]) -> None:
        def hook(reached: str) -> None:
            if reached == step:
                faults.hook = None
                work()

        faults.hook = hook

    yield set_hook
    faults.hook = None


def expected(scenario: str, version: int) -> list[int]:
    """Return the ids that a table of `killing` has after a scenario, if it was done, and before."""
    fresh = [0, 1, 2, 3, 4]
    done = {
        "small": (1, [], [100, 101]),
        "large": (3, fresh, range(100, 137)),
        "seal": (3, fresh, range(100, 106)),
    }
    if scenario == "create":
        return []
    if scenario in done:
        first, before, more = done[scenario]
        return sorted([*before, *(more if version >= first else [])])
    return list(range(29))


# ---- writers that are killed


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_killed_writer_leaves_one_version_or_the_next(killed: Path, scenario: str) -> None:
    steps = sorted(each for each in (killed / scenario).iterdir() if each.name != "before")
    assert len(steps) > {"create": 1, "small": 3, "large": 10, "seal": 7, "compact": 6, "vacuum": 4}[scenario]
    versions = []
    for step in steps:
        if scenario == "create" and not (step / "table" / "_delta_log").exists():
            with pytest.raises(StoreError):
                EventTable.open(step / "table")
            create(step / "table")
        table = EventTable.open(step / "table")
        version = table.snapshot().version
        assert version is not None
        versions.append(version)
        assert sorted(ids(table)) == expected(scenario, version), step
        assert table.verify() == [], step
    assert versions == sorted(versions)
    assert scenario in ("create", "vacuum") or versions[0] < versions[-1]


@pytest.mark.parametrize("scenario", SCENARIOS[1:])
def test_after_that_the_table_goes_on(killed: Path, scenario: str) -> None:
    steps = sorted(each for each in (killed / scenario).iterdir() if each.name != "before")
    for step in steps[:: max(1, len(steps) // 4)]:
        table = EventTable.open(step / "table")
        before = ids(table)
        version = table.append(events([6] * 9, 900))
        table.vacuum(0)
        assert litter(table) == []
        assert sorted(ids(table, version)) == sorted([*before, *range(900, 909)])
        assert table.verify() == []


# ---- several writers


def test_appenders_and_compactors_at_the_same_time(tmp_path: Path) -> None:
    killing("crowd", tmp_path)
    table = EventTable.open(tmp_path / "table")
    there = [
        1000 * who + 100 * turn + n
        for who in (1, 2)
        for turn in range(5)
        for n in range(20 if turn == 3 else 3)
    ]
    assert sorted(ids(table)) == there
    assert table.verify() == []
    table.compact()
    assert sorted(ids(table)) == there
    assert find_runs(table.snapshot()) == []
    assert len(table.snapshot().files) < 8  # 64 events in files of 32
    table.vacuum(0)
    assert litter(table) == []


@pytest.mark.parametrize("step", ["data written", "about to commit"])
def test_of_two_compactions_of_one_version_one_wins(table: EventTable, at_step, step: str) -> None:  # type: ignore[no-untyped-def]
    table.append(events(range(20)))
    table.append(events(range(20), 20))
    at_step(step, lambda: EventTable.open(table.writing.root).compact())
    assert table.compact().version == 3
    assert sorted(ids(table)) == list(range(40))
    replaced = table.snapshot(2).files
    assert litter(table) == sorted(name for each in replaced for name in (each.path, f"{each.path}.cix"))
    assert table.verify() == []


@pytest.mark.parametrize("step", ["index written", "about to commit"])
def test_of_two_that_seal_one_pool_one_does(table: EventTable, at_step, step: str) -> None:  # type: ignore[no-untyped-def]
    table.append(events([1] * 6))
    at_step(step, lambda: EventTable.open(table.writing.root).append(events([3] * 4, 10)))
    assert table.append(events([2] * 5, 20)) == 3
    assert ids(table) == [*range(6), *range(20, 25), *range(10, 14)]
    assert len(table.snapshot().sealed) == 1
    assert table.verify() == []


def test_an_append_that_meets_others_is_tried_again(table: EventTable, at_step) -> None:  # type: ignore[no-untyped-def]
    at_step("about to commit", lambda: EventTable.open(table.writing.root).append(events([1])))
    assert table.append(events([2], 1)) == 2
    assert ids(table) == [0, 1]


@pytest.mark.parametrize("step", ["data written", "about to commit"])
def test_rows_that_are_deleted_during_a_compaction_stay_deleted(
    table: EventTable, at_step, step: str
) -> None:  # type: ignore[no-untyped-def]
    table.append(events(range(9)))
    table.append(events(range(9), 9))
    path = Path(table.writing.root)
    at_step(step, lambda: delete(path, {paths(path)[0]: [0, 3]}))
    table.compact()
    assert table.info().events == 16
    assert sorted(read(path)["id"].to_pylist()) == [1, 2, *range(4, 18)]
    assert table.verify() == []


def test_others_that_are_always_quicker(table: EventTable) -> None:
    other = EventTable.open(table.writing.root)

    def hook(step: str) -> None:
        if step == "about to commit":
            faults.hook = None
            other.append(events([1]))
            faults.hook = hook

    written = write_piece(events([2]), table.writing, AppendPart(table.next_append(), 0, 0))
    faults.hook = hook
    try:
        with pytest.raises(NotCommitted, match="before each of 3 tries"):
            commit(table.writing.root, Change([written]), [0.0, 0.0])
    finally:
        faults.hook = None
    assert table.info().events == 3


# ---- disks


def test_a_disk_that_is_full(table: EventTable, at_step) -> None:  # type: ignore[no-untyped-def]
    def full() -> None:
        raise OSError(28, "No space left on device")

    table.append(events(range(9)))
    table.append(events([1, 2], 9))
    for step in ("row group written", "data written", "index written"):
        for work in (lambda: table.append(events(range(20), 50)), table.compact):
            at_step(step, full)
            with pytest.raises(StoreError, match="No space left") as caught:
                work()
            assert "is there room" in str(caught.value)
            assert litter(table) == []
    assert ids(table) == [0, 1, 9, 2, 10, *range(3, 9)]
    assert table.verify() == []


# ---- commits


@pytest.mark.parametrize("harm", [Path.unlink, lambda file: file.write_bytes(b"PAR1")])
def test_a_commit_never_names_a_file_that_is_not_there_whole(  # type: ignore[no-untyped-def]
    table: EventTable, at_step, harm: Callable[[Path], object]
) -> None:
    at_step("index written", lambda: harm(next(Path(table.writing.root).glob("*.parquet"))))
    with pytest.raises(NotCommitted, match="cannot become a file"):
        table.append(events(range(9)))
    assert table.snapshot().version == 0
    assert litter(table) == []


def test_a_commit_removes_only_what_is_there(table: EventTable) -> None:
    table.append(events([1]))
    (old,) = table.snapshot().files
    table.compact()
    with pytest.raises(Overtaken, match="no longer a file"):
        commit(table.writing.root, Change([], [old]), [])
    assert table.snapshot().version == 2


def test_a_commit_adds_nothing_twice(table: EventTable) -> None:
    table.append(events([1]))
    (old,) = table.snapshot().files
    again = Written(old.path, old.size, old.modified, "{}", 1)
    with pytest.raises(NotCommitted, match="already"):
        commit(table.writing.root, Change([again]), [])


def test_a_commit_that_only_seems_to_fail(table: EventTable, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    write = DeltaTable.create_write_transaction

    def write_and_fail(*args: object, **more: object) -> None:
        write(*args, **more)  # type: ignore[arg-type]
        raise CommitFailedError("the checkpoint cannot be written")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", write_and_fail)
    assert table.append(events([1])) == 1
    assert ids(table) == [0]


# ---- index files and synopses that are damaged


def damaged(table: EventTable, name: str, harm: str) -> None:
    file = next((Path(table.writing.root) / "_cerise" / name).iterdir())
    data = bytearray(file.read_bytes())
    if harm == "missing":
        file.unlink()
    elif harm == "cut off":
        file.write_bytes(data[:-3])
    elif harm == "flipped":
        data[-60] ^= 4
        file.write_bytes(data)
    else:
        file.write_bytes(b"something else altogether, and long enough to be an index file" * 9)


@pytest.mark.parametrize("harm", ["missing", "cut off", "flipped", "foreign"])
def test_a_damaged_index_is_reported_and_mended(table: EventTable, harm: str) -> None:
    table.append(events(range(9)))
    table.append(events(range(9), 9))
    damaged(table, "index", harm)
    opened = EventTable.open(table.writing.root)
    found = opened.load_index()
    assert len(found.broken) == len(found.plain) == len(found.synopsis.files) == 1
    assert opened.info().broken == found.broken
    assert [each.place for each in opened.verify()] == list(found.broken)
    assert "its index cannot be used" in opened.verify()[0].what
    opened.compact()
    assert opened.verify() == []
    assert opened.load_index().broken == {}
    assert sorted(ids(opened)) == list(range(18))


def test_a_cluster_that_is_damaged_is_found(table: EventTable) -> None:
    table.append(events(range(9)))
    file = next((Path(table.writing.root) / "_cerise" / "index").iterdir())
    data = bytearray(file.read_bytes())
    data[12] ^= 1
    file.write_bytes(data)
    (found,) = table.verify()
    assert "damaged" in found.what


@pytest.mark.parametrize("harm", ["missing", "cut off", "flipped", "foreign"])
def test_a_damaged_synopsis_costs_only_time(
    table: EventTable, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = replace(table, uncovered=1)
    table.append(events(range(9)))
    table.append(events(range(9), 9))
    before = table.load_index().synopsis
    damaged(table, "synopsis", harm)
    assert table.load_index().synopsis.files == before.files
    assert ("is not used" in caplog.text) == (harm != "missing")
    assert bool(table.verify()) == (harm != "missing")


def harm_data(file: Path) -> None:
    """Flip the bits of the last byte of a page: what is before it may be a header, which has no checksum."""
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(file.read_bytes())
    data[start + chunk.total_compressed_size - 1] ^= 255
    file.write_bytes(data)


def test_data_that_is_damaged_is_not_rewritten(table: EventTable) -> None:
    table.append(events(range(9)))
    table.append(events(range(9), 9))
    file = Path(table.writing.root) / table.snapshot().files[0].path
    harm_data(file)
    with pytest.raises(StoreError, match="cannot read"):
        table.compact()
    assert table.snapshot().version == 2
    assert litter(table) == []


def test_an_index_of_another_file_is_not_used(table: EventTable) -> None:
    table.append(events(range(9)))
    table.append(events(range(9), 9))
    one, two = (Path(table.writing.index_root) / str(each.index) for each in table.snapshot().files)
    two.write_bytes(one.read_bytes())
    assert list(table.load_index().broken.values()) == ["it is the index of another file"]


# ---- data files that are damaged


def test_data_that_is_gone_or_changed_is_found(table: EventTable) -> None:
    for number in range(4):
        table.append(events(range(9), 9 * number))
    files = [Path(table.writing.root) / each.path for each in table.snapshot().files]
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-1])
    harm_data(files[2])
    found = {each.place: each.what for each in table.verify()}
    assert list(found) == [file.name for file in files[:3]]
    assert "is missing" in found[files[0].name]
    assert "bytes instead of" in found[files[1].name]
    assert "cannot be read" in found[files[2].name]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"x": 0.125}, "values of 'x'"),
        ({"x": None}, "values of 'x'"),
        ({"kind": "D"}, "values of 'kind'"),
        ({"t": 100}, "values of 't'"),
        ({"_seq": {"append": 1, "row": 8}}, "sequences"),
    ],
)
def test_an_index_that_says_something_else_is_found(
    table: EventTable, change: dict[str, object], what: str
) -> None:
    table.append(events(range(9)))
    (file,), (rows,) = table.snapshot().files, held(table.snapshot())
    rows[-1] |= change
    other = pa.Table.from_pylist(rows, table.columns)
    write_its_index([other.slice(0, 4), other.slice(4, 4), other.slice(8)], table.writing, file)
    (found,) = table.verify()
    assert found == (file.path, f"row group 2: its index has other {what}")


def test_events_that_are_there_twice_or_out_of_order_are_found(table: EventTable) -> None:
    some, part = events([1, 2]), AppendPart(table.next_append(), 0, 0)
    table.commit_pieces(
        [
            write_piece(some, table.writing, part),
            write_piece(some, table.writing, AppendPart(*part[:1], 1, 0)),
        ]
    )
    assert "there twice" in table.verify()[0].what
    rows = [{**row, "_seq": {"append": 1, "row": n}} for n, row in enumerate(events([2, 1]).to_pylist())]
    wrong = pa.Table.from_pylist(rows, table.columns)
    table.commit_pieces([write_file([wrong], table.writing, data_name(1, 0, fresh=True), again=None)])
    assert "not in stream order" in table.verify()[0].what


def test_events_that_others_have_written_are_found(table: EventTable) -> None:
    from deltalake import write_deltalake

    table.append(events([1, 2]))
    rows = pa.Table.from_pylist([{**row, "_seq": None} for row in events([3], 7).to_pylist()], table.columns)
    write_deltalake(table.writing.root, rows, mode="append")
    (found,) = table.verify()
    assert "events have no sequence" in found.what
    table.compact()
    assert [row["id"] for file in held(table.snapshot()) for row in file] == [0, 1, 7]
