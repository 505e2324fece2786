"""Negation as a nested query on a positive match (S6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile

from cerise.engines.reference.predicates import ConjunctTest
from cerise.engines.reference.stream import Reach, Stream
from cerise.pattern.bound import Bound, Branch, Negation
from cerise.pattern.evaluate import Binding, OnFault
from cerise.pattern.rewrite import Absence


class Absences:
    """The negated variables of a branch."""

    def __init__(self, branch: Branch, bound: Bound, on_fault: OnFault) -> None:
        self.reach = Reach.of(bound)
        self.parts = [(each.absence, self._tests(each, bound, on_fault)) for each in branch.negations]

    def veto(self, binding: Binding, stream: Stream) -> bool:
        """Whether an event that must not occur vetoes a match."""
        return self.find_veto(binding, stream) is not None

    def are_final(self, binding: Binding, stream: Stream, now: int) -> bool:
        """Whether no event from a time on can veto a match: the reach of its NOT has passed (S6.2–S6.4)."""
        if all(absence.before and not absence.anywhere for absence, _ in self.parts):
            return True
        first = min(position for positions in binding.values() for position in positions)
        return self.reach.passed(stream, first, now)

    def find_veto(self, binding: Binding, stream: Stream) -> tuple[Absence, int] | None:
        for absence, tests in self.parts:
            if (position := self._occurs(absence, tests, binding, stream)) is not None:
                return absence, position
        return None

    @staticmethod
    def _tests(negation: Negation, bound: Bound, on_fault: OnFault) -> list[ConjunctTest]:
        return [ConjunctTest.of(test, bound.kleene, on_fault) for test in negation.tests]

    def _occurs(
        self, absence: Absence, tests: Iterable[ConjunctTest], binding: Binding, stream: Stream
    ) -> int | None:
        own = {position for positions in binding.values() for position in positions}
        for position in self._where(absence, binding, stream):
            if position in own:
                continue
            candidate = {**binding, absence.var.name: (position,)}
            if all(test.holds(stream.columns, candidate) for test in tests):
                return position
        return None

    def _where(self, absence: Absence, binding: Binding, stream: Stream) -> Iterator[int]:
        """Yield the positions at which the negated event must not occur."""
        taken = [position for positions in binding.values() for position in positions]
        first, last = min(taken), max(taken)
        back = takewhile(lambda p: self.reach.near(stream, p, last), range(last, -1, -1))
        ahead = takewhile(lambda p: self.reach.near(stream, first, p), range(first, len(stream)))
        if absence.anywhere:
            return iter(_inside(set(back), set(ahead), first, last))
        after = max((p for name in absence.after for p in binding[name]), default=None)
        before = min((p for name in absence.before for p in binding[name]), default=None)
        if after is None:
            return (p for p in back if p < first)
        if before is None:
            return (p for p in ahead if p > last)
        return iter(range(after + 1, before))


def _inside(back: set[int], ahead: set[int], first: int, last: int) -> list[int]:
    """Return the positions of S6.3: in the window before the last event and in the window after the first."""
    lowest, highest = min(back), max(ahead)
    return [p for p in range(lowest, highest + 1) if (p in back or p > last) and (p in ahead or p < first)]
