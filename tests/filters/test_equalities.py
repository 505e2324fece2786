"""Edges of equalities: equal keys where the predicate holds, partners for every judged event of a match."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import cerise
from cerise.events import Path, Schema
from cerise.filters.equalities import JoinEdge, edges_of, keys_of, row_edges_of
from cerise.kinds import canonical, kind_of
from cerise.lang import match_recognize
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import absent_names
from cerise.plan.needs import hash_partition

NAN = float("nan")
REFERENCE = cerise.Options(engine="reference")


def edges(query: str, table: pa.Table, key: tuple[str, ...] = ()) -> list[JoinEdge]:
    return list(_edges(_bound(query, table, key)))


def _bound(query: str, table: pa.Table, key: tuple[str, ...] = ()) -> Bound:
    return bind(
        parse(query), Schema(table.schema, "t", "type" if "type" in table.column_names else None, key)
    )


def _edges(bound: Bound) -> Iterator[JoinEdge]:
    return (edge for branch in bound.branches for edge in edges_of(bound, branch))


def _keys(edge: JoinEdge, name: str, table: pa.Table) -> list[int | None]:
    """The key of each row, None for rows without one."""

    def read(path: Path) -> pa.Array:
        column = table.column(path[0])
        return canonical(column, kind_of(column.type), path[0])

    found, valid = keys_of(edge, name, read, len(table))
    return [int(key) if holds else None for key, holds in zip(found, valid, strict=True)]


# ---- keys are equal where the predicate of the reference holds

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), None]),
    "small": (pa.int16(), [0, 1, 2, 3, -1, None]),
    "double": (pa.float64(), [0.0, -0.0, 1.0, 2.0**53, 2.0**63, NAN, 0.5, float("inf"), None]),
    "single": (pa.float32(), [0.0, -0.0, 1.0, NAN, 0.5, None]),
    "text": (pa.string(), ["", "a", "A", "ä", "a ", None]),
    "coded": (pa.dictionary(pa.int8(), pa.string()), ["a", "ä", "b", None]),
    "day": (pa.date32(), [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(1969, 12, 31), None]),
    "moment": (pa.timestamp("ms"), [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 1), None]),
}
ALIKE = [
    ("whole", "whole"), ("whole", "small"), ("whole", "double"), ("double", "single"), ("small", "single"),
    ("double", "double"), ("text", "text"), ("text", "coded"), ("day", "moment"),
    ("day", "day"), ("moment", "moment"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), ALIKE)
@pytest.mark.parametrize("shape", ["a.x = b.y", "b.y = a.x"])
def test_keys_are_equal_where_the_predicate_holds(left: str, right: str, shape: str) -> None:
    xs, ys = VALUES[left], VALUES[right]
    size = len(xs[1])
    table = pa.table({
        "t": range(size + len(ys[1])), "type": ["A"] * size + ["B"] * len(ys[1]),
        "x": pa.array([*xs[1], *[None] * len(ys[1])], xs[0]), "y": pa.array([*[None] * size, *ys[1]], ys[0]),
    })  # fmt: skip
    query = f"PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE {shape}"
    (edge,) = edges(query, table)
    assert (edge.left, edge.right, edge.order, edge.judges) == ("a", "b", -1, {"a", "b"})
    mine, theirs = _keys(edge, "a", table), _keys(edge, "b", table)
    found = cerise.find(table, query, time="t", type="type", options=REFERENCE)
    expected = {(row["a"]["t"], row["b"]["t"]) for row in found.to_pylist()}
    pairs = product(range(size), range(size, len(table)))
    assert {(i, j) for i, j in pairs if mine[i] is not None and mine[i] == theirs[j]} == expected
    assert expected


def test_a_sum_is_not_joined_as_its_column() -> None:  # public code of the paper: X.a = Y.a + 1 as X.a = Y.a
    table = pa.table({"t": [1, 2, 3], "x": [5, 4, 5]})
    (edge,) = edges("PATTERN SEQ(a, b) WHERE a.x = b.x + 1", table)
    mine, theirs = _keys(edge, "a", table), _keys(edge, "b", table)
    assert mine[0] == theirs[1]
    assert mine[0] != theirs[2]


def test_a_value_that_cannot_be_computed_has_no_key() -> None:
    table = pa.table({"t": [1, 2], "x": [2**63 - 1, 4]})
    (edge,) = edges("PATTERN SEQ(a, b) WHERE a.x = b.x + 1", table)
    assert _keys(edge, "b", table)[0] is None


def test_all_equalities_of_two_variables_are_one_key() -> None:  # public code: the first equality only
    table = pa.table({"t": [1, 2, 3], "x": [1, 1, 1], "y": [1, 2, 1]})
    (edge,) = edges("PATTERN SEQ(a, b) WHERE a.x = b.x AND b.y = a.y", table)
    one, two, three = _keys(edge, "a", table)
    assert one == three
    assert one != two


def test_a_name_with_a_nine_is_an_attribute() -> None:  # public code: names of [0-8] alone
    table = pa.table({"t": [1], "a9": [1]})
    (edge,) = edges("PATTERN SEQ(v9, w9) WHERE v9.a9 = w9.a9", table)
    assert (edge.left, edge.right, edge.paths("w9")) == ("v9", "w9", {("a9",)})


def test_nulls_are_a_value_of_partitions_alone() -> None:
    table = pa.table({"t": [1, 2], "k": pa.array([None, 1]), "x": pa.array([1, 1])})
    (parted,) = edges("PATTERN SEQ(a, b) PARTITION BY k", table)
    (same,) = edges("PATTERN SEQ(a, b) WHERE [k]", table)
    (both,) = edges("PATTERN SEQ(a, b) PARTITION BY k WHERE [k]", table)
    assert parted.of_partition
    assert None not in _keys(parted, "a", table)
    assert _keys(same, "a", table)[0] is _keys(both, "a", table)[0] is None
    hashed = hash_partition(table, [("k",)])
    assert hashed is not None
    assert len(set(hashed.tolist())) == 2


@pytest.mark.parametrize(
    ("query", "judged"),
    [
        ("SEQ(a, b+) WHERE a.x = b.x", {"a-b": "a b"}),
        ("SEQ(a, b+) WHERE a.x = b[1].x", {"a-b": "a"}),
        ("SEQ(a, b+, c) WHERE c.x = LAST(b.x)", {"b-c": "c"}),
        ("SEQ(a, b+, c) WHERE c.x = b[b.LEN].x AND c.y = LAST(b.y)", {"b-c": "c"}),
        ("SEQ(a, b+) WHERE a.x = b[i].x", {}),
        ("SEQ(a, b+) WHERE b[i].x = b[i-1].x", {}),
        ("SEQ(a+, b+) WHERE a[1].x = b[1].x", {}),
        ("SEQ(a+, b+) WHERE LAST(a.x) = b[1].x AND [y]", {"a-b": "a b"}),
        ("SEQ(a, b, c) WHERE a.x = b.x OR b.x = c.x", {}),
        ("SEQ(a, b, c) WHERE a.x = b.x AND b.x = c.x", {"a-b": "a b", "b-c": "b c"}),
        ("SEQ(a, b, c) WHERE a.x + b.x = c.x", {}),
        ("SEQ(a, b) WHERE a.x < b.x", {}),
        ("SEQ(a, ~n, b) WHERE a.x = n.x", {"a-n": "n"}),
        ("SEQ(a, ~n, b) WHERE [x]", {"a-b": "a b", "a-n": "n", "b-n": "n"}),
        ("AND(a, b) WHERE a.x = b.x", {"a-b": "a b"}),
        ("SEQ(a, b?) WHERE a.x = b.x", {"a-b": "a b"}),
    ],
)
def test_an_edge_judges_what_every_match_has(query: str, judged: dict[str, str]) -> None:
    table = pa.table({"t": [1], "x": [1], "y": [1]})
    found = edges(f"PATTERN {query} WITHIN 10", table)
    assert {f"{each.left}-{each.right}": " ".join(sorted(each.judges)) for each in found} == judged


@pytest.mark.parametrize(
    ("pattern", "order"),
    [
        ("SEQ(a, b)", -1),
        ("SEQ(b, a)", 1),
        ("AND(a, b)", 0),
        ("SEQ(AND(a, c), b)", -1),
        ("AND(SEQ(b, a), c)", 1),
    ],
)
def test_the_order_of_two_variables(pattern: str, order: int) -> None:
    found = edges(f"PATTERN {pattern} WHERE a.x = b.x", pa.table({"t": [1], "x": [1]}))
    assert [each.order_of("a") for each in found] == [order]
    assert [each.order_of("b") for each in found] == [-order]


# ---- every judged event of a match finds a partner

PATTERNS = (
    "SEQ(A a, B b, C c)", "SEQ(A a, B+ b[], C c)", "SEQ(a, b)", "AND(A a, B b)", "SEQ(A a, AND(B b, C c))",
    "SEQ(a+, b)", "SEQ(A a, B? b, C c)", "SEQ(A a, OR(B b, C c))", "SEQ(A a, ~(B b), C c)", "SEQ(a, b{2,3})",
)  # fmt: skip
SIDES = ("{v}.x", "{v}.y", "{v}.x + 1", "{v}.z", "LAST({v}.x)", "{v}[1].x")


def _random_query(rng: random.Random) -> str:
    pattern = rng.choice(PATTERNS)
    names = [name for name in "abc" if f" {name}" in pattern or f"({name}" in pattern]
    where = ["[z]"] * rng.randint(0, 1)
    for _ in range(rng.randint(0, 2)):
        left, right = rng.sample(names, 2)
        where.append(" = ".join(rng.choice(SIDES).format(v=name) for name in (left, right)))
    use = rng.choice(["skip_till_any_match", "skip_till_next_match", "strict_contiguity"])
    return f"PATTERN {pattern} USE {use} " + (f"WHERE {' AND '.join(where)} " if where else "") + "WITHIN 6"


def _random_events(rng: random.Random, size: int = 12) -> pa.Table:
    times = sorted(rng.randint(0, 20) for _ in range(size))
    return pa.table({
        "id": range(size), "t": times, "type": rng.choices("ABC", k=size),
        "x": pa.array(rng.choices([0, 1, 1, 2, None], k=size), pa.int64()),
        "y": pa.array(rng.choices([0.0, -0.0, 1.0, 2.0, NAN, None], k=size), pa.float64()),
        "z": pa.array(rng.choices([1, 1, 1, 2, None], k=size), pa.int32()),
    })  # fmt: skip


def test_every_judged_event_of_a_match_finds_a_partner() -> None:
    rng, judged = random.Random(25), 0
    for _ in range(250):
        query, table = _random_query(rng), _random_events(rng)
        try:
            bound = _bound(query, table)
        except cerise.CeriseError:
            continue  # LAST or [1] of a single variable
        found = cerise.find(table, query, time="t", type="type", options=REFERENCE).to_pylist()
        matches = [{name: _ids(row[name]) for name in "abc" if _ids(row.get(name))} for row in found]
        for branch in bound.branches:
            positive = {var.name for var in branch.variables}
            for edge in edges_of(bound, branch):
                if {edge.left, edge.right} & absent_names(bound.query.pattern):
                    continue
                keys = {name: _keys(edge, name, table) for name in (edge.left, edge.right)}
                for match in (each for each in matches if set(each) == positive):
                    for name in edge.judges:
                        others = {keys[edge.other(name)][i] for i in match[edge.other(name)]} - {None}
                        assert {keys[name][i] for i in match[name]} <= others, (query, edge, match)
                        judged += 1
                    if edge.order == -1:
                        assert max(match[edge.left]) < min(match[edge.right]), (query, edge, match)
    assert judged > 300


def _ids(value: Any) -> list[int]:
    return [] if value is None else [each["id"] for each in (value if isinstance(value, list) else [value])]


ROWS = (
    "A N* B N* C", "A B+ C", "A+ B? C", "(A | B) C", "A (B | C)+", "PERMUTE(A, B, C)", "A B C", "A{2} C",
    "A* B C",
)  # fmt: skip
CONDITIONS = (
    "{v}.x = {w}.x", "{v}.x = {w}.x + 1", "y = LAST({w}.y)", "{v}.z = FIRST({w}.z)", "{w}.x = {v}.y",
    "{v}.type = '{v}'", "x = LAST({w}.x, 1)", "{w}.x = {u}.x", "PREV(x) = {w}.x", "COUNT({w}.x) = x",
    "SUM({w}.x) + x = {u}.x", "MATCH_NUMBER() = x", "CLASSIFIER() = {v}.type",
)  # fmt: skip


def test_every_judged_row_of_a_match_finds_a_partner() -> None:
    rng, judged = random.Random(26), 0
    for _ in range(400):
        pattern, table = rng.choice(ROWS), _random_events(rng)
        names = [name for name in "ABC" if name in pattern.replace("PERMUTE", "")]
        define = []
        for name in rng.sample(names, rng.randint(1, len(names))):
            words = {"v": name, "w": rng.choice(names), "u": rng.choice(names)}
            define.append(
                f"{name} AS " + " AND ".join(rng.sample(CONDITIONS, rng.randint(1, 2))).format(**words)
            )
        parted = "PARTITION BY z " * rng.randint(0, 1)
        text = f"""SELECT * FROM t MATCH_RECOGNIZE ({parted}ORDER BY t
            MEASURES CLASSIFIER() AS l, MATCH_NUMBER() AS m ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW
            PATTERN ({pattern}) WITHIN 6 DEFINE {", ".join(define)})"""
        bound = match_recognize.bind_rows(match_recognize.parse_alone(text, "standard"), table.schema)
        matches: dict[Any, dict[str, list[int]]] = {}
        for row in cerise.find(table, text, options=REFERENCE).to_pylist():
            key = (row["z"] if parted else 0, row["m"])
            matches.setdefault(key, {}).setdefault(row["l"], []).append(row["id"])
        for edge in row_edges_of(bound):
            keys = {name: _keys(edge, name, table) for name in (edge.left, edge.right)}
            for match in matches.values():
                for name in edge.judges & match.keys():
                    others = {keys[edge.other(name)][i] for i in match.get(edge.other(name), [])} - {None}
                    assert {keys[name][i] for i in match[name]} <= others, (text, edge, match)
                    judged += 1
                if edge.order and {edge.left, edge.right} <= match.keys():
                    first, last = (edge.left, edge.right) if edge.order < 0 else (edge.right, edge.left)
                    assert min(match[first]) < max(match[last]), (text, edge, match)
    assert judged > 300
