"""The compiled form of a constraint: rules over bytes that call each other, each with at most one register.

A grammar is a recursive transition network. A rule is a byte automaton; besides byte edges it has call edges, which run
another rule and go on in the target state. A rule's activation (its frame) owns one small register, which carries what
would otherwise multiply the states: how many characters or items were written, or which property may come next. Edges
name an action on the register; an action may block the edge.

A frame's register starts at 0. A byte edge applies its action when the byte is read; a call edge when the callee
returns. A frame may return when its state is final and the register allows it.

This is what the compiler hands over, so it is plain data: frozen, serialisable with msgspec, checked by `verify`.
Nothing in it depends on a vocabulary.
"""

from __future__ import annotations

from array import array
from itertools import chain

import msgspec

IR_VERSION = 6

# An edge on CHARACTER + code: the character `code` of a JSON string in any spelling, itself or escaped (characters.py).
CHARACTER = 0x100

# Actions on the register of the frame that owns the edge. KEY + j: property j (0-based) was chosen.
NOTHING = 0
COUNT = 1  # one more character or item: blocked at Counter.maximum
OPEN_KEY = 2  # a free key begins: the edge of its opening quote
CLOSE_KEY = 3  # a free key ends: the edge of its closing quote; blocked when the object has that key already
WRITTEN = 4  # a property is complete: the call of its value
MEET = 5  # as WRITTEN, and its value meets the demand of the object
NEXT_KEY = 6  # a list goes on: the open key, if there is one, ends as by CLOSE_KEY, and the next begins
AGAIN = 7  # an item has the value of one before: the call of it
COPY = 8  # as AGAIN, and it is written as that was
ANYWAY = 9  # an item has any value
KEY = 16


class Counter(msgspec.Struct, frozen=True, tag="counter"):
    """Counts COUNT actions. A final state returns only when minimum <= register <= maximum (None: no upper bound)."""

    minimum: int
    maximum: int | None


class Order(msgspec.Struct, frozen=True, tag="order"):
    """The properties of an object, written in order. The register is the least index that may still be written.

    KEY + j is allowed iff register <= j and no required index lies in [register, j); it sets the register to j + 1.
    A final state returns, and OPEN_KEY is allowed, only when no required index is >= register; OPEN_KEY sets the
    register to len(required), so that declared names never follow free ones.
    `distinct`: the frame also remembers its free keys (the bytes between the edges OPEN_KEY and CLOSE_KEY, exclusive),
    and CLOSE_KEY is blocked for one that was written before. Free keys have one spelling each, or, where they are
    `decoded`, any of JSON's, and count as the same when they mean the same.
    A list of different items is an Order too: its items are the free keys, each behind the first begins with NEXT_KEY,
    and `least` is how many it must have (its states count them); None: an object.
    """

    required: tuple[bool, ...]
    distinct: bool
    decoded: bool = False
    least: int | None = None


class Members(msgspec.Struct, frozen=True, tag="members"):
    """The properties of an object, written in any order. The register is the set of keys written.

    OPEN_KEY begins a key, declared or free. KEY + j ends declared key j, CLOSE_KEY a free one (its bytes are those
    since OPEN_KEY); both are blocked for a key that was written, and when `most` keys were. Every value is called by
    WRITTEN or MEET. A final state returns only when all required keys and at least `least` are written, and the demand,
    if there is one, was met. decoded: as in Order.
    """

    required: tuple[bool, ...]
    least: int = 0
    most: int | None = None
    demand: bool = False
    decoded: bool = False


class Names(msgspec.Struct, frozen=True, array_like=True):
    """The keys of an object in any order, each character in any spelling; they begin in the last state of the rule,
    from which nothing else leads on.

    names: ascending. keys: by name, which declared property it is: its quote has the action KEY + j and leads to the
    state of `targets`; -1: no key may have this name. others: the state behind the quote of any other key (CLOSE_KEY);
    -1: there are none.
    """

    names: tuple[str, ...]
    keys: tuple[int, ...]
    targets: tuple[int, ...]
    others: int = -1


class Unlike(msgspec.Struct, frozen=True, tag="unlike"):
    """Items of a list that differ as values, whatever their texts. Every call of the rule reads one item; where it
    returns, the value of the text that it read joins the set of those written, and one that is there already blocks the
    return. least: how many there must be (the states count them). decoded: as in Order. few: rules of items, each with
    how many values suffice for one more to be left where such an item must come; of the others so many as `least`.
    alike: two must be equal. What returns without an action joins the set, as one that may come again; by AGAIN or COPY
    it has a value of the set, as text by COPY, and the set is empty behind it; by ANYWAY it is any, and the set stays.
    What has a value of a set by COPY or AGAIN may be of any rule that returned to that set, in one of the calls there.
    """

    least: int = 0
    decoded: bool = False
    few: tuple[tuple[int, int], ...] = ()
    alike: bool = False


class Call(msgspec.Struct, frozen=True, array_like=True):
    """In state `source`, run `rule`, then go on in `target`; `action` is applied on return."""

    source: int
    rule: int
    target: int
    action: int = NOTHING


Register = Counter | Order | Members | Unlike


class Rule(msgspec.Struct, frozen=True):
    """One automaton. State 0 is its start.

    edges: little-endian int32 quintuples (source, low, high, target, action): bytes low..high inclusive, or, from
    CHARACTER on, characters. From one state no two edges overlap. A state with characters has no other edge but on a
    quote or control bytes; its characters ascend and have one action. Calls of one state may compete with each other,
    with edges and with finality: the engine follows them all.
    finals: states in which the rule may return. No rule accepts the empty text except the start rule; no rule calls
    itself, directly or not, before it has read a byte (the compiler removes left recursion).
    names: with Members, its keys, where no pattern tells them apart (names.py).
    name: for messages ("object at #/properties/a"). pointer: where in the source it comes from.
    """

    name: str
    pointer: str
    states: int
    edges: bytes
    calls: tuple[Call, ...]
    finals: tuple[int, ...]
    register: Register | None = None
    names: Names | None = None


class Grammar(msgspec.Struct, frozen=True):
    """rules[start] is the root. notes: keywords outside the standard that constrain nothing, with their pointers.
    specials: the special tokens that edges spell (see `special`)."""

    rules: tuple[Rule, ...]
    start: int
    notes: tuple[str, ...] = ()
    specials: tuple[str, ...] = ()
    version: int = IR_VERSION


def special(name: str) -> bytes:
    """How edges and tries spell the special token `name`: between two bytes that no text in UTF-8 has."""
    return b"\xfe" + name.encode() + b"\xff"


def pack_edges(edges: list[tuple[int, int, int, int, int]]) -> bytes:
    """Quintuples (source, low, high, target, action) as the bytes that Rule.edges holds."""
    return packed(array("i", list(chain.from_iterable(edges))))


def packed(flat: array[int]) -> bytes:
    """The same of their numbers, one after the other."""
    if flat.itemsize != 4:
        raise RuntimeError("array('i') is not 32 bits wide on this platform")
    return flat.tobytes()


def unpack_edges(packed: bytes) -> list[tuple[int, int, int, int, int]]:
    """The inverse of pack_edges."""
    flat = array("i")
    flat.frombytes(packed)
    return list(zip(flat[0::5], flat[1::5], flat[2::5], flat[3::5], flat[4::5], strict=True))
