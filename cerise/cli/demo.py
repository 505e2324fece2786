"""`cerise demo`: two queries over generated stock bars, on Spark, with the Python that runs them."""

from __future__ import annotations

import sys
import tempfile
import time as clock
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import typer

from cerise import api, data
from cerise.cli.match_view import MatchView, console, look
from cerise.cli.output import in_order
from cerise.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 5
Status = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Example:
    """A query to show, with its meaning in words."""

    title: str
    query: str
    type: str | None = None

    def python(self) -> str:
        roles = 'time="date"' + (f', type="{self.type}"' if self.type else "")
        return f'import cerise\ncerise.find("bars", query, {roles}, spark=True).show()'


EXAMPLES = (
    Example(
        "Microsoft rises and Google falls, in turns, within 12 minutes",
        """\
PATTERN SEQ(MSFT v1, GOOG v2, MSFT v3, GOOG v4)
WHERE 326 <= v1.open <= 334 AND 120 <= v2.open <= 130
  AND v3.open >= v1.open * 1.003 AND v4.open <= v2.open * 0.997
WITHIN 12 minutes""",
        type="ticker",
    ),
    Example(
        "Any ticker: heavy trading, three or more rising bars in a row, then below where it began",
        """\
PATTERN SEQ(a, b+, c)
USE strict_contiguity
PARTITION BY ticker
WHERE a.volume > 100000 AND b[1].close > a.close AND b[i].close > b[i-1].close
  AND b.LEN >= 3 AND c.close < a.close
WITHIN 15 minutes
RETURN a.close AS before, b.LEN AS rises, max(b.close) AS peak, c.close AS after""",
    ),
)

NEXT = """\
Next:
  cerise generate nasdaq bars --events 500000
  cerise run 'PATTERN SEQ(AAPL a, AAPL b) WHERE b.close > a.close * 1.005 WITHIN 5 minutes' \\
      --events bars --time date --type ticker
  cerise run --help"""


def demo(events: int, show_status: Status) -> None:
    """Generate bars, and find the matches of each example on Spark."""
    started = clock.perf_counter()
    with tempfile.TemporaryDirectory(prefix="cerise-demo-") as folder:
        path = Path(folder, "bars")
        with show_status(f"generating {events:,} events"):
            data.write("nasdaq", path, events)
        typer.echo(f"{events:,} one-minute bars of 2,000 stocks, as Parquet: `cerise generate nasdaq bars`\n")
        with show_status("starting Spark"):
            _wake_workers(session())
        for example in EXAMPLES:
            _show(example, path, show_status)
    typer.echo(f"All of it took {clock.perf_counter() - started:.0f} s, with the start of Spark.\n\n{NEXT}")


def _wake_workers(spark: SparkSession) -> None:
    """Run a job that does nothing, so that the first query does not wait for the JVM and Python workers."""
    spark.range(1).mapInArrow(lambda batches: batches, "id long").toArrow()


def _show(example: Example, bars: Path, show_status: Status) -> None:
    typer.echo(f"{example.title}:\n\n{indent(example.query, '    ')}\n")
    typer.echo(f"{indent(example.python(), '    >>> ')}\n")
    started = clock.perf_counter()
    with show_status("matching on Spark"):
        found = api.find(bars, example.query, time="date", type=example.type, spark=True).toArrow()
    elapsed = clock.perf_counter() - started
    view = MatchView.of(api.parse(example.query), "date", example.type)
    console(sys.stdout).print(look(in_order(found), view, SHOWN))
    more = f"; the first {SHOWN} are shown" if len(found) > SHOWN else ""
    typer.echo(f"{len(found)} matches in {elapsed:.1f} s{more}.\n")
