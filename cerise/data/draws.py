"""Seeded events in draws of a fixed size, regrouped into batches of any size.

A draw has its own random generator, made of the seed and the draw's number. So the events of a seed do not
depend on the batch size, and its first n events do not depend on how many follow.
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
    """Return the random generator of a draw. Draw 0 is for values that all draws share; events start at 1."""
    return np.random.default_rng((seed, number))


def sizes(events: int, batch: int) -> Iterator[int]:
    """Yield the sizes of batches that together hold `events` events."""
    for start in range(0, events, batch):
        yield min(batch, events - start)


def regroup(draws: Iterator[pa.RecordBatch], wanted: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Yield one batch of each wanted size, from as few draws as the batches need."""
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
    """Refuse an argument, given as (value, least), that is not a whole number of at least `least`."""
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise CeriseError(f"{name} is {value!r}", hint=f"give {name} as a whole number, {least} or more")


def _concat(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(pieces) == 1:
        return pieces[0]
    return pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
