"""What a configuration leaves open is settled beside the model."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import InvalidParameter
from espalier.runtime.sizing import pages_in, positions_of, sized
from espalier.runtime.torch_executor import TorchExecutor

from .tiny_llama import SHAPE, tiny_config, tiny_llama

PAGE = 8
BYTES = 2 * SHAPE.layers * SHAPE.kv_heads * SHAPE.head_dim * PAGE * 4  # of a page in float32


@pytest.mark.parametrize(("asked", "settled"), [
    ({"pages": 0, "step_tokens": 0}, (2048, 512)), ({"pages": 7, "step_tokens": 0}, (7, 512)),
    ({"pages": 0, "step_tokens": 9}, (2048, 9)), ({"pages": 7, "step_tokens": 9}, (7, 9)),
])
def test_zeros_become_what_suits_the_cpu_and_numbers_stay(asked: dict[str, int], settled: tuple[int, int]) -> None:
    config = tiny_config(**asked)
    found = sized(config, tiny_llama(config))
    assert (found.pages, found.step_tokens) == settled


@pytest.mark.parametrize(("memory", "pages"), [(3 * BYTES, 2), (100 * BYTES, 99), (101 * BYTES - 1, 99)])
def test_pages_fill_the_memory_but_for_one_that_the_executor_keeps(memory: int, pages: int) -> None:
    assert pages_in(memory, tiny_llama(tiny_config()), PAGE) == pages


def test_a_layers_pool_has_fewer_elements_than_32_bits_count() -> None:
    each = SHAPE.kv_heads * SHAPE.head_dim * PAGE
    assert (pages_in(1 << 50, tiny_llama(tiny_config()), PAGE) + 1) * each < 1 << 31


def test_too_little_memory_and_a_pool_of_one_page_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="no pages fit") as refused:
        pages_in(2 * BYTES, tiny_llama(tiny_config()), PAGE)
    assert refused.value.where == "pages"
    with pytest.raises(InvalidParameter, match="pages is 1"):
        EngineConfig(pages=1)


@pytest.mark.parametrize(("stated", "asked", "positions"), [
    (64, {}, 64), (64, {"context": 40}, 40), (64, {"context": 99}, 64), (1 << 63, {"pages": 3, "page": 16}, 48),
    (10**30, {"pages": 0, "page": 16}, 2048 * 16), (10**30, {"context": 500, "pages": 0, "page": 16}, 500),
])
def test_no_more_positions_are_prepared_than_can_be_reached(
    stated: int, asked: dict[str, int], positions: int
) -> None:
    shape = dataclasses.replace(SHAPE, context=stated)
    assert positions_of(tiny_config(**asked), shape, torch.float32) == positions


def test_a_pool_that_reaches_further_than_the_model_was_loaded_for_is_refused() -> None:
    model = tiny_llama(tiny_config())
    short = dataclasses.replace(model, cos=model.cos[:32], sin=model.sin[:32])
    TorchExecutor(short, tiny_config(pages=4))
    with pytest.raises(InvalidParameter, match="loaded for 32 positions"):
        TorchExecutor(short, tiny_config(pages=5))
