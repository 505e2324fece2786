"""The position of a run in its pattern, derived from its binding alone (S3.1, S3.3, S3.5)."""

from __future__ import annotations

from dataclasses import dataclass

from cerise.pattern.evaluate import Binding
from cerise.pattern.query import And, Kleene, Node, Seq, Var, variables

Edge = tuple[str, bool]  # a variable that may bind the next event; whether it needs no proceed move


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The position of a run: its edges, whether it is complete, and the variables it has left for good."""

    edges: tuple[Edge, ...]
    complete: bool
    left: frozenset[str]


def place(pattern: Node, binding: Binding) -> RunPosition:
    """Return the position of a run with this binding."""
    return RunPosition(
        tuple(edges(pattern, binding)), complete(pattern, binding), find_final(pattern, binding)
    )


def edges(node: Node, binding: Binding) -> list[Edge]:
    """Return the begin and take edges that lead on from a binding.

    An edge is direct if the run waits for its variable, or is in the middle of it. It is not direct if
    the run first leaves a Kleene variable that could still take (004: a proceed move).
    """
    match node:
        case Var(name):
            return [] if binding.get(name) else [(name, True)]
        case Kleene(var, _, high):
            return [(var.name, True)] if high is None or len(binding.get(var.name, ())) < high else []
        case And(items):
            return [edge for item in items for edge in edges(item, binding)]
        case Seq(items):
            now = current(items, binding)
            found = edges(items[now], binding)
            if complete(items[now], binding) and now + 1 < len(items):
                direct = not is_open(items[now], binding)
                found += [(name, d and direct) for name, d in edges(items[now + 1], binding)]
            return found
    raise AssertionError(node)


def current(items: tuple[Node, ...], binding: Binding) -> int:
    """Return the item of a SEQ at which the run stands: the last item that has an event."""
    return max((i for i, item in enumerate(items) if started(item, binding)), default=0)


def started(node: Node, binding: Binding) -> bool:
    """Whether any variable of a node has an event."""
    return any(binding.get(var.name) for var in variables(node))


def complete(node: Node, binding: Binding) -> bool:
    """Whether a run may leave a node, or is done with it."""
    match node:
        case Var(name):
            return bool(binding.get(name))
        case Kleene(var, low):
            return len(binding.get(var.name, ())) >= low
        case And(items):
            return all(complete(item, binding) for item in items)
        case Seq(items):
            return current(items, binding) == len(items) - 1 and complete(items[-1], binding)
    raise AssertionError(node)


def is_open(node: Node, binding: Binding) -> bool:
    """Whether a complete node could still take events."""
    match node:
        case Kleene(var, _, high):
            return high is None or len(binding.get(var.name, ())) < high
        case And(items):
            return any(is_open(item, binding) for item in items)
        case Seq(items):
            return is_open(items[-1], binding)
    return False


def find_final(node: Node, binding: Binding) -> frozenset[str]:
    """Return the variables that a run has left for good, so that their final values are known."""
    match node:
        case And(items):
            return frozenset().union(*(find_final(item, binding) for item in items))
        case Seq(items):
            now = current(items, binding)
            passed = (var.name for item in items[:now] for var in variables(item))
            return find_final(items[now], binding).union(passed)
    return frozenset()
