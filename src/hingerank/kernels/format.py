"""Rows to text lines ``label qid:id index:value … #docid = X``: kernels that fill a buffer of bytes.

A number is written so that `decimals` reads the same bits back: as few decimals as do, checked by reading them.
"""

import math

import numpy as np
from numba import njit

from hingerank.kernels.decimals import (
    FIVES_EXPONENT,
    FIVES_HIGH,
    LARGEST_POWER,
    SMALLEST_POWER,
    TENS,
    decimal_value,
    high_product,
)

LONGEST_NUMBER = 32  # bytes of room that any number needs, with sign, point and exponent
_1, _2, _10, _11, _48 = (np.uint64(n) for n in (1, 2, 10, 11, 48))


@njit(cache=True, nogil=True)
def same(a, b, narrow):
    """Whether a and b are one number, as float32 if `narrow`."""
    return np.float32(a) == np.float32(b) if narrow else a == b


@njit(cache=True, nogil=True)
def put_bytes(letters, out, at):
    """Copy `letters` up to its first zero byte; returns the next place."""
    for letter in letters:
        if letter == 0:
            break
        out[at] = letter
        at += 1
    return at


@njit(cache=True, nogil=True)
def put_whole(n, decimals, out, at):
    """n / 10^decimals in digits, at least one of them before the point; returns the next place."""
    length, rest = 1, n // _10
    while rest > 0:
        length += 1
        rest //= _10
    length = max(length, decimals + 1)
    end = at + length + (decimals > 0)
    p = end
    for digit in range(length):
        if digit == decimals and decimals > 0:
            p -= 1
            out[p] = 46
        p -= 1
        out[p] = _48 + n % _10
        n //= _10
    return end


@njit(cache=True, nogil=True)
def put_scientific(a, narrow, out, at):
    """a > 0 with up to 17 digits; returns the next place, or -1 if that is not certain to read back."""
    fraction, exponent = math.frexp(a)
    k = 16 - np.int64(math.floor(math.log10(a)))
    if k < SMALLEST_POWER or k > LARGEST_POWER:
        return -1
    shift = -(64 + FIVES_EXPONENT[k - SMALLEST_POWER] + exponent)
    if shift < 1 or shift > 63:
        return -1
    top = high_product(np.uint64(fraction * 2.0**53) << _11, FIVES_HIGH[k - SMALLEST_POWER])
    n = ((top >> np.uint64(shift - 1)) + _1) >> _1  # a · 10^k, 16 to 18 digits
    for drop in range(9 if narrow else 2, -1, -1):
        power = np.uint64(TENS[drop])
        m = (n + power // _2) // power
        certain, value = decimal_value(m, drop - k, False)
        if certain and same(value, a, narrow):
            return put_shifted(m, drop - k, out, at)
    return -1


@njit(cache=True, nogil=True)
def put_shifted(m, k, out, at):
    """m · 10^k as a plain decimal if it has a few decimals, else as d.ddde±x."""
    while m % _10 == 0:
        m //= _10
        k += 1
    if -22 <= k <= 0:
        return put_whole(m, -k, out, at)
    end = put_whole(m, 0, out, at + 1)
    k += end - at - 2
    out[at] = out[at + 1]
    if end > at + 2:
        out[at + 1] = 46
        at = end
    else:
        at += 1
    out[at] = 101
    at += 1
    if k < 0:
        out[at] = 45
        at += 1
    return put_whole(np.uint64(abs(k)), 0, out, at)


@njit(cache=True, nogil=True)
def put_number(a, narrow, out, at):
    """The plain decimal with fewest digits (up to 15) that reads back as a, else scientific; -1: ask Python."""
    if math.isnan(a):
        for letter in (78, 85, 76, 76):
            out[at] = letter
            at += 1
        return at
    if math.copysign(1.0, a) < 0:
        out[at] = 45
        at += 1
        a = -a
    for decimals in range(16 if a < 2.0**53 else 0):
        m = np.rint(a * TENS[decimals])
        if m >= 2.0**53:
            break
        if same(m / TENS[decimals], a, narrow):
            return put_whole(np.uint64(m), decimals, out, at)
    return put_scientific(a, narrow, out, at)


@njit(cache=True, nogil=True)
def format_rows(first, end, y, values, columns, offsets, width, base, narrow, qids, docids, out):
    """Write the lines of rows first:end; returns (bytes written, the row at which a number had to be left to Python).

    Dense rows have width > 0 and lie in `values` one after the other; sparse ones have width 0 and use `columns`
    and `offsets`. qids[row - first] and docids[row - first] are bytes, padded with zeros.
    """
    at = 0
    for row in range(first, end):
        begin = at
        at = put_number(y[row], False, out, at)
        if at < 0:
            return begin, row
        at = put_bytes(qids[row - first], out, at)
        start = row * width if width > 0 else offsets[row]
        stop = start + width if width > 0 else offsets[row + 1]
        for i in range(start, stop):
            out[at] = 32
            column = i - start if width > 0 else columns[i]
            at = put_whole(np.uint64(column + base), 0, out, at + 1)
            out[at] = 58
            at = put_number(np.float64(values[i]), narrow, out, at + 1)
            if at < 0:
                return begin, row
        at = put_bytes(docids[row - first], out, at)
        out[at] = 10
        at += 1
    return at, end
