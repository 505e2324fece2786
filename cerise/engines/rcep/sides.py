"""The sides of comparisons as integers that compare as the values do, for all events of a piece at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.engines.nfa.formulas import Scope
from cerise.engines.nfa.layout import COL_FAULTS, Layout
from cerise.engines.rcep.comparisons import Comparison, Side
from cerise.kernels import formulas
from cerise.kernels.predicates import NEVER, Writer, value
from cerise.kinds import Kind

Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
NULL = np.iinfo(np.int64).min  # where there is no value; no comparison holds there

HEAD = f"""\
def count_fault(cols) -> None:
    store(cols + {8 * COL_FAULTS}, load(cols + {8 * COL_FAULTS}) + 1)


def edge(k, r, d, e, cols, nodes):
    return 0


"""


@dataclass(frozen=True, slots=True)
class Keys:
    """Both sides of a comparison, for each event of a piece; the same array where they are the same."""

    left: Ints
    right: Ints


class Sides:
    """The values of some comparisons' sides."""

    def __init__(self, compared: Sequence[Comparison], layout: Layout) -> None:
        self.compared = tuple(compared)
        self._sides = list(dict.fromkeys(side.expr for each in compared for side in (each.left, each.right)))
        known = {side.expr: side for each in compared for side in (each.left, each.right)}
        texts = [_source(number, known[expr], layout) for number, expr in enumerate(self._sides)]
        self._code = formulas.load_columns(HEAD + "\n\n".join(texts)) if texts else None

    def keys(self, count: int, columns: int) -> list[Keys | None]:
        """Return the keys of each comparison; None where it must not be used, for these events.

        Args:
            count: how many events there are.
            columns: where generated code finds their columns.
        """
        found = {expr: self._values(number, count, columns) for number, expr in enumerate(self._sides)}
        return [self._keys(each, found) for each in self.compared]

    def _values(self, number: int, count: int, columns: int) -> tuple[Ints, Marks]:
        assert self._code is not None
        values, nulls = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._code[f"side{number}"](count, columns, values.ctypes.data, nulls.ctypes.data)
        return values, nulls != 0

    @staticmethod
    def _keys(compared: Comparison, found: dict[Any, tuple[Ints, Marks]]) -> Keys | None:
        floats = Kind.FLOAT in (compared.left.kind, compared.right.kind)
        keys: list[Ints] = []
        for side in (compared.left, compared.right):
            values, nulls = found[side.expr]
            ordered = _ordered(values, side.kind, floats=floats)
            if bool((ordered[~nulls] == NULL).any()):
                return None
            ordered[nulls] = NULL
            keys.append(ordered)
        same = compared.left.expr == compared.right.expr
        return Keys(keys[0], keys[0] if same else keys[1])


def _source(number: int, side: Side, layout: Layout) -> str:
    """Write the function that fills in the values of a side and where they are null."""
    known = len(layout.columns)
    scope = Scope(layout, frozenset(), {side.var: 0}, frozenset(), newest=side.var)
    writer = Writer(depth=2)
    found = value(side.expr, scope, writer)
    assert len(layout.columns) == known, "a comparison asks for no column that its formula does not"
    writer.line(f"{'store_float' if side.kind is Kind.FLOAT else 'store'}(out + 8 * e, {found.code})")
    if found.null != NEVER:
        writer.line(f"store(nulls + 8 * e, 1 if {found.null} else 0)")
    head = [f"def side{number}(n, cols, out, nulls) -> None:", "    for e in range(n):"]
    return "\n".join([*head, *writer.lines, ""])


def _ordered(values: Ints, kind: Kind, *, floats: bool) -> Ints:
    """Return integers in the order of the values; as doubles, where one side is one (S4.6)."""
    if not floats:
        return values.copy()
    doubles = values.view(np.float64) if kind is Kind.FLOAT else values.astype(np.float64)
    doubles = doubles + 0.0  # -0.0 is 0.0
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
