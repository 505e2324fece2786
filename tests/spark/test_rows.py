"""MATCH_RECOGNIZE on Spark: the cases, files, types that are Spark's, and statements around clauses."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import cerise
from cerise import BindError, CeriseError, Options, UnsupportedError
from cerise.engines.limits import Limits
from cerise.plan.needs import Clock, Needs
from cerise.spark.runner import OnSpark, memory_of_machine
from tests.spark.side_by_side import Jobs, at_once, side_by_side
from tests.support.cases.row_harness import RowCase, difference, load_row_cases, result_of, run_rows
from tests.support.strategies.rows import family_of
from tests.tiers import EXAMPLES, mostly_nightly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = load_row_cases()
HERE = [case for case in CASES if not case.arrived]
KEPT = [i for i, case in enumerate(HERE) if i % 5 == 0 or case.on_spark_only or case.error]
V_SHAPE = """
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY t
  MEASURES FIRST(S.price) AS top, LAST(D.price) AS bottom, COUNT(*) AS n, MATCH_NUMBER() AS m
  PATTERN (S D+ U+)
  DEFINE D AS price < PREV(price), U AS price > PREV(price)
)"""
TICKS = pa.table(
    {
        "symbol": pa.array([["a", "b", None][i % 3] for i in range(300)]),
        "t": pa.array(range(300), pa.int64()),
        "price": pa.array([float((i * 7919) % 31) for i in range(300)]),
    }
)


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    schema = from_arrow_schema(table.schema)
    return spark.createDataFrame([tuple(row.values()) for row in table.to_pylist()], schema)


@pytest.fixture
def ticks(spark: SparkSession) -> Iterator[DataFrame]:
    given = frame(spark, TICKS)
    given.createOrReplaceTempView("ticks")
    yield given
    spark.catalog.dropTempView("ticks")


def rows(found: Any) -> list[tuple[Any, ...]]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def types(found: DataFrame) -> list[str]:
    return [each.dataType.simpleString() for each in found.schema]


@pytest.fixture(scope="module")
def jobs(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Jobs]:
    """Each in a session of its own, since all views have the same few names."""
    with side_by_side(request, lambda number: run_case(HERE[number], spark.newSession())) as started:
        yield started


@pytest.mark.parametrize("number", mostly_nightly(range(len(HERE)), KEPT), ids=map(str, HERE))
def test_row_case_on_spark(number: int, jobs: Jobs) -> None:
    jobs[number].result()


def run_case(case: RowCase, spark: SparkSession) -> None:
    frame(spark, case.input).createOrReplaceTempView(case.table)
    if case.error is None:
        found = cerise.sql(spark, case.statement, dialect=case.dialect).toArrow()
        wrong = difference(case.expected, result_of(found))
        assert not wrong, f"{case}\n{wrong}"
        return
    with pytest.raises(Exception, match=r".") as caught:  # what measures raise is Spark's own
        cerise.sql(spark, case.statement, dialect=case.dialect).toArrow()
    name = type(caught.value).__name__
    assert case.error[0] == name or case.error[0] in str(caught.value), caught.value
    assert case.error[1] in str(caught.value)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_frame_a_path_and_a_table_agree(
    ticks: DataFrame, tmp_path: Path, partitions: int, spark: SparkSession
) -> None:
    for i in range(3):  # three files, of two row groups each
        pq.write_table(TICKS.slice(100 * i, 100), tmp_path / f"{i}.parquet", row_group_size=50)
    options = Options(partitions=partitions)
    expected = rows(cerise.find(TICKS, V_SHAPE))
    assert len(expected) > 30
    assert rows(cerise.find(ticks, V_SHAPE, options=options)) == expected
    assert rows(cerise.find(str(tmp_path), V_SHAPE, options=options, spark=True)) == expected
    assert rows(cerise.sql(spark, V_SHAPE, options=options)) == expected


def test_what_only_spark_computes_over_a_path(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(TICKS, tmp_path / "ticks.parquet")
    statement = """SELECT * FROM ticks MATCH_RECOGNIZE (
      ORDER BY t MEASURES LAST(A.t) AS t, md5(LAST(A.symbol)) AS hashed
      PATTERN (A) DEFINE A AS md5(symbol) LIKE '0%')"""
    found = cerise.find(str(tmp_path), statement, spark=True).toArrow()
    expected = spark.createDataFrame(TICKS.to_pandas()).where("md5(symbol) LIKE '0%'")
    assert len(found) == expected.count() > 0
    with pytest.raises(UnsupportedError, match="Spark"):
        cerise.find(TICKS, statement)


EXPRESSIONS = [
    "i + s", "i / s", "l * 2", "d + i", "d * d", "d / 3", "f + i", "x + f", "concat(name, '!')", "name || i",
    "day + INTERVAL 1 DAY", "moment - INTERVAL 5 MINUTES", "datediff(day, DATE '2024-01-01')", "b AND i > 1",
    "CASE WHEN b THEN i ELSE l END", "coalesce(i, l)", "greatest(i, x)", "round(d, 1)",
    "named_struct('i', i)",
    "array(i, s)", "CAST(i AS STRING)", "date_trunc('HOUR', moment)", "i % s", "-d", "substring(name, 1, 2)",
    "nullif(i, 2)", "length(name)", "i IN (1, 2)", "l BETWEEN 1 AND 5", "i IS NULL", "md5(name)", "floor(x)",
]  # fmt: skip
AGGREGATES = [
    "sum(i)", "sum(s)", "sum(l)", "sum(d)", "sum(f)", "sum(x)", "avg(i)", "avg(d)", "avg(x)", "min(name)",
    "max(day)", "min(moment)", "max(d)", "count(i)", "count(DISTINCT name)", "stddev(i)", "max_by(name, i)",
    "min_by(d, l)", "array_agg(i)", "sum(i) FILTER (WHERE b)", "sum(d * 2)", "avg(i + l)", "max(i) - min(i)",
]  # fmt: skip


def typed(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT k, CAST(k AS INT) i, CAST(k + 1 AS SMALLINT) s, k * 10 l, CAST(k / 4 AS DECIMAL(10, 2)) d,"
        " CAST(k / 3 AS FLOAT) f, k / 7 x, concat('n', k % 2) name, k % 2 = 0 b,"
        " DATE '2024-03-30' + CAST(k AS INT) day,"
        " TIMESTAMP '2024-03-31 01:30:00' + k * INTERVAL 1 HOUR moment"
        " FROM (SELECT id AS k FROM range(1, 5))"
    )


def test_measures_have_the_types_and_values_that_spark_gives(spark: SparkSession) -> None:
    typed(spark).createOrReplaceTempView("typed")
    measures = ", ".join(f"{text} AS m{i}" for i, text in enumerate(EXPRESSIONS))  # of the last row
    found = cerise.sql(
        spark,
        f"SELECT * FROM typed MATCH_RECOGNIZE (PARTITION BY k ORDER BY l MEASURES {measures} PATTERN (A) "
        "DEFINE A AS true)",
    )
    expected = spark.sql(
        f"SELECT k, {', '.join(f'{text} AS m{i}' for i, text in enumerate(EXPRESSIONS))} FROM typed"
    )
    assert types(found) == types(expected)
    assert rows(found) == rows(expected)


def test_aggregates_have_the_types_and_values_that_spark_gives(spark: SparkSession) -> None:
    typed(spark).createOrReplaceTempView("typed")
    listed = ", ".join(f"{text} AS m{i}" for i, text in enumerate(AGGREGATES))
    found = cerise.sql(
        spark,
        f"SELECT * FROM typed MATCH_RECOGNIZE (ORDER BY l MEASURES {listed} PATTERN (A+) DEFINE A AS true)",
    )
    expected = spark.sql(f"SELECT {listed} FROM typed")
    assert types(found) == types(expected)
    for one, other in zip(rows(found)[0], rows(expected)[0], strict=True):
        if isinstance(other, list):  # Spark collects in any order
            assert (one, sorted(one)) == (sorted(other), sorted(other))
        else:
            assert one == (pytest.approx(other) if isinstance(other, float) else other)


PAIRS = max(8, EXAMPLES // 60)


def test_spark_agrees_with_the_process_on_random_clauses(spark: SparkSession) -> None:
    """Values only: the types of measures are Spark's. Of a frame ties are broken by a hash (S1.2)."""
    compared = at_once(lambda number: compare(number, spark.newSession()), range(PAIRS))
    assert sum(compared) > PAIRS // 3


def compare(number: int, spark: SparkSession) -> bool:
    """Compare the results of one clause, and tell whether there are any."""
    family = family_of(7_000_000 + number)
    table = max(family.tables, key=len)
    bound = family.bound()
    frame(spark, table).createOrReplaceTempView("t")
    statement = " ".join(family.sql.split())
    try:
        expected = run_rows(replace(bound, arrival=False), table, Options())
    except CeriseError:
        with pytest.raises(Exception, match=r"."):
            cerise.sql(spark, statement, dialect=family.dialect).toArrow()
        return False
    found = cerise.sql(spark, statement, dialect=family.dialect).toArrow()
    assert found.column_names == expected.column_names
    assert values(found) == values(expected), family.shown(table)
    return len(expected) > 0


def values(table: pa.Table) -> list[str]:
    """The rows, in any order, with numbers in one form whatever their type."""
    columns = [[_plain(each) for each in column.to_pylist()] for column in table.columns]
    return sorted(repr(row) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return f"{float(value) + 0.0:.12g}"


def test_nothing_is_left_behind(ticks: DataFrame, spark: SparkSession) -> None:
    before = {each.name for each in spark.catalog.listTables()}
    found = cerise.sql(spark, f"WITH v AS ({V_SHAPE}) SELECT symbol, count(*) c FROM v GROUP BY symbol")
    assert {each.name for each in spark.catalog.listTables()} == before
    assert sum(row.c for row in found.collect()) == len(cerise.find(TICKS, V_SHAPE))


def test_a_statement_without_a_clause_is_sparks_own(spark: SparkSession) -> None:
    assert cerise.sql(spark, "SELECT 1 AS match_recognize").collect()[0][0] == 1


def test_a_temporary_view_with_a_clause(ticks: DataFrame, spark: SparkSession) -> None:
    cerise.sql(spark, f"CREATE OR REPLACE TEMP VIEW vs AS {V_SHAPE}")
    assert spark.table("vs").count() == len(cerise.find(TICKS, V_SHAPE))
    spark.catalog.dropTempView("vs")
    with pytest.raises(UnsupportedError, match="TEMPORARY VIEW"):
        cerise.sql(spark, f"CREATE VIEW vs AS {V_SHAPE}")


def test_what_spark_finds_wrong_points_into_the_statement(ticks: DataFrame, spark: SparkSession) -> None:
    statement = f"SELECT symbool FROM ({V_SHAPE})"
    with pytest.raises(BindError) as caught:
        cerise.sql(spark, statement)
    assert "symbool" in caught.value.problem
    assert caught.value.span is not None
    assert statement[caught.value.span.start : caught.value.span.end] == "symbool"
    later = f"SELECT m.n,\n  m.nn FROM ({V_SHAPE}) AS m"
    with pytest.raises(CeriseError) as caught_later:
        cerise.sql(spark, later)
    assert caught_later.value.span is not None
    assert later[caught_later.value.span.start :].startswith("m.nn")


def test_sql_says_itself_what_the_arguments_of_find_say() -> None:
    with pytest.raises(UnsupportedError, match="key= has no meaning"):
        cerise.find(TICKS, V_SHAPE, key="symbol")
    with pytest.raises(UnsupportedError, match="more than SELECT"):
        cerise.find(TICKS, f"SELECT symbol FROM ({V_SHAPE})")
    with pytest.raises(BindError, match="no column says when"):
        cerise.find(TICKS, "PATTERN a")


def test_explain_says_how_a_clause_is_run() -> None:
    said = cerise.explain(TICKS, V_SHAPE)
    assert "rows (compiled)" in said
    assert "D, U judged for all rows at once" in said


# ---- what was done


@pytest.mark.parametrize("engine", ["rows", "reference"])
def test_a_report_of_a_clause_in_process(engine: str) -> None:
    found = cerise.profile(TICKS, V_SHAPE, options=Options(engine=engine))
    assert found.matches.equals(cerise.find(TICKS, V_SHAPE, options=Options(engine=engine)))
    figures = found.report.figures
    assert figures["events"] == len(TICKS)
    assert figures["matches"] == len(found.matches) > 10  # ONE ROW PER MATCH
    assert figures["rows of the result"] == len(found.matches)
    assert re.search(rf"events +{len(TICKS)}\n", str(found.report))
    assert re.search(rf"matches +{len(found.matches)}\n", str(found.report))


def test_a_report_of_a_clause_on_spark(ticks: DataFrame, tmp_path: Path) -> None:
    pq.write_table(TICKS, tmp_path / "ticks.parquet", row_group_size=50)
    for events, read in ((ticks, "events handed over"), (str(tmp_path), "events read")):
        options, spark = Options(partitions=2), True if isinstance(events, str) else None
        found = cerise.profile(events, V_SHAPE, options=options, spark=spark)
        assert "nothing has run yet" in str(found.report)
        count = found.matches.count()
        figures = found.report.figures
        assert figures[read] == figures["events matched over"] == len(TICKS)
        assert figures["rows of the result"] == count == len(cerise.find(TICKS, V_SHAPE))
        assert figures["bytes exchanged"] > 0
    assert figures["row groups read"] == figures["row groups"] == 6


def test_one_task_of_a_local_session_searches_rows_that_fit_into_memory(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With all cores, and without an exchange; a number of tasks that the user sets is kept."""
    pq.write_table(TICKS, tmp_path / "ticks.parquet", row_group_size=50)
    many, expected = Options(limits=Limits(task_events=10)), rows(cerise.find(TICKS, V_SHAPE))
    for options, said in (
        (many, "with 2 threads: the session is local"),
        (Options(partitions=3), "exchanged by key"),
    ):
        assert said in cerise.explain(str(tmp_path), V_SHAPE, options=options, spark=True)
        assert rows(cerise.find(str(tmp_path), V_SHAPE, options=options, spark=True)) == expected


def test_rows_that_exceed_memory_are_exchanged(spark: SparkSession) -> None:
    runner, asked = OnSpark(spark), Needs(TICKS.schema, (), clock=Clock("t"))
    found = [runner.gather(Rows(count), asked, Options()) for count in (1_000, memory_of_machine())]  # type: ignore[arg-type]
    assert found[0] is not None
    assert found[0][0] == 2
    assert found[1] is None
    assert runner.gather(Rows(1_000), asked, Options(partitions=2)) is None  # type: ignore[arg-type]


@dataclass(frozen=True)
class Rows:
    """An access path, as far as it says how many rows there are."""

    rows: int


@pytest.mark.parametrize("skip", ["TO NEXT ROW", "PAST LAST ROW"])
def test_a_report_of_slices(skip: str, spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(TICKS, tmp_path / "ticks.parquet", row_group_size=50)
    clause = f"""
        SELECT * FROM ticks MATCH_RECOGNIZE (
          ORDER BY t MEASURES A.t AS began AFTER MATCH SKIP {skip}
          PATTERN (A B) WITHIN 5 DEFINE B AS price > PREV(price))"""
    found = cerise.profile(str(tmp_path), clause, options=Options(partitions=3), spark=True)
    count = found.matches.count()
    figures = found.report.figures
    assert figures["rows of the result"] == count == len(cerise.find(TICKS, clause))
    assert figures["events"] == len(TICKS) <= figures["events matched over"]
    assert figures["tasks matching"] > 1
    assert ("tasks choosing" in figures) == (skip == "PAST LAST ROW")
