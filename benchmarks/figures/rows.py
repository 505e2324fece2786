"""The suite `rows` as tables and charts: `python benchmarks/figures/rows.py`."""

from __future__ import annotations

import sys
from typing import Any

from lines import Line, least_decade, main, ratio, seconds, short, table

CERISE, SPARK, LEAST, PEER = "#a51c4b", "#d06c8d", "#e6c3cf", "#7f9dbf"
KINDS = {
    "Cerise": (CERISE, ("process", "engine")),
    "Cerise on Spark": (SPARK, ("lake", "lake write", "sql")),
    "only reading": (LEAST, ("read", "scan", "filtered read")),
    "peers": (PEER, ("duckdb, memory", "duckdb, counting", "duckdb, file", "flink sql")),
}
COLOURS = {subject: colour for colour, subjects in KINDS.values() for subject in subjects}
GOALS = (  # one subject, another, and how many times as fast the one should be
    ("process", "read", 0.4),
    ("process", "duckdb, memory", 1.0),
    ("process", "duckdb, counting", None),
    ("process", "flink sql", 30.0),
    ("lake", "scan", 0.4),
    ("lake", "duckdb, file", 0.5),
    ("lake", "filtered read", None),
    ("sql", "scan", None),
)
EQUAL = "equal"  # how the names of queries over equal rows begin


def tables(lines: list[Line]) -> str:
    """Return what was measured, how it compares, and what a row costs as rows become more."""
    return speed(lines) + compared(lines) + by_size(lines)


def speed(lines: list[Line]) -> str:
    head = ["query", "subject", "events", "least / median", "events/s", "÷ process", "rows", "peak RSS"]
    rows = [
        [
            line["query"],
            line["subject"],
            f"{line['events']:,}",
            seconds(line),
            short(line["events_per_second"]),
            f"{line['speedup']['min']:.3g}×" if line["speedup"] else "",
            "" if line["matches"] is None else f"{line['matches']:,}",
            f"{line['peak_rss_bytes'] / 2**20:,.0f} MiB" if line["peak_rss_bytes"] else "",
        ]
        for line in lines
    ]
    return table(head, rows)


def compared(lines: list[Line]) -> str:
    """Return the ratios that there is a goal for, of lines on the same events."""
    took = {_place(line): line for line in lines}
    rows = [
        [
            line["query"],
            f"{line['events']:,}",
            f"{one} ÷ {other}",
            _how_much(took[at], line),
            "" if goal is None else f"{goal:g}×",
        ]
        for line in lines
        for one, other, goal in GOALS
        if line["subject"] == one and (at := (line["query"], other, line["data"]["name"])) in took
    ]
    return table(["query", "events", "speed", "is", "goal"], rows)


def _how_much(slow: Line, fast: Line) -> str:
    """Return a ratio of times; at least that, where one of them was given up."""
    if slow["gave_up"]:
        return f"more than {ratio(slow['gave_up']['seconds'], fast['seconds']['min'])}"
    return ratio(slow["seconds"]["min"], fast["seconds"]["min"])


def by_size(lines: list[Line]) -> str:
    """Return what the search alone takes for a row, by the number of rows."""
    rows = [
        [query, f"{line['events']:,}", seconds(line), f"{_per_row_ns(line):.3g} ns"]
        for query, them in _searches(lines).items()
        for line in them
    ]
    return table(["query", "rows", "the search alone: least / median", "for a row"], rows)


def draw(lines: list[Line]) -> Any:
    """Draw the events/s of each way to run each query, then what a row takes in the search alone."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    queries = [each for each in dict.fromkeys(line["query"] for line in lines) if not each.startswith(EQUAL)]
    drawn = {query: _of(lines, query) for query in queries}
    heights = [len(each) for each in drawn.values()]
    figure, axes = plt.subplots(
        len(queries) + 1, figsize=(8, 4 + 0.4 * len(queries) + 0.24 * sum(heights)), layout="constrained",
        squeeze=False, height_ratios=[*heights, 10],
    )  # fmt: skip
    bars = axes[:-1, 0]
    least = least_decade(line["events_per_second"] for each in drawn.values() for line in each)
    most = max(line["events_per_second"] for each in drawn.values() for line in each)
    for query, each in zip(queries, bars, strict=True):
        _bars(each, query, drawn[query])
        each.set_xlim(least, 4 * most)
        each.tick_params(labelbottom=each is bars[-1])
    bars[-1].set_xlabel("events/s")
    _sizes(axes[-1, 0], _searches(lines))
    kinds = [Patch(color=colour, label=kind) for kind, (colour, _) in KINDS.items()]
    figure.legend(handles=kinds, loc="outside lower center", ncols=len(kinds))
    return figure


def _bars(axes: Any, query: str, lines: list[Line]) -> None:
    usual = lines[0]["events"]
    names = [line["subject"] + _other(line, usual) for line in lines]
    speeds = [line["events_per_second"] for line in lines]
    bars = axes.barh(names, speeds, 0.8, color=[COLOURS[line["subject"]] for line in lines])
    axes.bar_label(bars, list(map(short, speeds)), fontsize=7, padding=2)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_title(f"{query}, {short(usual)} events", fontsize=9, loc="left")


def _sizes(axes: Any, searches: dict[str, list[Line]]) -> None:
    for query, lines in searches.items():
        axes.plot([line["events"] for line in lines], list(map(_per_row_ns, lines)), "o-", ms=3, label=query)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel("ns for a row")
    axes.set_title("the search alone: a level line is linear in rows", fontsize=9, loc="left")
    axes.legend(fontsize=7)


def _of(lines: list[Line], query: str) -> list[Line]:
    """Return one line of each subject of a query: on the query's own data, else on the first other."""
    best: dict[str, Line] = {}
    for line in lines:
        if line["query"] == query and line["seconds"]:
            best.setdefault(line["subject"], line)
    return sorted(best.values(), key=lambda line: list(COLOURS).index(line["subject"]))


def _searches(lines: list[Line]) -> dict[str, list[Line]]:
    """Return the lines of the search alone, by query and then by size."""
    them = sorted((line for line in lines if line["subject"] == "engine"), key=lambda line: line["events"])
    queries = dict.fromkeys(line["query"] for line in lines if line["subject"] == "engine")
    return {query: [line for line in them if line["query"] == query] for query in queries}


def _per_row_ns(line: Line) -> float:
    return 1e9 * float(line["seconds"]["min"]) / int(line["events"])


def _other(line: Line, usual: int) -> str:
    return "" if line["events"] == usual else f" ({short(line['events'])})"


def _place(line: Line) -> tuple[str, str, str]:
    return line["query"], line["subject"], line["data"]["name"]


if __name__ == "__main__":
    sys.exit(main("rows", tables, draw))
