"""What goes into a store by `cerise store create` and `append`: columns, and events with progress."""

from __future__ import annotations

import pyarrow as pa
import typer

from cerise.cli import inputs
from cerise.cli.figures import counted
from cerise.cli.terminal import progressing
from cerise.errors import CeriseError, DataError
from cerise.indexed import Store
from cerise.store.writing.sources import source_of


def columns_in(given: str | pa.Table, path: str) -> pa.Schema:
    """Return the columns of events that a store is made for."""
    if inputs.is_untyped(given):
        raise CeriseError(
            f"{path} is empty: the types of its columns are unknown", hint="say --schema 'name type, …'"
        )
    return source_of(given).columns


def append(store: Store, given: str | pa.Table, path: str) -> None:
    """Append events, with progress, and say how many."""
    _reject_numbers(given, store.schema.field(store.settings.time))
    read = 0
    with progressing(f"appending {path}") as progress:

        def told(done: int, total: int | None) -> None:
            nonlocal read
            read = done
            progress(done, total)

        version = store.append(given, told)
    typer.echo(f"appended {counted(read, 'event')} of {path}: version {version}")


def _reject_numbers(given: str | pa.Table, time: pa.Field) -> None:
    """Ask what numbers count that are given for a timestamp."""
    for each in () if isinstance(given, str) else given.schema:
        if each.name == time.name and pa.types.is_integer(each.type) and pa.types.is_timestamp(time.type):
            raise DataError(
                f"'{time.name}' holds numbers, and the store keeps {time.type}",
                hint="say what they count since 1970: --timestamp-format s, ms, us or ns",
            )
