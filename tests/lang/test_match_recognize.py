"""SQL text with MATCH_RECOGNIZE: what is cut out, and what the parts of a clause mean."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cerise.errors import ParseError, Span
from cerise.lang.match_recognize import mentions_match_recognize, parse_statement
from cerise.lang.match_recognize.pattern import parse_pattern
from cerise.pattern.row_pattern import (
    Alternation,
    Anchor,
    Concat,
    Excluded,
    Extent,
    Label,
    MatchNumber,
    Nav,
    Order,
    Permute,
    Quantified,
    RowPattern,
    Show,
    Skip,
    SkipTo,
)
from tests.lang.clauses import A, B, bind, measure

# ---- the pattern


def many(item: RowPattern, low: int, high: int | None = None, *, reluctant: bool = False) -> Quantified:
    return Quantified(item, low, high, reluctant)


a, b, c = Label("A"), Label("B"), Label("C")
PATTERNS: list[tuple[str, RowPattern]] = [
    ("a", a),
    ("A B", Concat((a, b))),
    ("A B | C", Alternation((Concat((a, b)), c))),
    ("A (B | C)", Concat((a, Alternation((b, c))))),
    ("A* B+ C?", Concat((many(a, 0), many(b, 1), many(c, 0, 1)))),
    ("A*? B+?", Concat((many(a, 0, reluctant=True), many(b, 1, reluctant=True)))),
    ("C??", many(c, 0, 1, reluctant=True)),
    ("A{2}", many(a, 2, 2)),
    ("A{2,}", many(a, 2)),
    ("A{,3}", many(a, 0, 3)),
    ("A{2,3}?", many(a, 2, 3, reluctant=True)),
    ("A { , }", many(a, 0)),
    ("(A B)+", many(Concat((a, b)), 1)),
    ("PERMUTE(A, B C, C*)", Permute((a, Concat((b, c)), many(c, 0)))),
    ("permute", Label("PERMUTE")),
    ("{- A+ -} B", Concat((Excluded(many(a, 1)), b))),
    ("^ A $", Concat((Anchor(True), a, Anchor(False)))),
    ("^*", many(Anchor(True), 0)),
    ("", Concat(())),
    ("() A", Concat((Concat(()), a))),
    ("(|A)?", many(Alternation((Concat(()), a)), 0, 1)),
    ('"a" `b c` "x""y"', Concat((Label("a"), Label("b c"), Label('x"y')))),
    ("A -- one\n /* two */ B", Concat((a, b))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PATTERNS)
def test_a_pattern(text: str, expected: RowPattern) -> None:
    assert parse_pattern(f"…{text}…", Span(1, 1 + len(text))) == expected


def test_a_label_knows_its_place() -> None:
    bound = bind("ALL ROWS PER MATCH PATTERN (A Bee) DEFINE A AS true")
    (label,) = [each for each in bound.pattern.items if each.name == "BEE"]  # type: ignore[union-attr]
    assert bound.text is not None
    assert bound.text[label.span.start : label.span.end] == "Bee"


# ---- statements

MR = "MATCH_RECOGNIZE (MEASURES A.x AS y PATTERN (A{1,2} $) DEFINE A AS x > ')')"
STATEMENTS = [
    (f"SELECT * FROM t {MR}", ["SELECT * FROM t"], "SELECT * FROM v0"),
    (f"FROM s.`t u` {MR} AS m WHERE y;", ["SELECT * FROM s.`t u`"], "FROM v0 AS m WHERE y;"),
    (f"FROM t x {MR} SELECT y", ["SELECT * FROM t x"], "FROM v0 SELECT y"),
    (f"FROM (VALUES (1)) AS v(a) {MR} m", ["SELECT * FROM (VALUES (1)) AS v(a)"], "FROM v0 m"),
    (f"SELECT * FROM t VERSION AS OF 3 {MR}", ["SELECT * FROM t VERSION AS OF 3"], "SELECT * FROM v0"),
    (
        f"SELECT * FROM a {MR} m, b, (SELECT 1) {MR} n JOIN c {MR} ON true",
        ["SELECT * FROM a", "SELECT * FROM (SELECT 1)", "SELECT * FROM c"],
        "SELECT * FROM v0 m, b, v1 n JOIN v2 ON true",
    ),
    (f"SELECT * FROM t {MR} {MR} z", ["SELECT * FROM t", "SELECT * FROM v0"], "SELECT * FROM v1 z"),
    (
        f"SELECT * FROM (SELECT * FROM t {MR} WHERE y > 1) s {MR}",
        ["SELECT * FROM t", "SELECT * FROM (SELECT * FROM v0 WHERE y > 1) s"],
        "SELECT * FROM v1",
    ),
    (
        f"WITH c AS (SELECT 1), d (p) AS (SELECT * FROM c {MR}) SELECT * FROM d {MR}",
        [
            "WITH c AS (SELECT 1) SELECT * FROM c",
            "WITH c AS (SELECT 1), d (p) AS (SELECT * FROM v0) SELECT * FROM d",
        ],
        "WITH c AS (SELECT 1), d (p) AS (SELECT * FROM v0) SELECT * FROM v1",
    ),
    (
        f"WITH c AS (SELECT 1) SELECT * FROM (WITH c AS (FROM c) SELECT * FROM c {MR}) JOIN c {MR}",
        [
            "WITH c AS (SELECT 1) SELECT * FROM (WITH c AS (FROM c) SELECT * FROM c)",
            "WITH c AS (SELECT 1) SELECT * FROM c",
        ],
        "WITH c AS (SELECT 1) SELECT * FROM (WITH c AS (FROM c) SELECT * FROM v0) JOIN v1",
    ),
    (
        f"SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c) s JOIN c {MR}",  # another c
        ["SELECT * FROM c"],
        "SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c) s JOIN v0",
    ),
    (
        f"WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT * FROM c) SELECT * FROM c {MR}",
        ["WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT * FROM c) SELECT * FROM c"],
        "WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT * FROM c) SELECT * FROM v0",
    ),
    (f"INSERT INTO o SELECT * FROM t {MR}", ["SELECT * FROM t"], "INSERT INTO o SELECT * FROM v0"),
    (
        f"CREATE TABLE o AS WITH c AS (SELECT 1) SELECT * FROM c {MR}",
        ["WITH c AS (SELECT 1) SELECT * FROM c"],
        "CREATE TABLE o AS WITH c AS (SELECT 1) SELECT * FROM v0",
    ),
    (f"MERGE INTO o USING t {MR} AS s ON true", ["SELECT * FROM t"], "MERGE INTO o USING v0 AS s ON true"),
    (
        f"SELECT 'x MATCH_RECOGNIZE (', r'\\' /* /* ' */ MATCH_RECOGNIZE( */ FROM t {MR} -- MATCH_RECOGNIZE(",
        ["SELECT * FROM t"],
        "SELECT 'x MATCH_RECOGNIZE (', r'\\' /* /* ' */ MATCH_RECOGNIZE( */ FROM v0 -- MATCH_RECOGNIZE(",
    ),
    ("SELECT 1", [], "SELECT 1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "inputs", "rest"), STATEMENTS)
def test_clauses_are_cut_out(text: str, inputs: list[str], rest: str) -> None:
    statement = parse_statement(text)
    names: dict[int, str] = {}
    for clause, expected in zip(statement.clauses, inputs, strict=True):
        assert statement.input(clause.index, names).sql == expected
        names[clause.index] = f"v{clause.index}"
    assert statement.rest(names).sql == rest
    assert mentions_match_recognize(text) is bool(inputs)


def test_places_lead_back_to_the_text() -> None:
    text = f"WITH c AS (SELECT 1 AS x) SELECT bad FROM c {MR} AS m WHERE worse > 1"
    statement = parse_statement(text)
    rest = statement.rest({0: "view"})
    for word in ("bad", "worse", "m WHERE"):
        assert rest.place(rest.sql.index(word)) == text.index(word)
    assert rest.place(rest.sql.index("view") + 2) == text.index("c MATCH")
    cut = statement.input(0, {})
    assert cut.place(cut.sql.index("1 AS x")) == text.index("1 AS x")
    assert cut.place(cut.sql.rindex("c")) == text.index("c MATCH")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'MATCH_RECOGNIZE (' FROM t",
        "SELECT `MATCH_RECOGNIZE` (1) FROM t -- MATCH_RECOGNIZE (",
        'SELECT "MATCH_RECOGNIZE (" /* MATCH_RECOGNIZE ( */',
        "SELECT match_recognize, t.match_recognize FROM t",
        "SELECT db.match_recognize(1)",
        "SELECT 'it''s \\' MATCH_RECOGNIZE ('",
    ],
)
def test_the_word_alone_is_no_clause(text: str) -> None:
    assert not mentions_match_recognize(text)
    assert parse_statement(text).rest({}).sql == text


# ---- the parts of a clause


def test_a_whole_clause() -> None:
    bound = bind(
        """PARTITION BY sym ORDER BY ts, price DESC, n DESC NULLS FIRST, a NULLS LAST
        MEASURES A.price AS start, MATCH_NUMBER() AS `match no`
        ALL ROWS PER MATCH OMIT EMPTY MATCHES
        AFTER MATCH SKIP TO FIRST u
        PATTERN (A B+) WITHIN INTERVAL '15' MINUTE EMIT TIMEOUTS
        SUBSET u = (A, B)
        DEFINE B AS price < PREV(price)"""
    )
    assert bound.partition == ("sym",)
    assert bound.order == (
        Order("ts"), Order("price", True, False), Order("n", True, True), Order("a", False, False),
    )  # fmt: skip
    assert bound.show is Show.OMIT_EMPTY
    assert bound.skip == Skip(SkipTo.FIRST, A | B, "U")
    assert bound.within == Extent(900_000_000, timeouts=True)
    assert [each.label for each in bound.conditions] == ["B"]
    assert [(each.name, each.sql, each.atoms) for each in bound.measures] == [
        ("start", "`_a2`", ("_a2",)), ("match no", "`_a3`", ("_a3",)),
    ]  # fmt: skip
    assert bound.atoms == {
        "_a0": Nav("price"), "_a1": Nav("price", shift=-1), "_a2": Nav("price", A), "_a3": MatchNumber(),
    }  # fmt: skip
    assert bound.labels == ("A", "B")


@pytest.mark.parametrize(
    ("rows", "show"),
    [
        ("", Show.ONE),
        ("ONE ROW PER MATCH", Show.ONE),
        ("all rows per match", Show.ALL),
        ("ALL ROWS PER MATCH SHOW EMPTY MATCHES", Show.ALL),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", Show.OMIT_EMPTY),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS", Show.UNMATCHED),
    ],
)
def test_rows_per_match(rows: str, show: Show) -> None:
    assert measure("1", rows=rows).show is show


@pytest.mark.parametrize(
    ("text", "skip"),
    [
        ("", Skip(SkipTo.PAST_LAST)),
        ("AFTER MATCH SKIP PAST LAST ROW", Skip(SkipTo.PAST_LAST)),
        ("AFTER MATCH SKIP TO NEXT ROW", Skip(SkipTo.NEXT)),
        ("AFTER MATCH SKIP TO FIRST A", Skip(SkipTo.FIRST, A, "A")),
        ("AFTER MATCH SKIP TO LAST b", Skip(SkipTo.LAST, B, "B")),
        ("AFTER MATCH SKIP TO B", Skip(SkipTo.LAST, B, "B")),
        ("AFTER MATCH SKIP TO LAST", Skip(SkipTo.LAST, frozenset({"LAST"}), "LAST")),
    ],
)
def test_skip(text: str, skip: Skip) -> None:
    assert bind(f"MEASURES 1 AS m {text} PATTERN (A B LAST) DEFINE A AS true").skip == skip


def test_the_dialect_of_flink() -> None:
    text = "ORDER BY n MEASURES 1 AS m {} PATTERN (A) WITHIN 5 DEFINE A AS true"
    assert bind(text.format(""), dialect="flink").skip == Skip(SkipTo.NEXT)
    assert bind(text.format("AFTER MATCH SKIP PAST LAST ROW"), dialect="flink").skip == Skip()
    assert bind(text.format(""), dialect="flink").within == Extent(5, exclusive=True)
    with pytest.raises(ParseError, match="unknown dialect"):
        parse_statement("SELECT 1", "oracle")


@pytest.mark.parametrize(
    ("order", "text", "size"),
    [
        ("n", "10", 10),
        ("ts", "INTERVAL '15' MINUTE", 900_000_000),
        ("at", "INTERVAL 15 MINUTES", 900_000_000),
        ("ts", "15 minutes", 900_000_000),
        ("ts", "1.5 hours", 5_400_000_000),
        ("ts", "INTERVAL '2 days'", 172_800_000_000),
        ("ts", "INTERVAL 1 HOUR 30 MINUTES", 5_400_000_000),
        ("ts", "INTERVAL '1 02:03:04.5' DAY TO SECOND", 93_784_500_000),
        ("ts", "INTERVAL '10:30' HOUR TO MINUTE", 37_800_000_000),
    ],
)
def test_within(order: str, text: str, size: int) -> None:
    bound = bind(f"ORDER BY {order} MEASURES 1 AS m PATTERN (A) WITHIN {text} DEFINE A AS true")
    assert bound.within == Extent(size)


def test_columns_may_be_called_as_clauses_are() -> None:
    words = ["pattern", "measures", "define", "subset", "final", "running", "first"]
    columns = pa.schema([(word, pa.int64()) for word in words])
    bound = bind(
        """PARTITION BY define, measures ORDER BY subset DESC, pattern
        MEASURES A.measures + define AS subset, final AS final, A.first AS define, running + 1 AS r
        PATTERN (A) DEFINE A AS define > 1 AND final IN (1, 2) AND subset = measures""",
        columns=columns,
    )
    assert bound.partition == ("define", "measures")
    assert [each.column for each in bound.order] == ["subset", "pattern"]
    assert [each.name for each in bound.measures] == ["subset", "final", "define", "r"]


OUTPUTS = [
    ("PARTITION BY sym ORDER BY ts MEASURES 1 AS m", "sym *m"),
    ("ORDER BY ts MEASURES 1 AS m, 2 AS k", "*m *k"),
    ("PARTITION BY lower(sym), n", "n"),
    (
        "PARTITION BY n ORDER BY ts MEASURES 1 AS m ALL ROWS PER MATCH",
        "n ts *m sym at price flag point big list a",
    ),
    ("ORDER BY ts, ts, n + 1 ALL ROWS PER MATCH", "ts ts sym at n price flag point big list a"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), OUTPUTS)
def test_the_columns_of_the_result(text: str, expected: str) -> None:
    output = bind(f"{text} PATTERN (A) DEFINE A AS true").output
    assert " ".join(("*" if each.measure else "") + each.name for each in output) == expected
