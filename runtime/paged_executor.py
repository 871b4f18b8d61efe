"""The executor of a GPU: pages, block tables, masks and logits stay there; tokens come back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..kernels.base import KernelError
from ..kernels.copy_slots import copies_of
from ..kernels.planned_batch import Heads
from .config import EngineConfig
from .device_draws import DeviceDraws, Drawn
from .edits import Edits, Tally
from .errors import EngineFault, InvalidParameter
from .executor import Exchange, Ticket
from .messages import Sampling
from .models.alike import load_alike, overwrite
from .models.llama import Llama, allocate_cache
from .paged_steps import CAPTURED, WANTED, PagedSteps, error_of
from .picking import faults, tokens_of
from .plan import Pick, Plan, Row, Sampled
from .sizing import check_positions


class PagedExecutor:
    """Owns the KV pool of one model. The contract is that of `executor.Executor`.

    Nothing waits for the device but `result`. The logits of a ticket live until the next `forward`: a ticket is sampled
    before the next plan is started. A fault that only the device sees is raised by `result`.
    """

    def __init__(
        self, model: Llama, config: EngineConfig, *, captures: bool = True, share_from: int | None = None
    ) -> None:
        """Compiles kernels, or reads them from their cache, and captures the small steps (captures). share_from: slots
        that a prefix must save to be read once for several rows; None: what was swept. Raises InvalidParameter for a
        model of another dtype, or one whose heads or pages no kernel serves."""
        if str(model.dtype) != f"torch.{config.dtype}":
            raise InvalidParameter(
                f"the model holds {model.dtype}, not {config.dtype}", where="dtype", fix="Load it with this config."
            )
        check_positions(config, model)
        shape = model.config
        self.vocabulary_size = shape.vocab
        self.ahead = True
        self.context = min(config.context or shape.context, shape.context)
        self._model = model
        self._pages, self._page = config.pages, config.page
        self._tickets = 0
        self._logits: tuple[Ticket, torch.Tensor] | None = None
        self._results: dict[Ticket, Drawn] = {}
        heads = _heads(model, config)
        with torch.inference_mode():
            error = error_of(model.device)
            self._cache = allocate_cache(model, config.pages + 1, config.page)
            self._draws = DeviceDraws(self.vocabulary_size, max(config.max_rows, WANTED), error)
            self._steps = PagedSteps(
                model, self._cache, self._draws.named, error, heads, rows=config.max_rows, tokens=config.step_tokens,
                context=self.context, share_from=share_from)
        self._warm_up(config, captures)

    def bind_masks(self, rows: NDArray[np.int32], versions: NDArray[np.int64] | None = None) -> None:
        """rows: int32 [n, ceil(V / 32)], which get as much memory on the device; see DeviceMasks."""
        with torch.inference_mode():
            self._draws.masks.bind(rows, versions)

    def forward(self, plan: Plan) -> Ticket:
        """Raises EngineFault for a plan that does not fit the pool, the vocabulary or the context."""
        self._logits = None
        with faults(f"step {plan.step}"), torch.inference_mode():
            try:
                logits = self._computed(plan)
            except BaseException:
                self._steps.forget()
                raise
        self._tickets += 1
        self._logits = self._tickets, logits
        return self._tickets

    def _computed(self, plan: Plan) -> torch.Tensor:
        named = (0,) * self._draws.count
        tokens = tokens_of(plan, named, context=self.context, vocabulary=self.vocabulary_size)
        for row in plan.rows:
            if row.start + len(row.tokens) > len(row.pages) * self._page:
                raise KernelError(f"position {row.start + len(row.tokens)} needs more pages than given")
        for copy in plan.copies:
            if not (0 <= copy.source < self._pages and 0 <= copy.target < self._pages
                    and 0 <= copy.count <= self._page):
                raise KernelError(f"cannot copy {copy.count} slots of page {copy.source} to {copy.target}: the pool "
                                  f"has {self._pages} pages")
        if plan.copies:
            copies = [(copy.source, copy.target, copy.count) for copy in plan.copies]
            self._model.kernels.copy_slots(self._cache, copies_of(copies, self._model.device))
        if not plan.rows:
            return torch.empty((0, self.vocabulary_size), dtype=self._model.dtype, device=self._model.device)
        return self._steps.run(plan.rows, tokens)

    def sample(self, ticket: Ticket, picks: Sequence[Pick]) -> None:
        """Raises EngineFault for a ticket that is not waiting, and for a pick that names what is not there."""
        with faults(f"ticket {ticket}"), torch.inference_mode():
            if self._logits is None or self._logits[0] != ticket:
                raise KernelError("it was not computed, or it was sampled before, or another was computed since")
            logits, self._logits = self._logits[1], None
            self._results[ticket] = self._draws.draw(logits, picks)

    def result(self, ticket: Ticket) -> list[Sampled]:
        """Raises EngineFault also where a mask left no token, and where the device refused the step."""
        if ticket not in self._results:
            raise EngineFault("it was not sampled, or its result was read before", where=f"ticket {ticket}")
        with faults(f"ticket {ticket}"):
            return self._results.pop(ticket).read()

    def prepare(self, weights: Path) -> Exchange:
        """Raises WeightsError. Reads into the main memory; the exchange writes over the weights on the device, where
        captured graphs read them."""
        other = load_alike(weights, self._model)
        return lambda: overwrite(self._model, other)

    def close(self) -> None:
        """Gives the results up; the pool goes with the executor."""
        self._logits = None
        self._results.clear()

    def _warm_up(self, config: EngineConfig, captures: bool) -> None:
        """Every kernel runs once, in each size of a step; then the small steps are captured."""
        sizes = [size for size in CAPTURED if size <= min(config.max_rows, 256)]
        for count in sizes if self._model.device.type == "cuda" else sizes[:1]:
            self._try(Plan(0, tuple(Row((0,), 0, (0,), (0,)) for _ in range(count))), count)
        tally = Tally(Sampling(frequency_penalty=1.0, logit_bias=((0, 1.0),)), ())
        self._try(Plan(0, (Row((0,), 0, (0,), (0,)),)), 1, tally.edits())
        if self._model.device.type == "cuda":
            chunk = (0,) * min(self._page, self.context)
            self._try(Plan(0, (Row(chunk, 0, (0,), (0,)),) * min(8, config.max_rows)), 1)
            if captures:
                with torch.inference_mode():
                    self._steps.capture()
        self._draws.count = 0

    def _try(self, plan: Plan, count: int, edits: Edits | None = None) -> None:
        ticket = self.forward(plan)
        self.sample(ticket, [Pick(row, top_logprobs=1, edits=edits) for row in range(count)])
        self.result(ticket)


def _heads(model: Llama, config: EngineConfig) -> Heads:
    shape = model.config
    try:
        if config.exact and any(size % 8 for size in (shape.width, shape.ffn, shape.heads * shape.head_dim)):
            raise KernelError("exact products take a multiple of 8 inputs")
        return Heads(shape.heads, shape.kv_heads, shape.head_dim, config.page, model.dtype, config.exact)
    except KernelError as error:
        raise InvalidParameter(f"this model cannot run on a GPU: {error}", where="device",
                               fix="Set device to cpu.") from error
