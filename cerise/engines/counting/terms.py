"""Steps as sums over keys: the key under which each event is stored, and the keys that a later event sums.

A step with equalities and at most one inequality is a sum over the keys of a bucket (events with equal
values), from its first key to a bound. A `!=` is the sum without it, minus the sum with `=` in its place. Any
other step is a link, whose pairs are tested one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from cerise.engines.counting.model import Bools, ChainStep, Compare, Ints

ORDERED = ("<", "<=", ">", ">=")
MANY = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class KeySum:
    """A sum over keys.

    Args:
        sign: 1 for a sum that is added, -1 for one that is subtracted.
        span: how many keys a bucket has.
        puts: the source layers, each with the key of each of its events; -1: no key.
        target: the layer whose events read the sum.
        low: the first key that each target event sums; -1: it sums none.
        high: the key after the last.
    """

    sign: int
    span: int
    puts: tuple[tuple[int, Ints], ...]
    target: int
    low: Ints
    high: Ints


def terms_and_links(steps: Iterable[ChainStep], sizes: Sequence[int]) -> tuple[list[KeySum], list[ChainStep]]:
    """Split steps into sums and links; `sizes` are the numbers of events of layers, and of triggers."""
    terms: list[KeySum] = []
    links: list[ChainStep] = []
    for group in _alike(steps):
        ops = [each.op for each in group[0].compares]
        if sum(op in ORDERED for op in ops) > 1 or ops.count("!=") > 2:
            links += group
        else:
            terms += _terms(group, sizes)
    return terms, links


def _alike(steps: Iterable[ChainStep]) -> list[list[ChainStep]]:
    """Group steps whose targets read the same keys: they share their sums."""
    groups: list[list[ChainStep]] = []
    for step in steps:
        same = next((group for group in groups if _asks_alike(group[0], step)), None)
        if same is None:
            groups.append([step])
        else:
            same.append(step)
    return groups


def _asks_alike(left: ChainStep, right: ChainStep) -> bool:
    if left.target != right.target or len(left.compares) != len(right.compares):
        return False
    pairs = zip(left.compares, right.compares, strict=True)
    return all(a.op == b.op and np.array_equal(a.right, b.right) for a, b in pairs)


def _terms(group: list[ChainStep], sizes: Sequence[int]) -> Iterator[KeySum]:
    """Yield a sum for each subset of the `!=`, read as `=`, added or subtracted by the subset's size."""
    lengths = [sizes[step.source] for step in group]
    compares = [_concat([step.compares[n] for step in group]) for n in range(len(group[0].compares))]
    differ = [each for each in compares if each.op == "!="]
    order = [each for each in compares if each.op in ORDERED]
    known = [_non_null([each.left for each in compares], sum(lengths))]
    known.append(_non_null([each.right for each in compares], sizes[group[0].target]))
    rank, bound, span = _rank(order, *map(len, known))
    for subset in chain.from_iterable(combinations(differ, size) for size in range(len(differ) + 1)):
        same = [each for each in compares if each.op == "="] + list(subset)
        put_bucket, ask_bucket = _buckets(same, *map(len, known))
        keys = np.where(known[0], put_bucket * span + rank, -1)
        low = np.where(known[1], ask_bucket * span, -1)
        puts = zip([step.source for step in group], np.split(keys, np.cumsum(lengths)[:-1]), strict=True)
        yield KeySum((-1) ** len(subset), span, tuple(puts), group[0].target, low, low + bound)


def _concat(compares: list[Compare]) -> Compare:
    return Compare(compares[0].op, np.concatenate([each.left for each in compares]), compares[0].right)


def _non_null(columns: list[Ints], size: int) -> Bools:
    """Whether no column is null, for each event."""
    known = np.ones(size, np.bool_)
    for each in columns:
        known &= each >= 0
    return known


def _rank(order: list[Compare], puts: int, asks: int) -> tuple[Ints, Ints, int]:
    """Return the rank of each source event, the bound below which each target sums, and how many ranks."""
    if not order:
        return np.zeros(puts, np.int64), np.ones(asks, np.int64), 1
    compare = order[0]
    left, right, count = _dense(compare.left, compare.right)
    if compare.op.startswith(">"):
        left, right = count - 1 - left, count - 1 - right
    return left, right + compare.op.endswith("="), count + 1


def _buckets(same: list[Compare], puts: int, asks: int) -> tuple[Ints, Ints]:
    """Return bucket numbers, equal for events whose compared values are all equal."""
    left, right = np.zeros(puts, np.int64), np.zeros(asks, np.int64)
    for compare in same:
        more_left, more_right, count = _dense(compare.left, compare.right)
        left, right = left * (count + 1) + more_left + 1, right * (count + 1) + more_right + 1
        left, right, _ = _dense(left, right, always=True)
    return left, right


def _dense(left: Ints, right: Ints, *, always: bool = False) -> tuple[Ints, Ints, int]:
    """Return ranks small enough to be multiplied without overflow, and one more than the highest."""
    both = np.concatenate([left, right])
    if always or both.max(initial=0) >= MANY:
        both = np.unique(both, return_inverse=True)[1].reshape(-1)
    return both[: len(left)], both[len(left) :], int(both.max(initial=-1)) + 1
