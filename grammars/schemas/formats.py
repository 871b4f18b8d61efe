"""The standard formats of strings, each as a regular expression; exact, or not here.

Years are 0001 to 9999. A leap second is written at 23:59:60 UTC only, with an offset of whole quarters of an hour (all
that are in use; any minute would need a thousand times the states). Hostnames are ASCII
(RFC 1123), mail addresses follow RFC 5321 (idn-email: RFC 6531), URIs RFC 3986, IRIs RFC 3987, templates RFC 6570
without the operators that it reserves. International host names (RFC 5890) come from Unicode's data.
"""

from __future__ import annotations

from ..automata import charset
from ..automata.dfa import Dfa, bounded, complement
from ..limits import Meter
from ..regular.pattern_format import NOTE, calling_regexes, may_be_regexes, regex_of_regexes
from ..regular.regex import compile_regex
from .format_tables import NAMES, table_of

_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])"
_BY_FOUR = r"(?:0[48]|[2468][048]|[13579][26])"
_LEAP = rf"(?:\d\d{_BY_FOUR}|{_BY_FOUR}00)"
_LONG = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
_SHORT = r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
_MONTH_DAY = rf"(?:{_LONG}|{_SHORT}|02-(?:0[1-9]|1\d|2[0-8]))"
_DATE = rf"(?:{_YEAR}-{_MONTH_DAY}|{_LEAP}-02-29)"
_MINUTE = r"(?:[01]\d|2[0-3]):[0-5]\d"


def _leap_seconds() -> str:
    """The last second of a day in UTC, in local times: their offset follows from hour and minute."""
    options = [r"23:59:60(?:\.\d+)?[Zz]"]
    for offset in range(0, 24 * 60, 15):
        zone = f"{offset // 60:02}:{offset % 60:02}"
        for sign, local in (("+", (23 * 60 + 59 + offset) % 1440), ("-", (23 * 60 + 59 - offset) % 1440)):
            options.append(rf"{local // 60:02}:{local % 60:02}:60(?:\.\d+)?[{sign}]{zone}")
    return "|".join(options)


_TIME = rf"(?:{_MINUTE}:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-]{_MINUTE})|{_leap_seconds()})"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"(?:{_OCTET}\.){{3}}{_OCTET}"
_H16 = "[0-9a-fA-F]{1,4}"
_LS32 = rf"(?:{_H16}:{_H16}|{_IPV4})"
_IPV6 = "(?:" + "|".join([
    rf"(?:{_H16}:){{6}}{_LS32}",
    rf"::(?:{_H16}:){{5}}{_LS32}",
    rf"(?:{_H16})?::(?:{_H16}:){{4}}{_LS32}",
    rf"(?:(?:{_H16}:){{0,1}}{_H16})?::(?:{_H16}:){{3}}{_LS32}",
    rf"(?:(?:{_H16}:){{0,2}}{_H16})?::(?:{_H16}:){{2}}{_LS32}",
    rf"(?:(?:{_H16}:){{0,3}}{_H16})?::{_H16}:{_LS32}",
    rf"(?:(?:{_H16}:){{0,4}}{_H16})?::{_LS32}",
    rf"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}",
    rf"(?:(?:{_H16}:){{0,6}}{_H16})?::",
]) + ")"
# Labels with hyphens in the third and fourth place are reserved (RFC 5891); whether an A-label is valid is no matter of
# form, so none is written.
_LDH = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_LABEL = f"(?!..--){_LDH}"
_HOST_SHORT = rf"{_LABEL}(?:\.{_LABEL})*"
_HOST_AT_MOST = rf"{_LDH}(?:\.{_LDH})*"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_QUOTED = r"(?:[ !#-\[\]-~]|\\[ -~])*"
ADDRESS = rf"\[{_IPV4}\]|\[IPv6:{_IPV6}\]"
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"{_QUOTED}")'
_BEYOND = r"\u0080-\ud7ff\ue000-\u{10ffff}"
_IDN_ATOM = f"[{_BEYOND}{_ATOM[1:]}"
_IDN_QUOTED = rf"(?:[ !#-\[\]-~{_BEYOND}]|\\[ -~])*"
IDN_LOCAL = rf'(?:{_IDN_ATOM}(?:\.{_IDN_ATOM})*|"{_IDN_QUOTED}")'
_IDN_CHARACTER = f"[a-zA-Z0-9.{_BEYOND}-]"
_PCT = "%[0-9A-Fa-f]{2}"
_UNRESERVED = "A-Za-z0-9._~-"
_SUB = "!$&'()*+,;="
_IP_LITERAL = rf"\[(?:{_IPV6}|[vV][0-9A-Fa-f]+\.[{_SUB}:{_UNRESERVED}]+)\]"
_PRIVATE = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}"
_UCS = r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"\\u{{{plane:x}{'1000' if plane == 14 else '0000'}}}-\\u{{{plane:x}fffd}}" for plane in range(1, 15))


def _references(more: str, private: str) -> tuple[str, str]:
    """(URI, URI or relative reference) of RFC 3986; with more characters, of RFC 3987. `-` ends the class of
    unreserved characters."""
    unreserved = _UNRESERVED[:-1] + more + "-"
    pchar = rf"(?:[{_SUB}:@{unreserved}]|{_PCT})"
    segments = rf"(?:/{pchar}*)*"
    authority = (rf"(?:(?:[{_SUB}:{unreserved}]|{_PCT})*@)?(?:{_IP_LITERAL}|(?:[{_SUB}{unreserved}]|{_PCT})*)"
                 r"(?::\d*)?")
    tail = rf"(?:\?(?:{pchar}|[/?{private}])*)?(?:#(?:{pchar}|[/?])*)?"
    absolute = rf"/(?:{pchar}+{segments})?"
    no_colon = rf"(?:[{_SUB}@{unreserved}]|{_PCT})+{segments}"
    path = rf"//{authority}{segments}|{absolute}"
    uri = rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{path}|{pchar}+{segments}|){tail}"
    return uri, f"(?:{uri}|(?:{path}|{no_colon}|){tail})"


_URI, _URI_REFERENCE = _references("", "")
_IRI, _IRI_REFERENCE = _references(_UCS, _PRIVATE)
_VARIABLE = rf"(?:[A-Za-z0-9_]|{_PCT})(?:\.?(?:[A-Za-z0-9_]|{_PCT}))*(?:\*|:[1-9]\d{{0,3}})?"
_TEMPLATE = rf"(?:[!#$&(-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|{_PCT}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
_POINTER = "(?:/(?:[^/~]|~[01])*)*"
_DURATION_TIME = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DURATION_DATE = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"

_PATTERNS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "duration": f"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|\\d+W)",
    "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "hostname": _HOST_SHORT,
    "email": rf"{_LOCAL}@(?:{_HOST_SHORT}|{ADDRESS})",
    "uri": _URI,
    "uri-reference": _URI_REFERENCE,
    "iri": _IRI,
    "iri-reference": _IRI_REFERENCE,
    "uri-template": _TEMPLATE,
    "regex": regex_of_regexes(),
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9]\\d*)(?:#|{_POINTER})",
}
# Of formats whose texts are not all written: every text that may be one, and few others. What is none of these is none.
_AT_MOST = {
    "hostname": _HOST_AT_MOST,
    "email": rf"{_LOCAL}@(?:{_HOST_AT_MOST}|{ADDRESS})",
    "idn-email": rf"{IDN_LOCAL}@(?:{_IDN_CHARACTER}+|{ADDRESS})",
    "idn-hostname": f"{_IDN_CHARACTER}+",
    "regex": may_be_regexes(),
}
# The longest text of a format, where its automaton leaves it to the length of the string: 253 lengths of every label
# would be 27,000 states, and a register counts them. 55 characters are 253 octets at most, whatever their labels.
LONGEST = {"hostname": 253, "idn-hostname": 55}
_OCTETS = 253
# What a caller should know of a format.
_IDN = "international labels have at most 14 characters there, or 40 with at most 3 Latin letters beyond ASCII"
NOTES = {"regex": NOTE, "idn-hostname": f"{_IDN}, and names 55", "idn-email": _IDN}

STANDARD = frozenset(_PATTERNS) | frozenset(NAMES)


def format_dfa(name: str, meter: Meter) -> Dfa:
    """The texts of a standard format, but for their LONGEST length."""
    return _table(name, meter)


def outside_format(name: str, meter: Meter) -> Dfa:
    """Texts that are not of the format: all of them, or, where not all texts of the format are written, most."""
    dfa = _table(f"{name} at most" if name in _AT_MOST else name, meter)
    if name in LONGEST:
        dfa = bounded(dfa, 0, _OCTETS, meter)
    return complement(dfa, charset.ALL)


def _table(name: str, meter: Meter) -> Dfa:
    def made() -> Dfa:
        dfa = table_of(name)
        meter.states(len(dfa.edges))
        return dfa

    return meter.shared(("format", name), made, lambda dfa: dfa.size)


def calling_table(part: str, meter: Meter) -> Dfa:
    """A part of patterns whose groups are calls (pattern_format.calling_regexes)."""
    return _table(f"regex {part}", meter)


def compile_table(name: str, meter: Meter) -> Dfa:
    """An automaton of TABLES from its expression."""
    return compile_regex(_EXPRESSIONS[name], meter)


_EXPRESSIONS = _PATTERNS | {f"{name} at most": pattern for name, pattern in _AT_MOST.items()} | {
    f"regex {part}": pattern for part, pattern in calling_regexes().items()}
TABLES = tuple(_EXPRESSIONS)
