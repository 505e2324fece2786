"""`cerise store` and `cerise index`: event stores, and indexes beside existing tables."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cerise.cli import inputs
from cerise.cli.options import (
    ROWS,
    At,
    Columns,
    Delimiter,
    Engine,
    Form,
    From,
    Index,
    Key,
    Limit,
    NoHeader,
    On,
    Order,
    Output,
    Param,
    Query,
    StorePath,
    Time,
    Type,
    Version,
    Written,
)
from cerise.cli.terminal import WRONG, show_progress, show_status

if TYPE_CHECKING:
    from cerise.event_store import Store

MENDING = "index files that are missing or damaged are written again by cerise store compact, or cerise index"
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Event stores: events with an index.")


@app.command()
def create(  # noqa: PLR0913  a command's options are its parameters
    path: StorePath,
    *,
    time: Time,
    events: From = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="The columns, instead of --from: 'kind string, ts long'."),
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Append nothing: take the columns only.")] = False,
    kind: Type = None,
    key: Key = None,
    order: Order = None,
    index: Index = None,
    timestamp_format: Written = None,
    no_header: NoHeader = False,
    columns: Columns = None,
    delimiter: Delimiter = None,
) -> None:
    """Make an event store, with the events of a file or without any.

    \b
    Examples:
      cerise store create bars --from bars.parquet --time date --type ticker --index open,volume
      cerise store create bars --schema 'ticker string, date timestamp, open double' --time date --type ticker
    """
    from cerise.cli.store_actions import append_events, columns_in, columns_of
    from cerise.event_store import Store

    if (events is None) == (schema is None):
        raise typer.BadParameter("give the columns: either --from FILE or --schema COLUMNS")
    given: Any = None
    if events is not None:
        source = inputs.InputFiles(
            events, time, columns=inputs.names([columns or ""]), header=not no_header, delimiter=delimiter,
            written=timestamp_format,
        )  # fmt: skip
        with show_status(f"reading {events}"):
            given = source.for_store()
    held = columns_in(given, str(events)) if schema is None else columns_of(schema)
    store = Store.create(
        path, schema=held, time=time, type=kind, key=inputs.names(key or ()),
        order=inputs.names(order or ()), index=inputs.names(index or ()),
    )  # fmt: skip
    typer.echo(f"created {path}")
    if given is not None and not empty:
        append_events(store, given, str(events))


@app.command()
def append(
    path: StorePath,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES…",
            help="The events: CSV, JSON lines or Parquet files, directories of such files, Delta tables.",
        ),
    ],
    *,
    timestamp_format: Written = None,
    no_header: NoHeader = False,
    columns: Columns = None,
    delimiter: Delimiter = None,
) -> None:
    """Append events, each file as one version: completely, or not at all.

    \b
    Examples:
      cerise store append bars monday.parquet tuesday.csv.gz
      cerise store append bars wednesday.csv --timestamp-format '%d.%m.%Y %H:%M'
    """
    from cerise.cli.store_actions import append_events

    store = _open(path, None)
    known, time = store.schema, store.settings.time
    written = timestamp_format or ("integer" if str(known.field(time).type).startswith("int") else None)
    names = inputs.names([columns or ""]) or (tuple(known.names) if no_header else ())
    for file in files:
        source = inputs.InputFiles(
            file, time, columns=names, header=not no_header, delimiter=delimiter, written=written,
            types=tuple(known),
        )  # fmt: skip
        with show_status(f"reading {file}"):
            given = source.for_store()
        append_events(store, given, file)


@app.command()
def info(path: StorePath, *, version: Version = None, at: At = None) -> None:
    """Print the figures of a store: events, files, sizes, columns, and index files that cannot be used."""
    from cerise.cli.store_actions import show_info

    store = _open(path, at)
    typer.echo(show_info(store.info(version), store.schema))


@app.command()
def find(  # noqa: PLR0913  a command's options are its parameters
    path: StorePath,
    query: Query,
    *,
    param: Param = None,
    form: Form = None,
    output: Output = None,
    limit_rows: Limit = ROWS,
    count: Annotated[bool, typer.Option("--count", help="Only say how many matches there are.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how it would run, without running it.")
    ] = False,
    report: Annotated[bool, typer.Option("--report", help="Print the figures of each step.")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on a local Spark session, on all cores.")
    ] = False,
    engine: Engine = None,
    version: Version = None,
    at: At = None,
) -> None:
    """Find the matches of a query, SASE+ or MATCH_RECOGNIZE, by the index of a store.

    \b
    Examples:
      cerise store find bars query.sase
      cerise store find bars query.sase --param limit=500 --output matches.parquet
      cerise store find bars 'PATTERN SEQ(MSFT a, GOOG b) WHERE a.open > 330 WITHIN 5 minutes' --count
    """
    from cerise.cli import output as out
    from cerise.cli import store_actions

    target = out.OutputTarget.of(form and form.value, output, limit_rows)
    store_query = store_actions.StoreQuery(
        inputs.query_text(query), inputs.params(param or ()), engine, version, spark=spark, count=count
    )
    store = _open(path, at)
    if explain:
        typer.echo(store_actions.explain(store, store_query))
        return
    store_actions.answer(store, store_query, target, report=report)


@app.command()
def candidates(  # noqa: PLR0913  a command's options are its parameters
    path: StorePath,
    query: Query,
    *,
    param: Param = None,
    form: Form = None,
    output: Output = None,
    limit_rows: Limit = ROWS,
    version: Version = None,
    at: At = None,
) -> None:
    """Write the events that can be part of a match, in stream order, for another engine to search.

    \b
    Example:
      cerise store candidates bars query.sase -o few.parquet
    """
    from cerise.cli import output as out

    target = out.OutputTarget.of(form and form.value, output, limit_rows)
    text, values = inputs.query_text(query), inputs.params(param or ())
    store = _open(path, at)
    started = clock.perf_counter()
    with show_status("looking events up"):
        found = store.candidates(text, params=values or None, version=version)
    elapsed = clock.perf_counter() - started
    out.deliver(found, target, None)
    events = store.info(version).events
    typer.echo(f"{len(found):,} of {events:,} events can be part of a match, {elapsed:.2f} s", err=True)


@app.command()
def compact(path: StorePath) -> None:
    """Rewrite fresh, small and overlapping files as few large ones in stream order; mend index files."""
    from cerise.cli.store_actions import say_count

    store = _open(path, None)
    before = store.info()
    with show_progress("compacting") as progress:
        compacted = store.compact(progress)
    version = compacted.version
    after = store.info()
    mended, sealed = len(before.broken) - len(after.broken), before.fresh_events - after.fresh_events
    done = [f"{say_count(before.files, 'file')} became {after.files:,}"] if version != before.version else []
    done += [f"{say_count(sealed, 'fresh event')} indexed"] if sealed > 0 else []
    done += [f"{say_count(mended, 'index file')} written again"] if mended > 0 else []
    left = compacted.left
    nothing = "nothing was done" if left else "nothing to be done"
    typer.echo(f"{', '.join(done) or nothing}: version {version}")
    if left:
        typer.echo(
            f"{say_count(len(left), 'file')} left: others were writing meanwhile; compact again later",
            err=True,
        )


@app.command()
def vacuum(
    path: StorePath,
    *,
    hours: Annotated[
        float,
        typer.Option(min=0, max=168, metavar="N", help="How long unneeded files are kept."),
    ] = 168,
) -> None:
    """Remove files that no version of the last hours has; by default, of the last week.

    With --hours 0, no other process may be writing, or reading an older version.
    """
    from cerise.cli.store_actions import say_count

    removed = _open(path, None).vacuum(hours)
    typer.echo(f"{say_count(len(removed), 'file')} removed")


@app.command()
def verify(path: StorePath, *, at: At = None) -> None:
    """Check every file and checksum, and the index against the data; exit with 1 if anything is wrong."""
    from cerise.cli.store_actions import say_count

    store = _open(path, at)
    with show_progress("verifying") as progress:
        found = store.verify(progress)
    for each in found:
        typer.echo(f"{each.place}: {each.what}")
    if found:
        typer.echo(f"{say_count(len(found), 'thing')} wrong; {MENDING}", err=True)
        raise typer.Exit(WRONG)
    typer.echo("all is sound")


def index(  # noqa: PLR0913  a command's options are its parameters
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A Delta table, a Parquet file or a directory of them.")
    ],
    *,
    time: Time,
    kind: Type = None,
    on: On = None,
    key: Key = None,
    order: Order = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="DIR", help="Where the index goes, if not beside the data.")
    ] = None,
) -> None:
    """Index a Delta table or Parquet files in place; a second call indexes only new files.

    The data is not touched. `cerise store find TABLE QUERY` then answers by the index.

    \b
    Example:
      cerise index lake/bars --time date --type ticker --on open,volume
    """
    from cerise import event_store
    from cerise.cli.store_actions import say_count

    with show_progress(f"indexing {table}") as progress:
        done = event_store.index(
            table, time=time, type=kind, on=inputs.names(on or ()), key=inputs.names(key or ()),
            order=inputs.names(order or ()), at=at, progress=progress,
        )  # fmt: skip
    counts = [f"{say_count(done.built, 'file')} indexed"] if done.built or not done.kept else []
    counts += [f"{say_count(done.kept, 'file')} indexed before"] if done.kept else []
    counts += [f"{say_count(done.dropped, 'old index file')} removed"] if done.dropped else []
    typer.echo(", ".join(counts))


# ---- shared by the commands


def _open(path: str, at: str | None) -> Store:
    from cerise.event_store import Store

    return Store(path, index=at)
