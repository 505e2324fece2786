"""Patterns as joins, for tests of plans: from letters, and at random."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations

from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, JoinTest, Tree

A, B, C, D, E, F, G, H = range(8)
OPS = ("=", "!=", "<", "<=", ">", ">=")


def seq(types: str, *tests: JoinTest, window: float = math.inf, kleene: str = "") -> JoinPattern:
    """SEQ of types, each a letter: the leaf of A is 0."""
    before = tuple((1 << place) - 1 for place in range(len(types)))
    repeated = sum(1 << types.index(each) for each in kleene)
    return JoinPattern(leaves_of(types), before, tests, window, kleene=repeated)


def conjunction(types: str, *tests: JoinTest, window: float = math.inf) -> JoinPattern:
    return JoinPattern(leaves_of(types), (0,) * len(types), tests, window)


def leaves_of(types: str) -> tuple[int, ...]:
    return tuple(ord(each) - ord("A") for each in types)


def slots_in(pattern: JoinPattern, types: str) -> int:
    """The slots of some types of a pattern, as a mask."""
    return sum(1 << pattern.leaves.index(leaf) for leaf in leaves_of(types))


def rates(**by_type: float) -> Statistics:
    return Statistics({ord(name) - ord("A"): rate for name, rate in by_type.items()})


# ---- at random


def draw_patterns(rng: random.Random, many: int, **options: float) -> list[JoinPattern]:
    return [draw_pattern(rng, **options) for _ in range(many)]


def draw_pattern(
    rng: random.Random, least: int = 1, most: int = 5, leaves: int = 6, windows: Sequence[float] = (10.0,),
    twice: float = 0.2,
) -> JoinPattern:  # fmt: skip
    """A sequence, a conjunction or something between them, with tests; leaves may come twice."""
    size = rng.randint(least, most)
    twice = 1.0 if size > leaves else twice
    chosen = rng.choices(range(leaves), k=size) if rng.random() < twice else rng.sample(range(leaves), size)
    density = rng.choice([0.0, 0.5, 1.0])
    before: list[int] = []
    for _ in range(size):
        earlier = (i for i in range(len(before)) if rng.random() < density)
        before.append(reduce(lambda mask, i: mask | before[i] | 1 << i, earlier, 0))
    pairs = [pair for pair in combinations(range(size), 2) if rng.random() < 0.4]
    tests = tuple(JoinTest(i, rng.choice(OPS[::2]), j, rng.randrange(2), rng.randrange(2)) for i, j in pairs)
    return JoinPattern(tuple(chosen), tuple(before), tests, rng.choice(windows))


def draw_statistics(rng: random.Random, leaves: int = 12) -> Statistics:
    return Statistics({leaf: math.exp(rng.uniform(-2, 2)) for leaf in range(leaves)}, longest=10.0)


# ---- all plans


def all_trees(slots: Sequence[int]) -> Iterator[Tree]:
    """Yield each tree of some slots once: (2n - 3)!! of them."""
    if len(slots) == 1:
        yield slots[0]
    first, rest = slots[:1], slots[1:]
    for count in range(len(rest)):
        for chosen in combinations(rest, count):
            left = [*first, *chosen]
            right = [slot for slot in rest if slot not in chosen]
            yield from ((one, other) for one in all_trees(left) for other in all_trees(right))
