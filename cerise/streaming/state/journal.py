"""The state of a bucket at rest: journal entries of single batches, and now and then a snapshot.

A batch writes its journal entry, which is as large as its new events. When the entries since the last
snapshot weigh as much as that snapshot, a new one is written. So the bytes written stay within a factor of
the events, however large the state is. Loading reads the snapshot and repeats the entries after it.

Entries stay as long as the longest window reaches: a query whose saved state another version of Cerise wrote
is rebuilt from them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from cerise.errors import StoreError
from cerise.events import read_column
from cerise.kinds import INT64_MIN
from cerise.store.table.failpoints import mark_step
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.container import pack, pack_json
from cerise.streaming.entry import JournalEntry
from cerise.streaming.query_groups import UNDIVIDED, Division, StreamGroup
from cerise.streaming.state.begun_bucket import BegunBucket, begin_bucket
from cerise.streaming.state.saved_state import (
    MANIFEST,
    QUERIES,
    BucketManifest,
    SavedState,
    StateHome,
    entry_name,
    extend_chain,
    snapshot_name,
)

log = logging.getLogger(__name__)
CACHED = 64  # live buckets that a process remembers
CHANGED = b"other queries"  # in the chain of hashes: a bucket of before cannot catch up


@dataclass(slots=True)
class LiveBucket:
    """A bucket in memory, and the state that it is at."""

    bucket: Bucket
    version: int
    chain: str


class BucketCache:
    """Live buckets of this process by plan and number; only a cache, never the truth.

    A process may have missed some batches, which other processes ran. Then the bucket repeats their journal
    entries, which is quicker than to load a snapshot; the hashes of the entries tell if they are its own.
    """

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, int], LiveBucket] = {}

    def take(self, plan: BucketPlan, number: int) -> LiveBucket | None:
        """Remove and return a live bucket."""
        return self._buckets.pop((plan.identity, number), None)

    def add(self, live: LiveBucket, number: int) -> None:
        """Remember a live bucket; the oldest goes if there are many."""
        self._buckets[live.bucket.plan.identity, number] = live
        while len(self._buckets) > CACHED:
            del self._buckets[next(iter(self._buckets))]

    def clear(self) -> None:
        self._buckets.clear()


CACHE = BucketCache()


class Journal:
    """One bucket and its home: opens the bucket at the saved state, and saves each step."""

    def __init__(
        self, plan: BucketPlan, home: StateHome, number: int = 0, group: StreamGroup | None = None
    ) -> None:
        self.plan, self.home, self.number = plan, home, number
        self.changed = False  # whether queries have come or gone since the saved state
        division = UNDIVIDED if group is None else group.division
        self._saved = SavedState.of(home, number) or SavedState(
            home, BucketManifest(division=division), number
        )
        self._begun: BegunBucket | None = None  # a bucket that begins with the state of others
        if not self._saved.manifest.version or self._saved.manifest.division != division:
            self._find_former(division, group)
        self.manifest = self._saved.manifest

    def _find_former(self, division: Division, group: StreamGroup | None) -> None:
        """Find the state of a bucket that had none, or was of other keys, in the batch before."""
        former = [SavedState.of(each, number) for number, each in enumerate(self.home.former())]
        known = [each for each in former if each is not None]
        if not known or group is None:
            self._saved = check_division(self._saved, division)
            return
        for name in self.home.names():
            self.home.delete(name)
        begun = begin_bucket(self.plan, known, group, self.number)
        if isinstance(begun, SavedState):  # of a bucket that had another number
            for name in begun.home.names():
                data = begun.home.read(name)
                assert data is not None
                self.home.write(name, data)
            self._saved = SavedState(begun.home, replace(begun.manifest, division=division), self.number)
        else:
            self._saved, self._begun = SavedState(self.home, begun.manifest, self.number), begun

    def open(self) -> Bucket:
        """Return the bucket at the saved state: from memory, or from the snapshot and later entries."""
        if self._begun is None:
            bucket = self._open()
            bucket.recall = self._recall
            return bucket
        self.changed, bucket, kept = True, self._begun.bucket, self._begun.kept
        bucket.recall = lambda: [kept]
        return bucket

    def _recall(self) -> Iterable[JournalEntry]:
        return self._saved.all_entries(self.plan)

    def _open(self) -> Bucket:
        live = CACHE.take(self.plan, self.number)
        if live is not None and self._catch_up(live):
            return live.bucket
        saved = self._saved.queries
        self.changed = bool(self.manifest.version) and self._saved.limits != self.plan.limits
        if saved == self.plan.meanings or not self.manifest.version:
            return self._saved.load(self.plan)
        self.changed = True
        bucket = self._saved.load(self.plan.restrict(saved))
        bucket.adopt(self.plan)
        return bucket

    def _catch_up(self, live: LiveBucket) -> bool:
        """Repeat the entries that a live bucket has missed; False: it is not an earlier state of this one."""
        chain, missed = live.chain, []
        for number in range(live.version, self.manifest.version):
            data = self._saved.home.read(entry_name(number))
            if data is None:
                return False
            chain = extend_chain(chain, data)
            missed.append(JournalEntry.of_bytes(data, entry_name(number), self.plan.roles.columns))
        if chain != self.manifest.chain or live.version > self.manifest.version:
            return False
        if missed:
            live.bucket.recall = self._recall  # a missed batch may have added a query that begins earlier
            live.bucket.replay(missed, self.manifest.facts)
        return True

    def keep(self, bucket: Bucket, entry: JournalEntry) -> BucketManifest:
        """Write the entry of a step and, if it is time, a snapshot; return the new manifest."""
        if self._begun is not None:
            self._begun.write(self.home)
        before, data, limits = self.manifest, entry.to_bytes(), self.plan.options.limits
        self.home.write(entry_name(before.version), data)
        mark_step("journal written")
        manifest = replace(
            before,
            version=before.version + 1,
            chain=extend_chain(before.chain, data + CHANGED if self.changed else data),
            journal_bytes=before.journal_bytes + max(len(data), limits.entry_bytes),
            entry_bytes=before.entry_bytes + len(data),
            top=max(before.top, self._top(entry)),
            facts=bucket.facts(),
            limits=self.plan.limits.to_plain(),
        )
        full = manifest.journal_bytes >= max(manifest.snapshot_bytes, limits.snapshot_bytes)
        if full or self.changed:
            manifest = self._write_snapshot(bucket, manifest)
        if self.changed or not before.version:
            self.home.write(QUERIES, pack({"plain": pack_json(self.plan.meanings)}))
        self.manifest = self._forget(manifest, bucket)
        self.home.write(MANIFEST, self.manifest.to_bytes())
        self._begun = None
        CACHE.add(LiveBucket(bucket, self.manifest.version, self.manifest.chain), self.number)
        return self.manifest

    def _top(self, entry: JournalEntry) -> int:
        if not len(entry.events):
            return INT64_MIN
        roles = self.plan.roles
        return int(pc.max(read_column(entry.events, roles, (roles.time,))).as_py())

    def _write_snapshot(self, bucket: Bucket, manifest: BucketManifest) -> BucketManifest:
        data = bucket.save()
        last = manifest.version - 1
        self.home.write(snapshot_name(last), data)
        if manifest.snapshot is not None:
            self.home.delete(snapshot_name(manifest.snapshot))
        return replace(
            manifest,
            snapshot=last,
            snapshot_time=bucket.watermark.time,
            snapshot_bytes=len(data),
            journal_bytes=0,
            entry_bytes=0,
            first=last + 1,
            segments=(*manifest.segments, (manifest.first, last, manifest.top, manifest.entry_bytes)),
            top=INT64_MIN,
        )

    def _forget(self, manifest: BucketManifest, bucket: Bucket) -> BucketManifest:
        """Delete entries that no query can need any more, if it is rebuilt at the snapshot."""
        reach, kept = bucket.kept_reach, []
        for first, last, top, size in manifest.segments:
            if reach is None or top < manifest.snapshot_time - reach:
                for number in range(first, last + 1):
                    self.home.delete(entry_name(number))
            else:
                kept.append((first, last, top, size))
        return replace(manifest, segments=tuple(kept))


def check_division(saved: SavedState, now: Division) -> SavedState:
    """Return the state of a bucket whose number may have changed; refuse another number of buckets.

    Raises:
        StoreError: the stream divides its keys among another number of buckets.
    """
    before = saved.manifest.division
    if before.buckets != now.buckets:
        raise StoreError(
            f"the saved state has {before.buckets} buckets, and the stream {now.buckets} now",
            hint=f"say buckets={before.buckets}. Only a state in files (state=) can be divided again: for "
            "that, start with a new checkpoint, and with the events so far as history=",
        )
    return replace(saved, manifest=replace(saved.manifest, division=now))
