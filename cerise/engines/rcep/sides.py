"""The sides of comparisons as integers that compare as the values do, for all events of a piece at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerise.engines.nfa.columns import Columns
from cerise.engines.nfa.formulas import Scope
from cerise.engines.nfa.layout import COL_FAULTS, Layout
from cerise.engines.rcep.comparisons import Comparison, Side
from cerise.kernels import formulas
from cerise.kernels.predicates import NEVER, Writer, value
from cerise.kinds import Kind
from cerise.pattern.expr import Expr

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
    """The values of some comparisons' sides.

    Args:
        compared: the comparisons.
        layout: where their attributes lie.
        bits: the bit of each variable in masks.
    """

    def __init__(self, compared: Sequence[Comparison], layout: Layout, bits: Mapping[str, int]) -> None:
        self.compared = tuple(compared)
        known = {side.expr: side for each in compared for side in (each.left, each.right)}
        self._sides = list(known)
        texts = [_source(number, side, layout, bits[side.var]) for number, side in enumerate(known.values())]
        self._code = formulas.load_columns(HEAD + "\n\n".join(texts)) if texts else {}

    def keys(self, columns: Columns, masks: Ints, fresh: int) -> list[Keys | None]:
        """Return the keys of each comparison; None where it must not be used, for these events.

        Args:
            columns: those of the events.
            masks: which variables each event fits; it has a value on the sides of these.
            fresh: the first event that is new: what cannot be computed of the others was counted before.
        """
        found = self._filled(columns, masks, fresh)
        return [self._keys(each, found) for each in self.compared]

    def ranks(self, columns: Columns, masks: Ints, fresh: int) -> list[Keys]:
        """Return both sides of each comparison as dense ranks in their common order; null is -1."""
        found = self._filled(columns, masks, fresh)
        return [_ranked(each, found) for each in self.compared]

    def _filled(self, columns: Columns, masks: Ints, fresh: int) -> dict[Expr, tuple[Ints, Marks]]:
        found = {}
        for number, expr in enumerate(self._sides):
            values, nulls = np.zeros(len(masks), np.int64), np.zeros(len(masks), np.int64)
            places = (columns.address, masks.ctypes.data, values.ctypes.data, nulls.ctypes.data)
            faults = int(columns.words[COL_FAULTS])
            self._code[f"side{number}"](0, fresh, *places)
            columns.words[COL_FAULTS] = faults
            self._code[f"side{number}"](fresh, len(masks), *places)
            found[expr] = values, nulls != 0
        return found

    @staticmethod
    def _keys(compared: Comparison, found: dict[Expr, tuple[Ints, Marks]]) -> Keys | None:
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


def _ranked(compared: Comparison, found: dict[Expr, tuple[Ints, Marks]]) -> Keys:
    floats = Kind.FLOAT in (compared.left.kind, compared.right.kind)
    sides = dict.fromkeys((compared.left, compared.right))
    ordered = {side: _ordered(found[side.expr][0], side.kind, floats=floats) for side in sides}
    known = np.unique(np.concatenate([ordered[side][~found[side.expr][1]] for side in sides]))
    ranks = {side: np.searchsorted(known, ordered[side]) for side in sides}
    for side in sides:
        ranks[side][found[side.expr][1]] = -1
    return Keys(ranks[compared.left], ranks[compared.right])


def _source(number: int, side: Side, layout: Layout, bit: int) -> str:
    """Write the function that fills in the values of a side, of events that fit its variable."""
    known = len(layout.columns)
    scope = Scope(layout, frozenset(), {side.var: 0}, frozenset(), newest=side.var)
    writer = Writer(depth=3)
    found = value(side.expr, scope, writer)
    assert len(layout.columns) == known, "a comparison asks for no column that its formula does not"
    writer.line(f"{'store_float' if side.kind is Kind.FLOAT else 'store'}(out + 8 * e, {found.code})")
    if found.null != NEVER:
        writer.line(f"store(nulls + 8 * e, 1 if {found.null} else 0)")
    head = [
        f"def side{number}(first, n, cols, masks, out, nulls) -> None:", "    e = first + 0",
        "    while e < n:",
        f"        if load(masks + 8 * e) & {bit} != 0:",
    ]  # fmt: skip
    return "\n".join(
        [*head, *writer.lines, "        else:", "            store(nulls + 8 * e, 1)", "        e += 1", ""]
    )


def _ordered(values: Ints, kind: Kind, *, floats: bool) -> Ints:
    """Return integers in the order of the values; as doubles, where one side is one (S4.6)."""
    if not floats:
        return values.copy()
    doubles = values.view(np.float64) if kind is Kind.FLOAT else values.astype(np.float64)
    doubles = doubles + 0.0  # -0.0 is 0.0
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
