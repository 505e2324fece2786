"""Delta tables written by hand, and deletion vectors byte by byte, as Delta's protocol says."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

MAGIC = 1681511377  # a 64-bit bitmap: 32-bit ones in the portable format of Roaring, by their upper halves
PLAIN = 12346  # the cookie of a bitmap without run containers
FEATURE = "deletionVectors"
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def write(table: Path, parts: Sequence[pa.Table], group: int) -> None:
    """Write a Delta table: each part is a file, of which row groups have so many rows."""
    DeltaTable.create(table, parts[0].schema)
    for number, part in enumerate(parts):
        pq.write_table(part, table / f"part-{number}.parquet", row_group_size=group)
    _commit(table, [{"add": _added(table, number, part)} for number, part in enumerate(parts)])


def _added(table: Path, number: int, part: pa.Table) -> dict[str, Any]:
    path = f"part-{number}.parquet"
    stats = json.dumps({"numRecords": len(part)})
    size = (table / path).stat().st_size
    return {
        "path": path, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True,
        "stats": stats,
    }  # fmt: skip


def delete(table: Path, rows: Mapping[str, Iterable[int]], stored: str = "u") -> None:
    """Delete rows of the files of a Delta table, by their numbers, in one commit.

    Args:
        table: where it is; its log must be JSON alone.
        rows: all that is to be deleted of a file, by the path that the log has of it.
        stored: where the vectors go: "u", a file of the table; "p", one by its whole path; "i", the log.
    """
    live = {each["add"]["path"]: each["add"] for each in _actions(table) if "add" in each}
    new = [{"protocol": protocol(table, FEATURE)}]
    for path, numbers in rows.items():
        old = live[path]
        gone = {name: old[name] for name in ("path", "deletionVector") if old.get(name)}
        new.append({"remove": {**gone, "dataChange": True, "deletionTimestamp": 1}})
        new.append({"add": {**old, "deletionVector": _stored(table, sorted(set(numbers)), stored)}})
    _commit(table, new)


def protocol(table: Path, *features: str) -> dict[str, Any]:
    """Return what a table asks of its readers and writers, and some features more."""
    known = [each["protocol"] for each in _actions(table) if "protocol" in each][-1]
    both = {name: sorted({*known.get(name, ()), *features}) for name in ("readerFeatures", "writerFeatures")}
    return {"minReaderVersion": 3, "minWriterVersion": 7, **both}


def paths(table: Path) -> list[str]:
    """Return the paths that the log has of the files of a table, in arrival order: by file name."""
    held = {each["add"]["path"] for each in _actions(table) if "add" in each}
    return sorted(held, key=lambda path: path.rsplit("/", 1)[-1])


def _logs(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("*.json"))


def _actions(table: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for log in _logs(table) for line in log.read_text().splitlines()]


def _commit(table: Path, actions: Sequence[dict[str, Any]]) -> None:
    log = table / "_delta_log" / f"{len(_logs(table)):020}.json"
    log.write_text("\n".join(map(json.dumps, actions)))


def _stored(table: Path, numbers: list[int], stored: str) -> dict[str, Any]:
    data = _bitmap(numbers)
    known = {"storageType": stored, "sizeInBytes": len(data), "cardinality": len(numbers)}
    if stored == "i":
        return {**known, "pathOrInlineDv": _z85(data + bytes(-len(data) % 4))}
    name = uuid.uuid4()
    file = table / f"deletion_vector_{name}.bin"
    checked = struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    file.write_bytes(b"\x01" + checked)
    where = _z85(name.bytes) if stored == "u" else file.absolute().as_uri()
    return {**known, "pathOrInlineDv": where, "offset": 1}


def _bitmap(numbers: list[int]) -> bytes:
    upper: dict[int, dict[int, list[int]]] = {}
    for number in numbers:
        upper.setdefault(number >> 32, {}).setdefault(number >> 16 & 0xFFFF, []).append(number & 0xFFFF)
    head = struct.pack("<IQ", MAGIC, len(upper))
    return head + b"".join(struct.pack("<I", key) + _roaring(held) for key, held in upper.items())


def _roaring(containers: Mapping[int, list[int]]) -> bytes:
    """Return a 32-bit bitmap whose containers are all lists, of at most 4,096 numbers each."""
    offset = 8 + 8 * len(containers)
    keys, offsets, lists = b"", b"", b""
    for key, numbers in containers.items():
        keys += struct.pack("<HH", key, len(numbers) - 1)
        offsets += struct.pack("<I", offset + len(lists))
        lists += struct.pack(f"<{len(numbers)}H", *numbers)
    return struct.pack("<II", PLAIN, len(containers)) + keys + offsets + lists


def _z85(data: bytes) -> str:
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(Z85[word // 85**power % 85] for word in words for power in range(4, -1, -1))
