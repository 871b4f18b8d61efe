"""What stands around a draw, on the device: log-probabilities, checked draws, penalties, transition words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from espalier.kernels import log_probs, next_row, sample
from espalier.kernels.sampling import launch
from espalier.kernels.sampling.check import Fault
from espalier.kernels.sampling.edit import Edits, edit
from espalier.kernels.sampling.edit import reference as edit_reference
from espalier.kernels.sampling.work import Ask, Columns, Workspace

from .sampling import SETTINGS, VOCABULARY, masks_of, picks_of

Report = Callable[[str, bool, str], None]


def check_faults(report: Report) -> None:
    """Checked draws of good and bad rows: codes, and the good rows' tokens as without the check."""
    n = 6
    masks = masks_of(2, VOCABULARY, np.random.default_rng(5))
    masks[1] = 0
    logits = torch.randn(n, VOCABULARY, device="cuda")
    logits[5, 3] = torch.nan
    good = picks_of(n, top_p=[1.0, 1.0, 0.9, 1.0, 1.0, 0.9], top_k=[0, 5, 0, 0, 0, 0])
    bad = sample.Picks(**{name: getattr(good, name).copy() for name in good.__slots__})
    bad.row[0], bad.mask[1], bad.mask[2], bad.top_p[3] = 10**9, -5, 1, np.nan
    made = {name: getattr(bad, name) for name in bad.__slots__}
    columns = Columns.of(made | {"flat": launch.flat_of(made)}, logits.device)
    work = Workspace.allocate(n, VOCABULARY, logits.device)
    launch.draw(logits, torch.from_numpy(masks).cuda(), columns, work, Ask(True, True, checked=True))
    expected = [Fault.ROW, Fault.MASK, Fault.EMPTY_MASK | Fault.NO_TOKEN, Fault.PARAMETER, 0, Fault.NAN]
    tokens, plain = work.token.tolist(), sample.on_device(logits, masks, good).token.tolist()
    report("checked draws", work.error.tolist() == expected and tokens == [-1] * 4 + plain[4:], "")


def check_edits(report: Report) -> None:
    n, each = 16, 300
    for dtype in (torch.float32, torch.bfloat16):
        logits = torch.randn(n + 3, VOCABULARY, device="cuda").to(dtype)
        row = torch.randperm(n + 3, device="cuda")[:n].int()
        edits = Edits(
            begin=torch.arange(n + 1, device="cuda", dtype=torch.int32) * each,
            token=torch.cat([torch.randperm(VOCABULARY)[:each] for _ in range(n)]).int().cuda(),
            bias=torch.randn(n * each, device="cuda"), count=torch.randint(3, (n * each,), device="cuda").int(),
            seen=torch.randint(2, (n * each,), device="cuda").int(),
            repetition=1 + torch.rand(n, device="cuda"), frequency=torch.rand(n, device="cuda"),
            presence=torch.rand(n, device="cuda"),
        )
        there = Edits(**{name: getattr(edits, name).cpu() for name in Edits.__slots__})
        gap = float((edit(logits, row, edits).cpu() - edit_reference(logits.cpu(), row.cpu(), there)).abs().max())
        report(f"penalties and bias {str(dtype)[6:]}", gap < 1e-5, f"{gap:.0e}")


def check_next_rows(report: Report) -> None:
    """Half of the tokens keep their row, a thousand lead on, the rest are for the host."""
    rng = np.random.default_rng(int(torch.randint(1 << 30, ())))
    rows, n, each = 50, 256, 1000
    keeps = torch.from_numpy(masks_of(rows - 1, VOCABULARY, rng)).cuda()
    begin = torch.arange(rows + 1, device="cuda", dtype=torch.int32) * each
    tokens = torch.cat([torch.randperm(VOCABULARY)[:each] for _ in range(rows)]).int().cuda()
    targets = torch.randint(rows, (rows * each,), device="cuda").int()
    row = torch.randint(-1, rows, (n,), device="cuda").int()
    token = torch.randint(-1, VOCABULARY, (n,), device="cuda").int()
    some = torch.arange(0, n, 2, device="cuda")
    token[some] = tokens[row[some].clamp_min(0).long() * each + torch.randint(each, some.shape, device="cuda")]
    expected = torch.full((n,), -9, dtype=torch.int32)
    next_row.reference(
        row.cpu(), token.cpu(), keeps.cpu(), begin.cpu(), tokens.cpu(), targets.cpu(), expected)
    next_row.on_device(row, token, keeps, begin, tokens, targets, row)
    report("transition words, in place", torch.equal(row.cpu(), expected),
           f"{int((expected < 0).sum())} of {n} for the host")


def check_log_probs(report: Report) -> None:
    rng = np.random.default_rng(int(torch.randint(1 << 30, ())))
    n, masks = 4, masks_of(4, VOCABULARY, rng)
    for dtype in (torch.float32, torch.bfloat16):
        logits = (torch.randn(n, VOCABULARY, device="cuda") * 3).to(dtype)
        logits[2, 99] = torch.nan
        for processed, settings in ((False, [{}]), (True, SETTINGS)):
            for setting in settings:
                picks = picks_of(n, mask=rng.integers(0, n + 1, n), target=rng.integers(0, VOCABULARY, n), **setting)
                ours, theirs = (call(logits, masks, picks, 20, processed)
                                for call in (log_probs.on_device, log_probs.reference))
                same, both = ours.token == theirs.token, np.isfinite(ours.logprob) & np.isfinite(theirs.logprob)
                gap = float(np.abs(ours.logprob[both] - theirs.logprob[both]).max())
                found = np.isfinite(ours.choice) == np.isfinite(theirs.choice)
                # The last token kept may be another where two ways to sum differ.
                report(f"log_probs {str(dtype)[6:]} processed={processed} {setting}",
                       (~same).sum() <= 1 and gap < 3e-4 and bool(found.all()), f"{gap:.0e}")


def check_bits_of_log_probs(report: Report) -> None:
    """The same row alone and among 64, bit for bit."""
    rng = np.random.default_rng(4)
    masks, logits = masks_of(8, VOCABULARY, rng), torch.randn(64, VOCABULARY, device="cuda") * 2
    picks = picks_of(64, mask=rng.integers(0, 9, 64), target=7, top_p=np.where(np.arange(64) % 2, 0.9, 1.0))
    alone = sample.Picks(**{name: getattr(picks, name)[33:34] for name in picks.__slots__})
    for processed in (False, True):
        many, one = (log_probs.on_device(logits, masks, p, 20, processed) for p in (picks, alone))
        report(f"bits of log-probabilities processed={processed}",
               many.choice[33:34].tobytes() == one.choice.tobytes() and many.token[33].tolist() == one.token[0].tolist()
               and many.logprob[33].tobytes() == one.logprob[0].tobytes(), "")


def run(report: Report) -> None:
    check_faults(report)
    check_edits(report)
    check_next_rows(report)
    check_bits_of_log_probs(report)
    check_log_probs(report)
