"""Subjects of the suite `mcep` that count a workload, together or query by query.

Matches are counted, as most workloads have more of them than memory holds. The time of a plan is that of
parsing, binding, routing and matching, without the search for the plan, as in 002; the search is told apart.
Everything runs in one thread.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from time import perf_counter, process_time
from typing import Any

from mcep.expected import Facts, count_candidates
from mcep.patterns import Wanted, draw, facts_of
from mcep.shapes import Pattern

Work = dict[str, Any]
Timed = tuple[float, float | None, Any]

SEARCH = ("method", "moves", "prefix_only", "seconds", "neighbours", "cost")  # of a PlanSearch
FIGURES = ("candidates", "joined rows")
PLANNING = "seconds planning"
HEAVIEST = 5  # patterns that are always in a sample: they take most of the time
FIRST, FEW = 1_000, 3  # events and queries that load the kernels
NUMBERS = ("patterns", "least", "most", "window", "seed")


@dataclass(frozen=True, slots=True)
class Answered:
    """The answers to a workload.

    Attributes:
        counts: the matches of each query that was asked, by its number.
        asked: how many queries there are.
        figures: what was counted on the way, and the seconds of the search.
        facts: of the workload.
    """

    counts: Mapping[int, int]
    asked: int
    figures: Mapping[str, Any]
    facts: Mapping[str, float] = field(default_factory=dict)


def wanted_of(work: Work) -> Wanted:
    """Return the workload that a query of the suite describes; `$axis` makes text of its numbers."""
    given = dict(work["query"]["workload"])
    given["kind"] = given.pop("template")
    given |= {name: int(given[name]) for name in NUMBERS if name in given}
    given |= {"density": float(given.get("density", 0)), "counted": bool(given.get("counted"))}
    return Wanted(**given)


def describe(patterns: Sequence[Pattern], facts: Facts) -> dict[str, float]:
    """Return the density of a workload's graph by types, and how far rates within a pattern are apart.

    The latter is 002's measure of sensitivity: the difference of the rates, of 45 at most.
    """
    types = [set(each.types) for each in patterns]
    near = [sum(len(one & other) > 1 for other in types) - 1 for one in types]
    apart = [
        max(map(facts.rates.__getitem__, each)) - min(map(facts.rates.__getitem__, each)) for each in types
    ]
    return {
        "density": mean(near) / max(len(types) - 1, 1),
        "rates_apart": mean(apart) / 45,
        "predicates": mean(len(each.predicates) for each in patterns),
    }


# ---- workloads


def together(work: Work) -> Callable[[], Timed]:
    """Count the matches of all queries of a workload at once, by a plan of a given method."""
    from cerise import Options
    from cerise.plan.multi.plan_search import PlanSearch

    wanted, table = wanted_of(work), read(work)
    patterns = draw(wanted)
    facts = describe(patterns, facts_of(wanted.kind))
    given = {name: value for name, value in work["options"].items() if name in SEARCH}
    plan, rows = PlanSearch(**given, seed=wanted.seed), work["options"].get("max_runs", 1_000_000)
    options = Options(engine="tree", threads=1, plan=plan, max_runs=rows)
    texts = [each.text for each in patterns]
    _load_kernels(table, texts, work)
    _limit_memory(work["options"].get("memory"))

    def call() -> Timed:
        started = perf_counter()
        counts, figures = _count(table, texts, work, options)
        took = perf_counter() - started - figures.get(PLANNING, 0.0)
        return took, None, Answered(dict(enumerate(counts)), len(texts), figures, facts)

    return call


def apart(work: Work) -> Callable[[], Timed]:
    """Count the matches of each query of a workload alone, one query after the other.

    Of a sample, the heaviest patterns are always asked, and others stand for those that are not.
    """
    wanted, table = wanted_of(work), read(work)
    patterns = draw(wanted)
    facts = facts_of(wanted.kind)
    chosen = _sample(patterns, facts, work["options"].get("sample"))
    ask = ALONE[work["options"]["engine"]]
    _load_kernels(table, [each.text for each in patterns], work)
    _limit_memory(work["options"].get("memory"))

    def call() -> Timed:
        answers = {number: ask(table, patterns[number].text, work) for number in sorted(chosen)}
        told = describe(patterns, facts) | {"asked": len(chosen)}
        total = sum(chosen[number] * each[2] for number, each in answers.items())
        busy = sum(chosen[number] * each[3] for number, each in answers.items())
        figures = _add(each[1] for each in answers.values())
        return (
            total,
            busy,
            Answered({n: each[0] for n, each in answers.items()}, len(patterns), figures, told),
        )

    return call


def _limit_memory(gib: float | None) -> None:
    """Let this process have so much memory, so that a subject gives up before the machine does."""
    if gib is not None:
        most = int(gib * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _sample(patterns: Sequence[Pattern], facts: Facts, size: int | None) -> dict[int, float]:
    """Return numbers of patterns, each with how many patterns it stands for."""
    if size is None or size >= len(patterns):
        return dict.fromkeys(range(len(patterns)), 1.0)
    order = sorted(range(len(patterns)), key=lambda number: -count_candidates(patterns[number], facts))
    heavy, rest = order[:HEAVIEST], order[HEAVIEST:]
    some = random.Random(0).sample(rest, size - HEAVIEST)
    return dict.fromkeys(heavy, 1.0) | dict.fromkeys(some, len(rest) / len(some))


def _alone_by_tree(table: Any, text: str, work: Work) -> tuple[int, Mapping[str, Any], float, float]:
    from cerise import Options
    from cerise.plan.multi.plan_search import PlanSearch

    rows = work["options"].get("max_runs", 1_000_000)
    options = Options(engine="tree", threads=1, plan=PlanSearch(method="trivial"), max_runs=rows)
    started, before = perf_counter(), process_time()
    counts, figures = _count(table, [text], work, options)
    return counts[0], figures, perf_counter() - started, process_time() - before


def _alone_as_before(table: Any, text: str, work: Work) -> tuple[int, Mapping[str, Any], float, float]:
    """Count as a list of queries did before there were plans: each query has its own engine and code."""
    import cerise
    from cerise.engines import nfa, rcep

    bound = _bind(text, work)
    merges = nfa.why_merge(bound) is not None
    name = "nfa-merge" if merges and nfa.ENGINES["nfa-merge"].why_not(bound) is None else "nfa"
    name = name if nfa.ENGINES[name].why_not(bound) is None else next(iter(rcep.ENGINES))
    options = cerise.Options(engine=name, threads=1, max_runs=work["options"].get("max_runs", 1_000_000))
    started, before = perf_counter(), process_time()
    found = _giving_up(lambda: cerise.count(table, text, **roles_of(work), options=options))
    return found, {}, perf_counter() - started, process_time() - before


ALONE = {"tree": _alone_by_tree, "before": _alone_as_before}


def found(answered: Answered) -> tuple[str, Any] | None:
    """Return the number of all matches, and a hash of those of each; nothing, where some were left out."""
    if len(answered.counts) < answered.asked:
        return None
    counts = [answered.counts[number] for number in range(answered.asked)]
    return "counts of queries", {"count": sum(counts), "sum": hash_counts(counts)}


def told(answered: Answered) -> dict[str, Any]:
    """Return the matches of each query, candidates and rows, and facts about the workload."""
    figures = {name: answered.figures[name] for name in FIGURES if name in answered.figures}
    return {
        "queries": answered.asked,
        "counts": {str(number): count for number, count in answered.counts.items()},
        **figures,
        "planning_seconds": answered.figures.get(PLANNING),
        **answered.facts,
    }


def _count(
    table: Any, texts: Sequence[str], work: Work, options: Any
) -> tuple[list[int], Mapping[str, float]]:
    """Return the matches of each query, and the figures of the run."""
    from cerise.run import find as flow
    from cerise.sources import How, Roles, ask, count_query

    queries = {f"p{number}": count_query(text) for number, text in enumerate(texts)}
    given = roles_of(work)
    roles = Roles(given["time"], given.get("type"), (), (), None)
    request = ask(table, queries, roles, How(options))
    answer = _giving_up(
        lambda: flow.find(request.source, request.questions, request.options, request.runner, noted=True)
    )
    rows = answer.matches.to_pydict()
    by_name = dict(zip(rows["query"], map(int, rows["count"]), strict=True))
    return [by_name.get(name, 0) for name in queries], answer.report.figures


def _load_kernels(table: Any, texts: Sequence[str], work: Work) -> None:
    """Answer a few queries over a few events: the code of all plans is the same."""
    from cerise import Options
    from cerise.plan.multi.plan_search import PlanSearch

    options = Options(engine="tree", threads=1, plan=PlanSearch(method="trivial"))
    _count(table.slice(0, FIRST), texts[:FEW], work, options)


def _add(notes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for note in notes:
        for name in (*FIGURES, PLANNING):
            if name in note:
                total[name] = total.get(name, 0) + note[name]
    return total


# ---- what subjects share


def read(work: Work) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(work["path"]).combine_chunks()


def roles_of(work: Work) -> dict[str, Any]:
    from binding import roles

    return roles(work)


def _bind(text: str, work: Work) -> Any:
    from binding import bind

    return bind(work | {"query": work["query"] | {"text": text}})


def _giving_up(call: Callable[[], Any]) -> Any:
    from enumerating import giving_up

    return giving_up(call)


def hash_counts(counts: Sequence[int]) -> int:
    text = json.dumps(list(counts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
