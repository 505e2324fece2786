"""`acer_synthetic`: events of many types, few of them frequent, after the synthetic data of 000."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, DRAW, check, regroup, rng_of, schema, sizes

ACER_SYNTHETIC = schema(
    type=pa.string(),
    a1=pa.int32(),
    a2=pa.int32(),
    a3=pa.float64(),
    a4=pa.float64(),
    ts=pa.timestamp("us", "UTC"),
)

EXPONENT = 1.3
MOST = 1000  # of each attribute
GAP_US = 1_000


def acer_synthetic(
    events: int, *, seed: int = 0, batch: int = BATCH, types: int = 50, start: dt.date = dt.date(2024, 1, 1)
) -> Iterator[pa.RecordBatch]:
    """Yield the synthetic stream of 000 §4.1 in batches.

    One event per millisecond; its type is E1, E2, … by Zipf's law with exponent 1.3 in this order: of 50
    types E1 has 34 % of the events, E2 14 %, E3 8 % and E50 0.2 %. All attributes are uniform from 0 to 1000:
    a1 and a2 whole numbers, a3 and a4 with two decimals.

    Args:
        events: how many events.
        seed: the seed of the stream.
        batch: events per batch; changes no event.
        types: how many types.
        start: the day of the first event, which happens at midnight.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1), types=(types, 1))
    return regroup(_draws(seed, types, start), sizes(events, batch))


def _draws(seed: int, types: int, start: dt.date) -> Iterator[pa.RecordBatch]:
    names = pa.array([f"E{rank}" for rank in range(1, types + 1)])
    weights = np.arange(1, types + 1) ** -EXPONENT
    upto = np.cumsum(weights) / weights.sum()
    clock = int(np.datetime64(start, "us").astype(np.int64))
    for number in count(1):
        first = (number - 1) * DRAW
        drawn = _attributes(rng_of(seed, number), names, upto)
        times = clock + GAP_US * np.arange(first, first + DRAW)
        yield pa.RecordBatch.from_pydict(drawn | {"ts": times}, schema=ACER_SYNTHETIC)


def _attributes(
    rng: np.random.Generator, names: pa.StringArray, upto: npt.NDArray[np.float64]
) -> dict[str, Any]:
    rank = np.searchsorted(upto, rng.random(DRAW), side="right")
    whole = {name: rng.integers(0, MOST + 1, DRAW, dtype=np.int32) for name in ("a1", "a2")}
    parts = {name: rng.integers(0, 100 * MOST + 1, DRAW) / 100 for name in ("a3", "a4")}
    return {"type": names.take(np.minimum(rank, len(names) - 1)), **whole, **parts}
