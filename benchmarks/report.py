"""What the measurements of one run say together: do they agree, how do they compare, and a table of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cerise.errors import CeriseError

Line = dict[str, Any]

UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"))


class Disagreement(CeriseError):
    """Two subjects found different matches for one query on the same events."""


def agree(lines: Sequence[Line]) -> None:
    """Check that all subjects of a query found the same matches: the same number, and where known which.

    Raises:
        Disagreement: they did not.
    """
    known: dict[tuple[str, str, str], Line] = {}
    for line in lines:
        for what in ("count", line["hash_of"]) if line["hash_of"] else ():
            first = known.setdefault((line["query"], line["data"]["name"], what), line)
            if _claim(first, what) != _claim(line, what):
                raise Disagreement(
                    f"{line['query']}: '{first['subject']}' and '{line['subject']}' found different matches: "
                    f"{_shown(first)} against {_shown(line)}",
                    hint="a figure over wrong matches is void: nothing of this run is kept",
                )


def compare(lines: Sequence[Line], baseline: str | None) -> list[Line]:
    """Return the lines with their speed relative to the baseline of the same query in the same run.

    Where the baseline has not run on the same data, as a slow one may not, it is events/s by events/s.
    """
    bases = [line for line in lines if line["subject"] == baseline and line["query"] and line["seconds"]]
    return [line | {"speedup": _speedup(line, bases)} for line in lines]


def save(lines: Sequence[Line], path: Path) -> None:
    """Write one line of JSON per measurement; the whole file is one run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")
    draft.replace(path)


def show(lines: Sequence[Line], console: Console) -> None:
    """Print the measurements of a run as a table."""
    base = next((line["speedup"]["over"] for line in lines if line["speedup"]), None)
    table = Table("query", "subject", "data", header_style="bold")
    for name in ("min", "median", "min CPU", "events/s", f"speed ÷ {base}", "matches", "hash", "peak RSS"):
        if base or "÷" not in name:
            table.add_column(name, justify="right", no_wrap=True)
    sizes = Counter(line["query"] for line in lines)
    for before, line in zip([None, *lines], lines, strict=False):
        if (
            before
            and before["query"] != line["query"]
            and max(sizes[before["query"]], sizes[line["query"]]) > 1
        ):
            table.add_section()
        table.add_row(*_cells(line, before, ratios=bool(base)))
    console.print(table)


def _cells(line: Line, before: Line | None, *, ratios: bool) -> list[str]:
    seconds, data = line["seconds"], line["data"]
    return [
        "" if before and line["query"] == before["query"] else line["query"] or "",
        line["subject"],
        f"{data['name']} {_short(data['events'])}" if data and data.get("events") else "",
        duration(seconds["min"]) if seconds else "gave up",
        duration(seconds["median"]) if seconds else "",
        duration(line["cpu_seconds"]["min"]) if line["cpu_seconds"] else "",
        _short(line["events_per_second"]),
        *([_ratio(line)] if ratios else []),
        _number(line["matches"]),
        (line["hash"] or "")[:8],
        f"{line['peak_rss_bytes'] / 2**20:,.0f} MiB" if line["peak_rss_bytes"] else "",
    ]


def outcome(line: Line) -> str:
    """Return the least time of a line, or that it was given up."""
    return duration(line["seconds"]["min"]) if line["seconds"] else f"gave up: {line['gave_up']['why']}"


def duration(seconds: float) -> str:
    """Return seconds in the unit that suits them, to three digits."""
    size, unit = next(((s, u) for s, u in UNITS if seconds >= s), UNITS[-1])
    return f"{seconds / size:.3g} {unit}" if seconds < 1000 else f"{seconds:,.0f} s"


def _number(matches: int | None) -> str:
    if matches is None:
        return ""
    return f"{matches:,}" if matches < 10**12 else f"{Decimal(matches):.2e}"


def _short(number: float | None) -> str:
    if number is None:
        return ""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _ratio(line: Line) -> str:
    speedup = line["speedup"]
    if not speedup:
        return ""
    other = "" if speedup["events"] == line["events"] else f" (at {_short(speedup['events'])})"
    return f"{speedup['min']:.3g}×{other}"


def _speedup(line: Line, bases: Sequence[Line]) -> Line | None:
    near = [base for base in bases if base["query"] == line["query"]]
    # A subject over no events, such as binding, does other work than the baseline.
    if not near or line["events"] is None or not line["seconds"]:
        return None
    base = next((base for base in near if base["data"]["name"] == line["data"]["name"]), near[0])
    size = line["events"] / base["events"]
    ratio = {which: size * base["seconds"][which] / line["seconds"][which] for which in ("min", "median")}
    return {"over": base["subject"], "events": base["events"]} | ratio


def _claim(line: Line, what: str) -> Any:
    return line["matches"] if what == "count" else line["hash"]


def _shown(line: Line) -> str:
    return f"{line['matches']:,} matches with hash {line['hash']} (of {line['hash_of']})"
