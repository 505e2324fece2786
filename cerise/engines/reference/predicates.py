"""Judges each conjunct as soon as its last identifier is bound (S4.1, S4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from cerise.pattern.bound import STEP, Conjunct, constant_indices, final_variables
from cerise.pattern.evaluate import Binding, Columns, Compiled, OnFault, compile_expr
from cerise.pattern.expr import At, attributes, outside_aggregates


@dataclass(frozen=True, slots=True)
class ConjunctTest:
    """A conjunct as a function, and the bindings it needs before it can be judged.

    Attributes:
        function: the conjunct.
        needs: the variables that must have an event.
        finals: the Kleene variables that the run must have left: it reads their last event or all of them.
        indexed: the (variable, k) of every b[k].
        runs_over: the Kleene variables whose events it tests one by one, each with the number of the first
            event it tests.
    """

    function: Compiled
    needs: frozenset[str]
    finals: frozenset[str]
    indexed: tuple[tuple[str, int], ...]
    runs_over: dict[str, int]

    @classmethod
    def of(cls, conjunct: Conjunct, kleene: frozenset[str], on_fault: OnFault) -> ConjunctTest:
        """Return the test of a bound conjunct."""
        expr = conjunct.expr
        every = {each.var for each in outside_aggregates(expr) if each.at is At.EVERY and each.var in kleene}
        step = {each.var for each in attributes(expr) if each.at in STEP}
        return cls(
            compile_expr(expr, on_fault),
            conjunct.variables,
            final_variables(expr),
            tuple((each.var, int(str(each.at))) for each in constant_indices(expr)),
            dict.fromkeys(every, 1) | dict.fromkeys(step, 2),
        )

    def determined(self, binding: Binding, left: frozenset[str]) -> bool:
        """Whether all bindings that it needs are known; later events are judged when they come."""
        return (
            all(binding.get(var) for var in self.needs)
            and self.finals <= left
            and all(var in left or len(binding[var]) >= k for var, k in self.indexed)
        )

    def holds(self, columns: Columns, binding: Binding, *, newest: str | None = None) -> bool:
        """Whether it holds for all events it runs over; for variable `newest`, only for the newest event."""
        return all(self.function(columns, binding, step) is True for step in self.steps(binding, newest))

    def steps(self, binding: Binding, newest: str | None) -> Iterator[dict[str, int]]:
        """Yield the numbers of the events it is judged for; for variable `newest`, only the newest event."""
        ranges = []
        for var, first in self.runs_over.items():
            count = len(binding.get(var, ()))
            ranges.append(range(max(first, count) if var == newest else first, count + 1))
        for numbers in product(*ranges):
            yield dict(zip(self.runs_over, numbers, strict=True))


def newly_hold(
    tests: Iterable[ConjunctTest],
    columns: Columns,
    moved: tuple[Binding, Binding],
    left: tuple[frozenset[str], frozenset[str]],
    var: str,
) -> bool:
    """Whether all tests hold that can be judged once a variable has one more event.

    Args:
        tests: the conjuncts of the branch.
        columns: the stream's columns.
        moved: the binding before and after.
        left: the variables that the run has left before and after.
        var: the variable that has the new event.
    """
    judged = list_new_tests(tests, moved, left, var)
    return all(test.holds(columns, moved[1], newest=newest) for test, newest in judged)


def list_new_tests(
    tests: Iterable[ConjunctTest],
    moved: tuple[Binding, Binding],
    left: tuple[frozenset[str], frozenset[str]],
    var: str,
) -> Iterator[tuple[ConjunctTest, str | None]]:
    """Yield the tests that can be judged now, each with the variable whose newest event alone counts."""
    before, after = moved
    for test in tests:
        if not test.determined(after, left[1]):
            continue
        if not test.determined(before, left[0]):
            yield test, None
        elif var in test.runs_over:
            yield test, var
