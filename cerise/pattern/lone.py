"""Names that stand alone in a pattern: `login` is a variable, "login" is a type (S2.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from cerise.kinds import Kind
from cerise.pattern.bound import Bound

Values = Callable[[str, Collection[str]], Collection[str]]


def of_types(bounds: Sequence[Bound], values: Values, *, asked: bool) -> list[str]:
    """Say where queries name values of the type column without meaning types.

    Args:
        bounds: the queries.
        values: returns which of some names are values of a column, as far as that is known.
        asked: whether the type column was given with the queries, so that they should use it.
    """
    queries = [_first(bound) for bound in bounds]
    column = queries[0].schema.type
    if column is None or queries[0].schema.kind((column,)) is not Kind.STRING:
        return []
    lone = {var.name: query for query in queries for var in query.variables if var.type is None}
    held = values(column, lone.keys()) if lone else ()
    if found := [_confused(name, column, query) for name, query in lone.items() if name in held]:
        return found
    typed = any(var.type is not None for query in queries for var in query.variables)
    return [] if typed or not asked else [_useless(column, queries[0])]


def _first(bound: Bound) -> Bound:
    """Return the query that reads events, where others read its matches."""
    return bound if bound.source is None else _first(bound.source)


def _confused(name: str, column: str, bound: Bound) -> str:
    alone, typed = _spellings(name, bound)
    return (
        f"'{name}' is a value of the type column '{column}', but {alone} is a variable, which binds events "
        f"of any type: write {typed} for events of this type, or give the variable another name"
    )


def _useless(column: str, bound: Bound) -> str:
    _, typed = _spellings("login", bound)
    return (
        f"type='{column}' is given, but no item of the pattern has a type, so that each binds events of any "
        f"type: write types as in {typed}, or leave type= out"
    )


def _spellings(name: str, bound: Bound) -> tuple[str, str]:
    """Return how a name is written as a variable and as a type, in the language of the query."""
    short = next((letter for letter in name.lower() if letter.isalpha()), "e")
    short = short if short not in {var.name for var in bound.variables} else f"{short}1"
    if bound.query.text is None:
        return f'var("{name}")', f'var("{name}", "{short}")'
    return f"SEQ({name})", f'SEQ("{name}" {short})'


def held_in(column: pa.ChunkedArray, names: Collection[str]) -> set[str]:
    """Return which of some names a column of text has."""
    chunks = [chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk for chunk in column.chunks]
    return {name for name in names if any(_holds(chunk, name) for chunk in chunks)}


def _holds(chunk: pa.Array, name: str) -> bool:
    return bool(pc.index(chunk, pa.scalar(name, chunk.type)).as_py() >= 0)
