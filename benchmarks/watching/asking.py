"""The query of a stream as `Watcher` and `watch` take it, and the matches that a stream has given."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import row_patterns
from binding import Work, roles

SHOWN = (("min", 0.0), ("median", 0.5), ("p99", 0.99), ("max", 1.0))


@dataclass(slots=True)
class Seen:
    """The matches of a stream, and the figures that it was run for.

    Attributes:
        tables: the matches as tables.
        folder: the folder that a stream wrote its matches to, if it did.
        count: their number, if nothing else is known of them; None: nothing is matched.
        report: the figures.
        sql: whether the query is MATCH_RECOGNIZE, whose rows are compared as a whole.
    """

    tables: list[Any] = field(default_factory=list)
    folder: Path | None = None
    count: int | None = None
    report: dict[str, Any] = field(default_factory=dict)
    sql: bool = False


def is_sql(work: Work) -> bool:
    """Whether the query is SQL, which says itself what is time and key."""
    return bool(work["query"]["text"].lstrip().upper().startswith("SELECT"))


def arguments(work: Work) -> dict[str, Any]:
    """Return the arguments of `watch` and `Watcher` for the query; files are in the order of time."""
    import pyarrow as pa
    from streams import SCHEMAS

    time = SCHEMAS[work["data"]["generator"]].field(work["query"]["time"]).type
    given = {"unbounded": True} if is_sql(work) else roles(work)
    return given | {"delay": 0 if pa.types.is_integer(time) else "0 seconds"}


def run_options(work: Work) -> Any:
    """Return how the query runs: the engine that the subject names, or the planner's."""
    import cerise

    return cerise.Options(engine=work["options"].get("engine"))


def start_watcher(work: Work) -> Any:
    """Return a new `cerise.Watcher` of the query over the columns of the data."""
    from streams import SCHEMAS

    import cerise

    schema = SCHEMAS[work["data"]["generator"]]
    return cerise.Watcher(work["query"]["text"], schema, **arguments(work), options=run_options(work))


def found(seen: Seen) -> tuple[str, Any] | None:
    """Return what names the matches: their ids, a hash of each row of SQL, or their number."""
    if seen.folder is not None:
        seen.tables.append(read_matches(seen.folder))
        shutil.rmtree(seen.folder)
    if seen.tables:
        return _name(seen.tables, sql=seen.sql)
    return None if seen.count is None else ("count", seen.count)


def read_matches(folder: Path) -> Any:
    """Return the matches that a stream wrote as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(folder.glob("part-*.parquet"))
    return pa.concat_tables([pq.read_table(each) for each in files])


def report_of(seen: Seen) -> dict[str, Any]:
    """Return the figures of a stream."""
    return seen.report


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the least, the median, the 99th percentile, the most and the mean of some values."""
    ordered = sorted(values)
    shown = {name: ordered[round(share * (len(ordered) - 1))] for name, share in SHOWN}
    return shown | {"median": statistics.median(ordered), "mean": statistics.fmean(ordered)}


def _name(tables: Sequence[Any], *, sql: bool) -> tuple[str, Any]:
    import pyarrow as pa

    some = pa.concat_tables(tables)
    if sql:
        return row_patterns.found(some)
    return "match_id", some["match_id"].to_pylist()
