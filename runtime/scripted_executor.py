"""An executor without a device: its model is a function of the tokens before, and it checks every page that it reads.

Each slot remembers the token, the position and the weights that were written there. A row that reads a wrong, stale or
unwritten slot raises, so that a fault of the tree, the pool or the scheduler is seen at once and not as a wrong token.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .config import EngineConfig
from .edits import Edits
from .engine import Engine
from .errors import EngineFault, WeightsError
from .executor import Exchange, Ticket
from .plan import PageCopy, Pick, Plan, Row, Sampled

Model = Callable[[tuple[int, ...]], Sequence[float]]
"""The tokens so far -> logits [vocabulary size]."""

Slot = tuple[int, int, int]  # token, position, load of the weights


@dataclass(slots=True)
class _Pass:
    """One ticket: the tokens before each logits row, then what was drawn."""

    prefixes: list[tuple[int, ...]]
    drawn: list[Sampled] = field(default_factory=list)


class ScriptedExecutor:
    """model(prefix) gives the logits after a prefix; everything else is bookkeeping. weights: reads another one."""

    def __init__(self, model: Model, *, vocabulary_size: int, pages: int, page: int, context: int = 1 << 20,
                 ahead: bool = False, weights: Callable[[Path], Model] | None = None) -> None:
        self.vocabulary_size = vocabulary_size
        self.context = context
        self.ahead = ahead
        self.computed = 0  # tokens, for tests that count work
        self._model = model
        self._weights = weights
        self._load = 1
        self._page = page
        self._slots: list[list[Slot | None]] = [[None] * page for _ in range(pages)]
        self._passes: dict[Ticket, _Pass] = {}
        self._last: _Pass | None = None
        self._tickets = 0
        self._masks: Any = None

    def bind_masks(self, rows: Any, versions: Any = None) -> None:
        self._masks = rows

    def forward(self, plan: Plan) -> Ticket:
        for copy in plan.copies:
            self._copy(copy)
        prefixes = [prefix for row in plan.rows for prefix in self._compute(row)]
        self._tickets += 1
        self._last = self._passes[self._tickets] = _Pass(prefixes)
        return self._tickets

    def _copy(self, copy: PageCopy) -> None:
        self._slots[copy.target][:copy.count] = self._slots[copy.source][:copy.count]

    def _compute(self, row: Row) -> list[tuple[int, ...]]:
        """Write the row's tokens; the whole prefix of each offset whose logits are asked for, read from the pages."""
        tokens = list(row.tokens)
        if row.sampled_from is not None and self._last is not None:
            tokens[0] = self._last.drawn[row.sampled_from].token
        before = [self._read(row, position) for position in range(row.start)]
        for offset, token in enumerate(tokens):
            page, slot = self._place(row, row.start + offset)
            self._slots[page][slot] = (token, row.start + offset, self._load)
        self.computed += len(tokens)
        return [tuple(before + tokens[:offset + 1]) for offset in row.logits_at]

    def _place(self, row: Row, position: int) -> tuple[int, int]:
        if position // self._page >= len(row.pages):
            raise EngineFault(f"position {position} has no page", where="ScriptedExecutor.forward")
        return row.pages[position // self._page], position % self._page

    def _read(self, row: Row, position: int) -> int:
        page, slot = self._place(row, position)
        held = self._slots[page][slot]
        if held is None or held[1:] != (position, self._load):
            raise EngineFault(f"page {page}, slot {slot}: {held} is not at {position} of load {self._load}",
                              where="ScriptedExecutor")
        return held[0]

    def sample(self, ticket: Ticket, picks: Sequence[Pick]) -> None:
        done = self._passes[ticket]
        done.drawn = [draw(self._model(done.prefixes[pick.logits]), pick, self._masks) for pick in picks]

    def result(self, ticket: Ticket) -> list[Sampled]:
        return self._passes.pop(ticket).drawn

    def prepare(self, weights: Path) -> Exchange:
        if self._weights is None:
            raise WeightsError("this executor reads no weights", where=str(weights))
        model = self._weights(weights)

        def exchange() -> None:
            self._model = model
            self._load += 1

        return exchange

    def close(self) -> None:
        self._passes.clear()


def draw(logits: Sequence[float], pick: Pick, masks: Any = None) -> Sampled:
    """The token of a pick. Only edits, temperature and seed shape the draw; top-k and the like are the real
    sampler's."""
    logprobs = log_softmax(logits)
    token = pick.target if pick.target is not None else _choose(_edited(logits, pick.edits), pick, masks)
    ranked = sorted(range(len(logits)), key=lambda id: (-logprobs[id], id))[:pick.top_logprobs]
    return Sampled(token, logprobs[token], tuple((id, logprobs[id]) for id in ranked))


def _edited(logits: Sequence[float], edits: Edits | None) -> Sequence[float]:
    if edits is None:
        return logits
    edited = list(logits)
    for token, bias, count, seen in zip(edits.token, edits.bias, edits.count, edits.seen, strict=True):
        x = edited[token] + bias
        if seen:
            x = x / edits.repetition if x > 0 else x * edits.repetition
        edited[token] = x - edits.frequency * count - edits.presence * (count > 0)
    return edited


def _choose(logits: Sequence[float], pick: Pick, masks: Any) -> int:
    allowed = [id for id in range(len(logits)) if _allows(masks, pick.mask, id)]
    if not allowed:
        raise EngineFault("the mask row allows no token", where="ScriptedExecutor.sample")
    best = max(allowed, key=lambda id: (logits[id], -id))
    if pick.temperature == 0:
        return best
    weights = [math.exp((logits[id] - logits[best]) / pick.temperature) for id in allowed]
    return random.Random(f"{pick.seed}:{pick.position}").choices(allowed, weights)[0]


def _allows(masks: Any, row: int, token: int) -> bool:
    return row == 0 or masks is None or bool(int(masks[row][token // 32]) >> (token % 32) & 1)


def log_softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    total = top + math.log(math.fsum(math.exp(value - top) for value in logits))
    return [value - total for value in logits]


def counting_model(vocabulary_size: int, weights: str = "") -> Model:
    """Deterministic logits that depend on every token before, without a pattern that a wrong prefix could hit.
    weights: another text, other logits."""

    def model(prefix: tuple[int, ...]) -> Sequence[float]:
        source = random.Random(weights + repr(prefix))
        return [source.uniform(-4.0, 4.0) for _ in range(vocabulary_size)]

    return model


def scripted_engine(config: EngineConfig, vocabulary_size: int = 257) -> Engine:
    """An engine without a model, its last id the end token: for tests of everything around it."""
    executor = ScriptedExecutor(
        counting_model(vocabulary_size), vocabulary_size=vocabulary_size, pages=config.pages, page=config.page,
        weights=lambda path: counting_model(vocabulary_size, path.read_text(encoding="utf-8")),
    )
    return Engine(executor, config, end_ids=(vocabulary_size - 1,))
