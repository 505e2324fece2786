"""Whether the counts, lengths and offsets that a directory tells fit the bytes that are there.

Checksums say that a file is as it was written, not who wrote it: kernels read where these numbers lead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.events import Ints
from cerise.store.index.cluster_layout import Parts
from cerise.store.index.file import BrokenIndex
from cerise.store.index.synopsis import Synopsis


def check_clusters(synopsis: Synopsis, parts: Parts) -> None:
    """Raise BrokenIndex where a cluster is not as long as its numbers say, or lies outside its file."""
    groups = synopsis.cluster("group")
    files, count, length = (
        synopsis.group("file")[groups],
        synopsis.cluster("count"),
        synopsis.cluster("length"),
    )
    wrong = (count < 0) | (count > synopsis.group("rows")[groups]) | (length != parts.length)
    _refuse(synopsis, files, wrong | _outside(synopsis, files, synopsis.cluster("offset"), length))


def check_places(synopsis: Synopsis, files: Ints, offsets: Ints, lengths: Ints) -> None:
    """Raise BrokenIndex where bytes lie outside of their files."""
    _refuse(synopsis, files, _outside(synopsis, files, offsets, lengths))


def check_words(data: memoryview, count: int, path: str) -> None:
    """Raise BrokenIndex where a dictionary has not as many words as it should, or their ends are no ends."""
    starts = 4 * (count + 1)
    if count >= 0 and starts <= len(data):
        ends = np.frombuffer(data[:starts], "<i4")
        if ends[0] == 0 and np.all(ends[1:] >= ends[:-1]) and starts + int(ends[-1]) <= len(data):
            return
    raise _forged(path)


def check_codes(synopsis: Synopsis, files: Ints, codes: Ints, sizes: Ints) -> None:
    """Raise BrokenIndex where a code stands for a word that its dictionary has not."""
    _refuse(synopsis, files, (codes < 0) | (codes >= sizes))


def _outside(synopsis: Synopsis, files: Ints, offsets: Ints, lengths: Ints) -> npt.NDArray[np.bool_]:
    sizes = np.array([each.size for each in synopsis.files], np.int64)[files]
    outside: npt.NDArray[np.bool_] = (offsets < 0) | (lengths < 0) | (lengths > sizes)
    return outside | (offsets > sizes - lengths)


def _refuse(synopsis: Synopsis, files: Ints, wrong: npt.NDArray[np.bool_]) -> None:
    if wrong.any():
        raise _forged(synopsis.files[int(files[int(np.argmax(wrong))])].path)


def _forged(path: str) -> BrokenIndex:
    return BrokenIndex(f"index file {path} tells of bytes that are not there", path=path)
