"""Events that some filter keeps, for an engine that is not ours (000 Fig. 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Events = Callable[[], Any]  # finds a table of events


def before(work: dict[str, Any]) -> Events:
    """Return what finds the events that the filter of a piece of work keeps, by its option `before`."""
    return FILTERS[work["options"]["before"]](work)


def _types(work: dict[str, Any]) -> Events:
    """The events of the types that the query names, as a columnar database would find them."""
    import pyarrow.parquet as pq

    from cerise.lang import sase
    from cerise.pattern.query import variables

    named = {each.type for each in variables(sase.parse(work["query"]["text"]).pattern)}
    wanted = [(work["query"]["type"], "in", sorted(str(each) for each in named))]
    return lambda: pq.read_table(work["path"], filters=wanted)


def _acer(work: dict[str, Any]) -> Events:
    """The candidates that the store finds."""
    import cerise
    from acer.measuring import place_of

    store = cerise.Store(str(place_of(work).made("store")))
    return lambda: store.candidates(work["query"]["text"])


FILTERS = {"types": _types, "acer": _acer}
