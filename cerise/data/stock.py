"""`stock`: the stock ticker stream on which 004 measures patterns with Kleene closure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, DRAW, check, regroup, rng_of, schema, sizes
from cerise.errors import CeriseError

STOCK = schema(
    type=pa.string(),
    symbol=pa.int32(),
    price=pa.int32(),
    volume=pa.int32(),
    ts=pa.int64(),
)

CEILING = 1000
AFTER_SPLIT = CEILING // 2

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Walk:
    """The chances of a price to rise and to fall, and how many symbols have one."""

    up: float
    down: float
    symbols: int


def stock(
    events: int, *, seed: int = 0, batch: int = BATCH, p: float = 0.7, symbols: int = 2, start: int = 1
) -> Iterator[pa.RecordBatch]:
    """Yield the stock ticker stream of 004 §6 in batches.

    All events have the type STOCK; symbol (1 to `symbols`) and volume (1 to 1000) are uniform. The price of
    each symbol walks: up by 1 with probability `p`, down by 1 and unchanged with (1-p)/2 each. A price that
    reaches 1000 splits two for one and continues at 500: prices lie in 1 to 999, and hardly ever below 480.

    The paper does not say how its rising prices stay within 1 to 1000; the model is read from its tables.
    Table 3 fits runs that open (`price % 500 = 0`) once per 500 events of a symbol, 1.8 of them close
    together and then none for 900 events: this is a walk of unit steps. Table 2 (length 140 under p2 s3,
    which is 0.55 * 250) says that every run had room to rise: so a price at 1000 may not just fall to 1, or
    the half of all runs that open there would never take a second event.

    Args:
        events: how many events.
        seed: the seed of the stream.
        batch: events per batch; changes no event.
        p: the probability that a price rises, 0.4 to 1 (the paper: 0.7 and 0.55).
        symbols: how many symbols.
        start: the time of the first event; each next event is one later.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1), symbols=(symbols, 1))
    if not 0.4 <= p <= 1:  # below, the walk hardly rises or falls to 0
        raise CeriseError(f"p is {p!r}", hint="give p from 0.4 to 1: prices have a rising trend")
    walk = _Walk(up=p, down=(1 - p) / 2, symbols=symbols)
    return regroup(_draws(walk, seed, start), sizes(events, batch))


def _draws(walk: _Walk, seed: int, start: int) -> Iterator[pa.RecordBatch]:
    names = pa.array(["STOCK"]).take(np.zeros(DRAW, np.int32))
    prices: Ints = rng_of(seed, 0).integers(AFTER_SPLIT, CEILING, walk.symbols)
    for number in count(1):
        rng = rng_of(seed, number)
        symbol = rng.integers(0, walk.symbols, DRAW, dtype=np.int32)
        price = _step(rng, walk, symbol, prices)
        volume = rng.integers(1, 1001, DRAW, dtype=np.int32)
        first = start + (number - 1) * DRAW
        yield pa.RecordBatch.from_pydict(
            {
                "type": names,
                "symbol": symbol + 1,
                "price": price.astype(np.int32),
                "volume": volume,
                "ts": np.arange(first, first + DRAW),
            },
            schema=STOCK,
        )


def _step(rng: np.random.Generator, walk: _Walk, symbol: npt.NDArray[np.int32], prices: Ints) -> Ints:
    """Return the price at each event, and leave in `prices` the last one of each symbol."""
    chance = rng.random(DRAW)
    moves = (chance < walk.up).astype(np.int64) - (chance >= 1 - walk.down)
    order = np.argsort(symbol.astype(np.min_scalar_type(walk.symbols)), kind="stable")
    of = symbol[order]
    ends = np.searchsorted(of, np.arange(walk.symbols), side="right")
    climbed = np.cumsum(moves[order])
    before = np.concatenate(([0], climbed))[np.concatenate(([0], ends[:-1]))]
    free = climbed + (prices - before)[of]  # the price had it never split
    price = np.empty_like(free)
    price[order] = settled = free - AFTER_SPLIT * _splits(free, of)
    seen = np.flatnonzero(np.diff(ends, prepend=0))
    prices[seen] = settled[ends[seen] - 1]
    return price


def _splits(free: Ints, of: npt.NDArray[np.int32]) -> Ints:
    """Return how often each event's symbol has split in this draw: each time its peak rose by another 500."""
    apart = of * np.int64(2 * (DRAW + CEILING))  # keeps the running peak of one symbol out of the next one's
    peak = np.maximum.accumulate(free + apart) - apart
    splits: Ints = np.maximum(peak // AFTER_SPLIT - 1, 0)
    return splits
