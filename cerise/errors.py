"""Errors and warnings. Each message says the problem, its place in the query, and a way out."""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

LONGEST = 1_000  # characters of a problem or a hint
ALIKE = 0.75  # similarity from which a name counts as a misspelling; round and count stay below it
SHORT, ALIKE_SHORT = 3, 0.6  # letters of a short name, where one wrong letter weighs more
WIDEST = 160  # characters of a query's line that a message prints
INSIDE = ("cerise", "contextlib")  # packages whose calls are not the user's
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a query text, as character offsets."""

    start: int
    end: int


class CeriseError(Exception):
    """The root of every error that Cerise raises on purpose.

    Args:
        problem: one sentence without a full stop.
        span: where in `text` the problem is, if it has a place.
        text: the query text that `span` points into.
        hint: how to solve the problem.
    """

    def __init__(
        self,
        problem: str,
        *,
        span: Span | None = None,
        text: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem = _shorten(problem)
        super().__init__(self.problem)
        self.span = span
        self.text = text
        self.hint = _shorten(hint) if hint else hint

    def __str__(self) -> str:
        place = _point_at(self.text, self.span) if self.text and self.span else []
        hint = [f"hint: {self.hint}"] if self.hint else []
        return printable("\n".join([self.problem, *place, *hint]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep every field when pickled: errors cross from Spark's workers to the driver."""
        return _rebuild, (type(self), self.problem, self.span, self.text, self.hint)

    def located(self, text: str | None) -> CeriseError:
        """Return the same error with the query text that its span points into, if it has no text yet."""
        return (
            self if self.text or not text else _rebuild(type(self), self.problem, self.span, text, self.hint)
        )


class ParseError(CeriseError):
    """The text is not a query."""


class BindError(CeriseError):
    """The query does not fit the events: unknown names, wrong types, contradictions."""


class PlanError(CeriseError):
    """The query is right, but cannot run as asked."""


class UnsupportedError(CeriseError):
    """This engine, runner or source cannot run the query; the hint says which can."""


class StoreError(CeriseError):
    """A file or table cannot be read or written."""


class DataError(CeriseError):
    """The events themselves are wrong: null times, values that do not fit."""


class StateLayoutError(DataError):
    """A saved state of the same query, of another engine or release: run the query again over its events."""


class CeriseWarning(UserWarning):
    """The query is legal, but probably a mistake."""


def warn(texts: Iterable[str], *, strict: bool) -> None:
    """Warn the caller of Cerise of queries that are legal, but probably a mistake.

    Raises:
        BindError: `Options(strict=True)` makes warnings errors.
    """
    for text in texts:
        if strict:
            raise BindError(text, hint="Options(strict=True) makes this warning an error")
        warnings.warn(text, CeriseWarning, stacklevel=_levels_inside() + 1)


def _levels_inside() -> int:
    """Count the calls of Cerise's own code on the stack, so that a warning names the user's line."""
    frame, levels = sys._getframe(1), 0
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in INSIDE:
        frame, levels = frame.f_back, levels + 1
    return levels


def out_of_memory(error: MemoryError) -> PlanError:
    """Return the error for a query that needs more memory than the machine has."""
    return PlanError(
        f"the query needs more memory than there is: {error or 'none is left'}",
        hint="shorten WITHIN, add predicates or a partition, or lower Options(max_runs=…, max_steps=…)",
    )


def printable(text: str) -> str:
    """Return a text that UTF-8 can encode: a lone surrogate becomes its escaped number."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def text_html(text: str) -> str:
    """Return a text as a notebook shows it: its lines as they are, in letters of one width."""
    from html import escape  # most processes show no HTML

    return f'<pre style="white-space: pre; text-align: left">{escape(printable(text))}</pre>'


def refuse_surrogates(text: str, kind: type[CeriseError], what: str, span: Span | None = None) -> None:
    """Refuse a text that UTF-8 cannot encode, because it holds half of a surrogate pair.

    Args:
        text: the text to check.
        kind: the error to raise.
        what: the words that name the text in the error.
        span: the place of the text in the query, if it is part of one.
    """
    if text.isascii() or (found := SURROGATE.search(text)) is None:
        return
    raise kind(
        f"{what} holds a lone surrogate, \\u{ord(found.group()):04x}", span=span,
        hint="a surrogate stands for bytes that are not UTF-8: read or decode the text again",
    )  # fmt: skip


def show_number(number: int) -> str:
    """Return a number for a message; of one too long for Python to print, its number of digits."""
    return (
        str(number)
        if abs(number) < 10**40
        else f"a number of about {number.bit_length() * 30103 // 100000} digits"
    )


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a name, ignoring case; None if none is similar enough."""
    folded = {each.lower(): each for each in known}
    alike = ALIKE if len(name) > SHORT else ALIKE_SHORT
    close = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=alike)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the closest known name, or with up to 20 known names if no name is close."""
    names = list(dict.fromkeys(known))
    if (close := closest(name, names)) is not None:
        return f"did you mean '{close}'?"
    return f"known: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}" if names else None


def _rebuild(
    kind: type[CeriseError], problem: str, span: Span | None, text: str | None, hint: str | None
) -> CeriseError:
    return kind(problem, span=span, text=text, hint=hint)


def _point_at(text: str, span: Span) -> list[str]:
    """Return the message's lines that print the query's line and underline the span."""
    start = min(span.start, len(text))
    before = text[:start]
    line = before.count("\n") + 1
    column = start - (before.rfind("\n") + 1)
    whole = text.split("\n")[line - 1].replace("\t", " ").rstrip("\r")
    shown, offset = _around(whole, column)
    marked = shown[offset : offset + max(1, span.end - start)] or " "
    return [
        f"  line {line}, column {column + 1}",
        f"  | {shown}",
        f"  | {' ' * _width(shown[:offset])}{'^' * _width(marked)}",
    ]


def _around(line: str, column: int) -> tuple[str, int]:
    """Return at most WIDEST characters of a line around a column, and the column's offset in them."""
    if len(line) <= WIDEST:
        return line, column
    first = min(max(0, column - WIDEST // 2), len(line) - WIDEST)
    last = first + WIDEST
    before, after = "…" * (first > 0), "…" * (last < len(line))
    return f"{before}{line[first:last]}{after}", column - first + len(before)


def _shorten(text: str) -> str:
    """Leave out the middle of a text longer than LONGEST."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST * 3 // 4]} … {text[-LONGEST // 5 :]}"


def _width(text: str) -> int:
    """Return the number of terminal columns a text takes: wide letters take two."""
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)
