"""SASE+ text → Query. The grammar is sase.lark; this module runs the parser and explains mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError

from cerise.errors import CeriseError, ParseError, Span, closest, refuse_surrogates
from cerise.lang.sase.nodes import Nodes
from cerise.pattern.query import Query

CACHED = 256  # parsed queries that stay in memory
CLAUSES = ("FROM", "USE", "PARTITION BY", "WHERE", "WITHIN", "SLIDE", "OUTPUT", "LIMIT", "RETURN", "INTO")
UNITS = ("microseconds", "milliseconds", "seconds", "minutes", "hours", "days", "weeks", "events")
WORDS = {
    "_AND": "AND", "_OR": "OR", "_NOT": "NOT", "_NEG": "NOT", "_KLEENE": "Kleene(", "_EVENTS": "events",
    "NAME": "a name", "QUOTED": None, "NUMBER": "a number", "STRING": "a 'string'", "PARAM": ":parameter",
    "INDEX": "[i]", "UNIT": "a unit of time", "COMPARE": "a comparison", "HYPHENATED": "a word",
    "STRATEGY": None, "PERCENT": None, "LPAR": "(", "RPAR": ")", "LBRACE": "{", "RBRACE": "}", "LSQB": "[",
    "RSQB": "]", "COMMA": ",", "SEMICOLON": ";", "DOT": ".", "PLUS": "+", "MINUS": "-", "STAR": "*",
    "SLASH": "/", "MODULO": "%", "BANG": "!", "QMARK": "?", "$END": "the end",
    "_IN_ALL": "IN ALL",
}  # fmt: skip
_CHOICE = "SASE+ has no CASE: a choice is if(predicate, x, y), and predicates stand after WHERE"
_REGULAR = "SASE+ has no regular expressions: LIKE compares a text with a pattern of % and _"
INSTEAD = {
    **dict.fromkeys(("CASE", "WHEN", "THEN", "ELSE", "END"), _CHOICE),
    **dict.fromkeys(("RLIKE", "REGEXP", "REGEXP_LIKE", "SIMILAR", "GLOB"), _REGULAR),
    "ILIKE": "lower both sides: lower(a.name) LIKE 'x%'",
    "SELECT": "this is SQL: write MATCH_RECOGNIZE in it, or a SASE+ query, which starts with PATTERN",
}  # words of SQL that SASE+ does not have


@lru_cache(maxsize=CACHED)
def parse(text: str) -> Query:
    """Parse a query, or several separated by `;` that feed one another by INTO and FROM (S7.3).

    Returns:
        The last query; its `source` is the query that it reads FROM.

    Raises:
        ParseError: with the position and a hint.
    """
    refuse_surrogates(text, ParseError, "the query")
    try:
        tree = _parser().parse(text)
        queries: list[Query] = Nodes().transform(tree)
    except UnexpectedInput as error:
        raise _explain(error, text) from None
    except VisitError as error:
        if isinstance(error.orig_exc, CeriseError):
            raise error.orig_exc.located(text) from None
        if isinstance(error.orig_exc, RecursionError):
            raise _too_deep() from None
        raise
    except RecursionError:
        raise _too_deep() from None
    return _compose([replace(query, text=text) for query in queries])


@cache
def _parser() -> Lark:
    grammar = files("cerise.lang.sase").joinpath("sase.lark").read_text(encoding="utf-8")
    return Lark(grammar, start="script", parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _compose(queries: list[Query]) -> Query:
    """Link each query to the earlier query that it reads FROM, and return the last."""
    named: dict[str, Query] = {}
    for number, query in enumerate(queries[:-1], 1):
        if query.into is None:
            raise ParseError(
                f"query {number} of {len(queries)} has no INTO",
                hint="name its matches with INTO, and read them with FROM in a later query",
            )
        if query.into in named:
            raise ParseError(f"two queries write INTO '{query.into}'", hint="give each a name of its own")
        named[query.into] = _resolve_source(query, named)
    last = _resolve_source(queries[-1], named)
    if unread := named.keys() - set(_sources(last)):
        raise ParseError(
            f"no query reads FROM {', '.join(map(repr, sorted(unread)))}",
            hint="the answer is that of the last query; run separate questions separately",
        )
    return last


def _resolve_source(query: Query, named: Mapping[str, Query]) -> Query:
    """Replace a source that names a query by that query; any other name is a table's."""
    if not isinstance(query.source, str):
        return query
    if query.source in named:
        return replace(query, source=named[query.source])
    if (close := closest(query.source, named)) is not None:
        raise ParseError(f"no query writes INTO '{query.source}'", hint=f"did you mean '{close}'?")
    return query


def _sources(query: Query) -> Iterator[str | None]:
    if isinstance(query.source, Query):
        yield query.source.into
        yield from _sources(query.source)


def _explain(error: UnexpectedInput, text: str) -> ParseError:
    """Return the parser's error as a ParseError with a hint."""
    start, found, expected = _place(error, text)
    if not text.strip():
        return ParseError("the query is empty", hint="start with PATTERN SEQ(…)")
    if found and (wrong := _quote_error(text, start)) is not None:
        return wrong
    problem = f"did not expect {found}" if found else "the query ends too early"
    return ParseError(
        problem,
        span=Span(start, start + max(1, len(found or "") - 2)),
        text=text,
        hint=_hint(found, expected),
    )


def _quote_error(text: str, start: int) -> ParseError | None:
    """Return the error for quotes or a comment at a position that are not closed, or for single quotes."""
    if (closed := re.compile(r"'((?:[^']|'')*)'").match(text, start)) is not None:
        inside = closed.group(1).replace("''", "'")
        return ParseError(
            "a string stands where no value can", span=Span(start, closed.end()), text=text,
            hint=f'a type or a name stands in double quotes: "{inside}"',
        )  # fmt: skip
    for opening, closing, what in (("'", "'", "string"), ('"', '"', "name"), ("/*", "*/", "comment")):
        if text.startswith(opening, start):
            position = Span(start, len(text))
            return ParseError(
                f"the {what} is not closed", span=position, text=text, hint=f"close it with {closing}"
            )
    return None


def _too_deep() -> ParseError:
    return ParseError(
        "the query nests too deeply", hint="write long lists as x IN (…), and split WHERE with AND"
    )


def _place(error: UnexpectedInput, text: str) -> tuple[int, str | None, set[str]]:
    match error:
        case UnexpectedToken(token=token) if token.type == "$END":
            return len(text.rstrip()), None, set(error.accepts or error.expected)
        case UnexpectedToken(token=token):
            return token.start_pos or 0, f"'{token}'", set(error.accepts or error.expected)
        case UnexpectedCharacters():
            position = error.pos_in_stream or 0
            return position, f"'{text[position]}'", set(error.allowed or ())
        case UnexpectedEOF():
            return len(text.rstrip()), None, set(error.expected)
    return 0, None, set()


def _hint(found: str | None, expected: set[str]) -> str | None:
    if "UNIT" in expected and found and found.strip("'").isalpha():
        unit = closest(found.strip("'"), UNITS)
        return f"did you mean '{unit}'?" if unit else f"known units: {', '.join(UNITS)}"
    if found and (instead := INSTEAD.get(found.strip("'").upper())) is not None:
        return instead
    if {"WHERE", "WITHIN"} <= expected and found:
        clause = closest(found.strip("'"), CLAUSES)
        known = f"expected an operator or a clause: {', '.join(CLAUSES)}"
        return f"did you mean '{clause}'?" if clause else known
    names = sorted({str(WORDS.get(each, each)) for each in expected if WORDS.get(each, each) is not None})
    return f"expected {' or '.join(names)}" if 0 < len(names) <= 8 else _usual(names)


def _usual(names: list[str]) -> str | None:
    if "a name" in names and "a number" in names:
        return "expected a value: an attribute such as a.price, a number, a 'string' or :parameter"
    return f"expected one of {', '.join(names)}" if names else None
