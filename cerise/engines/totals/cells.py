"""Partial aggregates of one argument, group by group: counts, sums and extremes, which can be merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.totals.exact import (
    Ints,
    Objects,
    double,
    integers,
    number_of,
    odd_sums,
    sum_double_products,
    sum_groups,
    sum_products,
    text_of,
)
from cerise.kinds import STORED, Kind
from cerise.pattern.bound import Bound
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import OnFault
from cerise.pattern.expr import Attr, Expr
from cerise.pattern.query import Total

Cell = Mapping[str, Any]  # for each part an array of values by group
NEEDS = {
    "count": ("count",), "sum": ("count", "total", "odd"), "avg": ("count", "total", "odd"),
    "min": ("least",), "max": ("most",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of aggregates.

    Attributes:
        arg: the expression.
        kind: the kind of its values; BOOL for an event itself, which is only counted.
        parts: the parts that the aggregates need: count, total, odd (the sum of non-finite values), least,
            most.
        forgive: called for each value that cannot be computed, and does not count; None: that is an error.
    """

    arg: Expr
    kind: Kind
    parts: tuple[str, ...]
    forgive: OnFault | None = None

    @classmethod
    def of(cls, bound: Bound, forgive: OnFault | None = None) -> tuple[Argument, ...]:
        """Return the arguments of a query's totals, in the order of `bound.arguments`."""
        totals = [column.fill for column in bound.columns if isinstance(column.fill, Total)]
        found = []
        for arg in bound.arguments:
            kind = Kind.BOOL if isinstance(arg, Attr) and not arg.path else kind_of(arg)
            parts = dict.fromkeys(part for each in totals if each.arg == arg for part in NEEDS[each.function])
            needed = tuple(part for part in parts if part != "odd" or kind is Kind.FLOAT)
            found.append(cls(arg, kind, needed, forgive))
        return tuple(found)

    def fields(self, number: int) -> list[pa.Field]:
        """Return the columns of its parts in a partial result; unbounded integers are text."""
        types = {"count": pa.string(), "total": pa.string(), "odd": pa.float64()}
        return [pa.field(f"{part}_{number}", types.get(part, STORED[self.kind])) for part in self.parts]

    def cell(self, groups: Ints, values: pa.Array, weights: Ints | Objects, size: int) -> Cell:
        """Aggregate values by group.

        Args:
            groups: the group of each value.
            values: the values in canonical form; nulls do not count.
            weights: how often each value counts.
            size: how many groups there are.
        """
        valid = np.asarray(values.is_valid())
        groups, values, weights = groups[valid], values.drop_null(), weights[valid]
        cell: dict[str, Any] = {}
        if "count" in self.parts:
            cell["count"] = sum_groups(groups, weights, size)
        if "total" in self.parts:
            cell |= self._sums(groups, values.to_numpy(zero_copy_only=False), weights, size)
        for part in ("least", "most"):
            if part in self.parts:
                cell[part] = _extreme(part, groups, values, size)
        return cell

    def _sums(self, groups: Ints, values: Any, weights: Ints | Objects, size: int) -> Cell:
        if self.kind is not Kind.FLOAT:
            return {"total": sum_products(groups, values, weights, size)}
        finite = np.isfinite(values)
        total = sum_double_products(groups[finite], values[finite], weights[finite], size)
        return {"total": total, "odd": odd_sums(groups[~finite], values[~finite], size)}

    def merge(self, cells: Sequence[Cell], groups: Ints, size: int) -> Cell:
        """Merge cells into one.

        Args:
            cells: the cells to merge.
            groups: the new group of each value of the cells, one cell after another.
            size: how many new groups there are.
        """
        found: dict[str, Any] = {}
        for part in self.parts:
            if part in ("least", "most"):
                values = pa.concat_arrays([pa.array([], STORED[self.kind]), *(each[part] for each in cells)])
                found[part] = _extreme(part, groups[np.asarray(values.is_valid())], values.drop_null(), size)
            elif part == "odd":
                found[part] = odd_sums(groups, np.concatenate([np.zeros(0), *(c[part] for c in cells)]), size)
            else:
                found[part] = sum_groups(
                    groups, np.concatenate([integers([]), *(c[part] for c in cells)]), size
                )
        return found

    def total(self, function: str, cell: Cell) -> list[Any] | pa.Array:
        """Return an aggregate for each group: numbers, or canonical values."""
        match function:
            case "count":
                return list(cell["count"])
            case "min":
                return cell["least"]
            case "max":
                return cell["most"]
            case "sum" if self.kind is Kind.INT:
                return [t if n else None for t, n in zip(cell["total"], cell["count"], strict=True)]
            case "avg" if self.kind is Kind.INT:
                return [t / n if n else None for t, n in zip(cell["total"], cell["count"], strict=True)]
        known = zip(cell["total"], cell["odd"].tolist(), cell["count"], strict=True)
        return [double(t, odd, 1 if function == "sum" else n) if n else None for t, odd, n in known]


def _extreme(part: str, groups: Ints, values: pa.Array, size: int) -> pa.Array:
    """Return the least or the greatest value of each group, null for an empty group; NaN is greatest."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    best = np.full(size, -1)
    if len(groups):
        codes = ranks[encoded.indices]
        by_group = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[by_group], return_index=True)
        pick = np.minimum if part == "least" else np.maximum
        best[present] = pick.reduceat(codes[by_group], starts)
    return encoded.dictionary.take(order).take(pa.array(best, mask=best < 0))


def columns_of(cell: Cell, fields: Sequence[pa.Field]) -> list[pa.Array]:
    """Return a cell as columns of a partial result."""
    found = []
    for field in fields:
        values = cell[_part(field)]
        found.append(pa.array(map(text_of, values) if _is_text(field) else values, field.type))
    return found


def cell_of(table: pa.Table, fields: Sequence[pa.Field]) -> Cell:
    """Return columns of a partial result as a cell."""
    cell: dict[str, Any] = {}
    for field in fields:
        column = table.column(field.name).combine_chunks()
        cell[_part(field)] = (
            integers(map(number_of, column.to_pylist())) if _is_text(field)
            else column.to_numpy() if _part(field) == "odd" else column
        )  # fmt: skip
    return cell


def _part(field: pa.Field) -> str:
    return str(field.name.rpartition("_")[0])


def _is_text(field: pa.Field) -> bool:
    return _part(field) in ("count", "total")
