"""The two inner loops of curves, four columns of a row at a time.

A cell is a height and a slope side by side, and a value has a cell and a place in it. A score gains the product of
(height, slope) and (1, place); the other way, a cell's two sums gain z · (1, place). So here a cell is one load and one
multiplication of two numbers at once, and four places are converted to float64 together: no plain loop compiles to
that. Measured on a busy machine, both ways take 1.1 ns a value at 16 knots and 1.6 at 100, plain loops 1.6 and 2.5, and
the linear ranker's 0.5. Blocks of columns whose tables stay in the fastest cache were slower, and so were gathers into
vector registers (4 ns).
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
ONCE_ROUNDED = ("contract",)  # a product and a sum may be one instruction


class Lanes(types.Type):
    """The type of four float64 in a vector register."""

    def __init__(self):
        super().__init__("Lanes")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, FOUR)


class _Code:
    """What both intrinsics write: addresses in arrays, loads and picks of lanes."""

    def __init__(self, context: Any, builder: Any, signature: Any):
        self.context, self.builder, self.signature = context, builder, signature

    def address(self, array: int, arguments: Any, at: Any) -> Any:
        """Of number `at` of the array that is argument number `array`."""
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

    def cells(self, arguments: Any) -> tuple[list[Any], Any]:
        """Addresses of the cells of columns c to c + 3, and their places; arguments begin as those of `look_up`."""
        _, at, stride, _, _, c = arguments[:6]
        builder, found = self.builder, []
        for j in range(4):
            cell = builder.load(self.address(3, arguments, builder.add(c, c.type(j))))
            found.append(self.address(0, arguments, builder.add(at, builder.zext(cell, at.type))))
            at = builder.add(at, stride)
        places = self.load(self.address(4, arguments, c), FOUR_SINGLE, 4)
        return found, builder.fpext(places, FOUR)


ONES = ir.Constant(FOUR, [1.0] * 4)


@intrinsic
def look_up(typing, w, at, stride, bins, places, c, total):
    """total + (height, slope) · (1, place) of the columns c to c + 3; column c's cells begin at w[at]."""

    def write(context, builder, signature, arguments):
        code, total = _Code(context, builder, signature), arguments[6]
        addresses, places = code.cells(arguments)
        cells = [code.load(address, TWO, 8) for address in addresses]
        for j in (0, 2):
            both, ones_and_places = (
                code.pick(cells[j], cells[j + 1], 0, 1, 2, 3),
                code.pick(places, ONES, 4, j, 4, j + 1),
            )
            total = code.product_sum(both, ones_and_places, total)
        return total

    return Lanes()(w, types.uint64, types.uint64, bins, places, types.uint64, Lanes()), write


@intrinsic
def add_up(typing, g, at, stride, bins, places, c, z):
    """The cells of columns c to c + 3 gain z · (1, place); column c's cells begin at g[at]."""

    def write(context, builder, signature, arguments):
        code, two = _Code(context, builder, signature), ir.Constant(TWO, ir.Undefined)
        addresses, places = code.cells(arguments)
        for j in (0, 1):
            two = builder.insert_element(two, arguments[6], ir.IntType(32)(j))
        for j, address in enumerate(addresses):
            found = code.product_sum(two, code.pick(places, ONES, 4, j), code.load(address, TWO, 8))
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
        a, b, c, d = (builder.extract_element(arguments[0], ir.IntType(32)(j)) for j in range(4))
        return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))

    return types.float64(Lanes()), write


@inner
def curve_scores(bins, places, lo, hi, w, out):
    """out[r - lo] = sum over columns of height + slope · place, for r in lo:hi. O(values)."""
    columns, one, four = np.uint64(bins.shape[1]), np.uint64(1), np.uint64(4)
    stride, fours = np.uint64(len(w)) // columns, columns // four * four
    for r in range(lo, hi):
        own, p, at, total = bins[r], places[r], np.uint64(0), no_total()
        for c in range(np.uint64(0), fours, four):
            total = look_up(w, at, stride, own, p, c, total)
            at += four * stride
        rest = 0.0
        for c in range(fours, columns):
            k = at + np.uint64(own[c])
            rest += w[k] + w[k + one] * p[c]
            at += stride
        out[r - lo] = whole_total(total) + rest


@inner
def curve_back(bins, places, lo, hi, z, g):
    """For r in lo:hi and every column: its cell's first sum gains z[r - lo], the second z · place. O(values)."""
    columns, one, four = np.uint64(bins.shape[1]), np.uint64(1), np.uint64(4)
    stride, fours = np.uint64(len(g)) // columns, columns // four * four
    for r in range(lo, hi):
        zr = z[r - lo]
        if zr != 0.0:
            own, p, at = bins[r], places[r], np.uint64(0)
            for c in range(np.uint64(0), fours, four):
                add_up(g, at, stride, own, p, c, zr)
                at += four * stride
            for c in range(fours, columns):
                k = at + np.uint64(own[c])
                g[k] += zr
                g[k + one] += zr * p[c]
                at += stride
