"""Which clauses without PARTITION BY are cut by time, and what their slices need."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cerise.lang.match_recognize import bind_rows, parse_alone
from cerise.pattern.row_pattern import BoundRows
from cerise.plan.row_needs import is_chained, row_halo
from cerise.plan.slicing import Halo

COLUMNS = pa.schema([("t", pa.int64()), ("x", pa.int64())])


def clause(
    pattern: str = "A B+", *, within: str = "WITHIN 5", measures: str = "A.t AS t", show: str = "",
    skip: str = "PAST LAST ROW", define: str = "B AS x > 1", order: str = "t",
) -> BoundRows:  # fmt: skip
    text = (
        f"SELECT * FROM e MATCH_RECOGNIZE (ORDER BY {order} MEASURES {measures} {show} "
        f"AFTER MATCH SKIP {skip} PATTERN ({pattern}) {within} DEFINE {define})"
    )
    return bind_rows(parse_alone(text), COLUMNS)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (clause(), Halo(after=5)),
        (clause(order="t, x DESC"), Halo(after=5)),
        (clause(order="t NULLS LAST"), Halo(after=5)),
        (clause(show="ALL ROWS PER MATCH SHOW EMPTY MATCHES", pattern="A* B*"), Halo(after=5)),
        (clause(within="WITHIN 5 EMIT TIMEOUTS"), Halo(after=5)),
        (clause(define="B AS x > PREV(x, 3)"), Halo(after=5, preceding=3)),
        (clause(define="B AS x > NEXT(x, 2)", measures="PREV(A.t) AS p"), Halo(0, 5, 2, 1)),
        (clause(measures="NEXT(LAST(B.x), 4) AS n"), Halo(after=5, events=4)),
        (clause(measures="MATCH_NUMBER() AS n"), Halo(after=5)),
        (clause(within=""), "without WITHIN"),
        (clause(pattern="^ A B"), "^ and $"),
        (clause(pattern="A (B | $)"), "^ and $"),
        (clause(show="ALL ROWS PER MATCH WITH UNMATCHED ROWS"), "UNMATCHED"),
        (clause(define="B AS x > MATCH_NUMBER()"), "MATCH_NUMBER"),
    ],
)
def test_what_slices_need(bound: BoundRows, expected: Halo | str) -> None:
    found = row_halo(bound)
    assert found == expected if isinstance(expected, Halo) else expected in str(found)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (clause(skip="TO NEXT ROW"), False),
        (clause(skip="TO NEXT ROW", measures="MATCH_NUMBER() AS n"), True),
        (clause(skip="TO NEXT ROW", measures="MATCH_STATUS() AS n"), False),
        (clause(), True),
        (clause(skip="TO LAST B"), True),
    ],
)
def test_which_matches_depend_on_those_before(bound: BoundRows, expected: bool) -> None:
    assert is_chained(bound) is expected
