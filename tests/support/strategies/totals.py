"""Random queries that ask for totals over their matches."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from cerise.events import Path
from cerise.pattern.expr import Agg, At, Attr, Expr, Index, Same, attributes
from cerise.pattern.query import Per, Query, Strategy, Total, Totals
from tests.support.strategies.exprs import NUMBERS, PARAMS, Writer
from tests.support.strategies.pairs import QUERY, Pair, most_events
from tests.support.strategies.queries import params_of, query_of
from tests.support.strategies.streams import ROW, Dice, Shape, shape_of, table_of

ANYTHING: tuple[Path, ...] = (*NUMBERS, ("s",), ("flag",), ("t",), ("type",), ("k",), ("p", "label"))
STREAMS = 6  # for each query: compiling it is most of the work


@st.composite
def totalled(draw: st.DrawFn) -> list[Pair]:
    """One query and several streams that it binds against."""
    rng = random.Random(draw(st.integers(0, 2**60)))
    dice = Dice(rng.randbytes(2 * QUERY))
    shape = shape_of(dice)
    query = query_of(dice, shape, returns=False)
    query = replace(query, returns=totals_of(dice, shape, query))
    params = {name: PARAMS[name] for name in params_of(query)}
    sizes = [max(0, most_events(query) - rng.choice((0, 0, 0, 1, 3, 7))) for _ in range(STREAMS)]
    tables = [table_of(Dice(rng.randbytes(ROW * size)), shape, size) for size in sizes]
    return [Pair(query, shape.schema, table, params) for table in tables]


def totals_of(dice: Dice, shape: Shape, query: Query) -> Totals:
    """One to four columns, for each of what the query has."""
    equal = query.strategy is not Strategy.STRICT and any(isinstance(w, Same) for w in query.where)
    rows = [Per.ALL, Per.EVENT, Per.EVENT]
    if query.partition_by or shape.schema.key or equal:
        rows += [Per.PARTITION] * 2
        rows += [Per.PARTITION_WINDOW] * 3 if query.slide else []
    rows += [Per.WINDOW] * 3 if query.slide else []
    columns = Columns(dice, shape, query)
    return Totals(tuple(columns.total(f"r{n}") for n in range(1 + dice.below(4))), dice.pick(rows))


class Columns:
    """Writes aggregates over the matches of a query."""

    def __init__(self, dice: Dice, shape: Shape, query: Query) -> None:
        self.dice, self.writer = dice, Writer(dice, shape, query.pattern)

    def total(self, name: str) -> Total:
        function = self.dice.pick(("count", "sum", "min", "max", "avg", "count", "sum"))
        text = self.dice.chance(10)
        if function == "count" and self.dice.chance(50):
            return Total(function, None, name, text)
        if function == "count" and self.dice.chance(30):
            return Total(function, Attr(self.dice.pick(self.writer.positive), ()), name, text)
        value = self.value(number=function in ("sum", "avg"))
        return Total(function, value, name, text and function == "count")

    def value(self, *, number: bool) -> Expr:
        """A value of one event, mostly; else of several, or an aggregate of a match."""
        writer = self.writer
        kind = self.dice.pick("aaaooms" if writer.kleene else "aaaoom")
        one = self.one()
        if kind == "a":
            return Attr(one[0], self.dice.pick(NUMBERS if number else ANYTHING), one[1])
        if kind == "s":
            return Agg("sum", Attr(self.dice.pick(writer.kleene), self.dice.pick(NUMBERS), At.ALL))
        others = [
            (n, self.dice.pick((1, At.LAST, 2)) if n in writer.kleene else At.EVERY) for n in writer.positive
        ]
        writer.sets, writer.here = [], [one] if kind == "o" else [one, *others]
        found = writer.number(2)
        return found if attributes(found) else Attr(one[0], ("x",), one[1])

    def one(self) -> tuple[str, Index]:
        name = self.dice.pick(self.writer.positive)
        if name not in self.writer.kleene:
            return name, At.EVERY
        return name, self.dice.pick((At.EVERY, At.EVERY, 1, At.LAST, 2))
