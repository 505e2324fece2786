"""Passes over files: what they keep, what they may drop, and that no match is lost."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.engines.base import Options
from cerise.errors import DataError, PlanError
from cerise.events import Schema
from cerise.files.lake import open_lake
from cerise.filters.equalities import keys_of
from cerise.filters.passes.pass_branches import PassBranch, event_branches, row_branches
from cerise.filters.passes.pass_choice import Glance, choose_passes
from cerise.filters.passes.pass_filter import EventColumns, PassFilter
from cerise.filters.passes.plan_passes import explain_passes
from cerise.filters.passes.summaries import Passes, Summary, merge_summaries
from cerise.lang import match_recognize
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.plan.pushdown import Needed, needed
from cerise.plan.router import Router
from cerise.run.question import Questions
from cerise.run.sase_search import Sase
from cerise.sources import FilesSource
from tests.support.cases.tasks_here import exchange_files

REFERENCE = Options(engine="reference")


def branches_of(query: str, table: pa.Table, **roles: Any) -> tuple[tuple[PassBranch, ...], Needed | None]:
    bound = bind(
        parse(query), Schema(table.schema, "t", "type" if "type" in table.column_names else None, **roles)
    )
    found = event_branches(bound)
    assert not isinstance(found, str), found
    return found, needed([bound])


def pass_over(passes: Passes, parts: list[pa.Table]) -> list[PassFilter]:
    """Return the filter after each pass; each table is the input of one task."""
    received, found = None, []
    for step in range(len(passes.steps)):
        sent = []
        for table in parts:
            summary = Summary(passes, step, received)
            summary.add(table)
            sent += summary.parts()
        before, received = received, merge_summaries(passes, step, received, sent)
        assert merge_summaries(passes, step, before, sent[::-1]) == received  # in any order
        found.append(passes.filter_of(received))
    return found


def ids_kept(found: PassFilter, table: pa.Table) -> list[int]:
    return table.column("id").filter(pa.array(found.mask(table))).to_pylist()


# ---- Table I of the paper: e3 fits M, lies inside, and has no battery in its district


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return 60 * int(hours) + int(minutes)


CRIMES = pa.table({
    "id": range(1, 11),
    "t": [_minutes(c) for c in "18:45 18:50 18:50 18:53 19:00 20:15 20:43 21:43 21:50 22:00".split()],
    "type": list("RBMAMRBRBM"),
    "district": [10, 19, 14, 6, 19, 15, 7, 24, 14, 8],
})  # fmt: skip
NODES = [CRIMES.take([0, 2, 5, 8, 9]), CRIMES.take([1, 3, 4, 6, 7])]
Q1 = "PATTERN SEQ(R r, B b, M m) USE {} WHERE m.district = b.district WITHIN 30"
CLAUSE = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES R.id AS r, B.id AS b, M.id AS m
    AFTER MATCH SKIP TO NEXT ROW PATTERN (R {-N*-} B {-N*-} M) WITHIN 30
    DEFINE R AS type = 'R', B AS type = 'B', M AS type = 'M' AND M.district = B.district)"""


@pytest.mark.parametrize(
    ("use", "kept"), [("skip_till_any_match", [1, 2, 5]), ("skip_till_next_match", [1, 2, 3, 5])]
)
def test_table_1_of_the_paper(use: str, kept: list[int]) -> None:
    branches, wanted = branches_of(Q1.format(use), CRIMES)
    passes = Passes(branches, (("r",), ("b",), ("m",)), wanted, 1_000)
    filters = pass_over(passes, NODES)
    assert [sorted(each for part in NODES for each in ids_kept(found, part)) for found in filters[::2]] == [
        [1, 2, 3, 5, 6, 7, 8, 9, 10], kept,
    ]  # fmt: skip
    covered = filters[-1].known[0].covered
    times = np.arange(0, 24 * 60)
    assert covered is not None
    inside = times[covered.holds(times)]
    assert _minutes("18:45") in inside
    assert _minutes("19:00") in inside
    assert inside.min() >= _minutes("18:43")  # ticks are two minutes
    assert inside.max() <= _minutes("19:01")


def test_table_1_as_sql() -> None:
    bound = match_recognize.bind_rows(match_recognize.parse_alone(CLAUSE, "standard"), CRIMES.schema)
    branches = row_branches(bound, ())
    assert not isinstance(branches, str)
    wanted = tuple(tests for _, tests in branches[0].fits)
    found = pass_over(Passes(branches, (("B",), ("M",)), wanted, 1_000), NODES)[-1]
    assert sorted(each for part in NODES for each in ids_kept(found, part)) == [1, 2, 5]
    assert found.counts["wanted"] == 9


# ---- the hull property, by brute force

QUERIES = (
    "SEQ(A a, B b, C c) WHERE a.x = c.x", "SEQ(A a, B+ b, C c) WHERE b.x = c.x", "SEQ(a, B b) WHERE [k]",
    "AND(A a, B b, C c) WHERE a.x = b.x AND b.x = c.x + 1", "SEQ(A a, C? c, B b) WHERE [k] AND a.x = b.x",
    "SEQ(A a, ~(C n), B b) WHERE n.x = a.x", "SEQ(A a, B b, ~(C n)) WHERE [k]",
    "SEQ(A a, OR(B b, C c)) WHERE a.k > 0",
)  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("use", ["skip_till_any_match", "skip_till_next_match", "strict_contiguity"])
def test_all_time_between_the_events_of_a_match_is_covered(query: str, use: str) -> None:
    rng = random.Random(f"{query} {use}")
    pattern, where = query.split(" WHERE ")
    seen = 0
    for _ in range(16):
        table, window = _events(rng), rng.choice([0, 8, 20, 50])
        text = f"PATTERN {pattern} USE {use} WHERE {where} WITHIN {window}"
        branches, wanted = branches_of(text, table)
        names = [[each.name for each in branch.variables] for branch in branches]
        steps = [tuple(rng.choice([*several, None]) for several in names) for _ in range(3)]
        passes = Passes(branches, tuple(steps), wanted, 1_000)
        for found in pass_over(passes, [table.slice(0, 9), table.slice(9)]):
            for branch, known in zip(found.branches, found.known, strict=True):
                for times, key in _combinations(branch, table):
                    seen += 1
                    between = np.arange(min(times), max(times) + 1)
                    keys = None if key is None else np.full(len(between), key)
                    assert known.covered is None or known.covered.holds(between, keys).all(), (text, times)
    assert seen > 2


def _events(rng: random.Random) -> pa.Table:
    times = [rng.randint(-40, 40) for _ in range(18)]
    values = {name: pa.array(rng.choices([0, 1, 2, None], k=18), pa.int64()) for name in "xk"}
    return pa.table({"t": times, "type": rng.choices("ABC", k=18), **values})


def _combinations(branch: PassBranch, table: pa.Table) -> list[tuple[list[int], int | None]]:
    """Times of an event for each variable: of one partition, within a window, with equal keys."""
    events = EventColumns(table)
    routed = Router([each.tests for each in branch.variables]).route(table)
    times, partition = events.times("t")[0], events.partition(branch.partition)
    null = events.lacks(branch.not_null)
    found = []
    names = [each.name for each in branch.variables]
    keys = {
        (edge, name): keys_of(each, name, events.read, len(table))
        for edge, each in enumerate(branch.edges) for name in (each.left, each.right) if name in names
    }  # fmt: skip
    for rows in product(*(routed.of(leaf).tolist() for leaf in range(len(names)))):
        place, at = dict(zip(names, rows, strict=True)), times[list(rows)]
        ordered = all(
            (each.before or time == min(at)) and (each.after or time == max(at))
            for each, time in zip(branch.variables, at, strict=True)
        )
        if not ordered or max(at) - min(at) > branch.window or len(set(rows)) < len(rows):
            continue
        parts = {0} if partition is None else {int(partition[row]) for row in rows}
        if len(parts) > 1 or (partition is not None and null[list(rows)].any()):
            continue
        equal = all(
            keys[edge, a][1][place[a]] and keys[edge, b][1][place[b]]
            and keys[edge, a][0][place[a]] == keys[edge, b][0][place[b]]
            and (not each.order or (times[place[a]] - times[place[b]]) * each.order >= 0)
            for edge, each in enumerate(branch.edges) for a, b in [(each.left, each.right)]
            if {a, b} <= place.keys()
        )  # fmt: skip
        if equal:
            found.append((at.tolist(), None if partition is None else parts.pop()))
    return found


# ---- messages, caps, choices


def test_an_empty_filter_keeps_nothing() -> None:
    branches, wanted = branches_of("PATTERN SEQ(A a, B b) WITHIN 5", CRIMES)
    table = pa.table({"t": [1, 2, 3], "type": ["A", "A", "C"], "id": [1, 2, 3]})
    (found,) = pass_over(Passes(branches, (("b",),), wanted, 9), [table, table.slice(0, 0)])
    assert ids_kept(found, table) == []


def test_a_task_with_too_many_events_gives_up() -> None:
    branches, wanted = branches_of("PATTERN SEQ(A a, B b) WITHIN 5", CRIMES)
    table = pa.table({"t": [1, 2, 3, 99], "type": ["B", "B", "A", "A"], "id": [1, 2, 3, 4]})
    (found,) = pass_over(Passes(branches, (("b",),), wanted, 1), [table, table.slice(0, 0)])
    assert found.known[0].covered is None
    assert ids_kept(found, table) == [1, 2, 3, 4]


def test_a_damaged_filter_is_an_error() -> None:
    branches, wanted = branches_of("PATTERN SEQ(A a, B b) WITHIN 5", CRIMES)
    table = pa.table({"t": [1], "type": ["B"]})
    passes = Passes(branches, (("b",),), wanted, 9)
    message = bytearray(pass_over(passes, [table])[0].to_bytes())
    message[message.index(b"CeDF") + 40] ^= 1
    with pytest.raises(DataError, match="checksum"):
        passes.filter_of(bytes(message))


def test_rows_without_a_partition_value() -> None:
    """PARTITION BY puts nulls together; [k] is never true for null (S8)."""
    table = pa.table({"id": [1, 2], "t": [1, 2], "type": ["A", "B"], "k": pa.array([None, None], pa.int64())})
    for query, kept in (("PARTITION BY k", [1, 2]), ("WHERE [k]", []), ("PARTITION BY k WHERE [k]", [])):
        branches, wanted = branches_of(f"PATTERN SEQ(A a, B b) {query} WITHIN 5", table)
        (found,) = pass_over(Passes(branches, (("b",),), wanted, 9), [table])
        assert ids_kept(found, table) == kept, query


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SEQ(A a, B b)", "without WITHIN"),
        ("SEQ(A a, B b) WITHIN 5 EVENTS", "counts every event"),
        ("SEQ(A a, B? b, C? c, A? d, B? e) WITHIN 5", "more than 8 branches"),
    ],
)
def test_a_query_that_asks_for_every_event_has_no_passes(query: str, why: str) -> None:
    found = event_branches(bind(parse(f"PATTERN {query}"), Schema(CRIMES.schema, "t", "type")))
    assert isinstance(found, str)
    assert why in found


def test_passes_are_chosen_where_they_pay() -> None:
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "t": rng.integers(0, 10**7, 100_000),
            "card": rng.integers(0, 20_000, 100_000),
            "x": rng.random(100_000),
        }
    )
    query = "PATTERN SEQ(a, b) WHERE [card] AND b.x > {} WITHIN {}"
    for least, window, steps in ((0.99, 3600, 1), (0.01, 3600, 0), (0.99, 10**7, 0)):
        branches, wanted = branches_of(query.format(least, window), table)
        found = choose_passes(branches, wanted, Glance(table, 10**7, 10**7, 6, 2), None)
        assert (0 if isinstance(found, str) else len(found.steps)) == steps, (least, window)
    assert "no variable is rare enough" in explain_passes(found)


@pytest.mark.parametrize("passes", [0, 4, 2.5])
def test_a_wrong_number_of_passes_is_refused(passes: int) -> None:
    with pytest.raises(PlanError, match="passes is"):
        Options(passes=passes)


def test_a_file_that_is_appended_meanwhile_is_in_no_pass(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B b) WITHIN 5"
    table = pa.table({"t": [1, 3, 50], "type": ["A", "B", "A"]})
    pq.write_table(table, tmp_path / "1.parquet")
    source = FilesSource(open_lake(str(tmp_path)))
    pq.write_table(pa.table({"t": [2, 51], "type": ["B", "B"]}), tmp_path / "2.parquet")
    bound = bind(parse(query), Schema(source.columns, "t", "type"))
    found = exchange_files(
        source, Questions.of([Sase(bound)]), Options(passes=2, partitions=3, engine="reference")
    )
    assert len(found.matches) == len(cerise.find(table, query, time="t", type="type", options=REFERENCE)) == 1
