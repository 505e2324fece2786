"""IF: one of two values, the second unless the predicate is true."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Options
from cerise.errors import BindError

CHOICES = [
    ("if(a.flag, a.x, 7) = 5", lambda x, f, flag: (x if flag else 7) == 5),
    ("if(a.x > 0, a.x, a.f) < 2", lambda x, f, flag: 0 < x < 2 if x else f is not None and f < 2),
    ("if(a.x > 1, a.flag, a.x = 0)", lambda x, f, flag: flag is True if x is not None and x > 1 else x == 0),
    ("if(a.flag, a.x, NULL) IS NULL", lambda x, f, flag: not flag or x is None),
    ("if(a.x > 0, 'p', 'q') = 'p'", lambda x, f, flag: x is not None and x > 0),
    ("if(NULL, 1, 2) = 2", lambda x, f, flag: True),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["reference", "nfa"])
@pytest.mark.parametrize(("text", "law"), CHOICES)
def test_if_takes_the_second_value_unless_true(text: str, law: Any, engine: str) -> None:
    rows = list(itertools.product([None, 0, 1, 5], [None, 0.0, 2.5], [None, True, False]))
    table = pa.table(
        {
            "t": range(len(rows)),
            "x": pa.array([row[0] for row in rows], pa.int64()),
            "f": pa.array([row[1] for row in rows], pa.float64()),
            "flag": pa.array([row[2] for row in rows], pa.bool_()),
        }
    )
    found = cerise.find(
        table, f"PATTERN a WHERE {text} RETURN a.t AS t", time="t", options=Options(engine=engine)
    )
    assert sorted(found.column("t").to_pylist()) == [t for t, row in enumerate(rows) if law(*row)]


@pytest.mark.parametrize("text", ["if(a.t, 1, 2) = 1", "if(a.t > 1, 1, 'x') = 1", "if(a.t > 1, 1) = 1"])
def test_if_asks_for_a_predicate_and_two_values_of_a_kind(text: str) -> None:
    with pytest.raises(BindError, match="if does not take"):
        cerise.find(pa.table({"t": [1]}), f"PATTERN a WHERE {text}", time="t")
