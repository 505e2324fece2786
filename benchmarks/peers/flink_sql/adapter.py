"""Flink SQL: MATCH_RECOGNIZE in streaming mode, over a CSV file with a watermark; `Match.java` runs it.

The jars are those of the peer `flink`, in its environment; `python ../flink/adapter.py` makes it, as does a
run whose subject has `install = true`. A JDK, 17 or newer, must be there.

Skip till next match is written as (A X*? B …) where X is what is not B: with an X that is anything, Flink
would also try later Bs. Events that no variable can bind are dropped before, as one would by hand. Flink's
window is exclusive and ours inclusive: it gets one millisecond more. The file is compressed, lightly, so that
Flink does not split it: two readers would put its times out of order, and Flink would drop what comes late.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1]))

import apart  # noqa: E402  it lies beside measure.py
from acer import filtering  # noqa: E402

PEER, MODULE = "flink", "pyflink"
PACKAGE = "apache-flink-libraries>=2.2,<3"
OPENS = ("java.util", "java.lang", "java.time")

timed = True

Range = tuple[str, int, int]  # a ticker, and between what its price is


class Query(NamedTuple):
    """A query of the suites `spark`, `rows`, `stream` and `acer`.

    Attributes:
        columns: those that it reads, with their types in Flink and their names in the table there.
        where: which events a variable may bind.
        order: what MATCH_RECOGNIZE partitions and orders by.
        pattern: variables, with what is skipped between them, and the window.
        define: what each of them is.
        skip: where the search goes on after a match.
    """

    columns: dict[str, tuple[str, str]]
    where: str
    order: str
    pattern: str
    define: str
    skip: str = "TO NEXT ROW"


def _rise_and_fall(one: Range, other: Range, factors: tuple[str, str], minutes: int) -> Query:
    """Return a query of the shape of Q_1 in 000: one share rises, then another falls."""
    second = f"{{v}}.kind = '{other[0]}' AND {{v}}.price BETWEEN {other[1]} AND {other[2]}"
    third = f"{{v}}.kind = '{one[0]}' AND {{v}}.price >= A.price * {factors[0]}E0"
    fourth = f"{{v}}.kind = '{other[0]}' AND {{v}}.price <= B.price * {factors[1]}E0"
    return Query(
        {"ticker": ("kind", "STRING"), "open": ("price", "DOUBLE")},
        f"kind IN ('{one[0]}', '{other[0]}')",
        "ORDER BY ts, kind",
        f"(A X*? B Y*? C Z*? D) WITHIN INTERVAL '{minutes}:00.001' MINUTE TO SECOND",
        f"A AS A.kind = '{one[0]}' AND A.price BETWEEN {one[1]} AND {one[2]}, "
        f"X AS NOT ({second.format(v='X')}), B AS {second.format(v='B')}, "
        f"Y AS NOT ({third.format(v='Y')}), C AS {third.format(v='C')}, "
        f"Z AS NOT ({fourth.format(v='Z')}), D AS {fourth.format(v='D')}",
    )


QUERIES = {
    "q1": _rise_and_fall(("MSFT", 326, 334), ("GOOG", 120, 130), ("1.003", "0.997"), 12),
    "q2": _rise_and_fall(("NVDA", 403, 423), ("INTC", 23, 43), ("1.007", "0.993"), 15),
    "q3": _rise_and_fall(("AMZN", 100, 120), ("BABA", 90, 110), ("1.007", "0.993"), 15),
    "crimes": Query(
        {"primary_type": ("kind", "STRING"), "district": ("district", "INT"), "id": ("id", "BIGINT")},
        "kind IN ('ROBBERY', 'BATTERY', 'MOTOR VEHICLE THEFT')",
        "PARTITION BY district ORDER BY ts, id",
        "(A X*? B Y*? C) WITHIN INTERVAL '30:00.001' MINUTE TO SECOND",
        "A AS A.kind = 'ROBBERY', X AS X.kind <> 'BATTERY', B AS B.kind = 'BATTERY', "
        "Y AS Y.kind <> 'MOTOR VEHICLE THEFT', C AS C.kind = 'MOTOR VEHICLE THEFT'",
    ),
    "synthetic": Query(
        {"type": ("kind", "STRING"), "a1": ("a1", "INT")},
        "kind IN ('E1', 'E2', 'E3') AND a1 < 200",
        "ORDER BY ts",
        "(A X*? B Y*? C) WITHIN INTERVAL '1.001' SECOND",
        "A AS A.kind = 'E1', X AS X.kind <> 'E2', B AS B.kind = 'E2', "
        "Y AS Y.kind <> 'E3', C AS C.kind = 'E3'",
    ),
    "v_shape": Query(
        {"ticker": ("ticker", "STRING"), "close": ("price", "DOUBLE")},
        "TRUE",
        "PARTITION BY ticker ORDER BY ts",
        "(A D+ U)",
        "D AS D.price < A.price AND (LAST(D.price, 1) IS NULL OR D.price < LAST(D.price, 1)), "
        "U AS U.price > LAST(D.price)",
        "TO LAST U",
    ),
    "rise": Query(
        {"ticker": ("ticker", "STRING"), "close": ("price", "DOUBLE")},
        "TRUE",
        "PARTITION BY ticker ORDER BY ts",
        "(A X*? B) WITHIN INTERVAL '5:00.001' MINUTE TO SECOND",
        "X AS NOT (X.price > A.price * 1.003E0), B AS B.price > A.price * 1.003E0",
    ),
    "funnel": Query(
        {"user": ("uid", "INT"), "step": ("step", "STRING")},
        "step NOT IN ('search', 'help')",
        "PARTITION BY uid ORDER BY ts",
        "(A W*? B X*? C Y*? D Z*? E) WITHIN INTERVAL '7 00:00:00.001' DAY TO SECOND",
        "A AS A.step = 'visit', W AS W.step <> 'product', B AS B.step = 'product', "
        "X AS X.step <> 'cart', C AS C.step = 'cart', Y AS Y.step <> 'checkout', D AS D.step = 'checkout', "
        "Z AS Z.step <> 'purchase', E AS E.step = 'purchase'",
    ),
    "crimes_P1": Query(
        {"primary_type": ("kind", "STRING"), "id": ("id", "BIGINT")},
        "TRUE",
        "ORDER BY ts, id",
        "(A B C) WITHIN INTERVAL '30:00.001' MINUTE TO SECOND",
        "A AS A.kind = 'ROBBERY', B AS B.kind = 'BATTERY', C AS C.kind = 'MOTOR VEHICLE THEFT'",
    ),
    "citibike_P1": Query(
        {
            "ride_id": ("id", "BIGINT"),
            "rideable_type": ("bike", "STRING"),
            "start_station": ("origin", "INT"),
            "end_station": ("goal", "INT"),
            "member_casual": ("rider", "STRING"),
        },
        "TRUE",
        "ORDER BY ts, id",
        "(A B C) WITHIN INTERVAL '5:00.001' MINUTE TO SECOND",
        "A AS A.bike = 'electric_bike', B AS B.origin = A.goal, C AS C.rider = 'casual'",
    ),
    "skipping": Query(  # here later Bs must be tried: X and Y are anything
        {"primary_type": ("kind", "STRING"), "district": ("district", "INT"), "id": ("id", "BIGINT")},
        "kind IN ('ROBBERY', 'BATTERY', 'MOTOR VEHICLE THEFT')",
        "ORDER BY ts, id",
        "(A X*? B Y*? C) WITHIN INTERVAL '30:00.001' MINUTE TO SECOND",
        "A AS A.kind = 'ROBBERY', B AS B.kind = 'BATTERY', "
        "C AS C.kind = 'MOTOR VEHICLE THEFT' AND C.district = B.district",
    ),
}


def why_not(work: dict[str, Any]) -> str | None:
    """Say what is missing to run Flink here."""
    if shutil.which("javac") is None:
        return "there is no javac: install a JDK, 17 or newer"
    return apart.why_not(PEER, work, MODULE)


def prepare(work: dict[str, Any]) -> Callable[[], tuple[float, float | None, int]]:
    """Write the events as CSV, start a JVM, and return what asks it for one more job.

    With the option `before` = "types" or "acer" only some events are written (000 Fig. 12): to find and to
    write them is a part of each call.
    """
    install()
    folder = tempfile.TemporaryDirectory(prefix="cerise-flink-")
    query, path = QUERIES[work["query"]["name"]], Path(folder.name, "events.csv.gz")
    events = filtering.before(work) if "before" in work["options"] else None
    if events is None:
        _write_events(pq.read_table(work["path"]), work, query, path)
    opens = (f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS)
    options = work["options"]
    ask = apart.ask(
        [
            "java", f"-Xmx{options.get('memory', '3g')}", *opens, "-cp", _classpath(), "Match",
            options.get("parallelism", 2), _table(query, path), _select(query),
        ]
    )  # fmt: skip

    def call(_keep: Any = folder) -> tuple[float, float | None, int]:
        started = perf_counter()
        if events is not None:
            _write_events(events(), work, query, path)
        filtered = perf_counter() - started
        seconds, busy, matches = ask()
        return filtered + seconds, busy, matches

    return call


def found(matches: int) -> tuple[str, int]:
    """Return the number of matches."""
    return "count", matches


def versions() -> dict[str, str]:
    """Return the versions of Flink, from the name of a jar, and of Java."""
    flink = re.search(r"flink-dist-([\d.]+)\.jar", " ".join(map(str, _jars())))
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return {"flink": flink[1] if flink else "?", "java": java.split('"')[1]}


def install() -> None:
    """Make the environment and compile, where that has not been done."""
    apart.install(PEER, "--no-deps", PACKAGE, module=MODULE)
    source, compiled = HERE / "Match.java", _classes() / "Match.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["javac", "-cp", _classpath(), "-d", compiled.parent, source], check=True)


def _classes() -> Path:
    return apart.home(PEER) / "classes"


def _jars() -> list[Path]:
    return sorted(apart.home(PEER).glob("lib/python*/site-packages/pyflink/lib/*.jar"))


def _classpath() -> str:
    return ":".join(map(str, (_classes(), *_jars())))


def _write_events(events: Any, work: dict[str, Any], query: Query, path: Path) -> None:
    """Write the columns of a query, then the time in milliseconds."""
    time = work["query"]["time"]
    table = events.select([*query.columns, time])
    times = table[time].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    table = table.drop_columns([time]).append_column("ms", times)
    with gzip.open(path, "wb", compresslevel=1) as sink:
        csv.write_csv(table, sink, csv.WriteOptions(include_header=False))


def _table(query: Query, path: Path) -> str:
    columns = ", ".join(f"{name} {kind}" for name, kind in query.columns.values())
    return (
        f"CREATE TABLE events ({columns}, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), "
        "WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND) "  # events of equal time may follow
        f"WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')"
    )


def _select(query: Query) -> str:
    last = re.findall(r"[A-Z](?=\))", query.pattern)[0]
    return (
        f"SELECT began FROM (SELECT * FROM events WHERE {query.where}) "
        f"MATCH_RECOGNIZE ({query.order} MEASURES A.ms AS began, {last}.ms AS ended ONE ROW PER MATCH "
        f"AFTER MATCH SKIP {query.skip} PATTERN {query.pattern} DEFINE {query.define})"
    )


if __name__ == "__main__":
    if (reason := why_not({"options": {"install": True}})) is not None:
        sys.exit(reason)
    install()
