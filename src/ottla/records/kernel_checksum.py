"""The arithmetic of CRC-32C for data that changes in a few bytes; compiled or not, as `kernel` is. Types: `kernel_checksum.pyi`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

COMPILED = cython.compiled

# Declared, these names are numbers of C. As literals, they would be Python's, because they exceed a signed int.
_POLYNOMIAL = cython.declare(cython.uint, 0x82F63B78)
_HIGHEST_BIT = cython.declare(cython.uint, 0x80000000)
_ALL_BITS = cython.declare(cython.uint, 0xFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _multiply(one: cython.uint, other: cython.uint) -> cython.uint:
    """Return the product of two polynomials modulo that of CRC-32C. Their highest coefficients are the lowest bits."""
    product: cython.uint = 0
    while one != 0:
        if one & _HIGHEST_BIT:
            product ^= other
        one = (one << 1) & _ALL_BITS
        if other & 1:
            other = (other >> 1) ^ _POLYNOMIAL
        else:
            other >>= 1
    return product


def remainder_after_zeros(remainder: cython.uint, count: cython.Py_ssize_t):
    """Return the remainder of CRC-32C, without its inversions, after `count` bytes of zero.

    The time grows with the digits of `count`.
    """
    power: cython.uint = 0x00800000  # one byte of zero multiplies the remainder by x to the power of 8
    while count > 0:
        if count & 1:
            remainder = _multiply(power, remainder)
        power = _multiply(power, power)
        count >>= 1
    return remainder
