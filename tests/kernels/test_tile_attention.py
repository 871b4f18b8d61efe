from __future__ import annotations

import pytest
import torch

from espalier.kernels import amx, attention, tile_attention

from .helpers import close, filled

LENGTHS = (0, 1, 14, 15, 16, 31, 32, 126, 127, 128, 255, 300)


def walked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: object, which: list[int]) -> torch.Tensor:
    out = torch.zeros_like(q)
    tile_attention.walk(q, k, v, batch, torch.tensor(which, dtype=torch.int32), 0.2, out)  # type: ignore[arg-type]
    return out


@pytest.mark.skipif(not amx.available(), reason="needs a CPU with AMX")
@pytest.mark.parametrize("page", [16, 32])
@pytest.mark.parametrize(("q_heads", "kv_heads", "head_dim"), [(9, 3, 64), (1, 1, 32), (32, 2, 96), (5, 1, 128)])
def test_every_length_agrees_with_the_reference_and_stands_alone(
    page: int, q_heads: int, kv_heads: int, head_dim: int
) -> None:
    torch.manual_seed(page)
    cache, batch = filled([(1, length) for length in LENGTHS], kv_heads=kv_heads, page=page, head_dim=head_dim,
                          dtype=torch.bfloat16)
    q = torch.randn(batch.tokens, q_heads, head_dim).bfloat16()
    k, v = cache.k[0], cache.v[0]
    assert tile_attention.serves(q, k)
    whole = walked(q, k, v, batch, list(range(len(LENGTHS))))
    close(whole.flatten(1), attention.reference(q, k, v, batch, 0.2))
    for row in range(len(LENGTHS)):
        assert torch.equal(walked(q, k, v, batch, [row])[row], whole[row])


@pytest.mark.parametrize(
    ("dtype", "q_heads", "page", "head_dim"),
    [(torch.float32, 4, 16, 64), (torch.bfloat16, 4, 5, 64), (torch.bfloat16, 4, 16, 48), (torch.bfloat16, 34, 16, 64),
     (torch.bfloat16, 4, 16, 160)],
)
def test_other_shapes_are_left_to_other_code(dtype: torch.dtype, q_heads: int, page: int, head_dim: int) -> None:
    q, k = torch.empty(1, q_heads, head_dim, dtype=dtype), torch.empty(1, 2, page, head_dim, dtype=dtype)
    assert not tile_attention.serves(q, k)
