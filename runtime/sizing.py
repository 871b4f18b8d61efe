"""What a configuration leaves to the machine: pages of the pool, tokens of a step, positions that can be reached."""

from __future__ import annotations

import msgspec
import torch

from .config import EngineConfig
from .errors import InvalidParameter
from .models.config import LlamaConfig
from .models.llama import Llama

CPU_PAGES, CPU_STEP = 2048, 512
# Prefill of an 8B model on an H200, of its floor: 0.69 in steps of 512 tokens, 0.46 in exact mode; 0.76 and 0.74 in one
# of 8,192. The longer a step, the longer those wait that decode.
GPU_STEP = 2048
# Of the memory that is free beside the weights; the rest is for a step's activations and captured graphs.
GPU_SHARE = 0.85
# Kernels count the elements of a layer's pool in 32 bits.
MOST_ELEMENTS = (1 << 31) - 1


def sized(config: EngineConfig, model: Llama) -> EngineConfig:
    """With numbers in place of 0. model: on its device. Raises InvalidParameter where no page fits beside it."""
    on_gpu = model.device.type == "cuda"
    pages = config.pages or (_that_fit(model, config.page) if on_gpu else CPU_PAGES)
    return msgspec.structs.replace(
        config, pages=pages, step_tokens=config.step_tokens or (GPU_STEP if on_gpu else CPU_STEP))


def positions_of(config: EngineConfig, shape: LlamaConfig, dtype: torch.dtype) -> int:
    """How many places of a text can be computed, before the model is loaded: those of the context, as long as they can
    be in the pool at once. A file may state any context."""
    if config.pages:
        pages = config.pages
    elif config.device == "cpu":
        pages = CPU_PAGES
    else:
        pages = _counted(torch.cuda.mem_get_info()[1], shape, dtype, config.page)
    return min(shape.context, config.context or shape.context, max(pages, 0) * config.page)


def check_positions(config: EngineConfig, model: Llama) -> None:
    """Raises InvalidParameter when texts could reach beyond what the model was loaded for. config: sized."""
    if positions_of(config, model.config, model.dtype) > len(model.cos):
        raise InvalidParameter(f"the model was loaded for {len(model.cos)} positions", where="pages",
                               fix="Load it with this config.")


def _that_fit(model: Llama, page: int) -> int:
    free, _ = torch.cuda.mem_get_info(model.device)
    return pages_in(int(free * GPU_SHARE), model, page)


def pages_in(memory: int, model: Llama, page: int) -> int:
    """memory: bytes. page: tokens. One page more than these is left out: the GPU's executor keeps it for itself."""
    pages = _counted(memory, model.config, model.dtype, page) - 1
    if pages < 2:
        raise InvalidParameter("no pages fit beside the weights in the memory of the device", where="pages",
                               fix="Free memory there, or set device to cpu.")
    return pages


def _counted(memory: int, shape: LlamaConfig, dtype: torch.dtype, page: int) -> int:
    elements = shape.kv_heads * page * shape.head_dim
    return min(memory // (2 * shape.layers * elements * dtype.itemsize), MOST_ELEMENTS // elements)
