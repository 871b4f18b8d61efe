"""The standard formats of strings, each as a regular expression; exact, or not here.

Years are 0001 to 9999. A leap second is written at 23:59:60 UTC only, with an offset of whole quarters of an hour (all
that are in use; any minute would need a thousand times the states). Hostnames are ASCII
(RFC 1123), mail addresses have dot-atom local parts (RFC 5321 without quoted strings and with host names or address
literals), URIs follow RFC 3986.
"""

from __future__ import annotations

from functools import lru_cache

from .dfa import Dfa, bounded
from .limits import Limits, Meter
from .regex import compile_regex

# Standard formats that are not enforced here, and so refused by name.
REFUSED = frozenset({"idn-email", "idn-hostname", "iri", "iri-reference", "uri-template", "regex"})

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
_LABEL = "(?!..--)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HOST_SHORT = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_EMAIL = rf"{_ATOM}(?:\.{_ATOM})*@(?:{_HOST_SHORT}|\[{_IPV4}\]|\[IPv6:{_IPV6}\])"
_PCT = "%[0-9A-Fa-f]{2}"
_UNRESERVED = "A-Za-z0-9._~-"
_SUB = "!$&'()*+,;="
_PCHAR = rf"(?:[{_SUB}:@{_UNRESERVED}]|{_PCT})"
_SEGMENTS = rf"(?:/{_PCHAR}*)*"
_REG_NAME = rf"(?:[{_SUB}{_UNRESERVED}]|{_PCT})*"
_IP_LITERAL = rf"\[(?:{_IPV6}|[vV][0-9A-Fa-f]+\.[{_SUB}:{_UNRESERVED}]+)\]"
_AUTHORITY = rf"(?:(?:[{_SUB}:{_UNRESERVED}]|{_PCT})*@)?(?:{_IP_LITERAL}|{_REG_NAME})(?::\d*)?"
_TAIL = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_ABSOLUTE = rf"/(?:{_PCHAR}+{_SEGMENTS})?"
_ROOTLESS = rf"{_PCHAR}+{_SEGMENTS}"
_NO_COLON = rf"(?:[{_SUB}@{_UNRESERVED}]|{_PCT})+{_SEGMENTS}"
_URI = rf"[A-Za-z][A-Za-z0-9+.-]*:(?://{_AUTHORITY}{_SEGMENTS}|{_ABSOLUTE}|{_ROOTLESS}|){_TAIL}"
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
    "email": _EMAIL,
    "uri": _URI,
    "uri-reference": f"(?:{_URI}|(?://{_AUTHORITY}{_SEGMENTS}|{_ABSOLUTE}|{_NO_COLON}|){_TAIL})",
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9]\\d*)(?:#|{_POINTER})",
}
_HOSTNAME_LENGTH = 253

STANDARD = frozenset(_PATTERNS) | REFUSED


@lru_cache(maxsize=64)
def _automaton(name: str, limits: Limits) -> Dfa:
    meter = Meter(limits)
    dfa = compile_regex(_PATTERNS[name], meter)
    return bounded(dfa, 0, _HOSTNAME_LENGTH, meter) if name == "hostname" else dfa


def format_dfa(name: str, meter: Meter) -> Dfa:
    """The texts of a format that is enforced (in STANDARD and not in REFUSED)."""
    dfa = _automaton(name, meter.limits)
    meter.states(len(dfa.edges))
    return dfa
