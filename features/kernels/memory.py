"""Raw addresses: the one place where compiled code leaves arrays behind.

Measured (12 windowed features, 20,000 keys, slices of 1,000): the fold over arrays takes 1.5 times
as long as over addresses, since every array that is handed to a helper costs a reference count and
every index a sign check. Addresses are int64, in bytes; loads and stores are unaligned unless said.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE = ir.IntType(8)


def _load(llvm_type: Any, numba_type: Any, align: int) -> Any:
    @intrinsic
    def load(typing_context: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], llvm_type.as_pointer()))
            value.align = align
            return value

        return numba_type(types.int64), build

    return load


def _store(llvm_type: Any, numba_type: Any, align: int) -> Any:
    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = builder.inttoptr(arguments[0], llvm_type.as_pointer())
            builder.store(arguments[1], target).align = align
            return context.get_dummy_value()

        return types.void(types.int64, numba_type), build

    return store


get_i64 = _load(ir.IntType(64), types.int64, 8)
get_f64 = _load(ir.DoubleType(), types.float64, 8)
set_i64 = _store(ir.IntType(64), types.int64, 8)
set_f64 = _store(ir.DoubleType(), types.float64, 8)
get_byte = _load(_BYTE, types.uint8, 1)
set_byte = _store(_BYTE, types.uint8, 1)
peek_u32 = _load(ir.IntType(32), types.uint32, 1)
peek_u64 = _load(ir.IntType(64), types.uint64, 1)
poke_u32 = _store(ir.IntType(32), types.uint32, 1)
poke_u64 = _store(ir.IntType(64), types.uint64, 1)


@intrinsic
def bits_of(typing_context: Any, number: Any) -> Any:
    """The bits of a ``float64`` as an ``int64``."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), build


@intrinsic
def number_of(typing_context: Any, bits: Any) -> Any:
    """The ``float64`` of these bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), build


@intrinsic
def move_words(typing_context: Any, target: Any, source: Any, words: Any) -> Any:
    """Copy 64-bit words from one address to another; they may overlap."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = [builder.inttoptr(argument, _BYTE.as_pointer()) for argument in arguments[:2]]
        cgutils.raw_memmove(builder, *pointers, arguments[2], 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), build


@intrinsic
def as_pointer(typing_context: Any, address: Any) -> Any:
    """The address as ``numba.carray`` takes it."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], _BYTE.as_pointer())

    return types.voidptr(types.int64), build


@intrinsic
def count_trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Trailing zero bits of a ``uint64`` that is not 0."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), build


def _prefetch_function(module: Any) -> Any:
    word = ir.IntType(32)
    signature = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), word, word, word])
    return module.globals.get("llvm.prefetch.p0") or ir.Function(module, signature, "llvm.prefetch.p0")


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Ask for the cache line at ``address``; never faults."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        pointer = builder.inttoptr(arguments[0], _BYTE.as_pointer())
        builder.call(_prefetch_function(builder.module), [pointer, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.int64), build


address_of: Callable[[Any], int] = lambda array: int(array.ctypes.data)  # noqa: E731 - reads as a noun
"""Address of an array's first byte; the caller keeps the array alive."""
