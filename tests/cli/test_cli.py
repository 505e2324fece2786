"""The command line as a user meets it: what it prints, what it writes, and how it says what is wrong."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from cerise import api
from cerise.cli import inputs, main, terminal
from cerise.cli.main import app
from cerise.files import event_files as files
from tests.support.faults.deletions import delete, paths

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

TABLE_1 = """\
ticker,open,volume,date
MSFT,329.67,60906,2023/05/26 10:55
AAPL,175.29,100686,2023/05/26 10:56
GOOG,125.55,82648,2023/05/26 10:57
AAPL,175.37,61517,2023/05/26 10:58
MSFT,330.85,109612,2023/05/26 11:03
GOOG,125.16,37939,2023/05/26 11:06
GOOG,125.00,43324,2023/05/26 11:23
"""
Q_1 = """\
PATTERN SEQ(MSFT v1, GOOG v2, MSFT v3, GOOG v4)
FROM NASDAQ
USE skip-till-next-match
WHERE 326 <= v1.open <= 334 AND 120 <= v2.open <= 130 AND
v3.open >= v1.open * 1.003 AND v4.open <= v2.open * 0.997
WITHIN 12 minutes
"""
ROLES = ("--time", "date", "--type", "ticker")
E1, E3, E5, E6 = "10:55", "10:57", "11:03", "11:06"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory with the paper's table and query."""
    monkeypatch.chdir(tmp_path)
    Path("trades.csv").write_text(TABLE_1)
    Path("q1.sase").write_text(Q_1)
    return tmp_path


def cerise(*args: str, code: int = 0, stdin: str | None = None) -> Result:
    """Run a command and check its exit code."""
    done = CliRunner().invoke(app, args, input=stdin)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def run(query: str, events: str = "trades.csv", *more: str, code: int = 0) -> Result:
    return cerise("run", query, "--events", events, *ROLES, *more, code=code)


def json_rows(query: str, events: str = "trades.csv", *more: str) -> list[dict[str, Any]]:
    done = run(query, events, "--format", "json", *more)
    return [json.loads(line) for line in done.stdout.splitlines()]


def hours(row: dict[str, Any]) -> list[str]:
    return [row[name]["date"][11:16] for name in ("v1", "v2", "v3", "v4")]


# ---- run


def test_the_one_match_of_000_table_1(here: Path) -> None:
    [row] = json_rows("q1.sase")
    assert hours(row) == [E1, E3, E5, E6]


def test_the_query_as_printed_in_000_counts_one() -> None:
    assert json_rows(Q_1 + "RETURN COUNT(*)") == [{"count": 1}]


PAIRS = "PATTERN SEQ(AAPL a, GOOG g) USE skip_till_any_match RETURN COUNT(*) AS n, MAX(g.open) AS high "


def test_totals_in_every_format() -> None:
    query = f"{PAIRS} PER EVENT"
    assert json_rows(query) == [
        {"last_time": "2023-05-26T10:57:00", "n": 1, "high": 125.55},
        {"last_time": "2023-05-26T11:06:00", "n": 2, "high": 125.16},
        {"last_time": "2023-05-26T11:23:00", "n": 2, "high": 125.0},
    ]
    done = run(query)
    assert [line.split() for line in done.stdout.splitlines()][2] == ["2023-05-26", "10:57", "1", "125.55"]
    assert done.stderr.startswith("3 rows in 7 events, ")
    assert run(query, "trades.csv", "--format", "csv").stdout.splitlines()[2].endswith(",2,125.16")
    assert run("PATTERN AAPL a RETURN STRING(COUNT(*))").stderr.startswith("1 row in 7 events")


def test_totals_of_an_empty_file() -> None:
    Path("e.json").write_text("")
    assert json_rows(f"{PAIRS} IN ALL", "e.json") == [{"n": 0, "high": None}]
    assert json_rows(f"{PAIRS} PER EVENT", "e.json") == []
    assert run(f"{PAIRS} PER EVENT", "e.json").stderr.startswith("0 rows in 0 events")


def test_the_table_shows_what_the_query_speaks_of() -> None:
    done = run("q1.sase")
    header, _, row = done.stdout.splitlines()
    assert header.split() == ["first_time", "v1", "v2", "v3", "v4"]
    assert " ".join(row.split()) == (
        "2023-05-26 10:55 10:55 MSFT open=329.67 10:57 GOOG open=125.55 "
        "11:03 MSFT open=330.85 11:06 GOOG open=125.16"
    )
    assert done.stderr.startswith("1 match in 7 events, ")
    assert "\x1b" not in done.output


def test_the_table_is_not_wrapped_when_it_goes_to_a_file() -> None:
    items = ", ".join(f"GOOG v{n}" for n in range(3))
    done = run(f"PATTERN SEQ({items}) WHERE v0.open > v1.open AND v1.volume > 1 AND v2.volume > 1")
    assert len(done.stdout.splitlines()) == 3
    run("q1.sase", "trades.csv", "--output", "matches.txt")
    assert len(Path("matches.txt").read_text().splitlines()) == 3


def test_the_table_says_how_much_of_it_is_shown() -> None:
    query = "PATTERN SEQ(a, b) USE skip_till_any_match"
    done = run(query, "trades.csv", "--limit-rows", "2")
    assert len(done.stdout.splitlines()) == 4
    assert "21 matches" in done.stderr
    assert "the first 2 are shown" in done.stderr
    assert len(run(query, "trades.csv", "--limit-rows", "0").stdout.splitlines()) == 23


def test_no_match_prints_nothing() -> None:
    done = run("PATTERN SEQ(NVDA a, GOOG b)")
    assert done.stdout == ""
    warning, summary = done.stderr.splitlines()
    assert warning == "warning: no event has type 'NVDA': known: AAPL, GOOG, MSFT"
    assert summary.startswith("0 matches in 7 events")


def test_a_query_from_standard_input() -> None:
    done = cerise("run", "-", "--events", "trades.csv", *ROLES, "--format", "json", stdin=Q_1)
    assert len(done.stdout.splitlines()) == 1


def test_csv_is_flat() -> None:
    done = run("PATTERN SEQ(MSFT a, GOOG+ b[])", "trades.csv", "--format", "csv")
    table = pa.csv.read_csv(io.BytesIO(done.stdout.encode()))
    assert table.schema.names == [
        "match_id", "first_time", "last_time", "a.ticker", "a.open", "a.volume", "a.date", "b",
    ]  # fmt: skip
    first = table.to_pylist()[0]
    assert first["a.open"] == 329.67
    assert json.loads(first["b"]) == [
        {"ticker": "GOOG", "open": 125.55, "volume": 82648, "date": "2023-05-26T10:57:00"}
    ]


@pytest.mark.parametrize("name", ["m.json", "m.csv", "m.parquet"])
def test_a_file_has_the_format_of_its_name(name: str) -> None:
    done = run("q1.sase", "trades.csv", "--output", name)
    assert done.stdout == ""
    read = {"m.json": pa.json.read_json, "m.csv": pa.csv.read_csv, "m.parquet": pq.read_table}[name]
    assert read(name).num_rows == 1
    assert sorted(path.name for path in Path().iterdir()) == sorted([name, "q1.sase", "trades.csv"])


def test_parquet_out_can_be_events_in() -> None:
    run(
        "PATTERN SEQ(MSFT a, GOOG b) RETURN a.open AS was INTO Pair",
        "trades.csv",
        "--output",
        "pairs.parquet",
    )
    done = cerise(
        "run", "PATTERN SEQ(x, y) WHERE y.was > x.was", "--events", "pairs.parquet", "--time", "last_time"
    )
    assert "1 match in 2 events" in done.stderr


def test_all_formats_in_give_the_same() -> None:
    table = inputs.InputFiles("trades.csv", "date").table()
    pq.write_table(table, "trades.parquet")
    write_deltalake("delta", table)
    lines = [json.dumps({**row, "date": row["date"].isoformat()}) for row in table.to_pylist()]
    Path("trades.jsonl").write_text("\n".join(lines))
    Path("days").mkdir()
    pq.write_table(table.slice(0, 3), "days/1.parquet")
    pq.write_table(table.slice(3), "days/2.parquet")
    expected = json_rows("q1.sase")
    for events in ("trades.parquet", "delta", "trades.jsonl", "days"):
        assert json_rows("q1.sase", events) == expected


def test_parameters_are_typed() -> None:
    query = "PATTERN SEQ(a, b) WHERE a.ticker = :t AND b.open > :low AND b.date >= :since WITHIN :w"
    words = ["t=MSFT", "low=330", "since=2023-05-26 11:00", "w=10 minutes"]
    [row] = json_rows(query, "trades.csv", *(part for word in words for part in ("--param", word)))
    assert row["b"]["open"] == 330.85


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7.5", -7.5),
        ("1e3", 1000.0),
        ("'7'", "7"),
        ("true", True),
        ("null", None),
        ("GOOG", "GOOG"),
        ("2 hours", dt.timedelta(hours=2)),
        ("2023-05-26", dt.date(2023, 5, 26)),
        ("2023-05-26 10:55", dt.datetime(2023, 5, 26, 10, 55)),
        ("2023-05-26 99:55", "2023-05-26 99:55"),
    ],
)
def test_what_a_parameter_means(text: str, value: object) -> None:
    assert inputs.value_of(text) == value
    assert type(inputs.value_of(text)) is type(value)


def test_keys_and_order() -> None:
    done = cerise(
        "run", "PATTERN SEQ(a, b) WHERE b.open > a.open", "--events", "trades.csv", "--time", "date",
        "--key", "ticker", "--order", "volume,open",
    )  # fmt: skip
    assert "2 matches" in done.stderr


def test_a_file_without_header_and_with_digits_for_time() -> None:
    Path("bars.csv").write_text("AAPL,200802010900,136.2\nAMZN,200802010901,79.26\n")
    done = cerise(
        "run", "PATTERN SEQ(AAPL a, AMZN b) WITHIN 1 minute", "--events", "bars.csv",
        "--columns", "ticker,ts,open", "--time", "ts", "--type", "ticker",
    )  # fmt: skip
    assert "2008-02-01 09:00" in done.stdout


def test_a_kleene_cell_is_bounded() -> None:
    rows = [{"t": n, "x": n} for n in range(1, 10)]
    Path("n.json").write_text("\n".join(map(json.dumps, rows)))
    query = "PATTERN SEQ(a, b+, c) USE strict_contiguity WHERE a.x = 1 AND b.x < 9 AND c.x = 9"
    done = cerise("run", query, "--events", "n.json", "--time", "t")
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()[2:]]
    assert shown == ["1 1 x=1 2 x=2 9 x=9", "3 x=3", "… 4 more", "8 x=8"]


def test_a_warning_is_said() -> None:
    done = run("PATTERN SEQ(MSFT a, GOOG b) WITHIN 1 events")
    assert done.stderr.startswith("warning: ")
    assert "too small for the pattern" in done.stderr


# ---- check, explain, generate, the rest


def test_check_without_events() -> None:
    assert cerise("check", "q1.sase").stdout.startswith("ok: the query parses")


def test_check_with_events() -> None:
    done = cerise("check", "q1.sase", "--events", "trades.csv", *ROLES)
    assert done.stdout.startswith("ok: the query fits trades.csv")
    assert "first_time: timestamp[us]" in done.stdout


def test_check_finds_what_is_wrong() -> None:
    cerise("check", "PATTERN SEQ(a", code=1)
    cerise("check", "PATTERN SEQ(a) WHERE a.opne = 1", code=0)
    cerise("check", "PATTERN SEQ(a) WHERE a.opne = 1", "--events", "trades.csv", *ROLES, code=1)


def test_explain() -> None:
    done = cerise("explain", "q1.sase", "--events", "trades.csv", *ROLES)
    assert "skip_till_next_match" in done.stdout
    assert "in this process" in done.stdout


def test_generate() -> None:
    done = cerise("generate", "stock", "ticks.parquet", "--events", "1000", "--seed", "3")
    assert done.stdout == "wrote 1,000 events to ticks.parquet\n"
    assert pq.read_metadata("ticks.parquet").num_rows == 1000
    refused = cerise("generate", "stock", "ticks.parquet", code=1).stderr
    assert "exists" in refused
    assert "--overwrite to replace it" in refused
    assert "overwrite=True" not in refused
    cerise("generate", "stock", "ticks.parquet", "--events", "10", "--overwrite")


@pytest.mark.parametrize("command", ["run", "check", "explain"])
def test_sql_has_a_command_of_its_own(command: str) -> None:
    for query in ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (A))", "select 1 -- all"):
        done = cerise(command, query, "--events", "trades.csv", *ROLES, code=1)
        assert "cerise sql" in done.stderr


def test_what_is_not_a_regular_file() -> None:
    assert "/dev/null is not a regular file" in run("q1.sase", "/dev/null", code=1).stderr
    assert "/dev/null is not a regular file" in run("/dev/null", code=1).stderr
    Path("empty.sase").write_text("")
    assert "the query is empty" in run("empty.sase", code=1).stderr


def test_bytes_and_numbers_that_no_query_can_hold() -> None:
    query = "PATTERN SEQ(AAPL a, GOOG g) WHERE a.open > :x"
    assert "64 bits" in run(query, "trades.csv", "--param", f"x={'9' * 5000}", code=1).stderr
    assert "surrogate" in run(query, "trades.csv", "--param", "x=\udcff", code=1).stderr
    assert "surrogate" in run("PATTERN SEQ(AAPL \udcff)", code=1).stderr


def test_version_and_help() -> None:
    assert cerise("--version").stdout.startswith("cerise 0.")
    assert "--timestamp-format" in cerise("run", "--help").stdout
    assert "cerise run" in cerise(code=2).output


# ---- bad input: a clear error, and the exit code


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("run", "q1.sase", "--events", "trade.csv", *ROLES), 1, "did you mean 'trades.csv'?"),
        (("run", "q2.sase", "--events", "trades.csv", *ROLES), 1, "there is no file q2.sase"),
        (("run", "q1.sase", "--events", "trades.csv", "--time", "dat"), 1, "did you mean 'date'?"),
        (("run", "q1.sase", "--events", "trades.csv", "--time", "ticker"), 1, "not understood as time"),
        (("run", "q1.sase", "--events", "trades.csv", "--time", "open"), 1, "which is not a time"),
        (("run", "q1.sase", "--events", "trades.csv", "--time", "date"), 1, "has a type, but no column"),
        (("run", "q1.sase", "--events", "trades.csv", *ROLES, "--engine", "x"), 1, "unknown engine"),
        (("run", "q1.sase", "--events", "trades.csv", *ROLES, "--param", "x=1"), 1, "no parameter :x"),
        (("run", "q1.sase", "--events", "trades.csv", *ROLES, "--param", "x"), 1, "has no value"),
        (("run", "q1.sase", "--events", "trades.csv", *ROLES, "--format", "parquet"), 1, "--output"),
        (("run", "q1.sase", "--events", "trades.csv", *ROLES, "--output", "m.doc"), 1, "--format"),
        (("run", "q1.sase", "--events", "trades.csv", *ROLES, "--output", "no/m.csv"), 1, "cannot write"),
        (("run", "q1.sase", "--events", "q1.sase", *ROLES), 1, "unknown format"),
        (("run", "q1.sase", "--events", "trades.csv", *ROLES, "--format", "xml"), 2, "xml"),
        (("run", "q1.sase"), 2, "--events"),
        (("check", "q1.sase", "--events", "trades.csv"), 2, "--time"),
        (("generate", "stocks", "x"), 1, "did you mean 'stock'?"),
    ],
)  # fmt: skip
def test_bad_use(args: tuple[str, ...], code: int, said: str) -> None:
    done = cerise(*args, code=code)
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_wrong_query_has_a_caret() -> None:
    done = run("PATTERN SEQ(MSFT v1)\nWHERE v1.opne > 3", code=1)
    assert done.stderr == (
        "BindError: unknown attribute 'opne'\n"
        "  line 2, column 10\n"
        "  | WHERE v1.opne > 3\n"
        "  |          ^^^^\n"
        "hint: did you mean 'open'?\n"
    )


def test_null_times() -> None:
    Path("trades.csv").write_text(TABLE_1.replace("2023/05/26 10:56", ""))
    assert "DataError: 1 of 7 events have no time: 'date' is null in rows 1" in run("q1.sase", code=1).stderr


def test_duplicate_columns() -> None:
    Path("trades.csv").write_text(TABLE_1.replace("volume", "open", 1))
    assert "more than one column named 'open'" in run("q1.sase", code=1).stderr


def test_mixed_schemas() -> None:
    Path("days").mkdir()
    Path("days/a.csv").write_text(TABLE_1)
    Path("days/b.csv").write_text(TABLE_1.replace("329.67", "high"))
    said = run("q1.sase", "days", code=1).stderr
    assert "StoreError: column 'open' has type double in days/a.csv and string in days/b.csv" in said


@pytest.mark.parametrize(
    ("name", "text"), [("e.csv", ""), ("e.json", ""), ("e.csv", TABLE_1.splitlines()[0] + "\n")]
)
def test_an_empty_file_has_no_matches(name: str, text: str) -> None:
    Path(name).write_text(text)
    assert run("q1.sase", name).stderr.startswith("0 matches in 0 events")
    assert json_rows(Q_1 + "RETURN COUNT(*)", name) == [{"count": 0}]
    assert "is empty" in cerise("check", "q1.sase", "--events", name, *ROLES).stdout
    assert "is empty" in cerise("explain", "q1.sase", "--events", name, *ROLES, code=1).stderr


def test_an_empty_file_with_a_header_knows_its_columns() -> None:
    Path("e.csv").write_text("ticker,dat\n")
    assert "did you mean 'dat'?" in run("q1.sase", "e.csv", code=1).stderr


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.inputs, "query_text", interrupted)
    cerise("check", "q1.sase", code=130)


def test_a_failed_task_of_spark_is_told_in_short() -> None:
    kind = type("PythonException", (Exception,), {"__module__": "pyspark.errors"})
    told = terminal._explain_spark_error(
        kind("Traceback …\n  File x\ncerise.errors.DataError: no time\nhint: filter\n\n\tat org.apache")
    )
    assert told == "DataError: no time\nhint: filter"
    assert terminal._explain_spark_error(ValueError("cerise.errors.DataError: x")) is None


# ---- for real


def test_a_real_process(here: Path) -> None:
    def real(*args: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "cerise", *args]
        return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=here, check=False)

    done = real("run", "q1.sase", "--events", "trades.csv", *ROLES, "--format", "json")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    done = real("run", "q1.sase", "--events", "nothing.csv", *ROLES)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("StoreError: there is no file nothing.csv\n")


def test_help_loads_nothing_heavy() -> None:
    heavy = "pyarrow", "numpy", "pyspark", "lark", "deltalake"
    code = f"import sys, cerise.cli.main; print([name for name in {heavy} if name in sys.modules])"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.xdist_group("spark")
def test_on_spark(spark: SparkSession) -> None:
    pq.write_table(inputs.InputFiles("trades.csv", "date").table(), "trades.parquet")
    assert json_rows("q1.sase", "trades.parquet", "--spark") == json_rows("q1.sase")
    frame = inputs.InputFiles("trades.csv", "date").frame()
    assert dict(frame.dtypes) == {
        "ticker": "string",
        "open": "double",
        "volume": "bigint",
        "date": "timestamp_ntz",
    }
    Path("trades.csv").write_text(TABLE_1.replace("2023/05/26 10:56", ""))
    said = run("q1.sase", "trades.csv", "--spark", code=1).stderr
    assert said.startswith("DataError: 1 events have no time")
    assert "Traceback" not in said


def fill(kind: str) -> str:
    """Write the trades in a form that tasks can read themselves, and return where."""
    trades = inputs.InputFiles("trades.csv", "date").table()
    match kind:
        case "file":
            pq.write_table(trades, "trades.parquet")
            return "trades.parquet"
        case "folders":
            for day in (1, 2):
                Path(f"days/day={day}").mkdir(parents=True)
                pq.write_table(trades.slice(4 * day - 4, 4), f"days/day={day}/part.parquet", row_group_size=2)
            return "days"
    write_deltalake("delta", trades)
    if kind == "deleted":
        before = [row["ticker"] for row in files.read("delta").to_pylist()]
        delete(Path("delta"), {paths(Path("delta"))[0]: [before.index("AAPL")]})
    return "delta"


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("kind", ["file", "folders", "delta", "deleted"])
def test_on_spark_a_path_is_read_by_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = fill(kind)
    given: list[Any] = []
    find = api.find
    monkeypatch.setattr(
        api, "find", lambda events, *rest, **more: given.append(events) or find(events, *rest, **more)
    )
    found = json_rows("q1.sase", path, "--spark")
    assert given == [path]
    assert [hours(row) for row in found] == [[E1, E3, E5, E6]]
    pattern = "PATTERN SEQ(a, b) USE strict_contiguity WHERE a.volume < b.volume"
    times = [(row["a"]["date"], row["b"]["date"]) for row in json_rows(pattern, path, "--spark")]
    here = inputs.InputFiles("trades.csv", "date").table().to_pylist()
    if kind == "deleted":
        del here[1]
    rises = [(a, b) for a, b in pairwise(here) if a["volume"] < b["volume"]]
    assert times == [(a["date"].isoformat(), b["date"].isoformat()) for a, b in rises]


@pytest.mark.xdist_group("spark")
def test_on_spark_times_that_are_text_are_understood_first(spark: SparkSession) -> None:
    as_text = pyarrow.csv.ConvertOptions(column_types={"date": pa.string()})
    texts = pyarrow.csv.read_csv("trades.csv", convert_options=as_text)
    pq.write_table(texts, "texts.parquet")
    write_deltalake("texts", texts)
    for path in ("texts.parquet", "texts"):
        for more in ((), ("--timestamp-format", "%Y/%m/%d %H:%M")):
            assert [hours(row) for row in json_rows("q1.sase", path, "--spark", *more)] == [[E1, E3, E5, E6]]
    assert "there is no file nothing" in run("q1.sase", "nothing", "--spark", code=1).stderr


@pytest.mark.xdist_group("spark")
def test_the_demo(spark: SparkSession) -> None:
    done = cerise("demo", "--events", "20000")
    assert "PATTERN SEQ(MSFT v1, GOOG v2, MSFT v3, GOOG v4)" in done.stdout
    assert 'cerise.find("bars", query, time=' in done.stdout
    assert "open=" in done.stdout
