"""MATCH_RECOGNIZE over streams: the answer of batch, each match at the first row or time that decides it.

CERISE_EXAMPLES=50000 asks for so many pairs of a clause and a table, of other clauses in every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.row_streams.open_partitions import RowPartitions
from cerise.engines.row_streams.row_stream import why_no_stream
from cerise.engines.row_streams.suspended import GrowingInput
from cerise.errors import CeriseError, DataError, PlanError, UnsupportedError
from cerise.events import RowBatch
from cerise.kernels.jit import COMPILED
from cerise.lang.match_recognize import bind_rows, parse_statement
from cerise.pattern.row_pattern import BoundRows
from cerise.run.question import Work
from cerise.run.row_search import RowClause
from tests.support.cases.row_harness import RowCase, difference, load_row_cases, result_of, run_reference
from tests.support.row_streams import Streamed, can_stream, check_steps, rows_of, run_stream
from tests.support.strategies.rows import Family, family_of
from tests.test_row_agreement import ASKED, TooLong, patience
from tests.tiers import mostly_nightly

CASES = [case for case in load_row_cases() if not case.on_spark_only and case.error is None]
GOES = tuple(range(4))
FAMILIES = max(25 if COMPILED else 4, ASKED // (12 * len(GOES)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_match_of_a_case_is_given_when_it_is_decided(case: RowCase) -> None:
    if not can_stream(case.bound(), case.input):
        pytest.skip("no stream")
    found = check_steps(case.bound(), case.input, 1)
    assert difference(case.expected, result_of(found)) == ""


def test_most_cases_can_be_streams() -> None:
    assert sum(can_stream(case.bound(), case.input) for case in CASES) > 0.8 * len(CASES)


# ---- random clauses and tables


def by_time(family: Family) -> Family:
    """The family with its rows ordered by time, so that it can be a stream."""
    sql = re.sub(r"\n  ORDER BY (?!t\b(?! DESC))[^\n]*", "\n  ORDER BY t", family.sql)
    sql = sql if "ORDER BY" in sql else re.sub(r"\n  MEASURES", "\n  ORDER BY t\n  MEASURES", sql, count=1)
    return replace(family, sql=sql)


def compare(family: Family) -> Iterator[str]:
    """Compare each table's stream with its batch, at sizes and limits that vary; yield what the pairs are."""
    bound = family.bound()
    for i, table in enumerate(family.tables):
        if not can_stream(bound, table):
            yield "refused"
            continue
        limits = Limits.all(i % 4) if i % 4 else Limits()
        how: dict[str, Any] = {"options": Options(limits=limits), "reload": i % 5 == 4}
        run = check_steps if i % 3 < 2 else run_stream
        try:
            with patience(2_000):
                yield compare_answers(family, table, lambda: run(bound, table, 1 + i % 3, **how))  # noqa: B023
        except TooLong:
            yield "too long"


def compare_answers(family: Family, table: pa.Table, run: Any) -> str:
    try:
        expected = rows_of(run_reference(family.bound(), table))
    except CeriseError as error:
        with pytest.raises(type(error)):
            run()
        return "errors"
    try:
        found = rows_of(run())
    except AssertionError as wrong:
        raise AssertionError(f"{family.shown(table)}\n{wrong}") from wrong
    assert found == expected, (
        f"{family.shown(table)}\n{found - expected} too much, {expected - found} missing"
    )
    return "matches" if expected else "nothing"


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0,)))
def test_streams_of_random_clauses_give_the_answer_of_batch(go: int) -> None:
    first = int(np.random.default_rng().integers(2**40)) if ASKED else 10_000_000 + go * 1_000_000
    seen = [each for number in range(first, first + FAMILIES) for each in compare(by_time(family_of(number)))]
    if COMPILED:
        assert seen.count("matches") > 0.4 * len(seen), {each: seen.count(each) for each in set(seen)}


# ---- single clauses

ROWS = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])


def clause(rest: str, *, partition: str = "PARTITION BY k", order: str = "ORDER BY t") -> BoundRows:
    measures = "MEASURES count(*) AS n, FIRST(t) AS f"
    if "MEASURES" in rest:
        measures = ""
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({partition} {order} {measures} {rest})"
    return bind_rows(parse_statement(sql, "standard").clauses[0], ROWS)


def rows(*given: tuple[str, int, int]) -> pa.Table:
    columns = list(zip(*given, strict=True)) or [[], [], []]
    return pa.table([pa.array(each) for each in columns], schema=ROWS)


def counts(stream: Streamed) -> list[int]:
    return [n for part in stream.parts for n in part.column("n").to_pylist()]


PAIR = "PATTERN (A B) WITHIN 5 DEFINE A AS x = 1, B AS x = 2"


def test_a_match_with_a_fixed_end_is_given_at_once() -> None:
    stream = Streamed(clause(PAIR))
    stream.feed(rows(("p", 1, 1), ("p", 2, 2)))
    assert counts(stream) == [2]
    assert stream.search.figures["open partitions"] == 0


def test_a_greedy_end_waits_for_the_window_strictly() -> None:
    stream = Streamed(clause("PATTERN (A B+) WITHIN 5 DEFINE A AS x = 1, B AS x = 2"))
    stream.feed(rows(("p", 1, 1), ("p", 2, 2)))
    stream.advance(6)
    assert counts(stream) == []
    stream.advance(7)
    assert counts(stream) == [2]
    assert stream.search.figures == {
        "open partitions": 0,
        "rows held": 0,
        "skips without a target": 0,
        "matches": 1,
    }


def test_a_time_out_needs_no_row_of_its_partition() -> None:
    stream = Streamed(clause("PATTERN (A Z*? B) WITHIN 5 EMIT TIMEOUTS DEFINE A AS x = 1, B AS x = 2"))
    stream.feed(rows(("p", 1, 1), ("q", 3, 1)))
    stream.advance(7)
    assert counts(stream) == [1]
    stream.advance(9)
    assert counts(stream) == [1, 1]


def test_the_end_of_a_partition_is_known_only_at_the_end_of_the_stream() -> None:
    stream = Streamed(clause("PATTERN (A $) WITHIN 5 DEFINE A AS x = 1"))
    stream.feed(rows(("p", 1, 1), ("q", 1, 1)))
    stream.advance(1_000)
    assert counts(stream) == []
    stream.feed(rows(("p", 2_000, 2)))
    assert len(stream.flush()) == 1


def test_time_touches_only_partitions_that_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Streamed(clause(PAIR))
    stream.feed(rows(*((f"k{i}", i, 1) for i in range(1_000))))
    touched: list[int] = []
    plain = RowPartitions._search

    def search(self: RowPartitions, numbers: Any, *args: Any, **more: Any) -> Any:
        touched.append(len(numbers))
        return plain(self, numbers, *args, **more)

    monkeypatch.setattr(RowPartitions, "_search", search)
    stream.advance(16)
    assert (touched, stream.search.figures["open partitions"]) == ([11], 989)


def test_a_partition_keeps_only_rows_that_may_be_read() -> None:
    bound = clause("PATTERN (A B) WITHIN 5 DEFINE A AS x > PREV(x, 2), B AS x < A.x")
    stream = Streamed(bound)
    for t in range(200):
        stream.feed(rows(("p", t, 7)))
        stream.advance(t + 1)
        assert stream.search.figures["rows held"] <= 3
    stream = Streamed(
        clause(PAIR.replace("DEFINE", "DEFINE Z AS MATCH_NUMBER() > 3,").replace("B)", "B Z?)"))
    )
    stream.feed(rows(("p", 1, 3), ("p", 2, 3)))
    assert stream.search.figures["rows held"] == 1  # the number of matches is kept with one row


def long_stream(monkeypatch: pytest.MonkeyPatch) -> tuple[Streamed, list[int]]:
    read: list[int] = []
    plain = GrowingInput.add

    def add(self: GrowingInput, table: pa.Table) -> None:
        read.append(len(table))
        plain(self, table)

    monkeypatch.setattr(GrowingInput, "add", add)
    bound = clause("PATTERN (A+ B) DEFINE A AS x = 1, B AS x = 2", partition="")
    stream = Streamed(bound, Options(limits=Limits(open_rows=500)))
    for start in range(0, 20_000, 1_000):
        stream.feed(rows(*(("p", t, 1) for t in range(start, start + 1_000))))
        stream.advance(start + 1_000)
    return stream, read


def test_a_long_search_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, read = long_stream(monkeypatch)
    assert read == [1_000] * 20
    (partition,) = stream.search._partitions._long.values()
    assert partition.search.m.depth >= 0
    assert partition.search.m.at == 20_000
    stream.feed(rows(("p", 20_000, 2)))
    assert counts(stream) == [20_001]
    assert stream.search.figures["rows held"] == 0


def test_a_long_partition_that_gets_short_is_one_of_many_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, _ = long_stream(monkeypatch)
    stream.feed(rows(("p", 20_000, 2), ("p", 20_001, 1)))
    assert not stream.search._partitions._long
    assert stream.search.figures["rows held"] == 1
    stream.feed(rows(("p", 20_002, 2)))
    assert counts(stream) == [20_001, 2]


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (clause(PAIR.replace("WITHIN 5", ""), order=""), "no ORDER BY"),
        (clause(PAIR.replace("WITHIN 5", ""), order="ORDER BY t DESC"), "DESC"),
        (clause(PAIR.replace("WITHIN 5", ""), order="ORDER BY k"), "of type string"),
        (clause(PAIR.replace("WITHIN 5", ""), order="ORDER BY t + 1"), "an expression"),
        (clause("PATTERN (A $) DEFINE A AS x = 1"), "$ asks for the end"),
        (clause("PATTERN (A) WITHIN 5 DEFINE A AS count(DISTINCT x) = 1"), "only the reference engine"),
    ],
)
def test_clauses_that_cannot_be_streams_are_refused(bound: BoundRows, said: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(said)) as refused:
        RowClause(bound, Options()).start_stream(Work(Options()), unbounded=True)
    assert refused.value.hint


def test_the_reference_is_no_engine_for_streams() -> None:
    options = Options(engine="reference")
    with pytest.raises(UnsupportedError, match="keeps all rows"):
        RowClause(clause(PAIR), options).start_stream(Work(options))


def test_a_stream_without_rows_gives_nothing() -> None:
    stream = Streamed(clause(PAIR), reload=True)
    stream.feed(rows())
    stream.advance(5)
    assert stream.flush().num_rows == 0


def test_a_state_without_a_bound_must_be_asked_for() -> None:
    bound = clause(PAIR.replace("WITHIN 5", ""))
    assert why_no_stream(bound, unbounded=True) is None
    with pytest.raises(UnsupportedError, match="without WITHIN"):
        RowClause(bound, Options()).start_stream(Work(Options()))


def test_a_skip_without_a_target_is_an_error_or_goes_past_the_last_row() -> None:
    bound = clause("AFTER MATCH SKIP TO B PATTERN (A B?) WITHIN 5 DEFINE A AS x = 1, B AS x = 2")
    given = rows(("p", 1, 1), ("p", 2, 1), ("p", 3, 2), ("p", 4, 3))
    with pytest.raises(DataError, match="no row mapped to B"):
        run_stream(bound, given, 1)
    stream = Streamed(bound, on_skip="past_last_row")
    stream.feed(given)
    assert counts(stream) == [1, 2]
    assert stream.search.figures["skips without a target"] == 1
    with pytest.raises(PlanError, match="on_skip"):
        Streamed(bound, on_skip="never")


def test_saved_state_is_of_one_clause_and_whole() -> None:
    stream, other = Streamed(clause(PAIR)), Streamed(clause(PAIR.replace("5", "6")))
    stream.feed(rows(("p", 1, 1), ("q", 1, 1)))
    stream.advance(2)
    state = stream.search.save()
    with pytest.raises(DataError, match="another clause"):
        other.search.load(state)
    with pytest.raises(DataError, match="damaged"):
        stream.search.load(state[:-1])
    with pytest.raises(DataError, match="not a saved state"):
        stream.search.load(b"")
    stream.search.load(state)
    assert stream.search.save() == state


def test_keys_that_are_equal_share_a_partition() -> None:
    schema = pa.schema([("k", pa.float64()), ("t", pa.int64()), ("x", pa.int64())])
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES count(*) AS n {PAIR})"
    bound = bind_rows(parse_statement(sql, "standard").clauses[0], schema)
    keys = [0.0, float("nan"), None, -0.0, float("nan"), None]
    table = pa.table([pa.array(keys), pa.array(range(6)), pa.array([1, 1, 1, 2, 2, 2])], schema=schema)
    assert run_stream(bound, table, 1).column("n").to_pylist() == [2, 2, 2]


def test_atoms_have_the_columns_of_the_partial_answer() -> None:
    question = RowClause(clause(PAIR), Options(), atoms=True)
    search = question.start_stream(Work(Options()))
    (found,) = search.feed(RowBatch(rows(("p", 1, 1), ("p", 2, 2))))
    assert found.schema == question.partial
    assert question.finish([found]).column("n").to_pylist() == [2]
