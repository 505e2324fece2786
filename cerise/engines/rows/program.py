"""A MATCH_RECOGNIZE clause, compiled: the instructions of its pattern, and its conditions as code.

Numba is not imported here: a program is text and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cerise.engines.rows.conditions import parted, write_conditions
from cerise.engines.rows.instructions import Code, compile_pattern
from cerise.engines.rows.scope import Conditions, Unfit
from cerise.pattern.row_pattern import BoundRows

MOST_LABELS = 62
KEPT = 256  # programs that stay in memory


@dataclass(frozen=True, slots=True)
class Program:
    """A clause, ready to search.

    Attributes:
        bound: the clause.
        code: its pattern.
        alone: what is asked of the row to be mapped alone; None: nothing.
        conditions: all else that is asked.
        decided: the labels of which something is asked of the row to be mapped alone.
    """

    bound: BoundRows
    code: Code
    alone: Conditions | None
    conditions: Conditions
    decided: frozenset[str]

    @property
    def needs(self) -> int:
        """A bit for each label without which there is nothing to find in a partition."""
        within = self.bound.within
        return 0 if within is not None and within.timeouts else self.code.needs


def compile_rows(bound: BoundRows) -> Program:
    """Return the program of a clause; that of an equal clause of the same text, where there is one.

    Raises:
        Unfit: where this engine cannot run it.
    """
    return _compiled(_Clause(bound))


class _Clause:
    """A clause as a key: equal clauses of different texts may differ in the sign of a zero."""

    def __init__(self, bound: BoundRows) -> None:
        self.bound = bound

    def __hash__(self) -> int:
        return hash(self.bound.text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Clause):
            return NotImplemented
        one, two = self.bound, other.bound
        return one is two or (one.text is not None and one.text == two.text and one == two)


@lru_cache(maxsize=KEPT)
def _compiled(clause: _Clause) -> Program:
    bound = clause.bound
    if len(bound.labels) > MOST_LABELS:
        raise Unfit(f"it has more than {MOST_LABELS} variables")
    single, rest = parted(bound)
    alone = write_conditions(single) if single.conditions else None
    decided = frozenset(each.label for each in single.conditions)
    return Program(bound, compile_pattern(bound.pattern), alone, write_conditions(rest), decided)


def why_not(bound: BoundRows) -> str | None:
    """Say why this engine cannot run a clause; None where it can."""
    try:
        compile_rows(bound)
    except Unfit as reason:
        return str(reason)
    return None


def describe(program: Program) -> dict[str, str]:
    """Say, by name, how a clause is searched."""
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
