"""What operators, functions, aggregates and casts compute at the borders (S4.3, S4.5, S4.6)."""

from __future__ import annotations

import math
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cerise
from cerise import dsl
from cerise.events import Schema
from cerise.kinds import INT64_MAX, INT64_MIN, Kind
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.values import AGGREGATES, Fault, cast, greatest, least, like
from tests.support.oracle.brute_values import like as tried_like

NAN, INF = math.nan, math.inf
BIG = 2**53
COLUMNS = pa.schema(
    [("t", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("f", pa.float64()), ("g", pa.float64()),
     ("s", pa.string()), ("flag", pa.bool_()), ("at", pa.timestamp("us"))]
)  # fmt: skip


def value(text: str, *, faults: list[Fault] | None = None, **event: Any) -> Any:
    """The value of an expression on one event `a`; attributes that are not given are null."""
    query = parse(f"PATTERN a RETURN {text} AS r")
    (column,) = [each for each in bind(query, Schema(COLUMNS, "t")).columns if each.name == "r"]
    seen = [] if faults is None else faults
    function = compile_expr(column.fill, seen.append)  # type: ignore[arg-type]
    return function({(name,): [event.get(name)] for name in COLUMNS.names}, {"a": (0,)}, {})


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    signs = (
        math.copysign(1, found) == math.copysign(1, expected)
        if isinstance(expected, float) and found == 0
        else True
    )
    return type(found) is type(expected) and found == expected and signs


NULL = [
    ("a.x + a.y", {"x": INT64_MAX, "y": 1}),
    ("a.x - a.y", {"x": INT64_MIN, "y": 1}),
    ("a.x * a.y", {"x": 2**32, "y": 2**31}),
    ("-a.x + 0", {"x": INT64_MIN}),
    ("abs(a.x)", {"x": INT64_MIN}),
    ("a.x / a.y", {"x": 1, "y": 0}),
    ("a.x / a.f", {"x": 1, "f": -0.0}),
    ("a.f / a.g", {"f": NAN, "g": 0.0}),
    ("a.x % a.y", {"x": 1, "y": 0}),
    ("a.f % a.g", {"f": 1.0, "g": 0.0}),
    ("ceil(a.f)", {"f": INF}),
    ("floor(a.f)", {"f": NAN}),
    ("ceil(a.f)", {"f": 2.0**63}),
    ("CAST(a.f AS BIGINT)", {"f": NAN}),
    ("CAST(a.f AS BIGINT)", {"f": 2.0**63}),
    ("CAST(a.s AS BIGINT)", {"s": "12x"}),
    ("CAST(a.s AS BIGINT)", {"s": "1.5"}),
    ("CAST(a.s AS BIGINT)", {"s": "1_000"}),
    ("CAST(a.s AS BIGINT)", {"s": ""}),
    ("CAST(a.s AS BIGINT)", {"s": "9223372036854775808"}),
    ("CAST(a.s AS DOUBLE)", {"s": "1_0.5"}),
    ("CAST(a.s AS DOUBLE)", {"s": "one"}),
]


@pytest.mark.parametrize(("text", "event"), NULL)
def test_what_cannot_be_computed_is_null_and_counted(text: str, event: dict[str, Any]) -> None:
    faults: list[Fault] = []
    assert value(text, faults=faults, **event) is None
    assert len(faults) == 1


VALUES: list[tuple[str, dict[str, Any], Any]] = [
    # integers are exact to the border
    ("a.x + a.y", {"x": INT64_MAX, "y": 0}, INT64_MAX),
    ("a.x + a.y", {"x": INT64_MAX, "y": INT64_MIN}, -1),
    ("a.x - a.y", {"x": INT64_MIN + 1, "y": 1}, INT64_MIN),
    ("a.x * a.y", {"x": INT64_MIN // 2, "y": 2}, INT64_MIN),
    ("-a.x + 0", {"x": INT64_MAX}, -INT64_MAX),
    ("a.x = a.y", {"x": BIG, "y": BIG + 1}, False),
    ("a.x < a.y", {"x": BIG, "y": BIG + 1}, True),
    # beside a double they are doubles
    ("a.x = a.f", {"x": BIG + 1, "f": float(BIG)}, True),
    ("a.x > a.f", {"x": INT64_MAX, "f": 2.0**63}, False),
    ("a.x + a.f", {"x": BIG + 1, "f": 0.0}, float(BIG)),
    # division
    ("a.x / a.y", {"x": 7, "y": 2}, 3.5),
    ("a.x / a.y", {"x": 6, "y": 2}, 3.0),
    ("a.x / a.y", {"x": INT64_MIN, "y": -1}, 2.0**63),
    ("a.f / a.g", {"f": 1.0, "g": INF}, 0.0),
    ("a.f * a.g", {"f": 1e300, "g": 1e300}, INF),
    ("a.f - a.g", {"f": INF, "g": INF}, NAN),
    # a remainder has the sign of the left side
    ("a.x % a.y", {"x": 7, "y": 3}, 1),
    ("a.x % a.y", {"x": -7, "y": 3}, -1),
    ("a.x % a.y", {"x": 7, "y": -3}, 1),
    ("a.x % a.y", {"x": -7, "y": -3}, -1),
    ("a.x % a.y", {"x": INT64_MIN, "y": -1}, 0),
    ("a.x % a.y", {"x": INT64_MIN, "y": INT64_MAX}, -1),
    ("a.f % a.g", {"f": -7.5, "g": 2.0}, -1.5),
    ("a.f % a.g", {"f": 5.0, "g": INF}, 5.0),
    ("a.f % a.g", {"f": INF, "g": 2.0}, NAN),
    ("a.x % a.f", {"x": 7, "f": 2.5}, 2.0),
    # NaN equals itself and is above all else; the zeros are equal
    ("a.f = a.g", {"f": NAN, "g": NAN}, True),
    ("a.f != a.g", {"f": NAN, "g": NAN}, False),
    ("a.f > a.g", {"f": NAN, "g": INF}, True),
    ("a.f >= a.g", {"f": NAN, "g": NAN}, True),
    ("a.f < a.g", {"f": NAN, "g": 1.0}, False),
    ("a.f < a.g", {"f": INF, "g": NAN}, True),
    ("a.x < a.f", {"x": INT64_MAX, "f": NAN}, True),
    ("a.f = a.g", {"f": 0.0, "g": -0.0}, True),
    ("a.f < a.g", {"f": -0.0, "g": 0.0}, False),
    ("a.f IN (1.0, a.g)", {"f": NAN, "g": NAN}, True),
    # strings compare by code point
    ("a.s < 'é'", {"s": "z"}, True),
    ("a.s > '\uffff'", {"s": "🍒"}, True),
    ("a.s < 'a'", {"s": "Z"}, True),
    ("length(a.s)", {"s": "🍒é"}, 2),
    ("upper(a.s)", {"s": "straße"}, "STRASSE"),
    # null
    ("a.x = a.x", {}, None),
    ("a.x IS NULL", {}, True),
    ("NOT (a.x = 1)", {}, None),
    ("a.x = 1 OR a.flag", {"flag": True}, True),
    ("a.flag OR a.x = 1", {"flag": False}, None),
    ("a.x = 1 AND a.flag", {"flag": False}, False),
    ("a.flag AND a.x = 1", {"flag": True}, None),
    ("a.x IN (1, NULL)", {"x": 1}, True),
    ("a.x IN (1, NULL)", {"x": 2}, None),
    ("a.x NOT IN (1, NULL)", {"x": 2}, None),
    ("a.x IN (1, 2)", {}, None),
    ("a.x BETWEEN 1 AND a.y", {"x": 0}, False),
    ("a.s LIKE '%'", {}, None),
    ("a.x / a.y > 1 OR a.x = 4", {"x": 4, "y": 0}, True),
    ("(a.x / a.y) IS NULL", {"x": 4, "y": 0}, True),
    # functions
    ("least(a.x, a.y)", {"x": 3}, 3),
    ("greatest(a.x, a.y, 1)", {"y": -2}, 1),
    ("least(a.x, a.y)", {}, None),
    ("greatest(a.f, a.g)", {"f": NAN, "g": INF}, NAN),
    ("least(a.f, a.g)", {"f": NAN, "g": INF}, INF),
    ("least(a.x, a.f)", {"x": 1, "f": 2.5}, 1.0),
    ("coalesce(a.x, a.f)", {"x": 1}, 1.0),
    ("coalesce(a.x, a.y, 7)", {}, 7),
    ("abs(a.x)", {"x": INT64_MIN + 1}, INT64_MAX),
    ("abs(a.f)", {"f": -0.0}, 0.0),
    ("ceil(a.f)", {"f": -1.5}, -1),
    ("floor(a.f)", {"f": -1.5}, -2),
    ("floor(a.x)", {"x": BIG + 1}, BIG + 1),
    ("sqrt(a.f)", {"f": -1.0}, NAN),
    ("ln(a.f)", {"f": 0.0}, None),
    ("exp(a.f)", {"f": 1000.0}, INF),
    ("pow(a.f, a.g)", {"f": -10.0, "g": 309.0}, -INF),
    ("pow(a.f, a.g)", {"f": -8.0, "g": 0.5}, NAN),
    # casts
    ("CAST(a.f AS BIGINT)", {"f": -1.9}, -1),
    ("CAST(a.f AS BIGINT)", {"f": -(2.0**63)}, INT64_MIN),
    ("CAST(a.s AS BIGINT)", {"s": "-12"}, -12),
    ("CAST(a.s AS DOUBLE)", {"s": "1e3"}, 1000.0),
    ("CAST(a.flag AS BIGINT)", {"flag": True}, 1),
    ("CAST(a.flag AS STRING)", {"flag": False}, "false"),
    ("CAST(a.x AS STRING)", {"x": BIG + 1}, "9007199254740993"),
    ("CAST(a.x AS DOUBLE)", {"x": BIG + 1}, float(BIG)),
    # moments and durations are exact to the microsecond
    ("a.at - a.at", {"at": 1}, 0),
    ("a.at + 1 second > TIMESTAMP '1970-01-01 00:00:01'", {"at": 1}, True),
    ("a.at = TIMESTAMP '1970-01-01 00:00:00.000001'", {"at": 1}, True),
    ("a.at > DATE '1970-01-01'", {"at": 1}, True),
    ("(a.at - DATE '1970-01-01') / 2 seconds", {"at": 1_000_000}, 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("text", "event", "expected"), VALUES)
def test_values(text: str, event: dict[str, Any], expected: Any) -> None:
    faults: list[Fault] = []
    found = value(text, faults=faults, **event)
    assert same(found, expected) if expected is not None else found is None, found


AGGREGATED: list[tuple[str, list[Any], Any]] = [
    ("sum", [], None),
    ("sum", [INT64_MAX, INT64_MAX, -INT64_MAX], INT64_MAX),  # exact, whatever the way there
    ("sum", [BIG, 1], BIG + 1),
    ("sum", [0.1, 0.2, 0.3], 0.1 + 0.2 + 0.3),
    ("sum", [1.0, NAN], NAN),
    ("avg", [], None),
    ("avg", [1, 2], 1.5),
    ("avg", [INT64_MAX, INT64_MAX], 2.0**63),
    ("min", [3, 1, 2], 1),
    ("max", [1.0, NAN, INF], NAN),
    ("min", [NAN, INF], INF),
    ("min", ["b", "a"], "a"),
    ("max", [], None),
    ("count", [], 0),
    ("count", [0, 0], 2),
    ("stddev", [], None),
    ("stddev", [5], None),
    ("stddev", [5, 5], 0.0),
    ("stddev", [1, 2, 3], 1.0),
    ("stddev", [2, 4], math.sqrt(2)),
    ("stddev", [1.0, INF], NAN),
]


@pytest.mark.parametrize(("function", "values", "expected"), AGGREGATED)
def test_aggregates(function: str, values: list[Any], expected: Any) -> None:
    found = AGGREGATES[function](values)
    assert same(found, expected) if expected is not None else found is None, found


def test_a_sum_that_does_not_fit_cannot_be_computed() -> None:
    with pytest.raises(Fault):
        AGGREGATES["sum"]([INT64_MAX, 1])


LIKES = [
    ("%", "", True), ("%", "a\nb", True), ("_", "", False), ("_", "🍒", True), ("__", "🍒", False),
    ("", "", True),
    ("", "a", False), ("a%", "a", True), ("a%", "ba", False), ("%a", "ba", True), ("a.c", "abc", False),
    ("a_c", "abc", True), ("\\%", "%", True), ("\\%", "a", False), ("\\_x", "_x", True),
    ("\\_x", "ax", False),
    ("\\\\%", "\\a", True), ("%\\%", "50%", True), ("%\\%", "50", False), ("A", "a", False),
    ("(a|b)*", "a", False),
    ("%b%b%", "abab", True), ("é%", "été", True),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text", "expected"), LIKES)
def test_like(pattern: str, text: str, expected: bool) -> None:
    assert like(pattern)(text) is expected


LIKE_SIGNS = ["a", "b", "%", "%", "_", "\\%", "\\_", "\\\\"]


@settings(max_examples=2000, deadline=None)
@given(st.lists(st.sampled_from(LIKE_SIGNS), max_size=8).map("".join), st.text("aab%_\\\n", max_size=8))
def test_like_agrees_with_one_that_tries_everything(pattern: str, text: str) -> None:
    assert like(pattern)(text) is tried_like(text, pattern)


SLOW_LIKES = [
    ("%a" * 10 + "b", "a" * 30), ("%a" * 30 + "b", "a" * 30), ("%a" * 30 + "%b", "a" * 100_000),
    ("%_" * 1000 + "b", "a" * 100_000), ("%" * 10_000 + "b", "a" * 100_000),
    ("%" + "a" * 500 + "b%", "a" * 100_000), ("%ab" * 2000 + "c", "ab" * 50_000),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text"), SLOW_LIKES, ids=range(len(SLOW_LIKES)))
def test_like_takes_no_more_than_pattern_times_text(pattern: str, text: str) -> None:
    started = time.process_time()
    assert not like(pattern)(text)
    assert like(pattern + "%")(text + text[:1] + "bc" + pattern.replace("%", ""))
    assert time.process_time() - started < 5


def test_least_and_greatest_skip_nulls_only() -> None:
    assert (least([None, 0, -1]), greatest([None, False]), least([None])) == (-1, False, None)
    assert same(greatest([NAN, None, 1.0]), NAN)


@pytest.mark.parametrize(("given", "kind"), [(True, Kind.BOOL), ("é", Kind.STRING), (INT64_MIN, Kind.INT)])
def test_a_cast_to_its_own_kind_changes_nothing(given: Any, kind: Kind) -> None:
    assert same(cast(given, kind), given)


@pytest.mark.parametrize("pattern", ["x\\", "\\a", "a\\b%"])
def test_a_stray_escape_in_like_is_refused(pattern: str) -> None:
    with pytest.raises(cerise.ParseError, match="stray"):
        cerise.parse(f"PATTERN a WHERE a.s LIKE '{pattern}'")


@pytest.mark.parametrize("text", ["١٢", "1_0", "１２", "0x1", "", " ", "1e", "--1"])
@pytest.mark.parametrize("kind", [Kind.INT, Kind.FLOAT])
def test_only_plain_digits_are_numbers(text: str, kind: Kind) -> None:
    with pytest.raises(Fault, match="is not a number"):
        cast(text, kind)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_text_has_no_word_for_is_a_cast(value: float) -> None:
    query = dsl.seq(dsl.var("a")).where(dsl.var("a").x <= value).query
    assert cerise.parse(str(cerise.parse(query))) == query
    events = pa.table({"t": [1], "x": [value]})
    assert len(cerise.find(events, query, time="t")) == 1
