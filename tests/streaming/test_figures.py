"""The figures of a stream: sums over buckets, times as moments, sources that hold time back, and text."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

from cerise import Watcher
from cerise.kinds import INT64_MIN, Kind
from cerise.streaming.limits.state_limits import show_size
from cerise.streaming.reports.figures import StreamFigures, read_moment, show_gap, show_moment

S = 1_000_000
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def microseconds(moment: dt.datetime) -> int:
    return round(moment.timestamp() * S)


def bucket(**given: Any) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "events": 0, "held": 0, "aside": {}, "matches": {"ab": 0}, "time": "ts", "kind": "INSTANT",
        "watermark": INT64_MIN, "now": None, "tops": {}, "delays": {"left": 0, "right": 0}, "slowest": "left",
        "idle": [],
    }  # fmt: skip
    return figures | given


def test_buckets_are_added_up() -> None:
    one = bucket(
        bucket=0, events=5, held=1, aside={"left: late": 2, "a: b: future": 1}, matches={"ab": 3},
        watermark=microseconds(NOON), tops={"left": microseconds(NOON)}, state_bytes=1_500,
        alive={"ab": {"runs": 2}},
    )  # fmt: skip
    other = bucket(
        bucket=1, events=7, held=2, aside={"left: late": 1, "right: no time": 4}, matches={"ab": 1, "cd": 9},
        watermark=microseconds(NOON) - 5 * S, tops={"right": microseconds(NOON) + 3 * S}, state_bytes=500,
        alive={"ab": {"runs": 1}, "cd": {"rows": 8}},
    )  # fmt: skip
    found = StreamFigures([one, other], microseconds(NOON) + 60 * S)
    assert found.watermark == NOON - dt.timedelta(seconds=5)
    assert found.lag == dt.timedelta(seconds=65)
    assert found.behind == dt.timedelta(seconds=8)
    assert found.matches == {"ab": 4, "cd": 9}
    assert found.aside == {"left": {"late": 3}, "a: b": {"future": 1}, "right": {"no time": 4}}
    assert found.alive == {"ab": {"runs": 3}, "cd": {"rows": 8}}
    figures = found.figures
    assert (figures["events"], figures["held"], figures["state_bytes"]) == (12, 3, 2_000)
    text = "\n".join(found.lines())
    assert (
        "watermark  2026-01-01 11:59:55 UTC, 1 minute 5 seconds behind the present, 8 seconds behind" in text
    )
    assert "state      2.0 kB, 3 runs, 8 rows" in text
    assert "buckets    0: 5 events, 1 held, 3 matches, 1.5 kB" in text


def test_a_stream_without_events_has_no_watermark() -> None:
    found = StreamFigures([bucket()], 0)
    assert (found.watermark, found.lag, found.behind) == (None, None, None)
    assert "watermark  none yet: a source has had no event" in "\n".join(found.lines())


def test_integers_as_times_have_no_lag() -> None:
    found = StreamFigures([bucket(kind="INT", watermark=7, tops={"left": 12})], 99)
    assert (found.watermark, found.lag, found.behind) == (7, None, 5)
    assert "watermark  7, 5 behind the newest event" in "\n".join(found.lines())


def test_the_source_that_holds_time_back_and_the_idle_ones() -> None:
    events = pa.table({"ts": pa.array([], pa.timestamp("us", "UTC")), "kind": pa.array([], pa.string())})
    watcher = Watcher(
        "PATTERN SEQ(A a, B b) WITHIN 1 minute", events, time="ts", type="kind",
        delay={"left": "1 second", "right": "10 seconds"}, idle="1 minute",
    )  # fmt: skip
    start = microseconds(NOON)

    def feed(source: str, at: int, now: int) -> StreamFigures:
        times = pa.array([start + at * S], pa.timestamp("us", "UTC"))
        watcher.feed(pa.table({"ts": times, "kind": ["A"]}), source=source, now=start + now * S)
        return StreamFigures([watcher.figures], start + now * S)

    assert feed("left", 0, 0).slowest == "right"  # right has had no event yet
    found = feed("right", 0, 1)
    assert (found.slowest, found.idle) == ("right", [])
    assert found.watermark == NOON - dt.timedelta(seconds=10)
    found = feed("left", 100, 61)
    assert (found.slowest, found.idle) == ("left", ["right"])
    assert found.watermark == NOON + dt.timedelta(seconds=99)
    assert "waits for  left; idle: right" in "\n".join(found.lines())
    watcher.advance(now=start + 300 * S)
    found = StreamFigures([watcher.figures], start + 300 * S)
    assert (found.slowest, found.idle) == (None, ["left", "right"])
    assert "waits for  no source: all are idle; idle: left, right" in "\n".join(found.lines())


@pytest.mark.parametrize("seed", range(20))
def test_the_figures_of_a_watcher_are_those_that_are_counted(seed: int) -> None:
    rng = random.Random(seed)
    schema = pa.schema({"t": pa.int64(), "kind": pa.string()})
    watcher = Watcher("PATTERN SEQ(A a, B b) WITHIN 9 INTO ab", schema, time="t", type="kind", delay=4)
    late = matches = no_time = accepted = 0
    watermark, held = INT64_MIN, 0
    top: int | None = None
    for _ in range(30):
        times = [
            rng.choice([None, *range(60)]) if rng.random() < 0.1 else rng.randrange(60) for _ in range(5)
        ]
        table = pa.table({"t": pa.array(times, pa.int64()), "kind": [rng.choice("ABC") for _ in times]})
        matches += len(watcher.feed(table))
        known = [each for each in times if each is not None]
        no_time += len(times) - len(known)
        late += sum(each < watermark for each in known)
        accepted += sum(each >= watermark for each in known)
        top = max([*known, *([] if top is None else [top])], default=None)
        watermark = INT64_MIN if top is None else top - 4
    figures = watcher.figures
    restored = Watcher("PATTERN SEQ(A a, B b) WITHIN 9 INTO ab", schema, time="t", type="kind", delay=4)
    restored.load(watcher.save())
    for each in (figures, restored.figures):
        counted = {"events: late": late, "events: no time": no_time}
        assert each["aside"] == {name: count for name, count in counted.items() if count}
        assert (each["events"], each["watermark"], each["matches"]) == (accepted, watermark, {"ab": matches})
        assert each["tops"] == {"events": top}
    held = figures["held"]
    assert restored.figures["held"] == held


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        (dt.timedelta(seconds=1), "1 second"),
        (dt.timedelta(minutes=61, seconds=5), "1 hour 1 minute"),
        (dt.timedelta(days=400, hours=2), "400 days 2 hours"),
        (dt.timedelta(milliseconds=250), "250 milliseconds"),
        (dt.timedelta(0), "0 seconds"),
        (-dt.timedelta(seconds=90), "-1 minute 30 seconds"),
        (12_345, "12,345"),
    ],
)
def test_a_gap_is_readable(gap: Any, text: str) -> None:
    assert show_gap(gap) == text


def test_moments_and_sizes_are_readable() -> None:
    assert read_moment(0, Kind.LOCAL) == dt.datetime(1970, 1, 1)
    assert read_moment(0, Kind.INT) == 0
    assert read_moment(2**62, Kind.INSTANT) == 2**62  # beyond the year 9999
    assert show_moment(NOON) == "2026-01-01 12:00:00 UTC"
    assert show_moment(None) == "none"
    assert show_size(999) == "999 bytes"
    assert show_size(12_340_000) == "12.3 MB"
