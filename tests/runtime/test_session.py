"""The session layer over a scripted model: texts and tokens."""

from __future__ import annotations

import asyncio

import pytest

from espalier.runtime.branch import Closing, Opening, Text, TokenIds
from espalier.runtime.conversation import Message
from espalier.runtime.errors import (
    InvalidParameter,
    TemplateError,
)
from tests.runtime.sessions import GREEDY, answer, one_answer, opened, tokenizer_of


def test_the_text_is_what_was_appended_and_generated() -> None:
    async def main() -> None:
        with opened({"Q:": " yes"}) as runtime:
            chunks, done, text, session, branch = await one_answer(runtime, "Q:", GREEDY)
            assert "".join(chunk.text for chunk in chunks) == done.text == " yes"
            assert [token for chunk in chunks for token in chunk.tokens] == list(done.tokens)
            assert text == "Q: yes"
            assert done.finish == "stop"
            session.extend(branch, [Text(" A"), Text("B")])
            assert session.text(branch) == "Q: yes AB"
            assert session.tokens(branch) == list(b"Q: yes AB")

    asyncio.run(main())


def test_adjacent_literals_are_one_text_tokenized_once() -> None:
    async def main() -> None:
        with opened({"hello": "!"}, ["hello", "lo wor"]) as runtime:
            session = runtime.session()
            branch = session.branch()
            for part in ("he", "llo"):
                session.extend(branch, [Text(part)])
            spoken = tokenizer_of(runtime).encoded
            before = len(spoken)
            await answer(session, branch)
            assert spoken[before:] == ["hello"]
            session.extend(branch, [Text("lo wor")])
            await answer(session, branch)
            assert spoken[before:] == ["hello", "lo wor"]
            assert session.tokens(branch) == [256, ord("!"), 257]

    asyncio.run(main())


def test_a_generated_token_is_never_joined_with_the_literal_after_it() -> None:
    async def main() -> None:
        with opened({"Q": "he"}, ["hello"]) as runtime:
            _, _, _, session, branch = await one_answer(runtime, "Q", GREEDY)
            session.extend(branch, [Text("llo")])
            assert session.tokens(branch) == list(b"Qhello")

    asyncio.run(main())


def test_forks_share_the_prefix_and_go_their_own_ways() -> None:
    async def main() -> None:
        with opened({"A": " one", "B": " two"}) as runtime:
            session = runtime.session()
            parent = session.branch()
            session.extend(parent, [Text("a long prefix that all of them share: ")])
            children = session.fork(parent, 4)
            for index, child in enumerate(children):
                session.extend(child, [Text("AB"[index % 2])])
            answers = await asyncio.gather(*(answer(session, child) for child in children))
            assert [done.text for done in answers] == [" one", " two", " one", " two"]
            assert session.text(parent) == "a long prefix that all of them share: "
            stats = await runtime.stats()
            assert stats.tokens_computed <= 38 + 4 * (1 + 4) + 4
            spoken = tokenizer_of(runtime).encoded
            assert spoken.count("a long prefix that all of them share: ") == 1

    asyncio.run(main())


def test_roles_are_appended_through_the_template() -> None:
    async def main() -> None:
        with opened({"assistant: ": "fine"}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Opening("user"), Text("how <end> is it?"), Closing("user"), Opening("assistant")])
            done = await answer(session, branch)
            assert done.text == "fine"
            assert session.text(branch) == "user: how <end> is it?<turn>assistant: fine"
            tokens = session.tokens(branch)
            assert tokens.count(tokenizer_of(runtime).specials["<turn>"]) == 1
            assert tokenizer_of(runtime).end not in tokens  # text that spells it stays text
            chat = session.branch()
            session.extend_chat(chat, [Message("user", "how <end> is it?")])
            assert session.tokens(chat) == tokens[:-4]
            session.extend_chat(chat, [Message("user", "x")], generation_prompt=False)
            assert session.text(chat).endswith("assistant: user: x<turn>")
            with pytest.raises(TemplateError, match="role"):
                session.extend(branch, [Opening("pirate")])

    asyncio.run(main())


def test_token_ids_are_appended_as_they_are() -> None:
    async def main() -> None:
        with opened({"hello": "!"}, ["hello"]) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("say "), TokenIds(tuple(b"hel")), Text("lo")])
            assert session.text(branch) == "say hello"
            assert session.tokens(branch) == list(b"say hello")
            with pytest.raises(InvalidParameter, match="tokens"):
                session.extend(branch, [TokenIds((10 ** 6,))])

    asyncio.run(main())


def test_the_answer_of_one_generation_is_the_prompt_of_the_next() -> None:
    async def main() -> None:
        with opened({"Q:": " yes", "yes so": " then"}) as runtime:
            _, _, _, session, branch = await one_answer(runtime, "Q:", GREEDY)
            session.extend(branch, [Text(" so")])
            done = await answer(session, branch)
            assert done.text == " then"
            assert done.usage.prompt == len("Q: yes so")
            assert done.usage.cached == len("Q: yes")  # the end token was drawn after the last of them

    asyncio.run(main())
