"""The tensor types of GGUF: how many elements one block holds, in how many bytes, and which this runtime reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockType:
    """A tensor's rows are runs of blocks: `elements` values in `size` bytes."""

    id: int
    name: str
    elements: int
    size: int


F32 = BlockType(0, "F32", 1, 4)
F16 = BlockType(1, "F16", 1, 2)
Q4_0 = BlockType(2, "Q4_0", 32, 18)
Q4_1 = BlockType(3, "Q4_1", 32, 20)
Q8_0 = BlockType(8, "Q8_0", 32, 34)
BF16 = BlockType(30, "BF16", 1, 2)

SUPPORTED = {kind.id: kind for kind in (F32, F16, Q4_0, Q4_1, Q8_0, BF16)}

# Known, and refused by name.
NAMES = {
    6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
    40: "NVFP4", 41: "Q1_0",
}
