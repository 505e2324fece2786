"""Rewrites a pattern into the form that engines take: flat, without OR and options, negations separate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from math import prod

from cerise.errors import PlanError, UnsupportedError
from cerise.pattern.query import And, Kleene, Maybe, Node, Not, Or, Seq, Var, variables, walk_nodes

MAX_BRANCHES = 4096
MAX_STATES = 8192  # states of the ANDs of all branches together: 2 seconds of planning
LARGEST_AND = 1024  # states of one branch that count: engines refuse a branch with more


@dataclass(frozen=True, slots=True)
class Absence:
    """Where a negated variable may not occur (S6).

    It may not occur between the last event of `after` and the first of `before`; an empty `after` is the
    start of the window, an empty `before` its end. `anywhere`, for the NOT of a top-level AND, is the whole
    window.
    """

    var: Var
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    anywhere: bool = False

    @property
    def at_end(self) -> bool:
        """Whether the absence reaches beyond the match, so that the query needs WITHIN (S6.4)."""
        return self.anywhere or not self.after or not self.before


@dataclass(frozen=True, slots=True)
class Shape:
    """One branch of a pattern, without OR: its positive part and its absences."""

    positive: Node
    absences: tuple[Absence, ...]


def shapes(pattern: Node) -> tuple[Shape, ...]:
    """Return the branches without OR whose union is the pattern (S3.2, S3.6).

    Raises:
        UnsupportedError: a NOT is in a place where it has no meaning (S6.5).
    """
    found: dict[Shape, None] = {}
    states = 0
    for branch in _alternatives(flatten(pattern)):
        shape = _split_negation(flatten(branch)) if branch is not None else None
        if shape is not None:
            found[shape] = None
            states += _states(shape.positive)
            _check_states(states)
    return tuple(found)


def _states(branch: Node) -> int:
    """Return about how many states the ANDs of a branch have, at most LARGEST_AND."""
    has_and = any(isinstance(each, And) for each in walk_nodes(branch))
    return min(_stages(branch), LARGEST_AND) if has_and else 0


def _stages(node: Node) -> int:
    """Return the number of stages of an item; the members of an AND pass theirs independently."""
    match node:
        case Seq(items):
            return 1 + sum(_stages(item) - 1 for item in items)
        case And(items):
            return prod(map(_stages, items))
    return 2


def _check_states(states: int) -> None:
    if states > MAX_STATES:
        raise PlanError(
            f"the branches of AND have more than {MAX_STATES} states",
            hint="each ?, * and OR in an AND multiplies them: use fewer, or ask several queries",
        )


def flatten(node: Node) -> Node:
    """Dissolve SEQ in SEQ, AND in AND, OR in OR, and groups of one."""
    match node:
        case Seq(items):
            return _flat(Seq, items)
        case And(items):
            return _flat(And, items)
        case Or(items):
            return _flat(Or, items)
        case Maybe(item):
            return Maybe(flatten(item))
    return node


def _flat(kind: Callable[[tuple[Node, ...]], Node], items: Iterable[Node]) -> Node:
    flat: list[Node] = []
    for item in map(flatten, items):
        same = isinstance(item, Seq | And | Or) and type(item) is kind
        flat.extend(item.items if same and isinstance(item, Seq | And | Or) else [item])
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _alternatives(node: Node) -> list[Node | None]:
    """Return every choice of the ORs and options of a pattern; None is the choice without any item."""
    match node:
        case Or(items):
            return [each for item in items for each in _alternatives(item)]
        case Maybe(item):
            return [None, *_alternatives(item)]
        case Kleene(var, 0, high):
            return [None, Kleene(var, 1, high)]
        case Seq(items) | And(items):
            return [_join(type(node), parts) for parts in _products(items)]
    return [node]


def _products(items: Iterable[Node]) -> list[tuple[Node | None, ...]]:
    choices = [_alternatives(item) for item in items]
    total = 1
    for each in choices:
        total *= len(each)
    if total > MAX_BRANCHES:
        raise PlanError(
            f"the pattern has more than {MAX_BRANCHES} branches",
            hint="each ? and * doubles them: use fewer, or ask several queries",
        )
    return list(product(*choices))


def _join(kind: Callable[[tuple[Node, ...]], Node], parts: Iterable[Node | None]) -> Node | None:
    present = tuple(part for part in parts if part is not None)
    return kind(present) if present else None


def _split_negation(branch: Node) -> Shape | None:
    """Separate the NOTs of a flat branch from its positive part; None if it has no positive part."""
    absences: list[Absence] = []
    match branch:
        case And(items):
            positive = [item for item in items if not isinstance(item, Not)]
            absences += [Absence(item.var, anywhere=True) for item in items if isinstance(item, Not)]
            parts = [_without_negation(item, absences) for item in positive]
            return Shape(flatten(And(tuple(parts))), tuple(absences)) if parts else None
        case Seq(items):
            node = _between(items, absences)
            return Shape(node, tuple(absences)) if node is not None else None
        case Not():
            return None
    return Shape(branch, ())


def _without_negation(item: Node, absences: list[Absence]) -> Node:
    """Move the NOTs of an item to `absences`. Below the top of a pattern, NOT is legal only inside a SEQ."""
    match item:
        case Seq(items):
            for end in (items[0], items[-1]):
                if isinstance(end, Not):
                    raise _place_error(end, "at an end of a SEQ inside another item")
            node = _between(items, absences)
            assert node is not None
            return node
        case And(items):
            for each in items:
                if isinstance(each, Not):
                    raise _place_error(each, "in an AND inside another item")
            return And(tuple(_without_negation(each, absences) for each in items))
    return item


def _between(items: tuple[Node, ...], absences: list[Absence]) -> Node | None:
    """Move each NOT of a SEQ to `absences`, with the items around it; return the SEQ without NOTs."""
    positive = [i for i, item in enumerate(items) if not isinstance(item, Not)]
    for i, item in enumerate(items):
        if isinstance(item, Not):
            before = [j for j in positive if j < i]
            after = [j for j in positive if j > i]
            left = _names(items[before[-1]]) if before else ()
            right = _names(items[after[0]]) if after else ()
            absences.append(Absence(item.var, left, right))
    if not positive:
        return None
    return flatten(Seq(tuple(_without_negation(items[i], absences) for i in positive)))


def _names(node: Node) -> tuple[str, ...]:
    negated = {each.var.name for each in _nots(node)}
    return tuple(var.name for var in variables(node) if var.name not in negated)


def _nots(node: Node) -> list[Not]:
    match node:
        case Not():
            return [node]
        case Seq(items) | And(items):
            return [each for item in items for each in _nots(item)]
    return []


def _place_error(item: Not, where: str) -> UnsupportedError:
    return UnsupportedError(
        f"NOT {item.var.name} stands {where}",
        span=item.var.span,
        hint="put it between two items of a SEQ, at an end of the whole pattern, or into a top-level AND",
    )
