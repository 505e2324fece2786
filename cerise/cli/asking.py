"""Queries of `cerise store find`: asked here or on Spark, answered with matches or their number."""

from __future__ import annotations

import time as clock
from dataclasses import dataclass
from typing import Any

import typer

from cerise.api import Found, counting, parse
from cerise.cli import output as out
from cerise.cli.look import View
from cerise.cli.terminal import working
from cerise.given import is_sql
from cerise.indexed import Store


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, the values of its parameters, and how it is to be answered."""

    text: str
    params: dict[str, Any]
    engine: str | None = None
    version: int | None = None
    spark: bool = False
    count: bool = False

    @property
    def how(self) -> dict[str, Any]:
        """The arguments of the methods of a store."""
        return {"params": self.params or None, "engine": self.engine, "version": self.version}


def explained(store: Store, asked: Asked) -> str:
    """Say how a query would be run."""
    return store.explain(asked.text, **asked.how)


def answer(store: Store, asked: Asked, wanted: out.Wanted, *, report: bool) -> None:
    """Run a query, show or write its matches or their number, and say how much that was."""
    sql = is_sql(asked.text)
    query: Any = counting(asked.text) if asked.count and not sql else asked.text
    started = clock.perf_counter()
    with working("matching on Spark" if asked.spark else "matching"):
        found = _found(store, query, asked)
    elapsed = clock.perf_counter() - started
    if asked.count:
        typer.echo(len(found.matches) if sql else found.matches.column(0)[0].as_py())
    else:
        _deliver(store, asked, found, wanted, sql=sql)
        typer.echo(out.summary(found.matches, _where(found), elapsed, wanted), err=True)
    if report and found.report is not None:
        typer.echo(found.report, err=True)


def _found(store: Store, query: Any, asked: Asked) -> Found:
    if not asked.spark:
        return store.run_local(query, **asked.how)
    from cerise.spark.session import session

    session()
    found = store.run(query, **asked.how)
    return Found(found.matches.toArrow(), found.report)


def _deliver(store: Store, asked: Asked, found: Found, wanted: out.Wanted, *, sql: bool) -> None:
    if sql:
        out.deliver(found.matches, wanted, None)
        return
    settings = store.settings
    view = View.of(parse(asked.text), settings.time, settings.type)
    out.deliver(out.in_order(found.matches), wanted, view)


def _where(found: Found) -> str:
    """Say how many events there are, and how many of them reached the engine."""
    figures: dict[str, float] = getattr(found.report, "figures", {})
    if "events kept" not in figures:
        return ""
    return f" in {figures['events']:,} events, {figures['events kept']:,} of them kept"
