"""Filters never lose a match, nor make one: finding in what is kept is finding in all (semantics.md §9)."""

from __future__ import annotations

import pytest
from hypothesis import given

from cerise.engines.limits import Limits
from cerise.events import EventBatch
from cerise.filters.index_query import build_index_query
from cerise.filters.two_phase import filter_by_buckets, filter_events
from tests.filters.memory import InMemory
from tests.support.strategies.pairs import Pair, pairs
from tests.test_agreement import GOES, bindings, bound_of, examples, uncounted


@pytest.mark.parametrize("two_phase", [True, False])
@pytest.mark.parametrize("go", GOES)
def test_what_is_kept_has_the_same_matches(go: int, two_phase: bool) -> None:
    """In some goes intervals count as hopeless at once, and are not shrunk by further variables."""
    limits = Limits(anchor_events=1, interval_events=1) if go % 2 else Limits()

    @examples(45, go=go)
    @given(pairs())
    def agrees(pair: Pair) -> None:
        pair = uncounted(pair)
        bound = bound_of(pair)
        query = build_index_query([bound], pair.schema.columns.names)
        if isinstance(query, str):
            return
        table = EventBatch.of(pair.table, bound.schema, reads=bound.ties).table
        source = InMemory(table, bound.schema)
        found = filter_events(query, source, limits=limits) if two_phase else filter_by_buckets(query, source)
        assert len(set(found.places.tolist())) == len(found.places)
        assert (found.times[1:] >= found.times[:-1]).all()
        assert bindings(bound, table.take(source.rows(found))) == bindings(bound, table)

    agrees()
