"""Figures 4 and 9 to 14 of 000 as tables and charts: `python benchmarks/figures/acer.py`."""

from __future__ import annotations

import sys
from statistics import mean, median

from acer_lines import (
    ABLATIONS,
    COSTS,
    MIB,
    PRINTED,
    WORST,
    ablated,
    answered,
    appended,
    not_slower,
    quarters,
    speedups,
    spent,
)
from acer_panels import draw
from lines import Line, main, ratio, short, table

SCANNED = "flink sql"
FLINK = {SCANNED: None, "flink sql, types": "type index", "flink sql, acer": "acer"}  # and whose filter
ASKED = ("q1", "q2", "q3")


def tables(lines: list[Line]) -> str:
    """Return all that was measured, figure by figure."""
    parts = {
        "Fig. 9 and 14: speed-up over a full scan": gains(lines),
        "Fig. 10: appending": appends(lines),
        "Fig. 11: sizes": sizes(lines),
        "Fig. 12: a filter before Flink": flink(lines),
        "Fig. 13: ablations": ablations(lines),
        "Fig. 4: where the time goes": costs(lines),
    }
    return "".join(f"## {title}\n\n{text}" for title, text in parts.items() if text)


def gains(lines: list[Line]) -> str:
    head = ["queries", "method", "events", "median", "median of first tries", "speed-up: median", "quartiles",
            "least", "most", f"not below {WORST}×", "events to the engine, median"]  # fmt: skip
    return table(head, [_gain(line, speedups(line, lines)) for line in answered(lines)])


def _gain(line: Line, found: list[float]) -> list[str]:
    told = line["report"]
    low, middle, high = quarters(found) if found else (None, None, None)
    return [
        f"{line['query']} ({told['queries']})",
        line["subject"],
        short(line["data"]["events"]),
        duration(median(told["seconds"])),
        duration(median(told["first_seconds"])),
        times(middle),
        f"{times(low)} – {times(high)}" if found else "",
        times(min(found, default=None)),
        times(max(found, default=None)),
        f"{not_slower(found):.1%}" if found else "",
        short(median(told["events"])),
    ]


def appends(lines: list[Line]) -> str:
    rows = [
        [data, line["subject"].removeprefix("append, "), duration(line["seconds"]["min"]),
         short(line["events_per_second"]), _over(line, of, "append, parquet")]
        for data, of in appended(lines).items()
        for line in of.values()
    ]  # fmt: skip
    return table(["data", "into", "least", "events/s", "÷ parquet, time"], rows)


def _over(line: Line, of: dict[str, Line], base: str) -> str:
    return ratio(line["seconds"]["min"], of[base]["seconds"]["min"]) if base in of else ""


def sizes(lines: list[Line]) -> str:
    rows = [
        [data, line["subject"].removeprefix("append, "), *_sizes(line, of)]
        for data, of in appended(lines).items()
        for line in of.values()
    ]
    head = ["data", "form", "rows", "index", "index, bytes per event", "index ÷ rows", "index ÷ b+trees"]
    return table(head, rows)


def _sizes(line: Line, of: dict[str, Line]) -> list[str]:
    taken = line["report"]["bytes"]
    trees = of["append, b+trees"]["report"]["bytes"]["index"] if "append, b+trees" in of else None
    index = taken["index"]
    return [
        mib(taken["data"]), mib(index), f"{index / line['data']['events']:.3g}" if index else "",
        f"{index / taken['data']:.0%}" if index else "", f"{index / trees:.0%}" if trees and index else "",
    ]  # fmt: skip


def flink(lines: list[Line]) -> str:
    head = ["query", "subject", "least", "events to Flink", "speed-up", "matches"]
    return table(head, [row for number, query in enumerate(ASKED) for row in _filtered(lines, number, query)])


def _filtered(lines: list[Line], number: int, query: str) -> list[list[str]]:
    of = {line["subject"]: line for line in lines if line["query"] == query}
    whole = _least(of[SCANNED]) if SCANNED in of else None
    rows = []
    for name in (each for each in FLINK if each in of):
        took, kept = _least(of[name]), _kept(lines, number, FLINK[name])
        rows.append([
            query, name, duration(took) if took else f"gave up: {of[name]['gave_up']['why']}",
            f"{kept / of[name]['data']['events']:.2%}" if kept is not None else "",
            ratio(whole, took) if whole and took else "", f"{of[name]['matches']:,}" if took else "",
        ])  # fmt: skip
    return rows


def _least(line: Line) -> float | None:
    """Return the least time of a line; None where it was given up."""
    return line["seconds"]["min"] if line["seconds"] else None


def _kept(lines: list[Line], number: int, method: str | None) -> int | None:
    """Return how many events a method leaves of a printed query."""
    same = (each for each in answered(lines) if (each["query"], each["subject"]) == (PRINTED, method))
    return next((each["report"]["events"][number] for each in same), None)


def ablations(lines: list[Line]) -> str:
    rows = []
    for query, of in ablated(lines).items():
        whole = mean(of["acer"]["report"]["seconds"])
        for name in (each for each in ABLATIONS if each in of):
            took = mean(of[name]["report"]["seconds"])
            rows.append([query, name, duration(took), f"{took / whole - 1:+.0%}" if name != "acer" else ""])
    return table(["queries", "method", "mean", "against acer"], rows)


def costs(lines: list[Line]) -> str:
    rows = [
        [f"Q_{number + 1}", line["subject"], *(duration(each) for each in taken),
         short(line["report"]["events"][number]), f"{line['report']['matches'][number]:,}"]
        for number, line, taken in spent(lines)
    ]  # fmt: skip
    return table(["query", "method", *COSTS, "events to the engine", "matches"], rows)


def duration(seconds: float) -> str:
    """Return seconds, or milliseconds, to three digits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def times(number: float | None) -> str:
    """Return a speed-up."""
    return "" if number is None else f"{number:.3g}×"


def mib(size: int) -> str:
    """Return a number of bytes in MiB."""
    return f"{size / MIB:,.3g} MiB"


if __name__ == "__main__":
    sys.exit(main("acer", tables, draw))
