from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.kernels import amx, attention
from espalier.kernels.quantized import GROUP
from espalier.kernels.registry import kernels
from espalier.runtime.config import EngineConfig
from espalier.runtime.gguf import GGUFFile
from espalier.runtime.models.config import llama_config
from espalier.runtime.models.llama import Llama
from espalier.runtime.models.load import build_llama, load_model
from espalier.runtime.models.sources import GGUFSource
from espalier.runtime.plan import PageCopy, Pick, Plan, Row
from espalier.runtime.torch_executor import TorchExecutor

from .tiny_llama import SHAPE, Driver, RandomWeights, tiny_config, tiny_llama

TOKENS = [(7 * i * i + 3 * i + 1) % SHAPE.vocab for i in range(60)]


def driver(model: Llama | None = None, **fields: object) -> Driver:
    config = tiny_config(**fields)
    return Driver(TorchExecutor(model or tiny_llama(config), config), config.page)


def plain_llama(model: Llama, tokens: list[int]) -> torch.Tensor:
    """The paper's equations on dense tensors, without cache, pages or kernels. Needs unpacked weights."""
    config, x = model.config, model.embedding[tokens]
    cos, sin = (table[: len(tokens), None] for table in (model.cos, model.sin))

    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + config.rms_eps).sqrt() * weight

    def rope(x: torch.Tensor) -> torch.Tensor:
        a, b = x.unflatten(1, (-1, config.head_dim)).chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).transpose(0, 1)

    for block in model.blocks:
        qkv = norm(x, block.attention_norm) @ block.qkv.dense.to_dense().T
        q, k, v = qkv.split([width * config.head_dim for width in (config.heads, config.kv_heads, config.kv_heads)], 1)
        q, k = rope(q), rope(k).repeat_interleave(config.heads // config.kv_heads, 0)
        v = v.unflatten(1, (-1, config.head_dim)).transpose(0, 1).repeat_interleave(len(q) // config.kv_heads, 0)
        scores = (q @ k.transpose(1, 2) / config.head_dim**0.5).masked_fill(
            torch.ones(len(tokens), len(tokens)).triu(1).bool(), -torch.inf
        )
        x = x + (scores.softmax(-1) @ v).transpose(0, 1).flatten(1) @ block.out.dense.to_dense().T
        gate, up = (norm(x, block.ffn_norm) @ block.gate_up.dense.to_dense().T).chunk(2, -1)
        x = x + (torch.nn.functional.silu(gate) * up) @ block.down.dense.to_dense().T
    return norm(x, model.norm) @ model.head.dense.to_dense().T


@pytest.mark.parametrize("exact", [True, False])
def test_the_model_computes_the_papers_equations(exact: bool) -> None:
    config = tiny_config(exact=exact)
    model = tiny_llama(config)
    ours = driver(model, exact=exact).whole(TOKENS)
    torch.testing.assert_close(ours, plain_llama(model, TOKENS), rtol=1e-4, atol=1e-4)


def test_the_torch_references_alone_carry_the_model() -> None:
    """The references of a GPU's kernels, on the CPU; its attention's plans a batch on the device."""
    ops, dtype = replace(kernels("cuda", torch.float32, "fast"), attend=attention.reference), torch.float32
    model = build_llama(SHAPE, RandomWeights(0), ops, dtype, torch.device("cpu"))
    run = driver(model, exact=False)
    torch.testing.assert_close(run.whole(TOKENS, (9, 30)), driver().whole(TOKENS), rtol=1e-4, atol=1e-4)
    ticket = run.executor.forward(Plan(0, (Row(tuple(TOKENS), 0, run.pages(len(TOKENS)), (59,)),)))
    expected = run.executor._logits[ticket].argmax()
    run.executor.sample(ticket, [Pick(0, temperature=0.0)])
    assert run.executor.result(ticket)[0].token == expected


@given(cuts=st.lists(st.integers(1, len(TOKENS) - 1), max_size=6))
@settings(max_examples=20, deadline=None)
def test_exact_bits_do_not_depend_on_chunks(cuts: list[int]) -> None:
    assert torch.equal(driver().whole(TOKENS), driver().whole(TOKENS, cuts))


def test_exact_bits_are_the_same_token_by_token() -> None:
    assert torch.equal(driver().whole(TOKENS), driver().whole(TOKENS, range(1, len(TOKENS))))


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=5), seed=st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_exact_bits_do_not_depend_on_the_batch(lengths: list[int], seed: int) -> None:
    rng = random.Random(seed)
    texts = [[rng.randrange(SHAPE.vocab) for _ in range(length)] for length in lengths]
    alone = [driver().whole(text) for text in texts]
    together = driver()
    rows = [next(together.chunks(text, (), together.pages(len(text)))) for text in texts]
    assert torch.equal(torch.cat(alone), together.logits(rows))


@pytest.mark.parametrize("cached", [1, 8, 13, 40, 59])
def test_exact_bits_are_the_same_over_cached_pages(cached: int) -> None:
    """A second row computes only what the first has not, over the first row's full pages and a copied one."""
    run = driver()
    whole = run.whole(TOKENS)
    full = cached // 8
    own = run.pages(len(TOKENS) - 8 * full)
    copies = (PageCopy(full, own[0], cached % 8),) if cached % 8 else ()
    rest = Row(tuple(TOKENS[cached:]), cached, (*range(full), *own), tuple(range(len(TOKENS) - cached)))
    ticket = run.executor.forward(Plan(99, (rest,), copies))
    assert torch.equal(run.executor._logits[ticket], whole[cached:])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fast_mode_stays_close_to_exact(dtype: str) -> None:
    text = TOKENS * 3
    exact = driver().whole(text).log_softmax(-1)
    fast = driver(dtype=dtype, exact=False).whole(text, (9, 81, 82)).float().log_softmax(-1)
    divergence = (exact.exp() * (exact - fast)).sum(-1)
    assert divergence.max() < (1e-6 if dtype == "float32" else 5e-3)


def test_only_the_wanted_logits_are_computed() -> None:
    run = driver()
    pages = run.pages(len(TOKENS))
    some = run.logits([Row(tuple(TOKENS), 0, pages, (0, 5, 59)), Row((1, 2), 0, run.pages(2), ())])
    assert torch.equal(some, driver().whole(TOKENS)[[0, 5, 59]])


# The real model


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Llama:
    return load_model(smollm2_path, EngineConfig(dtype="float32", exact=True, threads=1))


def prompts(reference: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reference["results"]
    assert len(found) == 10
    return found


@pytest.mark.model
def test_greedy_ids_and_logits_are_those_of_another_implementation(
    smollm2: Llama, reference: dict[str, Any]
) -> None:
    config = EngineConfig(dtype="float32", exact=True, threads=1, pages=256)
    run = Driver(TorchExecutor(smollm2, config), config.page)
    cases = prompts(reference)
    starts = [len(case["prompt_ids"]) for case in cases]
    tables = [run.pages(start + 64) for start in starts]
    rows = [Row(tuple(case["prompt_ids"]), 0, table, (start - 1,))
            for case, table, start in zip(cases, tables, starts, strict=True)]
    last = run.logits(rows)
    for case, logits in zip(cases, last, strict=True):
        expected = case["last_pos_logits"]
        assert logits[:8].tolist() == pytest.approx(expected["first8"], abs=1e-3)
        assert logits.topk(5).indices.tolist() == expected["top5_ids"]
        assert logits.topk(5).values.tolist() == pytest.approx(expected["top5_logits"], abs=1e-3)
        assert float(logits.logsumexp(0)) == pytest.approx(expected["logsumexp"], abs=1e-3)
    answers = list(itertools.islice(greedy(run, rows), 64))
    for case, answer in zip(cases, zip(*answers, strict=True), strict=True):
        assert list(answer) == case["greedy_ids_64"]


def greedy(run: Driver, rows: list[Row]) -> Any:
    """The token of every row, step by step; end tokens do not end it."""
    picks = [Pick(i, temperature=0.0) for i in range(len(rows))]
    while True:
        ticket = run.executor.forward(Plan(0, tuple(rows)))
        run.executor.sample(ticket, picks)
        rows = [Row((0,), row.start + len(row.tokens), row.pages, (0,), i) for i, row in enumerate(rows)]
        yield [sampled.token for sampled in run.executor.result(ticket)]


@pytest.mark.model
def test_the_real_models_exact_bits_do_not_depend_on_chunks_or_batch(
    smollm2: Llama, reference: dict[str, Any]
) -> None:
    config = EngineConfig(dtype="float32", exact=True, threads=1, pages=64)
    texts = [case["prompt_ids"] for case in prompts(reference)[4:7]]
    fresh = [Driver(TorchExecutor(smollm2, config), config.page) for _ in range(3)]
    whole = [fresh[0].whole(text) for text in texts]
    for text, expected in zip(texts, whole, strict=True):
        assert torch.equal(fresh[1].whole(text, (1, 2, 9, 20)), expected)
    rows = [next(fresh[2].chunks(text, (), fresh[2].pages(len(text)))) for text in texts]
    assert torch.equal(fresh[2].logits(rows), torch.cat(whole))


@pytest.fixture(scope="module")
def bfloat16(smollm2_path: Path) -> Llama:
    return load_model(smollm2_path, EngineConfig(threads=1))


@pytest.mark.model
@pytest.mark.parametrize("chunk", [1, 4, 30, 40])
def test_the_real_model_in_bfloat16_stays_close(
    smollm2: Llama, bfloat16: Llama, reference: dict[str, Any], chunk: int
) -> None:
    """In chunks small enough for the weights in few bits and in larger ones."""
    text = prompts(reference)[5]["prompt_ids"]
    config = EngineConfig(threads=1, pages=64)
    few_bits = "tiles" if amx.available() else "codes"
    assert all(getattr(block.down, few_bits) is not None for block in bfloat16.blocks)
    fast = Driver(TorchExecutor(bfloat16, config), config.page).whole(text, range(chunk, len(text), chunk))
    exact_config = EngineConfig(dtype="float32", exact=True, threads=1, pages=64)
    exact = Driver(TorchExecutor(smollm2, exact_config), config.page).whole(text).log_softmax(-1)
    divergence = (exact.exp() * (exact - fast.float().log_softmax(-1))).sum(-1)
    assert divergence.mean() < 0.02


WEIGHTS = ("blk.0.attn_q.weight", "blk.3.attn_k.weight", "blk.29.ffn_down.weight", "token_embd.weight")


@pytest.mark.model
@pytest.mark.parametrize("name", WEIGHTS)
def test_the_few_bits_are_the_tensor(smollm2_path: Path, name: str) -> None:
    gguf = GGUFFile.open(smollm2_path)
    source = GGUFSource(gguf, llama_config(gguf))
    groups = source.groups(name)
    assert groups is not None
    scale, offset = (x.repeat_interleave(GROUP, 1) for x in (groups.scale, groups.offset))
    assert torch.equal(scale * groups.codes + offset, torch.from_numpy(source.tensor(name)))
    assert source.groups("output_norm.weight") is None
