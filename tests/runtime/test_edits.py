"""Penalties and biases: the formula holds, for every way in which an answer may come about."""

from __future__ import annotations

import numpy as np
import pytest

from espalier.runtime.edits import Tally
from espalier.runtime.messages import Generate, OpenLease, Sampling, Tokens
from espalier.runtime.plan import Pick, Plan, Row, Sampled
from espalier.runtime.torch_executor import TorchExecutor
from tests.runtime.driving import PROMPT, define, generate
from tests.runtime.edited import edited
from tests.runtime.harness import END, VOCABULARY, Bench, expected_answer
from tests.runtime.set_grammar import MaskRows, SetGrammar
from tests.runtime.tiny_llama import SHAPE, tiny_config, tiny_llama

ASKED = {
    "frequency": {"frequency_penalty": 1.5},
    "presence": {"presence_penalty": -2.0},
    "repetition": {"repetition_penalty": 1.8},
    "reward of repetition": {"repetition_penalty": 0.3},
    "bias": {"logit_bias": ((3, 4.0), (0, -100.0), (END, 2.0))},
    "all": {"frequency_penalty": 0.7, "presence_penalty": 0.4, "repetition_penalty": 1.2,
            "logit_bias": ((2, 1.5), (5, -3.0))},
}


def sampling(name: str, **more: object) -> Sampling:
    return Sampling(**({"temperature": 0.8, "seed": 4, "ignore_end": True} | ASKED[name] | more))  # type: ignore[arg-type]


WAYS = {
    "plain": {}, "chunks": {"step_tokens": 3}, "ahead": {"ahead": True}, "ahead in chunks": {"ahead": True,
    "step_tokens": 5}, "parked": {"pages": 17}, "parked ahead": {"pages": 17, "ahead": True},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ASKED)
def test_the_way_changes_nothing(name: str, way: str) -> None:
    """Four at once, then the same again over what is cached; a neighbour without edits stays as it is."""
    bench = Bench(**({"page": 4, "pages": 64} | WAYS[way]))  # type: ignore[arg-type]
    asked = [sampling(name), sampling(name, temperature=0.0), Sampling(temperature=0.8, seed=4, ignore_end=True),
             sampling(name, seed=9, logprobs=1)]
    for turn in range(2):
        ids = [turn * 4 + index for index in range(1, 5)]
        for id in ids:
            bench.lease(id)
        bench.send(*(generate(id, id, PROMPT[:9 + 3 * index], max_tokens=14, sampling=asked[index])
                     for index, id in enumerate(ids)))
        bench.run()
        for index, id in enumerate(ids):
            assert bench.tokens(id) == expected_answer(PROMPT[:9 + 3 * index], 14, asked[index])[0]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("logprobs", [None, 0])
@pytest.mark.parametrize("name", ASKED)
def test_forced_tokens_count(name: str, logprobs: int | None, ahead: bool) -> None:
    """1 1 1 1 is forced, after which 1 is less or more likely than 2 and 3; a mask has the last word."""
    texts = [[1, 1, 1, 1, *end] for end in ([1, 2], [1, 3], [2, 2], [3, 2], [2, 1, 1])]
    bench = Bench(ahead=ahead)
    define(bench, texts)
    said = []
    for id in range(1, 9):
        bench.lease(id)
        asked = sampling(name, seed=id, logprobs=logprobs, ignore_end=False)
        bench.send(generate(id, id, PROMPT[:5], max_tokens=9, sampling=asked, constraint=1))
        bench.run()
        matcher = SetGrammar([tuple(text) for text in texts], END, MaskRows(VOCABULARY)).matcher()
        said.append(bench.tokens(id))
        assert said[-1] == expected_answer(PROMPT[:5], 9, asked, matcher=matcher)[0]
        assert said[-1] in texts


def test_a_second_answer_on_a_branch_counts_anew_and_forks_count_apart() -> None:
    """What the first wrote is prompt to the second: the repetition penalty sees it, the counts do not."""
    bench, asked = Bench(), sampling("all", temperature=0.0)
    bench.lease(1)
    bench.send(generate(1, 1, PROMPT[:6], max_tokens=8, sampling=asked))
    bench.run()
    first = bench.tokens(1)
    bench.send(OpenLease(2, 1, 1), Generate(2, 1, (), 8, asked), Generate(3, 2, (), 8, sampling("all", seed=5)))
    bench.run()
    before = (*PROMPT[:6], *first)
    assert bench.tokens(2) == expected_answer(before, 8, asked)[0]
    assert bench.tokens(3) == expected_answer(before, 8, sampling("all", seed=5))[0]


def test_log_probabilities_are_of_the_raw_logits() -> None:
    bench = Bench()
    for id, name in ((1, "bias"), (2, "all")):
        bench.lease(id)
        bench.send(generate(id, id, PROMPT[:6], max_tokens=5, sampling=sampling(name, logprobs=11)))
    bench.run()
    for id in (1, 2):
        told = [one for event in bench.events[id] if isinstance(event, Tokens) for one in event.logprobs]
        assert all(one.logprob == dict(one.top).get(token, one.logprob)
                   for token, one in zip(bench.tokens(id), told, strict=True))
        assert all(list(one.top) == sorted(one.top, key=lambda pair: -pair[1]) for one in told)
        assert all(sum(np.exp(log) for _, log in one.top) <= 1 for one in told)


def test_what_changes_nothing_costs_nothing() -> None:
    assert Tally.of(Sampling(), lambda: [1, 2]) is None
    only = Tally.of(Sampling(logit_bias=((3, 1.0),)), lambda: [1, 2])
    assert only is not None
    only.add(5)
    assert list(only.edits().token) == [3]


REFUSED = [
    ({"frequency_penalty": 2.1}, "frequency_penalty"), ({"frequency_penalty": float("nan")}, "frequency_penalty"),
    ({"presence_penalty": -2.1}, "presence_penalty"), ({"repetition_penalty": 0.0}, "repetition_penalty"),
    ({"repetition_penalty": -1.0}, "repetition_penalty"), ({"repetition_penalty": 101.0}, "repetition_penalty"),
    ({"logit_bias": ((12, 1.0),)}, "logit_bias"), ({"logit_bias": ((-1, 1.0),)}, "logit_bias"),
    ({"logit_bias": ((1, 1.0), (1, 2.0))}, "logit_bias"), ({"logit_bias": ((3, 101.0),)}, "logit_bias/3"),
    ({"logit_bias": ((3, float("nan")),)}, "logit_bias/3"),
    ({"logit_bias": tuple((id, 1.0) for id in range(1025))}, "logit_bias"),
]


@pytest.mark.parametrize(("fields", "where"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_out_of_range_is_refused_with_its_place(fields: dict[str, object], where: str) -> None:
    bench = Bench()
    bench.lease(1)
    bench.send(generate(1, 1, sampling=Sampling(**fields)))  # type: ignore[arg-type]
    assert (bench.failed(1).error, bench.failed(1).where) == ("InvalidParameter", where)


# On the real sampler


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def executor(request: pytest.FixtureRequest) -> TorchExecutor:
    config = tiny_config(dtype=request.param, exact=request.param == "float32")
    return TorchExecutor(tiny_llama(config), config)


def drawn(executor: TorchExecutor, picks: list[Pick]) -> list[Sampled]:
    ticket = executor.forward(Plan(0, (Row(PROMPT[:10], 0, (4, 2), (8, 9)),)))
    executor.sample(ticket, picks)
    return executor.result(ticket)


def raw(executor: TorchExecutor) -> list[list[float]]:
    ticket = executor.forward(Plan(0, (Row(PROMPT[:10], 0, (4, 2), (8, 9)),)))
    return executor._logits.pop(ticket).float().tolist()


def pick_of(asked: Sampling, said: list[int], **fields: object) -> Pick:
    tally = Tally.of(asked, lambda: list(PROMPT))
    assert tally is not None
    for token in said:
        tally.add(token)
    return Pick(**({"logits": 0, "temperature": 0.0, "edits": tally.edits()} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ASKED)
def test_the_sampler_takes_the_best_of_the_edited_row(executor: TorchExecutor, name: str) -> None:
    rows = raw(executor)
    best = [int(np.argmax(row)) for row in rows]
    said = [best[0], best[0], best[1], 7]
    asked = sampling(name)
    found = drawn(executor, [Pick(0, temperature=0.0), pick_of(asked, said), pick_of(asked, said, logits=1),
                             Pick(1, temperature=0.0, top_logprobs=2), Pick(1, target=9)])
    assert found[1].token == int(np.argmax(edited(rows[0], asked, PROMPT, said)))
    assert found[2].token == int(np.argmax(edited(rows[1], asked, PROMPT, said)))
    assert [found[0].token, found[3].token, found[4].token] == [*best, 9]


def test_edits_of_others_and_log_probabilities_are_not_seen(executor: TorchExecutor) -> None:
    """The log-probability of an edited draw is bit for bit that of the same token on the raw row."""
    picks = [Pick(0, seed=seed, top_logprobs=3) for seed in range(4)]
    edits = [pick_of(sampling("all"), [7, 7], temperature=1.0, seed=seed, top_logprobs=3) for seed in range(20)]
    found = drawn(executor, [*edits[:10], *picks, *edits[10:]])
    assert found[10:14] == drawn(executor, picks)
    mine = [*found[:10], *found[14:]]
    assert mine == drawn(executor, edits)
    assert mine == drawn(executor, [Pick(0, target=one.token, top_logprobs=3) for one in mine])


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("extreme", [
    {"logit_bias": ((70, -100.0),)}, {"repetition_penalty": 100.0}, {"repetition_penalty": 5e-324},
    {"frequency_penalty": 2.0, "presence_penalty": 2.0, "logit_bias": ((70, -100.0), (3, 100.0))},
], ids=str)
def test_the_only_legal_token_is_taken_whatever_its_edits(
    executor: TorchExecutor, extreme: dict[str, object], temperature: float
) -> None:
    masks = np.zeros((2, 4), np.int32)
    masks[0], masks[1, 70 // 32] = (-1, -1, -1, (1 << SHAPE.vocab % 32) - 1), 1 << 70 % 32
    executor.bind_masks(masks)
    asked = Sampling(temperature=temperature, **extreme)  # type: ignore[arg-type]
    (found,) = drawn(executor, [pick_of(asked, [70] * 5, mask=1, temperature=temperature)])
    assert found.token == 70
    assert np.isfinite(found.logprob)
