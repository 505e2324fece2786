"""Figure 8 (a) to (g) and Tables 2 and 3 of SASE+ (004 §6): `python benchmarks/figures/sase.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from lines import Line, least_decade, main, ratio, short, table

ORDER = [f"{p}{s}" for p in ("p1", "p2", "p3", "p3*", "p3max", "p3avg") for s in ("s2", "s3")]
SHOWN = ORDER[:8]
COLOURS = {"basic": "#a51c4b", "backtrack": "#7f9dbf", "merge": "#e0a030"}
MARKS = dict(zip(ORDER, "osD^v<>phXP*", strict=True))


def pick(lines: Iterable[Line], *, out: str = "all", p: str = "0.7", **axes: Any) -> dict[Any, Line]:
    """Return the lines of one experiment by (query, subject, W), such as ("p1s2", "basic", 500)."""
    wanted = {"out": out, "p": p} | axes
    found = {
        (line["axes"]["P"] + line["axes"]["S"], line["subject"], line["axes"]["W"]): line
        for line in lines
        if line["axes"] and all(line["axes"].get(axis, "all") == name for axis, name in wanted.items())
    }
    return dict(sorted(found.items(), key=lambda item: (ORDER.index(item[0][0]), item[0][2])))


# ---- tables


def tables(lines: list[Line]) -> str:
    """Return all experiments as Markdown."""
    parts = {
        "All results, W = 500, p = 0.7 (Expt 1, 3, 5; Table 2)": algorithms(pick(lines, W=500)),
        "All results, W = 500, p = 0.55": algorithms(pick(lines, W=500, p="0.55")),
        "Windows (Expt 2)": windows(pick(lines)),
        "Non-overlapping results (Expt 4)": algorithms(pick(lines, out="non-overlapping")),
        "Without construction (Expt 6; Table 3)": merging(pick(lines, out="count")),
    }
    return "".join(f"## {title}\n\n{text}" for title, text in parts.items() if text)


def algorithms(of: dict[Any, Line]) -> str:
    """Compare the algorithms, query by query; the profile is that of the basic one."""
    head = ["query", "basic, events/s", "backtrack", "basic ÷ backtrack", "merge", "merge ÷ basic",
            "matches", "match length", "runs per event", "matching cost"]  # fmt: skip
    rows = []
    for (query, subject, window), line in of.items():
        if subject == "basic":
            basic, backtrack, merge = (speed(of, query, each, window) for each in COLOURS)
            compared = [short(backtrack), ratio(basic, backtrack), short(merge), ratio(merge, basic)]
            rows.append([query, short(basic), *compared, f"{line['matches']:,}", *_profile(line)])
    return table(head, rows)


def windows(of: dict[Any, Line]) -> str:
    """Show cost against output complexity, as the window grows."""
    head = ["query", "W", "events/s", "matches", "output complexity", "ns per event of a match"]
    rows = [
        [
            query, str(window), short(line["events_per_second"]), f"{line['matches']:,}",
            short(complexity(line)), short(line["seconds"]["min"] / complexity(line) * 1e9),
        ]
        for (query, subject, window), line in of.items()
        if subject == "basic" and complexity(line)
    ]  # fmt: skip
    return table(head, rows)


def merging(of: dict[Any, Line]) -> str:
    """Show what merging gains, and how many runs it merges."""
    head = ["query", "W", "basic, events/s", "merge, events/s", "gain", "runs merged", "buffer updates"]
    rows = []
    for (query, subject, window), line in of.items():
        if subject == "merge":
            basic, merge = speed(of, query, "basic", window), speed(of, query, "merge", window)
            told = line["report"]
            merged = (
                f"{100 * told['merged_runs'] / told['opened_runs']:.1f} %" if told.get("opened_runs") else ""
            )
            updates = short(told.get("buffer_updates"))
            rows.append(
                [query, str(window), short(basic), short(merge), ratio(merge, basic), merged, updates]
            )
    return table(head, rows)


def speed(of: dict[Any, Line], *key: Any) -> float | None:
    """Return the events/s of a line, if it was measured."""
    return of[key]["events_per_second"] if key in of else None


def complexity(line: Line) -> int:
    """Return the sum of the lengths of all matches."""
    return line["report"].get("output_complexity", 0)


def _profile(line: Line) -> list[str]:
    told = line["report"]
    spent = told.get("matching_seconds", 0) + told.get("construction_seconds", 0)
    return [
        short(complexity(line) / line["matches"]) if line["matches"] else "",
        short(told.get("run_steps", 0) / told["events"]),
        f"{100 * told['matching_seconds'] / spent:.0f} %" if spent else "",
    ]


# ---- panels


def draw(lines: list[Line]) -> Any:
    """Draw one panel for each part of Figure 8."""
    from matplotlib import pyplot as plt

    all_500, all_p07 = pick(lines, W=500), pick(lines)
    figure, panels = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
    bars(panels[0, 0], all_500, ["basic"], "(a) strategies and predicates, W = 500")
    curves(panels[0, 1], all_p07, "(b) windows")
    costs(panels[0, 2], all_p07, "(c) cost against output")
    bars(panels[0, 3], all_500, ["basic", "backtrack"], "(d) all results, W = 500")
    bars(panels[1, 0], pick(lines, out="non-overlapping"), ["basic", "backtrack"], "(e) non-overlapping")
    bars(panels[1, 1], all_500, ["basic", "merge"], "(f) merging, W = 500")
    gains(panels[1, 2], pick(lines, out="count"), "(g) gain of merging, without construction")
    panels[1, 3].set_axis_off()
    return figure


def bars(panel: Any, of: dict[Any, Line], subjects: list[str], title: str) -> None:
    """Draw the events/s of the paper's queries that all the subjects have run."""
    speeds = {key[:2]: line["events_per_second"] for key, line in of.items()}
    queries = [query for query in SHOWN if all((query, subject) in speeds for subject in subjects)]
    for number, subject in enumerate(subjects):
        places = [at + 0.4 * (number - (len(subjects) - 1) / 2) for at in range(len(queries))]
        heights = [speeds[query, subject] for query in queries]
        panel.bar(places, heights, 0.38, color=COLOURS[subject], label=subject)
    panel.set_xticks(range(len(queries)), queries)
    if queries:
        panel.set_ylim(least_decade(speeds.values()), 3 * max(speeds.values()))
    _finish(panel, title, "", "events/s", log=True)


def curves(panel: Any, of: dict[Any, Line], title: str) -> None:
    """Draw the events/s as the window grows."""
    for query, series in _series(of, "basic").items():
        _curve(panel, query, [(window, line["events_per_second"]) for window, line in series])
    _finish(panel, title, "W", "events/s", log=True)


def costs(panel: Any, of: dict[Any, Line], title: str) -> None:
    """Draw the seconds against the output complexity, as the window grows: a line, if the cost is linear."""
    for query, series in _series(of, "basic").items():
        _curve(panel, query, [(complexity(line), line["seconds"]["min"]) for _, line in series])
    _finish(panel, title, "output complexity", "s")


def gains(panel: Any, of: dict[Any, Line], title: str) -> None:
    """Draw how many times the throughput merging has, as the window grows."""
    for query, series in _series(of, "merge").items():
        before = {window: speed(of, query, "basic", window) for window, _ in series}
        _curve(panel, query, [(w, line["events_per_second"] / before[w]) for w, line in series if before[w]])
    _finish(panel, title, "W", "merge ÷ basic")


def _curve(panel: Any, query: str, points: list[tuple[float, float]]) -> None:
    if len(points) > 1:
        panel.plot(*zip(*points, strict=True), f"-{MARKS[query]}", label=query)


def _series(of: dict[Any, Line], wanted: str) -> dict[str, list[tuple[int, Line]]]:
    series: dict[str, list[tuple[int, Line]]] = {}
    for (query, subject, window), line in of.items():
        if subject == wanted:
            series.setdefault(query, []).append((window, line))
    return series


def _finish(panel: Any, title: str, x: str, y: str, *, log: bool = False) -> None:
    panel.set_title(title, fontsize=9)
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    if log:
        panel.set_yscale("log")
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=7)


if __name__ == "__main__":
    sys.exit(main("sase", tables, draw))
