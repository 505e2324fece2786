"""Equalities between two variables of a pattern: edges with hashed keys, for filters that join [DFS §IV-B2].

An edge says which of its variables it judges: in every match, each event of a judged variable has an event of
the other variable with an equal key. So an event that finds none near by is in no match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.events import Path
from cerise.kinds import COMPUTABLE, Kind, kind_of
from cerise.pattern.bound import Bound, Branch
from cerise.pattern.check import kind_of as kind_of_value
from cerise.pattern.check import promote
from cerise.pattern.expr import At, Attr, Binary, Expr, Same, attributes, conjuncts, rebuild
from cerise.pattern.query import And, Node, Seq, absent_names, kleene_names, variables
from cerise.pattern.row_pattern import (
    Alternation,
    BoundRows,
    Concat,
    Excluded,
    Label,
    Nav,
    Permute,
    Quantified,
    RowPattern,
    walk_rows,
)
from cerise.pattern.vectors import evaluate_rows
from cerise.pattern.vectors.vector import convert, to_arrow
from cerise.plan.comparisons import Side, comparison_of
from cerise.ties import UInts, hash_columns

Read = Callable[[Path], pa.Array]  # returns an attribute in canonical form
Truth = npt.NDArray[np.bool_]
ALL = ""  # the events of a variable that an equality is about: all of them


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One equality of an edge.

    Attributes:
        left: an expression over one event of the left variable.
        right: the same of the right variable.
        kind: the kind in which both are compared: an integer and a double as doubles (S4.6).
        nulls: whether null equals null, as in PARTITION BY; in `=` and `[attr]` null equals nothing (S8).
        of_partition: whether it holds for all events of a partition.
    """

    left: Expr
    right: Expr
    kind: Kind
    nulls: bool = False
    of_partition: bool = False


@dataclass(frozen=True, slots=True)
class JoinEdge:
    """Equalities between the same two variables, as one composite key.

    Attributes:
        left: a variable.
        right: another variable.
        order: -1: left is before right in every match; 1: after; 0: neither is known.
        judges: the variables whose events must each find an equal key among those of the other.
        parts: the equalities.
    """

    left: str
    right: str
    order: int
    judges: frozenset[str]
    parts: tuple[KeyPart, ...]

    @property
    def of_partition(self) -> bool:
        """Whether it says no more than that the events of a match are of one partition."""
        return all(part.of_partition for part in self.parts)

    def other(self, name: str) -> str:
        return self.right if name == self.left else self.left

    def order_of(self, name: str) -> int:
        """Return the order as one of the variables sees it: -1 if that one comes first."""
        return self.order if name == self.left else -self.order

    def exprs(self, name: str) -> tuple[Expr, ...]:
        """Return the expressions that make the key of a variable."""
        return tuple(part.left if name == self.left else part.right for part in self.parts)

    def paths(self, name: str) -> frozenset[Path]:
        """Return the attributes that the key of a variable reads."""
        return frozenset(each.path for expr in self.exprs(name) for each in attributes(expr))


def keys_of(edge: JoinEdge, name: str, read: Read, rows: int) -> tuple[UInts, Truth]:
    """Return the hashed key of each row as an event of a variable, and whether the row has a key.

    A row without a key has a null in it, or a value that cannot be computed, and equals no row.

    >>> x = Attr("a", ("x",), kind=Kind.INT)
    >>> edge = JoinEdge("a", "b", -1, frozenset("ab"), (KeyPart(x, x, Kind.FLOAT),))
    >>> keys_of(edge, "a", lambda path: pa.array([1, None]), 2)[1].tolist()
    [True, False]
    """
    columns, valid = [], np.ones(rows, np.bool_)
    for part, expr in zip(edge.parts, edge.exprs(name), strict=True):
        vector, _ = evaluate_rows(expr, read, rows)
        if vector.nulls is not None and not part.nulls:
            valid &= ~vector.nulls
        columns.append((to_arrow(convert(vector, part.kind), part.kind), part.kind))
    return hash_columns(columns, rows), valid


# ---- of SASE+


def edges_of(bound: Bound, branch: Branch) -> Iterator[JoinEdge]:
    """Yield the edges of a branch: of its conjuncts, of `[attr]` and of PARTITION BY.

    Beside a negated variable only that one is judged: its event vetoes no match if no event equals it.
    """
    absent, kleene = absent_names(bound.query.pattern), kleene_names(branch.pattern)
    names = [*(var.name for var in branch.variables), *(each.absence.var.name for each in branch.negations)]
    vetoes = [test for negation in branch.negations for test in negation.tests]
    found: list[_Equality] = []
    for each in (*branch.conjuncts, *vetoes):
        compared = comparison_of(each.expr)
        if compared is not None and compared.op == "=":
            sides = (compared.left, compared.right)
            found += _equality(*(_Term(side.var, _name_events(side, kleene), side.expr) for side in sides))
    for edge in _join(names, found, _share_parts(bound), frozenset(names)):
        negated = absent & {edge.left, edge.right}
        judges = edge.judges & absent if negated else edge.judges
        if judges and len(negated) < 2:
            yield replace(edge, order=order_of(branch.pattern, edge.left, edge.right), judges=judges)


def _name_events(side: Side, kleene: frozenset[str]) -> str | None:
    """Return the events of a variable that a side is about; None: more than one, but not all."""
    if side.var not in kleene or side.at is At.EVERY:
        return ALL
    return str(side.at) if side.at is At.LAST or isinstance(side.at, int) else None


def _share_parts(bound: Bound) -> list[KeyPart]:
    """Return the equalities between any two events of a match."""
    same = dict.fromkeys(each.expr.path for each in bound.conjuncts if isinstance(each.expr, Same))
    parts = []
    for path in dict.fromkeys([*bound.partition, *same]):
        kind = bound.schema.kind(path)
        value = Attr("", path, kind=kind)
        if kind in COMPUTABLE and kind is not Kind.NULL:
            parts.append(KeyPart(value, value, kind, path not in same, path in bound.partition))
    return parts


def order_of(node: Node, left: str, right: str) -> int:
    """Return -1 if a variable is before another in every match of a pattern, 1 if after it, else 0.

    >>> from cerise.pattern.query import Var
    >>> order_of(Seq((Var("a"), And((Var("b"), Var("c"))))), "c", "a")
    1
    """
    if not isinstance(node, Seq | And):
        return 0
    held = [{var.name for var in variables(item)} for item in node.items]
    at = [next((place for place, names in enumerate(held) if name in names), None) for name in (left, right)]
    if at[0] is None or at[1] is None:
        return 0
    if at[0] == at[1]:
        return order_of(node.items[at[0]], left, right)
    return 0 if isinstance(node, And) else -1 if at[0] < at[1] else 1


# ---- of MATCH_RECOGNIZE


def row_edges_of(bound: BoundRows) -> tuple[JoinEdge, ...]:
    """Return the edges of a clause: of DEFINE, and of PARTITION BY between rows that every match has."""
    required = find_sure_labels(bound.pattern)
    found: list[_Equality] = []
    after: set[tuple[str, str]] = set()
    for condition in bound.conditions:
        for each in conjuncts(condition.expr):
            if isinstance(each, Binary) and each.op == "=":
                terms = [
                    _row_term(side, condition.label, bound, required) for side in (each.left, each.right)
                ]
                if terms[0] is not None and terms[1] is not None:
                    found += _equality(terms[0], terms[1])
                    after |= {(condition.label, term.name) for term in terms if term is not None}
    shared = [KeyPart(value, value, kind, True, True) for value, kind in _row_partition(bound)]
    return tuple(
        replace(each, order=((each.left, each.right) in after) - ((each.right, each.left) in after))
        for each in _join(bound.labels, found, shared, required)
    )


def find_sure_labels(pattern: RowPattern) -> frozenset[str]:
    """Return the labels that every match has."""
    match pattern:
        case Label(name):
            return frozenset({name})
        case Concat(items) | Permute(items):
            return frozenset[str]().union(*map(find_sure_labels, items))
        case Alternation(items):
            return frozenset.intersection(*map(find_sure_labels, items)) if items else frozenset()
        case Excluded(item):
            return find_sure_labels(item)
        case Quantified(item, low):
            return find_sure_labels(item) if low else frozenset()
    return frozenset()


def _is_single(pattern: RowPattern, name: str) -> bool:
    """Tell whether a match has at most one row with a label."""
    if sum(isinstance(each, Label) and each.name == name for each in walk_rows(pattern)) != 1:
        return False
    repeated = (each for each in walk_rows(pattern) if isinstance(each, Quantified) and each.high != 1)
    return not any(
        isinstance(part, Label) and part.name == name for each in repeated for part in walk_rows(each)
    )


def _row_term(expr: Expr, label: str, bound: BoundRows, required: frozenset[str]) -> _Term | None:
    """Return a side of an equality in the condition of a label, if it reads one row of the match."""
    atoms = [bound.atoms[each.path[0]] for each in attributes(expr)]
    rows = {(each.members, each.last, each.offset, each.shift) for each in atoms if isinstance(each, Nav)}
    if not all(isinstance(each, Nav) for each in atoms) or len(rows) != 1:
        return None
    members, last, offset, shift = rows.pop()
    columns = _over_columns(expr, bound)
    if columns is None or shift or (members is not None and len(members) != 1):
        return None
    if members is None or label in members:
        return _Term(label, ALL, columns) if last and not offset else None
    (name,) = members
    every = label in required and _is_single(bound.pattern, name)
    return _Term(name, ALL if every else f"{label} {last} {offset}", columns)


def _over_columns(expr: Expr, bound: BoundRows) -> Expr | None:
    """Return an expression over columns in place of atoms; None: a column is the host's, or a label."""
    known = set(bound.columns.names)
    derived = {each.name: each.expr for each in bound.derived}
    names = {atom.column for atom in bound.atoms_of(expr) if isinstance(atom, Nav)}
    if any(name not in known and derived.get(name) is None for name in names):
        return None

    def change(each: Expr) -> Expr:
        if not isinstance(each, Attr):
            return rebuild(each, change)
        atom = bound.atoms[each.path[0]]
        assert isinstance(atom, Nav)
        return derived.get(atom.column) or Attr("", (atom.column,), kind=each.kind)

    return change(expr)


def _row_partition(bound: BoundRows) -> Iterator[tuple[Expr, Kind]]:
    for name in bound.partition:
        kind = kind_of(bound.type_of(name))
        if name in bound.columns.names and kind in COMPUTABLE and kind is not Kind.NULL:
            yield Attr("", (name,), kind=kind), kind


# ---- of both languages


@dataclass(frozen=True, slots=True)
class _Term:
    """One side of an equality: a variable, the events of it that are meant, and an expression over each."""

    name: str
    meant: str | None
    expr: Expr


_Equality = tuple[_Term, _Term, Kind]


def _equality(left: _Term, right: _Term) -> Iterator[_Equality]:
    """Yield the equality of two terms, if it is between two variables and of a kind that has hashes."""
    kind = promote(kind_of_value(left.expr), kind_of_value(right.expr))
    known = left.meant is not None and right.meant is not None and left.name != right.name
    if known and kind in COMPUTABLE and kind is not Kind.NULL:
        assert kind is not None
        yield left, right, kind


def _join(
    names: Sequence[str], found: Iterable[_Equality], shared: Sequence[KeyPart], always: frozenset[str]
) -> Iterator[JoinEdge]:
    """Yield an edge for each two variables, and for each choice of their events that equalities are about.

    An equality about all events of both variables holds for any choice too.

    Args:
        names: the variables.
        found: the equalities.
        shared: the equalities between any two events of a match.
        always: the variables that every match has.
    """
    groups: dict[tuple[str, str], dict[tuple[str, str], list[KeyPart]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for left, right, kind in found:
        first, second = sorted((left, right), key=lambda term: names.index(term.name))
        meant = (first.meant or ALL, second.meant or ALL)
        groups[first.name, second.name][meant].append(KeyPart(first.expr, second.expr, kind))
    for pair in combinations(names, 2):
        meanings = groups.get(pair, {})
        everywhere = [*meanings.pop((ALL, ALL), []), *shared]
        if len(everywhere) > len(shared) or (shared and always.issuperset(pair)):
            yield JoinEdge(*pair, 0, frozenset(pair), tuple(everywhere))
        for meant, parts in meanings.items():
            judges = frozenset(name for name, each in zip(pair, meant, strict=True) if each == ALL)
            if judges:
                yield JoinEdge(*pair, 0, judges, (*parts, *everywhere))
