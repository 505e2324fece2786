"""The options that commands share, with their names and help texts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

ROWS = 20


class Format(StrEnum):
    """How matches are written."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="The query: its text, a file with it, or - for standard input.")
]
Events = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        help="The events: a CSV, JSON lines or Parquet file, a directory of such files, or a Delta table.",
    ),
]
Time = Annotated[str, typer.Option(metavar="COLUMN", help="The column that says when an event happened.")]
MaybeEvents = Annotated[
    str | None, typer.Option(metavar="PATH", help="Events to check the query against, as in run.")
]
MaybeTime = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column that says when an event happened.")
]
Type = Annotated[
    str | None,
    typer.Option("--type", metavar="COLUMN", help="The column that holds the event's type."),
]
Key = Annotated[
    list[str] | None, typer.Option(metavar="COLUMNS", help="Columns that partition the events: a,b.")
]
Order = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMNS", help="Columns that break ties between equal times: a,b."),
]
Param = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A value for :name in the query: name=value.")
]
Engine = Annotated[str | None, typer.Option(metavar="NAME", help="The engine; Cerise chooses by default.")]
Written = Annotated[
    str | None,
    typer.Option(
        "--timestamp-format",
        metavar="FORMAT",
        help="How times are written: %d.%m.%Y %H:%M; s, ms, us or ns since 1970; integer, to leave numbers.",
    ),
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line of a CSV file is an event.")]
Columns = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Names for the columns of a CSV file without header: a,b,c."),
]
Delimiter = Annotated[
    str | None, typer.Option(metavar="CHAR", help="What separates CSV values; found out by default.")
]
Form = Annotated[
    Format | None, typer.Option("--format", help="How to write the matches; a table by default.")
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="A file to write to, instead of standard output."),
]
Limit = Annotated[
    int, typer.Option("--limit-rows", min=0, metavar="N", help="How many rows the table shows; 0 for all.")
]

# ---- of `cerise sql`


class DialectName(StrEnum):
    """The dialects of MATCH_RECOGNIZE, which differ in their defaults."""

    standard = "standard"
    flink = "flink"


Statement = Annotated[
    str | None,
    typer.Argument(
        metavar="STATEMENT",
        help="SQL: its text, a file with it, or - for standard input; several are separated by ;.",
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="A table: a CSV, JSON lines or Parquet file, a directory of such files, or a Delta table. "
        "Without NAME it is called as the file.",
    ),
]
Times = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMNS", help="Columns that are times, where a text file does not say it: a,b."),
]
Dialect = Annotated[
    DialectName,
    typer.Option(help="Whose defaults clauses have; flink: SKIP TO NEXT ROW, and WITHIN exclusive."),
]

# ---- of `cerise store` and `cerise index`

StorePath = Annotated[str, typer.Argument(metavar="PATH", help="Where the store is.")]
At = Annotated[
    str | None, typer.Option("--at", metavar="DIR", help="Where its index is, if not beside the data.")
]
Version = Annotated[
    int | None,
    typer.Option("--version", min=0, metavar="N", help="Which version; the newest by default."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Events that say which columns there are, and are appended: a CSV, JSON lines or Parquet file, "
        "a directory of such files, or a Delta table.",
    ),
]
Index = Annotated[
    list[str] | None,
    typer.Option("--index", metavar="COLUMNS", help="Columns that queries compare with constants: a,b."),
]
On = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="COLUMNS", help="Columns that queries compare with constants: a,b."),
]
