"""Resolves the names of a clause: to columns of its input, their fields, and columns derived from one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from cerise.errors import BindError, CeriseError, Span, did_you_mean
from cerise.kinds import ARROW_OF, COMPUTABLE, Kind
from cerise.kinds import kind_of as kind_of_type
from cerise.lang.match_recognize.expressions import Node
from cerise.lang.match_recognize.translate import Beyond, column, convert, path_of, render, span_of
from cerise.pattern.check import kind_of
from cerise.pattern.expr import Attr, Expr
from cerise.pattern.row_pattern import CLASSIFIER, Atom, Derived, Nav, atom

_SPARK_NAMES = {Kind.FLOAT: "DOUBLE", Kind.INT: "BIGINT"}


class Host(Protocol):
    """The database, which knows the types of expressions that only it computes."""

    def type_of(self, sql: str) -> pa.DataType:
        """Return the type of an SQL expression over one row of the input.

        Raises:
            CeriseError: the expression is wrong.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ref:
    """A column or a field of a column; `var` is its variable, None for the universal variable.

    `type` is None if only the database knows it, for example that of a key of a map.
    """

    var: str | None
    path: tuple[str, ...]
    type: pa.DataType | None


@dataclass(frozen=True)
class ClauseInput:
    """The input of a clause, with the columns and atoms that its expressions add.

    Attributes:
        columns: the columns of the input.
        host: knows the types of SQL expressions; None: Cerise alone computes.
        variables: the primary variables of each variable, itself or the members of a subset; None outside
            MEASURES and DEFINE, where the table may qualify a column instead.
        tables: the names that may qualify a column: of the table and its alias.
        text: the statement.
        derived: columns computed from one row, by their SQL.
        atoms: the name of each atom.
        types: the types that the host has returned, by SQL.
    """

    columns: pa.Schema
    host: Host | None
    variables: Mapping[str, frozenset[str]] | None
    tables: tuple[str, ...]
    text: str
    derived: dict[str, Derived] = field(default_factory=dict)
    atoms: dict[Atom, str] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)

    # ---- names

    def span(self, node: Node) -> Span | None:
        return span_of(node, self.text)

    def members(self, var: str | None) -> frozenset[str] | None:
        """Return the primary variables of a variable; None: all rows."""
        return None if var is None or self.variables is None else self.variables[var]

    def find(self, node: Node) -> Ref | None:
        """Return the column or field that a node names; None if the node is not a name.

        Raises:
            BindError: the name is unknown.
        """
        names = path_of(node)
        if names is None:
            return None
        var: str | None = None
        if len(names) > 1 and self.variables is not None and fold_name(names[0]) in self.variables:
            var, names = fold_name(names[0]), names[1:]
        elif len(names) > 1 and self._column(names[0]) is None:
            self._check_qualifier(names[0])
            names = names[1:]
        found = self._column(names[0])
        if found is None:
            raise self._unknown(names[0])
        return self._field(Ref(var, (found,), self.columns.field(found).type), names[1:])

    def _column(self, name: exp.Identifier) -> str | None:
        """Return the column with exactly this name, else the only column that equals it except for case."""
        return self._match(name, self.columns.names)

    def _match(self, name: exp.Identifier, known: list[str]) -> str | None:
        exact = [each for each in known if each == name.this]
        alike = exact or [each for each in known if each.lower() == name.this.lower()]
        if len(alike) > 1:
            raise BindError(
                f"'{name.this}' could be {' or '.join(map(repr, alike))}", span=self.span(name),
                hint="rename one in a subquery: FROM (SELECT x AS y, … FROM …) MATCH_RECOGNIZE (…)",
            )  # fmt: skip
        return alike[0] if alike else None

    def _field(self, ref: Ref, names: tuple[exp.Identifier, ...]) -> Ref:
        for name in names:
            if ref.type is None or not pa.types.is_struct(ref.type):
                if self.host is None or (ref.type is not None and not pa.types.is_nested(ref.type)):
                    raise BindError(f"'{'.'.join(ref.path)}' has no fields", span=self.span(name))
                ref = Ref(ref.var, (*ref.path, name.this), None)
                continue
            known = [each.name for each in ref.type]
            if (found := self._match(name, known)) is None:
                raise BindError(
                    f"unknown field '{name.this}' in '{'.'.join(ref.path)}'", span=self.span(name),
                    hint=did_you_mean(name.this, known),
                )  # fmt: skip
            ref = Ref(ref.var, (*ref.path, found), ref.type.field(found).type)
        return ref

    def _check_qualifier(self, name: exp.Identifier) -> None:
        if self.variables is None and name.this.lower() in self.tables:
            return
        if self.variables is None:
            raise self._unknown(name)
        if name.this.lower() in self.tables:
            raise BindError(
                f"the table '{name.this}' cannot be named here", span=self.span(name),
                hint=f"write the column alone, or that of a variable: {_example(self.variables)}",
            )  # fmt: skip
        raise BindError(
            f"unknown variable '{name.this}'",
            span=self.span(name),
            hint=did_you_mean(name.this, self.variables),
        )

    def _unknown(self, name: exp.Identifier) -> BindError:
        if self.variables is not None and fold_name(name) in self.variables:
            hint = f"name a column of it: {name.this}.{next(iter(self.columns.names), 'x')}"
            return BindError(f"'{name.this}' is a variable, not a column", span=self.span(name), hint=hint)
        hint_ = did_you_mean(name.this, self.columns.names)
        return BindError(f"unknown column '{name.this}'", span=self.span(name), hint=hint_)

    # ---- columns

    def kind(self, name: str) -> Kind:
        return kind_of_type(self.type_of(name))

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of a column of the input, or of a derived column."""
        if name == CLASSIFIER:
            return pa.string()
        for each in self.derived.values():
            if each.name == name:
                return each.type
        return self.columns.field(name).type

    def derive(self, node: Node, *, computed: bool = False) -> str:
        """Return the column that holds an expression of one row.

        Args:
            node: the expression; the variables before its columns are ignored.
            computed: whether predicates or aggregates compute with it: then an exact decimal with many
                digits becomes a double.

        Raises:
            UnsupportedError: only Spark can compute the expression, and the input has no host.
        """
        node = strip_parens(node)
        ref = self.find(node)
        if ref is not None and len(ref.path) == 1:
            return ref.path[0]
        sql = self.sql(node)
        made = self._derive(node, ref, sql)
        kind = kind_of(made.expr) if made.expr is not None else None
        if computed and kind in _SPARK_NAMES and kind_of_type(made.type) not in COMPUTABLE:
            made = Derived("", f"CAST({sql} AS {_SPARK_NAMES[kind]})", made.expr, ARROW_OF[kind])
        return self._keep(made)

    def sql(self, node: Node) -> str:
        """Return an expression of one row as Spark SQL over the columns of the input."""

        def to_column(each: Node) -> Node | None:
            return column(*ref.path) if (ref := self.find(each)) is not None else None

        return render(node, self.text, to_column)

    def derive_absent(self, node: Node) -> str:
        """Return the column that holds an expression of a missing row: all its columns are null."""

        def to_null(each: Node) -> Node | None:
            if (ref := self.find(each)) is None:
                return None
            return exp.Anonymous(this="if", expressions=[exp.false(), column(*ref.path), exp.null()])

        sql = render(node, self.text, to_null)
        return self._keep(Derived("", sql, None, self._ask(sql, node)))

    def present(self) -> str:
        return self._keep(Derived("", "TRUE", self._expr(exp.true()), pa.bool_()))

    def _derive(self, node: Node, ref: Ref | None, sql: str) -> Derived:
        if ref is not None and ref.type is not None:
            return Derived("", sql, Attr("", ref.path, kind=kind_of_type(ref.type)), ref.type)
        try:
            expr: Expr | None = self._expr(node)
        except Beyond as beyond:
            if self.host is None:
                raise beyond.error from None
            expr = None
        if self.host is None:
            assert expr is not None
            return Derived("", sql, expr, ARROW_OF[kind_of(expr)])
        type_ = self._ask(sql, node)
        agreed = expr is not None and kind_of_type(type_) in (kind_of(expr), Kind.OPAQUE)
        return Derived("", sql, expr if agreed else None, type_)

    def _keep(self, made: Derived) -> str:
        if made.sql not in self.derived:
            taken = {name.lower() for name in self.columns.names}
            taken |= {each.name for each in self.derived.values()}
            name = next(f"_d{i}" for i in range(len(taken) + 1) if f"_d{i}" not in taken)
            self.derived[made.sql] = Derived(name, made.sql, made.expr, made.type)
        return self.derived[made.sql].name

    def _ask(self, sql: str, node: Node) -> pa.DataType:
        assert self.host is not None
        if sql not in self.types:
            try:
                self.types[sql] = self.host.type_of(sql)
            except CeriseError as error:
                raise type(error)(error.problem, span=self.span(node), hint=error.hint) from None
        return self.types[sql]

    def _expr(self, node: Node) -> Expr:
        found = self._term(node)
        check_kind(found)
        return found

    def _term(self, node: Node) -> Expr:
        ref = self.find(node)
        if ref is None:
            return convert(node, self._term, self.span(node))
        kind = kind_of_type(ref.type) if ref.type is not None else Kind.OPAQUE
        if kind not in COMPUTABLE:
            raise Beyond(opaque(".".join(ref.path), ref.type, self.span(node)))
        return Attr("", ref.path, kind=kind, span=self.span(node))

    # ---- atoms

    def atom(self, made: Atom, kind: Kind) -> Attr:
        """Return an atom as an attribute; equal atoms share a name."""
        return atom(self.atoms.setdefault(made, f"_a{len(self.atoms)}"), kind)

    def opaque(self, attr: Attr, span: Span | None) -> BindError:
        """Return the error for computing with an atom of an opaque type."""
        (found,) = [each for each, name in self.atoms.items() if name == attr.path[0]]
        if isinstance(found, Nav):
            return opaque(found.column, self.type_of(found.column), span)
        return BindError(
            "an array cannot be computed with", span=span, hint="use count, sum, avg, min or max"
        )

    def mark(self) -> tuple[int, int]:
        return len(self.derived), len(self.atoms)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Remove the columns and atoms added since a mark."""
        while len(self.derived) > mark[0]:
            self.derived.popitem()
        while len(self.atoms) > mark[1]:
            self.atoms.popitem()


def check_kind(expr: Expr) -> Kind:
    """Return the kind of an expression.

    Raises:
        Beyond: Cerise cannot combine its operands.
    """
    try:
        return kind_of(expr)
    except BindError as error:
        raise Beyond(error) from None


def opaque(name: str, type_: pa.DataType | None, span: Span | None) -> BindError:
    """Return the error for computing with a value of an opaque type."""
    return BindError(
        f"'{name}' of type {type_} cannot be computed with", span=span,
        hint="cast it, as in CAST(x AS DOUBLE), or compute what you need in a subquery (see docs/types.md)",
    )  # fmt: skip


def strip_parens(node: Node) -> Node:
    """Return a node without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def fold_name(name: exp.Identifier) -> str:
    """Return a name as that of a variable: upper case unless quoted (M22)."""
    return str(name.this) if name.args.get("quoted") else str(name.this).upper()


def _example(variables: Mapping[str, frozenset[str]]) -> str:
    return f"{next(iter(variables), 'A')}.x"
