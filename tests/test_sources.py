"""Every source gives the same answer to every verb: a table, files by path, a store."""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import Options, Store, UnsupportedError

RNG = np.random.default_rng(5)
SIZE = 3_000
EVENTS = pa.table(
    {
        "t": np.sort(RNG.integers(0, 20_000, SIZE)),
        "kind": pa.array(["A", "B", "C", "D"]).take(pa.array(RNG.integers(0, 4, SIZE))),
        "k": RNG.integers(0, 5, SIZE),
        "x": RNG.integers(0, 100, SIZE),
    }
)
ROLES = {"time": "t", "type": "kind"}
RARE = "PATTERN SEQ(A a, B b, C c) WHERE a.x < 5 AND b.x > 90 WITHIN 200 RETURN a.x AS x, c.t AS end"
QUERIES = {
    "a sequence": RARE,
    "all events of a match": "PATTERN SEQ(A a, B+ b[]) WHERE a.x = 1 AND b.x = 2 WITHIN 300",
    "without WITHIN": "PATTERN SEQ(A a, D d) PARTITION BY k WHERE a.x = 3 AND d.x = a.x",
    "not overlapping": "PATTERN SEQ(A a, B b) WITHIN 50 OUTPUT NON_OVERLAPPING",
    "totals": "PATTERN SEQ(A a, B b) PARTITION BY k WITHIN 40 RETURN COUNT(*) AS n, MAX(b.x) AS m IN ALL",
    "over matches": f"{RARE} INTO Hit; PATTERN SEQ(Hit p, Hit q) FROM Hit WITHIN 2000",
    "a row pattern": """SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
        MEASURES FIRST(A.t) AS first, COUNT(U.*) AS n, MATCH_NUMBER() AS i
        PATTERN (A U{2,}) DEFINE A AS x < 50, U AS x > PREV(x))""",
    "by a column of words": """SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY kind ORDER BY t
        MEASURES FIRST(kind) AS of, LAST(t) AS last ALL ROWS PER MATCH
        PATTERN (A U{2,}) DEFINE A AS x < 50, U AS x > PREV(x))""",
    "skipping": """SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES R.t AS r, M.t AS m
        PATTERN (R {-N*?-} M) WITHIN 300 DEFINE R AS kind = 'A' AND x < 4, M AS kind = 'D' AND x > 95)""",
}


def hits() -> pa.Table:
    return cerise.find(EVENTS, RARE, **ROLES)


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("events")
    for i in range(3):
        pq.write_table(EVENTS.slice(1_000 * i, 1_000), path / f"{i}.parquet", row_group_size=100)
    return str(path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("made") / "store"
    made = Store.create(
        path, schema=EVENTS.schema, time="t", type="kind", key="k", index=["x"], block_rows=128, pool_rows=1
    )
    made.append(EVENTS)
    return made


@pytest.fixture(scope="module")
def unkeyed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("plain") / "store"
    made = Store.create(path, schema=EVENTS.schema, time="t", type="kind", index=["x"], block_rows=128)
    made.append(EVENTS)
    return made


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_files_and_a_store_answer_as_the_table_does(
    name: str, threads: int, folder: str, unkeyed: Store
) -> None:
    query, options = QUERIES[name], Options(threads=threads)
    roles: dict[str, Any] = {} if query.startswith("SELECT") else ROLES
    expected = cerise.find(EVENTS, query, **roles)
    assert len(expected)
    for source, said in ((folder, roles), (unkeyed, {})):
        found = cerise.profile(source, query, **said, options=options)
        assert rows(found.matches) == rows(expected)
        assert found.matches.schema == cerise.schema(source, query, **said)
        assert found.report.figures["events"] == (SIZE if "FROM Hit" not in query else len(hits()))
        assert cerise.count(source, query, **said) == cerise.count(EVENTS, query, **roles)
        assert "in this process" in cerise.explain(source, query, **said)


def test_a_list_of_queries(folder: str, unkeyed: Store) -> None:
    for names in (["a sequence", "all events of a match"], ["a sequence", "without WITHIN"]):
        queries = [QUERIES[each] for each in names]
        expected = rows(cerise.find(EVENTS, queries, **ROLES))
        assert expected == rows(cerise.find(folder, queries, **ROLES, options=Options(threads=2)))
        assert expected == rows(cerise.find(unkeyed, queries))


def test_a_store_knows_its_key(store: Store) -> None:
    expected = cerise.find(EVENTS, RARE, **ROLES, key="k")
    assert rows(store.find(RARE)) == rows(expected)
    assert len(expected) < len(cerise.find(EVENTS, RARE, **ROLES))


def test_misses_in_files_and_in_a_store(folder: str, unkeyed: Store) -> None:
    query = "PATTERN SEQ(A a, B b) WHERE b.x > 99 WITHIN 10"
    expected = cerise.explain_misses(EVENTS, query, where="x = 7", limit=5, **ROLES).table
    assert len(expected) == 5
    assert expected.equals(cerise.explain_misses(folder, query, where="x = 7", limit=5, **ROLES).table)
    assert expected.equals(cerise.explain_misses(unkeyed, query, where="x = 7", limit=5).table)


def test_a_clause_that_skips_over_rows_prunes_row_groups(tmp_path: Path) -> None:
    events = EVENTS.sort_by("kind").set_column(0, "t", pa.array(range(SIZE)))
    pq.write_table(events, tmp_path / "e.parquet", row_group_size=100)
    clause = """SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES R.t AS r, M.t AS m
        PATTERN (R {-N*?-} M) DEFINE R AS kind = 'A' AND x < 4, M AS kind = 'D' AND x > 95)"""
    found = cerise.profile(str(tmp_path), clause)
    assert rows(found.matches) == rows(cerise.find(events, clause))
    figures = found.report.figures
    assert 0 < figures["row groups read"] == figures["row groups after pruning"] < figures["row groups"] - 10
    whole = cerise.profile(str(tmp_path), clause.replace("{-N*?-} M", "M"))  # rows in between matter now
    assert whole.report.figures["row groups read"] == figures["row groups"]


def test_explain_shows_how_the_query_of_from_reads(folder: str, unkeyed: Store) -> None:
    for source, roles, line in ((folder, ROLES, "scan"), (unkeyed, {}, "store")):
        said = cerise.explain(source, QUERIES["over matches"], **roles)
        inner, outer = said.split("PATTERN SEQ(Hit p")
        assert f"\n{line} " in inner
        assert f"\n{line} " not in outer
        assert "over the matches of the query before it" in outer
    only_names = cerise.explain(EVENTS.schema, QUERIES["over matches"], **ROLES)
    assert "over the matches of the query before it" in only_names


def test_a_report_says_how_many_intervals_each_variable_leaves(store: Store) -> None:
    options = Options(limits=cerise.Limits(kept_share=1, scanned_events=1))
    report = cerise.profile(store, RARE, options=options).report
    names = [name for name in report.figures if name.startswith("variable ")]
    assert names[::2] == [f"{name.removesuffix(' intervals left')} events" for name in names[1::2]]
    assert {name.split()[1] for name in names} == {"a:", "b:", "c:"}
    fits = EVENTS.filter(pa.compute.field("kind") == "A").filter(pa.compute.field("x") < 5)
    assert report.figures["variable a: events"] == len(fits)
    assert "variable a: intervals left" in str(report)


def test_arguments_that_a_source_does_not_take(store: Store) -> None:
    with pytest.raises(UnsupportedError, match="time= has no meaning for a store"):
        cerise.find(store, RARE, time="t")
    with pytest.raises(UnsupportedError, match="spark= has no meaning for a table"):
        cerise.find(EVENTS, RARE, **ROLES, spark=True)
    with pytest.raises(UnsupportedError, match="spark= is a str"):
        cerise.find(store, RARE, spark="local")
    with pytest.raises(UnsupportedError, match="versions"):
        cerise.find(EVENTS, RARE, **ROLES, version=1)


def test_verbs_take_the_same_keywords_in_the_same_order() -> None:
    wanted = ["time", "type", "key", "order", "params", "options", "version", "dialect", "spark"]
    verbs = (cerise.find, cerise.profile, cerise.count, cerise.explain, cerise.schema, cerise.explain_misses)
    for verb in verbs:
        own = ("where", "limit", "only", "report")
        names = [name for name in inspect.signature(verb).parameters if name not in own]
        assert names == ["events", "query", *wanted], verb
