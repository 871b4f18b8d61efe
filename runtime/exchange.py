"""The exchange of an engine's weights: read beside its steps, taken over between two of them, with an empty cache.

    steps        old weights, as ever        | held: who has begun ends    | renewed memory, new weights
    a thread     reads and checks the file --'                              '-- WeightsLoaded

Whatever was computed from one load is never read with another: nobody that has begun is left when the weights change,
and the pages go with the memory that they are in, whatever the new file is called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import Overloaded, WeightsReplaced
from .executor import Exchange
from .messages import LoadWeights, WeightsLoaded
from .open_requests import OpenRequests


@dataclass(frozen=True, slots=True)
class WeightsRead:
    """What came of reading the weights that `command` names."""

    command: LoadWeights
    outcome: Exchange | Exception


class WeightsExchange:
    """One at a time. load: how many weights there were so far, the first ones included. reading: of a file, now."""

    def __init__(self, prepare: Callable[[Path], Exchange], requests: OpenRequests,
                 post: Callable[[WeightsRead], None]) -> None:
        """prepare: of the executor. post: hands over, from another thread, what `read` is then called with."""
        self.load = 1
        self._prepare = prepare
        self._requests = requests
        self._post = post
        self.reading = False
        self._ready: WeightsRead | None = None

    def begin(self, command: LoadWeights) -> None:
        if self.reading or self._ready is not None:
            self._requests.refuse(command.request, Overloaded(
                "other weights are being loaded already", where="weights", fix="Wait until they are."))
            return
        self.reading = True
        threading.Thread(target=self._read, args=(command,), name="espalier-weights", daemon=True).start()

    def _read(self, command: LoadWeights) -> None:
        outcome: Exchange | Exception
        try:
            outcome = self._prepare(Path(command.path))
        except Exception as error:  # told to who asked; the engine goes on with the weights that it has
            outcome = error
        self._post(WeightsRead(command, outcome))

    def read(self, news: WeightsRead) -> None:
        """From here on nobody begins until the weights are exchanged."""
        self.reading = False
        if isinstance(news.outcome, Exception):
            self._requests.refuse(news.command.request, news.outcome)
            return
        self._ready = news
        self._requests.scheduler.held = True
        if news.command.end:
            self._requests.end(self._requests.scheduler.begun, WeightsReplaced(
                "the weights of the model were replaced while the request ran", fix="Send it again."))

    @property
    def due(self) -> bool:
        """The weights are there, and nobody needs the old ones any more."""
        return self._ready is not None and not self._requests.scheduler.begun

    def take_over(self) -> None:
        """When it is due and no step is in flight. What an executor raises here leaves it without weights that could be
        trusted: the engine must end."""
        news, self._ready = self._ready, None
        if news is None or isinstance(news.outcome, Exception):
            return
        waiting = self._requests.lose_memory()
        news.outcome()
        for request in waiting:
            self._requests.scheduler.add(request)
        self.load += 1
        self._requests.emit(WeightsLoaded(news.command.request, self.load))
