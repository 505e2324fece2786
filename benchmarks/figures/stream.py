"""The suite `stream` as tables and a chart: `python benchmarks/figures/stream.py`."""

from __future__ import annotations

import sys
from typing import Any

from lines import Line, least_decade, main, ratio, seconds, short, table

CERISE, SPARK, BATCH, PEER = "#a51c4b", "#d06c8d", "#e6c3cf", "#7f9dbf"
KINDS = {
    "Cerise, in process": (CERISE, ("watcher",)),
    "Cerise on Spark": (SPARK, ("spark, files", "spark, state store", "lake, files")),
    "batch": (BATCH, ("find", "find rows")),
    "peers": (PEER, ("flink", "flink, filtered", "flink sql")),
}
COLOURS = {subject: colour for colour, subjects in KINDS.values() for subject in subjects}
GOALS = (  # one subject, another, and how many times as fast the one should be
    ("spark, files", "flink sql", 5.0),
    ("spark, files", "flink, filtered", 1.0),
    ("spark, files", "flink", None),
    ("watcher", "flink sql", None),
    ("watcher", "flink, filtered", None),
    ("watcher", "flink", 10.0),
    ("lake, files", "spark, files", 1.5),
)
MEGABYTE = 1_000_000


def tables(lines: list[Line]) -> str:
    """Return a table for each part of the suite."""
    parts = (feed, journal, fixed, throughput, compared, suspend, soak, latency)
    return "".join(f"## {part.__name__}\n\n{text}" for part in parts if (text := part(lines)))


def feed(lines: list[Line]) -> str:
    """Return the time of a small feed, by the state of the matcher."""
    rows = [
        [line["query"], _size(line["report"]["state_bytes"][-1]), *_times(line["report"]["feed_ms"])]
        for line in _of(lines, "stream feed")
    ]
    return table(["query", "state", *HEAD], rows)


def journal(lines: list[Line]) -> str:
    """Return the bytes that a bucket writes for a batch, against those of its events."""
    rows = [
        [
            line["query"],
            _size(told["state_bytes"][-1]),
            f"{told['batches']:,}",
            f"{told['events_bytes'] / told['batches']:,.0f}",
            f"{told['written_bytes'] / told['batches']:,.0f}",
            f"{told['ratio']:.3g}×",
            f"{told['kb_beyond_twice']:.3g} kB",
            "yes" if told["within"] else "no",
        ]
        for line in _of(lines, "stream journal")
        for told in [line["report"]]
    ]
    head = ["query", "snapshot", "batches", "bytes of events", "bytes written", "ratio", "beyond twice"]
    return table([*head, "≤ 2× + 10 kB"], rows)


def fixed(lines: list[Line]) -> str:
    """Return the time of a micro-batch, against that of a transformWithState that keeps 64 bytes."""
    measured = _of(lines, "stream micro-batch")
    least = {line["query"]: _median(line) for line in measured if line["subject"] == "fixed, keep"}
    rows = [
        [
            line["query"],
            line["subject"],
            _size(line["report"].get("state_bytes")),
            *_times(line["report"]["batch_ms"]),
            _milliseconds(line["report"]["cpu_ms"]),
            ratio(_median(line), least.get(line["query"])),
        ]
        for line in measured
    ]
    return table(["query", "subject", "state", *HEAD, "CPU of all", "÷ keep"], rows)


def throughput(lines: list[Line]) -> str:
    """Return the events per second of each way to run a query, and on Spark those of full batches."""
    rows = [
        [
            line["query"],
            line["subject"],
            f"{line['events']:,}",
            seconds(line) if line["seconds"] else "gave up",
            short(line["events_per_second"]),
            short((line["report"] or {}).get("steady_events_per_second")),
            f"{line['matches']:,}",
        ]
        for line in _throughput(lines)
    ]
    return table(["query", "subject", "events", "least / median", "events/s", "steady", "matches"], rows)


def compared(lines: list[Line]) -> str:
    """Return the ratios that there is a goal for; where events differ, it is events/s by events/s."""
    measured = _throughput(lines)
    rows = [
        [line["query"], f"{one} ÷ {other}", _faster(line, base), "" if goal is None else f"{goal:g}×"]
        for line in measured
        for one, other, goal in GOALS
        if line["subject"] == one and (base := _base(measured, line, other))
    ]
    return table(["query", "speed", "is", "goal"], rows)


def suspend(lines: list[Line]) -> str:
    """Return the time of a search that batches suspend, by that of one batch."""
    measured = [line for line in lines if line["query"] == "suspend"]
    took = {line["subject"]: line["seconds"]["min"] for line in measured}
    rows = [
        [line["subject"], seconds(line)]
        + [ratio(line["seconds"]["min"], took.get(other)) for other in ("watcher, whole", "find rows")]
        for line in measured
    ]
    return table(["subject", "least / median", "÷ one batch", "÷ find"], rows)


def soak(lines: list[Line]) -> str:
    """Return how flat memory and state are, and how even the batches."""
    rows = [
        [
            line["subject"],
            f"{line['seconds']['min'] / 60:.3g} min",
            *_times(line["report"]["batch_ms"]),
            f"{line['report']['p99_to_median']:.3g}×",
            *_flat(line["report"]["rss"]),
            *_flat(line["report"]["state"]),
        ]
        for line in (*_of(lines, "stream soak"), *_of(lines, "stream soak spark"))
    ]
    flat = [f"{what}{figure}" for what in ("RSS", "state") for figure in ("", ": spread", ": growth")]
    return table(["subject", "time", *HEAD, "p99 ÷ median", *flat], rows)


def latency(lines: list[Line]) -> str:
    """Return the time from a file to its matches."""
    rows = [
        [line["subject"], f"{line['report']['files']:,}", *_times(line["report"]["latency_ms"])]
        for line in (*_of(lines, "stream latency"), *_of(lines, "stream latency spark"))
    ]
    return table(["subject", "files", *HEAD], rows)


def draw(lines: list[Line]) -> Any:
    """Draw the events/s of each way to run the queries of the part `throughput`."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    measured = [line for line in _throughput(lines) if line["events_per_second"]]
    queries = list(dict.fromkeys(line["query"] for line in measured)) or [""]
    heights = [max(1, sum(line["query"] == query for line in measured)) for query in queries]
    figure, axes = plt.subplots(
        len(queries), figsize=(8, 1.5 + 0.5 * len(queries) + 0.25 * sum(heights)), layout="constrained",
        squeeze=False, height_ratios=heights,
    )  # fmt: skip
    for query, each in zip(queries, axes[:, 0], strict=True):
        _bars(each, query, [line for line in measured if line["query"] == query])
    kinds = [Patch(color=colour, label=kind) for kind, (colour, _) in KINDS.items()]
    figure.legend(handles=kinds, loc="outside lower center", ncols=len(kinds))
    return figure


HEAD = ("least", "median", "p99", "mean")


def _bars(axes: Any, query: str, lines: list[Line]) -> None:
    if not lines:
        return
    names = [f"{line['subject']}, {short(line['events'])}" for line in lines]
    speeds = [line["events_per_second"] for line in lines]
    bars = axes.barh(names, speeds, 0.8, color=[COLOURS[line["subject"]] for line in lines])
    axes.bar_label(bars, list(map(short, speeds)), fontsize=7, padding=2)
    axes.set_xscale("log")
    axes.set_xlim(least_decade(speeds), 4 * max(speeds))
    axes.invert_yaxis()
    axes.set_title(query, loc="left")
    axes.set_xlabel("events/s")


def _of(lines: list[Line], run: str) -> list[Line]:
    return [line for line in lines if line["how"].get("run") == run]


def _throughput(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["query"] in ("q1", "rise", "v_shape")]


def _base(lines: list[Line], line: Line, subject: str) -> Line | None:
    """Return what another subject took for the same query, on the same data where it has run there."""
    same = [each for each in lines if (each["query"], each["subject"]) == (line["query"], subject)]
    near = [each for each in same if each["data"]["name"] == line["data"]["name"]]
    return next(iter(near or same), None)


def _faster(line: Line, base: Line) -> str:
    return ratio(line["events_per_second"], base["events_per_second"])


def _median(line: Line) -> float:
    return float(line["report"]["batch_ms"]["median"])


def _times(told: dict[str, float]) -> list[str]:
    return [_milliseconds(told[name]) for name in ("min", "median", "p99", "mean")]


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"


def _size(size: float | None) -> str:
    return "" if size is None else f"{size / MEGABYTE:.3g} MB"


def _flat(told: dict[str, float] | None) -> list[str]:
    if told is None:
        return ["", "", ""]
    return [_size(told["median"]), f"{told['spread']:.1%}", f"{told['growth']:+.1%}"]


if __name__ == "__main__":
    sys.exit(main("stream", tables, draw))
