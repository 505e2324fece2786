"""Errors that tasks raise reach the user as the CeriseError they are, not inside Spark's own.

A worker's error crosses to the driver as text. So a task adds the error to that text as JSON, and the driver
makes it again, in the place where PySpark makes a Python exception of what the JVM or the server says. What
does not come from Cerise stays as it is.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from cerise import errors
from cerise.errors import CeriseError, PlanError, Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

MARK = re.compile(r"\[cerise-error ([A-Za-z0-9+/=]+)\]")
CONVERTERS = ("pyspark.errors.exceptions.captured", "pyspark.sql.connect.client.core")  # classic, Connect


def mapped(
    frame: DataFrame, task: Task, schema: StructType | str, names: Sequence[str] | None = None
) -> DataFrame:
    """Let a task map the batches of a DataFrame, and tell its errors.

    Args:
        frame: its rows.
        task: what is done with them.
        schema: the columns that the task gives.
        names: the columns of the frame, where users named them: PySpark reads names as expressions.
    """
    install()
    if names is not None:
        frame = frame.toDF(*(f"c{i}" for i in range(len(names))))
    return frame.mapInArrow(Telling(task, None if names is None else tuple(names)), schema)


@dataclass(frozen=True, slots=True)
class Telling:
    """A task whose errors can be made again from their text.

    Attributes:
        task: the task.
        names: what the columns that it is given are called; None: as they are.
    """

    task: Task
    names: tuple[str, ...] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the task gives."""
        try:
            yield from self.task(map(self._named, batches))
        except CeriseError as error:
            error.add_note(written(error))
            raise error from None

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if self.names is None else batch.rename_columns(list(self.names))


# ---- the text


def written(error: CeriseError) -> str:
    """Return an error as text that `read` makes an error of again."""
    span = None if error.span is None else [error.span.start, error.span.end]
    said = [type(error).__name__, error.problem, span, error.text, error.hint]
    return f"[cerise-error {base64.b64encode(json.dumps(said).encode()).decode()}]"


def read(text: str) -> CeriseError | None:
    """Return the error that a text tells of, if it does: one of Cerise's own, whatever the text says."""
    for found in reversed(MARK.findall(text)):
        try:
            name, problem, span, shown, hint = json.loads(base64.b64decode(found))
            kind = getattr(errors, name)
            if issubclass(kind, CeriseError):
                return kind(problem, span=Span(*span) if span else None, text=shown, hint=hint)  # type: ignore[no-any-return]
        except (ValueError, TypeError, AttributeError):  # it only looks like one
            continue
    return None


# ---- the driver


def install() -> None:
    """Let PySpark raise the errors of tasks; done once, and where its insides differ not at all."""
    for name in CONVERTERS:
        try:
            module = import_module(name)
        except ImportError:  # there is no Connect here
            continue
        convert = getattr(module, "convert_exception", None)
        if convert is not None and not hasattr(convert, "__wrapped__"):
            module.convert_exception = _telling(convert)  # type: ignore[attr-defined]


def _telling(convert: Callable[..., BaseException]) -> Callable[..., BaseException]:
    @wraps(convert)
    def converted(*args: Any, **kwargs: Any) -> BaseException:
        """Return what PySpark makes of an exception; where it tells of a CeriseError, that."""
        error = convert(*args, **kwargs)
        return read(str(error)) or error

    return converted


@contextmanager
def told() -> Iterator[None]:
    """Raise what Spark says while Cerise waits for it as a CeriseError, in few words."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise read(str(error)) or PlanError(
            f"Spark could not do it: {said(error)}", hint="the exception of Spark is in __context__"
        ) from None


def said(error: Exception) -> str:
    """Return what Spark says, without the statement, the plan and the stack that it shows below."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage())
    lines = [line for line in text.strip().splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    return re.sub(r"\s*\(line \d+, pos \d+\).*|;?\s*line \d+ pos \d+;?.*", "", first).rstrip(". ")
