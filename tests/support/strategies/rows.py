"""Random MATCH_RECOGNIZE statements, as text, and tables that they bind to; a number says which."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import pyarrow as pa

from cerise.lang.match_recognize import bind_rows, parse_statement
from cerise.pattern.row_pattern import BoundRows

T = TypeVar("T")
TABLES = 12  # for each statement, as compiling it is most of the work
EPOCH = dt.datetime(2024, 1, 1)
TIMES = (pa.int64(), pa.int64(), pa.int32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32())
VALUES: dict[str, tuple[Any, ...]] = {
    "u": (1, 2, 3, None),
    "k": ("p", "q", None),
    "j": (1, 2, None),
    "x": (0, 1, 2, 3, 1, 2, 5, -1, None),
    "y": (1.0, 0.0, -0.0, 0.5, 2.0, -1.5, 3.0, float("nan"), float("inf"), None),
    "big": (2**53, 2**53 + 1, 1, 2**63 - 1, -(2**63), 2**62, None),
    "s": ("a", "b", "c", "B", "", "ab", "é", None),
    "f": (True, False, True, None),
}
PLAIN: dict[str, tuple[Any, ...]] = {"x": (0, 1, 2, 3), "y": (0.5, 1.0, 2.0, 3.0), "s": ("a", "b", "c")}
FOLDED = ("count", "sum", "avg", "min", "max", "stddev")
MEASURED = ("x", "x", "y")
FILTERS = ("x > 0", "f", "y < 2", "s <> 'a'")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
WORDS = ("'a'", "'b'", "'c'", "'A'", "'B'")
LIKES = ("'a%'", "'%b'", "'_'", "''")
QUANTIFIERS = ("*", "+", "?", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "{0,1}", "{1,3}", "{,}", "{0,}")


@dataclass(frozen=True)
class Family:
    """A statement and tables for it."""

    number: int
    sql: str
    dialect: str
    tables: tuple[pa.Table, ...] = field(repr=False)

    def bound(self) -> BoundRows:
        clause = parse_statement(self.sql, self.dialect).clauses[0]
        return bind_rows(clause, self.tables[0].schema)

    def shown(self, table: pa.Table) -> str:
        """A pair, for whoever is to find out what is wrong with it."""
        rows = "\n".join(map(str, table.to_pylist()))
        return f"family_of({self.number}), {self.dialect}:\n{self.sql}\n-- {table.schema.types}\n{rows}"


def family_of(number: int, sizes: tuple[int, ...] = ()) -> Family:
    """The family of a number; its tables have these sizes, or others at random."""
    rng = Random(number)
    time = rng.choice(TIMES)
    dialect = "flink" if rng.random() < 0.15 else "standard"
    sql = Writer(rng, time).statement()
    sizes = sizes or tuple(_size(rng) for _ in range(TABLES))
    return Family(number, sql, dialect, tuple(table_of(rng, time, size) for size in sizes))


def _size(rng: Random) -> int:
    return (
        rng.randint(30, 60) if rng.random() < 0.06 else rng.choice((0, 1, 2, 3, *range(4, 13), *range(8, 13)))
    )


# ---- tables


def table_of(rng: Random, time: pa.DataType, size: int) -> pa.Table:
    """Rows full of ties; some tables are plain, some lack times."""
    plain, disordered, timeless = rng.random() < 0.5, rng.random() < 0.2, rng.random() < 0.04
    ticks, now = [], 0
    for _ in range(size):
        now = rng.randrange(8) if disordered else now + rng.choice((0, 1, 0, 2, 1, 1, 4))
        ticks.append(None if timeless and rng.random() < 0.2 else now)
    columns: dict[str, pa.Array] = {"t": pa.array([_moment(tick, time) for tick in ticks], time)}
    few = rng.random() < 0.7  # rows of few partitions, so that they are long
    for name, values in VALUES.items():
        domain = PLAIN.get(name, values) if plain else values
        if few and name in ("k", "j"):
            domain = domain[-1:] + domain[:1] * 6
        type_ = {"u": pa.int32(), "s": pa.string(), "k": pa.string()}.get(name)
        columns[name] = pa.array([rng.choice(domain) for _ in range(size)], type_ or _type(values))
    return pa.table(columns)


def _type(values: tuple[Any, ...]) -> pa.DataType:
    return pa.array(values).type


def _moment(tick: int | None, time: pa.DataType) -> Any:
    if tick is None or pa.types.is_integer(time):
        return tick
    if pa.types.is_date(time):
        return (EPOCH + dt.timedelta(days=tick)).date()
    moment = EPOCH + dt.timedelta(seconds=tick)
    return moment.replace(tzinfo=dt.UTC) if time.tz else moment


# ---- statements


class Writer:
    """Writes one statement."""

    def __init__(self, rng: Random, time: pa.DataType) -> None:
        self.rng = rng
        self.time = time
        self.labels = "ABCDE"[: rng.choice((1, 2, 2, 3, 3, 3, 4, 5))]
        self.show = self.pick(
            ("", "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
             "ALL ROWS PER MATCH OMIT EMPTY MATCHES", "ALL ROWS PER MATCH WITH UNMATCHED ROWS")
        )  # fmt: skip
        self.pattern = self.top()
        self.labels = "".join(sorted(set(re.findall(r"\b[A-E]\b", self.pattern))))
        self.subsets = self.unions()
        self.names = [*self.labels, *self.subsets]
        self.within = self.window() if self.chance(30) else ""

    def pick(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def chance(self, percent: int) -> bool:
        return self.rng.random() * 100 < percent

    def statement(self) -> str:
        measures = [f"{self.measure()} AS m{i}" for i in range(self.rng.randint(1, 4))]
        if self.within:
            measures.append("MATCH_STATUS() AS status")
        parts = [
            self.pick(
                ("", "", "", "PARTITION BY k", "PARTITION BY k", "PARTITION BY k, j", "PARTITION BY y")
            ),
            self.order(),
            f"MEASURES {', '.join([*measures, 'count(*) AS n'])}",
            self.show,
            self.skip(),
            f"PATTERN ({self.pattern}) {self.within}".rstrip(),
            f"SUBSET {', '.join(f'{u} = ({members})' for u, members in self.subsets.items())}"
            if self.subsets
            else "",
            self.define(),
        ]
        return "SELECT * FROM t MATCH_RECOGNIZE (\n  " + "\n  ".join(each for each in parts if each) + "\n)"

    def order(self) -> str:
        if self.within:
            return self.pick(("ORDER BY t", "ORDER BY t", "ORDER BY t NULLS LAST", "ORDER BY t, u DESC"))
        return self.pick(
            ("ORDER BY t", "ORDER BY t", "ORDER BY t, u", "ORDER BY t DESC", "ORDER BY t DESC NULLS FIRST, u",
             "ORDER BY t, u DESC NULLS LAST", "ORDER BY y", "ORDER BY s, t NULLS LAST", "")
        )  # fmt: skip

    def window(self) -> str:
        size = self.pick((0, 1, 1, 2, 2, 3, 5))
        unit = "DAY" if pa.types.is_date(self.time) else "SECOND"
        length = str(size) if pa.types.is_integer(self.time) else f"INTERVAL '{size}' {unit}"
        return f"WITHIN {length}{' EMIT TIMEOUTS' if self.chance(60) else ''}"

    def skip(self) -> str:
        if self.chance(40):
            return ""
        if not self.names or self.chance(60):
            return self.pick(("AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW"))
        return f"AFTER MATCH SKIP TO {self.pick(('', 'FIRST ', 'LAST '))}{self.pick(self.names)}"

    def unions(self) -> dict[str, str]:
        if not self.labels or not self.chance(45):
            return {}
        count = self.rng.randint(1, 2)
        return {
            name: ", ".join(self.rng.sample(self.labels, self.rng.randint(1, len(self.labels))))
            for name in ("U", "W")[:count]
        }

    # ---- the pattern

    def top(self) -> str:
        if self.chance(4):
            return self.pick(("", "()", "^", "$", "^ $", "()*", "(^|$)+"))
        items = [self.item(self.pick((1, 2, 2, 3))) for _ in range(self.rng.randint(1, 3))]
        if self.chance(8):
            items.insert(0, "^")
        if self.chance(8):
            items.append("$")
        return (" | " if self.chance(12) else " ").join(items)

    def item(self, depth: int) -> str:
        kind = self.rng.randrange(100)
        if depth == 0 or kind < 22:
            return self.pick(self.labels)
        if kind < 58:
            return self.quantified(depth)
        if kind < 70:
            return f"({' '.join(self.item(depth - 1) for _ in range(self.rng.randint(1, 3)))})"
        if kind < 86:
            branches = [self.item(depth - 1) for _ in range(self.rng.randint(2, 3))]
            return f"({' | '.join(['', *branches] if self.chance(8) else branches)})"
        if kind < 91:
            items = [self.item(depth - 1 if self.chance(30) else 0) for _ in range(self.rng.randint(2, 3))]
            return f"PERMUTE({', '.join(items)})"
        if kind < 96 and not self.show.endswith("UNMATCHED ROWS"):
            return "{- " + self.item(depth - 1) + " -}"
        return self.pick(("()", "^", "$", self.labels[0], self.labels[-1]))

    def quantified(self, depth: int) -> str:
        inner = self.item(depth - 1)
        if depth > 1 and self.chance(30):
            inner = f"{self.item(0)}{self.pick(('?', '*', '??', '*?', ''))} {self.quantified(depth - 1)}"
        if not re.fullmatch(r"[A-E]|\([^()]*\)|[\^$]", inner):
            inner = f"({inner})"
        return f"{inner}{self.pick(QUANTIFIERS)}{'?' if self.chance(30) else ''}"

    # ---- conditions

    def define(self) -> str:
        if not self.labels:
            return ""
        chosen = [label for label in self.labels if self.chance(75)] or [self.labels[0]]
        return "DEFINE " + ",\n    ".join(f"{label} AS {self.condition(label)}" for label in chosen)

    def condition(self, label: str) -> str:
        """Mostly one that many rows satisfy, and often something else besides."""
        easy = self.pick(
            ("x >= 1", f"{label}.x <= 2", "x <> 1", "y < 2.5", "s <> 'a'", "f", "x IS NOT NULL", "TRUE",
             "s IN ('a', 'b')", "x = 1", "x + 1 > 1", "s < 'c'", "NOT f", "s LIKE '%b%'")
        )  # fmt: skip
        if self.chance(50):
            return easy
        other = self.predicate(label, 2)
        return other if self.chance(20) else f"{easy} {self.pick(('AND', 'OR'))} ({other})"

    def predicate(self, label: str, depth: int) -> str:
        kind = self.rng.randrange(100)
        if depth and kind < 14:
            left, right = self.predicate(label, depth - 1), self.predicate(label, depth - 1)
            return f"({left}) {self.pick(('AND', 'OR'))} ({right})"
        if depth and kind < 18:
            return f"NOT ({self.predicate(label, depth - 1)})"
        if kind < 48:
            return f"{self.number(label, 1)} {self.pick(COMPARISONS)} {self.number(label, 1)}"
        if kind < 56:
            return f"{self.number(label, 0)} {self.pick(('<=', '>', '<'))} {self.pick((0, 1, 2, 3))}"
        if kind < 68:
            return f"{self.text(label)} {self.pick(('=', '<>', '<', '>='))} {self.text(label)}"
        if kind < 80:
            return f"{self.text(label)} {self.pick(('=', '<>'))} {self.pick(WORDS)}"
        if kind < 85:
            return f"{self.text(label)} {self.pick(('', 'NOT '))}LIKE {self.pick(LIKES)}"
        if kind < 89:
            return f"{self.text(label)} IN ('a', 'b', 'A')"
        if kind < 93:
            return f"{self.number(label, 0)} IN (0, 1, 2)"
        if kind < 97:
            value = self.text(label) if self.chance(50) else self.number(label, 0)
            return f"{value} IS {self.pick(('', 'NOT '))}NULL"
        return f"{self.number(label, 0)} BETWEEN 0 AND {self.number(label, 0)}"

    def name(self) -> str:
        """The qualifier of a variable, or none."""
        return f"{self.pick(self.names)}." if self.names and self.chance(65) else ""

    def number(self, label: str, depth: int) -> str:
        kind = self.rng.randrange(100)
        if depth and kind < 22:
            left, right = self.number(label, depth - 1), self.number(label, depth - 1)
            return self.pick(
                (f"{left} + {right}", f"{left} - {right}", f"{left} * {right}", f"({left}) / ({right})",
                 f"({left}) % ({right})", f"abs({left})", f"least({left}, {right})", f"-({left})",
                 f"coalesce({left}, {right})", f"greatest({left}, {right})",
                 f"CASE WHEN {left} > 1 THEN {right} ELSE 1 END")
            )  # fmt: skip
        if kind < 36:
            return self.pick(("0", "1", "2", "3", "1.5"))
        if kind < 50:
            return f"{self.name()}{self.column()}"
        if kind < 68:
            return self.navigation(self.operand())
        if kind < 92:
            return self.aggregate(FOLDED)
        if kind < 94:
            return "MATCH_NUMBER()"
        return f"length({self.text(label)})" if kind < 96 else f"{label}.x"

    def column(self) -> str:
        return self.pick(("x", "x", "x", "y", "y", "big"))

    def operand(self) -> str:
        name = self.name()
        if self.chance(12):
            return f"{name}x + {name}{self.column()}"
        return f"{name}{self.column()}"

    def navigation(self, operand: str, prefix: str = "") -> str:
        n, m = self.rng.randrange(3), self.rng.randrange(3)
        inner = f"{prefix}{self.pick(('FIRST', 'LAST'))}({operand}{self.pick(('', f', {n}'))})"
        ways = (
            f"PREV({operand})", f"PREV({operand}, {n})", f"NEXT({operand})", f"NEXT({operand}, {n})",
            inner, inner, inner, f"PREV({inner}, {m})", f"NEXT({inner})",
        )  # fmt: skip
        return self.pick(ways)

    def aggregate(self, functions: tuple[str, ...], prefix: str = "") -> str:
        name, function, measured = self.name(), self.pick(functions), len(functions) > len(FOLDED)
        if function == "count" and self.chance(55):
            call = f"count({name}*)"
        elif function in ("min_by", "max_by"):
            call = f"{function}({name}{self.column()}, {name}{self.pick(('x', 'y', 's'))})"
        else:
            distinct = (
                "DISTINCT " if function in ("count", "sum") and self.chance(25 if measured else 3) else ""
            )
            call = f"{function}({distinct}{name}{self.pick(MEASURED) if measured else self.column()})"
        if self.chance(18):
            call += f" FILTER (WHERE {name}{self.pick(FILTERS)})"
        return f"{prefix}{call}"

    def text(self, label: str) -> str:
        kind, name = self.rng.randrange(100), self.name()
        if kind < 15:
            return self.pick(WORDS)
        if kind < 33:
            return f"{name}s"
        if kind < 46:
            return self.navigation(f"{name}s")
        if kind < 57:
            return f"CLASSIFIER({self.pick(self.names) if self.chance(40) else ''})"
        if kind < 68:
            return self.navigation(f"CLASSIFIER({self.pick(self.names) if self.chance(40) else ''})")
        if kind < 82:
            return f"{self.pick(('min', 'max'))}({self.pick((f'{name}s', f'{name}s', 'CLASSIFIER()'))})"
        if kind < 90:
            return f"{self.pick(('upper', 'lower'))}({name}s)"
        return self.pick((f"upper(coalesce({name}s, 'b'))", f"coalesce({name}s, '{label}')"))

    # ---- measures

    def measure(self) -> str:
        prefix = self.pick(("", "", "RUNNING ", "FINAL "))
        kind = self.rng.randrange(100)
        if kind < 10:
            return "MATCH_NUMBER()"
        if kind < 22 or (self.within and kind < 32):
            return self.pick(("CLASSIFIER()", "MATCH_STATUS()"))
        if kind < 34:
            return f"{self.name()}{self.pick(tuple(VALUES))}"
        if kind < 62:
            return self.navigation(f"{self.name()}{self.pick(tuple(VALUES))}", prefix)
        if kind < 66 and self.names:
            return self.navigation(f"CLASSIFIER({self.pick((*self.names, ''))})", prefix)
        if kind < 94:
            return self.aggregate((*FOLDED, "any_value", "array_agg", "min_by", "max_by"), prefix)
        return f"{self.name()}x / {self.pick((1, 2, 'x'))}"
