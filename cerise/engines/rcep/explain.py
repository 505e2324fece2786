"""A plan of recomputation as text, for `explain`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from cerise.engines.rcep.comparisons import Comparison, Side
from cerise.engines.rcep.layers import Layers
from cerise.engines.rcep.plan import Joins, Plan
from cerise.pattern.expr import At
from cerise.pattern.query import And, Kleene, Node, Seq, Var
from cerise.pattern.show import show_expr


def draw(plan: Plan) -> dict[str, str]:
    """Say how matches are recomputed: when, in which order joined, and what prunes events before that."""
    branches = [automaton.branch for automaton in plan.program.automata]
    ends = dict.fromkeys(
        step.var
        for number, step in zip(plan.branches, plan.steps, strict=True)
        if plan.program.automata[number].states[step.edge.target].accepts is not None
    )
    said = {
        "trigger": f"an event that can be {' or '.join(ends)}: matches that end with it are joined then"
        if ends
        else "never",
        "tree": "\n".join(_tree(each.pattern, plan.joins) for each in branches)
        or "none: WHERE can never hold",
        "joins": f"{plan.joins.value}: {plan.why}",
    }
    walked = plan.mirror or plan
    pruning = {
        "by the last event": [
            plan.compared[number] for numbers in plan.judged.values() for number in numbers
        ],
        "by the next event": [plan.compared[number] for number in plan.links.values()],
        "found by value": [walked.compared[number] for number in walked.equal.values()],
        "found by order": [walked.compared[number] for number in walked.leaps.values()],
    }
    pruned = [
        f"{name}: {', '.join(dict.fromkeys(map(_shown, compared)))}"
        for name, compared in pruning.items()
        if compared
    ]
    if pruned:
        said["pruned"] = "\n".join(pruned)
    if plan.waits:
        said["waits"] = "until the window of a match has passed, for what a NOT forbids"
    return said


def draw_layers(found: Sequence[Layers]) -> dict[str, str]:
    """Say how chains of events are counted: what follows what, and what is compared."""
    said = {"chains": "\n".join(_chain(layers) for layers in found)}
    compared = {
        "neighbours": [each for layers in found for group in layers.steps.values() for each in group],
        "with the last event": [each for layers in found for group in layers.ends.values() for each in group]
        + [each for layers in found for group in layers.tests.values() for each in group],
        "with one apart": [each for layers in found for group in layers.anchors.values() for each in group],
    }
    lines = [
        f"{name}: {', '.join(dict.fromkeys(map(_shown, group)))}" for name, group in compared.items() if group
    ]
    if lines:
        said["compared"] = "\n".join(lines)
    return said


def _chain(layers: Layers) -> str:
    names = []
    for place in layers.places:
        several = len(layers.of(place.var)) > 1 or place.var == layers.last
        number = f"[{place.number}{'…' if place.repeats else ''}]"
        names.append(place.var + (number if several else ""))
    return " → ".join([*names, layers.last])


def _tree(node: Node, joins: Joins) -> str:
    """Return the joins of a pattern, those that come first inmost: (a ⋈ b) ⋈ c, or a ⋈ (b ⋈ c)."""
    match node:
        case Var(name):
            return name
        case Kleene(var):
            return f"{var.name}+"
        case Seq(items) | And(items):
            sign = " ⋈ " if isinstance(node, Seq) else " × "
            parts = [_tree(item, joins) for item in items]
            if joins is Joins.LEFT:
                return functools.reduce(lambda left, right: f"{_inside(left)}{sign}{_inside(right)}", parts)
            parts.reverse()
            return functools.reduce(lambda right, left: f"{_inside(left)}{sign}{_inside(right)}", parts)
    raise AssertionError(node)


def _inside(tree: str) -> str:
    return f"({tree})" if " " in tree else tree


def _shown(compared: Comparison) -> str:
    return f"{_side(compared.left)} {compared.op} {_side(compared.right)}"


def _side(side: Side) -> str:
    text = show_expr(side.expr)
    if side.at is At.EVERY:
        return text
    index = {At.CURRENT: "i", At.PREVIOUS: "i-1", At.LAST: f"{side.var}.LEN"}
    where = str(side.at) if isinstance(side.at, int) else index[side.at]
    return text.replace(f"{side.var}.", f"{side.var}[{where}].")
