"""The accepting runs of an OR-free query: NFA^b as defined in S3.3–S3.5 and S5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cerise.engines.reference.predicates import ConjunctTest, newly_hold
from cerise.engines.reference.stream import Reach, Stream
from cerise.engines.reference.structure import RunPosition, place
from cerise.errors import PlanError
from cerise.pattern.bound import Bound, Branch
from cerise.pattern.evaluate import Binding, OnFault
from cerise.pattern.query import Strategy


@dataclass(frozen=True, slots=True)
class PlainRun:
    """A run: the events bound to each variable, and the first of them."""

    binding: Binding
    start: int


class Runs:
    """All runs of one branch over one partition."""

    def __init__(self, branch: Branch, bound: Bound, on_fault: OnFault) -> None:
        self.pattern = branch.pattern
        self.strategy = bound.query.strategy
        self.reach = Reach.of(bound)
        self.names = [var.name for var in branch.variables]
        self.absent = frozenset(var.name for var in bound.variables) - frozenset(self.names)
        tests = [(c, ConjunctTest.of(c, bound.kleene, on_fault)) for c in branch.conjuncts]
        self.filters = {
            name: [test for c, test in tests if c.filters and name in c.variables] for name in self.names
        }
        self.tests = [test for c, test in tests if not c.filters]
        self.most = 0
        self._places: dict[tuple[int, ...], RunPosition] = {}

    def over(self, stream: Stream, max_runs: int) -> Iterator[Binding]:
        """Yield the binding of every accepting run."""
        if not self._constants_hold(stream):
            return
        alive: list[PlainRun] = []
        for position in range(len(stream)):
            opens = stream.opens is None or stream.opens[position]
            if not alive and not opens:
                continue
            fits = [name for name in self.names if self._fits(name, position, stream)]
            if fits:
                accepted: list[Binding] = []
                moving = (*alive, PlainRun({}, position)) if opens else alive
                alive = self._step(moving, position, fits, stream, accepted)
                yield from accepted
            elif self.strategy.contiguous:
                alive = []
            self.most = max(self.most, len(alive))
            if len(alive) > max_runs:
                raise _too_many(len(alive), position, stream, max_runs)

    def _constants_hold(self, stream: Stream) -> bool:
        """Judge the tests that need no event: constants, and aggregates of variables not in this branch."""
        known = [test for test in self.tests if test.determined({}, self.absent)]
        return all(test.holds(stream.columns, {}) for test in known)

    def _fits(self, name: str, position: int, stream: Stream) -> bool:
        return all(
            test.function(stream.columns, {name: (position,)}, {}) is True for test in self.filters[name]
        )

    def _step(
        self,
        moving: Sequence[PlainRun],
        position: int,
        fits: list[str],
        stream: Stream,
        accepted: list[Binding],
    ) -> list[PlainRun]:
        """Move every run by one event; a run without events is the start state."""
        after: list[PlainRun] = []
        for run in moving:
            if not self.reach.holds(stream, run.start, position):
                continue
            bound_directly = False
            for name, direct in self._place(run.binding).edges:
                if name in fits and (binding := self._take(run.binding, name, position, stream)) is not None:
                    bound_directly |= direct
                    if self._accepts(binding, stream):
                        accepted.append(binding)
                    after.append(PlainRun(binding, run.start))
            if run.binding and self._may_ignore(bound_directly):
                after.append(run)
        return [run for run in after if self._place(run.binding).edges]

    def _place(self, binding: Binding) -> RunPosition:
        """Return the position of a run, which depends only on how many events each variable has."""
        counts = tuple(len(binding.get(name, ())) for name in self.names)
        if counts not in self._places:
            self._places[counts] = place(self.pattern, binding)
        return self._places[counts]

    def _may_ignore(self, bound_directly: bool) -> bool:
        """Whether a run may ignore an event: the strategy decides (S3.4)."""
        if self.strategy is Strategy.ANY:
            return True
        return self.strategy is Strategy.NEXT and not bound_directly

    def _take(self, before: Binding, name: str, position: int, stream: Stream) -> Binding | None:
        after = {**before, name: (*before.get(name, ()), position)}
        gone = self._place(before).left | self.absent, self._place(after).left | self.absent
        return after if newly_hold(self.tests, stream.columns, (before, after), gone, name) else None

    def _accepts(self, binding: Binding, stream: Stream) -> bool:
        """Whether a run has reached the final state and passes the tests that were open until now."""
        if not self._place(binding).complete:
            return False
        gone = self._place(binding).left | self.absent
        open_tests = [test for test in self.tests if not test.determined(binding, gone)]
        return all(test.holds(stream.columns, binding) for test in open_tests)


def _too_many(count: int, position: int, stream: Stream, max_runs: int) -> PlanError:
    return PlanError(
        f"{count} runs are alive at event {position}, time {stream.times[position]}: more than {max_runs}",
        hint="shorten WITHIN, add predicates, use skip_till_next_match, or raise Options(max_runs=…)",
    )
