"""Computes expressions over whole columns with compiled code; `pattern.evaluate` computes row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.automaton.derived import computes_text, find_literal_only
from cerise.engines.automaton.formulas import load_code, words
from cerise.engines.results.columns import TableColumns
from cerise.engines.results.context import COLUMNS, HEAD, SCAN_NAMES, Context, column_name, text_name
from cerise.engines.threads import room
from cerise.events import Path
from cerise.kernels import formulas
from cerise.kernels.jit import ask, int64, kernel, void
from cerise.kernels.predicates import NEVER, Value, Writer, value
from cerise.kinds import ARROW_OF, COMPUTABLE, DAY_US, Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import Agg, Attr, Expr, attributes, walk


@dataclass(frozen=True, slots=True)
class Computed:
    """The values of an expression, null where a value cannot be computed, and how many could not."""

    values: pa.Array
    faults: int


def is_compiled(expr: Expr) -> bool:
    """Whether an expression can be computed here: it must not compute with text."""
    kinds = {kind_of(expr), *(kind_of(each) for each in attributes(expr))}
    return kinds <= COMPUTABLE and not any(map(computes_text, walk(expr)))


def compute(expr: Expr, columns: dict[Path, pa.Array], rows: int) -> Computed:
    """Compute an expression for all rows.

    Args:
        expr: an expression over attributes of one row.
        columns: the values of these attributes.
        rows: how many rows there are.
    """
    scope, writer = _Cells(), Writer(depth=2)
    found = value(expr, scope, writer)
    code = formulas.load(_source(expr, found, scope, writer))
    table = pa.table({_name(path): columns[path] for path in scope.kinds})
    literal = frozenset(map(_name, find_literal_only([expr])))
    read = TableColumns({_name(path): kind for path, kind in scope.kinds.items()}, scope.texts, literal)
    values = read.read(table)
    context, nulls = values.words(), np.zeros(rows, np.int64)
    out = room(rows, np.float64 if kind_of(expr) is Kind.FLOAT else np.int64)
    each_row(code.edge, context.ctypes.data, rows, out.ctypes.data, nulls.ctypes.data)
    return Computed(_column(out, nulls != 0, kind_of(expr), values.texts), int(context[Context.faults]))


@kernel(void(*[int64] * 5))
def each_row(edge: Any, cols: int, rows: int, out: int, nulls: int) -> None:
    """Call generated code that writes for each row a value and whether it is null."""
    ask(edge, 0, out, 0, rows, cols, nulls)


@dataclass(slots=True)
class _Cells:
    """Writes the code of attributes of row `e`."""

    kinds: dict[Path, Kind] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)

    def attribute(self, attr: Attr, writer: Writer) -> Value:
        self.kinds.setdefault(attr.path, kind_of(attr))
        number = list(self.kinds).index(attr.path)
        code = writer.name(load_code(f"{column_name(number)} + 8 * e", self.kinds[attr.path]))
        return Value(code, writer.name(f"(load(nulls + step * e) >> {number}) & 1 != 0"))

    def aggregate(self, agg: Agg, writer: Writer) -> Value:  # noqa: ARG002
        """Raise: an expression over one row has no aggregates."""
        raise AssertionError(agg)

    def text(self, literal: str) -> str:
        return text_name(self.texts.setdefault(literal, len(self.texts)))


def _source(expr: Expr, found: Value, scope: _Cells, writer: Writer) -> str:
    store = "store_float" if kind_of(expr) is Kind.FLOAT else "store"
    known = [f"{name} = load({words('cols', word)})" for word, name in SCAN_NAMES.items()]
    known += [f"{column_name(i)} = load({words('cols', COLUMNS + i)})" for i in range(len(scope.kinds))]
    known += [f"{text_name(i)} = load({words('texts', i)})" for i in range(len(scope.texts))]
    lines = ["stop = e + 0", "e = d", "while e < stop:"]
    head = [f"    {each}" for each in (*known, *lines)]
    tail = [f"{store}(r + 8 * e, {found.code})"]
    tail += [] if found.null == NEVER else [f"store(nodes + 8 * e, 1 if {found.null} else 0)"]
    body = [*writer.lines, *(f"        {each}" for each in (*tail, "e += 1"))]
    return HEAD + "\n".join([*head, *body, "    return 0\n"])


def _name(path: Path) -> str:
    return ".".join(path)


def _column(
    values: npt.NDArray[np.int64] | npt.NDArray[np.float64],
    null: npt.NDArray[np.bool_],
    kind: Kind,
    texts: pa.Array,
) -> pa.Array:
    """Return values as a column of the Arrow type of their kind."""
    if kind is Kind.NULL:
        return pa.nulls(len(values))
    array = pa.array(values, mask=null if null.any() else None)
    match kind:
        case Kind.STRING:
            return texts.take(array)
        case Kind.BOOL:
            return pc.not_equal(array, 0)
        case Kind.DATE:
            days = pa.array(values // DAY_US, mask=null)
            return days.cast(pa.int32()).cast(pa.date32())
    return array.cast(ARROW_OF[kind])
