"""The sides of comparisons as keys: integers that compare as the values do (S4.6)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.rcep.keys import NULL, Keys
from cerise.engines.rcep.matcher import RcepMatcher
from cerise.engines.rcep.plan import plan_of
from cerise.events import EventBatch, Schema
from cerise.kinds import INT64_MAX, INT64_MIN
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from tests.engines.test_rcep import ANY

OPS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
COLUMNS = pa.schema(
    [("t", pa.int64()), ("x", pa.int64()), ("z", pa.int64()), ("y", pa.float64()), ("s", pa.string())]
)
INTS = [INT64_MIN + 1, -(2**53) - 1, -1, 0, 7, 2**53, 2**53 + 1, INT64_MAX - 1, INT64_MAX, None]
DOUBLES = [
    math.nan,
    -math.inf,
    -1.5,
    -5e-324,
    -0.0,
    0.0,
    5e-324,
    7.0,
    2.0**53,
    1e300,
    math.inf,
    -math.nan,
    None,
]
TEXTS = ["", "a", "ab", "b", "z", "é", "日本", "ﬁ", "🍒", None]


def keys_of(where: str, **columns: list[Any]) -> list[Keys | None]:
    """The keys of a query's comparisons, for events with some columns."""
    columns = {"t": list(range(len(next(iter(columns.values()))))), **columns}
    size, schema = len(columns["t"]), Schema(COLUMNS, "t")
    arrays = [pa.array(columns.get(each.name, [None] * size), each.type) for each in COLUMNS]
    batch = EventBatch.of(pa.table(arrays, schema=COLUMNS), schema)
    bound = bind(parse(f"PATTERN SEQ(a, b+) {ANY} WHERE {where}"), schema, {})
    matcher = RcepMatcher(plan_of(bound), Options())
    matcher._columns.read(batch, lambda _: None)
    matcher._columns.at(0, 0, np.ascontiguousarray(batch.times))
    return matcher._sides.keys(matcher._columns, np.full(size, -1), 0)


def rank(value: Any, *, floats: bool) -> Any:
    """Something that compares as a value does (S4.6)."""
    if isinstance(value, str) or not floats:
        return value
    return (1, 0.0) if math.isnan(value) else (0, float(value))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("left", "right", "columns"),
    [
        ("x", "x", {"x": INTS}),
        ("x", "z", {"x": INTS, "z": INTS[::-1]}),
        ("y", "y", {"y": DOUBLES}),
        ("x", "y", {"x": [*INTS, INT64_MIN, 1, 2], "y": DOUBLES}),
        ("y", "x", {"x": [*INTS, INT64_MIN, 1, 2], "y": DOUBLES}),
        ("s", "s", {"s": TEXTS}),
    ],
)
def test_keys_compare_as_values_do(left: str, right: str, columns: dict[str, list[Any]], op: str) -> None:
    (keys,) = keys_of(f"a.{left} {op} b.{right}", **columns)
    assert keys is not None
    floats = "y" in (left, right)
    for i, one in enumerate(columns[left]):
        for j, other in enumerate(columns[right]):
            mine, yours = int(keys.left[i]), int(keys.right[j])
            assert (mine == NULL, yours == NULL) == (one is None, other is None)
            if one is not None and other is not None:
                expected = OPS[op](rank(one, floats=floats), rank(other, floats=floats))
                assert OPS[op](mine, yours) is expected, f"{one} {op} {other}"


def test_what_cannot_be_computed_has_no_key() -> None:
    (keys,) = keys_of("6 / a.x < b.z + 1", x=[0, 2, None], z=[INT64_MAX, 1, 3])
    assert keys is not None
    assert (keys.left == NULL).tolist() == [True, False, True]
    assert (keys.right == NULL).tolist() == [True, False, False]


def test_a_comparison_with_the_smallest_integer_is_not_used() -> None:
    where = "a.x < b.x AND a.z < b.z"
    assert [each is None for each in keys_of(where, x=[1, INT64_MIN], z=[1, 2])] == [True, False]
    assert [each is None for each in keys_of(where, x=[1, None], z=[1, 2])] == [False, False]


def test_sides_that_are_the_same_share_their_keys() -> None:
    (same,) = keys_of("b[i-1].x < b[i].x", x=[1, 2])
    assert same is not None
    assert same.left is same.right
    (different,) = keys_of("b[i-1].x < b[i].z", x=[1, 2], z=[3, 4])
    assert different is not None
    assert different.left is not different.right
