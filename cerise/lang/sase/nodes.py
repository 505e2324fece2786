"""The patterns and clauses of sase.lark as nodes: one method per rule of the grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lark import Token, v_args

from cerise.errors import ParseError, Span, UnsupportedError, did_you_mean
from cerise.events import Path
from cerise.kinds import INT64_MAX
from cerise.lang.sase.expressions import Expressions, Name, duration_us, span_of, token_span, whole_number
from cerise.lang.sase.returns import KNOWN, parse_return, plain
from cerise.pattern.expr import Attr, Expr, Param, conjuncts
from cerise.pattern.query import (
    And,
    Kleene,
    Maybe,
    Node,
    Not,
    Or,
    Output,
    Per,
    Query,
    Seq,
    Strategy,
    Unit,
    Var,
    Window,
)

STRATEGIES = {
    **{each.value: each for each in Strategy},
    "skip_till_next": Strategy.NEXT,
    "skip_till_any": Strategy.ANY,
    "strict_contiguous": Strategy.STRICT,
    "partition_contiguous": Strategy.PARTITION,
}
OUTPUTS = {**{each.value: each for each in Output}, "NON_OVERLAP": Output.NON_OVERLAPPING}


@dataclass(frozen=True, slots=True)
class Quant:
    """A quantifier: the fewest and most repetitions; `maybe` for `?`."""

    low: int
    high: int | None
    maybe: bool = False


Clause = tuple[str, Any, Span]


@v_args(meta=True)
class Nodes(Expressions):
    """Builds patterns, clauses and queries bottom-up."""

    def script(self, meta: Any, queries: list[Query]) -> list[Query]:
        return queries

    def query(self, meta: Any, children: list[Any]) -> Query:
        pattern, *clauses = children
        given: dict[str, Any] = {}
        for name, value, span in (part for clause in clauses for part in clause):
            if name in given and (name != "strategy" or given[name] is not value):
                raise ParseError(f"{name.replace('_', ' ')} is given twice", span=span, hint="say it once")
            given[name] = value
        return Query(pattern, **given)

    # ---- the pattern
    def seq(self, meta: Any, children: list[Any]) -> Node:
        return _quantify(Seq(children[0]), children[1:], span_of(meta))

    def conj(self, meta: Any, children: list[Any]) -> Node:
        return _quantify(And(children[0]), children[1:], span_of(meta))

    def disj(self, meta: Any, children: list[Any]) -> Node:
        return _quantify(Or(children[0]), children[1:], span_of(meta))

    def group(self, meta: Any, children: list[Any]) -> Node:
        items = children[0]
        return _quantify(items[0] if len(items) == 1 else Seq(items), children[1:], span_of(meta))

    def items(self, meta: Any, children: list[Node]) -> tuple[Node, ...]:
        return tuple(children)

    def absent(self, meta: Any, children: list[Node]) -> Node:
        if isinstance(children[0], Var):
            return Not(children[0])
        raise UnsupportedError(
            "only a single event can be negated",
            span=span_of(meta),
            hint="negate each event on its own; MATCH_RECOGNIZE has groups",
        )

    def kleene(self, meta: Any, children: list[Node]) -> Node:
        match children[0]:
            case Var() as var:
                return Kleene(var)
            case Kleene(_, 1, None) as already:
                return already
        raise ParseError("Kleene(…) takes one event without a quantifier of its own", span=span_of(meta))

    def variable(self, meta: Any, children: list[Any]) -> Node:
        type_, name = (each for each in children if isinstance(each, Name))
        return _event(Var(name.text, type_.text, name.span), children, span_of(meta))

    def lone(self, meta: Any, children: list[Any]) -> Node:
        name = children[0]
        capitals = name.text.upper() == name.text != name.text.lower()
        type_ = name.text if name.quoted or capitals else None  # S2.1
        return _event(Var(name.text, type_, name.span), children, span_of(meta))

    def plus(self, meta: Any, children: list[Any]) -> Quant:
        return Quant(1, None)

    def star(self, meta: Any, children: list[Any]) -> Quant:
        return Quant(0, None)

    def maybe(self, meta: Any, children: list[Any]) -> Quant:
        return Quant(0, 1, maybe=True)

    def exactly(self, meta: Any, children: list[Token]) -> Quant:
        return _bounds(whole(children[0]), whole(children[0]), span_of(meta))

    def between(self, meta: Any, children: list[Token]) -> Quant:
        return _bounds(whole(children[0]), whole(children[1]), span_of(meta))

    def at_least(self, meta: Any, children: list[Token]) -> Quant:
        return _bounds(whole(children[0]), None, span_of(meta))

    def at_most(self, meta: Any, children: list[Token]) -> Quant:
        return _bounds(0, whole(children[0]), span_of(meta))

    # ---- the clauses: each is a list of (field of Query, value, position)
    def source(self, meta: Any, children: list[Name]) -> list[Clause]:
        return [("source", children[0].text, span_of(meta))]

    def strategy(self, meta: Any, children: list[Token]) -> list[Clause]:
        return [("strategy", _strategy(children[0]), span_of(meta))]

    def partition(self, meta: Any, children: list[Path]) -> list[Clause]:
        return [("partition_by", tuple(children), span_of(meta))]

    def where(self, meta: Any, children: list[Expr]) -> list[Clause]:
        return [("where", conjuncts(plain(children[0])), span_of(meta))]

    def where_strategy(self, meta: Any, children: list[Any]) -> list[Clause]:
        strategy, *rest = children
        bodies = [each for each in rest if not isinstance(each, list)]
        where = conjuncts(plain(bodies[0])) if bodies else ()
        span = span_of(meta)
        return [("strategy", _strategy(strategy), span), ("where", where, span)]

    def refs(self, meta: Any, children: list[Attr]) -> list[Attr]:
        return children

    def within(self, meta: Any, children: list[Window]) -> list[Clause]:
        return [("within", replace(children[0], span=span_of(meta)), span_of(meta))]

    def slide(self, meta: Any, children: list[Window]) -> list[Clause]:
        return [("slide", replace(children[0], span=span_of(meta)), span_of(meta))]

    def duration(self, meta: Any, children: list[Token]) -> Window:
        return Window(duration_us(children[0], children[1]), Unit.TIME)

    def events(self, meta: Any, children: list[Token]) -> Window:
        return Window(_size(children[0]), Unit.EVENTS)

    def number(self, meta: Any, children: list[Token]) -> Window:
        return Window(_size(children[0]), Unit.NUMBER)

    def output(self, meta: Any, children: list[Token]) -> list[Clause]:
        word = children[0].upper().replace("-", "_")
        if word not in OUTPUTS:
            hint = did_you_mean(word, OUTPUTS)
            raise ParseError(f"unknown output '{children[0]}'", span=token_span(children[0]), hint=hint)
        return [("output", OUTPUTS[word], span_of(meta))]

    def limit(self, meta: Any, children: list[Token]) -> list[Clause]:
        if (count := whole(children[0])) < 1:
            raise ParseError("LIMIT must be at least 1", span=token_span(children[0]))
        return [("limit", count, span_of(meta))]

    def return_all(self, meta: Any, children: list[Any]) -> list[Clause]:
        if children:
            raise ParseError(
                f"{children[0].value} gives totals, which have no events", span=span_of(meta),
                hint=f"write {KNOWN} instead of *, or leave {children[0].value} out",
            )  # fmt: skip
        return [("returns", None, span_of(meta))]

    def return_items(self, meta: Any, children: list[Any]) -> list[Clause]:
        span = span_of(meta)
        items = [each for each in children if not isinstance(each, Per)]
        per = children[-1] if isinstance(children[-1], Per) else None
        returns, into = parse_return(items, per, span)
        return [("returns", returns, span), *([("into", into, span)] if into else [])]

    def per_event(self, meta: Any, children: list[Any]) -> Per:
        return Per.EVENT

    def per_partition(self, meta: Any, children: list[Any]) -> Per:
        return Per.PARTITION

    def per_window(self, meta: Any, children: list[Any]) -> Per:
        return Per.WINDOW

    def per_partition_window(self, meta: Any, children: list[Any]) -> Per:
        return Per.PARTITION_WINDOW

    def in_all(self, meta: Any, children: list[Any]) -> Per:
        return Per.ALL

    def into(self, meta: Any, children: list[Name]) -> list[Clause]:
        return [("into", children[0].text, span_of(meta))]


def whole(token: Token) -> int:
    """Return a token as a whole number."""
    if not token.isdigit():
        raise ParseError(f"{token} is not a whole number", span=token_span(token))
    if (number := whole_number(token, token_span(token))) > INT64_MAX:
        raise ParseError(
            f"{number} does not fit into 64 bits", span=token_span(token),
            hint="leave the clause out, or write a smaller number",
        )  # fmt: skip
    return number


def _event(var: Var, parts: Sequence[Any], span: Span) -> Node:
    """Build the node of a variable with its quantifier; `[]` is legal only if the variable repeats."""
    quants = [each for each in parts if isinstance(each, Quant)]
    indexes = [each for each in parts if isinstance(each, Token)]
    if len(quants) > 1:
        raise ParseError(f"'{var.name}' has two quantifiers", span=span)
    if any("".join(each.split()) != "[]" for each in indexes):
        raise ParseError(
            f"'{var.name}' is declared with an index", span=span, hint=f"declare it as {var.name}[]"
        )
    if indexes and (not quants or quants[0].maybe):
        owner = var.type or "b"
        raise ParseError(f"'{var.name}[]' does not repeat", span=span, hint=f"write {owner}+ {var.name}[]")
    return _quantify(var, quants, span)


def _quantify(node: Node, quants: Sequence[Quant], span: Span) -> Node:
    if not quants:
        return node
    (quant,) = quants
    if quant.maybe and not isinstance(node, Not | Maybe):
        return Maybe(node)
    if isinstance(node, Var):
        return Kleene(node, quant.low, quant.high)
    raise UnsupportedError(
        "only a single event can be repeated",
        span=span,
        hint="repeat each event on its own; MATCH_RECOGNIZE has groups",
    )


def _bounds(low: int, high: int | None, span: Span) -> Quant:
    if high is not None and (high < 1 or low > high):
        raise ParseError(
            f"no number lies between {low} and {high}", span=span, hint="write {n,m} with n ≤ m and m ≥ 1"
        )
    return Quant(low, high)


def _strategy(token: Token) -> Strategy:
    word = token.lower().replace("-", "_")
    if word in STRATEGIES:
        return STRATEGIES[word]
    hint = did_you_mean(word, [each.value for each in Strategy])
    raise ParseError(f"unknown strategy '{token}'", span=token_span(token), hint=hint)


def _size(token: Token) -> int | Param:
    return Param(token[1:], token_span(token)) if token.type == "PARAM" else whole(token)
