"""Index files: what is damaged, cut off, foreign or newer is told, and never answers."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
import xxhash

from cerise.errors import DataError, StoreError
from cerise.store.index import file as files
from cerise.store.index.file import BrokenIndex, DataFile, IndexFile, write_index
from cerise.store.index.layout import IndexLayout
from cerise.store.index.lookup import Criteria, Index
from cerise.store.index.synopsis import Synopsis
from tests.store.index.made import LOCAL, written

TABLE = pa.table(
    {"t": range(60), "k": ["A", "B", None] * 20, "s": ["x", "ÿ", None, "yy"] * 15, "x": range(60)}
)
LAYOUT = IndexLayout(TABLE.schema, "t", "k", ("s", "x"))
GROUPS = [TABLE.slice(0, 40), TABLE.slice(40)]


def test_an_index_file_tells_what_it_is(tmp_path: Path) -> None:
    found = written(tmp_path, "part", GROUPS, LAYOUT)
    assert found.about == DataFile("part", 10, 20, 60)
    assert found.layout == LAYOUT
    assert found.blocks["rows"].to_pylist() == [40, 20]
    assert sorted(map(str, found.clusters["type"].to_pylist())) == ["A", "A", "B", "B", "None", "None"]
    assert sum(found.clusters["count"].to_pylist()) == 60
    assert len(found.directory.sample) == 60
    assert sorted(found.directory.sample["x"].to_pylist()) == list(range(60))
    found.verify()


def opened(path: Path) -> None:
    """Read all of an index file."""
    IndexFile(LOCAL, str(path)).verify()


def test_a_file_cut_off_anywhere(tmp_path: Path) -> None:
    whole = Path(written(tmp_path, "part", GROUPS, LAYOUT).path).read_bytes()
    for length in range(len(whole)):
        with pytest.raises(BrokenIndex, match="broken"):
            files._read_directory(pa.BufferReader(whole[:length]), "broken")
    assert files._read_directory(pa.BufferReader(whole), "broken").layout == LAYOUT


def test_a_bit_flipped_anywhere(tmp_path: Path) -> None:
    whole = Path(written(tmp_path, "part", GROUPS, LAYOUT).path).read_bytes()
    broken, dice = tmp_path / "broken", random.Random(1)
    for at in {*range(300), *range(len(whole) - 60, len(whole)), *dice.sample(range(len(whole)), 500)}:
        flipped = bytearray(whole)
        flipped[at] ^= 1 << dice.randrange(8)
        broken.write_bytes(flipped)
        with pytest.raises(BrokenIndex, match="broken"):
            opened(broken)


def test_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(bytes(1000))
    with pytest.raises(BrokenIndex, match="is not an index file"):
        opened(path)
    with pytest.raises(BrokenIndex, match="cannot be read") as error:
        opened(tmp_path / "absent")
    assert error.value.path.endswith("absent")


def test_a_newer_format(tmp_path: Path) -> None:
    path = tmp_path / "part"
    with pa.OSFile(str(path), "wb") as sink:
        write_index(GROUPS, LAYOUT, DataFile("part", 1, 2, 60), sink)
    data, trailer = path.read_bytes(), files.TRAILER
    *directory, _, magic = trailer.unpack(data[-trailer.size :])
    path.write_bytes(data[: -trailer.size] + trailer.pack(*directory, 2, magic))
    with pytest.raises(BrokenIndex, match="format 2") as error:
        opened(path)
    assert "version of cerise" in str(error.value)


def test_a_damaged_cluster_is_found_when_it_is_touched(tmp_path: Path) -> None:
    file = written(tmp_path, "part", GROUPS, LAYOUT)
    offset = file.clusters["offset"].to_pylist()[3]
    type_ = file.clusters["type"].to_pylist()[3]
    data = bytearray(Path(file.path).read_bytes())
    data[offset] ^= 1
    Path(file.path).write_bytes(data)
    index = Index(Synopsis.of([IndexFile(LOCAL, file.path)]), LAYOUT, LOCAL)
    others = tuple({"A", "B", None} - {type_})
    assert len(index.look_up(Criteria(others)).times) == 40
    with pytest.raises(BrokenIndex, match="block 1 of index file") as error:
        index.look_up(Criteria((type_,)))
    again = pickle.loads(pickle.dumps(error.value))
    assert (again.path, again.block, str(again)) == (file.path, 1, str(error.value))


def test_a_file_that_has_shrunk_or_gone(tmp_path: Path) -> None:
    file = written(tmp_path, "part", GROUPS, LAYOUT)
    synopsis = Synopsis.of([file])
    Path(file.path).write_bytes(Path(file.path).read_bytes()[:-1])
    with pytest.raises(BrokenIndex, match="bytes, not"):
        Index(synopsis, LAYOUT, LOCAL).look_up(Criteria(None))
    Path(file.path).unlink()
    with pytest.raises(BrokenIndex, match="cannot be read"):
        Index(synopsis, LAYOUT, LOCAL).look_up(Criteria(None))


def test_other_file_systems(tmp_path: Path) -> None:
    """In a folder of local files they are mapped, elsewhere read."""
    written(tmp_path, "part", GROUPS, LAYOUT)
    below = pafs.SubTreeFileSystem(str(tmp_path), LOCAL)
    remote = pafs._MockFileSystem()
    with remote.open_output_stream("part.index") as out:
        out.write((tmp_path / "part.index").read_bytes())
    for filesystem in (below, remote):
        file = IndexFile(filesystem, "part.index")
        file.verify()
        index = Index(Synopsis.of([file]), LAYOUT, filesystem)
        assert index.look_up(Criteria(("A",))).times.tolist() == list(range(0, 60, 3))


def test_rows_must_be_those_of_the_file() -> None:
    sink = pa.BufferOutputStream()
    with pytest.raises(StoreError, match="61 rows, but 60"):
        write_index(GROUPS, LAYOUT, DataFile("part", 1, 2, 61), sink)


def test_events_without_time() -> None:
    table = pa.table({"t": pa.array([1, None]), "x": [1, 2]})
    with pytest.raises(DataError, match="have no time"):
        write_index(
            [table],
            IndexLayout(table.schema, "t", None, ("x",)),
            DataFile("p", 1, 2, 2),
            pa.BufferOutputStream(),
        )


def test_files_older_than_the_types_of_the_table(tmp_path: Path) -> None:
    columns = pa.schema([("t", pa.timestamp("us")), ("k", pa.string()), ("x", pa.int64())])
    layout = IndexLayout(columns, "t", "k", ("x",))
    old = pa.table(
        {
            "t": pa.array([5_000, 3_000], pa.timestamp("ns")),
            "k": ["A", "A"],
            "x": pa.array([1, 2], pa.int32()),
        }
    )
    index = Index(Synopsis.of([written(tmp_path, "old", [old], layout)]), layout, LOCAL)
    found = index.look_up(Criteria(("A",)))
    assert found.times.tolist() == [3, 5]
    assert index.column("x", found.places).equals(pa.array([2, 1], pa.int64()))
    with pytest.raises(DataError, match="has type string, and is int64 in the table"):
        written(tmp_path, "wrong", [old.set_column(2, "x", pa.array(["a", "b"]))], layout)
    with pytest.raises(DataError, match="no column 'k'"):
        written(tmp_path, "less", [old.drop_columns(["k"])], layout)


def test_rows_without_arrival() -> None:
    arrival = pa.array([{"append": 1, "row": None}], pa.struct([("append", pa.int64()), ("row", pa.int64())]))
    table = pa.table({"t": [1], "_seq": arrival})
    layout = IndexLayout(table.schema, "t", None, (), sequence=True)
    with pytest.raises(DataError, match="no column '_seq'"):
        write_index([table.select(["t"])], layout, DataFile("p", 1, 2, 1), pa.BufferOutputStream())
    with pytest.raises(DataError, match=r"_seq\.row"):
        write_index([table], layout, DataFile("p", 1, 2, 1), pa.BufferOutputStream())


def test_the_same_rows_give_the_same_bytes() -> None:
    sinks = [pa.BufferOutputStream() for _ in range(2)]
    for sink in sinks:
        write_index(GROUPS, LAYOUT, DataFile("part", 1, 2, 60), sink)
    one, two = (xxhash.xxh64_intdigest(sink.getvalue()) for sink in sinks)
    assert one == two


def test_a_sample_is_even_and_bounded(tmp_path: Path) -> None:
    table = pa.table({"t": range(20_000), "x": range(20_000)})
    layout = IndexLayout(table.schema, "t", None, ("x",))
    drawn = written(tmp_path, "part", [table.slice(i, 3_000) for i in range(0, 20_000, 3_000)], layout)
    values = drawn.directory.sample["x"].to_pylist()
    assert len(set(values)) == 1_024
    assert 9_000 < sum(values) / 1_024 < 11_000
    assert 8_500 < sum(values[:200]) / 200 < 11_500


# ---- forged: every checksum fits


def forge(found: IndexFile, part: str, **columns: list[int]) -> IndexFile:
    """Write an index file again, with other numbers in its directory."""
    table = getattr(found.directory, part)
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    directory = replace(found.directory, **{part: table}).to_buffer()
    whole = Path(found.path).read_bytes()
    start = files.TRAILER.unpack(whole[-files.TRAILER.size :])[0]
    trailer = (start, len(directory), xxhash.xxh64_intdigest(directory), files.VERSION, files.MAGIC)
    Path(found.path).write_bytes(whole[:start] + directory.to_pybytes() + files.TRAILER.pack(*trailer))
    return IndexFile(LOCAL, found.path)


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("clusters", "count", HUGE), ("clusters", "count", -1), ("clusters", "offset", -8),
        ("clusters", "offset", 2**62), ("clusters", "length", 2**62), ("clusters", "length", -1),
        ("clusters", "block", 7), ("clusters", "block", -1), ("clusters", "least.1", -(2**62)),
        ("clusters", "last", 2**62), ("blocks", "words.0", HUGE), ("blocks", "words.0", -1),
        ("blocks", "words_offset.0", 2**62), ("blocks", "words_offset.0", -1),
        ("blocks", "words_length.0", 2**62), ("blocks", "words_length.0", 1), ("blocks", "words.0", 1),
    ],
)  # fmt: skip
def test_a_forged_file_is_not_followed(tmp_path: Path, part: str, name: str, value: int) -> None:
    found = written(tmp_path, "part", GROUPS, LAYOUT)
    values = getattr(found.directory, part).column(name).to_pylist()

    def answered() -> None:
        forged = forge(found, part, **{name: [value, *values[1:]]})
        index = Index(Synopsis.of([forged]), LAYOUT, LOCAL)
        places = index.look_up(Criteria(None)).places
        index.column("s", places)

    with pytest.raises(BrokenIndex):
        answered()


def test_a_forged_synopsis_is_not_followed(tmp_path: Path) -> None:
    synopsis = Synopsis.of([written(tmp_path, "part", GROUPS, LAYOUT)])
    sizes = pa.array([2**60], pa.int64())
    large = replace(synopsis, table_of_files=synopsis.table_of_files.set_column(1, "index_size", sizes))
    with pytest.raises(BrokenIndex):
        Index(large, LAYOUT, LOCAL).look_up(Criteria(None))
    numbers = pa.array([9] * len(synopsis.clusters), pa.int32())
    astray = replace(synopsis, clusters=synopsis.clusters.set_column(0, "group", numbers))
    sink = pa.BufferOutputStream()
    astray.save(sink)
    with pytest.raises(BrokenIndex, match="the number of a group is out of range"):
        Synopsis.load(sink.getvalue())
