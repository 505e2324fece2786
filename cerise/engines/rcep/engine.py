"""The engine of recomputation: keeps events, and joins them when one arrives that can complete a match."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cerise.engines.automaton.derived import Mixed
from cerise.engines.automaton.program import Unfit
from cerise.engines.base import Matcher, Options
from cerise.engines.rcep.layers import Layers, layers_for
from cerise.engines.rcep.plan import Joins, Plan, plan_of
from cerise.pattern.bound import Bound
from cerise.pattern.expr import At
from cerise.pattern.query import And, Kleene, Node, Seq, Var
from cerise.pattern.show import show_expr
from cerise.plan.comparisons import EventComparison, Side


def why_not(bound: Bound, joins: Joins | None = None) -> str | None:
    """Say why a query cannot be recomputed, apart from the query it reads from; None if it can."""
    try:
        plan_of(bound, joins)
    except (Unfit, Mixed) as reason:
        return str(reason)
    return None


def why_enumerate(bound: Bound) -> str | None:
    """Say why the matches of a query must be enumerated; None if they can be counted without that."""
    try:
        layers_for(bound)
    except Unfit as reason:
        return str(reason)
    return None


@dataclass(frozen=True, slots=True)
class Rcep:
    """An engine that recomputes matches."""

    name: str
    joins: Joins | None = None

    def why_not(self, bound: Bound) -> str | None:
        """Say why this engine cannot run a query; None if it can."""
        if (reason := why_not(bound, self.joins)) is not None or bound.source is None:
            return reason
        reason = self.why_not(bound.source)
        return None if reason is None else f"in the query that it reads from, {reason}"

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        if why_enumerate(bound) is None:
            from cerise.engines.rcep.counting import (
                CountingMatcher,  # numba is imported only where it is used
            )

            return CountingMatcher(plan_of(bound), options)
        from cerise.engines.rcep.matcher import RcepMatcher

        return RcepMatcher(plan_of(bound, self.joins), options)

    def explain(self, bound: Bound) -> Mapping[str, str]:
        """Show the query tree and the comparisons that prune it."""
        if bound.query.totals is None:
            return draw(plan_of(bound, self.joins))
        if (why := why_enumerate(bound)) is not None:
            return {**draw(plan_of(bound, self.joins)), "counted": f"one by one, as they are found: {why}"}
        return {"counted": "without making them", **draw_layers(layers_for(bound))}


ENGINES: dict[str, Rcep] = {
    engine.name: engine
    for engine in (Rcep("rcep"), Rcep("rcep-left", Joins.LEFT), Rcep("rcep-right", Joins.RIGHT))
}


# ---- a plan as text, for `explain`


def draw(plan: Plan) -> dict[str, str]:
    """Describe how matches are recomputed: the trigger, the order of joins, and the pruning before them."""
    branches = [automaton.branch for automaton in plan.program.automata]
    ends = dict.fromkeys(
        step.var
        for number, step in zip(plan.branches, plan.steps, strict=True)
        if plan.program.automata[number].states[step.edge.target].accepts is not None
    )
    facts = {
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
        f"{name}: {', '.join(dict.fromkeys(map(_show, compared)))}"
        for name, compared in pruning.items()
        if compared
    ]
    if pruned:
        facts["pruned"] = "\n".join(pruned)
    if plan.waits:
        facts["waits"] = "until the window of a match has passed: a NOT may still forbid it"
    return facts


def draw_layers(found: Sequence[Layers]) -> dict[str, str]:
    """Describe how chains of events are counted: the order of places, and the comparisons between them."""
    facts = {"chains": "\n".join(_chain(layers) for layers in found)}
    compared = {
        "neighbours": [each for layers in found for group in layers.steps.values() for each in group],
        "with the last event": [each for layers in found for group in layers.ends.values() for each in group]
        + [each for layers in found for group in layers.tests.values() for each in group],
        "with one apart": [each for layers in found for group in layers.anchors.values() for each in group],
    }
    lines = [
        f"{name}: {', '.join(dict.fromkeys(map(_show, group)))}" for name, group in compared.items() if group
    ]
    if lines:
        facts["compared"] = "\n".join(lines)
    return facts


def _chain(layers: Layers) -> str:
    names = []
    for place in layers.places:
        several = len(layers.of(place.var)) > 1 or place.var == layers.last
        number = f"[{place.number}{'…' if place.repeats else ''}]"
        names.append(place.var + (number if several else ""))
    return " → ".join([*names, layers.last])


def _tree(node: Node, joins: Joins) -> str:
    """Return the joins of a pattern, the first joins innermost: (a ⋈ b) ⋈ c, or a ⋈ (b ⋈ c)."""
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


def _show(compared: EventComparison) -> str:
    return f"{_side(compared.left)} {compared.op} {_side(compared.right)}"


def _side(side: Side) -> str:
    text = show_expr(side.expr)
    if side.at is At.EVERY:
        return text
    index = {At.CURRENT: "i", At.PREVIOUS: "i-1", At.LAST: f"{side.var}.LEN"}
    where = str(side.at) if isinstance(side.at, int) else index[side.at]
    return text.replace(f"{side.var}.", f"{side.var}[{where}].")
