"""What is wrong with a clause is said with its place and a way out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cerise.errors import BindError, CeriseError, ParseError, UnsupportedError
from cerise.lang.match_recognize import bind_rows, parse_statement
from tests.lang.clauses import COLUMNS, Spark, bind, condition, marked, measure

MR = "MATCH_RECOGNIZE (MEASURES A.x AS y PATTERN (A{1,2} $) DEFINE A AS x > ')')"
D = "DEFINE A AS true"
PARSE_ERRORS = [
    ("PARTITON BY sym PATTERN (A) DEFINE A AS true", "PARTITON", "PARTITION"),
    ("ORDER BY ts MESURES A.n AS m PATTERN (A) DEFINE A AS true", "MESURES", "MEASURES"),
    ("MEASURES A.n AS m PATERN (A) DEFINE A AS true", "PATERN", "PATTERN"),
    ("MEASURES A.n AS m PATTERN (A) DEFIN A AS true", "DEFIN", "DEFINE"),
    ("ONE ROW PER MATCH AFTR MATCH SKIP TO NEXT ROW PATTERN ()", "AFTR", "AFTER"),
    ("DEFINE A AS true PATTERN (A)", "PATTERN", "the order is PARTITION BY, ORDER BY"),
    ("MEASURES 1 AS m ORDER BY ts PATTERN ()", "ORDER", "the order is"),
    ("PATTERN () PATTERN ()", "PATTERN", "the order is"),
    ("MEASURES A.n AS m", "MATCH_RECOGNIZE", "write PATTERN"),
    ("MEASURES 1 AS m PATTERN (A B)", "A", "DEFINE A AS"),
    ("MEASURES 1 AS m WITHIN 5 PATTERN ()", "PATTERN", "PATTERN, WITHIN, SUBSET"),
    ("AFTER MATCH SKIP TO PATTERN ()", "O", None),
    ("INITIAL PATTERN (A) DEFINE A AS true", "INITIAL", "window"),
    ("PATTERN (A PERMUTE()) DEFINE A AS true", "PERMUTE()", "PERMUTE(A, B)"),
    ("MEASURES A.n PATTERN (A) DEFINE A AS true", "A.n", "AS name"),
    ("MEASURES A.n + AS m PATTERN (A) DEFINE A AS true", "+", None),
    ("MEASURES A.n A.n AS m PATTERN (A) DEFINE A AS true", "A", None),
    ("PARTITION BY sym, PATTERN ()", "m,", None),
    ("ALL ROWS PER MATCH OMIT EMPTY ROWS PATTERN ()", "OMIT", None),
    ("AFTER MATCH SKIP PAST FIRST ROW PATTERN ()", "PAST", None),
    ("PATTERN (A) DEFINE A n > 1", "n", None),
    ("PATTERN (A) SUBSET U = A DEFINE A AS true", "A", None),
    ("PATTERN (A B) WITHIN EMIT TIMEOUTS DEFINE A AS true", "EMIT", "WITHIN INTERVAL"),
    ("PATTERN (A,B) DEFINE A AS true", ",", "PERMUTE"),
    ("PATTERN (A**) DEFINE A AS true", "*", "parentheses"),
    ("PATTERN (A{0}) DEFINE A AS true", "{0}", None),
    ("PATTERN (A{3,2}) DEFINE A AS true", "{3,2}", "{2,3}"),
    ("PATTERN (A{,0}) DEFINE A AS true", "{,0}", None),
    ("PATTERN (PERMUTE(A,B,C,D,E,F,G,H,I)) DEFINE A AS true", "PERMUTE(A,B,C,D,E,F,G,H,I)", "at most 8"),
    ("MEASURES FINAL A.n AS m PATTERN (A) DEFINE A AS true", "FINAL", "FINAL LAST(A.…)"),
]  # fmt: skip


@pytest.mark.parametrize(("inside", "place", "hint"), PARSE_ERRORS)
def test_what_cannot_be_parsed(inside: str, place: str, hint: str | None) -> None:
    with pytest.raises(CeriseError) as caught:
        bind(inside)
    assert marked(caught.value) == place
    assert hint is None or (caught.value.hint is not None and hint in caught.value.hint), caught.value.hint


MEASURE_ERRORS = [
    ("A.prise", "unknown column 'prise'", "prise", "'price'"),
    ("AA.price", "unknown variable 'AA'", "AA", "'A'"),
    ("t.price", "table 't'", "t", "A.x"),
    ("trades.price", "table 'trades'", "trades", "A.x"),
    ("B", "'B' is a variable", "B", "B.sym"),
    ("point.z", "unknown field 'z'", "z", "x"),
    ("sym.x", "has no fields", "x", None),
    ("CLASSIFIER(Q)", "unknown variable 'Q'", "Q", None),
    ("CLASSIFIER(A.n)", "takes a variable", "CLASSIFIER(A.n)", None),
    ("count(Q.*)", "unknown variable 'Q'", "Q", None),
    ("LAST(A.n + B.n)", "LAST mixes A and B", "B.n", "M27"),
    ("LAST(A.n + n)", "mixes A and all rows", "n", "M27"),
    ("PREV(length(CLASSIFIER(A)) + B.n)", "mixes A and B", "B.n", None),
    ("LAST(1)", "names no column", "LAST(1)", "M27"),
    ("FIRST(PREV(A.n))", "PREV inside FIRST", "PREV(A.n)", "M26"),
    ("FIRST(LAST(A.n))", "LAST inside FIRST", "LAST(A.n)", "M26"),
    ("PREV(NEXT(A.n))", "NEXT inside PREV", "NEXT(A.n)", "M26"),
    ("PREV(FIRST(A.n) + 1)", "FIRST inside PREV", "FIRST(A.n)", "M26"),
    ("PREV(sum(A.n))", "SUM inside PREV", "sum(A.n)", "M27"),
    ("sum(LAST(A.n))", "LAST inside SUM", "LAST(A.n)", "M27"),
    ("sum(max(A.n))", "MAX inside SUM", "max(A.n)", "M27"),
    ("PREV(A.n, -1)", "moves", "1", "NEXT"),
    ("LAST(A.n, A.a)", "moves", "A.a", "a number"),
    ("LAST(A.n, 1.5)", "moves", "1.5", "a number"),
    ("LAST(A.n, 1, 2)", "takes an expression and", "LAST(A.n, 1, 2)", None),
    ("FINAL PREV(A.n)", "FINAL before PREV", "PREV(A.n)", "PREV(FINAL LAST(…))"),
    ("RUNNING upper(A.sym)", "RUNNING before UPPER", "upper(A.sym)", "aggregates"),
    ("FINAL CLASSIFIER()", "FINAL before CLASSIFIER", "CLASSIFIER()", None),
    ("row_number() OVER (ORDER BY n)", "window function", None, "around"),
    ("lag(n)", "window function", "lag(n)", "PREV"),
    ("sum(n) OVER ()", "window function", "sum(n)", "around"),
    ("sum(A.*)", r"SUM of \*", "sum(A.*)", None),
    ("A.*", "outside count", "A.*", None),
    ("sum(A.sym)", "needs a number, not string", "sum(A.sym)", None),
    ("sum(A.big)", "not decimal", "sum(A.big)", "DOUBLE"),
    ("max(A.list)", "order, not list", "max(A.list)", None),
    ("count(n, a)", "takes 1 argument", "count(n, a)", None),
    ("max_by(A.n, B.n)", "mixes A and B", "B.n", None),
    ("count(*) FILTER (WHERE A.n > 1)", r"count\(\*\)", None, "count(A.*)"),
    ("sum(A.n) FILTER (WHERE n > 1)", "mixes A and all rows", "n", None),
    ("sum(A.n) FILTER (WHERE A.n)", "takes a predicate", "A.n", None),
    ("upper(sym) FILTER (WHERE flag)", "belongs to an aggregate", None, None),
    ("MATCH_NUMBER(1)", "takes no argument", "MATCH_NUMBER(1)", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "place", "hint"), MEASURE_ERRORS)
def test_what_a_measure_may_not_say(text: str, problem: str, place: str | None, hint: str | None) -> None:
    with pytest.raises(BindError, match=problem) as caught:
        measure(text)
    assert place is None or marked(caught.value) == place
    assert hint is None or (caught.value.hint is not None and hint in caught.value.hint), caught.value.hint


UNSUPPORTED = [
    ("array_agg(A.n ORDER BY A.a)", "ORDER BY inside", "array_agg(A.n ORDER BY A.a)"),
    ("sum(DISTINCT A.n ORDER BY A.a)", "ORDER BY inside", "sum(DISTINCT A.n ORDER BY A.a)"),
    ("median(A.n)", "aggregate median", "median(A.n)"),
    ("count_if(A.flag)", "aggregate count_if", "count_if(A.flag)"),
    ("LAST(A.n IGNORE NULLS)", "IGNORE NULLS", "A.n"),
    ("LAST(A.n) IGNORE NULLS", "IGNORE NULLS", "LAST(A.n)"),
    ("array_agg(upper(CLASSIFIER()))", "CLASSIFIER.. computed with", "CLASSIFIER()"),
    ("count(DISTINCT upper(CLASSIFIER()))", "CLASSIFIER.. computed with", "CLASSIFIER()"),
    ("sum(A.n * MATCH_NUMBER())", "MATCH_NUMBER.. computed with", None),
    ("(SELECT max(z) FROM u WHERE u.i = A.n)", "depends on rows", "A.n"),
    (":p", "parameter", None),
    ("max_by(DISTINCT A.n, A.a)", "DISTINCT", None),
    ("LAST(sha2(A.n, 256))", "function sha2 needs Spark", "sha2(A.n, 256)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "place"), UNSUPPORTED)
def test_what_is_not_supported_says_so(text: str, problem: str, place: str | None) -> None:
    with pytest.raises(UnsupportedError, match=problem) as caught:
        measure(text)
    assert caught.value.span is not None
    assert place is None or marked(caught.value) == place


CLAUSE_ERRORS = [
    (f"PATTERN (A) {D}", "no columns", None),
    (f"MEASURES 1 AS m PATTERN (A) {D}, Q AS true", "'Q' of DEFINE", "Q"),
    (f"MEASURES 1 AS m PATTERN (A) {D}, a AS true", "'a' twice", "a"),
    (f"MEASURES 1 AS m PATTERN (A) SUBSET A = (A) {D}", "name of a variable", "A"),
    (f"MEASURES 1 AS m PATTERN (A) SUBSET U = (A), u = (A) {D}", "name of another", "u"),
    (f"MEASURES 1 AS m PATTERN (A) SUBSET U = (Q) {D}", "'Q' of SUBSET", "Q"),
    (f"MEASURES 1 AS m PATTERN (A) SUBSET U = (A, a) {D}", "'a' twice", "a"),
    (f"MEASURES 1 AS m PATTERN (A) SUBSET U = (A), V = (U) {D}", "'U' of SUBSET", "U"),
    ("MEASURES 1 AS m PATTERN (A) SUBSET U = (A) DEFINE U AS true", "'U' of DEFINE", "U"),
    (f"MEASURES 1 AS m, 2 AS M PATTERN (A) {D}", "two measures", "M"),
    (f"ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A {{- A -}}) {D}", "UNMATCHED",
     "ALL ROWS PER MATCH WITH UNMATCHED ROWS"),
    (f"MEASURES 1 AS m AFTER MATCH SKIP TO Q PATTERN (A) {D}", "SKIP TO 'Q'", "Q"),
    ("MEASURES 1 AS m PATTERN (A) DEFINE A AS A.n + 1", "kind integer", "A.n + 1"),
    ("MEASURES 1 AS m PATTERN (A) DEFINE A AS FINAL LAST(A.n) > 1", "FINAL in DEFINE", "LAST(A.n)"),
    ("MEASURES 1 AS m PATTERN (A) DEFINE A AS FINAL sum(A.n) > 1", "FINAL in DEFINE", "sum(A.n)"),
    ("MEASURES 1 AS m PATTERN (A) DEFINE A AS MATCH_STATUS() = 'match'", "MATCH_STATUS", None),
    (f"PARTITION BY count(*) PATTERN (A) {D}", "one row", "count(*)"),
    (f"ORDER BY PREV(n) ALL ROWS PER MATCH PATTERN (A) {D}", "one row", "PREV(n)"),
    (f"PARTITION BY B.n PATTERN (A B) {D}", "unknown column", "B"),
    (f"ORDER BY ts MEASURES 1 AS m PATTERN (A) WITHIN 5 {D}", "a duration", "5"),
    (f"ORDER BY n MEASURES 1 AS m PATTERN (A) WITHIN 5 minutes {D}", "a number", "5 minutes"),
    (f"ORDER BY ts DESC MEASURES 1 AS m PATTERN (A) WITHIN 5 minutes {D}", "ascending", "5 minutes"),
    (f"MEASURES 1 AS m PATTERN (A) WITHIN 5 minutes {D}", "first column of ORDER BY", "5 minutes"),
    (f"ORDER BY sym MEASURES 1 AS m PATTERN (A) WITHIN 5 {D}", "first column of ORDER BY", "5"),
    (f"ORDER BY ts MEASURES 1 AS m PATTERN (A) WITHIN INTERVAL '1' MONTH {D}", "a duration",
     "INTERVAL '1' MONTH"),
]  # fmt: skip


@pytest.mark.parametrize(("inside", "problem", "place"), CLAUSE_ERRORS)
def test_what_a_clause_may_not_say(inside: str, problem: str, place: str | None) -> None:
    with pytest.raises(BindError, match=problem) as caught:
        bind(inside)
    assert place is None or marked(caught.value) == place


STATEMENT_ERRORS = [
    (f"SELECT {MR}", ParseError, "follows no table"),
    (f"SELECT * FROM t WHERE x = 1 {MR}", ParseError, "follows no table"),
    (f"SELECT * FROM t JOIN u ON t.i = u.i {MR}", ParseError, "follows no table"),
    (f"SELECT * FROM t JOIN u USING (i) {MR}", ParseError, "follows no table"),
    ("SELECT * FROM t MATCH_RECOGNIZE PATTERN (A)", ParseError, "needs parentheses"),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A)", ParseError, "not closed"),
    (f"SELECT 'x FROM t {MR.replace(chr(39), '')}", ParseError, "string is not closed"),
    (f"SELECT 1 /* FROM t {MR}", ParseError, "comment is not closed"),
    (f"SELECT * FROM a, LATERAL (SELECT * FROM b) {MR}", UnsupportedError, "LATERAL"),
    (f"WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT * FROM c {MR}) FROM c", BindError, "recursive"),
    (f"FROM t MATCH_RECOGNIZE (MEASURES (SELECT 1 FROM u {MR}) AS m PATTERN (A))", BindError, "inside"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "problem"), STATEMENT_ERRORS)
def test_where_a_clause_may_not_stand(text: str, kind: type[CeriseError], problem: str) -> None:
    with pytest.raises(kind, match=problem) as caught:
        parse_statement(text)
    assert caught.value.span is not None
    assert caught.value.text == text


def test_two_columns_of_one_name() -> None:
    with pytest.raises(BindError, match="two columns of the input are called 'x'"):
        bind("ALL ROWS PER MATCH PATTERN ()", columns=pa.schema([("x", pa.int64()), ("x", pa.int64())]))


def test_a_subquery_cannot_read_a_cte_of_its_statement() -> None:
    clause = "MATCH_RECOGNIZE (MEASURES (SELECT z FROM {}) AS m PATTERN ())"
    text = f"WITH c AS (SELECT 1 AS z) SELECT * FROM t {clause}"
    with pytest.raises(UnsupportedError, match="CTE 'c'"):
        bind_rows(parse_statement(text.format("c")).clauses[0], COLUMNS)
    assert (
        bind_rows(parse_statement(text.format("d")).clauses[0], COLUMNS).measures[0].sql
        == "(SELECT z FROM d)"
    )


@pytest.mark.parametrize(
    ("text", "kind", "problem", "place"),
    [
        ("concat(A.sym, sym) = 'x'", UnsupportedError, "one row at a time", "concat(A.sym, sym)"),
        ("reverse(LAST(A.sym)) = 'x'", UnsupportedError, "one row at a time", "reverse(LAST(A.sym))"),
        ("reverse(CLASSIFIER()) = 'x'", UnsupportedError, "one row at a time", "reverse(CLASSIFIER())"),
        ("A.big > big", BindError, "'big' of type decimal.* cannot be computed with", "A.big > big"),
        ("A.sym > n", BindError, "cannot compare", "A.sym > n"),
    ],
)
def test_spark_cannot_help_with_several_rows(
    text: str, kind: type[CeriseError], problem: str, place: str
) -> None:
    with pytest.raises(kind, match=problem) as caught:
        condition(text, Spark(sym=pa.string()))
    assert marked(caught.value) == place


@pytest.mark.parametrize(
    "text", ["sym RLIKE 'x'", "foo(n) > 1", "list[0] = 1", "big > 1", "sym > 1", "n > (SELECT 1)"]
)
def test_without_spark_there_is_no_help(text: str) -> None:
    with pytest.raises((BindError, UnsupportedError)) as caught:
        condition(text)
    assert caught.value.span is not None
    assert caught.value.hint is not None


def test_an_error_points_into_the_whole_statement() -> None:
    text = (
        "SELECT *\nFROM t\nMATCH_RECOGNIZE (\n  MEASURES A.prise AS p\n  PATTERN (A)\n  DEFINE A AS true\n)"
    )
    with pytest.raises(BindError) as caught:
        bind_rows(parse_statement(text).clauses[0], COLUMNS)
    assert str(caught.value) == (
        "unknown column 'prise'\n  line 4, column 14\n  |   MEASURES A.prise AS p\n  |              ^^^^^\n"
        "hint: did you mean 'price'?"
    )


def test_deep_expressions_are_refused_and_long_ones_are_not() -> None:
    measure(" + ".join(["A.n"] * 200))
    with pytest.raises(CeriseError, match="deeply"):
        measure("(" * 5000 + "A.n" + ")" * 5000)
