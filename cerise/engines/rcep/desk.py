"""What the kernels of recomputation work on: one row of words with settings, places and addresses.

Events are numbered within a piece: those of the window that are kept, then the new ones. Each variable has,
for each partition, the list of the events that fit it.
"""

from __future__ import annotations

from cerise.kernels.jit import get, kernel

# a desk
(
    # the piece
    D_EVENTS, D_MASKS, D_PARTS, D_POINTS, D_NUMBERS, D_OPENS, D_FLOORS,
    # lists of events: where all of them lie, where each begins, how many partitions, each event's place
    D_LISTS, D_STARTS, D_COUNT_PARTS, D_VARS, D_PLACES,
    # what prunes: for each edge and event the trigger it may lead to; where joins begin at the last variable,
    # for each variable and event too; what comparisons say
    D_STAMPS, D_ALIVE, D_STAMP, D_EDGES, D_WAYS, D_LINK_OF, D_SLOTS, D_SLOT_COUNT, D_BY_RIGHT, D_JUDGED,
    D_HAS, D_EQUALS, D_LEAPS,
    # for each edge that begins a free Kleene variable the edge that ends the match, else -1; of a subset of
    # its events their places in the list, and their numbers
    D_FREE, D_PICKS, D_TAKEN,
    # for each partition and state the latest start that leads there, whatever predicates say
    D_LATEST,
    # the walk: frames, how deep, where its matches may start, how many there are
    D_FRAMES, D_ROOM, D_DEPTH, D_LOW, D_MADE, D_NEXT, D_DEEPEST,
    # what is asked for
    D_TRIGGERS, D_LIMIT, D_MOST, D_ALONE, D_COUNTS,
    # what is found: where it is written, how much room there is, how much was written
    D_LENGTHS, D_ROWS, D_FOUND, D_FOUND_ROOM, D_FILL, D_WRITTEN, D_COUNTED, D_TESTS,
    # tests after which the caller is asked whether to go on
    D_PATIENCE,
    DESK_WORDS,
) = range(51)  # fmt: skip

# a frame of the walk: the edge tried, the least of its state, its list, a place in it, where the list ends,
# how many events of a free variable there are in a subset; what finds the next event, 0 if nothing, and for
# which left side
F_EDGE, F_LEAST, F_LIST, F_CURSOR, F_END, F_SIZE, F_LEAP, F_LEFT, F_WORDS = range(9)
# a link: how its sides compare, where they lie, the best of the right sides of events alive, if any
L_OP, L_LEFT, L_RIGHT, L_HAS, L_BEST, L_WORDS = range(6)
# an edge, for pruning: its variable and that one's bit, whether it ends matches and only that, the edges
# that may follow, the links to these, comparisons with the trigger, and the links from edges before
(
    P_VAR, P_BIT, P_ACCEPTS, P_TERMINAL, P_FIRST, P_LAST, P_LINKS, P_JUDGED, P_JUDGED_END, P_RIGHT,
    P_RIGHT_END, P_WORDS,
) = range(12)  # fmt: skip
# a comparison with the event that completes a match
J_OP, J_LEFT, J_RIGHT, J_WORDS = range(4)
# an equality: its variable, events by (partition, value), and for each event of the variable its equals there
Q_VAR, Q_LIST, Q_LOW, Q_HIGH, Q_WORDS = range(5)
# an inequality: how its sides compare, the variable on its left, where the sides lie, from how many events on
# leaps are worth it, where the list of the variable on its right begins, and the extremes of runs in it
X_OP, X_VAR, X_LEFT, X_RIGHT, X_LONG, X_BASE, X_RUNS, X_WORDS = (0, 1, 2, 3, 4, 5, 6, 9)

LESS, AT_MOST, MORE, AT_LEAST, EQUAL, UNEQUAL = range(6)
OPS = {"<": LESS, "<=": AT_MOST, ">": MORE, ">=": AT_LEAST, "=": EQUAL, "!=": UNEQUAL}
NULL = -(2**63)
DONE, FULL, DEEPER, PAUSED, TOO_MANY = range(5)


@kernel()
def holds(op: int, left: int, right: int) -> bool:
    """Whether two keys compare so; no comparison holds of a null."""
    if NULL in (left, right):
        return False
    if op == LESS:
        return left < right
    if op == AT_MOST:
        return left <= right
    if op == MORE:
        return left > right
    if op == AT_LEAST:
        return left >= right
    return left == right if op == EQUAL else left != right


@kernel()
def first_after(events: int, low: int, high: int, e: int) -> int:
    """Return the first place in a list, from low up to high, of an event later than e."""
    while low < high:
        middle = (low + high) >> 1
        if get(events, middle) > e:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def list_start(w: int, var: int, part: int) -> int:
    """Return where the list of a variable's events in a partition starts; it ends where the next one does."""
    return get(get(w, D_STARTS), var * (get(w, D_COUNT_PARTS) + 1) + part)
