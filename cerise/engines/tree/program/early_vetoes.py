"""Finds the joins at which negated variables are judged, before the rest of a match is known.

The sooner a NOT drops a row, the fewer rows follow from it. A join can judge it if it belongs to one branch
alone, binds all that the tests of the NOT compare, and if no event still to be bound can be a negated event:
events of the match never veto it (S6.5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cerise.engines.tree.branches.join_branch import JoinBranch, PairTest, Veto, Which
from cerise.engines.tree.program.plan_nodes import PlanNode, PlanNodes, is_partitioned
from cerise.plan.leaves import are_disjoint


@dataclass(frozen=True, slots=True)
class EarlyVeto:
    """A negated variable that a join judges.

    Attributes:
        branch: the number of the branch.
        veto: the number of the variable among the negated ones of the branch.
        around: whether the row lacks events of the match that bound the stretch; the NOT is judged again
            when all are there.
    """

    branch: int
    veto: int
    around: bool


@dataclass(slots=True)
class EarlyVetoes:
    """Which joins judge which negated variables.

    Attributes:
        of_node: for each join.
        settled: for each branch the negated variables that a join judges once and for all.
    """

    of_node: Mapping[int, list[EarlyVeto]] = field(default_factory=dict)
    settled: Mapping[int, set[int]] = field(default_factory=dict)


def find_early_vetoes(plan: PlanNodes) -> EarlyVetoes:
    """Return for each negated variable of a plan the joins that judge it."""
    of_node: dict[int, list[EarlyVeto]] = {}
    settled: dict[int, set[int]] = {}
    for n in sorted(range(len(plan.nodes)), key=lambda n: len(plan.nodes[n].slots)):
        node = plan.nodes[n]
        if len(node.users) > 1:
            continue
        (i,) = node.users
        branch, done = plan.branches[i].branch, settled.setdefault(i, set())
        for number, veto in enumerate(branch.vetoes):
            if number not in done and _is_bound(plan, node, branch, veto):
                if _has_stretch(node, branch, veto):
                    done.add(number)
                elif not veto.absence.anywhere or _is_whole(node, branch) or is_partitioned(node.pattern):
                    continue
                of_node.setdefault(n, []).append(EarlyVeto(i, number, around=bool(veto.absence.anywhere)))
    return EarlyVetoes(of_node, settled)


def _is_whole(node: PlanNode, branch: JoinBranch) -> bool:
    return len(node.slots) == len(branch.pattern) and not branch.repeats


def _has_stretch(node: PlanNode, branch: JoinBranch, veto: Veto) -> bool:
    """Whether a row has the events around the stretch: the last before it, and the first after it."""
    repeated = {each.slot for each in branch.repeats}
    return bool(
        veto.after and veto.before and not veto.absence.anywhere
        and {*veto.after, *veto.before} <= {*node.slots} and not repeated & {*veto.before}
    )  # fmt: skip


def _is_bound(plan: PlanNodes, node: PlanNode, branch: JoinBranch, veto: Veto) -> bool:
    """Whether a row has all events that the tests compare, and all that may be negated events, too."""
    pattern = branch.pattern
    repeated = {each.slot for each in branch.repeats}
    for slot, leaf in enumerate(pattern.leaves):
        if (slot not in node.slots or slot in repeated) and may_share(plan, leaf, veto.leaf):
            return False
    return all(end in node.slots for test in veto.tests for end in _ends(test, repeated))


def _ends(test: PairTest, repeated: set[int]) -> Iterator[int]:
    """Yield the slots that a test of a negated event reads; -1: events that a row never has."""
    for end in (test.left, test.right):
        if end is not None and end.slot >= 0:
            yield -1 if end.slot in repeated and end.which is not Which.LAST else end.slot


def may_share(plan: PlanNodes, one: int, other: int) -> bool:
    """Whether an event can be of two leaves."""
    return not are_disjoint(plan.leaves[one][0], plan.leaves[other][0])
