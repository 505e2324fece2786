"""Writes the joins of a plan as records, with their tests and the keys of their indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerise.engines.tree.branches.join_branch import Catalog
from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import (
    OPS,
    JoinNode,
    JoinRow,
    KeyColumn,
    LeafRow,
    NodeTest,
    PoolIndex,
    SkipIndex,
)
from cerise.engines.tree.program.plan_nodes import PlanNode, PlanNodes, is_partitioned
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, JoinTest
from cerise.plan.leaves import are_disjoint

Ints = npt.NDArray[np.int64]
RecordWords = dict[int, int]  # the words of a record, by their places in it
LeafColumn = tuple[int, int, int]  # a column, the one with the flags of its nulls (-1: never null), its bit
SEQ, PART = (at.SEQ, -1, 0), (at.PART, -1, 0)
FLAGS = 62  # flags of nulls in one word
SKIPPED = 0.3  # the share of pairs that pass an inequality, up to which runs of rows that fail are skipped
GREATER = {"<": True, "<=": True, ">": False, ">=": False}  # whether the right side is the greater one


class RowColumn(NamedTuple):
    """A column of an event of a row: the word of the row that holds the event, its leaf, and the column."""

    word: int
    leaf: int
    column: int
    flag: int
    bit: int


class NodeRecords:
    """The records of joins.

    Args:
        catalog: the leaves and columns of the team.
        plan: the joins.
        stats: tell which inequality of a join few pairs of rows pass.

    Attributes:
        nodes: the joins.
        words: for each join where the words of its rows come from; outputs add theirs.
    """

    def __init__(self, catalog: Catalog, plan: PlanNodes, stats: Statistics) -> None:
        self.leaves, self._used, self._stats = plan.leaves, catalog.used, stats
        self.words: list[int] = []
        self._tests: list[RecordWords] = []
        self._keys: list[RecordWords] = []
        self._indexes: list[RecordWords] = []
        self._skips: dict[tuple[int, RowColumn, bool], RecordWords] = {}
        self._lay(plan)

    def _lay(self, plan: PlanNodes) -> None:
        self.nodes = np.zeros((len(plan.nodes), JoinNode.WORDS), np.int64)
        for n, node in enumerate(plan.nodes):
            tests, keys = list(self._node_tests(node)), list(self._node_keys(node))
            words = {JoinNode.left_index: -1, JoinNode.right_index: -1, JoinNode.skip_test: -1}
            if keys:
                words[JoinNode.left_index] = self.add_index(node.left, [left for left, _ in keys])
                words[JoinNode.right_index] = self.add_index(node.right, [right for _, right in keys])
            elif (rarest := self._find_rarest(node)) is not None:
                left, right = self._sides(node, rarest)
                greater = GREATER[rarest.op]
                words[JoinNode.skip_test] = len(self._tests) + tests.index(write_test(rarest.op, left, right))
                words[JoinNode.left_skip] = self._add_skips(node.left, left, greatest=not greater)
                words[JoinNode.right_skip] = self._add_skips(node.right, right, greatest=greater)
            words |= {
                JoinNode.left: node.left, JoinNode.right: node.right, JoinNode.out: len(self.leaves) + n,
                JoinNode.window: node.window, JoinNode.order: _order(node), JoinNode.tests: len(self._tests),
                JoinNode.tests_end: len(self._tests) + len(tests), JoinNode.slots: len(node.slots),
                JoinNode.moves: len(self.words), JoinNode.final: not node.read,
            }  # fmt: skip
            self._tests += tests
            self.words += [_move(node, slot) for slot in node.slots]
            for word, value in words.items():
                self.nodes[n, word] = value
        self.tests = write_records(self._tests, NodeTest.WORDS)

    def _node_tests(self, node: PlanNode) -> Iterator[RecordWords]:
        """Yield the tests of a node: order and difference of events, partition, comparisons."""
        pattern = node.pattern
        if _order(node) == at.MIXED:
            for left in node.left_slots:
                for right in node.right_slots:
                    op = self._order_test(pattern, node, left, right)
                    if op is not None:
                        yield write_test(op, *self._ends(node, (left, SEQ), (right, SEQ)))
        if is_partitioned(pattern):
            yield write_test("=", *self._parts(node))
        left, right = (sum(1 << slot for slot in slots) for slots in (node.left_slots, node.right_slots))
        for test in sorted(pattern.tests_between(left, right), key=lambda each: each.op != "="):
            yield write_test(test.op, *self._sides(node, test))

    def _order_test(self, pattern: JoinPattern, node: PlanNode, left: int, right: int) -> str | None:
        """Return how the numbers of two events compare; None: it follows from other tests."""
        if pattern.before[right] >> left & 1:
            return None if self._follows(pattern, node, left, right) else "<"
        if pattern.before[left] >> right & 1:
            return None if self._follows(pattern, node, right, left) else ">"
        leaves = [self.leaves[pattern.leaves[slot]][0] for slot in (left, right)]
        return None if are_disjoint(*leaves) else "!="

    @staticmethod
    def _follows(pattern: JoinPattern, node: PlanNode, first: int, then: int) -> bool:
        """Whether another slot of the node lies between two slots, so that their order follows."""
        return any(
            pattern.before[slot] >> first & 1 and pattern.before[then] >> slot & 1 for slot in node.slots
        )

    def _node_keys(self, node: PlanNode) -> Iterator[tuple[RowColumn, RowColumn]]:
        """Yield the columns that a left and a right row must have equal."""
        if is_partitioned(node.pattern):
            yield self._parts(node)
        masks = [sum(1 << slot for slot in slots) for slots in (node.left_slots, node.right_slots)]
        for test in node.pattern.tests_between(*masks):
            if test.op == "=":
                yield self._sides(node, test)

    def _find_rarest(self, node: PlanNode) -> JoinTest | None:
        """Return the inequality that the fewest pairs of rows pass; None: each is passed by many."""
        masks = [sum(1 << slot for slot in slots) for slots in (node.left_slots, node.right_slots)]
        shares = {
            test: self._stats.share(node.pattern, test)
            for test in node.pattern.tests_between(*masks)
            if test.op in GREATER
        }
        rarest = min(shares, key=shares.__getitem__, default=None)
        return rarest if rarest is not None and shares[rarest] <= SKIPPED else None

    def _add_skips(self, pool: int, column: RowColumn, *, greatest: bool) -> int:
        """Return the number of the extremes of a column over runs of a pool's rows."""
        words = {
            SkipIndex.pool: pool, SkipIndex.word: column.word, SkipIndex.leaf: column.leaf,
            SkipIndex.column: column.column, SkipIndex.greatest: int(greatest),
        }  # fmt: skip
        self._skips.setdefault((pool, column, greatest), words)
        return list(self._skips).index((pool, column, greatest))

    def _parts(self, node: PlanNode) -> tuple[RowColumn, RowColumn]:
        return self._ends(node, (node.left_slots[0], PART), (node.right_slots[0], PART))

    def _sides(self, node: PlanNode, test: JoinTest) -> tuple[RowColumn, RowColumn]:
        leaves = node.pattern.leaves
        left = self.column(leaves[test.left], test.left_side)
        right = self.column(leaves[test.right], test.right_side)
        return self._ends(node, (test.left, left), (test.right, right))

    @staticmethod
    def _ends(
        node: PlanNode, left: tuple[int, LeafColumn], right: tuple[int, LeafColumn]
    ) -> tuple[RowColumn, RowColumn]:
        """Return a column of a slot of the left row, and one of a slot of the right row."""
        leaves = node.pattern.leaves
        return (
            RowColumn(row_word(node.left_slots, left[0]), leaves[left[0]], *left[1]),
            RowColumn(row_word(node.right_slots, right[0]), leaves[right[0]], *right[1]),
        )

    def add_index(self, pool: int, keys: Sequence[RowColumn]) -> int:
        """Return the number of an index of a pool by keys."""
        first = len(self._keys)
        self._keys += [write_key(each) for each in keys]
        self._indexes.append(
            {PoolIndex.pool: pool, PoolIndex.keys: first, PoolIndex.keys_end: len(self._keys)}
        )
        return len(self._indexes) - 1

    def column(self, leaf: int, side: int) -> LeafColumn:
        """Return the column of a side in a leaf, the column of its flags, and its bit there."""
        used = self._used[leaf]
        place = used[side]
        return at.SIDES + place, at.SIDES + len(used) + place // FLAGS, 1 << place % FLAGS

    # ---- tables

    @property
    def keys(self) -> Ints:
        return write_records(self._keys, KeyColumn.WORDS)

    @property
    def indexes(self) -> Ints:
        return write_records(self._indexes, PoolIndex.WORDS)

    @property
    def index_count(self) -> int:
        return len(self._indexes)

    @property
    def skips(self) -> Ints:
        return write_records(list(self._skips.values()), SkipIndex.WORDS)

    @property
    def skip_count(self) -> int:
        return len(self._skips)


def write_test(op: str, left: RowColumn, right: RowColumn) -> RecordWords:
    """Return the words of a comparison of two rows."""
    return {
        NodeTest.op: OPS[op], NodeTest.left_word: left.word, NodeTest.left_leaf: left.leaf,
        NodeTest.left_column: left.column, NodeTest.left_flag: left.flag, NodeTest.left_bit: left.bit,
        NodeTest.right_word: right.word, NodeTest.right_leaf: right.leaf,
        NodeTest.right_column: right.column, NodeTest.right_flag: right.flag, NodeTest.right_bit: right.bit,
    }  # fmt: skip


def write_key(key: RowColumn) -> RecordWords:
    """Return the words of a column that is part of a key."""
    return {
        KeyColumn.word: key.word, KeyColumn.leaf: key.leaf, KeyColumn.column: key.column,
        KeyColumn.flag: key.flag, KeyColumn.bit: key.bit,
    }  # fmt: skip


def row_word(slots: Sequence[int], slot: int) -> int:
    """Return the word of a row that holds a slot; a leaf's row has it at the same place."""
    return JoinRow.WORDS + list(slots).index(slot)


def _move(node: PlanNode, slot: int) -> int:
    """Return the word of the left row that holds a slot, or -1 - the word of the right row."""
    if slot in node.left_slots:
        return row_word(node.left_slots, slot)
    return -1 - row_word(node.right_slots, slot)


def _order(node: PlanNode) -> int:
    """Return whether all events of one side come before all of the other."""
    before = node.pattern.before
    if all(before[right] >> left & 1 for left in node.left_slots for right in node.right_slots):
        return at.LEFT_FIRST
    if all(before[left] >> right & 1 for left in node.left_slots for right in node.right_slots):
        return at.RIGHT_FIRST
    return at.MIXED


def write_records(rows: Sequence[RecordWords], width: int) -> Ints:
    """Return records as an array of at least one row."""
    found = np.zeros((max(len(rows), 1), width), np.int64)
    for row, words in zip(found, rows, strict=False):
        for word, value in words.items():
            row[word] = value
    return found


assert LeafRow.row == JoinRow.WORDS
