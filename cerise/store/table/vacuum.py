"""Vacuum: removes files that no version within retention needs, and their index files."""

from __future__ import annotations

import math
from collections.abc import Container

from cerise.errors import StoreError
from cerise.files.folder import DRAFT, Folder, cause_of, milliseconds
from cerise.store.table.commits import find_obsolete_files
from cerise.store.table.data_file import Writing, is_ours
from cerise.store.table.failpoints import mark_step
from cerise.store.table.settings import index_name
from cerise.store.table.synopses import FOLDER, list_synopses

WEEK = 168  # hours for which Delta's log remembers removed files


def vacuum(writing: Writing, hours: float, now_ms: int) -> list[str]:
    """Remove files that left the table at least this many hours ago, or are as old and in no version.

    Readers of younger versions are not disturbed. Files by other tools in the folder stay.

    Args:
        writing: the table.
        hours: how long to keep files that have left the table.
        now_ms: the time, in milliseconds since 1970.

    Returns:
        The names of the removed files.
    """
    if type(hours) not in (int, float) or not 0 <= hours <= WEEK:
        raise StoreError(
            f"files cannot be kept for {hours!r} hours",
            hint=f"give 0 to {WEEK}: the log forgets after a week",
        )
    data, index = Folder.of(writing.root), Folder.of(writing.index_root)
    present = data.files()  # the log also lists files that are removed already
    unused = sorted(name for name in find_obsolete_files(writing.root, math.ceil(hours)) if name in present)
    removed: list[str] = []
    try:
        for name in filter(is_ours, unused):
            data.remove(name)
            removed.append(name)
            mark_step("data removed")
            index.remove(index_name(name))
            mark_step("index removed")
        for name in _leftovers(data, index, now_ms - int(hours * 3_600_000)):
            index.remove(name)
            removed.append(name)
    except OSError as error:
        raise StoreError(
            f"cannot remove files of {writing.root}: {cause_of(error)}; {len(removed):,} were removed, "
            "and no version within retention needs any of them",
            hint="may they be removed?",
        ) from error
    return removed


def _leftovers(data: Folder, index: Folder, before: int) -> list[str]:
    """Return index files without a data file, all saved synopses but the newest, and old drafts."""
    inside = {place: index.inside(place).files() for place in (".", "index", "into", FOLDER)}
    held = data.files()  # listed after the index files, as a writer writes the data file first
    gone = [f"index/{name}" for name in inside["index"] if _is_orphan(name, held)]
    gone += [f"{FOLDER}/{name}" for name in list_synopses(index)[1:]]
    for place, found in inside.items():
        old = (name for name, each in found.items() if milliseconds(each) <= before)
        gone += [f"{place}/{name}" for name in old if name.endswith(DRAFT)]
    return sorted(gone)


def _is_orphan(name: str, held: Container[str]) -> bool:
    return name.endswith(".cix") and name.removesuffix(".cix") not in held
