"""Checks all files of all states under a path: every manifest, and every part that a manifest lists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from cerise.errors import StoreError
from cerise.files.folder import Folder
from cerise.store.table.verification import Finding
from cerise.streaming.state.state_files import BUCKET, MANIFEST, QUERY, Part, Versions, name_manifest


def check(path: str | Path) -> list[Finding]:
    """Read all states under a path, and return their faults: each with the file's path, and the fault.

    Raises:
        StoreError: the path holds no state.
    """
    return [fault for versions in find_states(path) for fault in _check_bucket(versions)]


def find_states(path: str | Path) -> list[Versions]:
    """Return the states of all buckets under a path.

    Raises:
        StoreError: the path holds no state.
    """
    states = list(_list_states(Folder.of(path)))
    if not states:
        raise StoreError(f"{path} holds no state", hint="give the path that was given as state=")
    return states


def _list_states(root: Folder) -> Iterator[Versions]:
    for query in filter(None, map(QUERY.fullmatch, root.names())):
        folder = root.inside(query[0])
        for bucket in filter(None, map(BUCKET.fullmatch, folder.names())):
            yield Versions(folder.inside(bucket[0]), unquote(query[1]), int(bucket[1]))


def _check_bucket(versions: Versions) -> Iterator[Finding]:
    root = versions.folder.root
    batches = sorted(int(found[1]) for found in map(MANIFEST.fullmatch, versions.folder.files()) if found)
    if not batches:
        yield Finding(root, "it has no manifest")
    first = Versions(versions.folder.parent.inside("bucket-0"), versions.query, 0)
    for before, batch in pairwise(batches):
        gone = range(before + 1, batch)
        if gone and not (versions.bucket and all(_lacks(first, versions.bucket, each) for each in gone)):
            missing = f"{before + 1}" if batch == before + 2 else f"{before + 1} to {batch - 1}"
            yield Finding(f"{root}/{name_manifest(before + 1)}", f"the state of batch {missing} is gone")
    checked: set[Part] = set()
    for batch in batches:
        yield from _check_version(versions, batch, checked)


def _lacks(first: Versions, bucket: int, batch: int) -> bool:
    """Whether the stream had no bucket of a number; a first bucket that is damaged does not tell."""
    try:
        return first.lacks(bucket, batch)
    except StoreError:
        return False


def _check_version(versions: Versions, batch: int, checked: set[Part]) -> Iterator[Finding]:
    try:
        parts = set(versions.load(batch).parts.values())
    except StoreError as error:
        yield Finding(f"{versions.folder.root}/{name_manifest(batch)}", error.problem)
        return
    for part in sorted(parts - checked):
        try:
            versions.read(part, batch)
        except StoreError as error:
            yield Finding(f"{versions.folder.root}/{part.file}", error.problem)
    checked |= parts
