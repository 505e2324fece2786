"""What an index is asked of the predicates on one event: the part that it can judge exactly."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cerise.events import Schema
from cerise.kinds import Kind
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.plan.pushdown import Comparison, Either, Test, index_tests, needed

SCHEMA = Schema(
    pa.schema(
        [("t", pa.int64()), ("x", pa.int64()), ("y", pa.float64()), ("at", pa.timestamp("us")),
         ("zoned", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("for", pa.duration("us"))]
    ),
    "t",
)  # fmt: skip
DAY = 86_400_000_000
NO_X = Comparison(("x",), Kind.INT, "is null", ())


def asked(predicate: str) -> tuple[Test, ...]:
    """Return the tests of a predicate on a variable a."""
    bound = bind(parse(f"PATTERN SEQ(a, b) WHERE {predicate} WITHIN 5"), SCHEMA)
    return index_tests(bound.branches[0].filters["a"])


def one(name: str, kind: Kind, op: str, *values: float) -> Comparison:
    return Comparison((name,), kind, op, values)


@pytest.mark.parametrize(
    ("predicate", "tests"),
    [
        ("a.x IS NULL", (one("x", Kind.INT, "is null"),)),
        ("a.at IS NOT NULL", (one("at", Kind.LOCAL, "is not null"),)),
        ("a.at >= TIMESTAMP '1970-01-02 00:00:00'", (one("at", Kind.LOCAL, ">=", DAY),)),
        ("TIMESTAMP '1970-01-02 00:00:00Z' > a.zoned", (one("zoned", Kind.INSTANT, "<", DAY),)),
        ("a.day = DATE '1970-01-03'", (one("day", Kind.DATE, "=", 2 * DAY),)),
        ("a.x < 3 AND a.y > 2", (one("x", Kind.INT, "<", 3), one("y", Kind.FLOAT, ">", 2.0))),
        (
            "(a.x < 3 OR a.x > 9 OR a.x IS NULL)",
            (Either(("x",), (one("x", Kind.INT, "<", 3), one("x", Kind.INT, ">", 9), NO_X)),),
        ),
        ("(a.x < 3 OR a.y > 9)", ()),
        ("(a.x < 3 OR a.x + 1 > 9)", ()),
        ("NOT (a.x < 3)", ()),
        ("a.for > 3 seconds", ()),
    ],
)  # fmt: skip
def test_what_an_index_judges(predicate: str, tests: tuple[Test, ...]) -> None:
    assert asked(predicate) == tests


def test_what_only_an_index_judges_is_not_asked_of_others() -> None:
    query = "PATTERN SEQ(a, b) WHERE a.x IS NULL AND b.at > TIMESTAMP '2024-01-01 00:00:00' WITHIN 5"
    assert needed([bind(parse(query), SCHEMA)]) is None
