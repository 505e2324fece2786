"""Random MATCH_RECOGNIZE clauses on random rows: the compiled engine answers as the reference does.

CERISE_EXAMPLES=50000 asks for so many pairs, of other clauses in every run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Options, concat_matches
from cerise.engines.limits import Limits
from cerise.engines.reference.rows import ReferenceRowSearch
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows import program
from cerise.engines.rows.prepare import prepare
from cerise.engines.rows.table_search import find_in_table
from cerise.errors import CeriseError, DataError, PlanError
from cerise.kernels.jit import COMPILED
from cerise.pattern.row_pattern import BoundRows
from tests.support.cases.row_harness import run_reference, run_rows
from tests.support.strategies.rows import TABLES, Family, family_of
from tests.tiers import mostly_nightly

ASKED = int(os.environ.get("CERISE_EXAMPLES", "0"))
GOES = tuple(range(5))  # so that workers share the pairs
FAMILIES = max(50 if COMPILED else 12, ASKED // (TABLES * len(GOES)))
PATIENT = 20_000  # candidates of the reference for one start row
BUDGET = 20_000  # steps of one search


class TooLong(Exception):
    """A search of the reference that would take too long."""


@contextmanager
def patience(most: int = PATIENT) -> Iterator[None]:
    """Give up a search of the reference after so many candidates."""
    plain = ReferenceRowSearch.candidates
    left: Counter[int] = Counter()

    def counted(self: ReferenceRowSearch, *args: Any, **more: Any) -> Any:
        left[self.start] += 1
        if left[self.start] > most:
            raise TooLong
        return plain(self, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReferenceRowSearch, "candidates", counted)
        yield


Answer = tuple[Any, ...]


def answer(bound: BoundRows, table: pa.Table, engine: str = "rows", **options: Any) -> Answer:
    """A result as its names, types and values in order, NaN and -0.0 among them; or the class of an error."""
    try:
        by_law = engine == "reference"
        found = run_reference(bound, table) if by_law else run_rows(bound, table, Options(engine, **options))
    except CeriseError as error:
        return (type(error).__name__,)
    return found.schema.names, found.schema.types, [repr(each.to_pylist()) for each in found.columns]


def failed(found: Answer) -> bool:
    return len(found) == 1


def numbers(go: int) -> range:
    """The families of one go: the same in every run, unless more are asked for."""
    first = random.SystemRandom().randrange(2**40) if ASKED else go * 1_000_000
    return range(first, first + FAMILIES)


class Seen(Counter[str]):
    """What the pairs of a go are like, so that they are worth comparing."""

    def note(self, found: Answer) -> None:
        self["pairs"] += 1
        if failed(found):
            self["errors"] += 1
            return
        names, _, columns = found
        counts = eval(columns[names.index("n")], {"nan": float("nan")})
        self["matches"] += any(each is not None for each in counts)
        self["long matches"] += any(each is not None and each > 1 for each in counts)
        self["time-outs"] += any("timeout" in each for each in columns)

    def check(self) -> None:
        for what, percent in {"matches": 40, "long matches": 15, "errors": 3, "time-outs": 1}.items():
            assert self[what] * 100 >= percent * self["pairs"], f"only {self[what]} {what}: {dict(self)}"
        for what, percent in {"unfit": 10, "too long": 3}.items():
            assert self[what] * 100 <= percent * FAMILIES * TABLES, f"{self[what]} {what}: {dict(self)}"


def agree(family: Family, seen: Seen) -> None:
    """Compare the answers to each pair of a family; small rooms must not change them, nor threads."""
    bound = family.bound()
    if reason := program.why_not(bound):
        seen["unfit"] += len(family.tables)
        seen[reason] += 1
        return
    for i, table in enumerate(family.tables):
        try:
            with patience():
                expected = answer(bound, table, engine="reference")
        except TooLong:
            seen["too long"] += 1
            continue
        seen.note(expected)
        limits = Limits.all((1, 2, 3)[i % 3]) if i % 2 else Limits()
        found = answer(bound, table, threads=(1, 1, 3)[i % 3], limits=limits)
        assert found == expected, f"{family.shown(table)}\n{found}\ninstead of\n{expected}"


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_the_compiled_engine_agrees_with_the_reference(go: int) -> None:
    seen = Seen()
    for number in numbers(go):
        agree(family_of(number), seen)
    if COMPILED:
        seen.check()


def searched(bound: BoundRows, table: pa.Table, patience: int) -> tuple[bytes, ...] | None:
    """The matches, without the columns that are made of them; None where they are given up."""
    prepared = prepare(bound, table)
    options = Options("rows", max_steps=BUDGET, limits=Limits(patience=patience))
    try:
        found = concat_matches(list(find_in_table(bound, prepared, partitions(bound, prepared), options)))
    except PlanError:
        return None
    except DataError as error:
        return (str(error).encode(),)
    late = b"" if found.timeouts is None else found.timeouts.tobytes()
    return found.starts.tobytes(), found.lengths.tobytes(), found.labels.tobytes(), late


@pytest.mark.skipif(not COMPILED, reason="slow")
@pytest.mark.parametrize("go", GOES[:2])
def test_what_is_remembered_changes_nothing(go: int) -> None:
    """Nor where the search runs long: too long for the reference, and without memory for the engine."""
    compared = 0
    for number in range(20):
        family = family_of(go * 1_000_000 + 500_000 + number, sizes=(3000,))
        bound, (table,) = family.bound(), family.tables
        if program.why_not(bound):
            continue
        patiences = (1, Limits().patience, BUDGET)  # after as many as it may take, nothing is remembered
        found = [searched(bound, table, steps) for steps in patiences]
        ended = {each for each in found if each is not None}
        assert len(ended) <= 1, family.shown(table[:50])
        compared += found.count(None) < 2
    assert compared >= 15
