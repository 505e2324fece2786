"""The saved state of a bucket: its manifest, the snapshot and the journal entries in a home of state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from cerise.errors import StoreError
from cerise.kinds import INT64_MIN
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.container import digest, pack, pack_json, unpack, unpack_json
from cerise.streaming.entry import JournalEntry
from cerise.streaming.limits.state_limits import StateLimits
from cerise.streaming.query_groups import UNDIVIDED, Division

MANIFEST, QUERIES = "manifest", "queries"  # the names of values


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

    def names(self) -> list[str]:
        """Return the names of all values."""
        ...

    def former(self) -> Sequence[StateHome]:
        """Return the homes of all buckets of the stream, as of the version that the batch starts from.

        Empty: the stream has no state yet, or the home of a bucket cannot read the state of others.
        """
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
        snapshot_time: the watermark of the snapshot.
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
    snapshot_time: int = INT64_MIN
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


@dataclass(frozen=True, slots=True)
class SavedState:
    """The state that a home has of a bucket.

    Attributes:
        home: where it rests.
        manifest: the values that it consists of.
        number: the number of the bucket, for errors.
    """

    home: StateHome
    manifest: BucketManifest
    number: int

    @classmethod
    def of(cls, home: StateHome, number: int) -> SavedState | None:
        """Return the state of a bucket; None: there is none."""
        data = home.read(MANIFEST)
        return None if data is None else cls(home, BucketManifest.of_bytes(data, MANIFEST), number)

    @property
    def queries(self) -> dict[str, str]:
        """The meanings of the queries by name."""
        data = self.home.read(QUERIES)
        return {} if data is None else dict(unpack_json(unpack(data, QUERIES)["plain"]))

    @property
    def limits(self) -> StateLimits:
        """The limits under which the entries after the snapshot were taken."""
        return StateLimits(**self.manifest.limits or {})

    def load(self, plan: BucketPlan) -> Bucket:
        """Return a bucket from the snapshot and the entries after it.

        Entries are repeated under the limits of their time, as these decide which runs they evict.

        Args:
            plan: the plan of the bucket, with queries that the state has.
        """
        limits = self.limits if self.manifest.version else plan.limits
        if limits == plan.limits or not (limits.evicts or plan.limits.evicts):
            return self._load(plan)
        before, bucket = self._load(replace(plan, limits=limits)), Bucket(plan)
        bucket.recall = lambda: self.all_entries(plan)
        bucket.load(before.save(), "the state under other limits", bucket.recall)
        return bucket

    def _load(self, plan: BucketPlan) -> Bucket:
        bucket, manifest = Bucket(plan), self.manifest
        bucket.recall = lambda: self.all_entries(plan)
        if manifest.snapshot is not None:
            name = snapshot_name(manifest.snapshot)
            bucket.load(self._read(name), name, lambda: self._segments(plan))
        bucket.replay(self._entries(manifest.first, manifest.version, plan))
        return bucket

    def _segments(self, plan: BucketPlan) -> Iterator[JournalEntry]:
        """Yield the entries before the snapshot that are still there, to rebuild queries from."""
        for first, last, *_ in self.manifest.segments:
            yield from self._entries(first, last + 1, plan)

    def all_entries(self, plan: BucketPlan) -> Iterator[JournalEntry]:
        """Yield all entries that are kept, oldest first."""
        yield from self._segments(plan)
        yield from self._entries(self.manifest.first, self.manifest.version, plan)

    def _entries(self, first: int, end: int, plan: BucketPlan) -> Iterator[JournalEntry]:
        for number in range(first, end):
            name = entry_name(number)
            yield JournalEntry.of_bytes(self._read(name), name, plan.roles.columns)

    def _read(self, name: str) -> bytes:
        data = self.home.read(name)
        if data is None:
            raise StoreError(
                f"{name} of bucket {self.number} is gone",
                hint="restore the state, or start with a new checkpoint",
            )
        return data


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

    def names(self) -> list[str]:
        return sorted(self.values)

    def former(self) -> Sequence[StateHome]:
        return ()
