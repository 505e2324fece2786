"""Plans the passes over files before an exchange, as a sample of them or the user asks; and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from cerise.engines.base import Options
from cerise.filters.passes.pass_branches import PassBranch
from cerise.filters.passes.pass_choice import Glance, choose_passes
from cerise.filters.passes.pass_filter import EventColumns
from cerise.filters.passes.summaries import Passes
from cerise.pattern.show import show_path
from cerise.plan.needs import Needs
from cerise.plan.pushdown import Needed

LOOKED_ROWS = 1 << 17
SHARES = 3  # tasks that read files, for each core


@runtime_checkable
class Glimpsed(Protocol):
    """An access path to files that shows a few rows before it reads them."""

    @property
    def rows(self) -> int:
        """How many events there are to read, at most."""
        ...

    @property
    def needs(self) -> Needs:
        """The needs of the questions."""
        ...

    def glance(self, names: Sequence[str], rows: int) -> pa.Table:
        """Return columns of some rows."""
        ...


def plan_passes(
    branches: tuple[PassBranch, ...] | str, access: object, options: Options, cores: int
) -> Passes | str:
    """Return the passes before an exchange, or the reason why there are none.

    Args:
        branches: the branches of all queries, or why every event must travel.
        access: the access path of tasks.
        options: how to run.
        cores: how many tasks run at a time, about.
    """
    if options.passes == 1:
        return "passes=1 asks for none"
    if not isinstance(access, Glimpsed):
        return "only files are read twice"
    if isinstance(branches, str):
        return branches
    names = _list_columns(branches, access.needs.filter)
    sample = access.glance(names, LOOKED_ROWS)
    if not len(sample):
        return "no events are left to exchange"
    glance = Glance(sample, access.rows, _measure_span(branches[0], sample), SHARES * cores, cores)
    return choose_passes(branches, access.needs.filter, glance, options.passes)


def _list_columns(branches: Sequence[PassBranch], wanted: Needed | None) -> tuple[str, ...]:
    """Return the columns of times, partitions and tests."""
    paths = [path for branch in branches for path in ((branch.time,), *branch.partition)]
    tests = [test for branch in branches for each in branch.variables for test in each.tests]
    paths += [test.path for test in (*tests, *(test for each in wanted or () for test in each))]
    return tuple(dict.fromkeys(path[0] for path in paths))


def _measure_span(branch: PassBranch, sample: pa.Table) -> int:
    """Return how much time a sample covers, at least one unit."""
    times, missing = EventColumns(sample).times(branch.time)
    known = times if missing is None else times[~missing]
    return max(1, int(known.max()) - int(known.min())) if len(known) else 1


# ---- for `explain`


def explain_passes(passes: Passes | str) -> str:
    """Return the passes as text, or why there is only the exchange."""
    if isinstance(passes, str):
        return f"1: all events that may matter are exchanged ({passes})"
    lines = [f"{len(passes.steps) + 1}, each reads the files"]
    for step, events in enumerate(passes.expected[:-1]):
        lines.append(f"{step + 1}  {_show_step(passes, step)}: about {events:,} events")
    left, of_all = passes.expected[-1], passes.of_all
    kept = "all events inside" if all(each.why_all for each in passes.branches) else "events inside"
    lines.append(f"{len(lines)}  exchanges {kept}: about {left:,} of {of_all:,}")
    return "\n".join(lines)


def _show_step(passes: Passes, step: int) -> str:
    shown = dict.fromkeys(_show_branch(passes, step, number) for number, *_ in passes.walk_variables(step))
    return f"{'shrinks' if step else 'finds'} the time of matches by {' and by '.join(shown)}"


def _show_branch(passes: Passes, step: int, number: int) -> str:
    branch, name = passes.branches[number], passes.steps[step][number]
    assert name is not None
    asked = [edge for edge, _ in branch.list_edges(name, passes.list_before(step, number))]
    equal = "".join(f", equal to {branch.edges[edge].other(name)}" for edge in dict.fromkeys(asked))
    return name + equal + _show_partition(branch)


def _show_partition(branch: PassBranch) -> str:
    return f" in each {', '.join(map(show_path, branch.partition))}" if branch.partition else ""
