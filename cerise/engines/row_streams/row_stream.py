"""MATCH_RECOGNIZE over a stream: a search that gives each match as soon as no later row can change it."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Ints, Options, RowMatches
from cerise.engines.census import Census, Load
from cerise.engines.results.value_codes import partitions, ranks
from cerise.engines.row_streams.long_partition import FoundMatches
from cerise.engines.row_streams.open_partitions import RowPartitions
from cerise.engines.row_streams.open_search import COLUMNS, COVERED
from cerise.engines.rows import program
from cerise.engines.rows.order import Ordered, sort_rows
from cerise.engines.rows.prepare import input_of, tie_columns
from cerise.engines.rows.records import OpenPartition
from cerise.engines.rows.table_search import choose_engine
from cerise.errors import DataError, PlanError, UnsupportedError
from cerise.events import RowBatch
from cerise.kinds import INT64_MIN, TIMES, kind_of
from cerise.pattern.row_pattern import Anchor, BoundRows, walk_rows

ON_SKIP = ("error", "past_last_row")
MAGIC = b"cerise.rows\n"
VERSION = 2
FACTS = {
    "next_row": OpenPartition.row,  # where the search goes on, among the rows that are held
    "first_row": OpenPartition.first,  # 0: the first of them is the first of the partition; -1: it is gone
    "matches": OpenPartition.number,  # how many there were: MATCH_NUMBER() goes on from here
    "deadline": OpenPartition.deadline,  # the time that decides the open match
    "covered": COVERED,  # the end of the rows in matches
}  # of a partition, by the names in a saved state
OwnsRows = Callable[[pa.Table], npt.NDArray[np.bool_]]
HEAD = struct.Struct(f"<{len(MAGIC)}sI16s16sqqqQ")


def why_no_stream(bound: BoundRows, *, unbounded: bool = False, host: bool = False) -> tuple[str, str] | None:
    """Return why a clause cannot be searched in a stream, and a hint; None: it can.

    Args:
        bound: the clause.
        unbounded: whether the user accepts a state without a bound (S5.4).
        host: whether the host of the source computes the columns that are expressions.
    """
    if not bound.order:
        return "the clause has no ORDER BY", "ORDER BY the time of the stream first"
    first = bound.order[0]
    if first.descending:
        return f"ORDER BY {first.column} DESC needs the end of the stream", "order by ascending time"
    if not host and first.column not in bound.columns.names:
        return "ORDER BY begins with an expression", "add it to the stream as a column, and order by that"
    if kind_of(bound.type_of(first.column)) not in TIMES:
        type_ = bound.type_of(first.column)
        return f"ORDER BY begins with {first.column}, of type {type_}", "order by a timestamp or an integer"
    if bound.within is None and _asks_end(bound):
        return "$ asks for the end of a partition, and a stream has none", "add WITHIN after PATTERN"
    if bound.within is None and not unbounded:
        return (
            "without WITHIN the state may grow without bound",
            "add WITHIN after PATTERN, or unbounded=True",
        )
    unfit = program.why_not(bound)
    if unfit is not None:
        return f"only the reference engine can run the clause, because {unfit}", "simplify DEFINE"
    return None


def _asks_end(bound: BoundRows) -> bool:
    return any(isinstance(each, Anchor) and not each.start for each in walk_rows(bound.pattern))


@dataclass(frozen=True, slots=True)
class StreamedClause:
    """A clause over a stream, and how to run it.

    Attributes:
        bound: the clause.
        columns: the columns that rows have when they come.
        options: how to run.
        show: builds a table from matches among rows.
        host: whether the host of the source computes the columns that are expressions.
        on_skip: the effect of a skip without a target (M40): "error", or "past_last_row", which is counted.
        unbounded: whether the user accepts a state without a bound, for a clause without WITHIN.
    """

    bound: BoundRows
    columns: pa.Schema
    options: Options
    show: Callable[[Ordered, RowMatches], pa.Table]
    host: bool = False
    on_skip: str = "error"
    unbounded: bool = False

    def check(self) -> None:
        """Refuse a clause that cannot be searched in a stream.

        Raises:
            UnsupportedError: the clause cannot be searched in a stream.
            PlanError: `on_skip` or the engine is unknown.
        """
        refused = why_no_stream(self.bound, unbounded=self.unbounded, host=self.host)
        if refused is not None:
            raise UnsupportedError(f"this clause cannot run over a stream: {refused[0]}", hint=refused[1])
        if choose_engine(self.bound, self.options)[0] != "rows":
            raise UnsupportedError(
                f"engine '{self.options.engine}' keeps all rows of a stream",
                hint="use engine 'rows', or none",
            )
        if self.on_skip not in ON_SKIP:
            raise PlanError(f"on_skip is '{self.on_skip}'", hint=f"it is one of {', '.join(ON_SKIP)}")


class RowStream:
    """A clause over a stream of rows; it gives each match when no later row can change it (M44).

    After an error, load the last saved state.
    """

    def __init__(
        self,
        clause: StreamedClause,
        note: Callable[[Mapping[str, float]], None],
        told: Callable[[Ints], None],
    ) -> None:
        """Start without rows.

        Args:
            clause: the clause, and how to run it.
            note: called with figures, by name, of matches that become final.
            told: called with the rows whose order only hashes decide (S1.2).
        """
        clause.check()
        self._clause, self._bound, self._note, self._told = clause, clause.bound, note, told
        self._partitions = RowPartitions(
            program.compile_rows(self._bound),
            self._schema,
            clause.options,
            forgives=clause.on_skip == "past_last_row",
        )
        self._matches = 0

    @cached_property
    def _schema(self) -> pa.Schema:
        return _decode(input_of(self._bound, self._clause.columns.empty_table())).schema

    @property
    def figures(self) -> dict[str, float]:
        """The figures of the state and of the matches so far, by name."""
        return {**self._partitions.figures, "matches": self._matches}

    @property
    def alive(self) -> dict[str, int]:
        figures = self._partitions.figures
        return {"rows": figures["rows held"], "partitions": figures["open partitions"]}

    def feed(self, rows: RowBatch) -> Iterator[pa.Table]:
        """Take the next rows, in any order: later than all rows before; return the rows that become final."""
        table = self._prepare(rows.table)
        ordered = self._in_order(table) or sort_rows(self._bound, table, ties=self._ties)
        self._told(ordered.undecided)
        return self._to_tables(self._partitions.feed(ordered))

    def _prepare(self, table: pa.Table) -> pa.Table:
        """Return rows with the columns that the search holds."""
        if table.schema.equals(self._schema):
            return table.combine_chunks()
        names = [name for name in self._clause.columns.names if name in table.column_names]
        table = _decode(input_of(self._bound, table.select(names)))
        return table.select(self._schema.names).cast(self._schema).combine_chunks()

    def _in_order(self, table: pa.Table) -> Ordered | None:
        """Return the rows of one partition that are in order as they come; None: they need sorting."""
        if self._bound.partition or len(self._bound.order) > 1 or self._ties or not len(table):
            return None
        rank, nulls = ranks(table.column(self._bound.order[0].column), "")
        if nulls is not None or (rank[1:] < rank[:-1]).any():
            return None
        return Ordered(table, None, np.array([0, len(table)]), {})

    @cached_property
    def _ties(self) -> tuple[tuple[str, ...], ...]:
        return tie_columns(self._bound)

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Take the time before which no row will come; return the rows that become final."""
        return self._to_tables(self._partitions.advance(time))

    def flush(self) -> Iterator[pa.Table]:
        """Return the rows that the end of the stream makes final."""
        return self._to_tables(self._partitions.flush())

    def _to_tables(self, found: Iterable[FoundMatches]) -> Iterator[pa.Table]:
        """Return the tables of matches; the search is done before the first is taken."""
        tables = []
        for each in found:
            table = self._clause.show(each.rows, each.matches)
            self._matches += len(each.matches)
            self._note({"matches": len(each.matches), "rows of the result": len(table)})
            if len(table):
                tables.append(table)
        return iter(tables)

    def measure(self, *, by_partition: bool) -> Load:
        """Return upper bounds of the rows and bytes."""
        return self._partitions.measure(by_partition=by_partition)

    def census(self) -> Census:
        """Count the rows from the undecided start row of each partition on."""
        return self._partitions.census()

    def evict(self, places: Ints) -> Iterator[pa.Table]:
        """Let no match start with the oldest rows; return the rows of later matches that this decides."""
        return self._to_tables(self._partitions.evict(places))

    def save(self) -> bytes:
        """Return the state: the rows that are held, and where the search of each partition goes on.

        Nothing in it depends on how a search runs: any release can go on, with any part of the partitions.
        """
        table, states = self._partitions.save()
        facts = _to_bytes(_name_states(states))
        body = facts + _to_bytes(table)
        known = self._partitions.now, self._partitions.forgiven, self._matches, len(facts)
        return HEAD.pack(MAGIC, VERSION, self._meaning, _digest(body), *known) + body

    def load(self, state: bytes) -> None:
        """Go on from a saved state of the same clause.

        Raises:
            DataError: the bytes are damaged, or of another clause or version.
        """
        self.unite([state])

    def unite(self, states: Sequence[bytes], owns: OwnsRows | None = None, *, counts: bool = True) -> None:
        """Go on from saved states of the same clause over different partitions.

        Args:
            states: the states.
            owns: tells for rows whether their partition is wanted; None: all partitions are.
            counts: whether figures go on with those of the states; else they begin at 0.

        Raises:
            DataError: the bytes are damaged, or of another clause or version.
        """
        tables, numbers = [self._schema.empty_table()], [np.zeros((0, COLUMNS), np.int64)]
        self._partitions.now, self._partitions.forgiven, self._matches = INT64_MIN, 0, 0
        for state in states:
            now, forgiven, matches, size = self._check(state)
            body = state[HEAD.size :]
            facts, table = _read(body[:size]), _read(body[size:])
            kept, found = _choose(self._bound, table, _list_states(facts), owns)
            tables.append(kept.combine_chunks())
            numbers.append(found)
            self._partitions.now = max(now, self._partitions.now)
            if counts:
                self._partitions.forgiven += forgiven
                self._matches += matches
        self._partitions.load(pa.concat_tables(tables).combine_chunks(), np.concatenate(numbers))

    def _check(self, state: bytes) -> tuple[int, int, int, int]:
        if len(state) < HEAD.size or not state.startswith(MAGIC):
            raise DataError("these bytes are not a saved state of row patterns", hint="start afresh")
        _, version, meaning, digest, *known = HEAD.unpack_from(state)
        if version != VERSION:
            raise DataError(
                f"the saved state has format version {version}, this Cerise reads version {VERSION}",
                hint="load it with the version of Cerise that saved it, or start afresh",
            )
        if digest != _digest(state[HEAD.size :]):
            raise DataError("the saved state is damaged", hint="load an older copy, or start afresh")
        if meaning != self._meaning:
            raise DataError("the saved state is of another clause or of other columns", hint="start afresh")
        now, forgiven, matches, size = known
        return now, forgiven, matches, size

    @property
    def _meaning(self) -> bytes:
        return _digest(f"{self._bound.text}\n{self._schema}".encode())


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _name_states(states: Ints) -> pa.Table:
    """Return the states of partitions as a table with named columns."""
    return pa.table({name: pa.array(states[:, at]) for name, at in FACTS.items()})


def _list_states(facts: pa.Table) -> Ints:
    """Return the states of partitions, given by name."""
    states = np.zeros((len(facts), COLUMNS), np.int64)
    for name, at in FACTS.items():
        states[:, at] = facts.column(name).to_numpy()
    return states


def _choose(bound: BoundRows, table: pa.Table, states: Ints, owns: OwnsRows | None) -> tuple[pa.Table, Ints]:
    """Return the rows and states of the partitions that are wanted."""
    if owns is None or not len(table):
        return table, states
    offsets = partitions(bound, table)
    wanted = owns(table.take(pa.array(offsets[:-1])))
    return table.filter(pa.array(np.repeat(wanted, np.diff(offsets)))), states[wanted]


def _read(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(io.BytesIO(data)).read_all()


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _decode(table: pa.Table) -> pa.Table:
    """Return a table without dictionary codes, which differ from batch to batch."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(i).cast(field.type.value_type)
            table = table.set_column(i, field.with_type(field.type.value_type), column)
    return table
