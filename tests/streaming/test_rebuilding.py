"""Restarts with another engine, another layout of states, and another number of buckets change no match."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.errors import StoreError
from cerise.streaming.state.state_check import check
from cerise.streaming.state.state_events import open_buckets
from tests.support.cases.divided_stream import (
    COLUMNS,
    Answer,
    DividedStream,
    Setup,
    batch_answer,
    forget_buckets,
    random_batches,
    random_options,
)
from tests.tiers import mostly_nightly

EVERY = Limits(snapshot_bytes=1, entry_bytes=1)
TINY = replace(Limits.all(1), raced_events=10_000)  # the race of engines is a matter of time
ALONE = "OUTPUT NON_OVERLAPPING"
SASE = {
    "any": "PATTERN SEQ(A a, B b, C c) WHERE [id] USE skip_till_any_match WITHIN 12",
    "next": "PATTERN SEQ(A a, B b, C c) WHERE [id] USE skip_till_next_match WITHIN 12",
    "kleene": "PATTERN SEQ(A a, B+ k[], C c) WHERE [id] USE skip_till_next_match WITHIN 15",
    "subsets": "PATTERN SEQ(A a, B+ k[], C c) WHERE [id] USE skip_till_any_match WITHIN 8",
    "near": "PATTERN SEQ(A a, B b) WHERE [id] USE partition_contiguity WITHIN 12",
    "strict": "PATTERN SEQ(A a, B b) USE strict_contiguity WITHIN 12",
    "alone": f"PATTERN SEQ(A a, B b) WHERE [id] WITHIN 12 {ALONE}",
    "alone odd": f"PATTERN SEQ(A a, B b) WHERE [id] AND a.n % 2 = b.n % 2 WITHIN 9 {ALONE}",
    "alone any": f"PATTERN SEQ(A a, B+ k[], C c) WHERE [id] USE skip_till_any_match WITHIN 10 {ALONE}",
    "alone next": f"PATTERN SEQ(A a, B+ k[], C c) WHERE [id] USE skip_till_next_match WITHIN 15 {ALONE}",
    "alone anywhere": f"PATTERN SEQ(A a, B b) WITHIN 6 {ALONE}",
    "alone strict": f"PATTERN SEQ(A a, B b) USE strict_contiguity WITHIN 6 {ALONE}",
    "not before": "PATTERN SEQ(~C c, A a, B b) WHERE [id] WITHIN 8",
    "not between": "PATTERN SEQ(A a, ~C c, B b) WHERE [id] USE skip_till_any_match WITHIN 12",
    "not after": "PATTERN SEQ(A a, B b, ~C c) WHERE [id] WITHIN 8",
    "not at all": "PATTERN AND(A a, B b, ~C c) WHERE [id] WITHIN 6",
    "alone not before": f"PATTERN SEQ(~C c, A a, B b) WHERE [id] USE skip_till_any_match WITHIN 8 {ALONE}",
    "alone not after": f"PATTERN SEQ(A a, B b, ~C c) WHERE [id] WITHIN 8 {ALONE}",
    "totals of events": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 12 "
    "RETURN COUNT(*) AS c, SUM(a.n) AS s PER EVENT",
    "totals of windows": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 12 SLIDE 4 "
    "RETURN COUNT(*) AS c, SUM(b.n) AS s PER PARTITION, WINDOW",
    "totals of all keys": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 12 SLIDE 4 "
    "RETURN COUNT(*) AS c PER WINDOW",
    "totals waiting": "PATTERN SEQ(A a, B b, ~C c) WHERE [id] WITHIN 8 SLIDE 4 "
    "RETURN COUNT(*) AS c, MAX(b.n) AS m PER PARTITION, WINDOW",
    "totals alone": f"PATTERN SEQ(A a, B b) WHERE [id] WITHIN 12 SLIDE 4 {ALONE} "
    "RETURN COUNT(*) AS c, SUM(b.n) AS s PER PARTITION, WINDOW",
}
FROM = {
    "pairs": "PATTERN SEQ(A a, B b) WITHIN 6 RETURN a.n AS x INTO P; "
    "PATTERN SEQ(P p, P q) WHERE p.x < q.x FROM P WITHIN 20",
    "pairs alone": f"PATTERN SEQ(A a, B b) WITHIN 6 {ALONE} RETURN a.n AS x INTO P; "
    f"PATTERN SEQ(P p, P q) FROM P WITHIN 20 {ALONE}",
    "pairs waiting": f"PATTERN SEQ(A a, B b, ~C c) WHERE [id] WITHIN 6 {ALONE} RETURN a.n AS x INTO P; "
    "PATTERN SEQ(P p, P q) FROM P WITHIN 20",
}


DEFINE = {"A": "kind = 'A'", "B": "kind = 'B'", "C": "kind = 'C'", "D": "n > PREV(n) OR PREV(n) IS NULL"}


def clause(pattern: str, *, skip: str = "PAST LAST ROW", measures: str = "", partition: str = "id") -> str:
    by = f"PARTITION BY {partition} " if partition else ""
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({by}ORDER BY t, n "
        f"MEASURES FIRST(n) AS low, LAST(n) AS high{measures} ONE ROW PER MATCH AFTER MATCH SKIP {skip} "
        f"PATTERN {pattern} WITHIN 12 "
        f"DEFINE {', '.join(f'{name} AS {DEFINE[name]}' for name in DEFINE if name in pattern)})"
    )


ROWS = {
    "past": clause("(A B+)", measures=", MATCH_NUMBER() AS m"),
    "next row": clause("(A D* C)", skip="TO NEXT ROW", measures=", MATCH_NUMBER() AS m"),
    "to b": clause("(A+ B)", skip="TO LAST B"),
    "empty": clause("(A*)", measures=", MATCH_NUMBER() AS m, COUNT(A.n) AS c"),
    "begins": clause("(^ D* A B)", measures=", MATCH_NUMBER() AS m"),
    "one partition": clause("(A D D? B)", partition="", measures=", MATCH_NUMBER() AS m"),
}
KINDS = {"sase": SASE, "from": FROM, "rows": ROWS}
GOES = tuple(range(20))


def facts_of(report: dict[str, Any]) -> dict[str, Any]:
    """The figures of a report that follow from the state, whether it was loaded or is in memory."""
    detail = json.loads(report["detail"])
    return {name: value for name, value in detail.items() if name not in ("alive", "held_bytes")}


def play(
    folder: Path, queries: dict[str, str], batches: list[pa.Table], dice: random.Random
) -> tuple[Answer, Counter[str]]:
    """Play a stream with restarts; some attempts at a batch die, and some batches are repeated."""
    stream, found, seen = DividedStream(folder, kept=dice.choice((1, 3, 100))), Counter(), Counter()
    limits = dice.choice((EVERY, EVERY, TINY, Limits()))

    def setup() -> Setup:
        options = random_options(dice, queries, limits)
        return Setup(queries, dice.randint(1, 4), options, dice.randrange(2))

    how = setup()
    for number, table in enumerate(batches):
        if dice.random() < 0.2:  # an attempt with another setup that dies
            forget_buckets()
            stream.step(number, table, setup(), only=dice.randint(0, 6))
        if dice.random() < 0.5:
            forget_buckets()
            before, how = how, setup()
            seen["buckets"] += before.buckets != how.buckets
            seen["engine"] += before.options.engine != how.options.engine
        repeats = dice.random() < 0.2
        if repeats:
            forget_buckets()
        answer, reports = stream.step(number, table, how)
        if repeats:
            files = stream.files()
            forget_buckets()
            again = stream.step(number, table, how)
            assert again[0] == answer
            assert list(map(facts_of, again[1])) == list(map(facts_of, reports))
            assert stream.files() == files
        found.update(answer)
    total = sum(len(table) for table in batches)
    assert sum(row["events"] for row in reports) <= total
    return found, seen


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_restarts_change_no_match(
    tmp_path: Path, go: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cerise.files.folder.sync", lambda path: None)
    for seed in range(5):
        dice = random.Random(f"{kind} {go} {seed}")
        chosen = dice.sample(sorted(KINDS[kind]), dice.randint(1, 3))
        queries = {name: KINDS[kind][name] for name in chosen}
        batches = random_batches(dice, dice.randint(4, 10))
        found, _ = play(tmp_path / str(seed), queries, batches, dice)
        assert found == batch_answer(queries, pa.concat_tables(batches[:-1])), (go, seed, chosen)


# ---- what a query must know of its matches so far


BEFORE = [(1, "A", 0), (5, "A", 1), (6, "B", 2), (6, "A", 3), (17, "Z", 90)]  # the watermark is 12
AFTER = [(13, "B", 5), (14, "A", 7), (14, "B", 9), (99, "Z", 91)]
CHANGES = {
    "layout": Setup({}, layout=1),
    "engine": Setup({}, options=Options(engine="nfa", limits=EVERY)),
    "more buckets": Setup({}, buckets=3),
    "one bucket": Setup({}, buckets=1),
}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("key", ["[id]", "a.n >= 0"], ids=["keys", "no key"])
def test_matches_after_a_restart_do_not_overlap_those_before(tmp_path: Path, change: str, key: str) -> None:
    """The first match, n = 0 and 2, is too old for a window, and n = 1 is inside it; n = 3 comes after it."""
    text = f"PATTERN SEQ(A a, B k) WHERE {key} AND a.n % 2 = k.n % 2 USE skip_till_any_match WITHIN 9 {ALONE}"
    row = clause("(A B)", measures=", MATCH_NUMBER() AS m")
    queries = {"alone": text, "totals": f"{text} RETURN COUNT(*) AS c PER EVENT", "row": row}
    if change == "engine":
        queries = {"alone": text}
    stream, found = DividedStream(tmp_path), Counter[tuple[str, str]]()
    first = Setup(queries, options=Options(engine="rcep" if change == "engine" else None, limits=EVERY))
    for number, (rows, how) in enumerate(
        ((BEFORE, first), (AFTER, replace(CHANGES[change], queries=queries)))
    ):
        forget_buckets()
        given, _ = stream.step(number, table(*((t, kind, 5, n) for t, kind, n in rows)), how)
        assert given
        found += given
    whole = table(*((t, kind, 5, n) for t, kind, n in BEFORE + AFTER if kind != "Z"))
    assert found == batch_answer(queries, whole)


# ---- a number of buckets, in detail


PAIR = Setup({"any": SASE["any"], "alone": SASE["alone"]})


def table(*rows: tuple[int, str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], schema=COLUMNS)


def total(reports: list[dict[str, Any]]) -> Counter[str]:
    """The figures of all buckets together."""
    found: Counter[str] = Counter()
    for detail in (json.loads(each["detail"]) for each in reports):
        found["events"] += detail["events"]
        found.update(detail["aside"])
        found.update({f"matches {name}": count for name, count in detail["matches"].items()})
    return found


def test_figures_stay_right_in_total(tmp_path: Path) -> None:
    stream, other = DividedStream(tmp_path / "divided"), DividedStream(tmp_path / "whole")
    batches = random_batches(random.Random(5), 8)
    batches.insert(5, table((0, "A", 1, 999), (0, "B", 2, 998)))  # late
    for number, events in enumerate(batches):
        forget_buckets()
        _, reports = stream.step(number, events, replace(PAIR, buckets=1 + number * 3 % 4))
        forget_buckets()
        _, expected = other.step(number, events, PAIR)
        assert total(reports) == total(expected)
    assert total(reports)["matches alone"] > 0
    assert total(reports)["events: late"] == 2


def test_the_files_of_former_buckets_go_when_no_batch_can_need_them(tmp_path: Path) -> None:
    stream, events = DividedStream(tmp_path, kept=2), random_batches(random.Random(1), 12)
    for number, each in enumerate(events):
        stream.step(number, each, replace(PAIR, buckets=4 if number < 3 else 2))
        left = {name.split("/")[2] for name in stream.files() if name.startswith("state")}
        if number == 4:
            assert left == {"bucket-0", "bucket-1", "bucket-2", "bucket-3"}
            forget_buckets()
            stream.step(3, events[3], replace(PAIR, buckets=3))  # the batch of the change can be repeated
            stream.step(3, events[3], replace(PAIR, buckets=2))
            stream.step(4, each, replace(PAIR, buckets=2))
    assert left == {"bucket-0", "bucket-1"}
    assert check(tmp_path / "state") == []


def test_a_bucket_that_comes_again_is_not_the_one_that_was(tmp_path: Path) -> None:
    """A batch is tried with 4 buckets, done with 2, and the next one has 4 again."""
    stream = DividedStream(tmp_path)
    for number, (tried, done) in enumerate([(2, 4), (4, 2), (2, 4), (3, 3)]):
        pair = table((10 * number, "A", number, 2 * number), (10 * number + 1, "B", number, 2 * number + 1))
        forget_buckets()
        stream.step(number, table((10 * number, "A", 9, 99)), replace(PAIR, buckets=tried))
        forget_buckets()
        stream.step(number, pair, replace(PAIR, buckets=done))
        assert len(open_buckets(tmp_path / "state")["q"]) == done
    _, reports = stream.step(4, table((1_000, "Z", 0, 1_000)), replace(PAIR, buckets=4))
    assert total(reports)["matches alone"] == 4
    assert total(reports)["events"] == 8
    assert check(tmp_path / "state") == []


def test_what_journals_do_not_hold_cannot_be_divided(tmp_path: Path) -> None:
    stream = DividedStream(tmp_path)
    queries = {"counted": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 9 EVENTS", "any": SASE["any"]}
    stream.step(0, table((1, "A", 1, 1), (2, "A", 2, 2), (20, "C", 1, 3)), Setup(queries))
    with pytest.raises(StoreError, match="query counted cannot be divided into other buckets") as caught:
        stream.step(1, table((21, "B", 1, 4)), Setup(queries, buckets=3))
    hint = str(caught.value.hint)
    assert all(each in hint for each in ("buckets=2", "replace=['counted']", "history="))
    replaced = Setup(queries, buckets=3, replaced=frozenset(["counted"]))
    _, reports = stream.step(1, table((21, "B", 1, 4), (90, "C", 5, 5)), replaced)
    assert total(reports)["events"] == 5


def test_another_engine_cannot_go_on_from_a_window_that_counts_events(tmp_path: Path) -> None:
    stream, query = (
        DividedStream(tmp_path),
        {"counted": "PATTERN SEQ(A a, B b) WHERE [id] USE skip_till_any_match WITHIN 9 EVENTS"},
    )
    limited = Options(engine="nfa", limits=EVERY)
    stream.step(0, table((1, "A", 1, 1), (20, "C", 1, 3)), Setup(query, options=limited))
    with pytest.raises(StoreError, match="another engine or release of Cerise; and a journal does not reach"):
        stream.step(1, table((21, "B", 1, 4)), Setup(query, options=replace(limited, engine="rcep")))


def test_queries_of_other_keys_come_and_go(tmp_path: Path) -> None:
    """Buckets get other numbers; queries that stay go on, and queries that come again start anew."""
    by_n = SASE["any"].replace("[id]", "[n]")
    stream, both, found = (
        DividedStream(tmp_path),
        {"id": SASE["any"], "n": by_n, "one": FROM["pairs"]},
        Counter(),
    )
    steps = [
        (("id", "one"), table((1, "A", 1, 7), (2, "A", 2, 8))),
        (("id", "n", "one"), table((8, "A", 8, 5), (9, "B", 1, 7), (9, "B", 2, 9))),
        (("n",), table((15, "B", 8, 5), (15, "C", 8, 8))),
        (("id", "n"), table((16, "C", 1, 7), (16, "C", 8, 5), (17, "A", 4, 4))),
        (("id", "n"), table((18, "B", 4, 3), (19, "C", 4, 2), (90, "C", 9, 9))),
    ]
    for number, (names, events) in enumerate(steps):
        forget_buckets()
        how = Setup(
            {name: both[name] for name in names}, buckets=dict(enumerate((2, 2, 3, 3))).get(number, 2)
        )
        found.update(name for name, _ in stream.step(number, events, how)[0].elements())
    assert found == {"id": 1, "n": 1}
    assert check(tmp_path / "state") == []
