"""Leaps: events that fail an inequality with what is bound are not looked at, and no other is lost."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.rcep.records import LESS, MORE, NULL
from cerise.engines.rcep.skip_index import NONE, extremes
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind

SCHEMA = Schema(
    pa.schema([("t", pa.int64()), ("type", pa.string()), ("x", pa.int64()), ("k", pa.int64())]), "t", "type"
)
NEVER = 1 << 60


def made(size: int, seed: int, keys: int = 1) -> EventBatch:
    """Many As and Bs, a C now and then; some values are null."""
    rng = np.random.default_rng(seed)
    types = np.where(np.arange(size) % (size // 4) == size // 4 - 1, "C", rng.choice(["A", "B"], size))
    x = pa.array(rng.integers(0, size, size), mask=rng.random(size) < 0.05)
    table = pa.table({"t": range(size), "type": types, "x": x, "k": rng.integers(0, keys, size)})
    return EventBatch.of(table.cast(SCHEMA.columns), SCHEMA)


def counted(query: str, events: EventBatch, engine: str, options: Options | None = None) -> tuple[int, int]:
    """How many matches there are, and how many events were tried for them."""
    matcher = ENGINES[engine].start(bind(parse(query), SCHEMA, {}), options or Options())
    matches = sum(each.count for each in chain(matcher.feed(events), matcher.flush()))
    return matches, matcher.report.reread_events


QUERIES = {
    "rising": "PATTERN SEQ(A a, B b, C c) USE skip_till_any_match WHERE b.x >= a.x + {far}",
    "falling": "PATTERN SEQ(A a, B b, C c) USE skip_till_any_match WHERE b.x < a.x - {far}",
    "series": "PATTERN SEQ(B+ b[], C c) USE skip_till_any_match WHERE b[i].x > b[i-1].x + {far}",
    "keyed": "PATTERN SEQ(A a, B b, C c) USE skip_till_any_match PARTITION BY k WHERE b.x <= a.x - {far}",
}


@pytest.mark.parametrize("engine", ["rcep-left", "rcep-right"])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("size", [160, 700, 9_000])
def test_leaps_lose_nothing_and_save_work(name: str, size: int, engine: str) -> None:
    query = QUERIES[name].format(far=int(size * (0.7 if size < 1_000 else 0.9)))
    events = made(size, seed=size, keys=2 if name == "keyed" else 1)
    never = Options(limits=Limits(skipped_events=NEVER))
    expected, looked_at = counted(query, events, engine, never)
    found, tried = counted(query, events, engine)
    assert found == expected > 0
    assert tried <= looked_at
    if size == 9_000 and name in ("rising", "falling"):
        assert tried < 3 * (found + size) < looked_at / 5


def test_matches_by_brute_force() -> None:
    events = made(900, seed=5)
    x, types = events.table["x"].to_pylist(), events.table["type"].to_pylist()
    pairs = [
        (i, j)
        for i in range(900)
        for j in range(i + 1, 900)
        if types[i] == "A" and types[j] == "B" and None not in (x[i], x[j]) and x[j] >= x[i] + 700
    ]
    expected = sum(types[k] == "C" for _, j in pairs for k in range(j + 1, 900))
    query = QUERIES["rising"].format(far=700)
    assert counted(query, events, "rcep-left")[0] == expected
    assert counted(query, events, "rcep-right")[0] == expected


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 256, 4_097])
def test_extremes_of_runs(size: int) -> None:
    values = np.random.default_rng(size).integers(-50, 50, size)
    values[::7] = NULL
    for op, best, none in ((LESS, max, NULL), (MORE, min, NONE)):
        for bits, found in zip((12, 8, 4), extremes(values, op), strict=True):
            runs = [values[i : i + (1 << bits)] for i in range(0, size, 1 << bits)]
            known = [[int(value) for value in run if value != NULL] for run in runs]
            assert found.tolist() == [best(each, default=none) for each in known]
