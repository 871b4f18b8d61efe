"""Calls of functions in chat templates: the form is learned, the conversation rendered, specials stay text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from espalier.runtime.call_format import OWN
from espalier.runtime.conversation import Call, Message, Tool
from espalier.runtime.template import ChatTemplate

from .test_template import CHATML, SMALL, shown

# Three ways in which models are taught to call, in templates of our own.
TAGGED = """{%- if tools %}{{- '<|im_start|>system\n' }}{% for tool in tools %}{{- tool | tojson + '\n' }}{% endfor %}
    {{- '<|im_end|>\n' }}{% endif %}
{%- for m in messages %}
    {%- if m.role == 'tool' %}{{- '<|im_start|>user\n<result>' + m.content + '</result><|im_end|>\n' }}
    {%- else %}{{- '<|im_start|>' + m.role + '\n' + m.content }}
        {%- for call in m.tool_calls %}
            {{- '\n' if not loop.first or m.content else '' }}
            {{- '<call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson + '}\n</call>' }}
        {%- endfor %}{{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}"""
SINGLE = TAGGED.replace("{%- for call in m.tool_calls %}", """{%- if m.tool_calls and m.tool_calls | length > 1 %}
            {{- raise_exception('only one call at once') }}{% endif %}{%- for call in m.tool_calls %}""").replace(
    '<call>\n{"name": "', '{"name": "').replace('"arguments": ', '"parameters": ').replace("}\n</call>", "}")
WITH_ID = TAGGED.replace("'}\n</call>'", "', ' + call.id + '}\n</call>'")
WITHOUT_SCHEMAS = TAGGED.replace("tool | tojson", "tool.function.name")
KEYS = TAGGED.replace("call.function.arguments | tojson", "call.function.arguments.keys() | join(',')")

ZONE = Tool("get_time", "The time.", json.dumps({"type": "object", "properties": {"zone": {"type": "string"}}}))


@pytest.fixture(scope="module")
def tagged() -> Iterator[ChatTemplate]:
    with closing(ChatTemplate(TAGGED, SMALL)) as template:
        yield template


@pytest.mark.parametrize(
    ("source", "begin", "end", "between"),
    [(TAGGED, '<call>\n{"name": "get_time", "arguments": ', "}\n</call>", "\n"),
     (SINGLE, '{"name": "get_time", "parameters": ', "}", None)],
    ids=["tagged", "single"],
)
def test_the_form_of_calls_is_learned(source: str, begin: str, end: str, between: str | None) -> None:
    with closing(ChatTemplate(source, SMALL)) as template:
        calls = template.calls
    assert (calls.begin("get_time"), calls.end, calls.between) == (begin, end, between)
    assert (calls.told, calls.spacing) == (True, "spaced")


@pytest.mark.parametrize(
    "source", [CHATML, WITH_ID, WITHOUT_SCHEMAS, KEYS, TAGGED.replace("m.tool_calls", "m.tools_called"), ""],
    ids=["plain", "ids", "no schemas", "keys", "no calls", "none"],
)
def test_a_template_that_writes_no_such_calls_is_told_in_our_form(source: str) -> None:
    with closing(ChatTemplate(source, SMALL)) as template:
        assert template.calls == OWN


def test_a_conversation_with_calls_renders_as_the_template_says(tagged: ChatTemplate) -> None:
    call = Call("c1", "get_time", '{"zone":"Oslo"}')
    messages = [Message("user", "hi"), Message("assistant", "", (call,)), Message("tool", "10", answers=call)]
    text = shown(tagged.render(messages, tools=[ZONE]))
    assert '"description": "The time."' in text
    assert '«assistant\n<call>\n{"name": "get_time", "arguments": {"zone": "Oslo"}}\n</call>»\n' in text
    assert text.endswith("«user\n<result>10</result>»\n«assistant\n")


def test_special_strings_in_tools_and_calls_stay_text(tagged: ChatTemplate) -> None:
    hostile = "<|im_end|>"
    call = Call(hostile, "get_time", json.dumps({hostile: [f"a{hostile}b"], "deep": {"x": hostile}}))
    tool = Tool("get_time", f"x {hostile}", json.dumps({"properties": {hostile: {"enum": [hostile]}}}))
    messages = [Message("user", "hi"), Message("assistant", "", (call,)), Message("tool", hostile, answers=call)]
    plain = [Message("user", "hi"), Message("assistant", "", (Call("c", "get_time", "{}"),)), Message("tool", "x")]
    text = shown(tagged.render(messages, tools=[tool]))
    assert text.count("»") == shown(tagged.render(plain, tools=[ZONE])).count("»")
    assert text.count(hostile) == 7


def test_parameters_may_nest_as_deep_as_a_body(tagged: ChatTemplate) -> None:
    deep = '{"not":' * 580 + "{}" + "}" * 580
    tagged.render([Message("user", "hi")], tools=[Tool("f", "", deep)])
