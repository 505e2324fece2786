"""The table of sub-patterns of a workload: each set of slots of each pattern has a number.

Sub-patterns with the same key have the same number, so the table is the multi-pattern graph of [002 App. A]
in the form that searches need: number → patterns. 1000 patterns of 5 slots have 31,000 sets; the table takes
some 0.1 s. Numbers come from sums of random codes, 128 bits wide: the code of a set of slots is the sum of
the codes of its leaves and of its pairs. Where a leaf comes twice, its key is looked up instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from cerise.kernels.join_dp import FloatArray, IntArray, JoinPlan, JoinTables
from cerise.pattern.expr import FLIPPED
from cerise.plan.cost import CANDIDATE, PROBE, ROW
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Tree, bits, key_of
from cerise.plan.multi.local_plans import MOST_ITEMS, greedy
from cerise.plan.multi.mask_rows import EntryFacts, PatternGroup, pack_slots

PRICES = {"paper": (0.0, 1.0, 0.0), "ours": (CANDIDATE, ROW, PROBE)}
EVEN = 1 + 1e-9  # of weights: they are equal up to this factor, less is rounding
SEED = 2019  # of the codes: a workload has the same table in every process
Codes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Workload:
    """Patterns, the tables of their sub-patterns, and the patterns that are planned.

    Attributes:
        patterns: all patterns.
        tables: what kernels read.
        slots: for each pattern the slots that are planned, sorted by leaf: number in the table → slot.
        tails: for each pattern the slots beyond the first ten, which are joined one by one.
        active: one pattern of each sub-pattern that patterns are: equal ones share its tree.
    """

    patterns: tuple[JoinPattern, ...]
    tables: JoinTables
    slots: tuple[tuple[int, ...], ...]
    tails: tuple[tuple[int, ...], ...]
    active: IntArray

    def tree(self, p: int, halves: IntArray) -> Tree:
        """Return the tree of a pattern from the halves of its nodes, by entry."""
        tree = self._tree(p, halves, (1 << len(self.slots[p])) - 1)[1]
        for slot in self.tails[p]:
            tree = (tree, slot)
        return tree

    def _tree(self, p: int, halves: IntArray, mask: int) -> tuple[tuple[int, int], Tree]:
        """Return a tree after its place beside a sibling: larger ones first, then by their first slots."""
        if mask & (mask - 1) == 0:
            slot = self.slots[p][mask.bit_length() - 1]
            return (-1, slot), slot
        left = int(halves[self.tables.start[p] + mask])
        one, other = sorted(self._tree(p, halves, half) for half in (left, mask ^ left))
        return (one[0][0] + other[0][0], min(one[0][1], other[0][1])), (one[1], other[1])

    def halves(self, trees: Sequence[Tree]) -> IntArray:
        """Return the halves of the nodes of trees, by entry: the inverse of `tree`."""
        found = np.zeros(len(self.tables.ids), np.int64)
        for p, tree in enumerate(trees):
            place = {slot: number for number, slot in enumerate(self.slots[p])}
            self._halve(int(self.tables.start[p]), place, tree, found)
        return found

    def _halve(self, start: int, place: dict[int, int], tree: Tree, halves: IntArray) -> int:
        if isinstance(tree, int):
            return 1 << place[tree] if tree in place else 0
        one, other = (self._halve(start, place, half, halves) for half in tree)
        if one and other:
            halves[start + (one | other)] = one
        return one | other

    def empty_plan(self) -> JoinPlan:
        """Return a plan without patterns."""
        count, most = len(self.tables.codes), 1 << int(self.tables.sizes.max(initial=1))
        split, users, top = np.zeros((3, count), np.int64)
        return JoinPlan(
            split, users, top, np.zeros(count), np.zeros(len(self.patterns), np.int64), np.zeros(1),
            np.zeros(1, np.int64), np.zeros(most), np.zeros(most, np.int64), np.zeros(64, np.int64),
        )  # fmt: skip


def number_workload(patterns: Sequence[JoinPattern], stats: Statistics, cost: str = "ours") -> Workload:
    """Return the table of sub-patterns of a workload, with the rows of each.

    >>> one, two = JoinPattern((7, 3, 5), (0, 0b001, 0b011)), JoinPattern((7, 5), (0, 0b01))
    >>> tables = number_workload([one, two], Statistics()).tables
    >>> int(tables.ids[tables.start[0] + 0b110]) == int(tables.ids[tables.start[1] + 0b11])  # A and C
    True
    """
    parts = [_choose_slots(each, stats, cost) for each in patterns]
    sizes = np.array([len(slots) for slots, _ in parts], np.int64)
    start = np.concatenate([[0], np.cumsum(1 << sizes)]).astype(np.int64)
    codes = np.zeros((2, int(start[-1])), np.uint64)
    facts = EntryFacts(np.zeros(start[-1]), np.zeros(start[-1]), *np.zeros((3, int(start[-1])), np.int64))
    namer = _Namer()
    for size in sorted(set(sizes.tolist())):
        chosen = np.flatnonzero(sizes == size)
        group = PatternGroup.of([(patterns[p], parts[p][0]) for p in chosen.tolist()], stats, cost)
        entries = (start[chosen][:, None] + np.arange(1 << size)).ravel()
        facts.write(entries, group, np.repeat(chosen, 1 << size), timed=cost != "paper")
        codes[:, entries] = namer.codes(group).reshape(2, -1)
        namer.name_by_key(group, start[chosen], codes, facts.places)
    ids = _number(codes, sizes)
    weights = _weigh(patterns, stats, facts, ids, cost)
    active = _one_of_each(ids[start[1:] - 1], weights[start[1:] - 1], sizes)
    equal = _equalities(patterns, parts, stats)
    tables = _assemble(facts, (start[:-1], sizes), (ids, weights), active, equal, PRICES[cost])
    return Workload(
        tuple(patterns), tables, tuple(each for each, _ in parts), tuple(each for _, each in parts), active
    )


def _choose_slots(
    pattern: JoinPattern, stats: Statistics, cost: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the slots that are planned, sorted by leaf, and the slots that follow them."""
    order: Sequence[int] = range(len(pattern))
    if len(pattern) > MOST_ITEMS:
        order = greedy(pattern, stats, (), cost)
    return tuple(sorted(order[:MOST_ITEMS], key=lambda slot: (pattern.leaves[slot], slot))), tuple(
        order[MOST_ITEMS:]
    )


# ---- numbers of sub-patterns


@dataclass(slots=True)
class _Namer:
    """Gives random codes to leaves, pairs of leaves and keys."""

    seen: dict[Hashable, int] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    drawn: Codes = field(default_factory=lambda: np.zeros((2, 0), np.uint64))

    def draw(self, things: npt.NDArray[np.int64]) -> Codes:
        while (missing := len(self.seen) - self.drawn.shape[1]) > 0:
            more = self.rng.integers(0, 2**64, (2, missing), np.uint64)
            self.drawn = np.concatenate([self.drawn, more], 1)
        return self.drawn[:, things]

    def number(self, thing: Hashable) -> int:
        return self.seen.setdefault(thing, len(self.seen))

    def codes(self, group: PatternGroup) -> Codes:
        """Return the codes of all masks of all patterns of a group."""
        leaves, pairs = self._things(group)
        codes = np.zeros((2, len(leaves), 1 << group.size), np.uint64)
        codes[:, :, 0] = self.draw(np.array([self.number((each.scope,)) for each, _ in group.patterns]))
        single, double = self.draw(leaves), self.draw(pairs)
        for i in range(group.size):
            with_i = np.zeros((2, len(leaves), 1 << i), np.uint64)
            for j in range(i):
                with_i[:, :, 1 << j : 2 << j] = with_i[:, :, : 1 << j] + double[:, :, i, j, None]
            codes[:, :, 1 << i : 2 << i] = codes[:, :, : 1 << i] + with_i + single[:, :, i, None]
        return codes

    def _things(self, group: PatternGroup) -> tuple[IntArray, IntArray]:
        """Return the numbers of leaves, and of pairs of slots: their leaves, order and tests."""
        leaves = np.zeros((len(group.patterns), group.size), np.int64)
        pairs = np.zeros((len(group.patterns), group.size, group.size), np.int64)
        for p, (pattern, slots) in enumerate(group.patterns):
            tests: dict[tuple[int, int], set[tuple[str, int, int]]] = defaultdict(set)
            for test in pattern.tests:
                tests[test.left, test.right].add((test.op, test.left_side, test.right_side))
                tests[test.right, test.left].add((FLIPPED[test.op], test.right_side, test.left_side))
            leaves[p] = [self.number(pattern.leaves[slot]) for slot in slots]
            for (j, low), (i, high) in combinations(enumerate(slots), 2):
                order = (pattern.before[high] >> low & 1) - (pattern.before[low] >> high & 1)
                told = frozenset(tests[low, high]) if (low, high) in tests else None
                pairs[p, i, j] = self.number((pattern.leaves[low], pattern.leaves[high], order, told))
        return leaves, pairs

    def name_by_key(self, group: PatternGroup, start: IntArray, codes: Codes, places: IntArray) -> None:
        """Give the codes and places of their keys to masks in which a leaf comes twice."""
        for p, (pattern, slots) in enumerate(group.patterns):
            leaves = [pattern.leaves[slot] for slot in slots]
            if len(set(leaves)) == len(leaves):
                continue
            for mask in range(1 << len(slots)):
                if len({leaves[i] for i in bits(mask)}) < mask.bit_count():
                    key, order = key_of(pattern, sum(1 << slots[i] for i in bits(mask)))
                    entry = start[p] + mask
                    codes[:, entry] = self.draw(np.array([self.number(("key", key))]))[:, 0]
                    places[entry] = pack_slots([slots.index(slot) for slot in order])


def _number(codes: Codes, sizes: IntArray) -> IntArray:
    """Return the numbers of sub-patterns of two slots and more, by entry; -1 for the others."""
    masks = np.concatenate([np.arange(1 << size) for size in sizes.tolist()] or [np.zeros(0, np.int64)])
    several = np.flatnonzero(masks & (masks - 1))
    order = several[np.lexsort(codes[:, several])]
    new = np.ones(len(order), bool)
    new[1:] = (codes[:, order[1:]] != codes[:, order[:-1]]).any(0)
    ids = np.full(len(masks), -1, np.int64)
    ids[order] = np.cumsum(new) - 1
    return ids


def _weigh(
    patterns: Sequence[JoinPattern], stats: Statistics, facts: EntryFacts, ids: IntArray, cost: str
) -> FloatArray:
    """Return the weights of entries: of those who share a node, the heaviest pays for it.

    That is the one with the largest window. Where the paper's cost counts subsets of Kleene events, only
    some of a node's patterns may have them: then it is the one with most rows.
    """
    windows = np.array([stats.window(each) for each in patterns], np.float64)
    weights: FloatArray = windows[facts.owner] if len(patterns) else np.zeros(0)
    if cost == "paper":
        some = np.array([each.kleene != 0 for each in patterns], bool)[facts.owner] & (ids >= 0)
        by_rows = np.isin(ids, ids[some]) & (ids >= 0)
        weights[by_rows] = facts.rows[by_rows]
    return weights


def _one_of_each(roots: IntArray, weights: FloatArray, sizes: IntArray) -> IntArray:
    """Return one pattern for each whole pattern, the heaviest; those of one slot not."""
    order = np.lexsort((np.arange(len(roots)), -weights, roots))
    first = np.ones(len(order), bool)
    first[1:] = roots[order[1:]] != roots[order[:-1]]
    return np.sort(order[first & (sizes[order] > 1)])


# ---- the tables of kernels

Equalities = tuple[IntArray, IntArray, IntArray, FloatArray]


def _equalities(
    patterns: Sequence[JoinPattern],
    parts: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    stats: Statistics,
) -> Equalities:
    first, found = [0], []
    for pattern, (slots, _) in zip(patterns, parts, strict=True):
        place = {slot: number for number, slot in enumerate(slots)}
        found += [
            (1 << place[each.left], 1 << place[each.right], stats.share(pattern, each))
            for each in pattern.tests
            if each.op == "=" and each.left in place and each.right in place
        ]
        first.append(len(found))
    one, other = (np.array([each[side] for each in found], np.int64) for side in (0, 1))
    return np.array(first, np.int64), one, other, np.array([each[2] for each in found], np.float64)


def _assemble(
    facts: EntryFacts,
    by_pattern: tuple[IntArray, IntArray],
    by_entry: tuple[IntArray, FloatArray],
    active: IntArray,
    equal: Equalities,
    prices: tuple[float, float, float],
) -> JoinTables:
    (start, sizes), (ids, weights) = by_pattern, by_entry
    count = int(ids.max(initial=-1)) + 1
    held = np.flatnonzero((ids >= 0) & np.isin(facts.owner, active))
    held = held[np.argsort(ids[held], kind="stable")]
    first = np.searchsorted(ids[held], np.arange(count + 1)).astype(np.int64)
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, ids[held], weights[held])
    np.maximum.at(most, ids[held], weights[held])
    codes = np.random.default_rng(SEED).integers(1, 2**45, count)
    return JoinTables(
        start, sizes, ids, facts.places, facts.rows, facts.made, facts.below, facts.owner, weights, *equal,
        first, held, (most <= least * EVEN).astype(np.int64), codes, np.array(prices),
    )  # fmt: skip
