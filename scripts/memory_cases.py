"""Every Triton kernel once or a few times on tiny shapes, in groups: what `scripts.memcheck` runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from espalier.kernels import (
    change_table,
    checked,
    copy_slots,
    exact_linear,
    gated_silu,
    gather_rows,
    log_probs,
    next_row,
    plan_items,
    rms_norm,
    rope_write,
    sample,
)
from espalier.kernels.attention_tiles import tiles_for
from espalier.kernels.cut import Cut
from espalier.kernels.layout import Batch, PagedCache, Span
from espalier.kernels.linear import Matrix
from espalier.kernels.packed_step import PackedStep
from espalier.kernels.paged import Score, Work
from espalier.kernels.paged_attention import attend
from espalier.kernels.park_pages import HostPages, Lane, park, restore
from espalier.kernels.sampling import launch
from espalier.kernels.sampling.edit import Edits, edit
from espalier.kernels.sampling.work import Ask, Columns, Workspace
from tests.kernels.forests import Forest, Node
from tests.kernels.test_check_step import FAULTS
from tests.kernels.test_check_step import attended as faulty

from .gpu_checks.attention import DIM, GROUPS, KV_HEADS, attended
from .gpu_checks.sampling import masks_of, picks_of

CUDA = torch.device("cuda")
# Below, at and above a mask word, a tile and a block; none a multiple of what a program reads.
VOCABULARIES = (33, 1000, 4163)


def plain_draws() -> None:
    for vocabulary in VOCABULARIES:
        _draw(vocabulary, torch.float32, temperature=[0.0, 0.7, 1.0])
    _draw(1000, torch.bfloat16, target=[-1, 999, -1])


def listed_draws() -> None:
    for vocabulary in VOCABULARIES:
        _draw(vocabulary, torch.float32, top_k=[1, 20, 3000], top_p=[1.0, 0.9, 0.9], min_p=[0.0, 0.05, 0.0])


def flat_draws() -> None:
    for vocabulary in VOCABULARIES:
        _draw(vocabulary, torch.float32, top_p=[0.9, 0.999, 1.0], min_p=[0.0, 0.05, 0.1])


def _draw(vocabulary: int, dtype: torch.dtype, **columns: object) -> None:
    logits = torch.randn(3, vocabulary, device=CUDA).to(dtype)
    logits[1, 7] = torch.nan
    masks = masks_of(2, vocabulary, np.random.default_rng(vocabulary))
    sample.on_device(logits, masks, picks_of(3, mask=[0, 1, 2], **columns))


def log_probabilities() -> None:
    logits = torch.randn(2, 4163, device=CUDA)
    masks = masks_of(1, 4163, np.random.default_rng(1))
    for processed, top_p in ((False, 1.0), (True, 0.9)):
        log_probs.on_device(logits, masks, picks_of(2, mask=[0, 1], target=[4162, 0], top_p=top_p), 20, processed)


def checked_draws() -> None:
    """Ids outside their tensors: none of them is read."""
    logits = torch.randn(3, 1000, device=CUDA)
    picks = picks_of(3, row=[10**9, 1, 2], mask=[0, -5, 1], target=[-1, -1, 10**6], top_p=[0.5, np.nan, 1.0])
    made = {name: getattr(picks, name) for name in picks.__slots__}
    columns = Columns.of(made | {"flat": launch.flat_of(made)}, logits.device)
    masks = torch.from_numpy(masks_of(1, 1000, np.random.default_rng(1))).to(CUDA)
    launch.draw(logits, masks, columns, Workspace.allocate(3, 1000, CUDA), Ask(False, True, checked=True))


def edits_and_rows() -> None:
    logits, row = torch.randn(2, 4163, device=CUDA), torch.tensor([1, 0], device=CUDA, dtype=torch.int32)
    ones, count = torch.ones(2, device=CUDA), torch.ones(6, device=CUDA, dtype=torch.int32)
    begin = torch.tensor([0, 2, 6], device=CUDA, dtype=torch.int32)
    token = torch.tensor([0, 4162, 5, 4096, 4095, 64], device=CUDA, dtype=torch.int32)
    edits = Edits(begin, token, count.float(), count, count, 2 * ones, ones, ones)
    edit(logits, row, edits)
    fault, keeps = checked.clear(CUDA), torch.ones(2, 131, device=CUDA, dtype=torch.int32)
    edit(logits, row, replace(edits, token=token - 1), error=fault)
    next_row.on_device(row + 1, row, keeps, begin, token, token, row.clone(), error=fault)
    next_row.on_device(row, torch.tensor([4162, -1], device=CUDA, dtype=torch.int32), keeps, begin[:3], token,
                       token % 2, row)


TREES = [Node(48, (Node(17), Node(80, tokens=70))), Node(1)]


def attention() -> None:
    for exact in (False, True):
        _attend(torch.bfloat16, exact)
    _attend(torch.float8_e4m3fn, False)


def _attend(dtype: torch.dtype, exact: bool) -> None:
    forest = Forest.of(TREES, 16)
    q = torch.randn(forest.tokens, GROUPS * KV_HEADS, DIM, device=CUDA).bfloat16()
    k, v = (forest.pool(KV_HEADS, DIM, torch.float32, "cuda").to(dtype) for _ in range(2))
    score = Score(DIM**-0.5)
    if dtype == torch.float8_e4m3fn:
        ones = torch.ones(k.shape[:3], device=CUDA)
        score = Score(DIM**-0.5, k_scale=ones, v_scale=ones)
    attended(forest, q, k, v, score, exact=exact, programs=8)


def planned_steps() -> None:
    """Copy, changes of the table, plan and attention over its items, with tokens that no row has; then bad ints."""
    forest = Forest.of(TREES, 16)
    tokens, heads = forest.tokens + 3, GROUPS * KV_HEADS
    buffer = PackedStep(rows=6, tokens=tokens, changes=20, device=CUDA)
    table, fault = torch.zeros(6, 9, device=CUDA, dtype=torch.int32), checked.clear(CUDA)
    step = buffer.step(table)
    buffer.fill(forest.rows, forest.segments, [
        (slot, index, page) for slot, pages in enumerate(forest.tables) for index, page in enumerate(pages)])
    buffer.send()
    change_table.on_device(table, buffer.changes, error=fault)
    q = torch.randn(tokens, heads, DIM, device=CUDA).bfloat16()
    k, v = (forest.pool(KV_HEADS, DIM, torch.bfloat16, "cuda") for _ in range(2))
    for exact, window in ((False, 0), (True, 0), (False, 40)):
        tiles = tiles_for(DIM, exact=exact)
        cut = Cut(GROUPS, KV_HEADS, narrow=tiles.narrow.m, wide=tiles.wide.m, exact=exact, window=window)
        work = Work.room(tokens=tokens, counts=(9, 9), q_heads=heads, head_dim=DIM, device=CUDA, size=1 << 20)
        plan_items.on_device(step.rows, step.segments, cut, work, fault, checked=True)
        attend(q, k, v, step, work, Score(DIM**-0.5, window=window), exact=exact, tiles=tiles)
    checked.raise_error(fault)
    buffer.changes[0] = 10**6
    change_table.on_device(table, buffer.changes, error=fault)
    plan_items.on_device(step.rows + 7, step.segments, cut, work, fault, checked=True)


def exact_products() -> None:
    """Each kind of tile, in one chunk and in several; neither rows nor inputs fill the last one."""
    for tokens in (1, 17, 33, 65, 300):
        for n, k in ((40, 24), (200, 2056)):
            x, weight = (torch.randn(rows, k, device=CUDA).bfloat16() for rows in (tokens, n))
            exact_linear.linear(x, Matrix(weight), torch.ones(n, device=CUDA).bfloat16() if n == 40 else None)


def norms_and_gates() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(3, 576, device=CUDA).to(dtype)
        rms_norm.on_device(x, x.clone(), x[0].clone(), 1e-5, 1.0)
        rms_norm.on_device(x, None, x[0].clone(), 1e-5, 0.0)
        gated_silu.on_device(x)
        gated_silu.gelu_on_device(x)
        gather_rows.on_device(x, torch.tensor([2, 0], device=CUDA))


def checked_attention() -> None:
    for _, change, _ in FAULTS:
        faulty(change)


def rotation_and_copies() -> None:
    for heads, kv, dim, kind in ((4, 2, 64, torch.bfloat16), (2, 1, 80, torch.float8_e4m3fn), (2, 1, 64, torch.int8)):
        batch = Batch.of([Span(0, 1, 30, (3, 1)), Span(1, 5, 7, (2,))], page=16, pages=4, device=CUDA)
        cache = _pool(kv, dim, kind)
        cos, sin = (x.to(CUDA) for x in rope_write.rope_table(64, dim, 1e4))
        qkv = torch.randn(batch.tokens, (heads + 2 * kv) * dim, device=CUDA).bfloat16()
        ones = torch.ones(dim, device=CUDA).bfloat16()
        norms = rope_write.HeadNorms(ones, ones, 1e-5) if dim == 80 else None
        scales = (cache.k_scale[0], cache.v_scale[0]) if cache.k_scale else None
        rope_write.on_device(qkv, cos, sin, cache.k[0], cache.v[0], batch, interleaved=dim == 80, norms=norms,
                             scales=scales)
        copy_slots.on_device(cache, copy_slots.copies_of([(2, 0, 9)], CUDA))


def parking() -> None:
    cache = _pool(2, 64, torch.bfloat16)
    host = HostPages.allocate(cache, 4)
    lane = Lane.of(cache, host, size=2 * host.data.shape[1] * 4)
    park(cache, host, [3, 0, 1], [0, 2, 3], lane).wait()
    restore(cache, host, [0, 2, 3], [2, 1, 3], lane).wait()


def _pool(kv: int, dim: int, kind: torch.dtype) -> PagedCache:
    cache = PagedCache.allocate(layers=2, pages=4, kv_heads=kv, page=16, head_dim=dim, dtype=kind, device=CUDA)
    for tensor in cache.tensors:
        tensor.view(torch.uint8).zero_()
    return cache


CASES: dict[str, Callable[[], None]] = {
    case.__name__.replace("_", " "): case
    for case in (plain_draws, listed_draws, flat_draws, log_probabilities, checked_draws, edits_and_rows, attention,
                 checked_attention, planned_steps, exact_products, norms_and_gates, rotation_and_copies, parking)
}
