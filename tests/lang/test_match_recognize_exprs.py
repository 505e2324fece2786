"""The expressions of a clause: what they are computed from, by whom, and as what."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cerise.errors import BindError
from cerise.kinds import Kind
from cerise.pattern.expr import Attr, Binary, Call, Cast, Expr, In, IsNull, Like, Literal, Unary
from cerise.pattern.row_pattern import MatchNumber, MatchStatus, Nav, RowAgg
from tests.lang.clauses import A, B, Spark, atoms, bind, condition, marked, measure

# ---- names and navigation

NAVIGATION: list[tuple[str, Any]] = [
    ("price", Nav("price")),
    ("A.price", Nav("price", A)),
    ("a.PRICE", Nav("price", A)),
    ("`A`.`price`", Nav("price", A)),
    ("U.price", Nav("price", A | B)),
    ("a", Nav("a")),
    ("A.a", Nav("a", A)),
    ("LAST(A.price)", Nav("price", A)),
    ("FIRST(price, 2)", Nav("price", last=False, offset=2)),
    ("RUNNING LAST(A.price, 1)", Nav("price", A, offset=1)),
    ("FINAL LAST(A.price)", Nav("price", A, final=True)),
    ("PREV(price)", Nav("price", shift=-1)),
    ("NEXT((A.price), 3)", Nav("price", A, shift=3)),
    ("PREV(price, 0)", Nav("price")),
    ("PREV(FINAL FIRST(B.price, 1), 2)", Nav("price", B, False, 1, True, -2)),
    ("CLASSIFIER()", Nav("")),
    ("CLASSIFIER(U)", Nav("", A | B)),
    ("NEXT(CLASSIFIER())", Nav("", shift=1)),
    ("FIRST(CLASSIFIER(B), 1)", Nav("", B, False, 1)),
    ("MATCH_NUMBER()", MatchNumber()),
    ("MATCH_STATUS()", MatchStatus()),
    ("count(*)", RowAgg("count", ())),
    ("count(1)", RowAgg("count", ())),
    ("count(A.*)", RowAgg("count", (), A)),
    ("count(A)", RowAgg("count", ("a",))),
    ("count(U.A)", RowAgg("count", ("a",), A | B)),
    ("FINAL count(U.*)", RowAgg("count", (), A | B, True)),
    ("sum(DISTINCT B.n)", RowAgg("sum", ("n",), B, distinct=True)),
    ("max(DISTINCT B.n)", RowAgg("max", ("n",), B)),
    ("mean(n)", RowAgg("avg", ("n",))),
    ("stddev_samp(n)", RowAgg("stddev", ("n",))),
    ("collect_list(big)", RowAgg("array_agg", ("big",))),
    ("max_by(A.list, A.n)", RowAgg("max_by", ("list", "n"), A)),
    ("arbitrary(list)", RowAgg("any_value", ("list",))),
    ("array_agg(CLASSIFIER(A))", RowAgg("array_agg", ("",), A)),
    ("sum(A.n) FILTER (WHERE A.flag)", RowAgg("sum", ("n",), A, where="flag")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "atom"), NAVIGATION)
def test_an_atom(text: str, atom: Any) -> None:
    bound = measure(text)
    assert atoms(bound) == [atom]
    assert bound.measures[0].sql == "`_a0`"
    assert bound.derived == ()
    assert bound.measures[0].expr == Attr("", ("_a0",), kind=bound.measures[0].expr.kind)  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["RUNNING LAST(A.price)", "FINAL LAST(A.price)", "A.price"])
def test_one_row_is_the_last_row(text: str) -> None:
    assert atoms(measure(text, rows="")) == [Nav("price", A, final=True)]
    assert atoms(measure(f"RUNNING sum(n) + FINAL sum(n) + 0 * ({text})", rows=""))[0] == RowAgg(
        "sum", ("n",), final=True
    )


def test_equal_atoms_have_one_name() -> None:
    bound = bind("MEASURES A.n + LAST(A.n) AS m, A.n AS k ALL ROWS PER MATCH PATTERN (A) DEFINE A AS A.n > n")
    assert bound.atoms == {"_a0": Nav("n", A), "_a1": Nav("n")}
    assert [each.sql for each in bound.measures] == ["`_a0` + `_a0`", "`_a0`"]


def test_delimited_variables_keep_their_case() -> None:
    bound = bind(
        """MEASURES "b".n AS x, b.n AS y, CLASSIFIER("b") AS z, FIRST("b"."n") AS f PATTERN (b "b" `b c`)
        DEFINE "b" AS "b".n = B.n, `b c` AS `b c`.sym = "b" """
    )
    assert bound.labels == ("B", "b", "b c")
    small = frozenset({"b"})
    assert [each for each in atoms(bound) if each.final] == [
        Nav("n", small, final=True), Nav("n", B, final=True), Nav("", small, final=True),
        Nav("n", small, last=False, final=True),
    ]  # fmt: skip
    assert bound.conditions[1].expr == Binary(
        "=", Attr("", ("_a2",), kind=Kind.STRING), Literal("b", Kind.STRING)
    )


def test_a_column_is_found_by_its_spelling_first() -> None:
    columns = pa.schema([("x", pa.int64()), ("X", pa.string()), ("Y", pa.int64())])
    bound = bind("MEASURES X AS m, x AS k, y AS j PATTERN () ", columns=columns)
    assert [each.column for each in atoms(bound)] == ["X", "x", "Y"]
    with pytest.raises(BindError, match="'xx' or 'XX'"):
        bind(
            "MEASURES A.xX AS m PATTERN (A) DEFINE A AS true",
            columns=pa.schema([("xx", pa.int64()), ("XX", pa.int64())]),
        )


def test_the_input_may_name_its_table_where_rows_are_not_yet_matched() -> None:
    bound = bind("PARTITION BY t.sym ORDER BY trades.ts, point.x PATTERN () ")
    assert (bound.partition, [each.column for each in bound.order]) == (("sym",), ["ts", "_d0"])


# ---- columns derived from one row


def test_a_field_of_a_struct_is_a_column() -> None:
    bound = measure("A.point.X + LAST(point.x)")
    (derived,) = bound.derived
    assert (derived.name, derived.sql, derived.type) == ("_d0", "`point`.`x`", pa.int32())
    assert derived.expr == Attr("", ("point", "x"), kind=Kind.INT)
    assert atoms(bound) == [Nav("_d0", A), Nav("_d0")]


def test_what_a_navigation_computes_is_a_column() -> None:
    bound = measure("LAST(A.n + A.a * 2) + sum(abs(n)) + count(*) FILTER (WHERE n > 1 AND sym LIKE 'x%')")
    assert [(each.sql, each.type) for each in bound.derived] == [
        ("`n` + `a` * 2", pa.int64()), ("abs(`n`)", pa.int64()), ("`n` > 1 AND `sym` LIKE 'x%'", pa.bool_()),
    ]  # fmt: skip
    assert bound.derived[1].expr == Call("abs", (Attr("", ("n",), kind=Kind.INT),))
    assert atoms(bound) == [Nav("_d0", A), RowAgg("sum", ("_d1",)), RowAgg("count", (), where="_d2")]
    assert bound.measures[0].sql == "`_a0` + `_a1` + `_a2`"


def test_derived_columns_avoid_names_that_are_taken() -> None:
    columns = pa.schema([("_D0", pa.int64())])
    bound = bind("PARTITION BY _d0 + 1 ALL ROWS PER MATCH PATTERN ()", columns=columns)
    assert [(each.name, each.sql) for each in bound.derived] == [("_d1", "`_D0` + 1")]


def test_spark_tells_the_type() -> None:
    host = Spark(date_format=pa.string(), **{"* 1.5": pa.decimal128(22, 1)})
    bound = bind(
        """PARTITION BY date_format(ts, 'yyyy-MM-dd''T''SSS') MEASURES LAST(n * 1.5) AS m
        PATTERN (A) DEFINE A AS A.n * 1.5 > LAST(n * 1.5, 1)""",
        host,
    )
    by_sql = {each.sql: each for each in bound.derived}
    day = by_sql["date_format(`ts`, CONCAT('yyyy-MM-dd', 'T', 'SSS'))"]
    assert (day.expr, day.type) == (None, pa.string())
    assert by_sql["`n` * 1.5"].type == pa.decimal128(22, 1)  # a measure is as exact as Spark
    assert by_sql["CAST(`n` * 1.5 AS DOUBLE)"].type == pa.float64()  # a condition computes with it


def test_where_spark_has_another_kind_its_answer_holds() -> None:
    bound = measure("LAST(ts > TIMESTAMP '2024-01-01')", host=Spark(ts=pa.string()))
    assert (bound.derived[0].expr, bound.derived[0].type) == (None, pa.string())


def test_an_error_of_spark_has_its_place() -> None:
    with pytest.raises(BindError, match="Spark knows no") as caught:
        measure("LAST(A.n) + LAST(foo(A.sym))", host=Spark())
    assert marked(caught.value) == "foo(A.sym)"
    assert caught.value.hint == "ask for something else"


# ---- labels inside navigation and aggregates


def test_a_navigation_takes_the_value_of_the_label_that_it_finds() -> None:
    bound = measure("PREV(LAST(U.n + length(CLASSIFIER(U)), 1), 2)")
    assert [each.sql for each in bound.derived] == [
        "`n` + length('A')", "`n` + length('B')", "`n` + length(nullif('', ''))",
    ]  # fmt: skip
    assert atoms(bound) == [
        Nav(name, A | B, offset=1, shift=-2) for name in ("", "_d0", "_d1", "_d2")
    ]  # fmt: skip
    assert bound.measures[0].sql == "CASE `_a0` WHEN 'A' THEN `_a1` WHEN 'B' THEN `_a2` ELSE `_a3` END"


def test_a_navigation_to_no_row_is_null_whatever_it_computes() -> None:
    bound = measure("FIRST(coalesce(CLASSIFIER(A), 'x'))")
    assert [each.sql for each in bound.derived] == [
        "if(isnull(`sym`), coalesce('A', 'x'), coalesce('A', 'x'))",
        "if(isnull(`sym`), coalesce(nullif('', ''), 'x'), coalesce(nullif('', ''), 'x'))",
    ]
    assert atoms(bound) == [Nav(name, A, last=False) for name in ("", "_d0", "_d1")]


def test_an_aggregate_is_put_together_from_those_of_each_label() -> None:
    bound = measure("FINAL max(CASE WHEN CLASSIFIER() = 'B' THEN n END)")
    assert atoms(bound) == [RowAgg("max", ("_d0",), A, True), RowAgg("max", ("_d1",), B, True)]
    assert bound.measures[0].sql == "greatest(`_a0`, `_a1`)"
    bound = measure("count(*) FILTER (WHERE CLASSIFIER() IN ('A', 'C'))")
    assert atoms(bound) == [RowAgg("count", (), A, where="_d0"), RowAgg("count", (), B, where="_d1")]
    bound = measure("avg(length(CLASSIFIER(U)))")
    assert [(each.function, each.members) for each in atoms(bound)] == [
        ("count", A), ("count", B), ("sum", A), ("sum", B),
    ]  # fmt: skip
    counted = "(`_a0` + `_a1`)"
    total = "(coalesce(`_a2`, 0) + coalesce(`_a3`, 0))"
    assert bound.measures[0].sql == f"CASE WHEN {counted} = 0 THEN NULL ELSE {total} / {counted} END"


# ---- conditions

n = Attr("", ("_a0",), kind=Kind.INT)
NULL, TRUE, FALSE = Literal(None, Kind.NULL), Literal(True, Kind.BOOL), Literal(False, Kind.BOOL)
ZERO, ONE, TWO, HALF = (Literal(x, Kind.INT if isinstance(x, int) else Kind.FLOAT) for x in (0, 1, 2, 0.5))
MORE = Binary(">", n, ONE)


def text(value: str) -> Literal:
    return Literal(value, Kind.STRING)


def chosen(test: Expr, then: Expr, other: Expr) -> Call:
    return Call("if", (test, then, other))


CONDITIONS: list[tuple[str, Expr]] = [
    ("n > 1", MORE),
    ("n == -1 or not (n <> 1)",
     Binary("or", Binary("=", n, Literal(-1, Kind.INT)), Unary("not", Binary("!=", n, ONE)))),
    ("n + n * 2 >= 0.5", Binary(">=", Binary("+", n, Binary("*", n, TWO)), HALF)),
    ("n / 2 - n % 2 < - n",
     Binary("<", Binary("-", Binary("/", n, TWO), Binary("%", n, TWO)), Unary("-", n))),
    ("n BETWEEN 1 AND 2", Binary("and", Binary(">=", n, ONE), Binary("<=", n, TWO))),
    ("n NOT IN (1, 2)", Unary("not", In(n, (ONE, TWO)))),
    ("n IS NOT NULL", Unary("not", IsNull(n))),
    ("n <=> 1", Call("coalesce", (Binary("=", n, ONE), Binary("and", IsNull(n), IsNull(ONE))))),
    ("(n > 1) IS TRUE", Call("coalesce", (MORE, FALSE))),
    ("(n > 1) IS NOT FALSE", Unary("not", Call("coalesce", (Unary("not", MORE), FALSE)))),
    ("CAST(n AS DOUBLE) > 1", Binary(">", Cast(n, Kind.FLOAT), ONE)),
    ("power(n, 2) > ceiling(0.5)", Binary(">", Call("pow", (n, TWO)), Call("ceil", (HALF,)))),
    ("nvl(n, 0) > 1", Binary(">", Call("coalesce", (n, ZERO)), ONE)),
    ("nullif(n, 0) > 1", Binary(">", chosen(Binary("=", n, ZERO), NULL, n), ONE)),
    ("if(n > 1, true, false)", chosen(MORE, TRUE, FALSE)),
    ("CASE n WHEN 1 THEN true END", chosen(Binary("=", n, ONE), TRUE, NULL)),
    ("CASE WHEN n > 1 THEN 1 WHEN n > 0 THEN 2 ELSE 0 END = 2",
     Binary("=", chosen(MORE, ONE, chosen(Binary(">", n, ZERO), TWO, ZERO)), TWO)),
    ("true", TRUE),
    ("NULL", NULL),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), CONDITIONS)
def test_a_condition(source: str, expected: Expr) -> None:
    assert condition(source)[0] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("sym NOT LIKE 'a\\\\%'", Unary("not", Like(Attr("", ("_a0",), kind=Kind.STRING), "a\\%"))),
        (
            "upper(sym) = 'it' 's'",
            Binary("=", Call("upper", (Attr("", ("_a0",), kind=Kind.STRING),)), text("its")),
        ),
        ("flag", Attr("", ("_a0",), kind=Kind.BOOL)),
        (
            "ts - LAST(A.ts) < INTERVAL '1' MINUTE",
            Binary(
                "<",
                Binary("-", Attr("", ("_a0",), kind=Kind.LOCAL), Attr("", ("_a1",), kind=Kind.LOCAL)),
                Literal(60_000_000, Kind.DURATION),
            ),
        ),
        (
            "ts >= TIMESTAMP '1970-01-01 00:00:01'",
            Binary(">=", Attr("", ("_a0",), kind=Kind.LOCAL), Literal(1_000_000, Kind.LOCAL)),
        ),
        (
            "at >= TIMESTAMP '1970-01-01 01:00:01+01:00'",
            Binary(">=", Attr("", ("_a0",), kind=Kind.INSTANT), Literal(1_000_000, Kind.INSTANT)),
        ),
        (
            "ts > DATE '1970-01-02'",
            Binary(">", Attr("", ("_a0",), kind=Kind.LOCAL), Literal(86_400_000_000, Kind.DATE)),
        ),
    ],
)
def test_a_condition_of_other_kinds(source: str, expected: Expr) -> None:
    assert condition(source)[0] == expected


def test_conditions_are_running() -> None:
    _, bound = condition("count(*) > 1 AND RUNNING sum(A.n) > LAST(B.n) AND CLASSIFIER() = 'B'")
    assert not any(each.final for each in atoms(bound))
    bound = bind("MEASURES 1 AS m PATTERN (A) DEFINE A AS RUNNING LAST(A.n) > sum(n)")
    assert not any(each.final for each in atoms(bound))


def test_what_only_spark_knows_is_a_column_of_the_row_being_tested() -> None:
    host = Spark(RLIKE=pa.bool_(), size=pa.int32())
    _, bound = condition("sym RLIKE B.sym AND size(U.list) > A.n", host)
    assert [(each.sql, each.expr) for each in bound.derived] == [
        ("`sym` RLIKE `sym`", None),
        ("size(`list`)", None),
    ]
    assert atoms(bound) == [Nav("_d0"), Nav("_d1"), Nav("n", A)]


def test_only_as_much_as_needed_is_left_to_spark() -> None:
    host = Spark(list=pa.int64(), big=pa.bool_(), sym=pa.bool_())
    _, bound = condition("list[0] + 1 > n AND `list`[1] > 0 AND big > 3 AND sym > 5", host)
    assert [each.sql for each in bound.derived] == ["`list`[0]", "`list`[1]", "`big` > 3", "`sym` > 5"]
    assert atoms(bound) == [Nav("_d0"), Nav("n"), Nav("_d1"), Nav("_d2"), Nav("_d3")]


def test_what_was_tried_in_vain_leaves_no_column() -> None:
    _, bound = condition("array_sort(list) = list", Spark(**{"=": pa.bool_(), "sort": pa.list_(pa.int64())}))
    assert [each.sql for each in bound.derived] == ["array_sort(`list`) = `list`"]
    assert atoms(bound) == [Nav("_d0")]


def test_a_function_of_another_variable_sees_null_before_its_first_row() -> None:
    expr, bound = condition("nvl2(A.n, 1, 2) = n", Spark(nvl2=pa.int32()))
    assert [each.sql for each in bound.derived] == [
        "nvl2(`n`, 1, 2)",
        "TRUE",
        "nvl2(if(FALSE, `n`, NULL), 1, 2)",
    ]
    assert atoms(bound) == [Nav("_d0", A), Nav("_d1", A), Nav("_d2"), Nav("n")]
    assert isinstance(expr, Binary)
    there, exists, missing = (
        Attr("", (f"_a{i}",), kind=kind) for i, kind in enumerate((Kind.INT, Kind.BOOL, Kind.INT))
    )
    assert expr.left == Call("if", (exists, there, missing))


def test_a_subquery_is_left_as_it_was_written() -> None:
    query = "(SELECT  Max(q), date_format(x, 'SSS') FROM u WHERE n > 1 -- note\n)"
    _, bound = condition(f"n > {query}", Spark(Max=pa.int64()))
    assert bound.derived[0].sql == query
    bound = measure(f"A.n + {query}")
    assert (bound.measures[0].sql, bound.measures[0].expr) == (f"`_a0` + {query}", None)


def test_a_measure_keeps_functions_of_spark() -> None:
    bound = measure(
        "to_timestamp(A.sym, 'SSS') || my.first(B.n) || transform(list, x -> x + n)[0] || Foo(CLASSIFIER())"
    )
    assert bound.measures[0].sql == (
        "to_timestamp(`_a0`, 'SSS') || my.first(`_a1`) || transform(`_a2`, x -> x + `_a3`)[0] || Foo(`_a4`)"
    )
    assert bound.measures[0].expr is None
    assert bound.measures[0].atoms == ("_a0", "_a1", "_a2", "_a3", "_a4")


def test_a_measure_that_cerise_computes() -> None:
    bound = measure("if(A.n > 0, A.n, -1)")
    (found,) = bound.measures
    x = Attr("", ("_a0",), kind=Kind.INT)
    assert found.expr == Call("if", (Binary(">", x, ZERO), x, Literal(-1, Kind.INT)))
    assert found.sql == "if(`_a0` > 0, `_a0`, -1)"
