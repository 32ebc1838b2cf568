"""What LLVM can do and numba has no words for: sums of codewords in registers, and reading ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

_HALF_BIAS = 2.0**112
"""What the exponent of a float16 number lacks where its bits stand in those of a float32: biases are 15 and 127."""


_KNOWS_HALF = bool(get_host_cpu_features().get("f16c")) or get_process_triple().startswith(("aarch64", "arm64"))
"""Whether this processor converts float16 numbers by itself; else LLVM would call a function that is not there."""


def number(stored: Any) -> Any:
    """A stored number as float32; float16 comes as its bits, since numba does not compute with it."""


@overload(number)
def _number_of_type(stored: Any) -> Any:
    return _from_half if stored == types.uint16 else _from_number


def _from_number(stored: Any) -> Any:
    return np.float32(stored)


def _from_half(stored: Any) -> Any:
    bits = np.uint32(stored)
    bits = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13) | (bits & np.uint32(0x8000)) << np.uint32(16))
    return bits.view(np.float32) * np.float32(_HALF_BIAS)


def _vector(element: Any, lanes: int) -> Any:
    return ir.VectorType(element, lanes)


def _constant(vector: Any, value: float) -> Any:
    """A vector of LLVM with one number in every lane."""
    return ir.Constant(vector, [value] * vector.count)


def _repeated(builder: Any, number: Any, lanes: int) -> Any:
    """A number that is known only at run time, in every lane."""
    vector, places = _vector(number.type, lanes), _vector(ir.IntType(32), lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), _constant(places, 0))


def _loaded(builder: Any, place: Any, dtype: Any, lanes: int) -> Any:
    """The stored numbers at a place, which need not be aligned, as a vector of floats."""
    floats, ints = _vector(ir.FloatType(), lanes), _vector(ir.IntType(32), lanes)
    stored = {types.int8: ir.IntType(8), types.uint16: ir.IntType(16), types.float32: ir.FloatType()}[dtype]
    found = builder.load(builder.bitcast(place, _vector(stored, lanes).as_pointer()), align=1)
    if dtype != types.uint16:
        return builder.sitofp(found, floats) if dtype == types.int8 else found
    if _KNOWS_HALF:
        return builder.fpext(builder.bitcast(found, _vector(ir.HalfType(), lanes)), floats)
    bits = builder.zext(found, ints)
    size = builder.shl(builder.and_(bits, _constant(ints, 0x7FFF)), _constant(ints, 13))
    sign = builder.shl(builder.and_(bits, _constant(ints, 0x8000)), _constant(ints, 16))
    return builder.fmul(builder.bitcast(builder.or_(size, sign), floats), _constant(floats, _HALF_BIAS))


def _data(context: Any, builder: Any, signature: Any, values: Any) -> list[Any]:
    """The arguments of an intrinsic; of an array, where its numbers are."""
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, values, strict=True)
    ]


def _summing(lanes: int) -> Any:
    """An intrinsic that writes Σ scales[j] · words[starts[j] + column : … + lanes], over j from first to before last.

    In vectors of LLVM, because numba has none: the sum stays in a register.
    """

    def write_sum(
        _: Any, words: Any, scales: Any, starts: Any, first: Any, last: Any, column: Any, out: Any, at: Any
    ) -> tuple[Any, Any]:
        return types.void(words, scales, starts, first, last, column, out, at), build

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words, scales, starts, first, last, column, out, at = _data(context, builder, signature, values)
        floats = _vector(ir.FloatType(), lanes)
        total = cgutils.alloca_once(builder, floats)
        builder.store(_constant(floats, 0.0), total)
        with cgutils.for_range(builder, builder.sub(last, first)) as loop:
            position = builder.add(first, loop.index)
            start = builder.add(builder.load(builder.gep(starts, [position])), column)
            scale = _repeated(builder, builder.load(builder.gep(scales, [position])), lanes)
            word = _loaded(builder, builder.gep(words, [start]), signature.args[0].dtype, lanes)
            product = builder.fmul(word, scale, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        target = builder.bitcast(builder.gep(out, [at]), floats.as_pointer())
        builder.store(builder.load(total), target, align=4)
        return context.get_dummy_value()

    return intrinsic(write_sum)


def _summing_integers(lanes: int) -> Any:
    """An intrinsic that writes unit · Σ by[j] · words[starts[j] + column : … + lanes] of int8 words.

    They are added up as 16-bit integers, of which a register holds twice as many. Whoever calls it knows that the sum
    has room in them.
    """

    def write_sum(
        _: Any,
        words: Any,
        by: Any,
        starts: Any,
        first: Any,
        last: Any,
        column: Any,
        unit: Any,
        out: Any,
        at: Any,
    ) -> tuple[Any, Any]:
        return types.void(words, by, starts, first, last, column, unit, out, at), build

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if signature.args[0].dtype != types.int8:  # compiled for other words too, but never called with them
            return context.get_dummy_value()
        words, by, starts, first, last, column, unit, out, at = _data(context, builder, signature, values)
        floats, shorts, bytes_ = (_vector(kind, lanes) for kind in (ir.FloatType(), ir.IntType(16), ir.IntType(8)))
        total = cgutils.alloca_once(builder, shorts)
        builder.store(_constant(shorts, 0), total)
        with cgutils.for_range(builder, builder.sub(last, first)) as loop:
            position = builder.add(first, loop.index)
            start = builder.add(builder.load(builder.gep(starts, [position])), column)
            word = builder.load(builder.bitcast(builder.gep(words, [start]), bytes_.as_pointer()), align=1)
            multiplier = _repeated(builder, builder.load(builder.gep(by, [position])), lanes)
            product = builder.mul(builder.sext(word, shorts), multiplier)
            builder.store(builder.add(builder.load(total), product), total)
        target = builder.bitcast(builder.gep(out, [at]), floats.as_pointer())
        vector = builder.fmul(builder.sitofp(builder.load(total), floats), _repeated(builder, unit, lanes))
        builder.store(vector, target, align=4)
        return context.get_dummy_value()

    return intrinsic(write_sum)


def _write_eight(_: Any, words: Any, start: Any, scale: Any, out: Any, at: Any) -> tuple[Any, Any]:
    """An intrinsic: out[at : at + 8] = scale · words[start : start + 8]."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words, start, scale, out, at = _data(context, builder, signature, values)
        word = _loaded(builder, builder.gep(words, [start]), signature.args[0].dtype, 8)
        target = builder.bitcast(builder.gep(out, [at]), word.type.as_pointer())
        builder.store(builder.fmul(word, _repeated(builder, scale, 8)), target, align=4)
        return context.get_dummy_value()

    return types.void(words, start, scale, out, at), build


def _arrays_at(dtype: Any) -> Any:
    """An intrinsic: the array of so many numbers at an address, which somebody else holds.

    References to it are not counted. To count them takes longer than to decode a row.
    """
    kind = types.Array(dtype, 1, "C")

    def array_at(_: Any, address: Any, count: Any) -> tuple[Any, Any]:
        return kind(address, count), build

    def build(context: Any, builder: Any, _: Any, values: Any) -> Any:
        array = context.make_array(kind)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(dtype)))
        data = builder.inttoptr(values[0], context.get_data_type(dtype).as_pointer())
        populate_array(array, data=data, shape=[values[1]], strides=[size], itemsize=size, meminfo=None)
        return array._getvalue()

    return intrinsic(array_at)


def _view_of(_: Any, array: Any) -> tuple[Any, Any]:
    """An intrinsic: an array that somebody else holds, so that references to it need not be counted either."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, values[0])
        view.meminfo = ir.Constant(view.meminfo.type, None)
        view.parent = ir.Constant(view.parent.type, None)
        return view._getvalue()

    return array(array), build


def _prefetch(_: Any, array: Any, place: Any) -> tuple[Any, Any]:
    """An intrinsic: bring a byte of an array, or what would be one, into the cache. Any place is allowed."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array, place = _data(context, builder, signature, values)
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
        reading, keeping, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [builder.bitcast(builder.gep(array, [place]), pointer), reading, keeping, data])
        return context.get_dummy_value()

    return types.void(array, place), build


bytes_at, floats_at, shorts_at, longs_at = map(_arrays_at, (types.uint8, types.float32, types.int16, types.int64))
view_of: Any = intrinsic(_view_of)
prefetch: Any = intrinsic(_prefetch)
write_eight: Any = intrinsic(_write_eight)
write_sum_of_16, write_sum_of_8, write_sum_of_4 = _summing(16), _summing(8), _summing(4)
write_integers_of_32, write_integers_of_16 = _summing_integers(32), _summing_integers(16)
