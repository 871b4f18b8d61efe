"""Paged attention of others, where they are installed: the same pages, rows and rotation, planned outside of the time.

FlashInfer (its wheel and apache-tvm-ffi; the first call of a template builds it, minutes for FA3): decode, prefill, and
a cascade of one wrapper for each level of a tree, each with the FA2 and the FA3 template; the fastest is taken. torch:
cuDNN, FlashAttention and FlexAttention on dense keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from espalier.kernels.items import Segment

from .device import graph_us

Call = Callable[[], torch.Tensor]
WORKSPACE = 256 << 20


@dataclass(frozen=True)
class Level:
    """Nodes of one depth. rows, pages: where those of each node begin; indices: the pages; last: slots of the last one.
    """

    rows: list[int]
    pages: list[int]
    indices: torch.Tensor
    last: list[int]


@dataclass(frozen=True)
class Paged:
    """What a copy of a case computes. k, v: [pages, kv_heads, page, head_dim]. tokens: of a row."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    levels: list[Level]
    tokens: int


@dataclass(frozen=True)
class Peer:
    name: str
    us: float
    plan_us: float
    out: torch.Tensor


def levels_of(
    segments: Sequence[Segment], runs: Sequence[Sequence[tuple[int, int]]], order: torch.Tensor, page: int
) -> list[Level]:
    """Where every row has as many nodes above it; else no levels. order: the page numbers that runs count in."""
    depth: list[int] = []
    for segment in segments:
        depth.append(depth[segment.parent] + 1 if segment.parent >= 0 else 0)
    if len({len(path) for path in runs}) != 1:
        return []
    found = []
    for level in range(max(depth) + 1):
        nodes = [segment for segment, at in zip(segments, depth, strict=True) if at == level]
        spans = [runs[node.row_begin][level] for node in nodes]
        starts = [0]
        for _, count in spans:
            starts.append(starts[-1] + count)
        last = [node.slot_end - node.slot_begin - (count - 1) * page
                for node, (_, count) in zip(nodes, spans, strict=True)]
        indices = torch.cat([order[first : first + count] for first, count in spans]).to(torch.int32)
        found.append(Level([0, *(node.row_end for node in nodes)], starts, indices.cuda(), last))
    return found


def flashinfer(copies: Sequence[Paged]) -> Peer | None:
    """The fastest of its ways; None where it is not installed or has none for this case."""
    if find_spec("flashinfer") is None or not copies[0].levels:
        return None
    best = None
    for name, make in _ways(copies[0]):
        # Of a peer that does not serve a case the reason is printed, and the others go on.
        try:
            begin = time.perf_counter()
            calls = [make(copy) for copy in copies]
            plan_us = (time.perf_counter() - begin) * 1e6 / len(copies)
            out = calls[0]().clone()
            us = graph_us(calls)
        except (RuntimeError, ValueError, OSError, AssertionError) as reason:
            print(f"  FlashInfer {name}: {type(reason).__name__}: {str(reason)[-300:]}", flush=True)
            continue
        print(f"  FlashInfer {name}: {us:.1f} us", flush=True)
        if best is None or us < best.us:
            best = Peer(f"FlashInfer {name}", us, plan_us, out)
    return best


def _ways(case: Paged) -> Iterator[tuple[str, Callable[[Paged], Call]]]:
    if len(case.levels) > 1:
        yield "cascade fa3", lambda copy: _cascade(copy, "fa3")
        yield "cascade fa2", lambda copy: _cascade(copy, "fa2")
    elif case.tokens > 1:
        yield "prefill fa3", lambda copy: _prefill(copy, "fa3")
        yield "prefill fa2", lambda copy: _prefill(copy, "fa2")
    else:
        yield "decode fa3", lambda copy: _decode(copy, "fa3")
        yield "decode fa2", lambda copy: _decode(copy, "fa2")
        yield "decode without tensor cores", lambda copy: _decode(copy, "")


def _ints(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def _shape(copy: Paged) -> tuple[int, int, int, int]:
    """q_heads, kv_heads, head_dim, page."""
    return copy.q.shape[1], copy.k.shape[1], copy.q.shape[2], copy.k.shape[2]


def _workspace() -> torch.Tensor:
    return torch.zeros(WORKSPACE, dtype=torch.uint8, device="cuda")


def _decode(copy: Paged, backend: str) -> Call:
    """backend: "" to run without tensor cores."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    level = copy.levels[0]
    options: dict[str, Any] = {"backend": backend} if backend else {}
    wrapper = BatchDecodeWithPagedKVCacheWrapper(_workspace(), "HND", use_tensor_cores=bool(backend), **options)
    wrapper.plan(_ints(level.pages), level.indices, _ints(level.last), *_shape(copy), q_data_type=copy.q.dtype,
                 kv_data_type=copy.k.dtype)
    return lambda: wrapper.run(copy.q, (copy.k, copy.v))


def _prefill(copy: Paged, backend: str) -> Call:
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper

    level = copy.levels[0]
    wrapper = BatchPrefillWithPagedKVCacheWrapper(_workspace(), "HND", backend=backend)
    rows = _ints([row * copy.tokens for row in level.rows])
    wrapper.plan(rows, _ints(level.pages), level.indices, _ints(level.last), *_shape(copy), causal=True,
                 q_data_type=copy.q.dtype, kv_data_type=copy.k.dtype)
    return lambda: wrapper.run(copy.q, (copy.k, copy.v))


def _cascade(copy: Paged, backend: str) -> Call:
    from flashinfer import MultiLevelCascadeAttentionWrapper

    wrapper = MultiLevelCascadeAttentionWrapper(len(copy.levels), _workspace(), "HND")
    for part in wrapper._batch_prefill_wrappers:
        part._backend = backend  # the wrapper has no argument for it
    wrapper.plan([_ints(level.rows) for level in copy.levels], [_ints(level.pages) for level in copy.levels],
                 [level.indices for level in copy.levels], [_ints(level.last) for level in copy.levels], *_shape(copy),
                 q_data_type=copy.q.dtype, kv_data_type=copy.k.dtype)
    return lambda: wrapper.run(copy.q, (copy.k, copy.v))


def dense_us(q_heads: int, kv_heads: int, dim: int, tokens: int) -> dict[str, float]:
    """Dense causal attention by torch's own kernels, us."""
    q = torch.randn((1, q_heads, tokens, dim), device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn((1, kv_heads, tokens, dim), device="cuda", dtype=torch.bfloat16) for _ in range(2))
    found = {}
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        with sdpa_kernel(backend):
            found[name] = graph_us([lambda: scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)])
    try:
        found["FlexAttention"] = graph_us([_flex(q, k, v)])
    except RuntimeError as reason:
        print(f"  FlexAttention: {str(reason)[-300:]}", flush=True)
    return found


def _flex(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Call:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(_batch: Any, _head: Any, at: Any, key: Any) -> Any:
        return at >= key

    mask = create_block_mask(causal, None, None, q.shape[2], k.shape[2], device="cuda")
    compiled: Callable[..., torch.Tensor] = torch.compile(flex_attention)
    return lambda: compiled(q, k, v, block_mask=mask, enable_gqa=True)
