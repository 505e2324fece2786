"""Checks that the log entries of a local Delta table are whole, and makes them survive a power cut.

delta-rs reads an entry that is empty, or cut after a line, as a version without the files it added. Object
stores need no check: a put succeeds as a whole or has no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from cerise.errors import StoreError
from cerise.files.folder import sync

LOG = "_delta_log"
SIGNED = "ceriseActions"  # in the commitInfo of an entry: the checksum of its other actions
ADDED = ("path", "size", "modificationTime", "dataChange", "stats")
CHECKED = {"add": ADDED, "remove": ADDED[:2], "txn": ("appId", "version")}
ENTRY = re.compile(r"^([0-9]{20})\.json$")
CHECKPOINT = re.compile(r"^([0-9]{20})\.checkpoint.*\.parquet$")
ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}|\\")  # delta-rs reads these as other characters


class LogFault(NamedTuple):
    """A damaged log entry: its version, its name in the table, and the damage, in words."""

    version: int
    name: str
    what: str


def check_place(root: str) -> None:
    """Refuse paths that delta-rs would confuse with others.

    Raises:
        StoreError: the path has an escape sequence.
    """
    found = None if "://" in root else ESCAPED.search(str(Path(root).absolute()))
    if found is not None:
        raise StoreError(
            f"a Delta table cannot lie at {root}: delta-rs takes '{found[0]}' in paths for another character",
            hint="rename the folder, or put the table elsewhere",
        )


def check(root: str, version: int | None = None) -> None:
    """Refuse a log with damaged entries.

    Args:
        root: the path of the table.
        version: the version to read; the newest by default. Later entries, and entries that a checkpoint
            sums up, are not checked.

    Raises:
        StoreError: an entry that this version needs is damaged.
    """
    names = _names(root)
    summed = [n for n in _numbers(names, CHECKPOINT) if version is None or n <= version]
    first = max(summed, default=-1)
    for fault in faults(root, first, version):
        newest = max(_numbers(names, ENTRY)) == fault.version
        hint = "restore the entry from a copy"
        if newest and fault.version:
            hint += (
                f"; without one, move it out of {LOG}: the table is then as it was at version "
                f"{fault.version - 1}, and later events must be appended again"
            )
        raise StoreError(f"the log of {root} is not sound: {fault.name} {fault.what}", hint=hint)


def faults(root: str, after: int = -1, until: int | None = None) -> list[LogFault]:
    """Return the damaged entries of versions in (after, until]; none for a URI."""
    found = []
    for number in _numbers(_names(root), ENTRY):
        if number > after and (until is None or number <= until):
            name = f"{LOG}/{number:020d}.json"
            what = _wrong(Path(root) / name)
            found += [LogFault(number, name, what)] if what is not None else []
    return sorted(found)


def _names(root: str) -> list[str]:
    folder = Path(root) / LOG
    return [] if "://" in root or not folder.is_dir() else [each.name for each in folder.iterdir()]


def _numbers(names: Iterable[str], kind: re.Pattern[str]) -> list[int]:
    return [int(found[1]) for name in names if (found := kind.match(name)) is not None]


def _wrong(path: Path) -> str | None:
    try:
        held = path.stat()
        return _fault(str(path), held.st_size, held.st_mtime_ns)
    except FileNotFoundError:  # a writer has cleaned up the log meanwhile
        return None
    except OSError as error:
        return f"cannot be read: {error}"


@lru_cache(4096)
def _fault(path: str, size: int, _modified: int) -> str | None:
    """Describe the damage of an entry, None if whole; cached until size or modification time change."""
    if not size:
        return "is empty"
    try:
        actions = [json.loads(line) for line in Path(path).read_bytes().splitlines() if line.strip()]
        signatures = [each["commitInfo"].get(SIGNED) for each in actions if "commitInfo" in each]
    except (ValueError, TypeError, AttributeError):
        return "is cut, or damaged"
    if signatures and signatures[0] not in (None, signature(actions)):
        return "is cut, or damaged: it has other actions than its first line says"
    return None


def signature(actions: Iterable[dict[str, Any]]) -> str:
    """Return the checksum of the files that an entry adds and removes, independent of their order.

    The batch of a stream that the entry commits is part of it: an entry that lost it would be added twice.
    """
    parts = [
        repr([kind, *(each[kind].get(name) for name in names)])
        for each in actions
        for kind, names in CHECKED.items()
        if kind in each
    ]
    return xxhash.xxh64_hexdigest("\n".join(sorted(parts)).encode())


def settle(root: str, version: int) -> None:
    """Flush an entry and its checkpoint to the disk, so that they survive a power cut."""
    names = set(_names(root))
    if not names:
        return
    folder = Path(root) / LOG
    mine = f"{version:020d}."
    for name in sorted(names):
        if name.startswith(mine) or name == "_last_checkpoint":
            sync(str(folder / name))
    sync(str(folder))
    sync(root)
