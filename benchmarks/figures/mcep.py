"""Fig. 10 to 12 and 14 of 002, and what goes with them: `python benchmarks/figures/mcep.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from statistics import mean
from typing import Any

from lines import Line, main, short, table

BASE = "T1"
TOGETHER = ("T1", "SH", "RE", "best", "descend")
ENGINES = ("tree", "nfa", "nfa-merge", "rcep")
CHOSEN = "chosen"
STYLE = {"SH": "#7f9dbf", "RE": "#3f6d9f", "best": "#e0a030", "descend": "#a51c4b", "SA edge": "#777777"}

Axes = tuple[tuple[str, Any], ...]


def tables(lines: list[Line]) -> str:
    parts = {
        "Many queries: time and candidates, T1 by each": "".join(compare_plans(lines)),
        "One query: each engine, and the choice": compare_engines(lines),
        "Routing": show_routing(lines),
    }
    return "".join(f"## {title}\n\n{text}" for title, text in parts.items() if text)


# ---- workloads


def axes_of(line: Line) -> Axes:
    """Return where a workload stands, without its seed."""
    return tuple((name, value) for name, value in line["axes"].items() if name != "seed")


def compare_plans(lines: list[Line]) -> Iterator[str]:
    """Yield a table for each set of axes: the mean over seeds, the least and the most."""
    planned = [line for line in lines if "seed" in (line["axes"] or {})]
    for names in dict.fromkeys(tuple(name for name, _ in axes_of(line)) for line in planned):
        some = [line for line in planned if tuple(name for name, _ in axes_of(line)) == names]
        head = [*names, "subject", "seeds", "seconds", "T1 ÷ it, time", "T1 ÷ it, candidates", "planning, s"]
        yield table(head, _rows(some))


def _rows(lines: list[Line]) -> Iterator[list[str]]:
    for axes in dict.fromkeys(map(axes_of, lines)):
        here = [line for line in lines if axes_of(line) == axes]
        for subject in dict.fromkeys(line["subject"] for line in here):
            own = [line for line in here if line["subject"] == subject]
            done = [line for line in own if line["seconds"]]
            yield [
                *(str(value) for _, value in axes), subject, f"{len(done)} of {len(own)}",
                spread(line["seconds"]["min"] for line in done), spread(gains(done, here, time_of)),
                spread(gains(done, here, candidates_of)), spread(filter(None, map(planning_of, done))),
            ]  # fmt: skip


def time_of(line: Line) -> float | None:
    return line["seconds"]["min"] if line["seconds"] else None


def candidates_of(line: Line) -> float | None:
    return (line["report"] or {}).get("candidates")


def planning_of(line: Line) -> float | None:
    return (line["report"] or {}).get("planning_seconds")


def gains(own: Iterable[Line], lines: list[Line], figure: Any) -> list[float]:
    """Return how many times a figure of a line the same figure of the fair trivial plan is, seed by seed."""
    base = {line["query"]: figure(line) for line in lines if line["subject"] == BASE}
    both = ((base.get(line["query"]), figure(line)) for line in own)
    return [one / other for one, other in both if one and other]


def spread(numbers: Iterable[float]) -> str:
    """Return the mean of numbers, and the least and the most where they differ."""
    found = list(numbers)
    if not found:
        return ""
    text = short(mean(found))
    return text if len(found) == 1 else f"{text} ({short(min(found))}–{short(max(found))})"


# ---- single queries, routing


def compare_engines(lines: list[Line]) -> str:
    """Compare the engines on each single query; the choice by the best of them."""
    head = ["query", "suits joins", *(f"{name}, ms" for name in (*ENGINES, CHOSEN)), "best of others ÷ tree",
            "best ÷ chosen"]  # fmt: skip
    found = []
    for query in dict.fromkeys(line["query"] for line in lines if line["subject"] == "tree"):
        told = {
            line["subject"]: line["report"] for line in lines if line["query"] == query and line["report"]
        }
        for name in told.get("tree", {}).get("seconds", {}):
            took = {each: report["seconds"].get(name) for each, report in told.items()}
            found.append([name, "yes" if name in told["tree"]["suits"] else "no", *_times(took)])
    return table(head, found)


def _times(took: dict[str, float | None]) -> list[str]:
    others = [took[each] for each in ENGINES[1:] if took.get(each)]
    every = [took[each] for each in ENGINES if took.get(each)]
    own, chosen = took.get("tree"), took.get(CHOSEN)
    return [
        *(f"{1e3 * took[each]:.3g}" if took.get(each) else "" for each in (*ENGINES, CHOSEN)),
        f"{min(others) / own:.3g}" if others and own else "",
        f"{min(every) / chosen:.3g}" if every and chosen else "",
    ]


def show_routing(lines: list[Line]) -> str:
    routed = [line for line in lines if line["subject"] == "router" and line["seconds"]]
    rows = (
        [str(line["report"]["leaves"]), f"{1e9 * line['seconds']['min'] / line['events']:.3g}"]
        for line in routed
    )
    return table(["leaves", "ns per event"], rows)


# ---- the figure: as many panels as there are lines for


PAPER = (21.0, 72.7)  # 002 Fig. 10: the gains of its plans over its trivial plan, from workload to workload
NAMES = {"d": "density of the graph", "classes": "classes of rates", "least": "least size of a pattern",
         "W": "window, minutes", "N": "window, events", "n": "patterns"}  # fmt: skip


def draw(lines: list[Line]) -> Any:
    """Draw how many times as fast as the fair trivial plan each plan is, and how many candidates it saves."""
    import matplotlib.pyplot as plt

    panels = [*_sized(lines), *_searched(lines), *_varied(lines)]
    rows = max(1, -(-len(panels) // 3))
    figure, grid = plt.subplots(rows, 3, figsize=(12, 3.1 * rows), squeeze=False)
    for axes, (title, fill) in zip(grid.flat, panels, strict=False):
        fill(axes)
        axes.set_title(title, fontsize=9)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    return figure


Panel = tuple[str, Callable[[Any], None]]
MEASURES: dict[str, Callable[[Line], float | None]] = {"time": time_of, "candidates": candidates_of}


def _sized(lines: list[Line]) -> Iterator[Panel]:
    """Yield Fig. 10 and 12(a): the size of a workload."""
    sized = [line for line in lines if set(line["axes"] or {}) == {"kind", "n", "seed"}]
    for name, figure in MEASURES.items():
        for kind in dict.fromkeys(line["axes"]["kind"] for line in sized):
            here = [line for line in sized if line["axes"]["kind"] == kind]
            yield (
                f"Fig. 10, 12(a): {kind}, {name}",
                partial(_curves, here, "n", figure, name, kind == "alerts" and name == "time"),
            )


def _searched(lines: list[Line]) -> Iterator[Panel]:
    """Yield Fig. 10 and 11(b): methods of search after ten seconds, and after other times."""
    whole = [line for line in lines if (line["axes"] or {}).get("n") == 100 and line["axes"]["seed"] == 0]
    for kind in ("authors", "alerts"):
        here = [line for line in whole if line["axes"]["kind"] == kind and candidates_of(line)]
        if any(line["subject"].startswith("SA") for line in here):
            yield f"Fig. 10: {kind}, 100 patterns, searches of 10 s", partial(_points, here)
    timed = [line for line in lines if set(line["axes"] or {}) == {"kind", "seed"}]
    if timed:
        yield "Fig. 11(b): alerts, the time of a search", partial(_times_of_search, timed)


def _varied(lines: list[Line]) -> Iterator[Panel]:
    """Yield Fig. 11, 12 and 14: sizes of patterns, windows, density, rates."""
    figures = {
        "least": "11(a), 12(b)",
        "W": "11(c), 12(c)",
        "N": "11(d), 12(d)",
        "d": "14(a)",
        "classes": "14(c)",
    }
    for axis, number in figures.items():
        own = [line for line in lines if axis in (line["axes"] or {}) and line["axes"]["kind"] == "alerts"]
        if own:
            yield (
                f"Fig. {number}: alerts, 100 patterns",
                partial(_curves, own, axis, candidates_of, "candidates", False),
            )


def _curves(
    lines: list[Line], axis: str, figure: Callable[[Line], float | None], name: str, paper: bool, axes: Any
) -> None:
    """Draw the mean gain of each method, and the least and the most over seeds."""
    order = list(dict.fromkeys(line["axes"][axis] for line in lines))
    places = order if isinstance(order[0], (int, float)) else list(range(len(order)))
    for subject, colour in STYLE.items():
        found = {}
        for place, value in zip(places, order, strict=True):
            own = [line for line in lines if line["subject"] == subject and line["axes"][axis] == value]
            some = gains([line for line in own if line["seconds"]], lines, figure)
            if some:
                found[place] = (min(some), mean(some), max(some))
        if found:
            at = sorted(found)
            least, middle, most = zip(*(found[place] for place in at), strict=True)
            axes.plot(at, middle, marker="o", markersize=3, color=colour, label=subject)
            axes.fill_between(at, least, most, color=colour, alpha=0.15, linewidth=0)
    if places != order:
        axes.set_xticks(places, order)
    axes.set(yscale="log", xlabel=NAMES[axis], ylabel=f"T1 ÷ plan, {name}")
    axes.axhline(1, color="#999999", linewidth=0.8)
    if paper:
        axes.axhspan(*PAPER, color="#2a7f3f", alpha=0.12, label="paper, throughput")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=6)


def _points(lines: list[Line], axes: Any) -> None:
    """Draw the candidates of the plan of each method."""
    done = [line for line in lines if line["subject"] not in ("T1prime", "list")]
    names = [line["subject"] for line in done]
    axes.plot([candidates_of(line) for line in done], range(len(done)), "o", color="#3f6d9f")
    axes.set_yticks(range(len(done)), names, fontsize=6)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="candidates")


def _times_of_search(lines: list[Line], axes: Any) -> None:
    """Draw the candidates of plans by the seconds that the search took."""
    for method, colour in (("SA edge", "#777777"), ("TS edge", "#e0a030")):
        own = [line for line in lines if line["subject"].startswith(method) and line["seconds"]]
        points = sorted((planning_of(line), candidates_of(line)) for line in own)
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, color=colour, label=method)
    axes.set(xscale="log", xlabel="seconds of search", ylabel="candidates")
    axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
    axes.legend(fontsize=6)


if __name__ == "__main__":
    sys.exit(main("mcep", tables, draw))
