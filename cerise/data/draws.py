"""Seeded events in draws of fixed size, cut into whatever sizes a caller wants.

A draw has its own random generator, made of the seed and the draw's number. So the events of a seed are the
same whatever the batch size, and the first n of them are the same however many follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from cerise.errors import CeriseError

DRAW = 65_536
BATCH = 65_536


def schema(**types: pa.DataType) -> pa.Schema:
    """Return the schema with these columns."""
    return pa.schema(types)


def rng_of(seed: int, number: int) -> np.random.Generator:
    """Return the random generator of one draw; draw 0 is for what the draws share, events start at draw 1."""
    return np.random.default_rng((seed, number))


def sizes(events: int, batch: int) -> Iterator[int]:
    """Yield the sizes of the batches that hold so many events."""
    for start in range(0, events, batch):
        yield min(batch, events - start)


def cut(draws: Iterator[pa.RecordBatch], wanted: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Yield one batch of each wanted size, asking for no more draws than these need."""
    rest: pa.RecordBatch | None = None
    for size in wanted:
        pieces: list[pa.RecordBatch] = []
        missing = size
        while missing:
            if rest is None or not rest.num_rows:
                rest = next(draws)
            piece = rest.slice(0, missing)
            rest = rest.slice(piece.num_rows)
            missing -= piece.num_rows
            pieces.append(piece)
        yield _concat(pieces)


def check(**counts: tuple[int, int]) -> None:
    """Raise unless each named argument, given as (value, least), is a whole number and large enough."""
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise CeriseError(f"{name} is {value!r}", hint=f"give {name} as a whole number, {least} or more")


def _concat(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(pieces) == 1:
        return pieces[0]
    return pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
