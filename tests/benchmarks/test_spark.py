"""The suite `spark`: all ways to run its queries find the same matches, in one session and few events."""

from __future__ import annotations

import importlib
import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import cerise
from cerise import data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SUITE = tomllib.loads((BENCHMARKS / "suites/spark.toml").read_text(encoding="utf-8"))
QUERIES = {query["name"]: query for query in SUITE["query"]}
EVENTS = {"nasdaq": 40_000, "crimes": 100_000, "acer_synthetic": 20_000}
BY_HAND = ("self join", "window functions", "applyInPandas")
PEERS = ("duckdb", "polars")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    for name, events in EVENTS.items():
        data.write(name, folder / f"{name}.parquet", events, row_group=20_000)
    return folder


@pytest.fixture
def subjects(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    table: dict[str, Any] = importlib.import_module("subjects").SUBJECTS
    return table


def path_of(query: str, folder: Path) -> str:
    return str(folder / f"{QUERIES[query]['data']}.parquet")


def work(query: str, folder: Path, **options: Any) -> dict[str, Any]:
    described = SUITE["data"][QUERIES[query]["data"]]
    return {
        "query": QUERIES[query], "path": path_of(query, folder), "data": described, "options": options,
    }  # fmt: skip


def expected(query: str, folder: Path) -> list[int]:
    roles = {name: QUERIES[query][name] for name in ("time", "type", "order") if name in QUERIES[query]}
    found = cerise.find(pq.read_table(path_of(query, folder)), QUERIES[query]["text"], **roles)
    ids: list[int] = found["match_id"].to_pylist()
    return sorted(ids)


def peer(name: str, file: str) -> ModuleType:
    """Load a file of a peer as its adapter is loaded; all peers call theirs alike."""
    spec = importlib.util.spec_from_file_location(
        f"{name}_{file}", BENCHMARKS / "peers" / name / f"{file}.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- on Spark


@pytest.mark.parametrize(
    ("run", "options"),
    [("lake write", {}), ("frame", {}), ("lake count", {}), ("frame", {"count": True})]
    + [(form, {}) for form in BY_HAND],
)
@pytest.mark.parametrize("query", ["q1", "crimes"])
def test_all_ways_find_the_same_matches(
    query: str, run: str, options: dict[str, Any], subjects: Any, folder: Path, spark: SparkSession
) -> None:
    asked = work(query, folder, **options)
    assert subjects[run].why_not(asked) is None
    call = subjects[run].prepare(asked)  # what it has written goes away with it
    kind, found = subjects[run].found(call())
    ids = expected(query, folder)
    assert len(ids) > 5
    assert (kind, found if kind == "count" else sorted(found)) in (("count", len(ids)), ("match_id", ids))


@pytest.mark.parametrize("query", ["vshape", "synthetic"])
def test_other_queries_are_not_written_by_hand(query: str, subjects: Any, folder: Path) -> None:
    for form in BY_HAND:
        assert "not written by hand" in subjects[form].why_not(work(query, folder))


def test_a_scan_reads_all_that_a_query_reads(subjects: Any, folder: Path, spark: SparkSession) -> None:
    for options in ({}, {"sort": True}):
        read = subjects["scan"].prepare(work("q1", folder, **options))()
        assert 40_000 <= read <= 80_000  # slices share row groups
        assert subjects["scan"].counted(read) == {"rows": read}


@pytest.mark.parametrize("count", [False, True])
def test_only_needed_rows_are_handed_over(
    count: bool, subjects: Any, folder: Path, spark: SparkSession
) -> None:
    handed = subjects["hand over"].prepare(work("q1", folder, count=count))()
    tickers = pq.read_table(path_of("q1", folder))["ticker"].to_pylist()
    assert 0 < handed <= tickers.count("MSFT") + tickers.count("GOOG")


# ---- what is drawn


def test_a_query_is_compared_with_the_least_that_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS / "figures")
    spec = importlib.util.spec_from_file_location("spark_figure", BENCHMARKS / "figures/spark.py")
    assert spec
    assert spec.loader
    figure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figure)
    took = {"lake count": 3.0, "scan": 2.0, "scan sorted": 2.5, "frame": 4.0, "process": 1.0}
    lines = [
        {"query": "q1", "subject": name, "events": 9, "data": {"name": "n"}, "seconds": {"min": seconds}}
        for name, seconds in took.items()
    ]
    text = figure.over_the_least(lines)
    assert "| q1 | lake count | 9 | scan | 1.5× |" in text
    assert "| q1 | lake count | 9 | scan sorted | 1.2× |" in text
    assert text.count("\n| q1") == 2
    assert set(figure.COLOURS) == set(SUITE["subject"])


# ---- peers


@pytest.mark.parametrize("source", ["memory", "file"])
@pytest.mark.parametrize("query", ["q1", "crimes", "synthetic"])
@pytest.mark.parametrize("name", PEERS)
def test_peers_find_as_many(name: str, query: str, source: str, folder: Path) -> None:
    pytest.importorskip(name)
    threads = ["2"] if name == "duckdb" else []
    count = peer(name, "search").prepare(query, path_of(query, folder), source, *threads)
    assert count() == len(expected(query, folder))


def test_peers_know_every_query_that_they_are_asked() -> None:
    known = {name: peer(name, "search").QUERIES for name in PEERS if importlib.util.find_spec(name)}
    known["flink_sql"] = peer("flink_sql", "adapter").QUERIES
    for name, query in QUERIES.items():
        more = [each for them in query.get("also", {}).values() for each in them]
        for subject in {*query["subjects"], *more}:
            described = SUITE["subject"][subject]
            of = described.get("peer")
            if described.get("source") != "filtered":
                assert of not in known or name in known[of]


@pytest.mark.parametrize("query", list(QUERIES))
def test_a_filtered_read_has_the_rows_that_a_variable_can_be(query: str, folder: Path) -> None:
    pytest.importorskip("polars")
    read = peer("polars", "search").prepare(query, path_of(query, folder), "filtered")()
    events = pq.read_table(path_of(query, folder)).to_pylist()
    wanted = {
        "q1": lambda event: event["ticker"] in ("MSFT", "GOOG"),
        "crimes": lambda event: event["primary_type"] in ("ROBBERY", "BATTERY", "MOTOR VEHICLE THEFT"),
        "vshape": lambda event: True,
        "synthetic": lambda event: event["type"] in ("E1", "E2", "E3") and event["a1"] < 200,
    }[query]
    assert read == {"rows": sum(map(wanted, events))}
    adapter = peer("polars", "adapter")
    assert (adapter.found(read), adapter.counted(read), adapter.counted(3)) == (None, read, None)


@pytest.mark.parametrize("query", list(QUERIES))
def test_a_count_from_the_path_is_the_number_of_matches(query: str, subjects: Any, folder: Path) -> None:
    call = subjects["path count"].prepare(work(query, folder))
    assert subjects["path count"].found(call()) == ("count", len(expected(query, folder)))


@pytest.mark.parametrize("name", [*PEERS, "flink_sql"])
def test_a_peer_says_that_it_is_absent(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CERISE_PEERS_DIR", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda program: "/usr/bin/javac")
    adapter = peer(name, "adapter")
    assert "is not installed" in adapter.why_not({"options": {"install": False}})
    assert adapter.why_not({"options": {"install": True}}) is None
    assert adapter.found(3) == ("count", 3)


def test_flink_asks_for_what_is_skipped_between_variables() -> None:
    adapter = peer("flink_sql", "adapter")
    asked = adapter._select(adapter.QUERIES["crimes"])
    assert "PARTITION BY district ORDER BY ts, id MEASURES A.ms AS began, C.ms AS ended" in asked
    assert "PATTERN (A X*? B Y*? C) WITHIN INTERVAL '30:00.001' MINUTE TO SECOND" in asked
