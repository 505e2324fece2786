"""The shrinking window filter [DFS §IV-B1]: covered time in a cuckoo table, four bytes for each window.

A window of time is `tag_bits` ticks. Its entry has a fingerprint of the window (and of the partition, if
there is one) and a bit for each tick. Sites set refresh tags beside the entries; the asker keeps the ticks
that a site has refreshed. The filter covers at least the time of the runs that it is made of: a table without
room is made again with twice the buckets, and a compaction without room is undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerise.errors import DataError, PlanError
from cerise.filters.dual.filter_theory import ENTRY_BITS, PLACES, buckets_for
from cerise.filters.dual.sealing import HINT, seal, unseal
from cerise.filters.dual.tick_runs import NOTHING, TAG_BITS, Bools, TickRuns, check_keys
from cerise.plan.intervals import Ints

Entries = npt.NDArray[np.uint32]
WINDOWS, TAGS = 2, 3  # kinds of messages
DIVISIONS = (8, 10, 12, 16)  # bits of a fingerprint; the rest of an entry is its tag
LEAST_LOAD = 0.39  # a table with less is compacted
KICKS = 500  # entries that may make room for one
MOST_ENTRIES = 1 << 26
HEAD_WORDS = 4


@dataclass(frozen=True, slots=True, eq=False)
class RefreshTags:
    """What a site sends back: the ticks of each entry that it refreshed.

    Attributes:
        tags: a tag for each entry of the filter.
        used: which entries of the filter are in use; the tags of the others are not sent.
        tag_bits: the ticks of a window.
    """

    tags: Entries
    used: Bools
    tag_bits: int

    def to_bytes(self) -> bytes:
        """Return the tags as a message: a bit for each entry in use, and the tags that are not zero."""
        tags = self.tags[self.used]
        bits = (tags[tags != 0][:, None] >> np.arange(self.tag_bits, dtype=np.uint32)) & 1
        head = np.array([len(self.tags), len(tags), len(bits), self.tag_bits], "<i8")
        return seal(
            TAGS, head.tobytes() + np.packbits(tags != 0).tobytes() + np.packbits(bits.ravel()).tobytes()
        )

    @classmethod
    def from_bytes(cls, message: bytes, asked: ShrinkingWindow) -> RefreshTags:
        """Return the tags of a message that answers a filter.

        Raises:
            DataError: the message is cut, changed, of another version, or answers another filter.
        """
        body = unseal(TAGS, message)
        used = asked.used
        head = np.frombuffer(body[: 8 * HEAD_WORDS], "<i8").tolist()
        if head[:2] + head[3:] != [len(used), int(used.sum()), asked.tag_bits]:
            raise DataError("refresh tags answer another filter", hint=HINT)
        data = np.frombuffer(body, np.uint8, offset=8 * HEAD_WORDS)
        marks = -(-head[1] // 8)
        there = np.unpackbits(data[:marks], count=head[1]).astype(bool)
        if int(there.sum()) != head[2] or len(data) != marks - (-head[2] * head[3] // 8):
            raise DataError("refresh tags arrived with a wrong length", hint=HINT)
        bits = np.unpackbits(data[marks:], count=head[2] * head[3]).reshape(head[2], head[3])
        sent = np.zeros(head[1], np.uint32)
        sent[there] = (bits.astype(np.uint32) << np.arange(head[3], dtype=np.uint32)).sum(1, dtype=np.uint32)
        tags = np.zeros(len(used), np.uint32)
        tags[used] = sent
        return cls(tags, used, asked.tag_bits)


def merge_tags(parts: Sequence[RefreshTags]) -> RefreshTags:
    """Return the ticks that any of several sites has refreshed."""
    return RefreshTags(np.bitwise_or.reduce([each.tags for each in parts]), parts[0].used, parts[0].tag_bits)


@dataclass(frozen=True, slots=True, eq=False)
class ShrinkingWindow:
    """Covered time as a table of windows.

    Attributes:
        entries: the table, bucket by bucket.
        tick: the length of a tick.
        tag_bits: the ticks of a window.
        keyed: whether a window belongs to a partition.
    """

    entries: Entries
    tick: int
    tag_bits: int
    keyed: bool

    @classmethod
    def of(
        cls,
        runs: TickRuns,
        *,
        fingerprint_bits: int = ENTRY_BITS - TAG_BITS,
        buckets: int | None = None,
        kicks: int = KICKS,
    ) -> ShrinkingWindow:
        """Return a filter that covers at least the time of some runs.

        Args:
            runs: the covered time.
            fingerprint_bits: the bits of a fingerprint, one of `DIVISIONS`.
            buckets: how many buckets to begin with, a power of two; None: as many as the entries need.
            kicks: how many entries may make room for one before the table is made again, larger.

        Raises:
            PlanError: the runs span more windows than a table may have, such as all time.
        """
        from cerise.filters.dual.window_kernels import insert_runs

        if fingerprint_bits not in DIVISIONS:
            raise PlanError(f"a fingerprint has {fingerprint_bits} bits", hint=f"one of {DIVISIONS}")
        tag_bits = ENTRY_BITS - fingerprint_bits
        count = entries_of(runs, tag_bits)
        if count > MOST_ENTRIES:
            raise PlanError(f"covered time of {count} windows is too much for a table", hint="send tick runs")
        size = buckets or buckets_for(count)
        given = runs.arrays()
        while True:
            entries = np.zeros(PLACES * size, np.uint32)
            if insert_runs(*given, entries, size, tag_bits, kicks):
                return cls(entries, runs.tick, tag_bits, runs.keyed)
            size *= 2

    @property
    def buckets(self) -> int:
        return len(self.entries) // PLACES

    @property
    def load(self) -> float:
        """How many of the entries are in use, from 0 to 1."""
        return float(self.used.mean())

    @property
    def used(self) -> Bools:
        used: Bools = self.entries & np.uint32((1 << self.tag_bits) - 1) != 0
        return used

    def holds(self, times: Ints, keys: Ints | None = None) -> Bools:
        """Return for each event whether its time may be covered, of its partition if the filter has keys."""
        from cerise.filters.dual.window_kernels import look_up

        check_keys(self.keyed, keys)
        inside = np.zeros(len(times), bool)
        known = NOTHING if keys is None else np.ascontiguousarray(keys)
        table = self.entries, self.buckets, self.tag_bits, self.tick
        look_up(np.ascontiguousarray(times), known, *table, inside.view(np.uint8))
        return inside

    def refresh(self, runs: TickRuns) -> RefreshTags:
        """Return refresh tags with the ticks of some runs."""
        from cerise.filters.dual.window_kernels import refresh_runs

        if (runs.tick, runs.keyed) != (self.tick, self.keyed):
            raise PlanError("covered times of different ticks, with and without keys, cannot be joined")
        tags = np.zeros_like(self.entries)
        refresh_runs(*runs.arrays(), self.entries, tags, self.buckets, self.tag_bits)
        return RefreshTags(tags, self.used, self.tag_bits)

    def clear(self, refreshed: RefreshTags) -> ShrinkingWindow:
        """Return the filter with the refreshed ticks alone; entries without a tick are free again."""
        if len(refreshed.tags) != len(self.entries) or refreshed.tag_bits != self.tag_bits:
            raise PlanError("refresh tags answer another filter")
        full = np.uint32((1 << self.tag_bits) - 1)
        tags = self.entries & refreshed.tags & full
        entries = np.where(tags != 0, (self.entries & ~full) | tags, 0).astype(np.uint32)
        return ShrinkingWindow(entries, self.tick, self.tag_bits, self.keyed)

    def compact(self, *, least: float = LEAST_LOAD, kicks: int = KICKS) -> ShrinkingWindow:
        """Return the filter with half of the buckets, again and again while less than `least` is in use.

        A step that finds no room for an entry is undone, and the last.
        """
        from cerise.filters.dual.window_kernels import move_entries

        now = self
        while now.buckets > 1 and now.load < least:
            fresh = np.zeros(len(now.entries) // 2, np.uint32)
            if not move_entries(now.entries, fresh, now.buckets // 2, self.tag_bits, kicks):
                break
            now = ShrinkingWindow(fresh, self.tick, self.tag_bits, self.keyed)
        return now

    def shrunk(self, refreshed: RefreshTags) -> ShrinkingWindow:
        """Return the filter after a round: cleared and compacted."""
        return self.clear(refreshed).compact()

    def shrink(self, runs: TickRuns) -> ShrinkingWindow:
        """Return the filter with the ticks that runs cover, too, as one site would refresh them."""
        return self.shrunk(self.refresh(runs))

    def to_bytes(self) -> bytes:
        """Return fingerprints and slice tags as a message; refresh tags travel apart [DFS §IV-B1 ①]."""
        head = np.array([self.tick, self.tag_bits, self.keyed, len(self.entries)], "<i8")
        return seal(WINDOWS, head.tobytes() + self.entries.astype("<u4").tobytes())

    @classmethod
    def from_bytes(cls, message: bytes) -> ShrinkingWindow:
        """Return the filter of a message.

        Raises:
            DataError: the message is cut, changed, of another version, or of another kind.
        """
        body = unseal(WINDOWS, message)
        if len(body) < 8 * HEAD_WORDS:
            raise DataError("a shrinking window filter arrived without its head", hint=HINT)
        tick, tag_bits, keyed, count = np.frombuffer(body, "<i8", HEAD_WORDS).tolist()
        buckets = count // PLACES
        right = tick > 0 and ENTRY_BITS - tag_bits in DIVISIONS and buckets > 0
        if not right or buckets & (buckets - 1) or len(body) != 8 * HEAD_WORDS + 4 * PLACES * buckets:
            raise DataError("a shrinking window filter arrived with a wrong head", hint=HINT)
        entries = np.frombuffer(body, "<u4", offset=8 * HEAD_WORDS).astype(np.uint32)
        return cls(entries, tick, tag_bits, bool(keyed))


def entries_of(runs: TickRuns, tag_bits: int = TAG_BITS) -> int:
    """Return how many windows some runs touch, n_e; above `MOST_ENTRIES` it is not exact."""
    first, last = runs.firsts // tag_bits, runs.lasts // tag_bits
    if len(runs) and int((last - first).max()) > MOST_ENTRIES:
        return int((last - first).max())
    again = first[1:] == last[:-1]
    if runs.keys is not None:
        again &= runs.keys[1:] == runs.keys[:-1]
    return int((last - first).sum()) + len(runs) - int(again.sum())
