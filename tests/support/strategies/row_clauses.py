"""Bound clauses made by hand, for tests that need no text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cerise.kinds import Kind
from cerise.pattern.expr import Binary, Expr, Literal
from cerise.pattern.row_pattern import (
    Atom,
    BoundRows,
    Concat,
    Condition,
    Label,
    Measure,
    Nav,
    Order,
    Quantified,
    RowPattern,
    Shown,
    atom,
)

A, B, C = Label("A"), Label("B"), Label("C")


def seq(*items: RowPattern) -> Concat:
    return Concat(items)


def star(item: RowPattern, *, reluctant: bool = False) -> Quantified:
    return Quantified(item, 0, None, reluctant)


def optional(item: RowPattern, *, reluctant: bool = False) -> Quantified:
    return Quantified(item, 0, 1, reluctant)


def clause(pattern: RowPattern, table: pa.Table, **given: Any) -> BoundRows:
    """A clause ordered by `t`; `define` has expressions over `atoms`, `measures` the atoms to return."""
    atoms: dict[str, Atom] = given.pop("atoms", {"x": Nav("x")})
    define: dict[str, Expr] = given.pop("define", {})
    returned: dict[str, Atom] = given.pop("measures", {})
    measures = tuple(Measure(name, name, atom(name, Kind.INT), (name,)) for name in returned)
    shown = given.pop("output", tuple(Shown(name, True) for name in returned))
    return BoundRows(
        pattern, table.schema, given.pop("derived", ()), given.pop("partition", ()),
        given.pop("order", (Order("t"),)), {**atoms, **returned},
        tuple(Condition(label, expr) for label, expr in define.items()), measures, output=shown, **given,
    )  # fmt: skip


def is_(value: int | str, name: str = "x") -> Binary:
    """The condition that an atom has a value."""
    kind = Kind.STRING if isinstance(value, str) else Kind.INT
    return Binary("=", atom(name, kind), Literal(value, kind))


def rows_of(text: str) -> pa.Table:
    """A table with a column x of letters and t, their places."""
    return pa.table(
        {
            "x": pa.array(list(text), pa.string()),
            "t": pa.array(list(range(1, len(text) + 1)), pa.int64()),
        }
    )


LETTERS = {label: is_(label.lower()) for label in "ABC"}  # each variable takes rows of its letter
