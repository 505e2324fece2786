"""The access path of a query to an event table, chosen before it runs: the index, or a scan of all events."""

from __future__ import annotations

from dataclasses import dataclass

from cerise.engines.limits import DEFAULT, Limits
from cerise.events import Schema
from cerise.filters.index_query import IndexQuery
from cerise.filters.two_phase import Filtering, rarest
from cerise.plan import pushdown
from cerise.store.view import View

COMMON = 1 << 20  # events: a variable with more is looked up one stretch of time at a time [ACER24 O2]
WORTH_THREADS = 200_000  # events of the rarest variable: from here on, threads share the stretches of time


@dataclass(frozen=True, slots=True)
class AccessPath:
    """How a query reads its events.

    Attributes:
        query: the query of the index; None: scan all events.
        why: the reason for the choice, for `explain`.
        blockwise: whether stretches of time are filtered one after another.
        large: whether there is enough work for several threads or tasks.
        filtering: options of the filter.
    """

    query: IndexQuery | None
    why: str
    blockwise: bool = False
    large: bool = True
    filtering: Filtering = Filtering()


@dataclass(frozen=True, slots=True)
class Wants:
    """The columns and events that a query needs.

    Attributes:
        schema: the columns with the parts that they play.
        reads: the columns that matching reads.
        late: the columns that are only returned.
        needed: the filter that events must pass to be bound; None: any event may be.
    """

    schema: Schema
    reads: tuple[str, ...]
    late: tuple[str, ...] = ()
    needed: pushdown.Needed | None = None

    @property
    def all(self) -> tuple[str, ...]:
        wanted = {*self.reads, *self.late}
        return tuple(name for name in self.schema.columns.names if name in wanted)


def choose_access_path(
    view: View, query: IndexQuery | str, filtering: Filtering, limits: Limits = DEFAULT
) -> AccessPath:
    """Choose between index and scan; a string in place of the query says why the index cannot help."""
    if isinstance(query, str):
        return AccessPath(None, query)
    if view.rows and not view.indexed.synopsis.rows:
        return AccessPath(None, "no event is indexed yet")
    found = [rarest(branch, view) for branch in query.branches]
    expected = max(count for _, count in found)
    names = ", ".join(dict.fromkeys(name for name, _ in found))
    if limits.kept_share * min(expected, view.rows) > view.rows:
        return AccessPath(
            None, f"the rarest variable, {names}, fits about {expected:,.0f} of {view.rows:,} events"
        )
    common = expected > COMMON if filtering.blockwise is None else filtering.blockwise
    blockwise = query.window is not None and common
    how = "stretch by stretch, with the others" if blockwise else "everywhere, then the others around it"
    why = f"{names} is looked up {how}: about {expected:,.0f} events"
    return AccessPath(query, why, blockwise, expected >= WORTH_THREADS, filtering)


def describe(view: View, way: AccessPath) -> dict[str, str]:
    """Return the facts that `explain` shows about a table and the access path of a query."""
    indexed = view.indexed
    fresh = view.rows - indexed.synopsis.rows
    files, clusters = (
        f"{count:,} {what}{'' if count == 1 else 's'}"
        for count, what in (
            (len(indexed.snapshot.files), "file"),
            (len(indexed.synopsis.clusters), "cluster"),
        )
    )
    facts = {"store": f"{view.rows:,} events in {files}, {clusters}"}
    if fresh > 0:
        facts["fresh"] = f"{fresh:,} events that are not indexed"
    facts["by index" if way.query is not None else "reads all"] = way.why
    if way.query is not None and way.query.why_all is not None:
        facts["keeps"] = f"all events of intervals: {way.query.why_all}"
    return facts
