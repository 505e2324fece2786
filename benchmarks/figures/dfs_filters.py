"""Fig. 8 to 12 of 001: `python benchmarks/figures/dfs_filters.py` draws results/dfs_filters.jsonl.

Tables go to results/dfs_filters.md, the figure to figures/dfs_filters.svg; nothing is measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

HOME = Path(__file__).parent
RESULTS = HOME.parent / "results"
Line = dict[str, Any]
PAPER = {  # of push-down and of push-pull: bytes; of push-down: events [DFS Fig. 11, 12]
    "crimes": (0.22, 0.29, 0.23),
    "citibike": (0.08, 0.19, 0.03),
}
WAYS = (
    "pull-all", "push-down", "push-pull", "dual", "dual, windows", "dual, share 0.02", "dual, no join",
    "bound",
)  # fmt: skip


def main() -> int:
    lines = [json.loads(line) for line in (RESULTS / "dfs_filters.jsonl").read_text().splitlines()]
    parts = {part: [line for line in lines if line["part"] == part] for part in ("shares", "rates", "rounds")}
    text = "".join(
        [*show_shares(parts["shares"]), *show_rates(parts["rates"]), *show_rounds(parts["rounds"])]
    )
    (RESULTS / "dfs_filters.md").write_text(f"# dfs_filters\n\n{text}", encoding="utf-8")
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        print("no figure without matplotlib: pip install '.[bench]'", file=sys.stderr)
        return 1
    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "dfs_filters", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
    draw(parts).savefig(HOME / "dfs_filters.svg", metadata={"Date": None})
    return 0


# ---- tables


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def head(*cells: object) -> str:
    return row(*cells) + row(*["---"] * len(cells))


def show_shares(lines: list[Line]) -> Iterator[str]:
    yield "## False shares: measured against theory\n\n"
    yield "Shrinking window filter, share of all time (Fig. 9a; w = 100, d = 4, 12 and 20 bits).\n\n"
    yield head("λ", "measured", "Eq. 5", "off by", "expected", "off by")
    for line in of_figure(lines, "9a"):
        off = [f"{line[each] / line['measured'] - 1:+.1%}" for each in ("theorem", "expected")]
        shares = [f"{line[each]:.5f}" for each in ("measured", "theorem", "expected")]
        yield row(line["rate"], shares[0], shares[1], off[0], shares[2], off[1])
    yield "\nWindow join filter, n_p = 100,000 (Fig. 9b).\n\n" + head("bits", "measured", "Eq. 6", "off by")
    for line in of_figure(lines, "9b"):
        off = f"{line['theorem'] / line['measured'] - 1:+.1%}"
        yield row(line["bits"], f"{line['measured']:.4f}", f"{line['theorem']:.4f}", off)
    yield "\nMean over the rates, by bits of the fingerprint (Fig. 10).\n\n" + head("gaps", 8, 10, 12, 16)
    found = of_figure(lines, "10")
    for gaps in dict.fromkeys(line["gaps"] for line in found):
        alike = [line for line in found if line["gaps"] == gaps]
        yield row(gaps, *(f"{mean_share(alike, bits):.4f}" for bits in (8, 10, 12, 16)))
    yield "\n"


def of_figure(lines: list[Line], figure: str) -> list[Line]:
    return [line for line in lines if line["figure"] == figure]


def mean_share(lines: list[Line], bits: int) -> float:
    return mean(line["measured"] for line in lines if line["fingerprint_bits"] == bits)


def show_rates(lines: list[Line]) -> Iterator[str]:
    yield "## Look-ups in a table of 1 MB\n\n" + head("what", "M per second", "of runs in the same order")
    rates = {line["what"]: line["per_second"] for line in lines}
    for what, rate in rates.items():
        runs = rates[f"runs, {what.split(', ')[1]}"]
        yield row(what, f"{rate / 1e6:.0f}", f"{rate / runs:.2f}")
    yield "\n"


def show_rounds(lines: list[Line]) -> Iterator[str]:
    yield "## Bytes and events that travel (Fig. 11 and 12): totals over the queries of a template\n\n"
    yield head("template", "way", "events of push-down", "bytes of push-down", "of push-pull", "round-trips")
    for template, printed in PAPER.items():
        mine = [line for line in lines if line["template"] == template]
        for way in WAYS:
            found = [line for line in mine if line["way"] == way]
            if not found:
                continue
            events, used, beside = (share(mine, way, base, what) for base, what in SHARES)
            trips = "" if found[0]["trips"] is None else f"{mean(each['trips'] for each in found):.1f}"
            yield row(template, way, events, used, beside, trips)
        used, beside, events = (f"{each:.0%}" for each in printed)
        yield row(template, "the paper's DFS", events, used, beside, "")


SHARES = (("push-down", "pulled"), ("push-down", "bytes"), ("push-pull", "bytes"))


def share(lines: list[Line], way: str, base: str, what: str) -> str:
    """Return the total of a way over all queries, as a share of another's; a cell of a table."""
    mine, other = (
        [line[what] for line in lines if line["way"] == each and line[what] is not None]
        for each in (way, base)
    )
    return f"{sum(mine) / sum(other):.1%}" if mine and other else ""


# ---- the figure


def draw(parts: dict[str, list[Line]]) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
    theory, pairs, *gaps = axes.flat
    lines = of_figure(parts["shares"], "9a")
    rates = [line["rate"] for line in lines]
    for what, style in (("measured", "o"), ("theorem", "-"), ("expected", "--")):
        theory.plot(rates, [line[what] for line in lines], style, label=what)
    theory.set(title="9a: shrinking window filter", xlabel="λ", ylabel="share of all time")
    lines = of_figure(parts["shares"], "9b")
    for what, style in (("measured", "o"), ("theorem", "-")):
        pairs.plot([line["bits"] for line in lines], [line[what] for line in lines], style, label=what)
    pairs.set(title="9b: window join filter", xlabel="bits", ylabel="false share")
    lines = of_figure(parts["shares"], "10")
    for panel, name in zip(gaps, dict.fromkeys(line["gaps"] for line in lines), strict=True):
        for bits in (8, 10, 12, 16):
            found = [line for line in lines if (line["gaps"], line["fingerprint_bits"]) == (name, bits)]
            panel.plot([e["rate"] for e in found], [e["measured"] for e in found], "o", label=f"l_f = {bits}")
            panel.plot([e["rate"] for e in found], [e["theorem"] for e in found], "-", alpha=0.3, color="k")
        panel.set(title=f"8, 10: {name} gaps (lines: Eq. 5)", xlabel="λ")
    for panel in axes.flat:
        panel.legend(fontsize=7)
    return figure


if __name__ == "__main__":
    sys.exit(main())
