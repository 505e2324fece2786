"""Cases: three parts of text (query, events, matches), how they are read, and how answers are compared."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.pattern.bound import Bound

CASES = Path(__file__).parents[2] / "cases"
TOKEN = re.compile(r"([A-Za-z]+)(-?\d+)")
TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_(),
    "timestamp": pa.timestamp("us"), "instant": pa.timestamp("us", "UTC"), "date": pa.date32(),
}  # fmt: skip
Row = tuple[tuple[str, str], ...]  # one line of an answer: (name, value) pairs in the order of names


@dataclass(frozen=True)
class Case:
    """One case of a .cer file."""

    file: str
    line: int
    query: str
    events: pa.Table
    expected: Counter[Row]
    title: str
    rules: tuple[str, ...] = ()
    time: str = "t"
    type: str | None = None
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    error: tuple[str, str] | None = None
    warns: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.title}"

    @property
    def label(self) -> str:
        """The column that names an event in an answer."""
        return "id" if "id" in self.events.column_names else self.time

    def roles(self) -> dict[str, Any]:
        """The arguments of `cerise.find` besides events and query."""
        return {
            "time": self.time,
            "type": self.type,
            "key": self.key,
            "order": self.order,
            "params": self.params,
        }


def load_cases() -> list[Case]:
    """Read every case of tests/cases."""
    return [
        case
        for path in sorted(CASES.glob("*.cer"))
        for case in read_cases(path.name, path.read_text("utf-8"))
    ]


def read_cases(file: str, text: str) -> list[Case]:
    """Read the cases of one file; a case starts at its `# title:` line."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("# title:")]
    ends = [*starts[1:], len(lines)]
    return [_read_case(file, start + 1, lines[start:end]) for start, end in zip(starts, ends, strict=True)]


def _read_case(file: str, line: int, lines: list[str]) -> Case:
    given = dict(_directive(each) for each in lines if each.startswith("# "))
    body = [each for each in lines if not each.startswith("#")]
    parts = [part.strip("\n") for part in re.split(r"^--$", "\n".join(body), flags=re.MULTILINE)]
    query, events = parts[0].strip(), read_events(parts[1] if len(parts) > 1 else "")
    expected = read_answer(parts[2]) if len(parts) > 2 else Counter()
    type_ = given.get("type", "type" if "type" in events.column_names else "none")
    error = tuple(given["error"].split(": ", 1)) if "error" in given else None
    return Case(
        file, line, query, events, expected, given["title"], tuple(given.get("rules", "").split()),
        given.get("time", "t"), None if type_ == "none" else type_, _listed(given.get("key")),
        _listed(given.get("order")), _params(given.get("params")), error, given.get("warns"),
    )  # fmt: skip


def _directive(line: str) -> tuple[str, str]:
    name, _, value = line[2:].partition(":")
    return name.strip(), value.strip()


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def _params(text: str | None) -> dict[str, Any]:
    pairs = re.findall(r"(\w+)\s*=\s*('(?:[^']|'')*'|[^,\s]+)", text or "")
    return {name: _param(value) for name, value in pairs}


def _param(word: str) -> Any:
    if word.startswith("'"):
        return word[1:-1].replace("''", "'")
    if word in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[word]
    return int(word) if re.fullmatch(r"-?\d+", word) else float(word)


# ---- events


def read_events(text: str) -> pa.Table:
    """Read tokens such as `A1 B2`, or a typed table with a header line."""
    lines = [line for line in text.splitlines() if line.strip()]
    tokens = [TOKEN.fullmatch(word) for line in lines for word in line.split()]
    if all(tokens):
        found = [token for token in tokens if token]
        return pa.table(
            {
                "type": pa.array([token[1] for token in found], pa.string()),
                "t": pa.array([int(token[2]) for token in found], pa.int64()),
            }
        )
    header = [_header(word) for word in _words(lines[0])]
    rows = [_words(line) for line in lines[1:]]
    assert all(len(row) == len(header) for row in rows), f"a row is not as long as the header: {text}"
    columns = [
        pa.array([_value(row[i], kind) for row in rows], TYPES[kind]) for i, (_, kind) in enumerate(header)
    ]
    return _nested([name.split(".") for name, _ in header], columns)


def _words(line: str) -> list[str]:
    return re.findall(r"""'(?:[^']|'')*'|"[^"]*"(?::\w+)?|\S+""", line)


def _header(word: str) -> tuple[str, str]:
    name, _, kind = word.rpartition(":") if ":" in word else (word, "", "")
    name = name.strip('"')
    return name, kind or ("int" if name in ("id", "t") else "str")


def _value(word: str, kind: str) -> Any:
    if word == "null":
        return None
    match kind:
        case "int":
            return int(word)
        case "float":
            return float(word)
        case "bool":
            return word.lower() == "true"
        case "timestamp":
            return dt.datetime.fromisoformat(word.strip("'"))
        case "instant":
            return dt.datetime.fromisoformat(word.strip("'")).replace(tzinfo=dt.UTC)
        case "date":
            return dt.date.fromisoformat(word.strip("'"))
    return word[1:-1].replace("''", "'") if word.startswith("'") else word


def _nested(paths: list[list[str]], columns: list[pa.Array]) -> pa.Table:
    """Put columns named a.b into structs."""
    names = list(dict.fromkeys(path[0] for path in paths))
    arrays = []
    for name in names:
        inner = [(path[1:], column) for path, column in zip(paths, columns, strict=True) if path[0] == name]
        if inner[0][0]:
            table = _nested([path for path, _ in inner], [column for _, column in inner])
            arrays.append(
                table.to_struct_array().combine_chunks()
                if table.num_rows
                else pa.array([], pa.struct(list(table.schema)))
            )
        else:
            arrays.append(inner[0][1])
    return pa.table(dict(zip(names, arrays, strict=True)))


# ---- answers


def read_answer(text: str) -> Counter[Row]:
    """Read the expected lines: a multiset, in no particular order."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return Counter(_answer_line(line) for line in lines if line != "(none)")


def _answer_line(line: str) -> Row:
    pairs = re.findall(r"([^\s=]+)=('(?:[^']|'')*'|\S+)", line)
    return tuple(
        sorted(
            (name, value[1:-1].replace("''", "'") if value.startswith("'") else value)
            for name, value in pairs
        )
    )


def answer_of(table: pa.Table, bound: Bound, label: str) -> Counter[Row]:
    """Return what a result says, in the form of the expected lines: the events, or the columns of RETURN.

    Of totals these are all columns.
    """
    totals = bound.query.totals is not None
    chosen = [each.name for each in bound.columns if totals or not isinstance(each.fill, str | tuple)]
    return Counter(_row(row, label) for row in table.select(chosen).to_pylist())


def _row(row: dict[str, Any], label: str) -> Row:
    events = {name: value for name, value in row.items() if _is_event(value, label)}
    if not events:
        return tuple(sorted((name, shown(value)) for name, value in row.items()))
    lists = {name: value if isinstance(value, list) else [value] for name, value in events.items()}
    return tuple(
        sorted((name, ",".join(shown(event[label]) for event in each)) for name, each in lists.items())
    )


def _is_event(value: Any, label: str) -> bool:
    one = value[0] if isinstance(value, list) and value else value
    return isinstance(one, dict) and label in one


def shown(value: Any) -> str:
    """Return a value as case files write it."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return ",".join(map(shown, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return (
            value.replace(tzinfo=None).isoformat(timespec="minutes")
            if not value.second
            else value.isoformat()
        )
    return repr(value) if isinstance(value, float) else str(value)


def difference(expected: Counter[Row], found: Counter[Row]) -> str:
    """Say what is missing, wrong or found too often; empty where the answers are equal."""
    missing, extra = expected - found, found - expected
    lines = [f"missing: {_line(row)} ×{n}" for row, n in sorted(missing.items())]
    lines += [f"not expected: {_line(row)} ×{n}" for row, n in sorted(extra.items())]
    return "\n".join(lines)


def _line(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row) or "(empty)"
