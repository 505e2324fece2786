"""Chooses the engine that runs a query, and says why."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from cerise.engines import nfa, rcep, reference, tree
from cerise.engines.base import Engine, Options
from cerise.engines.estimate import Estimate, is_estimated
from cerise.engines.race import Trial
from cerise.engines.reference.late import why_no_window
from cerise.engines.totals.groups import why_never_final
from cerise.errors import PlanError, UnsupportedError, did_you_mean
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output, Strategy

ENGINES: dict[str, Engine] = {
    **nfa.ENGINES,
    **rcep.ENGINES,
    "tree": tree.ENGINE,
    "reference": reference.ENGINE,
}
TRIED = ("nfa", "nfa-merge", "rcep")
STEADY = ("nfa", "nfa-backtrack", "rcep")  # engines whose runs or events follow from the query and the events
VARIANTS = ("rcep-left", "rcep-right")  # `rcep` chooses between them, and its `explain` says which


def choose(bound: Bound, options: Options) -> Engine:
    """Return the engine that the user named, or the engine that should be fastest."""
    if options.engine is None:
        fit = _cheapest(bound)
        engines = tuple(ENGINES[name] for name in fit.names)
        if len(engines) == 1:
            return engines[0]
        return Estimate(engines) if fit.estimated else Trial(engines)
    if options.engine not in ENGINES:
        raise PlanError(f"unknown engine '{options.engine}'", hint=did_you_mean(options.engine, ENGINES))
    engine = ENGINES[options.engine]
    if (reason := engine.why_not(bound)) is not None:
        able = [
            name for name, each in ENGINES.items() if name not in VARIANTS and each.why_not(bound) is None
        ]
        raise UnsupportedError(
            f"engine '{engine.name}' cannot run this query: {reason}", hint=f"use {' or '.join(able)}"
        )
    return engine


def reasons(bound: Bound, options: Options) -> str:
    """Say why the engine was chosen, and why the others cannot run the query."""
    chosen = choose(bound, options)
    why = "as asked" if options.engine else _cheapest(bound).why
    unfit: dict[str, list[str]] = {}
    explodes = bound.query.strategy is Strategy.ANY  # without it, recomputation has no advantage
    named = [name for name in ENGINES if name not in ("rcep", "tree") or explodes]
    for each in (ENGINES[name] for name in named if name not in VARIANTS):
        if each.name not in chosen.name.split(" or ") and (reason := each.why_not(bound)) is not None:
            unfit.setdefault(reason, []).append(each.name)
    return "; ".join([why, *(f"not {', '.join(names)}: {reason}" for reason, names in unfit.items())])


def explain_refusal(bound: Bound, options: Options, *, unbounded: bool) -> tuple[str, str] | None:
    """Return the reason why a query cannot run over a stream, and a hint; None if it can.

    Args:
        bound: the query.
        options: how to run it.
        unbounded: whether its state may grow for ever (S5.4).
    """
    if bound.within is None and not unbounded:
        return "without WITHIN its state grows for ever", "give it a window, or say unbounded=True"
    if bound.query.totals is not None and (reason := why_never_final(bound)) is not None:
        return reason, "ask for totals PER WINDOW, with WITHIN and SLIDE in units of time"
    if options.engine == "reference":
        return "the engine 'reference' keeps all events", "leave the engine to Cerise"
    why = why_late(bound)
    if why is not None and options.engine in ENGINES:
        return f"the engine '{options.engine}' cannot run it: {why}", "leave the engine to Cerise"
    choose(bound, options)  # refuses an engine that is unknown, or cannot run the query
    if why is not None and (problem := why_no_window(bound)) is not None:
        return (
            f"only the engine 'reference' can run it, late by a window of time, and {problem}: {why}",
            "give it a window of time: WITHIN 10 minutes; or find it in batch",
        )
    return None


@functools.lru_cache(maxsize=64)
def why_late(bound: Bound) -> str | None:
    """Say why only the reference can run a query, so that a stream gives its matches late by one window.

    None: another engine can run it.
    """
    return ENGINES["nfa"].why_not(bound) if _cheapest(bound).names == ("reference",) else None


def name_steady(bound: Bound, options: Options) -> str | None:
    """Return the engine for a stream whose oldest runs are evicted: its runs follow from the events.

    A race depends on time, and whether runs merge depends on the memory of the process: neither may decide
    which runs go. None: only the reference can run the query, late by one window.
    """
    if options.engine is None and why_late(bound) is not None:
        return None
    chosen = choose(bound, options)
    if options.engine is not None or chosen.name in STEADY:
        return chosen.name
    return next((name for name in ("rcep", "nfa") if ENGINES[name].why_not(bound) is None), "tree")


def why_unsteady(options: Options) -> str | None:
    """Return why the engine that the user named cannot evict runs alike in every process; None: it can."""
    if options.engine is None or options.engine in (*STEADY, *VARIANTS):
        return None
    return f"the runs of engine '{options.engine}' depend on the process"


@dataclass(frozen=True, slots=True)
class _Fit:
    """The engines that may be fastest, why, and whether an estimate decides between them, or a race."""

    names: tuple[str, ...]
    why: str
    estimated: bool = False


def _cheapest(bound: Bound) -> _Fit:
    """Return the engines that may be fastest."""
    totals = bound.query.totals is not None
    fits_nfa = ENGINES["nfa"].why_not(bound) is None
    able = bool(totals or bound.kleene or not fits_nfa) and ENGINES["rcep"].why_not(bound) is None
    joins = bound.query.strategy is Strategy.ANY and ENGINES["tree"].why_not(bound) is None
    if not fits_nfa:
        only = "rcep" if able else "tree" if joins else "reference"
        return _Fit((only,), "the only one that can run the query")
    counts = totals and (bound.kleene or not bound.query.counts_only)
    plain = joins and bound.query.output is Output.ALL and is_estimated(bound, ENGINES)
    if able and counts and rcep.why_enumerate(bound) is None:
        merges = bound.query.counts_only and nfa.why_merge(bound) is not None
        names = (("nfa-merge", "tree", "rcep") if plain else ("nfa-merge", "rcep")) if merges else ("rcep",)
        return _Fit(names, "matches are counted without making them", estimated=merges and plain)
    if able and bound.kleene:
        tried = ("tree", *TRIED) if joins else TRIED
        return _Fit(
            tried, "every subset of a window's events may be a run: they are tried on the first events"
        )
    gain = nfa.why_merge(bound)
    name, why = ("nfa", "all runs at once; there is little to merge") if gain is None else ("nfa-merge", gain)
    if plain and not bound.kleene:
        why = f"by an estimate over the first events: {why}, or rare events are joined first"
        return _Fit((name, "tree"), why, estimated=True)
    return _Fit((name,), why)
