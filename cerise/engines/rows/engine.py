"""The compiled engine for row patterns: rows in, matches out, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.rows import layout as at
from cerise.engines.rows.conditions import write_conditions
from cerise.engines.rows.instructions import Code, compile_pattern
from cerise.engines.rows.matches import Ints, RowMatches
from cerise.engines.rows.prepare import computed
from cerise.engines.rows.scope import Conditions, Unfit
from cerise.errors import DataError, PlanError
from cerise.events import raw_column
from cerise.kinds import INT64_MAX, INT64_MIN, canonical, kind_of
from cerise.pattern.rows import BoundRows, Extent, SkipTo

PATIENCE = 128  # steps after which it is remembered what has failed
MOST_REMEMBERED = 1 << 24
MATCHES_AT_ONCE, LABELS_AT_ONCE = 1 << 16, 1 << 20
STACK, MEMORY = 1 << 8, 1 << 10  # how many entries they have at first
MOST_LABELS = 62
SKIPS = {
    SkipTo.PAST_LAST: at.PAST_LAST,
    SkipTo.NEXT: at.TO_NEXT,
    SkipTo.FIRST: at.TO_FIRST,
    SkipTo.LAST: at.TO_LAST,
}


@dataclass(frozen=True, slots=True)
class Program:
    """A clause, ready to search."""

    bound: BoundRows
    code: Code
    conditions: Conditions


def compile_rows(bound: BoundRows) -> Program:
    """Return the program of a clause.

    Raises:
        Unfit: where this engine cannot run it.
    """
    if len(bound.labels) > MOST_LABELS:
        raise Unfit(f"it has more than {MOST_LABELS} variables")
    return Program(bound, compile_pattern(bound.pattern), write_conditions(bound))


def why_not(bound: BoundRows) -> str | None:
    """Say why this engine cannot run a clause; None where it can."""
    try:
        compile_rows(bound)
    except Unfit as reason:
        return str(reason)
    return None


def describe(program: Program) -> dict[str, str]:
    """Say, by name, how a clause is searched."""
    asked = program.conditions
    labels = program.bound.labels
    searched = [label for i, label in enumerate(labels) if (asked.dependent >> i) & 1]
    defined = {each.label for each in program.bound.conditions}
    alone = [label for label in labels if label in defined and label not in searched]
    kept = f"; {asked.registers} values are kept for that" if asked.registers else ""
    return {
        "pattern": f"{len(program.code.rows)} instructions over {', '.join(labels) or 'no variable'}",
        "defined": "; ".join(
            [
                *([f"{', '.join(alone)} judged for all rows at once"] if alone else []),
                *([f"{', '.join(searched)} asked during the search{kept}"] if searched else []),
            ]
        )
        or "nothing: every row can be anything",
    }


def find_matches(program: Program, table: pa.Table, offsets: Ints, budget: int) -> Iterator[RowMatches]:
    """Yield the matches in a prepared table, some at a time.

    Args:
        program: what to find.
        table: the rows, partition after partition, each in order.
        offsets: where the partitions start, and at the end the number of rows.
        budget: after how many steps the search for one match is given up.
    """
    for each in program.conditions.derived:
        table = table.append_column(pa.field(each.name, each.type), computed(each, table))
    return _Search(program, table, offsets, budget).matches()


class _Search:
    """All memory of one search; some of it moves when it grows, and the search is told where to."""

    def __init__(self, program: Program, table: pa.Table, offsets: Ints, budget: int) -> None:
        from cerise.engines.rows.columns import Columns  # these bring numba
        from cerise.kernels import formulas

        self.program = program
        conditions, bound = program.conditions, program.bound
        longest = int(np.max(np.diff(offsets), initial=0))
        timeouts = bound.within is not None and bound.within.timeouts
        sets = max(conditions.sets.values(), default=-1) + 1
        self.columns = Columns(conditions, table)
        times, none = _times(bound, table)
        self.formulas = formulas.load(conditions.source)
        self.g = np.zeros(at.G_WORDS, np.int64)
        self.g[at.G_NO_TIME] = none
        self.tables: dict[int, Ints] = {
            at.G_REGS: np.zeros(conditions.registers + 1, np.int64),
            at.T_CODE: program.code.rows,
            at.T_OFFSETS: np.ascontiguousarray(offsets),
            at.T_TIMES: times,
            at.T_PLACES: np.zeros(sets * longest + 1, np.int64),
            at.T_KEYS: np.array([*conditions.keys, (0, 0, 0)], np.int64),
            at.T_STACK: self._stack(STACK),
            at.T_MEMORY: self._memory(MEMORY),
            at.T_MASKS: np.zeros(longest + 1, np.int64),
            at.T_LABELS: np.zeros(longest + 1, np.int64),
            at.T_CUT: np.zeros(longest + 1 if timeouts else 1, np.int64),
            at.T_OUT: np.zeros((MATCHES_AT_ONCE, at.O_WORDS), np.int64),
            at.T_OUT_LABELS: np.zeros(LABELS_AT_ONCE, np.int64),
        }
        self.filled = -1  # the row of the last search for which there was no room in the memory
        self.classes = np.zeros(longest + 1 if conditions.classes else 1, np.int64)
        self._tell(longest, budget, len(offsets) - 1)

    def _stack(self, size: int) -> Ints:
        return np.zeros((size, at.S_REGISTERS + self.program.conditions.registers), np.int64)

    def _memory(self, size: int) -> Ints:
        return np.zeros((size, at.R_KEYS + len(self.program.conditions.keys)), np.int64)

    def _tell(self, longest: int, budget: int, partitions: int) -> None:
        g, cols = self.g, self.columns.words
        conditions, code, bound = self.program.conditions, self.program.code, self.program.bound
        self._place_tables()
        cols[at.C_PLACES], cols[at.C_STRIDE] = g[at.T_PLACES], longest
        cols[at.C_CLASSES], cols[at.C_MASKS] = self.classes.ctypes.data, g[at.T_MASKS]
        g[at.G_COLS], g[at.G_REGISTERS], g[at.G_STRIDE] = self.columns.address, conditions.registers, longest
        g[at.G_FIRST], g[at.G_NULLABLE], g[at.G_PARTITIONS] = code.first, code.nullable, partitions
        g[at.G_DEPENDENT], g[at.G_LABELS] = conditions.dependent, len(bound.labels)
        g[at.G_UPDATES] = bool(conditions.registers or conditions.classes)
        g[at.G_SKIP] = SKIPS[bound.skip.to]
        g[at.G_SKIP_TO] = sum(1 << i for i, label in enumerate(bound.labels) if label in bound.skip.members)
        g[at.G_WITHIN] = _window(bound.within)
        g[at.G_TIMEOUTS] = bound.within is not None and bound.within.timeouts
        g[at.G_BUDGET], g[at.G_KEYS] = budget, len(conditions.keys)
        g[at.G_PATIENCE] = budget if conditions.classes else PATIENCE
        g[at.G_SHARES] = not (conditions.numbered or conditions.from_start or g[at.G_TIMEOUTS])
        g[at.G_ROW], g[at.G_EPOCH] = -1, 1

    def _place_tables(self) -> None:
        for word, table in self.tables.items():
            self.g[word] = table.ctypes.data
        for word in (at.T_STACK, at.T_MEMORY, at.T_OUT, at.T_OUT_LABELS):
            self.g[word + 1] = len(self.tables[word])

    def matches(self) -> Iterator[RowMatches]:
        """Yield what is found, as the room for it fills."""
        from cerise.engines.rows.search import scan

        while True:
            why = scan(int(self.g.ctypes.data), self.formulas.edge)
            if why in (at.DONE, at.FULL):
                if self.g[at.G_MATCHES]:
                    yield self._taken()
                elif why == at.FULL:
                    self.tables[at.T_OUT_LABELS] = np.zeros(2 * len(self.tables[at.T_OUT_LABELS]), np.int64)
                if why == at.DONE:
                    return
            else:
                self._mend(why)
            self._place_tables()

    def _taken(self) -> RowMatches:
        count, labelled = int(self.g[at.G_MATCHES]), int(self.g[at.G_LABELLED])
        self.g[at.G_MATCHES] = self.g[at.G_LABELLED] = 0
        out = self.tables[at.T_OUT][:count].T.copy()
        labels = self.tables[at.T_OUT_LABELS][:labelled].astype(np.int16)
        hidden = (labels & at.HIDDEN) != 0
        late = out[at.O_TIMEOUT] != 0
        return RowMatches(
            starts=out[at.O_START],
            lengths=out[at.O_LENGTH],
            numbers=out[at.O_NUMBER],
            partition=out[at.O_PARTITION],
            labels=labels & np.int16(at.HIDDEN - 1),
            excluded=hidden if hidden.any() else None,
            timeouts=late if late.any() else None,
        )

    def _mend(self, why: int) -> None:
        """Make room, or say what is wrong."""
        bound, row = self.program.bound, int(self.g[at.G_ROW])
        if why == at.DEEP:
            self.tables[at.T_STACK] = self._stack(2 * len(self.tables[at.T_STACK]))
        elif why == at.FORGETFUL and row != self.filled:
            self.filled = row  # by earlier searches, it may be: all is forgotten now
        elif why == at.FORGETFUL and len(self.tables[at.T_MEMORY]) < MOST_REMEMBERED:
            self.tables[at.T_MEMORY] = self._memory(4 * len(self.tables[at.T_MEMORY]))
        elif why in (at.SPENT, at.FORGETFUL):
            raise PlanError(
                f"the search for one match took more than {int(self.g[at.G_BUDGET]):,} steps, at row {row}"
                " of the ordered input: the pattern can be matched in too many ways",
                hint="make it less ambiguous, add WITHIN, or raise Options(max_steps=…)",
            )
        elif why == at.UNMAPPED:
            raise unmapped(bound.skip.name)
        elif why == at.ENDLESS:
            raise endless(bound.skip.name)


def unmapped(name: str) -> DataError:
    """Return the error of a skip to a variable that a match has no row of (M40)."""
    return DataError(
        f"AFTER MATCH SKIP TO {name}: a match has no row mapped to {name}",
        hint="skip to a variable that every match has, or PAST LAST ROW",
    )


def endless(name: str) -> DataError:
    """Return the error of a skip to the first row of the match (M40)."""
    return DataError(
        f"AFTER MATCH SKIP TO {name}: that is the first row of the match, which would be found for ever",
        hint="skip to a later row, or TO NEXT ROW",
    )


def _window(within: Extent | None) -> int:
    if within is None:
        return at.ANY_TIME
    return within.size - within.exclusive


def _times(bound: BoundRows, table: pa.Table) -> tuple[Ints, int]:
    """Return what WITHIN measures, never descending, and the number that stands for no time."""
    if bound.within is None:
        return np.zeros(1, np.int64), 0
    name = bound.order[0].column
    column = raw_column(table, (name,))
    times = canonical(column, kind_of(column.type), name).cast(pa.int64())
    none = _unused(times)
    found = np.ascontiguousarray(times.fill_null(none), dtype=np.int64)
    return (~found, ~none) if bound.order[0].descending else (found, none)


def _unused(numbers: pa.Array) -> int:
    """Return a number that is none of some."""
    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None:
        return 0
    if low > INT64_MIN:
        return int(low) - 1
    if high < INT64_MAX:
        return int(high) + 1
    taken = set(numbers.to_pylist())
    return next(each for each in range(len(taken) + 1) if each not in taken)
