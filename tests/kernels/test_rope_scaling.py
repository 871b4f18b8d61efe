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


@pytest.mark.parametrize(("scaling", "theta", "pairs", "expected"), [
    (Llama3(8.0, 8192), 5e5, [1, 28, 30, 33, 36, 63],
     [8.146172166e-01, 3.211446106e-03, 1.371893683e-03, 3.126936499e-04, 7.784655463e-05, 3.068925878e-07]),
    (Yarn(4.0, 4096), 1e6, [1, 18, 24, 28, 31, 63],
     [8.058422208e-01, 1.625707373e-02, 3.046015510e-03, 8.892652113e-04, 3.102344635e-04, 3.102344408e-07]),
])
def test_frequencies_are_those_of_transformers(
    scaling: Scaling, theta: float, pairs: list[int], expected: list[float]
) -> None:
    """As transformers 5.24 computes them for heads of 128; below, within and above the ramp of each."""
    frequencies, _ = scaling.applied(1.0 / theta ** (torch.arange(0, 128, 2).float() / 128), theta)
    torch.testing.assert_close(frequencies[pairs], torch.tensor(expected), rtol=1e-6, atol=0)
