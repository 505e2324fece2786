"""Random queries that bind against a random schema: every feature of semantics.md §2–§7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cerise.errors import UnsupportedError
from cerise.events import Path
from cerise.pattern.expr import Expr, Param, Same, walk
from cerise.pattern.query import (
    And,
    Kleene,
    Maybe,
    Node,
    Not,
    Or,
    Output,
    Query,
    Seq,
    Strategy,
    Totals,
    Unit,
    Var,
    Window,
)
from cerise.pattern.rewrite import shapes
from tests.support.strategies.exprs import PARAMS, Writer
from tests.support.strategies.streams import Dice, Shape

__all__ = ["PARAMS", "params_of", "query_of"]

STRATEGIES = (
    Strategy.NEXT, Strategy.ANY, Strategy.STRICT, Strategy.NEXT, Strategy.PARTITION, Strategy.NEXT,
    Strategy.ANY,
)  # fmt: skip
NAMES = "abcdefghijklmnop"
BOUNDS = ((1, None), (1, None), (1, None), (0, None), (1, 2), (2, None), (2, 3), (0, 2), (2, 2), (1, 1))
TESTED: tuple[Path, ...] = (("k",), ("k",), ("x",), ("y",), ("p", "label"), ("s",))
MOST_VARIABLES = 5


def query_of(
    dice: Dice,
    shape: Shape,
    *,
    strategies: Sequence[Strategy] = STRATEGIES,
    partitioned: bool | None = None,
    counted: bool = True,
    returns: bool = True,
    late: bool = False,
) -> Query:
    """A random query.

    Args:
        dice: what decides.
        shape: the events that it is about.
        strategies: the strategies to choose from.
        partitioned: whether it has PARTITION BY; None leaves it to the dice.
        counted: whether windows may be in events.
        returns: whether it may have RETURN.
        late: whether it chooses among matches that a NOT at their end leaves open.
    """
    planter = Planter(dice, shape)
    pattern = _legal(planter.open_end() if late else planter.top())
    strategy = dice.pick(strategies)
    writer = Writer(dice, shape, pattern)
    where = [each for _ in range(dice.pick((1, 0, 1, 1, 2, 0, 3))) for each in writer.conjunct()]
    if dice.chance(60 if strategy is Strategy.PARTITION else 12):
        where.append(Same(dice.pick(TESTED)))
    within, slide = _windows(dice, shape, pattern, counted=counted)
    by: tuple[Path, ...] = ()
    if not shape.schema.key and (dice.chance(14) if partitioned is None else partitioned):
        by = dice.pick(((("k",),), (("k",),), (("k",), ("flag",)), (("p", "label"),), (("y",),)))
    chosen = (
        writer.returns() if returns and dice.chance(30) else Totals() if returns and dice.chance(5) else None
    )
    apart = dice.chance(60 if late else 12)
    limited = dice.chance(12) or (late and not apart)
    return Query(
        pattern, strategy=strategy, partition_by=by, where=tuple(where), within=within, slide=slide,
        output=Output.NON_OVERLAPPING if apart else Output.ALL,
        limit=dice.pick((1, 2)) if limited else None, returns=chosen,
    )  # fmt: skip


def params_of(query: Query) -> set[str]:
    """The parameters that a query uses."""
    exprs: list[Expr] = list(query.where)
    if isinstance(query.returns, Totals):
        exprs += [item.arg for item in query.returns.items if item.arg is not None]
    else:
        exprs += [item.expr for item in query.returns or ()]
    sizes = [each.size for each in (query.within, query.slide) if each is not None]
    used = [each for expr in exprs for each in walk(expr)] + sizes
    return {each.name for each in used if isinstance(each, Param)}


# ---- patterns


@dataclass
class Planter:
    """Grows a pattern of at most five variables."""

    dice: Dice
    shape: Shape
    planted: int = 0

    def top(self) -> Node:
        """A whole pattern: mostly a SEQ."""
        kind = self.dice.pick("SSSSSSAAOKV")
        if kind in "KV":
            return self.item(0)
        return self.group(kind, 2, top=True)

    def open_end(self) -> Node:
        """A SEQ with a NOT at its end, or an AND with a NOT."""
        items = [self.item(1) for _ in range(self.dice.pick((2, 1, 2, 3)))]
        negated = Not(self.var())
        if self.dice.chance(25):
            return And((negated, *items))
        return Seq((*([Not(self.var())] if self.dice.chance(15) else []), *items, negated))

    def group(self, kind: str, depth: int, *, top: bool = False) -> Node:
        """A SEQ, AND or OR; NOT may stand in a SEQ, and in an AND at the top."""
        size = self.dice.pick((2, 2, 3, 2)) if kind == "S" else self.dice.pick((2, 2, 2, 3))
        items = [self.item(depth) for _ in range(size)]
        negating = (kind == "S" or (kind == "A" and top)) and self.dice.chance(35 if top else 20)
        if negating:
            place = self.dice.below(len(items) + 1) if top else 1 + self.dice.below(len(items) - 1)
            items.insert(place, Not(self.var()))
            if self.dice.chance(15):
                items.insert(1, Not(self.var()))
        return {"S": Seq, "A": And, "O": Or}[kind](tuple(items))

    def item(self, depth: int) -> Node:
        """A variable, alone, repeated or optional; or a group."""
        if depth > 0 and self.planted < MOST_VARIABLES - 1 and self.dice.chance(20):
            group = self.group(self.dice.pick("SAAO"), depth - 1)
            return Maybe(group) if self.dice.chance(6) else group
        kind = self.dice.pick("VVVVKKKM") if self.planted < MOST_VARIABLES else "V"
        var = self.var()
        if kind == "K":
            return Kleene(var, *self.dice.pick(BOUNDS))
        return Maybe(var) if kind == "M" else var

    def var(self) -> Var:
        name = NAMES[self.planted]
        self.planted += 1
        types = self.shape.types()
        if not types or self.dice.chance(25):
            return Var(name)
        return Var(name, types[(self.planted - 1 + self.dice.pick((0, 0, 0, 1, 2, 3))) % len(types)])


def _legal(pattern: Node) -> Node:
    """A pattern whose NOTs all stand where S6.5 allows it, and in which something is positive."""
    try:
        return pattern if shapes(pattern) else Seq((Var("a"),))
    except UnsupportedError:
        return _without_nots(pattern)


def _without_nots(node: Node) -> Node:
    match node:
        case Seq(items) | And(items) | Or(items):
            return type(node)(tuple(_without_nots(each) for each in items if not isinstance(each, Not)))
        case Maybe(item):
            return replace(node, item=_without_nots(item))
    return node


# ---- windows


def _windows(
    dice: Dice, shape: Shape, pattern: Node, *, counted: bool
) -> tuple[Window | None, Window | None]:
    needed = any(absence.at_end for each in shapes(pattern) for absence in each.absences)
    if not needed and not dice.chance(65):
        return None, None
    if counted and dice.chance(30):
        within = Window(dice.pick((4, 3, 5, 6, 2, 7, 8, 10, 1, 14, 0)), Unit.EVENTS)
        slide = Window(dice.pick((1, 2, 3, 5)), Unit.EVENTS)
    else:
        unit = Unit.TIME if shape.timed else Unit.NUMBER
        within = Window(dice.pick((4, 3, 5, 6, 8, 7, 2, 6, 1, 0, 12)) * shape.tick, unit)
        slide = Window(dice.pick((1, 2, 3, 5, 9)) * shape.tick, unit)
    if within.unit is not Unit.TIME and dice.chance(5):
        within = replace(within, size=Param("size"))
    return within, slide if dice.chance(22) else None
