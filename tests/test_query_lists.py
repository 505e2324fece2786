"""Lists of queries, and queries by name: one table of the answers of each, and errors with a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import cerise
from cerise import BindError, CeriseError, Options, ParseError, PlanError, UnsupportedError, dsl
from cerise.run.many.united_answers import unite

EVENTS = pa.table({"type": ["A", "B", "B", "C"] * 5, "t": range(20), "x": [5, 1, 2, 7] * 5})
ROLES: dict[str, Any] = {"time": "t", "type": "type"}
RISE = "PATTERN SEQ(A a, C c) WHERE c.x > a.x WITHIN 10"
FALL = "PATTERN SEQ(A a, B b) WHERE b.x < a.x WITHIN 10 RETURN b.x AS low INTO Fall"
CLAUSE = "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS s PATTERN (A) DEFINE A AS x > 6)"


def find(query: Any, **given: Any) -> pa.Table:
    return cerise.find(EVENTS, query, **ROLES, **given)


def rows_of(found: pa.Table, name: str, alone: pa.Table) -> Counter[str]:
    """The rows of one query in an answer to several, with the columns that it has alone."""
    mine = found.filter(pa.compute.equal(found["query"], name)).select(alone.column_names)
    return Counter(map(str, mine.to_pylist()))


@pytest.mark.parametrize(
    ("queries", "names"),
    [
        ([RISE, FALL], ["1", "Fall"]),
        ({"up": RISE, "down": FALL}, ["up", "down"]),  # the name in the dict, not the INTO name
        ({"up": RISE}, ["up"]),
        ([FALL], ["Fall"]),
        ([dsl.seq(dsl.var("A", "a"), dsl.var("C", "c")).within(10), RISE], ["1", "2"]),
    ],
)
def test_each_match_has_the_name_of_its_query(queries: Any, names: list[str]) -> None:
    found = find(queries)
    assert list(dict.fromkeys(found["query"].to_pylist())) == names
    each = list(queries.values()) if isinstance(queries, dict) else queries
    for name, query in zip(names, each, strict=True):
        alone = find(query)
        assert len(alone)
        assert rows_of(found, name, alone) == Counter(map(str, alone.to_pylist()))
    assert found.schema == cerise.schema(EVENTS.schema, queries, **ROLES)


def test_queries_share_parameters() -> None:
    queries = {"up": "PATTERN A a WHERE a.t < :low", "down": "PATTERN B b WHERE b.x < :most", "all": FALL}
    found = find(queries, params={"low": 5, "most": 2})
    assert Counter(found["query"].to_pylist())["up"] == 2
    for name, params in (("up", {"low": 5}), ("down", {"most": 2}), ("all", {})):
        mine = find(queries[name], params=params)
        assert rows_of(found, name, mine) == Counter(map(str, mine.to_pylist()))
    with pytest.raises(BindError, match="no query has a parameter :los\nhint: did you mean 'low'"):
        find(queries, params={"los": 5, "most": 2})


def test_every_verb_takes_queries_by_name() -> None:
    queries = {"up": RISE, "down": FALL}
    assert cerise.profile(EVENTS, queries, **ROLES).matches.equals(find(queries))
    said = cerise.explain(EVENTS, queries, **ROLES)
    assert "SEQ(A a, C c)" in said
    assert "SEQ(A a, B b)" in said


def test_columns_of_other_queries_are_null() -> None:
    found = find({"up": RISE, "none": "PATTERN SEQ(A a, C c, A z) WHERE z.x > c.x", "down": FALL})
    assert found.column_names == [
        "query",
        "match_id",
        "first_time",
        "last_time",
        "a",
        "c",
        "z",
        "type",
        "low",
    ]
    assert found["z"].null_count == len(found)
    up = found.filter(pa.compute.equal(found["query"], "up"))
    assert (up["low"].null_count, up["c"].null_count) == (len(up), 0)
    nothing = find({"x": "PATTERN A a WHERE a.x > 99", "y": "PATTERN B b WHERE b.x > 99"})
    assert nothing.equals(
        cerise.schema(EVENTS.schema, {"x": "PATTERN A a", "y": "PATTERN B b"}, **ROLES).empty_table()
    )


def test_null_columns_of_one_type_share_their_memory() -> None:
    """A thousand queries with a column each need no thousand columns of nulls."""
    names = [f"c{i}" for i in range(1_000)]
    parts = [(i, pa.table({name: list(range(100))})) for i, name in enumerate(names)]
    schema = pa.schema([pa.field("query", pa.string()), *(pa.field(name, pa.int64()) for name in names)])
    before = pa.total_allocated_bytes()
    whole = unite(parts, names, schema)
    assert pa.total_allocated_bytes() - before < 20 * 100 * 1_000
    assert whole["c7"].to_pylist() == [None] * 700 + list(range(100)) + [None] * 99_200
    assert whole["query"].to_pylist()[650:800] == ["c6"] * 50 + ["c7"] * 100


# ---- bad input

WRONG: dict[str, tuple[Any, type[CeriseError], str]] = {
    "an empty list": ([], UnsupportedError, "an empty list is not a query"),
    "an empty dict": ({}, UnsupportedError, "an empty dict is not a query"),
    "an empty name": ({"": RISE}, BindError, "'' does not name a query"),
    "a number as name": ({3: RISE}, BindError, "3 does not name a query"),
    "not a query": ({"up": 3}, UnsupportedError, "query 'up': a int is not a query"),
    "two of one name": (
        [RISE, FALL, FALL], BindError, "two queries are named 'Fall': query 2 and query 3",
    ),
    "a list that does not parse": (
        [RISE, "PATTERN SEQ(A a"], ParseError, "query 2: the query ends too early\n  line 1, column 16",
    ),
    "a dict that does not parse": ({"up": "PATTERN SEQ(A a"}, ParseError, "query 'up': the query ends too"),
    "unknown attribute": (
        {"up": RISE, "down": FALL.replace("b.x <", "b.z <")}, BindError,
        (
            "query 'down': unknown attribute 'z'\n  line 1, column 31\n"
            "  | PATTERN SEQ(A a, B b) WHERE b.z < a.x WITHIN 10 RETURN b.x AS low INTO Fall\n"
            "  |                               ^\nhint: known: type, t, x"
        ),
    ),
    "unknown attribute, by INTO": ([RISE, FALL.replace("b.x <", "b.z <")], BindError, "query 'Fall': "),
    "types that clash": (
        {"one": RISE + " RETURN a.x AS v", "two": RISE, "three": RISE + " RETURN a.type AS v"}, BindError,
        "column 'v' is int64 in query 'one', and string in query 'three'",
    ),
    "a column like the tag": ([RISE, RISE + " RETURN a.x AS query"], BindError, "query 2 has a column"),
    "SQL": ({"up": RISE, "rows": CLAUSE}, UnsupportedError, "query 'rows': SQL stands where only SASE+ can"),
    "SQL in a list": ([RISE, CLAUSE], UnsupportedError, "query 2: SQL stands where only SASE+ can"),
    "over matches": (
        [RISE, f"{RISE} INTO Up; PATTERN SEQ(Up p, Up q) FROM Up WITHIN 9"], UnsupportedError,
        "query 2: a query over the matches of another cannot be one of several",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("verb", [cerise.find, cerise.profile, cerise.explain, cerise.schema])
def test_an_error_names_the_query(case: str, verb: Callable[..., Any]) -> None:
    queries, kind, text = WRONG[case]
    with pytest.raises(kind) as raised:
        verb(EVENTS, queries, **ROLES)
    assert str(raised.value).startswith(text), raised.value


def test_an_error_while_running_names_the_query() -> None:
    """An engine that cannot run the query, a budget that is used up, a value that cannot be computed."""
    with pytest.raises(UnsupportedError, match=r"^query 'none': "):
        find(
            {"up": RISE.replace("WHERE", "USE skip_till_any_match WHERE"), "none": RISE},
            options=Options(engine="rcep"),
        )
    many = pa.table({"t": range(40), "type": ["A"] * 40, "x": [1] * 40})
    endless = "PATTERN SEQ(A+ p[], A b) USE skip_till_any_match WHERE p[i].x + p[i-1].x > b.x WITHIN 39"
    with pytest.raises(PlanError, match=r"^query 'endless': "):
        cerise.find(many, {"up": RISE, "endless": endless}, **ROLES, options=Options(max_runs=1_000))
    with pytest.raises(cerise.DataError, match=r"^query 2: division by zero in RETURN"):
        find([RISE, "PATTERN A a WITHIN 3 RETURN 1 / (a.x - 5) AS v"])


def test_a_warning_names_the_query() -> None:
    with pytest.warns(cerise.CeriseWarning, match="^query 'never': the window") as told:
        find({"up": RISE, "never": "PATTERN SEQ(A a, B b) WITHIN 1 events"})
    assert len(told) == 1


@pytest.mark.slow
def test_ten_thousand_queries() -> None:
    """Each has columns of its own; nothing is quadratic in the number of queries."""
    queries = {f"q{i}": f"PATTERN A a{i} WHERE a{i}.t = {i % 20}" for i in range(10_000)}
    found = find(queries)
    assert len(found) == 2_500
    assert found.num_columns == 10_004
    assert found["a4"].drop_null().to_pylist() == [{"type": "A", "t": 4, "x": 5}]
