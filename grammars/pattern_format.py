"""The format `regex`: patterns that ECMA-262 (u flag) and Python both read, written as a regular expression themselves.

Groups nest without bound in the language, which no automaton follows: here they nest three deep. Left out beside that
are back-references, named groups, look-behind and properties. Every text that is written is a valid pattern; not every
valid pattern can be written.
"""

from __future__ import annotations

import string

NOTE = "patterns nest their groups at most three deep there, without back-references, names, look-behind and \\p"
_DEPTH = 3
_HEX = "[0-9a-fA-F]"
_ESCAPE = (rf"\\(?:[dDwWsSfnrtv^$\\.*+?()\[\]{{}}|/]|x{_HEX}{{2}}|"
           rf"u(?:[0-9a-ce-fA-CE-F]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}))")
_PLAIN = r"[^\^$\\.*+?()\[\]{}|\n\r]"


def _counts() -> str:
    """{n}, {n,} and {n,m} with n <= m, up to 99."""
    ordered = [f"{n},[{n}-9]" for n in range(10)] + [r"\d,[1-9]\d"]
    ordered += [f"{n}\\d,[{n + 1}-9]\\d" for n in range(1, 9)]
    ordered += [f"{n}{i},{n}[{i}-9]" for n in range(1, 10) for i in range(10)]
    return r"\{(?:(?:\d|[1-9]\d),?|" + "|".join(ordered) + r")\}"


def _class() -> str:
    """A class whose ranges run within digits or letters, in order."""
    runs = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
    spans = "|".join(f"{low}-[{low}-{run[-1]}]" for run in runs for low in run)
    member = rf"(?:{spans}|[^\\\[\]^\-&~|\n\r]|{_ESCAPE}|\\-)"
    return rf"\[\^?-?{member}+-?\]"


def regex_of_regexes() -> str:
    """What the texts of the format look like."""
    quantifier = rf"(?:(?:[*+?]|{_counts()})\??)?"
    atom = rf"(?:{_PLAIN}|\.|{_ESCAPE}|{_class()}){quantifier}"
    body = rf"(?:{atom}|[\^$|]|\\[bB])*"
    for _ in range(_DEPTH):
        groups = rf"\((?:\?:)?{body}\){quantifier}|\(\?[=!]{body}\)"
        body = rf"(?:{atom}|[\^$|]|\\[bB]|{groups})*"
    return body


def may_be_regexes() -> str:
    """All texts but those that are no pattern for certain: they begin with a quantifier, end in a lone backslash, or
    what opens or closes first, before any backslash, is never closed or was never opened."""
    broken = ("[*+?]", r"(?:[^\\]|\\[^])*\\$", r"[^\\(\[]*\)", r"[^\\(]*\[[^\]]*$", r"[^\\\[]*\([^)]*$")
    return "".join(f"(?!{one})" for one in broken) + "[^]*"
