"""A query bound to a schema, as engines read it: names resolved, kinds known, OR split into branches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from cerise.events import Path, Schema
from cerise.kinds import Kind
from cerise.pattern.expr import Agg, At, Attr, Expr, attributes, outside_aggregates, walk
from cerise.pattern.query import Node, Query, Total, Var, Window, absent_names, variables
from cerise.pattern.rewrite import Absence
from cerise.pattern.show import show_expr

STEP = frozenset({At.CURRENT, At.PREVIOUS, At.RUNNING})


class Role(Enum):
    """The role of a conjunct, by the events that it mentions (S4.2)."""

    INDEPENDENT = "independent"
    DEPENDENT = "dependent"
    STEP = "Kleene step"
    EQUIVALENCE = "equivalence"


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One conjunct of WHERE, bound.

    Attributes:
        expr: a boolean expression.
        role: its role.
        last: the identifier that is bound last; its edge tests the conjunct [SASE08 §3.2].
        variables: the variables that it names outside aggregates.
        filters: whether it tests every event of its only variable alone, so that no run binds an event
            that fails.
    """

    expr: Expr
    role: Role
    last: str
    variables: frozenset[str]
    filters: bool = False

    def steps(self) -> frozenset[str]:
        """Return the Kleene variables that the conjunct steps through by b[i], from their second event on."""
        return frozenset(each.var for each in attributes(self.expr) if each.at in STEP)

    def __str__(self) -> str:
        return show_expr(self.expr)


@dataclass(frozen=True, slots=True)
class Negation:
    """A negated variable: where it may not occur, and the tests that an event must pass to count as it."""

    absence: Absence
    tests: tuple[Conjunct, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A query without OR: a positive pattern of Var, Kleene, Seq and And, and its negations."""

    pattern: Node
    conjuncts: tuple[Conjunct, ...]
    negations: tuple[Negation, ...]

    @property
    def variables(self) -> tuple[Var, ...]:
        return variables(self.pattern)

    @property
    def filters(self) -> dict[str, tuple[Expr, ...]]:
        """For each variable, negated ones included, its tests of one event alone: the type and predicates."""
        found = {
            var.name: tuple(c.expr for c in self.conjuncts if c.filters and var.name in c.variables)
            for var in self.variables
        }
        negated = {n.absence.var.name: tuple(c.expr for c in n.tests if c.filters) for n in self.negations}
        return {**found, **negated}


@dataclass(frozen=True, slots=True)
class OutColumn:
    """A column of the result: its name, its type, and its contents.

    `fill` is "match_id", "first_time", "last_time", "into", "window_start" or "window_end"; a Path (a
    partition column); a Var (the events bound to it); an Expr with its kind (a column of RETURN); or a Total.
    """

    name: str
    type: pa.DataType
    fill: str | Path | Var | Expr | Total
    kind: Kind | None = None
    many: bool = False


@dataclass(frozen=True)
class Bound:
    """A query bound to the schema of its events; `source` is the query whose matches are the events.

    `params` are the parameters given, sorted by name, each with its value as text.
    """

    query: Query
    schema: Schema
    branches: tuple[Branch, ...]
    conjuncts: tuple[Conjunct, ...]
    variables: tuple[Var, ...]
    kleene: frozenset[str]
    partition: tuple[Path, ...]
    not_null: tuple[Path, ...]
    within: Window | None
    slide: Window | None
    columns: tuple[OutColumn, ...]
    warnings: tuple[str, ...] = ()
    source: Bound | None = None
    params: tuple[tuple[str, str], ...] = ()

    @cached_property
    def reads(self) -> tuple[Path, ...]:
        paths = {each.path for c in self._all_conjuncts() for each in attributes(c.expr) if each.path}
        paths |= set(self.partition)
        names = self.schema.columns.names
        return tuple(sorted(paths, key=lambda path: (names.index(path[0]), path)))

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """The columns that matching and the output need, in schema order."""
        names = self.schema.columns.names
        if any(isinstance(column.fill, Var) for column in self.columns):
            return tuple(names)
        returned = {each.path for column in self.columns for each in _attributes_of(column) if each.path}
        used = {path[0] for path in (*self.reads, *returned)} | {self.schema.time, *self.schema.order}
        return tuple(name for name in names if name in used)

    @cached_property
    def ties(self) -> tuple[tuple[Path, ...], ...]:
        """The attributes whose hashes break the remaining ties, in two tiers (S1.2).

        The first tier has the attributes that matching reads, so that the matches do not depend on RETURN.
        The second has the other columns of the output, so that the result does not depend on arrival.
        """
        names = self.schema.columns.names
        first = sorted({*self.reads, (self.schema.time,)}, key=lambda path: (names.index(path[0]), path))
        rest = tuple((name,) for name in self.needs if (name,) not in first)
        return (tuple(first), rest) if rest else (tuple(first),)

    @cached_property
    def untyped(self) -> tuple[str, ...]:
        """The names of the variables that bind events of any type."""
        return tuple(var.name for var in self.variables if var.type is None)

    @cached_property
    def required_types(self) -> tuple[str, ...]:
        """The types of the variables that are not negated."""
        absent = absent_names(self.query.pattern)
        types = (var.type for var in self.variables if var.name not in absent)
        return tuple(dict.fromkeys(type_ for type_ in types if type_))

    @cached_property
    def arguments(self) -> tuple[Expr, ...]:
        totals = (column.fill for column in self.columns if isinstance(column.fill, Total))
        return tuple(dict.fromkeys(total.arg for total in totals if total.arg is not None))

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The schema of the result, known before running."""
        return pa.schema([pa.field(each.name, each.type) for each in self.columns])

    def _all_conjuncts(self) -> list[Conjunct]:
        tests = [test for branch in self.branches for each in branch.negations for test in each.tests]
        every = [*self.conjuncts, *(c for branch in self.branches for c in branch.conjuncts), *tests]
        return list({id(each): each for each in every}.values())  # most conjuncts are in several branches


def _attributes_of(column: OutColumn) -> tuple[Attr, ...]:
    fill = column.fill.arg if isinstance(column.fill, Total) else column.fill
    return () if fill is None or isinstance(fill, str | tuple | Var) else attributes(fill)


def final_variables(expr: Expr) -> frozenset[str]:
    """Return the Kleene variables whose last event, or whole set of events, an expression needs."""
    found = {each.var for each in outside_aggregates(expr) if each.at is At.LAST}
    for aggregate in (each for each in walk(expr) if isinstance(each, Agg)):
        found |= {each.var for each in attributes(aggregate.arg) if each.at is At.ALL}
    return frozenset(found)


def constant_indices(expr: Expr) -> tuple[Attr, ...]:
    """Return the attributes b[k] with a constant k."""
    return tuple(each for each in outside_aggregates(expr) if isinstance(each.at, int))


# ---- names that stand alone in a pattern: `login` is a variable, "login" is a type (S2.1)

Values = Callable[[str, Collection[str]], Collection[str]]


def find_type_mistakes(bounds: Sequence[Bound], values: Values, *, given: bool) -> list[str]:
    """Return warnings for variables named like values of the type column, and for a type column without use.

    Args:
        bounds: the queries.
        values: returns the names, out of some names, that are known values of a column.
        given: whether the caller gave the type column with the queries, which should then use it.
    """
    queries = [_first(bound) for bound in bounds]
    column = queries[0].schema.type
    if column is None or queries[0].schema.kind((column,)) is not Kind.STRING:
        return []
    lone = {var.name: query for query in queries for var in query.variables if var.type is None}
    held = values(column, lone.keys()) if lone else ()
    if found := [_explain_name(name, column, query) for name, query in lone.items() if name in held]:
        return found
    typed = any(var.type is not None for query in queries for var in query.variables)
    return [] if typed or not given else [_useless(column, queries[0])]


def _first(bound: Bound) -> Bound:
    """Return the innermost query, which reads events."""
    return bound if bound.source is None else _first(bound.source)


def _explain_name(name: str, column: str, bound: Bound) -> str:
    alone, typed = _spellings(name, bound)
    return (
        f"'{name}' is a value of the type column '{column}', but {alone} is a variable, which binds events "
        f"of any type: write {typed} for events of this type, or give the variable another name"
    )


def _useless(column: str, bound: Bound) -> str:
    _, typed = _spellings("login", bound)
    return (
        f"type='{column}' is given, but no item of the pattern has a type, so that each binds events of any "
        f"type: write types as in {typed}, or leave type= out"
    )


def _spellings(name: str, bound: Bound) -> tuple[str, str]:
    """Return a name written as a variable and as a type, in the language of the query."""
    short = next((letter for letter in name.lower() if letter.isalpha()), "e")
    short = short if short not in {var.name for var in bound.variables} else f"{short}1"
    if bound.query.text is None:
        return f'var("{name}")', f'var("{name}", "{short}")'
    return f"SEQ({name})", f'SEQ("{name}" {short})'


def names_in_column(column: pa.ChunkedArray, names: Collection[str]) -> set[str]:
    """Return the names that are values of a column of text."""
    chunks = [chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk for chunk in column.chunks]
    return {name for name in names if any(_holds(chunk, name) for chunk in chunks)}


def _holds(chunk: pa.Array, name: str) -> bool:
    return bool(pc.index(chunk, pa.scalar(name, chunk.type)).as_py() >= 0)
