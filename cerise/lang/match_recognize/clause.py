"""Parses one MATCH_RECOGNIZE ( … ) into its parts, in the order of M1, before its input is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from cerise.errors import BindError, ParseError, Span
from cerise.lang.match_recognize.pattern import parse_pattern
from cerise.lang.match_recognize.tokens import (
    Word,
    WordReader,
    Words,
    misspelt,
    name_of,
    outside_brackets,
    pair_brackets,
    span_of_words,
    split_at_commas,
)
from cerise.lang.sase.expressions import Name
from cerise.pattern.row_pattern import Concat, RowPattern, Show, SkipTo

ORDER = (
    "PARTITION BY", "ORDER BY", "MEASURES", "ONE ROW PER MATCH or ALL ROWS PER MATCH", "AFTER MATCH SKIP",
    "PATTERN", "WITHIN", "SUBSET", "DEFINE",
)  # fmt: skip
_HEADS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("PARTITION", "BY"), 0), (("ORDER", "BY"), 1), (("MEASURES",), 2), (("ONE", "ROW"), 3),
    (("ALL", "ROWS"), 3), (("AFTER", "MATCH"), 4), (("INITIAL", "PATTERN"), 5), (("SEEK", "PATTERN"), 5),
    (("PATTERN", "("), 5), (("WITHIN",), 6), (("SUBSET",), 7), (("DEFINE",), 8),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExprText:
    """The text of an expression: the statement, the expression's words, and their span."""

    text: str = field(repr=False)
    words: Words
    span: Span


@dataclass(frozen=True, slots=True)
class OrderPart:
    """One item of ORDER BY; without NULLS FIRST or LAST, nulls come where Spark puts them."""

    piece: ExprText
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class NamedExpr:
    """One item of MEASURES or DEFINE: a name and its expression."""

    name: Name
    piece: ExprText


@dataclass(frozen=True, slots=True)
class SubsetPart:
    """SUBSET u = (a, b)."""

    name: Name
    members: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class SkipPart:
    """AFTER MATCH SKIP, with the variable as written."""

    to: SkipTo
    name: Name | None = None


@dataclass(frozen=True, slots=True)
class WithinPart:
    """WITHIN, with or without EMIT TIMEOUTS."""

    piece: ExprText
    timeouts: bool


@dataclass(frozen=True, slots=True)
class ClauseParts:
    """The parts of a clause; `skip` is None if the clause has no AFTER MATCH SKIP."""

    pattern: RowPattern = Concat(())
    partition: tuple[ExprText, ...] = ()
    order: tuple[OrderPart, ...] = ()
    measures: tuple[NamedExpr, ...] = ()
    show: Show = Show.ONE
    show_span: Span | None = field(default=None, compare=False)
    skip: SkipPart | None = None
    within: WithinPart | None = None
    subsets: tuple[SubsetPart, ...] = ()
    define: tuple[NamedExpr, ...] | None = None


def parse_parts(text: str, words: Words, span: Span) -> ClauseParts:
    """Parse the text between the parentheses of MATCH_RECOGNIZE.

    Args:
        text: the whole statement.
        words: the words between the parentheses.
        span: the word MATCH_RECOGNIZE, for the error that PATTERN is missing.

    Raises:
        ParseError: with the position and a hint.
    """
    found: dict[str, Any] = {}
    for rank, part in _sections(words):
        found |= _READERS[rank](text, WordReader(part, part[-1].end))
    if "pattern" not in found:
        missing = ParseError("MATCH_RECOGNIZE has no PATTERN", span=span, hint="write PATTERN (A B+)")
        raise misspelt(words) or missing
    return ClauseParts(**found)


def _sections(words: Words) -> Iterator[tuple[int, Words]]:
    """Yield each part of the clause with its number in the order of M1."""
    heads = [(i, rank) for i in outside_brackets(words) if (rank := _head(words, i)) is not None]
    if words and (not heads or heads[0][0] != 0):
        first = words[0]
        hint = f"MATCH_RECOGNIZE holds {', '.join(ORDER)}"
        raise misspelt(words[:1]) or ParseError(f"did not expect '{first.text}'", span=first.span, hint=hint)
    last = -1
    for (start, rank), (end, _) in pairwise([*heads, (len(words), -1)]):
        if rank <= last:
            problem = "stands here twice" if rank == last else f"stands after {ORDER[last]}"
            title = " ".join(word.key for word in words[start : start + 2] if word.kind == "word")
            hint = f"the order is {', '.join(ORDER)}"
            raise ParseError(f"{title} {problem}", span=words[start].span, hint=hint)
        last = rank
        yield rank, words[start:end]


def _head(words: Words, i: int) -> int | None:
    """Return the number of the part that starts at a word; None for a column with such a name."""
    before = words[i - 1].key if i else ""
    after = words[i + 1].key if i + 1 < len(words) else ""
    for keys, rank in _HEADS:
        if tuple(word.key for word in words[i : i + len(keys)]) == keys:
            column = before in _BEFORE_COLUMN or (
                len(keys) == 1 and (before == "," or after in _AFTER_COLUMN)
            )
            return None if i and column else rank
    return None


_BEFORE_COLUMN = frozenset(". = < > + - / % | & AS BY AND OR NOT".split())
_AFTER_COLUMN = frozenset(". , = < > + - * / % | & ASC DESC NULLS IS IN AND OR LIKE BETWEEN AS".split())


# ---- one reader for each part


def _piece(text: str, words: Words) -> ExprText:
    return ExprText(text, words, span_of_words(words))


def _partition(text: str, reader: WordReader) -> dict[str, Any]:
    reader.take("PARTITION", "BY")
    return {"partition": tuple(_piece(text, item) for item in _items(reader, "a column"))}


def _order_by(text: str, reader: WordReader) -> dict[str, Any]:
    reader.take("ORDER", "BY")
    return {"order": tuple(_order_item(text, item) for item in _items(reader, "a column"))}


def _order_item(text: str, words: Words) -> OrderPart:
    keys = [word.key for word in words]
    nulls = keys[-1] if len(keys) > 2 and keys[-2] == "NULLS" and keys[-1] in ("FIRST", "LAST") else None
    words = words[:-2] if nulls else words
    way = words[-1].key if len(words) > 1 and words[-1].key in ("ASC", "DESC") else None
    words = words[:-1] if way else words
    descending = way == "DESC"
    return OrderPart(_piece(text, words), descending, nulls == "FIRST" if nulls else not descending)


def _measures(text: str, reader: WordReader) -> dict[str, Any]:
    reader.take("MEASURES")
    return {"measures": tuple(_measure(text, item) for item in _items(reader, "a measure"))}


def _measure(text: str, words: Words) -> NamedExpr:
    name = name_of(words[-1]) if len(words) > 2 and words[-2].key == "AS" else None
    if name is None:
        raise misspelt(words) or ParseError(
            "a measure needs a name", span=span_of_words(words), hint="write expression AS name"
        )
    return NamedExpr(name, _piece(text, words[:-2]))


def _rows(_text: str, reader: WordReader) -> dict[str, Any]:
    span = span_of_words(reader.words)
    if reader.take("ONE", "ROW", "PER", "MATCH"):
        show = Show.ONE
    elif reader.take("ALL", "ROWS", "PER", "MATCH"):
        show = Show.ALL
        if reader.take("OMIT", "EMPTY", "MATCHES"):
            show = Show.OMIT_EMPTY
        elif reader.take("WITH", "UNMATCHED", "ROWS"):
            show = Show.UNMATCHED
        else:
            reader.take("SHOW", "EMPTY", "MATCHES")
    else:
        reader.position = 2
        raise reader.error("expected ONE ROW PER MATCH or ALL ROWS PER MATCH")
    options = "after ALL ROWS PER MATCH: SHOW EMPTY MATCHES, OMIT EMPTY MATCHES or WITH UNMATCHED ROWS"
    _finish(reader, f"expected {ORDER[4]}, PATTERN, or {options}")
    return {"show": show, "show_span": span}


def _skip(_text: str, reader: WordReader) -> dict[str, Any]:
    ways = "PAST LAST ROW, TO NEXT ROW, TO FIRST v, TO LAST v or TO v"
    if not reader.take("AFTER", "MATCH", "SKIP"):
        reader.position = 2
        raise reader.error("expected AFTER MATCH SKIP", hint=ways)
    if reader.take("PAST", "LAST", "ROW"):
        part = SkipPart(SkipTo.PAST_LAST)
    elif reader.take("TO", "NEXT", "ROW"):
        part = SkipPart(SkipTo.NEXT)
    elif reader.take("TO"):
        alone = len(reader.rest) == 1
        to = SkipTo.FIRST if not alone and reader.take("FIRST") else SkipTo.LAST
        if not alone and to is SkipTo.LAST:
            reader.take("LAST")
        part = SkipPart(to, reader.name("a variable before PATTERN"))
    else:
        raise reader.error(f"expected {ways}")
    _finish(reader, "expected PATTERN")
    return {"skip": part}


def _pattern(text: str, reader: WordReader) -> dict[str, Any]:
    if reader.rest[0].key in ("INITIAL", "SEEK"):
        raise BindError(
            f"{reader.rest[0].key} has no meaning here", span=reader.rest[0].span,
            hint="only patterns inside a window have INITIAL and SEEK: MATCH_RECOGNIZE finds every match",
        )  # fmt: skip
    reader.take("PATTERN")
    closing = pair_brackets(reader.rest).get(0)
    if closing is None:
        raise ParseError("the pattern is not closed", span=reader.rest[0].span, hint="close it with )")
    span = Span(reader.rest[0].end, reader.rest[closing].start)
    reader.position += closing + 1
    _finish(reader, "expected WITHIN, SUBSET or DEFINE")
    return {"pattern": parse_pattern(text, span)}


def _within(text: str, reader: WordReader) -> dict[str, Any]:
    reader.take("WITHIN")
    words = reader.rest
    timeouts = [word.key for word in words[-2:]] == ["EMIT", "TIMEOUTS"]
    words = words[:-2] if timeouts else words
    if not words:
        raise reader.error("WITHIN needs a length", hint="write WITHIN INTERVAL '15' MINUTE")
    return {"within": WithinPart(_piece(text, words), timeouts)}


def _subset(_text: str, reader: WordReader) -> dict[str, Any]:
    reader.take("SUBSET")
    return {
        "subsets": tuple(_one_subset(WordReader(item, item[-1].end)) for item in _items(reader, "u = (A, B)"))
    }


def _one_subset(reader: WordReader) -> SubsetPart:
    name = reader.name("a name, as in u = (A, B)")
    if not reader.take("=") or not reader.take("("):
        raise reader.error("expected = (A, B)")
    members = [reader.name("a variable")]
    while reader.take(","):
        members.append(reader.name("a variable"))
    if not reader.take(")"):
        raise reader.error("expected , or )")
    _finish(reader, "expected , or DEFINE")
    return SubsetPart(name, tuple(members))


def _define(text: str, reader: WordReader) -> dict[str, Any]:
    reader.take("DEFINE")
    return {"define": tuple(_definition(text, item) for item in _items(reader, "A AS condition"))}


def _definition(text: str, words: Words) -> NamedExpr:
    reader = WordReader(words, words[-1].end)
    name = reader.name("a variable, as in A AS condition")
    if not reader.take("AS"):
        raise reader.error("expected AS and a condition")
    if not reader.rest:
        raise reader.error("the condition is missing", hint="leave a variable out that every row satisfies")
    return NamedExpr(name, _piece(text, reader.rest))


_READERS: tuple[Callable[[str, WordReader], dict[str, Any]], ...] = (
    _partition, _order_by, _measures, _rows, _skip, _pattern, _within, _subset, _define,
)  # fmt: skip


def _items(reader: WordReader, what: str) -> list[Words]:
    items = split_at_commas(reader.rest)
    for i, item in enumerate(items):
        if not item:
            at: Word = items[i - 1][-1] if i else reader.words[-1]
            raise ParseError(f"expected {what}", span=Span(at.end - 1, at.end + (1 if i else 0)))
    return items


def _finish(reader: WordReader, expected: str) -> None:
    if reader.rest:
        raise reader.error(expected)
