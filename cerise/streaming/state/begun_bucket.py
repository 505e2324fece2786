"""Buckets that begin with the state of others: the stream has another number of buckets, or other keys.

Keys are divided among another number of buckets: each new bucket reads all former ones at the batch before,
takes the held events and the journal of its own keys, and rebuilds its queries. Former buckets stay as they
are, so that the batch can be repeated, with any number of buckets. A bucket whose number alone has changed
takes over a state as it is, and a bucket of new queries only the time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from cerise.errors import StoreError
from cerise.events import read_times
from cerise.kinds import INT64_MIN
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.container import digest
from cerise.streaming.entry import JournalEntry
from cerise.streaming.held_events import check_columns
from cerise.streaming.query_groups import Division, StreamGroup
from cerise.streaming.state.saved_state import BucketManifest, SavedState, StateHome, entry_name

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BegunBucket:
    """A bucket that has its state from others.

    Attributes:
        bucket: the bucket.
        manifest: its manifest before its first step.
        kept: the events that queries may be rebuilt from.
    """

    bucket: Bucket
    manifest: BucketManifest
    kept: JournalEntry

    @classmethod
    def of(
        cls, bucket: Bucket, kept: pa.Table, former: Sequence[SavedState], division: Division, number: int
    ) -> BegunBucket:
        """Return a bucket whose first entry, before that of its first step, has the kept events."""
        version = former[0].manifest.version
        known = "".join(each.manifest.chain for each in former)
        chain = digest(f"{known} {division} {number}".encode()).hex()
        entry, manifest = JournalEntry(kept, {}), BucketManifest(version, chain, division, first=version)
        if len(kept):
            top = int(read_times(kept, bucket.plan.roles).max())
            manifest = replace(manifest, segments=((version - 1, version - 1, top, len(entry.to_bytes())),))
        return cls(bucket, manifest, entry)

    def write(self, home: StateHome) -> None:
        """Write the entry with the kept events."""
        for first, *_ in self.manifest.segments:
            home.write(entry_name(first), self.kept.to_bytes())


def begin_bucket(
    plan: BucketPlan, former: Sequence[SavedState], group: StreamGroup, number: int
) -> BegunBucket | SavedState:
    """Return a bucket that had no state, or the state of other queries, in the batch before.

    Args:
        plan: its plan.
        former: the states of all buckets of the stream after the batch before.
        group: its queries, and how they divide events.
        number: its number.

    Returns:
        The bucket; or the state of a former bucket that is its own, under another number.

    Raises:
        StoreError: a state is damaged, or cannot be divided.
    """
    division = group.division
    same = [each for each in former if each.manifest.division.key == division.key]
    if not same:
        return _begin_anew(plan, former, division, number)
    before = same[0].manifest.division
    if any(each.manifest.division != before for each in same) or len(same) != before.buckets:
        raise StoreError(
            f"the saved state has {len(same)} of {before.buckets} buckets",
            hint="restore the state, or start with a new checkpoint",
        )
    if before.buckets == division.buckets:
        return same[number - division.first]
    return _divide(plan, same, group, number)


def _begin_anew(
    plan: BucketPlan, former: Sequence[SavedState], division: Division, number: int
) -> BegunBucket:
    """Return a bucket of new queries, which take events from the watermark of the stream on."""
    bucket = Bucket(plan.restrict({}))
    bucket.follow(former[0].manifest.facts)
    bucket.adopt(plan)
    return BegunBucket.of(bucket, plan.roles.columns.empty_table(), former, division, number)


def _divide(plan: BucketPlan, former: Sequence[SavedState], group: StreamGroup, number: int) -> BegunBucket:
    """Return a bucket with its share of the states of former buckets."""
    log.warning("the keys of %d buckets are divided among %d", len(former), group.buckets)
    saved, share = former[0].queries, group.share(number)
    known = plan.restrict(saved)
    bucket, kept = Bucket(known), [plan.roles.columns.empty_table()]
    bucket.live.clear()

    def load_all() -> Iterator[Bucket]:
        for each in former:
            loaded = each.load(known)
            since = loaded.watermark.time - (loaded.kept_reach or 0)
            kept.extend(_keep(entry, loaded, since) for entry in each.all_entries(known) if len(entry.events))
            yield loaded

    def take_kept() -> pa.Table:
        return share.take(pa.concat_tables(kept).unify_dictionaries().combine_chunks())

    bucket.divide(load_all(), take_kept, share)
    bucket.adopt(plan)
    return BegunBucket.of(bucket, take_kept(), former, group.division, number)


def _keep(entry: JournalEntry, bucket: Bucket, since: int) -> pa.Table:
    """Return the events of an entry that queries may be rebuilt from, with the columns of a bucket."""
    check_columns(entry.events.schema, bucket.plan.roles.columns)
    roles = bucket.plan.roles
    table = entry.events.select(roles.columns.names)
    recent = read_times(table, roles) >= max(since, INT64_MIN)
    return table if recent.all() else table.filter(pa.array(recent))
