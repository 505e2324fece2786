"""Files as if they had not been read for long: what the system keeps of them in memory is dropped."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np


def evict(files: Iterable[Path]) -> None:
    """Drop files from the page cache; nothing may have them mapped.

    Raises:
        OSError: they are still there.
    """
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if (share := resident(path)) > 0.05:
            raise OSError(f"{share:.0%} of {path.name} is still in memory: is it on a disk, and not mapped?")


def resident(path: Path) -> float:
    """Return the share of a file's pages that are in memory."""
    size = path.stat().st_size
    if not size:
        return 0.0
    pages = -(-size // mmap.PAGESIZE)
    held = (ctypes.c_ubyte * pages)()
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        address = view.ctypes.data
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(address), ctypes.c_size_t(size), held
        )
        del view
    if failed:
        raise OSError(ctypes.get_errno(), f"cannot tell what of {path.name} is in memory")
    return float((np.frombuffer(held, np.uint8) & 1).mean())
