"""What is shown parses to the same query, and so do all spellings of one thing, in text and in Python."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import HealthCheck, given, settings

from cerise.lang.builder import (
    Draft,
    all_of,
    any_of,
    avg,
    call,
    count,
    i,
    largest,
    many,
    maybe,
    no,
    param,
    seq,
    smallest,
    stddev,
    total,
    var,
)  # fmt: skip
from cerise.lang.sase import parse
from cerise.pattern.query import Query
from cerise.pattern.show import show
from tests.support.strategies.pairs import any_query
from tests.tiers import AT_LENGTH


@settings(
    max_examples=1500 if AT_LENGTH else 700, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(any_query())
def test_what_is_shown_parses_to_the_same_query(query: Query) -> None:
    assert parse(show(query)) == query


PATTERNS = [
    ("SEQ(A a, ~(B b), C c)", "SEQ(A a, NOT B b, C c)"),
    ("SEQ(A a, !(B b), C c)", "SEQ(A a, NOT B b, C c)"),
    ("SEQ(A a, !b, C c)", "SEQ(A a, NOT b, C c)"),
    ("SEQ(A a, ~b, C c)", "SEQ(A a, not b, C c)"),
    ("SEQ(A a, ¬b, C c)", "SEQ(A a, NOT b, C c)"),
    ("SEQ(Kleene(GOOG g), b)", "SEQ(GOOG+ g[], b)"),
    ("SEQ(KL(GOOG g), b)", "SEQ(GOOG+ g, b)"),
    ("SEQ(Kleene(b), c)", "SEQ(b+, c)"),
    ("SEQ(Stock+ a[], Stock b)", "SEQ(Stock a+, Stock b)"),
    ("SEQ(Stock+ a[], Stock b)", "SEQ(Stock a[]+, Stock b)"),
    ("SEQ(b{2}, c)", "SEQ(b{2,2}, c)"),
    ("SEQ(b{,3}, c)", "SEQ(b{0,3}, c)"),
    ("(STOCK+ a[], STOCK b)", "SEQ(STOCK+ a[], STOCK b)"),
    ("SEQ(MSFT, GOOG)", "SEQ(MSFT MSFT, GOOG GOOG)"),
    ('SEQ("MOTOR VEHICLE THEFT" m, b)', "SEQ(`MOTOR VEHICLE THEFT` m, b)"),
    ("seq(A a, and(B b, C c), or(D d, E e))", "SEQ(A a, AND(B b, C c), OR(D d, E e))"),
    ("SEQ(a, (b), c)", "SEQ(a, b, c)"),
    ("SEQ(a, (b, c)?)", "SEQ(a, SEQ(b, c)?)"),
]
PREDICATES = [
    ("FIRST(b.price) > 1", "b[1].price > 1"),
    ("LAST(b.price) > 1", "b[b.LEN].price > 1"),
    ("b[b.len].price > 1", "b[ b . LEN ].price > 1"),
    ("first(b.x) = last(b.x)", "FIRST(b.x) = LAST(b.x)"),
    ("b.x < next(b.x)", "b.x < NEXT(b.x)"),
    ("prev(b.x) < b.x", "PREV(b.x) < b.x"),
    ("b[i].x > b[ i - 1 ].x", "b[i].x > b[i-1].x"),
    ("b[i].x > avg(b[ ..i-1 ].x)", "b[i].x > AVG(b[..i-1].x)"),
    ("b[i].x > avg(b[i-1].x)", "b[i].x > avg(b[..i-1].x)"),
    ("sum(b.x) > 1", "SUM(b[].x) > 1"),
    ("count(b) > 1", "COUNT(b[]) > 1"),
    ("mean(b.x) > stdev(b.x)", "avg(b.x) > stddev(b.x)"),
    ("a.x > 80%*b.x", "a.x > 0.8 * b.x"),
    ("a.x > 80 % * b.x", "a.x > 0.8 * b.x"),
    ("a.x % 500 = 0", "(a.x) % (500) = 0"),
    ("326 <= v.open <= 334", "326 <= v.open AND v.open <= 334"),
    ("1 < a.x < b.x < 9", "1 < a.x AND a.x < b.x AND b.x < 9"),
    ("a.x BETWEEN 1 AND 2", "a.x >= 1 AND a.x <= 2"),
    ("a.x NOT BETWEEN 1 AND 2", "NOT (a.x >= 1 AND a.x <= 2)"),
    ("a.x NOT IN (1, 2)", "NOT a.x IN (1, 2)"),
    ("a.x IS NOT NULL", "NOT a.x IS NULL"),
    ("a.s NOT LIKE 'x%'", "NOT a.s LIKE 'x%'"),
    ("a.x = 1 and b.x = 2", "a.x == 1 ∧ b.x = 2"),
    ("a.x = 1 && b.x = 2", "a.x = 1 AND b.x = 2"),
    ("a.x = 1 or b.x = 2", "a.x = 1 ∨ b.x = 2"),
    ("a.x = 1 || b.x = 2", "a.x = 1 OR b.x = 2"),
    ("a.x <> 1", "a.x != 1"),
    ("a.x ≠ 1 AND a.x ≤ 2 AND a.x ≥ 0", "a.x != 1 AND a.x <= 2 AND a.x >= 0"),
    ("!(a.x = 1)", "NOT (a.x = 1)"),
    ('a."price" > 1', "a.price > 1"),
    ("a.x > -1", "a.x > - 1"),
    ("a.t > TIMESTAMP '2024-11-15T18:45:00Z'", "a.t > timestamp '2024-11-15 19:45:00+01:00'"),
    ("b.t - a.t < 90 s", "b.t - a.t < 1.5 minutes"),
    ("a.x > 1 -- why\n", "a.x /* so */ > 1"),
    ("cast(a.x as long) = 1", "CAST(a.x AS BIGINT) = 1"),
]
CLAUSES = [
    ("USE skip-till-next-match", ""),
    ("USING skip_till_any_match", "USE skip_till_any_match"),
    ("USE skip-till-any-match", "USE skip_till_any"),
    ("USE strict-contiguity", "USE STRICT_CONTIGUITY"),
    ("USE partition_contiguous", "USE partition_contiguity"),
    ("WHERE skip_till_any_match(a, b[]) { a.x = 1 }", "USE skip_till_any_match WHERE a.x = 1"),
    ("WHERE strict-contiguity { a.x = 1 AND [k] }", "USE strict_contiguity WHERE a.x = 1 AND [k]"),
    ("WITHIN 30 minutes SLIDE 2 minutes", "SLIDE 120 seconds WITHIN 0.5 hours"),
    ("WITHIN 1 day", "WITHIN 24 hours"),
    ("WITHIN 1000 events", "within 1000 EVENTS"),
    ("WITHIN 2 weeks", "WITHIN 14 days"),
    ("OUTPUT ALL", ""),
    ("OUTPUT non-overlapping", "OUTPUT NON_OVERLAPPING"),
    ("RETURN *", ""),
    ("RETURN count(*)", "RETURN COUNT(*)"),
    ("RETURN a.x", "RETURN a.x AS x"),
    ("RETURN Alert(a.x AS x, b.y)", "RETURN a.x AS x, b.y AS y INTO Alert"),
    ("PARTITION BY k, p.label", 'partition by "k", p."label"'),
]


@pytest.mark.parametrize(("one", "other"), PATTERNS)
def test_spellings_of_patterns(one: str, other: str) -> None:
    assert parse(f"PATTERN {one}") == parse(f"PATTERN {other}")


@pytest.mark.parametrize(("one", "other"), PREDICATES)
def test_spellings_of_predicates(one: str, other: str) -> None:
    assert parse(f"PATTERN x WHERE {one}") == parse(f"PATTERN x WHERE {other}")


@pytest.mark.parametrize(("one", "other"), CLAUSES)
def test_spellings_of_clauses(one: str, other: str) -> None:
    assert parse(f"PATTERN SEQ(a, b+) {one}") == parse(f"PATTERN SEQ(a, b+) {other}")


# ---- the same in Python

A, B, C = var("Stock", "a"), many(var("Stock", "b")), var("c")
ABC = "PATTERN SEQ(Stock a, Stock+ b[], c)"
BUILT: list[tuple[Draft, str]] = [
    (seq(A, B, C), ABC),
    (all_of(A, C), "PATTERN AND(Stock a, c)"),
    (any_of(A, seq(B, C)), "PATTERN OR(Stock a, SEQ(Stock+ b[], c))"),
    (seq(var("MSFT"), C), "PATTERN SEQ(MSFT, c)"),
    (seq(var("_"), var("名")), "PATTERN SEQ(_, 名)"),
    (seq(A, no(var("B", "n")), C), "PATTERN SEQ(Stock a, NOT B n, c)"),
    (seq(A, maybe(C)), "PATTERN SEQ(Stock a, c?)"),
    (seq(A, maybe(all_of(C, var("d")))), "PATTERN SEQ(Stock a, AND(c, d)?)"),
    (seq(many(C, 0), A), "PATTERN SEQ(c*, Stock a)"),
    (seq(many(C, 2, 5), A), "PATTERN SEQ(c{2,5}, Stock a)"),
    (seq(A, B).where(A.x < 5, B.y >= A.x), "PATTERN SEQ(Stock a, Stock+ b[]) WHERE a.x < 5 AND b.y >= a.x"),
    (seq(A, B).where((A.x < 5) & (A.y > 1)), "PATTERN SEQ(Stock a, Stock+ b[]) WHERE a.x < 5 AND a.y > 1"),
    (seq(A).where((A.x == 1) | ~(A.y != 2)), "PATTERN SEQ(Stock a) WHERE a.x = 1 OR NOT a.y != 2"),
    (
        seq(A).where(1 + A.x - 2 * A.y / 3 > -A.z % 4),
        "PATTERN SEQ(Stock a) WHERE 1 + a.x - 2 * a.y / 3 > -a.z % 4",
    ),
    (seq(B).where(B[i].x > B[i - 1].x), "PATTERN SEQ(Stock+ b[]) WHERE b[i].x > b[i-1].x"),
    (
        seq(B).where(B[1].x > B[-1].x, B[3].x > 0),
        "PATTERN SEQ(Stock+ b[]) WHERE b[1].x > b[b.LEN].x AND b[3].x > 0",
    ),
    (seq(B).where(B[i].x > avg(B[:i].x)), "PATTERN SEQ(Stock+ b[]) WHERE b[i].x > avg(b[..i-1].x)"),
    (
        seq(B).where(total(B.x) > 1, count(B) < 9),
        "PATTERN SEQ(Stock+ b[]) WHERE sum(b.x) > 1 AND count(b) < 9",
    ),
    (
        seq(B).where(smallest(B[:].x) < largest(B.x), stddev(B.x) > 0.5),
        "PATTERN SEQ(Stock+ b[]) WHERE min(b.x) < max(b.x) AND stddev(b.x) > 0.5",
    ),
    (
        seq(A).where(A.x.is_null(), ~A.y.is_null()),
        "PATTERN SEQ(Stock a) WHERE a.x IS NULL AND a.y IS NOT NULL",
    ),
    (seq(A).where(A.x.is_in([1, 2.5])), "PATTERN SEQ(Stock a) WHERE a.x IN (1, 2.5)"),
    (seq(A).where(A.x.between(1, 2)), "PATTERN SEQ(Stock a) WHERE a.x BETWEEN 1 AND 2"),
    (seq(A).where(A.s.like("x%")), "PATTERN SEQ(Stock a) WHERE a.s LIKE 'x%'"),
    (seq(A).where(A.payload.amount > 1), "PATTERN SEQ(Stock a) WHERE a.payload.amount > 1"),
    (seq(A).where(A["odd name"] == "it's"), """PATTERN SEQ(Stock a) WHERE a."odd name" = 'it''s'"""),
    (seq(A).where(A.x > param("low")), "PATTERN SEQ(Stock a) WHERE a.x > :low"),
    (seq(A).where(call("abs", A.x - 1) > 2), "PATTERN SEQ(Stock a) WHERE abs(a.x - 1) > 2"),
    (seq(A).where(A.t > dt.datetime(2024, 1, 2)), "PATTERN SEQ(Stock a) WHERE a.t > TIMESTAMP '2024-01-02'"),
    (seq(A).where(A.t > dt.date(2024, 1, 2)), "PATTERN SEQ(Stock a) WHERE a.t > DATE '2024-01-02'"),
    (
        seq(A).where(A.t > dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
        "PATTERN SEQ(Stock a) WHERE a.t > TIMESTAMP '2024-01-02 00:00Z'",
    ),
    (
        seq(A, C).where(C.t - A.t < dt.timedelta(minutes=5)),
        "PATTERN SEQ(Stock a, c) WHERE c.t - a.t < 5 minutes",
    ),
    (seq(A).where(A.flag == True), "PATTERN SEQ(Stock a) WHERE a.flag = TRUE"),  # noqa: E712
    (seq(A, C).same("k", ("p", "label")), "PATTERN SEQ(Stock a, c) WHERE [k] AND [p.label]"),
    (seq(A, C).partition_by("k", ("p", "label")), "PATTERN SEQ(Stock a, c) PARTITION BY k, p.label"),
    (seq(A, C).use("skip-till-any-match"), "PATTERN SEQ(Stock a, c) USE skip_till_any_match"),
    (seq(A, C).within("1 hour").slide("2 minutes"), "PATTERN SEQ(Stock a, c) WITHIN 1 hour SLIDE 2 minutes"),
    (seq(A, C).within(dt.timedelta(hours=1)), "PATTERN SEQ(Stock a, c) WITHIN 60 minutes"),
    (seq(A, C).within(10), "PATTERN SEQ(Stock a, c) WITHIN 10"),
    (seq(A, C).within("10 events"), "PATTERN SEQ(Stock a, c) WITHIN 10 EVENTS"),
    (
        seq(A, C).output("non_overlapping").limit(2),
        "PATTERN SEQ(Stock a, c) OUTPUT NON_OVERLAPPING LIMIT 2 PER EVENT",
    ),
    (seq(A, C).returns(x=A.x, y=C.x + 1), "PATTERN SEQ(Stock a, c) RETURN a.x AS x, c.x + 1 AS y"),
    (seq(A, C).count(), "PATTERN SEQ(Stock a, c) RETURN COUNT(*)"),
    (seq(C).reading(seq(A).into("Alert")), "PATTERN SEQ(Stock a) INTO Alert; PATTERN SEQ(c) FROM Alert"),
]


@pytest.mark.parametrize(("draft", "text"), BUILT, ids=[text for _, text in BUILT])
def test_python_and_text_give_the_same_query(draft: Draft, text: str) -> None:
    assert draft.query == parse(text)


@pytest.mark.parametrize("text", [text for _, text in BUILT])
def test_what_python_writes_is_shown_as_text(text: str) -> None:
    assert parse(show(parse(text))) == parse(text)
