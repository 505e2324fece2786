"""What can go wrong, said so that a stranger can mend it: the problem, the place and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a query text, as character offsets."""

    start: int
    end: int


class CeriseError(Exception):
    """The root of every error that Cerise raises on purpose.

    Args:
        problem: what is wrong, in one sentence without a full stop.
        span: the place in `text`, if the problem has one.
        text: the query text that `span` points into.
        hint: what to do about it.
    """

    def __init__(
        self,
        problem: str,
        *,
        span: Span | None = None,
        text: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.span = span
        self.text = text
        self.hint = hint

    def __str__(self) -> str:
        place = _point_at(self.text, self.span) if self.text and self.span else []
        hint = [f"hint: {self.hint}"] if self.hint else []
        return "\n".join([self.problem, *place, *hint])

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross process borders: keep every field when pickled."""
        return _rebuild, (type(self), self.problem, self.span, self.text, self.hint)

    def located(self, text: str | None) -> CeriseError:
        """Return the same error with the text that its span points into, if it had none."""
        return (
            self if self.text or not text else _rebuild(type(self), self.problem, self.span, text, self.hint)
        )


class ParseError(CeriseError):
    """The text is not a query."""


class BindError(CeriseError):
    """The query does not fit the events: unknown names, wrong types, contradictions."""


class PlanError(CeriseError):
    """The query is right but cannot be run as asked."""


class UnsupportedError(CeriseError):
    """This engine, runner or source cannot do it; the hint says which can."""


class StoreError(CeriseError):
    """A file or table cannot be read or written."""


class DataError(CeriseError):
    """The events themselves are wrong: null times, values that do not fit."""


class CeriseWarning(UserWarning):
    """The query is legal and probably not what was meant."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a name, if any is much like it; case does not count."""
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(folded), n=1)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the closest known name, or the list of all where none is close."""
    names = list(dict.fromkeys(known))
    if (close := closest(name, names)) is not None:
        return f"did you mean '{close}'?"
    return f"known: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}" if names else None


def _rebuild(
    kind: type[CeriseError], problem: str, span: Span | None, text: str | None, hint: str | None
) -> CeriseError:
    return kind(problem, span=span, text=text, hint=hint)


def _point_at(text: str, span: Span) -> list[str]:
    """Return the lines that show where in the text a span lies."""
    start = min(span.start, len(text))
    before = text[:start]
    line = before.count("\n") + 1
    column = start - (before.rfind("\n") + 1)
    shown = text.split("\n")[line - 1].replace("\t", " ").rstrip("\r")
    marked = shown[column : column + max(1, span.end - start)] or " "
    return [
        f"  line {line}, column {column + 1}",
        f"  | {shown}",
        f"  | {' ' * _width(shown[:column])}{'^' * _width(marked)}",
    ]


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: wide letters take two."""
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)
