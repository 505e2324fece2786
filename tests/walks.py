"""How many files of the package one walks through: a small query, run twice, the second time under a profile.

`python -m tests.walks` prints, for each walk, the files in the order in which they are entered.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"  # compiled kernels are not seen

import pyarrow as pa
import pyarrow.parquet as pq

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.events import Schema
from cerise.files.lake import open_lake
from cerise.files.reader import Reading
from cerise.lang.match_recognize import bind_rows, parse_statement
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.spark.planner import plan_lake
from cerise.spark.row_plan import RowSlices, plan_files
from cerise.spark.rows import handed_columns
from tests import row_slices, runners

PACKAGE = Path(cerise.__file__).parent
BINDS = ("bind", "bind_rows")
EVENTS = pa.table({"t": range(6), "kind": list("ABCABC"), "v": range(6), "k": [1] * 6})
SASE = "PATTERN SEQ(A a, B+ b[], C c) WHERE a.v < c.v WITHIN 10 RETURN a.v AS x, c.v AS y"
ROWS = """SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES A.v AS x, LAST(B.v) AS y PATTERN (A B+ C)
    WITHIN 10 DEFINE A AS kind = 'A', B AS kind = 'B' AND v > A.v, C AS kind = 'C')"""
PARTITIONED = ROWS.replace("(ORDER BY", "(PARTITION BY k ORDER BY").replace("WITHIN 10 ", "")
OPTIONS = Options(engine="nfa", partitions=1)


def walked(act: Callable[[], Any]) -> dict[str, list[str]]:
    """The files that a second call enters, and those that it first enters after the query is bound."""
    act()
    entered: dict[str, bool] = {}  # whether the query was bound
    bound = False

    def see(frame: Any, event: str, _: Any) -> None:
        nonlocal bound
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            entered.setdefault(path.relative_to(PACKAGE).as_posix(), bound)
        bound |= event == "return" and frame.f_code.co_name in BINDS

    sys.setprofile(see)
    try:
        act()
    finally:
        sys.setprofile(None)
    return {"all": list(entered), "bound": [each for each, late in entered.items() if late]}


def sase_task(path: str) -> Callable[[], Any]:
    """The task that reads and matches the only slice of a file, as Spark runs it."""
    bound = bind(parse(SASE), Schema(EVENTS.schema, "t", "kind"), {})
    plan = plan_lake([bound], open_lake(path), OPTIONS, 2)
    return lambda: list(runners._tasks_of(bound, plan, OPTIONS))


def row_task(path: str) -> Callable[[], Any]:
    """The same of a clause of MATCH_RECOGNIZE."""
    bound = bind_rows(parse_statement(ROWS, "standard").clauses[0], EVENTS.schema)
    lake = open_lake(path)
    reading = Reading(lake.root, dict(enumerate(lake.files)), lake.columns, handed_columns(bound))
    way = plan_files(lake, bound, Options(partitions=2, limits=Limits()), reading, 2)
    assert isinstance(way, RowSlices), way
    return lambda: list(row_slices._tasks(way))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/events.parquet"
        pq.write_table(EVENTS, path, row_group_size=1)
        walks = {
            "SASE+ on a table": lambda: cerise.find(EVENTS, SASE, time="t", type="kind"),
            "MATCH_RECOGNIZE on a table": lambda: cerise.find(EVENTS, PARTITIONED),
            "SASE+ in a task": sase_task(path),
            "MATCH_RECOGNIZE in a task": row_task(path),
        }
        print(json.dumps({name: walked(act) for name, act in walks.items()}, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
