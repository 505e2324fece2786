"""What all figures share: the lines of a results file, how numbers are written, a table, a caption."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent
RESULTS = HOME.parent / "results"

Line = dict[str, Any]


def main(suite: str, tables: Callable[[list[Line]], str], draw: Callable[[list[Line]], Any]) -> int:
    """Write SUITE.md beside the results of a suite, and SUITE.svg beside the figures."""
    parser = argparse.ArgumentParser(description=f"Draw {suite}.jsonl; nothing is measured.")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where SUITE.jsonl is")
    parser.add_argument("--out", type=Path, default=HOME, metavar="DIR", help="where SUITE.svg goes")
    args = parser.parse_args()
    lines = read(args.results / f"{suite}.jsonl")
    text = f"# {suite}\n\n{caption(lines)}\n\n{tables(lines)}"
    (args.results / f"{suite}.md").write_text(text, encoding="utf-8")
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        print("no figure without matplotlib: pip install '.[bench]'", file=sys.stderr)
        return 1
    mpl.use("svg")
    mpl.rcParams |= {
        "svg.hashsalt": suite,
        "font.size": 9,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.alpha": 0.3,
    }
    figure = draw(lines)
    figure.suptitle(caption(lines), fontsize=8)
    figure.savefig(args.out / f"{suite}.svg", metadata={"Date": None})
    return 0


def read(path: Path) -> list[Line]:
    """Return the measurements of one run."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def caption(lines: Sequence[Line]) -> str:
    """Say where and when the lines were measured."""
    first = lines[0]
    on = first["machine"]
    size = "smoke sizes, " if first["smoke"] else ""
    return (
        f"{on['cpu']}, {on['cores']} cores, {on['memory_gib']:g} GiB, {on['system']}; "
        f"{size}commit {first['commit']}, {first['date'][:10]}"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, or nothing where there are no rows."""
    body = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n{body}\n" if body else ""


def short(number: float | None) -> str:
    """Return a number to three digits, in thousands or millions where it is large."""
    if number is None:
        return ""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def seconds(line: Line) -> str:
    """Return the least and the median time of a line."""
    both = [line["seconds"][which] for which in ("min", "median")]
    return " / ".join(f"{each:.3g} s" if each >= 1 else f"{each * 1000:.3g} ms" for each in both)


def ratio(one: float | None, other: float | None) -> str:
    """Return how many times one is the other."""
    return f"{one / other:.3g}×" if one and other else ""


def least_decade(numbers: Iterable[float]) -> float:
    """Return the power of ten at or below all numbers: where the bars of a logarithmic scale stand."""
    return 10.0 ** math.floor(math.log10(min(numbers)))
