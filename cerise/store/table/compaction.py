"""Compaction: rewrites fresh, small and overlapping files as large ones in stream order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import pyarrow as pa

from cerise.files.delta import LoggedFile
from cerise.files.folder import attempt
from cerise.store.table.append_sources import regroup
from cerise.store.table.appending import append_number, commit_pieces
from cerise.store.table.commits import Crowded, Overtaken
from cerise.store.table.data_file import (
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
from cerise.store.table.merging import merge, span
from cerise.store.table.settings import BLOCKS_PER_FILE
from cerise.store.table.snapshot import Snapshot, own_snapshot
from cerise.store.table.synopses import mend_synopsis, unsound

ROUNDS = 5  # tries of a compaction that loses to concurrent commits
Progress = Callable[[int, int], None]
Run = list[LoggedFile]


class Compacted(NamedTuple):
    """The result of a compaction.

    Attributes:
        version: the newest version after the compaction.
        files: how many files were rewritten.
        left: the files that are still worth rewriting, because concurrent commits came first.
    """

    version: int
    files: int
    left: tuple[str, ...] = ()


def compact(writing: Writing, waits: Sequence[float], progress: Progress | None = None) -> Compacted:
    """Rewrite the files that are worth it.

    Each run of files is one commit. If a concurrent commit changes a file of a run, the rewrite of that run
    is lost, and the other runs go on. Lost runs are tried again, up to `ROUNDS` times in all, but without
    fresh files, which appends seal themselves.
    """
    _mend(own_snapshot(writing))
    files, tries = 0, 0
    while tries < ROUNDS:
        now = own_snapshot(writing)
        runs = find_runs(now, fresh=not tries)
        done = [_is_rewritten(run, now, waits) for run in report_runs(runs, progress)]
        files += sum(len(run) for run, is_done in zip(runs, done, strict=True) if is_done)
        if all(done):
            break
        tries += 1
    now = own_snapshot(writing)
    assert now.version is not None
    left = (each.path for run in find_runs(now) for each in run) if tries else ()
    return Compacted(now.version, files, tuple(left))


def report_runs(runs: Sequence[Run], progress: Progress | None) -> Iterator[Run]:
    """Yield runs, and report how many are done, and their total."""
    for done, run in enumerate(runs):
        yield run
        if progress is not None:
            progress(done + 1, len(runs))


def find_runs(now: Snapshot, *, fresh: bool = True) -> list[Run]:
    """Return runs of files, adjacent in time, that fewer and larger files can replace.

    Files by other writers and files with deleted rows are not touched.

    Args:
        now: the version.
        fresh: whether to include fresh files.
    """
    able = (each for each in now.files if each.ours and each.kept is None)
    files = sorted((each for each in able if fresh or not is_fresh(each.path)), key=span)
    overlaps = _overlaps(files)
    least = now.writing.settings.file_rows // 2
    runs: list[Run] = [[]]
    for file, overlap in zip(files, overlaps, strict=True):
        if overlap or is_fresh(file.path) or file.rows < least:
            runs[-1].append(file)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1 or (run and is_fresh(run[0].path))]


def _overlaps(files: Sequence[LoggedFile]) -> list[bool]:
    """Tell for each file, sorted by first time, whether its time overlaps another's by more than an end."""
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
    """Rewrite index files that are damaged or cannot be used, and a damaged synopsis."""
    broken = unsound(now)
    for file in now.sealed:
        if file.path in broken:
            groups = read_file(now.writing, file.path, file.size)
            with attempt(f"write the index of {file.path} again", "it stays as it was, and is not used"):
                write_its_index(groups, now.writing, file)

    mend_synopsis(now)


def _is_rewritten(run: Run, now: Snapshot, waits: Sequence[float]) -> bool:
    """Replace files by others with the same events; return False if a concurrent commit came first."""
    try:
        _rewrite(run, now, waits)
    except (Overtaken, Crowded):
        return False
    return True


def _rewrite(run: Sequence[LoggedFile], now: Snapshot, waits: Sequence[float]) -> int:
    """Replace files by others with the same events."""
    writing, made = now.writing, append_number(now)
    newest = newest_append(each.path for each in run)
    written: list[Written] = []
    try:
        for groups in _files(merge(run, writing), writing):
            name = data_name(newest, len(written), made=made)
            again = partial(read_file, writing, name)  # one row group in memory at a time
            written.append(write_file(groups, writing, name, again=again, new=False))
    except BaseException:
        discard(written, writing)
        raise
    return commit_pieces(written, writing, waits, run)


def _files(events: Iterable[pa.Table], writing: Writing) -> Iterator[Iterator[pa.Table]]:
    """Yield the row groups of each new file; read each iterator to its end before the next."""
    groups = regroup(events, writing.settings.block_rows)
    while (first := next(groups, None)) is not None:
        yield chain([first], islice(groups, BLOCKS_PER_FILE - 1))
