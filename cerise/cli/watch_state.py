"""The state of `cerise watch` in one file, and beside it the batch that is being taken.

A batch is noted before it is read, and the state is saved after its matches are written. So a run that was
killed repeats its last batch with the same files and the same clock, and writes the same rows to the same
place.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.errors import StoreError
from cerise.files.folder import Folder, attempt
from cerise.streaming.container import pack, pack_json, unpack, unpack_json

FORMAT = 1
NOTE = ".next"  # the suffix of the file that names the batch being taken


@dataclass(frozen=True)
class RunProgress:
    """How far a run has come.

    Attributes:
        batch: how many batches are complete.
        files: the files that were read, with their sizes and times.
        written: the bytes that each sink has for good.
        facts: the figures of the bucket.
    """

    batch: int = 0
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedRun:
    """The content of a state file."""

    progress: RunProgress
    schema: pa.Schema
    watcher: bytes


@dataclass(frozen=True)
class BatchNote:
    """The batch that is being taken: its number, its files and its clock."""

    batch: int
    files: dict[str, tuple[int, int]]
    now: int


class StateFile:
    """The file of a run's state; without a path, nothing is kept."""

    def __init__(self, path: str | None) -> None:
        self._folder = None if path is None else Folder.of(Path(path).absolute().parent)
        self._name = "" if path is None else Path(path).name
        self.path = path

    def load(self) -> SavedRun | None:
        """Return the saved run; None: nothing was saved yet.

        Raises:
            StoreError: the file is damaged, or something else.
        """
        if self._folder is None or not self._folder.holds(self._name):
            return None
        return read_state(self._folder.read(self._name), str(self.path))

    def read_note(self, batch: int) -> BatchNote | None:
        """Return the note of the batch that was interrupted; None: none was."""
        if self._folder is None or not self._folder.holds(self._name + NOTE):
            return None
        found = json.loads(self._folder.read(self._name + NOTE))
        files = {name: (int(size), int(at)) for name, (size, at) in found["files"].items()}
        return BatchNote(found["batch"], files, found["now"]) if found["batch"] == batch else None

    def note(self, note: BatchNote) -> None:
        """Name the batch that is being taken, before its first row is written."""
        if self._folder is not None:
            with attempt(f"write {self.path}{NOTE}", "the batch was not begun"):
                self._folder.write(self._name + NOTE, json.dumps(asdict(note)).encode())

    def drop_note(self) -> None:
        """Forget the batch that was noted: none of its rows was written."""
        if self._folder is not None:
            self._folder.remove(self._name + NOTE)

    def save(self, progress: RunProgress, schema: pa.Schema, watcher: bytes) -> int:
        """Save the state after a batch whose rows are written; return its size."""
        if self._folder is None:
            return 0
        plain = {"format": FORMAT, **asdict(progress)}
        parts = {"run": pack_json(plain), "schema": bytes(schema.serialize()), "watcher": watcher}
        data = pack(parts)
        with attempt(f"write {self.path}", "the state of the batch before is as it was"):
            self._folder.write(self._name, data)
        return len(data)


def read_state(data: bytes, name: str) -> SavedRun:
    """Return the content of a state file; `name` stands for it in errors.

    Raises:
        StoreError: the bytes are damaged, or something else.
    """
    parts = unpack(data, name)
    if "run" not in parts:
        raise StoreError(f"{name} is not the state of cerise watch", hint="give the file of --state")
    plain = unpack_json(parts["run"])
    if plain.pop("format") != FORMAT:
        raise StoreError(f"another version of Cerise wrote {name}", hint="run the version that wrote it")
    progress = RunProgress(**plain)
    files = {file: (int(size), int(at)) for file, (size, at) in progress.files.items()}
    schema = pa.ipc.read_schema(pa.py_buffer(parts["schema"]))
    return SavedRun(replace(progress, files=files), schema, parts["watcher"])
