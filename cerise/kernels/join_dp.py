"""Dynamic programming over sub-patterns that many patterns share, and the plan it works on.

A sub-pattern has one number in all patterns, and a plan holds at most one node for it: how its slots are
split. So a plan of the whole workload is `split`, and all sub-trees that can be shared are shared. A pattern
is planned against the nodes of the others: re-planning one of m slots costs O(3^m), 2 µs for 5 slots.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from cerise.kernels.bits import ones
from cerise.kernels.jit import Floats, Ints, boolean, float64, kernel, void

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
INF = np.inf
PLACE, PLACE_BITS = 15, 4  # a slot in a list of slots that is packed into one word
WHOLE = 2**62 - 1  # keeps sums of codes in a word
CANDIDATE, ROW, PROBE = 0, 1, 2  # prices


class JoinTables(NamedTuple):
    """A workload: what the masks of its patterns' slots select. An entry is a pattern and one mask."""

    start: IntArray  # pattern → its first entry; the entry of a mask is `start + mask`
    sizes: IntArray  # pattern → slots
    ids: IntArray  # entry → sub-pattern; -1 for one slot
    places: IntArray  # entry → its slots in the order of the sub-pattern's key, 4 bits each
    rows: FloatArray  # entry → rows in a window
    made: FloatArray  # entry → rows made while a window passes
    below: IntArray  # entry → slots that come before one of its slots
    owner: IntArray  # entry → pattern
    weights: FloatArray  # entry → its window; of those who use a node, the heaviest one pays for it
    equal_first: IntArray  # pattern → its first equality; the last pattern's end follows
    equal_one: IntArray  # equality → the mask of a slot
    equal_other: IntArray  # equality → the mask of the other slot
    equal_share: FloatArray  # equality → the share of pairs that are equal
    holder_first: IntArray  # sub-pattern → its first holder; the last sub-pattern's end follows
    holders: IntArray  # holder → entry
    flat: IntArray  # sub-pattern → whether all its holders have the same weight
    codes: IntArray  # sub-pattern → a random number
    prices: FloatArray  # of candidates, rows and probes


class JoinPlan(NamedTuple):
    """A plan: how sub-patterns are split, and who uses them."""

    split: IntArray  # sub-pattern → one half of its slots, numbered as in its key
    users: IntArray  # sub-pattern → in how many places of patterns' trees it is
    top: IntArray  # sub-pattern → the heaviest entry that uses it
    costs: FloatArray  # sub-pattern → the cost of its node
    present: IntArray  # pattern → whether its tree is in the plan
    total: FloatArray  # one number: the sum of costs
    hashed: IntArray  # one number: a hash of the plan
    best: FloatArray  # mask → the cost of its best sub-tree, of the pattern that was planned last
    choice: IntArray  # mask → one half of it
    stack: IntArray


class Ask(NamedTuple):
    """A question for a tree of one pattern.

    Attributes:
        given: masks that must be nodes of the tree.
        many: how many masks are given.
        free: whether nodes that other patterns use cost nothing.
        deep: whether the tree is left-deep.
        banned: a sub-pattern that must not be a node; -1 for none.
    """

    given: IntArray
    many: int
    free: bool
    deep: bool
    banned: int


def type_of(kind: Any, *floats: str) -> Any:
    """Return the type in kernels of a tuple of arrays; they hold integers, but for those named."""
    if not floats:
        return types.NamedUniTuple(Ints, len(kind._fields), kind)  # type: ignore[no-untyped-call]
    fields = tuple(Floats if name in floats else Ints for name in kind._fields)
    return types.NamedTuple(fields, kind)  # type: ignore[no-untyped-call]


Tables = type_of(JoinTables, "weights", "rows", "made", "equal_share", "prices")
Plan = type_of(JoinPlan, "costs", "total", "best")


# ---- halves of sub-patterns


@kernel()
def spread(split: int, places: int) -> int:
    """Return the mask of the slots of a pattern from a half of a sub-pattern."""
    mask = 0
    while split:
        if split & 1:
            mask |= 1 << (places & PLACE)
        split >>= 1
        places >>= PLACE_BITS
    return mask


@kernel()
def gather(left: int, mask: int, places: int) -> int:
    """Return the half of a sub-pattern from a half of a mask: the half with the key's first slot."""
    if not left >> (places & PLACE) & 1:
        left = mask ^ left
    split = 0
    for i in range(ones(mask)):
        split |= (left >> (places >> (PLACE_BITS * i) & PLACE) & 1) << i
    return split


@kernel()
def price(t: JoinTables, p: int, mask: int, left: int) -> float:
    """Return the cost of a node of a pattern, as `plan.cost` does."""
    right = mask ^ left
    one, other = t.start[p] + left, t.start[p] + right
    cost: float = t.prices[ROW] * t.made[t.start[p] + mask] + t.prices[PROBE] * (t.made[one] + t.made[other])
    if t.prices[CANDIDATE] > 0.0:
        pairs = t.rows[one] * t.rows[other] * reach(left, right, t.below[one], t.below[other])
        cost += t.prices[CANDIDATE] * pairs * share_equal(t, p, left, right)
    return cost


@kernel()
def reach(left: int, right: int, below_left: int, below_right: int) -> float:
    """Return how many windows of rows a row looks at, times the rows made of the looking side."""
    if left & ~below_right == 0:
        return float(ones(right))
    if right & ~below_left == 0:
        return float(ones(left))
    return ones(left) * ones(right) + (ones(left) + ones(right)) / 2


@kernel()
def share_equal(t: JoinTables, p: int, left: int, right: int) -> float:
    """Return the share of pairs of rows that the best index on an equality leaves."""
    share = 1.0
    for i in range(t.equal_first[p], t.equal_first[p + 1]):
        a, b = t.equal_one[i], t.equal_other[i]
        if (a & left and b & right) or (b & left and a & right):
            share = min(share, t.equal_share[i])
    return share


# ---- the best tree of a pattern


@kernel()
def respond(t: JoinTables, plan: JoinPlan, p: int, ask: Ask) -> float:
    """Find the best tree of a pattern that is not in the plan; the splits of used nodes stay.

    Returns:
        The cost of the tree, infinite if there is none; its halves are `plan.choice`.
    """
    first, full = t.start[p], (1 << t.sizes[p]) - 1
    ids, users, best = t.ids, plan.users, plan.best
    for mask in range(1, full + 1):
        if mask & (mask - 1) == 0:
            best[mask] = 0.0
        elif ids[first + mask] == ask.banned or (ask.many > 0 and crosses(ask, mask)):
            best[mask], plan.choice[mask] = INF, mask & -mask  # entered only where others force it
        elif users[ids[first + mask]] > 0:
            keep_split(t, plan, p, mask, ask.free)
        else:
            choose_split(t, plan, p, mask, ask.deep)
    cost: float = best[full]
    return cost


@kernel()
def crosses(ask: Ask, mask: int) -> bool:
    """Whether a mask holds some slots of a given mask but not all, and others."""
    given = ask.given
    for i in range(ask.many):
        both = mask & given[i]
        if both != 0 and both != mask and both != given[i]:
            return True
    return False


@kernel()
def keep_split(t: JoinTables, plan: JoinPlan, p: int, mask: int, free: bool) -> None:
    """Take the node of a sub-pattern as others use it; if they pay, a larger window still costs."""
    entry = t.start[p] + mask
    number = t.ids[entry]
    left = spread(plan.split[number], t.places[entry])
    own = 0.0
    if not free:
        own = price(t, p, mask, left)
    elif t.weights[entry] > t.weights[plan.top[number]]:
        own = max(0.0, price(t, p, mask, left) - plan.costs[number])
    plan.best[mask] = plan.best[left] + plan.best[mask ^ left] + own
    plan.choice[mask] = left


@kernel()
def choose_split(t: JoinTables, plan: JoinPlan, p: int, mask: int, deep: bool) -> None:
    """Find the cheapest split of a mask: all but one slot against one if `deep`, else any."""
    made, rows, below, best, first = (
        t.made,
        t.rows,
        t.below,
        plan.best,
        t.start[p],
    )  # a tuple's arrays are slow
    candidate, probe, least = t.prices[CANDIDATE], t.prices[PROBE], t.prices[ROW] * made[first + mask]
    equal = t.equal_first[p] < t.equal_first[p + 1]
    low = mask & -mask
    cheapest, chosen = INF, low
    rest = mask ^ low
    half = mask if deep else rest
    while half:
        if deep:
            left = mask ^ (half & -half)
            half &= half - 1
        else:
            half = (half - 1) & rest
            left = low | half
        right = mask ^ left
        one, other = first + left, first + right
        cost = best[left] + best[right] + least + probe * (made[one] + made[other])
        if cost < cheapest and candidate > 0.0:
            share = share_equal(t, p, left, right) if equal else 1.0
            pairs = rows[one] * rows[other] * reach(left, right, below[one], below[other])
            cost += candidate * pairs * share
        if cost < cheapest:
            cheapest, chosen = cost, left
    best[mask], plan.choice[mask] = cheapest, chosen


# ---- patterns enter and leave the plan


@kernel()
def pay_node(t: JoinTables, plan: JoinPlan, p: int, mask: int, left: int) -> None:
    """Let a pattern pay for a node: the first to use it pays all, a larger window pays for the difference."""
    entry = t.start[p] + mask
    number = t.ids[entry]
    if plan.users[number] == 1:
        plan.costs[number] = 0.0
        plan.hashed[0] = (plan.hashed[0] + t.codes[number] * (2 * plan.split[number] + 1)) & WHOLE
    cost = price(t, p, mask, left)
    plan.top[number] = entry
    plan.total[0] += cost - plan.costs[number]
    plan.costs[number] = cost


@kernel()
def enter(t: JoinTables, plan: JoinPlan, p: int, root: int, chosen: bool) -> None:
    """Put the tree of some slots of a pattern into the plan: O(m).

    Args:
        t: the workload.
        plan: the plan.
        p: the pattern.
        root: its slots.
        chosen: whether nodes without users are split as `plan.choice` says; else as they were before.
    """
    ids, all_places, users, splits, stack = t.ids, t.places, plan.users, plan.split, plan.stack
    first, depth = t.start[p], 1
    stack[0] = root
    if root == (1 << t.sizes[p]) - 1:
        plan.present[p] = 1
    while depth:
        depth -= 1
        mask = stack[depth]
        if mask & (mask - 1) == 0:
            continue
        number, places = ids[first + mask], all_places[first + mask]
        if users[number] == 0 and chosen:
            splits[number] = gather(plan.choice[mask], mask, places)
        left = spread(splits[number], places)
        users[number] += 1
        if users[number] == 1 or t.weights[first + mask] > t.weights[plan.top[number]]:
            pay_node(t, plan, p, mask, left)
        stack[depth], stack[depth + 1] = left, mask ^ left
        depth += 2


@kernel()
def leave(t: JoinTables, plan: JoinPlan, p: int, root: int) -> None:
    """Take the tree of some slots of a pattern out of the plan: O(m), if windows are equal."""
    ids, all_places, users, splits, stack = t.ids, t.places, plan.users, plan.split, plan.stack
    first, depth = t.start[p], 1
    stack[0] = root
    if root == (1 << t.sizes[p]) - 1:
        plan.present[p] = 0
    while depth:
        depth -= 1
        mask = stack[depth]
        if mask & (mask - 1) == 0:
            continue
        number = ids[first + mask]
        left = spread(splits[number], all_places[first + mask])
        users[number] -= 1
        if users[number] == 0:
            plan.total[0] -= plan.costs[number]
            plan.hashed[0] = (plan.hashed[0] - t.codes[number] * (2 * splits[number] + 1)) & WHOLE
        elif t.owner[plan.top[number]] == p and not t.flat[number]:
            pass_on(t, plan, number)
        stack[depth], stack[depth + 1] = left, mask ^ left
        depth += 2


@kernel()
def pass_on(t: JoinTables, plan: JoinPlan, number: int) -> None:
    """Let the heaviest of the patterns that still use a node pay for it."""
    top = -1
    for i in range(t.holder_first[number], t.holder_first[number + 1]):
        entry = t.holders[i]
        q = t.owner[entry]
        if plan.present[q] and (top < 0 or t.weights[entry] > t.weights[top]):
            if is_node(t, plan, q, entry - t.start[q]):
                top = entry
    if top >= 0:
        q = t.owner[top]
        cost = price(t, q, top - t.start[q], spread(plan.split[number], t.places[top]))
        plan.top[number] = top
        plan.total[0] += cost - plan.costs[number]
        plan.costs[number] = cost


@kernel()
def is_node(t: JoinTables, plan: JoinPlan, p: int, wanted: int) -> bool:
    """Whether some slots of a pattern in the plan are a node of its tree."""
    mask = (1 << t.sizes[p]) - 1
    while mask != wanted:
        if mask & wanted != wanted or mask & (mask - 1) == 0:
            return False
        entry = t.start[p] + mask
        left = spread(plan.split[t.ids[entry]], t.places[entry])
        mask = left if left & wanted == wanted else mask ^ left
    return True


# ---- all patterns


@kernel(void(Tables, Plan, Ints, boolean, boolean))
def plan_each(t: JoinTables, plan: JoinPlan, patterns: IntArray, free: bool, deep: bool) -> None:
    """Plan patterns one after another against the nodes of all others."""
    ask = Ask(plan.stack, 0, free, deep, -1)
    for p in patterns:
        full = (1 << t.sizes[p]) - 1
        if plan.present[p]:
            leave(t, plan, p, full)
        respond(t, plan, p, ask)
        enter(t, plan, p, full, True)


@kernel(void(Tables, Plan, Ints, Ints))
def plan_as(t: JoinTables, plan: JoinPlan, patterns: IntArray, halves: IntArray) -> None:
    """Put patterns into an empty plan with trees whose halves are known, by entry."""
    for p in patterns:
        full = (1 << t.sizes[p]) - 1
        for mask in range(full + 1):
            plan.choice[mask] = halves[t.start[p] + mask]
        enter(t, plan, p, full, True)


@kernel(void(Tables, Plan, Ints))
def write_halves(t: JoinTables, plan: JoinPlan, halves: IntArray) -> None:
    """Write one half of each node of every pattern's tree, by entry."""
    for p in range(len(t.sizes)):
        first, depth = t.start[p], 1
        plan.stack[0] = (1 << t.sizes[p]) - 1
        while depth:
            depth -= 1
            mask = plan.stack[depth]
            if mask & (mask - 1) == 0:
                continue
            entry = first + mask
            left = spread(plan.split[t.ids[entry]], t.places[entry])
            halves[entry] = left
            plan.stack[depth], plan.stack[depth + 1] = left, mask ^ left
            depth += 2


@kernel(float64(Plan))
def add_up(plan: JoinPlan) -> float:
    """Add up the costs of all nodes again: sums of many changes drift."""
    total = 0.0
    for number in range(len(plan.users)):
        if plan.users[number] > 0:
            total += plan.costs[number]
    plan.total[0] = total
    return total
