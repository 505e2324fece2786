"""Where matches go: standard output, one file that grows, or a folder with a file for each batch."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa

from cerise.cli.output import SUFFIXES, write_rows
from cerise.errors import CeriseError, StoreError
from cerise.files.folder import Folder, attempt

ENDS = {"json": "jsonl", "csv": "csv", "parquet": "parquet"}


class MatchSink(Protocol):
    """Takes the rows of each batch."""

    def open(self, length: int | None) -> None:
        """Begin; `length` is the number of bytes that a saved state knows, None: nothing was saved."""
        ...

    def write(self, batch: int, rows: pa.Table) -> int:
        """Write the rows of a batch; return how many bytes are written for good, where that is known."""
        ...


class StandardOutput:
    """JSON lines on standard output."""

    def open(self, length: int | None) -> None:
        del length

    def write(self, batch: int, rows: pa.Table) -> int:
        del batch
        write_rows(rows, sys.stdout.buffer, "json")
        sys.stdout.buffer.flush()
        return 0


class GrowingFile:
    """JSON lines or CSV in one file.

    A run that goes on cuts the file back to the length in its saved state, and writes its last batch again. A
    file with matches of another run is left alone.
    """

    def __init__(self, path: str, format_: str) -> None:
        self._path, self._format = Path(path), format_
        self._length = 0

    def open(self, length: int | None) -> None:
        size = self._path.stat().st_size if self._path.exists() else 0
        if length is None and size:
            raise StoreError(
                f"{self._path} has matches of a run whose state is not given",
                hint="give its --state, or another file",
            )
        if length and size < length:
            raise StoreError(
                f"{self._path} has {size:,} bytes, and the saved state has written {length:,}",
                hint="restore the file, or start with a new state",
            )
        self._length = length or 0
        with attempt(f"write {self._path}", "nothing was written"), self._path.open("ab") as file:
            file.truncate(self._length)

    def write(self, batch: int, rows: pa.Table) -> int:
        del batch
        if len(rows):
            with attempt(f"write {self._path}", "the batch is not complete"), self._path.open("ab") as file:
                write_rows(rows, file, self._format, header=not self._length)
                file.flush()
                os.fsync(file.fileno())
                self._length = file.tell()
        return self._length


class NumberedFiles:
    """A folder with one file for each batch that has rows; a repeated batch writes its file again."""

    def __init__(self, path: str, format_: str) -> None:
        self._folder, self._format = Folder.of(path), format_

    def open(self, length: int | None) -> None:
        if length is None and any(self._is_ours(name) for name in self._folder.names()):
            raise StoreError(
                f"{self._folder.root} has batches of a run whose state is not given",
                hint="give its --state, or another folder",
            )

    def _is_ours(self, name: str) -> bool:
        stem, _, end = name.partition(".")
        return stem.startswith("batch-") and end in ENDS.values()

    def write(self, batch: int, rows: pa.Table) -> int:
        name = f"batch-{batch:012}.{ENDS[self._format]}"
        if len(rows):
            with (
                attempt(f"write {self._folder.root}/{name}", "the batch is not complete"),
                self._folder.whole(name) as file,
            ):
                write_rows(rows, _as_file(file), self._format)
        elif self._folder.holds(name):
            self._folder.remove(name)
        return 0


def _as_file(file: Any) -> IO[bytes]:
    handle: IO[bytes] = file
    return handle


def choose_sink(path: str, format_: str | None) -> MatchSink:
    """Return the sink at a path: its suffix says that it is a file, and which format it has."""
    end = Path(path).suffix.lower()
    if end not in SUFFIXES or SUFFIXES[end] == "table":
        return NumberedFiles(path, format_ or "parquet")
    chosen = format_ or SUFFIXES[end]
    if chosen == "parquet":
        raise CeriseError(
            f"{path} cannot grow: a Parquet file is complete when it is written",
            hint=f"give a folder, which gets a file for each batch: {Path(path).with_suffix('')}",
        )
    return GrowingFile(path, chosen)
