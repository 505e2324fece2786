"""Misses as a table and as text: the same for row patterns and for SASE+."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import PlanError, text_html
from cerise.kinds import Kind
from cerise.pattern.expr import Literal
from cerise.pattern.show import show_expr

STARTS = 1_000  # are explained at most, unless the user sets a limit
STEPS = 1_000_000  # of the search from one start
SHOWN = 20  # starts in the text
COLUMNS = ("reached", "labels", "at", "wanted", "failed", "because", "others")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a search stopped: the row, the variable it tried, and the failure.

    Attributes:
        at: the row where it stopped; None: at the end of the partition.
        wanted: the variable that it tried there; None: none.
        failed: the failure as text.
        because: the kind of failure: predicate, null, window, end, anchor, negation or skipped.
    """

    at: int | None
    wanted: str | None
    failed: str
    because: str


@dataclass(frozen=True, slots=True)
class Miss:
    """A row that starts no match.

    Attributes:
        start: the row.
        labels: the variables of the rows or events that the longest candidate mapped.
        reason: why the search stopped there.
        others: why the other variables that could have come there failed.
    """

    start: int
    labels: tuple[str, ...]
    reason: Reason
    others: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Misses:
    """Events that start no match, and why not; `print` it.

    Attributes:
        table: one row for each event; a pyarrow Table, or a lazy Spark DataFrame.
        start: the names of the columns that identify the event.
    """

    table: Any
    start: tuple[str, ...]

    def __str__(self) -> str:
        """Return at most 20 misses as text; for a DataFrame, Spark computes them now."""
        table = self.table if isinstance(self.table, pa.Table) else self.table.limit(SHOWN + 1).toArrow()
        if not len(table):
            return "nothing missed: all that was looked at starts a match, or lies inside one"
        texts = [_show(row, self.start) for row in table.slice(0, SHOWN).to_pylist()]
        more = [f"… and more: these are {SHOWN}, the table has them all"] if len(table) > SHOWN else []
        return "\n\n".join([*texts, *more])

    def _repr_html_(self) -> str:
        return text_html(str(self))


def _show(row: dict[str, Any], start: Sequence[str]) -> str:
    place = "" if row["at"] is None else f", at {row['at']}"
    lines = [
        ", ".join(f"{name} = {row[name]}" for name in start),
        f"  reached  {row['labels'] or 'nothing'}",
        *([f"  wanted   {row['wanted']}{place}"] if row["wanted"] else []),
        f"  failed   {row['failed']}",
        *([f"  {row['others']}"] if row["others"] else []),
    ]
    return "\n".join(lines)


def to_table(misses: Sequence[Miss], start: pa.Table, moments: pa.ChunkedArray) -> pa.Table:
    """Return misses as a table.

    Args:
        misses: the misses, which name rows by number.
        start: the columns of all rows that identify a row.
        moments: the time, or first order column, of all rows.
    """
    reasons = [each.reason for each in misses]
    rows = start.take(pa.array([each.start for each in misses], pa.int64()))
    text = pa.string()
    columns = [
        pa.array([len(each.labels) for each in misses], pa.int64()),
        pa.array([" ".join(each.labels) for each in misses], text),
        moments.take(pa.array([each.at for each in reasons], pa.int64())),
        pa.array([each.wanted for each in reasons], text),
        pa.array([each.failed for each in reasons], text),
        pa.array([each.because for each in reasons], text),
        pa.array([_show_others(each.others) for each in misses], text),
    ]
    return pa.Table.from_arrays([*rows.columns, *columns], names=[*rows.column_names, *COLUMNS])


def _show_others(others: Sequence[Reason]) -> str | None:
    return "; ".join(f"or {each.wanted}: {each.failed}" for each in others) or None


def start_names(names: Sequence[str]) -> list[str]:
    """Return distinct names for the columns of the start that differ from those of the other columns."""
    return [f"start_{name}" if name in COLUMNS else name for name in dict.fromkeys(names)]


def explain_test(
    at: int, wanted: str, test: tuple[str, object], values: Sequence[tuple[str, object, Kind]]
) -> Reason:
    """Return the reason for a predicate that does not hold.

    Args:
        at: the row under test.
        wanted: the variable.
        test: the predicate as text, and its value: false, or null.
        values: the operands of the predicate, with their values and kinds.
    """
    text, worth = test
    known = ", ".join(f"{name} = {_value(value, kind)}" for name, value, kind in dict.fromkeys(values))
    because, verdict = ("null", "null") if worth is None else ("predicate", "false")
    return Reason(at, wanted, f"{text} is {verdict}{f' ({known})' if known else ''}", because)


def _value(value: Any, kind: Kind) -> str:
    return "null" if value is None else show_expr(Literal(value, kind))


def take_misses(found: Iterator[Miss], limit: int | None) -> list[Miss]:
    """Return the first `limit` misses.

    Raises:
        PlanError: `limit` is None, and there are too many misses to explain.
    """
    if limit is not None:
        return list(islice(found, limit))
    misses = list(islice(found, STARTS + 1))
    if len(misses) > STARTS:
        raise PlanError(
            f"more than {STARTS} events start no match",
            hint='choose some: where="…"; or say how many to explain: limit=…',
        )
    return misses


def most_steps(options: Options) -> int:
    """Return how many steps one search may take: fewer than compiled code, unless the user sets a limit."""
    return STEPS if options.max_steps == Options().max_steps else options.max_steps


class StepBudget:
    """Counts the steps of one search, and ends it if it takes too many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most

    def __call__(self) -> None:
        """Take a step."""
        self.left -= 1
        if self.left < 0:
            raise PlanError(
                f"the search from one event takes more than {self.most} steps",
                hint='shorten WITHIN or bound the quantifiers, choose other events with where="…", '
                "or raise Options(max_steps=…)",
            )
