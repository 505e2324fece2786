"""What the second oracle knows of the law: stream order, partitions, branches, windows, types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from cerise.events import Path, Schema
from cerise.pattern.expr import Agg, At, Attr, Expr, Same, rebuild
from cerise.pattern.query import (
    And,
    Kleene,
    Maybe,
    Node,
    Not,
    Or,
    Query,
    Seq,
    Strategy,
    Unit,
    Var,
    walk_nodes,
)
from tests.support.oracle.brute_values import Binding, Event, Scope, bare, given


@dataclass(frozen=True)
class Absent:
    """A NOT: which items it stands between; in an AND, neither."""

    var: Var
    after: tuple[str, ...]
    before: tuple[str, ...]
    in_and: bool = False


@dataclass(frozen=True)
class World:
    """One branch of a query over one partition."""

    query: Query
    schema: Schema
    params: Mapping[str, Any]
    events: Sequence[Event]
    tree: Node
    absences: tuple[Absent, ...]

    @cached_property
    def vars(self) -> dict[str, Var]:
        return {each.name: each for each in walk_nodes(self.tree) if isinstance(each, Var)}

    @cached_property
    def names(self) -> list[str]:
        return list(self.vars)

    @cached_property
    def missing(self) -> set[str]:
        """The variables of other branches, and the negated ones."""
        return {each.name for each in walk_nodes(self.query.pattern) if isinstance(each, Var)} - set(
            self.names
        )

    @cached_property
    def kleene(self) -> set[str]:
        return {each.var.name for each in walk_nodes(self.query.pattern) if isinstance(each, Kleene)}

    def conjuncts(self, negated: str | None = None) -> list[Expr]:
        """The conjuncts that speak of this branch only (S3.2), or of one of its negated variables."""
        present = {*self.names, *([negated] if negated else [])}
        where = [lengths(each, self.kleene) for each in self.query.where if not isinstance(each, Same)]
        named = [({attr.var for attr in bare(each)}, each) for each in where]
        return [each for names, each in named if names <= present and (not negated or negated in names)]

    def scope(self, binding: Binding) -> Scope:
        return Scope(self.events, binding, self.schema, self.params, {})

    def time(self, place: int) -> int:
        return int(self.events[place][(self.schema.time,)])


# ---- events


def stream(table: pa.Table, schema: Schema) -> tuple[list[int], list[Event]]:
    """The rows in stream order (S1.2), and their attributes by path."""
    columns: dict[Path, list[Any]] = {}
    for name in table.column_names:
        values = table.column(name).to_pylist()
        columns[(name,)] = [_plain(each) for each in values]
        if pa.types.is_struct(table.schema.field(name).type):
            for inner in table.schema.field(name).type:
                columns[(name, inner.name)] = [None if v is None else _plain(v[inner.name]) for v in values]
    keys: list[Path] = [(schema.time,), *((name,) for name in schema.order)]
    order = sorted(range(len(table)), key=lambda row: [_sortable(columns[path][row]) for path in keys])
    return order, [{path: column[row] for path, column in columns.items()} for row in order]


def _plain(known: Any) -> Any:
    return given(known) if isinstance(known, dt.date | dt.timedelta) else known


def _sortable(known: Any) -> tuple[int, Any]:
    if known is None:
        return (0, 0)
    return (2, 0) if known != known else (1, known)


def partitions(query: Query, schema: Schema, events: Sequence[Event]) -> list[list[int]]:
    """The places of each partition's events (S8)."""
    grouped = query.partition_by or tuple((name,) for name in schema.key)
    equal = [each.path for each in query.where if isinstance(each, Same)]
    equal = [] if query.strategy is Strategy.STRICT else equal
    found: dict[Any, list[int]] = {}
    for place, event in enumerate(events):
        if all(event[path] is not None for path in equal):
            key = tuple(_sortable(event[path]) for path in (*grouped, *equal))
            found.setdefault(key, []).append(place)
    return list(found.values())


# ---- branches


def worlds(
    query: Query, schema: Schema, params: Mapping[str, Any], events: Sequence[Event]
) -> Iterator[World]:
    """Each OR-free branch of the query (S3.2, S3.6)."""
    for branch in expanded(query.pattern):
        flat = flattened(branch) if branch is not None else None
        if flat is not None and not isinstance(flat, Not):
            absences: list[Absent] = []
            tree = positive(flat, absences, top=True)
            if tree is not None:
                yield World(query, schema, params, events, tree, tuple(absences))


def expanded(node: Node) -> list[Node | None]:
    match node:
        case Or(items):
            return [branch for item in items for branch in expanded(item)]
        case Maybe(item):
            return [*expanded(item), None]
        case Kleene(var, 0, high):
            return [Kleene(var, 1, high), None]
        case Seq(items) | And(items):
            rows: list[tuple[Node, ...]] = [()]
            for item in items:
                rows = [(*row, *([] if b is None else [b])) for row in rows for b in expanded(item)]
            return [type(node)(row) if row else None for row in rows]
    return [node]


def flattened(node: Node) -> Node:
    if not isinstance(node, Seq | And):
        return node
    items: list[Node] = []
    for item in map(flattened, node.items):
        items += item.items if isinstance(item, Seq | And) and type(item) is type(node) else [item]
    return items[0] if len(items) == 1 else type(node)(tuple(items))


def positive(node: Node, absences: list[Absent], *, top: bool = False) -> Node | None:
    """A branch without its NOTs, which are noted with what they stand between (S6)."""
    if not isinstance(node, Seq | And):
        return node
    kept = [(i, positive(item, absences)) for i, item in enumerate(node.items) if not isinstance(item, Not)]
    for i, item in enumerate(node.items):
        if isinstance(item, Not):
            assert top or isinstance(node, Seq)
            left = [each for j, each in kept if j < i and each is not None]
            right = [each for j, each in kept if j > i and each is not None]
            if isinstance(node, And):
                absences.append(Absent(item.var, (), (), in_and=True))
            else:
                absences.append(Absent(item.var, _vars(left[-1:]), _vars(right[:1])))
    items = tuple(each for _, each in kept if each is not None)
    return flattened(type(node)(items)) if items else None


def _vars(nodes: Sequence[Node]) -> tuple[str, ...]:
    return tuple(each.name for node in nodes for each in walk_nodes(node) if isinstance(each, Var))


def lengths(expr: Expr, kleene: set[str]) -> Expr:
    """b.LEN is count(b)."""
    if isinstance(expr, Attr):
        is_length = expr.var in kleene and expr.at is At.EVERY and [p.upper() for p in expr.path] == ["LEN"]
        return Agg("count", replace(expr, path=(), at=At.ALL)) if is_length else expr
    return rebuild(expr, lambda each: lengths(each, kleene))


# ---- what any match must satisfy


def places(binding: Binding) -> list[int]:
    return sorted(place for taken in binding.values() for place in taken)


def in_window(world: World, first: int, last: int) -> bool:
    """S5.1–S5.3, by the definition: with SLIDE, some window [k·s, k·s + w) holds both."""
    within, slide = world.query.within, world.query.slide
    if within is None:
        return True
    counted = within.unit is Unit.EVENTS
    start, end = (first, last) if counted else (world.time(first), world.time(last))
    size = size_of(world, within.size)
    if slide is None:
        return end - start < size if counted else end - start <= size
    step = size_of(world, slide.size)
    around = range(start // step - size // step - 2, start // step + 3)
    return any(k * step <= start and end < k * step + size for k in around)


def size_of(world: World, size: Any) -> int:
    return size if isinstance(size, int) else int(given(world.params[size.name]))


def typed(world: World, var: Var, place: int) -> bool:
    if var.type is None:
        return True
    assert world.schema.type is not None
    found = world.events[place][(world.schema.type,)]
    return found is not None and str(found) == var.type


def equivalent(world: World, taken: Sequence[int]) -> bool:
    """`[attr]` where it does not partition: all have the same attr, and it is not null."""
    if world.query.strategy is not Strategy.STRICT:
        return True
    for path in (each.path for each in world.query.where if isinstance(each, Same)):
        values = [world.events[place][path] for place in taken]
        if None in values or len({_sortable(each) for each in values}) > 1:
            return False
    return True
