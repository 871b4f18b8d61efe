"""`espalier serve` with the small model: engine in its own process, the real client, SIGTERM. In exact mode, where an
answer does not depend on what was cached before.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Literal

import httpx
import openai
import psutil
import pytest
from pydantic import BaseModel, Field

from .live import eventually

pytestmark = pytest.mark.model

MODEL = "smollm2-135m"
PROGRAM = """
from espalier.runtime.config import EngineConfig
from espalier.runtime.server.serve import serve
config = EngineConfig(threads=1, pages=512, dtype="float32", exact=True)
serve("smollm2-135m", port=0, config=config, ready=lambda url: print(url, flush=True))
"""


class Pet(BaseModel):
    name: str = Field(min_length=1, max_length=12)
    kind: Literal["cat", "dog"]
    age: int = Field(ge=0, le=40)
    toys: list[str] = Field(max_length=2)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


@pytest.fixture(scope="module")
def client(running: tuple[subprocess.Popen[str], str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running[1]}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def question(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_a_greedy_answer_is_the_same_streamed_and_plain(client: openai.OpenAI) -> None:
    options = {"model": MODEL, "messages": question("Name the capital of France."), "temperature": 0, "max_tokens": 16}
    plain = client.chat.completions.create(**options).choices[0]
    chunks = list(client.chat.completions.create(**options, stream=True))
    assert "Paris" in (plain.message.content or "")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == plain.message.content
    assert chunks[-1].choices[0].finish_reason == plain.finish_reason


@pytest.mark.parametrize("temperature", [0, 1])
def test_an_answer_is_an_object_of_the_schema(client: openai.OpenAI, temperature: int) -> None:
    reply = client.chat.completions.parse(
        model=MODEL, messages=question("Tom is a cat of 3 years. As JSON:"), response_format=Pet, seed=7,
        temperature=temperature, max_tokens=400,
    )
    assert isinstance(reply.choices[0].message.parsed, Pet)


def test_megabytes_of_prompt_are_refused_at_once_and_name_their_field(client: openai.OpenAI) -> None:
    text = "1" * 4_000_000
    calls = {
        "messages": lambda: client.chat.completions.create(model=MODEL, messages=question(text), max_tokens=1),
        "prompt": lambda: client.completions.create(model=MODEL, prompt=text, max_tokens=1),
        "input": lambda: client.responses.create(model=MODEL, input=text),
    }
    for field, call in calls.items():
        with pytest.raises(openai.BadRequestError, match=f"characters of prompt .* Shorten the {field}") as caught:
            call()
        assert (caught.value.param, caught.value.code) == (field, "context_length_exceeded")


def test_an_answer_that_the_budget_closes_is_valid_and_says_length(client: openai.OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "pet", "schema": Pet.model_json_schema(), "strict": True}}
    choice = client.chat.completions.create(
        model=MODEL, messages=question("Tom is a cat."), response_format=form, temperature=2, seed=1, max_tokens=50
    ).choices[0]
    Pet.model_validate_json(choice.message.content or "")
    assert choice.finish_reason == "length"


def test_a_seed_fixes_the_answer(client: openai.OpenAI) -> None:
    def ask(seed: int) -> str | None:
        reply = client.chat.completions.create(model=MODEL, messages=question("Hi"), seed=seed, max_tokens=6)
        return reply.choices[0].message.content

    assert ask(1) == ask(1)
    assert len({ask(seed) for seed in (-1, 2, 3)}) > 1


def test_choices_of_one_prompt_differ_and_the_first_is_the_answer_without_n(client: openai.OpenAI) -> None:
    options = {"model": MODEL, "messages": question("Tell me a story."), "max_tokens": 8, "seed": 5}
    reply = client.chat.completions.create(**options, n=3)
    texts = [choice.message.content for choice in reply.choices]
    assert len(set(texts)) == 3
    assert texts[0] == client.chat.completions.create(**options).choices[0].message.content
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 24


class GetTime(BaseModel):
    """The time of day in a city."""

    city: str = Field(max_length=20)


@pytest.mark.parametrize(("choice", "reason"), [
    ("required", "tool_calls"), ({"type": "function", "function": {"name": "GetTime"}}, "stop"),
])
def test_a_call_is_of_its_function(client: openai.OpenAI, choice: object, reason: str) -> None:
    reply = client.chat.completions.parse(
        model=MODEL, messages=question("What time is it in Oslo?"), tools=[openai.pydantic_function_tool(GetTime)],
        tool_choice=choice, parallel_tool_calls=False, temperature=1, seed=3, max_tokens=200,
    ).choices[0]
    (made,) = reply.message.tool_calls or []
    assert isinstance(made.function.parsed_arguments, GetTime)
    assert reply.finish_reason == reason


def test_the_prompt_is_reused(client: openai.OpenAI) -> None:
    text = "Say yes. " * 20
    for _ in range(2):
        usage = client.chat.completions.create(model=MODEL, messages=question(text), max_tokens=1).usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1


def test_a_byte_that_no_token_has_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=question("a\x04b"), max_tokens=1)
    assert (caught.value.code, caught.value.param) == ("missing_byte", "messages")


def test_closing_a_stream_frees_the_engine(client: openai.OpenAI, running: tuple[subprocess.Popen[str], str]) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=question("Tell a very long story."), stream=True, max_tokens=2000, seed=3
    )
    next(stream)
    stream.close()
    assert eventually(lambda: "espalier_requests_running 0.0" in httpx.get(f"{running[1]}/metrics").text)
    assert 'espalier_kv_pages{state="held"} 0.0' in httpx.get(f"{running[1]}/metrics").text


def test_sigterm_ends_server_and_engine(running: tuple[subprocess.Popen[str], str]) -> None:
    child, url = running
    engines = psutil.Process(child.pid).children(recursive=True)
    assert engines
    assert httpx.get(f"{url}/health").status_code == 200
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 0
    assert eventually(lambda: not any(engine.is_running() for engine in engines))
