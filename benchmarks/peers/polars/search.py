"""Counts the matches of a query with Polars, once for each line on standard input.

Arguments: the query's name, the Parquet file, and "memory" or "file"; or "filtered", which only reads the
rows that a variable of the query can be, with the columns that it needs, as an Arrow table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter, process_time

import polars as pl

DAY_US, MINUTE_US = 86_400_000_000, 60_000_000


def q1(events: pl.LazyFrame) -> pl.LazyFrame:
    """The first GOOG after an MSFT does not depend on prices before; all that follows does.

    Bars of one minute come in the order of their tickers, GOOG before MSFT; no window leaves a day.
    """
    at = pl.col("date").dt.epoch("us").alias("at")
    pair = events.filter(pl.col("ticker").is_in(["MSFT", "GOOG"])).select("ticker", "open", at)
    msft, goog = (pair.filter(pl.col("ticker") == name).drop("ticker") for name in ("MSFT", "GOOG"))
    one = msft.filter(pl.col("open").is_between(326, 334)).rename({"at": "at1", "open": "open1"})
    second = goog.filter(pl.col("open").is_between(120, 130)).rename({"at": "at2", "open": "open2"})
    two = _next(one, second, "at1", "at2")
    three = (
        _same_day(two, msft)
        .filter(_in_time(pl.col("at") >= pl.col("at2")) & (pl.col("open") >= pl.col("open1") * 1.003))
        .group_by("at1", "open2")
        .agg(at3=pl.col("at").min())
    )
    four = _same_day(three, goog).filter(
        _in_time(pl.col("at") > pl.col("at3")) & (pl.col("open") <= pl.col("open2") * 0.997)
    )
    return four.select(pl.col("at1").n_unique())


def crimes(events: pl.LazyFrame) -> pl.LazyFrame:
    """Reports of one minute are ordered by id: `place` orders all."""
    minute = pl.col("date").dt.epoch("us") // MINUTE_US
    kinds = ["ROBBERY", "BATTERY", "MOTOR VEHICLE THEFT"]
    reports = (
        events.filter(pl.col("primary_type").is_in(kinds))
        .select("primary_type", "district", minute=minute, place=minute * 2**32 + pl.col("id"))
        .sort("place")
    )
    a, b, c = (
        reports.filter(pl.col("primary_type") == kind).select(
            "district", pl.col("place").alias(f"place{number}"), pl.col("minute").alias(f"minute{number}")
        )
        for number, kind in enumerate(kinds, 1)
    )
    two = _next(a, b, "place1", "place2", "district").filter(pl.col("minute2") <= pl.col("minute1") + 30)
    three = _next(two.sort("place2"), c, "place2", "place3", "district")
    return three.filter(pl.col("minute3") <= pl.col("minute1") + 30).select(pl.len())


def synthetic(events: pl.LazyFrame) -> pl.LazyFrame:
    """Each next event of a type, whatever came before."""
    at = pl.col("ts").dt.epoch("us")
    few = events.filter(pl.col("type").is_in(["E1", "E2", "E3"]) & (pl.col("a1") < 200)).select("type", at=at)
    a, b, c = (few.filter(pl.col("type") == f"E{n}").select(pl.col("at").alias(f"at{n}")) for n in (1, 2, 3))
    three = _next(_next(a, b, "at1", "at2"), c, "at2", "at3")
    return three.filter(pl.col("at3") <= pl.col("at1") + 1_000_000).select(pl.len())


def _next(
    left: pl.LazyFrame, right: pl.LazyFrame, before: str, after: str, by: str | None = None
) -> pl.LazyFrame:
    """Join each row with the next of others, where there is one. Both are sorted."""
    return left.join_asof(
        right, left_on=before, right_on=after, by=by, strategy="forward", allow_exact_matches=False,
        coalesce=False, check_sortedness=False,
    ).filter(pl.col(after).is_not_null())  # fmt: skip


def _same_day(left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
    return left.with_columns(day=pl.col("at1") // DAY_US).join(
        right.with_columns(day=pl.col("at") // DAY_US), on="day"
    )


def _in_time(after: pl.Expr) -> pl.Expr:
    return after & (pl.col("at") <= pl.col("at1") + 12 * MINUTE_US)


QUERIES = {"q1": q1, "crimes": crimes, "synthetic": synthetic}
ANY = pl.lit(True)
REPORTS = pl.col("primary_type").is_in(["ROBBERY", "BATTERY", "MOTOR VEHICLE THEFT"])
READS = {  # which rows a variable can be, and the columns that matching needs; then those of the suite `rows`
    "q1": (pl.col("ticker").is_in(["MSFT", "GOOG"]), ["date", "ticker", "open"]),
    "crimes": (REPORTS, ["date", "primary_type", "district", "id"]),
    "vshape": (ANY, ["date", "ticker", "close"]),
    "synthetic": (pl.col("type").is_in(["E1", "E2", "E3"]) & (pl.col("a1") < 200), ["ts", "type", "a1"]),
    "v_shape": (ANY, ["date", "ticker", "close"]),
    "funnel": (ANY, ["t", "user", "step"]),
    "crimes_P1": (ANY, ["date", "id", "primary_type"]),
    "citibike_P1": (
        ANY,
        ["started_at", "ride_id", "rideable_type", "start_station", "end_station", "member_casual"],
    ),
    "skipping": (REPORTS, ["date", "id", "primary_type", "district"]),
}


def read_filtered(name: str, path: str) -> dict[str, int]:
    """Read the rows that a variable can be."""
    wanted, columns = READS[name]
    return {"rows": pl.scan_parquet(path).filter(wanted).select(columns).collect().to_arrow().num_rows}


def prepare(name: str, path: str, source: str) -> Callable[[], int | dict[str, int]]:
    """Return what counts the matches of a query, in a table in memory or in a file; or reads its rows."""
    if source == "filtered":
        return lambda: read_filtered(name, path)
    held = pl.read_parquet(path).lazy() if source == "memory" else pl.scan_parquet(path)
    return lambda: QUERIES[name](held).collect().item()


def main() -> None:
    call = prepare(*sys.argv[1:])
    for _ in sys.stdin:
        started, before = perf_counter(), process_time()
        matches = call()
        took = {"seconds": perf_counter() - started, "cpu_seconds": process_time() - before}
        print(json.dumps(took | {"matches": matches}), flush=True)


if __name__ == "__main__":
    main()
