"""Writes as records all that a query tests by itself: windows, Kleene variables, negated variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cerise.engines.tree.branches.join_branch import PairEnd, PairTest, Veto, Which, is_of_repeat
from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import (
    OPS,
    JoinNode,
    LeafRow,
    OutputRecord,
    OutputTest,
    RepeatRecord,
    VetoRecord,
)
from cerise.engines.tree.program.early_vetoes import EarlyVeto, find_early_vetoes, may_share
from cerise.engines.tree.program.node_records import (
    PART,
    NodeRecords,
    RecordWords,
    RowColumn,
    row_word,
    write_records,
)
from cerise.engines.tree.program.plan_nodes import PlanNode, PlanNodes, is_partitioned, widest
from cerise.pattern.expr import FLIPPED
from cerise.plan.joins import JoinPattern

TRUTH = -2  # the right slot of a test whose left column holds truth values


class OutputRecords:
    """The records of outputs: the matches of one branch as rows of a pool.

    Args:
        plan: the joins.
        joins: their records, to which outputs add indexes and words.

    Attributes:
        order: the branch of each output; outputs of a pool lie together.
        roots: the pool of each output.
        waiting: the outputs whose matches wait for the end of their window.
        leaf_windows: how long the events of each leaf are kept; -1: for ever.
    """

    def __init__(self, plan: PlanNodes, joins: NodeRecords) -> None:
        self._plan, self._joins = plan, joins
        self._first_waiting = len(plan.leaves) + len(plan.nodes)
        self._early = find_early_vetoes(plan)
        self.order = sorted(range(len(plan.roots)), key=lambda i: plan.roots[i][0])
        self.roots = [plan.roots[i][0] for i in self.order]
        self.waiting: list[int] = []
        self.leaf_windows = [0] * len(plan.leaves)
        self._output_tests: list[RecordWords] = []
        self._repeats: list[RecordWords] = []
        self._vetoes: list[RecordWords] = []
        self._guards: list[RecordWords] = []
        self._lay(plan)

    def _lay(self, plan: PlanNodes) -> None:
        self.outputs = np.zeros((len(self.order), OutputRecord.WORDS), np.int64)
        for o, i in enumerate(self.order):
            for word, value in self._output(o, i).items():
                self.outputs[o, word] = value
        for n, early in self._early.of_node.items():
            self._joins.nodes[n, JoinNode.guards] = len(self._guards)
            self._guards += [self._guard(plan.nodes[n], each) for each in early]
            self._joins.nodes[n, JoinNode.guards_end] = len(self._guards)
        self.guards = write_records(self._guards, OutputRecord.WORDS)
        self.output_tests = write_records(self._output_tests, OutputTest.WORDS)
        self.repeats = write_records(self._repeats, RepeatRecord.WORDS)
        self.vetoes = write_records(self._vetoes, VetoRecord.WORDS)

    def _output(self, o: int, i: int) -> RecordWords:
        team, root = self._plan.branches[i], self._plan.roots[i]
        branch, pattern = team.branch, team.branch.pattern
        kleene = {repeat.slot for repeat in branch.repeats}
        final = [t for t in branch.pairs if not is_of_repeat(t, kleene)]
        words = len(self._joins.words)
        self._joins.words += [row_word(root[1], slot) for slot in range(len(pattern))]
        self._joins.words += pattern.leaves
        pairs = self._add_tests(final, pattern.leaves, -1)
        repeats, vetoes = len(self._repeats), len(self._vetoes)
        for repeat in branch.repeats:
            leaf = pattern.leaves[repeat.slot]
            own = [_turn(t, repeat.slot) for t in branch.pairs if is_of_repeat(t, {repeat.slot}, kleene)]
            tests = self._add_tests(own, pattern.leaves, -1)
            links = [
                PairTest(
                    PairEnd(repeat.slot, Which.EVERY, left), op, PairEnd(repeat.slot, Which.EVERY, right)
                )
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
        settled = self._early.settled.get(i, set())
        self._vetoes += [
            self._veto(each, pattern) for number, each in enumerate(branch.vetoes) if number not in settled
        ]
        windows = team.window if not branch.waits or team.window < 0 else 2 * team.window
        windows = windows if windows <= at.MAX else -1
        for leaf in (*pattern.leaves, *pattern.negated):
            self.leaf_windows[leaf] = widest(self.leaf_windows[leaf], windows)
        if branch.waits:
            self.waiting.append(o)
        return {
            OutputRecord.query: team.query, OutputRecord.window: team.window,
            OutputRecord.by_position: team.scope.by_position,
            OutputRecord.within: team.within or 0, OutputRecord.slide: team.slide,
            OutputRecord.slots: len(pattern), OutputRecord.words: words,
            OutputRecord.leaves: words + len(pattern), OutputRecord.pairs: pairs[0],
            OutputRecord.pairs_end: pairs[1], OutputRecord.repeats: repeats,
            OutputRecord.repeats_end: len(self._repeats), OutputRecord.vetoes: vetoes,
            OutputRecord.vetoes_end: len(self._vetoes), OutputRecord.waits: branch.waits,
            OutputRecord.pending: self._first_waiting + len(self.waiting) - 1
            if branch.waits else -1,
            OutputRecord.counts: team.counts,
            OutputRecord.summed: team.sums,
        }  # fmt: skip

    def _guard(self, node: PlanNode, early: EarlyVeto) -> RecordWords:
        """Return a negated variable that a join judges, as an output with the slots of the join."""
        team = self._plan.branches[early.branch]
        pattern, words = team.branch.pattern, len(self._joins.words)
        self._joins.words += [row_word(node.slots, slot) for slot in node.slots]
        self._joins.words += [pattern.leaves[slot] for slot in node.slots]
        veto = self._veto(team.branch.vetoes[early.veto], pattern, node.slots)
        self._vetoes.append(veto | {VetoRecord.around: early.around, VetoRecord.waits: 0})
        return {
            OutputRecord.window: team.window, OutputRecord.slots: len(node.slots), OutputRecord.words: words,
            OutputRecord.leaves: words + len(node.slots), OutputRecord.vetoes: len(self._vetoes) - 1,
            OutputRecord.vetoes_end: len(self._vetoes),
        }  # fmt: skip

    def _veto(self, veto: Veto, pattern: JoinPattern, slots: Sequence[int] | None = None) -> RecordWords:
        """Return a negated variable.

        Args:
            veto: the variable.
            pattern: the branch.
            slots: the slots of the rows that it judges; None: all, in their order.
        """
        place = {slot: number for number, slot in enumerate(slots or range(len(pattern)))}
        tests = self._add_tests(veto.tests, pattern.leaves, veto.leaf, place)
        index = -1
        if is_partitioned(pattern):
            index = self._joins.add_index(veto.leaf, [RowColumn(LeafRow.row, veto.leaf, *PART)])
        after, before = (
            sum(1 << place[slot] for slot in set(each) if slot in place) for each in (veto.after, veto.before)
        )
        return {
            VetoRecord.leaf: veto.leaf, VetoRecord.after: after, VetoRecord.before: before,
            VetoRecord.anywhere: veto.absence.anywhere, VetoRecord.waits: veto.waits,
            VetoRecord.shares: any(may_share(self._plan, leaf, veto.leaf) for leaf in pattern.leaves),
            VetoRecord.tests: tests[0], VetoRecord.tests_end: tests[1], VetoRecord.index: index,
        }  # fmt: skip

    def _add_tests(
        self,
        tests: Sequence[PairTest],
        leaves: Sequence[int],
        negated: int,
        place: Mapping[int, int] | None = None,
    ) -> tuple[int, int]:
        """Add tests, and return where they begin and end.

        Args:
            tests: the tests.
            leaves: the leaf of each slot.
            negated: the leaf of slot -1.
            place: the number of each slot in the rows under test; None: the same.
        """
        places = {**(place or {slot: slot for slot in range(len(leaves))}), -1: -1}
        first = len(self._output_tests)
        for test in tests:
            words = {OutputTest.op: OPS[test.op], OutputTest.right_slot: TRUTH}
            left = leaves[test.left.slot] if test.left.slot >= 0 else negated
            column, flag, bit = self._joins.column(left, test.left.side)
            words |= {
                OutputTest.left_slot: places[test.left.slot], OutputTest.left_which: int(test.left.which),
                OutputTest.left_leaf: left, OutputTest.left_column: column, OutputTest.left_flag: flag,
                OutputTest.left_bit: bit,
            }  # fmt: skip
            if test.right is not None:
                right = leaves[test.right.slot]
                column, flag, bit = self._joins.column(right, test.right.side)
                words |= {
                    OutputTest.right_slot: places[test.right.slot],
                    OutputTest.right_which: int(test.right.which), OutputTest.right_leaf: right,
                    OutputTest.right_column: column, OutputTest.right_flag: flag, OutputTest.right_bit: bit,
                }  # fmt: skip
            self._output_tests.append(words)
        return first, len(self._output_tests)


def _turn(test: PairTest, slot: int) -> PairTest:
    """Return a test with a slot on its left."""
    if test.right is None or test.left.slot == slot:
        return test
    return PairTest(test.right, FLIPPED[test.op], test.left)
