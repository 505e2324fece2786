"""Steps as sums over keys: what each event is kept under, and for which keys a later one asks.

A step with equalities and at most one comparison by order is a sum over keys from the first of a bucket (all
that is equal) to a bound. What is unequal is all less what is equal: one more sum, subtracted. Any other step
is a link, whose pairs are gone through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from cerise.engines.counting.model import Bools, Compare, Ints, Step

ORDERED = ("<", "<=", ">", ">=")
MANY = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A sum over keys.

    Args:
        sign: 1 where it is added, -1 where it is subtracted.
        span: how many keys a bucket has.
        puts: source layers, with the key of each of their events; -1 where it has none.
        target: the layer that asks.
        low: the first key that each of its events asks for; -1 where it asks for none.
        high: the key after the last.
    """

    sign: int
    span: int
    puts: tuple[tuple[int, Ints], ...]
    target: int
    low: Ints
    high: Ints


def terms_and_links(steps: Iterable[Step], sizes: Sequence[int]) -> tuple[list[Term], list[Step]]:
    """Return the sums that steps are, and the steps that are none; layers have so many events."""
    terms: list[Term] = []
    links: list[Step] = []
    for group in _alike(steps):
        ops = [each.op for each in group[0].compares]
        if sum(op in ORDERED for op in ops) > 1 or ops.count("!=") > 2:
            links += group
        else:
            terms += _terms(group, sizes)
    return terms, links


def _alike(steps: Iterable[Step]) -> list[list[Step]]:
    """Put steps together whose targets ask for the same: they share their sums."""
    groups: list[list[Step]] = []
    for step in steps:
        same = next((group for group in groups if _asks_alike(group[0], step)), None)
        if same is None:
            groups.append([step])
        else:
            same.append(step)
    return groups


def _asks_alike(one: Step, other: Step) -> bool:
    if one.target != other.target or len(one.compares) != len(other.compares):
        return False
    pairs = zip(one.compares, other.compares, strict=True)
    return all(a.op == b.op and np.array_equal(a.right, b.right) for a, b in pairs)


def _terms(group: list[Step], sizes: Sequence[int]) -> Iterator[Term]:
    """Yield the sums of steps that ask alike: one, and others to subtract what is not to be equal."""
    lengths = [sizes[step.source] for step in group]
    compares = [_joined([step.compares[n] for step in group]) for n in range(len(group[0].compares))]
    differ = [each for each in compares if each.op == "!="]
    order = [each for each in compares if each.op in ORDERED]
    known = [_known([each.left for each in compares], sum(lengths))]
    known.append(_known([each.right for each in compares], sizes[group[0].target]))
    rank, bound, span = _ranked(order, *map(len, known))
    for subset in chain.from_iterable(combinations(differ, size) for size in range(len(differ) + 1)):
        same = [each for each in compares if each.op == "="] + list(subset)
        put_bucket, ask_bucket = _buckets(same, *map(len, known))
        keys = np.where(known[0], put_bucket * span + rank, -1)
        low = np.where(known[1], ask_bucket * span, -1)
        puts = zip([step.source for step in group], np.split(keys, np.cumsum(lengths)[:-1]), strict=True)
        yield Term((-1) ** len(subset), span, tuple(puts), group[0].target, low, low + bound)


def _joined(compares: list[Compare]) -> Compare:
    return Compare(compares[0].op, np.concatenate([each.left for each in compares]), compares[0].right)


def _known(columns: list[Ints], size: int) -> Bools:
    """Return where no column is null."""
    known = np.ones(size, np.bool_)
    for each in columns:
        known &= each >= 0
    return known


def _ranked(order: list[Compare], puts: int, asks: int) -> tuple[Ints, Ints, int]:
    """Return ranks of which each that asks wants those below a bound, the bounds, and how many ranks are."""
    if not order:
        return np.zeros(puts, np.int64), np.ones(asks, np.int64), 1
    compare = order[0]
    left, right, count = _dense(compare.left, compare.right)
    if compare.op.startswith(">"):
        left, right = count - 1 - left, count - 1 - right
    return left, right + compare.op.endswith("="), count + 1


def _buckets(same: list[Compare], puts: int, asks: int) -> tuple[Ints, Ints]:
    """Return numbers that are equal where all of some columns are."""
    left, right = np.zeros(puts, np.int64), np.zeros(asks, np.int64)
    for compare in same:
        more_left, more_right, count = _dense(compare.left, compare.right)
        left, right = left * (count + 1) + more_left + 1, right * (count + 1) + more_right + 1
        left, right, _ = _dense(left, right, always=True)
    return left, right


def _dense(left: Ints, right: Ints, *, always: bool = False) -> tuple[Ints, Ints, int]:
    """Return ranks that are small enough to be multiplied, and one more than the highest."""
    both = np.concatenate([left, right])
    if always or both.max(initial=0) >= MANY:
        both = np.unique(both, return_inverse=True)[1].reshape(-1)
    return both[: len(left)], both[len(left) :], int(both.max(initial=-1)) + 1
