"""Where compiled code is kept: one directory for each version of the kernels, of numba and of the CPU.

A cached kernel that calls a function of another file would keep the old one after an edit, so the name
of the directory carries a hash of all kernel sources.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
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
    "kernels", "engines/nfa", "engines/rows", "engines/rcep", "engines/chains",
    "store/index", "store/filtering",
)  # fmt: skip


@functools.cache
def directory() -> Path | None:
    """Return a directory of ours that can be written: the user's cache, else a temporary one, else None."""
    for place in _candidates():
        target = place / f"kernels-{_fingerprint()}"
        if _writable(target):
            return target
    warnings.warn(
        "no directory can be written to keep compiled code in: every process compiles afresh "
        "(set CERISE_CACHE_DIR)", CeriseWarning, stacklevel=2,
    )  # fmt: skip
    return None


def user_cache() -> Path:
    """Return the directory in which the user's programs keep what they can make again."""
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"]) / "cerise"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "cerise"


def _candidates() -> Iterator[Path]:
    if "CERISE_CACHE_DIR" in os.environ:
        yield Path(os.environ["CERISE_CACHE_DIR"])
    with suppress(RuntimeError):  # there is no home
        yield user_cache()
    yield Path(tempfile.gettempdir()) / f"cerise-{_user()}"


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def _writable(place: Path) -> bool:
    """Whether files can be written there by us, and by nobody else."""
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        owners = {place.stat().st_uid, place.parent.stat().st_uid}
        if hasattr(os, "getuid") and owners != {os.getuid()}:
            return False
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


@functools.cache
def _fingerprint() -> str:
    """Return a hash of everything that compiled code depends on."""
    known = hashlib.blake2b(digest_size=10)
    for folder in SOURCES:
        for path in sorted((PACKAGE / folder).glob("*.py")):
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
