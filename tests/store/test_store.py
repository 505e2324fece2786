"""The event store: what it finds is what is found in the same events elsewhere, whatever was done to it."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.errors import CeriseWarning
from cerise.event_store import Store
from cerise.filters.index_query import build_index_query
from cerise.filters.two_phase import Filtering, Trace, filter_events
from cerise.run.sase_search import Sase
from cerise.sources import How, Roles, ask
from tests.support.strategies.pairs import most_events
from tests.support.strategies.queries import PARAMS, params_of, query_of
from tests.support.strategies.streams import ROW, Dice, shape_of, table_of
from tests.test_agreement import rows
from tests.tiers import mostly_nightly

BY_INDEX = Options(limits=Limits(kept_share=1))  # however many events fit a variable
BY_STRETCHES = Options(limits=Limits(kept_share=1, stretch_events=4))

# ---- the running example of the paper [ACER24 Table 1, Fig. 1, Fig. 8]

TRADES = [
    ("MSFT", 329.67, 60906, "10:55"), ("AAPL", 175.29, 100686, "10:56"), ("GOOG", 125.55, 82648, "10:57"),
    ("AAPL", 175.37, 61517, "10:58"), ("MSFT", 330.85, 109612, "11:03"), ("GOOG", 125.16, 37939, "11:06"),
    ("GOOG", 125.00, 43324, "11:23"), ("AAPL", 175.0, 1, "11:30"), ("AAPL", 175.0, 1, "11:31"),
    ("AAPL", 175.0, 1, "11:32"), ("AAPL", 175.0, 1, "11:33"), ("AAPL", 175.0, 1, "11:34"),
]  # fmt: skip
Q_1 = """PATTERN SEQ(MSFT v1, GOOG v2, MSFT v3, GOOG v4)
USE skip-till-next-match
WHERE 326 <= v1.open <= 334 AND 120 <= v2.open <= 130
  AND v3.open >= v1.open * 1.003 AND v4.open <= v2.open * 0.997
WITHIN 12 minutes"""


def minutes(text: str) -> int:
    hour, minute = text.split(":")
    return (int(hour) * 60 + int(minute)) * 60_000_000


@pytest.fixture
def trades(tmp_path: Path) -> Store:
    table = pa.table(
        {
            "ticker": [each[0] for each in TRADES],
            "open": [each[1] for each in TRADES],
            "volume": [each[2] for each in TRADES],
            "date": pa.array([minutes(each[3]) for each in TRADES], pa.timestamp("us")),
        }
    )
    store = Store.create(
        tmp_path / "trades", schema=table.schema, time="date", type="ticker", index=["open"], block_rows=6,
        pool_rows=1,
    )  # fmt: skip
    store.append(table)
    return store


def test_the_running_example_keeps_one_interval_and_reads_four_events(trades: Store) -> None:
    found = cerise.profile(trades, Q_1, options=BY_INDEX)
    assert [list(map(str, row)) for row in _times(found.matches)] == [["10:55", "10:57", "11:03", "11:06"]]
    assert found.report.figures["events kept"] == 4
    candidates = trades.candidates(Q_1, options=BY_INDEX)
    assert [str(each)[11:16] for each in candidates["date"].to_pylist()] == [
        "10:55", "10:57", "11:03", "11:06"
    ]  # fmt: skip


def _times(table: pa.Table) -> list[list[str]]:
    return [[str(row[v]["date"])[11:16] for v in ("v1", "v2", "v3", "v4")] for row in table.to_pylist()]


def test_the_running_example_has_the_intervals_of_the_paper(trades: Store) -> None:
    """v1 is in e1 and e5: two intervals; the second has no four events of its own, and goes."""
    view = trades.view_of(None)
    (question,) = ask(trades, Q_1, Roles(), How()).questions.each
    assert isinstance(question, Sase)
    query = build_index_query([question.bound], view.known)
    assert not isinstance(query, str)
    trace = Trace()
    filter_events(query, view, trace=trace)
    assert trace.order[0] == ("v1", 2)
    assert trace.intervals[-1] == 1


def test_explain_says_how_events_are_got_at(trades: Store) -> None:
    said = cerise.explain(trades, Q_1, options=BY_INDEX)
    assert "v1 is looked up" in said
    assert "12 events in 1 file," in said
    assert "the window counts every event" in cerise.explain(
        trades, "PATTERN SEQ(MSFT a, GOOG b) WITHIN 3 events", options=BY_INDEX
    )


# ---- random stores


def random_store(folder: Path, table: pa.Table, schema: Any, rng: Random) -> Store:
    """A store with the events of a table, appended in parts, sealed and compacted now and then."""
    on = [name for name in ("x", "y", "s", "flag", "big") if rng.random() < 0.7]
    store = Store.create(
        folder, schema=table.schema, time=schema.time, type=schema.type, key=schema.key, order=schema.order,
        index=[name for name in on if name not in (schema.type, *schema.key, *schema.order)],
        block_rows=rng.choice((1, 2, 3, 5, 50)), pool_rows=rng.choice((1, 2, 4, 100)),
        compress=rng.random() < 0.8,
    )  # fmt: skip
    start = 0
    while start < len(table):
        size = rng.choice((1, 2, 3, 5, 9))
        store.append(table.slice(start, size))
        start += size
        if rng.random() < 0.2:
            store.compact()
    return store


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
@pytest.mark.parametrize("go", mostly_nightly(range(5), (0, 1, 2)))
def test_a_store_finds_what_is_found_in_the_same_events(go: int, tmp_path: Path) -> None:
    rng, seen = Random(go), Counter[str]()
    for number in range(3):
        shape = shape_of(Dice(rng.randbytes(200)))
        table = table_of(Dice(rng.randbytes(ROW * 14)), shape, 14)
        store = random_store(tmp_path / str(number), table, shape.schema, rng)
        assert store.verify() == []
        for _ in range(12):
            query = query_of(Dice(rng.randbytes(200)), shape, returns=False)
            if most_events(query) < len(table):
                continue
            params = {name: PARAMS[name] for name in params_of(query)}
            roles = {"time": shape.schema.time, "type": shape.schema.type, "order": shape.schema.order}
            expected = cerise.find(table, query, key=shape.schema.key, params=params, **roles)
            store.filtering = _some_filtering(rng)
            found = cerise.profile(store, query, params=params, options=BY_STRETCHES)
            assert rows(found.matches) == rows(expected.cast(found.matches.schema)), f"{query}"
            seen["matches"] += len(expected) > 0
            seen["by index"] += "by index" in found.report.access
            seen["queries"] += 1
    assert min(seen["matches"], seen["by index"]) * 5 > seen["queries"] > 8, seen


def _some_filtering(rng: Random) -> Filtering:
    return Filtering(rng.random() < 0.8, rng.choice((None, True, False)))


# ---- what is not indexed, or no longer


@pytest.fixture
def ticks(tmp_path: Path) -> Store:
    store = Store.create(
        tmp_path / "ticks", schema=_ticks(0, 0).schema, time="t", type="k", index="x", block_rows=64,
        pool_rows=32,
    )  # fmt: skip
    store.append(_ticks(0, 200))
    store.append(_ticks(200, 400))
    return store


def _ticks(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "t": pa.array(numbers, pa.int64()),
            "k": pa.array(["ABC"[i % 3] for i in numbers], pa.string()),
            "x": pa.array([i % 7 for i in numbers], pa.int64()),
            "note": pa.array([f"n{i}" for i in numbers], pa.string()),
        }
    )


RARE = "PATTERN SEQ(A a, B b, C c) WHERE a.x = 1 AND b.x = 2 WITHIN 2"


def found_in(table: pa.Table, query: str = RARE) -> Counter[str]:
    return rows(cerise.find(table, query, time="t", type="k"))


def test_fresh_events_are_found_with_the_others(ticks: Store) -> None:
    ticks.append(_ticks(400, 410))
    ticks.append(_ticks(410, 425))
    assert ticks.info().fresh_events == 25
    assert rows(ticks.find(RARE)) == found_in(_ticks(0, 425))
    ticks.compact()
    assert ticks.info().fresh_events == 0
    assert rows(ticks.find(RARE)) == found_in(_ticks(0, 425))


def test_an_old_version_answers_as_it_was(ticks: Store) -> None:
    before = ticks.version
    ticks.append(_ticks(400, 600))
    assert rows(ticks.find(RARE)) == found_in(_ticks(0, 600))
    assert rows(ticks.find(RARE, version=before)) == found_in(_ticks(0, 400))


def test_a_reader_sees_what_another_appends(ticks: Store) -> None:
    reader = Store(ticks.info().path)
    assert cerise.count(reader, RARE) == found_in(_ticks(0, 400)).total()
    ticks.append(_ticks(400, 800))
    assert cerise.count(reader, RARE) == found_in(_ticks(0, 800)).total()


@pytest.mark.parametrize("damage", ["missing", "cut off", "flipped"])
def test_a_broken_index_costs_only_time(ticks: Store, damage: str) -> None:
    """It is told of once, and the data is read."""
    path = min((Path(ticks.info().path) / "_cerise" / "index").glob("*.cix"))
    held = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "cut off":
        path.write_bytes(held[: len(held) // 2])
    else:
        held[40] ^= 4
        path.write_bytes(held)
    reader = Store(ticks.info().path)
    with pytest.warns(CeriseWarning, match="is not used") as caught:
        assert rows(reader.find(RARE)) == found_in(_ticks(0, 400))
    assert len(caught) == 1
    reader.compact()
    assert reader.verify() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", CeriseWarning)
        assert rows(Store(reader.info().path).find(RARE)) == found_in(_ticks(0, 400))


def test_a_column_that_is_only_returned_is_read_for_matched_events(ticks: Store) -> None:
    query = f"{RARE} RETURN a.note AS first, c.note AS last"
    assert rows(ticks.find(query)) == found_in(_ticks(0, 400), query)


def test_sql_over_a_store(ticks: Store) -> None:
    text = """SELECT * FROM events MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b, A.note AS n
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) WITHIN 5
        DEFINE A AS k = 'A' AND x = 1, B AS k = 'B' AND x = 2)"""
    found = cerise.profile(ticks, text)
    assert found.matches.to_pylist() == cerise.find(_ticks(0, 400), text).to_pylist()
    assert len(found.matches) > 10
    assert found.report.figures["events kept"] < 200
    assert "by index" in cerise.explain(ticks, text)


def test_several_queries_are_tagged(ticks: Store) -> None:
    others = "PATTERN SEQ(B a, C b) WHERE a.x = 3 WITHIN 1"
    found = ticks.find([RARE, others])
    assert Counter(found["query"].to_pylist()) == {
        "1": found_in(_ticks(0, 400)).total(), "2": found_in(_ticks(0, 400), others).total(),
    }  # fmt: skip


def test_matches_of_matches(ticks: Store) -> None:
    query = f"{RARE} RETURN a.x AS x INTO Hit; PATTERN SEQ(Hit a, Hit b) FROM Hit WITHIN 90"
    expected = cerise.find(_ticks(0, 400), query, time="t", type="k")
    assert len(expected)
    assert rows(ticks.find(query)) == rows(expected)


# ---- tables of others


def test_a_folder_of_parquet_is_indexed_in_place_as_it_grows(tmp_path: Path) -> None:
    pq.write_table(_ticks(0, 300), tmp_path / "a.parquet", row_group_size=50)
    cerise.index(tmp_path, time="t", type="k", on="x")
    store = Store(tmp_path)
    assert rows(store.find(RARE)) == found_in(_ticks(0, 300))
    pq.write_table(_ticks(300, 500), tmp_path / "b.parquet", row_group_size=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CeriseWarning)
        assert rows(Store(tmp_path).find(RARE)) == found_in(_ticks(0, 500))
    assert cerise.index(tmp_path, time="t", type="k", on="x").built == 1
    assert rows(Store(tmp_path).find(RARE)) == found_in(_ticks(0, 500))


def test_a_query_that_the_index_cannot_help_reads_all(ticks: Store) -> None:
    query = "PATTERN SEQ(a, b) USE strict_contiguity WHERE a.note = 'n5' WITHIN 3 events"
    found = cerise.profile(ticks, query)
    assert "reads all" in found.report.access
    assert rows(found.matches) == found_in(_ticks(0, 400), query)


def test_ties_between_appends_are_broken_by_arrival(tmp_path: Path) -> None:
    """A large append between two small ones, which are sealed into a file of a later name."""
    table = pa.table({"t": [5] * 6, "k": list("ABABAB"), "x": [1, 2, 3, 4, 5, 6]})
    store = Store.create(tmp_path / "s", schema=table.schema, time="t", type="k", index=["x"], pool_rows=3)
    for start, stop in ((0, 1), (1, 4), (4, 6)):
        store.append(table.slice(start, stop - start))
    store.append(table.slice(0, 1))
    query = "PATTERN SEQ(A a, B b) WHERE a.x > 0 AND b.x > 0 WITHIN 1"
    whole = pa.concat_tables([table, table.slice(0, 1)])
    for _ in range(2):
        assert rows(store.find(query)) == rows(cerise.find(whole, query, time="t", type="k"))
        store.compact()


def test_options_are_kept(ticks: Store) -> None:
    assert replace(Options(), threads=3).threads == 3
    assert rows(ticks.find(RARE, options=Options(threads=3))) == found_in(_ticks(0, 400))


def test_an_event_of_equal_time_is_left_for_the_variable_that_needs_it(tmp_path: Path) -> None:
    """At 5 a C comes before a B, and either may be a or b: whichever is taken first, the other is left."""
    table = pa.table({"t": [1, 5, 5], "k": ["X", "C", "B"], "x": [1, 1, 1]})
    store = Store.create(tmp_path / "s", schema=table.schema, time="t", type="k", index=["x"], pool_rows=1)
    store.append(table)
    query = "PATTERN SEQ(X x, a, b) WHERE a.x = 1 AND b.x = 1 WITHIN 10"
    found = store.find(query, options=BY_STRETCHES)
    assert rows(found) == rows(cerise.find(table, query, time="t", type="k"))


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_an_index_that_breaks_between_stretches(tmp_path: Path) -> None:
    """What was found before has to find its columns all the same."""
    table = _ticks(0, 60)
    store = Store.create(
        tmp_path / "s", schema=table.schema, time="t", type="k", index=["x"], pool_rows=8, block_rows=5
    )
    for start in range(50, -1, -10):
        store.append(table.slice(start, 10))
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x >= 0 WITHIN 12 RETURN a.t AS t, a.note AS a, c.note AS c"
    synopsis = store.view_of(None).indexed.synopsis
    expected = found_in(table, query)
    for cluster in range(0, len(synopsis.clusters), 6):
        path = Path(synopsis.files[synopsis.group("file")[synopsis.cluster("group")[cluster]]].path)
        before = path.read_bytes()
        held = bytearray(before)
        held[synopsis.cluster("offset")[cluster]] ^= 4
        path.write_bytes(held)
        reader = Store(tmp_path / "s")
        reader.filtering = Filtering(blockwise=True)
        assert rows(reader.find(query, options=BY_STRETCHES)) == expected
        path.write_bytes(before)


def test_sql_in_another_order_than_that_of_time(tmp_path: Path) -> None:
    """What ORDER BY leaves open arrival decides, and not the time."""
    table = pa.table({"t": [5, 3, 4, 1], "k": ["A", "B", "A", "B"], "x": [1, 1, 2, 2]})
    store = Store.create(tmp_path / "s", schema=table.schema, time="t", type="k", order="x", pool_rows=1)
    store.append(table)
    for order in ("ORDER BY x", "ORDER BY t", ""):
        text = f"""SELECT * FROM e MATCH_RECOGNIZE ({order} MEASURES A.t AS a, B.t AS b PATTERN (A B)
            DEFINE A AS k = 'A', B AS k = 'B')"""
        assert store.find(text).to_pylist() == cerise.find(table, text).to_pylist()


def test_candidates_where_all_is_read(ticks: Store) -> None:
    found = ticks.candidates("PATTERN SEQ(a, b) WHERE a.note = 'n5' AND b.note = 'n9' WITHIN 9")
    assert {"n5", "n9"} <= set(found["note"].to_pylist())
