"""Flink CEP through its Java API: a JVM that holds the events in memory and runs one job for each call.

The jars are those of PyPI's apache-flink-libraries, the part of apache-flink that is not Python. They are
put into an environment of their own, in benchmarks/.venvs or where CERISE_PEERS_DIR says; `python adapter.py`
makes it, as does a run whose subject has `install = true`. A JDK, 17 or newer, must be there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1]))

from fresh import GaveUp  # noqa: E402  it lies beside measure.py

HOME = Path(os.environ.get("CERISE_PEERS_DIR") or HERE.parents[1] / ".venvs") / "flink"
PACKAGE = "apache-flink-libraries>=2.2,<3"
OPENS = ("java.util", "java.lang", "java.time")
FULL = 3  # the code with which a JVM ends that has no memory left


class Query(NamedTuple):
    """A sequence as Cep.java takes it.

    Attributes:
        steps: the steps, with their tests.
        window: in units of `unit`, inclusive; None: there is none.
        value: the column that tests call `value`.
        size: the column that they call `size`.
        key: the column that events are partitioned by.
        contiguity: how one step follows the other.
        unit: of the time column, in ms.
        cents: by what values are multiplied, to be whole numbers.
        price: the column that tests call `price`; it stays as it is.
        types: the numbers of types; without it, that of S7 is 7.
    """

    steps: tuple[str, ...]
    window: int | None
    value: str | None = None
    size: str | None = None
    key: str | None = None
    contiguity: str = "followedByAny"
    unit: int = 1
    cents: int = 1
    price: str | None = None
    types: tuple[str, ...] = ()


def _next(window: int, rising: str = "") -> Query:
    low = "value<=199"
    steps = (f"a type=1 {low}", f"b type=2 {low}{rising}", f"c type=3 {low}")
    return Query(steps, window, "x", contiguity="followedBy")


def _any(window: int, *more: str) -> Query:
    steps = ("a type=1 value<=29", "b type=7 value<a.first", "c type=4 value>=81", *more)
    return Query(steps, window, "price")


def _stock(window: int, volume: int) -> Query:
    """Query 1 of 003; WITHIN w SLIDE 1 is a window of w - 1 and no more."""
    c = f"c size<={volume} value<b.first"
    return Query(("a", "b+ value>a.first value>b.last", c), window - 1, "price", "volume", "symbol")


def _cards(minutes: int, amount: int) -> Query:
    steps = ("a+ value<=500", f"b value>={amount} value>100*a.every")
    return Query(steps, 60 * minutes - 1, "amount", key="card", unit=1000, cents=100)


def _q1() -> Query:
    """Q_1 of 000; prices are tested as they are, with the factors of the query."""
    msft, goog = "type=1 price>=326 price<=334", "type=2 price>=120 price<=130"
    steps = (f"a {msft}", f"b {goog}", "c type=1 price>=1.003*a.first", "d type=2 price<=0.997*b.first")
    types = ("MSFT", "GOOG")
    return Query(steps, 12 * 60_000, contiguity="followedBy", price="open", types=types)


QUERIES: dict[str, Query] = {  # by name, as the suites `engine`, `rcep` and `stream` have them
    "next3": _next(999),  # 1000 events, one per time unit
    "next3_time": _next(1000),
    "next3_rising": _next(999, " value>a.first"),
    "any3_w100": _any(100),
    "any3_w1000": _any(1000),
    "any5_w1000": _any(1000, "d type=9 value<=19", "e type=2 value<=9"),
    **{f"stock all W={window}": _stock(window, 1000) for window in (6, 12)},
    "stock rare W=12": _stock(12, 10),
    **{f"cards large W={minutes}": _cards(minutes, 50_000) for minutes in (2, 5)},
    "q1": _q1(),
    "rise": Query(
        ("a", "b price>1.003*a.first"), 5 * 60_000, key="ticker", contiguity="followedBy", price="close"
    ),
    "v_shape": Query(
        ("a", "d+ price<a.first price<d.last", "u price>d.last"),
        None,
        key="ticker",
        contiguity="next",
        price="close",
    ),
}

timed = True


def why_not(work: dict[str, Any]) -> str | None:
    """Say what is missing to run Flink here."""
    if shutil.which("javac") is None:
        return "there is no javac: install a JDK, 17 or newer"
    if not _jars() and not work["options"].get("install"):
        return "it is not installed: python benchmarks/peers/flink/adapter.py does that"
    return None


def prepare(work: dict[str, Any]) -> Callable[[], tuple[float, None, int]]:
    """Start a JVM with the events in its memory, and return what asks it for one more job."""
    install()
    folder = tempfile.TemporaryDirectory(prefix="cerise-flink-")
    query, options = QUERIES[work["query"]["name"]], work["options"]
    memory = options.get("memory", "3g")
    # Flink's window is exclusive, ours inclusive.
    window = 0 if query.window is None else (query.window + 1) * query.unit
    flags = (str(flag).lower() for flag in (options.get("filtered", False), query.key is not None))
    jvm = subprocess.Popen(
        [
            "java", f"-Xmx{memory}", "-XX:+ExitOnOutOfMemoryError",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS),
            "-cp", _classpath(), "Cep", str(_write_events(work, query, Path(folder.name, "events"))),
            query.contiguity, str(window), str(options.get("parallelism", 1)), *flags, *query.steps,
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip

    def call(_keep: Any = folder) -> tuple[float, None, int]:
        assert jvm.stdin
        assert jvm.stdout
        jvm.stdin.write("\n")
        answer = jvm.stdout.readline()
        if not answer and jvm.wait() == FULL:
            raise GaveUp(f"it needs more than {memory} of memory")
        if not answer:
            raise SystemExit(f"Flink has ended with code {jvm.wait()}")
        told = json.loads(answer)
        return told["seconds"], None, told["matches"]

    return call


def found(matches: int) -> tuple[str, int]:
    """Return the number of matches: Flink has no names for them that are ours."""
    return "count", matches


def versions() -> dict[str, str]:
    """Return the versions of Flink, from the name of a jar, and of Java."""
    flink = re.search(r"flink-dist-([\d.]+)\.jar", " ".join(map(str, _jars())))
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return {"flink": flink[1] if flink else "?", "java": java.split('"')[1]}


def install() -> None:
    """Make the environment and compile, where that has not been done."""
    if not _jars():
        venv.create(HOME, clear=True, with_pip=True)
        (HOME / ".gitignore").write_text("*\n")
        pip = [HOME / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", PACKAGE]
        subprocess.run(pip, check=True)
    source, compiled = HERE / "Cep.java", HOME / "classes/Cep.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["javac", "-cp", _classpath(), "-d", compiled.parent, source], check=True)


def _jars() -> list[Path]:
    return sorted(HOME.glob("lib/python*/site-packages/pyflink/lib/*.jar"))


def _classpath() -> str:
    return os.pathsep.join(map(str, (HOME / "classes", *_jars())))


def _write_events(work: dict[str, Any], query: Query, path: Path) -> Path:
    """Write time, price, type, key, value and size of each event in the form that Cep.java reads."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(work["path"])
    time = table[work["query"]["time"]]
    small = ((name, "<i4") for name in ("type", "key", "value", "size"))
    events = np.zeros(len(table), [("time", "<i8"), ("price", "<f8"), *small])
    moments = pa.types.is_timestamp(time.type)
    events["time"] = time.cast(pa.timestamp("ms", "UTC")).cast("int64") if moments else time
    if query.types:
        kinds = table[work["query"]["type"]]
        events["type"] = pc.fill_null(pc.index_in(kinds, pa.array(query.types)), -1).to_numpy() + 1
    elif not query.key:
        kind = table[work["query"]["type"]]
        events["type"] = pc.utf8_slice_codeunits(kind, 1).cast("int32")  # S7 is 7
    for name, column in (("key", query.key), ("size", query.size), ("price", query.price)):
        if column:
            events[name] = _numbers(table[column])
    if query.value:
        events["value"] = np.round(table[query.value].to_numpy() * query.cents)
    events.tofile(path)
    return path


def _numbers(column: Any) -> Any:
    """Return the numbers of a column, or a number for each of its strings."""
    import pyarrow as pa

    if not pa.types.is_string(column.type):
        return column
    return column.combine_chunks().dictionary_encode().indices


if __name__ == "__main__":
    if (reason := why_not({"options": {"install": True}})) is not None:
        sys.exit(reason)
    install()
