"""How a Python function becomes a kernel: compiled once for its signature, then loaded from the cache.

With NUMBA_DISABLE_JIT=1 every kernel is the plain Python function that it was written as.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from cerise.kernels import cache

F = TypeVar("F", bound=Callable[..., Any])
COMPILED = not numba.config.DISABLE_JIT

int64, float64, boolean, void = types.int64, types.float64, types.boolean, types.void
Ints = types.Array(int64, 1, "C")
Fixed = types.Array(int64, 1, "C", readonly=True)
Table = types.Array(int64, 2, "C")
Edge = types.FunctionType(int64(int64, int64, int64, int64, int64, int64))


def kernel(signature: Any = None, *, inline: bool = False) -> Callable[[F], F]:
    """Return a decorator that compiles a function; with a signature at once, and kept in the cache."""

    def decorate(function: F) -> F:
        if signature is None:
            return numba.njit(function, inline="always" if inline else "never", error_model="numpy")  # type: ignore[no-any-return]
        with _our_cache() as keeps:
            return numba.njit(signature, cache=keeps, error_model="numpy", nogil=True)(function)  # type: ignore[no-any-return]

    return decorate


@contextmanager
def _our_cache() -> Iterator[bool]:
    """Let numba keep what it compiles in our directory, and only that."""
    place = cache.directory()
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(place or "")
    try:
        yield place is not None
    finally:
        numba.config.CACHE_DIR = before


def load_source(text: str) -> ModuleType:
    """Return a generated module; its file is named by its content, so that its kernels are cached too."""
    name = f"query_{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    place = cache.directory()
    if place is None:
        module = ModuleType(name)
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    else:
        path = _written(place / "queries" / f"{name}.py", text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # numba looks for it there
        spec.loader.exec_module(module)
    return sys.modules.setdefault(name, module)


def _written(path: Path, text: str) -> Path:
    """Write a file once, whole or not at all: other processes may be about to do the same."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(text)
        scratch.replace(path)
    return path


# ---- words of memory: an array argument costs a call 3 ns, an address costs nothing

if COMPILED:

    @intrinsic
    def load(_typing: Any, _address: Any) -> Any:
        """Return the integer at an address."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

        return int64(int64), generate

    @intrinsic
    def load_float(_typing: Any, _address: Any) -> Any:
        """Return the double at an address."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], ir.DoubleType().as_pointer()))

        return float64(int64), generate

    @intrinsic
    def store(_typing: Any, _address: Any, _value: Any) -> Any:
        """Write an integer to an address."""

        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
            return context.get_dummy_value()

        return void(int64, int64), generate

    @intrinsic
    def store_float(_typing: Any, _address: Any, _value: Any) -> Any:
        """Write a double to an address."""

        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            builder.store(args[1], builder.inttoptr(args[0], ir.DoubleType().as_pointer()))
            return context.get_dummy_value()

        return void(int64, float64), generate

else:

    def load(address: int) -> int:
        """Return the integer at an address."""
        return ctypes.c_int64.from_address(int(address)).value

    def load_float(address: int) -> float:
        """Return the double at an address."""
        return ctypes.c_double.from_address(int(address)).value

    def store(address: int, value: int) -> None:
        """Write an integer to an address."""
        ctypes.c_int64.from_address(int(address)).value = int(value)

    def store_float(address: int, value: float) -> None:
        """Write a double to an address."""
        ctypes.c_double.from_address(int(address)).value = float(value)


@kernel()
def get(row: int, word: int) -> int:
    """Return a word of a row in memory."""
    return load(row + 8 * word)


@kernel()
def put(row: int, word: int, value: int) -> None:
    """Write a word of a row in memory."""
    store(row + 8 * word, value)
