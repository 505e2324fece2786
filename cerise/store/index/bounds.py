"""Checks that the counts, lengths and offsets in a directory stay within its file.

Kernels read raw memory at these numbers. Checksums only show that a file is unchanged, not that its writer
was right.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.events import Ints
from cerise.store.index.cluster_layout import ClusterParts
from cerise.store.index.file import BrokenIndex
from cerise.store.index.synopsis import Synopsis


def check_clusters(synopsis: Synopsis, parts: ClusterParts) -> None:
    """Raise BrokenIndex if a cluster's length contradicts its facts, or it lies outside its file."""
    groups = synopsis.cluster("group")
    files, count, length = (
        synopsis.group("file")[groups],
        synopsis.cluster("count"),
        synopsis.cluster("length"),
    )
    wrong = (count < 0) | (count > synopsis.group("rows")[groups]) | (length != parts.length)
    _refuse(synopsis, files, wrong | _outside(synopsis, files, synopsis.cluster("offset"), length))


def check_places(synopsis: Synopsis, files: Ints, offsets: Ints, lengths: Ints) -> None:
    """Raise BrokenIndex if bytes lie outside their files."""
    _refuse(synopsis, files, _outside(synopsis, files, offsets, lengths))


def check_words(data: memoryview, count: int, path: str) -> None:
    """Raise BrokenIndex if a dictionary has too few words, or their ends are not ascending."""
    starts = 4 * (count + 1)
    if count >= 0 and starts <= len(data):
        ends = np.frombuffer(data[:starts], "<i4")
        if ends[0] == 0 and np.all(ends[1:] >= ends[:-1]) and starts + int(ends[-1]) <= len(data):
            return
    raise _bounds_error(path)


def check_codes(synopsis: Synopsis, files: Ints, codes: Ints, sizes: Ints) -> None:
    """Raise BrokenIndex if a code is beyond its dictionary."""
    _refuse(synopsis, files, (codes < 0) | (codes >= sizes))


def _outside(synopsis: Synopsis, files: Ints, offsets: Ints, lengths: Ints) -> npt.NDArray[np.bool_]:
    sizes = np.array([each.size for each in synopsis.files], np.int64)[files]
    outside: npt.NDArray[np.bool_] = (offsets < 0) | (lengths < 0) | (lengths > sizes)
    return outside | (offsets > sizes - lengths)


def _refuse(synopsis: Synopsis, files: Ints, wrong: npt.NDArray[np.bool_]) -> None:
    if wrong.any():
        raise _bounds_error(synopsis.files[int(files[int(np.argmax(wrong))])].path)


def _bounds_error(path: str) -> BrokenIndex:
    return BrokenIndex(f"index file {path} points to bytes outside of it", path=path)
