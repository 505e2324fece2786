"""Long streams: the three algorithms find the same matches, however small their pools and batches are."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from cerise.engines.base import Matches, Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.match_ids import match_ids
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from tests.tiers import AT_LENGTH

Ids = npt.NDArray[np.int64]
NFA = tuple(name for name in ENGINES if name.startswith("nfa"))
EVENTS, SEEDS = (10_000, range(10)) if AT_LENGTH else (5_000, range(3))
SCHEMA = Schema(
    pa.schema(
        [("id", pa.int64()), ("t", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64()),
         ("y", pa.float64()), ("s", pa.string())]
    ),
    "t",
    "type",
)  # fmt: skip

pytestmark = pytest.mark.xdist_group("nfa queries")  # one worker: they are compiled once
NEXT = "USE skip_till_next_match"
ANY = "USE skip_till_any_match"
KLEENE = "PATTERN SEQ(A a, B+ b[], C c)"
QUERIES = {
    "next": f"PATTERN SEQ(A a, B b, C c) {NEXT} WHERE a.x < b.x AND b.x <= c.x WITHIN 30",
    "any": f"PATTERN SEQ(A a, B b, C c) {ANY} WHERE a.x < b.x AND a.y < c.y WITHIN 9",
    "equality": f"PATTERN SEQ(A a, B b, C c) {ANY} WHERE [k] AND a.x != c.x WITHIN 40",
    "p1": f"{KLEENE} {NEXT} PARTITION BY k WHERE b.x > 3 WITHIN 60",
    "p2": f"{KLEENE} {NEXT} PARTITION BY k WHERE b[i].x > b[i-1].x WITHIN 80",
    "p3": f"{KLEENE} {NEXT} PARTITION BY k WHERE b[i].y > avg(b[..i-1].y) AND sum(b[].x) > 9 WITHIN 60",
    "any kleene": f"{KLEENE} {ANY} PARTITION BY k WHERE b[i].x >= b[i-1].x AND a.x < b.x WITHIN 24",
    "open end": f"PATTERN SEQ(A a, B{{2,4}} b[]) {ANY} PARTITION BY k WHERE b[i].x > b[i-1].x WITHIN 20",
    "and": f"PATTERN AND(A a, B b, C c) {ANY} WHERE a.x = b.x WITHIN 7",
    "greedy and": f"PATTERN SEQ(AND(A a, B+ b[]), C c) {NEXT} PARTITION BY k WHERE b.x < a.x WITHIN 30",
    "not between": f"PATTERN SEQ(A a, ~(B n), C c) {ANY} WHERE n.x > a.x AND n.y < c.y WITHIN 10",
    "not before": f"PATTERN SEQ(~(C n), A a, B b) {ANY} PARTITION BY k WHERE n.x = b.x WITHIN 20",
    "not after": f"PATTERN SEQ(A a, B b, ~(C n)) {NEXT} WHERE n.x > a.x + b.x WITHIN 12",
    "count window": f"PATTERN SEQ(A a, B b, C c) {ANY} PARTITION BY k WHERE a.x <= c.x WITHIN 9 EVENTS",
    "slide": f"PATTERN SEQ(A a, B b, C c) {ANY} WHERE a.x < c.x WITHIN 9 SLIDE 4",
    "slide of events": f"{KLEENE} {ANY} PARTITION BY k WHERE b.x > a.x WITHIN 8 EVENTS SLIDE 3 EVENTS",
    "one by one": f"{KLEENE} {ANY} PARTITION BY k WHERE b[i].x > b[i-1].x WITHIN 20 OUTPUT NON_OVERLAPPING",
    "limit": f"PATTERN SEQ(A a, B b, C c) {ANY} WHERE a.x < b.x WITHIN 8 LIMIT 2 PER EVENT",
    "contiguous": "PATTERN SEQ(A a, B+ b[], c) USE strict_contiguity PARTITION BY k WHERE c.x > b[1].x",
    "words": f"PATTERN SEQ(A a, B b, C c) {ANY} WHERE a.s < b.s AND c.s = a.s AND c.s != 'w7' WITHIN 12",
    "or": f"PATTERN SEQ(A a, OR(B b, SEQ(C c, D? d))) {ANY} PARTITION BY k WHERE a.x < c.x WITHIN 16",
}  # fmt: skip


def stream(seed: int, size: int = EVENTS) -> pa.Table:
    """Events with ties, nulls, NaN, and words that keep being new."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 10, size), rng.integers(0, 20, size) / 4
    y[rng.random(size) < 0.02] = np.nan
    words = np.where(rng.random(size) < 0.5, rng.integers(0, 9, size), rng.integers(0, 10**6, size))
    return pa.table(
        [
            np.arange(size),
            np.cumsum(rng.choice([0, 1, 1, 2], size)),
            rng.choice(np.array(["A", "B", "C", "D"]), size),
            pa.array(rng.integers(0, 4, size), mask=rng.random(size) < 0.02),
            pa.array(x, mask=rng.random(size) < 0.03),
            y,
            [f"w{word}" for word in words],
        ],
        schema=SCHEMA.columns,
    )


def batches(events: EventBatch, rng: random.Random) -> Iterator[EventBatch]:
    start = 0
    while start < len(events):
        stop = start + rng.choice((1, 7, 300, 1_500, 4_000))
        yield events.slice(start, stop)
        start = stop


def ids(found: Iterator[Matches], bound: Bound) -> Ids:
    """The names of all matches, sorted."""
    names = [np.asarray(match_ids(matches, bound)) for matches in found]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *names]))


def whole(engine: str, bound: Bound, events: EventBatch) -> Ids:
    running = ENGINES[engine].start(bound, Options())
    return ids(chain(running.feed(events), running.flush()), bound)


def in_pieces(engine: str, bound: Bound, events: EventBatch, rng: random.Random) -> Ids:
    """With pools so small that runs are swept, nodes collected and matches written out all the time."""
    limits = Limits(
        chunk_events=rng.choice((64, 250, 1_000)),
        pool_rows=rng.choice((8, 100, 1_000)),
        matches=rng.choice((20, 300)),
    )
    running = ENGINES[engine].start(bound, Options(limits=limits))
    parts = (running.feed(part) for part in batches(events, rng))
    return ids(chain(*parts, running.flush()), bound)


def bound_and_events(query: str, table: pa.Table) -> tuple[Bound, EventBatch]:
    bound = bind(parse(query), SCHEMA, {})
    return bound, EventBatch.of(table, SCHEMA, reads=bound.ties)


@pytest.mark.parametrize("name", QUERIES)
def test_the_engines_agree_on_long_streams(name: str) -> None:
    for seed in SEEDS:
        bound, events = bound_and_events(QUERIES[name], stream(seed + zlib.crc32(name.encode())))
        rng = random.Random(seed)
        expected = whole("nfa", bound, events)
        assert len(expected) > 50, "a stream without matches says nothing"
        for engine in NFA[1:] if AT_LENGTH or not seed else ():
            assert np.array_equal(whole(engine, bound, events), expected), (engine, seed)
        engine = NFA[seed % len(NFA)]
        assert np.array_equal(in_pieces(engine, bound, events, rng), expected), (engine, seed, "in pieces")


@pytest.mark.parametrize("name", QUERIES)
def test_the_engines_agree_with_the_reference_on_a_shorter_stream(name: str) -> None:
    bound, events = bound_and_events(QUERIES[name], stream(99, 400))
    expected = whole("reference", bound, events)
    assert len(expected)
    for engine in NFA:
        assert np.array_equal(in_pieces(engine, bound, events, random.Random(1)), expected), engine


@pytest.mark.parametrize("name", QUERIES)
def test_the_engines_count_what_they_find(name: str) -> None:
    table = stream(7, 4_000)
    expected = len(whole("nfa", *bound_and_events(QUERIES[name], table)))
    bound, events = bound_and_events(QUERIES[name] + " RETURN COUNT(*)", table)
    for engine in NFA:
        running = ENGINES[engine].start(bound, Options())
        parts = (running.feed(part) for part in batches(events, random.Random(2)))
        assert sum(map(len, chain(*parts, running.flush()))) == expected, engine
