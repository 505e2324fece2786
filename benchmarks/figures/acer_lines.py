"""What the lines of the suite `acer` say: which are compared with which, and how they compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import quantiles

from lines import Line

SCAN = "full scan"
COLD = ", cold"
ABLATIONS = ("acer", "acer-c", "acer-q", "acer-f")
COSTS = ("filter", "read", "match")
FORMS = ("append, parquet", "append, acer", "append, acer-c", "append, b+trees")
PRINTED = "Q_1 to Q_3"
WORST = 0.9  # of the speed of the scan: the index has slowed down a query that is below
MIB = 2**20


def speedups(line: Line, lines: Iterable[Line]) -> list[float]:
    """Return for each query how many times as fast as a full scan a method answers it."""
    base = scan_of(line, lines)
    if base is None or base is line:
        return []
    both = zip(base["report"]["seconds"], line["report"]["seconds"], strict=True)
    return [scanned / took for scanned, took in both]


def scan_of(line: Line, lines: Iterable[Line]) -> Line | None:
    """Return the full scan that a line is compared with: of the same queries, cold where it is."""
    wanted = SCAN + (COLD if line["subject"].endswith(COLD) else "")
    names = (wanted, f"{wanted}, one thread")
    same = (each for each in answered(lines) if each["query"] == line["query"])
    return next((each for each in same if each["subject"] in names), None)


def answered(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines of workloads."""
    return (line for line in lines if line["how"].get("run") == "workload")


def appended(lines: Iterable[Line]) -> dict[str, dict[str, Line]]:
    """Return the lines of appends, by data and subject."""
    found: dict[str, dict[str, Line]] = {}
    for line in lines:
        if line["subject"] in FORMS:
            found.setdefault(line["data"]["name"], {})[line["subject"]] = line
    return found


def not_slower(gains: list[float]) -> float:
    """Return the share of queries that are not slowed down."""
    return sum(each >= WORST for each in gains) / len(gains)


def quarters(values: list[float]) -> list[float]:
    """Return the quartiles; of one value, itself."""
    return quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def ablated(lines: Iterable[Line]) -> dict[str, dict[str, Line]]:
    """Return the lines of workloads that were also answered without a part, by queries and subject."""
    found: dict[str, dict[str, Line]] = {}
    for line in answered(lines):
        if line["subject"] in ABLATIONS:
            found.setdefault(line["query"], {})[line["subject"]] = line
    return {query: of for query, of in found.items() if "acer" in of and len(of) > 1}


def spent(lines: Iterable[Line]) -> list[tuple[int, Line, list[float]]]:
    """Return for each printed query and method what was spent on each cost."""
    printed = [line for line in answered(lines) if line["query"] == PRINTED]
    many = max((line["report"]["queries"] for line in printed), default=0)
    return [
        (number, line, [line["report"][f"{cost}_seconds"][number] for cost in COSTS])
        for number in range(many)
        for line in printed
    ]
