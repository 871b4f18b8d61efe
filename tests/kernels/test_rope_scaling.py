from __future__ import annotations

import math

import pytest
import torch

from espalier.kernels.rope_scaling import Llama3, Scaling, Yarn
from espalier.kernels.rope_write import rope_table

THETA, PAIRS = 5e5, 64
PLAIN = 1.0 / THETA ** (torch.arange(PAIRS).float() / PAIRS)


@pytest.mark.parametrize("scaling", [Llama3(8.0, 8192), Yarn(8.0, 8192)])
def test_fast_pairs_stay_and_slow_ones_are_stretched(scaling: Scaling) -> None:
    frequencies, _ = scaling.applied(PLAIN, THETA)
    ratio = PLAIN / frequencies
    torch.testing.assert_close(ratio[0], torch.tensor(1.0))
    torch.testing.assert_close(ratio[-1], torch.tensor(8.0))
    assert (ratio.diff() >= -1e-5).all()


def test_llama3_blends_by_wavelength() -> None:
    """A pair that turns 2.5 times in the first context lies half way between 1 and 4."""
    frequency = torch.tensor([2 * math.pi * 2.5 / 8192])
    stretched, scale = Llama3(8.0, 8192).applied(frequency, THETA)
    torch.testing.assert_close(stretched, frequency * (0.5 + 0.5 / 8))
    assert scale == 1.0


@pytest.mark.parametrize(("scaling", "expected"), [
    (Yarn(8.0, 8192), 0.1 * math.log(8) + 1), (Yarn(8.0, 8192, attention=1.5), 1.5), (Yarn(1.0, 8192), 1.0),
])
def test_yarn_scales_what_is_rotated(scaling: Yarn, expected: float) -> None:
    cos, sin = rope_table(50, 2 * PAIRS, THETA, scaling)
    torch.testing.assert_close(cos**2 + sin**2, torch.full_like(cos, expected**2))


def test_no_stretch_is_no_change() -> None:
    for scaling in (Llama3(1.0, 8192), Yarn(1.0, 8192)):
        for ours, plain in zip(rope_table(99, 64, 1e4, scaling), rope_table(99, 64, 1e4), strict=True):
            torch.testing.assert_close(ours, plain)
