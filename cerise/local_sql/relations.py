"""Queries of SQL for DuckDB: tables, joins, SELECT, set operations; columns travel by number: c0, c1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from cerise.errors import BindError, did_you_mean
from cerise.local_sql.scalars import Known, Scope, condition, translate
from cerise.local_sql.select_parts import (
    column_sql,
    group_sql,
    has_aggregates,
    has_others,
    limit_sql,
    place_in,
    refuse_others,
    rename_all,
    star_columns,
    title_of,
)  # fmt: skip
from cerise.local_sql.syntax import parse_query, place_of
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.operators import compare
from cerise.local_sql.values.typed_value import Typed, cast_sql, refuse, unite
from cerise.local_sql.values.value_types import duck_name
from cerise.local_sql.windows import order_sql

_SELECT = frozenset(
    """kind hint distinct expressions from_ joins where group having order limit offset with_ laterals
    windows""".split()
)
_SETS = frozenset("this expression distinct order limit offset with_ by_name kind side on".split())
_JOINS = {
    ("", ""): "JOIN", ("", "INNER"): "JOIN", ("LEFT", ""): "LEFT JOIN", ("LEFT", "OUTER"): "LEFT JOIN",
    ("RIGHT", ""): "RIGHT JOIN", ("RIGHT", "OUTER"): "RIGHT JOIN", ("FULL", ""): "FULL JOIN",
    ("FULL", "OUTER"): "FULL JOIN", ("", "CROSS"): "CROSS JOIN", ("LEFT", "SEMI"): "SEMI JOIN",
    ("", "SEMI"): "SEMI JOIN", ("LEFT", "ANTI"): "ANTI JOIN", ("", "ANTI"): "ANTI JOIN",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that a statement can name: the name that DuckDB knows it by, and its columns."""

    name: str
    columns: pa.Schema


@dataclass(frozen=True, slots=True)
class LocalQuery:
    """A query for DuckDB.

    Attributes:
        sql: its text; the columns are c0, c1, ….
        names: the names of the columns.
        kinds: their types.
        arrival: whether the rows are those of a table, in their order.
    """

    sql: str
    names: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]
    arrival: bool = False

    def schema(self) -> pa.Schema:
        """Return the columns of the answer."""
        return pa.schema(list(zip(self.names, self.kinds, strict=True)))


def translate_query(sql: str, tables: Mapping[str, NamedTable]) -> LocalQuery:
    """Return a query of Spark's SQL as one for DuckDB.

    Args:
        sql: the query.
        tables: the tables by their names in lower case.

    Raises:
        ParseError, BindError: the query is wrong.
        UnsupportedError: only Spark runs it.
    """
    made = _Queries(tables)
    found = made.query(parse_query(sql), {}, None)
    ctes = ", ".join(f"{name} AS ({text})" for name, text in made.ctes)
    return replace(found, sql=f"WITH {ctes} {found.sql}" if ctes else found.sql)


Ctes = Mapping[str, tuple[str, LocalQuery]]


@dataclass(slots=True)
class _Queries:
    """Translates the queries of one statement."""

    tables: Mapping[str, NamedTable]
    ctes: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0

    def query(self, node: exp.Expression, ctes: Ctes, outer: Scope | None) -> LocalQuery:
        while isinstance(node, exp.Subquery) and not has_others(node, {"this"}):
            node = node.this
        if isinstance(node, exp.Subquery):
            refuse_others(node, {"this", "order", "limit", "offset", "with_"})
            return self._order_around(node, self.query(node.this, ctes, outer))
        ctes = self._with(node, ctes)
        match node:
            case exp.Select():
                return self._select(node, ctes, outer)
            case exp.Union() | exp.Except() | exp.Intersect():
                return self._order_around(node, self._set(node, ctes, outer))
            case exp.Values():
                return self._values(node)
        raise refuse("this statement", place_of(node))

    def _with(self, node: exp.Expression, ctes: Ctes) -> Ctes:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise refuse("WITH RECURSIVE", place_of(node))
        known = dict(ctes)
        for each in clause.expressions:
            found = self.query(each.this, known, None)
            found = replace(found, names=rename_all(found.names, each.args["alias"]))
            name = f"q{len(self.ctes)}"
            self.ctes.append((name, found.sql))
            known[str(each.alias).lower()] = name, found
        return known

    # ---- FROM

    def _source(self, node: exp.Expression, ctes: Ctes) -> tuple[str, tuple[Known, ...], bool]:
        """Return an item of FROM: its text, its columns, and whether its rows are in the order of a table."""
        alias = node.args.get("alias")
        match node:
            case exp.Table():
                refuse_others(node, {"this", "alias", "db", "catalog", "joins"})
                text, found, name = self._table(node, ctes)
            case exp.Subquery() | exp.Values():
                found, name = (
                    self.query(node.this if isinstance(node, exp.Subquery) else node, ctes, None),
                    "",
                )
                text = f"({found.sql})"
            case _:
                raise refuse("this item of FROM", place_of(node))
        names = rename_all(found.names, alias) if alias is not None else found.names
        self.count += 1
        here = f"t{self.count}"
        tables = frozenset({str(alias.name).lower()} if alias is not None and alias.name else {name} - {""})
        columns = tuple(
            Known(tables, title, Typed(f"{here}.c{i}", kind, title))
            for i, (title, kind) in enumerate(zip(names, found.kinds, strict=True))
        )
        return f"{text} AS {here}", columns, found.arrival

    def _table(self, node: exp.Table, ctes: Ctes) -> tuple[str, LocalQuery, str]:
        span = place_of(node)
        if not isinstance(node.this, exp.Identifier):
            raise refuse("this table", span)
        name = str(node.name)
        if (node.db or node.catalog) or "." in name:
            raise refuse(f"the table {node.db}.{name}", span)
        if (known := ctes.get(name.lower())) is not None:
            return known[0], known[1], name.lower()
        if (view := self.tables.get(name.lower())) is None:
            hint = did_you_mean(name, self.tables) if self.tables else f"give it: cerise.sql(…, {name}=table)"
            raise BindError(f"unknown table '{name}'", span=span, hint=hint)
        found = LocalQuery("", tuple(view.columns.names), tuple(view.columns.types), arrival=True)
        return view.name, found, name.lower()

    def _from(self, node: exp.Select, ctes: Ctes, outer: Scope | None) -> tuple[str, Scope, bool]:
        source = node.args.get("from_")
        if source is None:
            return "", self._scope((), ctes, outer), False
        text, columns, arrival = self._source(source.this, ctes)
        joins = [*(source.this.args.get("joins") or ()), *(node.args.get("joins") or ())]
        for join in joins:
            other, more, _ = self._source(join.this, ctes)
            added, columns = self._join(join, columns, more, other, ctes, outer)
            text, arrival = f"{text} {added}", False
        return f" FROM {text}", self._scope(columns, ctes, outer), arrival

    def _join(
        self, join: exp.Join, left: tuple[Known, ...], right: tuple[Known, ...], other: str, ctes: Ctes,
        outer: Scope | None,
    ) -> tuple[str, tuple[Known, ...]]:  # fmt: skip
        refuse_others(join, {"this", "side", "kind", "on", "using"})
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        word = _JOINS.get((side, kind))
        if word is None:
            raise refuse(f"{side} {kind} JOIN", place_of(join))
        using, on = join.args.get("using"), join.args.get("on")
        shown = left if word in ("SEMI JOIN", "ANTI JOIN") else (*left, *right)
        if using:
            return self._join_by_names(join, word, left, right, other)
        if on is None:
            if word not in ("CROSS JOIN", "JOIN"):
                raise refuse(f"{word} without ON", place_of(join))
            return f"CROSS JOIN {other}", shown
        test = condition(translate(on, self._scope((*left, *right), ctes, outer)), "ON")
        return f"{'JOIN' if word == 'CROSS JOIN' else word} {other} ON {test.sql}", shown

    def _join_by_names(
        self, join: exp.Join, word: str, left: tuple[Known, ...], right: tuple[Known, ...], other: str
    ) -> tuple[str, tuple[Known, ...]]:
        sides, tests, keys, used = (Scope(left), Scope(right)), [], [], set()
        for each in join.args["using"]:
            named = exp.Column(this=each.copy() if isinstance(each, exp.Identifier) else each.this.copy())
            one, two = (scope.find(named) for scope in sides)
            tests.append(compare("=", one, two, place_of(each)).sql)
            used.add(str(named.name).lower())
            value = two if word == "RIGHT JOIN" else one
            if word == "FULL JOIN":
                (one, two), kind = unite([one, two], "USING", place_of(each))
                value = Typed(f"coalesce({one.sql}, {two.sql})", kind)
            keys.append(Known(frozenset(), str(named.name), value.rename(str(named.name))))
        text = f"{'JOIN' if word == 'CROSS JOIN' else word} {other} ON {' AND '.join(tests)}"
        both = left if word in ("SEMI JOIN", "ANTI JOIN") else (*left, *right)
        rest = tuple(replace(each, bare=each.bare and each.name.lower() not in used) for each in both)
        return text, (*keys, *rest)

    def _scope(self, columns: tuple[Known, ...], ctes: Ctes, outer: Scope | None) -> Scope:
        def subquery(node: exp.Expression, scope: Scope) -> tuple[str, list[pa.DataType], list[str]]:
            found = self.query(node, ctes, scope)
            return found.sql, list(found.kinds), list(found.names)

        return Scope(columns, subquery, outer)

    # ---- SELECT

    def _select(self, node: exp.Select, ctes: Ctes, outer: Scope | None) -> LocalQuery:
        refuse_others(node, _SELECT)
        if (
            node.args.get("kind")
            or node.args.get("hint")
            or node.args.get("windows")
            or node.args.get("laterals")
        ):
            raise refuse("this SELECT", place_of(node))
        source, scope, arrival = self._from(node, ctes, outer)
        pieces = []
        if (where := node.args.get("where")) is not None:
            pieces.append(f"WHERE {condition(translate(where.this, scope), 'WHERE').sql}")
        shown = self._list(node, replace(scope, groups=True))
        aliases = {name.lower(): value for name, value in shown}
        group, having = node.args.get("group"), node.args.get("having")
        if group is not None:
            pieces.append(group_sql(group, shown, replace(scope, last=aliases)))
        if having is not None:
            inside = replace(scope, groups=True, first=aliases)
            pieces.append(f"HAVING {condition(translate(having.this, inside), 'HAVING').sql}")
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise refuse("DISTINCT ON", place_of(node))
        columns = ", ".join(f"{column_sql(value)} AS c{i}" for i, (_, value) in enumerate(shown))
        word = "SELECT DISTINCT" if distinct is not None else "SELECT"
        grouped = group is not None or having is not None or has_aggregates(node)
        order = self._order(
            node, shown, replace(scope, groups=True, first=aliases), only=distinct is not None
        )
        tail = " ".join([*pieces, *order, *limit_sql(node)])
        sql = f"{word} {columns}{source}{' ' if tail else ''}{tail}"
        kept = arrival and not (grouped or distinct is not None or order)
        kinds = tuple(value.type for _, value in shown)
        return LocalQuery(sql, tuple(name for name, _ in shown), kinds, arrival=kept)

    def _list(self, node: exp.Select, scope: Scope) -> list[tuple[str, Typed]]:
        found: list[tuple[str, Typed]] = []
        for each in node.expressions:
            if isinstance(each, exp.Star) or (
                isinstance(each, exp.Column) and isinstance(each.this, exp.Star)
            ):
                found.extend(star_columns(each, scope))
                continue
            aliases = {name.lower(): value for name, value in found}
            value = translate(each, replace(scope, last=aliases))
            found.append((title_of(each, value), value))
        if not found:
            raise BindError("SELECT has no columns", span=place_of(node))
        return found

    def _order(
        self, node: exp.Expression, shown: list[tuple[str, Typed]], scope: Scope, *, only: bool
    ) -> list[str]:
        order = node.args.get("order")
        if order is None:
            return []
        items = []
        for each in order.expressions:
            if not isinstance(each, exp.Ordered) or each.args.get("with_fill"):
                raise refuse("this ORDER BY", place_of(each))
            place = place_in(each.this, shown)
            if place is None and only:
                raise refuse("ORDER BY an expression that SELECT DISTINCT does not show", place_of(each))
            items.append(
                order_sql(each, str(place) if place is not None else translate(each.this, scope).sql)
            )
        return [f"ORDER BY {', '.join(items)}"]

    # ---- set operations, VALUES

    def _set(self, node: Any, ctes: Ctes, outer: Scope | None) -> LocalQuery:
        refuse_others(node, _SETS)
        if any(node.args.get(each) for each in ("by_name", "kind", "side", "on")):
            raise refuse("a set operation by name", place_of(node))
        left, right = (self.query(each, ctes, outer) for each in (node.this, node.expression))
        if len(left.kinds) != len(right.kinds):
            counts = f"{len(left.kinds)} and {len(right.kinds)} columns"
            raise BindError(f"a set operation of {counts}", span=place_of(node))
        kinds = []
        for one, two in zip(left.kinds, right.kinds, strict=True):
            common = types.common_type(one, two)
            if common is None or not types.is_computable(common):
                raise refuse(f"a set operation of {one} and {two}", place_of(node))
            kinds.append(common)
        word = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}[type(node)]
        every = "" if node.args.get("distinct") else " ALL"
        sql = f"{_as_kinds(left, kinds)} {word}{every} {_as_kinds(right, kinds)}"
        return LocalQuery(f"SELECT * FROM ({sql})", left.names, tuple(kinds))

    def _order_around(self, node: exp.Expression, found: LocalQuery) -> LocalQuery:
        """Return a query with the ORDER BY and LIMIT around it, which see its result alone."""
        if not (node.args.get("order") or node.args.get("limit") or node.args.get("offset")):
            return found
        shown = [
            (name, Typed(f"c{i}", kind, name))
            for i, (name, kind) in enumerate(zip(found.names, found.kinds, strict=True))
        ]
        columns = tuple(Known(frozenset(), name, value) for name, value in shown)
        order = self._order(node, shown, Scope(columns), only=False)
        sql = " ".join([f"SELECT * FROM ({found.sql})", *order, *limit_sql(node)])
        return replace(found, sql=sql, arrival=found.arrival and not order)

    def _values(self, node: exp.Values) -> LocalQuery:
        rows = [
            [
                translate(each, Scope(()))
                for each in (row.expressions if isinstance(row, exp.Tuple) else [row])
            ]
            for row in node.expressions
        ]
        if len({len(row) for row in rows}) != 1:
            raise BindError("rows of VALUES have different numbers of columns", span=place_of(node))
        made = [unite(list(column), "VALUES", place_of(node)) for column in zip(*rows, strict=True)]
        lines = ", ".join(f"({', '.join(values[i].sql for values, _ in made)})" for i in range(len(rows)))
        columns = ", ".join(f"CAST(c{i} AS {duck_name(kind)}) AS c{i}" for i, (_, kind) in enumerate(made))
        names = ", ".join(f"c{i}" for i in range(len(made)))
        titles = tuple(f"col{i + 1}" for i in range(len(made)))
        return LocalQuery(
            f"SELECT {columns} FROM (VALUES {lines}) AS v({names})", titles, tuple(kind for _, kind in made)
        )


def _as_kinds(found: LocalQuery, kinds: list[pa.DataType]) -> str:
    """Return a query whose columns have wider types."""
    if list(found.kinds) == kinds:
        return f"(SELECT * FROM ({found.sql}))"
    columns = ", ".join(
        f"{cast_sql(Typed(f'c{i}', one), two)} AS c{i}"
        for i, (one, two) in enumerate(zip(found.kinds, kinds, strict=True))
    )
    return f"(SELECT {columns} FROM ({found.sql}))"
