"""The parts of a SELECT: stars, titles, GROUP BY, LIMIT, and the parts that are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp

from cerise.errors import BindError, Span, did_you_mean
from cerise.local_sql.scalars import Scope, translate
from cerise.local_sql.syntax import place_of
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.group_functions import GROUP_FUNCTIONS
from cerise.local_sql.values.typed_value import Typed, refuse
from cerise.local_sql.values.value_types import duck_name


def star_columns(node: exp.Expression, scope: Scope) -> Iterator[tuple[str, Typed]]:
    """Yield the columns of `*` or `t.*`."""
    star = node.this if isinstance(node, exp.Column) else node
    if any(star.args.get(each) for each in ("except_", "replace", "rename")):
        raise refuse("* with exceptions", place_of(node))
    table = str(node.args["table"].name).lower() if isinstance(node, exp.Column) else None
    found = [each for each in scope.columns if (table in each.tables if table else each.bare)]
    if not found:
        tables = sorted({name for each in scope.columns for name in each.tables})
        problem = f"unknown table '{table}'" if table else "* without FROM"
        raise BindError(problem, span=place_of(node), hint=did_you_mean(table, tables) if table else None)
    yield from ((each.name, each.value) for each in found)


def title_of(node: exp.Expression, value: Typed) -> str:
    """Return the name of a column: as given, as Spark makes it, else the text of the expression."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    inner = node
    while isinstance(inner, exp.Cast | exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Column) and isinstance(node, exp.Cast):
        return str(inner.name)
    return value.name or str(node.sql("spark"))


def column_sql(value: Typed) -> str:
    """Return a column of SELECT, of exactly its type."""
    if value.type == pa.null():
        return "CAST(NULL AS INTEGER)"
    return f"CAST({value.sql} AS {duck_name(value.type)})" if types.is_computable(value.type) else value.sql


def group_sql(group: exp.Group, shown: list[tuple[str, Typed]], scope: Scope) -> str:
    """Return GROUP BY, whose items are columns, places in SELECT, aliases or expressions."""
    refuse_others(group, {"expressions", "all"})
    if group.args.get("all"):
        return "GROUP BY ALL"
    items = []
    for each in group.expressions:
        place = _ordinal(each)
        if place is not None and not 1 <= place <= len(shown):
            raise BindError(f"GROUP BY {place}: SELECT has fewer columns", span=place_of(each))
        value = shown[place - 1][1] if place is not None else translate(each, scope)
        items.append(str(place) if place is not None else value.sql)
    return f"GROUP BY {', '.join(items)}"


def _ordinal(node: exp.Expression) -> int | None:
    number = isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit()
    return int(str(node.this)) if number else None


def place_in(node: exp.Expression, shown: list[tuple[str, Typed]]) -> int | None:
    """Return the number of the column of SELECT that an item of ORDER BY names; None: it is an expression."""
    place = _ordinal(node)
    if place is not None:
        if not 1 <= place <= len(shown):
            raise BindError(f"ORDER BY {place}: SELECT has fewer columns", span=place_of(node))
        return place
    if not isinstance(node, exp.Column) or len(list(node.parts)) != 1:
        return None
    name = str(node.name).lower()
    found = [i for i, (title, _) in enumerate(shown, 1) if title.lower() == name]
    return found[0] if len({shown[i - 1][1].sql for i in found}) == 1 else None


def limit_sql(node: exp.Expression) -> Iterator[str]:
    """Yield LIMIT and OFFSET."""
    for word, name in (("LIMIT", "limit"), ("OFFSET", "offset")):
        clause = node.args.get(name)
        if clause is None:
            continue
        given = clause.expression if isinstance(clause, exp.Limit | exp.Offset) else clause
        number = _ordinal(given) if isinstance(given, exp.Expression) else None
        if number is None:
            raise refuse(f"{word} by an expression", place_of(clause))
        yield f"{word} {number}"


def has_aggregates(node: exp.Select) -> bool:
    """Whether the list of SELECT has an aggregate of its own."""
    for each in node.expressions:
        for found in each.find_all(exp.Anonymous):
            if str(found.this).lower() in GROUP_FUNCTIONS and not isinstance(found.parent, exp.Window):
                return True
    return False


def rename_all(names: tuple[str, ...], alias: exp.Expression) -> tuple[str, ...]:
    """Return the names of columns, after an alias such as `t(a, b)`."""
    given = alias.args.get("columns") or ()
    if given and len(given) != len(names):
        raise BindError(f"{len(given)} names for {len(names)} columns", span=place_of(alias))
    return tuple(str(each.name) for each in given) if given else names


def has_others(node: exp.Expression, known: set[str]) -> bool:
    """Whether a node has parts other than those that are known."""
    return any(value not in (None, False, [], "") for name, value in node.args.items() if name not in known)


def refuse_others(node: exp.Expression, known: frozenset[str] | set[str]) -> None:
    """Refuse a part of a node that is not translated: DuckDB would not see it."""
    for name, value in node.args.items():
        if value not in (None, False, [], "") and name not in known:
            span: Span | None = place_of(value) if isinstance(value, exp.Expression) else place_of(node)
            raise refuse(f"{name.strip('_').upper()} here", span)
