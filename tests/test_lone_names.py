"""A lone name that is a value of the type column: a variable to Cerise (S2.1), and mostly meant as a type."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import BindError, CeriseWarning, Options, Store, dsl
from cerise.files.column_values import find_values
from cerise.files.lake import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = pa.table({"ts": [1, 2, 3, 4], "kind": ["login", "pay", "login", "pay"], "x": [1, 2, 3, 4]})
ROLES: dict[str, Any] = {"time": "ts", "type": "kind"}
LONE = "PATTERN SEQ(login, pay)"
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "category": lambda table: table.to_pandas().astype({"kind": "category"}),
    "large": lambda table: table.set_column(1, "kind", table["kind"].cast(pa.large_string())),
    "chunks": lambda table: pa.concat_tables([table.slice(0, 1), table.slice(1)]),
}


def told(ask: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask()
    return [str(each.message) for each in caught if issubclass(each.category, CeriseWarning)]


@pytest.mark.parametrize("form", FORMS)
def test_a_lone_name_that_is_a_type_is_told_of(form: str) -> None:
    events = FORMS[form](EVENTS)
    said = told(lambda: cerise.find(events, LONE, **ROLES))
    assert len(said) == 2
    assert "'login' is a value of the type column 'kind'" in said[0]
    assert "SEQ(login) is a variable" in said[0]
    assert 'write SEQ("login" l)' in said[0]
    with pytest.raises(BindError, match="'login' is a value of the type column"):
        cerise.find(events, LONE, options=Options(strict=True), **ROLES)


@pytest.mark.parametrize(
    "query", ['PATTERN SEQ("login" l, ~pay)', "PATTERN SEQ(x, pay+)", "PATTERN AND(pay?, y)"]
)
def test_wherever_it_stands(query: str) -> None:
    (said,) = told(lambda: cerise.find(EVENTS, f"{query} WITHIN 5", **ROLES))
    assert said.startswith("'pay' is a value")


def test_a_query_written_in_python() -> None:
    query = dsl.seq(dsl.var("login"), dsl.var("pay", "p"))
    (said,) = told(lambda: cerise.find(EVENTS, query, **ROLES))
    assert 'var("login") is a variable' in said
    assert 'write var("login", "l")' in said


def test_every_verb_says_it() -> None:
    for verb in (cerise.find, cerise.profile, cerise.count, cerise.compressed, cerise.explain_misses):
        assert len(told(lambda verb=verb: verb(EVENTS, LONE, **ROLES))) == 2
        with pytest.raises(BindError, match="value of the type column"):
            verb(EVENTS, LONE, options=Options(strict=True), **ROLES)
    assert len(told(lambda: cerise.find(EVENTS, [LONE, 'PATTERN "pay" p'], **ROLES))) == 2


def test_types_are_given_and_not_used() -> None:
    (said,) = told(lambda: cerise.find(EVENTS, "PATTERN SEQ(a, b)", **ROLES))
    assert "type='kind' is given, but no item of the pattern has a type" in said
    with pytest.raises(BindError, match="no item of the pattern has a type"):
        cerise.find(EVENTS, "PATTERN SEQ(a, b)", options=Options(strict=True), **ROLES)


@pytest.mark.parametrize(
    ("query", "roles"),
    [
        ("PATTERN SEQ(login, pay)", {"time": "ts"}),
        ('PATTERN SEQ("login" login, "pay" pay)', ROLES),
        ('PATTERN SEQ("login" l, x)', ROLES),
        ('PATTERN "login" l INTO R; PATTERN SEQ(login, pay) FROM R', ROLES),
    ],
)
def test_what_is_meant_is_not_told_of(query: str, roles: dict[str, Any]) -> None:
    assert told(lambda: cerise.find(EVENTS, query, options=Options(strict=True), **roles)) == []


# ---- files, stores and Spark


def test_values_of_files(tmp_path: Path) -> None:
    rows = pa.table({"ts": range(100), "kind": ["login", "view", "pay", "quit"] * 25})
    pq.write_table(rows, tmp_path / "coded.parquet", row_group_size=10)
    pq.write_table(rows, tmp_path / "plain.parquet", row_group_size=50, use_dictionary=False)
    pq.write_table(rows, tmp_path / "bare.parquet", write_statistics=False)
    names = ("login", "pay", "nothing", "aaa", "zzz")
    for name in ("coded", "plain", "bare"):
        assert find_values(open_lake(tmp_path / f"{name}.parquet"), "kind", names) == {"login", "pay"}
    for kind in ("login", "pay"):
        (tmp_path / "hive" / f"kind={kind}").mkdir(parents=True)
        pq.write_table(rows.select(["ts"]), tmp_path / "hive" / f"kind={kind}" / "a.parquet")
    assert find_values(open_lake(tmp_path / "hive"), "kind", names) == {"login", "pay"}
    one = pa.table({"ts": range(50), "kind": ["login"] * 40 + ["pay"] * 10})
    pq.write_table(one, tmp_path / "alike.parquet", row_group_size=2)  # more row groups than are read
    assert find_values(open_lake(tmp_path / "alike.parquet"), "kind", names) == {"login", "pay"}


def test_a_store_says_it(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store", schema=EVENTS.schema, time="ts", type="kind", pool_rows=1)
    store.append(EVENTS)
    for ask in (cerise.find, cerise.count, cerise.profile):
        said = told(lambda ask=ask: ask(store, LONE))
        assert any("'login' is a value of the type column 'kind'" in each for each in said)
        with pytest.raises(BindError, match="is a value of the type column"):
            ask(store, LONE, options=Options(strict=True))
    assert told(lambda: store.find("PATTERN SEQ(a, b)")) == []  # its types are for other queries


def test_spark_says_it(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    for events in (spark.createDataFrame(EVENTS.to_pandas()), str(tmp_path / "events.parquet")):
        for verb in (cerise.find, cerise.count):
            assert len(told(lambda verb=verb, events=events: verb(events, LONE, **ROLES))) == 2
            with pytest.raises(BindError, match="is a value of the type column"):
                verb(events, LONE, options=Options(strict=True), **ROLES)
        typed = 'PATTERN SEQ("login" l, "pay" p)'
        assert cerise.count(events, typed, options=Options(strict=True), **ROLES) == 2
