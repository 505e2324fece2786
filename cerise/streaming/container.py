"""Named parts as one value of bytes, with a checksum: the form of journal entries and snapshots."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cerise.errors import StoreError

MAGIC = b"cerise.stream\n"
FORMAT = 1
HEAD = struct.Struct(f"<{len(MAGIC)}sI16sI")  # magic, format, checksum, length of the index
COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def pack(parts: Mapping[str, bytes]) -> bytes:
    """Return named parts as bytes.

    >>> unpack(pack({"a": b"1", "b": b""}), "the example")
    {'a': b'1', 'b': b''}
    """
    index = json.dumps({name: len(part) for name, part in parts.items()}).encode()
    body = b"".join([index, *parts.values()])
    return HEAD.pack(MAGIC, FORMAT, digest(body), len(index)) + body


def unpack(data: bytes, what: str) -> dict[str, bytes]:
    """Return the parts of bytes that `pack` made; `what` names them in an error.

    Raises:
        StoreError: the bytes are damaged, of a newer format, or something else.
    """
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise StoreError(
            f"{what} is not state of a stream", hint="restore it, or start with a new checkpoint"
        )
    _, version, checksum, length = HEAD.unpack_from(data)
    if version != FORMAT:
        raise StoreError(
            f"{what} has format {version}, this Cerise reads format {FORMAT}",
            hint="run the version of Cerise that wrote it",
        )
    body = memoryview(data)[HEAD.size :]
    if digest(body) != checksum:
        raise StoreError(f"{what} is damaged", hint="restore it, or start with a new checkpoint")
    sizes: dict[str, int] = json.loads(bytes(body[:length]))
    parts, start = {}, length
    for name, size in sizes.items():
        parts[name] = bytes(body[start : start + size])
        start += size
    return parts


def digest(data: bytes | memoryview) -> bytes:
    """Return a checksum of 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


def pack_table(table: pa.Table) -> bytes:
    """Return a table as a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=COMPRESSED) as writer:
        writer.write_table(table.unify_dictionaries().combine_chunks())
    return bytes(sink.getvalue())


def unpack_table(data: bytes) -> pa.Table:
    """Return the table of a compressed Arrow stream."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def pack_json(value: Any) -> bytes:
    """Return a plain value as JSON."""
    return json.dumps(value, sort_keys=True).encode()


def unpack_json(data: bytes) -> Any:
    """Return the value of JSON."""
    return json.loads(data)
