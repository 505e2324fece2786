"""Names of queries that are asked together: which names they have, and errors that say whose they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from cerise.errors import BindError, CeriseError, UnsupportedError


def split_names(given: Any) -> tuple[list[Any], tuple[str, ...] | None]:
    """Return the queries of a list, or of a dict by name, and the names; None: the caller gives no names.

    >>> split_names({"rise": "PATTERN a"})
    (['PATTERN a'], ('rise',))

    Raises:
        UnsupportedError: it is neither a list nor a dict, or has no queries.
        BindError: a name is not a text, or is empty.
    """
    if isinstance(given, Mapping):
        for name in given:
            if not isinstance(name, str) or not name:
                raise BindError(
                    f"{name!r} does not name a query", hint="a name is a text: {'rise': 'PATTERN …'}"
                )
    elif not isinstance(given, Sequence):
        raise UnsupportedError(
            f"a {given.__class__.__name__} is not a query",
            hint=f"{_QUERIES}; verbs take the events first, then the query",
        )
    if not given:
        kind = "dict" if isinstance(given, Mapping) else "list"
        raise UnsupportedError(f"an empty {kind} is not a query", hint=_QUERIES)
    return (list(given.values()), tuple(given)) if isinstance(given, Mapping) else (list(given), None)


_QUERIES = "give SASE+ text, seq(…), a list of these, or {'name': query}"


def check_names(names: Sequence[str]) -> None:
    """Refuse two queries of one name.

    Raises:
        BindError: with the name, and the numbers of both queries.
    """
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if (before := seen.setdefault(name, number)) != number:
            raise BindError(
                f"two queries are named '{name}': query {before} and query {number}",
                hint="give them different names after INTO, or ask {'name': query}",
            )


def show_name(name: str) -> str:
    """Return the name of a query for a message; a query without a name has a number.

    >>> show_name("rise"), show_name("2")
    ("query 'rise'", 'query 2')
    """
    return f"query {name}" if name.isdecimal() else f"query '{name}'"


@contextmanager
def name_errors(shown: str) -> Iterator[None]:
    """Name the query in errors of the body; they keep their place in the text, and their hint.

    Args:
        shown: the name, as `show_name` returns it.
    """
    try:
        yield
    except CeriseError as error:
        problem = f"{shown}: {error.problem}"
        raise type(error)(problem, span=error.span, text=error.text, hint=error.hint) from error.__cause__


class NamedSearch:
    """A search whose errors name its query; it starts with its first events, and ends with the last.

    Args:
        shown: the name, as `show_name` returns it.
        start: starts the search.
    """

    def __init__(self, shown: str, start: Callable[[], Any]) -> None:
        self._shown, self._start = shown, start
        self._search: Any = None

    def feed(self, events: Any) -> Iterator[pa.Table]:
        with name_errors(self._shown):
            if self._search is None:
                self._search = self._start()
            yield from self._search.feed(events)

    def flush(self) -> Iterator[pa.Table]:
        with name_errors(self._shown):
            search = self._start() if self._search is None else self._search
            self._search = None  # frees code, runs and buffers
            yield from search.flush()
