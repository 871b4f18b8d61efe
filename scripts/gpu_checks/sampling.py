"""Sampling on the device: against the reference at a vocabulary of 128,256, a million draws, and bits in any batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from espalier.kernels import sample
from espalier.kernels.sampling import launch
from espalier.kernels.sampling.work import Ask, Columns, Workspace

Report = Callable[[str, bool, str], None]
VOCABULARY = 128_256
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0}, {}, {"temperature": 0.3}, {"top_k": 1}, {"top_k": 50}, {"top_k": 3000}, {"top_p": 0.5},
    {"top_p": 0.9}, {"top_p": 0.999}, {"min_p": 0.05}, {"top_k": 50, "top_p": 0.9, "min_p": 0.05}, {"top_p": 0.0},
    {"top_p": 0.9, "min_p": 0.1, "temperature": 1.5},
]


def picks_of(n: int, **columns: Any) -> sample.Picks:
    """n picks of row 0, 1, ... with mask 0 and temperature 1 where nothing else is said."""
    defaults: dict[str, Any] = {
        "row": np.arange(n), "mask": 0, "target": -1, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
        "seed": 0, "position": np.arange(n),
    }
    types = {"temperature": np.float32, "top_p": np.float32, "min_p": np.float32, "seed": np.uint64,
             "position": np.uint64}
    return sample.Picks(**{
        name: np.array(np.broadcast_to(np.asarray(value, types.get(name, np.int64)), n))
        for name, value in (defaults | columns).items()
    })


def masks_of(n: int, vocabulary: int, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Row 0 is all ones; the others allow a few, half or all tokens."""
    allowed = rng.random((n, vocabulary)) < rng.choice([0.001, 0.5, 1.0], (n, 1))
    allowed[:, 5] = True
    rows = np.vstack([np.ones_like(allowed[:1]), allowed])
    return np.packbits(np.pad(rows, ((0, 0), (0, -vocabulary % 32))), axis=1, bitorder="little").view(np.int32)


def check_references(report: Report) -> None:
    rng = np.random.default_rng(int(torch.randint(1 << 30, ())))
    n = 8
    masks = masks_of(n, VOCABULARY, rng)
    for dtype in (torch.float32, torch.bfloat16):
        logits = (torch.randn(n, VOCABULARY, device="cuda") * 2).to(dtype)
        logits[:, 77] = torch.nan
        for setting in SETTINGS:
            picks = picks_of(n, mask=rng.integers(0, n + 1, n), seed=rng.integers(0, 2**60, n), **setting)
            ours, theirs = sample.on_device(logits, masks, picks), sample.reference(logits, masks, picks)
            other = int((ours.token != theirs.token).sum())
            same = ours.token == theirs.token
            gap = float(np.abs(ours.logprob[same] - theirs.logprob[same]).max())
            # An edge between two tokens may lie a rounding apart where two ways to sum differ.
            report(f"sample {str(dtype)[6:]} {setting}", other <= 1 and gap < 2e-4,
                   f"{other} of {n} other tokens, log-probability {gap:.0e}")


def _with_heavy_tokens() -> torch.Tensor:
    """As a language model's: a few tokens far above the rest, most of them in different tiles."""
    logits = torch.randn(8, VOCABULARY, device="cuda") * 2
    at = torch.randint(VOCABULARY, (8, 40), device="cuda")
    return logits.scatter(1, at, 8 + 6 * torch.rand(8, 40, device="cuda"))


SHAPES: dict[str, Callable[[], torch.Tensor]] = {
    "few heavy tokens": _with_heavy_tokens,
    "spread of 5": lambda: torch.randn(8, VOCABULARY, device="cuda") * 5,
    "spread of 0.01": lambda: torch.randn(8, VOCABULARY, device="cuda") * 0.01,
    "all equal": lambda: torch.full((8, VOCABULARY), 1.5, device="cuda"),
    "of nine values": lambda: torch.randint(-4, 5, (8, VOCABULARY), device="cuda").float(),
    "ascending": lambda: torch.linspace(-9, 9, VOCABULARY, device="cuda").repeat(8, 1),
}


def check_shapes(report: Report) -> None:
    """Flat draws of logits for which a sample of the tiles says little."""
    rng = np.random.default_rng(int(torch.randint(1 << 30, ())))
    masks = masks_of(8, VOCABULARY, rng)
    for name, make in SHAPES.items():
        logits = make()
        for setting in ({"top_p": 0.9}, {"top_p": 0.3, "temperature": 0.7}, {"top_p": 0.999, "min_p": 0.01}):
            picks = picks_of(8, mask=rng.integers(0, 9, 8), seed=rng.integers(0, 2**60, 8), **setting)
            ours, theirs = sample.on_device(logits, masks, picks), sample.reference(logits, masks, picks)
            other = int((ours.token != theirs.token).sum())
            report(f"flat draw, {name}, {setting}", other <= 1, f"{other} of 8 other tokens")


def check_distribution(report: Report) -> None:
    """A million draws from 200 tokens."""
    logits = torch.randn(1, 200, device="cuda") * 1.5
    masks = masks_of(1, 200, np.random.default_rng(1))
    weights = logits[0].double().softmax(0).cpu().numpy()
    for setting, kept in (({}, 200), ({"top_k": 20}, 20)):
        counts = np.zeros(200)
        for batch in range(20):
            picks = picks_of(50_000, row=0, seed=7, position=np.arange(50_000) + 50_000 * batch, **setting)
            counts += np.bincount(sample.on_device(logits, masks, picks).token, minlength=200)
        chosen = np.sort(np.argsort(-weights)[:kept])
        expected = 1e6 * weights[chosen] / weights[chosen].sum()
        chi = float(((counts[chosen] - expected) ** 2 / expected).sum())
        # Mean kept - 1, variance twice that: five standard deviations.
        good = counts[chosen].sum() == 1e6 and chi < (kept - 1) + 5 * (2 * (kept - 1)) ** 0.5
        report(f"a million draws {setting}", good, f"chi-square {chi:.0f} of {kept - 1} degrees")


def check_bits(report: Report) -> None:
    """The same draw alone, in a batch of 256, and in another order: token and log-probability bit for bit."""
    rng = np.random.default_rng(3)
    n = 256
    masks = masks_of(8, VOCABULARY, rng)
    logits = torch.randn(n, VOCABULARY, device="cuda") * 2
    for setting in ({}, {"top_k": 50, "top_p": 0.9, "min_p": 0.05}, {"top_p": 0.9}, {"temperature": 0.0}):
        picks = picks_of(n, mask=rng.integers(0, 9, n), **setting)
        together = sample.on_device(logits, masks, picks)
        order = rng.permutation(n)[:100]
        parts = [order, order[:1], order[1:8]]
        same = True
        for part in parts:
            again = sample.on_device(logits, masks, sample.Picks(**{
                name: np.ascontiguousarray(getattr(picks, name)[part]) for name in picks.__slots__}))
            same &= np.array_equal(again.token, together.token[part])
            same &= np.array_equal(again.logprob.view(np.int32), together.logprob[part].view(np.int32))
        report(f"bits in any batch {setting}", bool(same), "")


def check_capture(report: Report) -> None:
    """The draw in a graph: replayed on other logits it gives what a launch gives, over poisoned memory."""
    n = 64
    logits = torch.randn(n, VOCABULARY, device="cuda")
    masks = torch.from_numpy(masks_of(4, VOCABULARY, np.random.default_rng(5))).cuda()
    for setting in ({"top_k": 50}, {"top_p": 0.9}):
        picks = picks_of(n, mask=np.arange(n) % 5, **setting)
        made = {name: getattr(picks, name) for name in picks.__slots__}
        flat = launch.flat_of(made)
        columns = Columns.of(made | {"flat": flat}, logits.device)
        work = Workspace.allocate(n, VOCABULARY, logits.device)
        ask = Ask(lists=not flat.any(), flat=bool(flat.any()))
        launch.draw(logits, masks, columns, work, ask)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch.draw(logits, masks, columns, work, ask)
        logits.copy_(torch.randn_like(logits))
        for memory in (work.tile_best, work.tile_mass, work.raw, work.value_list, work.above, work.pivots,
                       work.logprob):
            memory.fill_(torch.nan)
        work.token.fill_(-7)
        graph.replay()
        expected = sample.on_device(logits, masks.cpu().numpy(), picks)
        same = np.array_equal(work.token.cpu().numpy(), expected.token)
        report(f"captured draw {setting}", same and not bool(work.logprob.isnan().any()), "")


def run(report: Report) -> None:
    check_references(report)
    check_shapes(report)
    check_distribution(report)
    check_bits(report)
    check_capture(report)
