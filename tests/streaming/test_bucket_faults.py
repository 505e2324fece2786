"""Steps of buckets that are repeated, or find their state damaged: the same bytes, or a clear error."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.errors import StoreError
from cerise.events import Schema
from cerise.sources import Roles
from cerise.stream_queries import bind_queries, clause_binder
from cerise.streaming import container
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.entry import ONE_SOURCE
from cerise.streaming.query_groups import StreamCutter, group_queries
from cerise.streaming.state import journal
from cerise.streaming.state.bucket_task import REPORT, Blob, BucketTask, decode
from cerise.streaming.state.state_files import FileStateHome
from cerise.streaming.watermark import TimeRules

COLUMNS = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
SEQ = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 30 RETURN a.n AS a, b.n AS b"
BY_N = "PATTERN SEQ(A a, B b) WHERE [n] WITHIN 30 RETURN a.n AS a, b.n AS b"
EVERY = Limits(snapshot_bytes=1, entry_bytes=1)
SELDOM = Limits()
Row = tuple[int | None, str, int, int]


def events(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], schema=COLUMNS)


BATCHES = [
    events((1, "A", 1, 1), (2, "A", 2, 2), (None, "A", 3, 3), (3, "B", 1, 4)),
    events((20, "A", 4, 5), (21, "B", 2, 6)),
    events((4, "A", 1, 7), (5, "B", 2, 8), (22, "B", 4, 9)),  # two are late: the watermark is 16
    events((90, "A", 5, 10), (40, "A", 6, 11)),
    events((41, "A", 6, 12), (91, "B", 5, 13), (200, "C", 7, 14)),
]


class Runner:
    """Runs the buckets of a stream in this process, with their state in files."""

    def __init__(
        self, folder: Path, queries: Any = SEQ, *, buckets: int = 2, limits: Limits = SELDOM
    ) -> None:
        self.folder, options = folder, Options(limits=limits)
        found = bind_queries(
            queries, COLUMNS, Roles("t", "kind", (), ("n",), None),
            clause_binder(COLUMNS, "standard", options, arrival=False), arrival=False,
        )  # fmt: skip
        rules = TimeRules({ONE_SOURCE: 5})
        groups = group_queries(found.queries, buckets)
        roles = Schema(COLUMNS, "t")
        plans = tuple(BucketPlan(each.queries, roles, rules, options) for each in groups)
        keys = tuple(range(groups[-1].first + groups[-1].buckets))
        self.task = BucketTask(groups, plans, found.questions, keys, str(folder / "late"))
        self.cutter = StreamCutter(ONE_SOURCE, groups, roles, rules, keys)

    def step(self, batch: int, tables: Sequence[pa.Table], order: random.Random) -> list[dict[str, Any]]:
        """Step all buckets, each with its blobs in some order; return what they give."""
        rows = [row for table in tables for blob in self.cutter([table], None) for row in blob.to_pylist()]
        order.shuffle(rows)
        found: list[dict[str, Any]] = []
        for key in self.task.keys:
            blobs = [Blob(*list(row.values())[1:]) for row in rows if row["bucket"] == key]
            home = FileStateHome(self.folder / "state", "q", key, batch, buckets=len(self.task.keys))
            for given in self.task.run(key, blobs, home, "q"):
                found += given.to_pylist()
            home.commit()
        return found

    def files(self) -> dict[str, bytes]:
        return {
            str(each.relative_to(self.folder)): each.read_bytes()
            for each in self.folder.rglob("*") if each.is_file()
        }  # fmt: skip


def pairs(found: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
    payloads = pa.record_batch(
        {"payload": pa.array([row["payload"] for row in found if row["payload"]], pa.binary())}
    )
    return Counter((row["a"], row["b"]) for table in decode([payloads]) for row in table.to_pylist())


@pytest.mark.parametrize("limits", [SELDOM, EVERY], ids=["seldom", "every"])
def test_a_step_that_is_repeated_writes_the_same_bytes(tmp_path: Path, limits: Limits) -> None:
    runner, dice = Runner(tmp_path, limits=limits), random.Random(1)
    for batch, table in enumerate(BATCHES):
        tables = [table.slice(0, 1), table.slice(1)]  # two tasks of a source
        first, files = runner.step(batch, tables, dice), runner.files()
        for _ in range(3):
            if dice.random() < 0.5:
                journal.CACHE.clear()  # another process
            again = runner.step(batch, tables, dice)
            assert again == first
            assert runner.files() == files
    late = sorted(name for name in files if name.startswith("late"))
    assert late


def test_figures_outlive_the_process(tmp_path: Path) -> None:
    for limits in (SELDOM, EVERY):
        runner, dice = Runner(tmp_path / str(limits.snapshot_bytes), limits=limits), random.Random(1)
        total: Counter[str] = Counter()
        for batch, table in enumerate(BATCHES):
            journal.CACHE.clear()
            found = runner.step(batch, [table], dice)
        for row in found:
            if row["kind"] == REPORT:
                total.update(pa_json(row["detail"])["aside"])
        assert total == {"events: late": 3, "events: no time": 1}


def pa_json(text: str) -> dict[str, Any]:
    return dict(container.unpack_json(text.encode()))


@pytest.mark.parametrize("damage", ["deleted", "flipped"])
@pytest.mark.parametrize("limits", [SELDOM, EVERY], ids=["seldom", "every"])
def test_a_damaged_state_ends_the_stream_and_writes_nothing(
    tmp_path: Path, limits: Limits, damage: str
) -> None:
    runner, dice = Runner(tmp_path, buckets=1, limits=limits), random.Random(1)
    whole: Counter[tuple[int, int]] = Counter()
    for batch, table in enumerate(BATCHES):
        if batch:
            for file in newest_files(tmp_path / "state", batch - 1):
                journal.CACHE.clear()
                content = file.read_bytes()
                before = runner.files()
                if damage == "deleted":
                    file.unlink()
                else:
                    middle = len(content) // 2
                    file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
                with pytest.raises(StoreError, match=rf"state of batch {batch - 1} of bucket 0.*{file.name}"):
                    runner.step(batch, [table], dice)
                file.write_bytes(content)
                assert runner.files() == before
        whole.update(pairs(runner.step(batch, [table], dice)))
    assert whole == {(1, 4): 1, (2, 6): 1, (5, 9): 1, (10, 13): 1}


def newest_files(state: Path, batch: int) -> list[Path]:
    """Return the files that a version of a state needs to be opened: its manifest, and the parts of it."""
    bucket = state / "query-q" / "bucket-0"
    parts = FileStateHome(state, "q", 0, batch + 1)._before.parts
    entries = not any(
        name.startswith("snapshot") for name in parts
    )  # kept ones before a snapshot are not read
    read = [part.file for name, part in parts.items() if entries or not name.startswith("entry")]
    return [bucket / name for name in (f"{batch:012}.json", *sorted(read))]


def test_the_order_of_queries_does_not_matter(tmp_path: Path) -> None:
    dice, found = random.Random(1), Counter[tuple[int, int]]()
    for batch, table in enumerate(BATCHES):
        queries = {"seq": SEQ, "by n": BY_N}
        if batch % 2:
            queries = dict(reversed(queries.items()))
        journal.CACHE.clear()
        found.update(pairs(Runner(tmp_path, queries).step(batch, [table], dice)))
    assert found == {(1, 4): 1, (2, 6): 1, (5, 9): 1, (10, 13): 1}


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    packed = bytearray(container.pack({"a": b"1"}))
    packed[len(container.MAGIC)] = container.FORMAT + 1
    with pytest.raises(StoreError, match="the entry has format 2, this Cerise reads format 1") as caught:
        container.unpack(bytes(packed), "the entry")
    assert "version of Cerise" in str(caught.value.hint)


def test_a_process_that_skips_events_meets_no_match_that_never_was(tmp_path: Path) -> None:
    """The A of time 1 has met its B in a batch that the first process misses, and skips."""
    query = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 30 RETURN 1 / (b.n - a.n) AS a, b.n AS b"
    batches = [
        events((1, "A", 1, 1), (20, "C", 1, 0)),
        events((21, "B", 1, 9), (22, "B", 1, 1), (60, "A", 1, 1)),  # the B of 22 would divide by zero
        events((61, "B", 1, 3), (90, "C", 1, 0)),
    ]
    runner, dice = Runner(tmp_path, query, buckets=1), random.Random(1)
    plan, found = runner.task.plans[0], list[dict[str, Any]]()
    found += runner.step(0, batches[:1], dice)
    first = journal.CACHE.take(plan, 0)
    assert first is not None
    found += runner.step(1, batches[1:2], dice)  # in another process
    journal.CACHE.clear()
    journal.CACHE.add(first, 0)
    found += runner.step(2, batches[2:], dice)
    assert pairs(found) == {(1 / 8, 9): 1, (1 / 2, 3): 1}
    reports = [pa_json(row["detail"]) for row in found if row["kind"] == REPORT]
    assert [sum(each["matches"].values()) for each in reports] == [0, 1, 2]


def test_a_query_that_comes_again_starts_anew_in_a_process_that_remembers_it(tmp_path: Path) -> None:
    """The process of the first batch has the A of time 1; the query is gone in the second batch."""
    batches = [
        events((1, "A", 1, 1), (8, "C", 1, 0)),
        events((9, "C", 1, 0), (14, "C", 1, 0)),
        events((15, "C", 1, 0), (20, "C", 1, 0)),
        events((21, "B", 1, 4), (22, "A", 1, 5), (23, "B", 1, 6), (60, "C", 1, 0)),
    ]
    both, dice, answers = {"seq": SEQ, "all": SEQ}, random.Random(1), []
    for remembers in (True, False):
        found: Counter[tuple[int, int]] = Counter()
        for batch, table in enumerate(batches):
            if not remembers:
                journal.CACHE.clear()
            queries = {"seq": SEQ} if batch == 1 else both
            runner = Runner(tmp_path / str(remembers), queries, buckets=1)
            found.update(pairs(runner.step(batch, [table], dice)))
        answers.append(found)
    assert answers[0] == answers[1] == {(1, 4): 1, (5, 6): 2}
