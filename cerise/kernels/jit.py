"""Turns a Python function into a kernel: compiled once for its signature, then loaded from the cache.

With NUMBA_DISABLE_JIT=1 every kernel stays the plain Python function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from cerise.kernels import cache, record_types, records  # noqa: F401 (makes types of records)
from cerise.kernels.keeping import KernelCache

F = TypeVar("F", bound=Callable[..., Any])
COMPILED = not config.DISABLE_JIT  # type: ignore[attr-defined]

int64, float64, boolean, void = types.int64, types.float64, types.boolean, types.void
Ints = types.Array(int64, 1, "C")
Floats = types.Array(float64, 1, "C")
Marks = types.Array(types.uint8, 1, "C")
Given = types.Array(int64, 1, "C", readonly=True)  # such as memory of Arrow; any integers fit
HalfWords = types.Array(types.uint32, 1, "C")
Table = types.Array(int64, 2, "C")


def kernel(signature: Any = None, *, inline: bool = False) -> Callable[[F], F]:
    """Return a decorator that compiles a function.

    With a signature the function is compiled at once and cached; without one it is compiled with its callers.
    """

    def decorate(function: F) -> F:
        if signature is None:
            return numba.njit(function, inline="always" if inline else "never", error_model="numpy")  # type: ignore[no-any-return]
        dispatcher = numba.njit(function, error_model="numpy", nogil=True)
        place = cache.directory()
        if COMPILED:
            if place is not None:
                dispatcher._cache = KernelCache(function)
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher  # type: ignore[no-any-return]

    return decorate


# ---- words of memory: an array argument costs a call 3 ns, an address costs nothing

if TYPE_CHECKING or not COMPILED:
    ask, load, load_float = records.ask, records.load, records.load_float
    store, store_float = records.store, records.store_float
else:

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

    @intrinsic
    def ask(_typing: Any, _edge: Any, _k: Any, _r: Any, _d: Any, _e: Any, _cols: Any, _nodes: Any) -> Any:
        """Call the formulas of a query, which lie at an address."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 6)
            return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

        return int64(*[int64] * 7), generate
