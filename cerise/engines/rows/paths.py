"""Tells from instructions how a search walks through them: whether it needs a memo, and where it tests early.

A memo holds the states from which a search has failed. It pays only if a search comes to an instruction and
a row on two paths, or if a search from another row comes to a state that this one has seen.

From conditions it tells in which direction they depend on a value. Where greater values can only help, a
state fails if one with a greater value has failed. And a path ends where a label that must follow can no
longer be mapped: B AS COUNT(A.*) < 3, after the third A.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import numpy.typing as npt

from cerise.engines.rows import records
from cerise.engines.rows.instructions import ACCEPT, ANCHORS, CHECK, MARK, ROW, SPLIT
from cerise.engines.rows.running_aggregates import TRENDS, Fold
from cerise.engines.rows.scope import Conditions, MemoKeyWords
from cerise.kinds import Kind
from cerise.pattern.expr import COMPARISONS, FLIPPED, Attr, Binary, Expr, attributes
from cerise.pattern.row_pattern import CLASSIFIER, Atom, BoundRows, MatchNumber, Nav, RowAgg

Lines = npt.NDArray[np.int64]
OP, A, B, HIDDEN = (
    records.Instruction.op,
    records.Instruction.a,
    records.Instruction.b,
    records.Instruction.hidden,
)
MOST_TRACED = 256  # instructions whose paths are followed
MOST_VALUES = 2  # columns whose values stand for a row in the memo
ORDERED = {Kind.INT, Kind.FLOAT, Kind.INSTANT, Kind.LOCAL, Kind.DATE, Kind.DURATION}


def mark_tests(rows: Lines, dependent: int) -> Lines:
    """Return instructions with a mark on each SPLIT that tests its first way before it saves the second.

    The first way maps the row to a label with a condition, the second to a label without one: `X*? B`, where
    nearly every row fails as B.

    Args:
        rows: the instructions.
        dependent: a bit for each label with a condition that is tested during the search.
    """
    marked = rows.copy()
    for number in np.flatnonzero(rows[:, OP] == SPLIT).tolist():
        one, other = rows[rows[number, A]], rows[rows[number, B]]
        both = one[OP] == ROW and other[OP] == ROW
        marked[number, HIDDEN] = both and dependent >> one[A] & 1 and not dependent >> other[A] & 1
    return marked


def may_come_twice(rows: Lines, start_sets: list[set[int]] | None) -> bool:
    """Whether a search can come to a state twice.

    Args:
        rows: the instructions.
        start_sets: sets of labels; a state knows the first or the last row of each. If one set has the labels
            of the first row, and no other row can have one of them, then states of searches from different
            rows differ. None: they differ anyway.
    """
    if len(rows) > MOST_TRACED or np.isin(rows[:, OP], (MARK, CHECK)).any():
        return True
    first = _list_next(rows, 0)
    then = {at: _list_next(rows, int(rows[at, B])) for at in np.flatnonzero(rows[:, OP] == ROW).tolist()}
    if _meet(first, then):
        return True
    if start_sets is None:
        return False
    later = {int(rows[at, A]) for found in then.values() for at in found}
    opening = {int(rows[at, A]) for at in first}
    return not any(opening <= labels and not labels & later for labels in start_sets)


def _list_next(rows: Lines, at: int) -> list[int]:
    """Return the ROW instructions that an instruction leads to, each as often as there are ways to it."""
    found: list[int] = []
    waiting = [at]
    while waiting and len(found) <= len(rows):
        number = waiting.pop()
        op, a, b = rows[number, [OP, A, B]].tolist()
        if op == ROW:
            found.append(number)
        else:
            waiting += [a, b] if op == SPLIT else [a] if op in ANCHORS else []
    return found


def _meet(first: list[int], then: dict[int, list[int]]) -> bool:
    """Whether two paths that have mapped as many rows come to the same ROW instruction."""
    seen: set[tuple[int, int]] = set()
    pairs = [pair for found in (first, *then.values()) for pair in combinations(sorted(found), 2)]
    while pairs:
        p, q = pairs.pop()
        if p == q:
            return True
        if (p, q) not in seen:
            seen.add((p, q))
            pairs += [(min(x, y), max(x, y)) for x in then[p] for y in then[q]]
    return False


# ---- labels that must follow


def list_followers(rows: Lines, labels: int) -> list[int]:
    """Return for each label a bit for each label that every match has in a later row.

    Args:
        rows: the instructions; nothing is known of many.
        labels: how many labels there are.
    """
    found, every = [0] * labels, (1 << labels) - 1
    if len(rows) > MOST_TRACED:
        return found
    lines = rows.tolist()
    needs, before = [every] * len(lines), [0]
    while needs != before:
        before = needs.copy()
        for number in range(len(lines) - 1, -1, -1):
            needs[number] = _needs_from(lines[number], needs)
    for label in range(labels):
        after = [needs[line[B]] for line in lines if line[OP] == ROW and line[A] == label]
        found[label] = int(np.bitwise_and.reduce(after)) if after else 0
    return found


def _needs_from(line: list[int], needs: list[int]) -> int:
    """Return the labels that every way from an instruction maps."""
    match line[OP]:
        case op if op == ACCEPT:
            return 0
        case op if op == ROW:
            return needs[line[B]] | 1 << line[A]
        case op if op in ANCHORS:
            return needs[line[A]]
        case op if op == MARK:
            return needs[line[B]]
    return needs[line[A]] & needs[line[B]]  # SPLIT, CHECK


# ---- how conditions depend on values


SIDES = {">": 1, ">=": 1, "<": -1, "<=": -1}
SETTLED = {(1, "<"): "<", (1, "<="): "<=", (1, "="): "<=", (-1, ">"): ">", (-1, ">="): ">=", (-1, "="): ">="}


def find_direction(expr: Expr, name: str) -> int:
    """Return 1 if a greater value of an atom can only make a conjunct true, -1 if a smaller; 0: neither."""
    for atom, op, other in _sides(expr):
        if atom.path[0] == name and atom.path not in {each.path for each in attributes(other)}:
            return SIDES.get(op, 0)
    return 0


def settle(expr: Expr, atoms: Mapping[str, Atom]) -> Expr | None:
    """Return a test that stays false for all later rows once it is false, if none of its atoms is null.

    It is false only if the conjunct is. None if the conjunct has no such test.
    """
    if all(_is_constant(atoms[each.path[0]]) for each in attributes(expr)):
        return expr
    for atom, op, other in _sides(expr):
        agg = atoms[atom.path[0]]
        if isinstance(agg, RowAgg) and all(_is_constant(atoms[each.path[0]]) for each in attributes(other)):
            stays = SETTLED.get((TRENDS.get(agg.function, 0), op))
            return None if stays is None else Binary(stays, atom, other)
    return None


def _sides(expr: Expr) -> list[tuple[Attr, str, Expr]]:
    """Return the ways to read a comparison as an atom, an operator, and something else."""
    if not isinstance(expr, Binary) or expr.op not in COMPARISONS:
        return []
    ways = ((expr.left, expr.op, expr.right), (expr.right, FLIPPED[expr.op], expr.left))
    return [(atom, op, other) for atom, op, other in ways if isinstance(atom, Attr)]


def _is_constant(each: Atom) -> bool:
    """Whether the value of an atom stays as it is, once it is not null."""
    if isinstance(each, Nav):
        return not each.last and each.shift <= 0 and each.column != CLASSIFIER
    return isinstance(each, MatchNumber)


# ---- the keys of the memo


def know_by_values(conditions: Conditions, bound: BoundRows) -> None:
    """Let the memo know rows by the values that conditions read in them, where these are few.

    Searches from rows with equal values then share states: the first A of `A+ B` with B AS x = FIRST(A.x).
    Where conditions only ask whether a value is great, a state fails if one with a greater value has failed.
    """
    number = {name: i for i, name in enumerate(conditions.columns)}
    known: list[MemoKeyWords] = []
    for key in conditions.keys:
        source, register, n = key[:3]
        columns = conditions.read.get((source, register)) if source != records.REGISTER else None
        if columns is None or len(columns) > MOST_VALUES:
            known.append(key)
            continue
        for name in sorted(columns):
            order, place = _order_of_value((source, register, n, name), conditions, bound), number[name]
            known += [
                (source, register, n, place, order),
                (source, register, n, records.NULLS - place, records.EQUAL),
            ]
    conditions.keys = sorted(known, key=lambda key: key[records.MemoKey.order] != records.EQUAL)


def _order_of_value(key: tuple[int, int, int, str], conditions: Conditions, bound: BoundRows) -> int:
    """Return how the memo orders the values of a column in the n-th row of a set from an end."""
    source, register, n, column = key
    nav = Nav(
        column,
        next(each for each, at in conditions.sets.items() if at == register),
        last=source == records.FROM_END,
        offset=n,
    )
    reads_one = source == records.FROM_START or (source, register, 1) not in {
        key[:3] for key in conditions.keys
    }
    found = {each for name, each in conditions.directions.items() if bound.atoms.get(name) == nav}
    return (
        _order_of(conditions.columns[column], found.pop()) if reads_one and len(found) == 1 else records.EQUAL
    )


def _order_of(kind: Kind, direction: int) -> int:
    """Return how the memo orders the values of a key, given how conditions depend on it."""
    return (
        direction * (records.DOUBLE if kind is Kind.FLOAT else records.WHOLE)
        if kind in ORDERED
        else records.EQUAL
    )


def find_directions(exprs: list[Expr]) -> dict[str, int]:
    """Return for each atom in conjuncts in which direction all of them depend on it; 0: in none."""
    found: dict[str, set[int]] = {}
    for expr in exprs:
        for name in {each.path[0] for each in attributes(expr)}:
            found.setdefault(name, set()).add(find_direction(expr, name))
    return {name: each.pop() if len(each) == 1 else 0 for name, each in found.items()}


def order_folds(folds: dict[str, Fold], found: Conditions) -> None:
    """Order the memo by the first parts of counts, minima and maxima, where conditions allow it."""
    orders = {
        fold.parts[0].register: _order_of(fold.parts[0].kind, found.directions.get(name, 0))
        for name, fold in folds.items()
        if fold.is_ordered
    }
    found.keys = [
        (source, which, n, column, orders.get(which, order) if source == records.REGISTER else order)
        for source, which, n, column, order in found.keys
    ]
