"""Clauses bound to a small table of trades, for the tests of their language."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cerise.errors import BindError, CeriseError
from cerise.lang.match_recognize import Host, bind_rows, parse_statement
from cerise.pattern.expr import Expr
from cerise.pattern.row_pattern import BoundRows

POINT = pa.struct([("x", pa.int32()), ("Y", pa.string())])
COLUMNS = pa.schema(
    [("sym", pa.string()), ("ts", pa.timestamp("us")), ("at", pa.timestamp("us", "UTC")), ("n", pa.int64()),
     ("price", pa.float64()), ("flag", pa.bool_()), ("point", POINT), ("big", pa.decimal128(38, 2)),
     ("list", pa.list_(pa.int64())), ("a", pa.int64())]
)  # fmt: skip
A, B = frozenset({"A"}), frozenset({"B"})


class Spark:
    """A host that knows the types of some expressions: those that have a word in them."""

    def __init__(self, **types: pa.DataType) -> None:
        self.types = types

    def type_of(self, sql: str) -> pa.DataType:
        for word, type_ in self.types.items():
            if word in sql:
                return type_
        raise BindError(f"Spark knows no {sql}", hint="ask for something else")


def bind(
    inside: str, host: Host | None = None, *, dialect: str = "standard", columns: pa.Schema = COLUMNS
) -> BoundRows:
    (clause,) = parse_statement(f"SELECT * FROM trades AS t MATCH_RECOGNIZE ({inside})", dialect).clauses
    return bind_rows(clause, columns, host)


def condition(text: str, host: Host | None = None) -> tuple[Expr, BoundRows]:
    """The condition of B, which may be in U."""
    bound = bind(f"ALL ROWS PER MATCH PATTERN (A B) SUBSET U = (A, B) DEFINE B AS {text}", host)
    return bound.conditions[0].expr, bound


def measure(text: str, *, rows: str = "ALL ROWS PER MATCH", host: Host | None = None) -> BoundRows:
    return bind(f"MEASURES {text} AS m {rows} PATTERN (A B) SUBSET U = (A, B) DEFINE B AS true", host)


def atoms(bound: BoundRows) -> list[Any]:
    return list(bound.atoms.values())


def marked(error: CeriseError) -> str:
    """What an error points at."""
    assert error.span is not None
    assert error.text is not None
    return error.text[error.span.start : error.span.end]
