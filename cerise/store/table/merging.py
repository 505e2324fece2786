"""Merges files that overlap in time into one stream in stream order, with few rows of each file in memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from cerise.errors import StoreError
from cerise.events import Ints, read_times
from cerise.files.checksums import open_parquet, read_tail
from cerise.files.delta import LoggedFile
from cerise.files.folder import Folder
from cerise.store.table.appending import in_stream_order
from cerise.store.table.column_types import complete
from cerise.store.table.data_file import Writing


class _Input:
    """A file, read from start to end."""

    def __init__(self, file: LoggedFile, writing: Writing, rows: int) -> None:
        self._path, self._writing = file.path, writing
        with self._guard():
            self._source = Folder.of(writing.root).open_input(file.path)
            tail = read_tail(self._source, file.path, file.expected)
            held = open_parquet(self._source, file.path, tail, buffer_size=1 << 16)
            self._batches = held.iter_batches(batch_size=rows)

    def next(self) -> tuple[pa.Table, Ints] | None:
        """Return the next events and their times; None after the last."""
        with self._guard():
            batch = next(self._batches, None)
            if batch is None:
                return None
            table = complete(pa.Table.from_batches([batch]), self._writing.columns)
        return table, read_times(table, self._writing.settings.roles(self._writing.columns))

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise StoreError(
                f"cannot read {self._path}: {error}", hint="verify() lists all other damage"
            ) from error

    def close(self) -> None:
        self._source.close()


def merge(files: Sequence[LoggedFile], writing: Writing, *, least_rows: int = 1024) -> Iterator[pa.Table]:
    """Yield the events of files in stream order.

    A file is open while the stream is between its first and last event. The open files together have about
    two blocks of rows in memory, plus events of equal time.

    Args:
        files: the files.
        writing: their table.
        least_rows: how many rows of a file are read at once, at least.

    Raises:
        StoreError: a file cannot be read, or is not in the order of time.
    """
    rows = max(least_rows, 2 * writing.settings.block_rows // max(1, _depth(files)))
    waits = [(span(each)[0], i) for i, each in enumerate(files)]
    heapq.heapify(waits)  # for each file the earliest time of its unread events
    inputs: dict[int, _Input] = {}
    held: list[tuple[pa.Table, Ints]] = []
    try:
        while waits:
            last, i = heapq.heappop(waits)
            inputs[i] = inputs.get(i) or _Input(files[i], writing, rows)
            piece = inputs[i].next()
            if piece is None:
                inputs.pop(i).close()
            else:
                _check(piece[1], last, files[i].path)
                held.append(piece)
                heapq.heappush(waits, (int(piece[1][-1]), i))
            held, ready = _split(held, waits[0][0] if waits else None)
            if ready:
                yield in_stream_order(pa.concat_tables(ready), writing)
    finally:
        for each in inputs.values():
            each.close()


def span(file: LoggedFile) -> tuple[int, int]:
    """Return the first and last time of a file; all of time if the log does not say."""
    if file.first is None or file.last is None:
        return -(1 << 63), (1 << 63) - 1
    return file.first, file.last


def _depth(files: Sequence[LoggedFile]) -> int:
    ends = [(time, step) for each in files for time, step in zip(span(each), (-1, 1), strict=True)]
    open_files = np.cumsum([-step for _, step in sorted(ends)])
    return int(open_files.max(initial=0))


def _check(times: Ints, last: int, path: str) -> None:
    if times[0] < last or bool(np.any(times[1:] < times[:-1])):
        raise StoreError(f"{path} is not in the order of time", hint="has another tool written it?")


def _split(
    held: list[tuple[pa.Table, Ints]], border: int | None
) -> tuple[list[tuple[pa.Table, Ints]], list[pa.Table]]:
    """Return the events from the border on, which must wait, and those before it; None: none waits."""
    after, ready = [], []
    for table, times in held:
        at = len(times) if border is None else int(np.searchsorted(times, border))
        if at:
            ready.append(table.slice(0, at))
        if at < len(times):
            after.append((table.slice(at), times[at:]))
    return after, ready
