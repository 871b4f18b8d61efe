from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.kernels import philox, sample
from espalier.kernels.base import FLOATS, KernelError
from espalier.kernels.compiled import kernel


def masks_of(allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """allowed: [n, vocabulary]. Row 0 of the result is all ones."""
    rows = np.vstack([np.ones_like(allowed[:1]), allowed])
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 32)))
    return np.packbits(padded, axis=1, bitorder="little").view(np.int32)


def picks_of(n: int, **columns: Any) -> sample.Picks:
    """n picks of row 0, 1, ... with mask 0 and temperature 1 where nothing else is said."""
    defaults: dict[str, Any] = {
        "row": np.arange(n), "mask": 0, "target": -1, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
        "seed": 0, "position": 0,
    }
    types = {"temperature": np.float32, "top_p": np.float32, "min_p": np.float32, "seed": np.uint64,
             "position": np.uint64}
    return sample.Picks(**{
        name: np.array(np.broadcast_to(np.asarray(value, types.get(name, np.int64)), n))
        for name, value in (defaults | columns).items()
    })


@kernel("void(uint64[::1], uint64[::1], float64[::1])")
def _uniforms(seeds: Any, positions: Any, out: Any) -> None:
    for i in range(len(out)):
        out[i] = philox.uniform(seeds[i], positions[i])


def test_philox_is_the_published_function() -> None:
    """Known answer of Philox 4x32-10: counter 0, key 0 gives 6627e8d5 e169c58d ..."""
    assert philox.reference(0, 0) == ((0x6627E8D5 >> 5) * 2**26 + (0xE169C58D >> 6)) / 2**53


def test_compiled_uniforms_are_the_references() -> None:
    seeds = np.array([0, 1, 2**32, 2**64 - 1, 12345], np.uint64)
    positions = np.array([0, 7, 2**33 + 1, 2**64 - 1, 99], np.uint64)
    out = np.empty(5)
    _uniforms(seeds, positions, out)
    assert out.tolist() == [philox.reference(int(s), int(p)) for s, p in zip(seeds, positions, strict=True)]


def test_uniforms_are_uniform() -> None:
    values = np.array([philox.reference(3, p) for p in range(4000)])
    counts = np.histogram(values, 20, (0, 1))[0]
    assert ((counts - 200) ** 2 / 200).sum() < 50  # chi-square, 19 degrees of freedom


SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0}, {}, {"temperature": 0.3}, {"top_k": 1}, {"top_k": 5}, {"top_k": 10_000}, {"top_p": 0.5},
    {"top_p": 0.99}, {"min_p": 0.2}, {"top_k": 50, "top_p": 0.9, "min_p": 0.05, "temperature": 1.7}, {"top_p": 0.0},
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("vocabulary", [33, 1000, 4099])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_draws_are_the_references(dtype: torch.dtype, vocabulary: int, setting: dict[str, Any]) -> None:
    rng = np.random.default_rng(vocabulary)
    n = 24
    logits = torch.from_numpy(rng.normal(0, 3, (n, vocabulary)).astype(np.float32)).to(dtype)
    masks = masks_of(rng.random((n, vocabulary)) < rng.choice([0.02, 0.5, 1.0], (n, 1)) + 1 / vocabulary)
    picks = picks_of(n, mask=rng.integers(0, n + 1, n), seed=rng.integers(0, 2**60, n), position=np.arange(n),
                     **setting)
    ours, theirs = sample.compiled(logits, masks, picks), sample.reference(logits, masks, picks)
    # A draw may fall on the other side of an edge that two ways to sum put a rounding apart.
    assert (ours.token != theirs.token).sum() <= 1
    same = ours.token == theirs.token
    np.testing.assert_allclose(ours.logprob[same], theirs.logprob[same], atol=2e-4)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_draw_does_not_depend_on_the_batch(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    n, vocabulary = 6, 300
    logits = torch.from_numpy(rng.normal(0, 2, (n, vocabulary)).astype(np.float32))
    masks = masks_of(rng.random((2, vocabulary)) < 0.5)
    picks = picks_of(n, mask=rng.integers(0, 3, n), seed=rng.integers(0, 9, n), position=rng.integers(0, 9, n),
                     top_k=rng.integers(0, 40, n), top_p=rng.random(n), temperature=rng.random(n) * 2)
    together = sample.compiled(logits, masks, picks)
    order = np.array(data.draw(st.permutations(range(n))))
    subset = sample.Picks(**{name: np.ascontiguousarray(getattr(picks, name)[order]) for name in picks.__slots__})
    again = sample.compiled(logits, masks, subset)
    assert again.token.tolist() == together.token[order].tolist()
    assert again.logprob.tolist() == together.logprob[order].tolist()


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0, torch.nan, -torch.inf, 3.0]])
    n = 4000
    picks = picks_of(n, row=0, position=np.arange(n))
    drawn = np.bincount(sample.compiled(logits, masks_of(np.ones((0 + 1, 7), bool)), picks).token, minlength=7)
    weights = np.exp(np.array([0, 1, 2, -1, -np.inf, -np.inf, 3]))
    expected = n * weights / weights.sum()
    assert drawn[4] == drawn[5] == 0
    assert sum((d - e) ** 2 / e for d, e in zip(drawn, expected, strict=True) if e) < 25  # 4 degrees of freedom


def test_greedy_takes_the_lowest_id_on_ties_among_the_allowed() -> None:
    logits = torch.zeros(1, 200)
    logits[0, [50, 90, 150]] = 7.0
    allowed = np.ones((1, 200), bool)
    allowed[0, 50] = False
    draws = sample.compiled(logits, masks_of(allowed), picks_of(2, row=0, mask=[0, 1], temperature=0.0))
    assert draws.token.tolist() == [50, 90]


def test_no_logit_can_unmask_and_nan_is_never_chosen() -> None:
    logits = torch.full((1, 70), torch.nan)
    logits[0, 3], logits[0, 69] = torch.inf, -5.0
    allowed = np.zeros((2, 70), bool)
    allowed[0, 60:] = True
    allowed[1, 10] = True
    for temperature in (0.0, 1.0):
        draws = sample.compiled(logits, masks_of(allowed), picks_of(2, row=0, mask=[1, 2], temperature=temperature))
        assert draws.token.tolist() == [69, -1]


def test_ties_at_the_threshold_are_kept() -> None:
    logits = torch.tensor([[1.0, 1.0, 1.0, -50.0]])
    picks = picks_of(200, row=0, top_k=2, position=np.arange(200))
    assert set(sample.compiled(logits, masks_of(np.ones((1, 4), bool)), picks).token.tolist()) == {0, 1, 2}


def test_targets_are_scored_on_raw_logits() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 100) * 5
    masks = masks_of(np.zeros((1, 100), bool))
    draws = sample.compiled(logits, masks, picks_of(2, target=[3, 99], mask=1, temperature=0.1))
    expected = logits.log_softmax(-1)[[0, 1], [3, 99]]
    assert draws.token.tolist() == [3, 99]
    np.testing.assert_allclose(draws.logprob, expected.numpy(), rtol=1e-5)


@pytest.mark.parametrize(("columns", "words"), [
    ({"row": 2}, 2), ({"mask": 5}, 2), ({"mask": -1}, 2), ({"target": 40}, 2), ({}, 1), ({}, 3),
])
def test_what_is_outside_its_range_is_refused(columns: dict[str, Any], words: int) -> None:
    with pytest.raises(KernelError):
        sample.compiled(torch.zeros(2, 40), np.full((1, words), -1, np.int32), picks_of(2, **columns))
