"""`cerise store` and `cerise index` as a user meets them: what is printed, what is wrong, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise as library
from cerise.cli import terminal
from cerise.cli.store_actions import columns_of, size
from tests.cli.test_cli import Q_1, ROLES, TABLE_1, cerise

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import SparkSession

PAIR = "PATTERN SEQ(MSFT a, GOOG b) WHERE a.open > :least WITHIN 5 minutes"
CLAUSE = """
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY ticker ORDER BY date
    MEASURES A.open AS high, LAST(open) AS low
    PATTERN (A B+) DEFINE A AS open > 100, B AS open < PREV(open))"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory with the paper's table and query."""
    monkeypatch.chdir(tmp_path)
    Path("trades.csv").write_text(TABLE_1)
    Path("q1.sase").write_text(Q_1)
    return tmp_path


def create(*more: str, code: int = 0) -> Result:
    return cerise(
        "store", "create", "s", "--from", "trades.csv", *ROLES, "--index", "open,volume", *more, code=code
    )


def told(done: Result) -> list[str]:
    return [" ".join(line.split()) for line in done.output.splitlines()]


def index_file(folder: str = "s") -> Path:
    (found,) = Path(folder, "_cerise", "index").iterdir()
    return found


def damage(file: Path) -> None:
    """Change one byte of a cluster."""
    data = bytearray(file.read_bytes())
    data[20] ^= 255
    file.write_bytes(data)


# ---- create and append


def test_a_store_is_made_of_a_file_with_its_events() -> None:
    assert create().output == "created s\nappended 7 events of trades.csv: version 1\n"
    store = library.Store("s")
    assert store.settings.index == ("open", "volume")
    assert store.schema.field("date").type == pa.timestamp("us")
    assert store.info().events == 7


def test_an_empty_store_has_the_columns_only() -> None:
    assert create("--empty").output == "created s\n"
    assert library.Store("s").info().events == 0


def test_a_store_is_made_of_columns_that_are_written_down() -> None:
    columns = "ticker string, open double, volume long, date timestamp_ntz"
    cerise("store", "create", "s", "--schema", columns, *ROLES)
    assert cerise("store", "append", "s", "trades.csv").output.endswith(": version 1\n")


def test_columns_that_are_written_down() -> None:
    assert columns_of("a string, `b c` DECIMAL(10, 2),d  timestamp") == pa.schema(
        [("a", pa.string()), ("b c", pa.decimal128(10, 2)), ("d", pa.timestamp("us", "UTC"))]
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a strin", "unknown type 'strin'\nhint: did you mean 'string'?"),
        ("a string(3, 1)", "unknown type 'string'"),
        ("a string, b", "'b' is not a column with a type"),
        (" ", "there are no columns"),
    ],
)
def test_columns_that_are_written_wrongly(text: str, problem: str) -> None:
    assert problem in cerise("store", "create", "s", "--schema", text, "--time", "a", code=1).stderr


def test_a_store_needs_columns_from_one_place() -> None:
    assert "either --from" in cerise("store", "create", "s", "--time", "t", code=2).stderr
    assert "either --from" in create("--schema", "a string", code=2).stderr
    Path("nothing.csv").write_text("")
    done = cerise("store", "create", "s", "--from", "nothing.csv", *ROLES, code=1)
    assert "nothing.csv is empty" in done.stderr
    assert not Path("s").exists()


def test_wrong_columns_make_no_store() -> None:
    done = cerise("store", "create", "s", "--from", "trades.csv", "--time", "dat", code=1)
    assert "hint: did you mean 'date'?" in done.stderr
    assert "is not in the table" in create("--index", "opne", code=1).stderr
    assert not Path("s").exists()
    create()
    assert "there is something at s already" in create(code=1).stderr


def test_files_of_all_kinds_are_appended() -> None:
    create("--empty")
    cerise("run", "PATTERN a", "--events", "trades.csv", *ROLES, "--output", "m.parquet")
    rows = pq.read_table("m.parquet").column("a").combine_chunks().flatten()
    table = pa.table(rows, names=["ticker", "open", "volume", "date"])
    pq.write_table(table, "trades.parquet")
    Path("day").mkdir()
    pq.write_table(table, "day/one.parquet")
    Path("bare.csv").write_text(TABLE_1.split("\n", 1)[1])
    assert cerise("store", "append", "s", "trades.csv", "trades.parquet", "day").output.splitlines() == [
        "appended 7 events of trades.csv: version 1",
        "appended 7 events of trades.parquet: version 2",
        "appended 7 events of day: version 3",
    ]
    cerise("store", "append", "s", "bare.csv", "--no-header")
    assert library.count(library.Store("s"), "PATTERN SEQ(AAPL a, AAPL b) WHERE a.open > b.open") == 0
    assert library.count(library.Store("s"), "PATTERN AAPL a WHERE a.open > 175.3") == 4


def test_text_is_read_as_the_store_keeps_it() -> None:
    cerise("store", "create", "s", "--schema", "t long, id string, x double, d decimal(6, 2)", "--time", "t")
    Path("e.csv").write_text("id,t,x,d\n007,202305261055,1,2.5\n08,202305261056,2,3\n")
    Path("e.json").write_text('{"id": "9", "t": 1, "x": 3, "d": "1.25"}\n')
    cerise("store", "append", "s", "e.csv", "e.json")
    found = library.Store("s").find("PATTERN a RETURN a.id AS id, a.x AS x, a.t AS t")
    assert sorted(found.select(["id", "x", "t"]).to_pylist(), key=lambda row: row["x"]) == [
        {"id": "007", "x": 1.0, "t": 202305261055},
        {"id": "08", "x": 2.0, "t": 202305261056},
        {"id": "9", "x": 3.0, "t": 1},
    ]
    Path("e.csv").write_text("id,t,x,d\n007,1,one,2.5\n")
    assert "invalid value 'one'" in cerise("store", "append", "s", "e.csv", code=1).stderr


def test_events_that_do_not_fit_are_refused() -> None:
    create()
    Path("other.csv").write_text("ticker,open,volume,date,more\nA,1,2,2023-01-01 10:00,3\n")
    assert (
        "a column 'more' that the table has not" in cerise("store", "append", "s", "other.csv", code=1).stderr
    )
    assert "there is no file nix.csv" in cerise("store", "append", "s", "nix.csv", code=1).stderr
    assert "there is no event table" in cerise("store", "append", "nix", "trades.csv", code=1).stderr
    Path("epoch.csv").write_text("ticker,open,volume,date\nA,1,2,1685098500000\n")
    done = cerise("store", "append", "s", "epoch.csv", code=1)
    assert "hint: give their unit since 1970: --timestamp-format s, ms, us or ns" in done.stderr
    assert library.Store("s").version == 1
    Path("bare.csv").write_text("ticker,open\nA,1\n")
    assert "no column 'volume'" in cerise("store", "append", "s", "bare.csv", code=1).stderr


def test_progress_counts_events(monkeypatch: pytest.MonkeyPatch) -> None:
    create("--empty")
    table = pa.table({"ticker": ["A"] * 70_000, "open": [1.0] * 70_000, "volume": [1] * 70_000,
                      "date": pa.array(range(70_000), pa.timestamp("us"))})  # fmt: skip
    pq.write_table(table, "many.parquet", row_group_size=40_000)
    seen: list[tuple[int, int | None]] = []
    library.Store("s").append("many.parquet", lambda done, total: seen.append((done, total)))
    library.Store("s").append(table, lambda done, total: seen.append((done, total)))
    assert seen == [(40_000, 70_000), (70_000, 70_000), (65_536, 70_000), (70_000, 70_000)]
    monkeypatch.setattr(terminal.sys.stderr, "isatty", lambda: True, raising=False)
    with terminal.show_progress("appending") as progress:
        progress(1, 2)


# ---- info


def test_info_tells_what_there_is() -> None:
    create("--key", "ticker")
    assert told(cerise("store", "info", "s"))[:5] == [
        f"store {Path('s').absolute()}",
        "version 1",
        "events 7",
        "files 1",
        "fresh 7 events in 1 small file, not indexed yet: cerise store compact does it",
    ]
    cerise("store", "compact", "s")
    lines = told(cerise("store", "info", "s"))
    assert lines[4] == "fresh none: every event is indexed"
    assert lines[6].endswith(" % of the data")
    assert lines[7:] == [
        "time 2023-05-26 10:55 to 2023-05-26 11:23",
        "columns ticker string type, key, indexed",
        "open double indexed",
        "volume int64 indexed",
        "date timestamp[us] time, indexed",
    ]
    assert "events 0" in told(cerise("store", "info", "s", "--version", "0"))
    assert "version 9" in cerise("store", "info", "s", "--version", "9", code=1).stderr


@pytest.mark.parametrize(("number", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1_500_000, "1.5 MB")])
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


# ---- find and candidates


@pytest.mark.parametrize(("fresh", "kept"), [(True, 5), (False, 4)])
def test_the_one_match_of_000_table_1(fresh: bool, kept: int) -> None:
    create()
    if not fresh:
        cerise("store", "compact", "s")
    done = cerise("store", "find", "s", "q1.sase")
    plain = cerise("run", "q1.sase", "--events", "trades.csv", *ROLES)
    assert done.stdout == plain.stdout
    assert done.stderr.startswith(f"1 match in 7 events, {kept} of them kept, ")
    (row,) = cerise("store", "find", "s", "-", "--format", "json", stdin=Q_1).stdout.splitlines()
    assert json.loads(row)["v4"]["open"] == 125.16
    cerise("store", "find", "s", "q1.sase", "-o", "m.parquet")
    assert pq.read_table("m.parquet").num_rows == 1


def test_matches_are_counted_and_explained_and_reported() -> None:
    create()
    cerise("store", "compact", "s")
    done = cerise("store", "find", "s", PAIR, "--param", "least=330", "--count", "--report")
    assert done.stdout == "1\n"
    assert "by index: a is looked up" in done.stderr
    assert "matches 1" in told(done)
    explained = cerise("store", "find", "s", PAIR, "--param", "least=330", "--explain").stdout
    assert "store      7 events in 1 file, 3 clusters" in explained
    assert "by index   a is looked up" in explained
    assert "fits about" in cerise("store", "find", "s", "PATTERN a WHERE a.open > 1", "--explain").stdout


def test_sql_is_answered_too() -> None:
    create()
    done = cerise("store", "find", "s", CLAUSE, "--format", "csv")
    assert done.stdout == '"ticker","high","low"\n"GOOG",125.55,125\n'
    assert cerise("store", "find", "s", CLAUSE, "--count").stdout == "1\n"


def test_an_old_version_is_still_asked() -> None:
    create()
    cerise("store", "append", "s", "trades.csv")
    count = ("store", "find", "s", "PATTERN AAPL a", "--count")
    assert cerise(*count).stdout == "4\n"
    assert cerise(*count, "--version", "1").stdout == "2\n"


def test_mistakes_in_a_query_are_pointed_at() -> None:
    create()
    done = cerise("store", "find", "s", "PATTERN MSFT a WHERE a.opne > 1", code=1)
    assert done.stderr.endswith("hint: did you mean 'open'?\n")
    assert "there is no event table" in cerise("store", "find", "nix", "PATTERN a", code=1).stderr


def test_candidates_are_the_events_that_can_match() -> None:
    create()
    cerise("store", "compact", "s")
    done = cerise("store", "candidates", "s", "q1.sase", "-o", "few.parquet")
    assert done.stderr.startswith("4 of 7 events can be part of a match, ")
    few = pq.read_table("few.parquet")
    assert few.column_names == ["ticker", "open", "volume", "date"]
    assert few.column("open").to_pylist() == [329.67, 125.55, 330.85, 125.16]
    cerise("run", "q1.sase", "--events", "few.parquet", *ROLES, "-o", "same.json")
    assert len(Path("same.json").read_text().splitlines()) == 1


def test_a_store_is_asked_on_spark(spark: SparkSession) -> None:
    create()
    here = cerise("store", "find", "s", "q1.sase", "--format", "json")
    there = cerise("store", "find", "s", "q1.sase", "--format", "json", "--spark", "--report")
    assert there.stdout == here.stdout
    assert "events" in there.stderr


# ---- upkeep


def test_compact_tells_what_it_did() -> None:
    create()
    cerise("store", "append", "s", "trades.csv")
    assert cerise("store", "compact", "s").output == "2 files became 1, 14 fresh events indexed: version 3\n"
    assert cerise("store", "compact", "s").output == "nothing to be done: version 3\n"
    index_file().unlink()
    done = cerise("store", "compact", "s").stdout
    assert done == "1 index file written again: version 3\n"
    assert cerise("store", "vacuum", "s").stdout == "0 files removed\n"
    assert cerise("store", "vacuum", "s", "--hours", "0").stdout == "2 files removed\n"
    assert cerise("store", "vacuum", "s", "--hours", "200", code=2)


def test_verify_lists_what_is_wrong() -> None:
    create()
    cerise("store", "compact", "s")
    assert cerise("store", "verify", "s").output == "all is sound\n"
    damage(index_file())
    done = cerise("store", "verify", "s", code=1)
    assert "its index cannot be used: block 0 of index file" in done.stdout
    assert done.stderr.startswith("1 thing wrong; ")
    index_file().unlink()
    assert "its index cannot be used: it is missing" in cerise("store", "verify", "s", code=1).stdout
    done = cerise("store", "find", "s", "q1.sase", "--count")
    assert done.stdout == "1\n"
    assert "the data is read instead" in done.stderr
    done = cerise("store", "info", "s")
    assert "warning" not in done.output
    assert told(done)[-1].endswith("its index: it is missing")
    cerise("store", "compact", "s")
    assert cerise("store", "verify", "s").output == "all is sound\n"


# ---- indexing in place


@pytest.fixture
def lake() -> list[str]:
    """Two Parquet files of others, and the words that index them."""
    Path("lake").mkdir()
    library.Store.create("tmp", schema=(table := _bars()), time="date", type="ticker")
    pq.write_table(table.slice(0, 4), "lake/a.parquet")
    pq.write_table(table.slice(4), "lake/b.parquet")
    return ["index", "lake", *ROLES, "--on", "open"]


def _bars() -> pa.Table:
    from cerise.files import event_files as files

    return files.read("trades.csv", time="date")


def test_parquet_of_others_is_indexed_in_place(lake: list[str]) -> None:
    assert cerise(*lake).output == "2 files indexed\n"
    assert cerise(*lake).output == "2 files indexed before\n"
    assert cerise("store", "find", "lake", "q1.sase", "--count").stdout == "1\n"
    lines = told(cerise("store", "info", "lake"))
    assert "version none: Parquet files have no versions" in lines
    assert "time 2023-05-26 10:55 to 2023-05-26 11:23" in lines
    Path("lake/b.parquet").unlink()
    pq.write_table(_bars().slice(4), "lake/c.parquet")
    pq.write_table(_bars().slice(4), "lake/d.parquet")
    done = cerise("store", "find", "lake", "PATTERN MSFT a WHERE a.open > 330", "--count")
    assert done.stdout == "2\n"
    assert done.stderr.startswith("warning: the index of c.parquet is not used: it is missing, nor that of 1")
    assert cerise(*lake).output == "2 files indexed, 1 file indexed before, 1 old index file removed\n"
    assert cerise("store", "verify", "lake").output == "all is sound\n"


def test_an_index_may_be_elsewhere(lake: list[str]) -> None:
    cerise(*lake, "--at", "there")
    assert sorted(path.name for path in Path("lake").iterdir()) == ["a.parquet", "b.parquet"]
    assert cerise("store", "find", "lake", "q1.sase", "--count", "--at", "there").stdout == "1\n"
    assert cerise("store", "verify", "lake", "--at", "there").output == "all is sound\n"
    assert "there is no event table" in cerise("store", "find", "lake", "q1.sase", code=1).stderr


def test_what_cannot_be_indexed_or_changed_is_said(lake: list[str]) -> None:
    assert "hint: did you mean 'open'?" in cerise("index", "lake", *ROLES, "--on", "opne", code=1).stderr
    assert f"there is nothing at {Path('nix').absolute()}" in cerise("index", "nix", *ROLES, code=1).stderr
    cerise(*lake)
    assert "a table of others" in cerise("store", "append", "lake", "trades.csv", code=1).stderr
    assert "a table of others" in cerise("store", "compact", "lake", code=1).stderr
