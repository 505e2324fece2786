"""Random texts of both languages, right and wrong, and random tables: what strangers may give to a verb.

Texts are derived from the grammars by chance, or written after a plan that makes sense; then they are broken.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import pyarrow as pa
from lark import Lark
from lark.grammar import NonTerminal, Rule

DEEP = 40  # symbols on the way down, after which the shortest way out is taken
BIG = ("9223372036854775807", "9223372036854775808", "99999999999999999999", "9" * 50, "9" * 5000)
WORDS = {
    "NAME": ("a", "b", "c", "A", "B", "ts", "kind", "x", "y", "s", "n", "count", "sum", "lower", "i", "é"),
    "NUMBER": ("0", "1", "2", "3", "10", "1.5", ".5", "1e3", "1e999", "0.1e-400", "007", *BIG),
    "STRING": ("'A'", "''", "'it''s'", "'%'", "'\\'", "'a_'", "'2024-01-01'", "'é'"),
    "QUOTED": ('"A"', '"a"', '"x"', '"two words"', '""', '""""', "`x`", "``"),
    "PARAM": (":p", ":q", ":r"),
    "INDEX": ("[]", "[1]", "[i]", "[i-1]", "[..i-1]", "[b.len]", "[a.LEN]", "[0]", "[ 2 ]", "[999999999999]"),
    "UNIT": ("us", "ms", "seconds", "minutes", "h", "days", "weeks", "months", "years"),
    "HYPHENATED": ("skip-till-next-match", "skip_till_any_match", "strict", "ALL", "NON_OVERLAPPING", "all"),
    "STRATEGY": ("skip_till_next_match", "skip-till-any-match", "strict_contiguity", "partition_contiguity"),
    "COMPARE": ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "≤", "≥", "≠"),
    "PERCENT": ("80%", "1.5 %"),
    "_AND": ("AND", "∧", "&&"), "_OR": ("OR", "||"), "_NOT": ("NOT", "¬"), "_NEG": ("~", "!", "NOT"),
    "_KLEENE": ("Kleene", "KL"), "_EVENTS": ("events", "event"), "_IN_ALL": ("IN ALL",),
    "_PERMUTE": ("PERMUTE",),
    "_EXCLUDE": ("{-",), "_INCLUDE": ("-}",), "RELUCTANT": ("?",),
}  # fmt: skip
SCRAPS = (
    "(", ")", "[", "]", "{", "}", ",", ";", ".", "'", '"', "`", "--", "/*", "*/", "\\", "\0", "\ud800", "é",
    "🦊", "\t",
    "\n", "NULL", "SELECT", "ELSE", "CASE", "WHEN", "END", "AS", "BY", "INTERVAL", "PATTERN", "DEFINE",
    "WITHIN", "${x}",
    "0x1F", "1_000", "::", "->", "%", "*", "+", "?", "||", "~", "NOT", "IN", "a.b.c.d", "FIRST(",
    "DISTINCT", *BIG,
)  # fmt: skip


class Texts:
    """A source of texts and tables that one seed determines."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def query(self) -> str:
        """Return a query in one of the languages; about half of them are as they were written."""
        write = self.rng.choice((self._sase,) * 4 + (self._rows,) * 3 + (self._derived_sase,))
        text = write()
        for _ in range(self.rng.choice((0, 0, 0, 0, 0, 1, 1, 3))):
            text = self._broken(text)
        return text

    def params(self, query: str) -> dict[str, Any] | None:
        """Return values for the parameters of a query."""
        given = re.findall(r":([pqr])\b", query)
        values = (
            1, 2**63, -1, 10**5000, 1.5, float("nan"), float("inf"), "A", "\ud800", None, True,
            dt.date(2024, 1, 1),
            dt.datetime(2024, 1, 1), dt.timedelta.max, dt.timedelta(minutes=1), [1], {"x": 1}, b"x",
            decimal.Decimal("1.5"), object(),
        )  # fmt: skip
        names = [name for name in "pqr" if name in given or self.rng.random() < 0.02]
        return {name: self.rng.choice(values) for name in names} or None

    # ---- SASE+

    def _derived_sase(self) -> str:
        return derived(grammar("sase/sase.lark", "script"), self.rng)

    def _sase(self) -> str:
        names = ["a", "b", "c", "d"][: self.rng.randint(1, 4)]
        parts = [f"PATTERN {self._structure(names)}"]
        if self.rng.random() < 0.7:
            parts.append(
                f"WHERE {' AND '.join(self._predicate(names) for _ in range(self.rng.randint(1, 3)))}"
            )
        window = self._often(("2", "5", "3 events"), ("5 minutes", ":p", *BIG))
        for clause in (
            f"USE {self.rng.choice(WORDS['STRATEGY'])}", f"WITHIN {window}",
            f"SLIDE {self._often(('1', '2'), ('2 events', '1 minute', '0'))}",
            f"PARTITION BY {self._often(('kind', 's', 'x'), ('no',))}",
            f"OUTPUT {self.rng.choice(('ALL', 'NON_OVERLAPPING'))}",
            f"LIMIT {self._often(('1', '3'), ('0', *BIG))} PER EVENT", f"RETURN {self._returned(names)}",
            "INTO R",
        ):  # fmt: skip
            parts += [clause] if self.rng.random() < (0.03 if clause.startswith("SLIDE") else 0.25) else []
        return " ".join(parts)

    def _structure(self, names: Sequence[str]) -> str:
        items = [self._item(name) for name in names]
        if len(items) > 2 and self.rng.random() < 0.3:
            items = [items[0], f"{self.rng.choice(('SEQ', 'AND', 'OR'))}({', '.join(items[1:])})"]
        kind = self.rng.choice(("SEQ", "SEQ", "SEQ", "AND", "OR", ""))
        return f"{kind}({', '.join(items)})"

    def _item(self, name: str) -> str:
        type_ = self.rng.choice(("A ", "B ", "C ", '"A" ', "", "", ""))
        quantifier = self._often(
            ("", "", "", "", "+", "*", "?", "{2}", "{1,2}"), ("{,2}", "{0,1}", "{99999999999}")
        )
        negation = self.rng.choice(("", "", "", "~")) if not quantifier else self._often(("",), ("NOT ",))
        if type_:
            return f"{negation}{type_.strip()}{quantifier} {name}"
        return f"{negation}{name}{quantifier}"

    def _often(self, usual: Sequence[str], odd: Sequence[str]) -> str:
        """Return one of the usual texts, seldom one of the odd ones."""
        return self.rng.choice(odd if self.rng.random() < 0.04 else usual)

    def _value(self, names: Sequence[str], depth: int = 0) -> str:
        pick = self.rng.choice
        name, column = pick(names), self._often(("x", "x", "y", "y", "ts"), ("kind", "s", "o", "o.f", "no"))
        usual = (f"{name}.{column}", f"{name}.{column}", pick(("0", "1", "2", "1.5")), f"{name}.x")
        odd = (
            f"{name}[i].{column}", f"{name}[i-1].{column}", pick(("'A'", "'B'")),
            f"{name}[1].{column}", f"FIRST({name}.{column})", f"LAST({name}.{column})",
            f"NEXT({name}.{column})",
            pick(WORDS["NUMBER"]), pick(WORDS["STRING"]), ":p", "NULL", "TRUE", "5 minutes", f"count({name})",
            f"TIMESTAMP {pick(WORDS['STRING'])}", "DATE '2024-01-01'", f"{name}.LEN",
            f"sum({name}[..i-1].{column})",
            f"{pick(('sum', 'avg', 'min', 'max', 'stddev', 'count'))}({name}.{column})",
        )  # fmt: skip
        simple = odd if self.rng.random() < 0.25 else usual
        if depth > 2 or self.rng.random() < 0.75:
            return pick(simple)
        left, right = (self._value(names, depth + 1) for _ in range(2))
        function = self._often(
            ("abs", "floor", "least", "pow", "ln", "exp"), ("lower", "length", "if", "coalesce", "round")
        )
        return pick((
            f"{left} {pick('+-*/%')} {right}", f"({left})", f"-{left}", f"{function}({left}, {right})",
            f"{function}({left})",
            f"CAST({left} AS {pick(('BIGINT', 'DOUBLE', 'STRING', 'BOOLEAN', 'DATE'))})",
        ))  # fmt: skip

    def _predicate(self, names: Sequence[str]) -> str:
        pick = self.rng.choice
        left, right = self._value(names), self._value(names)
        return pick((
            f"{left} {pick(WORDS['COMPARE'])} {right}", f"{left} IS NULL", f"{left} IN ({right}, 1, 2)",
            f"{left} LIKE {pick(WORDS['STRING'])}", f"NOT ({left} = {right})", f"({left} > 1 OR {right} < 2)",
            f"{left} BETWEEN 0 AND {right}", f"[{pick(('s', 'x', 'kind'))}]", f"0 <= {left} < 3",
        ))  # fmt: skip

    def _returned(self, names: Sequence[str]) -> str:
        pick = self.rng.choice
        value = self._value(names)
        return pick((
            "*", "COUNT(*)", f"{value} AS v", f"{pick(names)}", f"{pick(names)}.x", f"R({value} AS v)",
            f"COUNT(*) AS n, SUM({value}) AS v PER {pick(('EVENT', 'PARTITION', 'WINDOW'))}",
            f"MIN({value}) AS v IN ALL",
        ))  # fmt: skip

    # ---- row patterns

    def _rows(self) -> str:
        pick, chance = self.rng.choice, self.rng.random
        plain = (
            "A B",
            "A B+ C?",
            "A | B",
            "(A B)*",
            "^ A $",
            "PERMUTE(A, B)",
            "A{2,3}? B",
            "A {- B -} C",
            "A+",
        )
        pattern = (
            derived(grammar("match_recognize/pattern.lark", "start"), self.rng)
            if chance() < 0.15
            else pick(plain)
        )
        defined = [name for name in "AB" if re.search(rf"\b{name}\b", pattern) or chance() < 0.02]
        skips = ("", "", "", "TO NEXT ROW", "TO LAST B", "TO FIRST A")
        shows = ("", "", "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS")
        order = self._often(("ts", "ts", "ts, x", "s DESC, ts", "ts NULLS LAST"), ("no", self._row_value()))
        windows = ("WITHIN INTERVAL '5' MINUTE", "WITHIN 3 EMIT TIMEOUTS", f"WITHIN {pick(BIG)}")
        skip = pick(skips)
        parts = [
            f"PARTITION BY {self._often(('s', 'kind'), (self._row_value(),))}" if chance() < 0.3 else "",
            f"ORDER BY {order}" if chance() < 0.95 else "",
            f"MEASURES {self._row_value()} AS m, {self._often((self._row_value(), '1'), ('',))} AS n",
            pick(shows), f"AFTER MATCH SKIP {skip}" if skip else "", f"PATTERN ({pattern})",
            self._often(("", "", "", "WITHIN 3"), windows),
            "SUBSET U = (A, B)" if defined == ["A", "B"] and chance() < 0.3 else "",
            f"DEFINE {', '.join(f'{name} AS {self._condition()}' for name in defined)}" if defined else "",
        ]  # fmt: skip
        return f"SELECT * FROM t MATCH_RECOGNIZE ({' '.join(parts)})"

    def _row_value(self, depth: int = 0) -> str:
        pick = self.rng.choice
        column = self._often(
            ("x", "y", "x", "y", "A.x", "A.y"), ("B.y", "U.x", "kind", "s", "ts", "o", "o.f", "no")
        )
        usual = (
            column, column, f"PREV({column})", f"FIRST({column})", f"LAST({column}, 1)",
            pick(("0", "1", "2.5")),
            f"{pick(('SUM', 'AVG', 'MIN', 'MAX', 'STDDEV', 'COUNT'))}({column})", "MATCH_NUMBER()",
            "CLASSIFIER()",
        )  # fmt: skip
        odd = (
            f"NEXT({column}, 2)", f"PREV(FIRST({column}, 1), 2)", f"FINAL LAST({column})",
            f"RUNNING SUM({column})",
            f"COUNT(DISTINCT {column})", f"ARRAY_AGG({column})", "COUNT(*)", "COUNT(A.*)", "CLASSIFIER(A)",
            "NULL",
            "MATCH_STATUS()", pick(WORDS["NUMBER"]), pick(WORDS["STRING"]), "INTERVAL '1' DAY",
            "DATE '2024-01-01'",
            f"FIRST({column}, {pick(BIG)})", f"PREV({column}, {pick(BIG)})", f"max_by({column}, ts)",
            "(SELECT 1)",
            "CURRENT_DATE", f"SUM({column}) FILTER (WHERE x > 1)", f"{column} || 'x'", "ELSE", "TRUE",
            f"{column} OVER (ORDER BY ts)",
        )  # fmt: skip
        simple = odd if self.rng.random() < 0.15 else usual
        if depth > 2 or self.rng.random() < 0.8:
            return pick(simple)
        left, right = (self._row_value(depth + 1) for _ in range(2))
        function = self._often(
            ("abs", "floor", "coalesce", "nullif", "sqrt"), ("if", "lower", "concat", "nosuch", "mod")
        )
        return pick((
            f"{left} {pick('+-*/%')} {right}", f"({left})", f"-{left}", f"{function}({left}, {right})",
            f"CASE WHEN {left} > 1 THEN {right} ELSE 1 END", f"{function}({left})",
            f"CAST({left} AS {pick(('INT', 'DOUBLE', 'STRING', 'DATE'))})",
        ))  # fmt: skip

    def _condition(self) -> str:
        pick = self.rng.choice
        left, right = self._row_value(), self._row_value()
        return pick((
            f"{left} {pick(('=', '<', '>', '<=', '>=', '!=', '<=>'))} {right}", f"{left} IS NULL", "TRUE",
            "x > 1",
            f"{left} IN ({right}, 1)", f"{left} LIKE {pick(WORDS['STRING'])}", f"NOT {left} = {right}",
            "y < PREV(y)",
            f"{left} BETWEEN 0 AND {right}", f"{left} > 1 OR {right} < 2",
            f"{left} IS NOT DISTINCT FROM {right}", left,
        ))  # fmt: skip

    # ---- mistakes

    def _broken(self, text: str) -> str:
        rng, at = self.rng, self.rng.randint(0, len(text))
        words = text.split(" ")
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(8):
            case 0:
                return text[:at] + rng.choice(SCRAPS) + text[at:]
            case 1:
                return text[:at] + text[at + rng.randint(1, 4) :]
            case 2:
                return text[:at]
            case 3:
                words[i], words[j] = words[j], words[i]
            case 4:
                words.insert(i, words[j])
            case 5:
                words[i] = rng.choice(SCRAPS)
            case 6:
                del words[i]
            case _:
                words[i] = words[i].swapcase()
        return " ".join(words)

    # ---- tables

    def table(self) -> Any:
        """Return events: most have the columns that queries speak of, of any type."""
        rng, rows = self.rng, self.rng.choice((0, 1, 2, 5, 5, 9))
        columns: dict[str, Any] = {"ts": self._times(rows), "kind": self._kinds(rows)}
        for name in ("x", "y", "s", "o"):
            if rng.random() < 0.98:
                columns[name] = rng.choice(VALUES if rng.random() < 0.2 else VALUES[:6])(rng, rows)
        if rng.random() < 0.2:
            columns[rng.choice(("", "a b", "é", "`", "TS", "match_id", "_a0", "${x}"))] = pa.array(
                [1] * rows, pa.int64()
            )
        table = pa.table(columns)
        if rows > 1 and rng.random() < 0.2:
            table = pa.concat_tables([table.slice(0, 1), table.slice(1)])
        if rng.random() < 0.02:
            table = pa.Table.from_arrays([*table.columns, table.column(0)], [*table.column_names, "x"])
        return table

    def _times(self, rows: int) -> pa.Array:
        numbers = sorted(self.rng.randint(0, 6) for _ in range(rows))
        if self.rng.random() < 0.8:
            return pa.array(numbers, pa.int64())
        if self.rng.random() < 0.7:
            minutes = pa.array([each * 60_000_000 for each in numbers], pa.int64())
            return minutes.cast(self.rng.choice((pa.timestamp("us"), pa.timestamp("us", "UTC"))))
        return self.rng.choice(VALUES)(self.rng, rows)

    def _kinds(self, rows: int) -> pa.Array:
        if self.rng.random() < 0.95:
            return pa.array([self.rng.choice(("A", "B", "C")) for _ in range(rows)], pa.string())
        return self.rng.choice(VALUES)(self.rng, rows)


def _of(type_: pa.DataType, *values: Any) -> Callable[[random.Random, int], pa.Array]:
    return lambda rng, rows: pa.array([rng.choice((*values, *values, None)) for _ in range(rows)], type_)


VALUES: tuple[Callable[[random.Random, int], pa.Array], ...] = (
    *(_of(each, 0, 1, 2, 3) for each in (pa.int64(), pa.int64(), pa.int8(), pa.uint16())),
    *(_of(each, 0.0, 1.0, 2.0, 2.5) for each in (pa.float64(), pa.float64())),
    _of(pa.int64(), 2**63 - 1, -(2**63), 2**53 + 1, 0), _of(pa.uint64(), 2**64 - 1, 1),
    _of(pa.float32(), 0.5, 1e30),
    _of(pa.float64(), float("nan"), float("inf"), -0.0, 1e308), _of(pa.bool_(), True, False),
    _of(pa.string(), "A", "B", "", "é"), _of(pa.large_string(), "A", "1"),
    _of(pa.string_view(), "A", "long enough to be out of line"),
    _of(pa.timestamp("us"), 0, 60_000_000), _of(pa.timestamp("ns", "Asia/Tokyo"), 1, 10**18),
    _of(pa.timestamp("s"), 0, 2**40),
    _of(pa.date32(), 0, 19000), _of(pa.date64(), 0, 86_400_000), _of(pa.duration("us"), 0, 60_000_000),
    _of(pa.time32("s"), 0, 1),
    _of(pa.decimal128(10, 2), decimal.Decimal("1.50")), _of(pa.decimal128(38, 0), decimal.Decimal(10**30)),
    _of(pa.binary(), b"A", b"\xff"), _of(pa.list_(pa.int64()), [1], []),
    _of(pa.struct([("f", pa.int64())]), {"f": 1}, {"f": None}),
    _of(pa.map_(pa.string(), pa.int64()), [("k", 1)]), lambda rng, rows: pa.nulls(rows),
    lambda rng, rows: _of(pa.string(), "A", "B")(rng, rows).dictionary_encode(),
    lambda rng, rows: _of(pa.int64(), 1, 2)(rng, rows).dictionary_encode(),
)  # fmt: skip


# ---- texts derived from a grammar


@cache
def grammar(
    name: str, start: str
) -> tuple[dict[str, list[Rule]], dict[str, tuple[str, ...]], dict[str, int], str]:
    """Return the rules of a grammar by name, words for its terminals, and how deep each rule must go."""
    text = files("cerise.lang").joinpath(name).read_text(encoding="utf-8")
    lark = Lark(text, start=start, parser="lalr", maybe_placeholders=False)
    rules: dict[str, list[Rule]] = {}
    for rule in lark.rules:
        rules.setdefault(rule.origin.name, []).append(rule)
    words = {each.name: WORDS.get(each.name, (str(each.pattern.value),)) for each in lark.terminals}
    return rules, words, _shortest(rules), start


def _shortest(rules: dict[str, list[Rule]]) -> dict[str, int]:
    """Return for each rule how deep its shallowest derivation is."""
    depth: dict[str, int] = {}
    while len(depth) < len(rules):
        for name, ways in rules.items():
            known = [
                max((depth.get(each.name, 0) for each in way.expansion), default=0)
                for way in ways
                if _is_known(way, depth)
            ]
            if known and name not in depth:
                depth[name] = 1 + min(known)
    return depth


def _is_known(way: Rule, depth: dict[str, int]) -> bool:
    return all(each.name in depth for each in way.expansion if isinstance(each, NonTerminal))


def derived(
    given: tuple[dict[str, list[Rule]], dict[str, tuple[str, ...]], dict[str, int], str], rng: random.Random
) -> str:
    """Return a text that a grammar derives."""
    rules, words, depth, start = given
    waiting, text, steps = [start], [], 0
    while waiting:
        symbol = waiting.pop()
        steps += 1
        if symbol not in rules:
            text.append(rng.choice(words[symbol]))
            continue
        ways = rules[symbol]
        if steps > DEEP:
            ways = [
                min(ways, key=lambda way: max((depth.get(each.name, 0) for each in way.expansion), default=0))
            ]
        waiting.extend(each.name for each in reversed(rng.choice(ways).expansion))
    return " ".join(text)
