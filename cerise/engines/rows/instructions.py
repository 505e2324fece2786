"""Compiles a row pattern into instructions for a backtracking search.

Alternatives are tried in preferment order (M9–M16), so the first path to ACCEPT is the match.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, permutations
from math import comb, factorial

import numpy as np
import numpy.typing as npt

from cerise.engines.rows.records import ANYTHING, Instruction
from cerise.errors import PlanError
from cerise.pattern.row_pattern import (
    Alternation,
    Anchor,
    Concat,
    Excluded,
    Label,
    Permute,
    Quantified,
    RowPattern,
    labels,
)

OP, A, B, WORDS = Instruction.op, Instruction.a, Instruction.b, Instruction.WORDS
ACCEPT, ROW, SPLIT, FIRST, END, MARK, CHECK = range(7)
ANCHORS = (FIRST, END)
#   ROW      maps a row to label A, continues at B
#   SPLIT    continues at A, and if that fails at B
#   FIRST    continues at A before the first row of the partition; END after its last
#   MARK     notes with bit A that an iteration begins here, continues at B
#   CHECK    continues at A if the iteration of bit HIDDEN has mapped a row, else at B: the loop ends (M13)

TARGETS = ((A, (SPLIT, FIRST, END, CHECK)), (B, (ROW, SPLIT, MARK, CHECK)))  # the words that are jump targets

DEEPEST = 62


Lines = npt.NDArray[np.int64]


@dataclass(slots=True)
class Code:
    """The instructions of a pattern, and the labels with which a match can begin.

    Attributes:
        rows: the instructions; a search begins at the first.
        first: a bit for each label that the first row of a match can have.
        second: a bit for each label that its second row can have; ANYTHING: a match may have one row.
        needs: a bit for each label that every match has.
        nullable: whether a match can be empty.
        loops: how deep quantifiers of nullable items are nested.
    """

    rows: Lines
    first: int
    second: int
    needs: int
    nullable: bool
    loops: int


def compile_pattern(pattern: RowPattern, *, most: int = 1 << 20) -> Code:
    """Return the instructions of a pattern.

    Raises:
        PlanError: it has `most` instructions or more.
    """
    if size(pattern) >= most:
        raise PlanError(
            f"the pattern has more than {most} steps when its quantifiers are written out",
            hint="use smaller bounds, or fewer elements in PERMUTE",
        )
    numbers = {name: i for i, name in enumerate(labels(pattern))}
    writer = _Writer(numbers)
    accept = writer.add(ACCEPT)
    start = writer.write(pattern, accept, hidden=False)
    known = find_first_labels(pattern)
    second = ANYTHING if known.short else _bits(known.seconds, numbers)
    needs = sum(1 << numbers[each] for each in needed_labels(pattern))
    rows = _renumber(writer.lines(), start)
    return Code(rows, _bits(known.firsts, numbers), second, needs, known.nullable, writer.loops)


class _Writer:
    """Writes instructions from last to first, so that each one's successor is known."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers = numbers
        self.words = array("q")
        self.depth = self.loops = 0

    def __len__(self) -> int:
        return len(self.words) // WORDS

    def lines(self, first: int = 0) -> Lines:
        return np.array(self.words[first * WORDS :], np.int64).reshape(-1, WORDS)

    def add(self, op: int, a: int = 0, b: int = 0, hidden: int = 0) -> int:
        self.words.extend((op, a, b, hidden))
        return len(self) - 1

    def write(self, pattern: RowPattern, then: int, *, hidden: bool) -> int:
        """Write a pattern that continues at `then`; return its first instruction."""
        match pattern:
            case Label(name):
                return self.add(ROW, self.numbers[name], then, int(hidden))
            case Concat(items):
                for item in reversed(items):
                    then = self.write(item, then, hidden=hidden)
                return then
            case Alternation(items):
                return self._first_of([self.write(item, then, hidden=hidden) for item in items])
            case Permute(items) if all(map(_has_one_way, items)):
                return self._permute(items, then, hidden=hidden)
            case Permute(items):
                orders = [Concat(each) for each in permutations(items)]
                return self._first_of([self.write(each, then, hidden=hidden) for each in orders])
            case Excluded(item):
                return self.write(item, then, hidden=True)
            case Anchor(start):
                return self.add(FIRST if start else END, then)
            case Quantified():
                return self._repeat(pattern, then, hidden=hidden)

    def _first_of(self, starts: list[int]) -> int:
        at = starts[-1]
        for start in reversed(starts[:-1]):
            at = self.add(SPLIT, start, at)
        return at

    def _permute(self, items: tuple[RowPattern, ...], then: int, *, hidden: bool) -> int:
        """Write all orders of items that match in one way each; orders with equal ends share these."""
        known: dict[frozenset[int], int] = {frozenset(): then}
        for count in range(1, len(items) + 1):
            for left in combinations(range(len(items)), count):
                ways = [self.write(items[i], known[frozenset(left) - {i}], hidden=hidden) for i in left]
                known[frozenset(left)] = self._first_of(ways)
        return known[frozenset(range(len(items)))]

    def _repeat(self, pattern: Quantified, then: int, *, hidden: bool) -> int:
        at = then
        if pattern.high is None:
            at = self._loop(pattern, then, hidden=hidden)
        else:
            more = pattern.high - pattern.low
            at = self._several(lambda again: self._optional(pattern, again, then, hidden=hidden), more, at)
        return self._several(lambda again: self.write(pattern.item, again, hidden=hidden), pattern.low, at)

    def _several(self, write: Callable[[int], int], count: int, at: int) -> int:
        """Write a part `count` times, each continuing at the one before; return the start of the last.

        Later parts are copies of the second. In the first, other jumps may have the same target as its end.
        """
        for _ in range(min(count, 2)):
            again, first = at, len(self)
            at = write(again)
        if count <= 2 or at == again:
            return at
        model = self.lines(first)
        self.words.frombytes(_copies(model, (first, again, at), count - 2).tobytes())
        return at + len(model) * (count - 2)

    def _loop(self, pattern: Quantified, then: int, *, hidden: bool) -> int:
        split = self.add(SPLIT)
        body = self._iteration(pattern, split, then, hidden=hidden)
        ways = (then, body) if pattern.reluctant else (body, then)
        self.words[split * WORDS + A], self.words[split * WORDS + B] = ways
        return split

    def _optional(self, pattern: Quantified, again: int, then: int, *, hidden: bool) -> int:
        body = self._iteration(pattern, again, then, hidden=hidden)
        return self.add(SPLIT, *((then, body) if pattern.reluctant else (body, then)))

    def _iteration(self, pattern: Quantified, again: int, then: int, *, hidden: bool) -> int:
        """Write one iteration; an iteration that maps no row ends the loop (M13)."""
        if not is_nullable(pattern.item):
            return self.write(pattern.item, again, hidden=hidden)
        bit = self.depth  # loops of one depth never overlap, so they share a bit
        if bit >= DEEPEST:
            raise PlanError(
                f"more than {DEEPEST} quantifiers are nested", hint="write (A B)* for ((A* B*)*)*"
            )
        check = self.add(CHECK, again, then, bit)
        self.depth += 1
        body = self.write(pattern.item, check, hidden=hidden)
        self.depth -= 1
        self.loops = max(self.loops, bit + 1)
        return self.add(MARK, bit, body)


def is_nullable(pattern: RowPattern) -> bool:
    """Tell whether a pattern can match without mapping a row."""
    match pattern:
        case Label():
            return False
        case Anchor():
            return True
        case Concat(items) | Permute(items):
            return all(map(is_nullable, items))
        case Alternation(items):
            return any(map(is_nullable, items))
        case Excluded(item):
            return is_nullable(item)
        case Quantified(item, low):
            return low == 0 or is_nullable(item)


def needed_labels(pattern: RowPattern) -> frozenset[str]:
    """Return the labels that every match of a pattern has."""
    match pattern:
        case Label(name):
            return frozenset({name})
        case Anchor():
            return frozenset()
        case Concat(items) | Permute(items):
            return frozenset().union(*map(needed_labels, items))
        case Alternation(items):
            return frozenset.intersection(*map(needed_labels, items))
        case Excluded(item):
            return needed_labels(item)
        case Quantified(item, low):
            return needed_labels(item) if low else frozenset()


@dataclass(frozen=True, slots=True)
class Beginning:
    """The labels with which a match can begin.

    Attributes:
        firsts: the labels that its first row can have.
        seconds: the labels that its second row can have.
        nullable: whether it can have no row.
        short: whether it can have exactly one row.
    """

    firsts: frozenset[str] = frozenset()
    seconds: frozenset[str] = frozenset()
    nullable: bool = True
    short: bool = False

    def then(self, other: Beginning) -> Beginning:
        """Return the beginning of this followed by another."""
        return Beginning(
            self.firsts | (other.firsts if self.nullable else frozenset()),
            self.seconds
            | (other.firsts if self.short else frozenset())
            | (other.seconds if self.nullable else frozenset()),
            self.nullable and other.nullable,
            (self.short and other.nullable) or (self.nullable and other.short),
        )

    def either(self, other: Beginning) -> Beginning:
        """Return the beginning of this or another."""
        return Beginning(
            self.firsts | other.firsts,
            self.seconds | other.seconds,
            self.nullable or other.nullable,
            self.short or other.short,
        )


def find_first_labels(pattern: RowPattern) -> Beginning:
    """Return the beginning of matches of a pattern."""
    match pattern:
        case Label(name):
            return Beginning(frozenset({name}), nullable=False, short=True)
        case Anchor():
            return Beginning()
        case Concat(items):
            return reduce(Beginning.then, map(find_first_labels, items), Beginning())
        case Alternation(items):
            return reduce(Beginning.either, map(find_first_labels, items))
        case Permute(items):
            parts = list(map(find_first_labels, items))
            pairs = [first.then(second) for first, second in permutations(parts, 2)]
            every = reduce(Beginning.then, parts, Beginning())
            return replace(reduce(Beginning.either, pairs, every), nullable=every.nullable, short=every.short)
        case Excluded(item):
            return find_first_labels(item)
        case Quantified(item, low, high):
            once = find_first_labels(item)
            twice = once if high == 1 else once.then(once)
            short = once.short and (low <= 1 or once.nullable)
            return replace(once.either(twice), nullable=low == 0 or once.nullable, short=short)


def size(pattern: RowPattern) -> int:
    """Return how many instructions a pattern has, with its quantifiers written out."""
    match pattern:
        case Label() | Anchor():
            return 1
        case Concat(items):
            return sum(map(size, items))
        case Alternation(items):
            return sum(map(size, items)) + len(items) - 1
        case Permute(items):
            each, count = sum(map(size, items)), len(items)
            if all(map(_has_one_way, items)):
                return (each << (count - 1)) + sum(comb(count, n) * (n - 1) for n in range(1, count + 1))
            return factorial(count) * (each + 1) - 1
        case Excluded(item):
            return size(item)
        case Quantified(item, low, high):
            once = size(item)
            option = once + (3 if is_nullable(item) else 1)
            return low * once + option * (1 if high is None else high - low)


def _has_one_way(pattern: RowPattern) -> bool:
    """Tell whether a pattern matches a fixed number of rows, in one way at most."""
    match pattern:
        case Label() | Anchor():
            return True
        case Concat(items):
            return all(map(_has_one_way, items))
        case Excluded(item):
            return _has_one_way(item)
    return False


def _bits(names: Iterable[str], numbers: dict[str, int]) -> int:
    return sum(1 << number for number in {min(numbers[each], DEEPEST) for each in names})


def _copies(model: Lines, places: tuple[int, int, int], count: int) -> Lines:
    """Return `count` copies of instructions, each continuing at the copy before it.

    Args:
        model: the instructions.
        places: the number of the first one, the target where they continue, and their start.
        count: how many copies.
    """
    first, again, start = places
    lines = np.tile(model, (count, 1, 1))
    moved = len(model) * np.arange(1, count + 1)[:, None]
    for word, ops in TARGETS:
        target, jumps = lines[:, :, word], np.isin(model[:, OP], ops)
        inside, on = jumps & (model[:, word] >= first), jumps & (model[:, word] == again)
        lines[:, :, word] = np.where(inside, target + moved, np.where(on, start + moved - len(model), target))
    return lines


def _renumber(rows: Lines, start: int) -> Lines:
    """Return the instructions in reverse, as they were written from last to first, with the start first."""
    last = len(rows) - 1
    order = np.arange(last, -1, -1)
    order[[0, last - start]] = order[[last - start, 0]]
    place = np.empty_like(order)
    place[order] = np.arange(len(rows))
    moved = rows[order]
    for word, ops in TARGETS:
        where = np.isin(moved[:, OP], ops)
        moved[where, word] = place[moved[where, word]]
    return moved
