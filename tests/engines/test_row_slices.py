"""Clauses without PARTITION BY, cut by time: the answer is the same (semantics.md §10, decision D3).

CERISE_EXAMPLES=50000 asks for so many pairs of a random clause and a table, of other clauses in every run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.rows import engine, program, slices, table_search
from cerise.engines.rows.slices import Stretch, stretches
from cerise.errors import CeriseError, DataError, PlanError
from cerise.kernels.jit import COMPILED
from cerise.kinds import TIMES, kind_of
from cerise.lang.match_recognize import bind_rows, parse_alone
from cerise.pattern.row_pattern import BoundRows, Extent
from cerise.plan.row_needs import row_halo
from cerise.plan.slicing import Halo
from tests.support.cases.row_harness import RowCase, difference, load_row_cases, result_of, run_rows
from tests.support.cases.row_slices import SMALL, Rows, by_reference, cut_family, exchanged, from_files
from tests.test_row_agreement import TooLong, answer, patience
from tests.tiers import mostly_nightly

ASKED = int(os.environ.get("CERISE_EXAMPLES", "0"))
FAMILIES = max(6 if COMPILED else 3, ASKED // 8)
GOES = (1, 2)
COLUMNS = pa.schema([("t", pa.int64()), ("kind", pa.string())])


# ---- the cases


def cut(case: RowCase) -> BoundRows | None:
    """A case that can be cut; where it has no window, one is added that is longer than all rows."""
    try:
        bound = case.bound()
    except CeriseError:
        return None
    order = bound.order[0] if bound.order else None
    if bound.within is None and order is not None and not order.descending and not bound.derived:
        column = case.input.column(order.column)
        if kind_of(column.type) in TIMES and not column.null_count:
            bound = replace(bound, within=Extent(10**15))
    fits = not bound.partition and isinstance(row_halo(bound), Halo) and program.why_not(bound) is None
    return bound if fits else None


CASES = {
    str(case): (case, bound)
    for case in load_row_cases()
    if not case.on_spark_only and (bound := cut(case)) is not None
}


RIGHT = [name for name, (case, _) in CASES.items() if case.error is None]


def slices_of(name: str) -> int:
    """How many slices a case is cut into: few, or about as many as it has rows."""
    return 2 if len(name) % 2 else 7


@pytest.mark.parametrize("name", CASES)
def test_a_case_in_slices(name: str) -> None:
    (case, bound), count = CASES[name], slices_of(name)
    if case.error is not None:
        with pytest.raises(CeriseError, match=case.error[1].replace("(", r"\(")):
            run_rows(bound, case.input, Options(threads=count))
        return
    wrong = difference(case.expected, result_of(run_rows(bound, case.input, Options(threads=count))))
    assert not wrong, f"{case}\n{wrong}"


@pytest.mark.parametrize("name", mostly_nightly(RIGHT, RIGHT[::2]))
def test_a_case_from_files(name: str) -> None:
    (case, bound), count = CASES[name], slices_of(name)
    expected = by_reference(bound, case.input)
    found = from_files(bound, case.input, count)
    assert found == expected or (found is None and not in_order(bound, case.input))
    untied = replace(bound, arrival=False)  # as of a DataFrame, also where its files are read
    expected = by_reference(untied, case.input)
    assert from_files(untied, case.input, count) in (expected, None)
    assert exchanged(untied, case.input, count) in (expected, None)


def in_order(bound: BoundRows, table: pa.Table) -> bool:
    """Whether the row groups of files can be cut: there are several, and their times ascend."""
    times = table.column(bound.order[0].column).to_pylist()
    return len(times) > 2 and all(one < two for one, two in pairwise(times))


def test_many_cases_are_cut() -> None:
    assert len(CASES) > 150
    assert sum(in_order(bound, case.input) for case, bound in CASES.values()) > 100


# ---- random clauses


def sizes(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice((0, 1, 2, 5, 8, 12, 20, 30, 40)) for _ in range(4))


def tried(find: Any, *args: Any, **more: Any) -> Rows | str | None:
    """What is found, or the class of an error."""
    try:
        found: Rows | None = find(*args, **more)
    except CeriseError as error:
        return type(error).__name__
    return found


@pytest.mark.parametrize("go", mostly_nightly(GOES, (1,)))
def test_slices_agree_with_the_reference(go: int) -> None:
    """In process and from files; also where candidates are given up early, and sent in many parts."""
    first = random.SystemRandom().randrange(2**40) if ASKED else go * 1_000_000
    seen: Counter[str] = Counter()
    for number in range(first, first + FAMILIES):
        family = cut_family(number, sizes)
        bound = family.bound()
        if isinstance(row_halo(bound), str) or program.why_not(bound):
            continue
        limits = Limits(candidate_rows=1) if number % 2 else Limits()
        for table in family.tables:
            _compare(bound, table, family.shown(table), seen, limits)
    if COMPILED:
        assert seen["in process"] > 15
        assert seen["from files"] > 15


def _compare(bound: BoundRows, table: pa.Table, shown: str, seen: Counter[str], limits: Limits) -> None:
    try:
        with patience():
            whole = answer(bound, table, engine="reference")
            expected = tried(by_reference, bound, table)
            untied = replace(bound, arrival=False)
            by_hash = tried(by_reference, untied, table)
    except TooLong:
        seen["too long"] += 1
        return
    for count in (2, 7):
        assert answer(bound, table, threads=count, limits=limits) == whole, f"{count} slices\n{shown}"
    seen["in process"] += 1
    if bound.derived:
        return
    small = replace(SMALL, candidate_rows=limits.candidate_rows)
    for count in (2, 40):
        found = tried(from_files, bound, table, count, limits=small)
        assert found in (expected, None), f"{count} slices of files\n{shown}\n{found}\ninstead of\n{expected}"
        seen["from files"] += found is not None
    assert tried(from_files, untied, table, 2, limits=small) in (by_hash, None), (
        f"files of a DataFrame\n{shown}"
    )
    found = tried(exchanged, untied, table, 3, limits=small)
    assert found in (by_hash, None), f"exchanged\n{shown}\n{found}\ninstead of\n{by_hash}"
    seen["exchanged"] += found is not None


# ---- larger ones


TWO = "A AS kind = 'A', B AS kind = 'B'"


def clause(pattern: str, *, skip: str = "PAST LAST ROW", within: int = 20, define: str = TWO) -> BoundRows:
    text = (
        "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS f, LAST(t) AS l, COUNT(*) AS c, "
        f"MATCH_NUMBER() AS n AFTER MATCH SKIP {skip} PATTERN ({pattern}) WITHIN {within} DEFINE {define})"
    )
    return bind_rows(parse_alone(text), COLUMNS)


def events(seed: int, rows: int, kinds: str) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, rows // 2, rows))  # many are equal
    kind = np.array(list(kinds), object)[rng.integers(0, len(kinds), rows)]
    return pa.table({"t": times, "kind": pa.array(kind, pa.string())}, COLUMNS)


@pytest.mark.skipif(not COMPILED, reason="slow")
@pytest.mark.parametrize("kinds", ["A", "AB", "AAAB", "ABCCCCCC"])
@pytest.mark.parametrize(
    "bound",
    [
        clause("A A", define="A AS kind = 'A'"),  # of two ways through equal rows, none ever meets the other
        clause("A+", define="A AS kind = 'A'"),
        clause("A+ B"),
        clause("A B*"),
        clause("A X*? B"),
        clause("A X* B", skip="TO LAST B"),
        clause("A X+? B", skip="TO FIRST X"),
        clause("A* B*", skip="TO NEXT ROW"),
        clause("A X*? B", within=1000),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("limits", [Limits(), Limits(candidate_rows=1), Limits(candidate_rows=50)])
def test_slices_of_many_rows(bound: BoundRows, kinds: str, limits: Limits) -> None:
    table = events(7, 4000, kinds)
    whole = run_rows(bound, table, Options(threads=1))
    for count in (2, 16):
        assert run_rows(bound, table, Options(threads=count, limits=limits)).equals(whole)


def test_what_is_searched_again_ends_where_it_meets_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that were left out are searched from when somebody comes there, and not further than needed."""
    options = Options(threads=8, limits=Limits(candidate_rows=1))
    searched: list[int] = []
    plain = slices.SearchedSlice.search_on

    def search_on(self: slices.SearchedSlice, row: int, found: slices.SliceCandidates) -> Any:
        matches, end = plain(self, row, found)
        searched.append(end - row)
        return matches, end

    monkeypatch.setattr(slices.SearchedSlice, "search_on", search_on)
    for seed in range(5):
        run_rows(clause("A X X X", define="A AS kind = 'A'"), events(seed, 5_000, "ABCC"), options)
    assert 0 < len(searched) <= 5 * 7
    assert max(searched) < 100


@pytest.mark.parametrize("within", ["WITHIN 0", "WITHIN 3", "WITHIN 3 EMIT TIMEOUTS", "WITHIN 500"])
@pytest.mark.parametrize("pattern", ["A B", "A X*? B", "A* B?"])
def test_rows_that_are_exchanged_by_time(pattern: str, within: str) -> None:
    text = (
        "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS f, LAST(t) AS l, COUNT(*) AS c "
        f"AFTER MATCH SKIP TO NEXT ROW PATTERN ({pattern}) {within} DEFINE {TWO})"
    )
    bound = bind_rows(parse_alone(text), COLUMNS)
    table = events(5, 300, "ABCC")
    times = [None if row % 50 == 7 else time - 70 for row, time in enumerate(table.column("t").to_pylist())]
    table = table.set_column(0, "t", pa.array(times, pa.int64()))
    untied = replace(bound, arrival=False)
    expected = by_reference(untied, table)
    assert expected.total() > 10
    for count in (2, 7):
        assert exchanged(untied, table, count) == expected


# ---- errors that only some ways through the rows come to

BAD_SKIP = "A AS kind = 'A', B AS kind = 'B', C AS kind = 'C'"


def rows(text: str) -> pa.Table:
    return pa.table({"t": range(len(text)), "kind": list(text)}, COLUMNS)


def test_a_match_that_nobody_takes_is_no_error() -> None:
    """From the second B on, a match would have no C to skip to; but the match before it goes past that."""
    bound = clause("A? B+ C?", skip="TO LAST C", define=BAD_SKIP)
    table = rows("ABBC" * 6 + "ABBC")
    whole = run_rows(bound, table, Options(threads=1))
    for count in (2, 3, 7, 28):
        assert run_rows(bound, table, Options(threads=count)).equals(whole)
    wrong = rows("ABBC" * 6 + "ABBA")
    for count in (1, 2, 7):
        with pytest.raises(DataError, match="no row mapped to C"):
            run_rows(bound, wrong, Options(threads=count))
        with pytest.raises(DataError, match="no row mapped to C"):
            from_files(bound, wrong, count) or run_rows(bound, wrong, Options())
    assert from_files(bound, table, 7) == by_reference(bound, table)


def test_a_search_that_is_given_up_says_so() -> None:
    bound = clause("(A | B)+ (A | B)+ C", within=1000, define=BAD_SKIP)
    for count in (1, 2, 7):
        with pytest.raises(PlanError, match="more than 50 steps"):
            run_rows(bound, rows("AB" * 200 + "C"), Options(threads=count, max_steps=50))


def test_a_sum_that_nobody_asks_for_is_no_error() -> None:
    """What the measures of a candidate are made of cannot be computed; it is not on the way."""
    columns = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    text = (
        "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS f, SUM(B.x) AS s "
        "PATTERN (A? B B) WITHIN 5 DEFINE A AS x < 0, B AS x > 0)"
    )
    bound = bind_rows(parse_alone(text), columns)
    large = 2**62
    given = [-1, 1, large, large, -1, 1, 1, -1, 1, large, large, -1]
    table = pa.table({"t": range(12), "x": given}, columns)
    assert len(run_rows(bound, table, Options())) == 3
    for count in (2, 3, 6):
        assert from_files(bound, table, count) == by_reference(bound, table)
        assert run_rows(bound, table, Options(threads=count)).equals(run_rows(bound, table, Options()))
    with pytest.raises(DataError, match="64 bits"):  # here it is on the way
        from_files(bound, table.slice(2), 5)


# ---- how rows are cut


def test_slices_that_overlap_too_much_are_one() -> None:
    table = rows("A" * 1000)
    for within, count in ((10, 4), (50, 4), (200, 1), (600, 1)):
        found = program.compile_rows(clause("A B", within=within))
        search_input = engine.input_of_table(found, table, np.array([0, len(table)]))
        assert len(stretches(search_input, within, 4)) == count


def test_a_stretch_knows_where_matches_before_it_end() -> None:
    table = pa.table({"t": [0, 0, 3, 3, 4, 8, 9, 9], "kind": list("ABABABAB")}, COLUMNS)
    search_input = engine.input_of_table(
        program.compile_rows(clause("A B", within=1)), table, np.array([0, 8])
    )
    assert stretches(search_input, 1, 4, amplified=9) == [
        Stretch(0, 2, 1), Stretch(2, 4, 1), Stretch(4, 6, 2), Stretch(6, 8, 3),
    ]  # fmt: skip


def test_rows_without_a_time_are_alone() -> None:
    times = [None, None, None, 1, 1, 2, 5, 5, 6, 9]
    table = pa.table({"t": times, "kind": list("ABABABABAB")}, COLUMNS)
    for nulls in ("", "NULLS LAST"):
        text = (
            f"SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t {nulls} MEASURES FIRST(t) AS f, "
            "COUNT(*) AS c, PREV(A.kind) AS p, NEXT(A.kind) AS q, MATCH_NUMBER() AS n "
            "PATTERN (A B?) WITHIN 3 DEFINE A AS kind = 'A')"
        )
        bound = bind_rows(parse_alone(text), COLUMNS)
        whole = run_rows(bound, table, Options(engine="reference"))
        for count in (2, 3, 10):
            assert run_rows(bound, table, Options(threads=count)).equals(whole)
            assert from_files(bound, table, count, size=1) in (by_reference(bound, table), None)


@pytest.mark.parametrize("within", [2**60, 2**62, 2**63 - 1])
def test_windows_longer_than_all_times(within: int) -> None:
    bound = clause("A X*? B", skip="TO NEXT ROW", within=within)
    bound = replace(bound, measures=bound.measures[:-1], output=bound.output[:-1])  # without the number
    times = [-(2**63), -5, 0, 3, 4, 2**62, 2**63 - 1]
    table = pa.table({"t": times, "kind": list("AAXBAAB")}, COLUMNS)
    expected = by_reference(bound, table)
    assert exchanged(bound, table, 3) in (expected, None)
    assert from_files(bound, table, 3) == expected
    assert run_rows(bound, table, Options(threads=3)).equals(run_rows(bound, table, Options(threads=1)))


def test_explain_says_whether_and_why_not() -> None:
    def told(bound: BoundRows, name: str | None = None) -> str:
        return table_search.explain(bound, Options(engine=name))["slices"]

    assert (
        told(clause("A B")) == "one for each thread, where rows are many; then their matches are put in order"
    )
    assert "^ and $" in told(clause("^ A B"))
    assert "reference" in told(clause("A B"), "reference")
    free = replace(clause("^ A B", skip="TO NEXT ROW"), measures=())
    assert told(free) == "some for each thread, where rows are many"
    assert "reference" in told(free, "reference")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_row_whose_match_ends_in_an_error_is_searched_again_as_if_for_the_first_time(size: int) -> None:
    """The skip target is the first row of the match. The states of that match have not failed."""
    table = pa.table({"t": [0, 2], "f": [True, False]})
    clause = """SELECT * FROM t MATCH_RECOGNIZE (
        ORDER BY t MEASURES MATCH_STATUS() AS status AFTER MATCH SKIP TO LAST A
        PATTERN ((C | C)* A) WITHIN 0 EMIT TIMEOUTS DEFINE A AS NOT f)"""
    options = cerise.Options(engine="rows", threads=3, limits=Limits.all(size))
    with pytest.raises(DataError, match="the first row of the match"):
        cerise.find(table, clause, options=options)
