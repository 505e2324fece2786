"""The atoms of conditions and measures: navigation and aggregates, checked against M20 to M32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from cerise.errors import BindError, Span, UnsupportedError, did_you_mean
from cerise.kinds import COMPUTABLE, NUMBERS, Kind
from cerise.lang.match_recognize.columns import ClauseInput, fold_name, strip_parens
from cerise.lang.match_recognize.expressions import Node
from cerise.lang.match_recognize.translate import (
    Function,
    function_of,
    inside,
    is_classifier,
    is_query,
    path_of,
)
from cerise.lang.sase.expressions import whole_number
from cerise.pattern.expr import Attr
from cerise.pattern.row_pattern import CLASSIFIER, MatchNumber, MatchStatus, Nav, RowAgg

FURTHEST = 2**31 - 1  # rows that FIRST, LAST, PREV and NEXT may move
LOGICAL, PHYSICAL = ("first", "last"), ("prev", "next")
AGGREGATES = {
    "any_value": "any_value", "arbitrary": "any_value", "array_agg": "array_agg", "avg": "avg",
    "collect_list": "array_agg", "count": "count", "max": "max", "max_by": "max_by", "mean": "avg",
    "min": "min", "min_by": "min_by", "std": "stddev", "stddev": "stddev", "stddev_samp": "stddev",
    "sum": "sum",
}  # fmt: skip
DISTINCT = frozenset({"count", "sum", "avg", "array_agg", "min", "max"})
OF_NUMBERS = frozenset({"sum", "avg", "stddev"})
SPECIAL = frozenset({*LOGICAL, *PHYSICAL, *AGGREGATES, "classifier", "match_number", "match_status"})
# Spark's other aggregates are refused: as scalar functions of one row they would mean something else.
OTHER_AGGREGATES = frozenset(
    """approx_count_distinct approx_percentile bit_and bit_or bit_xor bool_and bool_or collect_set corr
    count_if count_min_sketch covar_pop covar_samp every first_value grouping histogram_numeric
    hll_sketch_agg kurtosis last_value listagg median mode percentile percentile_approx percentile_cont
    percentile_disc product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy skewness some stddev_pop string_agg try_avg try_sum var_pop var_samp variance""".split()
)
WINDOW_ONLY = frozenset("lag lead row_number rank dense_rank ntile cume_dist percent_rank nth_value".split())


@dataclass(frozen=True, slots=True)
class ExprContext:
    """The context of an expression: the condition of a variable, or a measure.

    Attributes:
        rows: the input.
        defines: the variable whose condition the expression belongs to; None in MEASURES.
        one: whether a match gives one row, so that RUNNING is FINAL (M33).
        ctes: names of WITH that subqueries in the expression cannot read.
    """

    rows: ClauseInput
    defines: str | None
    one: bool
    ctes: frozenset[str] = frozenset()

    def final(self, prefix: str, span: Span | None) -> bool:
        """Whether a navigation or aggregate with a prefix reads the whole match."""
        if prefix == "FINAL" and self.defines is not None:
            raise BindError(
                "FINAL in DEFINE", span=span,
                hint="a condition sees the rows up to the one that it tests: leave FINAL out (M20)",
            )  # fmt: skip
        return self.defines is None and (self.one or prefix == "FINAL")


def atom_of(node: Node, context: ExprContext) -> Attr | None:
    """Return a node as an atom; None if the node is computed from its operands.

    Raises:
        BindError: M20 to M32 do not allow the node.
    """
    rows = context.rows
    if (ref := rows.find(node)) is not None:
        name = rows.derive(node, computed=context.defines is not None)
        return rows.atom(Nav(name, rows.members(ref.var), final=context.final("", None)), rows.kind(name))
    if isinstance(node, exp.Filter):
        function = function_of(node.this)
        if function is None or function.name not in AGGREGATES:
            raise BindError("FILTER belongs to an aggregate", span=rows.span(node))
        return _aggregate(function, node, node.expression.this, context)
    refuse(node, context)
    function = function_of(node)
    return _atom_of_call(function, node, context) if function is not None else None


def _atom_of_call(function: Function, node: Node, context: ExprContext) -> Attr | None:
    rows, span = context.rows, context.rows.span(node)
    if function.name in AGGREGATES:
        return _aggregate(function, node, None, context)
    if function.name in LOGICAL:
        found = _logical(function, node, context)
        return rows.atom(found, rows.kind(found.column))
    if function.prefix:
        hint = "only FIRST, LAST and aggregates are RUNNING or FINAL"
        if function.name in PHYSICAL:
            hint = f"write {function.name.upper()}({function.prefix} LAST(…)) (M25)"
        raise BindError(f"{function.prefix} before {function.name.upper()}", span=span, hint=hint)
    if function.name in PHYSICAL:
        found = _physical(function, node, context)
        return rows.atom(found, rows.kind(found.column))
    if function.name == "classifier":
        members = rows.members(_read_classifier(function, node, rows))
        return rows.atom(Nav(CLASSIFIER, members, final=context.final("", None)), Kind.STRING)
    if function.name in ("match_number", "match_status"):
        return _of_match(function, span, context)
    return None


def _of_match(function: Function, span: Span | None, context: ExprContext) -> Attr:
    if function.args:
        raise BindError(f"{function.name.upper()}() takes no argument", span=span)
    if function.name == "match_number":
        return context.rows.atom(MatchNumber(), Kind.INT)
    if context.defines is not None:
        raise BindError(
            "MATCH_STATUS() in DEFINE", span=span, hint="it is known when the match is: use MEASURES"
        )
    return context.rows.atom(MatchStatus(), Kind.STRING)


def refuse(node: Node, context: ExprContext) -> None:
    """Refuse a node that has no meaning inside MATCH_RECOGNIZE."""
    span = context.rows.span(node)
    if isinstance(node, exp.Window):
        hint = "compute it in a query around MATCH_RECOGNIZE; PREV and NEXT reach other rows"
        raise BindError("a window function inside MATCH_RECOGNIZE", span=span, hint=hint)
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        raise UnsupportedError("IGNORE NULLS inside MATCH_RECOGNIZE", span=span)
    if isinstance(node, exp.WithinGroup | exp.Order):
        raise _order_error(span)
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        raise BindError("* outside count(…)", span=span, hint="name a column")
    if isinstance(node, exp.Placeholder | exp.Parameter):
        raise UnsupportedError(
            "a parameter inside MATCH_RECOGNIZE", span=span, hint="put the value into the text"
        )
    if is_query(node):
        _refuse_correlation(node, context)
    function = function_of(node)
    if function is not None and function.name in OTHER_AGGREGATES:
        raise UnsupportedError(
            f"the aggregate {function.name} is not supported here", span=span,
            hint=f"known: {', '.join(sorted(set(AGGREGATES.values())))}; array_agg(…) gives all values",
        )  # fmt: skip
    if function is not None and function.name in WINDOW_ONLY:
        raise BindError(
            f"the window function {function.name} inside MATCH_RECOGNIZE", span=span,
            hint="PREV and NEXT reach the rows before and after",
        )  # fmt: skip


def refuse_in_rows(node: Node, context: ExprContext) -> None:
    """Refuse a node of PARTITION BY or ORDER BY that reads more than one row of the input."""
    function = function_of(node)
    if isinstance(node, exp.Filter) or (function is not None and function.name in SPECIAL):
        raise BindError(
            "PARTITION BY and ORDER BY look at one row of the input", span=context.rows.span(node),
            hint="aggregates and navigation belong to MEASURES and DEFINE",
        )  # fmt: skip
    refuse(node, context)


def _refuse_correlation(query: Node, context: ExprContext) -> None:
    own = {each.alias_or_name.lower() for each in query.find_all(exp.Table, exp.Subquery)}
    for each in query.find_all(exp.Column):
        names = path_of(each) or ()
        known = context.rows.variables or {}
        if len(names) > 1 and fold_name(names[0]) in known and names[0].this.lower() not in own:
            raise UnsupportedError(
                "a subquery that depends on rows of the match", span=context.rows.span(each),
                hint="join the tables in a subquery before MATCH_RECOGNIZE",
            )  # fmt: skip
    for table in query.find_all(exp.Table):
        if table.name.lower() in context.ctes:
            raise UnsupportedError(
                f"a subquery inside MATCH_RECOGNIZE that reads the CTE '{table.name}'",
                span=context.rows.span(table), hint="make it a view, or join it before MATCH_RECOGNIZE",
            )  # fmt: skip


def _order_error(span: Span | None) -> UnsupportedError:
    return UnsupportedError(
        "ORDER BY inside an aggregate", span=span, hint="values come in the order of the rows (M32)"
    )


# ---- navigation


def _logical(function: Function, node: Node, context: ExprContext) -> Nav:
    operand, offset = _arguments(function, node, context, default=0)
    name, var = _operand([operand], f"{function.name.upper()}", node, context)
    final = context.final(function.prefix, context.rows.span(node))
    return Nav(name, context.rows.members(var), function.name == "last", offset, final)


def _physical(function: Function, node: Node, context: ExprContext) -> Nav:
    operand, offset = _arguments(function, node, context, default=1)
    shift = offset if function.name == "next" else -offset
    inner = function_of(operand)
    if inner is not None and inner.name in LOGICAL:
        return replace(_logical(inner, operand, context), shift=shift)
    name, var = _operand([operand], function.name.upper(), node, context)
    return Nav(name, context.rows.members(var), final=context.final("", None), shift=shift)


def _arguments(function: Function, node: Node, context: ExprContext, *, default: int) -> tuple[Node, int]:
    span, title = context.rows.span(node), function.name.upper()
    if not 1 <= len(function.args) <= 2:
        raise BindError(
            f"{title} takes an expression and a number of rows", span=span, hint=f"{title}(A.x, 1)"
        )
    operand = strip_parens(function.args[0])
    if len(function.args) == 1:
        return operand, default
    offset = function.args[1]
    if not (isinstance(offset, exp.Literal) and not offset.is_string and offset.this.isdecimal()):
        hint = f"write a number: {title}(A.x, 1)"
        if isinstance(offset, exp.Neg):
            hint = "it is not negative: " + {"prev": "use NEXT", "next": "use PREV"}.get(
                function.name, "use 0"
            )
        raise BindError(
            f"how many rows {title} moves is a constant", span=context.rows.span(offset) or span, hint=hint
        )
    rows = whole_number(offset.this, context.rows.span(offset) or span)
    if rows > FURTHEST:
        raise BindError(
            f"{title} moves more than {FURTHEST:,} rows", span=context.rows.span(offset) or span,
            hint="no partition has as many rows: give a smaller number",
        )  # fmt: skip
    return operand, rows


def _operand(nodes: Sequence[Node], title: str, call: Node, context: ExprContext) -> tuple[str, str | None]:
    """Return the column that a navigation reads, and its variable (M27, M28)."""
    found = _variables(nodes, title, context)
    if not found:
        raise BindError(
            f"{title} names no column", span=context.rows.span(call), hint=f"write {title}(A.x) (M27)"
        )
    return _column(nodes[0], title, context, computed=context.defines is not None), found[0]


def _column(node: Node, title: str, context: ExprContext, *, computed: bool) -> str:
    node = strip_parens(node)
    if is_classifier(node):
        return CLASSIFIER
    for each in inside(node):
        inner = function_of(each)
        if inner is not None and inner.name in ("classifier", "match_number", "match_status"):
            raise UnsupportedError(
                f"{inner.name.upper()}() computed with inside {title}", span=context.rows.span(each),
                hint=f"compute outside: f({title}({inner.name.upper()}())), or use SUBSET to select rows",
            )  # fmt: skip
    return context.rows.derive(node, computed=computed)


def variable_of(nodes: Sequence[Node], title: str, context: ExprContext) -> str | None:
    """Return the variable whose rows a navigation or aggregate reads; None: all rows (M27)."""
    found = _variables(nodes, title, context)
    return found[0] if found else None


def _variables(nodes: Sequence[Node], title: str, context: ExprContext) -> list[str | None]:
    """Return the variable of all names inside a navigation or aggregate, in a list; empty without names."""
    found: dict[str | None, Node] = {}
    for each in (each for node in nodes for each in inside(node)):
        if (ref := context.rows.find(each)) is not None:
            found.setdefault(ref.var, each)
            continue
        function = function_of(each)
        if isinstance(each, exp.Star):
            continue
        if isinstance(each, exp.Column):
            found.setdefault(_variable(each.args["table"], context.rows), each)
        elif function is not None and function.name == "classifier":
            found.setdefault(_read_classifier(function, each, context.rows), each)
        elif function is not None and function.name in SPECIAL - {"match_number", "match_status"}:
            raise _nest_error(title, function, context.rows.span(each))
        else:
            refuse(each, context)
    if len(found) > 1:
        names = " and ".join("all rows" if var is None else var for var in found)
        raise BindError(
            f"{title} mixes {names}", span=context.rows.span(list(found.values())[1]),
            hint="all columns inside have the same variable before them (M27)",
        )  # fmt: skip
    return list(found)


def _nest_error(title: str, inner: Function, span: Span | None) -> BindError:
    name = inner.name.upper()
    if title.lower() in AGGREGATES or inner.name in AGGREGATES:
        hint = "aggregates and navigation do not nest in each other (M27)"
    else:
        hint = "only PREV(FIRST(…)), PREV(LAST(…)), NEXT(FIRST(…)) and NEXT(LAST(…)) nest (M26)"
    return BindError(f"{name} inside {title}", span=span, hint=hint)


def _read_classifier(function: Function, node: Node, rows: ClauseInput) -> str | None:
    if function.prefix:
        raise BindError(f"{function.prefix} before CLASSIFIER", span=rows.span(node))
    if not function.args:
        return None
    names = path_of(function.args[0]) or ()
    if len(function.args) != 1 or len(names) != 1:
        raise BindError("CLASSIFIER takes a variable", span=rows.span(node), hint="write CLASSIFIER(A)")
    return _variable(names[0], rows)


def _variable(name: exp.Identifier, rows: ClauseInput) -> str:
    variables = rows.variables or {}
    if fold_name(name) not in variables:
        raise BindError(
            f"unknown variable '{name.this}'", span=rows.span(name), hint=did_you_mean(name.this, variables)
        )
    return fold_name(name)


# ---- aggregates


def _aggregate(function: Function, node: Node, where: Node | None, context: ExprContext) -> Attr:
    """Return an aggregate over the rows of a variable (M30–M32)."""
    rows, title, span = context.rows, function.name.upper(), context.rows.span(node)
    name = AGGREGATES[function.name]
    args, distinct = _plain_arguments(function, span)
    if distinct and name not in DISTINCT:
        raise UnsupportedError(f"DISTINCT in {title}", span=span, hint="leave it out")
    counts_rows = name == "count" and len(args) == 1 and _counts_rows(args[0], distinct=distinct)
    wanted = 2 if name.endswith("_by") else 1
    if len(args) != wanted:
        raise BindError(f"{title} takes {wanted} argument{'s' * (wanted > 1)}", span=span)
    if not counts_rows and any(isinstance(each, exp.Star) for arg in args for each in inside(arg)):
        raise BindError(f"{title} of *", span=span, hint="name a column; count(*) and count(A.*) count rows")
    conditions = [] if where is None else [where]
    found = _variables([*args, *conditions], title, context)
    if counts_rows and isinstance(args[0], exp.Star) and found not in ([], [None]):
        hint = f"write count({found[0]}.*)"
        raise BindError("count(*) counts all rows of the match", span=span, hint=hint)
    columns = () if counts_rows else tuple(_column(arg, title, context, computed=True) for arg in args)
    if name in OF_NUMBERS and rows.kind(columns[0]) is Kind.NULL:
        columns = (_column(exp.cast(args[0], "double"), title, context, computed=True),)
    kind = _kind(name, columns, rows, title, span)
    condition = _column(where, title, context, computed=True) if where is not None else None
    if condition is not None and rows.kind(condition) is not Kind.BOOL:
        raise BindError("FILTER takes a predicate", span=rows.span(where) if where else None)
    members = rows.members(found[0]) if found else None
    final = context.final(function.prefix, span)
    distinct = distinct and name not in ("min", "max")
    return rows.atom(RowAgg(name, columns, members, final, distinct, condition), kind)


def _plain_arguments(function: Function, span: Span | None) -> tuple[tuple[Node, ...], bool]:
    args = function.args
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = tuple(args[0].expressions)
    if any(isinstance(arg, exp.Order) for arg in args):
        raise _order_error(span)
    return args, distinct


def _counts_rows(arg: Node, *, distinct: bool) -> bool:
    """Whether count counts rows, because its argument is *, A.* or a constant."""
    if isinstance(arg, exp.Star) or (isinstance(arg, exp.Column) and isinstance(arg.this, exp.Star)):
        return not distinct
    return not distinct and isinstance(arg, exp.Literal)


def _kind(name: str, columns: tuple[str, ...], rows: ClauseInput, title: str, span: Span | None) -> Kind:
    if name == "count":
        return Kind.INT
    kinds = [rows.kind(each) for each in columns]
    if name == "array_agg":
        return Kind.OPAQUE
    if name in OF_NUMBERS and kinds[0] not in NUMBERS:
        raise _unfit(title, "a number", rows, columns[0], span)
    if name in ("min", "max", "min_by", "max_by") and kinds[-1] not in COMPUTABLE:
        raise _unfit(title, "values that have an order", rows, columns[-1], span)
    return Kind.FLOAT if name in ("avg", "stddev") else kinds[0]


def _unfit(title: str, wanted: str, rows: ClauseInput, name: str, span: Span | None) -> BindError:
    type_ = rows.type_of(name)
    hint = "cast it: CAST(x AS DOUBLE)" if pa.types.is_decimal(type_) else None
    return BindError(f"{title} needs {wanted}, not {type_}", span=span, hint=hint)
