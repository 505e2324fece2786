"""MATCH_RECOGNIZE without PARTITION BY on Spark: slices of time, each searched by one task (D3).

Over files in the order of time, tasks read the row groups of their slices themselves. Where matches depend on
those before them, they find candidates (`engines.rows.chain`), and one task goes through these in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.results.row_matches import Ints, RowMatches
from cerise.engines.rows import engine
from cerise.engines.rows.output import to_atoms
from cerise.engines.rows.prepare import prepare
from cerise.engines.rows.program import compile_rows
from cerise.engines.rows.search_input import Ground
from cerise.engines.rows.slices import (
    Candidates,
    Chain,
    Searched,
    SliceSearch,
    Stretch,
    numbered,
    picked,
    times_of,
)
from cerise.engines.rows.view import places
from cerise.errors import CeriseError
from cerise.files.scan import ROW
from cerise.pattern.row_pattern import BoundRows
from cerise.plan.overlap import Targets
from cerise.plan.row_slices import numbers
from cerise.spark.exchange import NUMBERS, blob, placed
from cerise.spark.report import RESULT, Note, Records, count, exchanged, note_ties
from cerise.spark.row_plan import RowSlices

CANDIDATES = "slice int, part int, starts binary, resumes binary, known binary, rows binary"
MATCH = "__cerise_match"  # which match of its slice a row of the result belongs to


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    return (each for batch in batches for each in batch.column(0).to_pylist())


def tell_ties(note: Note, options: Options, undecided: Ints) -> None:
    """Note how many rows only hashes order; an error under strict."""
    note_ties(note, len(undecided), strict=options.strict)


def _offsets(table: pa.Table) -> Ints:
    return np.array([0, len(table)], np.int64)


def _ground(bound: BoundRows, table: pa.Table) -> Ground:
    return engine.ground_of(compile_rows(bound), table, _offsets(table))


def _ready(sliced: RowSlices, number: int, note: Note | None = None) -> tuple[pa.Table, Searched]:
    """Read the rows that a slice needs, and make it ready to be searched; note its ties."""
    table, own = sliced.read(number, None if note is None else partial(tell_ties, note, sliced.options))
    return table, Searched(_ground(sliced.bound, table), own, sliced.options)


@dataclass(frozen=True, slots=True)
class SliceRowsTask:
    """Searches slices whose matches do not depend on others."""

    sliced: RowSlices
    records: Records = Records()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what measures are computed from, for the slices whose numbers are given."""
        bound, options = self.sliced.bound, self.sliced.options
        with self.records.noted("match", self.records.task()) as note:
            for number in _numbers(batches):
                table, own = self.sliced.read(number, partial(tell_ties, note, options))
                count(note, "events matched over", len(table))
                for matches in engine.search(_ground(bound, table), (own.low, own.high), options):
                    found = to_atoms(bound, table, _offsets(table), matches)
                    count(note, RESULT, len(found))
                    yield from found.to_batches(options.limits.output_rows)


@dataclass(frozen=True, slots=True)
class TimeRowsTask:
    """Searches the rows that blobs bring, which were cut by time."""

    bound: BoundRows
    options: Options
    targets: Targets
    records: Records = Records()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what measures are computed from, for the matches that start in a target's own rows."""
        places = NUMBERS(self.targets.count)
        with self.records.noted("match", self.records.task()) as note:
            for place, table in placed(batches):
                count(note, "events matched over", len(table))
                names = [name for name in table.column_names if name != ROW]
                undecided: list[Ints] = []
                prepared = prepare(self.bound, table.select(names), undecided.append)
                target = self.targets.of(times_of(self.bound, prepared, none=0), None)[0][1]
                own = target == places.index(place)
                tell_ties(note, self.options, undecided[0][own[undecided[0]]])
                ground, whole = _ground(self.bound, prepared), Stretch(0, len(prepared))
                search = SliceSearch(ground, whole, self.options)
                for matches in search.starting_in(own):
                    found = to_atoms(self.bound, prepared, _offsets(prepared), matches)
                    count(note, RESULT, len(found))
                    yield from found.to_batches(self.options.limits.output_rows)


@dataclass(frozen=True, slots=True)
class RowCandidatesTask:
    """Finds the candidates of slices."""

    sliced: RowSlices
    records: Records = Records()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield for each slice what is known of it, and what the measures of its candidates are made of."""
        with self.records.noted("match", self.records.task()) as note:
            for number in _numbers(batches):
                yield from exchanged(self._candidates(number, note), note)

    def _candidates(self, number: int, note: Note) -> Iterator[pa.RecordBatch]:
        table, searched = _ready(self.sliced, number, note)
        count(note, "events matched over", len(table))
        matches, found = searched.candidates()
        try:
            tables = self._rows(matches, table)
        except CeriseError:  # of a candidate that nobody may come to: whoever does will search again
            found, tables = _nothing(found), [None]
        for part, table in enumerate(tables):
            yield _sent(number, part, found, table)

    def _rows(self, matches: RowMatches, table: pa.Table) -> list[pa.Table | None]:
        """Return what measures are made of, not too much in one table."""
        bound = self.sliced.bound
        sizes = np.cumsum(matches.lengths + 1) // self.sliced.options.limits.blob_events
        tables: list[pa.Table | None] = []
        for size in np.unique(sizes).tolist():
            which = np.flatnonzero(sizes == size)
            some = picked(matches, which)
            atoms = to_atoms(bound, table, _offsets(table), some)
            tables.append(atoms.append_column(MATCH, pa.array(which[places(bound, some).match])))
        return tables or [None]


def _nothing(found: Candidates) -> Candidates:
    none = np.zeros(0, np.int64)
    return Candidates(none, none, np.zeros_like(found.known))


def _sent(number: int, part: int, found: Candidates, rows: pa.Table | None) -> pa.RecordBatch:
    known = [each.tobytes() if part == 0 else None for each in (found.starts, found.resumes, found.known)]
    arrays = [
        pa.array([number], pa.int32()),
        pa.array([part], pa.int32()),
        *(pa.array([each], pa.binary()) for each in known),
        pa.array([None], pa.binary()) if rows is None else blob(0, rows).column(1),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[each.split()[0] for each in CANDIDATES.split(", ")])


@dataclass(frozen=True, slots=True)
class RowChainTask:
    """Goes through the slices in order, and takes the candidates that are on the way."""

    sliced: RowSlices
    records: Records = Records()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what measures are computed from, for the matches that are taken."""
        with self.records.noted("chain", self.records.task()) as note:
            for table in self._taken(batches):
                count(note, RESULT, len(table))
                yield from table.to_batches(self.sliced.options.limits.output_rows)

    def _taken(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        chain = Chain()
        parts = (row for batch in batches for row in batch.to_pylist())
        for number, some in groupby(parts, key=lambda row: row["slice"]):
            received = _Received.of(self.sliced, number, list(some))
            for before, taken in chain.through(received.found, received.search_on):
                yield from received.atoms(before, taken)


@dataclass(slots=True)
class _Received:
    """A slice as its task sent it; it is read and searched again only where it must be."""

    sliced: RowSlices
    number: int
    found: Candidates
    tables: list[pa.Table]
    again: tuple[pa.Table, Searched] | None = None

    @classmethod
    def of(cls, sliced: RowSlices, number: int, parts: Sequence[dict[str, Any]]) -> _Received:
        """Return what the parts that were sent are together."""
        starts, resumes = (np.frombuffer(parts[0][name], np.int64).copy() for name in ("starts", "resumes"))
        found = Candidates(starts, resumes, np.frombuffer(parts[0]["known"], np.uint8).copy())
        tables = [pa.ipc.open_stream(part["rows"]).read_all() for part in parts if part["rows"]]
        return cls(sliced, number, found, tables)

    def search_on(self, row: int, found: Candidates) -> tuple[RowMatches, int]:
        """Search on where the task has not."""
        if self.again is None:
            self.again = _ready(self.sliced, self.number)
        return self.again[1].search_on(row, found)

    def atoms(self, before: int, taken: Ints | RowMatches) -> Iterator[pa.Table]:
        """Yield what the measures of matches are computed from, where so many matches are before them."""
        if isinstance(taken, RowMatches):
            assert self.again is not None
            rows = self.again[0]
            yield to_atoms(self.sliced.bound, rows, _offsets(rows), numbered(taken, before))
            return
        number_of = np.zeros(len(self.found.starts), np.int64)
        number_of[taken] = np.arange(before + 1, before + 1 + len(taken))
        yield from (self._taken(table, number_of) for table in self.tables)

    def _taken(self, table: pa.Table, number_of: Ints) -> pa.Table:
        """Return the rows of matches that have a number, with it."""
        number = number_of[table.column(MATCH).to_numpy()]
        table = table.filter(pa.array(number > 0)).drop_columns([MATCH])
        for name in numbers(self.sliced.bound):
            at = table.column_names.index(name)
            table = table.set_column(at, table.schema.field(at), pa.array(number[number > 0]))
        return table
