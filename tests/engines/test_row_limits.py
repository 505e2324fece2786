"""Row patterns at their limits: far offsets, work that grows with the square of rows, and interruption."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.rows.output import show_matches
from cerise.engines.rows.table_search import search_table
from cerise.engines.threads import Watch, start_threads
from cerise.errors import BindError, PlanError
from cerise.kernels.jit import COMPILED
from cerise.lang.match_recognize import bind_rows, parse_statement
from cerise.pattern.row_pattern import BoundRows
from tests.support.cases.row_harness import run_reference, run_rows

compiled_only = pytest.mark.skipif(not COMPILED, reason="slow")


def equal_rows(count: int) -> pa.Table:
    return pa.table({"t": range(count), "x": [1] * count})


def bound_of(table: pa.Table, body: str) -> BoundRows:
    head = "" if "MEASURES" in body else "MEASURES count(*) AS n "
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t {head}{body})"
    return bind_rows(parse_statement(sql, "standard").clauses[0], table.schema)


def found(table: pa.Table, body: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run_rows(bound_of(table, body), table, Options(**options)).to_pylist()
    return rows


# ---- far offsets

FURTHEST = 2**31 - 1


@pytest.mark.parametrize("function", ["FIRST", "LAST", "PREV", "NEXT"])
@pytest.mark.parametrize("offset", [2**31, 2**63 - 2, 2**63, 2**64 - 1, 2**64])
@pytest.mark.parametrize("where", ["DEFINE", "MEASURES"])
def test_an_offset_beyond_all_rows_is_refused_when_bound(function: str, offset: int, where: str) -> None:
    call = f"{function}(x, {offset}) IS NULL"
    body = f"PATTERN (A+) DEFINE A AS {call}"
    if where == "MEASURES":
        body = f"MEASURES {call} AS n PATTERN (A+) DEFINE A AS TRUE"
    with pytest.raises(BindError, match=rf"{function} moves more than 2,147,483,647 rows"):
        bound_of(equal_rows(3), body)


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 7, 8, 9, 10, 1000, 1_000_000, FURTHEST])
@pytest.mark.parametrize(
    "atom", ["FIRST(A.t, {})", "LAST(A.t, {})", "PREV(t, {})", "NEXT(t, {})", "FIRST(t, {})", "LAST(U.t, {})"]
)
def test_any_other_offset_reaches_a_row_or_none(atom: str, offset: int) -> None:
    """Also where many rows of a variable decide how a search goes on, so that a hash stands for them."""
    table, reached = equal_rows(12), atom.format(offset)
    body = (
        f"MEASURES {reached} AS r, count(*) AS n ALL ROWS PER MATCH PATTERN ((A | B)* C D) SUBSET U = (A, B) "
        f"DEFINE A AS t % 3 < 2, B AS t % 3 > 0, C AS coalesce({reached}, 3) % 4 = 3, D AS x = 1"
    )
    bound = bound_of(table, body)
    expected = run_reference(bound, table)
    assert run_rows(bound, table, Options(engine="rows", limits=Limits(patience=1))).equals(expected)
    assert offset > 3 or len(expected)


@compiled_only
@pytest.mark.parametrize(
    ("rows", "offset"), [(3, 1_000_000), (3, FURTHEST), (100_000, 1000), (100_000, FURTHEST)]
)
def test_an_offset_takes_no_memory(rows: int, offset: int) -> None:
    table = equal_rows(rows)
    body = f"PATTERN (A+) DEFINE A AS LAST(A.x, {offset}) IS NULL OR FIRST(A.x, {offset}) = 1"
    found(equal_rows(3), body)  # what is loaded is not counted
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert found(table, body) == [{"n": rows}]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


# ---- work that grows with the square of the rows

LINEAR = {  # searches share their states, or end where no later row can help
    "FIRST": "PATTERN (A+ B) DEFINE B AS FIRST(A.x) = -2",
    "FIRST above": "PATTERN (A+ B) DEFINE B AS x + 10000 < FIRST(A.x)",
    "LAST": "PATTERN (A+ C B) DEFINE B AS LAST(A.x, 3) = -2",
    "COUNT": "PATTERN (A+ B) DEFINE B AS COUNT(A.*) < 0",
    "COUNT above": "PATTERN (A+ B) DEFINE B AS COUNT(A.*) > 1000000",
    "COUNT equal": "PATTERN (A+ C B) DEFINE A AS x >= 0, B AS COUNT(C.*) = 2",
    "MAX": "PATTERN (A+ B) DEFINE B AS MAX(A.x) > 10000",
    "MIN": "PATTERN (A+ B) DEFINE B AS MIN(A.x) > 10000",
    "MATCH_NUMBER": "PATTERN (A+ B) DEFINE B AS MATCH_NUMBER() > 1",
}
QUADRATIC = {
    "FIRST": "PATTERN (A+ B) DEFINE A AS x >= 0, B AS t = FIRST(A.t) - 1",
    "SUM": "PATTERN (A+ B) DEFINE B AS SUM(A.x) < 0",
    "NEXT ROW": "AFTER MATCH SKIP TO NEXT ROW PATTERN (A+) DEFINE A AS x = 1",
    "DISTINCT": "PATTERN (A+ B) DEFINE B AS COUNT(DISTINCT A.x) > 1",
}


@compiled_only
@pytest.mark.parametrize("name", LINEAR)
def test_searches_share_their_states(name: str) -> None:
    """Whether rows are equal or not: in few steps for each row, where there are 5 billion pairs of rows."""
    rng = Random(name)
    some = pa.table({"t": range(100_000), "x": [rng.randrange(10_000) for _ in range(100_000)]})
    for table in (equal_rows(100_000), some):
        assert found(table, LINEAR[name], max_steps=10_000_000, limits=Limits(row_steps=1_000)) == []


@compiled_only
@pytest.mark.parametrize("within", ["", "WITHIN 1000000"])
def test_a_row_that_looks_back_needs_no_memo(within: str) -> None:
    """Each search comes to a row once, and the tests before a choice take no room."""
    body = f"AFTER MATCH SKIP TO NEXT ROW PATTERN (A X*? B) {within} DEFINE B AS x > 2 + A.x"
    rows = 4_000
    steps = rows * rows  # of X and B, for half of all pairs of rows
    assert found(equal_rows(rows), body, max_steps=steps) == []


@pytest.mark.parametrize("name", QUADRATIC)
def test_quadratic_work_is_given_up(name: str) -> None:
    """And the limit is that of all searches together: each of them alone is short."""
    size = 600 if COMPILED else 150
    table, body = equal_rows(size if name != "DISTINCT" else size // 5), QUADRATIC[name]
    few = 10 * size if name != "DISTINCT" else 2000 * size // 5
    expected = found(table, body, max_steps=1000 * few)
    assert len(expected) == (size if name == "NEXT ROW" else 0)
    with pytest.raises(PlanError, match=r"searches from the first [\d,]+ rows took [\d,]+ steps") as error:
        found(table, body, max_steps=few, limits=Limits(row_steps=10))
    assert "WITHIN" in (error.value.hint or "")
    assert "max_steps" in (error.value.hint or "")


@compiled_only
@pytest.mark.parametrize("name", QUADRATIC)
def test_quadratic_work_on_many_rows_is_given_up_soon(name: str) -> None:
    count = {"NEXT ROW": 25_000, "DISTINCT": 4_000}.get(name, 10_000)
    with pytest.raises(PlanError, match="most rows start a search through many others") as error:
        found(equal_rows(count), QUADRATIC[name])
    steps = re.search(r"took ([\d,]+) steps", str(error.value))
    assert steps is not None
    assert int(steps[1].replace(",", "")) < 3 * Options().max_steps


@compiled_only
@pytest.mark.parametrize(
    "body",
    [
        "PATTERN (A+) DEFINE A AS x = 1",
        "PATTERN (A B) DEFINE B AS x = FIRST(A.x)",
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A{20}) DEFINE A AS x = 1",
        "PATTERN (A* B) DEFINE A AS COUNT(A.*) < 100, B AS MAX(A.x) = 1",
    ],
)
def test_linear_work_is_never_given_up(body: str) -> None:
    table = equal_rows(100_000)
    assert found(table, body, max_steps=300_000) == found(table, body, max_steps=1 << 40)


def test_the_limit_holds_in_threads() -> None:
    table = equal_rows(600)
    for count in (1, 3):
        with pytest.raises(PlanError, match="most rows start a search through many others"):
            found(table, QUADRATIC["NEXT ROW"], max_steps=2_000, threads=count, limits=Limits(row_steps=1))


# ---- large patterns


@pytest.mark.parametrize(
    "pattern", ["A{1000000000}", "A{0,999999999999999999}", "((A?){5000}){5000}", "PERMUTE(A, A, A){99999}"]
)
def test_a_pattern_that_is_too_large_is_refused_at_once(pattern: str) -> None:
    before = time.process_time()
    with pytest.raises(PlanError, match="more than 1048576 steps when its quantifiers are written out"):
        found(equal_rows(3), f"PATTERN ({pattern}) DEFINE A AS TRUE")
    assert time.process_time() - before < 1  # a hundred times what it takes; writing it out takes minutes


@compiled_only
@pytest.mark.parametrize(
    ("pattern", "count"),
    [("PERMUTE(A, B, C, D, E, F, G, H)", 8), ("((A?){700}){700}", 10), ("(A?){1000,100000}", 10)],
)
def test_a_large_pattern_is_soon_planned(pattern: str, count: int) -> None:
    found(equal_rows(1), "PATTERN (A) DEFINE A AS TRUE")
    before = time.process_time()
    assert found(equal_rows(10), f"PATTERN ({pattern}) DEFINE A AS x = 1") == [{"n": count}]
    assert time.process_time() - before < 10  # twenty times what it takes


@pytest.mark.parametrize("pattern", ["^{100000} A", "(^ | ^){1000} A", "(A | ()){4000} $ ^"])
def test_anchors_are_steps_too(pattern: str) -> None:
    body = f"PATTERN ({pattern}) DEFINE A AS x = 1"
    with pytest.raises(PlanError, match="took more than 500 steps"):
        found(equal_rows(3), body, max_steps=500)


# ---- interruption


def interrupted(body: str, threads: int) -> tuple[float, str]:
    """Run a clause that takes minutes, and interrupt it.

    Returns:
        How long it went on: the time of the processor, as the machine may be busy; and what it printed.
    """
    code = f"""
        import signal, threading, time, pyarrow as pa, cerise
        signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
        rows = 400_000
        table = pa.table({{"t": range(rows), "x": [1] * rows}})
        sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES count(*) AS n {body})"
        options = cerise.Options(threads={threads}, max_steps=1 << 50)
        cerise.find(table.slice(0, 20), sql, options=options)
        print("ready", flush=True)
        try:
            cerise.find(table, sql, options=options)
        except KeyboardInterrupt:
            print(time.process_time(), "interrupted", threading.active_count(), flush=True)
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        ready = processor_time(process.pid)
        while processor_time(process.pid) < ready + 0.7:
            time.sleep(0.02)
        before = processor_time(process.pid)
        os.kill(process.pid, signal.SIGINT)
        seconds, _, said = process.stdout.readline().partition(" ")
        process.wait()
        return float(seconds) - before, said


def processor_time(process: int) -> float:
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@compiled_only
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells the time of another process")
@pytest.mark.parametrize(
    ("body", "threads"),
    [
        ("PATTERN (A+ B) WITHIN 100000 DEFINE B AS SUM(A.x) < 0", 2),
        ("PATTERN (A+ B) DEFINE B AS COUNT(DISTINCT A.x) > 1", 1),
        *(
            pytest.param(*each, marks=pytest.mark.nightly)
            for each in (
                ("PATTERN ((A | C)+ B) DEFINE B AS SUM(A.x) < 0", 1),
                ("AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B) DEFINE B AS MAX(A.x) > 1", 2),
            )
        ),
    ],
)
def test_an_interrupt_takes_effect(body: str, threads: int) -> None:
    """Soon, in 0.1 s mostly, of minutes; and no thread is left."""
    seconds, said = interrupted(body, threads)
    assert said == "interrupted 1\n"
    assert seconds < 3 * threads


# ---- progress


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["rows", "reference"])
def test_progress_is_told(name: str, threads: int) -> None:
    options = Options(name, threads=threads, limits=Limits(patience=1, pause_steps=50))
    told: list[tuple[int, int]] = []
    threads_before = threading.active_count()
    table = equal_rows(60)
    bound = bound_of(table, "AFTER MATCH SKIP TO NEXT ROW PATTERN (A{5}) DEFINE A AS x = 1")
    watch = Watch(tell=lambda *far: told.append(far))
    with start_threads(threads, watch, options.limits) as threads:
        found = search_table(
            bound, table, options, threads, lambda rows, matches: show_matches(bound, rows, matches)
        )
        answer = pa.concat_tables([each.table for each in found])
    assert len(answer) == 56
    assert {total for _, total in told} == {60}
    assert sorted(done for done, _ in told) == [done for done, _ in told]
    assert len(told) > 3
    assert told[-1] == (60, 60)
    assert threading.active_count() == threads_before
