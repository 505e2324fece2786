"""Random predicates and columns of RETURN over the variables of a random pattern."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cerise.events import Path
from cerise.kinds import INT64_MAX, INT64_MIN, Kind
from cerise.pattern.expr import (
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
    Unary,
    conjuncts,
)  # fmt: skip
from cerise.pattern.query import Item, Node, absent_names, kleene_names, variables
from cerise.pattern.resolve import optional
from tests.support.strategies.streams import WORDS, Dice, Shape

PARAMS: dict[str, Any] = {
    "one": 1, "half": 0.5, "word": "b", "large": 2**53 + 1, "nan": float("nan"), "yes": True, "size": 3,
}  # fmt: skip
COMPARISONS = ("<", "<=", ">", ">=", "!=", "=", "<=", ">=")
WHOLE = (1, 2, 0, 3, -1, 4, 2**53 + 1, INT64_MAX, INT64_MIN)
BROKEN = (0.5, 1.0, 2.5, 0.0, -0.0, 1e300, 2.0**53)
PATTERNS = ("%", "_", "a%", "%b%", "_\\%", "\\_", "%\\\\", "日_", "é", "%%", "")
NUMBERS: tuple[Path, ...] = (("x",), ("x",), ("x",), ("y",), ("big",), ("p", "amount"), ("id",))
TEXTS: tuple[Path, ...] = (("s",), ("s",), ("p", "label"))
AGGREGATES = ("sum", "count", "avg", "min", "max", "stddev")
Identifier = tuple[str, Index]


@dataclass
class Writer:
    """Writes conjuncts about a pattern's variables."""

    dice: Dice
    shape: Shape
    pattern: Node
    here: list[Identifier] = field(default_factory=list)  # which events the current conjunct may speak of
    sets: list[Identifier] = field(default_factory=list)  # which sets it may aggregate

    def __post_init__(self) -> None:
        self.absent = sorted(absent_names(self.pattern))
        self.kleene = sorted(kleene_names(self.pattern))
        self.optional = sorted(optional(self.pattern))  # each binds one event or none
        self.positive = [v.name for v in variables(self.pattern) if v.name not in self.absent]

    # ---- what a conjunct is about

    def conjunct(self) -> tuple[Expr, ...]:
        """One predicate, at times split into several by AND."""
        kinds = "iidddf" + ("ssssnnkk" if self.kleene else "") + ("aa" if self.absent else "")
        kind = self.dice.pick(kinds) if not self.dice.chance(2) else "c"
        self.here, self.sets = [], []
        match kind:
            case "i":
                self.here = [self.identifier(self.dice.pick(self.positive + self.absent))]
            case "d":
                self.here = [self.identifier(self.dice.pick(self.positive)) for _ in range(2)]
            case "a":
                self.here = [
                    (self.dice.pick(self.absent), At.EVERY),
                    self.identifier(self.dice.pick(self.positive)),
                ]
            case "s":
                self.step()
            case "n":
                self.neighbours()
            case "k" | "f":
                self.sets = [(name, At.ALL) for name in (*self.kleene, *self.optional)]
                self.here = [self.identifier(self.dice.pick(self.positive))] if self.dice.chance(60) else []
        if not self.here and not self.sets:
            return (Binary(self.dice.pick(COMPARISONS), self.whole(), self.whole()),)
        return conjuncts(self.predicate(2))

    def identifier(self, name: str) -> Identifier:
        return name, self.dice.pick(
            (At.EVERY, 1, At.LAST, 2, At.EVERY, 3)
        ) if name in self.kleene else At.EVERY

    def step(self) -> None:
        """b[i], b[i-1], b[..i-1], a bare b beside them, and other variables."""
        name = self.dice.pick(self.kleene)
        if self.dice.chance(50):
            self.sets = [(name, At.RUNNING)]
        self.here = [
            (name, At.CURRENT),
            (name, self.dice.pick((At.PREVIOUS, At.PREVIOUS, At.EVERY, 1, At.PREV))),
        ]
        others = [each for each in self.positive if each != name]
        if others and self.dice.chance(40):
            self.here.append(self.identifier(self.dice.pick(others)))

    def neighbours(self) -> None:
        name = self.dice.pick(self.kleene)
        self.here = [(name, self.dice.pick((At.NEXT, At.PREV))), (name, At.EVERY)]

    # ---- predicates

    def predicate(self, depth: int) -> Expr:
        """A boolean expression."""
        if depth and self.dice.chance(18):
            return Binary(
                self.dice.pick(("or", "or", "and")), self.predicate(depth - 1), self.predicate(depth - 1)
            )
        if depth and self.dice.chance(10):
            return Unary("not", self.predicate(depth - 1))
        kind = self.dice.pick("ccccccccsslinbtm")
        if not self.here and kind in "slibtm":
            kind = "c"
        match kind:
            case "s":
                return Binary(self.dice.pick(COMPARISONS), self.text(), self.text())
            case "l":
                return Like(self.text(), self.dice.pick(PATTERNS))
            case "i":
                return self.contained()
            case "n":
                return IsNull(self.number(1) if self.dice.chance(50) or not self.here else self.attr(TEXTS))
            case "b":
                value = self.number(1)
                low, high = Binary(">=", value, self.whole()), Binary("<=", value, self.number(0))
                return Binary("and", low, high)
            case "t":
                truth = self.attr((("flag",),))
                return truth if self.dice.chance(50) else Binary("=", truth, self.truth())
            case "m":
                return self.moment()
        left = self.aggregate() if self.sets and self.dice.chance(60) else self.number(1)
        return Binary(self.dice.pick(COMPARISONS), left, self.number(1))

    def contained(self) -> Expr:
        if self.dice.chance(50):
            words = tuple(Literal(str(self.dice.pick(WORDS)), Kind.STRING) for _ in range(2))
            return In(self.text(), words)
        null = (Literal(None, Kind.NULL),) if self.dice.chance(20) else ()
        return In(self.number(1), (self.whole(), self.number(0), *null))

    def moment(self) -> Expr:
        """A test of times: the column, its distance, and moments or durations written out."""
        time = self.attr((("t",),))
        if not self.shape.timed:
            return Binary(self.dice.pick(COMPARISONS), Binary("-", self.attr((("t",),)), time), self.whole())
        gap = Literal(self.dice.pick((1, 0, 2, 4)) * self.shape.tick, Kind.DURATION)
        other = self.attr((("t",),))
        if self.dice.chance(40):
            return Binary(self.dice.pick(COMPARISONS), Binary("+", other, gap), time)
        return Binary(self.dice.pick(COMPARISONS), Binary("-", other, time), gap)

    # ---- values

    def attr(self, paths: tuple[Path, ...]) -> Expr:
        var, at = self.dice.pick(self.here)
        return Attr(var, self.dice.pick(paths), at)

    def whole(self) -> Expr:
        if self.dice.chance(6):
            return Param(self.dice.pick(("one", "half", "large", "nan")))
        if self.dice.chance(20):
            return Literal(self.dice.pick(BROKEN), Kind.FLOAT)
        return Literal(self.dice.pick(WHOLE if self.dice.chance(25) else WHOLE[:5]), Kind.INT)

    def truth(self) -> Expr:
        return Param("yes") if self.dice.chance(20) else Literal(self.dice.chance(50), Kind.BOOL)

    def number(self, depth: int) -> Expr:
        """An integer or a double."""
        if self.sets and self.dice.chance(30):
            return self.aggregate()
        if not self.here:
            return self.whole()
        if depth and self.dice.chance(30):
            return self.computed(depth - 1)
        if self.dice.chance(25):
            return self.whole()
        numbers = NUMBERS if self.shape.timed else (*NUMBERS, ("t",))
        return self.attr(numbers)

    def computed(self, depth: int) -> Expr:
        if self.dice.chance(55):
            return Binary(self.dice.pick("+-*/%"), self.number(depth), self.number(depth))
        match self.dice.pick("acfglzsdibm"):
            case "a":
                return Call("abs", (self.number(depth),))
            case "c":
                return Call("ceil", (self.number(depth),))
            case "f":
                return Call("floor", (self.number(depth),))
            case "g" | "l" | "z" as kind:
                name = {"g": "greatest", "l": "least", "z": "coalesce"}[kind]
                return Call(name, (self.number(depth), self.number(depth), self.whole()))
            case "s":
                return Call("length", (self.text(),))
            case "d":
                return Cast(self.number(depth), Kind.FLOAT)
            case "i":
                return Cast(self.text() if self.dice.chance(50) else self.number(depth), Kind.INT)
            case "b":
                return Cast(self.attr((("flag",),)), Kind.INT)
        return Unary("-", self.attr(NUMBERS))

    def aggregate(self) -> Expr:
        var, at = self.dice.pick(self.sets)
        function = self.dice.pick(AGGREGATES)
        if function == "count" and self.dice.chance(50):
            if at is At.ALL and var in self.kleene and self.dice.chance(40):
                return Attr(var, ("LEN",))
            return Agg("count", Attr(var, (), at))
        if (
            function == "stddev"
        ):  # of small numbers: elsewhere two right ways of computing it differ in the last bit
            return Agg(function, Attr(var, ("x",), at))
        value: Expr = Attr(var, self.dice.pick(NUMBERS), at)
        if self.dice.chance(20):
            value = Binary(self.dice.pick("+*-/%"), value, Attr(var, ("x",), at))
        return Agg(function, value)

    def text(self) -> Expr:
        if not self.here or self.dice.chance(35):
            return Param("word") if self.dice.chance(15) else Literal(self.dice.pick(WORDS[:-1]), Kind.STRING)
        match self.dice.pick("aaaaaulgc"):
            case "u":
                return Call("upper", (self.attr(TEXTS),))
            case "l":
                return Call("lower", (self.attr(TEXTS),))
            case "g":
                return Call(
                    self.dice.pick(("greatest", "least", "coalesce")), (self.attr(TEXTS), self.attr(TEXTS))
                )
            case "c":
                return Cast(self.attr((("x",),)), Kind.STRING)
        return self.attr(TEXTS)

    # ---- RETURN

    def returns(self) -> tuple[Item, ...]:
        """One to three columns."""
        items = []
        for number in range(1 + self.dice.below(3)):
            self.sets = [(name, At.ALL) for name in (*self.kleene, *self.optional)]
            self.here = [
                (n, self.dice.pick((1, At.LAST, 2)) if n in self.kleene else At.EVERY) for n in self.positive
            ]
            name = self.dice.pick(self.positive)
            whole = Attr(name, self.dice.pick((("s",), ("p",), ("y",), ("type",))))
            shown = whole if self.dice.chance(30) else self.text() if self.dice.chance(15) else self.number(2)
            items.append(Item(shown, f"r{number}"))
        return tuple(items)
