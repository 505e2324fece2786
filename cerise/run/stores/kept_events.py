"""The events that can be part of a match, as a question, for another engine to search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from cerise.events import EventBatch
from cerise.plan.needs import Needs
from cerise.run.question import Alone, Question, Work
from cerise.run.report import to_bytes


@dataclass(frozen=True)
class KeptEvents(Alone):
    """The events that a filter keeps for a query.

    Attributes:
        question: the query.
        needs: the columns of the events.
    """

    question: Question
    needs: Needs

    @property
    def outer(self) -> KeptEvents:
        return self

    @property
    def result(self) -> pa.Schema:
        return self.needs.columns

    @property
    def partial(self) -> pa.Schema:
        return self.needs.columns

    def start(self, work: Work) -> KeptSearch:
        return KeptSearch(self.result, work)


class KeptSearch:
    """Passes events on, with all their columns."""

    def __init__(self, columns: pa.Schema, work: Work) -> None:
        self._columns, self._work = columns, work

    def feed(self, events: EventBatch) -> Iterator[pa.Table]:
        yield self._work.complete(events).table.select(self._columns.names)

    def flush(self) -> Iterator[pa.Table]:
        yield self._columns.empty_table()

    def save(self) -> bytes:
        return to_bytes(self._columns.empty_table())

    def load(self, state: bytes) -> None:
        """Do nothing: the search has no state."""
