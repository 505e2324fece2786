"""`nasdaq`: one-minute bars of many tickers, after the data set of 000 and 002."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, check, regroup, rng_of, schema, sizes
from cerise.errors import CeriseError

NASDAQ = schema(
    ticker=pa.string(),
    open=pa.float64(),
    high=pa.float64(),
    low=pa.float64(),
    close=pa.float64(),
    volume=pa.int64(),
    date=pa.timestamp("us", "UTC"),
)

# The most active tickers, most active first, and the price that each returns to: for tickers in queries of
# 000, the middle of the queried range.
KNOWN = {
    "AAPL": 175.0, "MSFT": 330.0, "NVDA": 413.0, "AMZN": 110.0, "GOOG": 125.0, "TSLA": 195.0, "META": 262.0,
    "INTC": 33.0, "BABA": 100.0, "AMD": 122.0, "GOOGL": 124.0, "NFLX": 378.0, "CSCO": 49.6, "QCOM": 112.0,
    "AVGO": 810.0, "ADBE": 415.0, "PEP": 184.0, "COST": 507.0, "TXN": 174.0, "CMCSA": 39.4, "AMGN": 219.0,
    "HON": 193.0, "SBUX": 98.0, "INTU": 415.0, "PYPL": 60.7, "GILD": 77.0, "MU": 72.0, "AMAT": 134.0,
    "LRCX": 610.0, "MDLZ": 74.0, "ADI": 178.0, "BKNG": 2610.0, "REGN": 730.0, "VRTX": 330.0, "FISV": 114.0,
    "CSX": 30.9, "MRNA": 126.0, "ATVI": 78.0, "KLAC": 450.0, "PANW": 210.0, "JD": 34.0, "BIDU": 123.0,
    "MRVL": 61.0, "EBAY": 43.0,
}  # fmt: skip

KNOWN_SHAKE = 0.0013  # large enough for Q_2 and Q_3 of 000: 0.7 % within 15 minutes
OPENS = dt.timedelta(hours=9, minutes=30)
MINUTES = 390  # 9:30 to 15:59
BUSY = 40.0  # tickers that trade in every minute
KEPT = 1 - 1 / 800  # of a price's distance from its anchor, left after a minute: half after 1.4 sessions
SHARED = 0.3  # the market's share of each price's variance
MAX_TICKERS = 10_000

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Market:
    """The facts of tickers that hold for all sessions: one entry per ticker, in alphabetical order."""

    names: pa.StringArray
    activity: Floats  # the probability that a minute has a bar
    anchor: npt.NDArray[np.float64]  # the price it returns to
    shake: Floats  # the standard deviation of one minute's change, as a share of the price
    volume: npt.NDArray[np.float64]  # of a usual bar


def nasdaq(
    events: int,
    *,
    seed: int = 0,
    batch: int = BATCH,
    tickers: int = 2000,
    start: dt.date = dt.date(2023, 1, 3),
) -> Iterator[pa.RecordBatch]:
    """Yield one-minute bars, after 000 §4.1 and 002 §6.1, in batches.

    Modelled: activity by Zipf's law (the ticker of rank k has a bar in a minute with probability
    min(1, 40/k), about 76,000 bars a day in all); prices that walk and return to an anchor
    (Ornstein-Uhlenbeck in their logarithm), with a share common to all tickers, so that they are correlated
    as the queries of 000 assume; anchors and steps with which Q_1 to Q_3 of 000 find matches; trading from
    9:30 to 16:00 on weekdays. Bars of one minute share one time and come in the order of their tickers.
    Not modelled: holidays, gaps over night, busy hours.

    Args:
        events: how many bars.
        seed: the seed of the market.
        batch: events per batch; changes no event.
        tickers: how many tickers, at most 10,000; the first are real ones, the others four random letters.
        start: the first day; the exchange's wall clock is written as if it were UTC.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1), tickers=(tickers, 1))
    if tickers > MAX_TICKERS:
        raise CeriseError(f"tickers is {tickers:,}", hint=f"give at most {MAX_TICKERS:,}")
    return regroup(_sessions(tickers, seed, start), sizes(events, batch))


def _market(tickers: int, rng: np.random.Generator) -> _Market:
    rank = np.arange(1, tickers + 1)
    names = np.array(_names(tickers, rng))
    anchor = np.exp(rng.normal(3.3, 0.9, tickers)).clip(2, 3000)
    anchor[: len(KNOWN)] = list(KNOWN.values())[:tickers]
    shake = rng.uniform(0.0007, 0.0013, tickers)
    shake[: len(KNOWN)] = KNOWN_SHAKE
    order = np.argsort(names)
    return _Market(
        names=pa.array(names[order].tolist()),
        activity=np.minimum(1, BUSY / rank).astype(np.float32)[order],
        anchor=anchor[order],
        shake=shake.astype(np.float32)[order],
        volume=(150_000 / rank**0.8)[order],
    )


def _names(tickers: int, rng: np.random.Generator) -> list[str]:
    """Return distinct names: the known ones, then four letters each."""
    names = dict.fromkeys(list(KNOWN)[:tickers])
    while len(names) < tickers:
        letters = rng.integers(ord("A"), ord("Z") + 1, (tickers - len(names), 4))
        names.update(dict.fromkeys("".join(map(chr, each)) for each in letters.tolist()))
    return list(names)


def _sessions(tickers: int, seed: int, start: dt.date) -> Iterator[pa.RecordBatch]:
    market = _market(tickers, rng_of(seed, 0))
    away = np.zeros(tickers, np.float32)
    for number in count(1):
        rng = rng_of(seed, number)
        path = _walk(rng, market, away)
        away = path[-1]
        day = np.busday_offset(np.datetime64(start, "D"), number - 1, roll="forward")
        yield _session(rng, market, path, day.astype("datetime64[us]") + np.timedelta64(OPENS))


def _walk(rng: np.random.Generator, market: _Market, away: Floats) -> Floats:
    """Return log(price / anchor) for each ticker, at the start of each minute and the end of the last."""
    shocks = rng.standard_normal((MINUTES, len(away)), dtype=np.float32)
    shocks *= np.float32(np.sqrt(1 - SHARED))
    shocks += rng.standard_normal((MINUTES, 1), dtype=np.float32) * np.float32(np.sqrt(SHARED))
    shocks *= market.shake
    path = np.empty((MINUTES + 1, len(away)), np.float32)
    path[0] = away
    for minute in range(MINUTES):
        np.multiply(path[minute], KEPT, out=path[minute + 1])
        path[minute + 1] += shocks[minute]
    return path


def _session(rng: np.random.Generator, market: _Market, path: Floats, opens: np.datetime64) -> pa.RecordBatch:
    tickers = len(market.names)
    bars = np.flatnonzero(rng.random((MINUTES, tickers), dtype=np.float32) < market.activity)
    minute, ticker = np.divmod(bars, tickers)
    anchor, reach = market.anchor[ticker], market.shake[ticker] / 2
    first, last = (anchor * np.exp(path.ravel()[at].astype(np.float64)) for at in (bars, bars + tickers))
    high = np.maximum(first, last) * (1 + reach * np.abs(rng.standard_normal(len(bars))))
    low = np.minimum(first, last) * (1 - reach * np.abs(rng.standard_normal(len(bars))))
    volume = market.volume[ticker] * np.exp(0.8 * rng.standard_normal(len(bars)))
    return pa.RecordBatch.from_pydict(
        {
            "ticker": market.names.take(ticker),
            "open": np.round(first, 2),
            "high": np.round(high, 2),
            "low": np.round(low, 2),
            "close": np.round(last, 2),
            "volume": volume.astype(np.int64) + 1,
            "date": opens + minute * np.timedelta64(60_000_000, "us"),
        },
        schema=NASDAQ,
    )
