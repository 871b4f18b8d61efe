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
              tensors: Mapping[str, NDArray[np.float32]]) -> None:
    for name, value in fields.items():
        key = f"llama.{name}"
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)


def values(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
