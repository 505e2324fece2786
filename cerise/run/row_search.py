"""MATCH_RECOGNIZE clauses as questions: a search collects rows, then sorts and searches them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.base import Bools, Ints, Options, RowMatches, concat_matches
from cerise.engines.limits import Limits
from cerise.engines.row_streams.row_stream import RowStream, StreamedClause
from cerise.engines.rows import engine, program
from cerise.engines.rows.order import Ordered
from cerise.engines.rows.output import measure_atoms, show_atoms, show_matches, to_atoms
from cerise.engines.rows.prepare import needed_columns, prepare, read_by
from cerise.engines.rows.slices import (
    Chain,
    SearchedSlice,
    SliceCandidates,
    SliceSearch,
    Stretch,
    number_matches,
    pick,
    stretch_of,
)
from cerise.engines.rows.table_search import Display, halo_of, search_table
from cerise.engines.rows.view import places
from cerise.errors import CeriseError
from cerise.events import RowBatch
from cerise.pattern.evaluate import OnFault
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import BoundRows, Shown
from cerise.plan.needs import Clock, Needs
from cerise.plan.row_needs import is_chained, needed_rows, numbers, why_no_skip
from cerise.plan.slicing import MAX_TIME, Halo, Slice
from cerise.run.question import Again, Alone, Work, add, concat
from cerise.run.report import RESULT, TIES, refuse_ties, to_bytes

OPENS = "__cerise_opens"  # whether a match may start with a row
MATCH = "__cerise_match"  # the number, in its slice, of the match that a row of the result belongs to
CANDIDATES = pa.schema(
    [("slice", pa.int32()), ("part", pa.int32())]
    + [(name, pa.binary()) for name in ("starts", "resumes", "known", "rows")]
)


@dataclass(frozen=True)
class RowClause(Alone):
    """A bound MATCH_RECOGNIZE clause.

    Attributes:
        bound: the clause.
        options: how to run it; the engine decides whether one partition can be cut.
        atoms: whether a search gives atoms, from which `finish` or Spark computes the measures.
        host: whether the host of the source, Spark, computes columns and measures by its own rules.
    """

    bound: BoundRows
    options: Options
    atoms: bool = False
    host: bool = False

    @property
    def outer(self) -> RowClause:
        """The clause itself, because a clause has no inner question."""
        return self

    @cached_property
    def needs(self) -> Needs:
        """The columns and rows that the clause needs, and how its rows can be divided."""
        bound, names = self.bound, self._names()
        wanted = needed_rows(bound)
        halo, chain = self._halos()
        columns = pa.schema([pa.field(name, bound.type_of(name)) for name in names])
        timed = bool(bound.order) and bound.order[0].column in names
        if not timed and not isinstance(chain or halo, str):
            halo, chain = "the rows are ordered by an expression", None
        parted = all(name in names for name in bound.partition)
        return Needs(
            columns=columns,
            reads=names,
            clock=Clock(bound.order[0].column, bound.order[0].nulls_first)
            if timed and not isinstance(chain or halo, str)
            else None,
            partition=tuple((name,) for name in bound.partition) if parted else (),
            filter=wanted,
            why_all=None if wanted is not None else why_no_skip(bound) or "a variable fits every row",
            halo=halo,
            chain=chain,
            computed={each.name: each.sql for each in bound.derived if self.host},
        )

    def _halos(self) -> tuple[Halo | str, Halo | None]:
        found = halo_of(self.bound, self.options)
        if self.bound.partition:
            return "the rows of a partition are searched together", None
        if isinstance(found, str) or not is_chained(self.bound):
            return found, None
        return "which rows start a match, or their numbers, depend on the matches before", found

    def _names(self) -> tuple[str, ...]:
        """Return the columns that travel to the search: of the input, or computed from it by its host.

        The search itself computes columns that only conditions need, if Cerise can compute them: then a
        value that cannot be computed is null instead of an error (S4.6).
        """
        bound = self.bound
        measured = {name for each in bound.measures for name in each.atoms}
        shown = {column for name in measured for column in read_by(bound.atoms[name])}
        shown |= {*bound.partition, *(each.column for each in bound.order)}
        needed = set(needed_columns(bound))
        for each in bound.derived:
            if each.name in needed and each.expr is not None and (not self.host or each.name not in shown):
                needed -= {each.name}
                needed |= {attr.path[0] for attr in attributes(each.expr)}
        names = [*bound.columns.names, *(each.name for each in bound.derived)]
        found = tuple(name for name in names if name in needed)
        return found or tuple(names[:1])  # one column gives the number of rows

    @cached_property
    def result(self) -> pa.Schema:
        return show_matches(self.bound, self._no_rows(), concat_matches([])).schema

    @cached_property
    def partial(self) -> pa.Schema:
        empty = concat_matches([])
        return show_atoms(self.bound, self._no_rows(), empty).schema if self.atoms else self.result

    def _no_rows(self) -> Ordered:
        empty = prepare(self.bound, self.needs.columns.empty_table())
        return Ordered(empty, None, np.zeros(1, np.int64), {})

    def display(self, limits: Limits, forgive: OnFault | None = None) -> Display:
        """Return the function that makes a table of matches among rows."""
        if self.atoms:
            return partial(show_atoms, self.bound)
        return partial(show_matches, self.bound, limits=limits, forgive=forgive)

    def finish(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Combine the tables of all searches; compute measures from atoms."""
        if self.atoms:
            atoms = concat(parts, self.partial)
            return self._decode(measure_atoms(self.bound, atoms, self.options.limits))
        return self._decode(concat(parts, parts[0].schema if parts else self.result))

    def _decode(self, table: pa.Table) -> pa.Table:
        """Return the answer with strings instead of dictionary codes, unless the input has dictionaries."""
        if any(map(pa.types.is_dictionary, self.bound.columns.types)):
            return table
        types = [each.value_type if pa.types.is_dictionary(each) else each for each in table.schema.types]
        if types == table.schema.types:
            return table
        columns = [column.cast(type_) for column, type_ in zip(table.columns, types, strict=True)]
        return pa.table(columns, names=table.column_names)

    @property
    def candidate_schema(self) -> tuple[pa.Schema, tuple[str, ...]]:
        return CANDIDATES, ("slice", "part")

    def start(self, work: Work) -> RowSearch:
        return RowSearch(self, work)

    def start_stream(self, work: Work, *, on_skip: str = "error", unbounded: bool = False) -> RowStream:
        """Return a search over a stream; see `StreamedClause` for the arguments and the errors."""
        options, told = work.options, partial(count_ties, work)
        show = self.display(options.limits, work.forgive)
        how = StreamedClause(self.bound, self.needs.columns, options, show, self.host, on_skip, unbounded)
        return RowStream(how, partial(add, work.note), told)

    def start_candidates(self, work: Work) -> RowCandidates:
        return RowCandidates(self, work)

    def choose(self, candidates: Iterable[pa.RecordBatch], again: Again, work: Work) -> Iterator[pa.Table]:
        """Yield the answer: follow the search through the slices, and take the candidates that it reaches."""
        chain = Chain()
        sent = (row for batch in candidates for row in batch.to_pylist())
        for number, parts in groupby(sent, key=lambda row: row["slice"]):
            received = _Received.of(self, list(parts), partial(again, number))
            for before, taken in chain.through(received.found, received.search_on):
                for table in received.atoms(before, taken):
                    add(work.note, {RESULT: len(table)})
                    yield table


class RowSearch:
    """Collects rows, and searches them at the end."""

    def __init__(self, question: RowClause, work: Work) -> None:
        self._question, self._work = question, work
        self._batches: list[RowBatch] = []

    def feed(self, rows: RowBatch) -> Iterator[pa.Table]:
        """Take the next rows; yield nothing, because a match may need all rows."""
        self._batches.append(rows)
        return iter(())

    def flush(self) -> Iterator[pa.Table]:
        """Sort and search all rows; yield the answer, part after part."""
        bound, work = self._question.bound, self._work
        table, opens = collect(self._question, self._batches)
        self._batches = []
        if work.part is not None or opens is not None:
            yield from self._in_part(table, opens)
            return
        show = self._question.display(work.options.limits)
        on_ties = partial(count_ties, work)
        for each in search_table(bound, table, work.options, work.threads, show, on_ties):
            add(work.note, {"matches": each.matches, RESULT: len(each.table)})
            yield each.table

    def _in_part(self, table: pa.Table, opens: Bools | None) -> Iterator[pa.Table]:
        """Search for the matches that start in a slice, or in rows that may start a match."""
        bound, work = self._question.bound, self._work
        if opens is None:
            prepared, own = prepare_slice(bound, table, work)
            found = engine.search(_input(bound, prepared), (own.low, own.high), work.options)
        else:
            prepared, open_rows = prepare_open(bound, table, opens, work)
            whole = Stretch(0, len(prepared))
            found = SliceSearch(_input(bound, prepared), whole, work.options).search_openers(open_rows)
        rows = Ordered(prepared, None, _offsets(prepared), {})
        show = self._question.display(work.options.limits)
        for matches in found:
            answer = show(rows, matches)
            add(work.note, {"matches": len(matches), RESULT: len(answer)})
            yield answer

    def save(self) -> bytes:
        return to_bytes(collect(self._question, self._batches)[0])

    def load(self, state: bytes) -> None:
        self._batches = [RowBatch(pa.ipc.open_stream(state).read_all())]


def collect(question: RowClause, batches: Sequence[RowBatch]) -> tuple[pa.Table, Bools | None]:
    """Concatenate batches; return also which rows may start a match; None: all rows may."""
    names = list(question.needs.columns.names)
    tables = [
        each.table.select([name for name in names if name in each.table.column_names]) for each in batches
    ]
    if not tables:
        return question.needs.columns.empty_table(), None
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()
    if all(each.opens is None for each in batches):
        return table, None
    opens = [np.ones(len(each), np.bool_) if each.opens is None else each.opens for each in batches]
    return table, np.concatenate(opens)


def count_ties(work: Work, undecided: Ints) -> None:
    """Note how many rows have an order that only a hash decides; an error if the run is strict."""
    if len(undecided):
        add(work.note, {TIES: len(undecided)})
        refuse_ties(len(undecided), strict=work.options.strict)


def prepare_slice(bound: BoundRows, table: pa.Table, work: Work) -> tuple[pa.Table, Stretch]:
    """Return the rows of a slice and its halo, in order, and the range of its own rows."""
    part = work.part
    assert part is not None
    undecided: list[Ints] = []
    prepared = prepare(bound, table, undecided.append)
    if len(undecided[0]):
        times = _clock(bound).times(prepared)[undecided[0]]
        count_ties(work, undecided[0][_inside(times, part)])
    return stretch_of(bound, prepared, part, work.halo)


def prepare_open(bound: BoundRows, table: pa.Table, opens: Bools, work: Work) -> tuple[pa.Table, Bools]:
    """Return rows in order, and which of them may start a match."""
    undecided: list[Ints] = []
    marked = replace(
        bound,
        columns=bound.columns.append(pa.field(OPENS, pa.bool_())),
        output=(*bound.output, Shown(OPENS, measure=False)),
    )
    prepared = prepare(marked, table.append_column(OPENS, pa.array(opens)), undecided.append)
    own = np.asarray(prepared.column(OPENS).combine_chunks().to_numpy(zero_copy_only=False), np.bool_)
    count_ties(work, undecided[0][own[undecided[0]]])
    return prepared.drop_columns([OPENS]), own


def _clock(bound: BoundRows) -> Clock:
    return Clock(bound.order[0].column, bound.order[0].nulls_first)


def _inside(times: Ints, part: Slice) -> Bools:
    return np.asarray((times >= part.start) & ((times < part.stop) | (part.stop == MAX_TIME)))


def _offsets(table: pa.Table) -> Ints:
    return np.array([0, len(table)], np.int64)


def _input(bound: BoundRows, table: pa.Table) -> Any:
    return engine.input_of_table(program.compile_rows(bound), table, _offsets(table))


# ---- candidates


class RowCandidates:
    """Finds the candidates of one slice, because its matches depend on the matches of earlier slices."""

    def __init__(self, question: RowClause, work: Work) -> None:
        self._question, self._work = question, work
        self._batches: list[RowBatch] = []

    def feed(self, rows: RowBatch) -> Iterator[pa.Table]:
        self._batches.append(rows)
        return iter(())

    def flush(self) -> Iterator[pa.Table]:
        """Yield the candidates of the slice, and the atoms of their measures."""
        bound, work = self._question.bound, self._work
        table, _ = collect(self._question, self._batches)
        prepared, own = prepare_slice(bound, table, work)
        matches, found = SearchedSlice(_input(bound, prepared), own, work.options).candidates()
        try:
            tables = self._tables(matches, prepared)
        except CeriseError:  # of a candidate that the chain may never reach; if it does, it searches again
            found, tables = _unknown(found), [None]
        for part, each in enumerate(tables):
            yield _pack(work.number, part, found, each)

    def _tables(self, matches: RowMatches, prepared: pa.Table) -> list[pa.Table | None]:
        """Return the atoms of measures, in tables of about `blob_events` rows."""
        bound = self._question.bound
        sizes = np.cumsum(matches.lengths + 1) // self._work.options.limits.blob_events
        tables: list[pa.Table | None] = []
        for size in np.unique(sizes).tolist():
            which = np.flatnonzero(sizes == size)
            some = pick(matches, which)
            atoms = to_atoms(bound, prepared, _offsets(prepared), some)
            tables.append(atoms.append_column(MATCH, pa.array(which[places(bound, some).match])))
        return tables or [None]


def _unknown(found: SliceCandidates) -> SliceCandidates:
    none = np.zeros(0, np.int64)
    return SliceCandidates(none, none, np.zeros_like(found.known))


def _pack(number: int, part: int, found: SliceCandidates, rows: pa.Table | None) -> pa.Table:
    known = [each.tobytes() if part == 0 else None for each in (found.starts, found.resumes, found.known)]
    values = [number, part, *known, None if rows is None else to_bytes(rows)]
    columns = [pa.array([each], kind) for each, kind in zip(values, CANDIDATES.types, strict=True)]
    return pa.table(columns, schema=CANDIDATES)


@dataclass(slots=True)
class _Received:
    """The candidates of a slice. The slice is searched again only if the chain leaves them."""

    question: RowClause
    found: SliceCandidates
    tables: list[pa.Table]
    read: Any
    searched: tuple[pa.Table, SearchedSlice] | None = None

    @classmethod
    def of(cls, question: RowClause, parts: Sequence[dict[str, Any]], read: Any) -> _Received:
        starts, resumes = (np.frombuffer(parts[0][name], np.int64).copy() for name in ("starts", "resumes"))
        found = SliceCandidates(starts, resumes, np.frombuffer(parts[0]["known"], np.uint8).copy())
        tables = [pa.ipc.open_stream(part["rows"]).read_all() for part in parts if part["rows"]]
        return cls(question, found, tables, read)

    def search_on(self, row: int, found: SliceCandidates) -> tuple[RowMatches, int]:
        """Search on where the search for candidates has not."""
        if self.searched is None:
            work, batches = self.read()
            table, _ = collect(self.question, list(batches))
            prepared, own = prepare_slice(self.question.bound, table, replace(work, note={}))
            self.searched = prepared, SearchedSlice(_input(self.question.bound, prepared), own, work.options)
        return self.searched[1].search_on(row, found)

    def atoms(self, before: int, taken: Ints | RowMatches) -> Iterator[pa.Table]:
        """Yield the atoms of matches' measures, given the number of matches before them."""
        if isinstance(taken, RowMatches):
            assert self.searched is not None
            rows = self.searched[0]
            yield to_atoms(self.question.bound, rows, _offsets(rows), number_matches(taken, before))
            return
        number_of = np.zeros(len(self.found.starts), np.int64)
        number_of[taken] = np.arange(before + 1, before + 1 + len(taken))
        yield from (self._number_rows(table, number_of) for table in self.tables)

    def _number_rows(self, table: pa.Table, number_of: Ints) -> pa.Table:
        """Return the rows of matches that have a number, with the number in MATCH_NUMBER()."""
        number = number_of[table.column(MATCH).to_numpy()]
        table = table.filter(pa.array(number > 0)).drop_columns([MATCH])
        for name in numbers(self.question.bound):
            at = table.column_names.index(name)
            table = table.set_column(at, table.schema.field(at), pa.array(number[number > 0]))
        return table
