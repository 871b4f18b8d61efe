"""Answers of the session layer: stop strings, characters, choices, constraints."""

from __future__ import annotations

import asyncio

import pytest

from espalier.grammars.constraint import Choices, Regex
from espalier.grammars.errors import BudgetTooSmall, InvalidConstraint
from espalier.runtime.branch import Text
from espalier.runtime.errors import (
    InvalidParameter,
)
from tests.runtime.sessions import GREEDY, answer, greedy, one_answer, opened, tokenizer_of

# Stop strings


@pytest.mark.parametrize(("script", "words", "stop", "text", "met", "kept"), [
    ("north east south west", [], ("ast so",), "north e", "ast so", 7),
    ("north east south west", ["east", " south"], ("ast so",), "north e", "ast so", 6),
    ("a<thin> b<think", [], ("<think>",), "a<thin> b<think", None, 15),
    ("wait...stop!", ["..."], ("stop", "..", "!"), "wait", "..", 4),
    (' "END', [' "'], ('"',), " ", '"', 0),
    ('"END', [], ('"',), "", '"', 0),
    ("é漢字👩‍👩‍👧 done", [], ("do",), "é漢字👩‍👩‍👧 ", "do", 27),
])
def test_the_answer_is_cut_before_the_earliest_stop(
    script: str, words: list[str], stop: tuple[str, ...], text: str, met: str | None, kept: int
) -> None:
    async def main() -> None:
        with opened({"Q:": script}, words) as runtime:
            chunks, done, whole, session, branch = await one_answer(runtime, "Q:", greedy(stop=stop))
            assert "".join(chunk.text for chunk in chunks) == done.text == text
            assert (done.stop, done.finish) == (met, "stop")
            assert len(done.tokens) == kept
            assert whole == "Q:" + text
            session.extend(branch, [Text("END")])
            assert session.text(branch) == f"Q:{text}END"
            assert tokenizer_of(runtime).decode(session.tokens(branch)) == f"Q:{text}END"
            follow_up = await answer(session, branch, greedy(3))
            assert follow_up.usage.prompt == len(session.tokens(branch))
            assert (await runtime.stats()).pages_held == 0

    asyncio.run(main())


def test_a_literal_after_a_stop_is_there_once() -> None:
    async def main() -> None:
        with opened({"=": "42", "Pros: ": "good, cheap  Best=9"}, ["  Best", "Bes"]) as runtime:
            _, done, _, session, branch = await one_answer(runtime, "Pros: ", greedy(stop=("Best=",)))
            assert done.text == "good, cheap  "
            session.extend(branch, [Text("Best=")])
            assert (await answer(session, branch)).text == "42"
            assert session.text(branch) == "Pros: good, cheap  Best=42"

    asyncio.run(main())


# Characters


def test_no_chunk_holds_a_part_of_a_character() -> None:
    async def main() -> None:
        with opened({"Q:": "é漢字👩‍👩‍👧 done"}) as runtime:
            chunks, done, _, _, _ = await one_answer(runtime, "Q:", GREEDY)
            assert "".join(chunk.text for chunk in chunks) == done.text == "é漢字👩‍👩‍👧 done"
            assert not any("\ufffd" in chunk.text for chunk in chunks)

    asyncio.run(main())


@pytest.mark.parametrize("stop", [(), ("zzz",)])
def test_a_budget_that_ends_inside_a_character_gives_one_replacement(stop: tuple[str, ...]) -> None:
    async def main() -> None:
        with opened({"Q:": "😀😀"}) as runtime:
            chunks, done, text, _, _ = await one_answer(runtime, "Q:", greedy(6, stop=stop))
            assert "".join(chunk.text for chunk in chunks) == done.text == "😀\ufffd"
            assert (done.finish, len(done.tokens)) == ("length", 6)
            assert text == "Q:😀\ufffd"

    asyncio.run(main())


def test_logprobs_come_one_a_token() -> None:
    async def main() -> None:
        with opened({"Q:": "abcSTOP"}) as runtime:
            chunks, done, _, _, _ = await one_answer(runtime, "Q:", greedy(stop=("STOP",), logprobs=2))
            assert len(done.logprobs) == len(done.tokens) == 3
            assert all(len(chunk.tokens) == len(chunk.logprobs) for chunk in chunks)

    asyncio.run(main())


# Choices and constraints


def test_a_choice_is_scored_and_the_first_of_equals_wins() -> None:
    async def main() -> None:
        with opened({"Q: ": "blue"}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q: ")])
            scores = await session.choose(branch, ["red", "blue", "blue"])
            assert scores.best == 1
            assert scores.totals[1] == scores.totals[2] > scores.totals[0]
            assert scores.tokens[0] == tuple(b"red")
            assert scores.totals[0] == pytest.approx(sum(scores.logprobs[0]))
            assert session.text(branch) == "Q: "
            for wrong in ([], ["a", ""]):
                with pytest.raises(InvalidParameter, match="choice"):
                    await session.choose(branch, wrong)

    asyncio.run(main())


def test_a_constraint_is_compiled_once_and_obeyed() -> None:
    async def main() -> None:
        with opened({"Q: ": "I do not know"}) as runtime:
            session = runtime.session()
            wanted = Choices(("yes, surely", "no"))
            for _ in range(2):
                branch = session.branch()
                session.extend(branch, [Text("Q: ")])
                done = await answer(session, branch, greedy(constraint=wanted))
                assert done.text in wanted.options
            spoken = tokenizer_of(runtime).encoded
            assert spoken.count("no") == 1

    asyncio.run(main())


def test_a_refused_constraint_raises_and_leaves_the_branch_as_it_was() -> None:
    async def main() -> None:
        with opened({"Q: ": "yes"}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q: ")])
            with pytest.raises(InvalidConstraint, match="only choices"):
                await answer(session, branch, greedy(constraint=Regex("a")))
            with pytest.raises(BudgetTooSmall) as caught:
                await answer(session, branch, greedy(2, constraint=Choices(("long", "longer"))))
            assert (caught.value.needed, caught.value.given) == (4, 2)
            assert session.text(branch) == "Q: "
            assert (await answer(session, branch)).text == "yes"

    asyncio.run(main())
