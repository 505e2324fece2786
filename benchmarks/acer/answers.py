"""What a method says to a query, and the engine that all methods hand their events to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import pyarrow as pa

from acer.queries import Query
from cerise.engines.base import Options
from cerise.engines.choose import choose
from cerise.events import Schema
from cerise.lang import sase
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.run.access import TableSource
from cerise.run.find import HERE, find
from cerise.run.question import Questions
from cerise.run.sase_search import Sase

FILTER, READ, MATCH = "filter", "read", "match"  # the costs of 000 Fig. 4


@dataclass(slots=True)
class Answer:
    """The number of matches, and how it was found.

    Attributes:
        matches: how many.
        events: how many events were given to the engine.
        seconds: what each of the costs took; summed over threads.
        told: what else there is to tell.
    """

    matches: int = 0
    events: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys((FILTER, READ, MATCH), 0.0))
    told: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def timed(self, cost: str) -> Iterator[None]:
        """Add the time of the body to a cost."""
        started = perf_counter()
        yield
        self.seconds[cost] += perf_counter() - started


class Method(Protocol):
    """A way to answer queries over one table; what describes the table has been read."""

    def answer(self, query: Query) -> Answer:
        """Count the matches of a query."""
        ...

    def files(self) -> Sequence[Path]:
        """Return the files that an answer may read."""
        ...

    def close(self) -> None:
        """Let go of the files."""
        ...


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns of a table play which part, and which are indexed."""

    columns: pa.Schema
    time: str
    type: str
    indexed: tuple[str, ...]

    def bind(self, query: Query) -> Bound:
        """Return a query bound to the table, from its text."""
        return bind(sase.parse(query.text), Schema(self.columns, self.time, self.type))


def matched(bound: Bound, table: pa.Table) -> int:
    """Count the matches in a table of events, which lie in stream order."""
    options = Options()
    choose(bound, options).start(bound, options)  # compiles, which threads must not do at the same time
    found = find(TableSource(table), Questions.of([Sase(bound)]), options, HERE)
    return int(found.matches.column(0)[0].as_py())
