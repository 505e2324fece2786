"""Filters as bytes: a head with a version and a checksum before the body, so that damage is an error.

A filter that arrives cut, changed or from another release would drop events that match. So no byte of a body
is read before the head fits it.
"""

from __future__ import annotations

import hashlib
import struct

from cerise.errors import DataError

MAGIC = b"CeDF"
VERSION = 1
HEAD = struct.Struct("<4sBBHI16s")  # magic, version, kind, spare, length of the body, checksum
SPARE = 0
HINT = "the sender and the receiver need the same release of cerise; ask for the filter again"


def seal(kind: int, body: bytes) -> bytes:
    """Return a body with its head."""
    return HEAD.pack(MAGIC, VERSION, kind, SPARE, len(body), _digest(kind, body)) + body


def kind_of_message(message: bytes) -> int:
    """Return the kind of a message.

    Raises:
        DataError: the message is not one of a filter, or of another version.
    """
    return _head(message)[0]


def unseal(kind: int, message: bytes) -> bytes:
    """Return the body of a message of the kind.

    Raises:
        DataError: the message is cut, changed, of another version, or of another kind.
    """
    found, length, checksum = _head(message)
    body = message[HEAD.size :]
    if len(body) != length:
        raise DataError(f"a filter of {length} bytes arrived as {len(body)}", hint=HINT)
    if _digest(found, body) != checksum:
        raise DataError("a filter arrived damaged: its checksum does not fit", hint=HINT)
    if found != kind:
        raise DataError(f"a filter of kind {found} arrived in place of kind {kind}", hint=HINT)
    return body


def _head(message: bytes) -> tuple[int, int, bytes]:
    if len(message) < HEAD.size:
        raise DataError(f"a filter arrived cut: {len(message)} bytes", hint=HINT)
    magic, version, kind, spare, length, checksum = HEAD.unpack_from(message)
    if magic != MAGIC or spare != SPARE:
        raise DataError("the bytes are not those of a filter", hint=HINT)
    if version != VERSION:
        raise DataError(f"a filter of version {version} arrived; this release reads {VERSION}", hint=HINT)
    return kind, length, checksum


def _digest(kind: int, body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16, salt=bytes([VERSION, kind])).digest()
