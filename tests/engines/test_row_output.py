"""The output of row patterns: every atom against its plain twin, and the types and errors as promised."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.base import Ints, RowMatches, find_rows_outside
from cerise.engines.reference.rows_values import Scope, value_of
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows.output import atom_columns, to_table
from cerise.engines.rows.prepare import prepare
from cerise.errors import DataError, UnsupportedError
from cerise.kinds import Kind
from cerise.pattern.expr import Attr, Binary, Call, Literal
from cerise.pattern.row_pattern import (
    CLASSIFIER,
    Atom,
    BoundRows,
    Derived,
    MatchNumber,
    MatchStatus,
    Measure,
    Nav,
    Order,
    RowAgg,
    Show,
    Shown,
    atom,
)
from tests.support.strategies.row_clauses import A, B, C, clause, seq
from tests.tiers import mostly_nightly

MEMBERS = [None, frozenset("A"), frozenset("AB"), frozenset("C")]
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [1, 2, 3, -4, 2**40, None]),
    "d": (pa.float64(), [0.1, 0.2, -0.0, 0.0, math.nan, math.inf, 1e16, None]),
    "s": (pa.string(), ["a", "b", "ä", "", None]),
    "b": (pa.bool_(), [True, False, None]),
    "n": (pa.decimal128(10, 2), [Decimal("0.10"), Decimal("-1.25"), Decimal("99999999.99"), None]),
    "m": (pa.timestamp("us"), [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), None]),
}
REACHES = [(True, 0, 0), (False, 0, 0), (True, 1, -1), (False, 2, 1), (True, 0, 9)]  # last, offset, shift
NUMERIC = "sum i,sum d,sum n,avg i,avg d,stddev i,stddev d"


def atoms_of(members: frozenset[str] | None, *, final: bool) -> Iterator[Atom]:
    """Every kind of navigation and aggregate, of every type."""
    for column in [*TYPES, CLASSIFIER]:
        yield from (Nav(column, members, last, offset, final, shift) for last, offset, shift in REACHES)
        for function in ("count", "min", "max", "any_value", "array_agg"):
            yield RowAgg(function, (column,), members, final)
            yield RowAgg(function, (column,), members, final, distinct=True)
    for function, column in map(str.split, NUMERIC.split(",")):
        yield RowAgg(function, (column,), members, final)
        yield RowAgg(function, (column,), members, final, distinct=True, where="b")
    yield RowAgg("count", (), members, final)
    yield RowAgg("count", (), members, final, where="b")
    yield RowAgg("count", ("i", "s"), members, final, distinct=True)
    yield RowAgg("min_by", ("i", "d"), members, final)
    yield RowAgg("max_by", ("i", "d"), members, final)


ATOMS: dict[str, Atom] = {"number": MatchNumber(), "status": MatchStatus()}
ATOMS |= {
    str(each): each
    for final in (False, True)
    for members in MEMBERS
    for each in atoms_of(members, final=final)
}


def some_rows(random: Random, rows: int) -> pa.Table:
    columns = {
        name: pa.array([random.choice(values) for _ in range(rows)], type_)
        for name, (type_, values) in TYPES.items()
    }
    return pa.table({"k": pa.array(sorted(random.choices(range(4), k=rows))), "t": range(rows), **columns})


def some_matches(random: Random, offsets: Ints) -> RowMatches:
    """Matches as a search would find them, but of any shape: with increasing starts, overlapping, empty."""
    found = []
    for part, (low, high) in enumerate(pairwise(offsets)):
        chosen = [row for row in range(low, high) if random.random() < 0.4]
        found += [
            (start, random.randint(0, min(12, high - start)), number, part)
            for number, start in enumerate(chosen, 1)
        ]
    starts, lengths, numbers, parts = (np.array([each[i] for each in found], np.int64) for i in range(4))
    total = int(lengths.sum())
    return RowMatches(
        starts, lengths, numbers, parts,
        np.array(random.choices(range(3), k=total), np.int16),
        np.array(random.choices([False, False, True], k=total), np.bool_),
        np.array(random.choices([False, True], k=len(found)), np.bool_),
    )  # fmt: skip


def plain_answers(
    name: str, bound: BoundRows, table: pa.Table, offsets: Any, matches: RowMatches
) -> list[Any]:
    """What the reference says, in the order of the result."""
    columns = {each: table.column(each).to_pylist() for each in TYPES}
    answers: list[tuple[int, Any]] = []
    for m in range(len(matches)):
        first, end, start = int(matches.firsts[m]), int(matches.ends[m]), int(matches.starts[m])
        labels = ["ABC"[i] for i in matches.labels[first:end]]
        part = int(matches.partition[m])
        assert matches.excluded is not None
        assert matches.timeouts is not None
        seen: Sequence[int] = [i + 1 for i in range(len(labels)) if not matches.excluded[first + i]]
        if bound.show is Show.ONE or (not labels and bound.show is not Show.OMIT_EMPTY):
            seen = [len(labels)]
        for current in seen:
            scope = Scope(
                columns, int(offsets[part]), int(offsets[part + 1]), start, labels, current,
                int(matches.numbers[m]), "timeout" if matches.timeouts[m] else "match",
            )  # fmt: skip
            answers.append((start, value_of(bound.atoms[name], scope)))
    if matches.unmatched is not None:
        answers += [(int(row), None) for row in matches.unmatched]
    return [value for _, value in sorted(answers, key=lambda answer: answer[0])]


@pytest.mark.parametrize("show", Show)
@pytest.mark.parametrize("seed", mostly_nightly(range(6), (0, 1, 2)))
def test_every_atom_has_the_value_of_its_plain_twin(seed: int, show: Show) -> None:
    random = Random(seed)
    table = some_rows(random, (0, 1, 7, 40, 60, 200)[seed])
    bound = replace(
        clause(seq(A, B, C), table, partition=("k",), show=show, measures=ATOMS), order=(Order("t"),)
    )
    prepared = prepare(bound, table)
    offsets = partitions(bound, prepared)
    matches = some_matches(random, offsets)
    if show is Show.UNMATCHED:
        matches = replace(matches, unmatched=find_rows_outside(matches, table.num_rows))
    found, rows = atom_columns(bound, prepared, offsets, matches)
    assert found.column_names == list(ATOMS)
    for name in ATOMS:
        expected = plain_answers(name, bound, prepared, offsets, matches)
        assert repr(found.column(name).to_pylist()) == repr(expected), name  # repr: NaN, -0.0 and every bit
        assert len(rows) == len(expected)


def one_match(values: list[Any], type_: pa.DataType, *atoms: Atom, show: Show = Show.ONE) -> pa.Table:
    """The atoms over one match of all rows."""
    rows = len(values)
    table = pa.table({"t": range(rows), "x": pa.array(values, type_), "y": range(rows)})
    bound = clause(seq(A), table, measures={f"a{i}": each for i, each in enumerate(atoms)}, show=show)
    matches = RowMatches(
        np.array([0]), np.array([rows]), np.array([1]), np.array([0]), np.zeros(rows, np.int16)
    )
    return to_table(bound, table, np.array([0, rows]), matches)


@pytest.mark.parametrize(
    ("function", "type_", "result"),
    [
        ("sum", pa.int8(), pa.int64()),
        ("sum", pa.float32(), pa.float64()),
        ("sum", pa.decimal128(10, 2), pa.decimal128(20, 2)),
        ("sum", pa.decimal128(35, 2), pa.decimal128(38, 2)),
        ("sum", pa.decimal64(10, 2), pa.decimal128(20, 2)),
        ("sum", pa.duration("us"), pa.duration("us")),
        ("avg", pa.int32(), pa.float64()),
        ("avg", pa.decimal128(10, 2), pa.decimal128(14, 6)),
        ("stddev", pa.int32(), pa.float64()),
        ("stddev", pa.decimal128(10, 2), pa.float64()),
        ("min", pa.int16(), pa.int16()),
        ("max", pa.date32(), pa.date32()),
        ("max", pa.decimal128(30, 2), pa.decimal128(30, 2)),
        ("min_by", pa.float32(), pa.float32()),
        ("any_value", pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.string())),
        ("min", pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.string())),
        ("array_agg", pa.int16(), pa.list_(pa.int16())),
        ("count", pa.list_(pa.int64()), pa.int64()),
    ],
)
def test_types(function: str, type_: pa.DataType, result: pa.DataType) -> None:
    columns = ("x", "y") if function == "min_by" else ("x",)
    for values in ([None, None], []):
        found = one_match(values, type_, RowAgg(function, columns))
        assert found.schema.field(0).type == result
        assert found.column(0).to_pylist() == [0 if function == "count" else None]


def test_integer_sums_are_exact_or_an_error() -> None:
    top = 2**63 - 1
    total = RowAgg("sum", ("x",))
    assert one_match([top, 1, -5], pa.int64(), total)["a0"].to_pylist() == [top - 4]
    assert one_match([-top, -1], pa.int64(), total)["a0"].to_pylist() == [-top - 1]
    for values in ([top, 1], [-top, -2], [top] * 5):
        with pytest.raises(DataError, match="sum of 'x' over the rows of a match does not fit into 64 bits"):
            one_match(values, pa.int64(), total)
    with pytest.raises(DataError, match="64 bits"):  # the running sum is shown
        one_match([top, 1, -5], pa.int64(), total, show=Show.ALL)


def test_decimals() -> None:
    values = [Decimal("0.01"), Decimal("0.02"), None, Decimal("0.02")]
    found = one_match(
        values, pa.decimal128(10, 2), RowAgg("sum", ("x",)), RowAgg("avg", ("x",)), show=Show.ALL
    )
    assert [str(each) for each in found["a0"].to_pylist()] == ["0.01", "0.03", "0.03", "0.05"]
    assert [str(each) for each in found["a1"].to_pylist()] == ["0.010000", "0.015000", "0.015000", "0.016667"]
    negative = one_match([Decimal(-1), Decimal(0), Decimal(0)], pa.decimal128(5, 0), RowAgg("avg", ("x",)))
    assert [str(each) for each in negative["a0"].to_pylist()] == ["-0.3333"]
    half = one_match([Decimal(-1)] + [Decimal(0)] * 31999, pa.decimal128(5, 0), RowAgg("avg", ("x",)))
    assert [str(each) for each in half["a0"].to_pylist()] == ["0.0000"]
    half = one_match([Decimal(-1)] + [Decimal(0)] * 19999, pa.decimal128(5, 0), RowAgg("avg", ("x",)))
    assert [str(each) for each in half["a0"].to_pylist()] == ["-0.0001"]
    wide = [Decimal(9 * 10**37)]
    assert one_match(wide, pa.decimal128(38, 0), RowAgg("sum", ("x",)))["a0"].to_pylist() == wide
    for many in (2, 5):
        with pytest.raises(DataError, match="does not fit into 38 digits"):
            one_match(wide * many, pa.decimal128(38, 0), RowAgg("sum", ("x",)))


def test_long_matches_sum_from_first_to_last() -> None:
    values = [0.1, 1e16, -1e16, 0.7] * 500
    found = one_match(values, pa.float64(), RowAgg("sum", ("x",)), RowAgg("stddev", ("x",)), show=Show.ALL)
    total, sums = 0.0, []
    for value in values:
        total += value
        sums.append(total)
    assert found["a0"].to_pylist() == sums


def test_columns_and_their_order() -> None:
    table = pa.table({"t": [1, 2], "x": ["p", "q"]})
    bound = clause(seq(A), table, measures={"n": MatchNumber()}, show=Show.ALL)
    bound = replace(bound, output=(Shown("t", False), Shown("t", False), Shown("n", True), Shown("x", False)))
    matches = RowMatches(np.array([1]), np.array([1]), np.array([1]), np.array([0]), np.zeros(1, np.int16))
    found = to_table(bound, table, np.array([0, 2]), matches)
    assert found.column_names == ["t", "t", "n", "x"]
    assert [column.to_pylist() for column in found.columns] == [[2], [2], [1], ["q"]]
    no = np.zeros(0, np.int64)
    nothing = to_table(
        bound, table.slice(0, 0), np.array([0]), RowMatches(no, no, no, no, no.astype(np.int16))
    )
    assert nothing.schema == found.schema
    assert nothing.num_rows == 0


def measured(measure: Measure, values: list[int | None], show: Show = Show.ONE) -> pa.Table:
    table = pa.table({"t": range(len(values)), "x": pa.array(values, pa.int64())})
    bound = replace(
        clause(seq(A), table, show=show), measures=(measure,), output=(Shown(measure.name, True),)
    )
    rows = np.arange(len(values) - 1)
    one = np.ones(len(rows), np.int64)
    matches = RowMatches(
        rows, one, rows + 1, one * 0, np.zeros(len(rows), np.int16),
        unmatched=np.array([len(rows)]) if show is Show.UNMATCHED else None,
    )  # fmt: skip
    return to_table(bound, table, np.array([0, len(values)]), matches)


def inverse(x: Any) -> Measure:
    return Measure("inverse", "1 / x", Binary("/", Literal(1, Kind.INT), x), ("x",))


def test_computed_measures() -> None:
    x = atom("x", Kind.INT)
    assert measured(inverse(x), [4, None, 9])["inverse"].to_pylist() == [0.25, None]
    with pytest.raises(DataError, match="division by zero in MEASURES inverse"):
        measured(inverse(x), [4, 0, 9])
    constant = Measure("one", "1", Literal(1, Kind.INT), ())
    assert measured(constant, [4, 5, 6])["one"].to_pylist() == [1, 1]
    assert measured(constant, [4, 5, 6], Show.UNMATCHED)["one"].to_pylist() == [1, 1, None]
    with pytest.raises(UnsupportedError, match="only Spark can compute the measure 'h'"):
        measured(Measure("h", "sha(x)", None, ("x",)), [1, 2])


def test_measures_are_not_computed_for_unmatched_rows() -> None:
    or_zero = Call("coalesce", (atom("x", Kind.INT), Literal(0, Kind.INT)))
    found = measured(inverse(or_zero), [4, 2, 9], Show.UNMATCHED)
    assert found["inverse"].to_pylist() == [0.25, 0.5, None]


# ---- before matching


def test_order_of_doubles_nulls_and_ties() -> None:
    values = [1.0, math.nan, None, -0.0, 0.0, -math.inf, None]
    table = pa.table({"t": pa.array(values, pa.float64()), "x": range(len(values))})
    for order, expected in [
        (Order("t"), [2, 6, 5, 3, 4, 0, 1]),
        (Order("t", nulls_first=False), [5, 3, 4, 0, 1, 2, 6]),
        (Order("t", descending=True), [2, 6, 1, 0, 3, 4, 5]),
        (Order("t", descending=True, nulls_first=False), [1, 0, 3, 4, 5, 2, 6]),
    ]:
        assert prepare(clause(A, table, order=(order,)), table)["x"].to_pylist() == expected


def test_partitions_are_contiguous_and_nulls_are_one() -> None:
    table = pa.table(
        {
            "k": pa.array([2.0, math.nan, None, 0.0, math.nan, -0.0, None]),
            "s": pa.array(["b", "a", None, "a", "a", "a", None]).dictionary_encode(),
            "t": [7, 6, 5, 4, 3, 2, 1],
        }
    )
    bound = clause(A, table, partition=("s", "k"))
    prepared = prepare(bound, table)
    assert prepared["t"].to_pylist() == [1, 5, 2, 4, 3, 6, 7]
    assert partitions(bound, prepared).tolist() == [0, 2, 4, 6, 7]
    assert partitions(bound, table.slice(0, 0)).tolist() == [0]
    assert prepare(bound, prepared)["t"].to_pylist() == prepared["t"].to_pylist()


@pytest.mark.parametrize("seed", range(20))
def test_sorting_is_that_of_python(seed: int) -> None:
    random = Random(seed)
    rows = random.choice([1, 5, 300])
    table = pa.table(
        {
            "k": pa.array(random.choices([None, 1, 2, 3], k=rows), pa.int32()),
            "t": pa.array(
                sorted(random.choices(range(9), k=rows)) if seed % 2 else random.choices(range(9), k=rows)
            ),
            "u": pa.array(random.choices([None, "a", "b"], k=rows), pa.string()),
            "x": range(rows),
        }
    )
    bound = clause(A, table, partition=("k",), order=(Order("t", descending=seed % 3 == 0), Order("u")))
    sign = -1 if seed % 3 == 0 else 1
    expected = sorted(
        table.to_pylist(),
        key=lambda row: (
            row["k"] is not None,
            row["k"] or 0,
            sign * row["t"],
            row["u"] is not None,
            row["u"] or "",
        ),
    )
    assert prepare(bound, table).to_pylist() == expected


def test_derived_columns() -> None:
    x, t = Attr("", ("x",), kind=Kind.INT), Attr("", ("t",), kind=Kind.INT)
    table = pa.table({"t": [3, 2, 1], "x": pa.array([1, 0, None], pa.int64()), "_given": [7, 8, 9]})
    derived = (
        Derived("_one", "1 / x", Binary("/", Literal(1, Kind.INT), x), pa.float64()),
        Derived("_both", "x + t", Binary("+", x, t), pa.int32()),
        Derived("_constant", "true", Literal(True, Kind.BOOL), pa.bool_()),
        Derived("_given", "sha(x)", None, pa.int64()),
    )
    found = prepare(clause(A, table, derived=derived), table)
    assert found["_one"].to_pylist() == [None, None, 1.0]  # what cannot be computed is null
    assert found["_both"].to_pylist() == [None, 2, 4]
    assert found["_both"].type == pa.int32()
    assert found["_constant"].to_pylist() == [True] * 3
    assert found["_given"].to_pylist() == [9, 8, 7]
    with pytest.raises(UnsupportedError, match="only Spark can compute sha"):
        prepare(clause(A, table, derived=derived), table.drop_columns(["_given"]))


def test_a_column_without_order_is_refused() -> None:
    table = pa.table({"t": [1], "l": [[1]]})
    with pytest.raises(UnsupportedError, match="values of column 'l', of type list"):
        prepare(clause(A, table, partition=("l",)), table)
