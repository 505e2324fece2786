"""`ticks`: price updates of tickers with known rates and known differences, after the stock data of 002."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, check, regroup, rng_of, schema, sizes
from cerise.errors import CeriseError, did_you_mean

TICKS = schema(
    ticker=pa.string(),
    price=pa.float64(),
    diff=pa.float64(),
    volume=pa.int64(),
    t=pa.timestamp("us", "UTC"),
)

QUARTER_US = 900_000_000  # rates are events per quarter of an hour
BLOCK = 10  # quarters that are drawn at once: a ticker has the same number of updates in each block
KEPT = 0.98  # of a price's distance from its anchor, left at the next update
LAWS = ("even", "zipf")
MAX_TICKERS = 10_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tickers:
    """The facts of tickers that hold for the whole stream, the most active ticker first.

    Attributes:
        names: T1, T2, …
        rates: updates per quarter of an hour, in tenths.
        anchors: the price that each ticker returns to.
        spreads: the standard deviation of `diff`, which is normal around 0.
    """

    names: tuple[str, ...]
    rates: Floats
    anchors: Floats
    spreads: Floats


def ticks(  # noqa: PLR0913  the options of a generator, all but one with defaults
    events: int,
    *,
    seed: int = 0,
    batch: int = BATCH,
    tickers: int = 940,
    least: float = 2.0,
    most: float = 47.0,
    law: str = "even",
    start: dt.date = dt.date(2024, 1, 2),
) -> Iterator[pa.RecordBatch]:
    """Yield price updates of tickers, each with a rate of its own, in batches.

    002 §6.1 measures on price updates of 2100 stocks, with the difference to a stock's last price. Here the
    true rates and the true distribution of differences are known (`describe_tickers`), so that the expected
    matches of a pattern can be computed. A ticker's updates are spread over time: one in each of equal
    slots, at a uniform moment of the slot. So no window of w quarters holds more than `rate * w + 2` of them.
    No two updates share a moment.

    Modelled: different rates, prices that return to an anchor. Not modelled: nights, bursts, prices that
    move together.

    Args:
        events: how many updates.
        seed: the seed of the stream.
        batch: events per batch; changes no event.
        tickers: how many tickers, at most 10,000.
        least: the rate of the least active ticker, updates per 15 minutes, 0.1 or more.
        most: the rate of the most active one.
        law: how rates fall from `most` to `least`: "even", by an equal factor from ticker to ticker; or
            "zipf", the ticker of rank k having the rate least * tickers / k, but not above `most`.
        start: the first day.

    Raises:
        CeriseError: an argument is out of its range.

    Example:
        >>> made = next(ticks(1_000, tickers=3, least=1, most=4))
        >>> sorted(set(made["ticker"].to_pylist()))
        ['T1', 'T2', 'T3']
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1))
    facts = describe_tickers(seed=seed, tickers=tickers, least=least, most=most, law=law)
    return regroup(_blocks(facts, seed, start), sizes(events, batch))


def describe_tickers(
    *, seed: int = 0, tickers: int = 940, least: float = 2.0, most: float = 47.0, law: str = "even"
) -> Tickers:
    """Return the true rates and the true spread of differences that a stream of `ticks` has.

    Example:
        >>> describe_tickers(tickers=3, least=1, most=4).rates.tolist()
        [4.0, 2.0, 1.0]
    """
    check(tickers=(tickers, 1))
    if tickers > MAX_TICKERS:
        raise CeriseError(f"tickers is {tickers:,}", hint=f"give at most {MAX_TICKERS:,}")
    if not 0.1 <= least <= most:
        raise CeriseError(f"least is {least}, most is {most}", hint="give 0.1 <= least <= most")
    if law not in LAWS:
        raise CeriseError(f"unknown law {law!r}", hint=did_you_mean(law, LAWS))
    rank = np.arange(tickers)
    even = most * (least / most) ** (rank / max(tickers - 1, 1))
    rates = even if law == "even" else np.minimum(most, least * tickers / (rank + 1))
    rng = rng_of(seed, 0)
    anchors = np.exp(rng.normal(4.2, 0.6, tickers)).clip(20, 500)
    return Tickers(
        names=tuple(f"T{number + 1}" for number in rank),
        rates=np.maximum(np.round(rates * BLOCK), 1) / BLOCK,
        anchors=anchors,
        spreads=anchors * rng.uniform(0.005, 0.02, tickers),
    )


def _blocks(facts: Tickers, seed: int, start: dt.date) -> Iterator[pa.RecordBatch]:
    many = np.round(facts.rates * BLOCK).astype(np.int64)
    opens = np.datetime64(start, "us").astype(np.int64)
    away = rng_of(seed, 0).normal(0, facts.spreads / np.sqrt(2 * (1 - KEPT)))
    last = int(opens) - 1
    names = pa.array(facts.names)
    for number in count(1):
        rng = rng_of(seed, number)
        before, after, away = _walk(rng, facts, many, away)
        ticker = np.repeat(np.arange(len(many)), many)
        slot = np.arange(len(ticker)) - np.repeat(np.cumsum(many) - many, many)
        moment = (slot + rng.random(len(ticker))) / many[ticker] * (BLOCK * QUARTER_US)
        order = np.argsort(moment, kind="stable")
        times = _spread_ties(moment[order].astype(np.int64) + opens + (number - 1) * BLOCK * QUARTER_US, last)
        last = int(times[-1])
        price = np.round(facts.anchors[ticker] + after, 2)
        diff = price - np.round(facts.anchors[ticker] + before, 2)
        volume = 100 * facts.rates[ticker] * np.exp(0.8 * rng.standard_normal(len(ticker)))
        yield pa.RecordBatch.from_pydict(
            {
                "ticker": names.take(ticker[order]),
                "price": price[order],
                "diff": np.round(diff, 2)[order],
                "volume": volume.astype(np.int64)[order] + 1,
                "t": times.astype("datetime64[us]"),
            },
            schema=TICKS,
        )


def _walk(
    rng: np.random.Generator, facts: Tickers, many: npt.NDArray[np.int64], away: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the distances from the anchor before and after each update of a block, by ticker, and the last.

    A price returns to its anchor by a fixed share at each update, so that differences are normal, with the
    spread that `facts` say.
    """
    shock = rng.standard_normal(int(many.sum())) * np.repeat(facts.spreads, many) * np.sqrt((1 + KEPT) / 2)
    before, after, away = np.empty_like(shock), np.empty_like(shock), away.copy()
    first = np.cumsum(many) - many
    for slot in range(int(many.max())):
        own = np.flatnonzero(many > slot)
        at = first[own] + slot
        before[at] = away[own]
        away[own] = after[at] = KEPT * away[own] + shock[at]
    return before, after, away


def _spread_ties(times: npt.NDArray[np.int64], last: int) -> npt.NDArray[np.int64]:
    """Return ascending times without ties, all of them after `last`."""
    at = np.arange(len(times))
    spread: npt.NDArray[np.int64] = np.maximum.accumulate(np.maximum(times, last + 1) - at) + at
    return spread
