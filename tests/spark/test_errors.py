"""Errors of tasks: the CeriseErrors they are, whatever action meets them; what is Spark's own stays so."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import cerise
from cerise import DataError, PlanError
from cerise.errors import BindError, CeriseError, ParseError, Span, StoreError, UnsupportedError
from cerise.spark.task_errors import EncodingTask, decode, encode, translate_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def found(spark: SparkSession) -> DataFrame:
    frame = spark.createDataFrame([(1, "u"), (None, "v")], "t long, k string")
    return cerise.find(frame, "PATTERN SEQ(a, b)", time="t")


ACTIONS: dict[str, Callable[[Any, Path], object]] = {
    "collect": lambda found, _: found.collect(),
    "count": lambda found, _: found.count(),
    "first": lambda found, _: found.first(),
    "show": lambda found, _: found.show(),
    "toPandas": lambda found, _: found.toPandas(),
    "toArrow": lambda found, _: found.toArrow(),
    "toLocalIterator": lambda found, _: list(found.toLocalIterator()),
    "a write": lambda found, path: found.write.parquet(str(path / "matches")),
    "a query": lambda found, _: found.where("a.t > 0").groupBy("b.k").count().collect(),
}


@pytest.mark.filterwarnings("ignore:toPandas attempted Arrow")
@pytest.mark.parametrize("action", ACTIONS)
def test_any_action_raises_the_error_of_the_task(found: DataFrame, tmp_path: Path, action: str) -> None:
    with pytest.raises(DataError, match=r"^1 events have no time: 't' is null") as caught:
        ACTIONS[action](found, tmp_path)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("filter them out first")
    shown = "".join(traceback.format_exception(caught.value))
    assert "org.apache.spark" not in shown
    assert "cerise-error" not in shown


def test_cerise_raises_it_where_it_acts_itself(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "u"), (None, "v")], "t long, k string")
    with pytest.raises(DataError, match=r"^1 events have no time"):
        cerise.count(frame, "PATTERN a", time="t")
    store = cerise.Store.create(tmp_path / "store", schema=frame, time="t")
    with pytest.raises(DataError, match="no time"):
        store.append(frame)
    with pytest.raises(DataError, match="no time"):
        str(cerise.explain_misses(frame, "PATTERN SEQ(a, b) WITHIN 1", time="t"))


def test_a_place_in_the_query_comes_along(spark: SparkSession) -> None:
    frame = spark.range(4).selectExpr("id AS t")
    statement = """SELECT * FROM t MATCH_RECOGNIZE (
        ORDER BY t MEASURES LAST(A.t) AS l AFTER MATCH SKIP TO FIRST A PATTERN (A B) DEFINE B AS t > 0)"""
    with pytest.raises(CeriseError, match="SKIP") as there:
        cerise.find(frame, statement).collect()
    with pytest.raises(CeriseError, match="SKIP") as here:
        cerise.find(pa.table({"t": range(4)}), statement)
    assert type(there.value) is type(here.value)
    assert str(there.value) == str(here.value)


def test_what_spark_finds_wrong_is_said_in_one_line(spark: SparkSession) -> None:
    broken = spark.range(3).selectExpr("id AS t", "CAST(raise_error('boom') AS STRING) AS x")
    query = "PATTERN a WHERE a.x = 'y'"
    with pytest.raises(PlanError, match=r"^Spark could not do it: \[USER_RAISED_EXCEPTION\] boom") as caught:
        cerise.count(broken, query, time="t")
    assert len(str(caught.value).splitlines()) == 2
    assert "boom" in str(caught.value.__context__)
    with pytest.raises(Exception, match="boom") as own:
        cerise.find(broken, query, time="t").collect()
    assert type(own.value).__module__.startswith("pyspark.")


def test_an_upgrade_of_spark_is_said_in_one_line(spark: SparkSession) -> None:
    """Dates before the Gregorian calendar, parsed as Spark 2 and Spark 3 do differently."""
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "EXCEPTION")
    try:
        old = spark.range(2).selectExpr("id AS t", "to_date('2020-01-27T20:06:11.847', 'yyyy-MM-dd') AS day")
        with pytest.raises(PlanError, match="Spark could not do it") as caught:
            cerise.count(old, "PATTERN a WHERE a.day IS NOT NULL", time="t")
        assert "\tat " not in str(caught.value)
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")


# ---- the text


@pytest.mark.parametrize(
    "error",
    [
        DataError("a problem"),
        PlanError("größer\nals gedacht", hint="a ] and a [cerise-error x]"),
        ParseError("here", span=Span(1, 3), text="PATTERN\n𝄞"),
        BindError("b", span=Span(0, 1), text="x", hint="h"),
        UnsupportedError("u"),
        StoreError("s"),
    ],
)
def test_an_error_is_read_as_it_was_written(error: CeriseError) -> None:
    made = decode(
        f"Traceback (most recent call last):\n  …\n{error}\n{encode(error)}\n\n\tat org.apache.spark"
    )
    assert type(made) is type(error)
    assert str(made) == str(error)
    assert (made.problem, made.span, made.text, made.hint) == (
        error.problem, error.span, error.text, error.hint
    )  # fmt: skip


@pytest.mark.parametrize(
    "forged",
    [
        "no error at all", "[cerise-error ]", "[cerise-error AAAA]", "[cerise-error e30=]",
        "[cerise-error W10=]",
        "[cerise-error WyJTcGFuIiwgIngiLCBudWxsLCBudWxsLCBudWxsXQ==]",  # a class that is not an error
        "[cerise-error WyJfX2J1aWx0aW5zX18iLCAieCIsIG51bGwsIG51bGwsIG51bGxd]",
    ],
)  # fmt: skip
def test_what_only_looks_like_an_error_is_none(forged: str) -> None:
    assert decode(forged) is None


def test_a_task_adds_its_error_to_the_text() -> None:
    def failing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise DataError("bad", hint="mend it")

    with pytest.raises(DataError) as caught:
        list(EncodingTask(failing)([]))
    text = "".join(traceback.format_exception(caught.value))
    made = decode(text)
    assert isinstance(made, DataError)
    assert made.hint == "mend it"


def test_nothing_else_is_touched() -> None:
    with pytest.raises(ZeroDivisionError), translate_errors():
        _ = 1 / 0
