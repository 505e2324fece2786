"""The events of a site as a query sees them: candidates, keys and partitions of the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from cerise.events import Path, raw_column, read_times
from cerise.filters.equalities import Read, keys_of
from cerise.filters.rounds.dual_query import DualBranch, DualQuery
from cerise.filters.rounds.site import EdgeKeys, SiteEvents
from cerise.kinds import canonical
from cerise.pattern.bound import Bound
from cerise.pattern.expr import Expr
from cerise.pattern.vectors.row_values import holds
from cerise.plan.intervals import Ints
from cerise.plan.needs import hash_partition

Filters = Mapping[str, tuple[Expr, ...]]  # the tests of single events, by variable


def find_candidates(table: pa.Table, bound: Bound, query: DualQuery) -> tuple[SiteEvents, ...]:
    """Return the rows of a table as each branch of a query sees them; times must not be null.

    Args:
        table: the events of one site.
        bound: the query.
        query: the same, as `describe_query` returns it.
    """
    times = read_times(table, bound.schema)
    hashes = hash_partition(table, bound.partition) if query.keyed else None
    partitions = None if hashes is None else hashes.view(np.int64)

    def read(path: Path) -> pa.Array:
        return canonical(raw_column(table, path), bound.schema.kind(path), ".".join(path))

    pairs = zip(bound.branches, query.branches, strict=True)
    return tuple(_see(times, partitions, branch.filters, known, read) for branch, known in pairs)


def _see(
    times: Ints, partitions: Ints | None, filters: Filters, branch: DualBranch, read: Read
) -> SiteEvents:
    rows = len(times)
    fits = {}
    for name in (*branch.names, *branch.others):
        tests = [holds(expr, read, rows)[0] for expr in filters[name]]
        fits[name] = np.logical_and.reduce(tests) if tests else np.ones(rows, bool)
    keys = {}
    for at, edge in enumerate(branch.edges):
        for name in (edge.left, edge.right):
            values, valid = keys_of(edge, name, read, rows)
            keys[at, name] = EdgeKeys(values.view(np.int64), valid)
    return SiteEvents(times, fits, keys, partitions)
