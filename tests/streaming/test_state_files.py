"""States in files: versions that are whole, found again, and refused when they are not what was written."""

from __future__ import annotations

import json
import logging
import multiprocessing
import random
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from cerise.errors import StoreError
from cerise.files.folder import Folder
from cerise.streaming.state.state_check import check
from cerise.streaming.state.state_files import FORMAT, FileStateHome, Versions, checksum
from tests.support.faults.object_store import Objects, object_store

QUERY = "5cd4ebae-267e-440c-85cd-eb183b2f3a82"


def home(
    path: str | Path, batch: int, bucket: int = 3, *, query: str = QUERY, kept: int = 100
) -> FileStateHome:
    return FileStateHome(path, query, bucket, batch, kept=kept)


def run_batch(path: str | Path, batch: int, bucket: int = 3, **how: object) -> str:
    """Write a journal for each batch, keep many of them, and a snapshot in every fourth batch."""
    state = home(path, batch, bucket, **how)  # type: ignore[arg-type]
    state.write(f"journal/{batch}", f"events of {batch}".encode())
    state.delete(f"journal/{batch - 3}")
    if batch % 4 == 0:
        state.write("snapshot", f"all before {batch}".encode())
    return state.commit()


def content(path: str | Path, batch: int, bucket: int = 3) -> dict[str, bytes | None]:
    state = home(path, batch, bucket)
    return {name: state.read(name) for name in state.names()}


def expected(batch: int) -> dict[str, bytes]:
    """What the batch starts from."""
    journals = {f"journal/{i}": f"events of {i}".encode() for i in range(max(batch - 3, 0), batch)}
    return journals | {"snapshot": f"all before {(batch - 1) // 4 * 4}".encode()} if batch else {}


def files(path: Path, bucket: int = 3) -> list[str]:
    return sorted(each.name for each in (path / f"query-{QUERY}" / f"bucket-{bucket}").iterdir())


def test_each_batch_sees_what_the_one_before_has_left(tmp_path: Path) -> None:
    for batch in range(12):
        assert content(tmp_path, batch) == expected(batch)
        run_batch(tmp_path, batch)
    assert all(content(tmp_path, batch) == expected(batch) for batch in range(13))
    assert check(tmp_path) == []


def test_a_batch_does_not_see_its_own_writes(tmp_path: Path) -> None:
    first = home(tmp_path, 0)
    first.write("a", b"one")
    first.write("b", b"two")
    assert (first.names(), first.read("a"), first.read("none"), first.stamp) == ([], None, None, "")
    stamp = first.commit()
    second = home(tmp_path, 1)
    second.write("a", b"many")
    second.delete("b")
    second.delete("none")
    second.write("c", b"")
    assert (second.names(), second.read("a"), second.read("b"), second.stamp) == (
        ["a", "b"],
        b"one",
        b"two",
        stamp,
    )
    assert second.commit() != stamp
    assert content(tmp_path, 2) == {"a": b"many", "c": b""}


def test_a_version_that_is_not_committed_is_not_there(tmp_path: Path) -> None:
    run_batch(tmp_path, 0)
    home(tmp_path, 1).write("journal/1", b"lost")
    assert content(tmp_path, 1) == expected(1)
    with pytest.raises(StoreError, match="the state of batch 1 of bucket 3 is gone"):
        home(tmp_path, 2)
    run_batch(tmp_path, 1)
    assert content(tmp_path, 2) == expected(2)


def test_a_part_is_written_once(tmp_path: Path) -> None:
    for batch in range(8):
        state = home(tmp_path, batch)
        if batch in (0, 4):
            state.write("snapshot", b"the same bytes")
        state.write("marks", str(batch // 3).encode())
        state.commit()
    written = [name for name in files(tmp_path) if not name.endswith(".json")]
    assert [name[:12].lstrip("0") + name[12:-33] for name in written] == [
        "-marks",
        "-snapshot",
        "3-marks",
        "6-marks",
    ]


@pytest.mark.parametrize("first", [b"one", b"other"], ids=["the same bytes", "other bytes"])
def test_a_batch_that_is_replayed_writes_its_version_again(tmp_path: Path, first: bytes) -> None:
    run_batch(tmp_path, 0)
    for data in (first, b"one"):
        state = home(tmp_path, 1)
        assert state.names() == ["journal/0", "snapshot"]
        state.write("a", data)
        if data == b"other":
            state.write("only the first time", b"x")
        state.commit()
    assert content(tmp_path, 2) == expected(1) | {"a": b"one"}
    assert check(tmp_path) == []


def test_an_attempt_that_ends_late_does_no_harm(tmp_path: Path) -> None:
    run_batch(tmp_path, 0)
    late, quick = home(tmp_path, 1), home(tmp_path, 1)
    late.write("a", b"other bytes")
    quick.write("a", b"bytes")
    quick.commit()
    opened = home(tmp_path, 2)
    late.commit()
    assert opened.read("a") == b"bytes"
    assert home(tmp_path, 2).read("a") == b"other bytes"


@pytest.mark.parametrize("kept", [1, 3, 20])
def test_old_versions_go(tmp_path: Path, kept: int) -> None:
    for batch in range(50):
        run_batch(tmp_path, batch, kept=kept)
        for start in range(max(batch - kept, 0), batch + 2):  # every batch that may be replayed, and the next
            assert content(tmp_path, start) == expected(start)
        assert len([name for name in files(tmp_path) if name.endswith(".json")]) <= kept + 2 + kept // 10
    assert len(files(tmp_path)) <= 2.5 * (kept + 4)
    with pytest.raises(StoreError, match="the state of batch 5 of bucket 3 is gone"):
        home(tmp_path, 6)
    assert check(tmp_path) == []


def test_a_part_that_is_old_and_needed_stays(tmp_path: Path) -> None:
    for batch in range(40):
        state = home(tmp_path, batch, kept=2)
        if batch == 0:
            state.write("snapshot", b"written once")
        if batch == 20:
            home(tmp_path, batch, kept=2).write("left by a failed attempt", b"x")
        state.commit()
        assert content(tmp_path, batch + 1) == {"snapshot": b"written once"}
    assert len(files(tmp_path)) == 4 + 1


def test_what_cannot_be_removed_is_only_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(folder: Folder, name: str) -> None:
        raise PermissionError(f"may not remove {name}")

    monkeypatch.setattr(Folder, "remove", refuse)
    with caplog.at_level(logging.WARNING):
        for batch in range(6):
            run_batch(tmp_path, batch, kept=1)
    assert "old files of the state stay: may not remove 000000000000" in caplog.text
    assert content(tmp_path, 6) == expected(6)


def test_queries_and_buckets_share_a_path(tmp_path: Path) -> None:
    path = tmp_path / "states"
    for number, query in enumerate([QUERY, "another/query ü", ".."]):
        for bucket in range(2):
            state = FileStateHome(path, query, bucket, 0, buckets=2)
            assert state.names() == []
            state.write("a/b", f"{number} {bucket}".encode())
            state.commit()
    for number, query in enumerate([QUERY, "another/query ü", ".."]):
        for bucket in range(2):
            assert home(path, 1, bucket, query=query).read("a/b") == f"{number} {bucket}".encode()
    assert check(path) == []
    assert [each.name for each in tmp_path.iterdir()] == ["states"]
    assert len(list(path.iterdir())) == 3


# ---- states that are not as they were written


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush no file to the disk: no power is cut here."""
    monkeypatch.setattr("cerise.files.folder.sync", lambda path: None)


@pytest.fixture
def many(tmp_path: Path, hurry: None) -> Path:
    for batch in range(42):
        run_batch(tmp_path, batch)
    return tmp_path


def file_of(path: Path, start: str) -> Path:
    found = [name for name in files(path) if name.startswith(start)]
    assert len(found) == 1, found
    return path / f"query-{QUERY}" / "bucket-3" / found[0]


def test_a_state_that_is_gone(many: Path) -> None:
    lost = file_of(many, "000000000041.json")
    lost.unlink()
    with pytest.raises(StoreError) as caught:
        home(many, 42)
    assert caught.value.problem == f"the state of batch 41 of bucket 3 is gone: {lost} is missing"
    assert caught.value.hint is not None
    assert "start with a new checkpoint" in caught.value.hint
    with pytest.raises(StoreError, match="the state of batch 49 of bucket 3 is gone"):
        home(many, 50)
    assert content(many, 41) == expected(41)


def test_a_state_of_another_path_is_gone(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the state of batch 6 of bucket 0 is gone"):
        home(tmp_path / "none", 7, 0)
    assert not (tmp_path / "none").exists()


def test_a_part_that_is_gone(many: Path) -> None:
    lost = file_of(many, "000000000041-journal")
    lost.unlink()
    state = home(many, 42)
    assert state.read("journal/40") == b"events of 40"
    with pytest.raises(StoreError, match="the state of batch 41 of bucket 3 is gone in part") as caught:
        state.read("journal/41")
    assert str(lost) in caught.value.problem
    assert [(each.place, "batch 41" in each.what) for each in check(many)] == [(str(lost), True)]


@pytest.mark.parametrize("start", ["000000000041.json", "000000000041-journal"])
def test_every_flipped_byte_is_seen(many: Path, start: str) -> None:
    damaged = file_of(many, start)
    whole = damaged.read_bytes()
    for at in range(len(whole)):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(StoreError) as caught:
            home(many, 42).read("journal/41")
        assert str(damaged) in caught.value.problem
        assert "batch 41 of bucket 3" in caught.value.problem
    assert [each.place for each in check(many)] == [str(damaged)]
    damaged.write_bytes(whole)
    assert check(many) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data[:-1], "has 11 bytes instead of 12"),
        (lambda data: b"", "has 0 bytes instead of 12"),
        (lambda data: data[::-1], "differs from its checksum"),
    ],
)
def test_a_part_that_is_damaged(many: Path, change: Callable[[bytes], bytes], problem: str) -> None:
    damaged = file_of(many, "000000000041-journal")
    damaged.write_bytes(change(damaged.read_bytes()))
    with pytest.raises(StoreError) as caught:
        home(many, 42).read("journal/41")
    assert caught.value.problem == f"the state of batch 41 of bucket 3 is damaged: {damaged} {problem}"


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '"format"', "{}", '{"format": "x"}', '{"format": 1}', "\xff"]
)
def test_a_manifest_that_is_something_else(many: Path, text: str) -> None:
    file_of(many, "000000000041.json").write_text(text, "latin-1")
    with pytest.raises(StoreError, match="the state of batch 41 of bucket 3 is damaged"):
        home(many, 42)
    assert len(check(many)) == 1


def test_a_manifest_of_another_batch(many: Path) -> None:
    folder = many / f"query-{QUERY}" / "bucket-3"
    (folder / "000000000041.json").write_bytes((folder / "000000000040.json").read_bytes())
    with pytest.raises(StoreError, match="is of another query, bucket or batch"):
        home(many, 42)


def test_a_newer_format(many: Path) -> None:
    manifest = file_of(many, "000000000041.json")
    manifest.write_text(json.dumps({"format": FORMAT + 1, "else": "is different"}))
    with pytest.raises(
        StoreError, match="a newer Cerise has written the state of batch 41 of bucket 3"
    ) as caught:
        home(many, 42)
    assert caught.value.hint is not None
    assert "install" in caught.value.hint
    assert "newer Cerise" in check(many)[0].what


def test_a_path_that_cannot_be_read_or_written(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = home(many, 42)

    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(Folder, "open_input", refuse)
    with pytest.raises(StoreError, match=r"cannot read the state of batch 41 of bucket 3: .*not yours"):
        home(many, 42)
    with pytest.raises(StoreError, match=r"cannot read the state of batch 41 of bucket 3: .*not yours"):
        state.read("journal/41")
    monkeypatch.setattr(Folder, "open_output", refuse)
    with pytest.raises(StoreError, match=r"cannot write the state of batch 42: not yours; .* as it was"):
        state.write("a", b"")
    with pytest.raises(StoreError, match="cannot write the state of batch 42: not yours"):
        state.commit()


def test_checking_names_each_fault_once(many: Path) -> None:
    run_batch(many, 0, 5)
    folder = many / f"query-{QUERY}" / "bucket-3"
    snapshot = file_of(many, "000000000036-snapshot")
    snapshot.write_bytes(b"x" * snapshot.stat().st_size)
    for batch in (7, 20, 21, 22):
        (folder / f"{batch:012}.json").unlink()
    found = {each.place.removeprefix(f"{folder}/"): each.what for each in check(many)}
    assert found.keys() == {snapshot.name, "000000000007.json", "000000000020.json"}
    assert "batch 36 of bucket 3 is damaged" in found[snapshot.name]
    assert found["000000000020.json"] == "the state of batch 20 to 22 is gone"
    assert found["000000000007.json"] == "the state of batch 7 is gone"


def test_checking_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no state"):
        check(tmp_path / "none")
    (tmp_path / "query-x").mkdir()
    with pytest.raises(StoreError, match="holds no state"):
        check(tmp_path)
    (tmp_path / "query-x" / "bucket-1").mkdir()
    assert [each.what for each in check(tmp_path)] == ["it has no manifest"]


# ---- many writers, random lives, kills


@pytest.mark.usefixtures("hurry")
def test_random_lives_of_a_state(tmp_path: Path) -> None:
    """A model in memory: batches that are tried several times, abandoned, replayed and rolled back."""
    for seed in range(12):
        rng = random.Random(seed)
        path, kept = tmp_path / str(seed), rng.choice([1, 2, 5, 30])
        truth: list[dict[str, bytes]] = [{}]  # what each batch starts from
        while len(truth) < 40:
            batch = len(truth) - 1
            for last in (*[False] * rng.randrange(2), True):  # attempts that fail, and one that does not
                state, now = home(path, batch, kept=kept), dict(truth[-1])
                assert {name: state.read(name) for name in state.names()} == truth[-1]
                for _ in range(rng.randrange(5)):
                    name = rng.choice("abcde")
                    if rng.random() < 0.3:
                        state.delete(name)
                        now.pop(name, None)
                    else:
                        now[name] = rng.randbytes(rng.randrange(3))
                        state.write(name, now[name])
                if last or rng.random() < 0.5:  # the driver may die after a task has committed
                    state.commit()
            truth.append(now)
            if rng.random() < 0.1:
                del truth[max(len(truth) - rng.randrange(1, kept + 1), 1) :]
        assert check(path) == []


def write_batches(path: str, ready: object) -> None:
    for batch in range(10_000):
        run_batch(path, batch, kept=3)
        if batch == 5:
            ready.set()  # type: ignore[attr-defined]


def test_a_writer_that_is_killed_leaves_whole_versions(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    writer = context.Process(target=write_batches, args=(str(tmp_path), ready))
    writer.start()
    assert ready.wait(60)
    writer.kill()
    writer.join()
    newest = max(int(name[:12]) for name in files(tmp_path) if name.endswith(".json"))
    assert newest >= 5
    assert content(tmp_path, newest + 1) == expected(newest + 1)
    for batch in range(newest, newest + 8):  # the last is replayed
        run_batch(tmp_path, batch, kept=3)
        assert content(tmp_path, batch + 1) == expected(batch + 1)
    assert next(name for name in files(tmp_path) if name.endswith(".json")) >= f"{newest + 2:012}"
    assert check(tmp_path) == []


# ---- object stores


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    with object_store() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def test_a_state_among_objects(objects: Objects) -> None:
    path = "s3://bucket/some/state"
    for batch in range(12):
        assert content(path, batch) == expected(batch)
        run_batch(path, batch, kept=2)
    assert check(path) == []
    keys = sorted(objects.held)
    assert all(key.startswith("some/state") for key in keys)
    assert len([key for key in keys if key.endswith(".json")]) == 4
    del objects.held[next(key for key in keys if key.endswith("11.json"))]
    with pytest.raises(StoreError, match="the state of batch 11 of bucket 3 is gone"):
        home(path, 12)


def test_a_manifest_is_put_last_and_under_its_own_name(objects: Objects) -> None:
    run_batch("s3://bucket/state", 0)
    objects.asked.clear()
    run_batch("s3://bucket/state", 1)
    put = [each.split()[1].rsplit("/", 1)[-1] for each in objects.asked if each.startswith(("PUT", "POST"))]
    names = [name for name, _ in groupby(put)]  # Arrow opens, puts and completes an upload
    assert [name[:17] for name in names] == ["000000000001-jour", "000000000001.json"]


def test_the_checksum_of_a_version_tells_its_content(tmp_path: Path) -> None:
    one, other = (Versions.of(tmp_path, QUERY, bucket) for bucket in (1, 2))
    assert one.save(1, {}).stamp == one.load(1).stamp != other.save(1, {}).stamp
    assert checksum(b"a") != checksum(b"b")
