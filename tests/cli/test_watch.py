"""`cerise watch` and `cerise watched`: matches once each, states that go on, damage that is named."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cerise import api
from cerise.cli import watch_sources
from cerise.cli.inputs import InputFiles
from cerise.cli.main import app
from cerise.cli.watch_sources import TopicSource
from cerise.cli.watch_state import BatchNote, StateFile
from cerise.engines.base import Options
from cerise.errors import StoreError
from cerise.events import Schema
from cerise.files.topics.topic import Topic, TopicState
from cerise.kinds import plain_schema
from cerise.sources import Roles
from cerise.stream_queries import bind_queries, clause_binder, time_rules
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.entry import Arrival, MicroBatch, find_top
from cerise.streaming.state.journal import CACHE, Journal
from cerise.streaming.state.state_events import read_events
from cerise.streaming.state.state_files import FileStateHome

if TYPE_CHECKING:
    from click.testing import Result

ROOT = Path(__file__).parents[2]
QUERY = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 20"
ABSENT = "PATTERN SEQ(A a, NOT B b) WHERE [id] WITHIN 20"
ROLES = ("--time", "t", "--type", "kind")
HOW = {"time": "t", "type": "kind"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    return tmp_path


def cerise(*args: str, code: int = 0, stdin: str | None = None) -> Result:
    done = CliRunner().invoke(app, args, input=stdin)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def watch(*args: str, code: int = 0, stdin: str | None = None, delay: str = "5") -> Result:
    return cerise("watch", *args, *ROLES, "--delay", delay, code=code, stdin=stdin)


def stream(seed: int, events: int = 400, disorder: int = 5) -> pa.Table:
    """Return events whose times are out of order by no more than `disorder`."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(events) for _ in range(events))
    arrival = sorted(range(events), key=lambda i: times[i] + rng.random() * disorder)
    kinds = [rng.choice("ABC") for _ in times]
    return pa.table(
        {
            "t": [times[i] for i in arrival],
            "kind": [kinds[i] for i in arrival],
            "id": [rng.randrange(4) for _ in arrival],
        }
    )


def put(table: pa.Table, name: str) -> None:
    """Write a file as a careful writer does: under another name first."""
    end = Path(name).suffix
    draft = Path("in") / f".{name}"
    if end == ".parquet":
        pq.write_table(table, draft)
    elif end == ".csv":
        pyarrow.csv.write_csv(table, draft)
    else:
        draft.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    draft.replace(Path("in") / name)


def rows_in(text: str) -> list[Any]:
    return sorted((json.loads(line) for line in text.splitlines()), key=json.dumps)


def expected(table: pa.Table, query: str = QUERY) -> list[Any]:
    return keys(api.find(table, query, **HOW).to_pylist())  # type: ignore[arg-type]


def keys(rows: list[Any]) -> list[Any]:
    """Return matches by what they bind; a stream numbers events otherwise."""
    return sorted((row["first_time"], row["last_time"], row["a"]["id"]) for row in rows)


def batches_in(folder: str) -> list[Any]:
    found: list[Any] = []
    for file in sorted(Path(folder).iterdir()):
        found += pq.read_table(file).to_pylist()
    return keys(found)


# ---- sources and sinks


@pytest.mark.parametrize("end", ["parquet", "csv", "jsonl"])
def test_a_folder_gives_the_matches_of_its_events(end: str) -> None:
    events = stream(1)
    for i in range(4):
        put(events.slice(i * 100, 100), f"{i}.{end}")
    done = watch("in", QUERY, "--once", "--flush")
    assert keys(rows_in(done.stdout)) == expected(events)
    assert len(expected(events)) > 20
    assert "400 events in 1 batch" in done.stderr


def test_lines_of_standard_input_give_the_same() -> None:
    events = stream(2)
    lines = "".join(json.dumps(row) + "\n" for row in events.to_pylist())
    done = watch("-", QUERY, "--flush", stdin=lines)
    assert keys(rows_in(done.stdout)) == expected(events)


def test_without_flush_matches_wait_for_the_watermark() -> None:
    put(pa.table({"t": [1, 2, 6, 8], "kind": ["A", "B", "A", "B"], "id": [1, 1, 1, 1]}), "0.parquet")
    done = watch("in", QUERY, "--once")
    assert [row["last_time"] for row in rows_in(done.stdout)] == [2]
    assert "2 held for the watermark, 3" in done.stderr


@pytest.mark.parametrize("to", ["out.jsonl", "out.csv", "out"])
def test_a_run_in_pieces_writes_each_match_once(to: str) -> None:
    events = stream(3)
    for i in range(8):
        put(events.slice(i * 50, 50), f"{i}.parquet")
        watch("in", QUERY, "--once", "--state", "watch.state", "--to", to)
    late = pa.table({"t": [10_000], "kind": ["C"], "id": [0]})
    put(late, "last.parquet")
    watch("in", QUERY, "--once", "--state", "watch.state", "--to", to)
    if to == "out":
        assert batches_in(to) == expected(events)
    elif to == "out.csv":
        table = pyarrow.csv.read_csv(to)
        found = zip(*(table[name].to_pylist() for name in ("first_time", "last_time", "a.id")), strict=True)
        assert sorted(found) == expected(events)
    else:
        assert keys(rows_in(Path(to).read_text())) == expected(events)


def test_several_queries_of_both_languages() -> None:
    events = stream(4)
    put(events, "0.parquet")
    Path("dip.sql").write_text(
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY id ORDER BY t MEASURES X.t AS at "
        "PATTERN (X Y) WITHIN 50 DEFINE Y AS kind = 'C')"
    )
    Path("ab.sase").write_text(QUERY)
    done = watch("in", "--query", "ab=ab.sase", "--query", "dip=dip.sql", "--once", "--flush")
    rows = rows_in(done.stdout)
    assert keys([row for row in rows if row["query"] == "ab"]) == expected(events)
    assert any(row["query"] == "dip" for row in rows)


def test_a_limit_evicts_the_oldest_or_ends_the_run_with_the_state_untouched() -> None:
    table = pa.table({"t": [1, 2, 3, 4, 20], "kind": ["A", "A", "A", "B", "C"], "id": [1, 1, 2, 2, 9]})
    put(table.slice(0, 3), "0.parquet")
    put(table.slice(3), "1.parquet")
    refused = watch("in", QUERY, "--once", "--state", "s", "--limit-runs", "1", code=1)
    assert "more than runs=1" in refused.stderr
    assert "the state before this batch is untouched" in refused.stderr
    assert not Path("s").exists()
    done = watch(
        "in", QUERY, "--once", "--state", "s", "--limit-runs-per-partition", "1", "--on-limit", "evict"
    )
    assert "evicted 1 of the oldest runs of query 1: 1 of 1" in done.stderr
    assert "evicted    1 of the oldest runs of query 1: 1 of 1" in cerise("watched", "s").stdout
    assert "not a size" in watch("in", QUERY, "--limit-state", "big", code=1).stderr
    assert "on_limit is 'no'" in watch("in", QUERY, "--on-limit", "no", code=1).stderr


def test_late_events_are_written_with_the_reason() -> None:
    put(pa.table({"t": [100, 101], "kind": ["A", "B"], "id": [1, 1]}), "0.parquet")
    watch("in", QUERY, "--once", "--state", "s", "--late", "late")
    put(pa.table({"t": [95, 96, None], "kind": ["A", "A", "A"], "id": [1, 1, 1]}), "1.parquet")
    done = watch("in", QUERY, "--once", "--state", "s", "--late", "late")
    found = pq.read_table("late").to_pylist()
    assert [(row["t"], row["reason"], row["watermark"]) for row in found] == [
        (95, "late", 96),
        (None, "no time", 96),
    ]
    assert "set aside events: 1 late, 1 no time" in done.stderr


def test_columns_can_be_said_before_any_event_comes() -> None:
    done = watch("in", QUERY, "--once", "--schema", "t long, kind string, id long")
    assert done.stdout == ""
    assert "0 events in 0 batches" in done.stderr
    assert "no events have come" in watch("in", QUERY, "--once").stderr


def test_a_name_that_lines_leave_out_is_null() -> None:
    lines = '{"t": 1, "kind": "A", "id": 1, "note": "x"}\n{"t": 2, "kind": "B", "id": 1}\n'
    done = watch("-", "PATTERN SEQ(A a, B b) WITHIN 20 RETURN b.note AS note", "--flush", stdin=lines)
    assert [row["note"] for row in rows_in(done.stdout)] == [None]


# ---- faults


def test_a_batch_that_was_killed_before_its_state_is_written_again_alike() -> None:
    events = stream(5)
    put(events.slice(0, 200), "0.parquet")
    watch("in", QUERY, "--once", "--state", "s", "--to", "out", "--late", "late.jsonl")
    before = Path("s").read_bytes()
    put(events.slice(200, 100), "1.parquet")
    watch("in", QUERY, "--once", "--state", "s", "--to", "out", "--late", "late.jsonl")
    written = {file.name: file.read_bytes() for file in Path("out").iterdir()}
    # As if the run had been killed after its matches were written, and before its state was.
    Path("s").write_bytes(before)
    status = Path("in/1.parquet").stat()
    StateFile("s").note(BatchNote(1, {"1.parquet": (status.st_size, status.st_mtime_ns)}, 0))
    put(events.slice(300, 100), "2.parquet")
    put(pa.table({"t": [10_000], "kind": ["C"], "id": [0]}), "3.parquet")
    watch("in", QUERY, "--once", "--state", "s", "--to", "out", "--late", "late.jsonl")
    after = {file.name: file.read_bytes() for file in Path("out").iterdir()}
    assert {name: after[name] for name in written} == written
    assert batches_in("out") == expected(events)


def test_a_file_of_an_interrupted_batch_that_is_gone_is_an_error() -> None:
    put(stream(6).slice(0, 10), "0.parquet")
    watch("in", QUERY, "--once", "--state", "s")
    StateFile("s").note(BatchNote(1, {"gone.parquet": (1, 1)}, 0))
    assert (
        "gone.parquet is gone since the batch" in watch("in", QUERY, "--once", "--state", "s", code=1).stderr
    )


def test_a_damaged_file_leaves_the_state_and_is_read_when_it_is_mended() -> None:
    events = stream(7)
    put(events.slice(0, 200), "0.parquet")
    watch("in", QUERY, "--once", "--state", "s", "--to", "out.jsonl")
    Path("in/1.parquet").write_bytes(b"PAR1 nothing PAR1")
    before = Path("s").read_bytes()
    assert "cannot read" in watch("in", QUERY, "--once", "--state", "s", "--to", "out.jsonl", code=1).stderr
    assert Path("s").read_bytes() == before
    put(events.slice(200, 200), "1.parquet")
    put(pa.table({"t": [10_000], "kind": ["C"], "id": [0]}), "2.parquet")
    watch("in", QUERY, "--once", "--state", "s", "--to", "out.jsonl")
    assert keys(rows_in(Path("out.jsonl").read_text())) == expected(events)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("in", QUERY, "--flush", "--state", "s"), "--flush ends the stream"),
        (("in",), "give a query"),
        (("in", QUERY, "--poll", "soon"), "--poll is a time"),
        (("in", QUERY, "--to", "out", "--format", "xml"), "--format is one of"),
    ],
)
def test_options_that_make_no_sense(args: tuple[str, ...], message: str) -> None:
    assert message in " ".join(watch(*args, code=2).stderr.split())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nowhere", QUERY), "no folder is at nowhere"),
        (("in", QUERY, "--to", "out.parquet"), "cannot grow"),
        (("in", "PATTERN SEQ(A a, B b)"), "state grows for ever"),
        (("in", "PATTERN SEQ(A a, B b) WITHIN 20 minutes"), "WITHIN"),
        (("in", QUERY, "--query", "ab"), "has no name"),
    ],
)
def test_what_is_wrong_is_said(args: tuple[str, ...], message: str) -> None:
    put(stream(8).slice(0, 10), "0.parquet")
    assert message in watch(*args, "--once", code=1).stderr


def test_a_value_that_could_not_be_computed_is_an_error_or_null() -> None:
    put(pa.table({"t": [1, 2, 50], "kind": ["A", "B", "C"], "id": [0, 0, 1]}), "0.parquet")
    query = "PATTERN SEQ(A a, B b) WITHIN 20 RETURN a.t / b.id AS ratio INTO ratio"
    assert "division by zero in RETURN" in watch("in", query, "--once", code=1).stderr
    done = watch("in", query, "--once", "--state", "s", "--on-error", "null")
    assert rows_in(done.stdout)[0]["ratio"] is None
    assert "1 value could not be computed" in done.stderr
    assert "1 value of query ratio could not be computed" in cerise("watched", "s").stdout
    assert "on_error is 'skip'" in watch("in", query, "--once", "--on-error", "skip", code=1).stderr


def test_a_folder_with_batches_of_another_run_is_refused() -> None:
    put(pa.table({"t": [1, 2, 50], "kind": ["A", "B", "C"], "id": [1, 1, 1]}), "0.parquet")
    watch("in", QUERY, "--once", "--to", "out")
    assert "whose state is not given" in watch("in", QUERY, "--once", "--to", "out", code=1).stderr


def test_a_query_that_has_changed_must_be_replaced_by_name() -> None:
    put(pa.table({"t": [1, 2, 50], "kind": ["A", "B", "C"], "id": [1, 1, 1]}), "0.parquet")
    watch("in", "--query", f"ab={QUERY}", "--once", "--state", "s")
    other = "ab=PATTERN SEQ(A a, C b) WHERE [id] WITHIN 20"
    assert "--replace ab" in watch("in", "--query", other, "--once", "--state", "s", code=1).stderr
    watch("in", "--query", other, "--replace", "ab", "--once", "--state", "s")


# ---- a process


def start(*args: str) -> subprocess.Popen[str]:
    more = () if "--delay" in args else (*ROLES, "--delay", "5")
    words = [sys.executable, "-m", "cerise", "watch", *args, *more, "--poll", "50ms"]
    return subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(what: Any, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.05)


def test_an_interrupt_ends_with_the_state_saved_and_a_summary() -> None:
    events = stream(9)
    put(events.slice(0, 200), "0.parquet")
    run = start("in", QUERY, "--state", "s", "--to", "out.jsonl")
    try:
        wait_for(lambda: Path("s").exists())
        put(events.slice(200, 200), "1.parquet")
        wait_for(lambda: "1.parquet" in json.dumps(list(saved_files())))
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 0, said
    assert "400 events in 2 batches" in said
    put(pa.table({"t": [10_000], "kind": ["C"], "id": [0]}), "2.parquet")
    watch("in", QUERY, "--once", "--state", "s", "--to", "out.jsonl")
    assert keys(rows_in(Path("out.jsonl").read_text())) == expected(events)


def test_silence_is_noticed_without_another_event() -> None:
    now = pa.array([dt.datetime.now(dt.UTC)], pa.timestamp("us", "UTC"))
    put(pa.table({"t": now, "kind": ["A"], "id": [1]}), "0.parquet")
    words = ("in", ABSENT.replace("20", "1 second"), *ROLES, "--delay", "0", "--idle", "1 second")
    run = start(*words, "--to", "out.jsonl")
    try:
        wait_for(lambda: Path("out.jsonl").exists() and Path("out.jsonl").read_text().endswith("\n"))
    finally:
        run.kill()
        run.communicate()
    assert len(rows_in(Path("out.jsonl").read_text())) == 1


def test_an_event_too_far_in_the_future_is_set_aside() -> None:
    now = dt.datetime.now(dt.UTC)
    times = pa.array([now, now + dt.timedelta(days=2)], pa.timestamp("us", "UTC"))
    put(pa.table({"t": times, "kind": ["A", "B"], "id": [1, 1]}), "0.parquet")
    query = QUERY.replace("20", "9 days")
    done = watch("in", query, "--once", "--ahead", "1 day", "--late", "late.jsonl", delay="10 seconds")
    assert [row["reason"] for row in rows_in(Path("late.jsonl").read_text())] == ["future"]
    assert "set aside events: 1 future" in done.stderr


def test_a_terminal_shows_a_line_that_is_renewed() -> None:
    put(stream(15), "0.parquet")
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "cerise", "watch", "in", QUERY, *ROLES, "--delay", "5", "--once"]
    with subprocess.Popen(
        [*words, "--to", "out.jsonl", "--state", "s"], stdout=subprocess.DEVNULL, stderr=follower,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
    ) as run:  # fmt: skip
        os.close(follower)
        shown = b""
        with contextlib.suppress(OSError):  # the terminal is closed at the end
            while piece := os.read(leader, 4096):
                shown += piece
    os.close(leader)
    assert run.returncode == 0
    assert b"waiting for events" in shown
    assert b"400 events in 1 batch" in shown


def saved_files() -> list[str]:
    found = StateFile("s").load()
    return [] if found is None else list(found.progress.files)


def kill_after_a_batch(run: subprocess.Popen[str], seconds: float) -> None:
    already = set(saved_files())
    wait_for(lambda: run.poll() is not None or set(saved_files()) != already)
    time.sleep(seconds)
    run.kill()
    run.communicate()


@pytest.mark.parametrize("to", ["out", "out.jsonl"])
def test_kills_at_random_moments_lose_and_repeat_nothing(to: str) -> None:
    rng, events = random.Random(11), stream(10, 600)
    for i in range(12):
        put(events.slice(i * 50, 50), f"{i:02}.parquet")
        if i % 4 == 3:
            kill_after_a_batch(start("in", QUERY, "--state", "s", "--to", to), rng.random() * 0.1)
    put(pa.table({"t": [10_000], "kind": ["C"], "id": [0]}), "99.parquet")
    watch("in", QUERY, "--once", "--state", "s", "--to", to)
    found = batches_in(to) if to == "out" else keys(rows_in(Path(to).read_text()))
    assert found == expected(events)


# ---- watched


def test_the_state_of_a_run_is_shown() -> None:
    put(pa.table({"t": [1, 2, 6, 8], "kind": ["A", "B", "A", "B"], "id": [1, 1, 1, 1]}), "0.parquet")
    watch("in", "--query", f"ab={QUERY}", "--once", "--state", "s")
    shown = cerise("watched", "s", "--check").stdout
    assert "cerise watch: 1 batch, 1 file read" in shown
    assert "watermark  3, 5 behind the newest event" in shown
    assert "events     4 accepted, 2 held for the watermark" in shown
    assert "matches    1 of query ab" in shown
    data = bytearray(Path("s").read_bytes())
    data[-1] ^= 1
    Path("s").write_bytes(data)
    assert "s is damaged" in cerise("watched", "s", code=1).stderr


def lay_state(path: str, queries: Any, batches: list[pa.Table], *, snapshots: bool) -> None:
    """Write the state of a stream as tasks of Spark write it, in one bucket."""
    columns = plain_schema(batches[0].schema)
    found = bind_queries(
        queries,
        columns,
        Roles(time="t", type="kind"),
        clause_binder(columns, "standard", Options()),
        arrival=True,
    )
    limits = Options().limits
    options = Options(limits=replace(limits, snapshot_bytes=1, entry_bytes=1)) if snapshots else Options()
    rules = time_rules(5, None, None, ["events"], pa.int64())
    plan = BucketPlan(found.queries, Schema(columns, "t"), rules, options)
    for number, table in enumerate(batches):
        CACHE.clear()  # so that every batch reads the state of the batch before
        home = FileStateHome(path, "abc", 0, number)
        journal = Journal(plan, home)
        bucket = journal.open()
        top = find_top(table, plan.roles, rules, None)
        journal.keep(bucket, bucket.step(MicroBatch([Arrival("events", top, table)])).entry)
        home.commit()


@pytest.mark.parametrize("snapshots", [False, True])
def test_the_state_of_a_stream_of_spark_is_shown(*, snapshots: bool) -> None:
    events = stream(12)
    batches = [events.slice(i * 100, 100) for i in range(4)]
    lay_state("state", {"ab": QUERY, "none": ABSENT}, batches, snapshots=snapshots)
    shown = cerise("watched", "state", "--check").stdout
    assert "state of   streaming query abc" in shown
    watermark = max(events["t"].to_pylist()) - 5
    assert f"watermark  {watermark}, 5 behind the newest event" in shown
    assert "events     400 accepted" in shown
    passed = [row for row in expected(events) if row[1] < watermark]
    assert f"matches    {len(passed)} of query ab" in shown
    assert "versions   0: after batch 3, kept since 0" in shown
    assert "all files are sound" in shown


@pytest.mark.parametrize("snapshots", [False, True])
def test_counts_of_late_events_survive(*, snapshots: bool) -> None:
    times = [[100, 101], [1, None, 102], [96, 97, 103], [104]]
    batches = [
        pa.table({"t": pa.array(each, pa.int64()), "kind": ["A"] * len(each), "id": [1] * len(each)})
        for each in times
    ]
    lay_state("state", QUERY, batches, snapshots=snapshots)
    shown = cerise("watched", "state").stdout
    assert "set aside  events: 2 late, 1 no time" in shown
    assert "events     6 accepted" in shown


def test_damaged_files_are_named() -> None:
    lay_state("state", QUERY, [stream(13).slice(i * 50, 50) for i in range(3)], snapshots=False)
    part = next(Path("state").rglob("*entry-1-*"))
    part.write_bytes(part.read_bytes()[:-1])
    done = cerise("watched", "state", "--check", code=1)
    assert part.name in done.stdout
    Path("state").joinpath("query-abc", "bucket-0", "000000000002.json").write_text("{}")
    done = cerise("watched", "state", "--check", code=1)
    assert "000000000002.json" in done.stdout
    assert "is damaged" in cerise("watched", "state", code=1).stderr


def test_a_path_without_a_state() -> None:
    assert "in holds no state" in cerise("watched", "in", code=1).stderr
    (Path("ck") / "offsets").mkdir(parents=True)
    (Path("ck") / "metadata").write_text("{}")
    assert "is a checkpoint" in cerise("watched", "ck", code=1).stderr


# ---- why it did not fire


@pytest.mark.parametrize("snapshots", [False, True])
def test_the_journals_hold_the_events_that_matter(*, snapshots: bool) -> None:
    events = stream(14)
    lay_state("state", QUERY, [events.slice(i * 20, 20) for i in range(20)], snapshots=snapshots)
    found = read_events("state")
    watermark = max(events["t"].to_pylist()) - 5
    rows = [tuple(row.values()) for row in found.to_pylist()]
    wanted = [tuple(row.values()) for row in events.to_pylist() if row["t"] >= watermark - 20]
    assert not Counter(rows) - Counter(tuple(row.values()) for row in events.to_pylist())
    assert not set(wanted) - set(rows)
    if not snapshots:
        assert sorted(rows) == sorted(tuple(row.values()) for row in events.to_pylist())


def test_an_unbounded_stream_has_held_events_in_its_snapshot() -> None:
    counted = "PATTERN SEQ(A a, B b) WITHIN 10 EVENTS"
    table = pa.table({"t": [1, 2, 3, 9, 10], "kind": list("ABABC"), "id": [1] * 5})
    lay_state("state", counted, [table], snapshots=True)
    assert sorted(read_events("state")["t"].to_pylist()) == [9, 10]


def test_events_that_started_no_match_are_explained() -> None:
    table = pa.table({"t": [1, 40, 60], "kind": ["A", "B", "C"], "id": [1, 1, 1]})
    lay_state("state", {"ab": QUERY}, [table], snapshots=False)
    said = cerise("watched", "state", "--why", QUERY, "--type", "kind").stdout
    assert said.strip() == str(api.explain_misses(table, QUERY, **HOW)).strip()  # type: ignore[arg-type]
    assert "39 > 20" in said


def test_queries_with_other_keys_have_events_of_their_own() -> None:
    table = pa.table({"t": [1, 40, 60], "kind": ["A", "B", "C"], "id": [1, 1, 1]})
    lay_state("state", {"ab": QUERY}, [table], snapshots=False)
    with pytest.raises(StoreError, match="no query is named 'ba'"):
        read_events("state", "ba")
    with pytest.raises(StoreError, match="the streams abc"):
        read_events("state", stream="xyz")


@pytest.mark.parametrize("option", ["--to", "--late"])
def test_a_file_of_another_run_is_not_overwritten(option: str) -> None:
    pq.write_table(stream(1), "in/1.parquet")
    Path("out.jsonl").write_text("{}\n")
    assert "whose state is not given" in watch("in", QUERY, "--once", option, "out.jsonl", code=1).stderr
    assert Path("out.jsonl").read_text() == "{}\n"


class StillTopic:
    """A stand-in for Kafka's client: a topic of two partitions, which grows by hand."""

    ends: ClassVar[dict[int, int]] = {0: 7, 1: 3}

    def __init__(self, topic: Topic) -> None:
        self.topic = topic

    def describe(self) -> TopicState:
        return TopicState("", tuple(self.ends))

    def first_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return {number: self.ends[number] for number in partitions}


@pytest.mark.parametrize("latest", [False, True])
def test_a_topic_is_read_from_its_first_or_its_latest_event(
    monkeypatch: pytest.MonkeyPatch, latest: bool
) -> None:
    monkeypatch.setattr(watch_sources, "TopicClient", StillTopic)
    monkeypatch.setattr(StillTopic, "ends", {0: 7, 1: 3})
    source = TopicSource(Topic.of("kafka://here:9092/ticks", {}), InputFiles("", "t"), latest)
    found = source.take()
    assert (found is None) == latest
    if found is not None:
        assert found.files == {"partition 0": (0, 7), "partition 1": (0, 3)}
        return
    assert source.take() is None
    StillTopic.ends.update({0: 9, 2: 1})  # two events, and a new partition with one
    found = source.take()
    assert found is not None
    assert found.files == {"partition 0": (7, 9), "partition 1": (3, 3), "partition 2": (0, 1)}


def test_only_a_topic_has_a_latest_event() -> None:
    assert "--latest needs a topic of Kafka" in watch("in", QUERY, "--latest", code=2).output
