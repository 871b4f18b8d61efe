"""What blocks of GGUF tensor types are made of: scales, and codes of a few bits.

All take uint8 `[blocks, size]` and give one row a block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

# The sixteen values of IQ4_NL and IQ4_XS, closer together near zero.
IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
IQ4_ZERO = 128
_IQ4_CODES = bytes(IQ4_ZERO + value for value in IQ4_VALUES) + bytes(240)


def half(blocks: Bytes, at: int) -> Floats:
    """The float16 at byte `at` of each block, as a float32 column."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def digits(packed: Bytes, bits: int, run: int) -> Bytes:
    """Codes of 1, 2 or 4 bits. Of each `run` bytes first the lowest bits of all, then the next higher of all, and so
    on: uint8 `[blocks, bytes * 8 / bits]`."""
    runs = np.ascontiguousarray(packed).reshape(len(packed), -1, run)
    mask = np.uint8((1 << bits) - 1)
    codes = np.empty((*runs.shape[:2], 8 // bits, run), np.uint8)
    for place in range(8 // bits):
        codes[:, :, place] = runs >> np.uint8(place * bits) & mask
    return codes.reshape(len(packed), -1)


def joined(low: Bytes, high: Bytes, bits: int) -> Bytes:
    """Codes from their lowest `bits` bits and those above, in the memory of both."""
    high <<= np.uint8(bits)
    low |= high
    return low


def six_bit_scales(blocks: Bytes, at: int) -> tuple[Bytes, Bytes]:
    """The eight scales and eight minima in the 12 bytes at `at` (Q4_K, Q5_K). The first four of each lie in the low six
    bits of four bytes; of the others the low four bits lie in the last four bytes, the high two above the first."""
    first, second, rest = (blocks[:, at + start : at + start + 4] for start in (0, 4, 8))
    scales = np.concatenate((first & np.uint8(63), rest & np.uint8(15) | first >> np.uint8(2) & np.uint8(48)), axis=1)
    minima = np.concatenate((second & np.uint8(63), rest >> np.uint8(4) | second >> np.uint8(2) & np.uint8(48)), axis=1)
    return scales, minima


def iq4_codes(packed: Bytes) -> Bytes:
    """The values of nibbles in runs of 16 bytes, counted from -IQ4_ZERO."""
    codes = digits(packed, 4, 16)
    # Bytes through a table of bytes: an array as an index would take eight bytes for each.
    return np.frombuffer(bytearray(codes).translate(_IQ4_CODES), np.uint8).reshape(codes.shape)


def iq4_xs_scales(blocks: Bytes) -> Bytes:
    """The eight scales of a block of IQ4_XS, six bits each."""
    return joined(digits(blocks[:, 4:8], 4, 1), digits(blocks[:, 2:4], 2, 1), 4)


def q5_codes(blocks: Bytes, at: int) -> Bytes:
    """The 32 codes of Q5_0 and Q5_1: from `at` on their fifth bits, bit i that of element i, then nibbles."""
    fifth = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    return joined(digits(blocks[:, at + 4 :], 4, 16), fifth, 4)


def q5_k_codes(blocks: Bytes) -> Bytes:
    return joined(digits(blocks[:, 48:], 4, 32), digits(blocks[:, 16:48], 1, 32), 4)
