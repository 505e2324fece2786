"""`crimes`: crime reports of a city over years, after the data set of 000 and 001."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, DRAW, check, regroup, rng_of, schema, sizes

CRIMES = schema(
    id=pa.int64(),
    primary_type=pa.string(),
    beat=pa.int32(),
    district=pa.int32(),
    latitude=pa.float64(),
    longitude=pa.float64(),
    date=pa.timestamp("us", "UTC"),
)

# Reports per 100,000, close to the shares in "Crimes - 2001 to present" of the Chicago Data Portal.
TYPES = {
    "THEFT": 21_200, "BATTERY": 18_300, "CRIMINAL DAMAGE": 11_400, "NARCOTICS": 9_400, "ASSAULT": 6_700,
    "OTHER OFFENSE": 6_200, "BURGLARY": 5_400, "MOTOR VEHICLE THEFT": 4_900, "DECEPTIVE PRACTICE": 4_400,
    "ROBBERY": 3_800, "CRIMINAL TRESPASS": 2_700, "WEAPONS VIOLATION": 1_400, "PROSTITUTION": 845,
    "OFFENSE INVOLVING CHILDREN": 730, "PUBLIC PEACE VIOLATION": 660, "SEX OFFENSE": 400,
    "CRIMINAL SEXUAL ASSAULT": 350, "INTERFERENCE WITH PUBLIC OFFICER": 240, "GAMBLING": 190,
    "LIQUOR LAW VIOLATION": 190, "ARSON": 170, "HOMICIDE": 160, "KIDNAPPING": 90, "STALKING": 60,
    "INTIMIDATION": 60, "CONCEALED CARRY LICENSE VIOLATION": 20, "OBSCENITY": 15, "PUBLIC INDECENCY": 5,
    "OTHER NARCOTIC VIOLATION": 5, "NON-CRIMINAL": 5, "HUMAN TRAFFICKING": 5,
}  # fmt: skip

DISTRICTS = 25
SOUTH_WEST, NORTH_EAST = (41.66, -87.80), (42.00, -87.56)
SPREAD = 0.012  # degrees from a district's centre, about 1 km
GAP_US = 90_000_000
MINUTE_US = 60_000_000
FIRST_ID = 1_300_000
LATE = 64  # how many positions an id may be away from the order of time


def crimes(
    events: int, *, seed: int = 0, batch: int = BATCH, start: dt.date = dt.date(2001, 1, 1)
) -> Iterator[pa.RecordBatch]:
    """Yield crime reports, after 000 §4.1 and 001 §VI-A4, in batches.

    Modelled: 31 types with the skew of Chicago (THEFT 21 %, …, HUMAN TRAFFICKING 0.005 %); one report per
    90 seconds with exponential gaps, its time cut to the minute, so that half of all reports share their time
    with another; ids that are unique and roughly, not exactly, in the order of time (001 Table I);
    25 districts, the busiest three times as busy as the quietest, each with 12 beats and with places around
    a centre of its own. Not modelled: rush hours, seasons, a link between type and place.

    Args:
        events: how many reports.
        seed: the seed of the city.
        batch: events per batch; changes no event.
        start: the first day.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1))
    return regroup(_draws(seed, start), sizes(events, batch))


def _draws(seed: int, start: dt.date) -> Iterator[pa.RecordBatch]:
    shares = np.cumsum(rng_of(seed, 0).permutation(np.linspace(1, 3, DISTRICTS)))
    clock = int(np.datetime64(start, "us").astype(np.int64))
    for number in count(1):
        rng = rng_of(seed, number)
        times = clock + np.cumsum(rng.exponential(GAP_US, DRAW).astype(np.int64))
        clock = int(times[-1])
        yield _reports(rng, FIRST_ID + (number - 1) * DRAW, times, shares)


def _reports(
    rng: np.random.Generator, first_id: int, times: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]
) -> pa.RecordBatch:
    kinds = np.cumsum(list(TYPES.values()))
    kind = np.searchsorted(kinds, rng.integers(0, kinds[-1], DRAW), side="right")
    district = np.searchsorted(shares, rng.random(DRAW) * shares[-1], side="right").astype(np.int32)
    beat = 10 * rng.integers(1, 4, DRAW, dtype=np.int32) + rng.integers(1, 5, DRAW, dtype=np.int32)
    latitude, longitude = _places(rng, district)
    return pa.RecordBatch.from_pydict(
        {
            "id": first_id + np.argsort(np.arange(DRAW) + rng.random(DRAW) * LATE),
            "primary_type": pa.array(list(TYPES)).take(kind),
            "beat": 100 * (district + 1) + beat,
            "district": district + 1,
            "latitude": latitude,
            "longitude": longitude,
            "date": times - times % MINUTE_US,
        },
        schema=CRIMES,
    )


def _places(rng: np.random.Generator, district: npt.NDArray[np.int32]) -> list[npt.NDArray[np.float64]]:
    """Return latitudes and longitudes around the centres of the districts, a grid of five by five."""
    cells = np.divmod(district, 5)
    return [
        np.round(low + (high - low) * cell / 4 + SPREAD * rng.standard_normal(DRAW), 6)
        for low, high, cell in zip(SOUTH_WEST, NORTH_EAST, cells, strict=True)
    ]
