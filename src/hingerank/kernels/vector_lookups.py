"""Look-ups of a group of eight columns by vector instructions, written for LLVM; used with tested versions of numba.

A cell is loaded and multiplied as two numbers at once, and four positions are converted to float64 together, which no
plain loop compiles to. `curves` has the same as plain loops.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from hingerank.kernels.compiled import inner

TWO, FOUR, FOUR_SINGLE = (
    ir.VectorType(number, lanes) for number, lanes in ((ir.DoubleType(), 2), (ir.DoubleType(), 4), (ir.FloatType(), 4))
)
ONCE_ROUNDED = ("contract",)  # a product and a sum may become one instruction


class Lanes(types.Type):
    """The type of four float64 in a vector register."""

    def __init__(self):
        super().__init__("Lanes")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, FOUR)


class _Code:
    """Code that both intrinsics emit: addresses in arrays, loads and selections of lanes."""

    def __init__(self, context: Any, builder: Any, signature: Any):
        self.context, self.builder, self.signature = context, builder, signature

    def address(self, array: int, arguments: Any, at: Any) -> Any:
        """The address of element `at` of the array that is argument number `array`."""
        struct = self.context.make_array(self.signature.args[array])(self.context, self.builder, arguments[array])
        return self.builder.gep(struct.data, [at])

    def load(self, address: Any, vector: Any, align: int) -> Any:
        found = self.builder.load(self.builder.bitcast(address, vector.as_pointer()))
        found.align = align
        return found

    def pick(self, first: Any, second: Any, *lanes: int) -> Any:
        word = ir.IntType(32)
        which = ir.Constant(ir.VectorType(word, len(lanes)), [word(lane) for lane in lanes])
        return self.builder.shuffle_vector(first, second, which)

    def product_sum(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.fadd(self.builder.fmul(a, b, flags=ONCE_ROUNDED), c, flags=ONCE_ROUNDED)

    def cells(self, arguments: Any) -> tuple[list[Any], list[Any]]:
        """Addresses of four values' cells, and (1, position) of the even and of the odd ones; arguments as `look_up`'s.

        Four bins come in one load (numba's machines are little-endian), since loads limit the speed of both loops.
        """
        _, at, stride, _, _, e = arguments[:6]
        builder, found, bits = self.builder, [], self.signature.args[3].dtype.bitwidth
        bin_type, word_type = ir.IntType(bits), ir.IntType(4 * bits)
        word = builder.load(builder.bitcast(self.address(3, arguments, e), word_type.as_pointer()))
        word.align = bits // 8
        bins = [builder.trunc(builder.lshr(word, word_type(j * bits)), bin_type) for j in range(4)]
        for own in bins:
            found.append(builder.gep(self.address(0, arguments, at), [builder.zext(own, at.type)]))
            at = builder.add(at, stride)
        places = builder.fpext(self.load(self.address(4, arguments, e), FOUR_SINGLE, 4), FOUR)
        return found, [self.pick(ONES, places, 0, 4, 2, 6), self.pick(ONES, places, 1, 5, 3, 7)]


ONES = ir.Constant(FOUR, [1.0] * 4)


@intrinsic
def look_up(typing, w, at, stride, bins, places, e, total):
    """total + (height, slope) · (1, position) of the values e to e + 3; the cells of their columns start at w[at]."""

    def write(context, builder, signature, arguments):
        code, total = _Code(context, builder, signature), arguments[6]
        addresses, ones_and_places = code.cells(arguments)
        cells = [code.load(address, TWO, 8) for address in addresses]
        for j, multiplied in enumerate(ones_and_places):
            total = code.product_sum(code.pick(cells[j], cells[j + 2], 0, 1, 2, 3), multiplied, total)
        return total

    return Lanes()(w, types.uint64, types.uint64, bins, places, types.uint64, Lanes()), write


@intrinsic
def add_up(typing, g, at, stride, bins, places, e, z):
    """The cells of the values e to e + 3 gain z · (1, position); arguments as in look_up."""

    def write(context, builder, signature, arguments):
        code, two = _Code(context, builder, signature), ir.Constant(TWO, ir.Undefined)
        addresses, ones_and_places = code.cells(arguments)
        for j in (0, 1):
            two = builder.insert_element(two, arguments[6], ir.IntType(32)(j))
        for j, address in enumerate(addresses):
            own, first = ones_and_places[j % 2], j // 2 * 2
            found = code.product_sum(two, code.pick(own, own, first, first + 1), code.load(address, TWO, 8))
            builder.store(found, builder.bitcast(address, TWO.as_pointer())).align = 8
        return context.get_dummy_value()

    return types.void(g, types.uint64, types.uint64, bins, places, types.uint64, types.float64), write


@intrinsic
def no_total(typing):
    """Four zeros."""
    return Lanes()(), lambda context, builder, signature, arguments: ir.Constant(FOUR, [0.0] * 4)


@intrinsic
def whole_total(typing, total):
    """The sum of four lanes."""

    def write(context, builder, signature, arguments):
        code = _Code(context, builder, signature)
        low, high = (code.pick(arguments[0], arguments[0], j, j + 1) for j in (0, 2))
        two = builder.fadd(low, high)
        return builder.fadd(*(builder.extract_element(two, ir.IntType(32)(j)) for j in (0, 1)))

    return types.float64(Lanes()), write


@intrinsic
def prefetch(typing, array, e):
    """Prefetch the cache line of element e of an array, which need not exist."""

    def write(context, builder, signature, arguments):
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(_Code(context, builder, signature).address(0, arguments, arguments[1]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [byte], kind), [address, *map(word, (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.uint64), write


@inner
def group_scores(w, at, stride, bins, places, e, own, count, following):
    """own[i] += height + slope · position over eight columns, for count rows from value e on; cells start at w[at].

    following: the distance to the next group's values.
    """
    four, eight = np.uint64(4), np.uint64(8)
    for i in range(count):
        prefetch(bins, e + following)
        prefetch(places, e + following)
        half = look_up(w, at, stride, bins, places, e, no_total())
        own[i] += whole_total(look_up(w, at + four * stride, stride, bins, places, e + four, half))
        e += eight


@inner
def group_back(g, at, stride, bins, places, e, own, count):
    """The cells of eight columns gain own[i] · (1, position), for count rows from value e on."""
    four, eight = np.uint64(4), np.uint64(8)
    for i in range(count):
        z = own[i]
        if z != 0.0:
            add_up(g, at, stride, bins, places, e, z)
            add_up(g, at + four * stride, stride, bins, places, e + four, z)
        e += eight
