"""How a stream is explained: when matches are final, how far the state grows, and what is handed over."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.kinds import Kind
from cerise.run.row_search import RowClause
from cerise.sources import Roles
from cerise.stream_queries import bind_queries, clause_binder
from cerise.streaming.live_query import StreamQuery
from cerise.streaming.reports.explain import (
    StreamSetting,
    count_rows,
    explain_query,
    explain_stream,
    find_open_tail,
)

COLUMNS = pa.schema(
    {"ts": pa.timestamp("us", "UTC"), "kind": pa.string(), "id": pa.int64(), "price": pa.float64()}
)
SETTING = StreamSetting(Kind.INSTANT, {"events": 5_000_000}, 4, 16)


def queries(*given: Any) -> tuple[StreamQuery, ...]:
    roles = Roles(time="ts", type="kind")
    binder = clause_binder(COLUMNS, "standard", Options())
    return bind_queries(
        given[0] if len(given) == 1 else list(given), COLUMNS, roles, binder, arrival=True
    ).queries


def facts(query: str) -> dict[str, str]:
    return explain_query(queries(query)[0], SETTING)


def clause(
    pattern: str, define: str = "B AS price < PREV(price)", within: str = "WITHIN INTERVAL '5' MINUTE"
) -> str:
    return (
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts MEASURES A.ts AS at "
        f"PATTERN ({pattern}) {within} DEFINE {define})"
    )


def pattern(text: str) -> Any:
    question = queries(clause(text, "A AS price > 0"))[0].question
    assert isinstance(question, RowClause)
    return question.bound.pattern


# ---- when a match is final


@pytest.mark.parametrize(
    ("query", "final"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 10 minutes", "at its last event, once the watermark has passed it"),
        ("PATTERN SEQ(A a, NOT B b, C c) WITHIN 10 minutes", "at its last event"),
        (
            "PATTERN SEQ(A a, NOT B b) WITHIN 10 minutes",
            "window of 10 minutes has passed, because no b may follow",
        ),
        ("PATTERN AND(A a, C c, NOT B b) WITHIN 10 minutes", "because no b may occur in it"),
        ("PATTERN SEQ(A a, B b) WITHIN 10 minutes RETURN COUNT(*) PER EVENT", "totals of an event"),
        (
            "PATTERN SEQ(A a, B b) WITHIN 10 minutes SLIDE 1 minute RETURN COUNT(*) PER WINDOW",
            "totals of a window",
        ),
        (
            "PATTERN SEQ(A a, B b) WITHIN 10 minutes OUTPUT NON_OVERLAPPING",
            "overlap an earlier one are dropped",
        ),
        (
            "PATTERN SEQ(A a, NOT B b) WITHIN 10 minutes OUTPUT NON_OVERLAPPING",
            "since its last event: late by one window, because only the reference engine can run it",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE lower(coalesce(a.kind, b.kind)) = 'x' WITHIN 10 minutes",
            "when a window of 10 minutes has passed since its first event: late by one window",
        ),
        (
            "PATTERN SEQ(A a, NOT B b) WITHIN 10 minutes LIMIT 1 PER EVENT RETURN COUNT(*) PER EVENT",
            "totals: when a window of 10 minutes has passed since their event: late by one window",
        ),
        (clause("A B C"), "at its last row, once the watermark has passed it"),
        (clause("A B+"), "when a row breaks B+ at its end, or 5 minutes (WITHIN) have passed"),
        (clause("A B{2,4}"), "when a row breaks B{2,4} at its end"),
        (clause("A B+?"), "at its last row, once the watermark"),
        (clause("A B+ C"), "at its last row, or, where that row could lead to a preferred match"),
        (clause("A (B C | C)"), "when a row breaks a preferred alternative"),
        (
            clause("A B $"),
            "when the partition can have no further row in its window: 5 minutes (WITHIN) have passed",
        ),
        (clause("A B", "B AS price < NEXT(price, 2)"), "2 rows later, because of NEXT"),
        (
            clause("A B", within="WITHIN INTERVAL '5' MINUTE EMIT TIMEOUTS"),
            "a partial match becomes a timeout when its window has passed",
        ),
    ],
)
def test_when_a_match_is_final(query: str, final: str) -> None:
    assert final in facts(query)["final"]


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("A", False), ("A B", False), ("A B*", True), ("A+ B", False), ("A B? C?", True), ("A B{2}", False),
        ("A (B | C)", False), ("A (B C | C)", True), ("A (B | C D)", False), ("(A B*)?? C", False),
        ("PERMUTE(A, B)", False), ("PERMUTE(A, B+)", True), ("A {- B+ -}", True), ("A B*?", False),
        ("(A B+){2}", True),
    ],
)  # fmt: skip
def test_a_tail_that_prefers_further_rows(text: str, is_open: bool) -> None:
    assert (find_open_tail(pattern(text)) is not None) is is_open


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("A", 1, 1),
        ("A B?", 1, 2),
        ("A{2,3} B+", 3, float("inf")),
        ("A | B C", 1, 2),
        ("PERMUTE(A, B C)", 3, 3),
    ],
)
def test_how_many_rows_a_pattern_takes(text: str, least: float, most: float) -> None:
    assert count_rows(pattern(text)) == (least, most)


# ---- the state


@pytest.mark.parametrize(
    ("query", "bound"),
    [
        (
            "PATTERN SEQ(A a, B b) WITHIN 10 minutes",
            "the events of the last 10 minutes before the watermark, of all keys",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 minutes",
            "the events of the last 10 minutes before the watermark, by id",
        ),
        (
            "PATTERN SEQ(A a, NOT B b) WHERE [id] WITHIN 10 minutes",
            "the last 20 minutes before the watermark, by id",
        ),
        ("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 100 EVENTS", "the last 100 EVENTS of each id"),
        ("PATTERN SEQ(A a, B b)", "without bound"),
        (clause("A B+"), "the rows of the last 5 minutes before the watermark, by id"),
    ],
)
def test_how_far_the_state_grows(query: str, bound: str) -> None:
    assert bound in facts(query)["state"]


@pytest.mark.parametrize(
    ("query", "rebuilt"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 10 minutes", "from the journal"),
        ("PATTERN SEQ(A a, B b) WITHIN 100 EVENTS", "not after an upgrade"),
        ("PATTERN SEQ(A a, B b) WITHIN 10 minutes OUTPUT NON_OVERLAPPING", "from the journal"),
        (clause("A B+"), "from its rows"),
    ],
)
def test_whether_it_is_rebuilt_after_an_upgrade(query: str, rebuilt: str) -> None:
    assert facts(query)["rebuilt"].startswith(rebuilt)


@pytest.mark.parametrize(
    ("query", "silent"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 10 minutes", False),
        ("PATTERN SEQ(A a, NOT B b, C c) WITHIN 10 minutes", False),
        ("PATTERN SEQ(A a, NOT B b) WITHIN 10 minutes", True),
        ("PATTERN SEQ(A a, B b) WHERE lower(coalesce(a.kind, b.kind)) = 'x' WITHIN 10 minutes", True),
        (clause("A B C"), False),
        (clause("A B+"), True),
        (clause("A B", within="WITHIN INTERVAL '5' MINUTE EMIT TIMEOUTS"), True),
    ],
)
def test_idle_is_named_where_only_time_completes_an_answer(query: str, silent: bool) -> None:
    assert ("idle=" in facts(query).get("silence", "")) is silent


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "PATTERN SEQ(A a, B b) WITHIN 1 minute RETURN COUNT(*)",
            "totals IN ALL are final at the end of the stream",
        ),
        (
            "PATTERN SEQ(A a, NOT B b) WITHIN 100 EVENTS LIMIT 1 PER EVENT",
            "late by a window of time, and its window counts events",
        ),
        (clause("A B $", within=""), "asks for the end of a partition"),
    ],
)
def test_a_query_that_cannot_run_has_the_reason(query: str, reason: str) -> None:
    told = facts(query)
    assert list(told) == ["refused"]
    assert reason in told["refused"]


# ---- the stream


def test_the_flow_is_explained_once() -> None:
    text = explain_stream(
        queries(
            "PATTERN SEQ(A a, B b) WHERE [id] AND a.price > 5 WITHIN 10 minutes INTO keyed",
            "PATTERN SEQ(A a, C c) WITHIN 1 minute INTO alone",
        ),
        SETTING,
    )
    assert "query keyed\n  PATTERN SEQ(A a, B b)" in text
    assert text.count("\nengine ") == 2
    assert text.count("\ndelay ") == 1
    assert "delay      5 seconds: an event that comes later is late" in text
    assert "buckets    alone: one: the events have no key that all variables share" in text
    assert "           keyed: 4, the keys (id) are divided among them" in text
    assert "hands over events where" in text
    assert "one in 16 of the others, to tell the time" in text


def test_a_stream_without_a_delay_says_what_to_give() -> None:
    setting = StreamSetting(Kind.INSTANT, None, 4, 16)
    text = explain_stream(queries("PATTERN SEQ(A a, B b) USE strict_contiguity WITHIN 10 minutes"), setting)
    assert "delay      not set: give delay= to watch" in text
    assert "hands over all events (" in text


def test_numbers_as_times_have_no_unit() -> None:
    columns = pa.schema({"t": pa.int64(), "kind": pa.string()})
    found = bind_queries(
        "PATTERN SEQ(A a, NOT B b) WITHIN 1000", columns, Roles(time="t", type="kind"),
        clause_binder(columns, "standard", Options()), arrival=True,
    )  # fmt: skip
    told = explain_query(found.queries[0], StreamSetting(Kind.INT, {"a": 5, "b": 7}, 1, 16))
    assert "window of 1,000 has passed" in told["final"]
    assert "the last 2,000 before the watermark" in told["state"]
    text = explain_stream(found.queries, StreamSetting(Kind.INT, {"a": 5, "b": 7}, 1, 16))
    assert "delay      a: 5\n           b: 7" in text


def test_a_query_over_matches_shows_both() -> None:
    inner = "PATTERN SEQ(A a, B b) WITHIN 10 minutes INTO pairs"
    text = explain_stream(
        queries(f"{inner}; PATTERN SEQ(pairs p, pairs q) FROM pairs WITHIN 1 hour"), SETTING
    )
    assert text.index("SEQ(A a, B b)") < text.index("SEQ(pairs p, pairs q)")
    assert "; then " in text


def test_a_query_over_late_matches_says_that_they_are_late() -> None:
    inner = "PATTERN SEQ(A a, NOT B b) WITHIN 10 minutes OUTPUT NON_OVERLAPPING INTO alone"
    told = facts(f"{inner}; PATTERN SEQ(alone p, alone q) FROM alone WITHIN 1 hour")
    assert "; its inner query is late by one window, because only the reference engine" in told["final"]
    assert "the last 20 minutes before the watermark" in told["state"]
