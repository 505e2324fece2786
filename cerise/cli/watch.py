"""`cerise watch`: its options, and the run that they ask for."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from cerise.cli import inputs
from cerise.cli.options import (
    Columns,
    Delimiter,
    Engine,
    Key,
    MaybeTime,
    NoHeader,
    Order,
    Param,
    Type,
    Written,
)
from cerise.errors import BindError, CeriseError

SHORT = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
FORMATS = ("json", "csv", "parquet")


def watch(  # noqa: PLR0913  a command's options are its parameters
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A folder to which CSV, JSON lines or Parquet files are added; - for JSON lines on standard "
            "input; kafka://host:9092/topic for a topic with JSON.",
        ),
    ],
    queries: Annotated[
        list[str] | None, typer.Argument(metavar="QUERY…", help="The queries: their text, or files with it.")
    ] = None,
    *,
    delay: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How late events may be: 10 seconds; 5, if times are integers; or 0."
        ),
    ],
    query: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="A query with a name: its text, or a file.")
    ] = None,
    time: MaybeTime = None,
    kind: Type = None,
    key: Key = None,
    order: Order = None,
    param: Param = None,
    idle: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="After which silence the clock moves the watermark: 1 minute."),
    ] = None,
    ahead: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How far in the future events may lie; later ones are set aside."),
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="A folder, or a .jsonl or .csv file, for events set aside."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where the state is saved; a later run goes on from there."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="A .jsonl or .csv file for matches, or a folder with a file a batch."
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="Of a folder's files: json, csv or parquet."),
    ] = None,
    poll: Annotated[str, typer.Option(metavar="TIME", help="How often to look for files: 1s, 500ms.")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Take the events that are there, and end.")] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="At the end, give the matches that the end of events makes final.")
    ] = False,
    replace: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A query that has changed: drop its saved state.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="The columns, if the first events do not say them: 'ts timestamp, id long'.",
        ),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Settings of Kafka's client, in lines such as security.protocol=SSL."
        ),
    ] = None,
    latest: Annotated[
        bool, typer.Option("--latest", help="Leave out the events that a topic has at the start.")
    ] = False,
    unbounded: Annotated[
        bool, typer.Option("--unbounded", help="Allow queries without WITHIN, whose state may grow for ever.")
    ] = False,
    on_error: Annotated[
        str,
        typer.Option(metavar="error|null", help="Whether a value that cannot be computed ends the run."),
    ] = "error",
    limit_state: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The most bytes that the state may have: '1 GB'.")
    ] = None,
    limit_held: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many events may wait for the watermark.")
    ] = None,
    limit_runs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many runs, events or rows may be kept.")
    ] = None,
    limit_runs_per_partition: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many of them a query may keep of a partition.")
    ] = None,
    on_limit: Annotated[
        str, typer.Option(metavar="WHAT", help="At a limit: error, or evict the oldest and count them.")
    ] = "error",
    engine: Engine = None,
    timestamp_format: Written = None,
    no_header: NoHeader = False,
    columns: Columns = None,
    delimiter: Delimiter = None,
) -> None:
    """Watch a folder, standard input or a topic of Kafka for the matches of queries; no Java is needed.

    \b
    Examples:
      cerise watch incoming query.sase --time ts --type kind --delay '10 seconds'
      cerise watch incoming --query fraud=fraud.sase --query dip=dip.sql --time ts --type kind \\
          --delay '10 seconds' --state fraud.state --to alerts
      cerise watch kafka://localhost:9092/ticks query.sase --time ts --type kind --delay '10 seconds' \\
          --state ticks.state --to alerts.jsonl
      tail -f log.jsonl | cerise watch - query.sase --time ts --type kind --delay '5 seconds' | jq .

    A match is written once no later event can change it. Ctrl-C ends the run after the batch at hand.
    """
    from cerise.cli.watch_loop import Following, Manner
    from cerise.cli.watch_sinks import StandardOutput, choose_sink
    from cerise.cli.watch_sources import EventSource, FolderSource, LinesSource, TopicSource, read_settings
    from cerise.cli.watch_state import StateFile
    from cerise.engines.base import Options
    from cerise.files.topics.topic import Topic, is_topic
    from cerise.streaming.limits.state_limits import StateLimits
    from cerise.watcher import Watcher

    if flush and state is not None:
        raise typer.BadParameter("--flush ends the stream, and --state lets it go on: give one of them")
    if form not in (None, *FORMATS):
        raise typer.BadParameter(f"--format is one of {', '.join(FORMATS)}; not '{form}'")
    if latest and not is_topic(path):
        raise typer.BadParameter(f"--latest needs a topic of Kafka, kafka://host:9092/topic; not {path}")
    named = _read_queries(queries or (), query or ())
    layout = inputs.InputFiles(
        path, time or "", kind, inputs.names(key or ()), inputs.names(order or ()),
        inputs.names([columns or ""]), not no_header, delimiter, timestamp_format,
    )  # fmt: skip
    how: dict[str, Any] = {
        "time": time, "type": kind, "key": layout.key, "order": layout.order,
        "params": inputs.params(param or ()) or None, "delay": inputs.value_of(delay),
        "idle": None if idle is None else inputs.value_of(idle),
        "ahead": None if ahead is None else inputs.value_of(ahead), "unbounded": unbounded,
        "on_error": on_error, "options": Options(engine=engine),
        "limits": StateLimits(limit_state, limit_held, limit_runs, limit_runs_per_partition, on_limit),
    }  # fmt: skip
    seconds = parse_seconds(poll)
    source: EventSource
    if path == "-":
        source = LinesSource(layout, seconds)
    elif is_topic(path):
        source = TopicSource(Topic.of(path, read_settings(kafka)), layout, latest)
    else:
        source = FolderSource(Path(path), layout, 0.0 if once else seconds)
    sinks = {"to": StandardOutput() if to is None else choose_sink(to, form)}
    if late is not None:
        sinks["late"] = choose_sink(late, None)
    run = Following(
        source, lambda found: Watcher(named, found, **how), sinks, StateFile(state),
        Manner(seconds, once, flush, idle is not None, tuple(replace or ())), _read_schema(schema),
    )  # fmt: skip
    run.run()
    run.summarize()


def _read_queries(texts: Any, given: Any) -> Any:
    """Return queries by name; of one query without a name, its text."""
    named = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise CeriseError(f"query {word!r} has no name", hint="write --query name=file")
        named[name.strip()] = inputs.query_text(text.strip())
    plain = [inputs.query_text(each) for each in texts]
    if not named and not plain:
        raise typer.BadParameter("give a query: its text, a file with it, or --query NAME=FILE")
    if not named:
        return plain[0] if len(plain) == 1 else plain
    for number, text in enumerate(plain, 1):
        if str(number) in named:
            raise BindError(f"two queries are named '{number}'", hint="give all of them with --query")
        named[str(number)] = text
    return named


def parse_seconds(text: str) -> float:
    """Return a short time in seconds.

    >>> parse_seconds("500ms")
    0.5
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*", text)
    if found is not None:
        return float(found[1]) * SHORT[found[2] or "s"]
    value = inputs.value_of(text.strip())
    if not isinstance(value, dt.timedelta):
        raise typer.BadParameter(f"--poll is a time such as 1s or 500ms; not '{text}'")
    return value.total_seconds()


def _read_schema(text: str | None) -> Any:
    if text is None:
        return None
    from cerise.cli.store_actions import columns_of

    return columns_of(text)
