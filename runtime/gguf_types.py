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
BF16 = BlockType(30, "BF16", 1, 2)
Q4_0 = BlockType(2, "Q4_0", 32, 18)
Q4_1 = BlockType(3, "Q4_1", 32, 20)
Q5_0 = BlockType(6, "Q5_0", 32, 22)
Q5_1 = BlockType(7, "Q5_1", 32, 24)
Q8_0 = BlockType(8, "Q8_0", 32, 34)
IQ4_NL = BlockType(20, "IQ4_NL", 32, 18)
Q2_K = BlockType(10, "Q2_K", 256, 84)
Q3_K = BlockType(11, "Q3_K", 256, 110)
Q4_K = BlockType(12, "Q4_K", 256, 144)
Q5_K = BlockType(13, "Q5_K", 256, 176)
Q6_K = BlockType(14, "Q6_K", 256, 210)
IQ4_XS = BlockType(23, "IQ4_XS", 256, 136)

SUPPORTED = {
    kind.id: kind
    for kind in (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS)
}

# Known, and refused by name.
NAMES = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
    40: "NVFP4", 41: "Q1_0",
}
