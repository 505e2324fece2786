"""Vacuum: what no version within retention needs any more is removed, with its index."""

from __future__ import annotations

import math
from collections.abc import Container

from cerise.errors import StoreError
from cerise.store.table import unused_files
from cerise.store.writing.faults import reached
from cerise.store.writing.pieces import Writing, is_ours
from cerise.store.writing.places import DRAFT, Folder, milliseconds
from cerise.store.writing.settings import index_name
from cerise.store.writing.synopses import FOLDER, saved

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
    if not 0 <= hours <= WEEK:
        raise StoreError(
            f"files cannot be kept for {hours} hours", hint=f"give 0 to {WEEK}: the log forgets after a week"
        )
    data, index = Folder.of(writing.root), Folder.of(writing.index_root)
    unused = sorted(name for name in unused_files(writing.root, math.ceil(hours)) if is_ours(name))
    for name in unused:
        data.remove(name)
        reached("data removed")
        index.remove(index_name(name))
        reached("index removed")
    return [*unused, *_leftovers(data, index, now_ms - int(hours * 3_600_000))]


def _leftovers(data: Folder, index: Folder, before: int) -> list[str]:
    """Remove index files without data file, all synopses but the last, and drafts; return their names."""
    inside = {place: index.inside(place).files() for place in (".", "index", FOLDER)}
    held = data.files()  # after the index files: whoever writes one has written its data before
    gone = [f"index/{name}" for name in inside["index"] if _is_orphan(name, held)]
    gone += [f"{FOLDER}/{name}" for name in saved(index)[1:]]
    for place, found in inside.items():
        old = (name for name, each in found.items() if milliseconds(each) <= before)
        gone += [f"{place}/{name}" for name in old if name.endswith(DRAFT)]
    for name in gone:
        index.remove(name)
    return sorted(gone)


def _is_orphan(name: str, held: Container[str]) -> bool:
    return name.endswith(".cix") and name.removesuffix(".cix") not in held
