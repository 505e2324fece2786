"""Lays out the plan of a team of queries as tables of records: pools, joins, tests, indexes and outputs.

A sub-pattern that several branches have is one node, found by its key; its window is the largest of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cerise.engines.tree import records as at
from cerise.engines.tree.branch import Catalog, End, JoinBranch, PairTest, StreamScope, Veto, Which
from cerise.engines.tree.records import (
    OPS,
    JoinNode,
    JoinRow,
    KeyColumn,
    LeafRow,
    NodeTest,
    OutputRecord,
    OutputTest,
    Pool,
    PoolIndex,
    RepeatRecord,
    VetoRecord,
)
from cerise.pattern.expr import Attr, Binary, Literal
from cerise.plan.joins import JoinPattern, Key, Tree, key_of, slots_of
from cerise.plan.leaves import Leaf

Ints = npt.NDArray[np.int64]
FLAGS = 62  # flags of nulls in one word
TRUTH, NEGATED = -2, -1  # slots of a test that are not slots of the match


@dataclass(frozen=True, slots=True)
class TeamBranch:
    """A branch of one query of a team.

    Attributes:
        query: the number of the query.
        branch: the branch.
        within: the size of the window; None: there is none.
        slide: the size of SLIDE; 0: none.
        chooses: whether the query takes only some of its matches.
        counts: whether its matches are only counted.
    """

    query: int
    branch: JoinBranch
    within: int | None
    slide: int
    chooses: bool
    counts: bool

    @property
    def scope(self) -> StreamScope:
        scope = self.branch.pattern.scope
        assert isinstance(scope, StreamScope)
        return scope

    @property
    def window(self) -> int:
        """The largest difference of points in a match; -1: any."""
        return -1 if self.within is None else self.within - (1 if self.scope.by_position else 0)


@dataclass(slots=True)
class PlanNode:
    """A join of the plan.

    Attributes:
        key: the key of its sub-pattern.
        left: the pool on the left.
        right: the pool on the right.
        pattern: a branch that has the sub-pattern.
        slots: the slots of the sub-pattern in that branch, in the order of the rows.
        left_slots: the same, of the pool on the left.
        right_slots: the same, of the pool on the right.
        window: the largest window of the branches that have it; -1: none.
        users: the numbers of these branches; the slots are those of the first one.
        read: whether another join reads its rows.
    """

    key: Key
    left: int
    right: int
    pattern: JoinPattern
    slots: tuple[int, ...]
    left_slots: tuple[int, ...]
    right_slots: tuple[int, ...]
    window: int
    users: list[int] = field(default_factory=list)
    read: bool = False


def widest(one: int, other: int) -> int:
    """Return the larger of two windows; -1 has no end."""
    return -1 if -1 in (one, other) else max(one, other)


class TeamTables:
    """The tables of a plan.

    Args:
        catalog: the leaves and columns of the team.
        branches: all branches of all queries.
        trees: the join tree of each branch.
    """

    def __init__(self, catalog: Catalog, branches: Sequence[TeamBranch], trees: Sequence[Tree]) -> None:
        self.catalog, self.branches = catalog, branches
        self.leaves = list(catalog.leaves)
        self.plan: list[PlanNode] = []
        self._known: dict[Key, int] = {}
        self._tests: list[dict[int, int]] = []
        self._keys: list[dict[int, int]] = []
        self._indexes: list[dict[int, int]] = []
        self._words: list[int] = []
        self._output_tests: list[dict[int, int]] = []
        self.leaf_windows = [0] * len(self.leaves)
        roots = [
            self._intern(branch, i, tree)
            for i, (branch, tree) in enumerate(zip(branches, trees, strict=True))
        ]
        self._settle_finals(roots)
        self._lay_nodes()
        self._lay_outputs(roots)
        self._lay_pools()

    # ---- the plan

    def _intern(self, team: TeamBranch, user: int, tree: Tree) -> tuple[int, tuple[int, ...]]:
        """Return the pool of a tree, and the slots of its rows; a known sub-pattern keeps its own tree."""
        pattern = team.branch.pattern
        if isinstance(tree, int):
            return pattern.leaves[tree], (tree,)
        key, slots = key_of(pattern, slots_of(tree))
        if key in self._known:
            pool = self._known[key]
            self._widen(pool, team.window, user)
            return pool, slots
        left, left_slots = self._intern(team, user, tree[0])
        right, right_slots = self._intern(team, user, tree[1])
        for child in (left, right):
            if child >= len(self.leaves):
                self.plan[child - len(self.leaves)].read = True
        pool = self._known[key] = len(self.leaves) + len(self.plan)
        self.plan.append(
            PlanNode(key, left, right, pattern, slots, left_slots, right_slots, team.window, [user])
        )
        return pool, slots

    def _widen(self, pool: int, window: int, user: int) -> None:
        """Let a branch use a node, and all nodes below it."""
        if pool < len(self.leaves):
            return
        node = self.plan[pool - len(self.leaves)]
        node.window = widest(node.window, window)
        if user not in node.users:
            node.users.append(user)
        self._widen(node.left, window, user)
        self._widen(node.right, window, user)

    def _settle_finals(self, roots: Sequence[tuple[int, tuple[int, ...]]]) -> None:
        """Put nodes whose rows no join reads last; their rows need not be kept, unless a query chooses."""
        for (pool, _), branch in zip(roots, self.branches, strict=True):
            if pool >= len(self.leaves) and branch.chooses:
                self.plan[pool - len(self.leaves)].read = True
        order = sorted(range(len(self.plan)), key=lambda n: not self.plan[n].read)
        moved = {old + len(self.leaves): new + len(self.leaves) for new, old in enumerate(order)}
        self._moved = moved
        self.plan = [self.plan[old] for old in order]
        for node in self.plan:
            node.left, node.right = moved.get(node.left, node.left), moved.get(node.right, node.right)
        self.inner = sum(node.read for node in self.plan)

    def describe(self, pool: int) -> tuple[str, list[int]]:
        """Return the variables of a pool's rows in one of its queries, and the queries that use it."""
        node = pool - len(self.leaves)
        if node >= len(self.plan):
            team = self.branches[self.order[self.waiting[node - len(self.plan)]]]
            return "matches that wait for the end of their window", [team.query]
        plan = self.plan[node]
        users = list(dict.fromkeys(self.branches[user].query for user in plan.users))
        names = self.branches[plan.users[0]].branch.names
        return " ⋈ ".join(names[slot] for slot in sorted(plan.slots)), users

    # ---- nodes

    def _lay_nodes(self) -> None:
        self.nodes = np.zeros((len(self.plan), JoinNode.WORDS), np.int64)
        for n, node in enumerate(self.plan):
            tests, keys = list(self._node_tests(node)), list(self._node_keys(node))
            words = {JoinNode.left_index: -1, JoinNode.right_index: -1}
            if keys:
                words[JoinNode.left_index] = self._index(node.left, [left for left, _ in keys])
                words[JoinNode.right_index] = self._index(node.right, [right for _, right in keys])
            words |= {
                JoinNode.left: node.left, JoinNode.right: node.right, JoinNode.out: len(self.leaves) + n,
                JoinNode.window: node.window, JoinNode.order: _order(node), JoinNode.tests: len(self._tests),
                JoinNode.tests_end: len(self._tests) + len(tests), JoinNode.slots: len(node.slots),
                JoinNode.moves: len(self._words), JoinNode.final: not node.read,
            }  # fmt: skip
            self._tests += tests
            self._words += [_move(node, slot) for slot in node.slots]
            for word, value in words.items():
                self.nodes[n, word] = value
        self.tests = _rows(self._tests, NodeTest.WORDS)

    def _node_tests(self, node: PlanNode) -> Iterator[dict[int, int]]:
        """Yield the tests of a node: order and difference of events, partition, comparisons."""
        pattern = node.pattern
        if _order(node) == at.MIXED:
            for left in node.left_slots:
                for right in node.right_slots:
                    op = self._order_test(pattern, node, left, right)
                    if op is not None:
                        yield self._test(node, left, right, op, at.SEQ, at.SEQ)
        if _partitioned(pattern):
            yield self._test(node, node.left_slots[0], node.right_slots[0], "=", at.PART, at.PART)
        left, right = (sum(1 << slot for slot in slots) for slots in (node.left_slots, node.right_slots))
        for test in sorted(pattern.tests_between(left, right), key=lambda each: each.op != "="):
            yield self._test(
                node, test.left, test.right, test.op, None, None, test.left_side, test.right_side
            )

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

    def _test(
        self, node: PlanNode, left: int, right: int, op: str, left_column: int | None,
        right_column: int | None, left_side: int = -1, right_side: int = -1,
    ) -> dict[int, int]:  # fmt: skip
        leaves = node.pattern.leaves
        one = self._column(leaves[left], left_side) if left_column is None else (left_column, -1, 0)
        two = self._column(leaves[right], right_side) if right_column is None else (right_column, -1, 0)
        return {
            NodeTest.op: OPS[op], NodeTest.left_word: _word(node.left_slots, left),
            NodeTest.left_leaf: leaves[left], NodeTest.left_column: one[0], NodeTest.left_flag: one[1],
            NodeTest.left_bit: one[2], NodeTest.right_word: _word(node.right_slots, right),
            NodeTest.right_leaf: leaves[right], NodeTest.right_column: two[0], NodeTest.right_flag: two[1],
            NodeTest.right_bit: two[2],
        }  # fmt: skip

    def _node_keys(self, node: PlanNode) -> Iterator[tuple[dict[int, int], dict[int, int]]]:
        """Yield the columns that a left and a right row must have equal."""
        leaves = node.pattern.leaves
        if _partitioned(node.pattern):
            left, right = node.left_slots[0], node.right_slots[0]
            yield (
                self._key(_word(node.left_slots, left), leaves[left], (at.PART, -1, 0)),
                self._key(_word(node.right_slots, right), leaves[right], (at.PART, -1, 0)),
            )
        masks = [sum(1 << slot for slot in slots) for slots in (node.left_slots, node.right_slots)]
        for test in node.pattern.tests_between(*masks):
            if test.op == "=":
                one, two = leaves[test.left], leaves[test.right]
                yield (
                    self._key(_word(node.left_slots, test.left), one, self._column(one, test.left_side)),
                    self._key(_word(node.right_slots, test.right), two, self._column(two, test.right_side)),
                )

    @staticmethod
    def _key(word: int, leaf: int, column: tuple[int, int, int]) -> dict[int, int]:
        return {
            KeyColumn.word: word, KeyColumn.leaf: leaf, KeyColumn.column: column[0],
            KeyColumn.flag: column[1], KeyColumn.bit: column[2],
        }  # fmt: skip

    def _index(self, pool: int, keys: Sequence[dict[int, int]]) -> int:
        """Return the number of an index of a pool by keys."""
        first = len(self._keys)
        self._keys += keys
        self._indexes.append(
            {PoolIndex.pool: pool, PoolIndex.keys: first, PoolIndex.keys_end: len(self._keys)}
        )
        return len(self._indexes) - 1

    def columns_of(self, leaf: int) -> int:
        """Return how many columns a leaf has, flags of nulls included."""
        sides = len(self.catalog.used[leaf])
        return at.SIDES + sides + -(-sides // FLAGS)

    def _column(self, leaf: int, side: int) -> tuple[int, int, int]:
        """Return the column of a side in a leaf, the column of its flags, and its bit there."""
        used = self.catalog.used[leaf]
        place = used[side]
        return at.SIDES + place, at.SIDES + len(used) + place // FLAGS, 1 << place % FLAGS

    # ---- outputs

    def _lay_outputs(self, roots: Sequence[tuple[int, tuple[int, ...]]]) -> None:
        moved = [(self._moved.get(pool, pool), slots) for pool, slots in roots]
        self.order = sorted(range(len(moved)), key=lambda i: moved[i][0])  # outputs of a pool lie together
        self.outputs = np.zeros((len(moved), OutputRecord.WORDS), np.int64)
        self._repeats: list[dict[int, int]] = []
        self._vetoes: list[dict[int, int]] = []
        self.roots = [moved[i][0] for i in self.order]
        self.waiting: list[int] = []  # the outputs whose matches wait
        for o, i in enumerate(self.order):
            for word, value in self._output(o, self.branches[i], moved[i]).items():
                self.outputs[o, word] = value
        self.output_tests = _rows(self._output_tests, OutputTest.WORDS)
        self.repeats = _rows(self._repeats, RepeatRecord.WORDS)
        self.vetoes = _rows(self._vetoes, VetoRecord.WORDS)
        self.keys = _rows(self._keys, KeyColumn.WORDS)
        self.indexes = _rows(self._indexes, PoolIndex.WORDS)
        self.index_count = len(self._indexes)

    def _output(self, o: int, team: TeamBranch, root: tuple[int, tuple[int, ...]]) -> dict[int, int]:
        branch, pattern = team.branch, team.branch.pattern
        kleene = {repeat.slot for repeat in branch.repeats}
        final = [t for t in branch.pairs if not _is_of_repeat(t, kleene)]
        words = len(self._words)
        is_leaf = root[0] < len(self.leaves)
        self._words += [LeafRow.row if is_leaf else _word(root[1], slot) for slot in range(len(pattern))]
        self._words += pattern.leaves
        pairs = self._add_tests(final, pattern.leaves, -1)
        repeats, vetoes = len(self._repeats), len(self._vetoes)
        for repeat in branch.repeats:
            leaf = pattern.leaves[repeat.slot]
            own = [_facing(t, repeat.slot) for t in branch.pairs if _is_of_repeat(t, {repeat.slot}, kleene)]
            tests = self._add_tests(own, pattern.leaves, -1)
            links = [
                PairTest(End(repeat.slot, Which.EVERY, left), op, End(repeat.slot, Which.EVERY, right))
                for left, op, right in repeat.links
            ]
            linked = self._add_tests(links, pattern.leaves, -1)
            self._repeats.append({
                RepeatRecord.slot: repeat.slot, RepeatRecord.leaf: leaf, RepeatRecord.low: repeat.low,
                RepeatRecord.high: -1 if repeat.high is None else repeat.high,
                RepeatRecord.before: pattern.before[repeat.slot], RepeatRecord.links: linked[0],
                RepeatRecord.links_end: linked[1], RepeatRecord.tests: tests[0],
                RepeatRecord.tests_end: tests[1],
            })  # fmt: skip
        self._vetoes += [self._veto(each, pattern) for each in branch.vetoes]
        windows = team.window if not branch.waits or team.window < 0 else 2 * team.window
        windows = windows if windows <= at.MAX else -1
        for leaf in (*pattern.leaves, *pattern.negated):
            self.leaf_windows[leaf] = widest(self.leaf_windows[leaf], windows)
        if branch.waits:
            self.waiting.append(o)
        return {
            OutputRecord.query: team.query, OutputRecord.window: team.window,
            OutputRecord.within: team.within or 0, OutputRecord.slide: team.slide,
            OutputRecord.slots: len(pattern), OutputRecord.words: words,
            OutputRecord.leaves: words + len(pattern), OutputRecord.pairs: pairs[0],
            OutputRecord.pairs_end: pairs[1], OutputRecord.repeats: repeats,
            OutputRecord.repeats_end: len(self._repeats), OutputRecord.vetoes: vetoes,
            OutputRecord.vetoes_end: len(self._vetoes), OutputRecord.waits: branch.waits,
            OutputRecord.pending: len(self.leaves) + len(self.plan) + len(self.waiting) - 1
            if branch.waits else -1,
            OutputRecord.counts: team.counts,
        }  # fmt: skip

    def _veto(self, veto: Veto, pattern: JoinPattern) -> dict[int, int]:
        tests = self._add_tests(veto.tests, pattern.leaves, veto.leaf)
        index = -1
        if _partitioned(pattern):
            index = self._index(veto.leaf, [self._key(LeafRow.row, veto.leaf, (at.PART, -1, 0))])
        after, before = (sum(1 << slot for slot in set(slots)) for slots in (veto.after, veto.before))
        return {
            VetoRecord.leaf: veto.leaf, VetoRecord.after: after, VetoRecord.before: before,
            VetoRecord.anywhere: veto.absence.anywhere, VetoRecord.waits: veto.waits,
            VetoRecord.tests: tests[0], VetoRecord.tests_end: tests[1], VetoRecord.index: index,
        }  # fmt: skip

    def _add_tests(self, tests: Sequence[PairTest], leaves: Sequence[int], negated: int) -> tuple[int, int]:
        first = len(self._output_tests)
        for test in tests:
            words = {OutputTest.op: OPS[test.op], OutputTest.right_slot: TRUTH}
            left = leaves[test.left.slot] if test.left.slot >= 0 else negated
            column, flag, bit = self._column(left, test.left.side)
            words |= {
                OutputTest.left_slot: test.left.slot, OutputTest.left_which: int(test.left.which),
                OutputTest.left_leaf: left, OutputTest.left_column: column, OutputTest.left_flag: flag,
                OutputTest.left_bit: bit,
            }  # fmt: skip
            if test.right is not None:
                right = leaves[test.right.slot]
                column, flag, bit = self._column(right, test.right.side)
                words |= {
                    OutputTest.right_slot: test.right.slot, OutputTest.right_which: int(test.right.which),
                    OutputTest.right_leaf: right, OutputTest.right_column: column,
                    OutputTest.right_flag: flag, OutputTest.right_bit: bit,
                }  # fmt: skip
            self._output_tests.append(words)
        return first, len(self._output_tests)

    # ---- pools

    def _lay_pools(self) -> None:
        """Lay out the pools: of leaves, of nodes, and of matches that wait."""
        leaves, nodes = len(self.leaves), len(self.plan)
        self.pools = np.zeros((leaves + nodes + len(self.waiting), Pool.WORDS), np.int64)
        for pool, (_, scope) in enumerate(self.leaves):
            words = [Pool.width, Pool.window, Pool.in_order, Pool.by_position]
            self.pools[pool, words] = (
                LeafRow.WORDS, self.leaf_windows[pool], scope.in_order, scope.by_position,
            )  # fmt: skip
        for n, node in enumerate(self.plan):
            scope = _scope(node.pattern)
            words = [Pool.width, Pool.window, Pool.in_order, Pool.by_position]
            width = JoinRow.WORDS + len(node.slots)
            self.pools[leaves + n, words] = width, node.window, scope.in_order, scope.by_position
        for place, o in enumerate(self.waiting):
            self.pools[leaves + nodes + place, Pool.width] = self.pools[self.roots[o], Pool.width]
            self.pools[leaves + nodes + place, Pool.window] = -1
        roots = np.array(self.roots, np.int64)
        for pool in dict.fromkeys(self.roots):
            places = np.flatnonzero(roots == pool)
            self.pools[pool, [Pool.outputs, Pool.outputs_end]] = places[0], places[-1] + 1
        kept = [pool for pool in dict.fromkeys(self.roots) if pool < leaves + self.inner]
        self.shown = np.array(kept or [0], np.int64)
        self.shown_count = len(kept)
        self.words = np.array(self._words or [0], np.int64)


def _word(slots: Sequence[int], slot: int) -> int:
    """Return the word of a row that holds a slot; a leaf's row has it at the same place."""
    return JoinRow.WORDS + list(slots).index(slot)


def _move(node: PlanNode, slot: int) -> int:
    """Return the word of the left row that holds a slot, or -1 - the word of the right row."""
    if slot in node.left_slots:
        return _word(node.left_slots, slot)
    return -1 - _word(node.right_slots, slot)


def _order(node: PlanNode) -> int:
    """Return whether all events of one side come before all of the other."""
    before = node.pattern.before
    if all(before[right] >> left & 1 for left in node.left_slots for right in node.right_slots):
        return at.LEFT_FIRST
    if all(before[left] >> right & 1 for left in node.left_slots for right in node.right_slots):
        return at.RIGHT_FIRST
    return at.MIXED


def _scope(pattern: JoinPattern) -> StreamScope:
    assert isinstance(pattern.scope, StreamScope)
    return pattern.scope


def _partitioned(pattern: JoinPattern) -> bool:
    return bool(_scope(pattern).partition)


def _is_of_repeat(test: PairTest, slots: set[int], kleene: set[int] | None = None) -> bool:
    """Whether a test compares events of one Kleene variable, of the given ones, with a single variable."""
    kleene = slots if kleene is None else kleene
    ends = [end for end in (test.left, test.right) if end is not None]
    repeated = [end for end in ends if end.slot in kleene]
    return len(repeated) == 1 and repeated[0].slot in slots and repeated[0].which is not Which.LAST


def _facing(test: PairTest, slot: int) -> PairTest:
    """Return a test with a slot on its left."""
    if test.right is None or test.left.slot == slot:
        return test
    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    return PairTest(test.right, flipped.get(test.op, test.op), test.left)


def are_disjoint(one: Leaf, other: Leaf) -> bool:
    """Whether no event fits two leaves, because they ask for different values of an attribute."""
    mine, others = _equalities(one), _equalities(other)
    return any(path in others and others[path] != value for path, value in mine.items())


def _equalities(leaf: Leaf) -> dict[object, object]:
    return {
        test.left.path: test.right.value
        for test in leaf.tests
        if isinstance(test, Binary) and test.op == "=" and isinstance(test.left, Attr)
        and isinstance(test.right, Literal) and isinstance(test.right.value, str)
    }  # fmt: skip


def _rows(rows: Sequence[dict[int, int]], width: int) -> Ints:
    """Return records as an array of at least one row."""
    found = np.zeros((max(len(rows), 1), width), np.int64)
    for row, words in zip(found, rows, strict=False):
        for word, value in words.items():
            row[word] = value
    return found


assert LeafRow.row == JoinRow.WORDS
