"""Files that overlap in time as one stream of events in stream order, a few rows of each in memory."""

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
    """A file that is read from its start to its end."""

    def __init__(self, file: LoggedFile, writing: Writing, rows: int) -> None:
        self._path, self._writing = file.path, writing
        with self._guarded():
            self._source = Folder.of(writing.root).open_input(file.path)
            tail = read_tail(self._source, file.path, file.expected)
            held = open_parquet(self._source, file.path, tail, buffer_size=1 << 16)
            self._batches = held.iter_batches(batch_size=rows)

    def next(self) -> tuple[pa.Table, Ints] | None:
        """Return the next events and their times; None after the last."""
        with self._guarded():
            batch = next(self._batches, None)
            if batch is None:
                return None
            table = complete(pa.Table.from_batches([batch]), self._writing.columns)
        return table, read_times(table, self._writing.settings.roles(self._writing.columns))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise StoreError(
                f"cannot read {self._path}: {error}", hint="verify() tells what else is damaged"
            ) from error

    def close(self) -> None:
        self._source.close()


def merge(files: Sequence[LoggedFile], writing: Writing, *, least_rows: int = 1024) -> Iterator[pa.Table]:
    """Yield the events of files in stream order.

    A file is open from when the stream reaches its first event to its last. Of each open file some rows are
    in memory: about two blocks of all together, and events of equal time besides.

    Args:
        files: the files.
        writing: the table that they are of.
        least_rows: how many rows of a file are read together at least.

    Raises:
        StoreError: a file cannot be read, or is not in stream order itself.
    """
    rows = max(least_rows, 2 * writing.settings.block_rows // max(1, _depth(files)))
    waits = [(span(each)[0], i) for i, each in enumerate(files)]
    heapq.heapify(waits)  # of each file the time before which it has no further events
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
    """Return the time of a file; the whole of time where the log does not know it."""
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
    """Return what must wait for events from a time on, and what is before it; None: nothing waits."""
    after, ready = [], []
    for table, times in held:
        at = len(times) if border is None else int(np.searchsorted(times, border))
        if at:
            ready.append(table.slice(0, at))
        if at < len(times):
            after.append((table.slice(at), times[at:]))
    return after, ready
