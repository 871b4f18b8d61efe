"""Small GGUF files for tests, written by the `gguf` package or by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

Text = str | bytes


def written(path: Path, fill: Callable[[gguf.GGUFWriter], None], architecture: str = "llama") -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def string(text: Text) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def key_text(name: Text, value: Text) -> bytes:
    return string(name) + struct.pack("<I", 8) + string(value)


def key_u32(name: Text, value: int) -> bytes:
    return string(name) + struct.pack("<II", 4, value)


def key_array(name: Text, element: int, count: int, raw: bytes) -> bytes:
    return string(name) + struct.pack("<IIQ", 9, element, count) + raw


def description(name: Text, dims: Sequence[int], kind: int, offset: int) -> bytes:
    """dims: fastest first."""
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def file_bytes(keys: Sequence[bytes] = (), tensors: Sequence[bytes] = (), data: bytes = b"", *, version: int = 3,
               key_count: int | None = None, tensor_count: int | None = None, alignment: int = 32) -> bytes:
    counts = (len(tensors) if tensor_count is None else tensor_count, len(keys) if key_count is None else key_count)
    head = b"GGUF" + struct.pack("<IQQ", version, *counts) + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment if data else 0) + data


def llama_fields(**changes: int | float | str) -> Mapping[str, int | float | str]:
    """2 blocks, 4 heads of 8 values, 2 kv heads."""
    fields: dict[str, int | float | str] = {
        "block_count": 2, "context_length": 64, "embedding_length": 32, "feed_forward_length": 48,
        "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0, "rope.dimension_count": 8,
    }
    return fields | changes


def add_llama(writer: gguf.GGUFWriter, fields: Mapping[str, int | float | str],
              tensors: Mapping[str, NDArray[np.uint8] | NDArray[np.float32]], kind: str = "",
              architecture: str = "llama") -> None:
    """kind: of the tensors that are uint8."""
    for name, value in fields.items():
        key = f"{architecture}.{name}"
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    for name, tensor in tensors.items():
        writer.add_tensor(
            name, tensor, raw_dtype=gguf.GGMLQuantizationType[kind] if tensor.dtype == np.uint8 else None)


# The bytes at which a block's float16 are.
HALVES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "IQ4_NL": (0,), "Q2_K": (80, 82),
    "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_XS": (0,),
}


def packed(name: str, shape: tuple[int, int], seed: int = 0) -> NDArray[np.uint8]:
    """A matrix of random codes and scales of either sign, as large as weights are: uint8 [rows, bytes]."""
    kind, random = gguf.GGMLQuantizationType[name], np.random.default_rng(seed)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (shape[0] * shape[1] // elements, size), np.uint8)
    draws = random.choice([-1, 1], len(blocks)) * random.uniform(0.5, 1, len(blocks))
    _put_halves(name, blocks, draws)
    _put_halves(name, blocks, draws / (gguf.quants.dequantize(blocks, kind).std() * shape[1] ** 0.5))
    return blocks.reshape(shape[0], -1)


def _put_halves(name: str, blocks: NDArray[np.uint8], values: NDArray[np.float64]) -> None:
    for at in HALVES[name]:
        blocks[:, at : at + 2] = values.astype("<f2").view(np.uint8).reshape(-1, 2)


def values(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
