"""Joins skip runs of rows that fail an inequality: no pair of rows is lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.tree.team import JoinTeam
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.plan.joins import Tree

SIZE, WINDOW = 9_000, 3_000
OPS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def stream(seed: int, *, walk: bool) -> pa.Table:
    """Half of the events are A, half B; x is a random walk, or uniform, and sometimes null."""
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.normal(size=SIZE)) if walk else rng.uniform(0, 100, SIZE)
    kinds = np.where(rng.random(SIZE) < 0.5, "A", "B")
    nulls = rng.random(SIZE) < 0.01
    return pa.table({"t": np.arange(SIZE), "kind": kinds, "x": pa.array(x, mask=nulls)})


def bound_to(text: str, table: pa.Table) -> Bound:
    return bind(parse(text), Schema(table.schema, "t", "kind"))


def count_pairs(table: pa.Table, op: str, shift: float, *, ordered: bool) -> int:
    """Compare every A with all B's within the window."""
    x, kinds = table["x"].to_numpy(), np.array(table["kind"].to_pylist())
    total = 0
    for a in np.flatnonzero((kinds == "A") & ~np.isnan(x)):
        low = a if ordered else max(0, a - WINDOW)
        near = np.arange(low, min(SIZE, a + WINDOW + 1))
        near = near[(kinds[near] == "B") & ~np.isnan(x[near])]
        total += int(OPS[op](x[near], x[a] + shift).sum())
    return total


def count_joined(bound: Bound, table: pa.Table, tree: Tree, batch: int, limits: Limits) -> tuple[int, int]:
    """Return how many matches joins count, and how many pairs of rows they look at."""
    team = JoinTeam([bound], Options(max_runs=100_000_000, limits=limits))
    events = EventBatch.of(table, bound.schema, reads=bound.ties)
    team.given = replace(team.make_plan(events), trees=(tree,))
    team.reset()
    parts = (events.slice(start, min(start + batch, SIZE)) for start in range(0, SIZE, batch))
    found = chain(*(team.feed(part) for part in parts), team.flush())
    total = sum(each.counted or 0 for _, each in found)
    return total, team.report.team.candidates


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("pattern", ["SEQ", "AND"])
@pytest.mark.parametrize("walk", [False, True])
def test_no_pair_is_lost(op: str, pattern: str, walk: bool) -> None:
    table = stream([*OPS].index(op), walk=walk)
    shift = 97.0 if op.startswith(">") else -97.0
    text = f"""PATTERN {pattern}(A a, B b) USE skip_till_any_match
        WHERE b.x {op} a.x + {shift} WITHIN {WINDOW} RETURN COUNT(*)"""
    bound = bound_to(text, table)
    expected = count_pairs(table, op, shift, ordered=pattern == "SEQ")
    for tree, batch in (((0, 1), SIZE), ((1, 0), 700)):
        for limits in (Limits(), replace(Limits(), first_rows=16, small_rows=16, joined_events=97)):
            total, candidates = count_joined(bound, table, tree, batch, limits)
            assert total == expected
            assert candidates < SIZE * WINDOW // 10


def test_what_many_pairs_pass_is_not_skipped() -> None:
    table = stream(9, walk=False)
    text = f"PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE b.x < a.x WITHIN {WINDOW} RETURN COUNT(*)"
    total, candidates = count_joined(bound_to(text, table), table, (0, 1), SIZE, Limits())
    assert total == count_pairs(table, "<", 0.0, ordered=True)
    assert candidates > 2 * total * 0.95
