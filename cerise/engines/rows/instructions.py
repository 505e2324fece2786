"""A row pattern as instructions: what a search does next, and what it tries when that fails.

Alternatives are tried in preferment order (M9–M16), so the first way that leads to ACCEPT is the match.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import numpy.typing as npt

from cerise.engines.rows.layout import ANYTHING
from cerise.errors import PlanError
from cerise.pattern.rows import (
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

# an instruction: what it is, two numbers, and for a row whether it is shown
I_OP, I_A, I_B, I_HIDDEN, I_WORDS = range(5)
ACCEPT, ROW, SPLIT, FIRST, END, MARK, CHECK = range(7)
#   ROW      maps a row to label A, goes on at B
#   SPLIT    goes on at A, and where that fails at B
#   FIRST    goes on at A before the first row of the partition; END after its last
#   MARK     notes with bit A that an iteration begins here, goes on at B
#   CHECK    goes on at A where the iteration of bit HIDDEN has mapped a row, else at B: the loop ends (M13)

MOST = 1 << 20
DEEPEST = 62


@dataclass(slots=True)
class Code:
    """The instructions of a pattern, and with which labels a match can begin.

    Attributes:
        rows: the instructions; the first is where a search begins.
        first: a bit for each label that the first row of a match can have.
        second: a bit for each label that its second row can have; ANYTHING where it may have none.
        needs: a bit for each label that some row of every match has.
        nullable: whether a match can be empty, or the first row cannot be told from its labels.
        loops: how deep quantifiers of what may map no row stand in one another.
    """

    rows: npt.NDArray[np.int64]
    first: int
    second: int
    needs: int
    nullable: bool
    loops: int


def compile_pattern(pattern: RowPattern) -> Code:
    """Return the instructions of a pattern."""
    numbers = {name: i for i, name in enumerate(labels(pattern))}
    writer = _Writer(numbers)
    accept = writer.add(ACCEPT)
    start = writer.write(pattern, accept, hidden=False)
    rows = np.array(writer.lines, np.int64).reshape(-1, I_WORDS)
    begins, nullable = _reached(rows, {start})
    follows, short = _reached(rows, {int(rows[each, I_B]) for each in begins})
    second = ANYTHING if short else _bits(rows, follows)
    needs = sum(1 << numbers[each] for each in needed_labels(pattern))
    return Code(_renumbered(rows, start), _bits(rows, begins), second, needs, nullable, writer.loops)


@dataclass(slots=True)
class _Writer:
    """Writes instructions backwards: each knows already where it goes on."""

    numbers: dict[str, int]
    lines: list[list[int]] = field(default_factory=list)
    depth: int = 0
    loops: int = 0

    def add(self, op: int, a: int = 0, b: int = 0, hidden: int = 0) -> int:
        """Add an instruction and return its place."""
        if len(self.lines) >= MOST:
            raise PlanError(
                f"the pattern has more than {MOST} steps when its quantifiers are written out",
                hint="use smaller bounds, or fewer elements in PERMUTE",
            )
        self.lines.append([op, a, b, hidden])
        return len(self.lines) - 1

    def write(self, pattern: RowPattern, then: int, *, hidden: bool) -> int:
        """Write a pattern that goes on at `then`, and return where it begins."""
        match pattern:
            case Label(name):
                return self.add(ROW, self.numbers[name], then, int(hidden))
            case Concat(items):
                for item in reversed(items):
                    then = self.write(item, then, hidden=hidden)
                return then
            case Alternation(items):
                return self._first_of([self.write(item, then, hidden=hidden) for item in items])
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

    def _repeat(self, pattern: Quantified, then: int, *, hidden: bool) -> int:
        at = then
        if pattern.high is None:
            at = self._loop(pattern, then, hidden=hidden)
        else:
            for _ in range(pattern.high - pattern.low):
                at = self._optional(pattern, at, then, hidden=hidden)
        for _ in range(pattern.low):
            at = self.write(pattern.item, at, hidden=hidden)
        return at

    def _loop(self, pattern: Quantified, then: int, *, hidden: bool) -> int:
        split = self.add(SPLIT)
        body = self._iteration(pattern, split, then, hidden=hidden)
        self.lines[split][I_A : I_B + 1] = (then, body) if pattern.reluctant else (body, then)
        return split

    def _optional(self, pattern: Quantified, again: int, then: int, *, hidden: bool) -> int:
        body = self._iteration(pattern, again, then, hidden=hidden)
        return self.add(SPLIT, *((then, body) if pattern.reluctant else (body, then)))

    def _iteration(self, pattern: Quantified, again: int, then: int, *, hidden: bool) -> int:
        """Write one iteration; one that maps no row ends the loop (M13)."""
        if not is_nullable(pattern.item):
            return self.write(pattern.item, again, hidden=hidden)
        bit = self.depth  # iterations of one depth follow one another: they share a bit
        if bit >= DEEPEST:
            raise PlanError(
                f"more than {DEEPEST} quantifiers stand in one another", hint="write (A B)* for ((A* B*)*)*"
            )
        check = self.add(CHECK, again, then, bit)
        self.depth += 1
        body = self.write(pattern.item, check, hidden=hidden)
        self.depth -= 1
        self.loops = max(self.loops, bit + 1)
        return self.add(MARK, bit, body)


def is_nullable(pattern: RowPattern) -> bool:
    """Whether a pattern can be matched without mapping a row."""
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
    """Return the labels that every match of a pattern has a row of."""
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


def _reached(rows: npt.NDArray[np.int64], starts: set[int]) -> tuple[set[int], bool]:
    """Return the instructions that map the next row, and whether a match may be complete before it."""
    found, complete = set(), False
    seen, todo = set(starts), list(starts)
    while todo:
        at = todo.pop()
        op, a, b, _ = rows[at].tolist()
        follow: tuple[int, ...] = ()
        if op == ROW:
            found.add(at)
        elif op == ACCEPT:
            complete = True
        elif op == MARK:
            follow = (b,)
        elif op in (FIRST, END):
            follow = (a,)
        else:
            follow = (a, b)
        todo += [each for each in follow if each not in seen]
        seen |= set(follow)
    return found, complete


def _bits(rows: npt.NDArray[np.int64], mapping: set[int]) -> int:
    """Return a bit for each label that some instructions map a row to."""
    return int(sum(1 << label for label in {min(int(rows[each, I_A]), DEEPEST) for each in mapping}))


def _renumbered(rows: npt.NDArray[np.int64], start: int) -> npt.NDArray[np.int64]:
    """Return the instructions with the first one in the first place: they were written backwards."""
    last = len(rows) - 1
    order = np.arange(last, -1, -1)
    order[[0, last - start]] = order[[last - start, 0]]
    place = np.empty_like(order)
    place[order] = np.arange(len(rows))
    moved = rows[order]
    for word, ops in ((I_A, (SPLIT, FIRST, END, CHECK)), (I_B, (ROW, SPLIT, MARK, CHECK))):
        where = np.isin(moved[:, I_OP], ops)
        moved[where, word] = place[moved[where, word]]
    return moved
