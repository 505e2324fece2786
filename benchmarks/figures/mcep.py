"""Fig. 10 to 12 and 14 of 002, and what goes with them: `python benchmarks/figures/mcep.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
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


# ---- the figure


def draw(lines: list[Line]) -> Any:
    """Draw the gain over the fair trivial plan by the size of a workload, in time and in candidates."""
    import matplotlib.pyplot as plt

    sized = [line for line in lines if set(line["axes"] or {}) == {"kind", "n", "seed"}]
    kinds = list(dict.fromkeys(line["axes"]["kind"] for line in sized))
    figure, grid = plt.subplots(2, max(len(kinds), 1), figsize=(4 * max(len(kinds), 1), 6), squeeze=False)
    for column, kind in enumerate(kinds):
        here = [line for line in sized if line["axes"]["kind"] == kind]
        for row, (name, figure_of) in enumerate({"time": time_of, "candidates": candidates_of}.items()):
            _panel(grid[row][column], here, figure_of)
            grid[row][column].set(
                title=kind if not row else "", ylabel=f"T1 ÷ plan, {name}", xlabel="patterns"
            )
    grid[0][0].legend()
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    return figure


def _panel(axes: Any, lines: list[Line], figure_of: Any) -> None:
    for subject, colour in STYLE.items():
        sizes = sorted({line["axes"]["n"] for line in lines if line["subject"] == subject})
        means = []
        for size in sizes:
            own = [line for line in lines if line["subject"] == subject and line["axes"]["n"] == size]
            found = gains([line for line in own if line["seconds"]], lines, figure_of)
            means.append(mean(found) if found else None)
        kept = [(size, each) for size, each in zip(sizes, means, strict=True) if each]
        if kept:
            axes.plot(*zip(*kept, strict=True), marker="o", color=colour, label=subject)
    axes.set(yscale="log")
    axes.axhline(1, color="#999999", linewidth=0.8)


if __name__ == "__main__":
    sys.exit(main("mcep", tables, draw))
