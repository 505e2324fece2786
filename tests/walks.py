"""How many files of the package one walks through: a small query, run twice, the second time under a profile.

`python -m tests.walks` prints, for each walk, the files in the order in which they are entered.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"  # compiled kernels are not seen

import pyarrow as pa
import pyarrow.parquet as pq

import cerise
from cerise.run.find import HERE, Sliced, decide
from cerise.sources import How, Roles, ask
from cerise.spark.tasks import Records, SliceTask

PACKAGE = Path(cerise.__file__).parent
BINDS = ("ask",)
EVENTS = pa.table({"t": range(6), "kind": list("ABCABC"), "v": range(6), "k": [1] * 6})
SASE = "PATTERN SEQ(A a, B+ b[], C c) WHERE a.v < c.v WITHIN 10 RETURN a.v AS x, c.v AS y"
ROWS = """SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.v AS x, LAST(B.v) AS y
    PATTERN (A B+ C) DEFINE A AS kind = 'A', B AS kind = 'B' AND v > A.v, C AS kind = 'C')"""


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


def task(path: str, query: str, roles: Roles) -> Callable[[], Any]:
    """The task that reads and answers the only slice of a file, as Spark runs it."""
    asked = ask(path, query, roles, How())
    plan = decide(asked.source, asked.questions, replace(asked.options, threads=1), HERE)
    assert isinstance(plan, Sliced)
    assert len(plan.slices) == 1
    answer = SliceTask(replace(plan, source=None), Records())
    return lambda: list(answer([pa.record_batch({"id": [0]})]))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/events.parquet"
        pq.write_table(EVENTS, path)
        walks = {
            "SASE+ on a table": lambda: cerise.find(EVENTS, SASE, time="t", type="kind"),
            "MATCH_RECOGNIZE on a table": lambda: cerise.find(EVENTS, ROWS),
            "SASE+ in a task": task(path, SASE, Roles("t", "kind")),
            "MATCH_RECOGNIZE in a task": task(path, ROWS, Roles()),
        }
        print(json.dumps({name: walked(act) for name, act in walks.items()}, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
