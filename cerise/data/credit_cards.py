"""`credit_cards`: payments, some of them series of small ones that end in a large one, after 003."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, check, regroup, rng_of, schema, sizes

CREDIT_CARDS = schema(card=pa.int32(), amount=pa.float64(), ts=pa.timestamp("us", "UTC"))

SLICE_S = 65_536  # 18 hours
USUAL, SERIES = 45_000, 3_400  # in a slice: usual payments, and series that begin
LENGTH, MOST = 6.0, 16  # payments of a series: the mean before the cap, and the cap
GAP_S = 60.0  # the mean time between two payments of a series
ENDS_LARGE = 0.25  # the share of series that end in a large payment
SECOND_US = 1_000_000

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Payments = tuple[Ints, Floats, Ints]  # card, amount, and the second in the slice


def credit_cards(
    events: int,
    *,
    seed: int = 0,
    batch: int = BATCH,
    cards: int = 20_000,
    start: dt.date = dt.date(2024, 1, 1),
) -> Iterator[pa.RecordBatch]:
    """Yield card payments with the pattern "big after small" of 003 §3, in batches.

    Modelled: one payment per second, to the second, so that most share their second with another. Seven in
    ten are usual payments: half of them above 30, 4 % up to 5, hardly any above 1000. The others belong to
    series: 1 to 16 small payments with one card, 0.50 to 5.00 each, a minute apart, more often few than many;
    one series in four ends in a large payment, half of these above 1500 and one in fifty above 5000. A card
    has one series in 18 hours, at most. Not modelled: hours of the day, habits of a card, places.

    Args:
        events: how many payments.
        seed: the seed of the payments.
        batch: events per batch; changes no event.
        cards: how many cards, numbered from 1.
        start: the first day.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1), cards=(cards, 1))
    return regroup(_slices(seed, cards, start), sizes(events, batch))


def _slices(seed: int, cards: int, start: dt.date) -> Iterator[pa.RecordBatch]:
    began_s = int(np.datetime64(start, "s").astype(np.int64))
    late: Payments = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
    for number in count(1):
        rng = rng_of(seed, number)
        made = (late, _usual(rng, cards), _series(rng, cards))
        card, second = (np.concatenate([each[at] for each in made]) for at in (0, 2))
        amount = np.concatenate([each[1] for each in made])
        order = np.argsort(second, kind="stable")
        here = order[: int(np.count_nonzero(second < SLICE_S))]
        after = order[len(here) :]
        late = card[after], amount[after], second[after] - SLICE_S
        yield pa.RecordBatch.from_pydict(
            {
                "card": (card[here] + 1).astype(np.int32),
                "amount": amount[here],
                "ts": (began_s + (number - 1) * SLICE_S + second[here]) * SECOND_US,
            },
            schema=CREDIT_CARDS,
        )


def _usual(rng: np.random.Generator, cards: int) -> Payments:
    amount = np.round(30 * np.exp(rng.standard_normal(USUAL)), 2)
    return rng.integers(0, cards, USUAL), amount, rng.integers(0, SLICE_S, USUAL)


def _series(rng: np.random.Generator, cards: int) -> Payments:
    """Return the payments of series that begin in a slice, some of them after its end."""
    small = np.minimum(rng.geometric(1 / LENGTH, SERIES), MOST)
    lengths = small + (rng.random(SERIES) < ENDS_LARGE)
    first = np.cumsum(lengths) - lengths
    turn = np.arange(lengths.sum()) - np.repeat(first, lengths)
    large = turn == np.repeat(small, lengths)
    amount = rng.integers(50, 501, len(turn)) / 100
    amount[large] = np.round(1500 * np.exp(0.6 * rng.standard_normal(np.count_nonzero(large))), 2)
    gap_s = 1 + rng.exponential(GAP_S - 0.5, len(turn)).astype(np.int64)
    gap_s[first] = rng.integers(0, SLICE_S, SERIES)
    passed = np.cumsum(gap_s)
    second = passed - np.repeat(passed[first] - gap_s[first], lengths)
    return np.repeat(np.resize(rng.permutation(cards), SERIES), lengths), amount, second
