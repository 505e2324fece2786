"""Output to standard error: progress on a terminal, warnings and errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from cerise.errors import CeriseError, CeriseWarning
from cerise.kernels.first_use import FIRST_USE

if TYPE_CHECKING:
    from rich.console import Console

WRONG, INTERRUPTED = 1, 130
Progress = Callable[[int, int | None], None]


class Commands(TyperGroup):
    """All commands. An error of a query or of events is printed in a few lines, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                warnings.simplefilter("always", CeriseWarning)
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # typer ends quietly: the reader of the output has closed the pipe
        except Exception as error:
            if not complain(error):
                raise
        raise typer.Exit(WRONG)


@contextmanager
def show_status(what: str) -> Iterator[None]:
    """Show on a terminal what the body does."""
    if not sys.stderr.isatty():
        yield
        return
    spinner = errors().status(f"{what} …")
    with spinner, FIRST_USE.shown_by(lambda text: spinner.update(f"{what}: {text} …")):
        yield


@contextmanager
def show_progress(what: str) -> Iterator[Progress]:
    """Show a progress bar on a terminal; yield a function that takes the amount done and the total."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich import progress

    with progress.Progress(console=errors(), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def errors() -> Console:
    """Return the console on standard error, for everything but results."""
    from rich.console import Console

    return Console(stderr=True)


def complain(error: Exception) -> bool:
    """Print an error of a query, of events or of files; return False for any other error."""
    match error:
        case CeriseError():
            text: str | None = f"{type(error).__name__}: {error}"
        case OSError():
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            text = f"StoreError: {what}"
        case _:
            text = _explain_spark_error(error)
    if text is not None:
        typer.echo(text, err=True)
    return text is not None


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, CeriseWarning):
        typer.echo(f"warning: {message}", err=True)


def _explain_spark_error(error: Exception) -> str | None:
    """Return the message of an exception of Spark: the CeriseError of a task, or Spark's own message."""
    if not type(error).__module__.startswith("pyspark."):
        return None
    _, ours, text = str(error).rpartition("cerise.errors.")
    if ours:
        return _without_java(text)
    # Spark begins a message about a statement with a name in brackets; other errors deserve a traceback.
    message = str(error).strip()
    return _without_java(f"{type(error).__name__}: {message}") if message.startswith("[") else None


def _without_java(text: str) -> str:
    """Return the first lines of a message, without the plan and the Java stack below them."""
    lines = (line for line in text.splitlines() if line.strip())
    return "\n".join(takewhile(lambda line: not line.startswith(("\tat ", "JVM", "'", "+-")), lines))
