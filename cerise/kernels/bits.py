"""Loads and stores of words at any byte of memory, and operations on the bits of a word."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.extending import intrinsic

from cerise.kernels.jit import COMPILED, int64, void

if TYPE_CHECKING or not COMPILED:

    def peek(address: int) -> int:
        """Return the integer at an address, which need not be a multiple of 8."""
        return ctypes.c_int64.from_address(int(address)).value

    def peek_word(address: int, word: int) -> int:
        """Return the word of that number after an address, which need not be a multiple of 8."""
        return ctypes.c_int64.from_address(int(address) + 8 * int(word)).value

    def poke(address: int, value: int) -> None:
        """Write an integer to an address, which need not be a multiple of 8."""
        ctypes.c_int64.from_address(int(address)).value = int(value)

    def ones(word: int) -> int:
        """Return how many bits of a word are 1."""
        return (int(word) & (2**64 - 1)).bit_count()

    def lowest(word: int) -> int:
        """Return which bit of a word is the first that is 1; the word is not 0."""
        return (int(word) & -int(word)).bit_length() - 1

    def without_lowest(word: int) -> int:
        """Return a word without its first bit that is 1."""
        return ctypes.c_int64(int(word) & (int(word) - 1)).value

else:

    @intrinsic
    def peek(_typing: Any, _address: Any) -> Any:
        """Return the integer at an address, which need not be a multiple of 8."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)

        return int64(int64), generate

    @intrinsic
    def peek_word(_typing: Any, _address: Any, _word: Any) -> Any:
        """Return the word of that number after an address, which need not be a multiple of 8."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            start = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
            return builder.load(builder.gep(start, [args[1]], source_etype=ir.IntType(64)), align=1)

        return int64(int64, int64), generate

    @intrinsic
    def poke(_typing: Any, _address: Any, _value: Any) -> Any:
        """Write an integer to an address, which need not be a multiple of 8."""

        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)
            return context.get_dummy_value()

        return void(int64, int64), generate

    @intrinsic
    def ones(_typing: Any, _word: Any) -> Any:
        """Return how many bits of a word are 1."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.ctpop(args[0])

        return int64(int64), generate

    @intrinsic
    def lowest(_typing: Any, _word: Any) -> Any:
        """Return which bit of a word is the first that is 1; the word is not 0."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return int64(int64), generate

    @intrinsic
    def without_lowest(_typing: Any, _word: Any) -> Any:
        """Return a word without its first bit that is 1."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.and_(args[0], builder.sub(args[0], ir.Constant(ir.IntType(64), 1)))

        return int64(int64), generate
