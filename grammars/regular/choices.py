"""A list of choices as one automaton."""

from __future__ import annotations

from ..automata.dfa import Dfa, literals
from ..errors import InvalidConstraint
from ..limits import Meter


def choices_dfa(options: tuple[str, ...], meter: Meter) -> Dfa:
    """The UTF-8 bytes of exactly these texts. The empty text may stand beside others, not alone."""
    if not options:
        raise InvalidConstraint("there is nothing to choose from", keyword="choices", where="choices",
                                fix="Give at least one option.")
    if not any(options):
        raise InvalidConstraint("the only choice is the empty text", keyword="choices", where="choices/0",
                                fix="Give at least one option that is not empty.")
    return literals([_encoded(option, index) for index, option in enumerate(options)], meter)


def _encoded(option: str, index: int) -> bytes:
    try:
        return option.encode()
    except UnicodeEncodeError as error:
        raise InvalidConstraint("a choice holds a lone surrogate, which is not a character", keyword="choices",
                                where=f"choices/{index}") from error
