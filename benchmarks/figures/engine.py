"""The suite `engine` as a table and a bar chart: `python benchmarks/figures/engine.py`."""

from __future__ import annotations

import sys
from typing import Any

from lines import Line, least_decade, main, seconds, short, table

WAYS = {"nfa": "#a51c4b", "flink, filtered": "#7f9dbf", "flink": "#c3cfdd"}


def tables(lines: list[Line]) -> str:
    """Return what was measured: speed, first matches, memory."""
    return speed(lines) + starts(lines) + memory(lines)


def speed(lines: list[Line]) -> str:
    head = ["query", "subject", "events", "least / median", "events/s", "÷ flink", "matches", "peak RSS"]
    rows = [
        [
            line["query"],
            line["subject"],
            f"{line['events']:,}",
            seconds(line),
            short(line["events_per_second"]),
            _over(line),
            f"{line['matches']:,}",
            f"{line['peak_rss_bytes'] / 2**20:,.0f} MiB",
        ]
        for line in lines
        if line["events"]
    ]
    return table(head, rows)


def starts(lines: list[Line]) -> str:
    rows = [[line["subject"], seconds(line)] for line in lines if line["query"] == "start"]
    return table(["until a query has matched 1,000 events", "least / median"], rows)


def memory(lines: list[Line]) -> str:
    marks = [line["report"]["rss_bytes_at"] for line in lines if line["query"] == "memory"]
    rows = [[f"{int(at):,}", f"{rss / 2**20:,.1f} MiB"] for each in marks for at, rss in each.items() if rss]
    return table(["events of an endless stream", "RSS"], rows)


def draw(lines: list[Line]) -> Any:
    """Draw the events/s of each way to run each query, where it ran on the most events."""
    from matplotlib import pyplot as plt

    best = {(line["query"], line["subject"]): line for line in sorted(lines, key=_size) if line["events"]}
    queries = list(dict.fromkeys(line["query"] for line in lines if line["events"]))
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for number, (way, colour) in enumerate(WAYS.items()):
        drawn = [(at, best[query, way]) for at, query in enumerate(queries) if (query, way) in best]
        bars = axes.bar(
            [at + 0.27 * (number - 1) for at, _ in drawn],
            [line["events_per_second"] for _, line in drawn], 0.25, color=colour, label=way,
        )  # fmt: skip
        axes.bar_label(bars, [short(line["events_per_second"]) for _, line in drawn], fontsize=7)
    axes.set_xticks(range(len(queries)), queries)
    axes.set_yscale("log")
    axes.set_ylim(least_decade(line["events_per_second"] for line in best.values()))
    axes.set_ylabel("events/s")
    figure.legend(loc="outside lower center", ncols=len(WAYS))
    return figure


def _size(line: Line) -> int:
    return line["events"] or 0


def _over(line: Line) -> str:
    over = line["speedup"]
    if not over:
        return ""
    return f"{over['min']:.3g}×" + ("" if over["events"] == line["events"] else f" (at {over['events']:,})")


if __name__ == "__main__":
    sys.exit(main("engine", tables, draw))
