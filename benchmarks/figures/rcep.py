"""Figure 4 of 003, and what goes with it, as tables and charts: `python benchmarks/figures/rcep.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from lines import Line, main, ratio, seconds, short, table

STYLE = {  # of each subject: colour and mark
    "rcep": ("#a51c4b", "o"),
    "nfa": ("#7f9dbf", "s"),
    "nfa-merge": ("#3f6d9f", "D"),
    "chosen": ("#e0a030", "x"),
    "flink": ("#888888", "^"),
}
KEEPS = ("nfa", "nfa-merge")  # the engines that keep runs
PEERS = ("flink",)
SETS = {  # how the names of their queries begin, what they are, and those with another constant
    "stock": ("Query 1", "few events can be c"),
    "cards": ("big after small", "few are that big"),
}
WINDOW, COUNT = "window", "count"
MIB = 2**20


# ---- what lines say


def selectivity(line: Line, lines: Iterable[Line]) -> float | None:
    """Return the matches per event of a line, of which others know the matches where it gave up."""
    same = (each for each in lines if _place(each) == _place(line))
    known = next((each["matches"] for each in same if each["matches"] is not None), None)
    return None if known is None else known / line["events"]


def memory(line: Line) -> int | None:
    """Return the memory that the call took, above what the process held before it."""
    seen = line["rss"]
    most = max(seen["peak"] or 0, seen["sampled"] or 0) if seen else 0
    return max(most - seen["before"], 0) if most else None


def runs(line: Line) -> int | None:
    """Return how many runs there have been: each event that one takes makes another."""
    told = line["report"] or {}
    return told.get("buffer_updates") if line["subject"] in KEEPS else None


def state(line: Line) -> int | None:
    """Return the size of the largest saved state that was seen."""
    return (line["report"] or {}).get("state_bytes")


def _place(line: Line) -> tuple[str, str]:
    return line["query"], line["data"]["name"]


def _kind(line: Line) -> str:
    return str(line["query"]).split()[0]


# ---- tables


def tables(lines: list[Line]) -> str:
    """Return what was measured, how engines compare, memory by window, and counts."""
    parts = {
        "Time and memory": measured(lines),
        "Recomputation against runs": compared(lines),
        "Windows": windows(lines),
        "Without enumeration": counts(lines),
    }
    return "".join(f"## {title}\n\n{text}" for title, text in parts.items() if text)


def measured(lines: list[Line]) -> str:
    head = ["query", "subject", "events", "matches per event", "least / median", "events/s", "÷ nfa",
            "RSS above before", "largest state"]  # fmt: skip
    rows = [
        [
            line["query"],
            line["subject"],
            f"{line['events']:,}",
            short(selectivity(line, lines)),
            took(line),
            short(line["events_per_second"]),
            f"{line['speedup']['min']:.3g}×{_at(line)}" if line["speedup"] else "",
            size(memory(line)),
            size(state(line)),
        ]
        for line in lines
        if _kind(line) != COUNT
    ]
    return table(head, rows)


def compared(lines: list[Line]) -> str:
    """Compare recomputation with the better engine that keeps runs, and the choice with the better of all."""
    head = ["query", "matches per event", "runs per match", "rcep ÷ best of runs, time", "state",
            "chosen ÷ best"]  # fmt: skip
    rows = []
    for place in dict.fromkeys(_place(line) for line in lines if line["subject"] == "rcep"):
        of = {line["subject"]: line for line in lines if _place(line) == place}
        kept = [of[name] for name in KEEPS if name in of]
        if not kept:
            continue
        made = next((runs(line) for line in kept if runs(line)), None)
        matches = of["rcep"]["matches"]
        each = made / matches if made and matches else None
        rows.append([
            place[0], short(selectivity(of["rcep"], lines)), short(each), gain(of["rcep"], kept),
            _states(of["rcep"], kept), _choice(of),
        ])  # fmt: skip
    return table(head, rows)


def gain(line: Line, others: list[Line]) -> str:
    """Return how many times as fast as the best of others a line is: at least, where all of these gave up."""
    done = [each["seconds"]["min"] for each in others if each["seconds"]]
    if not line["seconds"]:
        return ""
    if done:
        return ratio(min(done), line["seconds"]["min"])
    waited = [each["gave_up"]["seconds"] for each in others if each["gave_up"]["seconds"]]
    return f"> {ratio(min(waited), line['seconds']['min'])}" if waited else "∞"


def windows(lines: list[Line]) -> str:
    head = ["W", "subject", "events/s", "RSS above before", "largest state", "bytes per event of the window"]
    rows = [
        [
            f"{line['axes']['W']:,}", line["subject"], short(line["events_per_second"]), size(memory(line)),
            size(state(line)), short(held / line["axes"]["W"] if (held := state(line)) else None),
        ]
        for subject in STYLE
        for line in lines
        if _kind(line) == WINDOW and line["subject"] == subject
    ]  # fmt: skip
    return table(head, rows)


def counts(lines: list[Line]) -> str:
    rows = [
        [line["subject"], took(line), "" if line["matches"] is None else f"{Decimal(line['matches']):.3e}"]
        for line in lines
        if _kind(line) == COUNT
    ]
    return table(["10,000 candidates and 1000 triggers", "least / median", "matches"], rows)


def took(line: Line) -> str:
    """Return the times of a line, or why there are none."""
    return seconds(line) if line["seconds"] else f"gave up: {line['gave_up']['why']}"


def size(number: int | None) -> str:
    """Return a number of bytes to three digits."""
    if number is None:
        return ""
    return f"{number / MIB:,.3g} MiB" if number >= MIB else f"{number / 1024:,.3g} KiB"


def _states(line: Line, others: list[Line]) -> str:
    held = [state(each) for each in others if state(each)]
    return ratio(min(held, default=None), state(line))


def _choice(of: dict[str, Line]) -> str:
    speeds = [line["events_per_second"] for name, line in of.items() if name != "chosen" and line["seconds"]]
    if "chosen" not in of or not of["chosen"]["seconds"]:
        return ""
    return ratio(of["chosen"]["events_per_second"], max(speeds, default=None))


def _at(line: Line) -> str:
    return "" if line["speedup"]["events"] == line["events"] else f" (at {line['speedup']['events']:,})"


# ---- panels


def draw(lines: list[Line]) -> Any:
    """Draw memory and throughput against matches per event, for both data sets, and against the window.

    Hollow marks are of engines that gave up: they took at least so much memory, and were at most so fast.
    """
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    figure, panels = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    for column, (kind, (title, rare)) in enumerate(SETS.items()):
        of = [(selectivity(line, lines), line) for line in shown(lines, kind)]
        points(panels[0, column], [(x, _mib(memory(line)), line) for x, line in of])
        points(panels[1, column], [(x, speed(line), line) for x, line in of])
        named = f"{title} (dashed: {rare})"
        _finish(panels[0, column], f"({'ab'[column]}) memory: {named}", "matches / events", "RSS, MiB")
        _finish(panels[1, column], f"({'cd'[column]}) throughput: {named}", "matches / events", "events/s")
    of = [(line["axes"]["W"], line) for line in shown(lines, WINDOW)]
    points(panels[0, 2], [(x, _mib(state(line)), line) for x, line in of])
    points(panels[1, 2], [(x, speed(line), line) for x, line in of])
    _finish(panels[0, 2], "(e) memory: windows", "W", "largest saved state, MiB")
    _finish(panels[1, 2], "(f) throughput: windows", "W", "events/s")
    marks = [Line2D([], [], color=colour, marker=mark, label=name) for name, (colour, mark) in STYLE.items()]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))
    return figure


def shown(lines: Iterable[Line], kind: str) -> list[Line]:
    """Return the lines of one kind of query: of our engines those on all events, of a peer all."""
    of = [line for line in lines if _kind(line) == kind]
    most = max((line["events"] for line in of), default=0)
    return [line for line in of if line["events"] == most or line["subject"] in PEERS]


def points(panel: Any, drawn: list[tuple[float | None, float | None, Line]]) -> None:
    """Draw curves for each subject, one for each constant predicate, and hollow marks where it gave up."""
    for subject, (colour, mark) in STYLE.items():
        own = [(x, y, of) for x, y, of in drawn if of["subject"] == subject and x and y]
        for dashes in ("-", "--"):
            done = sorted((x, y) for x, y, of in own if of["seconds"] and _dashes(of) == dashes)
            if done:
                panel.plot(*zip(*done, strict=True), f"{dashes}{mark}", ms=5, lw=1, color=colour)
        given_up = [(x, y) for x, y, of in own if not of["seconds"]]
        if given_up:
            panel.plot(*zip(*given_up, strict=True), mark, ms=6, mec=colour, mfc="none")


def _dashes(line: Line) -> str:
    return "--" if {"rare", "huge"} & set(map(str, line["axes"].values())) else "-"


def speed(line: Line) -> float | None:
    """Return the events/s of a line: at most, where its time was over."""
    if line["seconds"]:
        return float(line["events_per_second"])
    waited = line["gave_up"]["seconds"]
    return line["events"] / waited if waited else None


def _mib(held: int | None) -> float | None:
    return None if held is None else max(held, 1024) / MIB  # a logarithmic scale has no 0


def _finish(panel: Any, title: str, x: str, y: str) -> None:
    panel.set_title(title, fontsize=9)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel(x)
    panel.set_ylabel(y)


if __name__ == "__main__":
    sys.exit(main("rcep", tables, draw))
