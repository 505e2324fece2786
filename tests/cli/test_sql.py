"""`cerise sql` as a user meets it: statements over files, where they run, and the prompt."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from cerise.cli import inputs, prompt
from cerise.cli import output as out
from cerise.cli import sql as statements
from cerise.cli.main import app
from cerise.cli.sql import SqlSession
from cerise.errors import CeriseError

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import SparkSession

TRADES = """\
ticker,open,volume,date
MSFT,329.67,60906,2023/05/26 10:55
AAPL,175.29,100686,2023/05/26 10:56
GOOG,125.55,82648,2023/05/26 10:57
AAPL,175.37,61517,2023/05/26 10:58
MSFT,330.85,109612,2023/05/26 11:03
GOOG,125.16,37939,2023/05/26 11:06
GOOG,125.00,43324,2023/05/26 11:23
"""
FALLS = """\
SELECT * FROM trades MATCH_RECOGNIZE (
  PARTITION BY ticker ORDER BY date
  MEASURES A.open AS high, LAST(B.open) AS low, COUNT(*) AS n, LAST(date) AS until
  PATTERN (A B+)
  DEFINE B AS open < PREV(open)
)"""
FALL = {"ticker": "GOOG", "high": 125.55, "low": 125.0, "n": 3, "until": "2023-05-26T11:23:00"}
TABLE = ("--table", "trades.csv", "--time", "date")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory with trades and a statement; what is typed is kept there too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("trades.csv").write_text(TRADES)
    Path("falls.sql").write_text(FALLS + ";\n")
    return tmp_path


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise CeriseError("Spark was started")

    monkeypatch.setattr(SqlSession, "_session", refused)


def cerise(*args: str, code: int = 0, stdin: str | None = None) -> Result:
    done = CliRunner().invoke(app, ["sql", *args], input=stdin)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def json_rows(*args: str, stdin: str | None = None) -> list[dict[str, Any]]:
    done = cerise(*args, "--format", "json", stdin=stdin)
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- one clause over one table: in this process


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("source", ["trades", "TRADES", "trades t", "trades AS t", "`trades`"])
def test_a_clause_runs_without_spark(source: str) -> None:
    assert json_rows(FALLS.replace("trades", source), *TABLE) == [FALL]


@pytest.mark.usefixtures("no_spark")
def test_a_statement_is_text_a_file_or_standard_input() -> None:
    assert json_rows("falls.sql", *TABLE) == [FALL]
    assert json_rows("-", *TABLE, stdin=FALLS) == [FALL]
    assert json_rows(*TABLE, stdin=FALLS + ";") == [FALL]


@pytest.mark.usefixtures("no_spark")
def test_a_long_statement_in_one_line() -> None:
    text = " ".join(FALLS.split()).replace("MEASURES", f"MEASURES {'1 + ' * 100}1 AS many,")
    assert json_rows(text, *TABLE)[0]["many"] == 101


@pytest.mark.usefixtures("no_spark")
def test_the_table_of_rows() -> None:
    done = cerise("falls.sql", *TABLE)
    header, _, row = done.stdout.splitlines()
    assert header.split() == ["ticker", "high", "low", "n", "until"]
    assert row.split() == ["GOOG", "125.55", "125", "3", "2023-05-26", "11:23"]
    assert done.stderr.startswith("1 row, ")
    assert "\x1b" not in done.output


@pytest.mark.usefixtures("no_spark")
def test_the_table_has_every_column_whatever_its_name() -> None:
    done = cerise(FALLS.replace("AS high", "AS match_id").replace("AS low", "AS last_time"), *TABLE)
    assert done.stdout.split()[:3] == ["ticker", "match_id", "last_time"]


@pytest.mark.usefixtures("no_spark")
def test_the_table_says_how_much_of_it_is_shown() -> None:
    all_rows = FALLS.replace("PATTERN (A B+)", "ALL ROWS PER MATCH PATTERN (A B+)")
    done = cerise(all_rows, *TABLE, "--limit-rows", "2")
    assert len(done.stdout.splitlines()) == 4
    assert "3 rows, " in done.stderr
    assert "the first 2 are shown" in done.stderr


@pytest.mark.usefixtures("no_spark")
def test_no_rows_print_nothing() -> None:
    done = cerise(FALLS.replace("open <", "open > 1000 +"), *TABLE)
    assert done.stdout == ""
    assert done.stderr.startswith("0 rows, ")


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("name", ["m.json", "m.csv", "m.parquet"])
def test_a_file_has_the_format_of_its_name(name: str) -> None:
    assert cerise("falls.sql", *TABLE, "--output", name).stdout == ""
    read = {"m.json": pa.json.read_json, "m.csv": pa.csv.read_csv, "m.parquet": pq.read_table}[name]
    assert read(name).to_pylist()[0]["low"] == 125.0


@pytest.mark.usefixtures("no_spark")
def test_all_formats_in_give_the_same() -> None:
    table = inputs.InputFiles("trades.csv", "date").table()
    pq.write_table(table, "trades.parquet")
    write_deltalake("delta", table)
    lines = [json.dumps({**row, "date": row["date"].isoformat()}) for row in table.to_pylist()]
    Path("trades.jsonl").write_text("\n".join(lines))
    Path("days").mkdir()
    pq.write_table(table.slice(0, 3), "days/1.parquet")
    pq.write_table(table.slice(3), "days/2.parquet")
    for path in ("trades.parquet", "delta", "trades.jsonl", "days"):
        assert json_rows("falls.sql", "--table", f"trades={path}") == [FALL], path


@pytest.mark.usefixtures("no_spark")
def test_a_time_written_otherwise() -> None:
    Path("t.csv").write_text(
        "a,b,x\n26.05.2023 10:55,26.05.2023 10:00,1\n26.05.2023 11:55,26.05.2023 10:01,2\n"
    )
    query = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY b MEASURES LAST(a) AS a, COUNT(*) AS n
        PATTERN (A+) WITHIN INTERVAL '1' MINUTE DEFINE A AS TRUE)"""
    times = ("--time", "a,b", "--timestamp-format", "%d.%m.%Y %H:%M")
    assert json_rows(query, "--table", "t.csv", *times) == [{"a": "2023-05-26T11:55:00", "n": 2}]


@pytest.mark.usefixtures("no_spark")
def test_the_dialect() -> None:
    pairs = (
        FALLS.replace("A B+", "A B").replace("open < PREV(open)", "TRUE").replace("PARTITION BY ticker ", "")
    )
    assert len(json_rows(pairs, *TABLE)) == 3
    assert len(json_rows(pairs, *TABLE, "--dialect", "flink")) == 6


@pytest.mark.usefixtures("no_spark")
def test_explain() -> None:
    done = cerise("falls.sql", *TABLE, "--explain")
    assert done.stdout.splitlines()[:2] == ["runs       in this process", "partition  ticker"]
    assert (
        "engine     reference (as asked)"
        in cerise("falls.sql", *TABLE, "--explain", "--engine", "reference").stdout
    )


# ---- queries around clauses, and without: in this process


@pytest.mark.usefixtures("no_spark")
def test_a_query_around_a_clause_runs_without_spark() -> None:
    query = f"{FALLS} AS f WHERE low < 126 ORDER BY low LIMIT 5".replace(
        "SELECT *", "SELECT lower(ticker) AS t, n * 2 AS m"
    )
    assert json_rows(query, *TABLE) == [{"t": "goog", "m": 6}]
    assert json_rows(query.replace("low < 126", "low < 1"), *TABLE) == []
    explained = cerise(query, *TABLE, "--explain").stdout
    assert explained.startswith("runs       in this process\n")
    assert explained.endswith("around     DuckDB, in this process, in Spark's dialect\n")


@pytest.mark.usefixtures("no_spark")
def test_tables_meet_and_views_stay() -> None:
    joined = "SELECT count(*) AS n FROM trades a JOIN trades b USING (ticker)"
    assert json_rows(joined, *TABLE) == [{"n": 17}]
    view = f"CREATE OR REPLACE TEMP VIEW falls AS {FALLS}"
    assert json_rows(f"{view}; SELECT ticker FROM falls", *TABLE) == [{"ticker": "GOOG"}]
    over = "MATCH_RECOGNIZE (MEASURES COUNT(*) AS c PATTERN (A+) DEFINE A AS n > 1)"
    assert json_rows(f"{view}; SELECT * FROM falls {over}", *TABLE) == [{"c": 1}]


def test_without_duckdb_spark_is_asked(monkeypatch: pytest.MonkeyPatch, no_spark: None) -> None:
    monkeypatch.setattr(statements, "find_spec", lambda name: None)
    assert "Spark was started" in cerise("SELECT 1 AS a", *TABLE, code=1).stderr
    assert json_rows(FALLS, *TABLE) == [FALL]


# ---- bad use


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("falls.sql", "--table", "trade.csv"), 1, "unknown table 'trades'"),
        (("falls.sql", "--table", "trades=trade.csv"), 1, "did you mean 'trades.csv'?"),
        (("falls.sql",), 1, "hint: say where it is: --table trades=path"),
        (("fall.sql", *TABLE), 1, "there is no file fall.sql"),
        (("falls.sql", "--table", "1=trades.csv"), 1, "no table can be called '1'"),
        (("falls.sql", "--table", "a=trades.csv", "--table", "A=trades.csv"), 1, "two tables are called 'A'"),
        (("falls.sql", *TABLE, "--format", "parquet"), 1, "--output"),
        (("falls.sql", *TABLE, "--engine", "nfa"), 1, "does not run MATCH_RECOGNIZE"),
        (("falls.sql", "--table", "trades.csv", "--timestamp-format", "s"), 2, "--time"),
        (("falls.sql", *TABLE, "--dialect", "oracle"), 2, "oracle"),
        (("falls.sql", *TABLE, "--format", "xml"), 2, "xml"),
        ((" ;", *TABLE), 1, "there is no statement"),
        (("SHOW TABLES", *TABLE), 1, "Spark was started"),
        (("SELECT sin(open) FROM trades", *TABLE), 1, "Spark was started"),
        (("SELECT opne FROM trades", *TABLE), 1, "did you mean 'open'?"),
        (("SELECT open FROM trades LIMTI 5", *TABLE), 1, "did not expect"),
        (("CREATE TEMP VIEW trades AS SELECT 1; SELECT 1", *TABLE), 1, "there is a table 'trades'"),
        ((FALLS.replace("A.open AS high", "sin(A.open) AS high"), *TABLE), 1, "Spark was started"),
        ((FALLS.replace("open <", "sin(open) <"), *TABLE), 1, "Spark was started"),
    ],
)
def test_bad_use(args: tuple[str, ...], code: int, said: str) -> None:
    done = cerise(*args, code=code)
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("no_spark")
def test_a_wrong_statement_has_a_caret() -> None:
    done = cerise(FALLS.replace("A.open", "A.opne"), *TABLE, code=1)
    assert done.stderr == (
        "BindError: unknown column 'opne'\n"
        "  line 3, column 14\n"
        "  |   MEASURES A.opne AS high, LAST(B.open) AS low, COUNT(*) AS n, LAST(date) AS until\n"
        "  |              ^^^^\n"
        "hint: did you mean 'open'?\n"
    )


@pytest.mark.usefixtures("no_spark")
def test_what_cannot_be_computed_anywhere_starts_no_spark() -> None:
    done = cerise(FALLS.replace("COUNT(*)", "array_agg(A.open ORDER BY A.open)"), *TABLE, code=1)
    assert done.stderr.startswith("UnsupportedError: ORDER BY inside an aggregate")


@pytest.mark.usefixtures("no_spark")
def test_two_columns_of_one_name_are_no_json() -> None:
    both = FALLS.replace("ORDER BY date", "ORDER BY date, date").replace(
        "PATTERN (A", "ALL ROWS PER MATCH PATTERN (A"
    )
    assert cerise(both, *TABLE).stdout.split().count("date") == 2
    assert "two columns are called 'date'" in cerise(both, *TABLE, "--format", "json", code=1).stderr


@pytest.mark.usefixtures("no_spark")
def test_an_empty_file_has_no_types() -> None:
    Path("trades.csv").write_text(TRADES.splitlines()[0] + "\n")
    assert "trades.csv is empty" in cerise("falls.sql", *TABLE, code=1).stderr


def test_statements_are_cut_at_semicolons() -> None:
    cut = statements.statements("SELECT ';' AS \"a;b\"; -- no ; here\n/* ; */ SELECT 2 ;\n SELECT")
    assert cut == (["SELECT ';' AS \"a;b\"", "-- no ; here\n/* ; */ SELECT 2"], "\n SELECT")
    assert statements.statements("SELECT 'open; ") == ([], "SELECT 'open; ")


# ---- the prompt


@pytest.fixture
def session() -> SqlSession:
    layout = inputs.InputFiles("", "", times=("date",))
    return SqlSession.of(["trades.csv"], layout, "standard", None)


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch, session: SqlSession) -> Callable[..., None]:
    """Type lines at the prompt; an exception is what a key does."""

    def typed(*lines: str | type[BaseException]) -> None:
        waiting: Iterator[str | type[BaseException]] = iter([*lines, EOFError])

        def next_line(_: str = "") -> str:
            line = next(waiting)
            if not isinstance(line, str):
                raise line
            return line

        monkeypatch.setattr(builtins, "input", next_line)
        prompt.talk(session, out.OutputTarget("table", None, 20))

    return typed


@pytest.mark.usefixtures("no_spark")
def test_a_statement_may_span_lines(type_in: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    type_in(*FALLS.splitlines(), "; " + " ".join(FALLS.split()) + ";")
    said = capsys.readouterr()
    assert said.out.count("125.55") == 2
    assert said.err.count("1 row, ") == 2


@pytest.mark.usefixtures("no_spark")
def test_a_mistake_is_told_and_the_prompt_goes_on(
    type_in: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(FALLS.replace("A.open", "A.opne") + ";", FALLS + ";")
    said = capsys.readouterr()
    assert "did you mean 'open'?" in said.err
    assert "125.55" in said.out


@pytest.mark.usefixtures("no_spark")
def test_keys_that_interrupt_and_leave(
    type_in: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in("SELECT nonsense", KeyboardInterrupt, FALLS + ";", EOFError, "never read;")
    assert "125.55" in capsys.readouterr().out
    type_in("\\q", "never read;")
    type_in("exit;", "never read;")
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("no_spark")
def test_the_tables_are_described(type_in: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    type_in("\\d", "\\d nope", "\\?")
    said = capsys.readouterr()
    assert said.out == (
        "trades  (trades.csv)\n  ticker  string\n  open    double\n  volume  int64\n  date    timestamp[us]\n"
    )
    assert "unknown table 'nope'" in said.err
    assert "Ctrl-D" in said.err


@pytest.mark.usefixtures("no_spark")
def test_statements_are_explained(type_in: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    type_in("\\e", FALLS + ";", "\\e", FALLS + ";")
    said = capsys.readouterr().out
    assert said.startswith("runs       in this process\n")
    assert "125.55" in said


def test_an_interrupt_while_running(
    type_in: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prompt, "show", interrupted)
    type_in("SELECT 1;")
    assert "given up" in capsys.readouterr().err


def test_completion(session: SqlSession) -> None:
    complete = prompt.Completer(session)
    assert complete.completions("part") == ["PARTITION BY "]
    assert complete.completions("tr") == ["trades"]
    assert complete.completions("vol") == ["volume"]
    assert complete.completions("AFTER MATCH SKIP TO")[0] == "AFTER MATCH SKIP TO NEXT ROW "
    assert complete("da", 0) == "date"
    assert complete("da", 1) is None
    assert complete.completions("") == []


def test_what_was_typed_is_kept(type_in: Callable[..., None], here: Path) -> None:
    pytest.importorskip("readline")
    type_in("\\q")
    assert prompt.history_file() == here / "state" / "cerise" / "sql_history"
    assert prompt.history_file().exists()


def test_a_home_that_cannot_be_written_to(
    type_in: Callable[..., None], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "state").write_text("a file where a directory should be")
    type_in(FALLS + ";")
    assert "125.55" in capsys.readouterr().out
    assert (here / "state").read_text() == "a file where a directory should be"


def test_the_prompt_needs_tables_that_are_there(type_in: Callable[..., None]) -> None:
    Path("trades.csv").unlink()
    with pytest.raises(CeriseError, match=r"there is no file trades\.csv"):
        type_in("\\q")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals of this kind")
def test_a_terminal(here: Path) -> None:
    import os
    import pty
    import subprocess

    ours, theirs = pty.openpty()
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "dumb"}
    command = [sys.executable, "-m", "cerise", "sql", *TABLE]
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        cwd=here,
        text=True,
    ) as running:
        os.write(ours, (" ".join(FALLS.split()) + ";\n\\q\n").encode())
        said, told = running.communicate()
    os.close(theirs)
    os.close(ours)
    assert "125.55" in said
    assert "1 row, " in told
    assert running.returncode == 0


# ---- anything else: on Spark


@pytest.mark.xdist_group("spark")
def test_on_spark(
    spark: SparkSession, type_in: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    around = "SELECT ticker, round(high - low, 2) AS fall, hex(n) AS x FROM (" + FALLS + ") WHERE n > 2"
    assert json_rows(around, *TABLE) == [{"ticker": "GOOG", "fall": 0.55, "x": "3"}]
    assert json_rows(FALLS.replace("A.open AS high", "hex(3) AS high"), *TABLE) == [{**FALL, "high": "3"}]
    script = f"CREATE OR REPLACE TEMP VIEW falls AS {FALLS}; SELECT count(*) AS n FROM falls"
    assert json_rows(script, *TABLE) == [{"n": 1}]
    done = cerise(around, *TABLE, "--explain")
    assert done.stdout.startswith("runs       on Spark\n")
    script = f"CREATE TEMP VIEW f AS {FALLS}; SELECT hex(n) AS x FROM f"
    assert json_rows(script, *TABLE) == [{"x": "3"}]
    done = cerise("SELECT sin(nope) FROM trades", *TABLE, code=1)
    assert "nope" in done.stderr
    assert "Traceback" not in done.stderr
    assert "SubqueryAlias" not in done.stderr
    assert "Syntax error" in cerise("SHOW TABLES FORM trades x y", *TABLE, code=1).stderr
    assert "DIVIDE_BY_ZERO" in cerise("SELECT sin(1) / (open - open) FROM trades", *TABLE, code=1).stderr
    capsys.readouterr()
    type_in(
        "SELECT nope FROM trades;",
        "CREATE OR REPLACE TEMP VIEW trades AS SELECT hex(1) AS x;",
        "SELECT * FROM trades MATCH_RECOGNIZE (MEASURES A.x AS x PATTERN (A) DEFINE A AS TRUE);",
    )
    said = capsys.readouterr()
    assert said.out.split()[-1] == "1"
    assert "nope" in said.err
