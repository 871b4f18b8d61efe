"""What a program adds to its state: literals, roles, gen and select, glued with +."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from ..grammars.constraint import AnyObject, JsonSchema, Spacing, Tag, Tags
from . import ir
from .backends.base import GenerateSpec
from .errors import ProgramError
from .slot import Reader
from .values import kind_of, options, spelled


@dataclass(frozen=True, slots=True)
class Part:
    """A node, and how its value is read (the class of a schema does not travel with the node)."""

    node: ir.Literals | ir.Gen | ir.Select
    read: Reader = str

    @property
    def writes_json(self) -> bool:
        return isinstance(self.node, ir.Gen) and isinstance(self.node.spec.constraint, (JsonSchema, AnyObject))


@dataclass(frozen=True, slots=True)
class Expression:
    """Parts in order. `"text" + gen("x") + "text"` makes a new one; nothing runs until it is added to a state."""

    parts: tuple[Part, ...]

    def __add__(self, other: str | Expression) -> Expression:
        return Expression(self.parts + expression(other).parts)

    def __radd__(self, other: str) -> Expression:
        return Expression(expression(other).parts + self.parts)

    def __format__(self, _: str) -> str:
        """Raises ProgramError: inside an f-string its description would become text of the prompt, and nothing run."""
        raise ProgramError("gen, select and roles cannot stand in an f-string",
                           fix='Glue them with +, as in f"It is {x} " + gen("y") + ".".')


def expression(addition: object) -> Expression:
    """Strings and expressions as expressions. Raises ProgramError for anything else."""
    if isinstance(addition, Expression):
        return addition
    if isinstance(addition, str):
        return Expression((Part(ir.Text(spelled(addition, "text"))),) if addition else ())
    raise ProgramError(
        f"only strings and expressions can be added to a state, not {type(addition).__name__}",
        fix="Convert the value with str().",
    )


def gen(
    name: str | None = None,
    *,
    max_tokens: int = 128,
    stop: str | Sequence[str] | None = None,
    stop_token_ids: Sequence[int] | None = None,
    min_tokens: int = 0,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int | None = None,
    frequency_penalty: float = 0.0,
    presence_penalty: float = 0.0,
    repetition_penalty: float = 1.0,
    logit_bias: Mapping[int, float] | None = None,
    regex: str | None = None,
    schema: Any = None,
    choices: Sequence[str] | None = None,
    lark: str | None = None,
    gbnf: str | None = None,
    tags: Sequence[Tag] | Tags | None = None,
    spacing: Spacing = "compact",
) -> Expression:
    """Generate a text and write it to `name` (None: it cannot be read by name).

    max_tokens: at least 1. temperature 0: greedy. top_k 0, top_p 1, min_p 0: off. seed None: a fresh random one.
    frequency_penalty, presence_penalty: -2 to 2, of what this gen wrote; repetition_penalty: above 0, at most 100, of
    all before it too, 1 is none; logit_bias: token id to -100 to 100.
    stop: the answer ends before the earliest of these strings; they are not part of it. stop_token_ids: tokens that do
    the same. min_tokens: nothing ends the answer before it has so many tokens; not beside what the answer must fit.
    schema, regex, choices, lark, gbnf or tags: what the answer must fit; at most one of them. Beside stop, which cuts
    what fits, no schema and no choices.
    schema is a Pydantic class, a type (int, list[str], Literal, a dataclass), a dict or JSON text; lark and gbnf are
    grammars that derive the answer from `start` and `root`; tags are parts that may stand in free text (`tag`). The
    value is an instance of the class or type, parsed JSON for dicts and JSON text, and a string without a schema.
    """
    kind = kind_of(regex=regex, schema=schema, choices=choices, lark=lark, gbnf=gbnf, tags=tags, spacing=spacing)
    least, most = _lengths(min_tokens, max_tokens, constrained=kind.constraint is not None)
    spec = GenerateSpec(
        max_tokens=most,
        temperature=_number("temperature", temperature, 0.0),
        top_k=_integer("top_k", top_k, 0),
        top_p=_number("top_p", top_p, 0.0, 1.0),
        min_p=_number("min_p", min_p, 0.0, 1.0),
        seed=None if seed is None else _integer("seed", seed, 0),
        frequency_penalty=_number("frequency_penalty", frequency_penalty, -2.0, 2.0),
        presence_penalty=_number("presence_penalty", presence_penalty, -2.0, 2.0),
        repetition_penalty=_repetition(repetition_penalty),
        logit_bias=_biases(logit_bias),
        stop=_stops(stop, whole=schema is not None or choices is not None),
        stop_ids=_tokens(stop_token_ids),
        min_tokens=least,
        constraint=kind.constraint,
    )
    return Expression((Part(ir.Gen(spec, _name(name)), kind.read),))


def _lengths(min_tokens: object, max_tokens: object, *, constrained: bool) -> tuple[int, int]:
    least, most = _integer("min_tokens", min_tokens, 0), _integer("max_tokens", max_tokens, 1)
    if least > most:
        raise ProgramError(f"min_tokens is {least} and max_tokens {most}", where="min_tokens", fix="Lower it.")
    if least and constrained:
        raise ProgramError("min_tokens cannot stand beside what says where an answer ends", where="min_tokens",
                           fix="Drop it, or ask for a longer answer in the constraint.")
    return least, most


def select(name: str | None = None, choices: Sequence[str] = ()) -> Expression:
    """Append the likeliest of the choices: exact log-probability of its tokens, the first wins ties.

    A choice whose tokens begin another's competes with the probability that the longer ones leave (see choices.py).
    """
    written = _name(name)
    chosen = options(choices)
    if "" in chosen:
        raise ProgramError("a choice is empty and has no token to score", where=f"choices[{chosen.index('')}]")
    return Expression((Part(ir.Select(chosen, written)),))


def system(content: str | Expression) -> Expression:
    return _message("system", content)


def user(content: str | Expression) -> Expression:
    return _message("user", content)


def assistant(content: str | Expression) -> Expression:
    return _message("assistant", content)


def _message(role: ir.Role, content: str | Expression) -> Expression:
    inner = expression(content).parts
    if any(isinstance(part.node, (ir.RoleOpen, ir.RoleClose)) for part in inner):
        raise ProgramError("a role cannot be inside another role", where=role, fix="Add the roles one after the other.")
    return Expression((Part(ir.RoleOpen(role)), *inner, Part(ir.RoleClose(role))))


def _name(name: object) -> str | None:
    if name is None or (isinstance(name, str) and name):
        return name
    raise ProgramError(f"a variable's name must be a non-empty string, not {name!r}", where="name",
                       fix="It comes first; choices and options follow it.")


def _stops(stop: object, *, whole: bool) -> tuple[str, ...]:
    """whole: the answer is a value that must not be cut."""
    stops = () if stop is None else (stop,) if isinstance(stop, str) else stop
    if not isinstance(stops, (list, tuple)) or not all(isinstance(text, str) and text for text in stops):
        raise ProgramError("stop must be a non-empty string or a list of them", where="stop")
    if stops and whole:
        raise ProgramError("stop would cut a value that is one of choices or has a schema", where="stop",
                           fix="Drop stop, or use a regex or a grammar.")
    return tuple(spelled(text, "stop") for text in stops)


def _tokens(ids: object) -> tuple[int, ...]:
    if ids is None:
        return ()
    if not isinstance(ids, (list, tuple)):
        raise ProgramError("stop_token_ids must be a list of token ids", where="stop_token_ids")
    return tuple(_integer("stop_token_ids", token, 0) for token in ids)


def _repetition(value: object) -> float:
    number = _number("repetition_penalty", value, 0.0, 100.0)
    if not number:
        raise ProgramError("repetition_penalty must be above 0, not 0", where="repetition_penalty")
    return number


def _biases(biases: object) -> tuple[tuple[int, float], ...]:
    if biases is None:
        return ()
    if not isinstance(biases, Mapping):
        raise ProgramError("logit_bias must map token ids to numbers", where="logit_bias")
    for token in biases:
        if not isinstance(token, Integral):
            raise ProgramError(f"token ids are integers, not {type(token).__name__}", where="logit_bias")
    return tuple((_integer("logit_bias", token, 0), _number("logit_bias", bias, -100.0, 100.0))
                 for token, bias in biases.items())


def _integer(field: str, value: object, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ProgramError(f"{field} must be an integer, not {type(value).__name__}", where=field)
    number = int(value)
    if not least <= number < 1 << 63:  # Python refuses to print integers of thousands of digits
        told = f", not {number}" if abs(number) < 1 << 64 else ""
        raise ProgramError(f"{field} must be at least {least} and below 2 ** 63{told}", where=field)
    return number


def _number(field: str, value: object, least: float, most: float = math.inf) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ProgramError(f"{field} must be a number, not {type(value).__name__}", where=field)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and least <= number <= most):
        bound = f"between {least} and {most}" if math.isfinite(most) else f"finite and at least {least}"
        raise ProgramError(f"{field} must be {bound}, not {number}", where=field)
    return number
