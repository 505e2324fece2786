"""The generated data sets: repeatable, of the promised shape, and written whole or not at all."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cerise.data import GENERATORS, acer_synthetic, cluster, credit_cards, nasdaq, stock, table, write
from cerise.data.draws import DRAW
from cerise.data.generators import SCHEMAS
from cerise.data.ticks import describe_tickers
from cerise.errors import CeriseError, StoreError

NAMES = sorted(GENERATORS)
TIME = {
    "stock": "ts", "nasdaq": "date", "crimes": "date", "acer_synthetic": "ts", "citibike": "started_at",
    "funnel": "t", "credit_cards": "ts", "cluster": "ts", "ticks": "t", "dfs_synthetic": "ts",
}  # fmt: skip


def column(events: pa.Table, name: str) -> np.ndarray:
    kind = events.schema.field(name).type
    return (
        events[name].cast(pa.int64()).to_numpy() if pa.types.is_timestamp(kind) else events[name].to_numpy()
    )


# what every data set promises


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_names_one_stream(name: str) -> None:
    assert table(name, 3_000, seed=7).equals(table(name, 3_000, seed=7))
    assert not table(name, 3_000, seed=7).equals(table(name, 3_000, seed=8))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [999, DRAW, DRAW + 1, 1_000_000])
def test_the_batch_size_changes_no_event(name: str, batch: int) -> None:
    events = 2 * DRAW + 17
    batches = list(GENERATORS[name](events, batch=batch, seed=3))
    assert [each.num_rows for each in batches[:-1]] == [batch] * (len(batches) - 1)
    assert pa.Table.from_batches(batches).equals(table(name, events, seed=3))


def test_batches_of_one_event() -> None:
    assert pa.Table.from_batches(stock(50, batch=1)).equals(table("stock", 50))


@pytest.mark.parametrize("name", NAMES)
def test_a_short_stream_is_the_start_of_a_long_one(name: str) -> None:
    assert table(name, 1_234).equals(table(name, 2 * DRAW).slice(0, 1_234))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("events", [0, 1, 2, DRAW - 1, DRAW, DRAW + 1])
def test_the_number_of_events_is_exact(name: str, events: int) -> None:
    made = table(name, events)
    assert made.num_rows == events
    assert made.schema == SCHEMAS[name]
    assert sum(each.null_count for each in made.columns) == 0


@pytest.mark.parametrize("name", NAMES)
def test_times_never_go_back(name: str) -> None:
    assert (np.diff(column(table(name, 3 * DRAW), TIME[name])) >= 0).all()


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("stok", {}, "did you mean 'stock'?"),
        ("stock", {"symbol": 3}, "did you mean 'symbols'?"),
        ("crimes", {"tickers": 3}, "known: batch, start"),
        ("stock", {"events": -1}, "0 or more"),
        ("stock", {"events": 1.5}, "whole number"),
        ("stock", {"seed": -1}, "0 or more"),
        ("crimes", {"batch": 0}, "1 or more"),
        ("stock", {"symbols": 0}, "1 or more"),
        ("stock", {"p": 0.2}, "from 0.4 to 1"),
        ("nasdaq", {"tickers": 10_001}, "at most 10,000"),
        ("acer_synthetic", {"types": 0}, "1 or more"),
        ("dfs_synthetic", {"gaps": "rayleih"}, "rayleigh"),
        ("credit_cards", {"cards": 0}, "1 or more"),
        ("cluster", {"tasks": 0}, "1 or more"),
    ],
)
def test_bad_arguments_say_what_to_do(name: str, arguments: dict[str, object], hint: str) -> None:
    with pytest.raises(CeriseError, match="hint: ") as error:
        table(name, **{"events": 10, **arguments})
    assert hint in str(error.value)


# stock


def test_stock_has_the_distributions_of_the_paper() -> None:
    events = table("stock", 200_000, seed=1)
    symbol, volume = column(events, "symbol"), column(events, "volume")
    assert set(events["type"].to_pylist()) == {"STOCK"}
    assert np.bincount(symbol)[1:] / len(symbol) == pytest.approx([0.5, 0.5], abs=0.01)
    assert (volume.min(), volume.max()) == (1, 1000)
    assert (volume < 150).mean() == pytest.approx(0.149, abs=0.005)
    assert column(events, "ts").tolist() == list(range(1, 200_001))


@pytest.mark.parametrize("p", [0.7, 0.55, 0.4, 1.0])
@pytest.mark.parametrize("symbols", [1, 2, 300])
def test_stock_prices_walk(p: float, symbols: int) -> None:
    events = table("stock", 3 * DRAW, p=p, symbols=symbols)
    symbol, price = column(events, "symbol"), column(events, "price")
    steps = np.concatenate([np.diff(price[symbol == each]) for each in range(1, symbols + 1)])
    assert price.min() >= 1
    assert price.max() <= 1000
    assert set(np.unique(steps).tolist()) <= {-1, 0, 1, -499}  # -499: 1000 splits into 500
    shares = [(steps > 0).mean(), (steps == 0).mean()]
    assert shares == pytest.approx([p, (1 - p) / 2], abs=0.01)


def test_only_a_price_that_would_reach_1000_splits() -> None:
    events = table("stock", 2 * DRAW, symbols=3)
    for each in (1, 2, 3):
        price = column(events, "price")[column(events, "symbol") == each].tolist()
        assert any(before == 999 and after == 500 for before, after in pairwise(price))
        for before, after in pairwise(price):
            assert after - before in (-1, 0, 1) or (before, after) == (999, 500)


def test_stock_starts_when_told() -> None:
    assert table("stock", 3, start=-5)["ts"].to_pylist() == [-5, -4, -3]


def profile(events: pa.Table, query: str, window: int = 500) -> tuple[float, float]:
    """Return the mean match length and the runs per time step of a query of [SASE08 §6], in plain Python."""
    lengths, alive = [], 0
    for symbol in (1, 2):
        own = events.filter(pc.equal(events["symbol"], symbol))
        price, volume, ts = (own[each].to_pylist() for each in ("price", "volume", "ts"))
        for first in (at for at, value in enumerate(price) if value % 500 == 0):
            last, taken = price[first], 1
            end = min(first + window, len(price)) - 1
            for at in range(first + 1, end + 1):
                if volume[at] < 150:
                    lengths.append(taken + 1)
                if query.startswith("p1") or price[at] > last:
                    last, taken = price[at], taken + 1
                elif query.endswith("s2"):
                    end = at
                    break
            alive += ts[end] - ts[first]
    return sum(lengths) / len(lengths), alive / len(events)


@pytest.mark.parametrize(
    ("query", "length", "runs"), [("p1s2", 250, 2), ("p1s3", 250, 2), ("p2s2", 4.5, None), ("p2s3", 140, 2)]
)
def test_stock_reproduces_table_2_of_004(query: str, length: float, runs: float | None) -> None:
    mean_length, mean_runs = profile(table("stock", 400_000), query)  # the paper: 200 windows of each symbol
    assert mean_length == pytest.approx(length, rel=0.15)
    if runs is None:
        assert 0.005 < mean_runs < 0.015  # printed as 0.01
    else:
        assert mean_runs == pytest.approx(runs, rel=0.15)


# nasdaq


@pytest.fixture(scope="module")
def bars() -> pa.Table:
    return table("nasdaq", 800_000)


def test_bars_are_bars(bars: pa.Table) -> None:
    first, high, low, last = (column(bars, each) for each in ("open", "high", "low", "close"))
    assert (low <= np.minimum(first, last)).all()
    assert (high >= np.maximum(first, last)).all()
    assert low.min() > 0
    assert column(bars, "volume").min() >= 1
    for price in (first, high, low, last):
        assert (np.round(price, 2) == price).all()


def test_bars_lie_in_trading_hours(bars: pa.Table) -> None:
    minutes = column(bars, "date") // 60_000_000
    assert (column(bars, "date") % 60_000_000 == 0).all()
    assert (minutes % 1440).min() == 9 * 60 + 30
    assert (minutes % 1440).max() == 15 * 60 + 59
    assert set(pc.day_of_week(bars["date"]).to_pylist()) == {0, 1, 2, 3, 4}


def test_a_ticker_has_at_most_one_bar_a_minute_and_minutes_are_shared(bars: pa.Table) -> None:
    minutes = bars.group_by(["date", "ticker"]).aggregate([([], "count_all")])
    assert minutes.num_rows == bars.num_rows
    assert bars.num_rows / pc.count_distinct(bars["date"]).as_py() == pytest.approx(196, rel=0.05)


def test_activity_is_skewed(bars: pa.Table) -> None:
    counts = np.sort(bars.group_by("ticker").aggregate([([], "count_all")])["count_all"].to_numpy())[::-1]
    assert len(counts) == 2000
    assert counts[0] == counts[39]  # in every minute
    assert counts[0] / counts[399] == pytest.approx(10, rel=0.2)
    assert counts[0] / counts[1999] > 40


def test_the_tickers_of_the_papers_queries_stay_near_their_prices(bars: pa.Table) -> None:
    around = {"MSFT": 330, "GOOG": 125, "NVDA": 413, "INTC": 33, "AMZN": 110, "BABA": 100}
    for ticker, price in around.items():
        opens = column(bars.filter(pc.equal(bars["ticker"], ticker)), "open")
        assert opens.mean() == pytest.approx(price, rel=0.04)
        assert 0.005 < opens.std() / price < 0.06


@pytest.mark.parametrize(
    ("rises", "falls", "low", "high", "change", "minutes"),
    [
        ("MSFT", "GOOG", (326, 120), (334, 130), 0.003, 12),
        ("NVDA", "INTC", (403, 23), (423, 43), 0.007, 15),
        ("AMZN", "BABA", (100, 90), (120, 110), 0.007, 15),
    ],
)
def test_the_queries_of_000_find_something(
    bars: pa.Table,
    rises: str,
    falls: str,
    low: tuple[int, int],
    high: tuple[int, int],
    change: float,
    minutes: int,
) -> None:
    pair = bars.filter(pc.is_in(bars["ticker"], pa.array([rises, falls])))
    rows = list(zip(pair["ticker"].to_pylist(), pair["open"].to_pylist(), column(pair, "date"), strict=True))
    matches = 0
    for at, (ticker, price, start) in enumerate(rows):
        if ticker != rises or not low[0] <= price <= high[0]:
            continue
        state, second = 2, 0.0
        for other, value, when in rows[at + 1 :]:
            if when - start > minutes * 60_000_000:
                break
            if state == 2 and other == falls and low[1] <= value <= high[1]:
                state, second = 3, value
            elif state == 3 and other == rises and value >= price * (1 + change):
                state = 4
            elif state == 4 and other == falls and value <= second * (1 - change):
                matches += 1
                break
    assert 0 < matches < len(rows) / 10


def test_few_tickers_and_another_day() -> None:
    made = pa.Table.from_batches(nasdaq(2_000, tickers=3, start=dt.date(2024, 3, 2)))  # a Saturday
    assert set(made["ticker"].to_pylist()) == {"AAPL", "MSFT", "NVDA"}
    assert made["date"][0].as_py() == dt.datetime(2024, 3, 4, 9, 30, tzinfo=dt.UTC)


def test_many_tickers_have_distinct_names() -> None:
    first = table("nasdaq", 300_000, tickers=10_000)
    assert pc.count_distinct(first["ticker"]).as_py() > 2_000
    assert pc.max(pc.utf8_length(first["ticker"])).as_py() <= 5


# crimes


@pytest.fixture(scope="module")
def reports() -> pa.Table:
    return table("crimes", 400_000)


def test_types_are_skewed_as_in_chicago(reports: pa.Table) -> None:
    counts = reports["primary_type"].value_counts().to_pylist()
    shares = {each["values"]: each["counts"] / len(reports) for each in counts}
    assert len(shares) == 31
    assert shares["THEFT"] == pytest.approx(0.212, abs=0.005)
    assert shares["BATTERY"] == pytest.approx(0.183, abs=0.005)
    assert shares["MOTOR VEHICLE THEFT"] == pytest.approx(0.049, abs=0.002)
    assert shares["ROBBERY"] == pytest.approx(0.038, abs=0.002)
    assert min(shares.values()) < 0.0001


def test_reports_come_every_90_seconds_with_ties(reports: pa.Table) -> None:
    times = column(reports, "date")
    assert (times[-1] - times[0]) / len(times) / 1e6 == pytest.approx(90, rel=0.02)
    assert (times % 60_000_000 == 0).all()
    alone = np.unique(times, return_counts=True)[1] == 1
    assert 1 - alone.sum() / len(times) == pytest.approx(0.49, abs=0.02)
    assert times[0] // 86_400_000_000 == (dt.date(2001, 1, 1) - dt.date(1970, 1, 1)).days


def test_ids_are_unique_and_nearly_in_order(reports: pa.Table) -> None:
    ids = column(reports, "id")
    assert len(np.unique(ids)) == len(ids)
    assert (np.diff(ids) < 0).any()
    assert np.abs(ids - ids[0] - np.arange(len(ids))).max() < 200


def test_places_belong_together(reports: pa.Table) -> None:
    district, beat = column(reports, "district"), column(reports, "beat")
    assert set(district.tolist()) == set(range(1, 26))
    assert (beat // 100 == district).all()
    assert len(np.unique(beat)) == 25 * 12
    counts = np.sort(np.bincount(district)[1:])
    assert counts[-1] / counts[0] == pytest.approx(3, rel=0.1)
    latitude, longitude = column(reports, "latitude"), column(reports, "longitude")
    assert 41.5 < latitude.min() < latitude.max() < 42.2
    assert -88 < longitude.min() < longitude.max() < -87.4
    for each in (1, 13, 25):
        assert latitude[district == each].std() == pytest.approx(0.012, rel=0.1)


# acer_synthetic


def test_synthetic_events_have_the_distributions_of_the_paper() -> None:
    events = table("acer_synthetic", 200_000, seed=1)
    counts = events["type"].value_counts().to_pylist()
    shares = {each["values"]: each["counts"] / len(events) for each in counts}
    assert len(shares) == 50
    law = np.arange(1, 51) ** -1.3
    for rank, share in enumerate(law / law.sum(), 1):
        assert shares[f"E{rank}"] == pytest.approx(share, abs=0.005)
    for name in ("a1", "a2", "a3", "a4"):
        values = column(events, name)
        assert (values.min(), values.max()) == pytest.approx((0, 1000), abs=0.05)
        assert (values < 200).mean() == pytest.approx(0.2, abs=0.005)
        assert (np.round(values, 2) == values).all()
    assert abs(np.corrcoef([column(events, name) for name in ("a1", "a2", "a3", "a4")])[0, 1:]).max() < 0.01


def test_synthetic_events_come_every_millisecond() -> None:
    events = table("acer_synthetic", 3 * DRAW)
    assert set(np.diff(column(events, "ts")).tolist()) == {1_000}
    assert events["ts"][0].as_py() == dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def test_few_types_and_another_day_of_synthetic_events() -> None:
    made = pa.Table.from_batches(acer_synthetic(2_000, types=3, start=dt.date(2025, 5, 1)))
    assert set(made["type"].to_pylist()) == {"E1", "E2", "E3"}
    assert made["ts"][1_999].as_py() == dt.datetime(2025, 5, 1, 0, 0, 1, 999_000, dt.UTC)


# dfs_synthetic


@pytest.mark.parametrize("gaps", ["exponential", "uniform", "gaussian", "rayleigh"])
def test_events_of_001_come_each_second_on_average(gaps: str) -> None:
    events = table("dfs_synthetic", 2 * DRAW, seed=1, gaps=gaps)
    between = np.diff(column(events, "ts")) / 1e6
    assert between.mean() == pytest.approx(1.0, rel=0.02)
    deviation = {"exponential": 1.0, "uniform": 3**-0.5, "gaussian": 0.3, "rayleigh": (4 / np.pi - 1) ** 0.5}
    assert between.std() == pytest.approx(deviation[gaps], rel=0.02)


def test_values_of_001_follow_zipf() -> None:
    events = table("dfs_synthetic", 3 * DRAW)
    for name, many, exponent in (("type", 20, 1.2), ("a2", 50, 0.255), ("a3", 50, 0.7)):
        counts = dict(events[name].value_counts().to_pylist()[at].values() for at in range(many))
        shares = [counts[each] / len(events) for each in sorted(counts)]
        law = np.arange(1, many + 1) ** -exponent
        assert shares == pytest.approx(law / law.sum(), abs=0.005)
    assert {len(each) for each in events["a2"].unique().to_pylist()} == {8}
    assert {len(each) for each in events["a3"].unique().to_pylist()} == {16}


def test_shuffled_rows_are_the_same_events() -> None:
    calm, shuffled = (table("dfs_synthetic", 2 * DRAW, shuffled=each) for each in (False, True))
    assert not shuffled.equals(calm)
    assert shuffled.slice(DRAW).sort_by("ts").equals(calm.slice(DRAW))


# credit_cards


@pytest.fixture(scope="module")
def payments() -> pa.Table:
    return table("credit_cards", 400_000)


def test_payments_come_every_second_with_ties(payments: pa.Table) -> None:
    times = column(payments, "ts")
    assert (times % 1_000_000 == 0).all()
    assert (times[-1] - times[0]) / len(times) / 1e6 == pytest.approx(1, rel=0.02)
    assert len(np.unique(times)) / len(times) < 0.7
    assert payments["ts"][0].as_py().date() == dt.date(2024, 1, 1)


def test_amounts_are_usual_small_or_large(payments: pa.Table) -> None:
    amount = column(payments, "amount")
    assert (np.round(amount, 2) == amount).all()
    assert (amount <= 5).mean() == pytest.approx(0.7 * 0.037 + 0.296, abs=0.01)
    assert (amount >= 500).mean() == pytest.approx(0.7 * 0.0025 + 0.013, abs=0.001)
    assert (amount >= 5_000).sum() / (amount >= 500).sum() == pytest.approx(0.02, abs=0.005)


def test_small_payments_precede_a_large_one(payments: pa.Table) -> None:
    rows = payments.sort_by([("card", "ascending"), ("ts", "ascending")])
    card, amount, times = (column(rows, name) for name in ("card", "amount", "ts"))
    small = np.concatenate([[0], np.cumsum(amount <= 5)])
    place = card.astype(np.int64) << 40
    seconds = (times - times.min()) // 1_000_000
    large = np.flatnonzero(amount >= 500)
    first = np.searchsorted(place + seconds, place[large] + seconds[large] - 1_800)
    before = small[large] - small[first]  # so many small ones, within half an hour
    assert (before > 0).mean() > 0.85
    assert np.median(before) == 4
    assert before.max() <= 18
    assert (before > 12).mean() > 0.05


def test_few_cards_and_another_day_of_payments() -> None:
    made = pa.Table.from_batches(credit_cards(100_000, cards=7, start=dt.date(2025, 5, 1)))
    assert set(made["card"].to_pylist()) == set(range(1, 8))
    assert made["ts"][0].as_py() < dt.datetime(2025, 5, 1, 0, 1, tzinfo=dt.UTC)


# cluster


@pytest.fixture(scope="module")
def jobs() -> pa.Table:
    return table("cluster", 400_000)


def test_jobs_come_every_few_seconds(jobs: pa.Table) -> None:
    submitted = jobs.filter(pc.equal(jobs["type"], "SUBMIT"))
    times = column(submitted, "ts")
    assert (times[-1] - times[0]) / len(times) / 1e6 == pytest.approx(3.73, rel=0.02)
    assert times[0] // 86_400_000_000 == (dt.date(2011, 5, 1) - dt.date(1970, 1, 1)).days
    ids = column(submitted, "job_id")
    assert (np.diff(ids) > 0).all()
    assert len(str(ids[0])) == len(str(ids[-1])) == 10


def test_tasks_end_as_in_the_trace(jobs: pa.Table) -> None:
    counts = {each["values"]: each["counts"] for each in jobs["type"].value_counts().to_pylist()}
    ends = sum(counts[end] for end in ("FINISH", "KILL", "FAIL", "EVICT"))
    assert counts["SUBMIT"] == pytest.approx(counts["SCHEDULE"], rel=0.001)
    assert counts["SUBMIT"] == pytest.approx(ends, rel=0.01)
    assert counts["KILL"] / ends == pytest.approx(0.407, abs=0.01)
    assert counts["EVICT"] / ends == pytest.approx(0.001, abs=0.0005)


def test_a_task_is_submitted_scheduled_and_ends(jobs: pa.Table) -> None:
    rows = jobs.sort_by([("job_id", "ascending"), ("ts", "ascending")])
    kinds, ids, times = rows["type"].to_pylist(), column(rows, "job_id"), column(rows, "ts")
    first = np.flatnonzero(np.diff(ids, prepend=0))
    whole = first[:-1][np.diff(first) == 3]
    assert len(whole) > 0.99 * len(first)
    assert {(kinds[at], kinds[at + 1]) for at in whole.tolist()} == {("SUBMIT", "SCHEDULE")}
    waits, lasts = times[whole + 1] - times[whole], times[whole + 2] - times[whole]
    assert np.median(waits) == pytest.approx(30_000, rel=0.05)
    assert 0.02 < (lasts < 1_000_000).mean() < 0.12
    for name in ("scheduling_class", "priority", "cpu", "ram", "disk"):
        values = column(rows, name)
        assert (values[whole] == values[whole + 2]).all()


def test_what_jobs_ask_for(jobs: pa.Table) -> None:
    classes = np.bincount(column(jobs, "scheduling_class")) / len(jobs)
    assert classes == pytest.approx([0.38, 0.33, 0.26, 0.03], abs=0.01)
    assert set(column(jobs, "priority").tolist()) == {0, 1, 2, 4, 6, 8, 9, 10}
    for name in ("cpu", "ram", "disk"):
        values = column(jobs, name)
        assert 0 < values.min() <= values.max() < 1
        assert (np.round(values, 4) == values).all()


def test_jobs_with_several_tasks() -> None:
    made = pa.Table.from_batches(cluster(100_000, tasks=4, start=dt.date(2025, 5, 1)))
    submitted = made.filter(pc.equal(made["type"], "SUBMIT"))
    tasks = np.unique(column(submitted, "job_id"), return_counts=True)[1]
    assert set(tasks.tolist()) == set(range(1, 8))
    assert tasks.mean() == pytest.approx(4, abs=0.1)
    assert made["ts"][0].as_py() > dt.datetime(2025, 5, 1, tzinfo=dt.UTC)


# ticks


@pytest.fixture(scope="module")
def updates() -> pa.Table:
    return table("ticks", 400_000)


def test_tickers_update_at_their_rates(updates: pa.Table) -> None:
    known = describe_tickers()
    assert (known.rates[0], known.rates[-1]) == (47, 2)
    times, names = column(updates, "t"), updates["ticker"].to_numpy(zero_copy_only=False)
    assert (np.diff(times) > 0).all()
    quarters = (times[-1] - times[0]) / 900e6
    assert quarters == pytest.approx(len(updates) / known.rates.sum(), rel=0.001)
    for rank in (0, 300, 600, 939):
        own = times[names == known.names[rank]]
        assert len(own) == pytest.approx(quarters * known.rates[rank], abs=2)
        window = np.searchsorted(own, own + 900_000_000, side="right") - np.arange(len(own))
        assert window.max() <= known.rates[rank] + 2


def test_differences_are_of_the_last_two_prices(updates: pa.Table) -> None:
    known = describe_tickers()
    names = updates["ticker"].to_numpy(zero_copy_only=False)
    for rank in (0, 100, 500):
        own = names == known.names[rank]
        price, diff = column(updates, "price")[own], column(updates, "diff")[own]
        assert diff[1:] == pytest.approx(np.diff(price), abs=1e-9)
        assert diff.std() == pytest.approx(known.spreads[rank], rel=0.12)
        assert abs(np.corrcoef(diff[1:], diff[:-1])[0, 1]) < 0.15
    assert column(updates, "price").min() > 0
    assert column(updates, "volume").min() >= 1


def test_few_tickers_are_active_by_zipf() -> None:
    rates = describe_tickers(tickers=2_000, least=0.3, most=15, law="zipf").rates
    assert (rates[:40] == 15).all()
    assert rates[[79, 199, 1_999]].tolist() == [7.5, 3.0, 0.3]
    made = table("ticks", 20_000, tickers=2_000, least=0.3, most=15, law="zipf", start=dt.date(2025, 5, 1))
    assert made["ticker"].to_pylist().count("T1") == pytest.approx(15 * 20_000 / rates.sum(), abs=2)
    assert made["t"][0].as_py().date() == dt.date(2025, 5, 1)


@pytest.mark.parametrize("given", [{"least": 0}, {"least": 5, "most": 4}, {"law": "zpif"}, {"tickers": 0}])
def test_tickers_out_of_range(given: dict[str, object]) -> None:
    with pytest.raises(CeriseError, match="zipf" if "law" in given else None):
        table("ticks", 10, **given)


# write


def python(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    imports = "import os, resource, sys\nfrom cerise.data import GENERATORS, write\n"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", imports + code]
    return subprocess.run(command, cwd=directory, env=env, check=False, capture_output=True, text=True)


def hidden(directory: Path) -> list[Path]:
    return [each for each in directory.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize("name", NAMES)
def test_a_directory_of_parts_in_time_order(name: str, tmp_path: Path) -> None:
    told: list[int] = []
    path = write(
        name, tmp_path / "deep" / "data", 10_001, seed=5, files=3, row_group=2_000, progress=told.append
    )
    parts = sorted(path.iterdir())
    assert [each.name for each in parts] == [f"part-0000{n}.parquet" for n in range(3)]
    assert [pq.ParquetFile(each).num_row_groups for each in parts] == [2, 2, 2]
    assert [pq.ParquetFile(each).metadata.num_rows for each in parts] == [3333, 3334, 3334]
    assert pa.concat_tables(map(pq.read_table, parts)).equals(table(name, 10_001, seed=5))
    assert told == [2_000, 3_333, 5_333, 6_667, 8_667, 10_001]
    assert not hidden(tmp_path / "deep")


def test_one_file(tmp_path: Path) -> None:
    path = write("stock", tmp_path / "ticks.parquet", 1_000, p=0.55, row_group=300)
    assert pq.ParquetFile(path).num_row_groups == 4
    assert pq.read_table(path).equals(table("stock", 1_000, p=0.55))
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("events", [0, 1, 2])
def test_more_files_than_events(events: int, tmp_path: Path) -> None:
    path = write("crimes", tmp_path / "few", events, files=3)
    assert len(list(path.iterdir())) == 3
    assert pq.read_table(path).equals(table("crimes", events))


@pytest.mark.parametrize("target", ["data", "data.parquet"])
def test_what_exists_stays_unless_told(target: str, tmp_path: Path) -> None:
    path = write("stock", tmp_path / target, 100)
    with pytest.raises(StoreError, match="overwrite=True"):
        write("stock", path, 50)
    assert pq.read_table(path).num_rows == 100
    write("stock", path, 50, overwrite=True)
    assert pq.read_table(path).num_rows == 50
    assert sorted(tmp_path.iterdir()) == [path]


def test_an_empty_directory_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert pq.read_table(write("stock", tmp_path / "data", 10)).num_rows == 10


@pytest.mark.parametrize("overwrite", [False, True])
def test_strange_files_are_never_replaced(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("keep me")
    (tmp_path / "file").write_text("keep me")
    (tmp_path / "folder.parquet").mkdir()
    for target in ("letters", "file", "folder.parquet"):
        with pytest.raises(StoreError, match="not a data set of ours"):
            write("stock", tmp_path / target, 10, overwrite=overwrite)
    assert (tmp_path / "letters" / "dear.txt").read_text() == "keep me"


@pytest.mark.parametrize("target", ["data", "data.parquet"])
@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError, ValueError])
def test_a_failed_write_leaves_what_was_there(
    target: str, existed: bool, problem: type[BaseException], tmp_path: Path
) -> None:
    if existed:
        write("stock", tmp_path / target, 10)

    def fail(written: int) -> None:
        if written > 500:
            raise problem("enough")

    with pytest.raises(StoreError if problem is OSError else problem, match="enough"):
        write("stock", tmp_path / target, 1_000, row_group=100, overwrite=True, progress=fail)
    assert [each.name for each in tmp_path.iterdir()] == [target] * existed
    if existed:
        assert pq.read_table(tmp_path / target).num_rows == 10


def test_a_killed_write_leaves_no_data_set(tmp_path: Path) -> None:
    done = python("write('stock', 'data', 10**6, progress=lambda _: os._exit(9))", tmp_path)
    assert done.returncode == 9
    assert not (tmp_path / "data").exists()
    assert all(each.name.startswith(".") for each in tmp_path.iterdir())  # what Spark and Arrow skip


def test_an_unwritable_place_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        write("stock", tmp_path / "file" / "data", 10)


def test_one_file_cannot_be_many(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="directory"):
        write("stock", tmp_path / "a.parquet", 10, files=2)
    with pytest.raises(CeriseError, match="files"):
        write("stock", tmp_path / "a", 10, files=0)


MEASURE = """
unit = 1 if sys.platform == "darwin" else 1024
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
for name in GENERATORS:
    write(name, f"warm-{name}", 10)
before = peak()
write("stock", "a", 3_000_000)
for name in ("nasdaq", "crimes", "acer_synthetic", "credit_cards", "cluster"):
    write(name, name, 600_000)
print(peak() - before)
"""


def test_memory_is_bounded(tmp_path: Path) -> None:
    assert int(python(MEASURE, tmp_path).stdout) < 200_000_000
