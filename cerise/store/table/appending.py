"""Appends events: large appends as files with an index, small ones as fresh files, to be sealed together.

An append is one commit, so it succeeds as a whole or has no effect.
"""

from __future__ import annotations

import random
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import pyarrow as pa

from cerise.events import EventBatch, Schema
from cerise.files.delta import LoggedFile
from cerise.store.index.layout import SEQUENCE, SEQUENCE_FIELDS
from cerise.store.table.append_sources import AppendSource, regroup
from cerise.store.table.column_types import check
from cerise.store.table.commits import Change, NotCommitted, Overtaken, commit
from cerise.store.table.data_file import (
    NOISE,
    AppendPart,
    Writing,
    Written,
    data_name,
    discard,
    newest_append,
    next_append,
    read_file,
    row_groups,
    write_file,
    write_piece,
)
from cerise.store.table.snapshot import Snapshot, own_snapshot

TRIES = 12
LONGEST_WAIT = 1.0
WRITERS = 2  # files written at once


def patience(rng: random.Random, tries: int = TRIES) -> list[float]:
    """Return the waits between tries to commit, in seconds: exponential, with jitter."""
    return [min(LONGEST_WAIT, 0.01 * 2**i) * (0.5 + rng.random()) for i in range(tries)]


class Appended(NamedTuple):
    """The version with the events, and whether the append wrote index files."""

    version: int
    indexed: bool


def append(
    source: AppendSource, writing: Writing, waits: Sequence[float], *, piece_bytes: int = 1 << 29
) -> Appended:
    """Append events.

    Args:
        source: the events.
        writing: the table.
        waits: the waits between tries to commit, in seconds.
        piece_bytes: how many bytes end a piece early: Arrow cannot sort 2 GiB of text.

    Raises:
        StoreError: the columns differ from those of the table, or the events cannot be written or committed.
        DataError: an event has no time, or a value does not fit.
    """
    check(source.columns, writing.columns)
    now = own_snapshot(writing)
    number = append_number(now)
    settings = writing.settings
    pieces = regroup(source.tables, max(settings.file_rows, settings.pool_rows), piece_bytes)
    first = deque(islice(pieces, 2))
    if not first:
        assert now.version is not None
        return Appended(now.version, False)
    if len(first) == 1 and len(first[0]) < settings.pool_rows:
        written = write_piece(first[0], writing, AppendPart(number, 0, 0), fresh=True)
        return _commit_small(written, now, number, waits)
    every = _write_pieces(chain(_drain(first), pieces), writing, number)
    return Appended(commit_pieces(every, writing, waits), True)


def _drain(pieces: deque[pa.Table]) -> Iterator[pa.Table]:
    """Yield pieces and drop the reference to each, so that its memory can be freed."""
    while pieces:
        yield pieces.popleft()


def append_number(now: Snapshot) -> int:
    """Return the number of the next append."""
    return next_append(newest_append(each.path for each in now.files), secrets.randbits(NOISE))


def commit_pieces(
    written: Sequence[Written], writing: Writing, waits: Sequence[float], remove: Sequence[LoggedFile] = ()
) -> int:
    """Commit written files; if that fails, remove them.

    Raises:
        Overtaken: a file to remove has left the table.
        NotCommitted: a written file is missing, or other commits came first at every try.
    """
    try:
        return commit(writing.root, Change(written, remove), waits)
    except (Overtaken, NotCommitted):
        discard(written, writing)
        raise


def _write_pieces(pieces: Iterable[pa.Table], writing: Writing, number: int) -> list[Written]:
    """Write the pieces of an append, two at a time; if one fails, remove all."""
    done: list[Written] = []
    waiting: deque[Future[Written]] = deque()
    try:
        with ThreadPoolExecutor(WRITERS) as pool:
            row = 0
            for i, piece in enumerate(pieces):
                waiting.append(pool.submit(write_piece, piece, writing, AppendPart(number, i, row)))
                row += len(piece)
                if len(waiting) == WRITERS:
                    done.append(waiting.popleft().result())
            while waiting:
                done.append(waiting.popleft().result())
    except BaseException:
        discard([*done, *(each.result() for each in waiting if each.exception() is None)], writing)
        raise
    return done


# ---- the pool of fresh events


def _commit_small(written: Written, now: Snapshot, number: int, waits: Sequence[float]) -> Appended:
    """Commit a small append; if the pool is full, seal its files in the same commit."""
    writing = now.writing
    pool = [each for each in now.fresh if each.kept is None]
    if not pool or sum(each.rows for each in pool) + written.rows < writing.settings.pool_rows:
        return Appended(commit_pieces([written], writing, waits), False)
    try:
        sealed = seal(pool, writing, number)
    except BaseException:
        discard([written], writing)
        raise
    try:
        change = Change([written, sealed], pool)
        return Appended(commit(writing.root, change, waits), True)
    except Overtaken:  # another writer has sealed them
        discard([sealed], writing)
        return Appended(commit_pieces([written], writing, waits), False)
    except NotCommitted:
        discard([written, sealed], writing)
        raise


def seal(files: Sequence[LoggedFile], writing: Writing, made: int) -> Written:
    """Write the events of fresh files as one file with an index; the events keep their sequence."""
    tables = [table for each in files for table in read_file(writing, each.path, each.size)]
    ordered = in_stream_order(pa.concat_tables(tables), writing)
    name = data_name(newest_append(each.path for each in files), 0, made=made)
    groups = partial(row_groups, ordered, writing.settings.block_rows)
    return write_file(groups(), writing, name, again=groups, new=False)


def in_stream_order(table: pa.Table, writing: Writing) -> pa.Table:
    """Return events in stream order: by time, order columns, sequence (S1.2).

    A table that is in stream order already is returned itself.
    """
    settings = writing.settings
    roles = Schema(writing.columns, settings.time, order=settings.order, arrival=False)
    return EventBatch.of(table, roles, then=[(SEQUENCE, name) for name in SEQUENCE_FIELDS]).table
