"""What can follow a set of threads: the next bytes, and the text that all continuations share."""

from __future__ import annotations

from numba import types

from ..binding.context import CONTEXT_TYPE, classes_of, report_of, threads_of
from ..jit import entry, inner
from .nearest import nearest
from .walk import CROSSED, OPEN, heed, keep, step

_i8, _u1 = types.int64, types.uint8[::1]


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _follows(context, count, byte, before):  # type: ignore[no-untyped-def]
    """Whether a byte can follow threads[:count]: 1 or 0, -1 in trouble. before: what was said of the byte before, which
    holds for this one too where the grammar does not tell them apart, unless both are spelled into a key."""
    classes, threads = classes_of(context), threads_of(context)
    if byte > 0 and classes[byte] == classes[byte - 1]:
        open = False
        for k in range(count):
            open = open or threads[k, OPEN] > 0
        if not open:
            return before
    end = step(context, _i8(0), count, byte, _i8(1))
    return _i8(-1 if end < 0 else 1 if end > count else 0)


@entry(_i8(CONTEXT_TYPE, _i8, _u1))
def next_bytes(context, count, found):  # type: ignore[no-untyped-def]
    """found[b] = 1 for every byte that can follow threads[:count]; returns how many, -1 in trouble."""
    total, follows = _i8(0), _i8(0)
    for byte in range(256):
        follows = _follows(context, count, _i8(byte), follows)
        if follows < 0:
            return _i8(-1)
        found[byte] = follows
        total += follows
    return total


@entry(_i8(CONTEXT_TYPE, _i8, _u1))
def only_text(context, count, text):  # type: ignore[no-untyped-def]
    """Writes the text that every continuation of threads[:count] shares; returns its length, -1 in trouble.

    The threads are left behind that text; report[CROSSED] holds how many they are. Stops at text.size.
    """
    length = 0
    while length < text.size and nearest(context, _i8(0), count, _i8(1)) > 0:
        only, follows = -1, _i8(0)
        for byte in range(256):
            follows = _follows(context, count, _i8(byte), follows)
            if follows < 0:
                return _i8(-1)
            if follows == 1 and only >= 0:
                only = -2
                break
            if follows == 1:
                only = byte
        if only < 0:
            break
        end = step(context, _i8(0), count, _i8(only), _i8(1))
        heed(context, count, end, _i8(only))
        count = keep(context, count, end)
        text[length] = only
        length += 1
    report_of(context)[CROSSED] = count
    return _i8(length)
