"""A program for tests: writers of event tables that are killed at each of their steps, and several at once.

It forks its writers: deltalake must not have been used before, so it does nothing with tables itself.

    python killing.py kill FOLDER        FOLDER/<scenario>/<step>/table is what a killed writer leaves
    python killing.py crowd FOLDER       writers and compactors of FOLDER/table at the same time
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from cerise.store.index.file import DataFile, write_index
from cerise.store.table import failpoints as faults
from cerise.store.table.event_table import EventTable
from cerise.store.table.settings import Settings
from tests.support.faults.event_tables import SCHEMA, create, events

MOST_STEPS = 60
TIMES = 2
APPENDS, COMPACTIONS = 5, 3


def nothing(_: Path) -> None:
    pass


def empty(path: Path) -> None:
    create(path)


def opened(path: Path) -> EventTable:
    """Return a table that saves its synopsis whenever it has more than one new index file."""
    return replace(EventTable.open(path), uncovered=1)


def with_fresh(path: Path) -> None:
    empty(path)
    table = opened(path)
    table.append(events([5, 3], 0))
    table.append(events([4, 4, 9], 2))


def with_all(path: Path) -> None:
    with_fresh(path)
    table = opened(path)
    table.append(events(range(12), 5))
    table.append(events(range(0, 24, 2), 17))


def compacted(path: Path) -> None:
    with_all(path)
    opened(path).compact()


# What is there before, and what the writer does: see `expected` in test_event_table_faults.
SCENARIOS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "create": (nothing, empty),
    "small": (empty, lambda path: opened(path).append(events([2, 1], 100))),
    "large": (
        with_fresh,
        lambda path: opened(path).append(events([7 * n % 40 for n in range(37)], 100)),
    ),
    "seal": (with_fresh, lambda path: opened(path).append(events([4] * 6, 100))),
    "compact": (with_all, lambda path: opened(path).compact()),
    "vacuum": (compacted, lambda path: opened(path).vacuum(0)),
}


def forked(work: Callable[[], object]) -> int:
    """Do something in a process of its own; return its number."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def ended(child: int) -> int:
    """Return how a process ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do something in a process that is killed at its n-th step; tell whether it has come so far.

    Of steps of one name the first few count: what comes after them is more of the same.
    """

    def run() -> None:
        passed: Counter[str] = Counter()

        def count(name: str) -> None:
            passed[name] += 1
            if sum(min(times, TIMES) for times in passed.values()) > step:
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = count
        work()

    status = ended(forked(run))
    assert status in (0, -signal.SIGKILL), status
    return status != 0


def kill(folder: Path) -> None:
    """Run all scenarios."""
    for name in SCENARIOS:
        kill_in(name, folder)


def kill_in(name: str, folder: Path) -> None:
    """Run a scenario as often as it has steps, and once to its end."""
    before, work = SCENARIOS[name]
    first = folder / name / "before" / "table"
    first.parent.mkdir(parents=True)
    assert ended(forked(partial(before, first))) == 0
    for step in range(MOST_STEPS):
        path = folder / name / f"{step:02}" / "table"
        path.parent.mkdir()
        if first.exists():
            shutil.copytree(first, path)
        if not killed_at(step, partial(work, path)):
            return
    raise AssertionError(f"{name} has more than {MOST_STEPS} steps")


def crowd(folder: Path) -> None:
    """Append and compact at the same time: each event's id says who appended it."""
    path = folder / "table"
    assert ended(forked(lambda: create(path))) == 0

    def append(who: int) -> None:
        table = opened(path)
        for turn in range(APPENDS):
            count = 20 if turn == 3 else 3
            table.append(events([(turn * 5 + n * who) % 30 for n in range(count)], 1000 * who + 100 * turn))

    def compact() -> None:
        table = opened(path)
        for _ in range(COMPACTIONS):
            table.compact()

    children = [forked(partial(append, who)) for who in (1, 2)]
    children += [forked(compact) for _ in range(2)]
    assert [ended(child) for child in children] == [0, 0, 0, 0]


def warm_up() -> None:
    """Have kernels loaded before the first fork."""
    layout = Settings("t", "kind", index=("x",), sequence=False).layout(SCHEMA)
    write_index([events([1, 2])], layout, DataFile("x", 1, 1, 2), pa.BufferOutputStream())


if __name__ == "__main__":
    warm_up()
    {"kill": kill, "crowd": crowd}[sys.argv[1]](Path(sys.argv[2]))
