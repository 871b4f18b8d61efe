"""The Triton draw against the reference and against itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from espalier.kernels import philox, sample
from espalier.kernels.jit import Arg, constexpr, jit, next_power_of_2, tl
from espalier.kernels.sampling import launch
from espalier.kernels.sampling.edit import Edits, edit, on_host
from espalier.kernels.sampling.edit import reference as edit_reference
from espalier.kernels.sampling.pieces import TILE, fixed, key_of, lowest_key, mass_of, uniform, value_of
from espalier.kernels.sampling.settle import from_tiles
from espalier.kernels.sampling.work import Ask, Columns, Workspace

from .test_sample import masks_of, picks_of

SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0}, {}, {"temperature": 0.3}, {"top_k": 1}, {"top_k": 5}, {"top_k": 10_000}, {"top_p": 0.5},
    {"top_p": 0.99}, {"min_p": 0.2}, {"top_k": 50, "top_p": 0.9, "min_p": 0.05, "temperature": 1.7}, {"top_p": 0.0},
    {"top_p": 0.9, "min_p": 0.1},
]


@jit
def _uniforms(seeds: Arg, positions: Arg, out: Arg) -> None:
    i = tl.program_id(0)
    tl.store(out + i, uniform(tl.load(seeds + i), tl.load(positions + i)))


@jit
def _keys(x: Arg, keys: Arg, back: Arg, SIZE: constexpr) -> None:  # noqa: N803
    i = tl.arange(0, SIZE)
    key = key_of(tl.load(x + i))
    tl.store(keys + i, key)
    tl.store(back + i, value_of(key))


@jit
def _draws(
    logits: Arg, mask: Arg, tile_best: Arg, tile_mass: Arg, seeds: Arg, positions: Arg, out: Arg, temperature: Arg,
    vocabulary: Arg, tiles: Arg, TILES: constexpr, EACH: constexpr,  # noqa: N803
) -> None:
    """What `settle` does for a plain draw, for EACH draws of one row."""
    i, tile = (tl.program_id(0) * EACH + tl.arange(0, EACH))[:, None], tl.arange(0, TILES)
    u = uniform(tl.load(seeds + i), tl.load(positions + i))
    top = tl.load(tile_best + tile, mask=tile < tiles, other=float("-inf"))
    mass = tl.load(tile_mass + tile, mask=tile < tiles, other=0.0)
    scale = 1.4426950408889634 / temperature
    width = fixed(mass * mass_of(top, tl.max(top, 0), scale))
    token = from_tiles(logits, mask, vocabulary, width, tl.sum(width, 0), lowest_key(), scale, u)
    tl.store(out + i, token)


def case(vocabulary: int, n: int, dtype: torch.dtype, seed: int = 0) -> tuple[torch.Tensor, npt.NDArray[np.int32]]:
    rng = np.random.default_rng(vocabulary + seed)
    logits = torch.from_numpy(rng.normal(0, 3, (n, vocabulary)).astype(np.float32)).to(dtype)
    allowed = rng.random((n, vocabulary)) < rng.choice([0.02, 0.5, 1.0], (n, 1)) + 1 / vocabulary
    return logits, masks_of(allowed)


def drawn(logits: torch.Tensor, masks: npt.NDArray[np.int32], picks: sample.Picks) -> sample.Draws:
    return sample.on_device(logits, masks, picks)


def test_uniforms_are_the_references() -> None:
    seeds = np.array([0, 1, 2**32, 2**64 - 1, 12345], np.uint64)
    positions = np.array([0, 7, 2**33 + 1, 2**64 - 1, 99], np.uint64)
    out = torch.full((5,), torch.nan, dtype=torch.float64)
    _uniforms[(5,)](torch.from_numpy(seeds.view(np.int64)), torch.from_numpy(positions.view(np.int64)), out)
    assert out.tolist() == [philox.reference(int(s), int(p)) for s, p in zip(seeds, positions, strict=True)]


def test_keys_order_as_the_floats_do() -> None:
    x = torch.tensor([-torch.inf, -3.4e38, -1.0, -1e-40, -0.0, 0.0, 1e-40, 2.5])
    keys, back = torch.empty(8, dtype=torch.int32), torch.empty(8)
    _keys[(1,)](x, keys, back, SIZE=8)
    assert keys[4] == keys[5]
    assert keys.tolist() == sorted(keys.tolist())
    assert len(set(keys.tolist())) == 7
    assert torch.equal(back, x)


@pytest.mark.parametrize(("vocabulary", "dtype"), [
    (33, torch.float32), (1000, torch.bfloat16), (1000, torch.float32), (4099, torch.float32),
])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_draws_are_the_references(dtype: torch.dtype, vocabulary: int, setting: dict[str, Any]) -> None:
    n = 3
    rng = np.random.default_rng(vocabulary)
    logits, masks = case(vocabulary, n, dtype)
    picks = picks_of(n, mask=rng.integers(0, n + 1, n), seed=rng.integers(0, 2**60, n), position=np.arange(n),
                     **setting)
    ours, theirs = drawn(logits, masks, picks), sample.reference(logits, masks, picks)
    assert ours.token.tolist() == theirs.token.tolist()
    np.testing.assert_allclose(ours.logprob, theirs.logprob, atol=2e-4)


def test_a_large_vocabulary() -> None:
    logits, masks = case(128_256, 3, torch.float32)
    picks = picks_of(3, mask=[0, 1, 2], top_k=[0, 50, 0], top_p=[1.0, 0.9, 1.0], temperature=[0.7, 1.0, 0.0],
                     seed=[3, 4, 5])
    ours, theirs = drawn(logits, masks, picks), sample.reference(logits, masks, picks)
    assert ours.token.tolist() == theirs.token.tolist()
    np.testing.assert_allclose(ours.logprob, theirs.logprob, atol=2e-4)


@pytest.mark.parametrize("vocabulary", [33, 1000])
def test_two_thousand_draws_are_the_references(vocabulary: int) -> None:
    """One row: a few of its draws by their launches, all of them by the functions of these, 256 at once."""
    draws, few, temperature = 2048, 64, 0.8
    logits, masks = case(vocabulary, 1, torch.float32)
    picks = picks_of(draws, row=0, mask=1, seed=2**63 + 9, position=np.arange(draws) * 2**31, temperature=temperature)
    theirs = sample.reference(logits, masks, picks).token
    columns = {name: getattr(picks, name)[:few] for name in picks.__slots__}
    allowed, known, ask = launch.on_host(logits, masks, columns)
    work = Workspace.allocate(few, vocabulary, logits.device)
    launch.draw(logits, allowed, known, work, ask)
    assert work.token.tolist() == theirs[:few].tolist()
    ours = torch.full((draws,), -9, dtype=torch.int32)
    seeds, positions = (torch.from_numpy(column.view(np.int64)) for column in (picks.seed, picks.position))
    tiles = -(-vocabulary // TILE)
    _draws[(draws // 256,)](
        logits, torch.from_numpy(masks[1]), work.tile_best, work.tile_mass, seeds, positions, ours, temperature,
        vocabulary, tiles, TILES=next_power_of_2(tiles), EACH=256,
    )
    # A draw may fall on the other side of an edge that two ways to sum put a rounding apart.
    assert (ours.numpy() != theirs).sum() <= 1


@pytest.mark.parametrize("setting", [{}, {"top_k": 20, "top_p": 0.8}, {"top_p": 0.8}], ids=str)
def test_a_draw_does_not_depend_on_the_batch(setting: dict[str, Any]) -> None:
    logits, masks = case(1000, 6, torch.float32)
    picks = picks_of(6, mask=[0, 1, 2, 3, 1, 0], position=np.arange(6), temperature=0.9, **setting)
    together = drawn(logits, masks, picks)
    for i in (5, 2):
        alone = sample.Picks(**{name: getattr(picks, name)[i : i + 1] for name in picks.__slots__})
        again = drawn(logits, masks, alone)
        assert again.token[0] == together.token[i]
        assert again.logprob[0] == together.logprob[i]


def test_a_mixed_batch_is_each_draw_alone() -> None:
    settings: list[dict[str, Any]] = [*SETTINGS, {"target": 7}]
    logits, masks = case(300, len(settings), torch.float32)
    columns = {name: [({"target": -1, "temperature": 1.0, "top_p": 1.0} | s).get(name, 0) for s in settings]
               for name in ("target", "temperature", "top_k", "top_p", "min_p")}
    picks = picks_of(len(settings), mask=np.arange(len(settings)), **columns)
    assert drawn(logits, masks, picks).token.tolist() == sample.reference(logits, masks, picks).token.tolist()


def test_no_logit_can_unmask_and_nan_is_never_chosen() -> None:
    logits = torch.full((1, 70), torch.nan)
    logits[0, 3], logits[0, 69] = torch.inf, -5.0
    allowed = np.zeros((2, 70), bool)
    allowed[0, 60:] = True
    allowed[1, 10] = True
    for setting in ({"temperature": 0.0}, {}, {"top_k": 3}, {"top_p": 0.5}):
        draws = drawn(logits, masks_of(allowed), picks_of(2, row=0, mask=[1, 2], **setting))
        assert draws.token.tolist() == [69, -1]


@pytest.mark.parametrize("setting", [{"top_k": 2}, {"top_p": 0.5}, {"min_p": 1.0}], ids=str)
def test_ties_at_the_threshold_are_kept(setting: dict[str, Any]) -> None:
    logits = torch.tensor([[1.0, 1.0, 1.0, -50.0]])
    picks = picks_of(12, row=0, position=np.arange(12), **setting)
    assert set(drawn(logits, masks_of(np.ones((1, 4), bool)), picks).token.tolist()) == {0, 1, 2}


def test_candidates_past_one_chunk() -> None:
    """All logits equal: every tile and every token is a candidate."""
    logits = torch.zeros(1, 2500)
    picks = picks_of(4, row=0, position=np.arange(4), top_k=[3, 3, 0, 0], top_p=[1.0, 0.5, 0.3, 1.0],
                     min_p=[0.0, 0.0, 0.0, 0.5])
    masks = masks_of(np.ones((1, 2500), bool))
    assert drawn(logits, masks, picks).token.tolist() == sample.reference(logits, masks, picks).token.tolist()


def test_nan_is_flagged() -> None:
    logits = torch.zeros(2, 100)
    logits[1, 70] = torch.nan
    picks = picks_of(2)
    work = Workspace.allocate(2, 100, torch.device("cpu"))
    columns = Columns.of(
        {name: getattr(picks, name) for name in picks.__slots__} | {"flat": np.zeros(2, np.int32)}, logits.device
    )
    masks = torch.from_numpy(masks_of(np.ones((1, 100), bool)))
    launch.draw(logits, masks, columns, work, Ask(lists=False, flat=False))
    assert work.nan.tolist() == [0, 1]


def edits_of(n: int, vocabulary: int, each: int) -> Edits:
    torch.manual_seed(each)
    tokens = torch.cat([torch.randperm(vocabulary)[:each] for _ in range(n)]).int()
    count = torch.randint(0, 3, (n * each,), dtype=torch.int32)
    return Edits(
        begin=torch.arange(n + 1, dtype=torch.int32) * each, token=tokens, bias=torch.randn(n * each), count=count,
        seen=torch.randint(0, 2, (n * each,), dtype=torch.int32), repetition=torch.tensor([1.0, 1.3])[:n],
        frequency=torch.rand(n), presence=torch.rand(n),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("vocabulary", "each"), [(33, 0), (300, 200), (4099, 7)])
def test_edits_are_the_references(dtype: torch.dtype, vocabulary: int, each: int) -> None:
    logits, row = torch.randn(3, vocabulary).to(dtype), torch.tensor([2, 0], dtype=torch.int32)
    edits = edits_of(2, vocabulary, each)
    expected = edit_reference(logits, row, edits)
    torch.testing.assert_close(edit(logits, row, edits), expected)
    torch.testing.assert_close(on_host(logits, row, edits), expected)


@pytest.mark.parametrize("call", [edit, on_host])
def test_what_is_not_finite_stays_so(call: Any) -> None:
    """-inf is never raised, and no edit within its range makes NaN; fields on the host become the same edits."""
    values = [-np.inf, np.inf, -1e30, 1e30, 0.0]
    columns = {
        "begin": np.array([0, 5, 5, 6], np.int32), "token": np.array([*range(5), 900], np.int32),
        "bias": np.array([100, -100, 100, 100, -100, 1], np.float32), "count": np.full(6, 3, np.int32),
        "seen": np.ones(6, np.int32), "repetition": np.array([100, 1, 1e-30], np.float32),
        "frequency": np.array([2, 2, -2], np.float32), "presence": np.array([-2, 2, 2], np.float32),
    }
    logits = torch.tensor([values])
    found = call(logits, torch.zeros(3, dtype=torch.int32), Edits.of(columns, logits.device))
    assert found[0, :2].tolist() == values[:2]
    assert found[0].isfinite().tolist() == [False, False, True, True, True]
    assert torch.equal(found[1:], logits.expand(2, -1))


def test_no_bias_can_unmask_and_log_probabilities_stay_raw() -> None:
    logits = torch.randn(1, 100)
    columns = {name: getattr(picks_of(1, mask=1, temperature=0.0), name) for name in sample.Picks.__slots__}
    made = Columns.of(columns | {"flat": np.zeros(1, np.int32)}, logits.device)
    work = Workspace.allocate(1, 100, logits.device)
    one = torch.ones(1)
    edits = Edits(torch.tensor([0, 2], dtype=torch.int32), torch.tensor([5, 6], dtype=torch.int32),
                  torch.tensor([1e9, 50.0]), torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int32),
                  one, 0 * one, 0 * one)
    allowed = np.ones((1, 100), bool)
    allowed[0, 5] = False
    edited = edit(logits, made.row, edits)
    launch.draw(edited, torch.from_numpy(masks_of(allowed)), made, work, Ask(lists=False, flat=False),
                raw_logits=logits, raw_row=made.row)
    assert work.token.tolist() == [6]
    torch.testing.assert_close(work.logprob, logits.log_softmax(-1)[:, 6])
