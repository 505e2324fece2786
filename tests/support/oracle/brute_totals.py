"""Totals over matches, by the second oracle: every match is written down, and every value of it (S7.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import pyarrow as pa

from cerise.events import Schema
from cerise.pattern.expr import At, Attr, Expr, Same
from cerise.pattern.query import Kleene, Per, Query, Strategy, Total, Unit, Var, walk_nodes
from tests.support.oracle.brute import Match, matches
from tests.support.oracle.brute_returns import _field
from tests.support.oracle.brute_values import Scope, Uncomputable, bare, doubles, gathered, given, value
from tests.support.oracle.brute_world import lengths, partitions, stream

Row = dict[str, Any]


class Law:
    """One query over one table."""

    def __init__(self, query: Query, schema: Schema, table: pa.Table, params: Mapping[str, Any]) -> None:
        assert query.totals is not None
        self.query, self.schema, self.params, self.totals = query, schema, params, query.totals
        self.names = [each.name for each in walk_nodes(query.pattern) if isinstance(each, Var)]
        self.kleene = {each.var.name for each in walk_nodes(query.pattern) if isinstance(each, Kleene)}
        self.order, self.events = stream(table, schema)
        self.place = {row: at for at, row in enumerate(self.order)}
        self.raw = table.to_pylist()
        self.found = matches(query, schema, table, params)
        parts = partitions(query, schema, self.events)
        self.inside = {self.order[at]: number for part in parts for number, at in enumerate(part)}
        equal = [each.path for each in query.where if isinstance(each, Same)]
        equal = [] if query.strategy is Strategy.STRICT else equal
        columns = query.partition_by or tuple((name,) for name in schema.key)
        self.partition = list(dict.fromkeys((*columns, *equal)))

    def rows(self) -> list[Row] | None:
        """The rows of the result; None where a value cannot be computed."""
        groups: dict[str, tuple[Row, list[Match]]] = {}
        for match in self.found:
            for key, shown in self.keys(match):
                groups.setdefault(key, (shown, []))[1].append(match)
        if self.totals.per is Per.ALL and not groups:
            groups[""] = ({}, [])
        try:
            return [
                {**shown, **{item.name: self.total(item, members) for item in self.totals.items}}
                for shown, members in groups.values()
            ]
        except Uncomputable:
            return None

    # ---- groups

    def keys(self, match: Match) -> Iterator[tuple[str, Row]]:
        """What a match counts for: a name, and the columns that say it."""
        taken = sorted((row for rows in match for row in rows), key=lambda row: self.place[row])
        event, shown = "", {}
        if self.totals.per is Per.EVENT:
            event, shown = str(taken[-1]), {"last_time": self.raw[taken[-1]][self.schema.time]}
        if self.totals.per.partition:
            shown |= {".".join(path): _one(_field(self.raw[taken[-1]], path)) for path in self.partition}
        if not self.totals.per.window:
            yield event + repr(shown), shown
            return
        for start, end in self.windows(taken[0], taken[-1]):
            here = {**shown, "window_start": start, "window_end": end}
            yield repr(here), here

    def windows(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        within, slide = self.query.within, self.query.slide
        assert within is not None
        assert slide is not None
        size, step = self.size(within.size), self.size(slide.size)
        low, high = (
            (self.inside[first], self.inside[last]) if within.unit is Unit.EVENTS
            else (self.time(first), self.time(last))
        )  # fmt: skip
        for k in range((low - size) // step - 1, high // step + 2):
            if k * step <= low and high < k * step + size:
                yield k * step, k * step + size

    def size(self, size: Any) -> int:
        return size if isinstance(size, int) else int(given(self.params[size.name]))

    def time(self, row: int) -> int:
        return int(self.events[self.place[row]][(self.schema.time,)])

    # ---- values

    def total(self, item: Total, members: list[Match]) -> Any:
        """One aggregate over some matches."""
        if item.arg is None:
            return str(len(members)) if item.text else len(members)
        arg = lengths(item.arg, self.kleene)
        values = [x for match in members for x in self.values(arg, match) if x is not None]
        if item.function == "count":
            return str(len(values)) if item.text else len(values)
        if not values:
            return None
        match item.function:
            case "min":
                return min(values, key=_rank)
            case "max":
                return max(values, key=_rank)
            case "sum":
                total = _sum(values)
                return _double(total) if self.as_doubles(arg) else str(total) if item.text else int(total)
        total = _sum(values)
        return _double(total / len(values) if isinstance(total, Fraction) else total)

    def values(self, arg: Expr, match: Match) -> Iterator[Any]:
        """The values of one match: one, or one for each event of the variable that it runs through.

        A value of one event is none where there is no such event.
        """
        binding = {
            name: tuple(self.place[row] for row in rows) for name, rows in zip(self.names, match, strict=True)
        }
        through = {each.var for each in bare(arg) if each.at is At.EVERY and each.var in self.kleene}
        steps = [{}] if not through else [{v: n} for v in through for n in range(1, len(binding[v]) + 1)]
        alone = {(each.var, each.at) for each in bare(arg)} if not gathered(arg) else set()
        for number in steps:
            scope = Scope(self.events, binding, self.schema, self.params, number, strict=True)
            row = self.event(*next(iter(alone)), scope) if len(alone) == 1 else -1
            if row is not None:
                yield self.plain(arg, row) if isinstance(arg, Attr) else value(arg, scope)

    def event(self, var: str, at: Any, scope: Scope) -> int | None:
        """The row of the event that an identifier means."""
        places = scope.binding[var]
        number = at if isinstance(at, int) else len(places) if at is At.LAST else scope.number.get(var, 1)
        return self.order[places[number - 1]] if 1 <= number <= len(places) else None

    def plain(self, attr: Attr, row: int) -> Any:
        """An attribute as the table has it; of an event itself, that it is there."""
        return _field(self.raw[row], attr.path) if attr.path else True

    def as_doubles(self, arg: Expr) -> bool:
        return doubles(arg, Scope(self.events, {}, self.schema, self.params, {}))


def _one(known: Any) -> Any:
    """One zero and one NaN."""
    return (math.nan if known != known else known + 0.0) if isinstance(known, float) else known


def _rank(known: Any) -> Any:
    return (known != known, 0.0 if known != known else known) if isinstance(known, float) else known


def _sum(values: list[Any]) -> Any:
    odd = [each for each in values if isinstance(each, float) and not math.isfinite(each)]
    return sum(odd) if odd else sum(map(Fraction, values))


def _double(total: Any) -> float:
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
