"""Saved state as bytes, with a header that detects damage, another query and another version.

magic · format version · hash of the plan · hash of the schema · checksum · payload
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.automaton.program import Program
from cerise.errors import DataError
from cerise.events import EventBatch
from cerise.pattern.show import show

MAGIC = b"cerise.nfa\n"
VERSION = 1
HEAD = struct.Struct(f"<{len(MAGIC)}sI16s16s16s")
Arrays = dict[str, npt.NDArray[Any]]


def write(program: Program, arrays: Arrays, *, engine: str = "") -> bytes:
    """Return arrays as bytes, with a header for their query and engine."""
    sink = io.BytesIO()
    np.savez(sink, allow_pickle=False, **arrays)
    payload = sink.getvalue()
    return HEAD.pack(MAGIC, VERSION, _plan(program, engine), _schema(program), _digest(payload)) + payload


def read(program: Program, state: bytes, *, engine: str = "") -> Arrays:
    """Return the arrays of a saved state.

    Raises:
        DataError: the bytes are damaged, of a newer version, or of another query or schema.
    """
    if len(state) < HEAD.size or not state.startswith(MAGIC):
        raise DataError("these bytes are not a saved state of this engine", hint="start the query afresh")
    _, version, plan, schema, digest = HEAD.unpack_from(state)
    payload = state[HEAD.size :]
    if version != VERSION:
        raise DataError(
            f"the saved state has format version {version}, this Cerise reads version {VERSION}",
            hint="load it with the version of Cerise that saved it, or start the query afresh",
        )
    if digest != _digest(payload):
        raise DataError("the saved state is damaged", hint="load an older copy, or start the query afresh")
    if schema != _schema(program):
        raise DataError("the saved state is of events with other columns", hint="start the query afresh")
    if plan != _plan(program, engine):
        raise DataError("the saved state is of another query or engine", hint="start the query afresh")
    with np.load(io.BytesIO(payload), allow_pickle=False) as loaded:
        return dict(loaded)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _plan(program: Program, engine: str) -> bytes:
    bound, layout = program.bound, program.layout
    given = (layout.node_words, list(layout.texts), bound.partition, bound.within, bound.slide)
    text = f"{show(bound.query)}\n{program.source}\n{given}{engine}"
    return _digest(text.encode() + program.tables.edges.tobytes() + program.tables.states.tobytes())


def _schema(program: Program) -> bytes:
    schema = program.bound.schema
    parts = (schema.time, schema.type, schema.key, schema.order, schema.arrival)
    return _digest(f"{schema.columns}\n{parts}".encode())


# ---- parts


def pack_events(events: EventBatch) -> Arrays:
    """Return events as arrays."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.table.schema) as writer:
        writer.write_table(events.table)
    equals = np.zeros(len(events), np.uint64) if events.equals is None else events.equals
    return {
        "events": np.frombuffer(sink.getvalue(), np.uint8), "times": events.times,
        "positions": events.positions, "equals": equals,
    }  # fmt: skip


def unpack_events(arrays: Arrays, like: EventBatch) -> EventBatch:
    """Return the events that were packed."""
    table = pa.ipc.open_stream(pa.py_buffer(arrays["events"].tobytes())).read_all()
    return EventBatch(like.schema, table, arrays["times"], arrays["positions"], arrays["equals"])


def pack_json(value: Any) -> npt.NDArray[np.uint8]:
    """Return plain values as bytes."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def unpack_json(words: npt.NDArray[np.uint8]) -> Any:
    """Return the values that were packed."""
    return json.loads(words.tobytes())
