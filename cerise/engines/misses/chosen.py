"""Chooses the rows to explain by `where=`, an SQL predicate over one row."""

from __future__ import annotations

import pyarrow as pa

from cerise.engines.rows.prepare import compute_column
from cerise.errors import BindError, CeriseError, Span

CHOSEN = "__cerise_chosen"
BEFORE, AFTER = "SELECT * FROM events MATCH_RECOGNIZE (ORDER BY (", "\n) ALL ROWS PER MATCH PATTERN (()))"


def with_chosen(table: pa.Table, where: str | None) -> pa.Table:
    """Return a table with a column that marks the rows to explain; without `where`, the table as it is.

    Raises:
        ParseError, BindError: the predicate is wrong; the error points into it.
        UnsupportedError: only Spark could compute the predicate.
    """
    if where is None:
        return table
    from cerise.lang.match_recognize import bind_rows, parse_alone  # brings sqlglot

    try:
        bound = bind_rows(parse_alone(f"{BEFORE}{where}{AFTER}"), table.schema)
    except CeriseError as error:
        span = error.span and Span(error.span.start - len(BEFORE), error.span.end - len(BEFORE))
        raise type(error)(error.problem, span=span, text=where, hint=error.hint) from None
    name = bound.order[0].column
    made = next((each for each in bound.derived if each.name == name), None)
    values = table.column(name) if made is None else compute_column(made, table)
    if values.type != pa.bool_():
        raise refuse(where)
    return table.append_column(CHOSEN, values.fill_null(False))


def refuse(where: str) -> BindError:
    """Return the error for an expression that is neither true nor false."""
    return BindError(
        f"where={where!r} is not a predicate", hint="write a predicate over columns, as in price > 10"
    )
