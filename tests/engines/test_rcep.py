"""Recomputation: which queries it runs, what it says of them, how little it reads and keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Matches, Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import DEFAULT, Limits
from cerise.engines.match_ids import match_ids
from cerise.errors import DataError, UnsupportedError
from cerise.events import EventBatch, Schema
from cerise.kernels import jit
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Count

SCHEMA = Schema(
    pa.schema(
        [
            ("t", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64()),
            ("y", pa.float64()), ("s", pa.string()), ("flag", pa.bool_()),
        ]
    ),
    "t",
    "type",
)  # fmt: skip
ANY = "USE skip_till_any_match"
KLEENE = f"PATTERN SEQ(A a, B+ b[], C c) {ANY}"


def bound_of(query: str) -> Bound:
    return bind(parse(query), SCHEMA, {})


def start(bound: Bound, **limits: int) -> Any:
    """A matcher; what it has inside is looked at too."""
    return ENGINES["rcep"].start(bound, Options(limits=Limits(**limits)))


def events(types: str, begin: int = 0, **columns: Any) -> EventBatch:
    """One event for each letter, one after another in time; columns that are not given are null."""
    given = {"t": np.arange(begin, begin + len(types)), "type": list(types), **columns}
    nothing = [None] * len(types)
    arrays = [pa.array(given.get(field.name, nothing), field.type) for field in SCHEMA.columns]
    return EventBatch.of(pa.table(arrays, schema=SCHEMA.columns), SCHEMA)


def stream(seed: int, size: int) -> EventBatch:
    """Events with ties, nulls and NaN, of few keys and values."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 9, size) / 4
    y[rng.random(size) < 0.05] = np.nan
    columns = [
        np.cumsum(rng.choice([0, 1, 1, 2], size)),
        rng.choice(np.array(["A", "B", "C", "D"]), size),
        pa.array(rng.integers(0, 3, size), mask=rng.random(size) < 0.03),
        pa.array(rng.integers(0, 8, size), mask=rng.random(size) < 0.05),
        y,
        pa.array(rng.choice(np.array(["", "a", "b", "é", "日本"]), size), mask=rng.random(size) < 0.05),
        rng.random(size) < 0.5,
    ]
    return EventBatch.of(pa.table(columns, schema=SCHEMA.columns), SCHEMA)


def found(matches: Iterable[Matches], bound: Bound) -> Counter[int]:
    """The matches by name; where they are only counted, how many."""
    if isinstance(bound.query.returns, Count):
        return Counter({0: sum(map(len, matches))})
    return Counter(chain.from_iterable(match_ids(each, bound).to_pylist() for each in matches))


def answer(
    bound: Bound, batch: EventBatch, engine: str = "reference", limits: Limits = DEFAULT
) -> Counter[int]:
    matcher = ENGINES[engine].start(bound, Options(limits=limits))
    return found(chain(matcher.feed(batch), matcher.flush()), bound)


# ---- which queries


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("PATTERN SEQ(A a, B+ b[], C c)", "skip_till_next_match leaves few runs"),
        ("PATTERN SEQ(A a, B+ b[]) USE strict_contiguity", "strict_contiguity leaves few runs"),
        ("PATTERN SEQ(A a, B+ b[]) USE partition_contiguity WHERE [k]", "partition_contiguity leaves few"),
        (f"PATTERN SEQ(A a, B+ b[], ~C c) {ANY} WITHIN 9 EVENTS", "a NOT at the end of a window that counts"),
        (f"PATTERN AND(A a, B+ b[], ~C c) {ANY} WITHIN 9 EVENTS", "a NOT at the end of a window that counts"),
        (f"PATTERN AND(A a, B+ b[]) {ANY} LIMIT 2 PER EVENT", "matches of AND, OR and ? are recomputed in"),
        (f"PATTERN SEQ(A a, B? b) {ANY} OUTPUT NON_OVERLAPPING", "matches of AND, OR and ? are recomputed"),
        (f"PATTERN SEQ(A a, OR(B b, C+ c[])) {ANY} LIMIT 1 PER EVENT", "matches of AND, OR and ? are"),
        (f"PATTERN SEQ(A a, B+ b[], ~C c) {ANY} WITHIN 9 LIMIT 1 PER EVENT", "a NOT at their end leaves"),
        (f"{KLEENE} WHERE upper(greatest(a.s, c.s)) = 'U'", "computes text from several events"),
    ],
)  # fmt: skip
def test_it_says_what_it_cannot_run(query: str, reason: str) -> None:
    said = ENGINES["rcep"].why_not(bound_of(query))
    assert said is not None
    assert reason in said


@pytest.mark.parametrize(
    "query",
    [
        f"{KLEENE} LIMIT 2 PER EVENT",
        f"{KLEENE} OUTPUT NON_OVERLAPPING",
        f"PATTERN SEQ(A a, B b) {ANY}",
        f"PATTERN SEQ(A+ a[]) {ANY} WITHIN 3 EVENTS",
        f"PATTERN SEQ(~D d, A a, B+ b[]) {ANY} WITHIN 3 EVENTS",
        f"PATTERN SEQ(A a, B+ b[], ~C c) {ANY} WITHIN 9 SLIDE 2",
        f"PATTERN AND(A a, OR(B+ b[], C c), D? d) {ANY}",
        f"{KLEENE} WHERE 1 = 2",
    ],
)
def test_it_runs_what_it_does_not_refuse(query: str) -> None:
    bound, batch = bound_of(query), stream(1, 12)
    assert ENGINES["rcep"].why_not(bound) is None
    assert answer(bound, batch, "rcep") == answer(bound, batch)


def test_who_asks_for_it_in_vain_is_told_which_engines_can() -> None:
    with pytest.raises(UnsupportedError, match=r"'rcep' cannot run.*skip_till_next_match") as caught:
        cerise.find(
            stream(1, 9).table, "PATTERN SEQ(A a, B b)", time="t", type="type", options=Options(engine="rcep")
        )
    assert "nfa" in str(caught.value.hint)


# ---- what it says


def explained(query: str) -> dict[str, str]:
    return dict(ENGINES["rcep"].explain(bound_of(query)))


def test_explain_shows_the_query_tree_and_what_prunes_it() -> None:
    query = "a.x < b.x AND b.x < NEXT(b.x) AND c.x < FIRST(b.x) AND a.s = c.s AND c.y > 2 * LAST(b.y)"
    assert explained(f"{KLEENE} WHERE {query} WITHIN 30") == {
        "trigger": "an event that can be c: matches that end with it are joined then",
        "tree": "(a ⋈ b+) ⋈ c",
        "joins": "left-deep: about 6.1 partial matches per trigger if left-deep, 7.2 if right-deep",
        "pruned": "by the last event: b[1].x > c.x, a.s = c.s\n"
        "by the next event: b[i-1].x < b[i].x, b[1].x > c.x, 2 * b[b.LEN].y < c.y, a.x < b.x\n"
        "found by value: a.s = c.s\n"
        "found by order: a.x < b.x, b[i-1].x < b[i].x",
    }


def test_explain_says_nothing_of_what_is_not_there() -> None:
    assert set(explained(f"{KLEENE} WHERE sum(b.x) > a.x")) == {"trigger", "tree", "joins"}


def test_explain_names_all_variables_that_a_match_may_end_with() -> None:
    said = explained(f"PATTERN SEQ(A a, OR(B+ b[], C c)) {ANY}")
    assert said["trigger"].startswith("an event that can be b or c:")
    assert said["tree"] == "a ⋈ b+\na ⋈ c"
    assert explained(f"PATTERN AND(A a, B b, C+ c[]) {ANY}")["tree"] == "(a × b) × c+"


def test_explain_tells_a_conjunction_inside_a_sequence_from_the_sequence() -> None:
    assert explained(f"PATTERN SEQ(AND(A a, B+ b[]), C c) {ANY}")["tree"] == "(a × b+) ⋈ c"


def test_explain_says_that_a_query_waits() -> None:
    assert "window" in explained(f"PATTERN SEQ(A a, B+ b[], ~C c) {ANY} WITHIN 5")["waits"]
    assert "waits" not in explained(f"PATTERN SEQ(~C c, A a, B+ b[]) {ANY} WITHIN 5")


def test_explain_of_what_can_never_hold() -> None:
    said = explained(f"{KLEENE} WHERE 1 = 2")
    assert said["tree"] == "none: WHERE can never hold"
    assert said["trigger"] == "never"


# ---- how little it reads


def test_nothing_is_joined_before_an_event_that_can_end_a_match() -> None:
    matcher = start(bound_of(f"{KLEENE} WITHIN 1000"))
    assert list(matcher.feed(events("A" + 200 * "B"))) == []
    assert matcher.report.reread_events == 0
    assert matcher.report.most_runs == 0


def test_a_limit_ends_the_walk_though_there_are_a_billion_matches() -> None:
    bound = bound_of(f"{KLEENE} LIMIT 3 PER EVENT")
    matcher = start(bound)
    assert found(matcher.feed(events("A" + 30 * "B" + "CC")), bound).total() == 6
    assert 0 < matcher.report.reread_events < 1_000


def test_non_overlapping_ends_the_walk_too() -> None:
    bound = bound_of(f"{KLEENE} OUTPUT NON_OVERLAPPING")
    matcher = start(bound)
    assert found(matcher.feed(events("A" + 30 * "B" + "CC")), bound).total() == 1
    assert 0 < matcher.report.reread_events < 1_000


@pytest.mark.parametrize(
    "where",
    ["c.x > b.x", "c.x > FIRST(b.x)", "a.x > b.x", "b[i].x > b[i-1].x AND c.x > LAST(b.x)", "c.x = a.x"],
)
def test_what_cannot_be_part_of_a_match_is_not_joined(where: str) -> None:
    """No b is below a and c: without pruning all subsets of the b's would be tried."""
    bound, size = bound_of(f"{KLEENE} WHERE {where}"), 30
    matcher = start(bound)
    batch = events("A" + size * "B" + "C", x=[0, *range(size, 0, -1), -1])
    assert found(chain(matcher.feed(batch), matcher.flush()), bound).total() == 0
    assert matcher.report.reread_events < 5 * size


def test_what_it_counts() -> None:
    bound = bound_of(f"{KLEENE} WITHIN 10")
    matcher = start(bound)
    assert found(matcher.feed(events("ABBCX")), bound).total() == 3
    report = matcher.report
    assert (report.events, report.matches, report.matched_events) == (5, 3, 3 + 3 + 4)
    assert report.most_runs == 3  # events bound at a time before the last: a, b, b
    assert report.reread_events >= 3


def uncomputable(where: str, size: int) -> int:
    """How many values the report says could not be computed, of events that come some at a time."""
    batch, matcher = events("ABABC", x=[0, 0, 0, 0, 1]), start(bound_of(f"{KLEENE} WHERE {where} WITHIN 100"))
    for begin in range(0, 5, size):
        list(matcher.feed(batch.slice(begin, begin + size)))
    return int(matcher.report.uncomputable)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_what_cannot_be_computed_is_counted(size: int) -> None:
    """A filter is judged once for each event, in whatever batch it comes (S4.6)."""
    assert uncomputable("1 / a.x > 0", size) == 2
    assert uncomputable("b.x / a.x > 0 OR a.x = 0", size) > 0


@pytest.mark.parametrize("where", ["1 / a.x < b.x", "c.x > 1 / a.x"])
def test_what_prunes_and_cannot_be_computed_is_counted(where: str) -> None:
    assert uncomputable(where, 5) > 0


@pytest.mark.skipif(not jit.COMPILED, reason="millions of events are tried")
@pytest.mark.parametrize("counted", [False, True])
def test_a_long_walk_lets_the_caller_have_a_say(counted: bool) -> None:
    """Of 2^23 subsets few pass; what was found is yielded from time to time, and the caller may stop."""
    bound = bound_of(f"{KLEENE} WHERE sum(b.x) = 22" + counted * " RETURN COUNT(*)")
    batch = events("A" + 23 * "B" + "C", x=[1] * 25)
    sizes = list(map(len, start(bound).feed(batch)))
    assert sum(sizes) == 23
    assert len(sizes) >= 2**23 // DEFAULT.tested_events
    stopped = start(bound)
    next(iter(stopped.feed(batch)))
    assert stopped.report.reread_events <= DEFAULT.tested_events


# ---- what it keeps


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (f"{KLEENE} WITHIN 20", "ABC"),
        (f"{KLEENE} WHERE b.x > 3 AND c.x < 2 WITHIN 20", "A"),
        (f"PATTERN SEQ(A a, ~(D d), B+ b[]) {ANY} WHERE d.x = a.x WITHIN 20", "ABD"),
    ],
)
def test_it_keeps_the_events_of_a_window_that_fit(query: str, kept: str) -> None:
    matcher = start(bound_of(query))
    for begin in range(0, 1_000, 50):
        for _ in matcher.feed(events("ABCDX" * 10, begin, x=[2] * 50)):
            pass
        last = begin + 49
        first = max(0, last - 20)
        assert len(matcher._window) == sum("ABCDX"[t % 5] in kept for t in range(first, last + 1))


def test_it_keeps_two_windows_where_a_not_looks_ahead() -> None:
    matcher = start(bound_of(f"PATTERN SEQ(A a, B+ b[], ~(C c)) {ANY} WITHIN 10"))
    for begin in range(0, 200, 50):
        for _ in matcher.feed(events("ABX" * 16 + "XX", begin)):
            pass
        types = "ABX" * 16 + "XX"
        assert len(matcher._window) == sum(types[t] in "AB" for t in range(49 - 20, 50))


def test_it_keeps_the_last_events_of_each_partition_where_a_window_counts() -> None:
    matcher = start(bound_of(f"{KLEENE} PARTITION BY k WITHIN 3 EVENTS"))
    for begin in range(0, 500, 50):
        for _ in matcher.feed(events("AB" * 25, begin, k=[i % 4 for i in range(50)])):
            pass
        assert len(matcher._window) <= 4 * 4


def test_without_a_window_it_keeps_all_that_fits() -> None:
    matcher = start(bound_of(KLEENE))
    for begin in range(0, 300, 50):
        for _ in matcher.feed(events("ABXXX" * 10, begin)):
            pass
    assert len(matcher._window) == 6 * 20


def test_events_that_go_back_in_time_are_refused() -> None:
    matcher = start(bound_of(KLEENE))
    list(matcher.feed(events("AB", begin=5)))
    with pytest.raises(DataError, match="back in time, from 6 to 0") as caught:
        list(matcher.feed(events("C")))
    assert caught.value.hint
