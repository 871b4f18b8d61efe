"""One page that runs everything: a program with gen, select, fork and a JSON schema, on the whole runtime, no weights.

The model follows a script; sessions, scheduler, tree, pages, grammar and masks are the real ones.
"""

from typing import Annotated

from pydantic import BaseModel, Field

import espalier as esp
from espalier.frontend.backends.local import LocalModel
from espalier.runtime.config import EngineConfig
from espalier.runtime.loading import bind_grammars, compile_grammar
from tests.fakes import ByteTokenizer, ScriptedModel, scripted_runtime


class Pear(BaseModel):
    name: Annotated[str, Field(max_length=12)]
    rank: Annotated[int, Field(ge=1, le=9)]


@esp.function
def judge(s: esp.State, fruit: str) -> Pear:
    s += esp.system("You judge fruit, and you never tire of it.")
    with s.user():
        s += "Here is " + fruit
    with s.assistant():
        s += "It tastes " + esp.gen("taste", max_tokens=20, temperature=0, stop=".") + ". Eat it? "
        s += esp.select("eat", ["yes", "no"])
        with s.fork(2) as branches:
            branches += [" For: ", " Against: "]
            branches += esp.gen("reason", max_tokens=12, temperature=0)
        s += " " + "; ".join(branches["reason"]) + " "
        s += esp.gen("pear", schema=Pear, max_tokens=48, temperature=0)
    return s["pear"]


SCRIPT = {
    "tastes ": "sweet. And more",
    "Eat it? ": "yes",
    "For: ": "juice",
    "Against: ": "stones",
    '"name":"': 'Conference"',
    '"rank":': "7",
}


def open_model() -> LocalModel:
    tokenizer = ByteTokenizer(["sweet", "juice"])
    config = EngineConfig(page=4, pages=512, step_tokens=64, max_rows=16)
    return LocalModel(scripted_runtime(
        ScriptedModel(tokenizer, SCRIPT), tokenizer, config,
        constraints=bind_grammars(tokenizer, tokenizer.vocab_size, config), compile=compile_grammar,
    ))


def test_everything_on_one_page() -> None:
    with open_model() as model:
        first = judge.run("a pear", backend=model)
        again = judge.run("a pear", backend=model)
        other = judge.run_batch([{"fruit": fruit} for fruit in ("a plum", "a quince")], backend=model)
        pages = model.stats()

    assert first.result == Pear(name="Conference", rank=7)
    assert (first["taste"], first["eat"]) == ("sweet", "yes")
    assert first.scores("eat")["yes"] > first.scores("eat")["no"]
    assert [message["role"] for message in first.messages()] == ["system", "user", "assistant"]
    assert first.messages()[-1]["content"] == (
        'It tastes sweet. Eat it? yes juice; stones {"name":"Conference","rank":7}'
    )
    assert first.usage.forced > 0

    assert again.result == first.result
    assert again.usage.cached > first.usage.cached
    assert again.usage.computed < first.usage.computed / 2

    assert [state.result for state in other] == [first.result] * 2
    assert pages.pages_held == 0
    assert pages.pages_free + pages.pages_cached == pages.pages_total
