"""Where compiled code is kept: one directory for each version of the kernels, of numba and of the CPU.

A cached kernel that calls a function of another file would keep the old one after an edit, so the name
of the directory carries a hash of all kernel sources. What lies there is run, so only the user may be
able to change it: a folder that others can write, or that is not the user's own, is not used.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from cerise.errors import CeriseWarning

PACKAGE = Path(__file__).parents[1]
SOURCES = (
    "kernels", "engines/automaton", "engines/nfa", "engines/rows", "engines/results", "engines/rcep",
    "engines/counting", "store/index",
)  # fmt: skip
ROOT = 0  # the user who may do everything anyway
MOST_LINKS = 40  # in one path; a file system follows no more


@functools.cache
def directory() -> Path | None:
    """Return a directory of ours that can be written: the user's cache, else a temporary one, else None."""
    refused = []
    for place in _candidates():
        target = place / f"kernels-{_fingerprint()}"
        why = why_unsafe(target)
        if why is not None:
            refused.append(f"{place} is not used to keep compiled code, because {why}")
        elif _writable(target):
            _tell(refused, f"it is kept in {place}")
            return target
    _tell(
        refused or ["no directory can be written to keep compiled code in"], "every process compiles afresh"
    )
    return None


def _tell(refused: list[str], instead: str) -> None:
    if refused:
        said = f"{'; '.join(refused)}: {instead} (set CERISE_CACHE_DIR to a folder that only you can write)"
        warnings.warn(said, CeriseWarning, stacklevel=3)


def user_cache() -> Path:
    """Return the directory in which the user's programs keep what they can make again."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():  # no other is to be used, says the standard of this variable
        return Path(given, "cerise")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "cerise"


def _candidates() -> Iterator[Path]:
    if given := os.environ.get("CERISE_CACHE_DIR"):
        yield Path(given).absolute()
    with suppress(RuntimeError):  # there is no home
        yield user_cache()
    yield Path(tempfile.gettempdir()).absolute() / f"cerise-{_user()}"


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


# ---- who else could write there


def why_unsafe(folder: Path) -> str | None:
    """Say why code in a folder, which need not be there yet, may be a stranger's; None where it cannot be.

    All that its path leads through belongs to the user or to root, and only they can write there; others
    may write a folder that keeps apart what different users have, as /tmp does, but not the last one. The
    last two are not links. All that is in the folder belongs to the user.
    """
    if not hasattr(os, "getuid"):
        return None
    for each in (folder, folder.parent):
        if each.is_symlink():
            return f"{each} is a link"
    passed = next((why for each in _looked_up(folder) if (why := _why_not(each, last=each == folder))), None)
    return passed or _why_not_inside(folder)


def _looked_up(path: Path) -> Iterator[Path]:
    """Yield the folders and links that a path leads through, and where it ends."""
    at, parts, links = Path(path.anchor), list(path.parts[1:]), 0
    yield at
    while parts and links < MOST_LINKS:
        part = parts.pop(0)
        at = at.parent if part == ".." else at / part
        yield at
        if at.is_symlink():
            links += 1
            target = at.readlink()
            parts = [*(target.parts[1:] if target.is_absolute() else target.parts), *parts]
            at = Path(target.anchor) if target.is_absolute() else at.parent


def _why_not(path: Path, *, last: bool) -> str | None:
    try:
        found = path.lstat()
    except OSError:  # it is not there, or cannot be looked at: then it cannot be written either
        return None
    if found.st_uid != os.getuid() and (last or found.st_uid != ROOT):
        return f"{path} belongs to another user"
    if stat.S_ISLNK(found.st_mode) or (found.st_mode & stat.S_ISVTX and not last):
        return None
    return f"others can write {path}" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _why_not_inside(folder: Path) -> str | None:
    for each in folder.rglob("*") if folder.is_dir() else ():
        if each.is_symlink():
            return f"{each} is a link"
        if each.is_dir() and (why := _why_not(each, last=True)):
            return why
        with suppress(FileNotFoundError):  # another process has just renamed it
            if each.lstat().st_uid != os.getuid():
                return f"{each} belongs to another user"
    return None


def make_private(folder: Path) -> None:
    """Make a folder, and those that it is in, which only the user can look into."""
    for each in [*reversed(folder.parents), folder]:
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


def _writable(place: Path) -> bool:
    """Whether files can be written there by us, and still only by us."""
    try:
        make_private(place)
        with tempfile.TemporaryFile(dir=place):
            return why_unsafe(place) is None
    except OSError:
        return False


# ---- the name


@functools.cache
def _fingerprint(package: Path = PACKAGE) -> str:
    """Return a hash of everything that the compiled code of a package depends on."""
    known = hashlib.blake2b(digest_size=10)
    for folder in SOURCES:
        for path in sorted((package / folder).glob("*.py")):
            known.update(path.name.encode() + path.read_bytes())
    known.update(f"{version('numba')} {version('numpy')} {sys.version} {_cpu()}".encode())
    return known.hexdigest()


def _cpu() -> str:
    """Return what tells one kind of processor from another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    named = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return platform.machine() + "".join(sorted(set(named)))
