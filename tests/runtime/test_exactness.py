"""Law 2 with real arithmetic: in exact mode a request gives the same tokens and the same bits of log-probability,
whatever was cached, however its prompt was cut, whoever was in the batch, and whether it was parked on the way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.runtime.messages import Choose, Generate, Sampling, TokenLogprob, Tokens
from espalier.runtime.models.llama import Llama
from espalier.runtime.torch_executor import TorchExecutor
from tests.runtime.harness import Bench
from tests.runtime.tiny_llama import SHAPE, tiny_config, tiny_llama

BUDGET = 10
Answer = tuple[list[int], list[TokenLogprob]]


@pytest.fixture(scope="module")
def model() -> Llama:
    return tiny_llama(tiny_config())


def open_bench(model: Llama, *, pages: int = 96, step_tokens: int = 512, max_rows: int = 8) -> Bench:
    config = tiny_config(pages=pages, step_tokens=step_tokens, max_rows=max_rows)
    return Bench(
        executor=TorchExecutor(model, config), vocabulary_size=SHAPE.vocab, page=config.page, pages=pages,
        step_tokens=step_tokens, max_rows=max_rows,
    )


def text(base: int, length: int, own: Sequence[int]) -> tuple[int, ...]:
    """Beginnings of two texts, with something of their own behind."""
    return tuple((base * 31 + n * n) % 100 for n in range(length)) + tuple(own)


def answers(bench: Bench, prompts: Sequence[tuple[int, ...]], *, temperature: float, at_once: bool) -> list[Answer]:
    for index, prompt in enumerate(prompts, 1):
        bench.lease(index)
        sampling = Sampling(temperature=temperature, seed=index, ignore_end=True, logprobs=3)
        bench.send(Generate(1000 + index, index, prompt, BUDGET, sampling))
        if not at_once:
            bench.run()
    bench.run()
    return [(bench.tokens(1000 + index), logprobs(bench, 1000 + index)) for index in range(1, len(prompts) + 1)]


def logprobs(bench: Bench, request: int) -> list[TokenLogprob]:
    return [one for event in bench.events[request] if isinstance(event, Tokens) for one in event.logprobs]


def alone(model: Llama, prompts: Sequence[tuple[int, ...]], temperature: float) -> list[Answer]:
    """Each request on an engine of its own, its prompt in one piece. The seed goes by the place in the list."""
    found = []
    for index, prompt in enumerate(prompts, 1):
        bench = open_bench(model)
        bench.lease(1)
        sampling = Sampling(temperature=temperature, seed=index, ignore_end=True, logprobs=3)
        bench.send(Generate(1, 1, prompt, BUDGET, sampling))
        bench.run()
        found.append((bench.tokens(1), logprobs(bench, 1)))
    return found


PROMPTS = st.lists(
    st.builds(text, st.integers(0, 1), st.integers(1, 60), st.lists(st.integers(0, 99), max_size=12)),
    min_size=1, max_size=6,
)


@settings(max_examples=12, deadline=None)
@given(prompts=PROMPTS, step_tokens=st.integers(1, 64), pages=st.integers(11, 40), greedy=st.booleans(),
       at_once=st.booleans())
def test_company_cache_chunks_and_parking_change_no_bit(
    model: Llama, prompts: list[tuple[int, ...]], step_tokens: int, pages: int, greedy: bool, at_once: bool
) -> None:
    temperature = 0.0 if greedy else 1.0
    bench = open_bench(model, pages=pages, step_tokens=step_tokens)
    assert answers(bench, prompts, temperature=temperature, at_once=at_once) == alone(model, prompts, temperature)


def test_scores_have_the_same_bits_after_a_hit() -> None:
    llama = tiny_llama(tiny_config())
    prompt, choices = text(0, 37, ()), ((5,), (6, 7, 8), tuple(range(20)))
    fresh, warm = open_bench(llama), open_bench(llama, step_tokens=7)
    answers(warm, [prompt, text(0, 20, (9, 9)), text(0, 36, ())], temperature=0.0, at_once=False)
    for bench in (fresh, warm):
        bench.lease(50)
        bench.send(Choose(1, 50, prompt, choices))
        bench.run()
    assert warm.chosen(1).usage.cached == 36
    assert fresh.chosen(1).logprobs == warm.chosen(1).logprobs
