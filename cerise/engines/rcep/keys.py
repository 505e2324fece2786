"""The sides of comparisons as integers in the order of their values, for all events of a piece at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.columns import Columns
from cerise.engines.automaton.formulas import Scope
from cerise.engines.automaton.layout import ProgramLayout
from cerise.engines.automaton.records import Chunk
from cerise.kernels import formulas, jit
from cerise.kernels.jit import boolean, kernel
from cerise.kernels.predicates import NEVER, Writer, value
from cerise.kinds import Kind
from cerise.plan.comparisons import EventComparison, Side

Ints = npt.NDArray[np.int64]
NULL = -(2**63)  # the key of null, with which no comparison holds
MAX = 2**63 - 1
INFINITY, NAN = 0x7FF << 52, 0xFFF << 51  # bits of doubles

HEAD = f"""\
def count_fault(cols) -> None:
    store(cols + {8 * Chunk.faults}, load(cols + {8 * Chunk.faults}) + 1)


def edge(k, r, d, e, cols, nodes):
    return 0


"""


@dataclass(frozen=True, slots=True)
class Keys:
    """Both sides of a comparison, for each event of a piece; equal sides share one array."""

    left: Ints
    right: Ints


class Sides:
    """Computes the values of comparisons' sides.

    Args:
        compared: the comparisons.
        layout: the layout of the query's columns.
        bits: the bit of each variable in masks.
    """

    def __init__(
        self, compared: Sequence[EventComparison], layout: ProgramLayout, bits: Mapping[str, int]
    ) -> None:
        sides = {side.expr: side for each in compared for side in (each.left, each.right)}
        numbers = {expr: number for number, expr in enumerate(sides)}
        self._kinds = [side.kind for side in sides.values()]
        self._pairs = [(numbers[each.left.expr], numbers[each.right.expr]) for each in compared]
        texts = [_source(number, side, layout, bits[side.var]) for number, side in enumerate(sides.values())]
        self._code = formulas.load_columns(HEAD + "\n\n".join(texts)) if texts else {}

    def keys(self, columns: Columns, masks: Ints, fresh: int) -> list[Keys | None]:
        """Return the keys of each comparison; None: a value equals NULL, so keys cannot stand for the values.

        Args:
            columns: the columns of the events.
            masks: the variables that each event fits; it has values only on the sides of these variables.
            fresh: the first new event: faults of earlier events were counted before.
        """
        found = self._fill(columns, masks, fresh)
        known: dict[tuple[int, bool], tuple[Ints, bool]] = {}
        keys: list[Keys | None] = []
        for pair in self._pairs:
            doubles = self._as_doubles(pair)
            for side in pair:
                if (side, doubles) not in known:
                    known[side, doubles] = _order_values(*found[side], self._kinds[side], doubles=doubles)
            (left, left_distinct), (right, right_distinct) = (known[side, doubles] for side in pair)
            keys.append(Keys(left, right) if left_distinct and right_distinct else None)
        return keys

    def ranks(self, columns: Columns, masks: Ints, fresh: int) -> list[Keys]:
        """Return both sides of each comparison as dense ranks in their common order; null is -1."""
        found = self._fill(columns, masks, fresh)
        return [self._rank(pair, found) for pair in self._pairs]

    def _rank(self, pair: tuple[int, int], found: list[tuple[Ints, Ints]]) -> Keys:
        doubles = self._as_doubles(pair)
        ordered = {side: _order_values(*found[side], self._kinds[side], doubles=doubles)[0] for side in pair}
        nulls = {side: found[side][1] != 0 for side in pair}
        known = np.unique(np.concatenate([ordered[side][~nulls[side]] for side in ordered]))
        ranks = {side: np.searchsorted(known, ordered[side]) for side in ordered}
        for side, found_ranks in ranks.items():
            found_ranks[nulls[side]] = -1
        return Keys(*(ranks[side] for side in pair))

    def _as_doubles(self, pair: tuple[int, int]) -> bool:
        """Whether two sides are compared as doubles, because one side is a double (S4.6)."""
        return any(self._kinds[side] is Kind.FLOAT for side in pair)

    def _fill(self, columns: Columns, masks: Ints, fresh: int) -> list[tuple[Ints, Ints]]:
        """Compute the values of each side, and whether they are null."""
        found = []
        for number in range(len(self._kinds)):
            values, nulls = np.zeros(len(masks), np.int64), np.zeros(len(masks), np.int64)
            places = (columns.address, masks.ctypes.data, values.ctypes.data, nulls.ctypes.data)
            faults = columns.chunk.faults
            self._code[f"side{number}"](0, fresh, *places)
            columns.chunk.faults = faults
            self._code[f"side{number}"](fresh, len(masks), *places)
            found.append((values, nulls))
        return found


def _order_values(values: Ints, nulls: Ints, kind: Kind, *, doubles: bool) -> tuple[Ints, bool]:
    """Return integers in the order of values, NULL for nulls; and whether no value itself equals NULL."""
    cast = doubles and kind is not Kind.FLOAT
    ordered = values.astype(np.float64).view(np.int64) if cast else values.copy()
    return ordered, bool(order(ordered, nulls, doubles))


@kernel(boolean(jit.Ints, jit.Ints, boolean))
def order(values: Any, nulls: Any, doubles: bool) -> bool:
    """Replace values, or bits of doubles, by integers in their order; False: a value equals NULL."""
    distinct = True
    for e in range(len(values)):
        if nulls[e]:
            values[e] = NULL
        elif doubles:
            size = values[e] & MAX
            values[e] = NAN if size > INFINITY else size if values[e] >= 0 else -size  # -0.0 is 0.0
        elif values[e] == NULL:
            distinct = False
    return distinct


def _source(number: int, side: Side, layout: ProgramLayout, bit: int) -> str:
    """Write the function that computes a side for all events that fit its variable."""
    known = len(layout.columns)
    scope = Scope(layout, frozenset(), {side.var: 0}, frozenset(), newest=side.var)
    writer = Writer(depth=3)
    found = value(side.expr, scope, writer)
    assert len(layout.columns) == known, "a comparison reads a column that no formula reads"
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
