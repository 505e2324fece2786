"""The functions generated for a query: as machine code, or as the Python that they are written in."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cerise.kernels import jit, values

KEPT = 256  # queries whose code stays in memory
# Python 3.11 cannot parse in two threads at once: a collection of garbage in one breaks the other's parse.
_ONE = threading.RLock()


class Formulas(NamedTuple):
    """What a query asks of events.

    Attributes:
        edge: its formulas, as the kernels take them.
        fits: fills in which variables each event of a chunk could be, where there is such a function.
        keeps: what keeps the code in memory.
    """

    edge: Any
    fits: Callable[[int, int, int], None] | None
    keeps: Any


@functools.lru_cache(maxsize=KEPT)
def load(source: str) -> Formulas:
    """Return the functions of a generated module, compiled where kernels are."""
    with _ONE:
        return _compiled(source) if jit.COMPILED else _interpreted(source)


@functools.lru_cache(maxsize=KEPT)
def load_columns(source: str) -> dict[str, Callable[..., None]]:
    """Return the functions of a generated module that fill in columns; each keeps the code in memory."""
    with _ONE:
        return _compiled_columns(source)


def _compiled_columns(source: str) -> dict[str, Callable[..., None]]:
    names = [line.split("(")[0][4:] for line in source.splitlines() if line.startswith("def side")]
    if not jit.COMPILED:
        return {name: _executed(source)[name] for name in names}
    from cerise.kernels import machine_code

    code = machine_code.compile_source(source, values)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)
    found: dict[str, Any] = {name: function(code.addresses[name]) for name in names}
    for each in found.values():
        each.keeps = code
    return found


def _compiled(source: str) -> Formulas:
    from cerise.kernels import machine_code

    code = machine_code.compile_source(source, values)
    fits = code.addresses.get("fits")
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    return Formulas(code.addresses["edge"], None if fits is None else function(fits), code)


def _interpreted(source: str) -> Formulas:
    names = _executed(source)
    return Formulas(names["edge"], names.get("fits"), None)


def _executed(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {**vars(values), "INF": math.inf, "NAN": math.nan, "np": np}
    names |= {name: getattr(jit, name) for name in ("load", "load_float", "store", "store_float")}
    exec(compile(source, "<query>", "exec"), names)
    return names
