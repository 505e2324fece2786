"""The panels of `acer.py`: speed-ups as boxes, costs, times and sizes as bars."""

from __future__ import annotations

from statistics import mean
from typing import Any

from acer_lines import ABLATIONS, COSTS, MIB, ablated, answered, appended, speedups, spent
from lines import Line

STYLE = {  # the methods of Fig. 9 and 14, and their colours
    "acer": "#a51c4b",
    "interval scan": "#3f6d9f",
    "interval scan, greedy": "#5f8fc0",
    "naive index": "#7f9dbf",
    "type index": "#c9c9c9",
}
SHADES = {"filter": "#e0a030", "read": "#3f6d9f", "match": "#a51c4b"}
WITHOUT = dict(zip(ABLATIONS, ("#a51c4b", "#e0a030", "#3f6d9f", "#888888"), strict=True))


def draw(lines: list[Line]) -> Any:
    """Draw speed-ups as boxes from the least to the most, and bars for all else."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(2, 3, figsize=(14, 8), layout="constrained")
    of = [line for line in answered(lines) if line["subject"] in STYLE and speedups(line, lines)]
    synthetic = [line for line in of if line["data"]["generator"] == "acer_synthetic"]
    boxes(
        panels[0, 0],
        [line for line in of if line not in synthetic],
        lines,
        "Fig. 9: speed-up, real-like data",
    )
    boxes(panels[0, 1], synthetic, lines, "Fig. 14: speed-up, synthetic data")
    _draw_costs(panels[0, 2], lines)
    held = appended(lines)
    _draw_bars(panels[1, 0], held, "Fig. 10: appending", "s", lambda line: [line["seconds"]["min"]])
    _draw_bars(panels[1, 1], held, "Fig. 11: rows and index (dark)", "MiB", _both_sizes)
    _draw_ablations(panels[1, 2], lines)
    return figure


def boxes(panel: Any, of: list[Line], lines: list[Line], title: str) -> None:
    """Draw the speed-ups of each line."""
    panel.set_title(title, fontsize=9)
    panel.set_xscale("log")
    panel.axvline(1, color="#888888", lw=1)
    if not of:
        return
    names = [f"{line['query']} · {line['subject']}" for line in of]
    drawn = panel.boxplot(
        [speedups(line, lines) for line in of], orientation="horizontal", whis=(0, 100), patch_artist=True
    )
    for box, line in zip(drawn["boxes"], of, strict=True):
        box.set_facecolor(STYLE[line["subject"]])
    panel.set_yticks(range(1, len(of) + 1), names, fontsize=6)
    panel.invert_yaxis()


def _draw_costs(panel: Any, lines: list[Line]) -> None:
    panel.set_title("Fig. 4: where the time goes", fontsize=9)
    panel.set_xlabel("ms")
    names: list[str] = []
    for place, (number, line, taken) in enumerate(spent(lines)):
        names.append(f"Q_{number + 1} · {line['subject']}")
        before = 0.0
        for cost, seconds in zip(COSTS, taken, strict=True):
            panel.barh(place, 1000 * seconds, left=before, color=SHADES[cost], label=None if place else cost)
            before += 1000 * seconds
    panel.set_yticks(range(len(names)), names, fontsize=6)
    panel.invert_yaxis()
    if names:
        panel.legend(fontsize=7)


def _draw_bars(panel: Any, held: dict[str, dict[str, Line]], title: str, unit: str, parts: Any) -> None:
    panel.set_title(title, fontsize=9)
    panel.set_xlabel(unit)
    drawn = [(data, line) for data, of in held.items() for line in of.values()]
    for place, (_, line) in enumerate(drawn):
        before = 0.0
        for number, part in enumerate(parts(line)):
            panel.barh(place, part, left=before, color=("#7f9dbf", "#a51c4b")[number])
            before += part
    names = [f"{data} · {line['subject'].removeprefix('append, ')}" for data, line in drawn]
    panel.set_yticks(range(len(names)), names, fontsize=6)
    panel.invert_yaxis()


def _both_sizes(line: Line) -> list[float]:
    return [line["report"]["bytes"][part] / MIB for part in ("data", "index")]


def _draw_ablations(panel: Any, lines: list[Line]) -> None:
    panel.set_title("Fig. 13: mean latency without a part", fontsize=9)
    panel.set_ylabel("ms")
    for group, (_, of) in enumerate(ablated(lines).items()):
        for number, name in enumerate(each for each in ABLATIONS if each in of):
            took = 1000 * mean(of[name]["report"]["seconds"])
            panel.bar(group + 0.2 * number, took, 0.18, color=WITHOUT[name], label=None if group else name)
    queries = list(ablated(lines))
    panel.set_xticks([each + 0.3 for each in range(len(queries))], queries)
    if queries:
        panel.legend(fontsize=7)
