"""The state of a bucket at rest: journal entries of single batches, and now and then a snapshot.

A batch writes its journal entry, which is as large as its new events. When the entries since the last
snapshot weigh as much as that snapshot, a new one is written. So the bytes written stay within a factor of
the events, however large the state is. Loading reads the snapshot and repeats the entries after it.

Entries stay as long as the longest window reaches: a query whose saved state another version of Cerise wrote
is rebuilt from them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import pyarrow.compute as pc

from cerise.errors import StoreError
from cerise.events import read_column
from cerise.kinds import INT64_MIN
from cerise.store.table.failpoints import mark_step
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.container import digest, pack, pack_json, unpack, unpack_json
from cerise.streaming.entry import JournalEntry
from cerise.streaming.limits.state_limits import StateLimits
from cerise.streaming.query_groups import UNDIVIDED, Division

log = logging.getLogger(__name__)
MANIFEST, QUERIES = "manifest", "queries"  # the names of values
CACHED = 64  # live buckets that a process remembers


class StateHome(Protocol):
    """Where the state of one bucket rests: named values, as of the version that the batch starts from."""

    def read(self, name: str) -> bytes | None:
        """Return a value; None: there is none of this name."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a value into the next version."""
        ...

    def delete(self, name: str) -> None:
        """Leave a value out of the next version."""
        ...


@dataclass(frozen=True, slots=True)
class BucketManifest:
    """The values that a version of a bucket's state consists of.

    Attributes:
        version: how many batches the state has seen.
        chain: a hash of all entries so far, which identifies the state.
        division: the key of the bucket's queries, in how many buckets it divides events, and the first one's
            number.
        snapshot: the number of the last entry that the snapshot includes; None: none was written yet.
        snapshot_bytes: the size of the snapshot.
        journal_bytes: the weight of the entries after the snapshot.
        entry_bytes: the size of the entries after the snapshot.
        first: the number of the first entry after the snapshot.
        segments: kept entries before that: the first and last number, their latest time, and their size.
        top: the latest time of an event in the entries after the snapshot.
        facts: the figures of the bucket, for reports.
        limits: the limits under which the entries after the snapshot were taken; None: none.
    """

    version: int = 0
    chain: str = ""
    division: Division = UNDIVIDED
    snapshot: int | None = None
    snapshot_bytes: int = 0
    journal_bytes: int = 0
    entry_bytes: int = 0
    first: int = 0
    segments: tuple[tuple[int, int, int, int], ...] = ()
    top: int = INT64_MIN
    facts: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] | None = None

    @property
    def state_bytes(self) -> int:
        """The size of the snapshot and of all entries that are kept."""
        return self.snapshot_bytes + self.entry_bytes + sum(size for *_, size in self.segments)

    def to_bytes(self) -> bytes:
        return pack({"plain": pack_json(asdict(self))})

    @classmethod
    def of_bytes(cls, data: bytes, name: str) -> BucketManifest:
        plain = unpack_json(unpack(data, name)["plain"])
        plain["division"] = Division(*plain["division"])
        plain["segments"] = tuple(tuple(each) for each in plain["segments"])
        return cls(**plain)


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
        self, plan: BucketPlan, home: StateHome, number: int = 0, division: Division = UNDIVIDED
    ) -> None:
        self.plan, self.home, self.number = plan, home, number
        self.changed = False  # whether queries have come or gone since the saved state
        saved = home.read(MANIFEST)
        self.manifest = (
            BucketManifest(division=division) if saved is None else BucketManifest.of_bytes(saved, MANIFEST)
        )
        check_division(self.manifest.division, division)

    def open(self) -> Bucket:
        """Return the bucket at the saved state: from memory, or from the snapshot and later entries."""
        bucket = self._open()
        bucket.recall = self._all_entries
        return bucket

    def _open(self) -> Bucket:
        live = CACHE.take(self.plan, self.number)
        if live is not None and self._catch_up(live):
            return live.bucket
        saved, limits = self._read_queries(), StateLimits(**self.manifest.limits or {})
        if not self.manifest.version:
            return self._load(self.plan)
        if limits != self.plan.limits and (limits.evicts or self.plan.limits.evicts):
            return self._change_limits(limits, saved)
        if saved == self.plan.meanings:
            return self._load(self.plan)
        self.changed = True
        bucket = self._load(self.plan.restrict(saved))
        bucket.adopt(self.plan)
        return bucket

    def _change_limits(self, limits: StateLimits, saved: Mapping[str, str]) -> Bucket:
        """Return a bucket that was loaded under the limits of its entries, and goes on under others."""
        self.changed = True
        before = self._load(replace(self.plan.restrict(saved), limits=limits))
        bucket = Bucket(self.plan)
        bucket.load(before.save(), "the state under other limits", self._all_entries)
        return bucket

    def _read_queries(self) -> dict[str, str]:
        data = self.home.read(QUERIES)
        return {} if data is None else dict(unpack_json(unpack(data, QUERIES)["plain"]))

    def _load(self, plan: BucketPlan) -> Bucket:
        """Return a bucket from the snapshot and the entries after it."""
        bucket, manifest = Bucket(plan), self.manifest
        bucket.recall = self._all_entries
        if manifest.snapshot is not None:
            name = snapshot_name(manifest.snapshot)
            bucket.load(self._read(name), name, self._read_segments)
        bucket.replay(self._entries(manifest.first, manifest.version))
        return bucket

    def _catch_up(self, live: LiveBucket) -> bool:
        """Repeat the entries that a live bucket has missed; False: it is not an earlier state of this one."""
        chain, missed = live.chain, []
        for number in range(live.version, self.manifest.version):
            data = self.home.read(entry_name(number))
            if data is None:
                return False
            chain = extend_chain(chain, data)
            missed.append(JournalEntry.of_bytes(data, entry_name(number), self.plan.roles.columns))
        if chain != self.manifest.chain or live.version > self.manifest.version:
            return False
        if missed:
            live.bucket.replay(missed)
        return True

    def keep(self, bucket: Bucket, entry: JournalEntry) -> BucketManifest:
        """Write the entry of a step and, if it is time, a snapshot; return the new manifest."""
        before, data, limits = self.manifest, entry.to_bytes(), self.plan.options.limits
        self.home.write(entry_name(before.version), data)
        mark_step("journal written")
        manifest = replace(
            before,
            version=before.version + 1,
            chain=extend_chain(before.chain, data),
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
            snapshot_bytes=len(data),
            journal_bytes=0,
            entry_bytes=0,
            first=last + 1,
            segments=(*manifest.segments, (manifest.first, last, manifest.top, manifest.entry_bytes)),
            top=INT64_MIN,
        )

    def _forget(self, manifest: BucketManifest, bucket: Bucket) -> BucketManifest:
        """Delete entries that no query can need any more."""
        reach = bucket.reach
        since = None if reach is None else bucket.watermark.time - reach
        kept = []
        for first, last, top, size in manifest.segments:
            if since is None or top < since:
                for number in range(first, last + 1):
                    self.home.delete(entry_name(number))
            else:
                kept.append((first, last, top, size))
        return replace(manifest, segments=tuple(kept))

    def _read_segments(self) -> Iterator[JournalEntry]:
        """Yield the entries before the snapshot that are still there, to rebuild queries from."""
        for first, last, *_ in self.manifest.segments:
            yield from self._entries(first, last + 1)

    def _all_entries(self) -> Iterator[JournalEntry]:
        yield from self._read_segments()
        yield from self._entries(self.manifest.first, self.manifest.version)

    def _entries(self, first: int, end: int) -> Iterator[JournalEntry]:
        for number in range(first, end):
            name = entry_name(number)
            yield JournalEntry.of_bytes(self._read(name), name, self.plan.roles.columns)

    def _read(self, name: str) -> bytes:
        data = self.home.read(name)
        if data is None:
            raise StoreError(
                f"{name} of bucket {self.number} is gone",
                hint="restore the state, or start with a new checkpoint",
            )
        return data


def check_division(saved: Division, now: Division) -> None:
    """Refuse a stream that divides its events otherwise than its saved state."""
    if saved == now:
        return
    if saved.key == now.key and saved.buckets != now.buckets:
        raise StoreError(
            f"the saved state has {saved.buckets} buckets, and the stream {now.buckets} now",
            hint=f"say buckets={saved.buckets}, or start with a new checkpoint",
        )
    kept, asked = (f"by {each.key}" if each.key else "without a key" for each in (saved, now))
    raise StoreError(
        f"the saved state of bucket {now.first} is of queries {kept}, and now it would be of queries {asked}",
        hint="queries with other keys have come or gone: give them a stream of their own, "
        "or start with a new checkpoint",
    )


def extend_chain(chain: str, entry: bytes) -> str:
    """Return the hash that identifies a state after one more entry."""
    return digest(chain.encode() + entry).hex()


def entry_name(number: int) -> str:
    """Return the name of a journal entry."""
    return f"entry-{number}"


def snapshot_name(number: int) -> str:
    """Return the name of the snapshot after an entry."""
    return f"snapshot-{number}"


class MemoryHome:
    """A home in the memory of this process, for tests and for `Watcher`."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.values.get(name)

    def write(self, name: str, data: bytes) -> None:
        self.values[name] = data

    def delete(self, name: str) -> None:
        self.values.pop(name, None)
