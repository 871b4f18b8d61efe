from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from espalier.kernels import rope_write
from espalier.kernels.base import FLOATS
from espalier.kernels.layout import Batch, PagedCache

from .helpers import CPU, close, poisoned_cache, scattered_spans

SHAPES = [(1, 0), (5, 14), (20, 3), (1, 63)]


def written(
    call: object, dtype: torch.dtype, page: int, heads: tuple[int, int, int]
) -> tuple[torch.Tensor, PagedCache]:
    q_heads, kv_heads, head_dim = heads
    spans, pages = scattered_spans(SHAPES, page)
    cache = poisoned_cache(pages=pages, kv_heads=kv_heads, page=page, head_dim=head_dim, dtype=dtype)
    batch = Batch.of(spans, page=page, pages=pages, device=CPU)
    torch.manual_seed(0)
    qkv = torch.randn(batch.tokens, (q_heads + 2 * kv_heads) * head_dim).to(dtype)
    cos, sin = rope_write.rope_table(64, head_dim, 1e5)
    assert callable(call)
    return call(qkv, cos, sin, cache.k[0], cache.v[0], batch), cache


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("page", [16, 5])
@pytest.mark.parametrize("heads", [(9, 3, 64), (2, 2, 6)])
def test_compiled_writes_what_the_reference_writes_and_nothing_else(
    dtype: torch.dtype, page: int, heads: tuple[int, int, int]
) -> None:
    ours, cache = written(rope_write.compiled, dtype, page, heads)
    theirs, expected = written(rope_write.reference, dtype, page, heads)
    close(ours, theirs)
    for mine, other in ((cache.k[0], expected.k[0]), (cache.v[0], expected.v[0])):
        assert torch.equal(mine.isnan(), other.isnan())
        close(mine.nan_to_num(), other.nan_to_num())


def test_rotation_keeps_lengths_and_depends_on_distance_alone() -> None:
    cos, sin = rope_write.rope_table(40, 8, 1e4)
    pair = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))

    def rotated(x: torch.Tensor, p: int) -> torch.Tensor:
        a, b = x.chunk(2)
        return torch.cat((a * cos[p] - b * sin[p], b * cos[p] + a * sin[p]))

    near, far = (rotated(pair[0], p) @ rotated(pair[1], p + 5) for p in (0, 30))
    torch.testing.assert_close(near, far)
    torch.testing.assert_close(rotated(pair[0], 17).norm(), pair[0].norm())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("heads", "rotary", "interleaved", "norm"), [
    ((9, 3, 64), 64, False, False), ((2, 2, 6), 6, True, False), ((4, 1, 80), 32, False, True),
    ((4, 2, 16), 8, True, True), ((1, 1, 128), 128, False, True),
])
def test_triton_writes_what_the_reference_writes_and_nothing_else(
    dtype: torch.dtype, heads: tuple[int, int, int], rotary: int, interleaved: bool, norm: bool
) -> None:
    weights = torch.rand(2, heads[2]) + 0.5
    norms = rope_write.HeadNorms(weights[0].to(dtype), weights[1].to(dtype), 1e-5) if norm else None

    def call(on: Callable[..., torch.Tensor]) -> tuple[torch.Tensor, PagedCache]:
        def turned(qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *rest: object) -> torch.Tensor:
            few = [x[:, : rotary // 2].contiguous() for x in (cos, sin)]
            return on(qkv, *few, *rest, interleaved=interleaved, norms=norms)

        return written(turned, dtype, 5, heads)

    (ours, cache), (theirs, expected) = call(rope_write.on_device), call(rope_write.reference)
    close(ours, theirs)
    for mine, other in ((cache.k[0], expected.k[0]), (cache.v[0], expected.v[0])):
        assert torch.equal(mine.isnan(), other.isnan())
        close(mine.nan_to_num(), other.nan_to_num())
