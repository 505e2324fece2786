"""Verification: checks that the files of a version exist, are sound, and agree with their index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.errors import CeriseError, StoreError
from cerise.events import Ints, raw_column
from cerise.files.delta import LoggedFile
from cerise.files.folder import Folder
from cerise.store.index.file import BrokenIndex, IndexFile
from cerise.store.index.layout import SEQUENCE
from cerise.store.index.lookup import Criteria, Index
from cerise.store.index.synopsis import Synopsis
from cerise.store.table.appending import in_stream_order
from cerise.store.table.data_file import read_file
from cerise.store.table.external_index import read_groups
from cerise.store.table.snapshot import Snapshot
from cerise.store.table.synopses import list_synopses, load_index, read

Progress = Callable[[int, int], None]
BITS = 20  # seen rows of an append are kept in bitmaps of 2^20


class Finding(NamedTuple):
    """A problem: its place, and its description."""

    place: str
    what: str


def verify(now: Snapshot, progress: Progress | None = None) -> list[Finding]:
    """Return the problems of a version: of its files, their index, the order and sequence of events.

    Args:
        now: the version.
        progress: called with the number of files done, and their total.
    """
    found = list(_check_sizes(now))
    unsound = {each.place for each in found}
    broken = load_index(now).broken
    found += [Finding(path, f"its index cannot be used: {why}") for path, why in broken.items()]
    found += _synopses(now)
    arrived = _Arrived()
    for done, file in enumerate(now.files):
        if file.path not in unsound:
            found += _of_file(now, file, arrived, index=file.index is not None and file.path not in broken)
        if progress is not None:
            progress(done + 1, len(now.files))
    return found


def _check_sizes(now: Snapshot) -> Iterator[Finding]:
    sizes = Folder.of(now.writing.root).sizes([each.path for each in now.files])
    for file, size in zip(now.files, sizes, strict=True):
        if size is None:
            yield Finding(file.path, "the file is missing")
        elif size != file.size:
            yield Finding(file.path, f"the file has {size:,} bytes instead of {file.size:,}")


def _synopses(now: Snapshot) -> Iterator[Finding]:
    folder = Folder.of(now.writing.index_root)
    for name in list_synopses(folder):
        try:
            read(folder, name)
        except (StoreError, OSError, pa.ArrowException) as error:
            yield Finding(f"synopsis/{name}", f"it cannot be read: {error}")


# ---- one file


def _of_file(now: Snapshot, file: LoggedFile, arrived: _Arrived, *, index: bool) -> Iterator[Finding]:
    try:
        yield from _check(now, file, arrived, index=index)
    except (CeriseError, pa.ArrowException, OSError) as error:
        problem = error.problem if isinstance(error, CeriseError) else str(error)
        yield Finding(file.path, f"it cannot be read: {problem}")


def _check(now: Snapshot, file: LoggedFile, arrived: _Arrived, *, index: bool) -> Iterator[Finding]:
    held = None
    try:
        held = _open_index(now, file) if index else None
    except BrokenIndex as error:
        yield Finding(file.path, f"its index cannot be used: {error.problem}")
    rows, before = 0, None
    for number, table in enumerate(_groups(now, file)):
        rows += len(table)
        where = f"row group {number}"
        if now.writing.settings.sequence:
            found = _sequence(table, arrived) or _order(table, before, now)
            if found is not None:
                yield Finding(file.path, f"{where}: {found}")
            before = table.slice(len(table) - 1)
        if held is not None and (differs := _differs(held, number, table, now)) is not None:
            yield Finding(file.path, f"{where}: its index has other {differs}")
    if file.counted is not None and rows != file.counted:
        yield Finding(file.path, f"it has {rows:,} rows, and the log says {file.counted:,}")


def _groups(now: Snapshot, file: LoggedFile) -> Iterator[pa.Table]:
    """Yield the row groups of a file; verify the checksums of files that Cerise has written."""
    if file.ours:
        return read_file(now.writing, file.path, file.size)
    return read_groups(now, file, now.columns.names)


def _order(table: pa.Table, before: pa.Table | None, now: Snapshot) -> str | None:
    whole = table if before is None else pa.concat_tables([before, table])
    return None if in_stream_order(whole, now.writing) is whole else "events are not in stream order"


def _sequence(table: pa.Table, arrived: _Arrived) -> str | None:
    fields = [raw_column(table, (SEQUENCE, name)) for name in ("append", "row")]
    if any(each.null_count for each in fields):
        return "events have no sequence: has another tool written them?"
    appends, rows = (np.asarray(each, dtype=np.int64) for each in fields)
    return None if arrived.all_new(appends, rows) else "events are there twice: their sequence is not new"


class _Arrived:
    """The set of sequences seen so far."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], npt.NDArray[np.bool_]] = {}

    def all_new(self, appends: Ints, rows: Ints) -> bool:
        """Add sequences; tell whether all were new and distinct."""
        new = True
        order = np.lexsort((rows, appends))
        appends, rows = appends[order], rows[order]
        pieces = np.flatnonzero((np.diff(appends) != 0) | (np.diff(rows >> BITS) != 0)) + 1
        for these, held in zip(np.split(rows, pieces), np.split(appends, pieces), strict=True):
            if not len(these):
                continue
            key = int(held[0]), int(these[0] >> BITS)
            seen = self._seen.setdefault(key, np.zeros(1 << BITS, np.bool_))
            at = these & ((1 << BITS) - 1)
            new = new and not seen[at].any() and bool(np.all(np.diff(at) > 0))
            seen[at] = True
        return new


# ---- index and data


def _open_index(now: Snapshot, file: LoggedFile) -> Index:
    assert file.index is not None
    folder = Folder.of(now.writing.index_root)
    held = IndexFile(folder.system, folder.path(file.index))
    held.verify()
    return Index(Synopsis.of([held]), held.layout, folder.system)


def _differs(index: Index, group: int, table: pa.Table, now: Snapshot) -> str | None:
    """Return the first part of a row group that differs from its index; None: all agree."""
    layout = now.writing.settings.layout(now.columns)
    events = index.look_up(Criteria(None, ()), groups=np.array([group], np.int64))
    groups, rows = index.rows(events.places)
    if len(rows) != len(table) or not bool(np.all(groups == group)):
        return "rows"
    order = np.argsort(rows)
    if not np.array_equal(rows[order], np.arange(len(table))):
        return "rows"
    places = events.places[order]
    for name in (layout.time, *([] if layout.type is None else [layout.type]), *layout.attributes):
        if not same(index.column(name, places), raw_column(table, (name,))):
            return f"values of '{name}'"
    return _other_sequence(index, places, table) if layout.sequence else None


def _other_sequence(index: Index, places: Ints, table: pa.Table) -> str | None:
    for name, held in zip(("append", "row"), index.sequence(places), strict=True):
        if not np.array_equal(held, np.asarray(raw_column(table, (SEQUENCE, name)))):
            return "sequences"
    return None


def same(left: pa.Array, right: pa.Array) -> bool:
    """Tell whether two columns hold the same values; NaN equals NaN, and -0.0 differs from 0.0."""
    arrays = [
        each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in (left, right)
    ]
    left, right = arrays[0].cast(arrays[1].type), arrays[1]
    if not pa.types.is_floating(left.type):
        return bool(left.equals(right))
    return bool(left.is_null().equals(right.is_null())) and np.array_equal(_bits(left), _bits(right))


def _bits(values: pa.Array) -> Ints:
    found = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    found[np.isnan(found)] = np.nan
    bits: Ints = found.view(np.int64)
    return bits
