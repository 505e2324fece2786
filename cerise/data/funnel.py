"""`funnel`: the visits of a shop's users, step by step; most users never reach the last step."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, DRAW, check, regroup, rng_of, schema, sizes

FUNNEL = schema(user=pa.int32(), step=pa.string(), t=pa.timestamp("us", "UTC"))

STEPS = ("visit", "product", "cart", "checkout", "purchase")
ASIDE = ("search", "help")  # events beside the funnel, which keep the user at the same step
ONWARD = np.array([1.0, 0.35, 0.20, 0.40, 0.50, 0.0])  # after 0 to 5 steps: the next event is the next step
STAYS = np.array([0.0, 0.30, 0.35, 0.25, 0.20, 0.0])  # or one aside; else the user starts again with a visit
GAP_MS = 86  # ten million events are ten days

Ints = npt.NDArray[np.int64]


def funnel(
    events: int,
    *,
    seed: int = 0,
    batch: int = BATCH,
    users: int = 1_000_000,
    start: dt.date = dt.date(2024, 1, 1),
) -> Iterator[pa.RecordBatch]:
    """Yield the events of users in a shop, in batches.

    Modelled: a funnel of five steps, visit, product, cart, checkout, purchase. The event after a visit is the
    next step in 35 % of all cases, after a product in 20 %, then in 40 % and 50 %; some lead aside (search,
    help), and with all others the user starts again with a visit: of 100 visits, 50 come to a product, 15 to
    a cart, 8 to the checkout and 5 to a purchase. One event per 86 ms with exponential gaps, each at a
    millisecond of its own; some users are busier than others: a tenth of them has a third of the events. Not
    modelled: sessions (the events of a user are spread over all days), hours of the day.

    Args:
        events: how many events.
        seed: the seed of the shop.
        batch: events per batch; changes no event.
        users: how many users, numbered from 1, the busiest first.
        start: the first day.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1), users=(users, 1))
    return regroup(_draws(seed, users, start), sizes(events, batch))


def _draws(seed: int, users: int, start: dt.date) -> Iterator[pa.RecordBatch]:
    names = pa.array([*STEPS, *ASIDE])
    done = np.zeros(users, np.int8)
    clock = int(np.datetime64(start, "us").astype(np.int64))
    for number in count(1):
        rng = rng_of(seed, number)
        gaps_ms = 1 + rng.exponential(GAP_MS - 0.5, DRAW).astype(np.int64)  # cutting takes half a millisecond
        times = clock + np.cumsum(1_000 * gaps_ms)
        clock = int(times[-1])
        user = np.minimum((users * rng.random(DRAW) ** 2).astype(np.int64), users - 1)
        step = _steps(rng, user, done)
        made = {"user": (user + 1).astype(np.int32), "step": names.take(step), "t": times}
        yield pa.RecordBatch.from_pydict(made, schema=FUNNEL)


def _steps(rng: np.random.Generator, user: Ints, done: npt.NDArray[np.int8]) -> Ints:
    """Return the step of each event, and leave in `done` how many steps each user has made.

    Vectorised over users: the first events of all users, then their second events, and so on.
    """
    chance, aside = rng.random(DRAW), rng.integers(len(STEPS), len(STEPS) + len(ASIDE), DRAW)
    order = np.argsort(user, kind="stable")
    first = np.flatnonzero(np.diff(user[order], prepend=-1))
    turn = np.arange(DRAW) - np.repeat(first, np.diff(first, append=DRAW))
    by_turn = order[np.argsort(turn, kind="stable")]
    step = np.empty(DRAW, np.int64)
    for events in np.split(by_turn, np.cumsum(np.bincount(turn))[:-1]):
        before = done[user[events]]
        onward = chance[events] < ONWARD[before]
        stays = ~onward & (chance[events] < (ONWARD + STAYS)[before])
        step[events] = np.where(onward, before, np.where(stays, aside[events], 0))
        done[user[events]] = np.where(onward, before + 1, np.where(stays, before, 1))
    return step
