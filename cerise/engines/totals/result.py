"""Totals as a table with the columns that the query promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from cerise.engines.totals.cells import Argument, Cell
from cerise.engines.totals.groups import TIME, WINDOW, key_schema
from cerise.errors import DataError
from cerise.kinds import INT64_MAX, restore_as
from cerise.pattern.bound import Bound, OutColumn
from cerise.pattern.output import EXACT
from cerise.pattern.query import Total
from cerise.pattern.show import show_total


def result_table(
    bound: Bound, keys: Sequence[pa.Array], matches: Sequence[int], cells: Sequence[tuple[Argument, Cell]]
) -> pa.Table:
    """Return a row for each group.

    Args:
        bound: the query.
        keys: the key columns of the groups.
        matches: how many matches each group has.
        cells: the arguments of aggregates, each with its partial aggregates.
    """
    named = dict(zip(key_schema(bound).names, keys, strict=True))
    columns = []
    for column in bound.columns:
        if isinstance(column.fill, Total):
            columns.append(_total(column, column.fill, matches, cells))
        else:
            columns.append(_key(column, named, len(matches), bound))
    return pa.Table.from_arrays(columns, schema=bound.output_schema)


def _key(column: OutColumn, keys: dict[str, pa.Array], rows: int, bound: Bound) -> pa.Array:
    match column.fill:
        case "last_time":
            return restore_as(keys[TIME], column.type)
        case "into":
            return pa.array([bound.query.into] * rows, pa.string())
        case "window_start" | "window_end":
            return _ends(column, keys[WINDOW].to_pylist(), bound)
        case tuple() as path:
            return restore_as(keys[f"key_{bound.partition.index(path)}"], column.type)
    raise AssertionError(column.fill)


def _ends(column: OutColumn, windows: Sequence[int], bound: Bound) -> pa.Array:
    assert bound.within is not None
    assert bound.slide is not None
    size, step = int(str(bound.within.size)), int(str(bound.slide.size))
    ends = [window * step + (size if column.fill == "window_end" else 0) for window in windows]
    if any(end > INT64_MAX for end in ends):
        raise DataError("a window ends beyond the last time there is", hint="leave out events at such times")
    return restore_as(pa.array(ends, pa.int64()), column.type)


def _total(
    column: OutColumn, total: Total, matches: Sequence[int], cells: Sequence[tuple[Argument, Cell]]
) -> pa.Array:
    if total.arg is None:
        return _whole(column, total, matches)
    argument, cell = next((argument, cell) for argument, cell in cells if argument.arg == total.arg)
    values = argument.total(total.function, cell)
    if isinstance(values, pa.Array):
        return restore_as(values, column.type)
    if pa.types.is_floating(column.type):
        return pa.array(values, column.type)
    return _whole(column, total, values)


def _whole(column: OutColumn, total: Total, values: Sequence[int | None]) -> pa.Array:
    """Return whole numbers of any size as text, or as numbers if they fit."""
    if column.type == pa.string():
        texts = [None if value is None else str(Decimal(value)) for value in values]  # of any length
        return pa.array(texts, column.type)
    most = 10**38 - 1 if column.type == EXACT else INT64_MAX
    for value in values:
        if value is not None and abs(value) > most:
            raise _too_large(column, total, value)
    return pa.array([None if value is None else Decimal(value) for value in values], EXACT).cast(column.type)


def _too_large(column: OutColumn, total: Total, value: int) -> DataError:
    digits = len(Decimal(value).as_tuple().digits)
    if column.type != EXACT:
        return DataError(
            f"'{column.name}' has {digits} digits: as an attribute of events it must fit into 64 bits",
            hint="ask for the totals alone, without a query that reads FROM them",
        )
    text = show_total(replace(total, text=True))
    also = "; cerise.count gives an int" if total.arg is None else ""
    return DataError(
        f"'{column.name}' has {digits} digits, and decimal(38, 0) holds 38",
        hint=f"RETURN {text} gives all digits as text{also}",
    )
