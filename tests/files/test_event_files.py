"""Files of events become one table in arrival order, or an error that says which file and what is wrong."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cerise.errors import DataError, StoreError
from cerise.files.event_files import parquet_schema, read
from cerise.files.text import TextLayout

MAY_26 = dt.datetime(2023, 5, 26, 10, 55)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def times(path: Path, time: str = "t", written: str | None = None) -> list[object]:
    return read(path, time=time, written=written)[time].to_pylist()


# ---- formats


def test_csv_has_the_types_of_its_values(tmp_path: Path) -> None:
    table = read(put(tmp_path / "a.csv", "n,x,s,b\n1,2.5,hello,true\n9007199254740993,3,,false\n"))
    assert table.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.bool_()]
    assert table["n"].to_pylist() == [1, 2**53 + 1]


def test_a_late_decimal_makes_the_whole_column_one_of_doubles(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "x,pad\n" + "1,................\n" * 100_000 + "2.5,.\n")
    table = read(path)
    assert table.schema.field("x").type == pa.float64()
    assert table["x"][-1].as_py() == 2.5


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_out(tmp_path: Path, delimiter: str) -> None:
    path = put(tmp_path / "a.csv", f"a{delimiter}b\n1{delimiter}2\n")
    assert read(path).to_pydict() == {"a": [1], "b": [2]}


def test_the_delimiter_can_be_given(tmp_path: Path) -> None:
    assert read(put(tmp_path / "a.csv", "a,b:c\n1,2:3\n"), layout=TextLayout(delimiter=":")).to_pydict() == {
        "a,b": ["1,2"],
        "c": [3],
    }


def test_a_file_without_header(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "x,1\ny,2\n")
    assert read(path, layout=TextLayout(header=False)).to_pydict() == {"f0": ["x", "y"], "f1": [1, 2]}
    assert read(path, layout=TextLayout(columns=("k", "n"))).to_pydict() == {"k": ["x", "y"], "n": [1, 2]}


def test_compressed_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n1\n"))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"a": 2}\n'))
    assert read(tmp_path).to_pydict() == {"a": [1, 2]}


def test_json_lines_nest(tmp_path: Path) -> None:
    table = read(put(tmp_path / "a.json", '{"t": 1, "p": {"x": 2}}\n{"t": 2, "p": null}\n'))
    assert table.to_pylist() == [{"t": 1, "p": {"x": 2}}, {"t": 2, "p": None}]


def test_json_keeps_the_zone_of_a_time(tmp_path: Path) -> None:
    table = read(put(tmp_path / "a.json", '{"t": "2023-05-26T10:55:00+02:00", "u": "2023-05-26T10:55:00"}\n'))
    assert table.schema.types == [pa.timestamp("us", "UTC"), pa.timestamp("us")]
    assert table["t"][0].as_py() == dt.datetime(2023, 5, 26, 8, 55, tzinfo=dt.UTC)


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([202305261055], pa.int64()), "x": pa.array([1], pa.int8())})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", time="t") == table


# ---- order


def test_a_directory_is_read_by_file_name_then_row(tmp_path: Path) -> None:
    for name, rows in {"b": "3\n", "a": "2\n1\n", "c": "0\n"}.items():
        put(tmp_path / f"{name}.csv", f"t\n{rows}")
    put(tmp_path / "_SUCCESS", "")
    put(tmp_path / ".a.csv.crc", "?")
    assert read(tmp_path)["t"].to_pylist() == [2, 1, 3, 0]


def test_columns_may_stand_in_another_order(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "t,x\n1,2\n")
    put(tmp_path / "b.csv", "x,t\n4,3\n")
    assert read(tmp_path).to_pydict() == {"t": [1, 3], "x": [2, 4]}


def test_guessed_types_of_text_files_are_joined(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "t,x,y\n2023-05-26 10:55,1,\n")
    put(tmp_path / "b.csv", "t,x,y\n2023-05-26 10:55:30.5,1.5,z\n")
    put(tmp_path / "c.csv", "")
    table = read(tmp_path, time="t")
    assert table.schema.types == [pa.timestamp("us"), pa.float64(), pa.string()]
    assert table["x"].to_pylist() == [1.0, 1.5]


# ---- times


@pytest.mark.parametrize(
    "text",
    [
        "2023-05-26 10:55",
        "2023-05-26T10:55:00",
        "2023/05/26 10:55",
        "2023/05/26 10:55:00",
        "202305261055",
        "20230526105500",
    ],
)
def test_times_that_can_be_read_in_one_way_only(tmp_path: Path, text: str) -> None:
    assert times(put(tmp_path / "a.csv", f"t\n{text}\n")) == [MAY_26]
    assert times(
        put(tmp_path / "a.json", f'{{"t": "{text}"}}\n' if len(text) > 14 else f'{{"t": {text}}}\n')
    ) == [MAY_26]


@pytest.mark.parametrize(
    ("text", "written", "expected"),
    [
        ("26.05.2023 10:55", "%d.%m.%Y %H:%M", MAY_26),
        ("05/26/2023 10:55", "%m/%d/%Y %H:%M", MAY_26),
        ("20230526", "%Y%m%d", dt.datetime(2023, 5, 26)),
        ("1685098500000", "ms", MAY_26.replace(tzinfo=dt.UTC)),
        ("1685098500", "s", MAY_26.replace(tzinfo=dt.UTC)),
        ("202305261055", "integer", 202305261055),
    ],
)
def test_times_as_the_user_says(tmp_path: Path, text: str, written: str, expected: object) -> None:
    assert times(put(tmp_path / "a.csv", f"t\n{text}\n"), written=written) == [expected]


@pytest.mark.parametrize(
    "numbers", ["1 2 3", "1086217263125", "200813011055", "946684800000", "202305261055 7"]
)
def test_other_integers_stay_integers(tmp_path: Path, numbers: str) -> None:
    path = put(tmp_path / "a.csv", "t\n" + "\n".join(numbers.split()) + "\n")
    assert times(path) == [int(number) for number in numbers.split()]


def test_a_missing_time_is_null(tmp_path: Path) -> None:
    assert times(put(tmp_path / "a.csv", "t,x\n2023/05/26 10:55,1\n,2\n")) == [MAY_26, None]
    assert read(put(tmp_path / "b.csv", "t,x\n,1\n"), time="t").schema.field("t").type == pa.timestamp("us")


def test_text_that_is_no_time(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not understood as time, such as '26 May'") as caught:
        times(put(tmp_path / "a.csv", "t\n26 May\n"))
    assert "%d.%m.%Y" in str(caught.value)


@pytest.mark.parametrize("day", ["2023/02/31 10:00", "2023/13/01 10:00"])
def test_a_day_that_does_not_exist(tmp_path: Path, day: str) -> None:
    path = put(tmp_path / "a.csv", f"t\n2023/02/01 10:00\n{day}\n")
    with pytest.raises(DataError, match=f"holds '{day}' in row 1, which is not written as the times before"):
        times(path)
    with pytest.raises(DataError, match=f"holds '{day}' in row 1"):
        times(path, written="%Y/%m/%d %H:%M")


def test_text_does_not_count_from_1970(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not count ms since 1970"):
        times(put(tmp_path / "a.csv", "t\nx\n"), written="ms")


# ---- nothing there


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", ""), ("a.json", ""), ("a.json", "\n\n"), ("a.csv", "t,x\n")]
)
def test_an_empty_file_has_no_events(tmp_path: Path, name: str, text: str) -> None:
    assert read(put(tmp_path / name, text), time="t").num_rows == 0


def test_an_empty_parquet_file_keeps_its_types(tmp_path: Path) -> None:
    schema = pa.schema({"t": pa.int64()})
    pq.write_table(schema.empty_table(), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", time="t").schema == schema


# ---- bad input


def test_a_missing_file(tmp_path: Path) -> None:
    put(tmp_path / "trades.csv", "t\n1\n")
    with pytest.raises(StoreError, match=r"there is no file .*trade\.csv") as caught:
        read(tmp_path / "trade.csv")
    assert "did you mean 'trades.csv'?" in str(caught.value)
    with pytest.raises(StoreError, match="no directory"):
        read(tmp_path / "nowhere" / "a.csv")


def test_a_directory_without_files(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no files"):
        read(tmp_path)


def test_a_directory_in_a_directory(tmp_path: Path) -> None:
    put(tmp_path / "year=2023" / "a.csv", "t\n1\n")
    with pytest.raises(StoreError, match=r"year=2023 is a directory inside"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz"])
def test_an_unknown_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="unknown format"):
        read(put(tmp_path / name, "t\n1\n"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"no parquet"),
        ("a.csv.gz", b"no gzip"),
        ("a.csv.gz", gzip.compress(b"t\n1\n" * 1000, mtime=0)[:-20]),
        ("a.csv", b"a,b\n1\n"),
        ("a.json", b'{"a": 1'),
        ("a.json", b'{"a": 1}\n{"a": "x"}\n'),
    ],
)
def test_a_corrupt_file(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StoreError, match=f"cannot read .*{name}"):
        read(tmp_path / name)


def test_a_json_array(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds one JSON array"):
        read(put(tmp_path / "a.json", '[{"t": 1}]'))


def test_null_before_all_objects_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="begins with null"):
        read(put(tmp_path / "a.jsonl", 'null\n{"t": 1}\n'))


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("t,x\n1,María\n".encode("latin1"))
    with pytest.raises(StoreError, match=r"column 'x' of .*a\.csv is not UTF-8"):
        read(tmp_path / "a.csv")


def test_mixed_types_name_both_files(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "t,x\n1,2\n")
    put(tmp_path / "b.csv", "t,x\n1,two\n")
    with pytest.raises(StoreError, match=r"column 'x' has type int64 in .*a\.csv and string in .*b\.csv"):
        read(tmp_path)


def test_mixed_columns_name_both_files(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "t,x\n1,2\n")
    put(tmp_path / "b.csv", "t\n1\n")
    with pytest.raises(StoreError, match=r"a\.csv has a column 'x' and .*b\.csv has not"):
        read(tmp_path)


def test_parquet_types_are_meant(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.int64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([1.0])}), tmp_path / "b.parquet")
    with pytest.raises(StoreError, match="column 'x' has type int64"):
        read(tmp_path)
    with pytest.raises(StoreError, match="column 'x' has type int64"):
        parquet_schema(sorted(tmp_path.iterdir()))


def test_a_column_that_stands_twice(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"a\.csv has more than one column named 'x'"):
        read(put(tmp_path / "a.csv", "x,t,x\n1,2,3\n"), time="t")


def test_integers_beyond_64_bits_stay_exact(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    path.write_text("t,x,y\n1,9007199254740993,1e20\n2,99999999999999999999,2\n3,,3\n")
    table = read(path, time="t")
    assert table.column("x").to_pylist() == ["9007199254740993", "99999999999999999999", None]
    assert table.column("y").to_pylist() == [1e20, 2.0, 3.0]


def test_the_time_that_is_wrong_is_the_one_that_is_named(tmp_path: Path) -> None:
    times = [f"2024-01-01 00:00:{second:02}" for second in range(50)]
    for row, bad in ((1, "nope"), (30, "2024-13-01 00:00:00"), (49, "yesterday")):
        file = tmp_path / f"{row}.csv"
        file.write_text(
            "\n".join(["ts,x", *(f"{bad if i == row else time},1" for i, time in enumerate(times))])
        )
        with pytest.raises(DataError, match=f"holds '{bad}' in row {row}, which is not written as the times"):
            read(file, time="ts")
    for bad in ("nope", "31.12.2024"):  # none is good
        (tmp_path / "all.csv").write_text(f"ts,x\n{bad},1\n2024-01-01 00:00:00,1\n")
        with pytest.raises(DataError, match=f"such as '{bad}'"):
            read(tmp_path / "all.csv", time="ts")
