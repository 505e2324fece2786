"""Rows that are only skipped over never reach the search, and the answer is the same (semantics.md §9)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.rows.table_search import explain
from cerise.lang.match_recognize import bind_rows, parse_alone
from cerise.pattern.row_pattern import BoundRows
from cerise.plan.router import router_of
from cerise.plan.row_needs import needed_rows, why_no_skip
from tests.support.cases import row_harness as running
from tests.support.cases.row_harness import run_reference

COLUMNS = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("kind", pa.string()), ("x", pa.int64())])
DEFINE = "DEFINE R AS kind = 'R', B AS kind = 'B' AND B.x >= R.x, M AS kind = 'M'"
SHORT = "DEFINE R AS kind = 'R', M AS kind = 'M'"


def clause(
    pattern: str = "R {-N*-} B {-N*-} M", *, measures: str = "R.t AS r, B.t AS b, M.t AS m", rest: str = "",
    show: str = "ONE ROW PER MATCH", skip: str = "PAST LAST ROW", define: str = DEFINE,
    within: str = "WITHIN 20", partition: str = "",
) -> BoundRows:  # fmt: skip
    text = (
        f"SELECT * FROM t MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES {measures} {show} "
        f"AFTER MATCH SKIP {skip} PATTERN ({pattern}) {within} {rest} {define})"
    )
    return bind_rows(parse_alone(text), COLUMNS)


def table(seed: int, rows: int = 60) -> pa.Table:
    rng = np.random.default_rng(seed)
    kinds = np.array(["R", "B", "M", "other", "more", None], object)
    return pa.table(
        {
            "k": rng.integers(0, 3, rows),
            "t": np.sort(rng.integers(0, rows, rows)),
            "kind": pa.array(kinds[rng.integers(0, len(kinds), rows)], pa.string()),
            "x": rng.integers(0, 5, rows),
        },
        COLUMNS,
    )


SKIPPING = [
    clause(),
    clause("R N*? B N*? M"),
    clause("R N* B N*? M", skip="TO NEXT ROW"),
    clause("R {-N*-} B {-N*-} M", show="ALL ROWS PER MATCH", measures="CLASSIFIER() AS c, R.x AS x"),
    clause("R N*? (B | M) N*? M", within=""),
    clause("R {-N*?-} B {-O*?-} M", partition="PARTITION BY k", skip="TO LAST B"),
    clause(
        "R N* B N* M",
        measures="FIRST(t) AS first, LAST(t) AS last, COUNT(B.*) AS n, MATCH_NUMBER() AS i",
        rest="SUBSET U = (R, M)",
    ),
]


@pytest.mark.parametrize("bound", SKIPPING, ids=range(len(SKIPPING)))
def test_leaving_rows_out_changes_nothing(bound: BoundRows) -> None:
    never, always = (Options(limits=Limits(filtered_rows=rows)) for rows in (10**9, 1))
    assert why_no_skip(bound) is None
    found = left_out = 0
    for seed in range(40):
        events = table(seed)
        whole = running.run_rows(bound, events, never)
        assert running.run_rows(bound, events, always).equals(whole)
        found += len(whole)
        wanted = needed_rows(bound)
        assert wanted is not None
        left_out += int((~router_of(wanted).mask(events)).sum())
    assert found > 20
    assert left_out > 40 * 10


def short(
    pattern: str, *, measures: str = "R.t AS r, M.t AS m", define: str = SHORT, **rest: str
) -> BoundRows:
    return clause(pattern, measures=measures, define=define, **rest)


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        (clause("R B {-N*-} M"), "does not skip"),
        (clause("R+ {-N*-} B {-N*-} M"), "does not skip"),
        (short("N* R N* M"), "does not skip"),
        (short("R N+ M"), "does not skip"),
        (short("^ R N* M"), "does not skip"),
        (short("R R* M"), "does not skip"),
        (short("R N* M", define=SHORT + ", N AS x < 9"), "has a condition"),
        (short("R N* M", show="ALL ROWS PER MATCH"), "are shown"),
        (short("R N* M", show="ALL ROWS PER MATCH WITH UNMATCHED ROWS"), "are shown"),
        (short("R N* M", within="WITHIN 5 EMIT TIMEOUTS"), "time-out"),
        (short("R N* M", skip="TO LAST N"), "goes on at"),
        (short("R N* M", skip="TO FIRST U", rest="SUBSET U = (N, M)"), "goes on at"),
        (short("R N* M", measures="COUNT(*) AS n"), "aggregate"),
        (short("R N* M", measures="SUM(N.x) AS n"), "aggregate"),
        (short("R N* M", measures="LAST(N.x) AS n"), "skipped over are asked for"),
        (short("R N* M", measures="PREV(M.x) AS n"), "are asked for"),
        (short("R N* M", measures="NEXT(x) AS n"), "are asked for"),
        (short("R N* M", measures="LAST(x, 1) AS n"), "are asked for"),
        (short("R N* M", measures="CLASSIFIER(N) AS n"), "skipped over are asked for"),
        (short("R N* M", define=SHORT + " AND MATCH_NUMBER() < 3"), "MATCH_NUMBER"),
        (short("R N* M", define=SHORT + " AND x > PREV(x)"), "are asked for"),
        (short("R N* M", define=SHORT + " AND COUNT(N.*) < 3"), "aggregate"),
    ],
)
def test_where_every_row_must_be_searched(bound: BoundRows, reason: str) -> None:
    assert reason in (why_no_skip(bound) or "")


def test_a_variable_that_any_row_can_be_keeps_all_rows() -> None:
    bound = short("R N* A N* M")
    assert why_no_skip(bound) is None
    assert needed_rows(bound) is None


# ---- partitions that lack what a match needs

PARTED = [
    clause("R B+ M", partition="PARTITION BY k"),
    clause("R B* M", partition="PARTITION BY k", show="ALL ROWS PER MATCH", measures="CLASSIFIER() AS c"),
    clause("R | B M", partition="PARTITION BY k", skip="TO NEXT ROW", within=""),
    clause("PERMUTE(R, B, M)", partition="PARTITION BY k", measures="MATCH_NUMBER() AS n"),
    clause("R N*? M", partition="PARTITION BY k", define=SHORT, measures="R.t AS r, M.t AS m"),
    clause(
        "R B* M", partition="PARTITION BY k", show="ALL ROWS PER MATCH WITH UNMATCHED ROWS",
        measures="CLASSIFIER() AS c",
    ),
    clause(
        "R B* M", partition="PARTITION BY k", within="WITHIN 5 EMIT TIMEOUTS",
        measures="MATCH_STATUS() AS s, R.t AS r",
    ),
]  # fmt: skip


def parted_table(seed: int, rows: int = 60) -> pa.Table:
    """Rows of a dozen partitions, of which some lack an R, a B or an M."""
    rng = np.random.default_rng(seed)
    columns = {"k": rng.integers(0, 12, rows), "t": np.arange(rows) // 2, "x": rng.integers(0, 3, rows)}
    return pa.table({**columns, "kind": np.array(["R", "B", "M"])[rng.integers(0, 3, rows)]}).select(
        COLUMNS.names
    )


@pytest.mark.parametrize("bound", PARTED, ids=range(len(PARTED)))
@pytest.mark.parametrize("threads", [1, 3])
def test_leaving_partitions_out_changes_nothing(bound: BoundRows, threads: int) -> None:
    options = Options("rows", threads=threads, limits=Limits(filtered_rows=1))
    found = 0
    for seed in range(30):
        events = parted_table(seed)
        expected = run_reference(bound, events)
        assert running.run_rows(bound, events, options).equals(expected)
        found += len(expected)
    assert found > 20


def test_what_partitions_need_is_said() -> None:
    assert explain(PARTED[0], Options())["searched"] == "partitions with rows that can be R, B, M"
    for bound in (PARTED[2], *PARTED[-2:], clause("R B+ M")):
        assert "searched" not in explain(bound, Options())
