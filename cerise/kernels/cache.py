"""The directory of compiled code: one for each version of the kernels, of numba and of the CPU.

A cached kernel that calls a function of another file would keep the old function after an edit, so the name
of the directory carries a hash of all kernel sources. Cerise runs the files in it, so only the user may be
able to change them: a folder that others can write, or that belongs to another user, is not used.
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
    "kernels", "kernels/pages", "engines/automaton", "engines/nfa", "engines/rows", "engines/results",
    "engines/rcep", "engines/counting", "engines/tree/machine", "engines/tree/events", "engines/tree/program",
    "store/index", "plan/multi", "filters/dual",
)  # fmt: skip
ROOT = 0  # the user id of root, who can write anywhere
MOST_LINKS = 40  # in one path; file systems follow at most 40


@functools.cache
def directory() -> Path | None:
    """Return a safe directory that Cerise can write: in the user's cache, else a temporary one, else None."""
    refused = []
    for place in _candidates():
        target = place / f"kernels-{_fingerprint()}"
        why = why_unsafe(target)
        if why is not None:
            refused.append(f"{place} is not used to keep compiled code, because {why}")
        elif _writable(target):
            _warn(refused, f"it is kept in {place}")
            return target
    _warn(
        refused or ["no directory can be written to keep compiled code in"], "every process compiles afresh"
    )
    return None


def _warn(refused: list[str], instead: str) -> None:
    if refused:
        text = f"{'; '.join(refused)}: {instead} (set CERISE_CACHE_DIR to a folder that only you can write)"
        warnings.warn(text, CeriseWarning, stacklevel=3)


def user_cache() -> Path:
    """Return the folder of Cerise in the user's cache directory."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    if Path(root).is_absolute():  # the XDG standard says to ignore a relative path
        return Path(root, "cerise")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "cerise"


def _candidates() -> Iterator[Path]:
    if given := os.environ.get("CERISE_CACHE_DIR"):
        yield Path(given).absolute()
    with suppress(RuntimeError):  # the user has no home directory
        yield user_cache()
    yield Path(tempfile.gettempdir()).absolute() / f"cerise-{_user()}"


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


# ---- who else could write there


def why_unsafe(folder: Path) -> str | None:
    """Say why another user could have written code in a folder; None if the folder is safe.

    A folder is safe if every folder on its path belongs to the user or to root and only they can write it;
    others may write a folder with the sticky bit, such as /tmp, but not the last one. The last two folders
    are not links, and everything in the folder belongs to the user. The folder need not exist yet.
    """
    if not hasattr(os, "getuid"):
        return None
    for each in (folder, folder.parent):
        if each.is_symlink():
            return f"{each} is a link"
    passed = next(
        (why for each in _follow_path(folder) if (why := _why_not(each, last=each == folder))), None
    )
    return passed or _why_not_inside(folder)


def _follow_path(path: Path) -> Iterator[Path]:
    """Yield the folders and links that the system follows to reach a path, and the path's end."""
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
    except OSError:  # a path that is missing or cannot be read cannot be written either
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
    """Make a folder and its missing parents, each private to the user."""
    for each in [*reversed(folder.parents), folder]:
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


def _writable(place: Path) -> bool:
    """Whether this process can write files there, and only this user can."""
    try:
        make_private(place)
        with tempfile.TemporaryFile(dir=place):
            return why_unsafe(place) is None
    except OSError:
        return False


# ---- the name


@functools.cache
def _fingerprint(package: Path = PACKAGE) -> str:
    """Return a hash of all that compiled code depends on: sources, numba, numpy, Python, CPU."""
    known = hashlib.blake2b(digest_size=10)
    for folder in SOURCES:
        for path in sorted((package / folder).glob("*.py")):
            known.update(path.name.encode() + path.read_bytes())
    known.update(f"{version('numba')} {version('numpy')} {sys.version} {_cpu()}".encode())
    return known.hexdigest()


def _cpu() -> str:
    """Return a description that differs between kinds of processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    named = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return platform.machine() + "".join(sorted(set(named)))
