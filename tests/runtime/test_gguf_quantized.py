"""Quantised GGUF tensors: the values are those of the gguf package, and a llama of them is that of their floats."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import quants
from numpy.typing import NDArray

from espalier.kernels import amx
from espalier.kernels.quantized import GROUP
from espalier.runtime.config import EngineConfig
from espalier.runtime.dequantize import dequantize
from espalier.runtime.errors import WeightsError
from espalier.runtime.gguf import GGUFFile
from espalier.runtime.gguf_types import SUPPORTED
from espalier.runtime.models.config import llama_config
from espalier.runtime.models.llama import Llama
from espalier.runtime.models.load import load_model
from espalier.runtime.models.sources import GGUFSource
from espalier.runtime.torch_executor import TorchExecutor
from espalier.runtime.weights import llama_shapes

from .gguf_files import HALVES, add_llama, description, file_bytes, llama_fields, packed, values, written
from .tiny_llama import SHAPE as TINY
from .tiny_llama import Driver, tiny_config

TYPES = {kind.name: kind for kind in SUPPORTED.values()}
GROUPED = {"Q4_0": 4, "Q4_1": 4, "Q4_K": 4, "Q5_0": 8, "Q5_1": 8, "Q8_0": 8, "IQ4_NL": 8, "Q5_K": 8, "IQ4_XS": 8}

SHAPE = replace(TINY, layers=1, width=256, heads=4, kv_heads=2, head_dim=64, ffn=256, vocab=48, context=64)
FIELDS = llama_fields(**{
    "block_count": 1, "embedding_length": 256, "feed_forward_length": 256, "rope.dimension_count": 64})
TOKENS = [(7 * i * i + 3 * i + 1) % SHAPE.vocab for i in range(24)]


def test_types_are_as_the_gguf_package_has_them() -> None:
    for number, kind in SUPPORTED.items():
        oracle = gguf.GGMLQuantizationType(number)
        assert (oracle.name, *gguf.GGML_QUANT_SIZES[oracle]) == (kind.name, kind.elements, kind.size)
    assert HALVES.keys() == TYPES.keys() - {"F32", "F16", "BF16"}


@pytest.mark.parametrize("name", TYPES)
def test_any_bits_dequantize_as_the_gguf_package_does(name: str) -> None:
    kind = TYPES[name]
    raw = np.random.default_rng(kind.id).integers(0, 256, 512 * kind.size, np.uint8)
    with np.errstate(all="ignore"):
        expected = quants.dequantize(raw, gguf.GGMLQuantizationType(kind.id)).astype(np.float32).reshape(-1)
    ours = dequantize(kind, raw)
    np.testing.assert_array_equal(ours, expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(ours[finite].view(np.uint32), expected[finite].view(np.uint32))


@pytest.mark.parametrize("name", TYPES)
def test_dequantizing_takes_at_most_twice_the_result(name: str) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (1 << 18) // TYPES[name].elements * TYPES[name].size, np.uint8)
    tracemalloc.start()
    result = dequantize(TYPES[name], raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 2 * result.nbytes + (1 << 14)


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, places in HALVES.items() for at in places])
@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7E00])
def test_scales_that_are_not_finite_are_refused(name: str, at: int, bits: int) -> None:
    kind = TYPES[name]
    block = bytearray(packed(name, (1, kind.elements)).tobytes())
    tensor = [description("t", [kind.elements], kind.id, 0)]
    assert np.isfinite(GGUFFile(file_bytes([], tensor, bytes(block))).tensor("t")).all()
    block[at : at + 2] = struct.pack("<H", bits)
    with pytest.raises(WeightsError, match="not finite") as caught:
        GGUFFile(file_bytes([], tensor, bytes(block))).tensor("t")
    assert caught.value.where == "tensor t"


@pytest.mark.parametrize("name", [name for name, kind in TYPES.items() if kind.elements == 256])
def test_a_row_that_is_no_whole_super_block_is_refused(name: str) -> None:
    with pytest.raises(WeightsError, match=f"rows of 128 are no whole number of {name} blocks"):
        GGUFFile(file_bytes([], [description("t", [128, 2], TYPES[name].id, 0)], bytes(TYPES[name].size)))


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    """A llama whose matrices are of this type, and the same values in float32."""
    stored: dict[str, NDArray[np.uint8] | NDArray[np.float32]] = {}
    floats: dict[str, NDArray[np.float32]] = {}
    for seed, (tensor, shape) in enumerate(llama_shapes(SHAPE).items()):
        if len(shape) == 2:
            stored[tensor] = rows = packed(name, (shape[0], shape[1]), seed)
            floats[tensor] = quants.dequantize(rows, gguf.GGMLQuantizationType[name])
        else:
            stored[tensor] = floats[tensor] = (1 + values(shape, seed) / 10).astype(np.float32)
    return (written(folder / "stored.gguf", lambda writer: add_llama(writer, FIELDS, stored, name)),
            written(folder / "floats.gguf", lambda writer: add_llama(writer, FIELDS, floats)))


def _logits(model: Llama, config: EngineConfig, cuts: range = range(0)) -> torch.Tensor:
    return Driver(TorchExecutor(model, config), config.page).whole(TOKENS, cuts)


@pytest.mark.parametrize("matrix_unit", [True, False])
@pytest.mark.parametrize("name", HALVES)
def test_a_llama_of_quantised_tensors_is_that_of_their_floats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, matrix_unit: bool
) -> None:
    """In float32 to the bit; in bfloat16, in chunks small enough for the weights in few bits, closely."""
    if not matrix_unit:
        monkeypatch.setattr(amx, "available", lambda: False)
    stored, floats = _files(tmp_path, name)
    exact = tiny_config(pages=16)
    expected = _logits(load_model(floats, exact), exact)
    assert torch.equal(_logits(load_model(stored, exact), exact), expected)
    fast = tiny_config(pages=16, dtype="bfloat16", exact=False)
    model = load_model(stored, fast)
    few = {"tiles": name in GROUPED and amx.available(),
           "codes": GROUPED.get(name) == 4 and not amx.available()}
    for matrix in (model.blocks[0].qkv, model.blocks[0].down, model.head):
        assert {part: getattr(matrix, part) is not None for part in few} == few
    got = _logits(model, fast, range(4, len(TOKENS), 4)).float().log_softmax(-1)
    divergence = (expected.log_softmax(-1).exp() * (expected.log_softmax(-1) - got)).sum(-1)
    assert divergence.max() < 5e-3


@pytest.mark.parametrize("name", HALVES)
def test_groups_of_few_bits_are_the_tensor(tmp_path: Path, name: str) -> None:
    file = GGUFFile.open(_files(tmp_path, name)[0])
    source = GGUFSource(file, llama_config(file))
    for tensor in ("blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.ffn_down.weight"):
        groups = source.groups(tensor)
        assert (groups is not None) == (name in GROUPED)
        if groups is not None:
            scale, offset = (x.repeat_interleave(GROUP, 1) for x in (groups.scale, groups.offset))
            assert torch.equal(scale * groups.codes + offset, torch.from_numpy(source.tensor(tensor)))
            assert int(groups.codes.max()) < 1 << GROUPED[name]
