"""Compiles a bound query to a program: source code for its formulas, and tables for the kernels.

A program is text and numbers: this module makes no machine code and does not import numba.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from cerise.engines.automaton.automaton import Automaton, build, looks_ahead
from cerise.engines.automaton.codegen import ModuleWriter
from cerise.engines.automaton.derived import DerivedColumn, need_order, only_literals, plain
from cerise.engines.automaton.layout import (
    COUNTED_NODE_WORDS,
    MERGED_NODE_WORDS,
    NODE_WORDS,
    ProgramLayout,
    Tables,
    Widths,
)
from cerise.errors import PlanError
from cerise.events import Path
from cerise.pattern.bound import Bound, Branch, Conjunct
from cerise.pattern.query import Output, Strategy, Unit
from cerise.pattern.show import show

MAX_FORMULAS = 1000
WAYS_OUT = "ask for RETURN COUNT(*), use cerise.compressed, shorten WITHIN, add predicates"


class Unfit(Exception):
    """Raised for a query that an engine cannot run; the message says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A query, ready for its kernels.

    Attributes:
        bound: the query.
        automata: the branches that can match at all.
        source: the generated module.
        layout: the positions of values in runs, nodes and candidates.
        widths: how many words a run, a node and a candidate have.
        tables: the automata as numbers.
        derived: the columns that are computed before matching.
        ordered: whether strings are compared by order, not only for equality.
        literal_only: the string attributes that are only compared with strings of the query.
        merging: whether equivalent runs are merged.
        why_not_merging: why runs cannot be merged; None: they can, or merging is off.
        history: whether formulas loop over the events of a run.
        mode: the strategy as a number for the kernels: 0 contiguous, 1 next, 2 any.
        by_position: whether the window counts events.
        counts_only: whether the query asks only how many matches there are.
    """

    bound: Bound
    automata: tuple[Automaton, ...]
    source: str
    layout: ProgramLayout
    widths: Widths
    tables: Tables
    derived: dict[Path, DerivedColumn]
    ordered: bool
    literal_only: frozenset[Path]
    merging: bool
    why_not_merging: str | None
    history: bool
    mode: int
    by_position: bool
    counts_only: bool


@functools.lru_cache(maxsize=64)
def program_of(bound: Bound, *, merging: bool) -> Program:
    """Return the program of a query, written once."""
    return compile_program(bound, merging=merging)


def compile_program(bound: Bound, *, merging: bool) -> Program:
    """Return the program of a query.

    Raises:
        Unfit: the query is beyond this engine.
    """
    derived: dict[Path, DerivedColumn] = {}
    branches = [_derive(branch, derived) for branch in bound.branches]
    if len({frozenset(v.name for v in branch.variables) for branch in branches}) < len(branches):
        raise Unfit("two branches of its OR bind the same variables")
    if _chooses(bound) and any(looks_ahead(branch) for branch in branches):
        raise Unfit(
            "it chooses among matches that a NOT at their end leaves open until the window has passed"
        )
    names = frozenset(var.name for var in bound.variables)
    automata = []
    for branch in branches:
        here = frozenset(var.name for var in branch.variables)
        automaton = build(branch, bound.kleene, names - here)
        if automaton.too_large:
            raise Unfit("its AND has more than a thousand states")
        if automaton.possible:
            automata.append(automaton)
    why_not = _why_not_merge(bound)
    merges = merging and why_not is None
    counts = bound.query.counts_only
    words = NODE_WORDS if not merges else COUNTED_NODE_WORDS if counts else MERGED_NODE_WORDS
    writer = ModuleWriter(bound, automata, ProgramLayout(words))
    source = writer.source()
    if writer.formulas > MAX_FORMULAS:
        raise Unfit(f"its AND needs {writer.formulas} different formulas")
    if (too_wide := writer.layout.too_wide()) is not None or len(names) > 62:
        raise Unfit(too_wide or "it has more than 62 variables")
    return Program(
        bound, tuple(automata), source, writer.layout, writer.layout.widths, writer.rows.tables(), derived,
        need_order(branches), only_literals(branches), merges,
        why_not if merging else None, writer.history, _mode(bound.query.strategy),
        bound.within is not None and bound.within.unit is Unit.EVENTS, counts,
    )  # fmt: skip


def _mode(strategy: Strategy) -> int:
    return 0 if strategy.contiguous else 1 if strategy is Strategy.NEXT else 2


def _why_not_merge(bound: Bound) -> str | None:
    """Say why runs with equal futures cannot be merged; None: they can."""
    if any(branch.negations for branch in bound.branches):
        return "a NOT looks at what each run has bound"
    return "matches are chosen one by one" if _chooses(bound) else None


def _chooses(bound: Bound) -> bool:
    """Whether the query wants a choice of its matches, not all of them."""
    return bound.query.output is Output.NON_OVERLAPPING or bound.query.limit is not None


def _derive(branch: Branch, derived: dict[Path, DerivedColumn]) -> Branch:
    """Replace text computations in a branch by derived columns."""

    def change(conjunct: Conjunct) -> Conjunct:
        return replace(conjunct, expr=plain(conjunct.expr, derived))

    return replace(
        branch,
        conjuncts=tuple(map(change, branch.conjuncts)),
        negations=tuple(replace(n, tests=tuple(map(change, n.tests))) for n in branch.negations),
    )


def too_many_matches(program: Program, count: int, point: int) -> PlanError:
    """Return the error for an event that completes more matches than the budget allows."""
    unit = "position" if program.by_position else "time"
    return PlanError(
        f"one event, at {unit} {point}, completes more than {count} matches of the query\n"
        f"{show(program.bound.query)}",
        hint=f"{WAYS_OUT}, add LIMIT n PER EVENT, or raise Options(max_runs=…)",
    )
