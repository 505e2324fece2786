"""The suite `spark` as tables and bar charts: `python benchmarks/figures/spark.py`."""

from __future__ import annotations

import sys
from typing import Any

from lines import Line, least_decade, main, ratio, seconds, short, table

ONE_CORE = "lake count, one core"
CERISE, LEAST, BY_HAND, PEER = "#a51c4b", "#dba3b6", "#9a9a9a", "#7f9dbf"
KINDS = {
    "Cerise": (
        CERISE,
        (
            "lake count",
            ONE_CORE,
            "lake write",
            "frame",
            "frame count",
            "process",
            "process count",
            "path count",
        ),
    ),
    "only reading or handing over": (
        LEAST,
        ("scan", "scan sorted", "hand over", "hand over, counting", "filtered read"),
    ),
    "PySpark by hand": (BY_HAND, ("self join", "window functions", "applyInPandas")),
    "peers": (
        PEER,
        ("duckdb, memory", "duckdb, file", "polars, memory", "polars, file", "flink sql", "flink sql, once"),
    ),
}
COLOURS = {subject: colour for colour, subjects in KINDS.values() for subject in subjects}
LEAST_OF = {  # what each way does at least
    "path count": ("filtered read",),
    "lake count": ("scan", "scan sorted", "filtered read"),
    "lake write": ("scan", "scan sorted"),
    "frame": ("hand over",),
    "frame count": ("hand over, counting",),
}


def tables(lines: list[Line]) -> str:
    """Return what was measured, and how much more a query takes than what it must do at least."""
    return speed(lines) + over_the_least(lines)


def speed(lines: list[Line]) -> str:
    head = ["query", "subject", "events", "least / median", "events/s", "÷ lake count", "matches", "peak RSS"]
    rows = [
        [
            line["query"],
            line["subject"],
            f"{line['events']:,}",
            seconds(line),
            short(line["events_per_second"]),
            _over(line),
            "" if line["matches"] is None else f"{line['matches']:,}",
            f"{line['peak_rss_bytes'] / 2**20:,.0f} MiB" if line["peak_rss_bytes"] else "",
        ]
        for line in lines
    ]
    return table(head, rows)


def over_the_least(lines: list[Line]) -> str:
    took = {_place(line): line["seconds"]["min"] for line in lines}
    rows = [
        [line["query"], line["subject"], f"{line['events']:,}", least, ratio(took[_place(line)], took[at])]
        for line in lines
        for least in LEAST_OF.get(line["subject"], ())
        if (at := (line["query"], least, line["data"]["name"])) in took
    ]
    return table(["query", "subject", "events", "at least", "seconds ÷ those of the least"], rows)


def draw(lines: list[Line]) -> Any:
    """Draw the events/s of each way to run each query, on the data that the query says."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    queries = list(dict.fromkeys(line["query"] for line in lines))
    drawn = {query: _of(lines, query) for query in queries}
    heights = [len(each) for each in drawn.values()]
    figure, axes = plt.subplots(
        len(queries), figsize=(8, 1.5 + 0.22 * sum(heights)), layout="constrained", sharex=True,
        squeeze=False, height_ratios=heights,
    )  # fmt: skip
    for query, each in zip(queries, axes[:, 0], strict=True):
        _bars(each, query, drawn[query])
    axes[-1, 0].set_xlim(least_decade(line["events_per_second"] for line in lines))
    axes[-1, 0].set_xlabel("events/s")
    kinds = [Patch(color=colour, label=kind) for kind, (colour, _) in KINDS.items()]
    figure.legend(handles=kinds, loc="outside lower center", ncols=len(kinds))
    return figure


def _bars(axes: Any, query: str, lines: list[Line]) -> None:
    names = [_name(line, lines[0]["events"]) for line in lines]
    speeds = [line["events_per_second"] for line in lines]
    bars = axes.barh(names, speeds, 0.8, color=[COLOURS[line["subject"]] for line in lines])
    axes.bar_label(bars, list(map(short, speeds)), fontsize=7, padding=2)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_title(f"{query}, {short(lines[0]['events'])} events", fontsize=9, loc="left")


def _of(lines: list[Line], query: str) -> list[Line]:
    """Return one line of each subject of a query: on the query's own data, else on the first other."""
    best: dict[str, Line] = {}
    for line in lines:
        if line["query"] == query:
            best.setdefault(line["subject"], line)
    return sorted(best.values(), key=lambda line: list(COLOURS).index(line["subject"]))


def _name(line: Line, usual: int) -> str:
    return line["subject"] + ("" if line["events"] == usual else f" ({short(line['events'])})")


def _place(line: Line) -> tuple[str, str, str]:
    return line["query"], line["subject"], line["data"]["name"]


def _over(line: Line) -> str:
    over = line["speedup"]
    if not over:
        return ""
    return f"{over['min']:.3g}×" + ("" if over["events"] == line["events"] else f" (at {over['events']:,})")


if __name__ == "__main__":
    sys.exit(main("spark", tables, draw))
