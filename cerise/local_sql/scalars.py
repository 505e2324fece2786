"""Expressions of SQL as typed values: names resolved, functions looked up, the rest refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from cerise.errors import BindError, Span, did_you_mean
from cerise.local_sql.literals import constant, moment_of, negate
from cerise.local_sql.syntax import place_of
from cerise.local_sql.values import scalar_functions
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.group_functions import GROUP_FUNCTIONS, GroupCall
from cerise.local_sql.values.operators import cast, compare, compute
from cerise.local_sql.values.regexes import like_regex
from cerise.local_sql.values.typed_value import Typed, quote, refuse, unite, widen
from cerise.local_sql.values.value_types import DAY, LOCAL_STAMP, STAMP, spark_name
from cerise.local_sql.windows import window_sql

_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip
_T = exp.DataType.Type
_CASTS = {
    _T.BOOLEAN: pa.bool_(), _T.TINYINT: pa.int8(), _T.SMALLINT: pa.int16(), _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(), _T.FLOAT: pa.float32(), _T.DOUBLE: pa.float64(), _T.TEXT: pa.string(),
    _T.DATE: DAY, _T.TIMESTAMPTZ: STAMP, _T.TIMESTAMPLTZ: STAMP, _T.TIMESTAMPNTZ: LOCAL_STAMP,
}  # fmt: skip
SPECIAL = frozenset(("first", "last", "prev", "next", "classifier", "match_number", "match_status"))


@dataclass(frozen=True, slots=True)
class Known:
    """A column that names can mean: its tables, its name, and whether the name alone means it."""

    tables: frozenset[str]
    name: str
    value: Typed
    bare: bool = True


@dataclass(frozen=True)
class Scope:
    """What names mean in a part of a query.

    Attributes:
        columns: the columns of FROM.
        outer: the scope of the query around, for subqueries.
        subquery: translates a subquery, given its tree: the SQL, and the types of its columns.
        first: names that win over columns, as those of the SELECT list do in ORDER BY.
        last: names that mean something where no column has them, as an alias of the SELECT list does.
        groups: whether aggregates may stand here.
    """

    columns: tuple[Known, ...]
    subquery: Callable[[exp.Expression, Scope], tuple[str, list[pa.DataType], list[str]]] | None = None
    outer: Scope | None = None
    first: Mapping[str, Typed] = field(default_factory=dict)
    last: Mapping[str, Typed] = field(default_factory=dict)
    groups: bool = False

    def find(self, node: exp.Column) -> Typed:
        """Return the column that a name means.

        Raises:
            BindError: none has the name, or several have.
        """
        span, parts = place_of(node), [str(each.name) for each in node.parts]
        if len(parts) > 2:
            raise refuse(f"the name {'.'.join(parts)}", span)
        name, table = parts[-1].lower(), parts[0].lower() if len(parts) == 2 else None
        here: Scope | None = self
        while here is not None:
            found = here._own(name, table, span, parts[-1])
            if found is not None:
                return replace(found.rename(parts[-1]), span=span)
            here = here.outer
        raise self._unknown(parts, table, span)

    def _own(self, name: str, table: str | None, span: Span | None, written: str) -> Typed | None:
        if table is None and name in self.first:
            return self.first[name]
        meant = [
            each.value for each in self.columns
            if each.name.lower() == name and (table in each.tables if table else each.bare)
        ]  # fmt: skip
        if len(meant) > 1:
            hint = "name its table: t.x"
            raise BindError(f"'{written}' could be one of {len(meant)} columns", span=span, hint=hint)
        return meant[0] if meant else self.last.get(name) if table is None else None

    def _unknown(self, parts: list[str], table: str | None, span: Span | None) -> BindError:
        tables = {name for each in self.columns for name in each.tables}
        if table is not None and table not in tables:
            return BindError(f"unknown table '{parts[0]}'", span=span, hint=did_you_mean(parts[0], tables))
        names = [each.name for each in self.columns if table is None or table in each.tables]
        return BindError(f"unknown column '{parts[-1]}'", span=span, hint=did_you_mean(parts[-1], names))


def translate(node: exp.Expression, scope: Scope) -> Typed:
    """Return an expression as a typed value.

    Raises:
        BindError: a name is unknown, or types do not fit.
        UnsupportedError: DuckDB cannot compute it as Spark does.
    """
    found = _translate(node, scope)
    return found if found.span is not None else replace(found, span=place_of(node))


def _translate(node: exp.Expression, scope: Scope) -> Typed:
    span = place_of(node)
    kind = type(node)
    if kind in _ARITHMETIC:
        return compute(
            _ARITHMETIC[kind], translate(node.this, scope), translate(node.expression, scope), span
        )
    if kind in _COMPARISONS:
        return compare(
            _COMPARISONS[kind], translate(node.this, scope), translate(node.expression, scope), span
        )
    match node:
        case exp.Column():
            if isinstance(node.this, exp.Star):
                raise BindError("* stands in the list of SELECT and in count(*)", span=span)
            return scope.find(node)
        case exp.Literal() | exp.Boolean() | exp.Null() | exp.Interval() | exp.RawString():
            return constant(node, span)
        case exp.Paren():
            return translate(node.this, scope)
        case exp.Alias():
            return translate(node.this, scope)
        case exp.And() | exp.Or():
            return _logic(node, scope)
        case exp.Not():
            return _not(node, scope)
        case exp.Neg():
            return negate(translate(node.this, scope), span)
        case exp.Is():
            return _is(node, scope, span)
        case exp.NullSafeNEQ():
            return _negate(
                compare("<=>", translate(node.this, scope), translate(node.expression, scope), span)
            )
        case exp.Between():
            return _between(node, scope, span)
        case exp.In():
            return _in(node, scope, span)
        case exp.Exists():
            sql, _, _ = _ask(node.this, scope, span)
            return Typed(f"EXISTS ({sql})", pa.bool_())
        case exp.Subquery() | exp.Select():
            return _scalar_query(node, scope, span)
        case exp.Like() | exp.ILike():
            return _like(node, scope, span)
        case exp.RegexpLike():
            return like_regex(translate(node.this, scope), translate(node.expression, scope), span)
        case exp.DPipe():
            found = scalar_functions.apply(
                "concat", [translate(node.this, scope), translate(node.expression, scope)], span
            )
            assert found is not None
            return found
        case exp.Cast() if not isinstance(node, exp.TryCast):
            return _cast(node, scope, span)
        case exp.Case() | exp.If():
            return _case(node, scope, span)
        case exp.Extract():
            return call(str(node.this.name), [translate(node.expression, scope)], span).rename(None)
        case exp.Anonymous() | exp.Filter() | exp.Window():
            return _call(node, scope, span)
    raise refuse("this expression", span)


# ---- predicates


def condition(value: Typed, what: str) -> Typed:
    """Return a value that is a boolean.

    Raises:
        BindError: it is not.
    """
    if value.type not in (pa.bool_(), pa.null()):
        raise BindError(
            f"{what} of type {spark_name(value.type)}", span=value.span, hint="compare it with something"
        )
    return widen(value, pa.bool_()) if value.type == pa.null() else value


def _logic(node: Any, scope: Scope) -> Typed:
    word = "AND" if isinstance(node, exp.And) else "OR"
    parts = [condition(translate(each, scope), word) for each in node.flatten()]
    sql = f" {word} ".join(each.sql for each in parts)
    name: str | None = parts[0].name
    for each in parts[1:]:
        name = None if name is None or each.name is None else f"({name} {word} {each.name})"
    return Typed(f"({sql})", pa.bool_(), name)


def _negate(value: Typed) -> Typed:
    value = condition(value, "NOT")
    return Typed(f"(NOT {value.sql})", pa.bool_(), value.name and f"(NOT {value.name})")


def _not(node: exp.Not, scope: Scope) -> Typed:
    value, inner = _negate(translate(node.this, scope)), node.this
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        name = translate(inner.this, scope).name
        return value.rename(name and f"({name} IS NOT NULL)")
    return value


def _is(node: exp.Is, scope: Scope, span: Span | None) -> Typed:
    value, truth = translate(node.this, scope), node.expression
    if isinstance(truth, exp.Null):
        return Typed(f"({value.sql} IS NULL)", pa.bool_(), value.name and f"({value.name} IS NULL)")
    if isinstance(truth, exp.Boolean):
        word = "TRUE" if truth.this else "FALSE"
        name = value.name and f"({value.name} <=> {word.lower()})"
        return Typed(f"({condition(value, 'IS').sql} IS {word})", pa.bool_(), name)
    raise refuse("this test", span)


def _between(node: exp.Between, scope: Scope, span: Span | None) -> Typed:
    if node.args.get("symmetric"):
        raise refuse("BETWEEN SYMMETRIC", span)
    value, low, high = (translate(each, scope) for each in (node.this, node.args["low"], node.args["high"]))
    both = compare(">=", value, low, span).sql, compare("<=", value, high, span).sql
    names = [value.name, low.name, high.name]
    name = None if None in names else f"between({', '.join(map(str, names))})"
    return Typed(f"({both[0]} AND {both[1]})", pa.bool_(), name)


def _in(node: exp.In, scope: Scope, span: Span | None) -> Typed:
    value = translate(node.this, scope)
    query = node.args.get("query")
    if query is not None:
        sql, kinds, _ = _ask(query, scope, span)
        if len(kinds) != 1 or types.common_type(value.type, kinds[0]) is None or kinds[0] == pa.null():
            raise refuse("IN over this subquery", span)
        both = types.common_type(value.type, kinds[0])
        assert both is not None
        inner = sql if kinds[0] == both else f"SELECT CAST(c0 AS {types.duck_name(both)}) FROM ({sql})"
        return Typed(f"({widen(value, both).sql} IN ({inner}))", pa.bool_())
    if not node.expressions:
        raise refuse("this IN", span)
    (value, *rest), _ = unite([value, *(translate(each, scope) for each in node.expressions)], "IN", span)
    name = None
    if value.name is not None and None not in (names := [each.name for each in rest]):
        name = f"({value.name} IN ({', '.join(map(str, names))}))"
    return Typed(f"({value.sql} IN ({', '.join(each.sql for each in rest)}))", pa.bool_(), name)


def _like(node: Any, scope: Scope, span: Span | None) -> Typed:
    value, pattern = translate(node.this, scope), translate(node.expression, scope)
    if pattern.text is None or not types.is_text(value.type):
        raise refuse("LIKE with a pattern that is not a string in the text", span)
    text = pattern.text
    if any(text[i : i + 1] == "\\" and text[i + 1 : i + 2] not in ("%", "_", "\\") for i in range(len(text))):
        text_ok = text.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
        if "\\" in text_ok:
            raise BindError("in LIKE \\ stands before % _ or \\ only", span=pattern.span or span)
    if isinstance(node, exp.ILike):
        return Typed(f"(_lower({value.sql}) LIKE _lower({pattern.sql}) ESCAPE '\\')", pa.bool_())
    name = None if value.name is None else f"{value.name} LIKE {pattern.text}"
    found = Typed(f"({value.sql} LIKE {pattern.sql} ESCAPE '\\')", pa.bool_(), name)
    return _negate(found) if node.args.get("negate") else found


# ---- casts and cases


def _cast(node: exp.Cast, scope: Scope, span: Span | None) -> Typed:
    value, target = translate(node.this, scope), node.to
    if target.this is _T.DECIMAL:
        given = [int(str(each.this.this)) for each in target.expressions] or [10]
        if value.text is not None:  # 1.5BD
            made = Decimal(value.text)
            type_ = types.decimal(given[0], (*given, 0)[1])
            return Typed(f"CAST({quote(str(made))} AS {types.duck_name(type_)})", type_, span=span)
        return cast(value, types.decimal(given[0], (*given, 0)[1]), span)
    if target.this not in _CASTS or target.expressions:
        raise refuse(f"CAST to {target.sql('spark')}", span)
    type_ = _CASTS[target.this]
    if value.text is not None and (types.is_stamp(type_) or type_ == DAY):
        return moment_of(value, type_, span)
    return cast(value, type_, span)


def _case(node: Any, scope: Scope, span: Span | None) -> Typed:
    if isinstance(node, exp.If):
        branches, default = [node], node.args.get("false")
    else:
        branches, default = node.args["ifs"], node.args.get("default")
    given = translate(node.this, scope) if isinstance(node, exp.Case) and node.this is not None else None
    tests = []
    for each in branches:
        test = translate(each.this, scope)
        tests.append(condition(test, "WHEN") if given is None else compare("=", given, test, span))
    values = [translate(each.args["true"], scope) for each in branches]
    last = translate(default, scope) if default is not None else Typed("NULL", pa.null(), "NULL")
    (*made, otherwise), type_ = unite([*values, last], "CASE", span)
    whens = " ".join(f"WHEN {one.sql} THEN {two.sql}" for one, two in zip(tests, made, strict=True))
    names = [each.name for each in (*tests, *values, last)]
    name = None
    if None not in names:
        shown = " ".join(f"WHEN {one.name} THEN {two.name}" for one, two in zip(tests, values, strict=True))
        name = f"CASE {shown}{f' ELSE {last.name}' if default is not None else ''} END"
        if isinstance(node, exp.If):
            name = f"(IF({tests[0].name}, {values[0].name}, {last.name}))"
    return Typed(f"CASE {whens} ELSE {otherwise.sql} END", type_, name)


# ---- calls


def call(name: str, args: list[Typed], span: Span | None) -> Typed:
    """Return a call of a function of one row."""
    found = scalar_functions.apply(name.lower(), args, span)
    if found is None:
        raise refuse(f"the function {name.lower()}", span)
    return found


def _call(node: exp.Expression, scope: Scope, span: Span | None) -> Typed:
    inner, window, where = node, None, None
    if isinstance(inner, exp.Window):
        inner, window = inner.this, inner
    if isinstance(inner, exp.Filter):
        inner, where = inner.this, inner.expression.this
    if not isinstance(inner, exp.Anonymous) or not isinstance(inner.this, str):
        raise refuse("this expression", span)
    name = inner.this.lower()
    given, distinct = list(inner.expressions), ""
    if len(given) == 1 and isinstance(given[0], exp.Distinct):
        given, distinct = list(given[0].expressions), "DISTINCT "
    function = GROUP_FUNCTIONS.get(name)
    if function is None:
        if name in SPECIAL:
            raise BindError(f"{name} stands inside MATCH_RECOGNIZE only", span=span)
        if window is not None or where is not None or distinct:
            raise refuse(f"the function {name}", span)
        return call(name, [translate(each, scope) for each in given], span)
    if window is None and (function.window or not scope.groups):
        where_to = "with OVER (…) only" if function.window else "in the list of SELECT, HAVING or ORDER BY"
        raise BindError(f"{name} stands {where_to}", span=span)
    if distinct and (not function.distinct or window is not None):
        raise refuse(f"DISTINCT in {name}", span)
    inside = replace(scope, groups=scope.groups and window is not None)
    args = [] if given and isinstance(given[0], exp.Star) else [translate(each, inside) for each in given]
    after = (
        f" FILTER (WHERE {condition(translate(where, inside), 'FILTER').sql})" if where is not None else ""
    )
    after += (
        f" OVER ({window_sql(window, lambda each: translate(each, scope).sql)})" if window is not None else ""
    )
    return function.make(GroupCall(distinct, args, after, span)).rename(
        _name_of_call(name, args, distinct, after)
    )


def _name_of_call(name: str, args: list[Typed], distinct: str, after: str) -> str | None:
    names = [each.name for each in args]
    if after or None in names:
        return None
    shown = "1" if name == "count" and not args else ", ".join(map(str, names))
    return f"{name}({distinct}{shown})"


# ---- subqueries


def _ask(node: exp.Expression, scope: Scope, span: Span | None) -> tuple[str, list[pa.DataType], list[str]]:
    if scope.subquery is None:
        raise refuse("a subquery here", span)
    return scope.subquery(node.this if isinstance(node, exp.Subquery) else node, scope)


def _scalar_query(node: exp.Expression, scope: Scope, span: Span | None) -> Typed:
    sql, kinds, _ = _ask(node, scope, span)
    if len(kinds) != 1:
        raise BindError(f"a subquery of {len(kinds)} columns where a value is asked for", span=span)
    return Typed(f"({sql})", kinds[0])
