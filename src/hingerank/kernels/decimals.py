"""Decimal text to the nearest double, exactly as Python's ``float``: kernels over bytes.

A token is m · 10^k. When m < 2^53 and |k| ≤ 22 one division or product of two exact doubles is correctly rounded.
Otherwise m times the leading 128 bits of 5^k decides, unless the truncated tail could change the rounding: then the
caller falls back to Python. Every reader below relies on a newline after the last byte of a token."""

import math

import numpy as np

from hingerank.kernels.compiled import inner, kernel

SMALLEST_POWER, LARGEST_POWER = -330, 308  # no other 10^k times a 64-bit m > 0 is a normal double

NUMBER, NO_NUMBER, ASK_PYTHON = 0, 1, 2


def _powers_of_five() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leading 128 bits of 5^k, truncated (high word, low word), and e with 5^k·2^k ≈ (high·2^64 + low)·2^e."""
    high, low, exponents = [], [], []
    for k in range(SMALLEST_POWER, LARGEST_POWER + 1):
        if k >= 0:
            cut = (5**k).bit_length() - 128
            bits = 5**k >> cut if cut > 0 else 5**k << -cut
        else:
            cut = -((5**-k).bit_length() + 127)
            bits = (1 << -cut) // 5**-k
        high.append(bits >> 64)
        low.append(bits & (2**64 - 1))
        exponents.append(cut + k)
    return np.array(high, np.uint64), np.array(low, np.uint64), np.array(exponents, np.int64)


FIVES_HIGH, FIVES_LOW, FIVES_EXPONENT = _powers_of_five()
TENS = np.array([float(10**k) for k in range(23)])
TWOS = np.ldexp(1.0, np.arange(-1074, 972))  # TWOS[e + 1074] = 2^e

_0, _1, _10, _11, _32, _63 = (np.uint64(n) for n in (0, 1, 10, 11, 32, 63))
_LOW_HALF, _ALL, _TOP = np.uint64(2**32 - 1), np.uint64(2**64 - 1), np.uint64(2**63)
_EXACT = np.uint64(2**53)


@inner
def high_product(a, b):
    """floor(a·b / 2^64) of two unsigned 64-bit numbers."""
    a1, a0, b1, b0 = a >> _32, a & _LOW_HALF, b >> _32, b & _LOW_HALF
    middle = a1 * b0 + ((a0 * b0) >> _32)
    other = a0 * b1 + (middle & _LOW_HALF)
    return a1 * b1 + (middle >> _32) + (other >> _32)


@inner
def scale_by_ten(m, k):
    """(certain, m·10^k correctly rounded) for an unsigned 64-bit m > 0.

    The true product lies less than 2 units of the middle word above the one computed, so the rounding is certain
    unless the bits below the 53 kept are within 2 units of one half. Subnormal numbers and overflow are uncertain.
    """
    if k < SMALLEST_POWER or k > LARGEST_POWER:
        return False, 0.0
    exponent = FIVES_EXPONENT[k - SMALLEST_POWER] + 128
    while m < _TOP:
        m += m
        exponent -= 1
    five = FIVES_HIGH[k - SMALLEST_POWER]
    top, middle = high_product(m, five), m * five
    carry = high_product(m, FIVES_LOW[k - SMALLEST_POWER])
    middle += carry
    if middle < carry:
        top += _1
    drop = _11 if top >= _TOP else _10
    kept, rest, half = top >> drop, top & ((_1 << drop) - _1), _1 << (drop - _1)
    if (rest == half and middle == _0) or (rest == half - _1 and middle >= _ALL - _1):
        return False, 0.0
    if rest >= half:
        kept += _1
    exponent += np.int64(drop)
    if exponent < -1074 or exponent > 970:
        return False, 0.0
    return True, np.float64(kept) * TWOS[exponent + 1074]


@inner
def decimal_value(m, k, cut):
    """(certain, value) of m·10^k, or, if digits were truncated, of a number from m to m+1 times 10^k."""
    if m == _0:
        return True, 0.0
    if not cut and m < _EXACT and -22 <= k <= 22:
        return True, np.float64(m) * TENS[k] if k >= 0 else np.float64(m) / TENS[-k]
    certain, value = scale_by_ten(m, k)
    if cut and certain:
        certain, above = scale_by_ten(m + _1, k)
        certain = certain and above == value
    return certain, value


@inner
def read_number(text, p):
    """(NUMBER | NO_NUMBER | ASK_PYTHON, end, value) of ``[+-]digits[.digits][e[+-]digits]`` at text[p]."""
    negative = text[p] == 45
    if negative or text[p] == 43:
        p += 1
    m, kept, digits, k, cut = _0, 0, 0, np.int64(0), np.int64(0)
    fraction = False
    while True:
        d = np.int64(text[np.uintp(p)]) - 48
        if 0 <= d <= 9:
            digits += 1
            if kept < 19:
                m = m * _10 + np.uint64(d)
                kept += m != _0
                k -= fraction
            else:
                cut += d
                k += not fraction
        elif d == -2 and not fraction:
            fraction = True
        else:
            break
        p += 1
    if digits == 0:
        return NO_NUMBER, p, 0.0
    if text[p] | 32 == 101:
        p += 1
        down = text[p] == 45
        if down or text[p] == 43:
            p += 1
        shift, first = np.int64(0), p
        while 48 <= text[p] <= 57:
            shift = min(shift * 10 + np.int64(text[p]) - 48, np.int64(100_000_000))
            p += 1
        if p == first:
            return NO_NUMBER, p, 0.0
        k += -shift if down else shift
    certain, value = decimal_value(m, k, cut > 0)
    return (NUMBER if certain else ASK_PYTHON), p, (-value if negative else value)


# Rows to text lines ``label qid:id index:value … #docid = X``: kernels that fill a buffer of bytes.
#
# A number is written with the fewest decimals that read back as the same bits, which is checked by reading them.


LONGEST_NUMBER = 32  # bytes that any number needs at most, with sign, point and exponent
_u1, _u2, _u10, _u11, _u48 = (np.uint64(n) for n in (1, 2, 10, 11, 48))


@inner
def same(a, b, narrow):
    """Whether a and b are equal, as float32 if `narrow`."""
    return np.float32(a) == np.float32(b) if narrow else a == b


@inner
def put_bytes(letters, out, at):
    """Copy `letters` up to its first zero byte; returns the next position."""
    for letter in letters:
        if letter == 0:
            break
        out[at] = letter
        at += 1
    return at


@inner
def put_whole(n, decimals, out, at):
    """Write n / 10^decimals, with at least one digit before the point; returns the next position."""
    length, rest = 1, n // _u10
    while rest > 0:
        length += 1
        rest //= _u10
    length = max(length, decimals + 1)
    end = at + length + (decimals > 0)
    p = end
    for digit in range(length):
        if digit == decimals and decimals > 0:
            p -= 1
            out[p] = 46
        p -= 1
        out[p] = _u48 + n % _u10
        n //= _u10
    return end


@inner
def put_scientific(a, narrow, out, at):
    """Write a > 0 with up to 17 digits; returns the next position, or -1 if it is not certain to read back."""
    fraction, exponent = math.frexp(a)
    k = 16 - np.int64(math.floor(math.log10(a)))
    if k < SMALLEST_POWER or k > LARGEST_POWER:
        return -1
    shift = -(64 + FIVES_EXPONENT[k - SMALLEST_POWER] + exponent)
    if shift < 1 or shift > 63:
        return -1
    top = high_product(np.uint64(fraction * 2.0**53) << _u11, FIVES_HIGH[k - SMALLEST_POWER])
    n = ((top >> np.uint64(shift - 1)) + _u1) >> _u1  # a · 10^k, 16 to 18 digits
    for drop in range(9 if narrow else 2, -1, -1):
        power = np.uint64(TENS[drop])
        m = (n + power // _u2) // power
        certain, value = decimal_value(m, drop - k, False)
        if certain and same(value, a, narrow):
            return put_shifted(m, drop - k, out, at)
    return -1


@inner
def put_shifted(m, k, out, at):
    """Write m · 10^k as a plain decimal if it has a few decimals, else as d.ddde±x."""
    while m % _u10 == 0:
        m //= _u10
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


@inner
def put_number(a, narrow, out, at):
    """Write the shortest plain decimal (up to 15 digits) that reads back as a, else scientific; -1: ask Python."""
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


@kernel
def format_rows(first, end, y, values, columns, offsets, width, base, narrow, qids, docids, out):
    """Write the lines of rows first:end; returns (bytes written, the row whose number is left to Python).

    Dense rows have width > 0 and are consecutive in `values`; sparse ones have width 0 and use `columns` and `offsets`.
    qids[row - first] and docids[row - first] are bytes, padded with zeros.
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
