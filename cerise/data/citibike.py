"""`citibike`: rides on the bikes of a city, after the data set of 001."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, DRAW, check, regroup, rng_of, schema, sizes

CITIBIKE = schema(
    ride_id=pa.int64(),
    rideable_type=pa.string(),
    started_at=pa.timestamp("us", "UTC"),
    ended_at=pa.timestamp("us", "UTC"),
    start_station=pa.int32(),
    end_station=pa.int32(),
    member_casual=pa.string(),
)

# How busy each hour of a day is, relative to the mean: two rush hours, quiet nights.
HOURS = (
    0.25, 0.15, 0.1, 0.05, 0.1, 0.25, 0.65, 1.3, 1.9, 1.3, 1.05, 1.1,
    1.25, 1.25, 1.3, 1.45, 1.7, 2.1, 2.05, 1.55, 1.1, 0.85, 0.7, 0.5,
)  # fmt: skip

SECOND_US, HOUR_US, DAY_US = 1_000_000, 3_600_000_000, 86_400_000_000
GAP_US = 900_000  # the mean time between rides: 35 million a year
SKEW = 0.6  # the exponent of Zipf's law for stations
RIDE_US = 600 * SECOND_US  # half of all rides are shorter
ELECTRIC, CASUAL = 0.5, 0.2  # shares
FIRST_ID = 1_000_000


def citibike(
    events: int,
    *,
    seed: int = 0,
    batch: int = BATCH,
    stations: int = 2000,
    start: dt.date = dt.date(2023, 1, 1),
) -> Iterator[pa.RecordBatch]:
    """Yield bike rides, after 001 §VI-A4, in the order of their starts, in batches.

    Modelled: 35 million rides a year, to the second, so that most share their second with another; two rush
    hours a day, at nine and at six, and quiet nights; stations by Zipf's law with exponent 0.6, each as
    popular for ends as for starts of rides; half of the bikes electric, four riders in five members; rides of
    ten minutes, a quarter of them longer than sixteen. Not modelled: seasons, weekends, distances.

    Args:
        events: how many rides.
        seed: the seed of the city.
        batch: events per batch; changes no event.
        stations: how many stations.
        start: the first day.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1), stations=(stations, 1))
    return regroup(_draws(seed, stations, start), sizes(events, batch))


def _draws(seed: int, stations: int, start: dt.date) -> Iterator[pa.RecordBatch]:
    weight = rng_of(seed, 0).permutation(np.arange(1, stations + 1) ** -SKEW)
    shares = np.cumsum(weight) / weight.sum()
    midnight = int(np.datetime64(start, "us").astype(np.int64))
    even = 0
    for number in count(1):
        rng = rng_of(seed, number)
        evenly = even + np.cumsum(rng.exponential(GAP_US, DRAW).astype(np.int64))
        even = int(evenly[-1])
        yield _rides(rng, FIRST_ID + (number - 1) * DRAW, midnight + _in_rush_hours(evenly), shares)


def _in_rush_hours(evenly: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Move times that lie evenly in each day to where the day is busy; their order stays."""
    upto = np.cumsum([0.0, *HOURS]) / sum(HOURS) * DAY_US
    day = evenly // DAY_US * DAY_US
    moved: npt.NDArray[np.int64] = np.interp(evenly - day, upto, np.arange(25) * HOUR_US).astype(np.int64)
    return day + moved


def _rides(
    rng: np.random.Generator, first_id: int, times: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]
) -> pa.RecordBatch:
    started = times - times % SECOND_US
    took = (RIDE_US * np.exp(0.7 * rng.standard_normal(DRAW))).astype(np.int64)
    ends = (np.searchsorted(shares, rng.random(DRAW), side="right").astype(np.int32) for _ in range(2))
    first, last = (np.minimum(each, len(shares) - 1) + 1 for each in ends)
    return pa.RecordBatch.from_pydict(
        {
            "ride_id": first_id + np.arange(DRAW),
            "rideable_type": _either(rng, "electric_bike", "classic_bike", ELECTRIC),
            "started_at": started,
            "ended_at": started + SECOND_US + took - took % SECOND_US,
            "start_station": first.astype(np.int32),
            "end_station": last.astype(np.int32),
            "member_casual": _either(rng, "casual", "member", CASUAL),
        },
        schema=CITIBIKE,
    )


def _either(rng: np.random.Generator, one: str, other: str, share: float) -> pa.Array:
    return pa.array([one, other]).take((rng.random(DRAW) >= share).astype(np.int32))
