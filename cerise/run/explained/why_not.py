"""Why events start no match, as a question (M47): its search collects events, then explains their misses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.misses import rows, sase
from cerise.engines.misses.chosen import CHOSEN, with_chosen
from cerise.errors import PlanError
from cerise.events import RowBatch
from cerise.plan.needs import Needs
from cerise.run.question import Alone, Question, Work
from cerise.run.report import to_bytes
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase


@dataclass(frozen=True)
class WhyNot(Alone):
    """The misses of a query or clause.

    Attributes:
        question: the query or clause.
        columns: the columns of the source: `where` may name any of them.
        where: an SQL predicate that chooses the events to explain; None: events outside every match.
        limit: how many events to explain at most.
        options: how to run.
        host: whether the host of the source computes `where`.
    """

    question: Sase | RowClause
    columns: pa.Schema
    where: str | None
    limit: int | None
    options: Options
    host: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise PlanError(f"limit is {self.limit}", hint="it must be at least 1")

    @property
    def inner(self) -> Question | None:
        """The query whose matches are the events of this one."""
        return self.question.inner

    @property
    def outer(self) -> WhyNot:
        return replace(self, question=self.question.outer, columns=self.question.needs.columns)

    @cached_property
    def needs(self) -> Needs:
        """All events of a partition, because each may explain a miss."""
        inner = self.question.needs
        names = {*inner.columns.names}
        if isinstance(self.question, Sase):
            names |= {path[0] for path in sase.start_paths(self.question.bound)}
        if self.where is not None and not self.host:
            names |= {*self.columns.names}
        known = {each.name: each for each in (*self.columns, *inner.columns)}
        fields = [known[name] for name in known if name in names]
        computed = dict(inner.computed)
        if self.where is not None and self.host:
            fields.append(pa.field(CHOSEN, pa.bool_()))
            computed[CHOSEN] = f"coalesce(({self.where}), false)"
        columns = pa.schema(fields)
        return Needs(
            columns=columns,
            reads=tuple(columns.names),
            partition=inner.partition,
            halo="every event of a partition may explain a miss",
            computed=computed,
        )

    @property
    def start_names(self) -> tuple[str, ...]:
        """The columns of the answer that identify the event."""
        if isinstance(self.question, Sase):
            return sase.start_columns(self.question.bound)
        return rows.start_columns(self.question.bound)

    @cached_property
    def result(self) -> pa.Schema:
        return self.explain(self.needs.columns.empty_table()).schema

    @property
    def partial(self) -> pa.Schema:
        return self.result

    def explain(self, table: pa.Table) -> pa.Table:
        """Return the misses among events."""
        if self.where is not None and not self.host:
            table = with_chosen(table, self.where)
        if isinstance(self.question, Sase):
            return sase.sase_misses(self.question.bound, table, self.options, self.limit)
        return rows.row_misses(self.question.bound, table, self.options, self.limit)

    def start(self, work: Work) -> WhyNotSearch:
        return WhyNotSearch(self, work)


class WhyNotSearch:
    """Collects events, and explains the misses at the end."""

    def __init__(self, question: WhyNot, work: Work) -> None:
        self._question, self._work = question, work
        self._tables: list[pa.Table] = []

    def feed(self, events: RowBatch) -> Iterator[pa.Table]:
        self._tables.append(events.table)
        return iter(())

    def flush(self) -> Iterator[pa.Table]:
        yield self._question.explain(self._collect())

    def _collect(self) -> pa.Table:
        empty = self._question.needs.columns.empty_table()
        names = [
            name for name in empty.column_names if not self._tables or name in self._tables[0].column_names
        ]
        tables = [each.select(names) for each in self._tables] or [empty]
        return pa.concat_tables(tables).cast(pa.schema([empty.schema.field(name) for name in names]))

    def save(self) -> bytes:
        return to_bytes(self._collect())

    def load(self, state: bytes) -> None:
        self._tables = [pa.ipc.open_stream(state).read_all()]
