"""Events: which column plays which part, and a batch of events in stream order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.errors import BindError, DataError, did_you_mean
from cerise.kinds import COMPUTABLE, TIMES, Kind, canonical, kind_of
from cerise.ties import Read, equal_neighbours, find_ties, float_rank, tie_order

Path = tuple[str, ...]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a source and the parts they play (S1.1, S1.2).

    Args:
        columns: the Arrow schema of the source.
        time: the column that says when an event happened.
        type: the column that holds the event's type.
        key: the columns that partition the events (as PARTITION BY).
        order: the columns that break ties between events of equal time.
        arrival: whether the order of the rows breaks the remaining ties. If not, a hash of the values that
            the query reads breaks them, and then those values.
    """

    columns: pa.Schema
    time: str
    type: str | None = None
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    arrival: bool = True

    def __post_init__(self) -> None:
        self._reject_duplicates()
        roles: dict[str, Sequence[str | None]] = {
            "time": [self.time],
            "type": [self.type],
            "key": self.key,
            "order": self.order,
        }
        for role, names in roles.items():
            for name in names:
                if not isinstance(name, str | None) or (name is None and role != "type"):
                    raise BindError(f"{role} is {name!r}, not the name of a column", hint=f'write {role}="…"')
                if name is not None and name not in self.columns.names:
                    raise BindError(
                        f"{role} column '{name}' is not in the events",
                        hint=did_you_mean(name, self.columns.names),
                    )
        self._check_kinds()

    def kind(self, path: Path) -> Kind:
        """Return the kind of an attribute; the path must exist."""
        return kind_of(self.type_of(path))

    def type_of(self, path: Path) -> pa.DataType:
        """Return the Arrow type of an attribute; the path must exist."""
        type_ = self.columns.field(path[0]).type
        for name in path[1:]:
            type_ = type_.field(name).type
        return type_

    def members(self, path: Path) -> list[str]:
        """Return the names that may follow a path: the columns, or the fields of a struct."""
        if not path:
            return list(self.columns.names)
        type_ = self.type_of(path)
        return [type_.field(i).name for i in range(type_.num_fields)] if pa.types.is_struct(type_) else []

    def _reject_duplicates(self) -> None:
        twice = [name for name, count in Counter(self.columns.names).items() if count > 1]
        if twice:
            raise BindError(
                f"the events have more than one column named {', '.join(map(repr, twice))}",
                hint="rename or drop one of them before the query",
            )

    def _check_kinds(self) -> None:
        if self.kind((self.time,)) not in TIMES:
            raise BindError(
                f"time column '{self.time}' is a {self.columns.field(self.time).type}, which is not a time",
                hint="use a timestamp, a date or an integer; cast the column first",
            )
        if self.type is not None and self.kind((self.type,)) not in (Kind.STRING, Kind.INT, Kind.NULL):
            raise BindError(
                f"type column '{self.type}' has type {self.columns.field(self.type).type}",
                hint="the type column holds names: use a string or an integer column",
            )
        for name in (*self.key, *self.order):
            if self.kind((name,)) not in COMPUTABLE:
                raise BindError(
                    f"column '{name}' of type {self.columns.field(name).type} cannot be key or order",
                    hint="use columns of simple types",
                )


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Some events in stream order: their columns, times and positions in the stream.

    Attributes:
        schema: which column plays which part.
        table: the columns; columns that matching does not read may be missing.
        times: when each event happened.
        positions: the position of each event in the stream.
        equals: how many equal events precede each event in the stream; None: all equal events are in this
            batch, so they can be counted.
        opens: whether a match may start with each event; None: with any event. When a stream is cut into
            slices, every match belongs to the slice that it starts in.
    """

    schema: Schema
    table: pa.Table
    times: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    equals: npt.NDArray[np.uint64] | None = None
    opens: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        table: pa.Table,
        schema: Schema,
        *,
        reads: Sequence[Sequence[Path]] = (),
        then: Sequence[Path] = (),
        start: int = 0,
    ) -> EventBatch:
        """Put a table into stream order (S1.2).

        Args:
            table: the events, in arrival order.
            schema: which column plays which part.
            reads: the attributes that the query reads (`Bound.ties`); they break ties if arrival does not.
            then: attributes whose values break the ties that the order columns leave.
            start: the position of the first event.
        """
        times = read_times(table, schema)
        tiers = () if schema.arrival else tuple(reads)
        order = _stream_order(table, schema, times, [*((name,) for name in schema.order), *then], tiers)
        if order is not None:
            table, times = table.take(pa.array(order)), times[order]
        return cls(schema, table, times, np.arange(start, start + len(times), dtype=np.int64))

    @classmethod
    def in_order(cls, table: pa.Table, schema: Schema, *, start: int = 0) -> EventBatch:
        """Take a table whose rows are in stream order already."""
        times = read_times(table, schema)
        return cls(schema, table, times, np.arange(start, start + len(times), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.times)

    def column(self, path: Path) -> pa.Array:
        """Return an attribute in canonical form."""
        return read_column(self.table, self.schema, path)

    def columns(self, paths: Iterable[Path]) -> dict[Path, list[Any]]:
        """Return attributes as lists of plain Python values."""
        return {path: self.column(path).to_pylist() for path in paths}

    def slice(self, start: int, stop: int) -> EventBatch:
        """Return the events from index start up to stop."""
        return EventBatch(
            self.schema,
            self.table.slice(start, stop - start),
            self.times[start:stop],
            self.positions[start:stop],
            None if self.equals is None else self.equals[start:stop],
            None if self.opens is None else self.opens[start:stop],
        )

    def take(self, rows: Ints, equals: npt.NDArray[np.uint64] | None = None) -> EventBatch:
        """Return the events at some rows, which ascend; `opens` is left out.

        Args:
            rows: the rows.
            equals: how many equal events precede each of these events; None: as this batch says.
        """
        if equals is None and self.equals is not None:
            equals = self.equals[rows]
        table = self.table.take(pa.array(rows))
        return EventBatch(self.schema, table, self.times[rows], self.positions[rows], equals)


def concat_events(parts: Sequence[EventBatch]) -> EventBatch:
    """Concatenate batches of a stream, one or more, whose equal events are counted."""
    if len(parts) == 1:
        return parts[0]
    return EventBatch(
        parts[0].schema,
        pa.concat_tables([part.table for part in parts]),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.positions for part in parts]),
        np.concatenate([part.equals for part in parts if part.equals is not None]),
    )


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows in arrival order: the search for a row pattern sorts them itself.

    Attributes:
        table: the columns.
        opens: whether a match may start with each row; None: with any row.
    """

    table: pa.Table
    opens: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.table)


def read_column(table: pa.Table, schema: Schema, path: Path) -> pa.Array:
    """Return the attribute at a path in canonical form (see `kinds.canonical`)."""
    values = raw_column(table, path)
    return canonical(values, schema.kind(path), ".".join(path))


def raw_column(table: pa.Table, path: Path) -> pa.Array:
    """Return the attribute at a path as it is stored; fields of a null struct are null."""
    column = table.column(path[0])
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return pc.struct_field(values, list(path[1:])) if len(path) > 1 else values


def read_times(table: pa.Table, schema: Schema) -> npt.NDArray[np.int64]:
    """Return the time of each row as an integer.

    Raises:
        DataError: a time is null; the message lists the rows.
    """
    times = read_column(table, schema, (schema.time,))
    if times.null_count:
        rows = np.flatnonzero(np.asarray(times.is_null()))
        shown = ", ".join(str(row) for row in rows[:5]) + (", …" if len(rows) > 5 else "")
        raise DataError(
            f"{len(rows)} of {len(times)} events have no time: '{schema.time}' is null in rows {shown}",
            hint=f"rows count from 0; filter them out first: WHERE {schema.time} IS NOT NULL",
        )
    return np.asarray(times, dtype=np.int64)


def _stream_order(
    table: pa.Table, schema: Schema, times: Ints, paths: Sequence[Path], tiers: Sequence[Sequence[Path]]
) -> Ints | None:
    """Return the row numbers in stream order, or None if the rows are in stream order already.

    Args:
        table: the events.
        schema: which column plays which part.
        times: when the events happened.
        paths: the attributes whose values break ties.
        tiers: the attributes whose hashes break the remaining ties (`ties.tie_order`).
    """
    order = None if bool(np.all(times[1:] >= times[:-1])) else np.argsort(times, kind="stable")
    if not (paths or tiers):
        return order
    ordered = times if order is None else times[order]
    tied = find_ties(ordered[1:] == ordered[:-1])
    if not len(tied):
        return order
    rows = tied if order is None else order[tied]
    ranked = rows[_sort_by_values(table, schema, times, paths, rows)] if paths else rows
    ranked = _sort_by_hash(table, schema, times, paths, tiers, ranked) if tiers else ranked
    if order is None and bool(np.all(ranked == rows)):
        return None
    order = np.arange(len(times)) if order is None else order
    order[tied] = ranked
    return order


def _sort_by_hash(
    table: pa.Table,
    schema: Schema,
    times: Ints,
    paths: Sequence[Path],
    tiers: Sequence[Sequence[Path]],
    rows: Ints,
) -> Ints:
    """Order the rows that are still equal in time and in `paths` by the hashes of `tiers`."""
    same = times[rows[1:]] == times[rows[:-1]]
    if paths:
        some = table.select(list({path[0] for path in paths})).take(pa.array(rows))
        for path in paths:
            same &= equal_neighbours(read_column(some, schema, path))
    at = find_ties(same)
    tied, groups = rows[at], np.cumsum(np.append(True, ~same))[at]

    def read(tier: Sequence[Path]) -> Read:
        names = list({path[0] for path in tier})

        def columns(which: Ints) -> list[pa.Array]:
            some = table.select(names).take(pa.array(tied[which]))
            return [raw_column(some, path) for path in tier]

        return columns

    rows = rows.copy()
    rows[at] = tied[tie_order(groups, [read(tier) for tier in tiers])]
    return rows


def _sort_by_values(table: pa.Table, schema: Schema, times: Ints, ties: Sequence[Path], rows: Ints) -> Ints:
    """Return the order by time and by the values of `ties`, of rows that are in the order of time."""
    some = table.select(list(dict.fromkeys(path[0] for path in ties))).take(pa.array(rows))
    columns = [read_column(some, schema, path) for path in ties]
    if len(columns) == 1 and pa.types.is_int64(columns[0].type) and not columns[0].null_count:
        quick = sort_by_time_and_number(times[rows], np.asarray(columns[0]))
        if quick is not None:
            return quick
    keys = {"0": pa.array(times[rows])}
    for path, column in zip(ties, columns, strict=True):
        keys[str(len(keys))] = column.is_valid()  # nulls first
        keys[str(len(keys))] = float_rank(column) if schema.kind(path) is Kind.FLOAT else column
    ranked = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return np.asarray(ranked, dtype=np.int64)


def sort_by_time_and_number(
    times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64] | None:
    """Return the order by time and a number, of rows that are in the order of time.

    Packs both into one word: the words are nearly sorted, which a stable sort is fast on. None if 62 bits
    cannot hold both.
    """
    least, moments = int(numbers.min()), np.cumsum(np.append(False, times[1:] != times[:-1]), dtype=np.int64)
    bits = (int(numbers.max()) - least).bit_length()
    if bits + int(moments[-1]).bit_length() > 62:
        return None
    return np.argsort((moments << bits) | (numbers - least), kind="stable")
