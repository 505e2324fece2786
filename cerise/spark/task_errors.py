"""Brings a CeriseError that a task raises to the user, instead of Spark's exception around it.

A worker's error crosses to the driver as text. So a task adds the CeriseError to that text as JSON, and the
driver decodes it where PySpark converts an error of the JVM or server into a Python exception. Other errors
stay as they are.
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


def map_batches(
    frame: DataFrame, task: Task, schema: StructType | str, names: Sequence[str] | None = None
) -> DataFrame:
    """Map the batches of a DataFrame by a task whose errors reach the driver.

    Args:
        frame: the DataFrame.
        task: maps its batches.
        schema: the columns that the task gives.
        names: the columns of the frame, if users named them: PySpark would read the names as expressions.
    """
    install()
    if names is not None:
        frame = frame.toDF(*(f"c{i}" for i in range(len(names))))
    return frame.mapInArrow(EncodingTask(task, None if names is None else tuple(names)), schema)


@dataclass(frozen=True, slots=True)
class EncodingTask:
    """A task that encodes its errors, so that the driver can decode them.

    Attributes:
        task: the task.
        names: the names for the columns of its input; None: they keep their names.
    """

    task: Task
    names: tuple[str, ...] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches that the task gives."""
        try:
            yield from self.task(map(self._rename, batches))
        except CeriseError as error:
            error.add_note(encode(error))
            raise error from None

    def _rename(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if self.names is None else batch.rename_columns(list(self.names))


# ---- the text


def encode(error: CeriseError) -> str:
    """Return an error as text that `decode` can read."""
    span = None if error.span is None else [error.span.start, error.span.end]
    fields = [type(error).__name__, error.problem, span, error.text, error.hint]
    return f"[cerise-error {base64.b64encode(json.dumps(fields).encode()).decode()}]"


def decode(text: str) -> CeriseError | None:
    """Return the last encoded error in a text; None without one. Only classes of `cerise.errors` are made."""
    for found in reversed(MARK.findall(text)):
        try:
            name, problem, span, query, hint = json.loads(base64.b64decode(found))
            kind = getattr(errors, name)
            if issubclass(kind, CeriseError):
                return kind(problem, span=Span(*span) if span else None, text=query, hint=hint)  # type: ignore[no-any-return]
        except (ValueError, TypeError, AttributeError):  # the text only looks like an encoded error
            continue
    return None


# ---- the driver


def install() -> None:
    """Wrap PySpark's converters once, so that it raises the errors of tasks, if it has them."""
    for name in CONVERTERS:
        try:
            module = import_module(name)
        except ImportError:  # Connect is not installed
            continue
        convert = getattr(module, "convert_exception", None)
        if convert is not None and not hasattr(convert, "__wrapped__"):
            module.convert_exception = _wrap_converter(convert)  # type: ignore[attr-defined]


def _wrap_converter(convert: Callable[..., BaseException]) -> Callable[..., BaseException]:
    @wraps(convert)
    def convert_and_decode(*args: Any, **kwargs: Any) -> BaseException:
        """Return the CeriseError in PySpark's exception, if it has one, else the exception."""
        error = convert(*args, **kwargs)
        return decode(str(error)) or error

    return convert_and_decode


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise Spark's errors in the body as a short CeriseError."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise decode(str(error)) or PlanError(
            f"Spark could not do it: {spark_message(error)}", hint="the exception of Spark is in __context__"
        ) from None


def spark_message(error: Exception) -> str:
    """Return the first line of Spark's message, without the statement, plan and stack below it."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage())
    lines = [line for line in text.strip().splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    return re.sub(r"\s*\(line \d+, pos \d+\).*|;?\s*line \d+ pos \d+;?.*", "", first).rstrip(". ")
