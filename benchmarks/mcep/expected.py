"""What a pattern is expected to cost, from true rates and selectivities: rows of the trivial plan, matches.

Arrivals are independent and uniform in time. Then a window's length of stream has, for n types in sequence,
`n * r1 * … * rn / n!` tuples of which the last comes within a window of the first, and n! times as many in a
conjunction; each predicate leaves its share of them. This is the cost of 002 with the temporal selectivity
that the paper leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, factorial, prod

from mcep.shapes import Pattern, Window

RARE = 0.05  # matches per row of the trivial plan, at most, of a pattern that alerts


@dataclass(frozen=True, slots=True)
class Facts:
    """Of each type, events per quarter of an hour, and the standard deviation of `diff`."""

    rates: Mapping[str, float]
    spreads: Mapping[str, float]

    def in_window(self, name: str, window: Window) -> float:
        """Return how many events of a type a window has, on average."""
        quarters = window.size / sum(self.rates.values()) if window.counted else window.size / 15
        return self.rates[name] * quarters


def count_rows(pattern: Pattern, facts: Facts) -> float:
    """Return the rows that all joins of the trivial plan keep, per window's length of stream.

    The trivial plan joins types in the order of the pattern; a Kleene variable is one event there.
    """
    return sum(_tuples(pattern, pattern.positive[:end], facts) for end in range(2, len(pattern.positive) + 1))


def count_candidates(pattern: Pattern, facts: Facts) -> float:
    """Return the pairs that all joins of the trivial plan look at, per window's length of stream."""
    total, types = 0.0, pattern.positive
    for end in range(2, len(types) + 1):
        new = [each for each in pattern.predicates if types[end - 1] in (each.left, each.right)]
        inside = [each for each in new if {each.left, each.right} <= set(types[:end])]
        total += _tuples(pattern, types[:end], facts) / prod(each.selectivity for each in inside)
    return total


def count_matches(pattern: Pattern, facts: Facts) -> float:
    """Return the matches per window's length of stream."""
    made = _tuples(pattern, pattern.positive, facts)
    return made * _subsets(pattern, facts) * _absent(pattern, facts)


def _tuples(pattern: Pattern, types: Sequence[str], facts: Facts) -> float:
    inside = (each for each in pattern.predicates if {each.left, each.right} <= set(types))
    made = len(types) * prod(facts.in_window(name, pattern.window) for name in types)
    orders = factorial(len(types)) if pattern.operator == "SEQ" else 1
    return made / orders * prod(each.selectivity for each in inside)


def _subsets(pattern: Pattern, facts: Facts) -> float:
    """Return how many times as many matches as events a Kleene variable gives: its subsets."""
    if pattern.repeated is None:
        return 1.0
    share = _share(pattern, pattern.repeated)
    events = facts.in_window(pattern.repeated, pattern.window)
    return float(((1 + share) ** events - 1) / (share * events))


def _absent(pattern: Pattern, facts: Facts) -> float:
    """Return the probability that no event of the negated type is in the way."""
    if pattern.negated is None:
        return 1.0
    return exp(-_share(pattern, pattern.negated) * facts.in_window(pattern.negated, pattern.window))


def _share(pattern: Pattern, name: str) -> float:
    """Return the share of a window's events of a type that lie in its gap of a match and pass its tests."""
    passed = prod(each.selectivity for each in pattern.predicates if name in (each.left, each.right))
    return passed / len(pattern.types) if pattern.operator == "SEQ" else passed
