"""Ways to run a bound query; every case and every engine goes through all of them (style.md §8)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from cerise.engines.base import Matcher, Options
from cerise.engines.choose import ENGINES
from cerise.engines.output import to_table
from cerise.engines.run import run
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.query import Count

Runner = Callable[[Bound, pa.Table, Options], pa.Table]


def whole(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """All events at once."""
    return run(bound, table, options)


def in_batches_of(size: int, *, reload: bool = False) -> Runner:
    """Micro-batches; with `reload`, each in a new matcher that loads what the one before saved."""

    def run_batches(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_batches(bound.source, table, options)
        events = EventBatch.of(table, bound.schema, reads=bound.ties)
        matcher = _start(bound, options)
        parts = []
        for start in range(0, len(events), size):
            parts += [to_table(each, bound) for each in matcher.feed(events.slice(start, start + size))]
            if reload:
                state = matcher.save()
                matcher = _start(bound, options)
                matcher.load(state)
        parts += [to_table(each, bound) for each in matcher.flush()]
        return _joined(parts, bound)

    return run_batches


def _start(bound: Bound, options: Options) -> Matcher:
    return ENGINES[options.engine or "reference"].start(bound, options)


def _joined(parts: list[pa.Table], bound: Bound) -> pa.Table:
    joined = pa.concat_tables([bound.output_schema.empty_table(), *parts])
    if isinstance(bound.query.returns, Count):
        name = bound.output_schema.names[0]
        return pa.table({name: pa.array([sum(joined.column(name).to_pylist())], pa.int64())})
    return joined


RUNNERS: dict[str, Runner] = {
    "whole": whole,
    "batches of 1": in_batches_of(1),
    "batches of 3": in_batches_of(3),
    "saved and loaded": in_batches_of(3, reload=True),
}
