"""The suite `acer`: its queries, the methods that answer them, its smoke size, and what is drawn."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cerise
import cerise.data
from cerise.data.generators import SCHEMAS
from cerise.errors import CeriseError

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
EVENTS = 20_000
SETS = {  # of each template: data, time, type, indexed columns, options
    "papers": ("nasdaq", "date", "ticker", ("open", "volume"), {"tickers": 15}),
    "nasdaq": ("nasdaq", "date", "ticker", ("open", "volume"), {"tickers": 15}),
    "crimes": ("crimes", "date", "primary_type", ("beat", "district", "latitude", "longitude"), {}),
    "cluster": ("cluster", "ts", "type", ("scheduling_class",), {}),
    **{f"P{n}": ("acer_synthetic", "ts", "type", ("a1", "a2", "a3"), {}) for n in range(1, 6)},
}
needs_lmdb = pytest.mark.skipif(not importlib.util.find_spec("lmdb"), reason="pip install '.[bench]'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("acer")


def table_of(template: str) -> pa.Table:
    name, *_, options = SETS[template]
    return cerise.data.table(name, EVENTS, **options)


@pytest.fixture
def place(load: Any, folder: Path) -> Any:
    """Return where the events of a template lie, in small row groups."""
    roles, place = load("acer.answers").Roles, load("acer.places").Place

    def place_of(template: str) -> Any:
        name, time, kind, indexed, options = SETS[template]
        path = folder / f"{name}.parquet"
        if not path.exists():
            cerise.data.write(name, path, EVENTS, row_group=4_000, **options)
        return place(path, roles(SCHEMAS[name], time, kind, indexed), block=4_096)

    return place_of


# ---- queries


@pytest.mark.parametrize("template", [each for each in SETS if each != "papers"])
def test_a_seed_names_one_workload(load: Any, template: str) -> None:
    workload = load("acer.queries").workload
    some = workload(template, 20)
    assert some == workload(template, 50)[:20]
    assert some != workload(template, 20, seed=1)
    assert len({each.text for each in some}) > 10


def test_the_printed_queries_are_those_of_the_paper(load: Any) -> None:
    first, second, third = load("acer.queries").workload("papers", 500)
    assert first.text == (
        'PATTERN SEQ("MSFT" v1, "GOOG" v2, "MSFT" v3, "GOOG" v4)\n'
        "USE skip_till_next_match\n"
        "WHERE 326 <= v1.open <= 334 AND 120 <= v2.open <= 130 "
        "AND v3.open >= v1.open * 1.003 AND v4.open <= v2.open * 0.997\n"
        "WITHIN 12 minutes\n"
        "RETURN COUNT(*)"
    )
    assert [each.within_us // 60_000_000 for each in (first, second, third)] == [12, 15, 15]


def share(events: pa.Table, test: Any) -> float:
    held = pc.and_(
        pc.greater_equal(events[test.attribute], test.least), pc.less_equal(events[test.attribute], test.most)
    )
    return pc.mean(held.cast(pa.float64())).as_py()


def test_ranges_of_prices_are_as_selective_as_in_the_paper(load: Any) -> None:
    events = cerise.data.table("nasdaq", 600_000, tickers=15)  # 100 days
    shares = []
    for query in load("acer.queries").workload("nasdaq", 12):
        for variable in query.variables[:2]:
            own = events.filter(pc.equal(events["ticker"], variable.type))
            shares.append(share(own, variable.ranges[0]))
    assert 0.02 < np.median(shares) < 0.2
    assert max(shares) < 0.3


def test_synthetic_queries_are_drawn_as_the_paper_says(load: Any) -> None:
    events, strategies = table_of("P1"), set()
    for pattern, many in (("P1", 3), ("P2", 5), ("P3", 4), ("P4", 4), ("P5", 4)):
        for query in load("acer.queries").workload(pattern, 30):
            types = [each.type for each in query.variables]
            assert len(set(types)) == len(types) == many
            assert 1 <= len(query.dependent) <= 3
            tests = [each.ranges for each in query.variables]
            assert all(1 <= len({test.attribute for test in each}) == len(each) <= 3 for each in tests)
            assert all(0.005 < share(events, test) < 0.22 for each in tests for test in each)
            strategies.add((pattern in ("P1", "P2"), query.strategy))
    assert strategies == {
        (True, "skip_till_next_match"), (True, "skip_till_any_match"), (False, "skip_till_next_match"),
    }  # fmt: skip


# ---- methods


@needs_lmdb
@pytest.mark.parametrize("template", ["papers", "crimes", "cluster", "P2", "P4", "P5"])
def test_all_methods_count_alike(load: Any, place: Any, template: str) -> None:
    measuring, place = load("acer.measuring"), place(template)
    _, time, kind, *_ = SETS[template]
    events = pq.read_table(place.source)
    queries = load("acer.queries").workload(template, 2)
    expected = [cerise.count(events, each.text, time=time, type=kind) for each in queries]
    for name, threads in (*product(measuring.METHODS, [2]), ("full scan", 1)):
        method = measuring.METHODS[name](place, threads)
        answers = [method.answer(each) for each in queries]
        assert [each.matches for each in answers] == expected, name
        assert all(min(each.seconds.values()) >= 0 for each in answers)
        assert all(path.exists() for path in method.files())
        method.close()


def test_a_scan_hands_on_only_what_may_match(load: Any, place: Any) -> None:
    place = place("crimes")
    (query,) = load("acer.queries").workload("crimes", 1)
    answer = load("acer.full_scan").FullScan(place.source, place.roles, 1).answer(query)
    wanted = [
        all(row["primary_type"] == each.type and t.least <= row[t.attribute] <= t.most for t in each.ranges)
        for row in pq.read_table(place.source).to_pylist()
        for each in query.variables
    ]
    assert 0 < answer.events == sum(wanted) < EVENTS / 10
    assert answer.told == {"row groups": 5, "row groups of all": 5}


@pytest.fixture
def work(load: Any, place: Any) -> Any:
    """Return what a subject of the suite is asked, for the events of a template."""

    def work_of(template: str, **options: Any) -> dict[str, Any]:
        name, time, kind, indexed, _ = SETS[template]
        query = {"time": time, "type": kind, "index": list(indexed)}
        workload = {"template": template, "queries": 2}
        path = str(place(template).source)
        return {"query": query | {"workload": workload}, "data": {"generator": name}, "path": path,
                "options": options}  # fmt: skip

    return work_of


@pytest.mark.parametrize("method", ["full scan", "acer"])
@pytest.mark.parametrize("cold", [False, True])
def test_each_query_is_timed(load: Any, work: Any, method: str, cold: bool) -> None:
    subject = load("subjects").SUBJECTS["workload"]
    asked = work("cluster", method=method, cold=cold, tries=2)
    assert subject.why_not(asked) is None
    try:
        seconds, busy, done = subject.prepare(asked)()
    except OSError as error:
        pytest.skip(str(error))  # a file system that is memory itself
    told = subject.counted(done)
    assert seconds == pytest.approx(sum(told["seconds"]), abs=1e-5)
    assert busy > 0
    assert all(0 < best <= first for best, first in zip(told["seconds"], told["first_seconds"], strict=True))
    assert told["matches"][0] > 0
    assert subject.found(done)[1]["count"] == sum(told["matches"])


def test_what_is_found_tells_queries_apart(load: Any) -> None:
    measuring, answer = load("acer.measuring"), load("acer.answers").Answer

    def found(*counts: int) -> Any:
        return measuring.found([measuring.Tried(answer(each), 1.0, 1.0, 1.0) for each in counts])

    assert found(1, 2) == found(1, 2)
    assert found(1, 2)[1]["count"] == found(2, 1)[1]["count"] == 3
    assert found(1, 2) != found(2, 1)


def test_two_answers_to_one_query_are_an_error(load: Any) -> None:
    measuring, answers = load("acer.measuring"), iter([3, 4])

    class Fickle:
        def ready(self) -> Fickle:
            return self

        def answer(self, query: Any) -> Any:
            return load("acer.answers").Answer(next(answers))

    with pytest.raises(SystemExit, match="4 and 3 matches"):
        measuring._tried(Fickle(), None, tries=2)


@needs_lmdb
@pytest.mark.parametrize("form", ["parquet", "store", "plain store", "btrees"])
def test_appending_tells_sizes(load: Any, work: Any, form: str) -> None:
    subject = load("subjects").SUBJECTS["append"]
    asked = work("cluster", form=form)
    seconds, _, made = subject.prepare(asked)()
    sizes = subject.counted(made)["bytes"]
    assert seconds > 0
    assert sizes["data"] > 8 * EVENTS
    assert (sizes["index"] > EVENTS) is (form != "parquet")
    if form == "btrees":
        on_disk = sum(
            path.stat().st_size for path in Path(asked["path"]).parent.glob("cluster.btrees.made/*")
        )
        assert sizes["data"] + sizes["index"] <= on_disk < 1.5 * (sizes["data"] + sizes["index"])


# ---- B+trees


@needs_lmdb
def test_trees_find_what_they_are_asked(load: Any, place: Any) -> None:
    rng, place = random.Random(0), place("crimes")
    events, trees = pq.read_table(place.source), load("acer.btrees").Trees
    trees = trees(place.made("btrees"), place.source, place.roles)
    times = events["date"].cast(pa.int64()).to_numpy()
    for name in place.roles.indexed:
        values = events[name].to_numpy()
        for _ in range(20):
            least, most = sorted(rng.choice([rng.choice(values), rng.uniform(-100, 3_000)]) for _ in "ab")
            found = trees.between(name, least, most)
            kind = values.dtype.type
            rows = np.flatnonzero((values >= kind(least)) & (values <= kind(most)))
            assert np.sort(found.rows).tolist() == rows.tolist()
            assert (found.times == times[found.rows]).all()
    for name in ("BATTERY", "HUMAN TRAFFICKING", "JAYWALKING"):
        rows = np.flatnonzero(pc.equal(events["primary_type"], name).to_numpy())
        assert np.sort(trees.of_type(name).rows).tolist() == rows.tolist()
    assert trees.rows == EVENTS
    trees.close()


@needs_lmdb
@pytest.mark.parametrize("cheap", ["pages", "row groups"])
def test_rows_come_from_pages_and_from_parquet(load: Any, place: Any, cheap: str) -> None:
    place, page_ns = place("cluster"), 0 if cheap == "pages" else 10**12
    trees = load("acer.btrees").Trees(place.made("btrees"), place.source, place.roles, page_ns=page_ns)
    events = pq.read_table(place.source)
    rows = np.array([0, 1, 84, 85, 3_999, 4_000, 12_345, EVENTS - 1])
    names = ["type", "job_id", "cpu", "ts"]
    assert trees.fetch(rows, names).cast(events.select(names).schema).equals(events.select(names).take(rows))
    times = events["ts"].cast(pa.int64()).to_numpy()
    starts, ends = times[[10, 500, 7_000]], times[[10, 600, 9_999]]
    inside = [*range(10, 11), *range(500, 601), *range(7_000, 10_000)]
    assert trees.fetch_within(starts, ends, names)["job_id"].equals(events["job_id"].take(inside))
    trees.close()


def test_codes_sort_as_numbers_do(load: Any) -> None:
    codes = load("acer.btrees").codes
    for values in (
        np.array([-np.inf, -87.6, -1e-300, -0.0, 1e-300, 0.5, 41.9, np.inf]),
        np.array([-(2**63), -5, 0, 7, 2**63 - 1]),
        np.array([-(2**31), 0, 2**31 - 1], np.int32),
    ):
        assert (np.diff(codes(values).astype(object)) > 0).all()
    assert codes(np.array([-0.0]))[0] == codes(np.array([0.0]))[0]


@pytest.mark.parametrize("edges", list(product([False, True], repeat=2)))
def test_intervals_hold_every_match(load: Any, edges: tuple[bool, bool]) -> None:
    queries, intervals = load("acer.queries"), load("acer.indexes").intervals
    shape = "SEQ({0}, {1}, {2})" if all(edges) else "AND({0}, {1}, {2})"
    variables = tuple(queries.Variable(name, name) for name in "abc")
    query = queries.Query(shape, variables, (), (4, "milliseconds"), edges=edges)
    rng = np.random.default_rng(0)
    for _ in range(200):
        every = {name: np.sort(rng.integers(0, 80, rng.integers(1, 8))) * 1_000 for name in "abc"}
        known = rng.choice(["a", "b", "c", "ab", "ac", "bc", "abc"])
        starts, ends = intervals(query, {name: every[name] for name in known})
        assert (starts[1:] > ends[:-1]).all()
        for times in product(*every.values()):
            if max(times) - min(times) > query.within_us:
                continue
            if (edges[0] and times[0] > min(times)) or (edges[1] and times[2] < max(times)):
                continue
            assert ((starts <= min(times)) & (max(times) <= ends)).any()


@needs_lmdb
def test_conditions_are_chosen_while_they_pay(load: Any, place: Any) -> None:
    place, indexes = place("crimes"), load("acer.indexes")
    trees = load("acer.btrees").Trees(place.made("btrees"), place.source, place.roles)
    query = load("acer.queries").workload("crimes", 1)[0]
    chosen = indexes.choose(query, trees)
    model = indexes._Model(query, trees)
    assert chosen
    assert model.cost(chosen) < trees.rows * indexes.SCAN_NS
    rarest = min(
        ((model.share(c), v.name) for v in query.variables for c in (v.type, *v.ranges)),
        key=lambda each: each[0],
    )
    assert rarest[1] in chosen
    trees.close()


# ---- cold files


def test_files_are_dropped_from_memory(load: Any, tmp_path: Path) -> None:
    cold = load("acer.cold")
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 20))
    assert cold.resident(path) == 1
    try:
        cold.evict([path])
    except OSError as error:
        pytest.skip(str(error))  # a file system that is memory itself
    assert cold.resident(path) < 0.05
    assert len(path.read_bytes()) == 1 << 20
    assert cold.resident(path) == 1


# ---- the harness


def python(*args: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_suite_runs_in_its_smoke_size(tmp_path: Path) -> None:
    done = python(BENCHMARKS / "run.py", "acer", "--smoke", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "acer.jsonl").read_text().splitlines()]
    printed = [line for line in lines if line["query"] == "Q_1 to Q_3"]
    assert {line["matches"] for line in printed} == {168}
    assert len({line["hash"] for line in printed}) == 1
    for line in printed:
        assert len(line["report"]["seconds"]) == line["report"]["queries"] == 3
        assert line["seconds"]["min"] == pytest.approx(sum(line["report"]["seconds"]), abs=1e-5)
    sizes = {line["subject"]: line["report"]["bytes"] for line in lines if line["query"] == "append nasdaq"}
    assert all(each["data"] > 100_000 for each in sizes.values())
    drawn = python(BENCHMARKS / "figures/acer.py", "--results", tmp_path, "--out", tmp_path)
    assert "## Fig. 4: where the time goes" in (tmp_path / "acer.md").read_text()
    if importlib.util.find_spec("matplotlib"):
        assert drawn.returncode == 0, drawn.stderr
        assert (tmp_path / "acer.svg").read_text().startswith("<?xml")


def test_a_workload_stands_for_a_text(load: Any, tmp_path: Path) -> None:
    suites = load("suite")
    queries = suites.load("acer").queries
    assert queries["P3, 100 M"]["workload"] == {"template": "P3", "queries": 6}
    assert set(queries["q1"]) > {"text", "index"}
    path = tmp_path / "none.toml"
    path.write_text(
        'title = "no"\n[data.d]\ngenerator = "stock"\nevents = 1\n[subject.s]\nrun = "read"\n'
        '[[query]]\nname = "q"\ndata = "d"\ntime = "ts"\n'
    )
    with pytest.raises(CeriseError, match="query 'q' has no 'text'"):
        suites.load(str(path))


def test_flink_knows_every_query_that_it_is_asked(load: Any) -> None:
    suite, known = load("suite").load("acer"), load("adapter", "peers/flink_sql").QUERIES
    asked = {job.query for job in suite.jobs if suite.subjects[job.subject].get("peer") == "flink_sql"}
    assert asked == {"q1", "q2", "q3"} <= set(known)


def test_events_of_some_types_go_to_flink(load: Any, place: Any) -> None:
    place, suite = place("nasdaq"), load("suite").load("acer")
    work = {"query": suite.queries["q2"], "path": str(place.source), "options": {"before": "types"}}
    found = load("acer.filtering").before(work)()
    assert set(found["ticker"].to_pylist()) == {"NVDA", "INTC"}
    assert len(found) == pytest.approx(EVENTS * 2 / 15, rel=0.01)


def test_data_that_nothing_asks_for_is_removed(load: Any, tmp_path: Path) -> None:
    for name in ("bars.parquet", "bars_1m.parquet", "bars.store.made/x", "bars"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    load("run")._remove(tmp_path, "bars")
    assert [each.name for each in tmp_path.iterdir()] == ["bars_1m.parquet"]


# ---- figures


def line(subject: str, seconds: list[float], query: str = "nasdaq") -> dict[str, Any]:
    report = {
        "queries": len(seconds),
        "seconds": seconds,
        "first_seconds": seconds,
        "events": [9] * len(seconds),
    }
    data = {"name": "nasdaq", "generator": "nasdaq", "events": 1_000}
    how = {"run": "workload"}
    return {"subject": subject, "query": query, "report": report, "data": data, "how": how}


def figure() -> ModuleType:
    """Return the program that draws, whose name is also that of a package; its folder is on the path."""
    spec = importlib.util.spec_from_file_location("acer_figure", BENCHMARKS / "figures/acer.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_speedups_are_of_each_query(load: Any) -> None:
    says = load("acer_lines", "figures")
    scan, acer = line("full scan", [1.0, 1.0, 1.0, 1.0]), line("acer", [0.1, 0.5, 1.0, 2.0])
    cold, both = line("full scan, cold", [8.0] * 4), line("acer, cold", [1.0] * 4)
    lines = [scan, acer, cold, both, line("full scan", [5.0] * 4, "crimes")]
    assert says.speedups(acer, lines) == [10, 2, 1, 0.5]
    assert says.speedups(both, lines) == [8] * 4
    assert says.speedups(scan, lines) == []
    assert says.not_slower([10, 2, 1, 0.5]) == 0.75
    assert says.quarters([1, 2, 3, 4, 5]) == [2, 3, 4]
    row = "| nasdaq (4) | acer | 1 k | 750 ms | 750 ms | 1.5× | 0.875× – 4× | 0.5× | 10× | 75.0% | 9 |"
    assert row in figure().gains([scan, acer])


def test_ablations_are_compared_by_their_means(load: Any) -> None:
    load("acer_lines", "figures")
    text = figure().ablations([line("acer", [0.1, 0.3]), line("acer-f", [0.5, 0.5]), line("acer", [1], "x")])
    assert "| nasdaq | acer-f | 500 ms | +150% |" in text
    assert "| x |" not in text
