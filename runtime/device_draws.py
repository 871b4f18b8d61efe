"""Draws on the device: mask rows that stay there, parameters that go there, and results that come back later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..kernels import checked
from ..kernels.base import KernelError
from ..kernels.sample import Picks, check
from ..kernels.sampling import launch
from ..kernels.sampling.edit import Edits, edit
from ..kernels.sampling.work import Ask, Columns, Likely, Workspace
from ..kernels.sent import sent
from .picking import all_ones, check_masks, columns_of, edits_of
from .plan import Pick, Sampled

# Draws of a step that the next may name before they are read.
NAMED = 4096


class DeviceMasks:
    """The mask table of the host on the device: a row goes there once, when it is first used or has new content."""

    def __init__(self, vocabulary: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._device = device
        self.bind(all_ones(vocabulary), np.zeros(1, np.int64))

    def bind(self, rows: NDArray[np.int32], versions: NDArray[np.int64] | None) -> None:
        """versions None: rows may change at any time, and go again for every step that uses them."""
        check_masks(rows, self._vocabulary)
        self.host = rows
        self._versions = versions
        self._there = np.full(len(rows), -1, np.int64)  # the version of each row on the device
        self.table = torch.empty(rows.shape, dtype=torch.int32, device=self._device)

    def bring(self, rows: NDArray[np.int64]) -> None:
        """The rows of these ids are on the device for what the current stream is given from here on."""
        used = np.unique(rows)
        if self._versions is not None:
            used = used[self._there[used] != self._versions[used]]
            self._there[used] = self._versions[used]
        if len(used):
            self.table.index_copy_(0, sent(used, self._device), sent(self.host[used], self._device))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Results of one step on their way. words: int32 in pinned memory: tokens, log-probabilities as their bits, the
    code of an error; then, where asked for, tokens and log-probabilities of the most likely. counts: how many of them
    each pick asked for."""

    words: torch.Tensor
    counts: tuple[int, ...]
    event: torch.cuda.Event | None

    def read(self) -> list[Sampled]:
        """Waits for the device. Raises KernelError for what it could not do."""
        if self.event is not None:
            self.event.synchronize()
        words, n, most = self.words.numpy(), len(self.counts), max(self.counts, default=0)
        checked.raise_code(int(words[2 * n]))
        tokens, logprobs = words[:n].tolist(), words[n : 2 * n].view(np.float32).tolist()
        if n and min(tokens) < 0:
            raise KernelError(f"pick {tokens.index(min(tokens))}: its mask leaves no token with a finite logit")
        rest = words[2 * n + 1 :].reshape(2, n, most)
        ids, logs = rest[0].tolist(), rest[1].view(np.float32).tolist()
        most_likely = [tuple((id, log) for id, log in zip(ids[i][:count], logs[i][:count], strict=True) if id >= 0)
                       for i, count in enumerate(self.counts)]
        return [Sampled(token, dict(top).get(token, logprob), top)  # a token has one log-probability only
                for token, logprob, top in zip(tokens, logprobs, most_likely, strict=True)]


class DeviceDraws:
    """named: [NAMED] int32, the tokens of the latest draws, which a step may read before the host does."""

    def __init__(self, vocabulary: int, rows: int, error: torch.Tensor) -> None:
        """rows: draws of a step that there is room for at first. error: [1] int32, told with every result."""
        self.masks = DeviceMasks(vocabulary, error.device)
        self.named = torch.zeros(NAMED, dtype=torch.int32, device=error.device)
        self.count = 0
        self._vocabulary = vocabulary
        self._error = error
        self._room = rows
        self._work = Workspace.allocate(rows, vocabulary, error.device)

    def draw(self, logits: torch.Tensor, picks: Sequence[Pick]) -> Drawn:
        """logits: [rows, vocabulary]. Returns before the device is done. Raises KernelError for a bad pick."""
        columns = columns_of(picks)
        check(logits, self.masks.host, columns)
        self.masks.bring(columns.mask)
        counts = tuple(pick.top_logprobs for pick in picks)
        self.count = 0
        parts = self._launched(logits, columns, edits_of(picks), max(counts, default=0)) if picks else []
        words = torch.cat([*parts[:2], self._error, *parts[2:]]) if parts else self._error.clone()
        self._error.zero_()
        return self._fetched(words, counts)

    def _launched(
        self, logits: torch.Tensor, picks: Picks, edits: dict[str, NDArray[Any]] | None, most: int
    ) -> list[torch.Tensor]:
        """Flat int32: tokens, log-probabilities, and where `most` > 0 those of the most likely."""
        n = len(picks.row)
        if n > self._room:
            self._room = max(n, 2 * self._room)
            self._work = Workspace.allocate(self._room, self._vocabulary, logits.device)
        named = {name: getattr(picks, name) for name in Picks.__slots__}
        named["flat"] = launch.flat_of(named)
        columns = Columns.of(named, logits.device)
        ask = Ask(lists=bool((picks.top_k > 0).any()), flat=bool(named["flat"].any()))
        if edits is None:
            launch.draw(logits, self.masks.table, columns, self._work, ask)
        else:
            edited = edit(logits, columns.row, Edits.of(edits, logits.device), error=self._error)
            own = replace(columns, row=torch.arange(n, dtype=torch.int32, device=logits.device))
            launch.draw(edited, self.masks.table, own, self._work, ask, raw_logits=logits, raw_row=columns.row)
        self.count = min(n, NAMED)
        self.named[: self.count].copy_(self._work.token[: self.count])
        parts = [self._work.token[:n].clone(), self._work.logprob[:n].view(torch.int32)]
        if most:
            self.masks.bring(np.zeros(1, np.int64))
            likely = Likely.allocate(n, most, logits.device)
            launch.most_likely(logits, self.masks.table, columns, self._work, likely, processed=False)
            parts += [likely.token.view(-1), likely.logprob.view(-1).view(torch.int32)]
        return parts

    def _fetched(self, words: torch.Tensor, counts: tuple[int, ...]) -> Drawn:
        if not words.is_cuda:
            return Drawn(words, counts, None)
        here = torch.empty(words.shape, dtype=torch.int32, pin_memory=True)
        here.copy_(words, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return Drawn(here, counts, event)
