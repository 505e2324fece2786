"""Indexes of small tables, in files of a test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from cerise.store.index.file import DataFile, IndexFile, write_index
from cerise.store.index.layout import IndexLayout
from cerise.store.index.lookup import Index
from cerise.store.index.synopsis import Synopsis

LOCAL = pafs.LocalFileSystem()


def written(folder: Path, name: str, groups: Sequence[pa.Table], layout: IndexLayout) -> IndexFile:
    """Return the index file of a data file with the given row groups."""
    path = folder / f"{name}.index"
    about = DataFile(name, 10, 20, sum(len(group) for group in groups))
    with pa.OSFile(str(path), "wb") as sink:
        write_index(groups, layout, about, sink)
    return IndexFile(LOCAL, str(path))


def index_of(
    folder: Path, files: Sequence[Sequence[pa.Table]], layout: IndexLayout, mapped: int = 100
) -> Index:
    """Return the index of data files, each given by its row groups."""
    found = [written(folder, f"part-{n}", groups, layout) for n, groups in enumerate(files)]
    return Index(Synopsis.of(found, layout), layout, LOCAL, mapped=mapped)
