"""Finds the MATCH_RECOGNIZE clauses of an SQL statement, and cuts them out: a view replaces each.

Spark reads the text around a clause as the user wrote it (decision D9). `clause` parses the inside of a
clause, pattern.lark its pattern, and sqlglot its expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from cerise.errors import BindError, CeriseError, ParseError, Span, UnsupportedError, refuse_surrogates
from cerise.lang.match_recognize.clause import ClauseParts, parse_parts
from cerise.lang.match_recognize.ctes import Scope, find_scopes
from cerise.lang.match_recognize.tokens import (
    CLOSE,
    OPEN,
    Word,
    Words,
    name_of,
    outside_brackets,
    pair_brackets,
    read_words,
)

DIALECTS = ("standard", "flink")
CACHED = 256  # parsed statements that stay in memory
_NAME = "MATCH_RECOGNIZE"
_ALONE = re.compile(r"SELECT\s+\*\s+FROM\s+_0(\s+(AS\s+)?\w+)?\s*;?", re.IGNORECASE)
_TABLE = re.compile(r"(\w+|`[^`]+`|\"[^\"]+\")(\s+(AS\s+)?\w+)?", re.IGNORECASE)
_INSIDE = frozenset({"PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER", "PATTERN"})
_BEFORE_TABLE = frozenset({"FROM", "JOIN", "USING", ","})
_AFTER_TABLE = frozenset("SELECT WHERE GROUP HAVING ORDER ON LIMIT UNION SET WINDOW QUALIFY PIVOT".split())


@dataclass(frozen=True, slots=True)
class Clause:
    """One MATCH_RECOGNIZE clause.

    Attributes:
        index: its number among the clauses of its statement, in the order in which they run.
        span: the text that its view replaces: its input and the clause, without the alias after it.
        source: the span of its input, after FROM.
        word: the span of the word MATCH_RECOGNIZE.
        parts: its parts, parsed.
        dialect: whose defaults it has.
        tables: the names that may qualify a column of its input.
        ctes: the names of WITH that its input can read, but its subqueries cannot.
        text: the statement.
    """

    index: int
    span: Span
    source: Span
    word: Span
    parts: ClauseParts = field(repr=False)
    dialect: str
    tables: tuple[str, ...]
    ctes: frozenset[str]
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cut:
    """A text put together from pieces of the statement.

    Attributes:
        sql: the text.
        pieces: for each piece its start in `sql`, its start in the statement, and whether it is unchanged.
    """

    sql: str
    pieces: tuple[tuple[int, int, bool], ...]

    def place(self, offset: int) -> int:
        """Return the position in the statement of a character of this text."""
        nothing = (0, 0, False)
        start, original, kept = max((each for each in self.pieces if each[0] <= offset), default=nothing)
        return original + (offset - start if kept else 0)


@dataclass(frozen=True)
class Statement:
    """An SQL text and its MATCH_RECOGNIZE clauses, inner clauses first.

    To run it: for each clause in turn, run its `input`, find its matches and register them as a view; then
    run the `rest`. Both take the names of the views so far, by the index of their clause.
    """

    text: str
    clauses: tuple[Clause, ...] = ()
    scopes: tuple[Scope, ...] = field(default=(), repr=False)

    def input(self, index: int, names: Mapping[int, str]) -> Cut:
        """Return the SELECT of a clause's input rows, with the CTEs that it may name."""
        source = self.clauses[index].source
        pieces: list[tuple[str, int | None]] = []
        closing = ""
        for scope in self.scopes:
            if not (items := scope.visible(source.start)):
                continue
            pieces.append(("SELECT * FROM (" if closing else "", None))
            closing += ")" if pieces[-1][0] else " "
            pieces.append(("WITH RECURSIVE " if scope.recursive else "WITH ", None))
            for i, item in enumerate(items):
                pieces.append((", " if i else "", None))
                pieces.extend(self._slice(item.span, names))
            pieces.append((" ", None))
        pieces.append(("SELECT * FROM ", None))
        pieces.extend(self._slice(source, names))
        pieces.append((closing.strip(), None))
        return _concat(pieces, source.start)

    def rest(self, names: Mapping[int, str]) -> Cut:
        return _concat(list(self._slice(Span(0, len(self.text)), names)))

    @cached_property
    def _in_order(self) -> list[Clause]:
        return sorted(self.clauses, key=lambda each: (each.span.start, -each.span.end))

    def _slice(self, span: Span, names: Mapping[int, str]) -> Iterator[tuple[str, int | None]]:
        """Yield the text of a span, with the names of views in place of its outermost clauses."""
        position = span.start
        for clause in self._in_order:
            if position <= clause.span.start and clause.span.end <= span.end:
                yield self.text[position : clause.span.start], position
                yield names[clause.index], -clause.span.start - 1
                position = clause.span.end
        yield self.text[position : span.end], position


def _concat(pieces: list[tuple[str, int | None]], last: int = 0) -> Cut:
    """Join pieces into a text; a position -p - 1 is that of a clause at p that a name replaces."""
    sql, positions = "", []
    for text, position in pieces:
        if text:
            kept = position is not None and position >= 0
            last = last if position is None else position if kept else -position - 1
            positions.append((len(sql), last, kept))
        sql += text
    return Cut(sql, tuple(positions))


@lru_cache(maxsize=CACHED)
def mentions_match_recognize(text: str) -> bool:
    """Whether a text has a MATCH_RECOGNIZE clause; strings, comments and quoted names do not count."""
    if not re.search(_NAME, text, re.IGNORECASE):
        return False
    try:
        words = read_words(text)
    except ParseError:
        return True  # parse_statement raises the error
    return any(True for _ in _clauses(words))


def _clauses(words: Words) -> Iterator[int]:
    """Yield the number of each word MATCH_RECOGNIZE that starts a clause, even without parentheses."""
    for i, word in enumerate(words[:-1]):
        if word.key == _NAME and (i == 0 or words[i - 1].key not in (".", "AS")):
            after = words[i + 1]
            if after.key == "(" or after.key in _INSIDE:
                yield i


def parse_statement(text: str, dialect: str = "standard") -> Statement:
    """Find and parse the MATCH_RECOGNIZE clauses of an SQL text.

    Args:
        text: one SQL statement; only its clauses are parsed here.
        dialect: whose defaults clauses have: 'standard' or 'flink' (M3, M42).

    Raises:
        ParseError: with the position and a hint.
    """
    refuse_surrogates(text, ParseError, "the statement")
    if dialect not in DIALECTS:
        raise ParseError(f"unknown dialect '{dialect}'", hint=f"known: {', '.join(DIALECTS)}")
    if not mentions_match_recognize(text):
        return Statement(text)
    try:
        words = read_words(text)
        sheet = _Sheet(text, dialect, words, pair_brackets(words))
        scopes = find_scopes(words, sheet.partners, len(text))
        found = sorted(_clauses(words), key=lambda i: sheet.partners.get(i + 1, len(words)))
        _refuse_inner_clauses(sheet, found)
        clauses = [_clause(sheet, i, number, scopes) for number, i in enumerate(found)]
        _refuse_recursion(words, clauses, scopes)
        return Statement(text, tuple(clauses), scopes)
    except CeriseError as error:
        raise error.located(text) from None


@lru_cache(maxsize=CACHED)
def parse_alone(text: str, dialect: str = "standard") -> Clause:
    """Parse a statement that is only one clause over one table: SELECT * FROM t MATCH_RECOGNIZE (…).

    Raises:
        UnsupportedError: the statement is more than that.
    """
    statement = parse_statement(text, dialect)
    rest = statement.rest({each.index: f"_{each.index}" for each in statement.clauses}).sql.strip()
    if not _ALONE.fullmatch(rest):
        raise UnsupportedError(
            "the statement is more than SELECT * FROM … MATCH_RECOGNIZE (…)",
            hint="cerise.sql(spark, …) runs any statement; here, select and join from the result",
        )
    (clause,) = statement.clauses
    source = text[clause.source.start : clause.source.end]
    if not _TABLE.fullmatch(source):
        raise UnsupportedError(
            "the given rows are one table, and the statement reads more than a table", span=clause.source,
            text=text,
            hint="name one table before MATCH_RECOGNIZE; cerise.sql(spark, …) runs any statement",
        )  # fmt: skip
    return clause


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A text with its words, and the partner of each bracket."""

    text: str
    dialect: str
    words: Words
    partners: Mapping[int, int]


def _clause(sheet: _Sheet, i: int, number: int, scopes: tuple[Scope, ...]) -> Clause:
    words, opening = sheet.words, i + 1
    if words[opening].key != "(":
        hint = "write MATCH_RECOGNIZE ( … )"
        raise ParseError("MATCH_RECOGNIZE needs parentheses", span=words[i].span, hint=hint)
    if (closing := sheet.partners.get(opening)) is None:
        hint = "close it with )"
        raise ParseError("the parenthesis is not closed", span=words[opening].span, hint=hint)
    start = _start_of_input(words, sheet.partners, i)
    source = Span(words[start].start, words[i - 1].end)
    parts = parse_parts(sheet.text, words[opening + 1 : closing], words[i].span)
    names = frozenset(item.name for scope in scopes for item in scope.visible(source.start))
    return Clause(
        number, Span(source.start, words[closing].end), source, words[i].span, parts, sheet.dialect,
        _tables(words[start:i]), names, sheet.text,
    )  # fmt: skip


def _start_of_input(words: Words, partners: Mapping[int, int], i: int) -> int:
    """Return the first word of a clause's input: the table, subquery or side of a join before the clause."""
    start = i
    while start and words[start - 1].key not in _BEFORE_TABLE and words[start - 1].key not in OPEN:
        before = start - 1
        start = partners.get(before, before) if words[before].key in CLOSE else before
    beyond = any(words[start + j].key in _AFTER_TABLE for j in outside_brackets(words[start:i]))
    joined = words[start - 1].key == "USING" and start + 1 < i and words[start + 1].kind != "mark"
    if start in (0, i) or beyond or (joined and words[start].key == "(" and not _is_query(words[start + 1])):
        raise ParseError(
            "MATCH_RECOGNIZE follows no table", span=words[i].span,
            hint="write FROM table MATCH_RECOGNIZE (…), or a subquery in parentheses before it",
        )  # fmt: skip
    if words[start].key == "LATERAL":
        raise UnsupportedError(
            "MATCH_RECOGNIZE over a LATERAL subquery", span=words[start].span,
            hint="its rows depend on another table: join first, in a subquery, and PARTITION BY",
        )  # fmt: skip
    return start


def _is_query(word: Word) -> bool:
    return word.key in ("SELECT", "WITH", "VALUES", "FROM", "TABLE")


def _tables(words: Words) -> tuple[str, ...]:
    """Return the names that may qualify a column of an input: the table's and its alias."""
    depth, found = 0, []
    for word in words:
        depth += (word.key == "(") - (word.key == ")")
        name = name_of(word)
        if depth == 0 and name is not None and word.key not in ("AS", _NAME):
            found.append(name.text.lower())
    return tuple(found)


def _refuse_inner_clauses(sheet: _Sheet, found: list[int]) -> None:
    for outer in found:
        for inner in found:
            if outer + 1 < inner < sheet.partners.get(outer + 1, 0):
                raise BindError(
                    "MATCH_RECOGNIZE inside MATCH_RECOGNIZE", span=sheet.words[inner].span,
                    hint="chain them: FROM (SELECT … FROM t MATCH_RECOGNIZE (…)) MATCH_RECOGNIZE (…)",
                )  # fmt: skip


def _refuse_recursion(words: Words, clauses: list[Clause], scopes: tuple[Scope, ...]) -> None:
    for scope in scopes:
        for item in scope.items if scope.recursive else ():
            for clause in clauses:
                if item.is_recursive(words) and item.span.start < clause.span.start < item.span.end:
                    raise BindError(
                        "MATCH_RECOGNIZE in a recursive query", span=clause.word,
                        hint="find the matches outside of it",
                    )  # fmt: skip
