"""Subjects of the suite `mcep` that take one query at a time, or only route events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from time import perf_counter, process_time
from typing import Any

from mcep.measuring import Timed, Work, hash_counts, read, roles_of
from mcep.singles import Single, headline, matrix

TRIES = 5  # of a query, after a first that compiles
CELLS = 10  # leaves of one ticker

SINGLES: dict[str, Callable[[], list[Single]]] = {"headline": headline, "matrix": matrix}


@dataclass(frozen=True, slots=True)
class Alone:
    """Queries, and for each its matches and the least seconds; None: the engine cannot, or gave up."""

    queries: tuple[Single, ...]
    matches: tuple[int | None, ...]
    seconds: tuple[float | None, ...]


def singly(work: Work) -> Callable[[], Timed]:
    """Run single queries one after the other with one engine, each several times after a first time."""
    table = read(work)
    queries = tuple(SINGLES[work["query"]["workload"]["template"]]())
    tries = work["options"].get("tries", TRIES)

    def call() -> Timed:
        done = [_try(each, table, work, tries) for each in queries]
        times = tuple(seconds for _, seconds in done)
        told = Alone(queries, tuple(matches for matches, _ in done), times)
        return sum(each for each in times if each is not None), None, told

    return call


def _try(query: Single, table: Any, work: Work, tries: int) -> tuple[int | None, float | None]:
    import cerise
    from cerise.errors import PlanError, UnsupportedError

    options = cerise.Options(
        engine=work["options"].get("engine"), threads=1, max_runs=work["options"].get("max_runs", 1_000_000)
    )
    verb = cerise.count if query.counts else cerise.find
    times = []
    try:
        for _ in range(1 + tries):
            started = perf_counter()
            result = verb(table, query.text, **roles_of(work), options=options)
            times.append(perf_counter() - started)
    except (PlanError, UnsupportedError):
        return None, None
    return result if query.counts else len(result), min(times[1:])


# ---- routing


@dataclass(frozen=True, slots=True)
class Routed:
    """How many leaves there are, and how many rows came to all of them."""

    leaves: int
    rows: int


def route(work: Work) -> Callable[[], Timed]:
    """Route events to ten leaves for each ticker, ranges of `diff`: each event fits one of them."""
    from cerise.data.ticks import describe_tickers
    from cerise.kinds import Kind
    from cerise.plan.pushdown import Comparison
    from cerise.plan.router import Router

    table = read(work)
    known = describe_tickers(**work["data"].get("options", {}))
    leaves = [
        (Comparison(("ticker",), Kind.STRING, "=", (name,)), *_cell(cell, spread, Comparison, Kind.FLOAT))
        for name, spread in zip(known.names, known.spreads.tolist(), strict=True)
        for cell in range(CELLS)
    ]
    router = Router(leaves)

    def call() -> Timed:
        started, before = perf_counter(), process_time()
        rows = len(router.route(table).rows)
        return perf_counter() - started, process_time() - before, Routed(len(leaves), rows)

    return call


def _cell(cell: int, spread: float, comparison: Any, kind: Any) -> list[Any]:
    """Return the ends of one of ten ranges of `diff`, which are as likely; the outer ranges have one end."""
    usual = NormalDist(0, spread)
    tests = []
    if cell:
        tests.append(comparison(("diff",), kind, ">=", (usual.inv_cdf(cell / CELLS),)))
    if cell < CELLS - 1:
        tests.append(comparison(("diff",), kind, "<", (usual.inv_cdf((cell + 1) / CELLS),)))
    return tests


# ---- what they tell


def found(result: Alone | Routed) -> tuple[str, Any] | None:
    """Return the number of all matches, and a hash of those of each query; nothing, where some gave up."""
    if isinstance(result, Routed):
        return "count", result.rows
    counts = [each for each in result.matches if each is not None]
    if len(counts) < len(result.matches):
        return None
    return "counts of queries", {"count": sum(counts), "sum": hash_counts(counts)}


def told(result: Alone | Routed) -> dict[str, Any]:
    """Return the time and the matches of each query by its name, and which suit the engine `tree`."""
    if isinstance(result, Routed):
        return {"leaves": result.leaves}
    names = [each.name for each in result.queries]
    return {
        "seconds": dict(zip(names, result.seconds, strict=True)),
        "matches": dict(zip(names, result.matches, strict=True)),
        "suits": [each.name for each in result.queries if each.suits],
    }
