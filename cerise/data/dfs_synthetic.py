"""`dfs_synthetic`: events of skewed types and values at random times, after the synthetic data of 001."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from itertools import count
from math import pi, sqrt

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, DRAW, check, regroup, rng_of, schema, sizes
from cerise.errors import CeriseError, did_you_mean

DFS_SYNTHETIC = schema(
    type=pa.string(), a1=pa.int32(), a2=pa.string(), a3=pa.string(), ts=pa.timestamp("us", "UTC")
)

SECOND_US = 1_000_000  # the mean time between events
TYPES, TYPE_EXPONENT = 20, 1.2
VALUES, A2_EXPONENT, A3_EXPONENT = 50, 0.255, 0.7
MOST_A1 = 1000
SPREAD = 0.3  # of Gaussian gaps, as a share of their mean

Floats = npt.NDArray[np.float64]
GAPS: dict[str, Callable[[np.random.Generator, int], Floats]] = {  # times between events, 1 on average
    "exponential": lambda rng, size: rng.exponential(1.0, size),
    "uniform": lambda rng, size: rng.uniform(0.0, 2.0, size),
    "gaussian": lambda rng, size: np.maximum(rng.normal(1.0, SPREAD, size), 0.0),
    "rayleigh": lambda rng, size: rng.rayleigh(sqrt(2 / pi), size),
}


def dfs_synthetic(
    events: int,
    *,
    seed: int = 0,
    batch: int = BATCH,
    gaps: str = "exponential",
    shuffled: bool = False,
    start: dt.date = dt.date(2024, 1, 1),
) -> Iterator[pa.RecordBatch]:
    """Yield the synthetic stream of 001 §VI-A4 in batches.

    One event per second on average. The type is T001 to T020 by Zipf's law with exponent 1.2, a1 uniform from
    1 to 1000, a2 one of 50 texts of eight letters by Zipf's law with exponent 0.255, a3 one of 50 texts of
    sixteen with exponent 0.7.

    Args:
        events: how many events.
        seed: the seed of the stream.
        batch: events per batch; changes no event.
        gaps: the distribution of times between events: exponential, uniform, gaussian or rayleigh.
        shuffled: whether the rows of each 65,536 come in a random order, as where many writers take turns.
        start: the day of the first event.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1))
    if gaps not in GAPS:
        raise CeriseError(f"unknown distribution {gaps!r}", hint=did_you_mean(gaps, GAPS))
    return regroup(_draws(seed, gaps, shuffled, start), sizes(events, batch))


def _draws(seed: int, gaps: str, shuffled: bool, start: dt.date) -> Iterator[pa.RecordBatch]:
    clock = int(np.datetime64(start, "us").astype(np.int64))
    for number in count(1):
        rng = rng_of(seed, number)
        times = clock + np.cumsum((GAPS[gaps](rng, DRAW) * SECOND_US).astype(np.int64))
        clock = int(times[-1])
        columns = {
            "type": _draw(rng, "T", 3, TYPES, TYPE_EXPONENT),
            "a1": rng.integers(1, MOST_A1 + 1, DRAW, dtype=np.int32),
            "a2": _draw(rng, "a", 7, VALUES, A2_EXPONENT),
            "a3": _draw(rng, "b", 15, VALUES, A3_EXPONENT),
            "ts": times,
        }
        drawn = pa.RecordBatch.from_pydict(columns, schema=DFS_SYNTHETIC)
        yield drawn.take(pa.array(rng.permutation(DRAW))) if shuffled else drawn


def _draw(rng: np.random.Generator, letter: str, digits: int, many: int, exponent: float) -> pa.Array:
    """Return texts by Zipf's law, the most frequent one first in the alphabet."""
    upto = np.cumsum(np.arange(1, many + 1) ** -exponent)
    rank = np.searchsorted(upto / upto[-1], rng.random(DRAW), side="right")
    names = pa.array([f"{letter}{each:0{digits}}" for each in range(1, many + 1)])
    return names.take(pa.array(np.minimum(rank, many - 1)))
