"""Expression trees: classify a node, write it as Spark SQL, translate it into an expression of Cerise."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from cerise.errors import BindError, CeriseError, Span, UnsupportedError, closest
from cerise.kinds import INT64_MAX, Kind
from cerise.lang.match_recognize.expressions import MARK, QUERY, SPARK_FUNCTIONS, Node
from cerise.lang.match_recognize.tokens import pair_brackets, read_words
from cerise.lang.sase.expressions import UNITS_US, check_like, times, whole_number
from cerise.pattern.check import FUNCTIONS, type_nulls
from cerise.pattern.expr import Binary, Call, Cast, Expr, In, IsNull, Like, Literal, Param, Unary
from cerise.pattern.resolve import literal

Convert = Callable[[Node], Expr]


@dataclass(frozen=True, slots=True)
class Function:
    """A call in the text: its name in lower case, and RUNNING, FINAL or nothing before it."""

    name: str
    prefix: str
    args: tuple[Node, ...]


class Beyond(Exception):
    """Cerise cannot compute the expression; `error` is for the user, if Spark cannot compute it either."""

    def __init__(self, error: CeriseError) -> None:
        super().__init__(error.problem)
        self.error = error


class Nowhere(Beyond):
    """The function is unknown: neither Cerise nor Spark has it."""


_BINARY: dict[type[Node], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.And: "and", exp.Or: "or",
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_CASTS = {  # without narrower types, which round or overflow sooner than 64 bits do
    exp.DataType.Type.INT: Kind.INT,
    exp.DataType.Type.BIGINT: Kind.INT,
    exp.DataType.Type.DOUBLE: Kind.FLOAT,
    exp.DataType.Type.TEXT: Kind.STRING,
    exp.DataType.Type.BOOLEAN: Kind.BOOL,
}
_MOMENTS = {
    exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ,
    exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATE,
}  # fmt: skip
_ALIASES = {
    "ceiling": "ceil", "char_length": "length", "character_length": "length", "ifnull": "coalesce",
    "lcase": "lower", "len": "length", "log": "ln", "nvl": "coalesce", "power": "pow", "ucase": "upper",
}  # fmt: skip


# ---- trees


def function_of(node: Node) -> Function | None:
    """Return a call of a function; None for another node, or inside a subquery."""
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.startswith(MARK):
        _, prefix, name = node.this.split(":", 2)
        return Function(name.lower(), prefix, tuple(node.expressions))
    return None


def is_classifier(node: Node) -> bool:
    """Whether a node is a call of CLASSIFIER."""
    function = function_of(node)
    return function is not None and function.name == "classifier"


def path_of(node: Node) -> tuple[exp.Identifier, ...] | None:
    """Return the names of a column, as in A.column.field."""
    if isinstance(node, exp.Column):
        parts = tuple(part for part in node.parts if isinstance(part, exp.Identifier))
        return parts if len(parts) == len(node.parts) else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        inner = path_of(node.this)
        return (*inner, node.expression) if inner else None
    return None


def query_text(node: Node, text: str) -> str:
    """Return the text of a subquery as the user wrote it: Spark runs it."""
    place, words = span_of(node, text), read_words(text)
    around = [
        (words[i].end, words[j].start)
        for i, j in pair_brackets(words).items()
        if place and words[i].end <= place.start and place.end - 1 <= words[j].start and i < j
        if words[i + 1].key in QUERY
    ]
    if not around:
        return node.sql("spark")  # no name in it has a position
    start, end = max(around)
    return f"({text[start:end]})" if isinstance(node, exp.Subquery) else text[start:end]


def is_query(node: Node) -> bool:
    """Whether a node is a subquery."""
    return isinstance(node, exp.Query | exp.Subquery)


def is_constant(tree: Node) -> bool:
    """Whether an expression is a string, a number or another literal."""
    return isinstance(tree, exp.Literal | exp.Boolean | exp.Null)


def inside(node: Node) -> Iterator[Node]:
    """Yield a node and its descendants, parents first, but none inside columns, subqueries and CLASSIFIER."""
    yield node
    if path_of(node) is None and not is_query(node) and not is_classifier(node):
        for child in node.iter_expressions():
            yield from inside(child)


def span_of(node: Node, text: str) -> Span | None:
    """Return the span of a node, from the positions of its leaves; None if no leaf has one."""
    places = [each.meta for each in node.walk() if "start" in each.meta]
    if not places:
        return None
    start, end = min(each["start"] for each in places), max(each["end"] for each in places) + 1
    end += 2 if text.startswith("()", end) else 0
    while text.count("(", start, end) > text.count(")", start, end) and text[end : end + 1] in (
        ")",
        " ",
        "\n",
    ):
        end += 1
    return Span(start, end)


def render(node: Node, text: str, change: Callable[[Node], Node | None]) -> str:
    """Return a tree as Spark SQL, with the replacements of `change`, functions and subqueries unchanged."""
    root = exp.Paren(this=node.copy())
    _change(root.this, text, change)
    for call in root.find_all(exp.Anonymous):
        if function_of(call) is not None:
            call.set("this", call.this.split(":", 2)[2])
    return str(root.this.sql("spark", comments=False, normalize_functions=False))


def _change(node: Node, text: str, change: Callable[[Node], Node | None]) -> None:
    new = change(node)
    if new is None and is_query(node):
        new = exp.Var(this=query_text(node, text))
    if new is not None:
        node.replace(new)
        return
    for child in list(node.iter_expressions()):
        _change(child, text, change)


def call(name: str, *args: Node, prefix: str = "") -> Node:
    """Return a call of a function."""
    return exp.Anonymous(this=f"{MARK}{prefix}:{name}", expressions=list(args))


def column(*names: str) -> Node:
    """Return a column, or a field of one, in backticks."""
    found: Node = exp.Column(this=exp.to_identifier(names[0], quoted=True))
    for name in names[1:]:
        found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
    return found


# ---- translation


def convert(node: Node, inner: Convert, span: Span | None) -> Expr:
    """Return a node as an expression.

    Args:
        node: the node.
        inner: converts its operands.
        span: the position of the node.

    Raises:
        Beyond: Cerise has no expression with the same meaning.
    """
    return type_nulls(_convert(node, inner, span))


def _convert(node: Node, inner: Convert, span: Span | None) -> Expr:
    if (op := _BINARY.get(type(node))) is not None:
        return Binary(op, inner(node.this), inner(node.expression), span)
    if (function := function_of(node)) is not None:
        return _call(function, inner, span)
    match node:
        case exp.Literal() | exp.Boolean() | exp.Null() | exp.Interval() | exp.Concat():
            return _constant(node, span)
        case exp.Paren():
            return inner(node.this)
        case exp.Not():
            return Unary("not", inner(node.this), span)
        case exp.Neg():
            return _negative(inner(node.this), span)
        case exp.Is():
            return _is(node, inner, span)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            same = _same(inner(node.this), inner(node.expression), span)
            return same if isinstance(node, exp.NullSafeEQ) else Unary("not", same, span)
        case exp.In() if node.expressions:
            return In(inner(node.this), tuple(map(inner, node.expressions)), span)
        case exp.Between() if not node.args.get("symmetric"):
            value, low, high = inner(node.this), inner(node.args["low"]), inner(node.args["high"])
            return Binary("and", Binary(">=", value, low, span), Binary("<=", value, high, span), span)
        case exp.Like():
            return _like(node, inner, span)
        case exp.Cast():
            return _cast(node, inner, span)
        case exp.Case():
            return _case(node, inner, span)
    raise beyond(node, span)


def beyond(node: Node, span: Span | None) -> Beyond:
    """Return the exception for a node that Cerise does not compute."""
    function = function_of(node)
    return _of_spark(function.name, span) if function else _needs_spark("this expression", span)


def _of_spark(function: str, span: Span | None) -> Beyond:
    """Return the exception for a function that Cerise lacks: Spark has it, or it is unknown."""
    if function.upper() in SPARK_FUNCTIONS:
        return _needs_spark(f"the function {function}", span)
    meant = closest(function, (*FUNCTIONS, *_ALIASES, *map(str.lower, SPARK_FUNCTIONS)))
    known = f"did you mean '{meant}'?" if meant else f"known: {', '.join(sorted(FUNCTIONS))}"
    hint = f"{known}; functions of a Spark session are there in cerise.sql"
    return Nowhere(UnsupportedError(f"unknown function '{function}'", span=span, hint=hint))


def _needs_spark(what: str, span: Span | None) -> Beyond:
    hint = "run the statement with cerise.sql on a Spark session, or compute the column before"
    return Beyond(UnsupportedError(f"{what} needs Spark", span=span, hint=hint))


def _constant(node: Node, span: Span | None) -> Expr:
    match node:
        case exp.Null():
            return Literal(None, Kind.NULL, span)
        case exp.Boolean():
            return Literal(bool(node.this), Kind.BOOL, span)
        case exp.Interval():
            size = microseconds(node)
            if size is None:
                raise beyond(node, span)
            return Literal(size, Kind.DURATION, span)
        case exp.Literal() if node.is_string:
            return Literal(str(node.this), Kind.STRING, span)
        case exp.Concat() if all(isinstance(each, exp.Literal) for each in node.expressions):
            text = "".join(str(each.this) for each in node.expressions)  # 'a' 'b' is one text
            return Literal(text, Kind.STRING, span)
        case exp.Literal() if str(node.this).isdigit():
            return Literal(whole_number(node.this, span), Kind.INT, span)
        case exp.Literal():
            return Literal(float(node.this), Kind.FLOAT, span)
    raise beyond(node, span)


def _negative(value: Expr, span: Span | None) -> Expr:
    if isinstance(value, Literal) and value.kind in (Kind.INT, Kind.FLOAT, Kind.DURATION):
        assert isinstance(value.value, int | float)
        return Literal(-value.value, value.kind, span)
    return Unary("-", value, span)


def _is(node: exp.Is, inner: Convert, span: Span | None) -> Expr:
    value, truth = inner(node.this), node.expression
    if isinstance(truth, exp.Null):
        return IsNull(value, span)
    if isinstance(truth, exp.Boolean):
        test = value if truth.this else Unary("not", value, span)
        return Call("coalesce", (test, Literal(False, Kind.BOOL, span)), span)
    raise beyond(node, span)


def _same(left: Expr, right: Expr, span: Span | None) -> Expr:
    """IS NOT DISTINCT FROM: two nulls are the same."""
    nulls = Binary("and", IsNull(left, span), IsNull(right, span), span)
    return Call("coalesce", (Binary("=", left, right, span), nulls), span)


def _like(node: exp.Like, inner: Convert, span: Span | None) -> Expr:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise beyond(node, span)
    try:
        check_like(str(pattern.this), span)
    except CeriseError:
        raise beyond(node, span) from None
    found = Like(inner(node.this), str(pattern.this), span)
    return Unary("not", found, span) if node.args.get("negate") else found


def _cast(node: exp.Cast, inner: Convert, span: Span | None) -> Expr:
    target = node.to.this
    if target in _MOMENTS and isinstance(node.this, exp.Literal) and node.this.is_string:
        return _moment(str(node.this.this), target, node, span)
    if target not in _CASTS or node.to.expressions:
        raise beyond(node, span)
    return Cast(inner(node.this), _CASTS[target], span)


def _moment(text: str, target: Any, node: Node, span: Span | None) -> Expr:
    """Return TIMESTAMP '…' or DATE '…'. Without a zone it is a local time, not comparable with an instant."""
    try:
        value = (dt.date if target is exp.DataType.Type.DATE else dt.datetime).fromisoformat(text.strip())
    except ValueError:
        raise beyond(node, span) from None
    if target is exp.DataType.Type.TIMESTAMPNTZ and isinstance(value, dt.datetime) and value.tzinfo:
        raise beyond(node, span)
    return literal(Param("moment", span), {"moment": value})


def _case(node: exp.Case, inner: Convert, span: Span | None) -> Expr:
    default = node.args.get("default")
    found: Expr = inner(default) if default is not None else Literal(None, Kind.NULL, span)
    for branch in reversed(node.args["ifs"]):
        test = inner(branch.this)
        if node.this is not None:
            test = Binary("=", inner(node.this), test, span)
        found = Call("if", (test, inner(branch.args["true"]), found), span)
    return found


def _call(function: Function, inner: Convert, span: Span | None) -> Expr:
    name = _ALIASES.get(function.name, function.name)
    args = tuple(map(inner, function.args))
    match name, args:
        case "isnull", (arg,):
            return IsNull(arg, span)
        case "isnotnull", (arg,):
            return Unary("not", IsNull(arg, span), span)
        case "nullif", (value, other):
            return Call("if", (Binary("=", value, other, span), Literal(None, Kind.NULL, span), value), span)
        case "mod", (left, right):
            return Binary("%", left, right, span)
        case "coalesce", (arg,):
            return arg
    if name not in FUNCTIONS:
        raise _of_spark(function.name, span)
    return Call(name, args, span)


# ---- durations

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_SPAN_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")


def microseconds(node: Node) -> int | None:
    """Return the length of an INTERVAL or of a sum of intervals; None if it varies, as that of a month."""
    if isinstance(node, exp.Add):
        parts = [microseconds(node.this), microseconds(node.expression)]
        return None if None in parts else sum(part for part in parts if part is not None)
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _several_units(str(node.this.this), unit.this.name.upper(), unit.expression.name.upper())
    return _one_unit(str(node.this.this), unit.name.lower()) if isinstance(unit, exp.Var) else None


def _one_unit(number: str, unit: str) -> int | None:
    size = UNITS_US.get(unit) or UNITS_US.get(unit.removesuffix("s"))
    if size is None or not _NUMBER.fullmatch(number.strip()):
        return None
    exact = times(number.strip(), size)
    if abs(exact) > INT64_MAX:
        raise BindError(f"{number} {unit} is too long", hint=f"the longest is {INT64_MAX // size:,} {unit}")
    return int(exact) if exact == int(exact) else None


def _several_units(text: str, first: str, last: str) -> int | None:
    """Return the length of INTERVAL '1 02:03:04' DAY TO SECOND: each number counts its unit."""
    if first not in _SPAN_UNITS or last not in _SPAN_UNITS:
        return None
    units = _SPAN_UNITS[_SPAN_UNITS.index(first) : _SPAN_UNITS.index(last) + 1]
    sign, numbers = (-1 if text.strip().startswith("-") else 1), re.findall(r"\d+(?:\.\d+)?", text)
    if len(numbers) != len(units):
        return None
    parts = [_one_unit(number, unit.lower()) for number, unit in zip(numbers, units, strict=True)]
    return None if None in parts else sign * sum(part for part in parts if part is not None)
