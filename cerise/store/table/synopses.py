"""Loads the synopsis of a version, finds files without a usable index, and saves synopses.

A saved synopsis is named by its version. It is a cache: without it, the index files are read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from cerise.errors import StoreError
from cerise.files.delta import LoggedFile
from cerise.files.folder import Folder, attempt
from cerise.store.index.file import DataFile, IndexFile
from cerise.store.index.layout import IndexLayout
from cerise.store.index.synopsis import Synopsis
from cerise.store.table.failpoints import mark_step
from cerise.store.table.snapshot import Snapshot

FOLDER = "synopsis"
PLACE = "index"  # the folder of the index files
NAME = re.compile(r"^[0-9]{20}$")
UNCOVERED = 16  # index files that the last saved synopsis may lack
log = logging.getLogger("cerise")


class Indexed(NamedTuple):
    """The index of a version.

    Attributes:
        synopsis: the synopsis of all usable index files.
        plain: the files without a usable index; their events must be read.
        broken: the problems of index files that cannot be used, by path of the data file.
    """

    synopsis: Synopsis
    plain: tuple[LoggedFile, ...]
    broken: dict[str, str]


def load_index(now: Snapshot) -> Indexed:
    """Return the synopsis of a version, and the files that it does not cover."""
    folder = Folder.of(now.writing.index_root)
    sizes = {f"{PLACE}/{name}": found.size for name, found in folder.inside(PLACE).files().items()}
    broken = {each.path: "it is missing" for each in now.sealed if each.index not in sizes}
    usable = {folder.path(str(each.index)): each for each in now.sealed if each.path not in broken}
    synopsis = _reuse_last(now, folder, usable, sizes)
    covered = {each.path for each in synopsis.files}
    opened = _open_indexes(
        (each for path, each in usable.items() if path not in covered), now, folder, broken
    )
    synopsis = synopsis.extend(opened)
    if not _in_order(synopsis, now):
        rest = (usable[each.path] for each in synopsis.files)
        synopsis = _empty(now).extend(_open_indexes(sorted(rest, key=now.files.index), now, folder, broken))
    plain = tuple(each for each in now.files if each.index is None or each.path in broken)
    return Indexed(synopsis, plain, broken)


def _reuse_last(
    now: Snapshot, folder: Folder, usable: dict[str, LoggedFile], sizes: dict[str, int]
) -> Synopsis:
    """Return the part of the last saved synopsis that still fits the index files of a version."""
    last = _last(folder, now)
    if last is None:
        return _empty(now)
    covered = [
        each.about.path
        for each in last.files
        if each.path in usable
        and _is_of(each.about, usable[each.path])
        and each.size == sizes[str(usable[each.path].index)]
    ]
    return last.only(covered)


def unsound(now: Snapshot) -> dict[str, str]:
    """Return the problems of index files that are damaged or cannot be used, by path of the data file.

    Reads all bytes of all index files.
    """
    folder = Folder.of(now.writing.index_root)
    found = dict(load_index(now).broken)
    for each in now.sealed:
        if each.path not in found:
            try:
                IndexFile(folder.system, folder.path(str(each.index))).verify()
            except StoreError as error:
                found[each.path] = error.problem
    return found


def _open_indexes(
    files: Iterable[LoggedFile], now: Snapshot, folder: Folder, broken: dict[str, str]
) -> list[IndexFile]:
    """Open the index files of data files; add the problems of unusable ones to `broken`."""
    found = []
    for each in files:
        try:
            index = IndexFile(folder.system, folder.path(str(each.index)))
        except StoreError as error:
            broken[each.path] = error.problem
            continue
        if not _is_of(index.about, each):
            broken[each.path] = "it is the index of another file"
        elif index.layout != _layout(now):
            broken[each.path] = "it has other columns"
        else:
            found.append(index)
    return found


def _layout(now: Snapshot) -> IndexLayout:
    return now.writing.settings.layout(now.columns)


def _empty(now: Snapshot) -> Synopsis:
    return Synopsis.of([], _layout(now))


def _is_of(about: DataFile, file: LoggedFile) -> bool:
    return (about.path, about.size, about.modified) == (file.path, file.size, file.modified)


def _in_order(synopsis: Synopsis, now: Snapshot) -> bool:
    """Tell whether the files are in the order of arrival; always true if events carry a sequence."""
    if now.writing.settings.sequence:
        return True
    covered = [each.about.path for each in synopsis.files]
    known = set(covered)
    return covered == [each.path for each in now.files if each.path in known]


# ---- saved synopses


def list_synopses(folder: Folder) -> list[str]:
    """Return the names of the saved synopses, the newest first."""
    return sorted((name for name in folder.inside(FOLDER).files() if NAME.match(name)), reverse=True)


def read(folder: Folder, name: str) -> Synopsis:
    """Read a saved synopsis.

    Raises:
        StoreError: it is damaged.
        OSError: it cannot be read.
    """
    with folder.inside(FOLDER).open_input(name) as source:
        return _move(Synopsis.load(source), "", folder.path(""))


def _move(synopsis: Synopsis, old: str, new: str) -> Synopsis:
    """Return a synopsis with another prefix of its paths; a saved one has paths relative to its folder."""
    files = synopsis.table_of_files
    paths = [f"{new}{path[len(old) :]}" for path in files.column("index").to_pylist()]
    at = files.schema.get_field_index("index")
    return replace(synopsis, table_of_files=files.set_column(at, "index", pa.array(paths, pa.string())))


def _last(folder: Folder, now: Snapshot) -> Synopsis | None:
    """Return the newest saved synopsis that can be read and has the layout of the version."""
    for name in list_synopses(folder):
        try:
            found = read(folder, name)
        except (StoreError, OSError) as error:
            log.warning("the synopsis %s of %s is not used: %s", name, now.writing.root, error)
            continue
        if found.layout == _layout(now):
            return found
    return None


def save_if_due(now: Snapshot, uncovered: int = UNCOVERED) -> None:
    """Save the synopsis of a version, if the last saved one lacks many of its index files.

    A failure only costs time later, so it is logged and not raised.

    Args:
        now: the version.
        uncovered: how many index files the last saved synopsis may lack.
    """
    folder = Folder.of(now.writing.index_root)
    if len(now.sealed) <= uncovered:
        return
    try:
        last = _last(folder, now)
        known = set() if last is None else {each.about.path for each in last.files}
        if sum(each.path not in known for each in now.sealed) > uncovered:
            save(now, folder)
    except (StoreError, OSError, pa.ArrowException) as error:
        log.warning("the synopsis of %s was not saved: %s", now.writing.root, error)


def mend_synopsis(now: Snapshot) -> None:
    """Remove saved synopses that cannot be read; if there were any, save the synopsis anew."""
    folder = Folder.of(now.writing.index_root)
    with attempt(f"write the synopsis of {now.writing.root} again", "it stays damaged, and is not used"):
        broken = [name for name in list_synopses(folder) if not _is_sound(folder, name)]
        for name in broken:
            folder.inside(FOLDER).remove(name)
        if broken:
            save(now, folder)


def _is_sound(folder: Folder, name: str) -> bool:
    try:
        read(folder, name)
    except (StoreError, pa.ArrowException):
        return False
    return True


def save(now: Snapshot, folder: Folder) -> None:
    """Save the synopsis of a version."""
    sink = pa.BufferOutputStream()
    _move(load_index(now).synopsis, folder.path(""), "").save(sink)
    mark_step("about to save the synopsis")
    folder.inside(FOLDER).write(f"{now.version or 0:020d}", sink.getvalue().to_pybytes())
    mark_step("synopsis saved")
