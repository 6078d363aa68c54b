"""Decimal text to doubles: every accepted token is what Python's float makes of it, and few are left to it."""

import random
import struct
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from hingerank.kernels.decimals import ASK_PYTHON, NO_NUMBER, NUMBER, read_number


@njit
def read(text, p):
    return read_number(text, p)


def parse(token: str):
    return read(np.frombuffer(bytearray(token.encode() + b"\n"), np.uint8), 0)


def bits(x: float) -> bytes:
    return struct.pack("d", x)


def halfway(chance: random.Random, digits: int) -> str:
    """A decimal next to, or exactly at, the middle of two neighbouring doubles."""
    middle = Fraction(2 * (chance.getrandbits(52) | 1 << 52) + 1) * Fraction(2) ** chance.randint(-60, 30)
    with localcontext() as context:
        context.prec = digits
        return str(Decimal(middle.numerator) / Decimal(middle.denominator))


MAKERS = {
    "any double": lambda c: repr(struct.unpack("d", struct.pack("Q", c.getrandbits(64) & 0xFFEFFFFFFFFFFFFF))[0]),
    "unit": lambda c: repr(c.random()),
    "fixed": lambda c: f"{c.gauss(0, 100):.{c.randint(0, 25)}f}",
    "scientific": lambda c: f"{c.gauss(0, 1):.{c.randint(0, 25)}e}",
    "whole": lambda c: str(c.getrandbits(c.randint(1, 100))),
    "halfway": lambda c: halfway(c, c.choice((17, 18, 19, 20, 30, 200))),
    "any exponent": lambda c: (
        f"{c.choice(('', '-', '+'))}{c.getrandbits(40)}.{c.getrandbits(20)}E{c.randint(-340, 320)}"
    ),
    "leading zeros": lambda c: "0" * c.randint(1, 30) + "." + "0" * c.randint(0, 30) + str(c.getrandbits(62)),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_equals_float(kind):
    chance = random.Random(kind)
    asked = 0
    for _ in range(4000):
        token = MAKERS[kind](chance)
        code, end, value = parse(token)
        assert end == len(token) and code != NO_NUMBER, token
        asked += code == ASK_PYTHON
        if code == NUMBER:
            assert bits(value) == bits(float(token)), token
    assert asked <= {"halfway": 4000, "any exponent": 400, "any double": 80, "whole": 400}.get(kind, 0)


@pytest.mark.parametrize("token", ["0", "-0", "+0.0", "5.", ".5", "1e22", "-1E-22", "0e99999999999", "1" + "0" * 400])
def test_edges(token):
    code, end, value = parse(token)
    assert end == len(token)
    assert code == ASK_PYTHON or bits(value) == bits(float(token))


@pytest.mark.parametrize("token", ["", ".", "-", "+", "e5", "1e", "1e+", "-.e1", "nan", "inf", " 1"])
def test_not_a_number(token):
    assert parse(token)[0] == NO_NUMBER


@pytest.mark.parametrize("token, end", [("1.2.3", 3), ("0x10", 1), ("1_0", 1), ("1,5", 1), ("1e5e5", 3), ("--1", None)])
def test_stops_where_the_number_ends(token, end):
    code, stopped, _ = parse(token)
    assert (code == NO_NUMBER) if end is None else stopped == end
