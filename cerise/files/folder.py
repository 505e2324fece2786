"""A folder, local or in an object store: lists its files, and writes files atomically."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from cerise.errors import StoreError

DRAFT = ".tmp"  # how the names of incomplete files end
NOISE = re.compile("\x1b\\[[0-9;]*m|\u21b3")  # colours and arrows
FRAME = re.compile(r"\s*\d+: ")  # a line of a backtrace


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder; its methods take names relative to it.

    Attributes:
        root: its absolute path, or URI.
        base: its path on its file system.
        system: its file system.
    """

    root: str
    base: str
    system: fs.FileSystem

    @classmethod
    def of(cls, root: str | Path) -> Folder:
        """Return the folder at a path or URI; it need not exist yet.

        Raises:
            StoreError: its file system cannot be opened.
        """
        text = str(root).rstrip("/")
        if "://" not in text:
            place = str(Path(text).absolute())
            return cls(place, place, fs.LocalFileSystem())
        try:
            system, base = fs.FileSystem.from_uri(text)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StoreError(
                f"cannot open {text}: {str(error).splitlines()[0]}",
                hint="is it a path, or a URI that Arrow knows?",
            ) from error
        return cls(text, base.rstrip("/"), system)

    @property
    def local(self) -> bool:
        return isinstance(self.system, fs.LocalFileSystem)

    @property
    def is_file(self) -> bool:
        return bool(self.system.get_file_info(self.base).type == fs.FileType.File)

    @property
    def name(self) -> str:
        return self.base.rsplit("/", 1)[-1]

    @property
    def parent(self) -> Folder:
        return Folder(self.root.rsplit("/", 1)[0], self.base.rsplit("/", 1)[0], self.system)

    def inside(self, name: str) -> Folder:
        return Folder(f"{self.root}/{name}", self.path(name), self.system)

    def path(self, name: str) -> str:
        return f"{self.base}/{name}"

    def stat(self, name: str) -> fs.FileInfo:
        """Return size, type and modification time of a file; a missing file has the type NotFound."""
        return self.system.get_file_info(self.path(name))

    def vanish(self) -> None:
        """Remove the folder itself, if it is empty; object stores have no folders."""
        if self.local:
            with suppress(OSError):
                Path(self.base).rmdir()

    def holds(self, name: str) -> bool:
        return bool(self.stat(name).type != fs.FileType.NotFound)

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return the sizes of files; None for a missing file."""
        found = self.system.get_file_info([self.path(name) for name in names])
        return [each.size if each.type == fs.FileType.File else None for each in found]

    def files(self) -> dict[str, fs.FileInfo]:
        """Return the files of the folder by name; a missing folder has none."""
        held = self.system.get_file_info(fs.FileSelector(self.base, allow_not_found=True))
        return {each.base_name: each for each in held if each.type == fs.FileType.File}

    def names(self) -> list[str]:
        """Return the names of all files and folders in the folder; a missing folder has none."""
        held = self.system.get_file_info(fs.FileSelector(self.base, allow_not_found=True))
        return sorted(each.base_name for each in held)

    def open_input(self, name: str) -> pa.NativeFile:
        return self.system.open_input_file(self.path(name))

    def read(self, name: str) -> bytes:
        with self.open_input(name) as source:
            return bytes(source.read())

    def open_output(self, name: str) -> pa.NativeFile:
        """Open a file for writing; create its folder if it is missing."""
        path = self.path(name)
        if self.local:  # object stores have no folders
            self.system.create_dir(path.rsplit("/", 1)[0], recursive=True)
        return self.system.open_output_stream(path)

    def settle(self, name: str) -> None:
        """Flush a written file to the disk, so that it survives a power cut."""
        if self.local:
            sync(self.path(name))
            sync(self.path(name).rsplit("/", 1)[0])

    @contextmanager
    def whole(self, name: str) -> Iterator[pa.NativeFile]:
        """Open a file for writing that appears under its name only when it is complete."""
        if not self.local:  # an object appears when it is closed
            try:
                with self.open_output(name) as sink:
                    yield sink
            except BaseException:
                self.tidy(name)
                raise
            return
        draft = name_draft(name)
        try:
            with self.open_output(draft) as sink:
                yield sink
            sync(self.path(draft))
            Path(self.path(draft)).replace(self.path(name))
            sync(self.path(name).rsplit("/", 1)[0])
        finally:
            self.tidy(draft)

    def write(self, name: str, content: bytes, *, new: bool = False) -> None:
        """Write a small file atomically.

        Args:
            name: its name.
            content: its bytes.
            new: whether the file must not exist yet.

        Raises:
            FileExistsError: `new`, and the file exists.
        """
        if new and self.holds(name):
            raise FileExistsError(self.path(name))
        if not (new and self.local):
            with self.whole(name) as sink:
                sink.write(content)
            return
        first = name_draft(name)
        with self.whole(first) as sink:
            sink.write(content)
        try:
            os.link(self.path(first), self.path(name))  # fails if another writer was faster
            sync(self.path(name).rsplit("/", 1)[0])
        finally:
            self.tidy(first)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self.system.delete_file(self.path(name))

    def tidy(self, name: str) -> None:
        """Remove a file after a failure; errors are ignored in favour of the first one."""
        with suppress(OSError):
            self.remove(name)


def name_draft(name: str) -> str:
    """Return a name for a file that is not complete yet.

    It begins with a dot: where a writer is killed, the draft stays, and readers of the folder pass it over.
    """
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}.{last}.{secrets.token_hex(8)}{DRAFT}"


@contextmanager
def attempt(what: str, state: str) -> Iterator[None]:
    """Turn an OSError of the block into an error that says what failed and what state it leaves behind.

    Args:
        what: the action, as in "cannot …": "write x".
        state: the state after a failure: "nothing was created".

    Raises:
        StoreError: the block raises OSError.
    """
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot {what}: {cause_of(error)}; {state}", hint="is there room, and may it be written?"
        ) from error


def cause_of(error: BaseException) -> str:
    """Return the message of an error of a disk or of delta-rs in one line."""
    text = NOISE.sub("", str(error)).split(". Detail: Python exception")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not FRAME.match(line)]
    return ": ".join(lines[:4]) or type(error).__name__


def milliseconds(found: fs.FileInfo) -> int:
    """Return when a file was last changed, in milliseconds since 1970."""
    return 0 if found.mtime_ns is None else int(found.mtime_ns) // 1_000_000


def sync(path: str) -> None:
    """Flush a file or folder to the disk, so that it survives a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
