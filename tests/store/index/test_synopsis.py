"""The synopsis of a table: saved and loaded, extended, and reduced to the files of a version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from cerise.errors import StoreError
from cerise.store.index.file import BrokenIndex, IndexFile
from cerise.store.index.layout import IndexLayout
from cerise.store.index.lookup import Criteria, Index
from cerise.store.index.synopsis import Synopsis
from tests.store.index.made import LOCAL, written

COLUMNS = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.string())])
LAYOUT = IndexLayout(COLUMNS, "t", "k", ("x",))


def file_of(folder: Path, number: int) -> IndexFile:
    """Return the index of a file with two row groups and, but for one type, types of its own."""
    groups = [
        pa.table([[number, 7], ["A", f"only {number}"], [f"{number}-{n}", None]], schema=COLUMNS)
        for n in range(2)
    ]
    return written(folder, f"part-{number}", groups, LAYOUT)


def events(synopsis: Synopsis) -> list[tuple[object, ...]]:
    """Return all that an index with this synopsis knows."""
    index = Index(synopsis, LAYOUT, LOCAL)
    found = index.look_up(Criteria(None))
    paths = [file.about.path for file in synopsis.files]
    where = [paths[index.groups.file[group]] for group in index.rows(found.places)[0]]
    columns = [index.column(name, found.places).to_pylist() for name in COLUMNS.names]
    return sorted(zip(where, *columns, strict=True), key=str)


def same(one: Synopsis, other: Synopsis) -> bool:
    return (
        one.files == other.files
        and one.groups.equals(other.groups)
        and events(one) == events(other)
        and one.sample.equals(other.sample)
        and one.sampled.tolist() == other.sampled.tolist()
    )


def test_a_synopsis_is_extended_and_reduced(tmp_path: Path) -> None:
    files = [file_of(tmp_path, number) for number in range(3)]
    whole = Synopsis.of(files)
    assert whole.rows == 12
    assert [file.about.path for file in whole.files] == ["part-0", "part-1", "part-2"]
    assert same(Synopsis.of(files[:1]).extend(files[1:]), whole)
    assert same(Synopsis.of([], LAYOUT).extend(files), whole)
    assert same(whole.only(["part-0", "part-2", "no such"]), Synopsis.of([files[0], files[2]]))
    assert same(whole.only([]), Synopsis.of([], LAYOUT))
    assert whole.extend([files[1]]).rows == 12
    assert len(events(whole)) == 12


def test_a_synopsis_is_saved_and_loaded(tmp_path: Path) -> None:
    whole = Synopsis.of([file_of(tmp_path, number) for number in range(2)])
    path = str(tmp_path / "synopsis")
    for each in (whole, Synopsis.of([], LAYOUT)):
        with pa.OSFile(path, "wb") as sink:
            each.save(sink)
        with pa.memory_map(path) as source:
            assert same(Synopsis.load(source), each)


def test_a_damaged_synopsis(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    Synopsis.of([file_of(tmp_path, 0)]).save(sink)
    whole = sink.getvalue().to_pybytes()
    for length in range(0, len(whole), 97):
        with pytest.raises(BrokenIndex, match="synopsis"):
            Synopsis.load(pa.py_buffer(whole[:length]))
    for at in (*range(0, len(whole), 101), *range(len(whole) - 24, len(whole))):
        flipped = bytearray(whole)
        flipped[at] ^= 4
        with pytest.raises(BrokenIndex, match="synopsis"):
            Synopsis.load(pa.py_buffer(bytes(flipped)))


def test_files_of_another_layout(tmp_path: Path) -> None:
    other = written(tmp_path, "other", [], IndexLayout(COLUMNS, "t", "k", ()))
    with pytest.raises(StoreError, match="other columns"):
        Synopsis.of([file_of(tmp_path, 0), other])
    with pytest.raises(StoreError, match="no layout"):
        Synopsis.of([])
