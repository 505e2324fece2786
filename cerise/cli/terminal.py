"""What a user sees besides results, on standard error: progress on a terminal, warnings, errors."""

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
    """All commands: what is wrong with a query or with events is said in a few lines, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                warnings.simplefilter("always", CeriseWarning)
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # typer ends quietly: whoever read our output has seen enough
        except Exception as error:
            if not complain(error):
                raise
        raise typer.Exit(WRONG)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something is being done."""
    if not sys.stderr.isatty():
        yield
        return
    spinner = errors().status(f"{what} …")
    with spinner, FIRST_USE.shown_by(lambda text: spinner.update(f"{what}: {text} …")):
        yield


@contextmanager
def progressing(what: str) -> Iterator[Progress]:
    """Show a progress bar on a terminal; what is yielded is told how much of how much is done."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich import progress

    with progress.Progress(console=errors(), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def errors() -> Console:
    """Return the console for all but results."""
    from rich.console import Console

    return Console(stderr=True)


def complain(error: Exception) -> bool:
    """Say what is wrong with a query or with events; return False for an error that is nobody's mistake."""
    match error:
        case CeriseError():
            told: str | None = f"{type(error).__name__}: {error}"
        case OSError():
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            told = f"StoreError: {what}"
        case _:
            told = _told_by_spark(error)
    if told is not None:
        typer.echo(told, err=True)
    return told is not None


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, CeriseWarning):
        typer.echo(f"warning: {message}", err=True)


def _told_by_spark(error: Exception) -> str | None:
    """Return what Spark says is wrong: the error of ours that a task failed with, or its own."""
    if not type(error).__module__.startswith("pyspark."):
        return None
    _, ours, told = str(error).rpartition("cerise.errors.")
    if ours:
        return _without_java(told)
    # What Spark says of a statement starts with the name of a condition; all else is worth a traceback.
    said = str(error).strip()
    return _without_java(f"{type(error).__name__}: {said}") if said.startswith("[") else None


def _without_java(told: str) -> str:
    """Return what is said in a few lines: without the plan and the stack that Spark shows below."""
    lines = (line for line in told.splitlines() if line.strip())
    return "\n".join(takewhile(lambda line: not line.startswith(("\tat ", "JVM", "'", "+-")), lines))
