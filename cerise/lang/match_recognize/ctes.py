"""The WITH clauses of an SQL text, and the CTEs visible at a position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cerise.errors import Span
from cerise.lang.match_recognize.tokens import OPEN, Words, name_of


@dataclass(frozen=True, slots=True)
class Cte:
    """One item of WITH: `name (columns) AS (query)`."""

    name: str
    span: Span

    def is_recursive(self, words: Words) -> bool:
        inside = [word for word in words if self.span.start <= word.start < self.span.end]
        return any((name := name_of(word)) and name.text.lower() == self.name for word in inside[1:])


@dataclass(frozen=True, slots=True)
class Scope:
    """The items of one WITH; `end` is the end of the query that may name them."""

    items: tuple[Cte, ...]
    recursive: bool
    start: int
    end: int

    def visible(self, position: int) -> tuple[Cte, ...]:
        if not self.start <= position < self.end:
            return ()
        return tuple(item for item in self.items if item.span.end <= position)


def find_scopes(words: Words, partners: Mapping[int, int], end: int) -> tuple[Scope, ...]:
    """Return the WITH clauses of a text, outer clauses first."""
    found, around = [], []
    for i, word in enumerate(words):
        if word.key in OPEN and i in partners:
            around.append(i)
        elif around and partners.get(i) == around[-1]:
            around.pop()
        if word.key == "WITH":
            recursive = i + 1 < len(words) and words[i + 1].key == "RECURSIVE"
            items = tuple(_items(words, partners, i + 2 if recursive else i + 1))
            limit = words[partners[around[-1]]].start if around else end
            if items:
                found.append(Scope(items, recursive, word.start, limit))
    return tuple(found)


def _items(words: Words, partners: Mapping[int, int], i: int) -> Iterator[Cte]:
    """Yield the items of a WITH clause, given its first word; none if the WITH belongs to another clause."""
    while i + 1 < len(words) and (name := name_of(words[i])) is not None:
        body = _body(words, partners, i + 1)
        if body is None:
            return
        closing = partners[body]
        yield Cte(name.text.lower(), Span(words[i].start, words[closing].end))
        if closing + 1 >= len(words) or words[closing + 1].key != ",":
            return
        i = closing + 2


def _body(words: Words, partners: Mapping[int, int], i: int) -> int | None:
    """Return the parenthesis that opens the query of an item, after its list of columns, if it has one."""
    keys = [word.key for word in words]
    if keys[i] == "(" and i in partners and keys[partners[i] + 1 : partners[i] + 2] != [","]:
        after = partners[i] + 1
        if (
            keys[after : after + 1] == ["AS"]
            or keys[after : after + 1] == ["MAX"]
            or keys[after : after + 1] == ["("]
        ):
            i = after
    if keys[i : i + 3] == ["MAX", "RECURSION", "LEVEL"]:
        i += 4
    if keys[i : i + 1] == ["AS"]:
        i += 1
    return i if keys[i : i + 1] == ["("] and i in partners else None
