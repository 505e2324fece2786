"""The commands. Each command imports the heavy modules that it needs, so that `cerise --help` is fast."""

from __future__ import annotations

import sys
import time as clock
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cerise.cli import inputs, store, watch, watch_report
from cerise.cli.options import (
    ROWS,
    Columns,
    Delimiter,
    Dialect,
    DialectName,
    Engine,
    Events,
    Form,
    Key,
    Limit,
    MaybeEvents,
    MaybeTime,
    NoHeader,
    Order,
    Output,
    Param,
    Query,
    Statement,
    Tables,
    Time,
    Times,
    Type,
    Written,
)
from cerise.cli.terminal import Commands, errors, show_status
from cerise.errors import BindError, CeriseError, StoreError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback(invoke_without_command=True)
def cerise(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Find sequences of events in files and tables.

    \b
    Examples:
      cerise demo
      cerise run 'PATTERN SEQ(MSFT a, GOOG b) WHERE b.open < a.open WITHIN 5 minutes' \\
          --events trades.csv --time date --type ticker
      cerise check query.sase
      cerise sql --table trades.csv
      cerise store create bars --from bars.parquet --time date --type ticker --index open
      cerise watch incoming query.sase --time ts --type kind --delay '10 seconds'

    Every command has its own --help. Exit codes: 0 fine, 1 the query or the events are wrong,
    2 the command is used wrongly, 130 interrupted.
    """
    if version:
        typer.echo(f"cerise {import_module('cerise').__version__}")
        raise typer.Exit


@app.command()
def run(  # noqa: PLR0913  a command's options are its parameters
    query: Query,
    *,
    events: Events,
    time: Time,
    kind: Type = None,
    key: Key = None,
    order: Order = None,
    param: Param = None,
    form: Form = None,
    output: Output = None,
    limit_rows: Limit = ROWS,
    engine: Engine = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on a local Spark session, on all cores.")
    ] = False,
    timestamp_format: Written = None,
    no_header: NoHeader = False,
    columns: Columns = None,
    delimiter: Delimiter = None,
) -> None:
    """Find the matches of a query in events.

    \b
    Examples:
      cerise run query.sase --events trades.parquet --time ts --key account
      cerise run query.sase --events trades/ --time ts --type kind --param limit=500
      cerise run query.sase --events bars.csv.gz --columns ticker,ts,open --time ts --type ticker
      cerise run query.sase --events trades.csv --time ts --output matches.parquet
      cerise run query.sase --events trades.csv --time ts --format json | jq .first_time
    """
    from cerise.cli import output as out
    from cerise.cli.match_view import MatchView
    from cerise.engines.base import Options
    from cerise.lang import sase

    source = inputs.InputFiles(
        events, time, kind, inputs.names(key or ()), inputs.names(order or ()),
        inputs.names([columns or ""]), not no_header, delimiter, timestamp_format,
    )  # fmt: skip
    target = out.OutputTarget.of(form and form.value, output, limit_rows)
    values = inputs.params(param or ())
    parsed = sase.parse(inputs.sase_text(query))
    started = clock.perf_counter()
    with show_status(f"reading {events}"):
        found = source.on_spark() if spark else source.table()
    with show_status("matching"):
        matches = out.in_order(_matches(found, parsed, source, params=values, options=Options(engine=engine)))
    elapsed = clock.perf_counter() - started
    out.deliver(matches, target, MatchView.of(parsed, time, kind))
    typer.echo(out.summary(matches, out.of_events(found), elapsed, target), err=True)


@app.command()
def check(  # noqa: PLR0913  a command's options are its parameters
    query: Query,
    *,
    events: MaybeEvents = None,
    time: MaybeTime = None,
    kind: Type = None,
    key: Key = None,
    param: Param = None,
    timestamp_format: Written = None,
    no_header: NoHeader = False,
    columns: Columns = None,
    delimiter: Delimiter = None,
) -> None:
    """Check a query, and whether it fits events.

    \b
    Examples:
      cerise check query.sase
      cerise check query.sase --events trades.csv --time ts --type kind
    """
    from cerise.lang import sase

    parsed = sase.parse(inputs.sase_text(query))
    if events is None:
        typer.echo("ok: the query parses; give --events and --time to check its names and types too")
        return
    if time is None:
        raise typer.BadParameter("--events needs --time, the column that says when an event happened")
    source = inputs.InputFiles(
        events, time, kind, inputs.names(key or ()), (),
        inputs.names([columns or ""]), not no_header, delimiter, timestamp_format,
    )  # fmt: skip
    _check_against(parsed, source, inputs.params(param or ()))


@app.command()
def explain(  # noqa: PLR0913  a command's options are its parameters
    query: Query,
    *,
    events: Events,
    time: Time,
    kind: Type = None,
    key: Key = None,
    order: Order = None,
    param: Param = None,
    engine: Engine = None,
    timestamp_format: Written = None,
    no_header: NoHeader = False,
    columns: Columns = None,
    delimiter: Delimiter = None,
) -> None:
    """Say how a query would run, without running it.

    \b
    Example:
      cerise explain query.sase --events trades.csv --time ts --type kind
    """
    from cerise import api
    from cerise.engines.base import Options

    source = inputs.InputFiles(
        events, time, kind, inputs.names(key or ()), inputs.names(order or ()),
        inputs.names([columns or ""]), not no_header, delimiter, timestamp_format,
    )  # fmt: skip
    parsed = api.parse(inputs.sase_text(query))
    table = source.table()
    if inputs.is_untyped(table):
        raise CeriseError(
            f"{events} is empty: the types of its columns are unknown", hint="explain it on events"
        )
    values = inputs.params(param or ())
    typer.echo(api.explain(table, parsed, params=values, options=Options(engine=engine), **source.roles()))


@app.command()
def sql(  # noqa: PLR0913  a command's options are its parameters
    statement: Statement = None,
    *,
    table: Tables = None,
    time: Times = None,
    dialect: Dialect = DialectName.standard,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how it would be run, and run nothing.")
    ] = False,
    form: Form = None,
    output: Output = None,
    limit_rows: Limit = ROWS,
    engine: Engine = None,
    timestamp_format: Written = None,
    no_header: NoHeader = False,
    columns: Columns = None,
    delimiter: Delimiter = None,
) -> None:
    """Run SQL with MATCH_RECOGNIZE over files; without a statement, prompt for statements.

    \b
    Examples:
      cerise sql --table trades.csv
      cerise sql query.sql --table trades=trades.parquet --table users=users/
      cerise sql 'SELECT * FROM trades MATCH_RECOGNIZE (
          PARTITION BY ticker ORDER BY date MEASURES A.open AS high, LAST(B.open) AS low
          PATTERN (A B+) DEFINE B AS open < PREV(open))' --table trades.csv --time date

    SELECT * FROM table MATCH_RECOGNIZE (…) runs in this process, any other statement on local Spark.
    """
    from cerise.cli import output as out
    from cerise.cli import prompt
    from cerise.cli import sql as statements

    layout = inputs.InputFiles(
        "", "", columns=inputs.names([columns or ""]), header=not no_header, delimiter=delimiter,
        written=timestamp_format, times=inputs.names(time or ()),
    )  # fmt: skip
    session = statements.SqlSession.of(table or (), layout, dialect.value, engine)
    target = out.OutputTarget.of(form and form.value, output, limit_rows)
    if statement is None and sys.stdin.isatty():
        prompt.talk(session, target, explain=explain)
    else:
        statements.answer(session, inputs.query_text(statement or "-"), target, explain=explain)


@app.command()
def generate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The data set: stock, nasdaq or crimes.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="A .parquet file, or a directory for several.")],
    events: Annotated[int, typer.Option(min=0, metavar="N", help="How many events.")] = 100_000,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Which events: the same seed gives the same.")
    ] = 0,
    files: Annotated[int, typer.Option(min=1, metavar="N", help="How many files share them.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the files at PATH.")] = False,
) -> None:
    """Write a generated data set as Parquet, of any size.

    \b
    Example:
      cerise generate nasdaq bars --events 1000000 --files 4
    """
    from rich.progress import Progress

    from cerise import data

    with Progress(console=errors(), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(f"writing {name}", total=events)
        try:
            data.write(
                name, path, events, seed=seed, files=files, overwrite=overwrite,
                progress=lambda done: bar.update(task, completed=done),
            )  # fmt: skip
        except StoreError as error:
            hint = (error.hint or "").replace("overwrite=True", "--overwrite")
            raise StoreError(error.problem, hint=hint) from error
    typer.echo(f"wrote {events:,} events to {path}")


@app.command()
def demo(
    events: Annotated[int, typer.Option(min=1_000, metavar="N", help="How many events to search.")] = 200_000,
) -> None:
    """Find patterns in generated stock bars with Spark."""
    from cerise.cli import demo as show

    show.demo(events, show_status)


@app.command("compile")
def compile_engines(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            help="automata, recomputation, counting, joins, plans, routing, rows or index; all by default."
        ),
    ] = None,
) -> None:
    """Compile the engines now, once on this machine, so that the first query does not wait for it.

    \b
    Examples:
      cerise compile
      cerise compile automata rows
    """
    from cerise.cli import compile as engines

    engines.compile_parts(parts or list(engines.PARTS), show_status)


app.add_typer(store.app, name="store")
app.command()(store.index)
app.command()(watch.watch)
app.command("watched")(watch_report.show_state)


def main() -> None:
    """Run the command line; the console script."""
    app(prog_name="cerise")


# ---- shared by the commands


def _matches(events: Any, query: Any, source: inputs.InputFiles, **how: Any) -> pa.Table:
    """Find matches in a table, a DataFrame or files, and return them as a table."""
    from cerise import api
    from cerise.cli import output as out

    if inputs.is_untyped(events):
        _reject_unknown_columns(events, source)
        return out.empty_result(query)
    spark = True if isinstance(events, str | Path) else None
    matches = api.find(events, query, spark=spark, **source.roles(), **how)
    return matches.toArrow() if hasattr(matches, "toArrow") else matches


def _reject_unknown_columns(events: pa.Table, source: inputs.InputFiles) -> None:
    """Refuse columns that are not in the header of a file without events."""
    known = events.schema.names
    for name in (source.time, source.type, *source.key, *source.order):
        if known and name is not None and name not in known:
            raise BindError(f"column '{name}' is not in the events", hint=did_you_mean(name, known))


def _check_against(query: Any, source: inputs.InputFiles, values: dict[str, Any]) -> None:
    from cerise import api

    table = source.table()
    if inputs.is_untyped(table):
        _reject_unknown_columns(table, source)
        typer.echo(f"ok: the query parses; {source.path} is empty, so names and types are unchecked")
        return
    roles = {name: value for name, value in source.roles().items() if name != "order"}
    result = api.schema(table.schema, query, params=values, **roles)
    typer.echo(f"ok: the query fits {source.path}; its matches have the columns")
    for field in result:
        typer.echo(f"  {field.name}: {field.type}")
