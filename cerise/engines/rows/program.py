"""Compiles a MATCH_RECOGNIZE clause: its pattern into instructions, its conditions into source code.

A program is text and numbers, so this module does not import Numba.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from cerise.engines.rows.conditions import split_conditions, write_conditions
from cerise.engines.rows.instructions import Code, compile_pattern
from cerise.engines.rows.paths import know_by_values, list_followers, mark_tests, may_come_twice
from cerise.engines.rows.records import REGISTER
from cerise.engines.rows.scope import Conditions, UnfitRows
from cerise.pattern.row_pattern import BoundRows

MOST_LABELS = 62
KEPT = 256  # programs in the cache


@dataclass(frozen=True, slots=True)
class Program:
    """A clause, ready to search.

    Attributes:
        bound: the clause.
        code: the instructions of its pattern.
        alone: the conditions on the row to be mapped alone; None: no condition.
        conditions: all other conditions.
        decided: the labels with a condition in `alone`.
        remembers: whether a search can come to a state twice, so that it needs a memo.
    """

    bound: BoundRows
    code: Code
    alone: Conditions | None
    conditions: Conditions
    decided: frozenset[str]
    remembers: bool

    @property
    def needs(self) -> int:
        """A bit for each label that a partition must have to yield a result."""
        within = self.bound.within
        return 0 if within is not None and within.timeouts else self.code.needs


def compile_rows(bound: BoundRows) -> Program:
    """Return the program of a clause; equal clauses of the same text share one.

    Raises:
        UnfitRows: this engine cannot run the clause.
    """
    return _compiled(_Clause(bound))


class _Clause:
    """A clause as a cache key, with its text: equal clauses may differ in the sign of a zero."""

    def __init__(self, bound: BoundRows) -> None:
        self.bound = bound

    def __hash__(self) -> int:
        return hash(self.bound.text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Clause):
            return NotImplemented
        mine, theirs = self.bound, other.bound
        return mine is theirs or (mine.text is not None and mine.text == theirs.text and mine == theirs)


@lru_cache(maxsize=KEPT)
def _compiled(clause: _Clause) -> Program:
    bound = clause.bound
    if len(bound.labels) > MOST_LABELS:
        raise UnfitRows(f"it has more than {MOST_LABELS} variables")
    single, rest = split_conditions(bound)
    alone = write_conditions(single) if single.conditions else None
    decided = frozenset(each.label for each in single.conditions)
    code, timeouts = compile_pattern(bound.pattern), bound.within is not None and bound.within.timeouts
    followers = [] if timeouts else list_followers(code.rows, len(bound.labels))  # time-outs need every row
    conditions = write_conditions(rest, followers)
    start_sets = None if conditions.from_start else _list_start_sets(bound, conditions)
    remembers = may_come_twice(code.rows, start_sets)
    if remembers:
        know_by_values(conditions, bound)
    marked = replace(code, rows=mark_tests(code.rows, conditions.dependent))
    return Program(bound, marked, alone, conditions, decided, remembers)


def _list_start_sets(bound: BoundRows, conditions: Conditions) -> list[set[int]]:
    """Return the labels of each set whose first or last row is part of every state."""
    known = {register for source, register, n, *_ in conditions.keys if source != REGISTER and n == 0}
    number = {label: i for i, label in enumerate(bound.labels)}
    return [
        {number[each] for each in members if each in number}
        for members, register in conditions.sets.items()
        if register in known
    ]


def why_not(bound: BoundRows) -> str | None:
    """Return why this engine cannot run a clause; None: it can."""
    try:
        compile_rows(bound)
    except UnfitRows as reason:
        return str(reason)
    return None


def describe(program: Program) -> dict[str, str]:
    """Return facts about the search for a clause, by name."""
    asked = program.conditions
    labels = program.bound.labels
    searched = [label for i, label in enumerate(labels) if (asked.dependent >> i) & 1]
    defined = {each.label for each in program.bound.conditions}
    alone = [label for label in labels if label in defined and label not in searched]
    kept = f"; {asked.registers} values are kept for that" if asked.registers else ""
    return {
        "pattern": f"{len(program.code.rows)} instructions over {', '.join(labels) or 'no variable'}",
        "defined": "; ".join(
            [
                *([f"{', '.join(alone)} judged for all rows at once"] if alone else []),
                *([f"{', '.join(searched)} asked during the search{kept}"] if searched else []),
            ]
        )
        or "nothing: every row can be anything",
    }
