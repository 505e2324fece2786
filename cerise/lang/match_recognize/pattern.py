"""PATTERN ( … ) → RowPattern. The grammar is pattern.lark."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from cerise.errors import BindError, CeriseError, ParseError, Span, UnsupportedError
from cerise.lang.sase.expressions import whole_number
from cerise.pattern.row_pattern import (
    Alternation,
    Anchor,
    Concat,
    Excluded,
    Label,
    Permute,
    Quantified,
    RowPattern,
)

LONGEST_PERMUTE = 8  # elements: they have 40,320 orders
_Range = tuple[int, int | None]
_WORDS = {
    "NAME": "a variable", "QUOTED": None, "_PERMUTE": "PERMUTE", "NUMBER": "a number", "COMMA": ",",
    "RELUCTANT": "?", "VBAR": "|", "CIRCUMFLEX": "^", "DOLLAR": "$", "LPAR": "(", "RPAR": ")", "STAR": "*",
    "PLUS": "+", "LBRACE": "{", "RBRACE": "}", "_EXCLUDE": "{-", "_INCLUDE": "-}", "$END": "the end",
}  # fmt: skip


def parse_pattern(text: str, span: Span) -> RowPattern:
    """Parse the text between the parentheses of PATTERN.

    Args:
        text: the whole statement.
        span: the position of the pattern in it.

    Raises:
        ParseError: with the position in the statement and a hint.
    """
    try:
        tree = _parser().parse(text[span.start : span.end])
        found: RowPattern = _Nodes(span.start).transform(tree)
        return found
    except UnexpectedInput as error:
        raise _explain(error, text, span) from None
    except VisitError as error:
        if isinstance(error.orig_exc, CeriseError):
            raise error.orig_exc from None
        if isinstance(error.orig_exc, RecursionError):
            raise ParseError("the pattern nests too deeply", span=span) from None
        raise
    except RecursionError:
        raise ParseError("the pattern nests too deeply", span=span) from None


@cache
def _parser() -> Lark:
    grammar = files("cerise.lang.match_recognize").joinpath("pattern.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


@v_args(meta=True)
class _Nodes(Transformer[Token, Any]):
    """Builds patterns bottom-up; positions count from the start of the statement."""

    def __init__(self, base: int) -> None:
        super().__init__()
        self.base = base

    def _span(self, meta: Any) -> Span:
        return Span(self.base + meta.start_pos, self.base + meta.end_pos)

    def start(self, _meta: Any, children: list[RowPattern]) -> RowPattern:
        return children[0]

    def alternation(self, _meta: Any, children: list[RowPattern]) -> RowPattern:
        return children[0] if len(children) == 1 else Alternation(tuple(children))

    def concat(self, _meta: Any, children: list[RowPattern]) -> RowPattern:
        return children[0] if len(children) == 1 else Concat(tuple(children))

    def label(self, meta: Any, children: list[Token]) -> RowPattern:
        token = children[0]
        if token.type == "NAME":
            return Label(token.upper(), self._span(meta))
        return Label(token[1:-1].replace(token[0] * 2, token[0]), self._span(meta))

    def at_start(self, _meta: Any, _children: list[Any]) -> RowPattern:
        return Anchor(start=True)

    def at_end(self, _meta: Any, _children: list[Any]) -> RowPattern:
        return Anchor(start=False)

    def permute(self, meta: Any, children: list[RowPattern]) -> RowPattern:
        if len(children) > LONGEST_PERMUTE:
            raise UnsupportedError(
                f"PERMUTE of {len(children)} elements has too many orders", span=self._span(meta),
                hint=f"permute at most {LONGEST_PERMUTE}, or write (A | B | …){{n}} with conditions",
            )  # fmt: skip
        if children == [Concat(())]:
            raise ParseError("PERMUTE() of nothing", span=self._span(meta), hint="write PERMUTE(A, B)")
        return Permute(tuple(children))

    def exclude(self, _meta: Any, children: list[RowPattern]) -> RowPattern:
        return Excluded(children[0])

    def quantify(self, _meta: Any, children: list[Any]) -> RowPattern:
        item, ((low, high), reluctant, position) = children
        if high is not None and high < 1:
            hint = "leave the part out, or give a greater number"
            raise BindError("the upper bound of a quantifier is at least 1", span=position, hint=hint)
        if high is not None and low > high:
            hint = f"write {{{high},{low}}}"
            raise BindError(
                f"the lower bound {low} is above the upper bound {high}", span=position, hint=hint
            )
        return Quantified(item, low, high, reluctant)

    def quantifier(self, meta: Any, children: list[Any]) -> tuple[_Range, bool, Span]:
        return children[0], len(children) > 1, self._span(meta)

    def star(self, _meta: Any, _children: list[Any]) -> _Range:
        return 0, None

    def plus(self, _meta: Any, _children: list[Any]) -> _Range:
        return 1, None

    def maybe(self, _meta: Any, _children: list[Any]) -> _Range:
        return 0, 1

    def exactly(self, meta: Any, children: list[Token]) -> _Range:
        times = whole_number(children[0], self._span(meta))
        return times, times

    def between(self, meta: Any, children: list[Token]) -> _Range:
        comma = next(i for i, token in enumerate(children) if token.type == "COMMA")
        low, high = children[:comma], children[comma + 1 :]
        span = self._span(meta)
        return whole_number(low[0], span) if low else 0, whole_number(high[0], span) if high else None


def _explain(error: UnexpectedInput, text: str, span: Span) -> ParseError:
    """Return the parser's error as a ParseError with a hint."""
    expected: set[str] = set()
    position, found = span.end, ""
    match error:
        case UnexpectedToken(token=token):
            expected = set(error.accepts or error.expected)
            if token.type != "$END":
                position, found = span.start + (token.start_pos or 0), str(token)
        case UnexpectedCharacters():
            expected = set(error.allowed or ())
            position = span.start + (error.pos_in_stream or 0)
            found = text[position]
    problem = f"did not expect '{found}' in the pattern" if found else "the pattern ends too early"
    return ParseError(
        problem, span=Span(position, position + max(1, len(found))), hint=_hint(found, expected)
    )


def _hint(found: str, expected: set[str]) -> str | None:
    if found in ("*", "+", "?", "{"):
        return "one quantifier for each part: write (A*)+ with parentheses"
    if found == ",":
        return "variables follow one another without commas, except in PERMUTE(A, B)"
    names = sorted({str(_WORDS.get(each, each)) for each in expected if _WORDS.get(each, each) is not None})
    return f"expected {' or '.join(names)}" if names else None
