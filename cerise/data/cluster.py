"""`cluster`: the life of jobs in a compute cluster, after the data set of 000 and 001."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.data.draws import BATCH, DRAW, check, regroup, rng_of, schema, sizes

CLUSTER = schema(
    type=pa.string(),
    job_id=pa.int64(),
    scheduling_class=pa.int32(),
    priority=pa.int32(),
    cpu=pa.float64(),
    ram=pa.float64(),
    disk=pa.float64(),
    ts=pa.timestamp("us", "UTC"),
)

# How tasks end, in percent: close to the jobs of Google's trace of 2011, which hardly ever evicts.
ENDS = {"FINISH": 57.7, "KILL": 40.7, "FAIL": 1.5, "EVICT": 0.1}
TYPES = ("SUBMIT", "SCHEDULE", *ENDS)
CLASSES = (38.0, 33.0, 26.0, 3.0)  # percent of jobs: of scheduling class 0, the least urgent, to 3
PRIORITIES = {0: 30.0, 1: 14.0, 2: 12.0, 4: 25.0, 6: 3.0, 8: 6.0, 9: 9.0, 10: 1.0}
GAP_US = 3_730_000  # the mean time between two jobs: two million events last 29 days
WAITS_US, WAITS_SPREAD = 30_000, 1.2  # from submission to schedule: the median, and sigma of the logarithm
RUNS_US, RUNS_SPREAD = 120_000_000, 1.5
BRIEF, BRIEF_US = 0.1, 60_000  # the share of brief tasks, and their median time
LONGEST_US = 86_400_000_000
JOBS = DRAW // 3  # jobs of one draw
FIRST_ID, ID_STEP = 6_000_000_000, 7

Columns = dict[str, npt.NDArray[Any]]


def cluster(
    events: int, *, seed: int = 0, batch: int = BATCH, tasks: int = 1, start: dt.date = dt.date(2011, 5, 1)
) -> Iterator[pa.RecordBatch]:
    """Yield the life of jobs in a cluster, after 000 §4.1 and 001 §VI, in batches.

    Modelled: a job comes every 3.7 s, with exponential gaps, all its tasks at once; a task is submitted,
    scheduled after 30 ms (the median; log-normal), and ends, after two minutes or, one in ten, after 60 ms
    (again medians): 58 % finish, 41 % are killed, 1.5 % fail, 0.1 % are evicted. Its scheduling class (0 to
    3), its priority (0 to 10) and its requested shares of a machine are the same for all tasks of a job. Not
    modelled: bursts, hours of the day, tasks that are scheduled again, updates.

    Args:
        events: how many events.
        seed: the seed of the cluster.
        batch: events per batch; changes no event.
        tasks: how many tasks a job has on average: from 1 to 2·tasks − 1.
        start: the day of the first event.

    Raises:
        CeriseError: an argument is out of its range.
    """
    check(events=(events, 0), seed=(seed, 0), batch=(batch, 1), tasks=(tasks, 1))
    return regroup(_draws(seed, tasks, start), sizes(events, batch))


def _draws(seed: int, tasks: int, start: dt.date) -> Iterator[pa.RecordBatch]:
    clock = int(np.datetime64(start, "us").astype(np.int64))
    late: Columns = {}
    for number in count(1):
        rng = rng_of(seed, number)
        submitted = clock + np.cumsum(1 + rng.exponential(GAP_US, JOBS).astype(np.int64))
        clock = int(submitted[-1])
        made = _lives(rng, submitted, (number - 1) * JOBS, tasks)
        events = {name: np.concatenate([late.get(name, each[:0]), each]) for name, each in made.items()}
        order = np.argsort(events["ts"], kind="stable")
        here = order[: int(np.count_nonzero(events["ts"] < clock))]
        late = {name: each[order[len(here) :]] for name, each in events.items()}
        columns = {name: each[here] for name, each in events.items()}
        yield pa.RecordBatch.from_pydict(
            {**columns, "type": pa.array(TYPES).take(columns["type"])}, schema=CLUSTER
        )


def _lives(rng: np.random.Generator, submitted: npt.NDArray[np.int64], first: int, tasks: int) -> Columns:
    """Return three events for each task of some jobs: all submissions, then all schedules, then all ends."""
    jobs = _jobs(rng, first)
    of = np.repeat(np.arange(JOBS), rng.integers(1, 2 * tasks, JOBS))
    waits = _times(rng, np.full(len(of), WAITS_US), WAITS_SPREAD)
    brief = rng.random(len(of)) < BRIEF
    runs = _times(rng, np.where(brief, BRIEF_US, RUNS_US), np.where(brief, WAITS_SPREAD, RUNS_SPREAD))
    ends = 2 + _draw_shares(rng, list(ENDS.values()), len(of))
    begun = submitted[of]
    return {
        "type": np.concatenate([np.zeros(len(of), np.int64), np.ones(len(of), np.int64), ends]),
        **{name: np.tile(each[of], 3) for name, each in jobs.items()},
        "ts": np.concatenate([begun, begun + waits, begun + waits + runs]),
    }


def _jobs(rng: np.random.Generator, first: int) -> Columns:
    """Return the attributes that the tasks of a job share."""
    shares = {
        name: np.round(np.minimum(most, median * np.exp(rng.standard_normal(JOBS))) + 0.0001, 4)
        for name, median, most in (("cpu", 0.02, 0.5), ("ram", 0.015, 0.5), ("disk", 0.0004, 0.1))
    }
    return {
        "job_id": FIRST_ID + ID_STEP * (first + np.arange(JOBS)) + rng.integers(0, ID_STEP, JOBS),
        "scheduling_class": _draw_shares(rng, CLASSES, JOBS).astype(np.int32),
        "priority": np.array(list(PRIORITIES), np.int32)[_draw_shares(rng, list(PRIORITIES.values()), JOBS)],
        **shares,
    }


def _draw_shares(rng: np.random.Generator, shares: Any, many: int) -> npt.NDArray[np.int64]:
    """Draw the numbers of choices, each with the probability of its share."""
    upto = np.cumsum(shares)
    found: npt.NDArray[np.int64] = np.searchsorted(upto[:-1], rng.random(many) * upto[-1], side="right")
    return found


def _times(rng: np.random.Generator, medians: Any, spread: Any) -> npt.NDArray[np.int64]:
    """Return log-normal times in microseconds, none of them 0 or longer than a day."""
    drawn = medians * np.exp(spread * rng.standard_normal(len(medians)))
    times: npt.NDArray[np.int64] = 1 + np.minimum(drawn, LONGEST_US).astype(np.int64)
    return times
