"""Covered time in every form holds what plain sets of ticks hold, and never less."""

from __future__ import annotations

import struct
from itertools import product

import numpy as np
import pytest

from cerise.errors import DataError, PlanError
from cerise.filters.dual import sealing
from cerise.filters.dual.covered_time import choose_form, read_cover
from cerise.filters.dual.filter_theory import (
    buckets_for,
    expect_time_share,
    limit_time_share,
    window_bytes,
)
from cerise.filters.dual.sealing import HEAD
from cerise.filters.dual.shrinking_window import (
    DIVISIONS,
    RefreshTags,
    ShrinkingWindow,
    entries_of,
    merge_tags,
)
from cerise.filters.dual.tick_runs import MatchPart, TickRuns, intersect, reach_of, tick_of, unite
from cerise.plan.slicing import MAX_TIME, MIN_TIME
from tests.support.plain_filters import PlainTable, ticks_of

WINDOWS = (0, 1, 19, 20, 100, 2**40, MAX_TIME)
ENDS = np.array([MIN_TIME, MIN_TIME + 1, -1, 0, 1, MAX_TIME - 1, MAX_TIME])


def draw(rng: np.random.Generator, *, keyed: bool, tick: int, size: int = 60) -> TickRuns:
    times = rng.integers(-4_000, 4_000, rng.integers(0, size))
    before, after = rng.integers(0, rng.choice([2, 12, 120]), 2).tolist()
    keys = rng.integers(-2, 3, len(times)) * (2**61 + 17) if keyed else None
    return TickRuns.of(times, before, after, tick=tick, keys=keys)


def holds(covered: TickRuns | ShrinkingWindow, ticks: list[tuple[int, int]], tick: int) -> list[bool]:
    keys = np.array([key for key, _ in ticks], np.int64) if covered.keyed else None
    return covered.holds(np.array([number * tick for _, number in ticks], np.int64), keys).tolist()


# ---- Eq. 1


@pytest.mark.parametrize(("role", "window"), product(MatchPart, WINDOWS))
def test_the_interval_of_an_event_is_that_of_the_paper_and_ends_with_time(
    role: MatchPart, window: int
) -> None:
    before, after = reach_of(role, window)
    assert (before, after) == {
        MatchPart.FIRST: (0, window), MatchPart.LAST: (window, 0), MatchPart.BETWEEN: (window, window)
    }[role]  # fmt: skip
    for time in ENDS.tolist():
        runs = TickRuns.of(np.array([time]), before, after, tick=1)
        (start,), (end,) = runs.intervals().starts.tolist(), runs.intervals().ends.tolist()
        assert start == max(time - before, MIN_TIME)
        assert end == min(time + after, MAX_TIME)


def test_a_query_that_looks_further_reaches_a_window_further() -> None:
    assert reach_of(MatchPart.FIRST, 5, reaches=True) == (5, 10)
    assert reach_of(MatchPart.BETWEEN, 5, reaches=True) == (10, 10)


# ---- runs


@pytest.mark.parametrize(("seed", "keyed"), product(range(40), [False, True]))
def test_runs_are_sets_of_ticks(seed: int, keyed: bool) -> None:
    rng = np.random.default_rng(seed)
    tick = int(rng.integers(1, 8))
    left, right, third = (draw(rng, keyed=keyed, tick=tick) for _ in range(3))
    sets = [ticks_of(each) for each in (left, right, third)]
    both, all_three = unite([left, right]), unite([unite([third, left]), right])
    whole = sets[0] | sets[1]
    assert ticks_of(both) == whole
    assert ticks_of(intersect([left, right, third])) == sets[0] & sets[1] & sets[2]
    assert all_three.to_bytes() == unite([right, left, third]).to_bytes()
    assert both.covered == len(whole) * tick
    assert ticks_of(TickRuns.from_bytes(both.to_bytes())) == ticks_of(both)
    asked = sorted(sets[0] | sets[1] | sets[2]) or [(0, 0)]
    assert holds(both, asked, tick) == [each in whole for each in asked]


@pytest.mark.parametrize(("seed", "division", "keyed"), product(range(12), DIVISIONS, [False, True]))
def test_a_table_holds_what_its_twin_holds(seed: int, division: int, keyed: bool) -> None:
    """Also with fingerprints that collide, which few buckets and fingerprints of 8 bits make common."""
    rng = np.random.default_rng(seed)
    runs, other, third = (draw(rng, keyed=keyed, tick=1, size=400) for _ in range(3))
    table = ShrinkingWindow.of(runs, fingerprint_bits=division, buckets=1, kicks=int(rng.integers(0, 20)))
    twin = PlainTable(table)
    twin.insert(ticks_of(runs))
    asked = [(key, each) for key in ({0, 2**61 + 17} if keyed else {0}) for each in range(-4_300, 4_300, 7)]
    assert holds(table, asked, 1) == [twin.holds(each) for each in asked]
    cleared = table.clear(merge_tags([table.refresh(other), table.refresh(third)]))
    twin.refresh(ticks_of(other) | ticks_of(third))
    twin.clear()
    assert holds(cleared, asked, 1) == [twin.holds(each) for each in asked]


@pytest.mark.parametrize("window", WINDOWS)
def test_times_at_the_ends_stay_covered(window: int) -> None:
    tick = tick_of(window)
    for before, after in (reach_of(role, window) for role in MatchPart):
        runs = TickRuns.of(ENDS, before, after, tick=tick)
        forms = [runs, read_cover(runs.to_bytes())]
        if entries_of(runs) < 1_000:
            forms.append(ShrinkingWindow.of(runs))
        assert all(form.holds(ENDS).all() for form in forms)
        assert runs.shrink(TickRuns.always(tick)).to_bytes() == runs.to_bytes()


def test_a_time_before_zero_has_a_window_of_its_own() -> None:
    """Division towards zero would make one window of −19 … 19."""
    runs = TickRuns.of(np.array([3]), 0, 0, tick=1)
    assert ShrinkingWindow.of(runs).holds(np.array([-3, 3])).tolist() == [False, True]


# ---- never less than exact, whatever happens to a table


def operate(rng: np.random.Generator, operations: int, keyed: bool) -> tuple[int, int]:
    """Insert, refresh, merge, clear, compact and send, at random; return how often tables grew and shrank."""
    tick, grew, shrank = int(rng.integers(1, 9)), 0, 0
    exact = draw(rng, keyed=keyed, tick=tick)
    table = ShrinkingWindow.of(exact, fingerprint_bits=int(rng.choice(DIVISIONS)))
    for _ in range(operations):
        division = 32 - table.tag_bits
        match int(rng.integers(0, 5)):
            case 0:  # more arrives: the asker makes the table again, from few buckets and with few kicks
                exact = unite([exact, draw(rng, keyed=keyed, tick=tick)])
                size, kicks = int(2 ** rng.integers(0, 4)), int(rng.integers(0, 30))
                table = ShrinkingWindow.of(exact, fingerprint_bits=division, buckets=size, kicks=kicks)
                grew += table.buckets > size
            case 1:  # a round: two sites refresh, tags travel
                parts = [draw(rng, keyed=keyed, tick=tick, size=600) for _ in range(2)]
                tags = [RefreshTags.from_bytes(table.refresh(p).to_bytes(), table) for p in parts]
                exact, before = exact.shrink(unite(parts)), table.buckets
                table = table.shrunk(merge_tags(tags))
                shrank += table.buckets < before
            case 2:
                table = table.compact(least=1.0, kicks=int(rng.integers(0, 4)))
            case 3:
                table = ShrinkingWindow.from_bytes(table.to_bytes())
            case _:
                exact = TickRuns.from_bytes(exact.to_bytes())
        kept = exact.keys
        for edge in (exact.firsts, exact.lasts, (exact.firsts + exact.lasts) // 2):
            assert table.holds(edge * tick, kept).all()
    return grew, shrank


@pytest.mark.parametrize("keyed", [False, True])
def test_a_table_never_covers_less_than_exact_ticks(keyed: bool) -> None:
    """Each operation inserts or refreshes some hundred windows: 10⁵ of these in all."""
    rng = np.random.default_rng(int(keyed))
    found = [operate(rng, 40, keyed) for _ in range(40)]
    assert sum(grew for grew, _ in found) > 20
    assert sum(shrank for _, shrank in found) > 20


@pytest.mark.nightly
@pytest.mark.parametrize("keyed", [False, True])
def test_a_table_never_covers_less_than_exact_ticks_at_length(keyed: bool) -> None:
    rng = np.random.default_rng(100 + int(keyed))
    for _ in range(4_000):
        operate(rng, 40, keyed)


@pytest.mark.parametrize("fingerprint", [0, 1, 4095])
def test_a_window_of_any_fingerprint_is_kept(fingerprint: int) -> None:
    """A fingerprint of zero is one like any other: a place is free by its tag."""
    times = np.arange(200_000) * 20
    table = ShrinkingWindow.of(TickRuns.of(times, 0, 0, tick=1))
    assert fingerprint in (table.entries[table.used] >> 20).tolist()
    assert table.holds(times).all()


# ---- faults that a public implementation has


def test_a_full_table_is_made_again_instead_of_losing_a_window() -> None:
    runs = TickRuns.of(np.arange(0, 80_000, 40), 0, 0, tick=1)
    table = ShrinkingWindow.of(runs, buckets=1, kicks=0)
    assert table.buckets > 1
    assert table.holds(np.arange(0, 80_000, 40)).all()


def test_a_compaction_without_room_is_undone() -> None:
    """Nine windows do not fit into one bucket, and some of 2,000 do not fit into half of the places."""
    runs = TickRuns.of(np.arange(0, 80_000, 40), 0, 0, tick=1)
    table = ShrinkingWindow.of(runs)
    tight = table.compact(least=1.0, kicks=1)
    assert int(tight.used.sum()) <= len(tight.entries)
    assert tight.buckets <= table.buckets
    assert tight.holds(np.arange(0, 80_000, 40)).all()
    nine = ShrinkingWindow.of(TickRuns.of(np.arange(0, 360, 40), 0, 0, tick=1), buckets=64)
    assert nine.compact(least=1.0, kicks=500).buckets == 4


def test_every_entry_of_a_fingerprint_is_refreshed_after_a_compaction() -> None:
    """Halving the buckets brings entries of one fingerprint together; they become one."""
    times = np.arange(0, 400_000, 40)
    for buckets in (8_192, 16_384, 65_536):
        table = ShrinkingWindow.of(TickRuns.of(times, 0, 0, tick=1), fingerprint_bits=8, buckets=buckets)
        small = table.compact()
        assert small.buckets < table.buckets
        kept = times[::3]
        shrunk = small.shrink(TickRuns.of(kept, 0, 0, tick=1))
        assert shrunk.holds(kept).all()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_compaction_ends_with_none_or_few_windows(count: int) -> None:
    times = np.arange(count) * 1_000
    table = ShrinkingWindow.of(TickRuns.of(times, 0, 0, tick=1), buckets=1 << 12).compact()
    assert table.buckets == 1
    assert table.holds(times).all()
    assert not table.holds(np.array([500])).any()
    assert table.shrink(TickRuns.never(1, keyed=False)).used.sum() == 0


# ---- messages


FORMS = ["runs", "keyed runs", "table", "keyed table", "tags"]


def message_of(form: str) -> bytes:
    rng = np.random.default_rng(5)
    runs = draw(rng, keyed=form.startswith("keyed"), tick=3)
    table = ShrinkingWindow.of(runs)
    if form == "tags":
        return table.refresh(draw(rng, keyed=False, tick=3)).to_bytes()
    return (table if form.endswith("table") else runs).to_bytes()


def read(form: str, message: bytes) -> object:
    if form == "tags":
        return RefreshTags.from_bytes(message, ShrinkingWindow.from_bytes(message_of("table")))
    return read_cover(message)


@pytest.mark.parametrize("form", FORMS)
def test_a_cut_or_changed_message_is_an_error(form: str) -> None:
    message = message_of(form)
    read(form, message)
    rng = np.random.default_rng(3)
    for size in {0, 1, HEAD.size - 1, HEAD.size, len(message) - 1, *rng.integers(0, len(message), 20)}:
        with pytest.raises(DataError):
            read(form, message[:size])
    for at in {*range(HEAD.size), *rng.integers(0, len(message), 40).tolist()}:
        changed = bytearray(message)
        changed[at] ^= 1 << int(rng.integers(0, 8))
        with pytest.raises(DataError):
            read(form, bytes(changed))
    with pytest.raises(DataError):
        read(form, message + b"\0")


@pytest.mark.parametrize("form", FORMS)
def test_a_message_of_another_version_is_an_error(form: str) -> None:
    message = bytearray(message_of(form))
    struct.pack_into("B", message, len(sealing.MAGIC), sealing.VERSION + 1)
    with pytest.raises(DataError, match="version 2"):
        read(form, bytes(message))


def test_tags_of_another_table_are_an_error() -> None:
    table = ShrinkingWindow.from_bytes(message_of("table"))
    other = ShrinkingWindow.of(TickRuns.of(np.arange(0, 90_000, 100), 0, 0, tick=3))
    with pytest.raises(DataError, match="another filter"):
        RefreshTags.from_bytes(message_of("tags"), other)
    with pytest.raises(PlanError):
        other.clear(table.refresh(TickRuns.never(3, keyed=False)))


@pytest.mark.parametrize("seed", range(60))
def test_runs_come_back_from_bytes_as_they_were(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spans = rng.choice(np.append(ENDS, rng.integers(MIN_TIME, MAX_TIME, 9)), (seed % 20, 2))
    starts, ends = np.sort(spans).T
    for keys in (None, spans[:, 0] >> 62):
        runs = TickRuns.from_intervals(starts, ends, tick=1, keys=keys)
        again = TickRuns.from_bytes(runs.to_bytes())
        assert again.to_bytes() == runs.to_bytes()
        assert all((one == other).all() for one, other in zip(runs.arrays(), again.arrays(), strict=True))


def test_zero_tags_take_a_bit_and_others_twenty_one() -> None:
    table = ShrinkingWindow.of(TickRuns.of(np.arange(8_000) * 100, 0, 0, tick=1))
    none, used = table.refresh(TickRuns.never(1, keyed=False)), int(table.used.sum())
    head = len(none.to_bytes()) - -(-used // 8)
    one = table.refresh(TickRuns.of(np.array([100]), 0, 0, tick=1))
    assert len(one.to_bytes()) - head - -(-used // 8) == 3  # 20 bits


# ---- sizes and forms


def test_a_table_has_as_many_buckets_as_the_paper_says() -> None:
    assert [buckets_for(each) for each in (0, 1, 3, 4, 72_000)] == [1, 1, 1, 2, 32_768]
    assert window_bytes(72_000) == 32_768 * 4 * 4


def test_the_smaller_form_is_chosen() -> None:
    sparse = TickRuns.of(np.arange(1_000) * 10**6, 0, 100, tick=5)
    assert choose_form(sparse) is sparse
    broken = TickRuns.of(np.arange(0, 60_000, 2), 0, 0, tick=1)  # ten runs in each window
    assert isinstance(choose_form(broken), ShrinkingWindow)
    for runs in (sparse, broken, TickRuns.always(1), TickRuns.never(1, keyed=True)):
        assert len(choose_form(runs).to_bytes()) <= len(runs.to_bytes())


def test_time_that_no_table_can_hold_is_refused() -> None:
    with pytest.raises(PlanError, match="too much for a table"):
        ShrinkingWindow.of(TickRuns.always(1))
    with pytest.raises(PlanError, match="7 bits"):
        ShrinkingWindow.of(TickRuns.never(1, keyed=False), fingerprint_bits=7)


def test_arrays_of_arrow_which_nothing_may_write_are_taken() -> None:
    times, keys = np.arange(500) * 7, np.arange(500) % 3
    times.flags.writeable = keys.flags.writeable = False
    for given in (None, keys):
        runs = TickRuns.of(times, 0, 3, tick=1, keys=given)
        assert runs.holds(times, given).all()
        assert ShrinkingWindow.of(runs).shrink(runs).holds(times, given).all()


def test_keys_are_asked_where_they_are_held() -> None:
    runs = TickRuns.of(np.array([1]), 0, 0, tick=1)
    for each in (runs, ShrinkingWindow.of(runs)):
        with pytest.raises(PlanError, match="asked with keys"):
            each.holds(np.array([1]), np.array([1]))
    with pytest.raises(PlanError, match="cannot be joined"):
        unite([runs, TickRuns.of(np.array([1]), 0, 0, tick=2)])
    with pytest.raises(PlanError, match="not one list"):
        TickRuns.never(1, keyed=True).intervals()


# ---- Theorem 1


UNIT = 1_000  # of time, so that ticks of 5 count as continuous


def measure_share(
    rate: float, role: MatchPart, events: int, fingerprint_bits: int = 12
) -> tuple[float, float]:
    """Return the share of all time that a table of windows of 100 covers by mistake, and its load.

    Windows that share an entry count apart.
    """
    rng = np.random.default_rng(1)
    times = (np.cumsum(rng.exponential(1 / rate, events)) * UNIT).astype(np.int64)
    reach, tick = reach_of(role, 100 * UNIT), tick_of(100 * UNIT, 32 - fingerprint_bits)
    exact = TickRuns.of(times, *reach, tick=1)
    table = ShrinkingWindow.of(TickRuns.of(times, *reach, tick=tick), fingerprint_bits=fingerprint_bits)
    asked = np.sort(rng.integers(times[0], times[-1], 1_500_000))
    inside, taken = exact.holds(asked), table.holds(asked)
    assert taken[inside].all()
    count = entries_of(TickRuns.of(times, *reach, tick=tick), table.tag_bits)
    return float((taken & ~inside).mean()), count / len(table.entries)


@pytest.mark.parametrize("rate", [0.001, 0.005, 0.01, 0.02, 0.04])
def test_the_share_of_false_time_is_that_of_theorem_1(rate: float) -> None:
    measured, load = measure_share(rate, MatchPart.FIRST, 40_000 if rate < 0.02 else 300_000)
    assert measured == pytest.approx(expect_time_share(rate, 100, load, MatchPart.FIRST), rel=0.05)
    bound = limit_time_share(rate, 100, load, MatchPart.FIRST)
    assert bound * 0.85 < measured < bound * 1.05
    assert measured == pytest.approx(bound, rel=0.1) or rate == 0.04  # there gaps are as short as ticks


@pytest.mark.parametrize(("rate", "bits"), [(0.001, 8), (0.001, 12), (0.005, 8), (0.01, 10), (0.02, 12)])
def test_around_a_middle_variable_more_is_covered_than_eq_5_prints(rate: float, bits: int) -> None:
    """Eq. 5 has 1 − κ for both cases; with few bits in fingerprints the difference shows."""
    measured, load = measure_share(rate, MatchPart.BETWEEN, 40_000 if rate < 0.02 else 300_000, bits)
    assert measured == pytest.approx(expect_time_share(rate, 100, load, MatchPart.BETWEEN, bits), rel=0.07)
    if bits == 8:
        assert limit_time_share(rate, 100, load, MatchPart.BETWEEN, bits) < measured
