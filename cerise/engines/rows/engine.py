"""The compiled engine for row patterns: rows in, matches out, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.limits import Progress
from cerise.engines.rows import layout as at
from cerise.engines.rows.budget import Steps, Watch, too_many_ways
from cerise.engines.rows.conditions import parted, write_conditions
from cerise.engines.rows.ground import Ground
from cerise.engines.rows.instructions import Code, compile_pattern
from cerise.engines.rows.judging import judged
from cerise.engines.rows.matches import Ints, RowMatches
from cerise.engines.rows.ordering import Ordered
from cerise.engines.rows.scope import Conditions, Unfit
from cerise.errors import DataError
from cerise.pattern.row_pattern import BoundRows, Extent, SkipTo

REMEMBERED, FEW_KEYS = 3, 4  # further steps that it counts as to remember a place, and one for so many keys
MOST_REMEMBERED = 1 << 28  # bytes
MOST_LABELS = 62
SKIPS = {
    SkipTo.PAST_LAST: at.PAST_LAST,
    SkipTo.NEXT: at.TO_NEXT,
    SkipTo.FIRST: at.TO_FIRST,
    SkipTo.LAST: at.TO_LAST,
}


@dataclass(frozen=True, slots=True)
class Program:
    """A clause, ready to search.

    Attributes:
        bound: the clause.
        code: its pattern.
        alone: what is asked of the row to be mapped alone; None: nothing.
        conditions: all else that is asked.
    """

    bound: BoundRows
    code: Code
    alone: Conditions | None
    conditions: Conditions

    @property
    def needs(self) -> int:
        """A bit for each label without which there is nothing to find in a partition."""
        within = self.bound.within
        return 0 if within is not None and within.timeouts else self.code.needs


def compile_rows(bound: BoundRows) -> Program:
    """Return the program of a clause.

    Raises:
        Unfit: where this engine cannot run it.
    """
    if len(bound.labels) > MOST_LABELS:
        raise Unfit(f"it has more than {MOST_LABELS} variables")
    single, rest = parted(bound)
    alone = write_conditions(single) if single.conditions else None
    return Program(bound, compile_pattern(bound.pattern), alone, write_conditions(rest))


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


def find_matches(program: Program, table: pa.Table, offsets: Ints, options: Options) -> Iterator[RowMatches]:
    """Yield the matches in a prepared table, some at a time.

    Args:
        program: what to find.
        table: the rows, partition after partition, each in order.
        offsets: where the partitions start, and at the end the number of rows.
        options: after how many steps it is given up, and how much is done at a time.
    """
    ground = ground_of(program, table, offsets)
    return search(ground, (0, len(ground)), options)


def ground_of(program: Program, table: pa.Table, offsets: Ints) -> Ground:
    """Return the rows of a prepared table as a search reads them."""
    masks = None if program.alone is None else judged(program.alone, table, len(program.bound.labels))
    return Ground.of(program, Ordered(table, None, offsets, {}), masks)


def search(
    ground: Ground, part: tuple[int, int], options: Options, watch: Watch | None = None
) -> Iterator[RowMatches]:
    """Yield the matches that start in a part of some rows, some at a time."""
    return Search(ground, part, options, watch).matches()


class Search:
    """All memory of one search; some of it moves when it grows, and the search is told where to."""

    INPUT = "the ordered input"

    def __init__(
        self, ground: Ground, part: tuple[int, int], options: Options, watch: Watch | None = None
    ) -> None:
        from cerise.kernels import formulas  # this brings numba

        self.program, self.limits = ground.program, options.limits
        conditions, bound = self.program.conditions, self.program.bound
        partitions = _partitions(ground.offsets, part)
        longest = int(np.max(np.diff(ground.offsets[slice(partitions[0], partitions[1] + 1)]), initial=0))
        timeouts = bound.within is not None and bound.within.timeouts
        sets = max(conditions.sets.values(), default=-1) + 1
        self.ground, self.cols = ground, ground.values.words()
        self.formulas = formulas.load(conditions.source)
        self.g = np.zeros(at.G_WORDS, np.int64)
        self.tables: dict[int, Any] = {
            at.G_REGS: np.zeros(conditions.registers + 1, np.int64),
            at.T_CODE: self.program.code.rows,
            at.T_OFFSETS: ground.offsets,
            at.T_TIMES: ground.times,
            at.T_PLACES: np.zeros(sets * longest + 1, np.int64),
            at.T_KEYS: np.array([*conditions.keys, (0, 0, 0)], np.int64),
            at.T_STACK: self._stack(self.limits.stack_rows),
            at.T_MEMORY: self._memory(_power_of_two(4 * self.limits.stack_rows)),
            at.T_MASKS: ground.masks,
            at.T_LABELS: np.zeros(longest + 1, np.int64),
            at.T_CUT: np.zeros(longest + 1 if timeouts else 1, np.int64),
            at.T_OUT: np.zeros((self.limits.row_matches, at.O_WORDS), np.int64),
            at.T_OUT_LABELS: np.zeros(self.limits.match_rows, np.int64),
        }
        self.steps = Steps(options.max_steps, watch or Watch())
        self.filled = -1  # the row of the last search for which there was no room in the memory
        self.classes = np.zeros(longest + 1 if conditions.classes else 1, np.int64)
        self.g[at.G_START], self.g[at.G_STOP] = part
        self.g[at.G_PARTITION], self.g[at.G_PARTITIONS] = partitions
        self._tell(longest)

    def _stack(self, size: int) -> Ints:
        return np.zeros((size, at.S_REGISTERS + self.program.conditions.registers), np.int64)

    def _memory(self, size: int) -> Ints:
        return np.zeros((size, at.R_KEYS + len(self.program.conditions.keys)), np.int64)

    def _tell(self, longest: int) -> None:
        g, cols = self.g, self.cols
        conditions, code, bound = self.program.conditions, self.program.code, self.program.bound
        self._place_tables()
        cols[at.C_PLACES], cols[at.C_STRIDE] = g[at.T_PLACES], longest
        cols[at.C_CLASSES] = self.classes.ctypes.data
        g[at.G_COLS], g[at.G_REGISTERS], g[at.G_STRIDE] = cols.ctypes.data, conditions.registers, longest
        g[at.G_FIRST], g[at.G_NULLABLE], g[at.G_NEEDS] = code.first, code.nullable, self.program.needs
        g[at.G_WIDE] = 0 if self.ground.masks.dtype == np.uint8 else 3
        g[at.G_DEPENDENT], g[at.G_LABELS] = conditions.dependent, len(bound.labels)
        g[at.G_UPDATES] = bool(conditions.registers or conditions.classes)
        g[at.G_SKIP] = SKIPS[bound.skip.to]
        g[at.G_SKIP_TO] = sum(1 << i for i, label in enumerate(bound.labels) if label in bound.skip.members)
        g[at.G_WITHIN] = _window(bound.within)
        g[at.G_TIMEOUTS] = bound.within is not None and bound.within.timeouts
        g[at.G_SECOND] = at.ANYTHING if g[at.G_TIMEOUTS] else code.second
        g[at.G_NO_TIME] = self.ground.no_time
        g[at.G_KEYS], g[at.G_HEAVY] = len(conditions.keys), REMEMBERED + len(conditions.keys) // FEW_KEYS
        patience = self.limits.patience
        g[at.G_ALARM], g[at.G_PATIENCE] = patience, at.NEVER if conditions.classes else patience
        g[at.G_SHARES] = not (conditions.numbered or conditions.from_start or g[at.G_TIMEOUTS])
        g[at.G_ROW], g[at.G_EPOCH], g[at.G_DEPTH] = -1, 1, -1

    def _place_tables(self) -> None:
        for word, table in self.tables.items():
            self.g[word] = table.ctypes.data
        for word in (at.T_STACK, at.T_MEMORY, at.T_OUT, at.T_OUT_LABELS):
            self.g[word + 1] = len(self.tables[word])

    def matches(self) -> Iterator[RowMatches]:
        """Yield what is found, as the room for it fills."""
        from cerise.engines.rows.search import scan

        return self.found(lambda: scan(int(self.g.ctypes.data), self.formulas.edge))

    def found(self, go_on: Callable[[], int]) -> Iterator[RowMatches]:
        """Yield what is found as a search goes on, until it is done; it says why it stops."""
        progress = Progress()
        while True:
            why = self._paced(go_on)
            progress.check((why, self.g.tobytes(), self.steps.taken))
            if why in (at.DONE, at.FULL):
                if self.g[at.G_MATCHES]:
                    yield self.taken()
                elif why == at.FULL:
                    self.tables[at.T_OUT_LABELS] = np.zeros(2 * len(self.tables[at.T_OUT_LABELS]), np.int64)
                if why == at.DONE:
                    return
            elif why == at.PAUSED:
                continue
            else:
                self._mend(why)
            self._place_tables()

    def _paced(self, go_on: Callable[[], int]) -> int:
        """Let a search go on for a while, and count its steps."""
        g, pause = self.g, min(self.limits.pause_steps, self.steps.most)
        g[at.G_LEFT] = g[at.G_UNTIL] = pause
        why = go_on()
        if why == at.DONE:
            self.steps.watch.walked(int(g[at.G_WALKED]) - self.steps.walked)
            return why
        if g[at.G_STEPS] > self.steps.most:
            raise too_many_ways(self.steps.most, int(g[at.G_ROW]), self.INPUT)
        ahead = max(0, int(g[at.G_AT] - g[at.G_ROW])) if why == at.PAUSED else 0
        self.steps.take(pause - int(g[at.G_LEFT]), int(g[at.G_WALKED]), ahead)
        return why

    def taken(self) -> RowMatches:
        """Return the matches that were found since the last ones were taken."""
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
            known = self.tables[at.T_STACK]
            self.tables[at.T_STACK] = self._stack(2 * len(known))
            self.tables[at.T_STACK][: len(known)] = known
        elif why == at.FORGETFUL and row != self.filled:
            self.filled = row  # by earlier searches, it may be: all is forgotten now
            self.g[at.G_DEPTH] = -1  # it begins anew
        elif why == at.FORGETFUL and 4 * self.tables[at.T_MEMORY].nbytes <= MOST_REMEMBERED:
            self.tables[at.T_MEMORY] = self._memory(4 * len(self.tables[at.T_MEMORY]))
            self.g[at.G_DEPTH] = -1
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


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _window(within: Extent | None) -> int:
    if within is None:
        return at.ANY_TIME
    return within.size - within.exclusive


def _partitions(offsets: Ints, part: tuple[int, int]) -> tuple[int, int]:
    """Return the first of the partitions that some rows are in, and the one after the last."""
    low, high = part
    return int(np.searchsorted(offsets, low, "right")) - 1, int(np.searchsorted(offsets, high))
