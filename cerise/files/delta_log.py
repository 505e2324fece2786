"""The log of a Delta table on a disk: whether its entries are whole, and that they survive a power cut.

delta-rs reads an entry that is empty, or cut after a line, as a version without the files it added. Among
objects there are no such entries: a put is there whole or not at all.
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
ENTRY = re.compile(r"^([0-9]{20})\.json$")
CHECKPOINT = re.compile(r"^([0-9]{20})\.checkpoint.*\.parquet$")
ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}|\\")  # which delta-rs takes for other characters


class Fault(NamedTuple):
    """An entry of a log that is not whole: its version, its name in the table, and what is wrong."""

    version: int
    name: str
    what: str


def check_place(root: str) -> None:
    """Refuse paths that delta-rs takes for others.

    Raises:
        StoreError: this is such a path.
    """
    found = None if "://" in root else ESCAPED.search(str(Path(root).absolute()))
    if found is not None:
        raise StoreError(
            f"a Delta table cannot lie at {root}: delta-rs takes '{found[0]}' in paths for another character",
            hint="rename the folder, or put the table elsewhere",
        )


def check(root: str, version: int | None = None) -> None:
    """Refuse a log with entries that are not whole.

    Args:
        root: where the table is.
        version: the version that is asked for; the newest by default. Entries after it, and those that a
            checkpoint sums up, do not matter.

    Raises:
        StoreError: an entry that matters is not whole.
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
                f"{fault.version - 1}, and what that version lacks must be appended again"
            )
        raise StoreError(f"the log of {root} is not sound: {fault.name} {fault.what}", hint=hint)


def faults(root: str, after: int = -1, until: int | None = None) -> list[Fault]:
    """Return the entries that are not whole, of versions after one and up to another; none among objects."""
    found = []
    for number in _numbers(_names(root), ENTRY):
        if number > after and (until is None or number <= until):
            name = f"{LOG}/{number:020d}.json"
            what = _wrong(Path(root) / name)
            found += [Fault(number, name, what)] if what is not None else []
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
    except FileNotFoundError:  # a writer has tidied the log up meanwhile
        return None
    except OSError as error:
        return f"cannot be read: {error}"


@lru_cache(4096)
def _fault(path: str, size: int, _modified: int) -> str | None:
    """Tell what is wrong with an entry; remembered for as long as nobody touches it."""
    if not size:
        return "is empty"
    try:
        actions = [json.loads(line) for line in Path(path).read_bytes().splitlines() if line.strip()]
        said = [each["commitInfo"].get(SIGNED) for each in actions if "commitInfo" in each]
    except (ValueError, TypeError, AttributeError):
        return "is cut, or damaged"
    if said and said[0] not in (None, signature(actions)):
        return "is cut, or damaged: it has other actions than its first line says"
    return None


def signature(actions: Iterable[dict[str, Any]]) -> str:
    """Return the checksum of the files that an entry adds and removes, whatever their order."""
    adds = ("path", "size", "modificationTime", "dataChange", "stats")
    held = [
        repr([kind, *(each[kind].get(name) for name in names)])
        for each in actions
        for kind, names in (("add", adds), ("remove", adds[:2]))
        if kind in each
    ]
    return xxhash.xxh64_hexdigest("\n".join(sorted(held)).encode())


def settle(root: str, version: int) -> None:
    """Have an entry on the disk, with what sums the log up, so that it is there after a power cut too."""
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
