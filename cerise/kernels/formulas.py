"""Loads the functions generated for a query: as machine code, or with the JIT off as Python."""

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
# Python 3.11 cannot parse in two threads at once: garbage collection in one thread breaks the other's parse.
_PARSING = threading.RLock()


class Formulas(NamedTuple):
    """The compiled formulas of a query.

    Attributes:
        edge: the function of all formulas: its address, or with the JIT off the function itself.
        fits: writes the variables that each event of a chunk fits; None: the query has no such function.
        keeps: the owner of the code; while it lives, the code stays in memory.
    """

    edge: Any
    fits: Callable[[int, int, int], None] | None
    keeps: Any


def load(source: str) -> Formulas:
    """Return the functions of a generated module, compiled unless the JIT is off.

    Hold the result while its address is in use: the cache may drop the code.
    """
    with _PARSING:
        return _load(source)


@functools.lru_cache(maxsize=KEPT)
def _load(source: str) -> Formulas:
    return _compile(source) if jit.COMPILED else _interpret(source)


def load_columns(source: str) -> dict[str, Callable[..., None]]:
    """Return the functions of a generated module that fill in columns; each keeps the code in memory."""
    with _PARSING:
        return _compile_columns(source)


@functools.lru_cache(maxsize=KEPT)
def _compile_columns(source: str) -> dict[str, Callable[..., None]]:
    names = [line.split("(")[0][4:] for line in source.splitlines() if line.startswith("def side")]
    if not jit.COMPILED:
        return {name: _execute(source)[name] for name in names}
    from cerise.kernels import machine_code

    code = machine_code.compile_source(source, values)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)
    found: dict[str, Any] = {name: function(code.addresses[name]) for name in names}
    for each in found.values():
        each.keeps = code
    return found


def _compile(source: str) -> Formulas:
    from cerise.kernels import machine_code

    code = machine_code.compile_source(source, values)
    fits = code.addresses.get("fits")
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    return Formulas(code.addresses["edge"], None if fits is None else function(fits), code)


def _interpret(source: str) -> Formulas:
    names = _execute(source)
    return Formulas(names["edge"], names.get("fits"), None)


def _execute(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {**vars(values), "INF": math.inf, "NAN": math.nan, "np": np}
    names |= {name: getattr(jit, name) for name in ("load", "load_float", "store", "store_float")}
    exec(compile(source, "<query>", "exec"), names)
    return names
