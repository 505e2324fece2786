"""The plan of a bucket, the outcome of one step, and the counts since the stream began."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.choose import why_unsteady
from cerise.errors import StoreError, UnsupportedError
from cerise.events import Schema
from cerise.streaming.container import digest
from cerise.streaming.entry import Control, JournalEntry
from cerise.streaming.limits.state_limits import UNLIMITED, Evictions, StateLimits
from cerise.streaming.live_query import StreamQuery
from cerise.streaming.watermark import TimeRules

Found = tuple[str, pa.Table]  # the name of a query, and its matches
BindControl = Callable[[Control], StreamQuery]


@dataclass(frozen=True)
class BucketPlan:
    """Everything that a bucket is made from; frozen, so that it travels to tasks.

    Attributes:
        queries: the queries.
        roles: the columns that queries need, and the time column.
        rules: how long the stream waits for events.
        options: how queries run.
        limits: how much a bucket may keep.
        counts_ties: whether to count events whose order only a hash decides.
        bind: binds a query that is added while the stream runs; None: queries are fixed.
        on_skip: what to do if AFTER MATCH SKIP has no target (M40): "error", or "past_last_row".
        on_error: what to do if a value of RETURN or MEASURES cannot be computed: "error", or "null".
        replaced: the names of queries whose saved state may be dropped because their meaning has changed.
    """

    queries: tuple[StreamQuery, ...]
    roles: Schema
    rules: TimeRules
    options: Options = Options()
    limits: StateLimits = UNLIMITED
    counts_ties: bool = False
    bind: BindControl | None = None
    on_skip: str = "error"
    on_error: str = "error"
    replaced: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        reason = why_unsteady(self.options) if self.limits.evicts else None
        if reason is not None:
            raise UnsupportedError(
                f"the oldest runs cannot be evicted: {reason}", hint="leave the engine to Cerise"
            )

    def allow_replace(self, names: frozenset[str]) -> BucketPlan:
        """Return the plan, with the names of queries whose saved state may be dropped."""
        return replace(self, replaced=names)

    @property
    def meanings(self) -> dict[str, str]:
        """The meaning of each query by name."""
        return {each.name: each.meaning for each in self.queries}

    def restrict(self, saved: Mapping[str, str]) -> BucketPlan:
        """Return the plan without the queries that a saved state does not have, or that are replaced.

        Raises:
            StoreError: a query differs from the saved query of its name.
        """
        kept = []
        for each in self.queries:
            if each.name not in saved or each.name in self.replaced:
                continue
            if saved[each.name] != each.meaning:
                raise StoreError(
                    f"query {each.name} differs from the query whose state was saved under this name",
                    hint=f"give it another name, or drop its state: replace=['{each.name}']",
                )
            kept.append(each)
        return replace(self, queries=tuple(kept))

    @cached_property
    def identity(self) -> str:
        """Identifies the queries, columns and rules, for a cache of live buckets."""
        queries = [(each.name, each.meaning) for each in self.queries]
        manner = (self.counts_ties, self.on_skip, self.on_error)
        text = f"{queries}{self.roles}{self.rules}{self.options}{self.limits}{manner}"
        return digest(text.encode()).hex()


@dataclass(frozen=True, slots=True)
class BucketStep:
    """The outcome of one micro-batch.

    Attributes:
        entry: the journal entry, from which the step can be repeated.
        found: the matches that became final.
        aside: the events that were set aside, with the reason.
    """

    entry: JournalEntry
    found: list[Found]
    aside: list[pa.Table]


@dataclass(slots=True)
class Counts:
    """The counts of a bucket since the stream began.

    Attributes:
        events: accepted events.
        aside: events set aside, by "source: reason".
        evicted: runs, events or rows that went because of a limit.
    """

    events: int = 0
    aside: Counter[str] = field(default_factory=Counter)
    evicted: Evictions = field(default_factory=Evictions)

    def add(self, entry: JournalEntry) -> None:
        self.events += len(entry.events)
        self.aside.update(entry.aside)
