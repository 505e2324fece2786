"""Saved state as bytes, with a header that detects damage, another query and another version.

magic · format version · meaning · hash of the schema · hash of the layout · checksum · payload

The meaning is of the query (`engines.meaning`): a state of another meaning is of no use. The layout is how
this release runs it: a query whose layout is another can be run again over the events of its windows.
"""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.automaton.program import Program
from cerise.engines.base import AFRESH, AGAIN, refuse_state
from cerise.engines.meaning import SIZE, digest, meaning_of, schema_hash
from cerise.errors import DataError, StateLayoutError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound

MAGIC = b"cerise.nfa\n"
VERSION = 2
HEAD = struct.Struct(f"<{len(MAGIC)}sI" + f"{SIZE}s" * 4)
Arrays = dict[str, npt.NDArray[Any]]


def write(program: Program, arrays: Arrays, *, engine: str = "") -> bytes:
    """Return arrays as bytes, with a header for their query and engine."""
    return write_for(program.bound, _layout(program, engine), arrays)


def read(program: Program, state: bytes, *, engine: str = "") -> Arrays:
    """Return the arrays of a saved state; raises what `read_for` raises."""
    return read_for(program.bound, _layout(program, engine), state)


def write_for(bound: Bound, layout: bytes, arrays: Arrays) -> bytes:
    """Return arrays as bytes, with a header for their query and layout."""
    sink = io.BytesIO()
    np.savez(sink, allow_pickle=False, **arrays)
    payload = sink.getvalue()
    hashes = (meaning_of(bound), schema_hash(bound.schema), layout, digest(payload))
    return HEAD.pack(MAGIC, VERSION, *hashes) + payload


def read_for(bound: Bound, layout: bytes, state: bytes) -> Arrays:
    """Return the arrays of a saved state.

    Raises:
        StateLayoutError: the state is of this query, and of another engine or release of Cerise.
        DataError: the bytes are damaged, or of another query or schema.
    """
    if len(state) < HEAD.size or not state.startswith(MAGIC):
        raise refuse_state(state)
    _, version, meaning, schema, known, checksum = HEAD.unpack_from(state)
    payload = state[HEAD.size :]
    if version == VERSION and checksum != digest(payload):
        raise DataError("the saved state is damaged", hint=f"load an older copy, or {AFRESH}")
    if schema != schema_hash(bound.schema):
        raise DataError("the saved state is of events with other columns", hint=AFRESH)
    if meaning != meaning_of(bound):
        raise DataError("the saved state is of another query", hint=AFRESH)
    if version != VERSION:
        raise StateLayoutError(
            f"the saved state has format version {version}, this Cerise reads version {VERSION}",
            hint=f"load it with the version of Cerise that saved it, or {AGAIN}",
        )
    if layout != known:
        raise StateLayoutError(
            "the saved state is of this query, and of another engine or release of Cerise", hint=AGAIN
        )
    with np.load(io.BytesIO(payload), allow_pickle=False) as loaded:
        return dict(loaded)


def _layout(program: Program, engine: str) -> bytes:
    bound, layout = program.bound, program.layout
    given = (layout.node_words, list(layout.texts), bound.partition, bound.within, bound.slide, engine)
    text = f"{program.source}\n{given}"
    return digest(text.encode() + program.tables.edges.tobytes() + program.tables.states.tobytes())


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
