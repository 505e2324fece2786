"""Binds a clause to the columns of its input: BoundRows, or an error that points at the mistake.

Cerise computes conditions while it matches. If only Spark can compute an expression, and it reads one row,
Spark computes it beforehand as a column. Spark computes a measure from the values of its atoms after the
match is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from cerise.errors import BindError, CeriseError, ParseError, Span, UnsupportedError, did_you_mean
from cerise.kinds import COMPUTABLE, INT64_MAX, TIMES, Kind
from cerise.lang.match_recognize.atoms import SPECIAL, ExprContext, atom_of, refuse_in_rows
from cerise.lang.match_recognize.classifier import spread_labels
from cerise.lang.match_recognize.clause import ClauseParts, ExprText, NamedExpr
from cerise.lang.match_recognize.columns import ClauseInput, Host, check_kind, strip_parens
from cerise.lang.match_recognize.expressions import Node, parse_expression, parse_sql
from cerise.lang.match_recognize.statement import Clause
from cerise.lang.match_recognize.tokens import add_span, fold, locate_errors
from cerise.lang.match_recognize.translate import (
    Beyond,
    Nowhere,
    column,
    convert,
    function_of,
    inside,
    is_classifier,
    is_constant,
    microseconds,
    render,
)
from cerise.lang.sase.expressions import Name, whole_number
from cerise.pattern.expr import Attr, Call, Expr, attributes
from cerise.pattern.row_pattern import (
    BoundRows,
    Condition,
    Excluded,
    Extent,
    Measure,
    Nav,
    Order,
    Show,
    Shown,
    Skip,
    SkipTo,
    labels,
    walk_rows,
)


def bind_rows(clause: Clause, columns: pa.Schema, host: Host | None = None) -> BoundRows:
    """Bind a clause to the columns of its input.

    Args:
        clause: a clause of `parse_statement`.
        columns: the columns of its input.
        host: knows the types of expressions that only the database computes; None: Cerise computes all.

    Raises:
        BindError: a name is unknown, or semantics.md §10 forbids an expression.
        UnsupportedError: an expression cannot be computed; the hint says which can.
    """
    try:
        return _bind(clause, columns, host)
    except CeriseError as error:
        raise add_span(error, clause.word).located(clause.text) from None
    except RecursionError:
        raise BindError("an expression nests too deeply", span=clause.word, text=clause.text) from None


def _bind(clause: Clause, columns: pa.Schema, host: Host | None) -> BoundRows:
    parts, flink = clause.parts, clause.dialect == "flink"
    _refuse_twins(columns)
    variables = _variables(parts)
    rows = ClauseInput(columns, host, variables, clause.tables, clause.text)
    plain = replace(rows, variables=None)
    partition = tuple(_of_one_row(piece, plain) for piece in parts.partition)
    order = tuple(
        Order(_of_one_row(each.piece, plain), each.descending, each.nulls_first) for each in parts.order
    )
    conditions = _conditions(parts, rows, clause.ctes)
    measures = _measures(parts, ExprContext(rows, None, parts.show is Show.ONE, clause.ctes))
    bound = BoundRows(
        parts.pattern, columns, (), partition, order, {}, conditions, measures, parts.show,
        _skip(parts, variables, flink=flink), _within(parts, order, rows, flink=flink), text=clause.text,
    )  # fmt: skip
    _refuse_exclusion(parts)
    atoms = {name: atom for atom, name in rows.atoms.items()}
    bound = replace(bound, derived=tuple(rows.derived.values()), atoms=atoms)
    return replace(bound, output=_output(bound, parts))


def _refuse_twins(columns: pa.Schema) -> None:
    twins = [name for name, times in Counter(columns.names).items() if times > 1]
    if twins:
        raise BindError(
            f"two columns of the input are called '{twins[0]}'",
            hint="give them names of their own in a subquery: FROM (SELECT x AS y, … FROM …) MATCH_RECOGNIZE",
        )


# ---- variables


def _variables(parts: ClauseParts) -> dict[str, frozenset[str]]:
    """Return the primary variables of each variable: itself, or the members of a subset."""
    primary = labels(parts.pattern)
    found = {name: frozenset({name}) for name in primary}
    for subset in parts.subsets:
        name = fold(subset.name)
        if name in found:
            what = "a variable of the pattern" if name in primary else "another subset"
            raise BindError(f"the subset '{name}' has the name of {what}", span=subset.name.span)
        for member in subset.members:
            _check_primary(member, primary, "SUBSET")
        _refuse_doubles(subset.members, "the subset names")
        found[name] = frozenset(map(fold, subset.members))
    if parts.define is None and primary:
        first = next(each for each in walk_rows(parts.pattern) if getattr(each, "name", None) == primary[0])
        raise ParseError(
            "DEFINE is missing", span=getattr(first, "span", None),
            hint=f"say what the rows of the variables satisfy: DEFINE {primary[0]} AS …",
        )  # fmt: skip
    return found


def _check_primary(name: Name, primary: Iterable[str], clause: str) -> None:
    if fold(name) not in primary:
        raise BindError(
            f"'{name.text}' of {clause} is not in the pattern", span=name.span,
            hint=did_you_mean(name.text, primary),
        )  # fmt: skip


def _refuse_doubles(names: Iterable[Name], what: str) -> None:
    seen = set()
    for name in names:
        if fold(name) in seen:
            raise BindError(f"{what} '{name.text}' twice", span=name.span)
        seen.add(fold(name))


# ---- expressions


def _of_one_row(piece: ExprText, rows: ClauseInput) -> str:
    """Return the column of an item of PARTITION BY or ORDER BY."""
    tree = parse_expression(piece)
    context = ExprContext(rows, None, one=True)
    with locate_errors(piece.span):
        for each in inside(tree):
            refuse_in_rows(each, context)
        if is_constant(tree):
            raise BindError(
                "a constant, the same for all rows", span=piece.span,
                hint="name a column; in double quotes it is a string to Spark, use backticks: `name`",
            )  # fmt: skip
        return rows.derive(tree)


def _conditions(parts: ClauseParts, rows: ClauseInput, ctes: frozenset[str]) -> tuple[Condition, ...]:
    define = parts.define or ()
    for given in define:
        _check_primary(given.name, labels(parts.pattern), "DEFINE")
    _refuse_doubles((given.name for given in define), "DEFINE defines")
    return tuple(_condition(given, rows, ctes) for given in define)


def _condition(given: NamedExpr, rows: ClauseInput, ctes: frozenset[str]) -> Condition:
    label = fold(given.name)
    tree, context = parse_expression(given.piece), ExprContext(rows, label, False, ctes)
    with locate_errors(given.piece.span):
        expr = _bind_condition(_without_labels(tree, context), context, given.piece.span)
    return Condition(label, expr, given.piece.span)


def _measures(parts: ClauseParts, context: ExprContext) -> tuple[Measure, ...]:
    seen: set[str] = set()
    for given in parts.measures:
        if given.name.text.lower() in seen:
            hint = "give each measure a name of its own"
            raise BindError(f"two measures are called '{given.name.text}'", span=given.name.span, hint=hint)
        seen.add(given.name.text.lower())
    return tuple(_measure(given, context) for given in parts.measures)


def _measure(given: NamedExpr, context: ExprContext) -> Measure:
    tree = parse_expression(given.piece)
    with locate_errors(given.piece.span):
        return _bind_measure(given.name.text, _without_labels(tree, context), context, given.piece.span)


def _without_labels(tree: Node, context: ExprContext) -> Node:
    """Return an expression without CLASSIFIER() computed with inside a navigation or aggregate."""
    return spread_labels(tree, context) if any(map(is_classifier, tree.find_all(exp.Anonymous))) else tree


def _bind_condition(tree: Node, context: ExprContext, span: Span) -> Expr:
    expr = _term(tree, context)
    kind = check_kind(expr)
    if kind not in (Kind.BOOL, Kind.NULL):
        raise BindError(
            f"the condition of {context.defines} is a value of kind {kind.value}", span=span,
            hint="DEFINE needs a predicate: compare the value with something",
        )  # fmt: skip
    return expr


def _term(node: Node, context: ExprContext) -> Expr:
    """Return a part of a condition, computed by Cerise if possible, else by Spark."""
    found = atom_of(node, context)
    if found is not None:
        return found
    mark = context.rows.mark()
    span = context.rows.span(node)
    try:
        expr = convert(node, lambda each: _term(each, context), span)
        _check_operands(expr, context.rows, span)
        return expr
    except Beyond as beyond:
        context.rows.back_to(mark)
        return _by_spark(node, context, beyond)


def _check_operands(expr: Expr, rows: ClauseInput, span: Span | None) -> None:
    """Refuse an expression that computes with opaque values, which can only be passed through."""
    for each in attributes(expr):
        if each.kind not in COMPUTABLE and expr is not each:
            raise Beyond(rows.opaque(each, span))
    check_kind(expr)


def _by_spark(node: Node, context: ExprContext, beyond: Beyond) -> Expr:
    """Return an expression of one row as a column that Spark computes; null if the match has no such row."""
    rows = context.rows
    if rows.host is None:
        raise beyond.error
    variables = _rows_of(node, context, beyond)
    name = rows.derive(node, computed=True)
    if not variables:
        return rows.atom(Nav(name), rows.kind(name))
    members = rows.members(variables.pop())
    value = rows.atom(Nav(name, members), rows.kind(name))
    exists = rows.atom(Nav(rows.present(), members), Kind.BOOL)
    missing = rows.derive_absent(
        node
    )  # Spark's value of the expression on nulls: before the first A, A.x is null
    return Call("if", (exists, value, rows.atom(Nav(missing), rows.kind(missing))), rows.span(node))


def _rows_of(node: Node, context: ExprContext, beyond: Beyond) -> set[str]:
    """Return the variable whose last row an expression reads; empty if it reads the row under test."""
    rows = context.rows
    found: set[str | None] = set()
    for each in inside(node):
        function = function_of(each)
        if isinstance(each, exp.Filter) or (function is not None and function.name in SPECIAL):
            raise _across(beyond, rows.span(each))
        if (ref := rows.find(each)) is not None:
            members = rows.members(ref.var)
            found.add(None if members is None or context.defines in members else ref.var)
    if len(found) > 1:
        raise _across(beyond, rows.span(node))
    return {var for var in found if var is not None}


def _across(beyond: Beyond, span: Span | None) -> BindError | UnsupportedError:
    """Return the error for an expression of several rows that only Spark computes."""
    error = beyond.error
    if isinstance(error, BindError):
        return error
    return UnsupportedError(
        f"{error.problem}, and Spark sees one row at a time in DEFINE", span=error.span or span,
        hint="apply it to one row: f(A.x) = f(B.x), or inside a navigation as LAST(f(A.x))",
    )  # fmt: skip


def _bind_measure(name: str, tree: Node, context: ExprContext, span: Span) -> Measure:
    """Return a measure as SQL over its atoms and, if Cerise can compute it, as an expression."""
    used: dict[str, Attr] = {}

    def to_column(node: Node) -> Node | None:
        found = atom_of(node, context)
        if found is None:
            return None
        used[found.path[0]] = found
        return column(found.path[0])

    sql = render(tree, context.rows.text, to_column)
    return Measure(name, sql, _translate_measure(tree, context), tuple(used), span)


def _translate_measure(tree: Node, context: ExprContext) -> Expr | None:
    def term(node: Node) -> Expr:
        return atom_of(node, context) or convert(node, term, context.rows.span(node))

    try:
        expr = term(strip_parens(tree))
        if not isinstance(expr, Attr):
            _check_operands(expr, context.rows, None)
        return expr
    except Nowhere as nowhere:
        if context.rows.host is None:
            raise nowhere.error from None
        return None
    except Beyond:
        return None


# ---- the rest


def _skip(parts: ClauseParts, variables: Mapping[str, frozenset[str]], *, flink: bool) -> Skip:
    if parts.skip is None:
        return Skip(SkipTo.NEXT if flink else SkipTo.PAST_LAST)
    name = parts.skip.name
    if name is None:
        return Skip(parts.skip.to)
    if fold(name) not in variables:
        raise BindError(
            f"AFTER MATCH SKIP TO '{name.text}', which is not in the pattern", span=name.span,
            hint=did_you_mean(name.text, variables),
        )  # fmt: skip
    return Skip(parts.skip.to, variables[fold(name)], fold(name))


def _within(parts: ClauseParts, order: tuple[Order, ...], rows: ClauseInput, *, flink: bool) -> Extent | None:
    if parts.within is None:
        return None
    span = parts.within.piece.span
    kind = rows.kind(order[0].column) if order else None
    if not order or order[0].descending or kind not in TIMES:
        raise BindError(
            "WITHIN measures the first column of ORDER BY, in ascending order", span=span,
            hint="ORDER BY a timestamp, a date or an integer",
        )  # fmt: skip
    size = _length(parts.within.piece, span)
    if kind is not Kind.NULL and isinstance(size, str) is not (kind is Kind.INT):
        wanted = "a number, as in WITHIN 10" if kind is Kind.INT else "a duration: INTERVAL '15' MINUTE"
        raise BindError(
            f"'{order[0].column}' is {kind.value if kind else ''}: WITHIN takes {wanted}", span=span
        )
    length = size if isinstance(size, int) else whole_number(size, span)
    if length > INT64_MAX:
        raise BindError("WITHIN does not fit into 64 bits", span=span, hint="leave WITHIN out")
    return Extent(length, flink, parts.within.timeouts)


def _length(piece: ExprText, span: Span) -> int | str:
    """Return a duration in microseconds, or a bare number as text."""
    words = piece.words
    if len(words) == 1 and words[0].text.isdigit():
        return words[0].text
    text, start = piece.text, span.start
    if words[0].key != "INTERVAL":  # 15 minutes
        text = f"{text[:start]}INTERVAL {text[start:]}"
        span = Span(start, span.end + len("INTERVAL "))
    size = microseconds(parse_sql(text, span))
    if size is None or size < 0:
        raise BindError(
            "WITHIN takes a duration", span=piece.span,
            hint="write INTERVAL '15' MINUTE or 15 minutes; months and years differ in length",
        )  # fmt: skip
    return size


def _refuse_exclusion(parts: ClauseParts) -> None:
    if parts.show is Show.UNMATCHED and any(isinstance(each, Excluded) for each in walk_rows(parts.pattern)):
        raise BindError(
            "{- … -} together with WITH UNMATCHED ROWS", span=parts.show_span,
            hint="rows that a match leaves out would look like rows of no match (M38)",
        )  # fmt: skip


def _output(bound: BoundRows, parts: ClauseParts) -> tuple[Shown, ...]:
    """Return the columns of the result (M33, M34); expressions of PARTITION BY and ORDER BY are not shown."""
    known = set(bound.columns.names)
    partition = [name for name in bound.partition if name in known]
    measures = [Shown(each.name, True) for each in bound.measures]
    if parts.show is Show.ONE:
        shown = [*(Shown(name, False) for name in partition), *measures]
    else:
        order = [each.column for each in bound.order if each.column in known]
        first = [*partition, *order]
        rest = [name for name in bound.columns.names if name not in first]
        shown = [*(Shown(name, False) for name in first), *measures, *(Shown(name, False) for name in rest)]
    if not shown:
        raise BindError(
            "the result has no columns", hint="add MEASURES, or PARTITION BY a column, or ALL ROWS PER MATCH"
        )
    return tuple(shown)
