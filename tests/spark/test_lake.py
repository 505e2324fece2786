"""Queries over files by path: whatever the files are like, the matches are those of the whole table."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import CeriseError, Options
from cerise.engines.limits import Limits
from cerise.files import lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RISES = "PATTERN SEQ(A a, B b, A c) WHERE b.x > a.x AND c.x > 3 WITHIN 20"
ROLES: dict[str, Any] = {"time": "t", "type": "kind"}
pytestmark = pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")


def stream(count: int = 400, seed: int = 0) -> pa.Table:
    rng = random.Random(seed)
    return pa.table({
        "t": sorted(rng.randrange(2 * count) for _ in range(count)),
        "kind": rng.choices("ABC", k=count),
        "x": [rng.choice([None, *range(10)]) for _ in range(count)],
        "k": rng.choices([None, "p", "q"], k=count),
        "note": [f"note {i}" for i in range(count)],
    })  # fmt: skip


def ids(found: Any) -> list[int]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(table.column("match_id").to_pylist())


def write(table: pa.Table, folder: Path, files: int = 3, group: int = 20) -> str:
    size = -(-len(table) // files)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        part = table.slice(number * size, size)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=group)
    return str(folder)


# ---- ways through files


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("query", [RISES, RISES.replace("WITHIN 20", "WITHIN 30 EVENTS")])
def test_slices_of_time_find_every_match_once(
    tmp_path: Path, spark: SparkSession, partitions: int, query: str
) -> None:
    table = stream()
    path = write(table, tmp_path / "events")
    found = cerise.profile(path, query, **ROLES, options=Options(partitions=partitions), spark=True)
    assert ids(found.matches) == ids(cerise.find(table, query, **ROLES))
    figures = found.report.figures
    assert figures["tasks matching"] == partitions
    assert figures["events"] == figures["events after pruning"] == len(table)
    assert figures["matches"] == len(ids(found.matches))
    assert figures["bytes read"] > 0


@pytest.mark.parametrize("query", [RISES, RISES.replace("WITHIN 20", "PARTITION BY k WITHIN 9 EVENTS")])
def test_files_out_of_order_are_exchanged_once(tmp_path: Path, spark: SparkSession, query: str) -> None:
    table = stream()
    order = random.Random(1).sample(range(len(table)), len(table))
    shuffled = table.take(pa.array(order))
    path = write(shuffled, tmp_path / "events", group=100)
    options = Options(partitions=3)
    said = cerise.explain(path, query, **ROLES, spark=True)
    assert "matching reads" in said
    found = cerise.profile(path, query, **ROLES, options=options, spark=True)
    assert ids(found.matches) == ids(cerise.find(shuffled, query, **ROLES))


@pytest.mark.parametrize("query", [RISES, RISES.replace("SEQ(A a, B b, A c)", "SEQ(A a, B+ b[], A c)")])
def test_matches_that_do_not_overlap_are_chained(tmp_path: Path, spark: SparkSession, query: str) -> None:
    table = stream(2_000)
    path = write(table, tmp_path / "events")
    query += " OUTPUT NON_OVERLAPPING"
    options = Options(partitions=5)
    assert "one more chooses among their candidates" in cerise.explain(
        path, query, **ROLES, options=options, spark=True
    )
    found = cerise.profile(path, query, **ROLES, options=options, spark=True)
    assert ids(found.matches) == ids(cerise.find(table, query, **ROLES))
    assert found.report.figures["matches"] == cerise.count(path, query, **ROLES, options=options, spark=True)
    rows = found.matches.toArrow().to_pylist()
    assert sorted(map(str, rows)) == sorted(map(str, cerise.find(table, query, **ROLES).to_pylist()))


def test_a_large_unordered_table_is_exchanged(tmp_path: Path, spark: SparkSession) -> None:
    options = Options(limits=Limits(task_events=100))
    table = stream().take(pa.array(random.Random(1).sample(range(400), 400)))
    path = write(table, tmp_path / "events", group=100)
    assert "exchanged by time: row groups are few, or overlap in time" in cerise.explain(
        path, RISES, **ROLES, options=options, spark=True
    )
    found = cerise.profile(path, RISES, **ROLES, options=options, spark=True)
    assert ids(found.matches) == ids(cerise.find(table, RISES, **ROLES))
    assert found.report.figures["bytes exchanged"] > 0


def test_columns_that_are_only_returned_are_read_of_matched_events(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = stream()
    path = write(table, tmp_path / "events")
    assert "of matched events also k, note" in cerise.explain(path, RISES, **ROLES, spark=True)
    found = cerise.find(path, RISES, **ROLES, options=Options(partitions=4), spark=True).toArrow().to_pylist()
    here = cerise.find(table, RISES, **ROLES).to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, here))


def test_row_groups_that_cannot_match_are_not_read(tmp_path: Path, spark: SparkSession) -> None:
    table = pa.table({"t": range(100), "kind": ["A"] * 60 + ["B"] * 40, "x": [*range(100)]})
    path = write(table, tmp_path / "events", files=1, group=10)
    query = "PATTERN SEQ(A a, B b) WHERE a.x >= 55 AND b.x < 75 WITHIN 100"
    found = cerise.profile(path, query, **ROLES, spark=True)
    assert ids(found.matches) == ids(cerise.find(table, query, **ROLES))
    figures = found.report.figures
    assert (figures["row groups"], figures["row groups after pruning"]) == (10, 3)


def test_counting_and_an_empty_table(tmp_path: Path, spark: SparkSession) -> None:
    table = stream()
    path = write(table, tmp_path / "events")
    assert cerise.count(path, RISES, **ROLES, spark=True) == len(cerise.find(table, RISES, **ROLES))
    empty = write(table.slice(0, 0), tmp_path / "none", files=1)
    assert cerise.count(empty, RISES, **ROLES, spark=True) == 0
    assert cerise.find(empty, RISES, **ROLES, spark=True).count() == 0


def test_several_queries_in_one_pass(tmp_path: Path, spark: SparkSession) -> None:
    table = stream()
    path = write(table, tmp_path / "events")
    queries = [RISES, "PATTERN SEQ(B p, C q) WHERE p.x = q.x WITHIN 5 RETURN p.x AS same INTO Pairs"]
    for events in (path, spark.createDataFrame(table.to_pandas().convert_dtypes()), table):
        roles = ROLES | {"order": "note"}
        where = True if isinstance(events, str) else None
        found = cerise.find(events, queries, **roles, spark=where)
        rows = (found if isinstance(found, pa.Table) else found.toArrow()).to_pylist()
        for tag, query in zip(("1", "Pairs"), queries, strict=True):
            alone = ids(cerise.find(table, query, **roles))
            assert sorted(row["match_id"] for row in rows if row["query"] == tag) == alone
    report = cerise.profile(path, queries, **ROLES, options=Options(partitions=1), spark=True)
    report.matches.count()
    assert report.report.figures["events read"] == len(table)


# ---- kinds of tables


def test_hive_partitions_are_columns(tmp_path: Path, spark: SparkSession) -> None:
    table = stream()
    days = pa.array([i // 100 for i in range(len(table))], pa.int64())
    for day in range(4):
        part = table.filter(pa.array(np.asarray(days) == day))
        write(part, tmp_path / "events" / f"day={day}" / "site=a%20b", files=1)
    whole = table.append_column("day", days).append_column("site", pa.array(["a b"] * len(table)))
    query = f"{RISES.replace('WITHIN', 'AND a.day = 1 WITHIN')}"
    assert ids(cerise.find(str(tmp_path / "events"), query, **ROLES, spark=True)) == ids(
        cerise.find(whole, query, **ROLES)
    )
    row = cerise.find(str(tmp_path / "events"), query, **ROLES, spark=True).select("a.day", "a.site").first()
    assert tuple(row) == (1, "a b")


def test_a_delta_table_at_a_version(tmp_path: Path, spark: SparkSession) -> None:
    deltalake = pytest.importorskip("deltalake")
    first, second = stream(seed=1), stream(seed=2)
    path = str(tmp_path / "events")
    deltalake.write_deltalake(path, first)
    deltalake.write_deltalake(path, second, mode="append")
    old = cerise.find(path, RISES, **ROLES, version=0, spark=True)
    assert ids(old) == ids(cerise.find(first, RISES, **ROLES))
    assert cerise.count(path, RISES, **ROLES, spark=True) > old.count()
    with pytest.raises(cerise.StoreError, match="version 7"):
        cerise.find(path, RISES, **ROLES, version=7, spark=True)


def test_a_table_with_other_features_is_never_read_past_them(tmp_path: Path, spark: SparkSession) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "events"
    deltalake.write_deltalake(str(path), stream())
    log = path / "_delta_log" / "00000000000000000001.json"
    log.write_text(
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["columnMapping"],'
        '"writerFeatures":["columnMapping"]}}\n'
    )
    with pytest.raises(cerise.StoreError, match="columnMapping"):  # this Spark has no Delta of its own
        cerise.find(str(path), RISES, **ROLES, spark=True)


def test_columns_may_come_later_and_grow_wider(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    old = pa.table({"t": pa.array([1, 2], pa.int32()), "kind": ["A", "B"], "x": pa.array([1, 2], pa.int8())})
    new = pa.table(
        {"t": pa.array([3, 4], pa.int64()), "kind": ["A", "B"], "x": pa.array([300, 400]), "y": [1.5, 2.5]}
    )
    pq.write_table(old, folder / "1.parquet")
    pq.write_table(new, folder / "2.parquet")
    found = cerise.find(
        str(folder), "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1", **ROLES, spark=True
    ).orderBy("first_time")
    rows = found.select("a.x", "b.x", "b.y").collect()
    assert [tuple(row) for row in rows] == [(1, 2, None), (300, 400, 2.5)]


def test_types_that_contradict_name_both_files(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    pq.write_table(pa.table({"t": [1], "kind": ["A"], "x": [1]}), folder / "1.parquet")
    pq.write_table(pa.table({"t": [1], "kind": ["A"], "x": ["one"]}), folder / "2.parquet")
    with pytest.raises(cerise.StoreError, match=r"int64 in .*1\.parquet and string in .*2\.parquet"):
        cerise.find(str(folder), RISES, **ROLES, spark=True)


# ---- times


def moments(unit: str, zone: str | None = None) -> pa.Table:
    base = dt.datetime(1969, 12, 31, 23, 59, 58)
    times = [base + dt.timedelta(seconds=i) for i in range(6)]
    return pa.table({"t": pa.array(times, pa.timestamp(unit, zone)), "kind": list("ABABAB")})


@pytest.mark.parametrize(
    "table",
    [
        moments("s"), moments("ms"), moments("us"), moments("ns"), moments("us", "UTC"),
        moments("ns", "Asia/Kolkata"),
        pa.table({"t": [dt.date(1970, 1, 1) + dt.timedelta(i) for i in range(-3, 3)], "kind": [*"AB"] * 3}),
        pa.table({"t": pa.array([-2, -1, 0, 1, 2, 3], pa.int16()), "kind": list("ABABAB")}),
    ],
    ids=lambda table: str(table.schema.field("t").type),
)  # fmt: skip
def test_times_of_every_kind(tmp_path: Path, spark: SparkSession, table: pa.Table) -> None:
    path = write(table, tmp_path / "events", files=2, group=2)
    step = {"date32[day]": "1 day", "int16": "1"}.get(str(table.schema.field("t").type), "1 second")
    query = f"PATTERN SEQ(A a, B b) WITHIN {step}"
    for partitions in (1, 3):
        found = cerise.find(path, query, **ROLES, options=Options(partitions=partitions), spark=True)
        assert ids(found) == ids(cerise.find(table, query, **ROLES))
        assert found.count() == 3


def test_nanoseconds_that_are_no_microseconds_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    table = pa.table({"t": pa.array([1, 2001], pa.timestamp("ns")), "kind": ["A", "B"]})
    path = write(table, tmp_path / "events", files=1)
    with pytest.raises(CeriseError, match="cannot read column 't'"):
        cerise.find(path, "PATTERN SEQ(A a, B b) WITHIN 1 second", **ROLES, spark=True).collect()


def test_statistics_that_are_not_there_mean_that_anything_may_be(tmp_path: Path, spark: SparkSession) -> None:
    table = stream()
    for number, how in enumerate(({"write_statistics": False}, {"use_deprecated_int96_timestamps": True})):
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(table, folder / "1.parquet", row_group_size=50, **how)
        assert ids(cerise.find(str(folder), RISES, **ROLES, spark=True)) == ids(
            cerise.find(table, RISES, **ROLES)
        )


# ---- what is wrong


def no_files(path: Path) -> str:
    path.mkdir()
    return str(path)


def half_a_file(path: Path) -> str:
    folder = write(stream(), path, files=1)
    file = path / "part-0.parquet"
    file.write_bytes(file.read_bytes()[:500])
    return folder


def null_times(path: Path) -> str:
    return write(pa.table({"t": [1, None], "kind": ["A", "B"], "x": [1, 2]}), path, files=1)


def no_time(path: Path) -> str:
    write(stream(), path, files=1)
    pq.write_table(stream().drop_columns("t"), path / "z.parquet")
    return str(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (str, "there is nothing at"), (no_files, "holds no Parquet files"),
        (half_a_file, "cannot read .*part-0.parquet"), (null_times, "1 events have no time"),
        (no_time, "z.parquet has no column 't'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_at_once(
    tmp_path: Path, spark: SparkSession, make: Callable[[Path], str], said: str
) -> None:
    with pytest.raises(cerise.CeriseError, match=said):
        cerise.find(make(tmp_path / "events"), RISES, **ROLES)


def test_a_corrupt_row_group_is_named(tmp_path: Path, spark: SparkSession) -> None:
    path = write(stream(), tmp_path / "events", files=1, group=100)
    file = tmp_path / "events" / "part-0.parquet"
    column = pq.read_metadata(file).row_group(1).column(0)
    data = bytearray(file.read_bytes())
    data[column.dictionary_page_offset or column.data_page_offset] ^= 0xFF
    data[column.data_page_offset + 1] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(CeriseError, match=r"part-0\.parquet, row group 1"):
        cerise.find(path, RISES, **ROLES, spark=True).collect()


def test_files_that_vanish_are_named(tmp_path: Path, spark: SparkSession) -> None:
    path = write(stream(), tmp_path / "events", files=1)
    found = cerise.find(path, RISES, **ROLES, spark=True)
    (tmp_path / "events" / "part-0.parquet").unlink()
    with pytest.raises(CeriseError, match=r"cannot read .*part-0\.parquet"):
        found.collect()


def test_null_keys(tmp_path: Path, spark: SparkSession) -> None:
    table = stream()
    path = write(table, tmp_path / "events")
    for query in (
        "PATTERN SEQ(A a, B b) PARTITION BY k WITHIN 9",
        "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9",
        "PATTERN SEQ(A a, B b) PARTITION BY k WITHIN 5 EVENTS",
        "PATTERN SEQ(A a, B b) PARTITION BY k OUTPUT NON_OVERLAPPING",
    ):
        for partitions in (None, 3):
            found = cerise.find(path, query, **ROLES, options=Options(partitions=partitions), spark=True)
            assert ids(found) == ids(cerise.find(table, query, **ROLES))


def test_a_path_that_python_cannot_open_is_left_to_spark(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stream()
    path = write(table, tmp_path / "events")

    def refuse(_path: str, _version: int | None = None) -> lake.Lake:
        raise lake.NotDirect("it is elsewhere")

    monkeypatch.setattr(lake, "open_lake", refuse)
    assert "scan       by Spark: it is elsewhere" in cerise.explain(path, RISES, **ROLES, spark=True)
    roles = ROLES | {"order": "note"}
    assert ids(cerise.find(path, RISES, **roles, spark=True)) == ids(cerise.find(table, RISES, **roles))
