"""The state of a bucket as files: one version for each micro-batch, under a path that all workers share.

    <path>/query-<id>/bucket-3/000000000041.json                  the manifest of batch 41
    <path>/query-<id>/bucket-3/000000000041-journal-<checksum>    a part that batch 41 wrote

A manifest lists the parts of its version. A part stays in later manifests until a batch writes or deletes it,
and is not written again. A manifest is written last, and completes its version. Two attempts at one batch,
even at the same time, do no harm: the name of a part's file holds the checksum of its bytes.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import xxhash

from cerise.errors import StoreError
from cerise.files.folder import Folder, attempt, cause_of

log = logging.getLogger(__name__)

FORMAT = 1
KEPT = 100  # batches that can be replayed: Spark's default of spark.sql.streaming.minBatchesToRetain
ROUNDS = 10  # old files are removed so often while as many batches pass as are kept
QUERY = re.compile(r"query-(.+)")
BUCKET = re.compile(r"bucket-(\d+)")
MANIFEST = re.compile(r"(\d{12})\.json")
PART = re.compile(r"(\d{12})-.+-[0-9a-f]{32}")
GONE = (
    "can all workers read this path, and does foreachBatch read all of a batch? Restore the file, "
    "or start with a new checkpoint"
)
DAMAGED = "restore the file from a copy, or start with a new checkpoint"


class Part(NamedTuple):
    """Bytes that a batch has written under a name: their file, their number and their checksum."""

    file: str
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The list of all parts of one version.

    Attributes:
        parts: the parts by name.
        stamp: a checksum of the version; empty before the first batch.
        buckets: how many buckets the stream has in this version.
    """

    parts: dict[str, Part]
    stamp: str = ""
    buckets: int = 1


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of the state of one bucket of one streaming query.

    Attributes:
        folder: where its files are.
        query: the id of the streaming query.
        bucket: the number of the bucket.
    """

    folder: Folder
    query: str
    bucket: int

    @classmethod
    def of(cls, path: str | Path, query: str, bucket: int) -> Versions:
        folder = Folder.of(path).inside(f"query-{quote(query, safe='')}").inside(f"bucket-{bucket}")
        return cls(folder, query, bucket)

    def load(self, batch: int) -> Manifest:
        """Return the manifest of the version that a batch left.

        Raises:
            StoreError: it is missing or damaged, or a newer Cerise has written it.
        """
        name = name_manifest(batch)
        try:
            content = self.folder.read(name)
        except FileNotFoundError:
            problem = f"{self._say(batch)} is gone: {self._path(name)} is missing"
            raise StoreError(problem, hint=GONE) from None
        except OSError as error:
            raise self._refuse(name, batch, error) from error
        return self._decode(content, batch)

    def lacks(self, bucket: int, batch: int) -> bool:
        """Whether, by the first bucket, the stream has no bucket of a number in a version.

        A stream that is started again with fewer buckets leaves the files of others behind.
        """
        return self.folder.holds(name_manifest(batch)) and self.load(batch).buckets <= bucket

    def save(self, batch: int, parts: dict[str, Part], buckets: int = 1) -> Manifest:
        """Write the manifest of a batch's version, whose parts are all written, and return it."""
        body = {"format": FORMAT, **self._identity(batch), "buckets": buckets, "parts": parts}
        stamp = checksum(_canonical(body))
        with attempt(f"write the state of batch {batch}", "the state of the batch before is as it was"):
            self.folder.write(name_manifest(batch), _canonical(body | {"checksum": stamp}))
        return Manifest(parts, stamp, buckets)

    def read(self, part: Part, batch: int) -> bytes:
        """Return the bytes of a part of a batch's version.

        Raises:
            StoreError: the file is missing or damaged.
        """
        try:
            data = self.folder.read(part.file)
        except FileNotFoundError:
            problem = f"{self._say(batch)} is gone in part: {self._path(part.file)} is missing"
            raise StoreError(problem, hint=GONE) from None
        except OSError as error:
            raise self._refuse(part.file, batch, error) from error
        if len(data) != part.size:
            raise self._damage(part.file, batch, f"has {len(data):,} bytes instead of {part.size:,}")
        if checksum(data) != part.checksum:
            raise self._damage(part.file, batch, "differs from its checksum")
        return data

    def write(self, batch: int, name: str, data: bytes) -> Part:
        """Write a part of a batch's version; the version has it once `save` lists it."""
        found = checksum(data)
        part = Part(f"{batch:012}-{quote(name, safe='')}-{found}", len(data), found)
        with attempt(f"write the state of batch {batch}", "the state of the batch before is as it was"):
            self.folder.write(part.file, data)
        return part

    def clean(self, oldest: int) -> None:
        """Remove the versions before one, and the files that no later version needs."""
        files = self.folder.files()
        if name_manifest(oldest) not in files:
            return
        # A part of an earlier batch that a later version has is in this version, too.
        needed = {part.file for part in self.load(oldest).parts.values()}
        self._remove(files, oldest, needed)

    def clear(self, oldest: int) -> None:
        """Remove all files of a bucket that the stream no longer has, if no version from one on is left."""
        files = self.folder.files()
        found = [int(each[1]) for each in map(MANIFEST.fullmatch, files) if each]
        if found and max(found) < oldest:
            self._remove(files, oldest, set())
            if not self.folder.files():
                self.folder.vanish()

    def _remove(self, files: Iterable[str], oldest: int, needed: set[str]) -> None:
        for name in sorted(files):  # a manifest sorts before the parts of its batch
            manifest, part = MANIFEST.fullmatch(name), PART.fullmatch(name)
            if (manifest and int(manifest[1]) < oldest) or (
                part and int(part[1]) <= oldest and name not in needed
            ):
                self.folder.remove(name)

    def _decode(self, content: bytes, batch: int) -> Manifest:
        name = name_manifest(batch)
        try:
            body: dict[str, Any] = json.loads(content)
            version = int(body["format"])
        except (ValueError, TypeError, KeyError):
            raise self._damage(name, batch, "is not a manifest") from None
        if version > FORMAT:
            raise StoreError(
                f"a newer Cerise has written {self._say(batch)}: {self._path(name)} has format {version}, "
                f"and this Cerise reads up to {FORMAT}",
                hint="install the version of Cerise that wrote it, or a later one",
            )
        stamp = body.pop("checksum", None)
        if stamp != checksum(_canonical(body)):
            raise self._damage(name, batch, "differs from its checksum")
        if {each: body[each] for each in ("query", "bucket", "batch")} != self._identity(batch):
            raise self._damage(name, batch, "is of another query, bucket or batch")
        parts = {each: Part(*part) for each, part in body["parts"].items()}
        return Manifest(parts, stamp, int(body.get("buckets", 1)))

    def _identity(self, batch: int) -> dict[str, Any]:
        return {"query": self.query, "bucket": self.bucket, "batch": batch}

    def _say(self, batch: int) -> str:
        return f"the state of batch {batch} of bucket {self.bucket}"

    def _path(self, name: str) -> str:
        return f"{self.folder.root}/{name}"

    def _damage(self, name: str, batch: int, how: str) -> StoreError:
        return StoreError(f"{self._say(batch)} is damaged: {self._path(name)} {how}", hint=DAMAGED)

    def _refuse(self, name: str, batch: int, error: OSError) -> StoreError:
        problem = f"cannot read {self._say(batch)}: {self._path(name)}: {cause_of(error)}"
        return StoreError(problem, hint="may all workers read this path?")


class FileStateHome:
    """The state of one bucket, kept in files.

    `read`, `names` and `stamp` see the version that the batch before has left, whatever is written meanwhile.
    `write` and `delete` change the next version, which is there once `commit` returns. A batch that is
    replayed writes its version again.

    Args:
        path: the folder of all states; all workers can read and write it.
        query: the id of the streaming query, so that two queries can share a path.
        bucket: the number of the bucket.
        batch: the number of the micro-batch.
        kept: how many batches before this one can be replayed; files that only older ones need are removed.
        buckets: how many buckets the stream has; the first one removes the files of buckets beyond.

    Raises:
        StoreError: the version of the batch before is gone or damaged.
    """

    def __init__(
        self, path: str | Path, query: str, bucket: int, batch: int, *, kept: int = KEPT, buckets: int = 0
    ) -> None:
        self._path, self._versions = path, Versions.of(path, query, bucket)
        self._batch, self._kept, self._buckets = batch, kept, max(buckets, bucket + 1)
        self._before = Manifest({})
        is_old = bucket == 0 or not self._neighbour(0).lacks(bucket, batch - 1)
        if batch > 0 and is_old:
            self._before = self._versions.load(batch - 1)
        self._after = dict(self._before.parts)

    def _neighbour(self, bucket: int) -> Versions:
        return Versions.of(self._path, self._versions.query, bucket)

    def former(self) -> list[FileStateHome]:
        """Return the homes of all buckets of the stream, as of the version that the batch starts from.

        Raises:
            StoreError: the version of a bucket is gone or damaged.
        """
        if not self._batch:
            return []
        count = self._neighbour(0).load(self._batch - 1).buckets
        query = self._versions.query
        return [FileStateHome(self._path, query, bucket, self._batch) for bucket in range(count)]

    @property
    def buckets(self) -> int:
        """How many buckets the stream has in the version that the batch starts from."""
        return self._before.buckets

    @property
    def stamp(self) -> str:
        """The checksum of the version that the batch starts from; empty at the first batch."""
        return self._before.stamp

    def names(self) -> list[str]:
        """Return the names of all parts."""
        return sorted(self._before.parts)

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a part; None: the state has no part of that name."""
        part = self._before.parts.get(name)
        return None if part is None else self._versions.read(part, self._batch - 1)

    def write(self, name: str, data: bytes) -> None:
        """Write a part, instead of the one that has its name; equal bytes are not written again."""
        before = self._before.parts.get(name)
        if before is None or (len(data), checksum(data)) != (before.size, before.checksum):
            before = self._versions.write(self._batch, name, data)
        self._after[name] = before

    def delete(self, name: str) -> None:
        """Leave a part out of the next version, if the state has it."""
        self._after.pop(name, None)

    def commit(self) -> str:
        """Complete the next version; return its stamp."""
        stamp = self._versions.save(self._batch, self._after, self._buckets).stamp
        # One batch more than can be replayed: replaying a batch needs the version before it.
        oldest = self._batch - self._kept - 1
        if oldest > 0 and self._batch % max(1, self._kept // ROUNDS) == 0:
            self._clean(oldest)
        return stamp

    def _clean(self, oldest: int) -> None:
        try:
            self._versions.clean(oldest)
            for name in self._versions.folder.parent.names() if not self._versions.bucket else ():
                found = BUCKET.fullmatch(name)
                if found and int(found[1]) >= self._buckets:
                    self._neighbour(int(found[1])).clear(oldest)
        except (OSError, StoreError) as error:  # the new version is complete, and the next round tries again
            log.warning("old files of the state stay: %s", error)


def checksum(data: bytes) -> str:
    """Return the checksum of bytes of a state."""
    return xxhash.xxh3_128_hexdigest(data)


def name_manifest(batch: int) -> str:
    """Return the name of the manifest of a batch's version."""
    return f"{batch:012}.json"


def _canonical(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True).encode()
