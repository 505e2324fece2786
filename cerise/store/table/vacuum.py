"""Vacuum: what no version within retention needs any more is removed, with its index."""

from __future__ import annotations

import math
from collections.abc import Container

from cerise.errors import StoreError
from cerise.files.folder import DRAFT, Folder, cause_of, milliseconds
from cerise.store.table.commits import unused_files
from cerise.store.table.data_file import Writing, is_ours
from cerise.store.table.failpoints import reached
from cerise.store.table.settings import index_name
from cerise.store.table.synopses import FOLDER, saved

WEEK = 168  # hours for which Delta's log remembers what was removed


def vacuum(writing: Writing, hours: float, now_ms: int) -> list[str]:
    """Remove files that no version of the last hours has, or that are as old and in none.

    Readers of a version that is younger go on. Files that others have put into the folder stay.

    Args:
        writing: the table.
        hours: how long files are kept that the newest version has no more.
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
    there = data.files()  # the log remembers what was removed
    unused = sorted(name for name in unused_files(writing.root, math.ceil(hours)) if name in there)
    removed: list[str] = []
    try:
        for name in filter(is_ours, unused):
            data.remove(name)
            removed.append(name)
            reached("data removed")
            index.remove(index_name(name))
            reached("index removed")
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
    """Return index files without data file, all synopses but the last, and drafts."""
    inside = {place: index.inside(place).files() for place in (".", "index", FOLDER)}
    held = data.files()  # after the index files: whoever writes one has written its data before
    gone = [f"index/{name}" for name in inside["index"] if _is_orphan(name, held)]
    gone += [f"{FOLDER}/{name}" for name in saved(index)[1:]]
    for place, found in inside.items():
        old = (name for name, each in found.items() if milliseconds(each) <= before)
        gone += [f"{place}/{name}" for name in old if name.endswith(DRAFT)]
    return sorted(gone)


def _is_orphan(name: str, held: Container[str]) -> bool:
    return name.endswith(".cix") and name.removesuffix(".cix") not in held
