"""The format `regex`: patterns that ECMA-262 (u flag) and Python both read, written as a regular expression themselves.

Groups nest without bound in the language, which no automaton follows. Where a string is asked for nothing else, groups
are rules that call themselves; elsewhere (beside other keywords of strings, as a key, among items that are compared)
they nest three deep. The two dialects have no names of groups and no properties in common. Left out beside these are
look-behind but for single characters one after the other, and back-references but for those to the first group, once it
and all around it are closed; with three levels both. Every text that is written is a valid pattern; not every valid
pattern can be written.
"""

from __future__ import annotations

import string

NOTE = ("patterns have no names and \\p there, look-behind of single characters only, back-references to the first "
        "group only; beside other keywords groups nest three deep, without look-behind and back-references")
_DEPTH = 3
_HEX = "[0-9a-fA-F]"
_ESCAPE = (rf"\\(?:[dDwWsSfnrtv^$\\.*+?()\[\]{{}}|/]|x{_HEX}{{2}}|"
           rf"u(?:[0-9a-ce-fA-CE-F]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}))")
_PLACE = r"[\^$|]|\\[bB]"
# Groups told apart that were closed before, and the first of the characters that stand for what is in a group.
CLOSED = 1
INSIDE = 0x10FFFF - CLOSED


def _counts() -> str:
    """{n}, {n,} and {n,m} with n <= m, up to 99."""
    ordered = [f"{n},[{n}-9]" for n in range(10)] + [r"\d,[1-9]\d"]
    ordered += [f"{n}\\d,[{n + 1}-9]\\d" for n in range(1, 9)]
    ordered += [f"{n}{i},{n}[{i}-9]" for n in range(1, 10) for i in range(10)]
    return r"\{(?:(?:\d|[1-9]\d),?|" + "|".join(ordered) + r")\}"


def _quantifier() -> str:
    return rf"(?:(?:[*+?]|{_counts()})\??)?"


def _atom(left_out: str) -> str:
    """What reads one character; some are left out as themselves."""
    return rf"(?:[^\^$\\.*+?()\[\]{{}}|\n\r{left_out}]|\.|{_ESCAPE}|{_class(left_out)})"


def _class(left_out: str) -> str:
    """A class whose ranges run within digits or letters, in order."""
    runs = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
    spans = "|".join(f"{low}-[{low}-{run[-1]}]" for run in runs for low in run)
    member = rf"(?:{spans}|[^\\\[\]^\-&~|\n\r{left_out}]|{_ESCAPE}|\\-)"
    return rf"\[\^?-?{member}+-?\]"


def regex_of_regexes() -> str:
    """What the texts of the format look like whose groups nest three deep."""
    quantifier, atom = _quantifier(), _atom("")
    body = rf"(?:{atom}{quantifier}|{_PLACE})*"
    for _ in range(_DEPTH):
        groups = rf"\((?:\?:)?{body}\){quantifier}|\(\?[=!]{body}\)"
        body = rf"(?:{atom}{quantifier}|{_PLACE}|{groups})*"
    return body


def calling_regexes() -> dict[str, str]:
    """The texts of the format with a character for all that is in a group: INSIDE + k behind k closed groups. "whole":
    a pattern; "group k": what INSIDE + k stands for, not empty."""
    found = {f"group {k}": f"(?:{_single(k)}|{_capturing(k)})+" for k in range(CLOSED + 1)}
    whole = f"(?:{_single(CLOSED)}|{_capturing(CLOSED)})*"
    for k in reversed(range(CLOSED)):
        whole = f"(?:{_single(k)})*(?:{_capturing(k)}{whole})?"
    return {**found, "whole": whole}


def _single(closed: int) -> str:
    """All that may stand in a pattern behind so many closed groups, but a capturing group."""
    quantifier, inside = _quantifier(), f"\\u{{{INSIDE + closed:x}}}?"
    atom = _atom(f"\\u{{{INSIDE:x}}}-\\u{{{INSIDE + CLOSED:x}}}")
    ahead, behind = rf"\(\?[=!]{inside}\)", rf"\(\?<[=!](?:{atom}(?:\{{\d{{1,2}}\}})?|[\^$]|\\[bB])*\)"
    again = rf"|\\[1-{closed}](?!\d){quantifier}" if closed else ""
    return rf"{atom}{quantifier}|{_PLACE}|\(\?:{inside}\){quantifier}|{ahead}|{behind}{again}"


def _capturing(closed: int) -> str:
    return rf"\(\u{{{INSIDE + closed:x}}}?\){_quantifier()}"


def may_be_regexes() -> str:
    """All texts but those that are no pattern for certain: they begin with a quantifier, end in a lone backslash, or
    what opens or closes first, before any backslash, is never closed or was never opened."""
    broken = ("[*+?]", r"(?:[^\\]|\\[^])*\\$", r"[^\\(\[]*\)", r"[^\\(]*\[[^\]]*$", r"[^\\\[]*\([^)]*$")
    return "".join(f"(?!{one})" for one in broken) + "[^]*"
