"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cerise.errors import StoreError
from cerise.files.folder import Folder

TABLE = pa.table({"x": [1, 2]})


def names(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*"))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path / "none")
    assert folder.names() == []
    assert folder.files() == {}
    assert folder.sizes(["a"]) == [None]
    assert not folder.holds("a")
    folder.remove("a")


def test_a_file_is_put_whole(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path)
    folder.write("sub/a", b"one")
    folder.write("sub/a", b"three")
    assert folder.read("sub/a") == b"three"
    assert folder.sizes(["sub/a", "sub/b"]) == [5, None]
    assert names(tmp_path) == ["sub", "sub/a"]


def test_a_draft_is_hidden_from_readers(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path)
    pq.write_table(TABLE, tmp_path / "a.parquet")
    with folder.whole("b.parquet") as sink:
        pq.write_table(TABLE, sink)
        assert len(names(tmp_path)) == 2
        assert len(pq.read_table(tmp_path)) == len(TABLE)  # as it is for ever where the writer is killed here
    assert len(pq.read_table(tmp_path)) == 2 * len(TABLE)


def test_a_file_that_must_be_new(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path)
    folder.write("a", b"one", new=True)
    with pytest.raises(FileExistsError):
        folder.write("a", b"two", new=True)
    assert folder.read("a") == b"one"
    assert names(tmp_path) == ["a"]


def test_somebody_who_comes_a_moment_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder.of(tmp_path)
    folder.write("a", b"one")
    monkeypatch.setattr(Folder, "holds", lambda *_: False)
    with pytest.raises(FileExistsError):
        folder.write("a", b"two", new=True)
    assert folder.read("a") == b"one"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("local", [True, False])
def test_a_file_that_breaks_off_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    monkeypatch.setattr(Folder, "local", local)
    folder = Folder.of(tmp_path)
    with pytest.raises(TypeError), folder.whole("a") as sink:
        sink.write(b"half" + None)  # type: ignore[operator]
    assert names(tmp_path) == []
    with folder.whole("a") as sink:
        sink.write(b"all")
    assert folder.read("a") == b"all"


def test_folders_and_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    file = Folder.of("a.txt")
    assert (file.is_file, file.name, file.parent.root) == (True, "a.txt", str(tmp_path))
    assert Folder.of(f"file://{tmp_path}/b").inside("c").path("d") == f"{tmp_path}/b/c/d"
    with pytest.raises(StoreError, match="cannot open nothing://"):
        Folder.of("nothing://here")
