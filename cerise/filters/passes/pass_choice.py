"""Chooses the variables that passes verify, by a sample of the files, and whether passes pay.

Few events lie near those of a rare variable. So a pass that reads a few columns saves the exchange of most
others. A sample knows how rare a variable is, and how many partitions share the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, prod

import numpy as np
import pyarrow as pa

from cerise.filters.passes.pass_branches import PassBranch, PassVariable
from cerise.filters.passes.pass_filter import EventColumns
from cerise.filters.passes.summaries import Passes
from cerise.plan.intervals import Ints
from cerise.plan.pushdown import Needed
from cerise.plan.router import Router, router_of

MOST_PASSES = 3
EDGE_COUNTS = 0.5  # a variable whose equality with a verified one shrinks covered time further
EXCHANGED_US, READ_US, ASKED_US, JOB_US = 0.45, 0.06, 0.12, 300_000.0  # per event; and per further pass
MOST_ENTRIES = 4_000_000  # events of a variable whose covered time a filter holds, over all tasks


@dataclass(frozen=True, slots=True)
class Glance:
    """Facts about files before they are read.

    Attributes:
        sample: some rows.
        rows: how many rows there are.
        span: how much time they cover.
        tasks: how many tasks read them.
        cores: how many tasks run at a time.
    """

    sample: pa.Table
    rows: int
    span: int
    tasks: int
    cores: int


@dataclass(frozen=True, slots=True)
class _Share:
    """Which share of the events fits a variable, and which share of all time its events cover."""

    name: str
    events: float
    covered: float


def choose_passes(
    branches: tuple[PassBranch, ...], wanted: Needed | None, glance: Glance, asked: int | None
) -> Passes | str:
    """Return the passes that pay, or the reason why events are exchanged at once.

    Args:
        branches: the branches of all queries.
        wanted: the tests of events that any variable needs; None: all events are needed.
        glance: facts about the files.
        asked: how many passes the user asks for, from 2 on; None: as many as pay.
    """
    order = [_order(branch, glance) for branch in branches]
    shares = _measure_needs(wanted, glance)
    of_all = round(shares * glance.rows)
    best: Passes | str = "no variable is rare enough"
    cost = of_all * EXCHANGED_US / glance.cores
    for count in range(1, (asked or MOST_PASSES)):
        tried = _plan(branches, wanted, glance, [several[:count] for several in order], of_all)
        if len(tried.steps) < count:
            break
        price = _price(tried, glance)
        if asked or price < cost:
            best, cost = tried, price
    return best


def _plan(
    branches: tuple[PassBranch, ...],
    wanted: Needed | None,
    glance: Glance,
    chosen: Sequence[Sequence[_Share]],
    of_all: int,
) -> Passes:
    count = max(map(len, chosen), default=0)
    names = [[each.name for each in several] for several in chosen]
    steps = tuple(
        tuple(several[step] if step < len(several) else None for several in names) for step in range(count)
    )
    expected = []
    for step in range(count + 1):
        left = [_estimate_share(several[:step]) for several in chosen]
        if step < count:
            each = [
                near * several[step].events
                for (near, _), several in zip(left, chosen, strict=True)
                if several[step:]
            ]
            expected.append(round(min(1.0, sum(each)) * glance.rows))
        else:
            own = sum(first for _, first in left) * glance.rows
            expected.append(min(of_all, round(own + min(1.0, sum(near for near, _ in left)) * of_all)))
    most = max(1, MOST_ENTRIES // max(glance.tasks, 1))
    return Passes(branches, steps, wanted, most, tuple(expected), of_all)


def _estimate_share(verified: Sequence[_Share]) -> tuple[float, float]:
    """Return which share of all time is covered after some variables, and which share of events cover it."""
    near = prod(each.covered for each in verified)
    own = min((each.events for each in verified), default=0.0) * prod(each.covered for each in verified[1:])
    return near, own


def _price(passes: Passes, glance: Glance) -> float:
    """Return the microseconds that passes take, with the exchange of the events inside."""
    *verified, exchanged = passes.expected
    work = len(verified) * glance.rows * READ_US + sum(verified) * ASKED_US
    work += passes.of_all * ASKED_US + exchanged * EXCHANGED_US
    return work / glance.cores + len(verified) * JOB_US


def _order(branch: PassBranch, glance: Glance) -> list[_Share]:
    """Return the variables of a branch from the one that leaves least covered time on, equal tests once."""
    events = EventColumns(glance.sample)
    routed = Router([each.tests for each in branch.variables]).route(glance.sample)
    partitions = _estimate_partitions(events.partition(branch.partition), glance)
    left = [
        _share(each, len(routed.of(leaf)), branch, glance, partitions)
        for leaf, each in enumerate(branch.variables)
    ]
    found: list[_Share] = []
    while left:
        known = {each.name for each in found}
        best = min(
            left,
            key=lambda each: each.covered * (EDGE_COUNTS if any(branch.list_edges(each.name, known)) else 1),
        )
        left.remove(best)
        tests = {branch.variable(each.name).tests for each in found}
        if branch.variable(best.name).tests not in tests or any(branch.list_edges(best.name, known)):
            found.append(best)
    return found


def _share(
    variable: PassVariable, fits: int, branch: PassBranch, glance: Glance, partitions: float
) -> _Share:
    events = (fits + 0.5) / (len(glance.sample) + 1)
    reach = variable.before + variable.after + 2 * branch.tick
    density = events * glance.rows / partitions * reach / max(glance.span, 1)
    return _Share(variable.name, events, 1 - exp(-density) if variable.tests else 1.0)


def _measure_needs(wanted: Needed | None, glance: Glance) -> float:
    if wanted is None or not len(glance.sample):
        return 1.0
    return float(router_of(wanted).mask(glance.sample).mean())


def _estimate_partitions(keys: Ints | None, glance: Glance) -> float:
    """Return about how many partitions there are, by how many the sample has once and twice [Chao 1984]."""
    if keys is None or not len(keys):
        return 1.0
    _, counts = np.unique(keys, return_counts=True)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return min(float(glance.rows), len(counts) + once * max(once - 1, 0) / (2 * (twice + 1)))
