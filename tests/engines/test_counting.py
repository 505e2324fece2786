"""Totals of matches that are never made: equal to those of the reference, which makes them all."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.rcep.engine import why_enumerate
from cerise.events import Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from tests.support.cases.runners import whole as run
from tests.tiers import mostly_nightly

ASKED = int(os.environ.get("CERISE_EXAMPLES", "0"))
COLUMNS = pa.schema([
    ("t", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64()), ("y", pa.float64()),
    ("s", pa.string()),
])  # fmt: skip
SCHEMA = Schema(COLUMNS, "t", "type")
PATTERNS = {
    "SEQ(A a, B+ b[], C c)": "ab+c", "SEQ(A a, B+ b[])": "ab+", "SEQ(B+ b[], C c)": "b+c", "B+ b[]": "b+",
    "SEQ(A a, B b, C c)": "abc", "SEQ(A a, B+ b[], C+ c[])": "ab+c+",
    "SEQ(A+ a[], B b, C+ c[], D d)": "a+bc+d",
    "SEQ(A a, B{2,3} b[], C c)": "ab+c", "SEQ(A a, B{2,} b[], C c)": "ab+c", "SEQ(A a, B{2,4} b[])": "ab+",
    "SEQ(A a, B b, C c, D d)": "abcd", "SEQ(a, b+, c)": "ab+c", "SEQ(A a, B? b, C+ c[])": "abc+",
    "OR(SEQ(A a, B+ b[]), SEQ(C c, D d))": "ab+cd",
}  # fmt: skip
OPS = ("<", "<=", ">", ">=", "=", "!=")


def bound_of(text: str) -> Bound:
    return bind(parse(text), SCHEMA)


def rows(table: pa.Table) -> Counter[str]:
    return Counter(str(row) for row in table.to_pylist())


def events(dice: random.Random, count: int) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.08 else value

    t, found = 0, []
    for _ in range(count):
        t += dice.choice((0, 0, 1, 1, 2, 5))
        found.append({
            "t": t, "type": dice.choice("AABBBCCD"), "k": maybe(dice.randrange(2)),
            "x": maybe(dice.randrange(5)),
            "y": maybe(dice.choice((0.0, -0.0, 1.5, 2.0, 3.0, float("nan")))), "s": maybe(dice.choice("uvw")),
        })  # fmt: skip
    return pa.Table.from_pylist(found, COLUMNS)


def side(dice: random.Random, var: str, attr: str, *, kleene: bool) -> str:
    if not kleene:
        return f"{var}.{attr}"
    return dice.choice((f"{var}.{attr}", f"FIRST({var}.{attr})", f"LAST({var}.{attr})", f"{var}[i].{attr}"))


def predicate(dice: random.Random, shape: str) -> str:
    """Write a comparison of neighbours, of a variable with itself, or of any two variables."""
    names = [letter for letter in shape if letter != "+"]
    kleene = {name for name, after in zip(shape, shape[1:] + " ", strict=True) if after == "+"}
    attr, op = dice.choice("xxys"), dice.choice(OPS)
    one = dice.choice(names)
    if one in kleene and dice.random() < 0.5:
        first = dice.choice((f"{one}[i-1]", f"{one}[i-1]", f"{one}[1]"))
        return f"{first}.{attr} {op} {one}[i].{attr}"
    other = dice.choice([name for name in names if name != one] or [one])
    if other == one:
        constant = "'v'" if attr == "s" else dice.randrange(4)
        return f"{one}.{attr} {op} {constant}"
    more = " + 1" if attr == "x" and dice.random() < 0.2 else ""
    left = side(dice, one, attr, kleene=one in kleene)
    return f"{left}{more} {op} {side(dice, other, attr, kleene=other in kleene and '[i]' not in left)}"


def query(dice: random.Random) -> str:
    pattern, shape = dice.choice(list(PATTERNS.items()))
    names = [letter for letter in shape if letter != "+"]
    where = [predicate(dice, shape) for _ in range(dice.randrange(3))]
    where += ["[k]"] if dice.random() < 0.4 else []
    window = dice.choice((
        "", "WITHIN 4", "WITHIN 9", "WITHIN 6 SLIDE 2", "WITHIN 4 SLIDE 5", "WITHIN 5 EVENTS",
        "WITHIN 0 EVENTS", "WITHIN 6 EVENTS SLIDE 3 EVENTS",
    ))  # fmt: skip
    asked = ["COUNT(*)"]
    for function in dice.sample(("SUM", "COUNT", "AVG", "MIN", "MAX"), dice.randrange(3)):
        var = dice.choice(names)
        value = side(dice, var, dice.choice("xy"), kleene=var + "+" in shape).replace("[i]", "")
        asked.append(f"{function}({value}) AS {function.lower()}_of_it")
    pers = ["IN ALL", "PER EVENT"] + (["PER PARTITION"] if "[k]" in where else [])
    pers += ["PER WINDOW"] if "SLIDE" in window else []
    condition = f"WHERE {' AND '.join(where)}" if where else ""
    returned = f"RETURN {', '.join(asked)} {dice.choice(pers)}"
    return f"PATTERN {pattern} USE skip_till_any_match {condition} {window} {returned}"


@pytest.mark.parametrize("part", mostly_nightly(range(8), (0, 1)))
def test_counted_or_made_the_totals_are_the_same(part: int) -> None:
    counted = Counter[bool]()
    for number in range(max(20, ASKED // 8)):
        dice = random.Random(f"{part}-{number}")
        text, table = query(dice), events(dice, dice.choice((0, 1, 6, 9)))
        bound = bound_of(text)
        counted[why_enumerate(bound) is None] += 1
        found = run(bound, table, Options(engine="rcep"))
        assert rows(found) == rows(run(bound, table, Options(engine="reference"))), text
    assert counted[True] > counted.total() // 3


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x", None),
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < b.x AND b.x < NEXT(b.x) AND c.x < FIRST(b.x)", None),
        ("PATTERN SEQ(A a, B b, C c, D d) WHERE c.x > a.x AND d.y < b.y", None),
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < b.x", None),
        ("PATTERN SEQ(A a, B{2,} b[]) WHERE b[i].x > b[1].x", None),
        ("PATTERN SEQ(A a, B+ b[]) WHERE b[i].x > b[1].x", "a first event that may also be the last"),
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE avg(b.x) > 2", "does not compare two events"),
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE b.x + a.x > 2", "does not compare two events"),
        ("PATTERN SEQ(A+ a[], B+ b[], C c) WHERE a.x < b.x", "every event of two Kleene variables"),
        ("PATTERN SEQ(A+ a[], B b, C c) WHERE LAST(a.x) < c.x", "without a place of its own"),
        ("PATTERN AND(A a, B b)", "no order"),
        ("PATTERN SEQ(A a, NOT B b, C c)", "a NOT must be judged"),
        ("PATTERN SEQ(A a, B b) LIMIT 2 PER EVENT", "it chooses among matches"),
    ],
)
def test_why_matches_must_be_made(query: str, why: str | None) -> None:
    found = why_enumerate(bound_of(f"{query} USE skip_till_any_match WITHIN 9 RETURN COUNT(*)"))
    assert (found is None) if why is None else (why in (found or "")), found


def test_an_aggregate_of_a_last_event_in_the_middle_needs_the_matches() -> None:
    text = "PATTERN SEQ(B+ b[], C c) USE skip_till_any_match WITHIN 9 RETURN SUM(LAST(b.x)) AS s IN ALL"
    assert "without a place of its own" in (why_enumerate(bound_of(text)) or "")


def test_more_matches_than_there_are_atoms() -> None:
    """10,000 events in a window, every subset of them a match; no more than some seconds."""
    count = 3000
    table = pa.table({
        "t": range(count + 2), "type": ["A", *"B" * count, "C"], "k": [0] * (count + 2),
        "x": [0, *range(count), 0], "y": [1.0] * (count + 2), "s": ["u"] * (count + 2),
    }, COLUMNS)  # fmt: skip
    text = f"PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WHERE b[i].x > b[i-1].x WITHIN {count + 2}"
    found = run(bound_of(f"{text} RETURN STRING(COUNT(*)) AS n, MAX(b.x) AS most IN ALL"), table, Options())
    assert found.to_pylist() == [{"n": str(2**count - 1), "most": count - 1}]
