"""The expressions of sase.lark as nodes: one method per rule of the grammar."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException
from functools import reduce
from typing import Any

from lark import Token, Transformer, v_args

from cerise.errors import ParseError, Span, did_you_mean, refuse_surrogates
from cerise.events import Path
from cerise.kinds import INT64_MAX, Kind
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
    rebuild,
)

LONGEST_NUMBER = 40  # digits: a longer whole number is refused before Python converts it
EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
UNITS_US = {
    "us": 1, "microsecond": 1, "ms": 1_000, "milli": 1_000, "millisecond": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000, "min": 60_000_000, "minute": 60_000_000,
    "h": 3_600_000_000, "hr": 3_600_000_000, "hour": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip
OPERATORS = {"==": "=", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
CASTS = {
    "int": Kind.INT, "integer": Kind.INT, "bigint": Kind.INT, "long": Kind.INT, "double": Kind.FLOAT,
    "float": Kind.FLOAT, "string": Kind.STRING, "varchar": Kind.STRING, "boolean": Kind.BOOL,
    "bool": Kind.BOOL,
}  # fmt: skip
AGGREGATE_ALIASES = {"stdev": "stddev", "stddev_samp": "stddev", "mean": "avg"}
NAVIGATION: dict[str, Index] = {"first": 1, "last": At.LAST, "next": At.NEXT, "prev": At.PREV}


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier as written."""

    text: str
    quoted: bool
    span: Span


Column = tuple[Expr, Name | None]  # of RETURN: `expr AS name`, or `expr`


@v_args(meta=True)
class Expressions(Transformer[Token, Any]):
    """Builds expressions bottom-up; every node keeps its position in the text."""

    def name(self, meta: Any, children: list[Token]) -> Name:
        (token,) = children
        if token.type == "NAME":
            return Name(str(token), False, token_span(token))
        mark = token[0]
        return Name(token[1:-1].replace(mark * 2, mark), True, token_span(token))

    def path(self, meta: Any, children: list[Name]) -> Path:
        return tuple(each.text for each in children)

    def column(self, meta: Any, children: list[Any]) -> Column:
        return children[0], children[1] if len(children) > 1 else None

    # ---- truth
    def either(self, meta: Any, children: list[Expr]) -> Expr:
        return _combine("or", children, span_of(meta))

    def both(self, meta: Any, children: list[Expr]) -> Expr:
        return _combine("and", children, span_of(meta))

    def negate(self, meta: Any, children: list[Expr]) -> Expr:
        return Unary("not", children[0], span_of(meta))

    def compare(self, meta: Any, children: list[Any]) -> Expr:
        span = span_of(meta)
        pairs = [
            Binary(OPERATORS.get(children[i], str(children[i])), children[i - 1], children[i + 1], span)
            for i in range(1, len(children), 2)
        ]
        return _combine("and", pairs, span)

    def same(self, meta: Any, children: list[Path]) -> Expr:
        return Same(children[0], span_of(meta))

    def is_null(self, meta: Any, children: list[Expr]) -> Expr:
        return IsNull(children[0], span_of(meta))

    def is_not_null(self, meta: Any, children: list[Expr]) -> Expr:
        return Unary("not", self.is_null(meta, children), span_of(meta))

    def in_list(self, meta: Any, children: list[Expr]) -> Expr:
        return In(children[0], tuple(children[1:]), span_of(meta))

    def not_in_list(self, meta: Any, children: list[Expr]) -> Expr:
        return Unary("not", self.in_list(meta, children), span_of(meta))

    def like(self, meta: Any, children: list[Any]) -> Expr:
        pattern = text_of(children[1])
        check_like(pattern, token_span(children[1]))
        return Like(children[0], pattern, span_of(meta))

    def not_like(self, meta: Any, children: list[Any]) -> Expr:
        return Unary("not", self.like(meta, children), span_of(meta))

    def in_range(self, meta: Any, children: list[Expr]) -> Expr:
        value, low, high = children
        span = span_of(meta)
        return Binary("and", Binary(">=", value, low, span), Binary("<=", value, high, span), span)

    def not_in_range(self, meta: Any, children: list[Expr]) -> Expr:
        return Unary("not", self.in_range(meta, children), span_of(meta))

    # ---- values
    def arithmetic(self, meta: Any, children: list[Any]) -> Expr:
        left, op, right = children
        return Binary(str(op), left, right, span_of(meta))

    def minus(self, meta: Any, children: list[Any]) -> Expr:
        value = children[1]
        if (
            isinstance(value, Literal)
            and isinstance(value.value, int | float)
            and value.kind is not Kind.BOOL
        ):
            return replace(value, value=-value.value, span=span_of(meta))
        return Unary("-", value, span_of(meta))

    def literal(self, meta: Any, children: list[Token]) -> Expr:
        text = children[0]
        if text.isdigit():
            return Literal(whole_number(text, span_of(meta)), Kind.INT, span_of(meta))
        return Literal(float(text), Kind.FLOAT, span_of(meta))

    def percent(self, meta: Any, children: list[Token]) -> Expr:
        return Literal(float(children[0].rstrip("% \n\t")) / 100, Kind.FLOAT, span_of(meta))

    def span_literal(self, meta: Any, children: list[Token]) -> Expr:
        return Literal(duration_us(children[0], children[1]), Kind.DURATION, span_of(meta))

    def string(self, meta: Any, children: list[Token]) -> Expr:
        return Literal(text_of(children[0]), Kind.STRING, span_of(meta))

    def moment(self, meta: Any, children: list[Token]) -> Expr:
        return _moment(children[0], text_of(children[1]), span_of(meta))

    def true(self, meta: Any, children: list[Any]) -> Expr:
        return Literal(True, Kind.BOOL, span_of(meta))

    def false(self, meta: Any, children: list[Any]) -> Expr:
        return Literal(False, Kind.BOOL, span_of(meta))

    def null(self, meta: Any, children: list[Any]) -> Expr:
        return Literal(None, Kind.NULL, span_of(meta))

    def param(self, meta: Any, children: list[Token]) -> Expr:
        return Param(children[0][1:], span_of(meta))

    def ref(self, meta: Any, children: list[Any]) -> Attr:
        name, *index = children
        at = _index(name, index[0]) if index else At.EVERY
        return Attr(name.text, (), at, span=span_of(meta))

    def attribute(self, meta: Any, children: list[Any]) -> Expr:
        ref: Attr = children[0]
        path: list[Name] = children[1:]
        return replace(ref, path=tuple(each.text for each in path), span=span_of(meta))

    # ---- calls
    def call_star(self, meta: Any, children: list[Token]) -> Expr:
        if children[0].lower() != "count":
            raise ParseError(
                f"{children[0]}(*) has no meaning", span=span_of(meta), hint="only COUNT(*) counts matches"
            )
        return Call("count", (), span_of(meta))

    def call(self, meta: Any, children: list[Any]) -> Expr:
        word, args = str(children[0]), children[1:]
        function, span = word.lower(), span_of(meta)
        if function == "cast":
            return _cast(args, span)
        if any(name for _, name in args):
            columns: tuple[Any, ...] = tuple(_NamedArgument(*arg) for arg in args)
            return Call(word, columns, span)
        values = tuple(value for value, _ in args)
        if function in NAVIGATION:
            return _navigate(word, values, span)
        if (aggregate := AGGREGATE_ALIASES.get(function, function)) in AGGREGATES:
            return _aggregate(aggregate, values, span)
        return Call(word, values, span)


@dataclass(frozen=True, slots=True)
class _NamedArgument:
    """`expr AS name` inside Name(…), which is legal only if Name(…) is the whole of RETURN."""

    expr: Expr
    name: Name | None


def check_like(pattern: Any, span: Span | None) -> None:
    """Refuse a pattern with a backslash that escapes no %, _ or backslash."""
    if not isinstance(pattern, str):
        raise ParseError(f"LIKE takes a text, not {pattern!r}", span=span)
    refuse_surrogates(pattern, ParseError, "the pattern of LIKE", span)
    if "\\" in re.sub(r"\\[%_\\]", "", pattern):
        raise ParseError("a stray \\ in LIKE", span=span, hint=r"\ escapes %, _ and \ only")


def span_of(meta: Any) -> Span:
    """Return the position of a rule."""
    return Span(0, 0) if meta.empty else Span(meta.start_pos, meta.end_pos)


def token_span(token: Token) -> Span:
    """Return the position of a token."""
    return Span(token.start_pos or 0, token.end_pos or 0)


def text_of(token: Token) -> str:
    """Return the text between the quotes of a string."""
    return token[1:-1].replace("''", "'")


def whole_number(text: str, span: Span | None) -> int:
    """Return digits as a number.

    Raises:
        ParseError: the number has more digits than 64 bits can hold.
    """
    if len(digits := text.lstrip("0")) > LONGEST_NUMBER:
        raise ParseError(
            f"a number of {len(digits):,} digits does not fit into 64 bits", span=span,
            hint="the largest whole number is 9223372036854775807; write 1e30 for a double",
        )  # fmt: skip
    return int(digits or "0")


def times(number: str, size: int) -> Decimal:
    """Return a number times the size of its unit; infinity if no decimal can hold the product."""
    try:
        return Decimal(number) * size
    except DecimalException:
        return Decimal("Infinity")


def duration_us(number: Token, unit: Token) -> int:
    """Return a duration in microseconds (S2.4)."""
    word = unit.lower()
    size = UNITS_US.get(word) or UNITS_US.get(word.removesuffix("s"))
    if size is None:
        raise ParseError(
            f"a duration cannot be in {unit}: months and years differ in length",
            span=token_span(unit),
            hint="use days, as in 30 days (S2.4)",
        )
    exact, span = times(number, size), Span(token_span(number).start, token_span(unit).end)
    if exact > INT64_MAX:
        raise ParseError(
            f"{number} {unit} is too long", span=span, hint=f"the longest is {INT64_MAX // size:,} {unit}"
        )
    if exact != int(exact):
        raise ParseError(f"{number} {unit} is not a whole number of microseconds", span=span)
    return int(exact)


def _combine(op: str, parts: Sequence[Expr], span: Span) -> Expr:
    return reduce(lambda left, right: Binary(op, left, right, span), parts)


def _index(name: Name, token: Token) -> Index:
    inner = "".join(token[1:-1].split()).lower()
    if inner.isdigit():
        if (number := whole_number(inner, token_span(token))) < 1:
            raise ParseError("the events of a Kleene variable are counted from 1", span=token_span(token))
        return number
    simple = {"": At.ALL, "i": At.CURRENT, "i-1": At.PREVIOUS, "..i-1": At.RUNNING}
    if inner in simple:
        return simple[inner]
    owner = token[1:-1].strip()[: -len("len")].rstrip().removesuffix(".").rstrip()
    mark = owner[0] if owner[0] in '"`' else ""
    owner = owner[1:-1].replace(mark * 2, mark) if mark else owner
    if owner.lower() != name.text.lower():
        raise ParseError(
            f"{name.text}[…] is indexed by the length of another variable", span=token_span(token),
            hint=f"write {name.text}[{name.text}.LEN]",
        )  # fmt: skip
    return At.LAST


def _moment(word: Token, text: str, span: Span) -> Expr:
    """TIMESTAMP '…' and DATE '…'."""
    kind = word.lower()
    if kind not in ("timestamp", "date"):
        raise ParseError(
            f"unknown literal {word} '…'",
            span=span,
            hint="known: TIMESTAMP '…', DATE '…'; durations: 5 minutes",
        )
    try:
        if kind == "date":
            moment = dt.datetime.combine(dt.date.fromisoformat(text.strip()), dt.time())
        else:
            moment = dt.datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ParseError(
            f"'{text}' is not a {kind}: {error}", span=span, hint="write it as 2024-11-15 18:45:00"
        ) from None
    zoned = moment.tzinfo is not None
    plain = moment.astimezone(dt.UTC).replace(tzinfo=None) if zoned else moment
    value = (plain - EPOCH) // MICROSECOND
    return Literal(value, Kind.DATE if kind == "date" else Kind.INSTANT if zoned else Kind.LOCAL, span)


def _cast(args: Sequence[Column], span: Span) -> Expr:
    if len(args) != 1 or args[0][1] is None:
        raise ParseError("CAST takes one value and a type", span=span, hint="write CAST(a.x AS DOUBLE)")
    (value, type_) = args[0]
    assert type_ is not None
    if (kind := CASTS.get(type_.text.lower())) is None:
        raise ParseError(
            f"cannot cast to '{type_.text}'", span=type_.span, hint=did_you_mean(type_.text, CASTS)
        )
    return Cast(value, kind, span)


def _navigate(word: str, values: Sequence[Expr], span: Span) -> Expr:
    if len(values) == 1 and isinstance(values[0], Attr) and values[0].path and values[0].at is At.EVERY:
        return replace(values[0], at=NAVIGATION[word.lower()])
    raise ParseError(
        f"{word} takes one attribute of a Kleene variable", span=span, hint=f"write {word.upper()}(b.price)"
    )


def _aggregate(function: str, values: Sequence[Expr], span: Span) -> Expr:
    if len(values) != 1:
        hint = {"min": "least(…) compares several values", "max": "greatest(…) compares several values"}.get(
            function
        )
        raise ParseError(f"{function} takes one argument", span=span, hint=hint)
    return Agg(function, over_set(values[0]), span)


def over_set(value: Expr) -> Expr:
    """Return an aggregate's argument with b.x as the set b[].x, and b[i-1].x as b[..i-1].x (004 Table 1)."""
    if isinstance(value, Attr):
        meaning: dict[Index, Index] = {At.EVERY: At.ALL, At.PREVIOUS: At.RUNNING}
        return replace(value, at=meaning.get(value.at, value.at))
    return rebuild(value, over_set)
