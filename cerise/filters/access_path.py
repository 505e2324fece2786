"""How a query gets at the events of an event table: by the index, or by reading all; decided beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from cerise.engines.limits import DEFAULT, Limits
from cerise.events import Schema
from cerise.filters.index_query import Asked
from cerise.filters.two_phase import Filtering, rarest
from cerise.plan import pushdown
from cerise.store.view import View

COMMON = 1 << 20  # events: a variable with more is looked up in one stretch of time after another [ACER24 O2]
WORTH_THREADS = 200_000  # events of the rarest variable, so that stretches of time are given to threads


@dataclass(frozen=True, slots=True)
class Way:
    """How a query gets at its events.

    Attributes:
        query: what is asked of the index; None: all events are read.
        why: what is looked up how, or why all events are read.
        blockwise: whether stretches of time are filtered one after another.
        large: whether there is enough to do for several threads or tasks.
        filtering: how events are filtered.
    """

    query: Asked | None
    why: str
    blockwise: bool = False
    large: bool = True
    filtering: Filtering = Filtering()


@dataclass(frozen=True, slots=True)
class Wants:
    """What of each event is needed.

    Attributes:
        schema: which column plays which part.
        reads: the columns that matching needs.
        late: the columns that are only returned.
        needed: which events can be bound at all; None: any.
    """

    schema: Schema
    reads: tuple[str, ...]
    late: tuple[str, ...] = ()
    needed: pushdown.Needed | None = None

    @property
    def all(self) -> tuple[str, ...]:
        wanted = {*self.reads, *self.late}
        return tuple(name for name in self.schema.columns.names if name in wanted)


def way_for(view: View, query: Asked | str, filtering: Filtering, limits: Limits = DEFAULT) -> Way:
    """Decide how what is asked is looked for."""
    if isinstance(query, str):
        return Way(None, query)
    if view.rows and not view.held.synopsis.rows:
        return Way(None, "no event is indexed yet")
    found = [rarest(branch, view) for branch in query.branches]
    expected = max(count for _, count in found)
    names = ", ".join(dict.fromkeys(name for name, _ in found))
    if limits.kept_share * min(expected, view.rows) > view.rows:
        return Way(None, f"the rarest variable, {names}, fits about {expected:,.0f} of {view.rows:,} events")
    common = expected > COMMON if filtering.blockwise is None else filtering.blockwise
    blockwise = query.window is not None and common
    how = "stretch by stretch, with the others" if blockwise else "everywhere, then the others around it"
    said = f"{names} is looked up {how}: about {expected:,.0f} events"
    return Way(query, said, blockwise, expected >= WORTH_THREADS, filtering)


def situation(view: View, way: Way) -> dict[str, str]:
    """Return what `explain` says of a table and of how a query gets at its events."""
    held = view.held
    fresh = view.rows - held.synopsis.rows
    files, clusters = (
        f"{count:,} {what}{'' if count == 1 else 's'}"
        for count, what in ((len(held.snapshot.files), "file"), (len(held.synopsis.clusters), "cluster"))
    )
    facts = {"store": f"{view.rows:,} events in {files}, {clusters}"}
    if fresh > 0:
        facts["fresh"] = f"{fresh:,} events that are not indexed"
    facts["by index" if way.query is not None else "reads all"] = way.why
    if way.query is not None and way.query.why_all is not None:
        facts["keeps"] = f"all events of intervals: {way.query.why_all}"
    return facts
