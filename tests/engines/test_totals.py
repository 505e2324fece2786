"""Totals over matches: as the law says on every engine and way to run, exact, and in the types promised."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import cerise
from cerise.engines.base import Matches, Options, Tally
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.totals import Ledger, Positions, ledger
from cerise.engines.totals.exact import number_of, text_of
from cerise.errors import BindError, DataError, PlanError, UnsupportedError
from cerise.events import EventBatch, Schema
from cerise.kinds import canonical, kind_of, restore_as
from cerise.lang.builder import avg, call, count, largest, many, seq, smallest, stddev, total, var
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.expr import At, attributes
from cerise.pattern.resolve import is_single_event
from tests.support.cases.runners import RUNNERS
from tests.support.oracle.brute_totals import Law
from tests.support.strategies.pairs import Pair
from tests.support.strategies.totals import totalled
from tests.test_agreement import GROUPS, NFA, examples

EVENTS = pa.table(
    {
        "type": ["A", "A", "B", "B", "C"],
        "t": [1, 2, 3, 4, 5],
        "k": ["u", "v", "u", "u", "v"],
        "x": [1, 2, 5, 10, 20],
    }
)
ANY = "USE skip_till_any_match"
ROLES: dict[str, Any] = {"time": "t", "type": "type"}


def bound_of(query: str, events: pa.Table = EVENTS) -> Bound:
    return bind(parse(query), Schema(events.schema, "t", "type"))


def found_by(pair: Pair, bound: Bound, engine: str) -> Iterator[Matches]:
    matcher = ENGINES[engine].start(bound, Options())
    events = Positions(bound)(EventBatch.of(pair.table, bound.schema, reads=bound.ties))
    for found in chain(matcher.feed(events), matcher.flush()):
        assert isinstance(found, Matches)
        yield found


def told(table: pa.Table) -> Counter[str]:
    return Counter(str({name: _plain(known) for name, known in row.items()}) for row in table.to_pylist())


def _plain(known: Any) -> Any:
    match known:
        case Decimal():
            return int(known)
        case float():
            return known + 0.0
        case dt.datetime() | dt.date():
            return str(known)
    return known


def expected(pair: Pair, bound: Bound) -> Counter[str] | None:
    """What the law says; windows are written in the type of the time column."""
    rows = Law(pair.query, pair.schema, pair.table, pair.params).rows()
    if rows is None:
        return None
    types = {column.name: column.type for column in bound.columns}
    for row in rows:
        for name in {"window_start", "window_end"} & set(row):
            row[name] = restore_as(pa.array([row[name]], pa.int64()), types[name])[0].as_py()
    return Counter(str({name: _plain(row[name]) for name in types}) for row in rows)


# ---- the law


@examples(60, 1)
@given(totalled())
def test_totals_are_as_the_law_says(family: list[Pair]) -> None:
    bound = bind(family[0].query, family[0].schema, family[0].params)
    for pair in family:
        law = expected(pair, bound)
        if law is None:
            with pytest.raises(DataError):
                RUNNERS["whole"](bound, pair.table, Options(engine="reference"))
        else:
            found = RUNNERS["whole"](bound, pair.table, Options(engine="reference"))
            assert found.schema == bound.output_schema
            assert told(found) == law, repr(pair)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name not in ("reference", "rcep-left")])
def test_every_engine_gives_the_totals_of_the_reference(engine: str) -> None:
    @examples(12 if engine in NFA else 6, 1, list(ENGINES).index(engine))
    @given(totalled())
    def agrees(family: list[Pair]) -> None:
        bound = bind(family[0].query, family[0].schema, family[0].params)
        if ENGINES[engine].why_not(bound) is None:
            for pair in family:
                assert outcome("whole", bound, pair, engine) == outcome("whole", bound, pair, "reference")

    agrees()


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_runner_changes_no_totals(group: int) -> None:
    @examples(12, 1, group)
    @given(totalled())
    def agrees(family: list[Pair]) -> None:
        bound = bind(family[0].query, family[0].schema, family[0].params)
        for pair in family[:2]:
            whole = outcome("whole", bound, pair, "reference")
            for runner in [each for each in RUNNERS if each != "whole"][group::GROUPS]:
                assert outcome(runner, bound, pair, "reference") == whole, runner

    agrees()


def outcome(runner: str, bound: Bound, pair: Pair, engine: str) -> Counter[str] | str:
    """The totals, or that they cannot be computed."""
    try:
        return told(RUNNERS[runner](bound, pair.table, Options(engine=engine)))
    except DataError:
        return "an error"


# ---- tallies


@examples(25, 1)
@given(totalled())
def test_tallies_say_what_matches_say(family: list[Pair]) -> None:
    bound = bind(family[0].query, family[0].schema, family[0].params)
    if all(map(is_single_event, bound.arguments)):
        for pair in family:
            found = list(found_by(pair, bound, "reference"))
            if outcome("whole", bound, pair, "reference") != "an error":
                spelled, tallied = Ledger(bound), Ledger(bound)
                for matches in found:
                    spelled.add(matches)
                    for tally in tallies_of(matches, bound):
                        tallied.add(tally)
                assert told(tallied.result()) == told(spelled.result())


def tallies_of(matches: Matches, bound: Bound) -> Iterator[Tally]:
    """Each match a tally of its own, in each of its windows."""
    for number, row in enumerate(zip(*(rows.to_pylist() for rows in matches.rows.values()), strict=True)):
        binding = dict(zip(matches.rows, row, strict=True))
        weights = {}
        for index, arg in enumerate(bound.arguments):
            attr = attributes(arg)[0]
            rows = binding[attr.var] or []
            if attr.at is not At.EVERY:
                at = attr.at if isinstance(attr.at, int) else len(rows)
                rows = rows[at - 1 : at] if at else []
            weights[index] = np.array(rows, np.int64), [1] * len(rows)
        one = Matches(matches.events, {name: rows.slice(number, 1) for name, rows in matches.rows.items()})
        members = ledger.Members.of(one, bound)
        for window in [None] if members.window is None else members.window.tolist():
            yield Tally(matches.events, int(members.last[0]), window, 1, weights)


def test_a_tally_counts_beyond_all_bounds() -> None:
    bound = bound_of(
        "PATTERN SEQ(A a, B b) RETURN STRING(COUNT(*)) AS n, STRING(SUM(b.x)) AS s, AVG(b.x) AS m"
    )
    events = EventBatch.of(EVENTS, bound.schema)
    book = Ledger(bound)
    for _ in range(2):
        book.add(Tally(events, 3, None, 2**20_000, {0: (np.array([2, 3]), [2**20_000, 3 * 2**20_000])}))
    other = Ledger(bound)
    other.merge(book.partial())
    (row,) = other.result().to_pylist()
    assert row == {"n": str(Decimal(2**20_001)), "s": str(Decimal(35 * 2**20_001)), "m": 8.75}


def test_a_tally_of_nothing_adds_nothing() -> None:
    bound = bound_of("PATTERN SEQ(A a, B b) RETURN COUNT(*) AS n, MAX(b.x) AS m PER EVENT")
    events = EventBatch.of(EVENTS, bound.schema)
    book = Ledger(bound)
    book.add(Tally(events, 3, None, 0, {}))
    book.add(Tally(events, 2, None, 2, {0: (np.array([2, 3]), [2, 0])}))
    assert book.result().to_pylist() == [{"last_time": 3, "n": 2, "m": 5}]


def test_what_is_kept_grows_with_the_groups() -> None:
    bound = bound_of("PATTERN SEQ(A a, B b) RETURN COUNT(*) AS n, SUM(b.x) AS s IN ALL")
    book = Ledger(bound)
    for _ in range(1_000):
        events = EventBatch.of(EVENTS, bound.schema)
        book.add(Tally(events, 3, None, 2, {0: (np.array([3]), [2])}))
        assert len(book) <= ledger.MANY + 1
    assert book.result().to_pylist() == [{"n": 2_000, "s": 20_000}]


def test_groups_are_joined_now_and_then() -> None:
    small = Options(limits=Limits(spare_groups=2, window_pairs=3))
    query = f"PATTERN SEQ(A a, B b) {ANY} WITHIN 6 SLIDE 1 RETURN COUNT(*) AS n, SUM(a.t) AS s PER WINDOW"
    table = pa.table({"type": ["A", "B"] * 20, "t": range(40)})
    found = cerise.find(table, query, **ROLES, options=small).to_pylist()
    spelled = cerise.find(table, query.split(" RETURN", maxsplit=1)[0], **ROLES).to_pylist()
    for row in found:
        start, end = row["window_start"], row["window_end"]
        inside = [m["first_time"] for m in spelled if start <= m["first_time"] and m["last_time"] < end]
        assert (row["n"], row["s"]) == (len(inside), sum(inside))
    assert len(found) == 43


# ---- numbers


@pytest.mark.parametrize("number", [0, 1, -1, 16**9, -(16**12), 255 << 1126, 10**50, -(3**700), 2**63])
def test_a_number_is_text_and_back(number: int) -> None:
    assert number_of(text_of(number)) == number


def test_a_total_that_does_not_fit_is_an_error_with_ways_out() -> None:
    bound = bound_of("PATTERN SEQ(A a, B b) RETURN COUNT(*)")
    book = Ledger(bound)
    book.add(Tally(EventBatch.of(EVENTS, bound.schema), 3, None, 10**38 - 1, {}))
    assert book.result().to_pylist() == [{"count": Decimal(10**38 - 1)}]
    book.add(Tally(EventBatch.of(EVENTS, bound.schema), 3, None, 10**38, {}))
    with pytest.raises(DataError, match=r"39 digits.*\n.*STRING\(COUNT\(\*\)\).*cerise.count"):
        book.result()
    bound = bound_of("PATTERN SEQ(A a, B b) RETURN SUM(b.x) AS s IN ALL")
    book = Ledger(bound)
    events = EventBatch.of(EVENTS, bound.schema)
    book.add(Tally(events, 3, None, 1, {0: (np.array([3]), [10**37])}))
    with pytest.raises(DataError, match=r"STRING\(SUM\(b.x\)\) AS s"):
        book.result()


def test_a_count_of_events_that_are_read_again_must_fit_into_64_bits() -> None:
    source = bound_of("PATTERN SEQ(A a, B b) RETURN N(COUNT(*) AS n) PER EVENT; PATTERN N x FROM N").source
    assert source is not None
    book = Ledger(source)
    book.add(Tally(EventBatch.of(EVENTS, source.schema), 3, None, 2**63, {}))
    with pytest.raises(DataError, match="64 bits"):
        book.result()


def test_what_cannot_be_computed_is_an_error_only_on_events_of_matches() -> None:
    query = "PATTERN SEQ(A a, B b) RETURN SUM(10 / (b.x - 20)) AS s, MAX(10 / (b.x - a.x)) AS m IN ALL"
    assert cerise.find(EVENTS, query, **ROLES).to_pylist() == [{"s": -2 / 3 * 2, "m": 10 / 3}]
    with pytest.raises(DataError, match="division by zero in RETURN 10 / "):
        cerise.find(EVENTS, query.replace("20", "5"), **ROLES)
    with pytest.raises(DataError, match="division by zero in RETURN 10 / "):
        cerise.find(EVENTS, query.replace("a.x", "a.x - 4"), **ROLES)


# ---- types

COLUMNS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "i8": (pa.int8(), 3, 7),
    "u64": (pa.uint64(), 3, 2**62),
    "f32": (pa.float32(), 0.5, 1.5),
    "f16": (pa.float16(), 0.5, 1.5),
    "d": (pa.decimal128(15, 2), Decimal("-0.10"), Decimal("1234567890123.45")),
    "s": (pa.large_string(), "a", "日"),
    "c": (pa.dictionary(pa.int8(), pa.string()), "a", "b"),
    "b": (pa.bool_(), False, True),
    "ts": (pa.timestamp("s"), dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2024, 1, 1)),
    "tms": (pa.timestamp("ms", "Europe/Berlin"), dt.datetime(2024, 1, 1), dt.datetime(2024, 7, 1)),
    "d32": (pa.date32(), dt.date(1969, 12, 1), dt.date(2024, 1, 1)),
    "d64": (pa.date64(), dt.date(1969, 12, 1), dt.date(2024, 1, 1)),
    "gap": (pa.duration("ms"), dt.timedelta(milliseconds=-5), dt.timedelta(days=2)),
    "none": (pa.null(), None, None),
}


def test_extremes_have_the_type_of_their_column() -> None:
    columns = {name: pa.array([low, high], type_) for name, (type_, low, high) in COLUMNS.items()}
    table = pa.table({"t": pa.array([1, 2], pa.int32()), **columns})
    items = ", ".join(f"MIN(a.{name}) AS low_{name}, MAX(a.{name}) AS high_{name}" for name in columns)
    found = cerise.find(table, f"PATTERN a RETURN {items} IN ALL", time="t")
    assert found.schema == cerise.schema(table, f"PATTERN a RETURN {items} IN ALL", time="t")
    for name, column in columns.items():
        plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        assert found.schema.field(f"low_{name}").type == plain
        assert found.column(f"low_{name}")[0].as_py() == column[0].as_py()
        assert found.column(f"high_{name}")[0].as_py() == column[1].as_py()


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "none"])
def test_what_is_canonical_goes_back(name: str) -> None:
    type_, low, high = COLUMNS[name]
    column = pa.array([low, None, high], type_)
    assert restore_as(canonical(column, kind_of(type_), name), type_) == column


def test_partitions_keep_their_types() -> None:
    for name, (type_, low, high) in COLUMNS.items():
        table = pa.table({"t": [1, 2, 3], "k": pa.array([low, high, high], type_)})
        found = cerise.find(table, "PATTERN a RETURN COUNT(*) AS n PER PARTITION", time="t", key="k")
        assert found.schema.field("k").type == type_, name
        counts = Counter({str(row["k"]): int(row["n"]) for row in found.to_pylist()})
        assert counts == Counter(map(str, table.column("k").to_pylist())), name


def test_counts_and_sums_are_decimals_and_means_doubles() -> None:
    query = f"PATTERN SEQ(A a, B b) {ANY} RETURN COUNT(*), SUM(b.x) AS s, SUM(b.x * 1.0) AS d, AVG(b.x) AS m"
    schema = cerise.find(EVENTS, query, **ROLES).schema
    assert schema.types == [pa.decimal128(38, 0), pa.decimal128(38, 0), pa.float64(), pa.float64()]


def test_times_that_windows_would_leave_are_an_error() -> None:
    table = pa.table({"t": pa.array([2**31 - 2, 2**31 - 1], pa.int32())})
    query = "PATTERN SEQ(a, b) WITHIN 4 SLIDE 2 RETURN COUNT(*) AS n PER WINDOW"
    with pytest.raises(DataError, match="int32"):
        cerise.find(table, query, time="t")
    with pytest.raises(DataError, match="beyond the last time"):
        cerise.find(
            pa.table({"t": [2**63 - 2, 2**63 - 1]}), query, time="t", options=Options(engine="reference")
        )
    with pytest.raises(DataError, match="before the first time"):
        cerise.find(
            pa.table({"t": [-(2**63), -(2**63) + 1]}), query, time="t", options=Options(engine="reference")
        )
    early = pa.table({"t": [-(2**63) + 2, -(2**63) + 3]})
    for engine in ("reference", "nfa"):
        assert cerise.find(early, query, time="t", options=Options(engine=engine)).sort_by(
            "window_start"
        ).to_pylist() == [
            {"window_start": -(2**63), "window_end": -(2**63) + 4, "n": 1},
            {"window_start": -(2**63) + 2, "window_end": -(2**63) + 6, "n": 1},
        ]


@pytest.mark.parametrize("engine", ["reference", "nfa", "rcep"])
def test_too_many_windows_are_refused(engine: str) -> None:
    query = f"PATTERN SEQ(A a, B b) {ANY} WITHIN 1000000000000 SLIDE 1 RETURN COUNT(*) AS n PER WINDOW"
    with pytest.raises(PlanError, match="up to 1000000000000 windows") as raised:
        cerise.find(EVENTS, query, **ROLES, options=Options(engine=engine))
    assert "longer SLIDE" in str(raised.value)


@pytest.mark.parametrize("engine", ["reference", "nfa", "rcep"])
def test_many_windows_are_looked_at_some_at_a_time(engine: str) -> None:
    query = f"PATTERN SEQ(A a, B b) {ANY} WITHIN 300 SLIDE 1 RETURN COUNT(*) AS n PER WINDOW"
    options = Options(engine=engine, limits=Limits(window_pairs=7))
    whole = cerise.find(EVENTS, query, **ROLES).sort_by("window_start")
    assert cerise.find(EVENTS, query, **ROLES, options=options).sort_by("window_start") == whole


def test_a_ledger_keeps_a_bounded_number_of_windows() -> None:
    bound = bound_of(f"PATTERN SEQ(A a, B b) {ANY} WITHIN 300 SLIDE 1 RETURN COUNT(*) AS n PER WINDOW")
    events = EventBatch.of(EVENTS, bound.schema)
    book = Ledger(bound, Limits(window_pairs=7, spare_groups=1), most_windows=100)
    (found,) = ENGINES["nfa"].start(bound, Options()).feed(events)
    with pytest.raises(PlanError, match="more than 100 windows"):
        book.add(found)


# ---- the rest of the interface


def test_count_counts_the_matches_whatever_is_returned() -> None:
    for returned in ("", "RETURN a.x", "RETURN COUNT(*) AS n", "RETURN SUM(b.x) AS s PER EVENT"):
        found = cerise.count(EVENTS, f"PATTERN SEQ(A a, B b) {ANY} {returned}", **ROLES)
        assert (found, type(found)) == (4, int)


def test_totals_in_python() -> None:
    a, b = var("A", "a"), many(var("B", "b"))
    query = seq(a, b).partition_by("k").within(9).slide(3)
    written = query.totals("Partition,window", n=count(), text=call("string", count()), high=largest(b.x * 2))
    text = "RETURN COUNT(*) AS n, STRING(COUNT(*)) AS text, MAX(b.x * 2) AS high PER PARTITION, WINDOW"
    assert written.query == parse(f"PATTERN SEQ(A a, B+ b[]) PARTITION BY k WITHIN 9 SLIDE 3 {text}")
    assert seq(a, b).totals(count=count()).query == parse("PATTERN SEQ(A a, B+ b[]) RETURN COUNT(*)")
    text = "SUM(FIRST(b.x)) AS s, AVG(a.x) AS m, MIN(b.x) AS l, COUNT(b) AS n IN ALL"
    written = query.totals(s=total(b[1].x), m=avg(a.x), l=smallest(b.x), n=count(b))
    assert written.query.returns == parse(f"PATTERN SEQ(A a, B+ b[]) RETURN {text}").returns
    assert parse(str(written)) == written.query


def test_totals_in_python_that_are_none() -> None:
    a, b = var("A", "a"), many(var("B", "b"))
    with pytest.raises(BindError, match=r"(?s)no totals are per 'day'.*event"):
        seq(a, b).totals("day", n=count())
    with pytest.raises(BindError, match="every column is an aggregate"):
        seq(a, b).totals("event", n=a.x)
    with pytest.raises(BindError, match="totals have no stddev"):
        seq(a, b).totals("event", n=stddev(b.x))
    with pytest.raises(BindError, match="nothing to return"):
        seq(a, b).totals("event")
    with pytest.raises(BindError, match=r"totals\(n=count\(\)\)"):
        seq(a, b).returns(n=count())


def test_explain_says_that_matches_are_not_kept() -> None:
    said = cerise.explain(EVENTS, "PATTERN SEQ(A a, B b) RETURN MAX(b.x) AS m IN ALL", **ROLES)
    assert "totals     each match is added as it is found, none is kept" in said
    assert "matches are counted" in cerise.explain(EVENTS, "PATTERN SEQ(A a, B b) RETURN COUNT(*)", **ROLES)


def test_totals_are_refused_where_matches_are_needed() -> None:
    query = "PATTERN SEQ(A a, B b) RETURN COUNT(*) PER EVENT"
    with pytest.raises(UnsupportedError, match="no matches to compress"):
        cerise.compressed(EVENTS, query, **ROLES)
