from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from espalier.kernels import log_probs, sample
from espalier.kernels.base import KernelError

from .test_sample import masks_of, picks_of
from .test_sampling import case

SETTINGS: list[dict[str, Any]] = [
    {}, {"temperature": 0.0}, {"temperature": 0.4, "top_k": 7}, {"top_p": 0.9}, {"top_p": 0.6, "min_p": 0.1},
    {"top_k": 300, "top_p": 0.8, "min_p": 0.01},
]


def agree(ours: log_probs.LogProbs, theirs: log_probs.LogProbs) -> None:
    assert ours.token.tolist() == theirs.token.tolist()
    np.testing.assert_allclose(ours.logprob, theirs.logprob, atol=2e-4)
    np.testing.assert_allclose(ours.choice, theirs.choice, atol=2e-4)


@pytest.mark.parametrize("processed", [False, True])
@pytest.mark.parametrize(("vocabulary", "dtype"), [(33, torch.float32), (4099, torch.bfloat16)])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_triton_agrees_with_the_reference(
    setting: dict[str, Any], vocabulary: int, dtype: torch.dtype, processed: bool
) -> None:
    if setting and not processed:
        return
    logits, masks = case(vocabulary, 3, dtype)
    logits[1, 3] = torch.nan
    picks = picks_of(3, mask=[0, 1, 3], target=[5, 3, vocabulary - 1], **setting)
    agree(log_probs.on_device(logits, masks, picks, 20, processed),
          log_probs.reference(logits, masks, picks, 20, processed))


def test_a_large_vocabulary() -> None:
    logits, masks = case(128_256, 2, torch.float32)
    picks = picks_of(2, mask=[0, 2], target=[128_255, 4], top_k=[0, 50], temperature=0.8)
    for processed in (False, True):
        agree(log_probs.on_device(logits, masks, picks, 5, processed),
              log_probs.reference(logits, masks, picks, 5, processed))


@pytest.mark.parametrize("call", [log_probs.reference, log_probs.on_device])
def test_the_lower_id_comes_first_and_what_has_no_mass_is_left_out(call: Any) -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0, 1.0, 2.0, torch.nan]])
    found = call(logits, masks_of(np.ones((1, 6), bool)), picks_of(1, target=0), 7, False)
    assert found.token.tolist() == [[1, 2, 4, 3, 0, -1, -1]]
    total = math.log(3 * math.exp(2) + math.e + 1)
    np.testing.assert_allclose(found.logprob[0, :5], [2 - total] * 3 + [1 - total, -total], atol=1e-6)
    assert found.choice[0] == found.logprob[0, 4]


@pytest.mark.parametrize("call", [log_probs.reference, log_probs.on_device])
def test_at_temperature_zero_one_token_has_all(call: Any) -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 0.0]] * 2)
    found = call(logits, masks_of(np.ones((1, 4), bool)), picks_of(2, target=[1, 2], temperature=0.0), 3, True)
    assert found.choice.tolist() == [0.0, -math.inf]
    assert found.token.tolist() == [[1, -1, -1]] * 2


@pytest.mark.parametrize("call", [log_probs.reference, log_probs.on_device])
def test_equal_logits_past_one_chunk(call: Any) -> None:
    masks = masks_of(np.ones((1, 2500), bool))
    found = call(torch.zeros(1, 2500), masks, picks_of(1, target=2499, top_p=0.3), 20, True)
    assert found.token.tolist() == [list(range(20))]
    np.testing.assert_allclose(found.choice, -math.log(2500), atol=1e-5)


def test_the_choice_is_scored_as_its_draw_was() -> None:
    """Processed log-probabilities of drawn tokens are finite and those of the distribution that was drawn from."""
    logits, masks = case(300, 3, torch.float32)
    columns: dict[str, Any] = {"mask": [1, 2, 3], "top_p": [0.8, 1.0, 1.0], "top_k": [0, 9, 0], "min_p": [0, 0, 0.2]}
    drawn = sample.on_device(logits, masks, picks_of(3, **columns))
    found = log_probs.on_device(logits, masks, picks_of(3, target=drawn.token, **columns), 0, True)
    assert np.isfinite(found.choice).all()


@pytest.mark.parametrize(("count", "target"), [(21, 0), (-1, 0), (5, -1), (5, 40)])
def test_what_is_outside_its_range_is_refused(count: int, target: int) -> None:
    with pytest.raises(KernelError):
        log_probs.reference(torch.zeros(1, 40), np.full((1, 2), -1, np.int32), picks_of(1, target=target), count, False)
