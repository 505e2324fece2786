"""`cerise watched`: the state of a stream at rest, its damage, and the reasons why a query has not fired."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cerise.cli import inputs
from cerise.cli.options import Key, MaybeTime, Order, Param, Type
from cerise.cli.terminal import WRONG, complain
from cerise.errors import CeriseError, StoreError, UnsupportedError

if TYPE_CHECKING:
    from cerise.streaming.state.state_events import SavedBucket


def show_state(  # noqa: PLR0913  a command's options are its parameters
    path: Annotated[
        str,
        typer.Argument(
            metavar="STATE",
            help="The folder of cerise.watch(…, state=…), or the file of cerise watch --state.",
        ),
    ],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Read all files, and name those that are damaged.")
    ] = False,
    why: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="A query: say why events that the journals hold start no match."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of that query in the stream, if there are several."),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The id of the streaming query, if the folder has several."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many events to explain.")] = 20,
    time: MaybeTime = None,
    kind: Type = None,
    key: Key = None,
    order: Order = None,
    param: Param = None,
) -> None:
    """Show the saved state of a stream: its watermark, events held and set aside, matches, versions.

    \b
    Examples:
      cerise watched lake/state
      cerise watched lake/state --check
      cerise watched lake/state --why fraud.sase --type kind
      cerise watched fraud.state

    The exit code is 1 if the state is damaged.
    """
    if why is not None:
        roles: dict[str, Any] = {
            "time": time, "type": kind, "key": inputs.names(key or ()), "order": inputs.names(order or ()),
            "params": inputs.params(param or ()) or None,
        }  # fmt: skip
        typer.echo(_explain_misses(path, inputs.query_text(why), name, stream, limit, roles))
        return
    show = _show_file if Path(path).is_file() else _show_folder
    damaged = False
    try:
        for line in show(path, stream):
            typer.echo(line)
    except StoreError as error:
        if not check:
            raise
        damaged = complain(error)
    if check:
        damaged |= _check(path)
    if damaged:
        raise typer.Exit(WRONG)


def _check(path: str) -> bool:
    """Print the faults of all files of a state; return whether there are any."""
    from cerise.streaming.state.state_check import check

    if Path(path).is_file():  # reading it has checked its checksum
        return False
    found = check(path)
    for each in found:
        typer.echo(f"{each.place}: {each.what}")
    if not found:
        typer.echo("all files are sound")
    return bool(found)


def _show_file(path: str, stream: str | None) -> Iterator[str]:
    from cerise.cli.watch_sources import is_of_topic
    from cerise.cli.watch_state import read_state
    from cerise.streaming.reports.figures import StreamFigures, fact_lines, say_count

    del stream
    data = Path(path).read_bytes()
    saved = read_state(data, path)
    batches, files = saved.progress.batch, len(saved.progress.files)
    kind = "partition" if is_of_topic(saved.progress.files) else "file"
    read = f"{say_count(batches, 'batch')}, {say_count(files, kind)} read"
    yield from fact_lines([("state of", f"cerise watch: {read}")])
    figures = {**saved.progress.facts, "state_bytes": len(data)}
    yield from StreamFigures([figures], clock.time_ns() // 1_000).lines()


def _show_folder(path: str, stream: str | None) -> Iterator[str]:
    from cerise.streaming.reports.figures import StreamFigures, fact_lines
    from cerise.streaming.state.state_events import open_buckets

    _reject_checkpoint(path)
    streams = open_buckets(path)
    for number, (each, buckets) in enumerate(streams.items()):
        if stream not in (None, each):
            continue
        yield from [""] if number else []
        yield from fact_lines([("state of", f"streaming query {each}")])
        yield from StreamFigures([one.figures for one in buckets], clock.time_ns() // 1_000).lines()
        yield from fact_lines([("versions", [_say_versions(one) for one in buckets])])


def _say_versions(bucket: SavedBucket) -> str:
    kept = bucket.manifest.version - bucket.manifest.first
    before = sum(last + 1 - first for first, last, *_ in bucket.manifest.segments)
    return (
        f"{bucket.number}: after batch {bucket.batch:,}, kept since {bucket.first:,}; "
        f"{kept + before:,} journal entries, {before:,} of them before the snapshot"
    )


def _reject_checkpoint(path: str) -> None:
    if (Path(path) / "offsets").is_dir() and (Path(path) / "metadata").exists():
        raise UnsupportedError(
            f"{path} is a checkpoint: Spark's own state store keeps the state inside it",
            hint="ask the running query, cerise.watched(query); or keep the state in files: state='path'",
        )


def _explain_misses(
    path: str, query: str, name: str | None, stream: str | None, limit: int, roles: dict[str, Any]
) -> str:
    """Say why events of the journals start no match."""
    from cerise import api
    from cerise.sources import is_sql
    from cerise.streaming.state.state_events import open_buckets, read_events

    if Path(path).is_file():
        raise CeriseError(
            f"{path} keeps no journal of events",
            hint="cerise.explain_misses over the watched files says why a query does not fire",
        )
    events = read_events(path, name, stream=stream)
    if is_sql(query):
        return str(api.explain_misses(events, query, limit=limit))
    if roles["time"] is None:
        buckets = next(iter(open_buckets(path).values()))
        roles = {**roles, "time": buckets[0].manifest.facts["time"]}
    return str(api.explain_misses(events, query, limit=limit, **roles))
