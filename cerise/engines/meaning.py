"""What a saved state is of: the meaning of a query, told apart from the way in which a release runs it.

Two bound queries have the same meaning if they have the same text, up to spelling, the same parameters, and
events with the same columns in the same roles. Then one goes on where the other stopped, or is run again
over the same events. Engines, options and versions of Cerise are not part of it.
"""

from __future__ import annotations

import hashlib

from cerise.events import Schema
from cerise.pattern.bound import Bound
from cerise.pattern.show import show

SIZE = 16  # bytes


def meaning_of(bound: Bound) -> bytes:
    """Return a hash of the meaning of a query: its text, its parameters, and the events that it reads."""
    return digest(query_text(bound).encode() + schema_hash(bound.schema))


def query_text(bound: Bound) -> str:
    """Return the text of a query as `show` spells it, its parameters, and the queries that it reads from."""
    given = "".join(f"\n:{name} = {value}" for name, value in bound.params)
    source = "" if bound.source is None else f"\nFROM\n{query_text(bound.source)}"
    return f"{show(bound.query)}{given}{source}"


def schema_hash(schema: Schema) -> bytes:
    """Return a hash of the columns of events and the roles of these columns."""
    roles = (schema.time, schema.type, schema.key, schema.order, schema.arrival)
    columns = [(field.name, str(field.type)) for field in schema.columns]
    return digest(f"{columns}\n{roles}".encode())


def digest(data: bytes) -> bytes:
    """Return the hash of bytes, in `SIZE` bytes."""
    return hashlib.blake2b(data, digest_size=SIZE).digest()
