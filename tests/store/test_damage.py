"""Data files that are damaged, cut or swapped: a query gives the right answer or an error, never another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.errors import StoreError
from cerise.event_store import Store
from cerise.files import checksums as checked
from cerise.files import event_files as files
from cerise.files.checksums import MAGIC
from cerise.files.column_values import find_values
from cerise.files.lake import open_lake
from tests.tiers import AT_LENGTH

FLIPS = 150 if AT_LENGTH else 50
BY_INDEX = Options(limits=Limits(kept_share=3))  # where a third of all events fits a variable
ROWS = (
    "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES A.note AS note PATTERN (A B) DEFINE A AS A.n = 3)"
)
QUERIES = {
    "by index, strings late": "PATTERN SEQ(A a, B b) WHERE a.n = 3 WITHIN 40 RETURN a.note AS note, b.x AS x",
    "by index, integers picked": "PATTERN SEQ(A a, B b) WHERE a.n = 4 WITHIN 9 RETURN a.job AS job",
    "all": "PATTERN SEQ(a, b) WHERE a.x > b.x AND a.job < b.job WITHIN 2 RETURN a.x AS x, b.n AS n",
    "rows": ROWS,
}


def made(rows: int, first: int = 0) -> pa.Table:
    dice = np.random.default_rng(first + 7)
    notes = [None if i % 11 == 0 else f"note {i % 37}" for i in range(rows)]
    return pa.table({
        "t": pa.array(np.sort(dice.integers(first, first + 4 * rows, rows))),
        "kind": pa.array(np.array(["A", "B", "C"])[dice.integers(0, 3, rows)]),
        "n": pa.array(dice.integers(0, 40, rows)),
        "x": pa.array(dice.random(rows).round(3)),
        "job": pa.array(dice.integers(0, 2**40, rows)),
        "note": pa.array(notes),
    })  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a store with sealed and with fresh files."""
    path = tmp_path_factory.mktemp("damage") / "store"
    made_store = Store.create(
        path, schema=made(2), time="t", type="kind", index=["n"], block_rows=512, pool_rows=400
    )
    made_store.append(made(1_500))
    made_store.append(made(300, 6_000))
    return path


def answers(path: Path) -> dict[str, Any]:
    """Return what each query finds in a store, or the error that it raises."""
    held, found = Store(path), {}
    for name, query in QUERIES.items():
        try:
            found[name] = sorted(map(str, held.find(query, options=BY_INDEX).to_pylist()))
        except StoreError as error:
            found[name] = error
    return found


@pytest.fixture(scope="module")
def right(store: Path) -> dict[str, Any]:
    found = answers(store)
    assert all(len(each) > 3 for each in found.values())
    return found


def flipped(file: Path, rng: np.random.Generator) -> None:
    data = bytearray(file.read_bytes())
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    file.write_bytes(data)


def data_files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet"))


@pytest.fixture
def copied(store: Path, tmp_path: Path) -> Callable[[], Path]:
    """Return a function that copies the store anew."""
    path = tmp_path / "copy"

    def copy() -> Path:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(store, path)
        return path

    return copy


@pytest.mark.filterwarnings("ignore:the index of")
@pytest.mark.parametrize("index", [True, False], ids=["with index", "without index"])
def test_a_flipped_bit_never_changes_an_answer(
    copied: Callable[[], Path], right: dict[str, Any], index: bool
) -> None:
    rng, path, told = np.random.default_rng(11), copied(), 0
    if not index:
        shutil.rmtree(path / "_cerise" / "index")
    for _ in range(FLIPS):
        file = data_files(path)[int(rng.integers(len(data_files(path))))]
        sound = file.read_bytes()
        flipped(file, rng)
        for name, found in answers(path).items():
            assert isinstance(found, StoreError) or found == right[name], (file, name)
            if isinstance(found, StoreError):
                told += 1
                assert file.name in str(found)
        file.write_bytes(sound)
    assert told > FLIPS


def test_the_error_names_file_and_column(tmp_path: Path) -> None:
    events = made(60_000)
    store = Store.create(tmp_path / "s", schema=events, time="t", type="kind", index=["n"], pool_rows=1)
    store.append(events)
    (file,) = data_files(tmp_path / "s")
    group = pq.read_metadata(file).row_group(0)
    chunk = next(each for each in map(group.column, range(8)) if each.path_in_schema == "job")
    data = bytearray(file.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 8
    file.write_bytes(data)
    with pytest.raises(StoreError, match=r"cannot read column 'job' of .*: bytes .* are damaged\n") as caught:
        store.find(QUERIES["by index, integers picked"], options=BY_INDEX)
    assert file.name in str(caught.value)
    assert "restore the file" in str(caught.value)
    assert any("'job'" in each.what for each in store.verify())
    assert store.find(QUERIES["by index, strings late"], options=BY_INDEX).num_rows > 0


@pytest.mark.parametrize("way", ["find", "index", "append"])
def test_pages_of_others_are_checked_where_they_have_checksums(tmp_path: Path, way: str) -> None:
    file = tmp_path / "lake" / "a.parquet"
    file.parent.mkdir()
    pq.write_table(made(3_000), file, write_page_checksum=True, compression="none", use_dictionary=False)
    store = Store.create(tmp_path / "other", schema=made(2), time="t")
    chunk = pq.read_metadata(file).row_group(0).column(3)
    data = bytearray(file.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 8
    file.write_bytes(data)

    def query() -> None:
        cerise.index(file.parent, time="t", type="kind", on=["x"] if way == "index" else ["n"])
        Store(file.parent).find(QUERIES["all"], options=BY_INDEX)

    work = query if way != "append" else lambda: store.append(file.parent)
    with pytest.raises(StoreError, match=r"cannot read column 'x' of .*a\.parquet"):
        work()


def outcome(read: Callable[[], pa.Table]) -> pa.Table | StoreError:
    try:
        return read()
    except StoreError as error:
        return error


def test_data_files_are_checked_by_whoever_reads_them(copied: Callable[[], Path]) -> None:
    path, rng = copied(), np.random.default_rng(5)
    for file in data_files(path):
        for place in (path, file):
            read = partial(files.read, place)
            right, sound = read(), file.read_bytes()
            for _ in range(40):
                flipped(file, rng)
                found = outcome(read)
                assert file.name in str(found) if isinstance(found, StoreError) else found.equals(right)
                file.write_bytes(sound)


# ---- other files in their place


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""])
def test_a_file_of_another_size_is_refused(
    copied: Callable[[], Path], change: Callable[[bytes], bytes]
) -> None:
    path = copied()
    for file in data_files(path):
        sound = file.read_bytes()
        file.write_bytes(change(sound))
        for work in (lambda: Store(path).find(QUERIES["all"], options=BY_INDEX), Store(path).compact):
            with pytest.raises(StoreError, match=rf"{file.name} has [\d,]+ bytes, and its table says"):
                work()
        file.write_bytes(sound)
    assert Store(path).version == 2


def test_a_valid_file_of_another_size_is_refused(copied: Callable[[], Path]) -> None:
    path = copied()
    file = data_files(path)[0]
    pq.write_table(pq.read_table(file).slice(0, 1_000), file)
    for work in (lambda: Store(path).find(QUERIES["all"], options=BY_INDEX), Store(path).compact):
        with pytest.raises(StoreError, match="bytes, and its table says"):
            work()


@pytest.mark.filterwarnings("ignore:the index of")
def two_files_of_one_size(folder: Path) -> tuple[Path, Path]:
    """Make a store of two files of one size; the clock in them compresses now well, now less so."""
    events = made(1_000).drop_columns(["note"])
    store = Store.create(folder, schema=events, time="t", type="kind", index=["n"], pool_rows=1)
    for _ in range(2):
        store.append(events)
    one, two = data_files(folder)
    same = one.stat().st_size == two.stat().st_size
    return (one, two) if same else two_files_of_one_size(folder.with_name(f"{folder.name}s"))


def test_swapped_files_of_one_size_are_refused(tmp_path: Path) -> None:
    one, two = two_files_of_one_size(tmp_path / "s")
    store = Store(one.parent)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    for work in (
        lambda: Store(one.parent).find(
            "PATTERN SEQ(A a) WHERE a.n = 3 WITHIN 1 RETURN a.x AS x", options=BY_INDEX
        ),
        lambda: Store(one.parent).find("PATTERN SEQ(a) WITHIN 1", options=BY_INDEX),
        store.compact,
    ):
        with pytest.raises(StoreError, match="is another file: it was written as"):
            work()


def test_an_indexed_table_of_others_whose_file_was_swapped(tmp_path: Path) -> None:
    """Size and time of writing are the same, the row groups are not."""
    lake = tmp_path / "lake"
    lake.mkdir()
    table, how = made(1_024), {"compression": "none", "use_dictionary": False}
    pq.write_table(table, lake / "a.parquet", row_group_size=512, **how)
    cerise.index(lake, time="t", type="kind", on=["n"])
    held = Store(lake)
    query = "PATTERN SEQ(A a) WHERE a.n = 3 WITHIN 1 RETURN a.note AS note"
    before = held.find(query, options=BY_INDEX)
    file = lake / "a.parquet"
    facts = file.stat()
    pq.write_table(table.slice(0, 900), file, row_group_size=300, **how)
    data = file.read_bytes()
    room = facts.st_size - len(data)
    size = int.from_bytes(data[-8:-4], "little") + 8
    file.write_bytes(data[:-size] + bytes(room) + data[-size:])
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(StoreError, match="is not the file that was indexed"):
        Store(lake).find(query, options=BY_INDEX)
    assert len(before)


# ---- other readers, and files without checksums


def test_other_readers_see_a_plain_parquet_file(store: Path) -> None:
    for file in data_files(store):
        assert pq.read_table(file, page_checksum_verification=True).num_rows in (1_500, 300)
        with pa.OSFile(str(file)) as source:
            sums = checked.read_tail(source, file.name).sums
        assert sums is not None
        assert sums.name == file.name


def test_a_copy_under_another_name_is_read(store: Path, tmp_path: Path) -> None:
    shutil.copy(data_files(store)[0], tmp_path / "copy.parquet")
    other = Store.create(tmp_path / "s", schema=pq.read_schema(data_files(store)[1]).remove(6), time="t")
    with pytest.raises(StoreError, match="_seq"):  # it is read, and has one column more
        other.append(tmp_path / "copy.parquet")


# ---- files that are cut while they are open


CUTTING = """
import sys, warnings
from pathlib import Path
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.event_store import Store

by_index = Options(limits=Limits(kept_share=1))
warnings.simplefilter("ignore")
path, what = Path(sys.argv[1]), sys.argv[2]
query = "PATTERN SEQ({0} a) WHERE a.n >= 0 WITHIN 1 RETURN a.note AS note, a.n AS n, a.job AS job"
store = Store(path)

def find(store, kind):
    return sorted(map(str, store.find(query.format(kind), options=by_index).to_pylist()))

right = {kind: find(Store(path), kind) for kind in "ABC"}
assert find(store, "A") == right["A"]
for file in path.glob(what):
    with file.open("r+b") as held:
        held.truncate(file.stat().st_size // 3)
for kind in "ABC":
    try:
        found = find(store, kind)
    except Exception as error:
        print(type(error).__name__, error)
    else:
        assert found == right[kind]
        print("right")
"""


@pytest.mark.parametrize(
    ("what", "told"), [("_cerise/index/*.cix", "right"), ("*.parquet", "StoreError cannot read column")]
)
def test_a_file_that_is_cut_while_it_is_open(copied: Callable[[], Path], what: str, told: str) -> None:
    """A mapped file that is cut ends the process that touches it (SIGBUS)."""
    path = copied()
    larger = Store.create(
        path.with_name("larger"), schema=made(2), time="t", type="kind", index=["n"], pool_rows=1
    )
    larger.append(made(40_000))
    done = subprocess.run(
        [sys.executable, "-c", CUTTING, str(path.with_name("larger")), what],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("hint")]
    assert len(lines) == 3
    assert all(line.startswith(told) for line in lines), done.stdout


def test_a_file_of_others_may_hold_the_magic_word(tmp_path: Path) -> None:
    """The word that ends our checksums is text like any other in a column."""
    words = [MAGIC.decode(), f"x{MAGIC.decode() * 5}y", "B"]
    table = pa.table({"t": [1, 2, 3], "kind": words})
    pq.write_table(table, tmp_path / "e.parquet", compression="none", use_dictionary=False)
    found = cerise.find(str(tmp_path), "PATTERN SEQ(a, b) WHERE b.kind = 'B'", time="t")
    assert found["last_time"].to_pylist() == [3, 3]


def test_the_values_of_a_struct_are_not_those_of_a_column_with_dots(tmp_path: Path) -> None:
    """Parquet joins the names of fields with dots, which a column may have too."""
    table = pa.table({"t": [1, 2], "a": [{"b": "login"}] * 2, "a.b": ["x", "y"]})
    pq.write_table(table, tmp_path / "e.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # 'login' would be taken for a value of the type column
        found = cerise.find(str(tmp_path), "PATTERN SEQ(login, x2) WHERE login.t < x2.t", time="t")
        assert len(found) == 1
    assert find_values(open_lake(str(tmp_path)), "a.b", {"login", "x"}) == {"x"}
