"""Reads states in files back: the figures of every bucket, and the events that their journals still hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.errors import StoreError, did_you_mean
from cerise.streaming.container import unpack, unpack_table
from cerise.streaming.entry import JournalEntry
from cerise.streaming.state.saved_state import MANIFEST, BucketManifest, entry_name, snapshot_name
from cerise.streaming.state.state_check import find_states
from cerise.streaming.state.state_files import MANIFEST as MANIFEST_FILE
from cerise.streaming.state.state_files import FileStateHome, Versions

NO_COLUMNS = pa.schema([])


@dataclass(frozen=True)
class SavedBucket:
    """The newest version of the state of one bucket.

    Attributes:
        stream: the id of the streaming query.
        number: the number of the bucket.
        first: the oldest batch whose version is kept.
        batch: the newest batch.
        manifest: lists the snapshot and the entries.
        home: reads them.
    """

    stream: str
    number: int
    first: int
    batch: int
    manifest: BucketManifest
    home: FileStateHome

    @property
    def figures(self) -> dict[str, Any]:
        """The figures of the bucket, for reports."""
        return {"bucket": self.number, "state_bytes": self.manifest.state_bytes, **self.manifest.facts}

    @property
    def queries(self) -> frozenset[str]:
        """The names of the queries that run over the bucket."""
        return frozenset(self.manifest.facts["matches"])

    def entries(self) -> Iterator[JournalEntry]:
        """Yield all journal entries that are kept, oldest first."""
        spans = [(first, last + 1) for first, last, *_ in self.manifest.segments]
        for first, end in (*spans, (self.manifest.first, self.manifest.version)):
            for number in range(first, end):
                name = entry_name(number)
                yield JournalEntry.of_bytes(self._read(name), name, NO_COLUMNS)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the events of the bucket that are kept, oldest entry first."""
        if self.manifest.snapshot is not None and not self.manifest.segments:
            # Without entries before the snapshot, only the snapshot has the events that it holds.
            name = snapshot_name(self.manifest.snapshot)
            if held := unpack(self._read(name), name)["held"]:
                yield unpack_table(held)
        yield from (entry.events for entry in self.entries() if len(entry.events))

    def _read(self, name: str) -> bytes:
        data = self.home.read(name)
        if data is None:
            raise StoreError(f"{name} of bucket {self.number} is gone", hint="restore the state from a copy")
        return data


def open_buckets(path: str | Path) -> dict[str, list[SavedBucket]]:
    """Return the newest state of all buckets under a path, by the id of their streaming query.

    Raises:
        StoreError: the path holds no state, or the newest version of a bucket is gone or damaged.
    """
    found: dict[str, list[SavedBucket]] = {}
    states = sorted(find_states(path), key=lambda each: (each.query, each.bucket))
    for stream, buckets in groupby(states, key=lambda each: each.query):
        for versions in buckets:
            known = found.setdefault(stream, [])
            if known and known[0].number == 0 and versions.bucket >= known[0].home.buckets:
                break  # the stream had it before its keys were divided among fewer buckets
            known.append(_open(path, versions))
    return found


def _open(path: str | Path, versions: Versions) -> SavedBucket:
    batches = sorted(int(each[1]) for each in map(MANIFEST_FILE.fullmatch, versions.folder.files()) if each)
    if not batches:
        raise StoreError(f"{versions.folder.root} has no manifest", hint="restore the state from a copy")
    home = FileStateHome(path, versions.query, versions.bucket, batches[-1] + 1)
    data = home.read(MANIFEST)
    if data is None:
        raise StoreError(f"{versions.folder.root} lists no journal", hint="restore the state from a copy")
    manifest = BucketManifest.of_bytes(data, MANIFEST)
    return SavedBucket(versions.query, versions.bucket, batches[0], batches[-1], manifest, home)


def read_events(path: str | Path, query: str | None = None, *, stream: str | None = None) -> pa.Table:
    """Return the events that the journals of a state still hold: those that later matches may need.

    `explain_misses` over them says why a query of a running stream has not fired.

    Args:
        path: the folder that was given as `state=`.
        query: the name of a query, whose events are returned: with different keys, queries have buckets, and
            columns, of their own.
        stream: the id of the streaming query, if the folder has the state of several.

    Raises:
        StoreError: nothing is saved there, or it is damaged.
    """
    buckets = _choose_stream(open_buckets(path), path, stream)
    chosen = _choose_group(buckets, query)
    tables = [table for each in chosen for table in each.tables()]
    if not tables:
        raise StoreError(f"the state under {path} holds no events", hint="has the stream had any?")
    return pa.concat_tables(tables)


def _choose_stream(
    streams: dict[str, list[SavedBucket]], path: str | Path, stream: str | None
) -> list[SavedBucket]:
    if stream is None and len(streams) == 1:
        return next(iter(streams.values()))
    if stream not in streams:
        known = ", ".join(streams)
        raise StoreError(f"{path} has the state of the streams {known}", hint="say which: stream='…'")
    return streams[stream]


def _choose_group(buckets: list[SavedBucket], query: str | None) -> list[SavedBucket]:
    groups = {each.queries for each in buckets}
    if query is None and len(groups) == 1:
        return buckets
    chosen = [each for each in buckets if query in each.queries]
    if not chosen:
        names = sorted(name for each in groups for name in each)
        hint = "name a query" if query is None else did_you_mean(query, names)
        problem = "the queries have different keys" if query is None else f"no query is named '{query}'"
        raise StoreError(f"{problem}: the state is of {', '.join(names)}", hint=hint)
    return chosen
