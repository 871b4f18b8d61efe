from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

from espalier.kernels import checked, kv_codes, rope_write
from espalier.kernels.base import FLOATS, KernelError
from espalier.kernels.layout import Batch, PagedCache, Span
from espalier.kernels.rope_scaling import Divided, Llama3, Yarn

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


VARIANTS = [
    ((9, 3, 64), 64, False, False), ((2, 2, 6), 6, True, False), ((4, 1, 80), 32, False, True),
    ((4, 2, 16), 8, True, True), ((1, 1, 128), 128, False, True), ((3, 1, 96), 48, False, False),
]


def same(ours: PagedCache, expected: PagedCache) -> None:
    for mine, other in zip((*ours.k, *ours.v), (*expected.k, *expected.v), strict=True):
        assert torch.equal(mine.isnan(), other.isnan())
        close(mine.nan_to_num(), other.nan_to_num())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("heads", "rotary", "interleaved", "norm"), VARIANTS)
def test_triton_writes_what_the_reference_writes_and_nothing_else(
    dtype: torch.dtype, heads: tuple[int, int, int], rotary: int, interleaved: bool, norm: bool
) -> None:
    how = {"rotary": rotary, "interleaved": interleaved, "norms": norms_of(heads[2], dtype) if norm else None}
    ours, cache = written(partial(turned, rope_write.on_device, **how), dtype, 5, heads)
    theirs, expected = written(partial(turned, rope_write.reference, **how), dtype, 5, heads)
    close(ours, theirs)
    same(cache, expected)


@pytest.mark.parametrize(("heads", "rotary", "interleaved", "norm"), VARIANTS)
def test_the_cpu_serves_every_variant(
    heads: tuple[int, int, int], rotary: int, interleaved: bool, norm: bool
) -> None:
    how = {"rotary": rotary, "interleaved": interleaved, "norms": norms_of(heads[2], torch.float32) if norm else None}
    ours, cache = written(partial(turned, rope_write.on_cpu, **how), torch.float32, 16, heads)
    theirs, expected = written(partial(turned, rope_write.reference, **how), torch.float32, 16, heads)
    close(ours, theirs)
    same(cache, expected)


def norms_of(head_dim: int, dtype: torch.dtype) -> rope_write.HeadNorms:
    weights = torch.rand(2, head_dim, generator=torch.Generator().manual_seed(3)).to(dtype) + 0.5
    return rope_write.HeadNorms(weights[0], weights[1], 1e-5)


def turned(
    on: Callable[..., torch.Tensor], qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *rest: object,
    rotary: int, **how: object,
) -> torch.Tensor:
    return on(qkv, *(x[:, : rotary // 2].contiguous() for x in (cos, sin)), *rest, **how)


def coded(
    on: Callable[..., torch.Tensor], kind: torch.dtype, heads: tuple[int, int, int], rotary: int, **how: object
) -> tuple[torch.Tensor, PagedCache, Batch]:
    """8-bit pages of 5 slots, all bytes and scales of which were poison."""
    q_heads, kv_heads, head_dim = heads
    spans, pages = scattered_spans(SHAPES, 5)
    cache = poisoned_cache(pages=pages, kv_heads=kv_heads, page=5, head_dim=head_dim, dtype=kind)
    batch = Batch.of(spans, page=5, pages=pages, device=CPU)
    qkv = torch.randn(batch.tokens, (q_heads + 2 * kv_heads) * head_dim, generator=torch.Generator().manual_seed(0))
    qkv[2] = 0.0
    cos, sin = rope_write.rope_table(64, rotary, 1e5)
    q = on(qkv, cos, sin, cache.k[0], cache.v[0], batch, scales=(cache.k_scale[0], cache.v_scale[0]), **how)
    return q, cache, batch


def steps(codes: torch.Tensor) -> torch.Tensor:
    """Codes as integers that ascend by one from each to the next: e4m3 is a sign and a size."""
    found = codes.view(torch.int8).int()
    return torch.where(found < 0, -(found & 127), found) if codes.dtype.is_floating_point else found


@pytest.mark.parametrize("kind", kv_codes.LIMITS)
@pytest.mark.parametrize(("heads", "rotary", "interleaved", "norm"), [
    ((3, 1, 64), 64, False, False), ((4, 2, 16), 8, True, True), ((2, 1, 80), 32, False, False),
])
def test_triton_writes_the_codes_and_scales_of_the_reference(
    kind: torch.dtype, heads: tuple[int, int, int], rotary: int, interleaved: bool, norm: bool
) -> None:
    """Codes at one step: a sum in another order moves what lies between two of them."""
    how = {"interleaved": interleaved, "norms": norms_of(heads[2], torch.float32) if norm else None}
    ours, cache, _ = coded(rope_write.on_device, kind, heads, rotary, **how)
    theirs, expected, _ = coded(rope_write.reference, kind, heads, rotary, **how)
    close(ours, theirs)
    for mine, other in zip((*cache.k_scale, *cache.v_scale), (*expected.k_scale, *expected.v_scale), strict=True):
        assert torch.equal(mine.isnan(), other.isnan())
        torch.testing.assert_close(mine.nan_to_num(), other.nan_to_num(), rtol=1e-6, atol=0)
    for mine, other in zip((*cache.k, *cache.v), (*expected.k, *expected.v), strict=True):
        gap = steps(mine) - steps(other)
        assert gap.abs().max() <= 1
        assert (gap != 0).float().mean() < 0.01


@pytest.mark.parametrize(("kind", "step"), [(torch.int8, 0.5 / 127), (torch.float8_e4m3fn, 2.0**-4)])
def test_codes_times_scales_are_the_values(kind: torch.dtype, step: float) -> None:
    """Within half a step of int8, or the 4 bits of e4m3; a head of zeros comes back as zeros."""
    _, cache, batch = coded(rope_write.on_cpu, kind, (2, 1, 64), 64)
    plain = poisoned_cache(pages=cache.pages, kv_heads=1, page=5, head_dim=64, dtype=torch.float32)
    qkv = torch.randn(batch.tokens, 4 * 64, generator=torch.Generator().manual_seed(0))
    qkv[2] = 0.0
    rope_write.reference(qkv, *rope_write.rope_table(64, 64, 1e5), plain.k[0], plain.v[0], batch)
    page, slot = batch.places()
    for codes, scale, exact in ((cache.k, cache.k_scale, plain.k), (cache.v, cache.v_scale, plain.v)):
        back, values = kv_codes.decode(codes[0], scale[0])[page, :, slot], exact[0][page, :, slot]
        bound = values.abs() * step if kind.is_floating_point else values.abs().amax(-1, keepdim=True) * step
        assert ((back - values).abs() <= bound * 1.01 + values.abs().amax() * 2.0**-16).all()
        assert not back[2].any()


@pytest.mark.parametrize("scaling", [None, Llama3(8.0, 32), Yarn(4.0, 32), Divided((1.0, 1.0, 2.0, 8.0) * 2)])
def test_two_bases_are_two_tables_each_layer_has_its_own(scaling: Llama3 | Yarn | Divided | None) -> None:
    near, far = rope_write.rope_table(64, 16, 1e4), rope_write.rope_table(64, 16, 1e6, scaling)
    assert not torch.equal(near[0], far[0])
    for table in (near, far):
        def with_table(
            on: Callable[..., torch.Tensor], qkv: torch.Tensor, _cos: object, _sin: object, *rest: object,
            table: tuple[torch.Tensor, torch.Tensor] = table,
        ) -> torch.Tensor:
            return on(qkv, *table, *rest)

        ours, cache = written(partial(with_table, rope_write.on_device), torch.float32, 5, (2, 1, 16))
        theirs, expected = written(partial(with_table, rope_write.reference), torch.float32, 5, (2, 1, 16))
        close(ours, theirs)
        same(cache, expected)


@pytest.mark.parametrize(("table", "position", "says"), [
    ([0, 9], 7, "outside the pool"), ([0, -1], 7, "outside the pool"), ([0, 1], 10, "position is outside"),
    ([0, 1], -1, "position is outside"),
])
def test_a_checked_write_names_the_fault_and_writes_nothing_there(table: list[int], position: int, says: str) -> None:
    cache, error = poisoned_cache(pages=2, kv_heads=1, page=5, head_dim=8, dtype=torch.float32), checked.clear(CPU)
    good = Batch.of([Span(0, 1, 7, (0, 1))], page=5, pages=2, device=CPU)
    bad = replace(good, tables=torch.tensor([table], dtype=torch.int32), positions=torch.tensor([position]))
    qkv, angles = torch.randn(1, 24), rope_write.rope_table(64, 8, 1e4)
    rope_write.on_device(qkv, *angles, cache.k[0], cache.v[0], bad, error=error)
    assert cache.k[0].isnan().all()
    with pytest.raises(KernelError, match=says):
        checked.raise_error(error)
    error.zero_()
    rope_write.on_device(qkv, *angles, cache.k[0], cache.v[0], good, error=error)
    checked.raise_error(error)
    assert not cache.v[0][1, 0, 2].isnan().any()


def test_scales_go_with_8_bit_pages_alone() -> None:
    cache = poisoned_cache(pages=2, kv_heads=1, page=5, head_dim=8, dtype=torch.int8)
    batch = Batch.of([Span(0, 1, 7, (0, 1))], page=5, pages=2, device=CPU)
    for on in (rope_write.on_device, rope_write.on_cpu):
        with pytest.raises(KernelError, match="have scales"):
            on(torch.randn(1, 24), *rope_write.rope_table(64, 8, 1e4), cache.k[0], cache.v[0], batch)
