"""The access path to lake files: row groups that statistics do not rule out, read by slice or by portion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from cerise.engines.limits import DEFAULT, Limits
from cerise.events import EventBatch, RowBatch
from cerise.files.lake import Group, Lake
from cerise.files.reader import Reading
from cerise.files.scan import ROW, RowFilter, Scan
from cerise.plan.needs import Needs
from cerise.plan.slicing import MAX_TIME, MIN_TIME, Halo, Slice, slices
from cerise.run.question import Batch, Note

WORTH_A_THREAD = 1_000_000  # events
GLANCED = 3  # files of which some rows are looked at before a plan


@dataclass(frozen=True)
class FilesAccess:
    """The access path to Parquet files, which tasks or threads read.

    Attributes:
        needs: the needs of the questions.
        reading: how files are read.
        groups: the row groups that may hold events that matter.
        known: the numbers of events and row groups, before and after pruning.
        coded: the columns with few distinct strings, read as codes.
        limits: how many events are read together.
    """

    needs: Needs
    reading: Reading
    groups: tuple[Group, ...]
    known: dict[str, float] = field(default_factory=dict)
    coded: tuple[str, ...] = ()
    limits: Limits = DEFAULT
    worth: int = WORTH_A_THREAD

    @classmethod
    def of(cls, lake: Lake, needs: Needs, limits: Limits = DEFAULT) -> FilesAccess:
        """Return the access path to a lake; reads the footers, to leave out row groups that cannot matter."""
        names = needs.columns.names
        if needs.roles is not None:
            groups = lake.list_event_groups(needs.roles, needs.filter)
        elif needs.clock is not None:
            groups = lake.list_groups_by_time(
                needs.clock.column, nulls_first=needs.clock.nulls_first, needed=needs.filter
            )
        else:
            groups = lake.list_groups(needs.filter)
        known: dict[str, float] = {
            "events": lake.rows,
            "events after pruning": sum(each.span.rows for each in groups),
            "row groups": lake.groups,
            "row groups after pruning": len(groups),
        }
        files = {each.file: lake.files[each.file] for each in groups}
        coded = lake.choose_code_columns(names)
        reads_coded = tuple(name for name in coded if name in needs.reads)
        schema = needs.roles or lake.columns
        reading = Reading(lake.root, files, schema, needs.reads, needs.late, reads_coded, needs.filter)
        return cls(needs, reading, tuple(groups), known, coded, limits)

    @property
    def rows(self) -> int:
        """How many events the row groups have after pruning."""
        return sum(each.span.rows for each in self.groups)

    def split(self, halo: Halo, most: int, *, amplified: float) -> list[Slice]:
        return slices([each.span for each in self.groups], halo, most, amplified=amplified)

    def open(self, part: Slice | None, halo: Halo) -> FilesReader:
        if part is None:
            part = slices([each.span for each in self.groups], Halo(), 1)[0]
        return FilesReader(self, part, halo)

    def portions(self, count: int) -> Sequence[tuple[Group, ...]]:
        """Split the row groups into portions of about the same number of events."""
        total = self.rows
        portions: list[list[Group]] = [[]]
        seen = 0
        for each in self.groups:
            if seen >= total * len(portions) / count and portions[-1]:
                portions.append([])
            portions[-1].append(each)
            seen += each.span.rows
        return tuple(map(tuple, portions))

    def tables(self, portion: tuple[Group, ...], note: Note) -> Iterator[pa.Table]:
        """Yield the row groups of a portion with all columns, and the numbers of their rows."""
        names = tuple(self.needs.columns.names)
        reading = replace(self.reading, reads=names, late=(), coded=self.coded)
        scan = Scan(reading, portion)
        yield from scan.tables() if self.needs.roles is not None else scan.rows()
        _count(scan, note)

    def keep_rows(
        self, portion: tuple[Group, ...], names: Sequence[str], keep: RowFilter, note: Note
    ) -> Iterator[pa.Table]:
        """Yield columns of the rows of a portion that a filter keeps, and the numbers of the rows."""
        coded = tuple(name for name in self.coded if name in names)
        reading = replace(self.reading, reads=tuple(names), late=(), coded=coded)
        scan = Scan(reading, portion, self.limits, keep)
        yield from scan.tables() if self.needs.roles is not None else scan.rows()
        _count(scan, note)

    def glance(self, names: Sequence[str], rows: int) -> pa.Table:
        """Return columns of the first rows of three files; of one file, where its row group has more."""
        firsts = list({each.file: each for each in reversed(self.groups)}.values())[::-1]
        chosen = [firsts[len(firsts) * i // GLANCED] for i in range(min(GLANCED, len(firsts)))]
        if chosen and chosen[0].span.rows > rows:
            chosen = chosen[:1]  # a row group is read as a whole
        reading = replace(self.reading, reads=tuple(names), coded=(), needed=None)
        tables = [Scan(reading, [each]).first_rows(rows // len(chosen)) for each in chosen]
        return pa.concat_tables(tables) if tables else self.needs.columns.empty_table().select(list(names))

    def count_rows(self, slices: Sequence[Slice | None]) -> int:
        if slices == (None,):
            return self.rows
        return sum(self.groups[i].span.rows for part in slices if part is not None for i in part.reads)

    def sample(self, most: int) -> tuple[EventBatch, float] | None:
        """Return the first events of the row group in the middle."""
        if self.needs.roles is None or not self.groups:
            return None
        middle = self.groups[len(self.groups) // 2]
        found = next(Scan(self.reading, [middle], self.limits).events(None, Halo()), None)
        if found is None or not len(found):
            return None
        spans = [each.span for each in self.groups]
        covered = sum(each.last - each.first + 1 for each in spans)
        whole = max(each.last for each in spans) - min(each.first for each in spans) + 1
        return found.slice(0, most), max(1.0, covered / whole)

    def counters(self) -> dict[str, int]:
        return {}

    def explain(self) -> dict[str, str]:
        """Return by topic which files, row groups and columns are read."""
        known, reading, needs = self.known, self.reading, self.needs
        groups = f"{known['row groups after pruning']} of {known['row groups']} row groups"
        pruned = f"{groups}, {known['events after pruning']:,} of {known['events']:,} events"
        files = f"{len(reading.files)} Parquet files of {reading.root}"
        return {
            "scan": files + (f", without {reading.deleted:,} deleted rows" if reading.deleted else ""),
            "pruned": pruned + ("" if needs.why_all is None else f"; nothing is left out: {needs.why_all}"),
            "columns": f"matching reads {', '.join(reading.reads)}"
            + (f"; of matched events also {', '.join(reading.late)}" if reading.late else ""),
        }


class FilesReader:
    """Reads one slice of files."""

    def __init__(self, access: FilesAccess, part: Slice, halo: Halo) -> None:
        groups = [access.groups[i] for i in part.reads]
        self._needs, self._part, self._halo = access.needs, part, halo
        if access.needs.roles is None:
            groups.sort(key=lambda each: each.place)
        self._scan = Scan(access.reading, groups, access.limits)

    def read(self) -> Iterator[Batch]:
        """Yield events in stream order; for row patterns, rows in arrival order."""
        if self._needs.roles is not None:
            whole = (self._part.start, self._part.stop) == (MIN_TIME, MAX_TIME)
            yield from self._scan.events(None if whole else self._part, self._halo)
            return
        for table in self._scan.rows():
            yield RowBatch(self._clip(table.drop_columns([ROW])))

    def _clip(self, table: pa.Table) -> pa.Table:
        """Leave out rows before or after the slice and its halo."""
        part, halo, clock = self._part, self._halo, self._needs.clock
        kept = np.ones(len(table), np.bool_)
        if clock is not None and part.start != MIN_TIME and not halo.preceding:
            kept &= clock.times(table) >= part.start
        if clock is not None and part.stop + halo.after < MAX_TIME and not halo.events:
            kept &= clock.times(table) < part.stop + halo.after
        return table if kept.all() else table.filter(pa.array(kept))

    def complete(self, events: EventBatch) -> EventBatch:
        """Return matched events with the columns that are only returned."""
        return self._scan.complete(events)

    def close(self, note: Note) -> None:
        _count(self._scan, note)


def _count(scan: Scan, note: Note) -> None:
    counts = scan.counts
    read = {"row groups read": counts.groups, "events read": counts.rows}
    for name, value in {**read, "bytes read": counts.bytes + counts.late_bytes}.items():
        note[name] = note.get(name, 0) + value
