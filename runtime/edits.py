"""What a request changes in its logits before the mask: a bias of its own, and penalties for what stood before.

Frequency and presence penalties count the tokens generated, forced ones included; the repetition penalty looks at the
prompt too. The order of the terms is that of `kernels/sampling/edit.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from .messages import Sampling

# Far below any logit after every penalty, at the highest temperature of a sampler too; times them still finite.
BARRED = -1e36


@dataclass(frozen=True, slots=True, eq=False)
class Edits:
    """Of one draw. token: the ids whose logits change, each once. bias, count, seen: of each of them: what is added,
    how often it was generated, 1 where prompt or answer have it. repetition 1, frequency 0, presence 0: none."""

    token: array[int]
    bias: array[float]
    count: array[int]
    seen: array[int]
    repetition: float
    frequency: float
    presence: float


class Tally:
    """The edits of one request, kept with it while it grows: what cache, chunks or parking do changes nothing."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int]) -> None:
        """prompt: the tokens before the answer, or () where nothing looks at them."""
        self._sampling = sampling
        self._counts = bool(sampling.frequency_penalty or sampling.presence_penalty or sampling.repetition_penalty != 1)
        self._place: dict[int, int] = {}
        self._token, self._count, self._seen, self._bias = array("i"), array("i"), array("i"), array("f")
        for token, bias in sampling.logit_bias:
            self._bias[self._at(token)] = bias
        for token in prompt:
            self._seen[self._at(token)] = 1

    @classmethod
    def of(cls, sampling: Sampling, prompt: Callable[[], Sequence[int]]) -> Tally | None:
        """None where the request changes no logit. prompt: asked for where it is looked at."""
        again = sampling.repetition_penalty != 1
        if (again or sampling.frequency_penalty or sampling.presence_penalty or sampling.logit_bias
                or sampling.min_tokens):
            return cls(sampling, prompt() if again else ())
        return None

    def add(self, token: int) -> None:
        """It was generated."""
        if self._counts:
            at = self._at(token)
            self._count[at] += 1
            self._seen[at] = 1

    def edits(self, barred: Collection[int] = ()) -> Edits:
        """Of the next draw; later tokens do not change it. barred: ids that are not drawn this time."""
        asked, places = self._sampling, [self._at(token) for token in barred]
        bias = self._bias[:]
        for at in places:
            bias[at] = BARRED
        return Edits(self._token[:], bias, self._count[:], self._seen[:], asked.repetition_penalty,
                     asked.frequency_penalty, asked.presence_penalty)

    def _at(self, token: int) -> int:
        at = self._place.setdefault(token, len(self._token))
        if at == len(self._token):
            self._token.append(token)
            self._bias.append(0.0)
            self._count.append(0)
            self._seen.append(0)
        return at
