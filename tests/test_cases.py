"""Every case on every engine and every runner."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES, VARIANTS
from cerise.errors import CeriseError, CeriseWarning
from cerise.events import Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from tests.support.cases.harness import Case, answer_of, difference, load_cases
from tests.support.cases.runners import RUNNERS
from tests.tiers import AT_LENGTH

CASES = load_cases()
GOOD = [case for case in CASES if case.error is None]
QUICK = ("reference", "nfa")  # engines
TURNS = 2  # runners besides, other ones for each case
BAD = [case for case in CASES if case.error is not None]
BOUND: dict[str, Bound] = {}  # by the names of cases
RULES = {
    *(f"S1.{n}" for n in range(1, 6)), *(f"S2.{n}" for n in range(1, 7)), *(f"S3.{n}" for n in range(1, 8)),
    *(f"S4.{n}" for n in range(1, 7)), *(f"S5.{n}" for n in range(1, 5)), *(f"S6.{n}" for n in range(1, 6)),
    *(f"S7.{n}" for n in range(1, 5)), "S8",
}  # fmt: skip


def bound_of(case: Case) -> Bound:
    """The query, bound once for all engines."""
    name = str(case)
    if name not in BOUND:
        schema = Schema(case.events.schema, case.time, case.type, case.key, case.order)
        BOUND[name] = bind(parse(case.query), schema, case.params)
    return BOUND[name]


def runners_of(case: Case, engine: str) -> list[str]:
    """The runners that a case goes through: some always, the others in turn; all with CERISE_EXAMPLES set.

    To an engine the tasks of Spark, and stores, are what threads are: events that may not open a run. So only
    one engine goes through them, and it alone is always saved and loaded; the engines take other turns.
    """
    able = [name for name in RUNNERS if engine == "nfa" or not name.startswith(("exchanged", "from"))]
    if AT_LENGTH:
        return able
    always = ("whole", "saved and loaded") if engine == "nfa" else ("whole",)
    turns = [name for name in able if name not in always]
    first = CASES.index(case) + list(ENGINES).index(engine)
    mine = {turns[(first + i * len(turns) // TURNS) % len(turns)] for i in range(TURNS)}
    return [name for name in able if name in always or name in mine]


def engines_and_cases() -> list[Any]:
    """Every engine with every case; what `rcep` chooses from by itself with every fifth, unless nightly."""
    return [
        pytest.param(
            engine, case, id=f"{case}-{engine}",
            marks=[*marks_of(engine, number), together(number)],
        )
        for number, case in enumerate(GOOD)
        for engine in ENGINES
    ]  # fmt: skip


def together(number: int) -> pytest.MarkDecorator:
    """Have one worker run all tests of a case: to compile its query is most of their work."""
    return pytest.mark.xdist_group(f"case {number}")


def marks_of(engine: str, number: int) -> list[pytest.MarkDecorator]:
    late = [pytest.mark.nightly] if engine in VARIANTS and number % 5 else []
    return late if engine in QUICK else [*late, pytest.mark.slow]


@pytest.mark.parametrize(("engine", "case"), engines_and_cases())
def test_case(engine: str, case: Case) -> None:
    bound = bound_of(case)
    if (reason := ENGINES[engine].why_not(bound)) is not None:
        pytest.skip(reason)
    for runner in runners_of(case, engine):  # in one test: compiling the query is most of the work
        run = RUNNERS[runner]
        found = run(bound, case.events, Options(engine=engine))
        assert found.schema.equals(bound.output_schema)
        wrong = difference(case.expected, answer_of(found, bound, case.label))
        assert not wrong, f"{case}, {runner}\n{wrong}"


@pytest.mark.parametrize("case", BAD, ids=str)
def test_rejected(case: Case) -> None:
    assert case.error is not None
    with pytest.raises(CeriseError) as caught:
        bound_of(case)
    assert (type(caught.value).__name__, case.error[1] in str(caught.value)) == (case.error[0], True), str(
        caught.value
    )


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=str(case), marks=together(number)) for number, case in enumerate(GOOD)]
)
def test_warnings(case: Case) -> None:
    import cerise

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cerise.find(case.events, case.query, **case.roles())
    said = [str(each.message) for each in caught if issubclass(each.category, CeriseWarning)]
    # small streams lack many types, and the type is given for every case
    unmeant = ("no event has type", "type='type' is given, but no item")
    said = [each for each in said if not each.startswith(unmeant)]
    if case.warns is None:
        assert not said
    else:
        assert any(case.warns in each for each in said)


def test_there_are_enough_cases_for_every_rule() -> None:
    covered = {rule for case in CASES for rule in case.rules}
    assert len(CASES) >= 150
    assert not RULES - covered, f"rules without a case: {sorted(RULES - covered)}"


def test_titles_are_unique() -> None:
    titles = [(case.file, case.title) for case in CASES]
    assert len(titles) == len(set(titles))
