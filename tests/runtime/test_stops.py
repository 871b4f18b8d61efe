"""Stop strings: the earliest match in the text decides, however the text comes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.runtime.stops import StopFinder


def run(pieces: Sequence[str], stops: Sequence[str]) -> tuple[str, str | None]:
    finder = StopFinder(stops)
    shown = "".join([*(finder.push(piece) for piece in pieces), finder.finish()])
    return shown, finder.found.stop if finder.found else None


def naive(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """The first place where a stop stands; the shortest of those that stand there."""
    for start in range(len(text)):
        for stop in sorted(stops, key=len):
            if text.startswith(stop, start):
                return text[:start], stop
    return text, None


@pytest.mark.parametrize(("pieces", "stops", "shown", "stop"), [
    (["north e", "a", "st", " so", "uth west"], ["ast so"], "north e", "ast so"),
    (["a<thin", "> b<th", "ink"], ["<think>"], "a<thin> b<think", None),
    (["wait...", "stop!"], ["stop", "..", "!"], "wait", ".."),
    (["wait", ".", ".", ".stop!"], ["stop", "..", "!"], "wait", ".."),
    ([' "', "END"], ['"'], " ", '"'),
    (['"'], ['"'], "", '"'),
    (["good and cheap. ", "Best=", "12"], ["Best="], "good and cheap. ", "Best="),
    (["aab"], ["ab"], "a", "ab"),
    (["abc"], ["bcd", "c"], "ab", "c"),
    (["abcd"], ["bcd", "c"], "a", "bcd"),
    (["aaa"], ["aa", "aaa"], "", "aa"),
    ([], ["x"], "", None),
    (["text"], [], "text", None),
])
def test_table(pieces: list[str], stops: list[str], shown: str, stop: str | None) -> None:
    assert run(pieces, stops) == (shown, stop)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("abc", max_size=4), max_size=8),
    st.lists(st.text("abc", min_size=1, max_size=4), max_size=4),
)
def test_the_cut_of_the_text_does_not_matter(pieces: list[str], stops: list[str]) -> None:
    assert run(pieces, stops) == naive("".join(pieces), stops)


@settings(max_examples=200, deadline=None)
@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3))
def test_text_is_shown_as_soon_as_it_is_decided(text: str, stops: list[str]) -> None:
    finder = StopFinder(stops)
    shown = ""
    for end, letter in enumerate(text, 1):
        shown += finder.push(letter)
        if finder.found is not None:
            break
        held = text[len(shown):end]
        assert not held or any(stop.startswith(held) for stop in stops)


def test_nothing_comes_after_a_stop() -> None:
    finder = StopFinder(["."])
    assert finder.push("a.b") == "a"
    assert finder.push("c") == finder.finish() == ""
    assert finder.found is not None
    assert finder.found.start == 1


UNTIL = "<c>"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("a<c>", max_size=4), max_size=8),
    st.lists(st.text("a<c>", min_size=1, max_size=4), max_size=4),
)
def test_stops_are_looked_for_before_the_first_until_only(pieces: list[str], stops: list[str]) -> None:
    finder = StopFinder(stops, UNTIL)
    shown = "".join([*(finder.push(piece) for piece in pieces), finder.finish()])
    before, found, after = "".join(pieces).partition(UNTIL)
    text, stop = naive(before, stops)
    assert (shown, finder.found.stop if finder.found else None) == (text if stop else text + found + after, stop)
    assert finder.found is None or finder.found.start == len(text)


def test_text_that_is_skipped_holds_no_stop_and_counts() -> None:
    finder = StopFinder(["ab"])
    assert finder.skip("xaba") == "xaba"
    assert finder.push("b a") == "b "
    assert finder.push("b") == ""
    assert finder.found is not None
    assert (finder.found.stop, finder.found.start) == ("ab", 6)
