"""Shows an automaton as text: its states and edges with their formulas, as in 004 Fig. 2."""

from __future__ import annotations

from cerise.engines.automaton.automaton import Automaton, Check, Edge
from cerise.pattern.bound import Bound
from cerise.pattern.query import And, Strategy, Unit, walk_nodes
from cerise.pattern.show import show_expr


def draw(automaton: Automaton, bound: Bound) -> list[str]:
    """Return the lines that show an automaton."""
    lines = []
    for number, state in enumerate(automaton.states):
        edges = automaton.edges_from(number)
        names = [var.name for var in automaton.branch.variables if var.name in state.started]
        lines.append(f"state {number}  {_show_variables(names, bound)}{_final(automaton, number)}")
        lines += [
            f"  {_kind(edge, automaton):<8} {edge.var} → {edge.target}{_formula(edge, automaton)}"
            for edge in edges
        ]
        if edges and number:
            lines.append(f"  {'ignore':<8} {_show_ignore(bound)}")
    return lines


def nondeterminism(automaton: Automaton, bound: Bound) -> list[str]:
    """Return the kinds of nondeterminism that an automaton has [SASE08 §4.1]."""
    strategy = bound.query.strategy
    any_match, skips = strategy is Strategy.ANY, not strategy.contiguous
    proceeds = any(edge.opens for edge in automaton.edges)
    takes = any(_takes(edge, automaton) for edge in automaton.edges)
    found = {
        "take-proceed": proceeds,
        "ignore-proceed": proceeds and skips,
        "take-ignore": takes and any_match,
        "begin-ignore": any_match and len(automaton.states) > 2,
        "members of AND": any(isinstance(node, And) for node in walk_nodes(automaton.branch.pattern)),
    }
    return [kind for kind, occurs in found.items() if occurs]


def run_bound(automaton: Automaton, bound: Bound) -> str:
    """Return a bound on the live runs, in the number W of events in a window [SASE08 §4.2]."""
    kinds = nondeterminism(automaton, bound)
    window = "events in one window of a partition"
    if bound.within is not None and bound.within.unit is Unit.EVENTS:
        window = f"{bound.within.size} events"
    elif bound.within is None:
        window = "all events of a partition, because WITHIN is missing"
    if "take-ignore" in kinds:
        return f"exponential in W ({window})"
    variables = len(automaton.branch.variables)
    kleene = sum(var.name in bound.kleene for var in automaton.branch.variables)
    power = variables if "begin-ignore" in kinds else 1 + (kleene if "take-proceed" in kinds else 0)
    return f"at most W{'^' + str(power) if power > 1 else ''} (W: {window})"


def _show_variables(names: list[str], bound: Bound) -> str:
    if not names:
        return "nothing bound"
    return "bound: " + ", ".join(f"{name}[]" if name in bound.kleene else name for name in names)


def _final(automaton: Automaton, number: int) -> str:
    state = automaton.states[number]
    if state.accepts is None:
        return ""
    least = [f"{var} has {low} events" for var, low in state.accepts]
    tests = [_show(check) for check in state.open_tests]
    return "  (final)" + (f" where {' AND '.join((*least, *tests))}" if least or tests else "")


def _takes(edge: Edge, automaton: Automaton) -> bool:
    return edge.var in automaton.states[edge.source].started


def _kind(edge: Edge, automaton: Automaton) -> str:
    return "take" if _takes(edge, automaton) else "proceed" if edge.opens else "begin"


def _formula(edge: Edge, automaton: Automaton) -> str:
    fresh = not _takes(edge, automaton)
    parts = [show_expr(expr) for expr in automaton.filters.get(edge.var, ())]
    parts += [f"count({var}) >= {low}" for var, low in edge.least]
    parts += [f"count({edge.var}) < {edge.below}"] if edge.below is not None else []
    parts += [
        _show(check) for check in edge.checks if not (fresh and dict(check.test.runs_over).get(edge.var) == 2)
    ]
    return "   " + " AND ".join(parts) if parts else ""


def _show(check: Check) -> str:
    return show_expr(check.test.expr)


def _show_ignore(bound: Bound) -> str:
    return {
        Strategy.STRICT: "never",
        Strategy.PARTITION: "events of other partitions",
        Strategy.NEXT: "what satisfies neither begin nor take",
        Strategy.ANY: "always",
    }[bound.query.strategy]
