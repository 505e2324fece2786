"""Every case of MATCH_RECOGNIZE on every engine, and the harness that reads and compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

import pyarrow as pa
import pytest

from cerise.errors import CeriseError
from tests.support.cases.row_harness import (
    RUNNERS,
    RowCase,
    difference,
    load_row_cases,
    read_result,
    read_row_cases,
    read_table,
    result_of,
)

CASES = load_row_cases()
HERE = [case for case in CASES if not case.on_spark_only]
GOOD = [case for case in HERE if case.error is None]
BAD = [case for case in HERE if case.error is not None]
QUICK = ("reference", "rows")  # engines
STREAMING = {"M43", "M44", "M45"}  # of streams, or what is not there
RULES = {f"M{n}" for n in range(1, 47)} - STREAMING


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_row_case(case: RowCase) -> None:
    run_case(case, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("case", GOOD, ids=str)
def test_row_case_in_every_other_way(case: RowCase) -> None:
    run_case(case, [name for name in RUNNERS if name not in QUICK])


def run_case(case: RowCase, runners: Iterable[str]) -> None:
    for runner in runners:  # in one test: the clause is bound and compiled once
        wrong = difference(case.expected, result_of(RUNNERS[runner](case.bound(), case.input)))
        assert not wrong, f"{case}, {runner}\n{wrong}"


@pytest.mark.parametrize("case", BAD, ids=str)
def test_row_case_is_rejected(case: RowCase) -> None:
    """While it is bound, which no runner changes, or by every runner."""
    assert case.error is not None
    try:
        case.bound()
    except CeriseError as error:
        assert_said(case, error)
        return
    for runner in RUNNERS:
        with pytest.raises(CeriseError) as caught:
            RUNNERS[runner](case.bound(), case.input)
        assert_said(case, caught.value)


def assert_said(case: RowCase, error: CeriseError) -> None:
    assert case.error is not None
    assert (type(error).__name__, case.error[1] in str(error)) == (case.error[0], True), str(error)


def test_every_rule_has_a_case() -> None:
    covered = {rule for case in CASES for rule in case.rules}
    assert not RULES - covered, f"rules without a case: {sorted(RULES - covered)}"


def test_row_titles_are_unique() -> None:
    titles = Counter(case.title for case in CASES)
    assert [title for title, count in titles.items() if count > 1] == []


# ---- the harness itself

EXPECTED = read_result("n l\n1 [1,2]\n2 null\n2 null")


def test_equal_results_in_any_order() -> None:
    found = pa.table({"n": [2, 1, 2], "l": [None, [1, 2], None]})
    assert difference(EXPECTED, result_of(found)) == ""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {"n": [1, 2, 3], "l": [[1, 2], None, None]},
            "missing: 2 null ×1\nnot expected: 3 null ×1",
        ),
        ({"n": [1, 2], "l": [[1, 2], None]}, "missing: 2 null ×1"),
        ({"n": [1, 2, 2, 2], "l": [[1, 2], None, None, None]}, "not expected: 2 null ×1"),
        (
            {"n": [1, 2, 2], "l": [[2, 1], None, None]},
            "missing: 1 [1,2] ×1\nnot expected: 1 [2,1] ×1",
        ),
        (
            {"n": [1, 2, 2], "m": [[1, 2], None, None]},
            "columns: ('n', 'm') instead of ('n', 'l')",
        ),
    ],
)
def test_different_results(found: dict[str, list[object]], said: str) -> None:
    assert difference(EXPECTED, result_of(pa.table(found))) == said


def test_order_of_columns_and_no_rows() -> None:
    none = pa.table({"a": pa.array([], pa.int64())})
    assert difference(read_result("(none)"), result_of(none)) == ""
    assert difference(read_result("a"), result_of(none)) == ""
    assert difference(read_result("a\n(none)"), result_of(none)) == ""
    assert difference(read_result("b"), result_of(none))
    assert difference(read_result("(none)"), result_of(pa.table({"a": [1]}))) == "not expected: 1 ×1"


def test_text_is_not_null() -> None:
    table = pa.table({"a": ["null", None, "it's"]})
    assert difference(read_result("a\n'null'\nnull\n'it''s'"), result_of(table)) == ""


def test_sized_types() -> None:
    table = read_table('id "p q":decimal(10,2) y:int16\n1 1.5 null\n2 null 7')
    assert table.schema.types == [pa.int64(), pa.decimal128(10, 2), pa.int16()]
    assert table.to_pydict() == {"id": [1, 2], "p q": [Decimal("1.50"), None], "y": [None, 7]}


def test_parts_and_directives() -> None:
    first = "# title: one\n# rules: M1 M2\nSELECT 1\n--\nid t\n1 2\n--\na\n1\n"
    one, two = read_row_cases("f.mr", first + "# title: two\n# error: E: x: y\nSELECT")
    assert (one.rules, one.statement, one.line, one.input.num_rows) == (("M1", "M2"), "SELECT 1", 1, 1)
    assert (two.error, two.line) == (("E", "x: y"), 10)
    for wrong in (
        "# title: x\n# rulez: M1\nq\n--\nid\n--\na",
        "# title: x\nq\n--\nid",
        "# title: x\nq\n--\n--\n--\n",
    ):
        with pytest.raises(AssertionError):
            read_row_cases("f.mr", wrong)
