"""Compaction: fresh, small and overlapping files become large ones in stream order; events stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

import pyarrow as pa

from cerise.store.table import Overtaken
from cerise.store.upkeep.merging import merged, span
from cerise.store.writing.appending import append_number, commit_pieces
from cerise.store.writing.pieces import (
    Writing,
    Written,
    data_name,
    discard,
    is_fresh,
    newest_append,
    read_file,
    write_file,
    write_its_index,
)
from cerise.store.writing.settings import BLOCKS_PER_FILE
from cerise.store.writing.snapshots import Snapshot, StoreFile, own_snapshot
from cerise.store.writing.sources import regrouped
from cerise.store.writing.synopses import unsound

ROUNDS = 5  # times that a compaction starts over because another was quicker
Progress = Callable[[int, int], None]


def compact(writing: Writing, waits: Sequence[float], progress: Progress | None = None) -> int:
    """Rewrite what is worth it; return the version in which that is done.

    Each run of files is one commit. Where somebody else has rewritten a file meanwhile, it is looked at
    again what there is to do; after `ROUNDS` such losses it is left to the others.
    """
    _mend(own_snapshot(writing))
    for _ in range(ROUNDS):
        now = own_snapshot(writing)
        runs = worth_rewriting(now)
        try:
            for done, run in enumerate(runs):
                _rewrite(run, now, waits)
                if progress is not None:
                    progress(done + 1, len(runs))
            break
        except Overtaken:
            continue
    version = own_snapshot(writing).version
    assert version is not None
    return version


def worth_rewriting(now: Snapshot) -> list[list[StoreFile]]:
    """Return runs of files, next to each other in time, of which fewer and better ones can be made.

    Files that others have written, or of which rows are deleted, are left alone.
    """
    files = sorted((each for each in now.files if each.ours and each.held.kept is None), key=span)
    overlaps = _overlaps(files)
    least = now.writing.settings.file_rows // 2
    runs: list[list[StoreFile]] = [[]]
    for file, overlap in zip(files, overlaps, strict=True):
        if overlap or is_fresh(file.path) or file.rows < least:
            runs[-1].append(file)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1 or (run and is_fresh(run[0].path))]


def _overlaps(files: Sequence[StoreFile]) -> list[bool]:
    """Tell of each file, by first time, whether it shares time with another; touching is no sharing."""
    found = [False] * len(files)
    last, reach = 0, -(1 << 63)
    for i, file in enumerate(files):
        first, end = span(file)
        if i and first < reach:
            found[i] = found[last] = True
        if end >= reach:
            last, reach = i, end
    return found


# ---- rewriting


def _mend(now: Snapshot) -> None:
    """Write the index files again that cannot be used, or are damaged."""
    broken = unsound(now)
    for file in now.sealed:
        if file.path in broken:
            groups = read_file(now.writing, file.path)
            write_its_index(groups, now.writing, file.held, file.rows)


def _rewrite(run: Sequence[StoreFile], now: Snapshot, waits: Sequence[float]) -> int:
    """Replace files by others with the same events."""
    writing, made = now.writing, append_number(now)
    newest = newest_append(each.path for each in run)
    written: list[Written] = []
    try:
        for groups in _files(merged(run, writing), writing):
            name = data_name(newest, len(written), made=made)
            again = partial(read_file, writing, name)  # not all of it need be in memory
            written.append(write_file(groups, writing, name, again=again, new=False))
    except BaseException:
        discard(written, writing)
        raise
    return commit_pieces(written, writing, waits, [each.held for each in run])


def _files(events: Iterable[pa.Table], writing: Writing) -> Iterator[Iterator[pa.Table]]:
    """Yield the row groups of each file that a stream of events becomes; each must be read to its end."""
    groups = regrouped(events, writing.settings.block_rows)
    while (first := next(groups, None)) is not None:
        yield chain([first], islice(groups, BLOCKS_PER_FILE - 1))
