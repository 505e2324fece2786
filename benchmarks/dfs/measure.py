"""Measure the filters and the rounds of 001: `python benchmarks/dfs/measure.py shares|rates|rounds`.

It writes lines to results/dfs_filters.jsonl, in place of earlier lines of the same part; the program
benchmarks/figures/dfs_filters.py draws from there. `shares` and `rounds` count, so that the machine does not
matter; `rates` needs a quiet one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HOME = Path(__file__).parents[1]
sys.path.insert(0, str(HOME))

from cerise.data import table  # noqa: E402
from cerise.data.dfs_synthetic import GAPS  # noqa: E402
from cerise.events import Schema  # noqa: E402
from cerise.filters.dual.filter_theory import (  # noqa: E402
    expect_time_share,
    false_pair_share,
    hashes_for,
    limit_time_share,
)
from cerise.filters.dual.shrinking_window import DIVISIONS, ShrinkingWindow, entries_of  # noqa: E402
from cerise.filters.dual.tick_runs import MatchPart, TickRuns, reach_of, tick_of  # noqa: E402
from cerise.filters.dual.window_join import Near, WindowJoin, pairs_of  # noqa: E402
from cerise.filters.rounds.asker import CoverForm, DualSettings  # noqa: E402
from cerise.filters.rounds.candidates import find_candidates  # noqa: E402
from cerise.filters.rounds.dual_query import DualQuery, describe_query  # noqa: E402
from cerise.filters.rounds.partial_matches import find_tuples, pull_partial_matches  # noqa: E402
from cerise.filters.rounds.pulls import pull  # noqa: E402
from cerise.filters.rounds.site import SiteEvents  # noqa: E402
from cerise.lang.sase import parse  # noqa: E402
from cerise.pattern.bind import bind  # noqa: E402
from cerise.plan.intervals import union  # noqa: E402
from dfs.queries import QUERIES, DfsQuery, workload  # noqa: E402

RESULTS = HOME / "results" / "dfs_filters.jsonl"
Line = dict[str, Any]
UNIT, WINDOW = 1_000, 100  # ticks of 5 units are 5,000 steps of time: as good as continuous
RATES = (0.001, 0.005, 0.01, 0.02, 0.04)
KAPPA_RATES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03)
ASKED = 2_000_000
SITES, EVENT_BYTES = 3, {"crimes": 76, "citibike": 40}  # as the paper counts events
COLUMNS = {"crimes": ("date", "primary_type"), "citibike": ("started_at", None)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=sorted(PARTS))
    parser.add_argument("--events", type=int, default=1_000_000, help="of the tables of `rounds`")
    parser.add_argument("--queries", type=int, default=QUERIES, help="of each template")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    kept = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    lines = [line for line in kept if line["part"] != args.part]
    for line in PARTS[args.part](args):
        print(json.dumps(line))
        lines.append({"part": args.part, **line})
    args.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return 0


# ---- Fig. 8, 9 and 10: shares of false answers


def measure_shares(_args: argparse.Namespace) -> Iterator[Line]:
    for rate in RATES:
        yield {"figure": "9a", **measure_time_share(rate, "exponential", 12, 300_000)}
    for bits in range(500_000, 1_000_001, 125_000):
        yield {"figure": "9b", "bits": bits, **measure_pair_share(bits, 100_000)}
    for gaps in GAPS:
        for rate in KAPPA_RATES:
            for fingerprint_bits in DIVISIONS:
                yield {
                    "figure": "10",
                    "gaps": gaps,
                    **measure_time_share(rate, gaps, fingerprint_bits, 100_000),
                }


def measure_time_share(rate: float, gaps: str, fingerprint_bits: int, events: int) -> Line:
    """Return which share of all time a filter covers by mistake, and which one theory expects."""
    rng = np.random.default_rng(1)
    times = np.cumsum(GAPS[gaps](rng, events) / rate * UNIT).astype(np.int64)
    reach = reach_of(MatchPart.FIRST, WINDOW * UNIT)
    exact = TickRuns.of(times, *reach, tick=1)
    runs = TickRuns.of(times, *reach, tick=tick_of(WINDOW * UNIT, 32 - fingerprint_bits))
    filtered = ShrinkingWindow.of(runs, fingerprint_bits=fingerprint_bits)
    asked = np.sort(rng.integers(times[0], times[-1], ASKED))
    inside, taken = exact.holds(asked), filtered.holds(asked)
    assert taken[inside].all()
    load = entries_of(runs, filtered.tag_bits) / len(filtered.entries)
    known = (rate, WINDOW, load, MatchPart.FIRST, fingerprint_bits)
    return {
        "rate": rate, "fingerprint_bits": fingerprint_bits, "load": load,
        "measured": float((taken & ~inside).mean()),
        "theorem": limit_time_share(*known), "expected": expect_time_share(*known),
    }  # fmt: skip


def measure_pair_share(bits: int, count: int) -> Line:
    """Return how often a filter finds a value that is nowhere, and how often Eq. 6 expects it."""
    rng = np.random.default_rng(1)
    pairs = pairs_of(rng.integers(0, 2**40, count), rng.integers(0, 10**9, count), 1_000)
    join = WindowJoin.of_size(pairs, window=1_000, bits=bits, hashes=hashes_for(bits, len(pairs)))
    asked = rng.integers(2**41, 2**42, ASKED), rng.integers(0, 10**9, ASKED)
    found = float(join.holds(*asked, Near.EARLIER).mean())
    return {"measured": found, "theorem": false_pair_share(bits, len(pairs))}


# ---- look-ups


def measure_rates(_args: argparse.Namespace) -> Iterator[Line]:
    """Yield look-ups per second in a table of 1 MB, its runs, and a filter of pairs; the best of 7."""
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(0, 2_600_000, 120_000)) * 20
    runs = TickRuns.of(times, 0, 60, tick=5)
    filtered = ShrinkingWindow.of(runs)
    asked = np.sort(rng.integers(0, 52_000_000, 10_000_000))
    keys = rng.integers(0, 200, len(asked))
    join = WindowJoin.of(pairs_of(keys[:100_000], asked[::100], 100), window=100)
    mixed = rng.permutation(asked)
    lookups: dict[str, Callable[[], Any]] = {
        "runs, in order": lambda: runs.holds(asked),
        "windows, in order": lambda: filtered.holds(asked),
        "join, in order": lambda: join.holds(keys, asked, Near.EARLIER),
        "runs, shuffled": lambda: runs.holds(mixed),
        "windows, shuffled": lambda: filtered.holds(mixed),
        "join, shuffled": lambda: join.holds(keys, mixed, Near.EARLIER),
    }
    least = dict.fromkeys(lookups, float("inf"))
    for _ in range(7):
        for name, look_up in lookups.items():
            begun = perf_counter()
            look_up()
            least[name] = min(least[name], perf_counter() - begun)
    for name, seconds in least.items():
        yield {"what": name, "per_second": len(asked) / seconds, "bytes": filtered.entries.nbytes}


# ---- Fig. 11 and 12: bytes and events


def measure_rounds(args: argparse.Namespace) -> Iterator[Line]:
    """Yield the events and bytes of each pull strategy, for each query of each template."""
    for template, (time, kind) in COLUMNS.items():
        events = table(template, args.events, seed=1)
        where = np.random.default_rng(1).integers(0, SITES, len(events))
        dealt = [events.take(pa.array(np.flatnonzero(where == site))) for site in range(SITES)]
        schema = Schema(events.schema, time, kind)
        whole = pa.concat_tables(dealt)
        for number, query in enumerate(workload(template, args.queries)):
            for line in measure_query(query, schema, dealt, whole, EVENT_BYTES[template]):
                yield {"template": template, "query": number, "events": len(events), **line}


def measure_query(
    query: DfsQuery, schema: Schema, dealt: Sequence[pa.Table], whole: pa.Table, event_bytes: int
) -> Iterator[Line]:
    bound = bind(parse(query.text), schema)
    known = describe_query(bound)
    assert isinstance(known, DualQuery)
    sites = [find_candidates(each, bound, known) for each in dealt]
    tests = [
        (frozenset((one, other)), near(whole, one, other, name, most))
        for one, other, name, most in query.within
    ]
    found = find_tuples(known, sites, tests)
    matched = np.unique(np.concatenate([*found.values()]))
    ways = {
        "push-down": pull("push-down", known, sites),
        "push-pull": pull_partial_matches(known, sites, event_bytes, tests),
        **{way: pull("dual", known, sites, settings) for way, settings in settings_of(event_bytes).items()},
    }
    ends = np.cumsum([0, *(len(each) for each in dealt)])
    for name, pulled in ways.items():
        rows = np.concatenate([rows + start for rows, start in zip(pulled.rows, ends, strict=False)])
        assert np.isin(matched, rows).all(), f"{name} loses matches of {query.text}"
        used = pulled.count_bytes(event_bytes)
        yield {"way": name, "pulled": pulled.events, "bytes": used, "trips": len(pulled.trips)}
    yield {"way": "bound", "pulled": count_in_hulls(found, sites), "bytes": None, "trips": None,
           "matches": len(found["b"]), "matched": len(matched)}  # fmt: skip
    yield {"way": "pull-all", "pulled": len(whole), "bytes": len(whole) * event_bytes, "trips": 1}


def settings_of(event_bytes: int) -> dict[str, DualSettings]:
    plain = DualSettings(event_bytes=event_bytes)
    return {
        "dual": plain,
        "dual, windows": replace(plain, form=CoverForm.WINDOWS),
        "dual, share 0.02": replace(plain, false_share=0.02),
        "dual, no join": replace(plain, joins=False),
    }


def near(
    events: pa.Table, one: str, other: str, name: str, most: float
) -> Callable[[Any], npt.NDArray[np.bool_]]:
    """Return the test that an attribute of two variables differs by at most so much."""
    values = events[name].to_numpy().astype(np.float64)
    return lambda rows: np.abs(values[rows[one]] - values[rows[other]]) <= most


def count_in_hulls(found: dict[str, Any], sites: Sequence[Sequence[SiteEvents]]) -> int:
    """Count the events of push-down in the shortest covered time: from first to last event of each match."""
    times = np.concatenate([each[0].times for each in sites])
    fitting = np.concatenate([np.logical_or.reduce(list(each[0].fits.values())) for each in sites])
    spans = np.stack([times[rows] for rows in found.values()])
    covered = union(spans.min(0), spans.max(0))
    return int(covered.holds(times[fitting]).sum())


PARTS = {"shares": measure_shares, "rates": measure_rates, "rounds": measure_rounds}

if __name__ == "__main__":
    sys.exit(main())
