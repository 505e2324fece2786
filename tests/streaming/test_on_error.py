"""Values of RETURN and MEASURES that cannot be computed on a stream: an error, or null and counted (S4.6)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.errors import BindError, DataError
from cerise.kinds import INT64_MAX
from cerise.streaming.reports.figures import StreamFigures

COLUMNS = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("x", pa.int64()), ("s", pa.string())])
PAIRS = "PATTERN SEQ(A a, B b) WITHIN 10"
FAULTS = {  # an expression, and its value for the second of two pairs
    "a.x / b.x": None,
    "a.x + b.x * b.x": None,
    "CAST(a.s AS bigint)": None,
    "coalesce(a.x / b.x, 7.5)": 7.5,  # the smallest expression is null, and null rules carry on
}
VALUES = {  # x of A, x of B and s of A of the pair at fault
    "a.x / b.x": (1, 0, "1"),
    "a.x + b.x * b.x": (1, INT64_MAX, "1"),
    "CAST(a.s AS bigint)": (1, 1, "one"),
    "coalesce(a.x / b.x, 7.5)": (1, 0, "1"),
}


def table_of(x: int, y: int, s: str, *, start: int = 0) -> pa.Table:
    """A pair that can be computed, a pair at fault, and an event that makes both final."""
    rows = [(0, "A", 4, "4"), (1, "B", 2, ""), (20, "A", x, s), (21, "B", y, ""), (40, "C", 0, "")]
    return pa.Table.from_pylist(
        [dict(zip(COLUMNS.names, (start + t, *rest), strict=True)) for t, *rest in rows], COLUMNS
    )


def watch(query: Any, **more: Any) -> cerise.Watcher:
    roles = {} if "MATCH_RECOGNIZE" in str(query) else {"time": "t", "type": "kind"}
    return cerise.Watcher(query, COLUMNS, delay=0, **roles, **more)


def clause(measure: str, rows: str = "") -> str:
    return f"""SELECT * FROM e MATCH_RECOGNIZE (
        ORDER BY t MEASURES {measure} AS r {rows} PATTERN (A B) WITHIN 10
        DEFINE A AS kind = 'A', B AS kind = 'B')"""


@pytest.mark.parametrize("limits", [Limits(), Limits.all(1)], ids=["default", "compiled"])
@pytest.mark.parametrize("expr", FAULTS)
@pytest.mark.parametrize("sql", [False, True])
def test_a_value_that_cannot_be_computed(expr: str, sql: bool, limits: Limits) -> None:
    query = clause(expr) if sql else f"{PAIRS} RETURN {expr} AS r"
    options, table = Options(limits=limits), table_of(*VALUES[expr])
    with pytest.raises(DataError, match=r"RETURN|MEASURES"):
        watch(query, options=options).feed(table)
    watcher = watch(query, options=options, on_error="null")
    good, bad = watcher.feed(table)["r"].to_pylist()
    assert good is not None
    assert bad == FAULTS[expr]
    assert watcher.figures["nulls"] == {"1": 1}


def test_the_other_columns_of_the_match_and_the_matches_are_those_of_the_error_free_query() -> None:
    table = table_of(1, 0, "1")
    watcher = watch(f"{PAIRS} RETURN a.x / b.x AS r, a.x AS x", on_error="null")
    plain = cerise.find(table, f"{PAIRS} RETURN a.x AS x", time="t", type="kind")
    assert watcher.feed(table).select(plain.column_names) == plain


@pytest.mark.parametrize("rows", ["", "ALL ROWS PER MATCH"])
def test_a_sum_that_is_too_large(rows: str) -> None:
    query, table = clause("sum(x)", rows), table_of(INT64_MAX, 5, "")
    with pytest.raises(DataError, match="does not fit into 64 bits"):
        watch(query).feed(table)
    watcher = watch(query, on_error="null")
    found = watcher.feed(table)["r"].to_pylist()
    assert found == ([4, 6, INT64_MAX, None] if rows else [6, None])
    assert watcher.figures["nulls"] == {"1": 1}


def test_totals_leave_out_the_value() -> None:
    query = f"{PAIRS} SLIDE 100 RETURN COUNT(*) AS n, SUM(a.x / b.x) AS r PER WINDOW".replace("10", "100", 1)
    table = pa.concat_tables([table_of(1, 0, "1"), table_of(1, 1, "1", start=100)])
    with pytest.raises(DataError, match="division by zero in RETURN"):
        watch(query).feed(table)
    watcher = watch(query, on_error="null")
    (row,) = watcher.feed(table).to_pylist()
    assert (row["n"], row["r"]) == (2, 2.0)
    assert watcher.figures["nulls"] == {"1": 1}


def test_the_count_is_kept_by_query_in_the_state_and_shown() -> None:
    queries = {"ratio": f"{PAIRS} RETURN a.x / b.x AS r", "plain": f"{PAIRS} RETURN a.x AS x"}
    first, watcher = table_of(1, 0, "1"), watch(queries, on_error="null")
    watcher.feed(first)
    again = watch(queries, on_error="null")
    again.load(watcher.save())
    again.feed(table_of(1, 0, "1", start=100))
    assert again.figures["nulls"] == {"ratio": 2}
    figures = StreamFigures([again.figures], 0)
    assert figures.figures["nulls"] == {"ratio": 2}
    assert "nulls      2 values of query ratio could not be computed" in [*figures.lines()]
    assert not any(line.startswith("nulls") for line in StreamFigures([watch(queries).figures], 0).lines())


def test_a_repeated_step_counts_alike() -> None:
    query = f"{PAIRS} RETURN a.x / b.x AS r"
    state = watch(query, on_error="null").save()
    states = []
    for _ in range(2):
        watcher = watch(query, on_error="null")
        watcher.load(state)
        watcher.feed(table_of(1, 0, "1"))
        states.append(watcher.save())
    assert states[0] == states[1]


def test_queries_that_come_while_the_stream_runs() -> None:
    watcher = watch({}, changing=True, on_error="null")
    watcher.add("ratio", f"{PAIRS} RETURN a.x / b.x AS r")
    assert watcher.feed(table_of(1, 0, "1"))["returned"].to_pylist() == ['{"r": 2.0}', '{"r": null}']
    assert watcher.figures["nulls"] == {"ratio": 1}


def test_an_unknown_manner_is_refused() -> None:
    with pytest.raises(BindError, match="on_error is 'ignore'") as caught:
        watch(PAIRS, on_error="ignore")
    assert caught.value.hint
