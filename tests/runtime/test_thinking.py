"""Thoughts and content: parted as the text comes, and learned from chat templates."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.runtime.conversation import Message
from espalier.runtime.template import ChatTemplate
from espalier.runtime.thinking import Thinking, ThoughtReader, Thoughts

from .test_template import CHATML, SMALL, THINKING, shown

THINK = Thinking("<think>\n", "</think>\n\n")

PARTED = [
    (False, "hello", "", "hello"), (False, "<think>\nhm.\n</think>\n\nyes", "hm.", "yes"),
    (False, "\n<think>hm</think>yes", "hm", "yes"), (False, "a <think>hm</think>", "", "a <think>hm</think>"),
    (False, "<think>\n\n</think>\n\nyes", "", "yes"), (False, "<thin", "", "<thin"), (False, "", "", ""),
    (False, " \n", "", " \n"), (False, "<think>a\n\nb</think> {}", "a\n\nb", "{}"),
    (True, "hm.\n</think>\n\nyes", "hm.", "yes"), (True, "hm </thi", "hm </thi", ""), (True, "hm\n ", "hm", ""),
    (True, "</think>\n", "", ""), (True, "a</think>b</think>c", "a", "b</think>c"),
    (True, "a\n<call>x", "a", "<call>x"), (True, "a</think>\n<call>", "a", "<call>"),
    (False, "<think>a<call>x</think>", "a", "<call>x</think>"), (True, "a<think>b</think>c", "a<think>b", "c"),
]


def parted(pieces: Sequence[str], opened: bool) -> tuple[str, str, str]:
    """Thoughts, content, and all text."""
    reader = ThoughtReader(Thoughts(THINK, opened, ("<call>",)))
    parts = [part for piece in pieces for part in reader.push(piece)] + reader.finish()
    told = ("".join(part.text for part in parts if part.kind == kind) for kind in ("thoughts", "content"))
    return (*told, "".join(part.text for part in parts))


@pytest.mark.parametrize(("opened", "text", "thoughts", "content"), PARTED)
def test_an_answer_is_parted_the_same_however_it_comes(opened: bool, text: str, thoughts: str, content: str) -> None:
    for size in (1, 2, 3, 7, 100):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert parted(pieces, opened) == (thoughts, content, text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["<think>", "</think>", "</", "think>", "<call>", " ", "\n", "a"]), max_size=8),
       st.booleans())
def test_no_text_is_lost_and_the_cut_does_not_matter(pieces: list[str], opened: bool) -> None:
    text = "".join(pieces)
    assert parted(pieces, opened) == parted([text], opened) == parted(list(text), opened)
    assert parted(pieces, opened)[2] == text


# A template that writes thoughts of the last answer, and can be told to think or not to.
SWITCHED = """{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}
    {%- if m.reasoning_content %}{{- '<think>\n' + m.reasoning_content.strip('\n') + '\n</think>\n\n' }}{% endif %}
    {{- m.content + '<|im_end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}"""
BRACKETS = SWITCHED.replace("<think>", "[THINK]").replace("</think>", "[/THINK]").replace("enable_thinking", "thinking")
FORGETS = THINKING.replace("message['content']", "message['content'].split('</think>')[-1]")


@pytest.mark.parametrize(("source", "thinking", "switches"), [
    (CHATML, None, set()),
    (SWITCHED, Thinking("<think>\n", "\n</think>\n\n", wanted=True), {"enable_thinking"}),
    (BRACKETS, Thinking("[THINK]\n", "\n[/THINK]\n\n", wanted=True), {"thinking"}),
    (SWITCHED.replace("enable_thinking", "other"), Thinking("<think>\n", "\n</think>\n\n"), set()),
    (FORGETS, Thinking("<think>\n", "</think>\n\n"), set()),
    (THINKING, Thinking("<think>\n", "</think>\n\n"), set()),
], ids=["plain", "switched", "brackets", "no switch", "forgets", "opens"])
def test_delimiters_and_switches_are_the_template_s_own(
    source: str, thinking: Thinking | None, switches: set[str]
) -> None:
    with closing(ChatTemplate(source, SMALL)) as template:
        assert (template.thinking, template.switches) == (thinking, switches)


def test_a_switch_and_thoughts_of_the_history_reach_the_template() -> None:
    with closing(ChatTemplate(SWITCHED, SMALL)) as template:
        asked = [Message("user", "q"), Message("assistant", "a", reasoning="because <|im_end|>"), Message("user", "r")]
        on = template.render(asked)
        off = shown(template.render(asked, switches={"enable_thinking": False}))
    assert shown(on) == ("«user\nq»\n«assistant\n<think>\nbecause <|im_end|>\n</think>\n\na»\n«user\nr»\n«assistant\n")
    assert on.count(1) == 3  # what a thought spells stays text
    assert off == shown(on) + "<think>\n\n</think>\n\n"


@pytest.mark.parametrize(("prompt", "opened", "closed"), [
    ("assistant\n<think>\n", True, False), ("assistant\n<think>\n\n</think>\n\n", False, True),
    ("assistant\n", False, False), ("what is <think>? assistant\n", False, False),
])
def test_whether_the_answer_thinks_is_read_from_the_end_of_the_prompt(prompt: str, opened: bool, closed: bool) -> None:
    assert (THINK.opened(prompt), THINK.closed(prompt)) == (opened, closed)
