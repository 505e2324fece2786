"""The watermark: several sources, silent ones that come back, the clock on the wall, restarts."""

from __future__ import annotations

import random

import pytest

from cerise.kinds import INT64_MIN
from cerise.streaming.watermark import TimeRules, Watermark

RULES = TimeRules({"a": 5, "b": 10}, idle=20)


def reload(watermark: Watermark) -> Watermark:
    again = Watermark(watermark.rules)
    again.load(watermark.save())
    return again


@pytest.mark.parametrize("reloads", [False, True])
def test_a_source_that_falls_silent_and_comes_back(reloads: bool) -> None:
    mark = Watermark(RULES)

    def observe(tops: dict[str, int], now: int) -> int:
        nonlocal mark
        mark.observe(tops, now)
        mark = reload(mark) if reloads else mark
        return mark.time

    assert observe({"a": 100}, 100) == INT64_MIN  # nothing is known of b
    assert observe({"b": 90}, 101) == 80
    assert mark.slowest(101) == "b"
    assert observe({"a": 115}, 115) == 80  # b may still have events
    assert observe({"a": 120}, 120) == 80
    assert observe({"a": 121}, 121) == 116  # b is idle
    assert mark.slowest(121) == "a"
    assert observe({"b": 95}, 122) == 116  # it is back, and late: time never falls
    assert observe({"a": 140}, 140) == 116  # b holds it back again
    assert observe({"b": 141, "a": 141}, 141) == 131
    assert observe({}, 160) == 131
    assert observe({}, 161) == 161 - 10 - 20  # all are idle: it follows the clock
    assert observe({}, 170) == 140
    assert mark.slowest(170) is None
    assert observe({"a": 150}, 171) == 145
    assert observe({"a": 130}, 172) == 145


def test_without_a_clock_no_source_is_idle() -> None:
    mark = Watermark(RULES)
    mark.observe({"a": 100, "b": 100}, 100)
    for top in range(101, 200):
        mark.observe({"a": top}, None)  # a batch that Spark runs for another operator has no clock
    assert mark.time == 90


def test_the_watermark_never_falls_and_never_passes_what_an_active_source_may_send() -> None:
    dice = random.Random(3)
    for _ in range(300):
        mark, now, before = (
            Watermark(TimeRules({"a": dice.randrange(9), "b": dice.randrange(9)}, idle=15)),
            0,
            INT64_MIN,
        )
        for _ in range(40):
            now += dice.randrange(12)
            tops = {name: now - dice.randrange(30) for name in "ab" if dice.random() < 0.4}
            mark.observe(tops, now)
            assert mark.time >= before
            active = [name for name in "ab" if not mark.is_idle(name, now)]
            limits = [mark.tops[name] - mark.rules.delays[name] for name in active if name in mark.tops]
            if len(limits) == len(active) and active:
                assert mark.time == max(before, min(limits))
            elif active:
                assert mark.time == before
            before, mark = mark.time, reload(mark)


def test_a_source_that_is_gone_no_longer_counts() -> None:
    mark = Watermark(RULES)
    mark.observe({"a": 100, "b": 20}, 100)
    assert mark.time == 10
    alone = Watermark(TimeRules({"a": 5}))
    alone.load(mark.save())
    alone.observe({"a": 101}, None)
    assert alone.time == 96
