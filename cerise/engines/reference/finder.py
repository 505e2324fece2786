"""Finds all matches of a query in the events of a partition, before OUTPUT and LIMIT choose among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import EngineReport, Matches, Options
from cerise.engines.reference.absence import Absences
from cerise.engines.reference.choice import Positions
from cerise.engines.reference.runs import Runs
from cerise.engines.reference.stream import Stream
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.values import Fault

Rows = npt.NDArray[np.int64]


class MatchFinder:
    """The branches of a query, and the report that their runs count in."""

    def __init__(self, bound: Bound, options: Options, report: EngineReport) -> None:
        self.bound, self.options, self.report = bound, options, report
        self._branches = [
            (Runs(branch, bound, self._on_fault), Absences(branch, bound, self._on_fault))
            for branch in bound.branches
        ]

    def find(self, stream: Stream, now: int | None) -> dict[Positions, bool]:
        """Return the matches of one partition, each final or not: the union over branches (S3.2, S3.7)."""
        found: dict[Positions, bool] = {}
        for runs, absences in self._branches:
            for binding in runs.over(stream, self.options.max_runs):
                if not absences.veto(binding, stream):
                    match = tuple(binding.get(var.name, ()) for var in self.bound.variables)
                    final = now is None or absences.are_final(binding, stream, now)
                    found[match] = found.get(match, False) or final
            self.report.most_runs = max(self.report.most_runs, runs.most)
        return found

    def _on_fault(self, _fault: Fault) -> None:
        self.report.uncomputable += 1


def to_matches(found: Sequence[Positions], events: EventBatch, bound: Bound) -> Matches:
    """Return matches, given by the rows of their events."""
    kind = pa.list_(pa.int64())
    columns = {
        var.name: pa.array([match[i] or None for match in found], kind)
        for i, var in enumerate(bound.variables)
    }
    return Matches(events, columns)


def partitions_of(events: EventBatch, bound: Bound) -> list[Rows]:
    """Return the rows of each partition, in stream order (S8)."""
    columns = [events.column(path).to_pylist() for path in bound.partition]
    required = [path in bound.not_null for path in bound.partition]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in range(len(events)):
        key = tuple(_key(column[row]) for column in columns)
        if not any(value is None and needed for value, needed in zip(key, required, strict=True)):
            groups.setdefault(key, []).append(row)
    return [np.array(rows, dtype=np.int64) for rows in groups.values()]


def _key(value: Any) -> Any:
    """Return a value as a dictionary key with the equality of GROUP BY: NaN equals NaN."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def in_rows(match: Positions, rows: Rows) -> Positions:
    """Return a match by the rows of its events, given the row of each position of its partition."""
    return tuple(tuple(int(rows[position]) for position in positions) for positions in match)


def pick(values: Sequence[Any], rows: Rows) -> list[Any]:
    """Return the values of some rows."""
    return [values[row] for row in rows]
