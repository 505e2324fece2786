"""Which columns of a table an index holds, and in which form."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from cerise.errors import BindError, did_you_mean
from cerise.kinds import COMPUTABLE, TIMES, Kind, kind_of, plain

TYPES = frozenset({Kind.STRING, Kind.INT})
SEQUENCE = "_seq"
SEQUENCE_FIELDS = ("append", "row")
INDEXABLE = "integers, doubles, decimals of up to 15 digits, booleans, strings, timestamps, dates, durations"


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """The indexed columns of a table, and options of the index.

    Args:
        columns: the columns of the table.
        time: the column of times.
        type: the column of types; None: all events are of one type.
        attributes: the other indexed columns.
        sequence: whether rows carry their arrival, in the column `_seq`.
        compress: whether times, rows and codes take as few bits as each cluster allows (000 §3.4); else 64.
    """

    columns: pa.Schema
    time: str
    type: str | None
    attributes: tuple[str, ...]
    sequence: bool = False
    compress: bool = True

    def __post_init__(self) -> None:
        for name in self.names():
            if name not in self.columns.names:
                raise BindError(
                    f"column '{name}' is not in the table", hint=did_you_mean(name, self.columns.names)
                )
        if len(set(self.names())) < len(list(self.names())):
            raise BindError(
                f"a column is indexed twice: {', '.join(self.names())}",
                hint="name time, type and each attribute once",
            )
        self._check(self.time, TIMES, "a time is a timestamp, a date or an integer")
        for name in self.attributes:
            self._check(name, COMPUTABLE, f"an index can hold {INDEXABLE}")
        if self.type is not None:
            self._check(self.type, TYPES, "types are strings or integers")

    def names(self) -> Iterator[str]:
        """Yield the columns that the index is built from."""
        yield self.time
        yield from self.attributes
        if self.type is not None:
            yield self.type
        if self.sequence:
            yield SEQUENCE

    def type_of(self, name: str) -> pa.DataType:
        """Return the Arrow type in which the index returns a column."""
        return plain(self.columns.field(name).type)

    def kind(self, name: str) -> Kind:
        return kind_of(self.columns.field(name).type)

    def holds(self, name: str) -> bool:
        return name in (self.time, self.type, *self.attributes)

    def to_json(self) -> str:
        columns = base64.b64encode(self.columns.serialize().to_pybytes()).decode()
        return json.dumps(
            {"columns": columns, "time": self.time, "type": self.type, "attributes": self.attributes,
             "sequence": self.sequence, "compress": self.compress}
        )  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> IndexLayout:
        read = json.loads(text)
        columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(read.pop("columns"))))
        return cls(columns, **{**read, "attributes": tuple(read["attributes"])})

    def _check(self, name: str, allowed: frozenset[Kind], hint: str) -> None:
        if self.kind(name) not in allowed:
            raise BindError(
                f"column '{name}' of type {self.columns.field(name).type} cannot be indexed", hint=hint
            )
