"""The executor of a GPU, interpreted: a step is planned, attended and drawn by the kernels, and law 2 holds on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from espalier.kernels.registry import kernels
from espalier.runtime.edits import Tally
from espalier.runtime.errors import EngineFault, InvalidParameter
from espalier.runtime.messages import Generate, Sampling
from espalier.runtime.models.config import LlamaConfig
from espalier.runtime.models.files import open_model
from espalier.runtime.models.load import read_model
from espalier.runtime.paged_executor import PagedExecutor
from espalier.runtime.plan import PageCopy, Pick, Plan, Row, Sampled
from espalier.runtime.torch_executor import TorchExecutor
from tests.runtime import tiny_llama
from tests.runtime.harness import Bench
from tests.runtime.test_alike import model_file
from tests.runtime.tiny_llama import tiny_config

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPE = replace(tiny_llama.SHAPE, layers=1, heads=4)
TEXT = tuple((7 * n * n + 3) % 100 for n in range(40))
ONES = (-1, -1, -1, 31)


def paged(*, share_from: int = 1, shape: LlamaConfig = SHAPE, **fields: object) -> PagedExecutor:
    config = tiny_config(**({"device": "cuda", "dtype": "bfloat16", "pages": 32} | fields))
    return PagedExecutor(tiny_llama.tiny_llama(config, 0, shape, DEVICE), config, share_from=share_from)


@pytest.fixture(scope="module")
def executor() -> PagedExecutor:
    return paged()


def step(executor: PagedExecutor | TorchExecutor, rows: Sequence[Row], picks: Sequence[Pick],
         *copies: PageCopy) -> list[Sampled]:
    ticket = executor.forward(Plan(0, tuple(rows), copies))
    executor.sample(ticket, picks)
    return executor.result(ticket)


def test_chunks_company_and_copied_slots_change_no_bit(executor: PagedExecutor) -> None:
    picks = [Pick(0, temperature=0.0), Pick(1, target=9), Pick(1, seed=3)]
    first, second = TEXT[:11], (*TEXT[:4], 1, 2)
    whole = (step(executor, [Row(first, 0, (1, 2), (10,))], picks[:1])
             + step(executor, [Row(second, 0, (3,), (5,))], [replace(pick, logits=0) for pick in picks[1:]]))
    step(executor, [Row(TEXT[:5], 0, (4, 5), (), owner=1)], [])
    rows = [Row(first[5:], 5, (4, 5), (5,), owner=1), Row((1, 2), 4, (6,), (1,), owner=2)]
    assert step(executor, rows, picks, PageCopy(4, 6, 4)) == whole


@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, biases=True), replace(SHAPE, head_norms=True)],
                         ids=["llama", "qwen2", "qwen3"])
def test_rows_on_shared_pages_give_what_the_cpu_gives(shape: LlamaConfig) -> None:
    """In float32; two of the rows part inside the second page, two share both, one token is named by its pick."""
    masks = np.array([ONES, (1 << 5 | 1 << 9, 0, 1 << 2, 0)], np.int32)
    cpu = tiny_config()
    both = (paged(dtype="float32", exact=False, shape=shape), TorchExecutor(tiny_llama.tiny_llama(cpu, 0, shape), cpu))
    shared = [Row((5,), 16, (1, 2, 3), (0,)), Row((0,), 16, (1, 2, 4), (0,), sampled_from=0),
              Row((*TEXT[12:14], 6), 12, (1, 5), (2,))]
    picks = [Pick(0, mask=1, temperature=0.0), Pick(1, temperature=0.0, top_logprobs=3), Pick(2, target=17)]
    found = []
    for one in both:
        one.bind_masks(masks)
        said = step(one, [Row(TEXT[:16], 0, (1, 2), (15,))], [Pick(0, temperature=0.0)])
        found.append(said + step(one, shared, picks, PageCopy(2, 5, 4)))
    for mine, other in zip(*found, strict=True):
        assert (mine.token, [id for id, _ in mine.top]) == (other.token, [id for id, _ in other.top])
        assert mine.logprob == pytest.approx(other.logprob, abs=1e-4)


def test_a_mask_row_goes_to_the_device_when_it_is_new(executor: PagedExecutor) -> None:
    masks, versions = np.zeros((3, 4), np.int32), np.zeros(3, np.int64)
    masks[0], masks[2, 2] = ONES, 1 << 6
    executor.bind_masks(masks, versions)
    row, pick = Row((3,), 0, (4,), (0,)), [Pick(0, mask=2)]
    assert step(executor, [row], pick)[0].token == 70
    masks[2, 2] = 1 << 7
    assert step(executor, [row], pick)[0].token == 70
    versions[2] += 1
    assert step(executor, [row], pick)[0].token == 71
    with pytest.raises(EngineFault, match="no token"):
        step(executor, [row], [Pick(0, mask=1)])


BAD_ROWS = {
    "a page outside the pool": [Row((1,), 0, (32,), (0,))],
    "too few pages": [Row((1,), 8, (0,), (0,))],
    "a token outside the vocabulary": [Row((SHAPE.vocab,), 0, (0,), (0,))],
    "past the context": [Row((1,), 512, tuple(range(65)), (0,))],
    "no such pick": [Row((0,), 0, (0,), (0,), sampled_from=1)],
    "more tokens than a step has": [Row((1,) * 200, 0, tuple(range(25)), (0,))] * 3,
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_plan_names_its_step(executor: PagedExecutor, name: str) -> None:
    with pytest.raises(EngineFault, match="step 0"):
        executor.forward(Plan(0, tuple(BAD_ROWS[name])))


def test_after_a_bad_plan_block_tables_are_told_again(executor: PagedExecutor) -> None:
    rows = [Row((1,), 0, (7,), (0,), owner=9)]
    before = step(executor, rows, [Pick(0)])
    with pytest.raises(EngineFault, match="cannot copy"):
        executor.forward(Plan(1, (Row((1,), 0, (8,), (0,), owner=9),), (PageCopy(0, 32, 1),)))
    with pytest.raises(EngineFault, match="outside"):
        executor.forward(Plan(1, (Row((1,), 8, (9, 40), (0,), owner=9),)))
    assert step(executor, rows, [Pick(0)]) == before


def test_a_ticket_is_sampled_before_the_next_plan_and_read_once(executor: PagedExecutor) -> None:
    lost, ticket = (executor.forward(Plan(0, (Row((1,), 0, (7,), (0,)),))) for _ in range(2))
    with pytest.raises(EngineFault):
        executor.sample(lost, [Pick(0)])
    executor.sample(ticket, [Pick(0)])
    executor.result(ticket)
    with pytest.raises(EngineFault):
        executor.result(ticket)


@pytest.mark.parametrize(("fields", "message"), [
    ({"page": 24}, "power of two"), ({"dtype": "float32", "exact": False}, "dtype"),
])
def test_what_no_kernel_serves_is_refused(fields: dict[str, object], message: str) -> None:
    model = tiny_llama.tiny_llama(tiny_config(device="cuda", dtype="bfloat16"), 0, SHAPE, DEVICE)
    with pytest.raises(InvalidParameter, match=message):
        PagedExecutor(model, tiny_config(**({"device": "cuda", "dtype": "bfloat16"} | fields)))


ASKED = (
    Sampling(frequency_penalty=1.5, presence_penalty=0.4, logit_bias=((9, 3.0), (41, -100.0))),
    Sampling(repetition_penalty=1.7), Sampling(logit_bias=((70, 100.0),)),
)


def edited_picks() -> list[Pick]:
    """Of rows 0 and 1, some of them without edits."""
    tallies = [Tally.of(asked, lambda: TEXT[:11]) for asked in ASKED]
    picks = [Pick(0, seed=1, top_logprobs=2), Pick(1, target=3)]
    for index, tally in enumerate(tallies):
        assert tally is not None
        for token in (7, 7, 60, index):
            tally.add(token)
        picks += [Pick(0, temperature=0.0, edits=tally.edits(), top_logprobs=3),
                  Pick(1, seed=index, edits=tally.edits(), top_k=20 * index, top_p=0.9)]
    return picks


def test_edited_draws_are_the_cpus_and_log_probabilities_are_raw() -> None:
    cpu, found = tiny_config(), []
    for one in (paged(dtype="float32", exact=False), TorchExecutor(tiny_llama.tiny_llama(cpu, 0, SHAPE), cpu)):
        found.append(step(one, [Row(TEXT[:16], 0, (1, 2), (11, 15))], edited_picks()))
    for mine, other in zip(*found, strict=True):
        assert (mine.token, [id for id, _ in mine.top]) == (other.token, [id for id, _ in other.top])
        assert mine.logprob == pytest.approx(other.logprob, abs=1e-4)
    assert [found[0][index].token for index in (6, 7)] == [70, 70]


def test_edits_of_a_step_change_no_bit_of_other_draws(executor: PagedExecutor) -> None:
    """Nor do others change those that edit; the log-probability is that of the same token on the raw row."""
    rows, picks = [Row(TEXT[:16], 0, (1, 2), (11, 15))], edited_picks()
    whole = step(executor, rows, picks)
    assert whole[:2] == step(executor, rows, picks[:2])
    assert whole[2:4] == step(executor, rows, picks[2:4])
    assert whole == step(executor, rows, [replace(pick, target=one.token, edits=None) for pick, one in
                                          zip(picks, whole, strict=True)])


def answers(executor: PagedExecutor, prompts: Sequence[tuple[int, ...]], **sizes: int) -> list[list[int]]:
    """All at once, two tokens each."""
    bench = Bench(executor=executor, vocabulary_size=SHAPE.vocab, **({"page": 8, "pages": 32} | sizes))
    for index, prompt in enumerate(prompts, 1):
        bench.lease(index)
        bench.send(Generate(index, index, prompt, 2, Sampling(temperature=1.0, seed=index, ignore_end=True)))
    bench.run()
    return [bench.tokens(index) for index in range(1, len(prompts) + 1)]


def test_an_engine_that_parks_gives_the_tokens_of_one_that_does_not(executor: PagedExecutor) -> None:
    prompts = [TEXT[:9], (*TEXT[:8], 9), (*TEXT[:4], 3)]
    assert answers(executor, prompts, pages=4, step_tokens=5) == answers(executor, prompts)


def test_an_engine_a_step_ahead_counts_the_token_in_flight() -> None:
    """Greedy in float32, where only the penalties keep an answer from repeating itself: what the CPU's engine says."""
    said = []
    cpu, asked = tiny_config(), Sampling(temperature=0.0, frequency_penalty=2.0, repetition_penalty=1.5,
                                         ignore_end=True)
    for one in (paged(dtype="float32", exact=False), TorchExecutor(tiny_llama.tiny_llama(cpu, 0, SHAPE), cpu)):
        bench = Bench(executor=one, vocabulary_size=SHAPE.vocab, page=8, pages=32)
        for index in (1, 2):
            bench.lease(index)
            bench.send(Generate(index, index, TEXT[:5 * index], 5, asked))
        bench.run()
        said.append([bench.tokens(index) for index in (1, 2)])
    assert said[0] == said[1]


@pytest.mark.slow
def test_weights_are_exchanged_in_place(tmp_path: Path) -> None:
    """A step gives what an executor of the new weights gives, on the same tensors, which captured graphs read."""
    config = tiny_config(device="cuda", dtype="bfloat16", pages=32)
    ops, device = kernels("cuda", torch.bfloat16, "exact"), torch.device(DEVICE)
    models = [read_model(open_model(model_file(tmp_path, seed)), ops, torch.bfloat16, device) for seed in (1, 2)]
    ours, other = (PagedExecutor(model, config) for model in models)
    tokens, pick = [Row(tuple(token % 40 for token in TEXT[:9]), 0, (1, 2), (8,))], [Pick(0, temperature=0.0)]
    before, wanted = step(ours, tokens, pick), step(other, tokens, pick)
    place = models[0].blocks[0].qkv.dense.data_ptr()
    exchange = ours.prepare(tmp_path / "2.gguf")
    assert step(ours, tokens, pick) == before != wanted
    exchange()
    assert step(ours, tokens, pick) == wanted
    assert models[0].blocks[0].qkv.dense.data_ptr() == place
