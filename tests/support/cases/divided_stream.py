"""Runs the buckets of a stream in this process, with their state in files; a plan may differ in each step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import cerise
from cerise.engines.automaton import state as engine_state
from cerise.engines.base import Options
from cerise.engines.reference import late as late_engine
from cerise.errors import UnsupportedError
from cerise.events import Schema
from cerise.run.row_search import RowClause
from cerise.sources import Roles, is_sql
from cerise.stream_queries import bind_queries, clause_binder
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan, Found
from cerise.streaming.entry import ONE_SOURCE
from cerise.streaming.query_groups import StreamCutter, group_queries
from cerise.streaming.stages import stages_of
from cerise.streaming.state import journal
from cerise.streaming.state.bucket_task import REPORT, Blob, BucketTask
from cerise.streaming.state.state_files import FileStateHome
from cerise.streaming.watermark import TimeRules

COLUMNS = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
DELAY = 5
END = 100_000  # the time of an event that makes all matches final
Answer = Counter[tuple[str, str]]  # rows as text, by query


@dataclass(frozen=True)
class Setup:
    """How a stream runs between two restarts."""

    queries: Mapping[str, str]
    buckets: int = 2
    options: Options = Options()
    layout: int = 0  # added to the version of the engines' states
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Told(BucketTask):
    """A task that tells matches apart by query, and gives only reports."""

    told: list[Found] = field(default_factory=list)

    def _tables(self, bucket: Bucket, found: Iterable[Found]) -> Iterator[pa.Table]:
        self.told.extend(found)
        return iter(())


@contextmanager
def layout_of(number: int) -> Iterator[None]:
    """Let engines write and read states of another layout, as after an upgrade."""
    version, late = engine_state.VERSION, late_engine.STATE
    engine_state.VERSION, late_engine.STATE = version + number, late.replace(b"1", b"%d" % (1 + number))
    try:
        yield
    finally:
        engine_state.VERSION, late_engine.STATE = version, late


class DividedStream:
    """A stream whose state lies in files under a folder."""

    def __init__(self, folder: Path, kept: int = 100) -> None:
        self.folder, self.kept = folder, kept

    def step(
        self, batch: int, table: pa.Table, how: Setup, *, only: int | None = None
    ) -> tuple[Answer, list[dict[str, Any]]]:
        """Step all buckets, or only the first ones, as if the stream died then; return matches, reports."""
        binder = clause_binder(COLUMNS, "standard", how.options, arrival=False)
        roles, rules = Roles("t", "kind", (), ("n",), None), TimeRules({ONE_SOURCE: DELAY})
        sets = [
            bind_queries({name: text}, COLUMNS, roles, binder, arrival=False)
            for name, text in how.queries.items()
        ]
        queries = [each for found in sets for each in found.queries]
        groups, schema = group_queries(queries, how.buckets), Schema(COLUMNS, "t")
        plans = tuple(
            BucketPlan(each.queries, schema, rules, how.options, replaced=how.replaced) for each in groups
        )
        keys = tuple(range(groups[-1].first + groups[-1].buckets))
        task = _Told(groups, plans, sets[0].questions, keys, str(self.folder / "late"))
        cutter = StreamCutter(ONE_SOURCE, groups, schema, rules, keys)
        rows = [row for blob in cutter([table], None) for row in blob.to_pylist()]
        reports: list[dict[str, Any]] = []
        with layout_of(how.layout):
            for key in keys[:only]:
                home = FileStateHome(
                    self.folder / "state", "q", key, batch, kept=self.kept, buckets=len(keys)
                )
                blobs = [Blob(*list(row.values())[1:]) for row in rows if row["bucket"] == key]
                given = [row for each in task.run(key, blobs, home, "q") for row in each.to_pylist()]
                home.commit()
                reports += [row for row in given if row["kind"] == REPORT]
        questions = {each.name: each.question for each in queries}
        answer: Answer = Counter()
        for name, part in task.told:
            question = questions[name]
            shown = question.finish([part]) if isinstance(question, RowClause) else part
            answer.update(as_rows(name, shown))
        return answer, reports

    def files(self) -> dict[str, bytes]:
        """All files of the state."""
        return {
            str(each.relative_to(self.folder)): each.read_bytes()
            for each in self.folder.rglob("*")
            if each.is_file()
        }


def forget_buckets() -> None:
    """Go on in another process."""
    journal.CACHE.clear()


def as_rows(name: str, table: pa.Table) -> Iterator[tuple[str, str]]:
    yield from ((name, str(sorted(row.items(), key=str))) for row in table.to_pylist())


def batch_answer(queries: Mapping[str, str], table: pa.Table) -> Answer:
    """The answer of `find` over all events."""
    answer: Answer = Counter()
    for name, query in queries.items():
        roles = {} if is_sql(query) else {"time": "t", "type": "kind", "order": "n"}
        answer.update(as_rows(name, cerise.find(table, query, **roles)))
    return answer


def random_batches(dice: random.Random, batches: int, keys: int = 4, most: int = 9) -> list[pa.Table]:
    """Micro-batches of random events with equal times, out of order by at most the delay; then the end."""
    now, rows = 0, []
    for n in range(batches * most // 2):
        now += dice.choice((0, 0, 1, 1, 2, 4))
        rows.append({"t": now, "kind": dice.choice("AABBC"), "id": dice.randrange(keys), "n": n})
    rows.sort(key=lambda row: row["t"] + dice.randrange(DELAY + 1))
    cuts = sorted(dice.randrange(len(rows) + 1) for _ in range(batches - 1))
    parts = [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    parts.append([{"t": now + END, "kind": "Z", "id": -1, "n": len(rows)}])
    return [pa.Table.from_pylist(part, schema=COLUMNS) for part in parts]


def random_options(dice: random.Random, queries: Mapping[str, str], limits: Any) -> Options:
    """Options with an engine that can run all queries."""
    name = dice.choice((None, "nfa", "nfa-merge", "nfa-backtrack", "rcep"))
    options = Options(engine=name, limits=limits)
    try:
        for query in queries.values():
            if not is_sql(query):
                found = bind_queries(
                    {"q": query}, COLUMNS, Roles("t", "kind", (), ("n",), None),
                    clause_binder(COLUMNS, "standard", options), arrival=False,
                )  # fmt: skip
                for stage in stages_of(found.queries[0].question):
                    stage.prepare(options)
    except UnsupportedError:
        return Options(limits=limits)
    return Options(limits=limits) if name and any(map(is_sql, queries.values())) else options
