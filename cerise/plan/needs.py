"""The needs of questions: which columns and rows of events, in which order, how far around a slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from cerise.events import Ints, Path, Schema, raw_column, read_times
from cerise.kinds import COMPUTABLE, Kind, canonical, kind_of
from cerise.plan.pushdown import Needed
from cerise.plan.slicing import MAX_TIME, MIN_TIME, SHARE, Halo, Targets
from cerise.ties import UInts, hash_columns


@dataclass(frozen=True, slots=True)
class Clock:
    """The time column of a row pattern, the first of ORDER BY; rows with a null time come first, or last.

    Only row patterns allow null times: every event has a time.
    """

    column: str
    nulls_first: bool = True

    def times(self, table: pa.Table, missing: int | None = None) -> Ints:
        """Return the time of each row; for null times `missing`, by default the first or last time."""
        column = raw_column(table, (self.column,))
        last = MIN_TIME if self.nulls_first else MAX_TIME
        times = canonical(column, kind_of(column.type), self.column)
        return np.ascontiguousarray(times.fill_null(last if missing is None else missing), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of one question, or of several questions together.

    Attributes:
        columns: the columns that travel to the search, in schema order.
        reads: the columns that the search reads.
        late: the columns that are only returned, and fetched after matching, for matched events.
        roles: the stream order that the search expects; None: rows come in arrival order, and it sorts them.
        ties: attributes whose hashes order events that are still tied, in tiers (S1.2).
        clock: the time column that cuts rows into slices, if `roles` is None.
        partition: the attributes whose equal values one search must have together.
        filter: tests of the rows that can matter; None: all rows can.
        why_all: why all rows can matter.
        halo: the events that a slice of time needs around it, or why the source cannot be cut by time.
        chain: the halo of slices that give candidates, among which one search chooses; None: no chain.
        not_null: attributes that are not null in any row that matters.
        computed: SQL that the host of the source computes, by column.
    """

    columns: pa.Schema
    reads: tuple[str, ...]
    late: tuple[str, ...] = ()
    roles: Schema | None = None
    ties: tuple[tuple[Path, ...], ...] = ()
    clock: Clock | None = None
    partition: tuple[Path, ...] = ()
    filter: Needed | None = None
    why_all: str | None = None
    halo: Halo | str = ""
    chain: Halo | None = None
    not_null: tuple[Path, ...] = ()
    computed: Mapping[str, str] = field(default_factory=dict)

    def times(self, table: pa.Table) -> Ints:
        """Return the time of each row of a table that is exchanged.

        Raises:
            DataError: an event has no time; rows for a row pattern may.
        """
        if self.roles is not None:
            return read_times(table, self.roles)
        assert self.clock is not None
        return self.clock.times(table, missing=0)

    def keys(self, table: pa.Table) -> UInts | None:
        """Return a hash of the partition of each row; None: all rows are one partition."""
        return hash_partition(table, self.partition)

    def targets(self, count: int) -> Targets | str:
        """Return the targets of exchanged rows, or the reason why one task must have all rows."""
        if isinstance(self.halo, Halo) and not (self.halo.events or self.halo.preceding):
            length = min(SHARE * max(self.halo.after, self.halo.before, 1), MAX_TIME)
            return Targets(count, length, self.halo)
        if self.partition:
            return Targets(count, None, Halo())
        if isinstance(self.halo, str):
            return self.halo
        if self.roles is None:
            return "PREV and NEXT ask for rows by their position among all"
        return "the window counts events, and their positions are not known"


def fold(several: Sequence[Needs]) -> Needs:
    """Return the combined needs of questions over the same source."""
    first = several[0]
    assert first.roles is not None
    used = {name for each in several for name in each.columns.names}
    columns = pa.schema([each for each in first.roles.columns if each.name in used])
    reads = {name for each in several for name in each.reads}
    whys = [each.why_all for each in several if each.why_all is not None]
    return Needs(
        columns=columns,
        reads=tuple(name for name in columns.names if name in reads),
        late=tuple(name for name in columns.names if name not in reads),
        roles=first.roles,
        ties=first.ties,
        partition=first.partition if len({each.partition for each in several}) == 1 else (),
        filter=any_filter([each.filter for each in several]),
        why_all=whys[0] if whys else None,
        halo=_widest([each.halo for each in several]),
        not_null=tuple(set.intersection(*(set(each.not_null) for each in several))),
    )


def hash_partition(table: pa.Table, partition: Sequence[Path]) -> UInts | None:
    """Return a hash of the partition of each row; None: all rows are one partition."""
    if not partition:
        return None
    return hash_columns((_hashable(table, path) for path in partition), len(table))


def any_filter(filters: Sequence[Needed | None]) -> Needed | None:
    """Return the tests of rows that matter to any of several questions; None: all rows matter to one."""
    known = [each for each in filters if each is not None]
    if len(known) < len(filters):
        return None
    return tuple(dict.fromkeys(tests for each in known for tests in each))


def _widest(halos: Sequence[Halo | str]) -> Halo | str:
    for number, each in enumerate(halos, 1):
        if isinstance(each, str):
            return f"query {number}: {each}"
    known = [each for each in halos if isinstance(each, Halo)]
    return Halo(*(max(getattr(each, name) for each in known) for name in ("before", "after", "events")))


def _hashable(table: pa.Table, path: Path) -> tuple[pa.Array, Kind]:
    column = raw_column(table, path)
    kind = kind_of(column.type)
    if kind is Kind.STRING and pa.types.is_dictionary(column.type):
        return column, kind
    if kind in COMPUTABLE:
        return canonical(column, kind, ".".join(path)), kind
    return column.cast(pa.string()), Kind.STRING
