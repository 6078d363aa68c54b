"""Decimal text to the nearest double, exactly as Python's ``float``: kernels over bytes.

A token is m · 10^k. When m < 2^53 and |k| ≤ 22 one division or product of two exact doubles is correctly rounded.
Otherwise m times the leading 128 bits of 5^k tells the answer, unless the cut-off tail could change the rounding:
then the caller is told to ask Python. Every reader below relies on a newline after the last byte of a token.
"""

import numpy as np
from numba import njit

SMALLEST_POWER, LARGEST_POWER = -330, 308  # no other 10^k times a 64-bit m > 0 is a normal double

NUMBER, NO_NUMBER, ASK_PYTHON = 0, 1, 2


def _powers_of_five() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leading 128 bits of 5^k, cut off (high word, low word), and e with 5^k·2^k ≈ (high·2^64 + low)·2^e."""
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


@njit(cache=True, nogil=True)
def high_product(a, b):
    """floor(a·b / 2^64) of two unsigned 64-bit numbers."""
    a1, a0, b1, b0 = a >> _32, a & _LOW_HALF, b >> _32, b & _LOW_HALF
    middle = a1 * b0 + ((a0 * b0) >> _32)
    other = a0 * b1 + (middle & _LOW_HALF)
    return a1 * b1 + (middle >> _32) + (other >> _32)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def decimal_value(m, k, cut):
    """(certain, value) of m·10^k, or of a number from m to m+1 times 10^k if digits were cut off."""
    if m == _0:
        return True, 0.0
    if not cut and m < _EXACT and -22 <= k <= 22:
        return True, np.float64(m) * TENS[k] if k >= 0 else np.float64(m) / TENS[-k]
    certain, value = scale_by_ten(m, k)
    if cut and certain:
        certain, above = scale_by_ten(m + _1, k)
        certain = certain and above == value
    return certain, value


@njit(cache=True, nogil=True)
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
