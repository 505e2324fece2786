"""The report of a run: the sums of the figures that each step notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from typing import Any

import pyarrow as pa

from cerise.errors import BindError, text_html
from cerise.run.question import JOIN, MOST_RUNS, Note, add

Noted = Mapping[tuple[str, Hashable], Note]  # notes by step, and by the number of the slice or task
TIES = "events whose order a hash decides"
PASSED = "events that would be exchanged without passes"
UNCOMPUTABLE = "values that could not be computed"
RESULT = "rows of the result"
SHOWN_ROWS = 20  # rows of a table that a notebook shows
ORDER_HINT = "name columns that decide it: order=[…]; in SQL, ORDER BY"
STEPS = {
    "summarise": "summarising", "merge": "merging", "read": "reading and cutting",
    "hand over": "handing over and cutting", "match": "matching", "choose": "choosing",
}  # fmt: skip
COUNTED = (
    "row groups read", "events read", "bytes read", "events of pass 1", "events of pass 2",
    "bytes of filters", PASSED, "events handed over", "bytes exchanged",
    "clusters considered", "clusters left out by the synopsis", "clusters read", "bytes of the index read",
    "events kept", "events matched over", TIES, "matches", RESULT, UNCOMPUTABLE, MOST_RUNS,
    "candidates", "joined rows",
)  # fmt: skip
MOST_JOINS = 10  # joins among the figures: those that made most rows
VARIABLE = "variable "  # how the figures of one variable begin
TIMED = ("seconds filtering", "seconds reading", "seconds planning")


def refuse_ties(ties: int, *, strict: bool) -> None:
    """Refuse events whose order only a hash decides, if warnings are errors.

    Raises:
        BindError: the run has such events, and is strict.
    """
    if ties and strict:
        raise BindError(say_ties(ties), hint=f"{ORDER_HINT}; Options(strict=True) makes this an error")


def say_ties(ties: int) -> str:
    """Say how many events have an order that only a hash decides."""
    shared = "1 event shares its" if ties == 1 else f"{ties:,} events share their"
    return f"{shared} time (and partition) with an event before, and no order column decides which is first"


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a run; `print(report)` shows them.

    Attributes:
        known: figures known before the run: events and row groups, before and after pruning.
        access: how the run reads its events, by topic, as `explain` says it.
        notes: returns the notes of each step so far.
        missing: why the report has no notes; None: it has, or will have when the matches are computed.
    """

    known: dict[str, float] = field(default_factory=dict)
    access: dict[str, str] = field(default_factory=dict)
    notes: Callable[[], Noted] = dict
    missing: str | None = None

    @property
    def figures(self) -> dict[str, float]:
        """All figures by name: counts, then for each step its tasks and the sum of their seconds."""
        notes = self.notes()
        total: Note = {}
        for note in notes.values():
            add(total, note)
        found = dict(self.known) | {name: total[name] for name in COUNTED if name in total}
        found |= {name: value for name, value in total.items() if name.startswith(VARIABLE)}
        largest = islice(_count_joins(total).items(), MOST_JOINS)
        found |= {f"{JOIN}{name}": rows for name, rows in largest}
        found |= {name: round(total[name], 6) for name in TIMED if name in total}
        for step, title in STEPS.items():
            seconds = [note["seconds"] for (each, _), note in notes.items() if each == step]
            if seconds:
                found[f"tasks {title}"] = len(seconds)
                found[f"seconds {title}"] = round(sum(seconds), 6)
        return found

    @property
    def joins(self) -> dict[str, int]:
        """How many rows each join of a shared plan made, most first, by the variables that it joins."""
        total: Note = {}
        for note in self.notes().values():
            add(total, note)
        return _count_joins(total)

    def __str__(self) -> str:
        lines = [f"{name}: {text}" for name, text in self.access.items()]
        if self.missing is not None:
            lines.append(self.missing)
        elif not self.notes():
            lines.append("nothing has run yet: the matches are lazy; call an action on them first")
        figures = self.figures
        width = max(map(len, figures), default=0)
        lines += [
            f"{name:<{width}}  {value:>15,}"
            if isinstance(value, int)
            else f"{name:<{width}}  {value:>15,.3f}"
            for name, value in figures.items()
        ]
        if TIES in figures:
            lines.append(f"no order column decides the order of {figures[TIES]:,} events: {ORDER_HINT}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return text_html(str(self))


class Explanation(str):
    """The text of `explain`, which a notebook shows line by line."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return text_html(self)


def table_html(matches: Any) -> str:
    """Return matches as a notebook shows them: an Arrow table by its first rows, others by their library."""
    if not isinstance(matches, pa.Table):
        show = getattr(matches, "_repr_html_", None)
        return str(show()) if callable(show) else text_html(repr(matches))
    rows = zip(*(column.to_pylist() for column in matches.slice(0, SHOWN_ROWS).columns), strict=True)
    head = "".join(f"<th>{escape(name)}</th>" for name in matches.column_names)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    more = f"<p>the first {SHOWN_ROWS} of {len(matches):,} rows</p>"
    return table + more if len(matches) > SHOWN_ROWS else table


def _count_joins(total: Note) -> dict[str, int]:
    rows = {name.removeprefix(JOIN): int(made) for name, made in total.items() if name.startswith(JOIN)}
    return dict(sorted(rows.items(), key=lambda each: -each[1]))


@dataclass(frozen=True, slots=True)
class Found:
    """Matches, and the figures of the run that found them.

    Attributes:
        matches: a pyarrow Table, or a lazy Spark DataFrame.
        report: the figures; `print(report)` shows them, `report.figures` has them by name.
    """

    matches: Any
    report: Report

    def _repr_html_(self) -> str:
        return table_html(self.matches) + text_html(str(self.report))


def unite_reports(reports: Sequence[Report]) -> Report:
    """Return one report of several runs over the same events.

    Figures known before the run, and ties, are those of the run that has most; other figures add up.

    >>> one = Report({"events": 9}, notes=lambda: {("match", 0): {"matches": 2, "seconds": 1}})
    >>> unite_reports([one, one]).figures
    {'events': 9, 'matches': 4, 'tasks matching': 2, 'seconds matching': 2}
    """
    known: dict[str, float] = {}
    access: dict[str, list[str]] = defaultdict(list)
    for each in reports:
        known |= {name: max(value, known.get(name, value)) for name, value in each.known.items()}
        for topic, text in each.access.items():
            access[topic] += [] if text in access[topic] else [text]

    def notes() -> Noted:
        found = [each.notes() for each in reports]
        ties = [sum(note.get(TIES, 0) for note in each.values()) for each in found]
        return {
            (step, (number, task)): {
                name: value for name, value in note.items() if name != TIES or number == ties.index(max(ties))
            }
            for number, each in enumerate(found)
            for (step, task), note in each.items()
        }

    missing = next((each.missing for each in reports if each.missing is not None), None)
    return Report(known, {topic: "; ".join(texts) for topic, texts in access.items()}, notes, missing)


def to_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
