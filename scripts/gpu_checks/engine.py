"""The engine on the device: law 2 in exact mode, bit for bit, and the tokens of the CPU in float32."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from msgspec import structs

from espalier.kernels.registry import kernels
from espalier.runtime.config import Device, EngineConfig
from espalier.runtime.executor import Executor
from espalier.runtime.loading import executor_of
from espalier.runtime.messages import Choose, Define, Generate, Sampling, TokenLogprob, Tokens
from espalier.runtime.models.config import LlamaConfig
from espalier.runtime.models.load import DTYPES, build_llama
from tests.runtime.harness import Bench
from tests.runtime.set_grammar import encode_texts

from ..random_weights import RandomWeights

Report = Callable[[str, bool, str], None]
Answer = tuple[list[int], list[TokenLogprob]]
SHAPE = LlamaConfig(layers=4, width=512, heads=8, kv_heads=2, head_dim=64, ffn=1024, vocab=1000, context=4096,
                    rope_theta=1e4, rms_eps=1e-5, tied=True)
QWEN = replace(SHAPE, biases=True, head_norms=True)  # what Qwen 2 and Qwen 3 have beside it
PAGES, BUDGET = 400, 12
TEXT = tuple((31 * n + n * n // 7) % SHAPE.vocab for n in range(1500))
PROMPTS = tuple(TEXT[:length] + own for length, own in (
    (1100, (1,)), (1100, (2, 3)), (700, ()), (1290, (4, 5, 6)), (40, (7,)), (1100, (1, 8)), (530, (9,)), (1, ())))
# Each begins in a choice and ends in a long run without one.
TEXTS = [[5, *range(100, 130)], [6, 7, *range(200, 230)], [6, 8, *range(300, 310)]]


def executor(device: Device, dtype: str, exact: bool, shape: LlamaConfig = SHAPE) -> Executor:
    config = EngineConfig(device=device, dtype=dtype, exact=exact, pages=PAGES, max_rows=16)  # type: ignore[arg-type]
    ops = kernels(device, DTYPES[dtype], "exact" if exact else "fast")
    return executor_of(build_llama(shape, RandomWeights(shape), ops, DTYPES[dtype], torch.device(device)), config)


def answers(one: Executor, prompts: Sequence[tuple[int, ...]], *, at_once: bool, step_tokens: int = 512,
            pages: int = PAGES, first: int = 1, forced: bool = True) -> list[Answer]:
    """Every other prompt under a constraint, every third with penalties and a bias; seeds by the place in the list,
    which begins at `first`."""
    bench = Bench(executor=one, vocabulary_size=SHAPE.vocab, page=16, pages=pages, step_tokens=step_tokens, max_rows=16)
    bench.send(Define(1, encode_texts(TEXTS)))
    places = range(first, first + len(prompts))
    for place, prompt in zip(places, prompts, strict=True):
        bench.lease(place)
        # With log-probabilities nothing is forced; the tokens are the same.
        sampling = Sampling(temperature=0.7 * (place % 3), seed=place, ignore_end=True,
                            logprobs=None if forced else 3)
        if place % 3 == 1:
            sampling = structs.replace(sampling, frequency_penalty=0.4, repetition_penalty=1.2, logit_bias=((7, 2.0),))
        bench.send(Generate(1000 + place, place, prompt, 40 if place % 2 else BUDGET, sampling,
                            1 if place % 2 else None))
        if not at_once:
            bench.run()
    bench.run()
    return [(bench.tokens(1000 + place), [
        one for event in bench.events[1000 + place] if isinstance(event, Tokens) for one in event.logprobs
    ]) for place in places]


def alone(one: Executor, forced: bool) -> list[Answer]:
    return [answers(one, [prompt], at_once=True, first=place, forced=forced)[0]
            for place, prompt in enumerate(PROMPTS, 1)]


def check_law_2(report: Report, name: str, shape: LlamaConfig) -> None:
    """Cache hit x chunking x forced text x preemption: the bits of each answer alone."""
    one = executor("cuda", "bfloat16", True, shape)
    expected = {forced: alone(one, forced) for forced in (False, True)}
    tokens = {forced: [said for said, _ in found] for forced, found in expected.items()}
    report(f"{name}: forced text changes no token", tokens[True] == tokens[False], "")
    for at_once, step_tokens, pages, forced in itertools.product(
            (False, True), (512, 61), (PAGES, 90), (False, True)):
        found = answers(one, PROMPTS, at_once=at_once, step_tokens=step_tokens, pages=pages, forced=forced)
        wrong = sum(a != b for a, b in zip(found, expected[forced], strict=True))
        report(f"{name} exact: at once {at_once}, {step_tokens} a step, {pages} pages, forced {forced}", not wrong,
               f"{wrong} of {len(PROMPTS)} answers differ")


def check_scores(report: Report) -> None:
    one, found = executor("cuda", "bfloat16", True), []
    for warm in (False, True):
        bench = Bench(executor=one, vocabulary_size=SHAPE.vocab, page=16, pages=PAGES, step_tokens=512, max_rows=16)
        bench.lease(1)
        if warm:
            bench.lease(2)
            bench.send(Generate(5, 2, TEXT[:777], 2, Sampling(temperature=0.0, ignore_end=True)))
            bench.run()
        bench.send(Choose(1, 1, TEXT[:800], ((5,), (6, 7, 8), TEXT[:90])))
        bench.run()
        found.append(bench.chosen(1).logprobs)
    report("exact: scores have the same bits after a hit", found[0] == found[1], "")


def check_against_cpu(report: Report) -> None:
    cpu, cuda = executor("cpu", "float32", True), executor("cuda", "float32", False)
    expected = [tokens for tokens, _ in answers(cpu, PROMPTS, at_once=True)]
    for step_tokens, pages in ((512, PAGES), (61, PAGES), (512, 90)):
        found = [tokens for tokens, _ in answers(cuda, PROMPTS, at_once=True, step_tokens=step_tokens, pages=pages)]
        wrong = sum(a != b for a, b in zip(found, expected, strict=True))
        report(f"float32: {step_tokens} a step, {pages} pages, the tokens of the CPU", not wrong,
               f"{wrong} of {len(PROMPTS)} differ")
    cuda = executor("cuda", "bfloat16", True)
    pairs = zip(answers(cpu, PROMPTS, at_once=True, forced=False), answers(cuda, PROMPTS, at_once=True, forced=False),
                strict=True)
    gaps = [abs(a[0].logprob - b[0].logprob) for (s, a), (t, b) in pairs if s[0] == t[0]]
    report("bfloat16 exact: first log-probabilities of the CPU's", bool(gaps) and max(gaps) < 0.1,
           f"{len(gaps)} of {len(PROMPTS)} the same token, gap {max(gaps, default=9.9):.0e}")


def run(report: Report) -> None:
    check_law_2(report, "llama", SHAPE)
    check_law_2(report, "qwen", QWEN)
    check_scores(report)
    check_against_cpu(report)
