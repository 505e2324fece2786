"""Files that overlap in time as one stream of events in stream order, a few rows of each in memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cerise.errors import StoreError
from cerise.events import Ints, read_times
from cerise.store.writing.appending import in_stream_order
from cerise.store.writing.pieces import Writing
from cerise.store.writing.places import Folder
from cerise.store.writing.snapshots import StoreFile

LEAST_ROWS = 1024  # of a file that are read at once


class _Input:
    """A file that is read from its start to its end."""

    def __init__(self, source: pa.NativeFile, rows: int, writing: Writing) -> None:
        file = pq.ParquetFile(source, page_checksum_verification=True, buffer_size=1 << 16)
        self._batches = file.iter_batches(batch_size=rows)
        self._writing = writing

    def next(self) -> tuple[pa.Table, Ints] | None:
        """Return the next events and their times; None after the last."""
        batch = next(self._batches, None)
        if batch is None:
            return None
        table = pa.Table.from_batches([batch]).cast(self._writing.columns)
        return table, read_times(table, self._writing.settings.roles(self._writing.columns))


def merged(files: Sequence[StoreFile], writing: Writing) -> Iterator[pa.Table]:
    """Yield the events of files in stream order.

    A file is opened when the stream reaches its first event. Of each open file some rows are in memory: all
    files together hold about two blocks, and events of equal time besides.

    Raises:
        StoreError: a file cannot be read, or is not in stream order itself.
    """
    rows = max(LEAST_ROWS, 2 * writing.settings.block_rows // max(1, len(files)))
    folder = Folder.of(writing.root)
    waits = [(-(1 << 63) if each.held.first is None else each.held.first, i) for i, each in enumerate(files)]
    heapq.heapify(waits)  # of each file the time before which it has no further events
    held: list[tuple[pa.Table, Ints]] = []
    with ExitStack() as stack:
        inputs: dict[int, _Input] = {}
        while waits:
            last, i = heapq.heappop(waits)
            try:
                if i not in inputs:
                    inputs[i] = _Input(stack.enter_context(folder.reading(files[i].path)), rows, writing)
                piece = inputs[i].next()
            except (pa.ArrowException, OSError) as error:
                raise StoreError(
                    f"cannot read {files[i].path}: {error}", hint="verify() tells more"
                ) from error
            if piece is not None:
                _check(piece[1], last, files[i].path)
                held.append(piece)
                heapq.heappush(waits, (int(piece[1][-1]), i))
            held, ready = _split(held, waits[0][0] if waits else None)
            if ready:
                yield in_stream_order(pa.concat_tables(ready), writing)


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
