"""Formats: every text of a format that is enforced, and nothing else."""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import date, timedelta
from functools import cache
from random import Random

import idna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.limits import Limits, Meter
from espalier.grammars.regular.regex_syntax import parse
from espalier.grammars.schemas.format_tables import table_of
from espalier.grammars.schemas.formats import LONGEST, STANDARD, TABLES, compile_table, format_dfa, outside_format
from scripts.idn_characters import VERSION
from scripts.idn_hosts import idn_hosts, idn_mail

from .naive import Naive

TABLE = {
    "date": (["2024-02-29", "2000-02-29", "0001-01-01", "9999-12-31"],
             ["1900-02-29", "2023-02-29", "2023-04-31", "0000-01-01", "2023-1-1", "2023-00-10", "2023-01-00",
              "٢٠٢٤-01-01"]),
    "time": (["00:00:00Z", "23:59:60Z", "23:59:59.123+23:59", "12:00:00z", "01:29:60+01:30", "15:59:60-08:00",
              "23:59:60.5+00:00", "00:29:60-23:30"],
             ["24:00:00Z", "12:00Z", "12:00:60Z", "12:00:00", "23:59:61Z", "12:00:00+24:00", "23:59:60+01:00",
              "1:00:00Z",
              "12:00:00.Z", "22:59:60Z"]),
    "date-time": (["1963-06-19T08:30:06.283185Z", "2024-02-29t00:00:00z", "1998-12-31T15:59:60.123-08:00"],
                  ["2023-02-29T00:00:00Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00"]),
    "duration": (["P4DT12H30M5S", "P1Y", "PT1M", "P2W", "P1Y2M3D"], ["P", "PT", "P1S", "P1Y2W", "PT1D", "P1D2H", "4D"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000", "", "g" * 36]),
    "ipv4": (["127.0.0.1", "255.255.255.255"], ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3.4 "]),
    "ipv6": (["::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "fe80::1:2"],
             [":", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "12345::", "fe80::1%eth0", "::1.2.3",
              "1:2:3:4:5:6:7:"]),
    "hostname": (["a", "example.com", "a-b.c-d", "1.2", "a" * 63],
     ["", "-a", "a-", "a..b", "a_b", "a.", "a" * 64, "xn--X"]),
    "email": (["a@b.co", "a.b+tag@sub.example.org", "a@[127.0.0.1]", "a@[IPv6:::1]",
               '"joe bloggs"@example.com', '"a\\"b"@example.com'],
              ["a@@b.co", "a b@c.de", '"a"b"@c.de', "é@c.de", ".a@b.co", "a.@b.co", "a@", "@b", "a@-b.co",
               "a@[1.2.3]"]),
    "uri": (["https://example.com/a?b=c#d", "mailto:a@b.co", "urn:isbn:1", "http://[::1]:80/", "a:"],
            ["/relative", "not a uri", "https://ex ample.com", "http://a/<x>", "1a:b", "http://a/%zz", "http://a#b#c"]),
    "uri-reference": (["/abc", "", "#f", "a/b?c", "//host/p", "http://a"], ["\\\\a", "a b", "%", "1:2"]),
    "idn-email": (["실례@example.com", "실례@실례.테스트", "a.é@b.co", '"é ü"@b.co', "a@[127.0.0.1]"],
                  ["@b.co", "a b@c.de", "é.@b.co", "a@é é"]),
    "idn-hostname": (
        ["실례.테스트", "\u06fd\u06fe", "l\u00b7l", "\u03b1\u0375\u03b2", "\u05d0\u05f3\u05d1",
         "\u05d0\u05f4\u05d1", "\u30fb\u3041", "\u30fb\u30a1", "\u30fb\u4e08", "\u0628\u0660\u0628", "\u06f00",
         "\u0915\u094d\u200d\u0937", "\u0915\u094d\u200c\u0937", "\u0628\u064a\u200c\u0628\u064a", "hostname",
         "host-name", "h0stn4me", "1host", "hostnam3", "a.b", "a\u3002b", "a\uff0eb", "a\uff61b",
         "münchen-tourismus.de", "παράδειγμα.com", "例え.テスト", "пример.рф", "ตัวกู้.ไทย", "উদাহরণ.বাংলা",
         "ஐபோன்.தமிழ்", "\u05d0.com", "A.b--c.com"],
        ["\u302e실례.테스트", "실\u302e례.테스트", "-> $1.00 <--", "xn--X", "XN--aa---o47jg78q", "-hello",
         "hello-", "-hello-", "\u0903hello", "\u0300hello", "\u0488hello", "\u0640\u07fa",
         "\u3031\u3032\u302e\u302f\u303b", "a\u00b7l", "\u00b7l", "l\u00b7a", "l\u00b7", "\u03b1\u0375S",
         "\u03b1\u0375", "A\u05f3\u05d1", "\u05f3\u05d1", "A\u05f4\u05d1", "\u05f4\u05d1", "def\u30fbabc",
         "\u30fb", "\u0628\u0660\u06f0", "\u0915\u200d\u0937", "\u200d\u0937", "", ".", "\u3002", ".example",
         "\uff61example", "example.", "example\uff0e", "1a.\u05d0", "\u05d0.1a", "Ü.de", "u\u0308.de",
         "실" * 60]),
    "iri": (["http://ƒøø.ßår/?∂éœ=πîx#πîüx", "a:é"],
            ["/é", "http://a b", "http://[2001:0db8:85a3::é]", "a:\ufdd0"]),
    "iri-reference": (["/âππ", "#ƒrägmênt", "", "//ƒøø.ßår/"], ["\\\\WINDOWS\\filëßåré", "é é", "#ƒräg\\mênt"]),
    "uri-template": (["http://example.com/dictionary/{term:1}/{term}", "{+x,hello,y}/here", "{?list*}", "",
                      "/é{a.b_c}"],
                     ["http://example.com/{term:1}/{term", "{}", "{a:0}", "{=a}", "a b", "}", "%zz"]),
    "regex": (["([abc])+\\s+$", "^(?:a|b(?=c))*?\\d{2,}[^a-z\\]]$", "", "(|a)", "a{2,13}", "x\\u00e9\\x41", "[-a]"],
              ["^(abc]", "a**", "*", "(", ")", "[z-a]", "a{3,2}", "\\q", "a{12,11}", "[", "(?<n>a)", "\\ud800", "{"]),
    "json-pointer": (["", "/a/b", "/~0~1", "/"], ["a", "/~", "/~2", "#/a"]),
    "relative-json-pointer": (["0", "1/a", "12#"], ["", "/a", "01", "-1", "0##"]),
}


@cache
def dfa(name: str):  # type: ignore[no-untyped-def]
    return format_dfa(name, Meter(Limits()))


@pytest.mark.parametrize("name", sorted(TABLE))
def test_formats_are_exact(name: str) -> None:
    accepted, rejected = TABLE[name]
    assert [text for text in accepted if not dfa(name).accepts(map(ord, text))] == []
    assert [text for text in rejected if dfa(name).accepts(map(ord, text))] == []


def test_every_enforced_format_has_its_table() -> None:
    assert set(TABLE) == STANDARD


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_every_pattern_that_is_written_is_one(random: Random) -> None:
    """Walks the automaton of the format `regex`; Python and our own parser must both read what comes out."""
    automaton, state, text = dfa("regex"), 0, ""
    while (len(text) < 30 or state not in automaton.finals) and automaton.edges[state]:
        low, high, state = random.choice(automaton.edges[state])
        text += chr(random.randint(low, min(high, low + 90)))
    if state in automaton.finals:
        re.compile(text)
        parse(text, Meter(Limits()))


# Of formats whose texts are not all written: texts of the format, so none that a negation may write.
UNWRITTEN = {
    "hostname": ["xn--9n2bp8q.xn--9t4b11yi5a", "xn--l-fda"],
    "email": ["a@xn--9n2bp8q.co"],
    "idn-email": ["a@xn--9n2bp8q.co", "실례@실례.테스트"],
    "idn-hostname": ["xn--9n2bp8q", "실례.테스트", "a" * 63],
    "regex": ["(?<n>a)\\\\k<n>", "((((a))))", "\\p{L}", "(?<=a)b"],
}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_what_a_negated_format_writes_is_not_of_the_format(name: str) -> None:
    outside = outside_format(name, Meter(Limits()))
    written, others = TABLE[name]
    assert [text for text in (*written, *UNWRITTEN.get(name, ())) if outside.accepts(map(ord, text))] == []
    assert any(outside.accepts(map(ord, text)) for text in others)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@settings(max_examples=300, deadline=None)
@given(st.text("()[]\\\\*+?a|#^:", max_size=8))
def test_what_is_no_pattern_for_certain_is_none(text: str) -> None:
    if outside_format("regex", Meter(Limits())).accepts(map(ord, text)):
        with pytest.raises(re.error):
            re.compile(text)


def test_a_hostname_is_never_longer_than_its_limit() -> None:
    name = ".".join(["a" * 63] * 4)
    within, beyond = (json.dumps(name[:length]) for length in (253, 254))
    named = {"type": "string", "format": "hostname"}
    for schema, right, wrong in (
        (named, within, beyond),
        ({**named, "maxLength": 300}, within, beyond),
        ({**named, "maxLength": 100}, json.dumps(name[:100]), json.dumps(name[:101])),
        ({"type": "string", "not": {"format": "hostname"}}, beyond, within),
    ):
        naive = Naive(compile_constraint(JsonSchema(json.dumps(schema))))
        assert naive.accepts(right), schema
        assert not naive.accepts(wrong), schema


def test_formats_can_be_annotations() -> None:
    for schema, right, wrong in (
        ({"type": "string", "format": "date"}, '"soon"', "1"),
        ({"type": "string", "format": "idn-hostname"}, '"-"', "1"),
        ({"type": "string", "format": "hostname", "maxLength": 300}, json.dumps("a." * 150), json.dumps("a" * 301)),
        ({"type": ["string", "null"], "not": {"format": "date", "type": "string"}}, "null", '"soon"'),
    ):
        grammar = compile_constraint(JsonSchema(json.dumps(schema), format="annotation"))
        assert Naive(grammar).accepts(right), schema
        assert not Naive(grammar).accepts(wrong), schema
        assert "format" in grammar.notes[0]


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if name == "regex" else []) for name in TABLES])
def test_the_shipped_automaton_is_that_of_the_expression(name: str) -> None:
    assert table_of(name) == compile_table(name, Meter(Limits(seconds=60.0)))


AS_BUILT = pytest.mark.skipif(unicodedata.unidata_version != VERSION, reason=f"built with Unicode {VERSION}")


@AS_BUILT
def test_the_shipped_automata_of_international_names_are_those_of_unicode() -> None:
    meter = Meter(Limits(seconds=60.0))
    hosts = idn_hosts(meter)
    assert table_of("idn-hostname") == hosts
    assert table_of("idn-email") == idn_mail(hosts, meter)


@AS_BUILT  # the judge asks Python for the directions of characters
@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([3, 8, 20, 55]))
def test_every_international_host_name_that_is_written_is_one(random: Random, length: int) -> None:
    automaton, state, text = dfa("idn-hostname"), 0, ""
    while (len(text) < length or state not in automaton.finals) and len(text) < LONGEST["idn-hostname"]:
        near = [edge for edge in automaton.edges[state] if text and abs(edge[0] - ord(text[-1])) < 200]
        low, high, state = random.choice(near if near and random.random() < 0.7 else automaton.edges[state])
        text += chr(random.randint(low, high))
    if state in automaton.finals:
        idna.encode(text)


@settings(max_examples=100, deadline=None)
@given(st.dates(), st.integers(-40, 40))
def test_dates_are_those_of_the_calendar(day: date, shift: int) -> None:
    assert dfa("date").accepts(map(ord, day.isoformat()))
    text = f"{day.year:04}-{day.month:02}-{day.day + shift:02}" if day.day + shift >= 0 else "x"
    try:
        real = date.fromisoformat(text)
    except ValueError:
        real = None
    assert dfa("date").accepts(map(ord, text)) == (real is not None)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1439), st.integers(-95, 95).map(lambda quarters: quarters * 15))
def test_a_leap_second_is_the_last_of_a_day_in_utc(local: int, offset: int) -> None:
    sign = "-" if offset < 0 else "+"
    text = f"{local // 60:02}:{local % 60:02}:60{sign}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    utc = (timedelta(minutes=local - offset)).total_seconds() // 60 % 1440
    assert dfa("time").accepts(map(ord, text)) == (utc == 1439), json.dumps(text)
