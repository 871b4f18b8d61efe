"""The executor of the CPU: plans become batches of tensors, logits become tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from ..kernels.base import KernelError
from ..kernels.copy_slots import copies_of
from ..kernels.layout import Batch, Span
from ..kernels.sample import Draws, Picks
from ..kernels.sampling.edit import Edits
from .config import EngineConfig
from .errors import EngineFault, InvalidParameter
from .executor import Exchange, Ticket
from .models.alike import load_alike
from .models.llama import Llama, allocate_cache, forward
from .picking import all_ones, check_masks, columns_of, edits_of, faults, tokens_of
from .plan import Pick, Plan, Row, Sampled
from .sizing import check_positions


class TorchExecutor:
    """Owns the KV pool of one model. The contract is that of `executor.Executor`.

    Forward and sample compute before they return. host_s, model_s, sample_s: seconds spent so far on
    building batches, in the model, and on sampling.
    """

    def __init__(self, model: Llama, config: EngineConfig) -> None:
        """Sets torch's number of threads when config.threads is not 0. Raises InvalidParameter when the model was
        loaded for another dtype than config asks for."""
        if str(model.dtype) != f"torch.{config.dtype}":
            raise InvalidParameter(
                f"the model holds {model.dtype}, not {config.dtype}", where="dtype", fix="Load it with this config."
            )
        check_positions(config, model)
        if config.threads:
            torch.set_num_threads(config.threads)
        self.vocabulary_size = model.config.vocab
        self.ahead = False
        self.context = min(config.context or model.config.context, model.config.context)
        self.host_s = self.model_s = self.sample_s = 0.0
        self._model = model
        self._cache = allocate_cache(model, config.pages, config.page)
        self._masks = all_ones(self.vocabulary_size)
        self._ticket = 0
        self._logits: dict[Ticket, torch.Tensor] = {}
        self._results: dict[Ticket, list[Sampled]] = {}
        self._previous: Sequence[int] = ()
        self._warm_up()

    def bind_masks(self, rows: NDArray[np.int32], versions: NDArray[np.int64] | None = None) -> None:
        """rows: int32 [n, ceil(V / 32)]; read at every `sample`, so rows may be filled in after the call."""
        check_masks(rows, self.vocabulary_size)
        self._masks = rows

    def forward(self, plan: Plan) -> Ticket:
        """Raises EngineFault for a plan that does not fit the pool, the vocabulary or the context."""
        started = perf_counter()
        with faults(f"step {plan.step}"), torch.inference_mode():
            tokens = tokens_of(plan, self._previous, context=self.context, vocabulary=self.vocabulary_size)
            if plan.copies:
                copies = [(copy.source, copy.target, copy.count) for copy in plan.copies]
                self._model.kernels.copy_slots(self._cache, copies_of(copies, self._cache.k[0].device))
            if plan.rows:
                logits = self._compute(plan, tokens, started)
            else:
                logits = torch.empty((0, self.vocabulary_size), dtype=self._model.dtype)
        self._ticket += 1
        self._logits[self._ticket] = logits
        return self._ticket

    def sample(self, ticket: Ticket, picks: Sequence[Pick]) -> None:
        """Raises EngineFault for a ticket that is not waiting, and when a pick's mask leaves no token."""
        started = perf_counter()
        with faults(f"ticket {ticket}"), torch.inference_mode():
            if ticket not in self._logits:
                raise KernelError("it was not computed, or it was sampled before")
            logits = self._logits.pop(ticket)
            draws = self._drawn(logits, picks)
            self._results[ticket] = self._sampled(logits, picks, draws)
            self._previous = draws.token.tolist()
        self.sample_s += perf_counter() - started

    def result(self, ticket: Ticket) -> list[Sampled]:
        if ticket not in self._results:
            raise EngineFault("it was not sampled, or its result was read before", where=f"ticket {ticket}")
        return self._results.pop(ticket)

    def prepare(self, weights: Path) -> Exchange:
        """Raises WeightsError. Takes as much memory as the model until the exchange."""
        other = load_alike(weights, self._model)

        def exchange() -> None:
            self._model = other

        return exchange

    def close(self) -> None:
        """Gives the results up; the pool goes with the executor."""
        self._logits.clear()
        self._results.clear()

    def _warm_up(self) -> None:
        """Compiles the kernels, or reads them from their cache, so that the first request need not wait for it."""
        ticket = self.forward(Plan(0, (Row((0,), 0, (0,), (0,)),)))
        self.sample(ticket, [Pick(0)])
        self.result(ticket)
        self.host_s = self.model_s = self.sample_s = 0.0
        self._previous = ()

    def _drawn(self, logits: torch.Tensor, picks: Sequence[Pick]) -> Draws:
        """Tokens of edited rows are drawn from those and become the targets of the raw ones, which give the
        log-probabilities."""
        columns, sample = columns_of(picks), self._model.kernels.sample
        some = [i for i, pick in enumerate(picks) if pick.edits is not None]
        changes = edits_of([picks[i] for i in some])
        if changes is not None:
            part = Picks(**{name: getattr(columns, name)[some] for name in Picks.__slots__})
            edits = Edits.of(changes, logits.device)
            edited = self._model.kernels.edit(logits, torch.from_numpy(part.row), edits)
            tokens = sample(edited, self._masks, replace(part, row=np.arange(len(some)))).token
            columns.target[some] = tokens
        return sample(logits, self._masks, columns)

    def _sampled(self, logits: torch.Tensor, picks: Sequence[Pick], draws: Draws) -> list[Sampled]:
        tokens, logprobs = draws.token.tolist(), draws.logprob.tolist()
        if tokens and min(tokens) < 0:
            raise KernelError(f"pick {tokens.index(min(tokens))}: its mask leaves no token with a finite logit")
        told = self._most_likely(logits, picks, tokens)
        return [told.get(i) or Sampled(token, logprob)
                for i, (token, logprob) in enumerate(zip(tokens, logprobs, strict=True))]

    def _most_likely(self, logits: torch.Tensor, picks: Sequence[Pick], tokens: Sequence[int]) -> dict[int, Sampled]:
        """By pick, for those that ask; all log-probabilities of a pick from one pass, so that a token has one only."""
        asking = [i for i, pick in enumerate(picks) if pick.top_logprobs]
        if not asking:
            return {}
        columns = columns_of([replace(picks[i], target=tokens[i]) for i in asking])
        count = max(picks[i].top_logprobs for i in asking)
        found = self._model.kernels.log_probs(logits, self._masks, columns, count, False)
        pairs = [tuple(zip(ids, logs, strict=True)) for ids, logs in
                 zip(found.token.tolist(), found.logprob.tolist(), strict=True)]
        return {i: Sampled(tokens[i], choice, tuple(pair for pair in row[: picks[i].top_logprobs] if pair[0] >= 0))
                for i, choice, row in zip(asking, found.choice.tolist(), pairs, strict=True)}

    def _compute(self, plan: Plan, tokens: list[int], started: float) -> torch.Tensor:
        spans = _spans(plan.rows)
        wanted = [span.begin + at for span, row in zip(spans, plan.rows, strict=True) for at in row.logits_at]
        device = self._model.device
        batch = Batch.of(spans, page=self._cache.page, pages=self._cache.pages, device=device)
        ids, at = (torch.tensor(values, dtype=torch.int64, device=device) for values in (tokens, wanted))
        built = perf_counter()
        logits = forward(self._model, self._cache, ids, batch, at)
        self.host_s += built - started
        self.model_s += perf_counter() - built
        return logits


def _spans(rows: Sequence[Row]) -> list[Span]:
    spans, begin = [], 0
    for row in rows:
        spans.append(Span(begin, len(row.tokens), row.start, row.pages))
        begin += len(row.tokens)
    return spans
