"""Streams cut by time: every event belongs to one part, and every part has what it needs."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from cerise.events import Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.plan.slicing import MAX_TIME, MIN_TIME, GroupSpan, Halo, Targets, halo, slices

SCHEMA = Schema(pa.schema([("t", pa.int64()), ("kind", pa.string()), ("k", pa.string())]), "t", "kind")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 5", Halo(0, 5)),
        ("PATTERN SEQ(A a, NOT C n, B b) WITHIN 5", Halo(0, 5)),
        ("PATTERN SEQ(NOT C n, A a, B b) WITHIN 5", Halo(5, 5)),
        ("PATTERN SEQ(A a, B b) WITHIN 5 EVENTS", Halo(events=5)),
        ("PATTERN SEQ(A a, B b)", "without WITHIN"),
        ("PATTERN SEQ(A a, B b) WITHIN 5 EVENTS PARTITION BY k", "of each partition"),
        ("PATTERN SEQ(A a, B b) WITHIN 5 EVENTS SLIDE 2 EVENTS", "SLIDE"),
        ("PATTERN SEQ(A a, B b) WITHIN 5 OUTPUT NON_OVERLAPPING", "overlap"),
        ("PATTERN SEQ(A a, B b) WITHIN 5 LIMIT 2 PER EVENT", "LIMIT"),
    ],
)
def test_what_a_part_needs(query: str, expected: Halo | str) -> None:
    found = halo([bind(parse(query), SCHEMA)])
    assert found == expected if isinstance(expected, Halo) else expected in str(found)


def test_several_queries_need_the_most_of_each() -> None:
    queries = ["SEQ(NOT C n, A a) WITHIN 5", "SEQ(A a, B b) WITHIN 9", "A a WITHIN 3 EVENTS"]
    assert halo([bind(parse(f"PATTERN {each}"), SCHEMA) for each in queries]) == Halo(5, 9, 3)


@pytest.mark.parametrize("seed", range(40))
def test_a_slice_reads_all_that_its_matches_may_hold(seed: int) -> None:
    rng = random.Random(seed)
    spans = []
    for _ in range(rng.randrange(1, 30)):
        first = rng.randrange(100)
        spans.append(GroupSpan(first, first + rng.choice((0, 1, 5, 40)), rng.randrange(1, 9)))
    needs = rng.choice([Halo(0, 7), Halo(7, 7), Halo(0, 0), Halo(events=6)])
    cut = slices(spans, needs, rng.choice((1, 2, 3, 8)), amplified=rng.choice((1.25, 10.0)))
    assert cut[0].start == MIN_TIME
    assert cut[-1].stop == MAX_TIME
    assert all(one.stop == two.start for one, two in pairwise(cut))
    for part in cut:
        for i, span in enumerate(spans):
            overlaps = span.last >= part.start - needs.before and (
                part.stop == MAX_TIME or span.first < part.stop + needs.after
            )
            assert not overlaps or i in part.reads
        order = [spans[i].first for i in part.reads]
        assert order == sorted(order)
        after = sum(spans[i].rows for i in part.reads if spans[i].first >= part.stop)
        there = sum(span.rows for span in spans if span.first >= part.stop)
        assert after >= min(needs.events, there)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_an_event_reaches_every_target_that_may_need_it(count: int) -> None:
    rng = np.random.default_rng(count)
    times = np.sort(rng.integers(-500, 500, 300))
    keys = rng.integers(0, 5, 300).astype(np.uint64)
    targets = Targets(count, 80, Halo(10, 10))
    sent = targets.of(times, keys)
    own = dict(zip(sent[0][0].tolist(), sent[0][1].tolist(), strict=True))
    assert sorted(own) == list(range(300))
    got = {(row, target) for rows, to in sent for row, target in zip(rows.tolist(), to.tolist(), strict=True)}
    assert len(got) == sum(len(rows) for rows, _ in sent)  # nothing is sent twice to one target
    for start in range(300):
        near = np.flatnonzero((keys == keys[start]) & (np.abs(times - times[start]) <= 10))
        assert all((int(row), own[start]) in got for row in near)


def test_without_time_an_event_goes_by_its_key() -> None:
    keys = np.array([5, 6, 7, 5], np.uint64)
    ((rows, to),) = Targets(3, None, Halo()).of(np.arange(4), keys)
    assert rows.tolist() == [0, 1, 2, 3]
    assert to.tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize("seed", range(60))
def test_a_slice_has_so_many_neighbours_wherever_they_lie(seed: int) -> None:
    """Also where row groups overlap: none of the next events may be in one that is not read."""
    rng = random.Random(seed)
    groups = []
    for _ in range(rng.randrange(2, 20)):
        first = rng.randrange(60)
        groups.append([first + rng.choice((0, 1, 2, 10)) for _ in range(rng.randrange(1, 5))])
    spans = [GroupSpan(min(each), max(each), len(each)) for each in groups]
    needs = Halo(rng.choice((0, 2)), rng.choice((0, 3)), rng.randrange(5), rng.randrange(5))
    for part in slices(spans, needs, rng.choice((2, 3, 8)), amplified=10.0):
        for several, reach, ahead in (
            (needs.events, part.stop + needs.after, True),
            (needs.preceding, part.start - needs.before, False),
        ):
            there = _beyond(groups, reach, ahead=ahead)
            read = _beyond([groups[i] for i in part.reads], reach, ahead=ahead)
            assert read[:several] == there[:several]


def _beyond(groups: list[list[int]], time: int, *, ahead: bool) -> list[int]:
    """The times of events from one on, or before it, the nearest first."""
    times = [each for group in groups for each in group if (each >= time) is ahead]
    return sorted(times, reverse=not ahead)
