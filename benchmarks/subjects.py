"""The ways to run what is measured. Each prepares untimed, and returns the call that is timed.

A subject gets its work as a plain dict (see `measure`), so that a peer in an environment of its own can be
asked in the same way. Heavy packages are imported where they are used: `run.py` reads only the table.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Work = dict[str, Any]
Call = Callable[[], Any]
Found = tuple[str, Any] | None

ROLES = ("time", "type", "key", "order", "params")  # what a query's table says to `cerise.find`


@dataclass(frozen=True, slots=True)
class Subject:
    """How something is run.

    Attributes:
        prepare: does what is not measured, and returns the call to measure.
        needs: "nothing", "data" (its description), "query" (and a schema), or "events" (in a file) and query.
        options: the entries that its table in a suite may have.
        found: what a measured call has found; nothing, where it does not match.
        timed: whether the call returns the seconds itself, being measured in a process that it starts.
    """

    prepare: Callable[[Work], Call]
    needs: str
    options: tuple[str, ...] = ()
    found: Callable[[Any], Found] = lambda result: None
    timed: bool = False


def process(work: Work) -> Call:
    """`cerise.find` on a table in memory, in this process."""
    import pyarrow.parquet as pq

    import cerise

    table = pq.read_table(work["path"])
    options = cerise.Options(**work["options"])
    return lambda: cerise.find(table, work["query"]["text"], **_roles(work), options=options)


def spark(work: Work) -> Call:
    """`cerise.find` on a DataFrame of the file, matches brought to the driver; the session is running."""
    import cerise

    options = dict(work["options"])
    session = cerise.session(cores=options.pop("cores", None), memory=options.pop("memory", None))
    events = session.read.parquet(work["path"])
    run = cerise.Options(**options)
    return lambda: cerise.find(events, work["query"]["text"], **_roles(work), options=run).toArrow()


def read(work: Work) -> Call:
    """Only read the columns that the query needs, with pyarrow."""
    import pyarrow.parquet as pq

    columns = list(_bind(work).needs)
    threads = work["options"].get("threads", True)
    return lambda: pq.read_table(work["path"], columns=columns, use_threads=threads)


def parse_and_bind(work: Work) -> Call:
    """From the text of a query to the bound query."""
    return lambda: _bind(work)


def generate(work: Work) -> Call:
    """Make the events of a data set, batch by batch, and drop them."""
    from cerise.data import GENERATORS

    data = work["data"]
    make = GENERATORS[data["generator"]]
    return lambda: sum(
        batch.num_rows for batch in make(data["events"], seed=data.get("seed", 0), **data.get("options", {}))
    )


def write(work: Work) -> Call:
    """Make the events of a data set and write them to a Parquet file."""
    folder = tempfile.TemporaryDirectory(prefix="cerise-bench-")  # goes away with the call

    def call() -> None:
        write_events(work["data"], Path(folder.name, "events"))

    return call


def python(work: Work) -> Call:
    """Run a line of Python in a new interpreter, without the time that the interpreter takes to start."""
    code = (
        "import time; _start = time.perf_counter()\n"
        f"{work['options']['code']}\n"
        "print(time.perf_counter() - _start)"
    )

    def call() -> float:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    return call


def write_events(data: Mapping[str, Any], path: Path) -> Path:
    """Write the events of a suite's data set to Parquet: one file, or a folder where it asks for several."""
    from cerise.data import write

    files = data.get("files", 1)
    return write(
        data["generator"],
        path if files > 1 else path.with_suffix(".parquet"),
        data["events"],
        seed=data.get("seed", 0),
        files=files,
        overwrite=True,
        **data.get("options", {}),
    )


def matches(table: Any) -> Found:
    """Return what names the matches of a result: their ids, their count, or all that was returned of them."""
    if "match_id" in table.column_names:
        return "match_id", table.column("match_id").to_pylist()
    if table.column_names == ["count"]:
        return "count", table.column("count")[0].as_py()
    return "rows", [tuple(row.values()) for row in table.to_pylist()]


def _roles(work: Work) -> dict[str, Any]:
    return {name: value for name, value in work["query"].items() if name in ROLES}


def _bind(work: Work) -> Any:
    from cerise.api import parse
    from cerise.events import Schema
    from cerise.pattern.bind import bind

    roles = _roles(work)
    schema = Schema(
        _columns(work["data"]),
        roles["time"],
        roles.get("type"),
        _names(roles.get("key", ())),
        _names(roles.get("order", ())),
    )
    return bind(parse(work["query"]["text"]), schema, roles.get("params"))


def _names(columns: str | list[str] | tuple[()]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _columns(data: dict[str, Any]) -> Any:
    import pyarrow as pa

    from cerise.data.generators import SCHEMAS

    if "generator" in data:
        return SCHEMAS[data["generator"]]
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in data["columns"].items()])


RUN = ("engine", "max_runs", "partitions", "strict")  # of cerise.Options

SUBJECTS = {
    "process": Subject(process, "events", RUN, matches),
    "spark": Subject(spark, "events", (*RUN, "cores", "memory"), matches),
    "read": Subject(read, "events", ("threads",)),
    "bind": Subject(parse_and_bind, "query"),
    "generate": Subject(generate, "data"),
    "write": Subject(write, "data"),
    "python": Subject(python, "nothing", ("code",), timed=True),
}
