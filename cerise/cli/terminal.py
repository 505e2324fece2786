"""What a user sees besides results, on standard error: progress on a terminal, warnings, errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from cerise.errors import CeriseError, CeriseWarning

if TYPE_CHECKING:
    from rich.console import Console

WRONG, INTERRUPTED = 1, 130


class Commands(TyperGroup):
    """All commands: what is wrong with a query or with events is said in a few lines, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                warnings.simplefilter("always", CeriseWarning)
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # typer ends quietly: whoever read our output has seen enough
        except (CeriseError, OSError) as error:
            _complain(error)
        except Exception as error:
            told = _told_by_spark(error)
            if told is None:
                raise
            typer.echo(told, err=True)
        raise typer.Exit(WRONG)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something is being done."""
    if not sys.stderr.isatty():
        yield
        return
    with errors().status(f"{what} …"):
        yield


def errors() -> Console:
    """Return the console for all but results."""
    from rich.console import Console

    return Console(stderr=True)


def _complain(error: CeriseError | OSError) -> None:
    if isinstance(error, OSError):
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        typer.echo(f"StoreError: {what}", err=True)
    else:
        typer.echo(f"{type(error).__name__}: {error}", err=True)


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, CeriseWarning):
        typer.echo(f"warning: {message}", err=True)


def _told_by_spark(error: Exception) -> str | None:
    """Return the error of ours that a Spark task failed with, out of all that Spark says about it."""
    if not type(error).__module__.startswith("pyspark."):
        return None
    _, ours, told = str(error).rpartition("cerise.errors.")
    lines = [line for line in told.splitlines() if line.strip() and not line.startswith(("\tat ", "JVM"))]
    return "\n".join(lines) if ours else None
