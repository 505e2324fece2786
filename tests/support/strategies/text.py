"""Random queries to print and parse: canonical, with odd names and all literals, bound to no schema."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from cerise.events import Path
from cerise.kinds import DAY_US, Kind
from cerise.pattern.expr import (
    AGGREGATES,
    Agg,
    At,
    Attr,
    Binary,
    Call,
    Cast,
    Expr,
    In,
    Index,
    IsNull,
    Like,
    Literal,
    Param,
    Same,
    Unary,
    conjuncts,
)  # fmt: skip
from cerise.pattern.query import (
    And,
    Item,
    Kleene,
    Maybe,
    Node,
    Not,
    Or,
    Output,
    Per,
    Query,
    Return,
    Seq,
    Strategy,
    Total,
    Totals,
    Unit,
    Var,
    Window,
)
from tests.support.strategies.streams import Dice

PLAIN = tuple(
    "a b price x1 _ _1 é 名前 i len s d h used orders android note inner events_ first naïve".split()
)
ODD = (
    "A", "MSFT", "SEQ", "seq", "and", "Not", "WITHIN", "event", "events", "null", "kl", "count", "cast",
    "date", "timestamp", "skip_till_any_match", "two words", "2x", "it's", 'say "hi"', "`tick`",
    "a.b", "-- no",
    "é è",
    "🍒", "a\nb", "[i]", "LIMIT", "PER", "as", "us", "%", "LEN",
)  # fmt: skip
CHARACTERS = "aB3_ '\"`%\\.-é日🍒\n;:[]()"
FUNCTIONS = ("abs", "Foo", "greatest", "upper", "größe", "coalesce", "f1")
WORDS = ("", "x", "it's", "''", "--", "%_\\", "é日🍒", "two\nlines", '"', "NULL", "5 minutes")
WHOLE = (0, 1, 5, -1, 80, 2**53 + 1, 2**63 - 1, -(2**63), 10**30)
DOUBLES = (0.5, 1.0, -2.5, 1e16, 1e-7, 1.5e300, 5e-324, -0.0, 0.1, 123456789.125)
DURATIONS = (0, 1, 999, 1_000, 1_500_000, 60_000_000, 5_400_000_000, DAY_US, 7 * DAY_US + 1)
MOMENTS = (0, 1, -1, 1_731_696_300_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999, -DAY_US)
BOUNDS = ((1, None), (0, None), (2, None), (0, 1), (0, 3), (1, 1), (2, 5), (10, 10))
INDEXES: tuple[Index, ...] = (
    At.EVERY,
    At.ALL,
    At.RUNNING,
    At.CURRENT,
    At.PREVIOUS,
    At.LAST,
    At.NEXT,
    At.PREV,
    1,
    7,
)


@st.composite
def any_query(draw: st.DrawFn) -> Query:
    """Any query that the parser can produce."""
    return Scribe(Dice(draw(st.binary(min_size=180, max_size=180)))).query(2)


@dataclass
class Scribe:
    """Writes down a query, choice by choice."""

    dice: Dice

    def query(self, depth: int) -> Query:
        dice, source = self.dice, None
        if depth and dice.chance(15):
            source = replace(self.query(depth - 1), into=f"{self.name()}{depth}")
        returns: Return = None
        if dice.chance(40):
            items = range(1 + dice.below(3))
            returns = (
                Totals(tuple(self.total() for _ in items), dice.pick(tuple(Per)))
                if dice.chance(40)
                else tuple(Item(self.expr(2), self.name()) for _ in items)
            )
        return Query(
            self.node(2),
            source or (self.name() if dice.chance(20) else None),
            dice.pick(tuple(Strategy)),
            tuple(self.path() for _ in range(dice.below(3))),
            tuple(each for _ in range(dice.below(3)) for each in conjuncts(self.expr(3))),
            self.window() if dice.chance(50) else None,
            self.window() if dice.chance(30) else None,
            dice.pick(tuple(Output)),
            1 + dice.below(9) if dice.chance(20) else None,
            returns,
            self.name() if dice.chance(25) else None,
        )

    def total(self) -> Total:
        """Over all matches a bare b is each event, and there is no set but in an aggregate of a match."""
        text = self.dice.chance(20)
        if self.dice.chance(40):
            return Total("count", None, "count" if self.dice.chance(50) else self.name(), text)
        at: tuple[Index, ...] = (At.EVERY, 1, At.LAST, 7, At.CURRENT, At.RUNNING, At.NEXT)
        value: Expr = self.attr(at) if self.dice.chance(70) else self.aggregate()
        if self.dice.chance(40):
            value = Binary(self.dice.pick("+-*/%"), value, self.attr(at))
        return Total(self.dice.pick(("count", "sum", "avg", "min", "max")), value, self.name(), text)

    # ---- names and patterns

    def name(self) -> str:
        if self.dice.chance(20):
            return "".join(self.dice.pick(CHARACTERS) for _ in range(1 + self.dice.below(4)))
        return self.dice.pick(PLAIN) if self.dice.chance(60) else self.dice.pick(ODD)

    def path(self) -> Path:
        return tuple(self.name() for _ in range(1 + self.dice.below(2)))

    def var(self) -> Var:
        """A lone name in quotes or capitals is a type (S2.1), so an untyped variable has a plain name."""
        return Var(self.name(), self.name()) if self.dice.chance(60) else Var(self.dice.pick(PLAIN))

    def node(self, depth: int) -> Node:
        kind = self.dice.pick("VVVKKNM" + ("SSAO" if depth else ""))
        if kind in "SAO":
            items = tuple(self.node(depth - 1) for _ in range(1 + self.dice.below(3)))
            return {"S": Seq, "A": And, "O": Or}[kind](items)
        if kind == "M":
            item = self.node(depth - 1) if depth else self.var()
            return item if isinstance(item, Not | Maybe) else Maybe(item)
        var = self.var()
        return Kleene(var, *self.dice.pick(BOUNDS)) if kind == "K" else Not(var) if kind == "N" else var

    def window(self) -> Window:
        if self.dice.chance(20):
            return Window(Param("size"), self.dice.pick((Unit.NUMBER, Unit.EVENTS)))
        unit = self.dice.pick(tuple(Unit))
        return Window(self.dice.pick(DURATIONS if unit is Unit.TIME else (0, 1, 30, 2**40)), unit)

    # ---- expressions

    def expr(self, depth: int) -> Expr:
        if not depth or self.dice.chance(25):
            return self.attr(INDEXES) if self.dice.chance(55) else self.literal()
        match self.dice.pick("bbbbbunlicfgsp"):
            case "b":
                op = self.dice.pick(("=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "and", "or"))
                return Binary(op, self.expr(depth - 1), self.expr(depth - 1))
            case "u":
                return (
                    self.minus(self.expr(depth - 1))
                    if self.dice.chance(50)
                    else Unary("not", self.expr(depth - 1))
                )
            case "n":
                return IsNull(self.expr(depth - 1))
            case "l":
                return Like(self.expr(depth - 1), self.dice.pick(WORDS).replace("\\", "\\\\"))
            case "i":
                return In(
                    self.expr(depth - 1), tuple(self.expr(depth - 1) for _ in range(1 + self.dice.below(3)))
                )
            case "c":
                return Cast(
                    self.expr(depth - 1), self.dice.pick((Kind.INT, Kind.FLOAT, Kind.STRING, Kind.BOOL))
                )
            case "f":
                args = tuple(self.expr(depth - 1) for _ in range(1 + self.dice.below(3)))
                return Call(self.dice.pick(FUNCTIONS), args)
            case "g":
                return self.aggregate()
            case "s":
                return Same(self.path())
        return Param(self.dice.pick(("p", "min_price", "_x1")))

    def minus(self, arg: Expr) -> Expr:
        """A minus before a number is part of the number."""
        number = isinstance(arg, Literal) and isinstance(arg.value, int | float) and arg.kind is not Kind.BOOL
        return IsNull(arg) if number else Unary("-", arg)

    def attr(self, indexes: tuple[Index, ...]) -> Attr:
        at = self.dice.pick(indexes)
        path = self.path() if at in (At.NEXT, At.PREV) or self.dice.chance(85) else ()
        return Attr(self.name(), path, at)

    def aggregate(self) -> Expr:
        """Inside an aggregate a bare b is the set b[] (S4.3)."""
        inside: Expr = self.attr((At.ALL, At.RUNNING, At.CURRENT, At.LAST, 3))
        if self.dice.chance(30):
            inside = Binary(self.dice.pick("+*/"), inside, self.literal())
        return Agg(self.dice.pick(sorted(AGGREGATES)), inside)

    def literal(self) -> Literal:
        kind = self.dice.pick((Kind.INT, Kind.FLOAT, Kind.STRING, Kind.BOOL, Kind.NULL, Kind.DURATION,
                               Kind.LOCAL,
                               Kind.INSTANT, Kind.DATE))  # fmt: skip
        match kind:
            case Kind.INT:
                return Literal(self.dice.pick(WHOLE), kind)
            case Kind.FLOAT:
                return Literal(self.dice.pick(DOUBLES), kind)
            case Kind.STRING:
                return Literal(self.dice.pick(WORDS), kind)
            case Kind.BOOL:
                return Literal(self.dice.chance(50), kind)
            case Kind.NULL:
                return Literal(None, kind)
            case Kind.DURATION:
                size = self.dice.pick(DURATIONS)
                return Literal(-size if self.dice.chance(20) else size, kind)
            case Kind.DATE:
                return Literal(self.dice.pick(MOMENTS) // DAY_US * DAY_US, kind)
        return Literal(self.dice.pick(MOMENTS), kind)
