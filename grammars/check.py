"""The case checker: does a constraint compile, and which texts can be produced under it?

The engine is handed in: `produce(grammar)` gives a function that says whether a text's own tokenization passes the
grammar's rows, overlays off.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import msgspec

from .compile import compile_constraint
from .constraint import Constraint, Gbnf, JsonSchema, Lark, Regex
from .errors import ConstraintError, InvalidConstraint
from .ir import Grammar
from .limits import Limits
from .schemas.json_text import JsonValue, read_json, spell

Produce = Callable[[Grammar], Callable[[str], bool]]

COMPILED_KINDS = frozenset({"json_schema", "regex", "gbnf", "ebnf_lark"})
# Policies under which a located refusal is a right answer.
_MAY_REFUSE = frozenset({"enforce_or_400", "must_reject_schema", "limit_or_400", "reject_or_legacy", "no_crash"})
_LISTS = ("valid", "invalid", "may", "should_not")


class Refusal(msgspec.Struct, frozen=True):
    """pointer: a JSON pointer, or line and column."""

    keyword: str
    pointer: str
    message: str


class CaseReport(msgspec.Struct, frozen=True):
    """The verdict on one case. valid, invalid, may, should_not: can each text be produced; empty for a refused input.
    ms: compile time. failures: what is wrong with the verdict, in words; empty when the case passes."""

    id: str
    compiled: bool
    error: Refusal | None
    valid: tuple[bool, ...] = ()
    invalid: tuple[bool, ...] = ()
    may: tuple[bool, ...] = ()
    should_not: tuple[bool, ...] = ()
    ms: float = 0.0
    failures: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures

    def line(self) -> str:
        """One line of JSON: the verdict without `failures`."""
        fields = msgspec.to_builtins(self)
        del fields["failures"]
        return json.dumps(fields, ensure_ascii=False)


class Skipped(msgspec.Struct, frozen=True):
    """A case of a kind that has no constraint to check."""

    id: str
    kind: str


class SampleReport(msgspec.Struct, frozen=True):
    """accepted: by name of the sample; False also for one that is not JSON."""

    compiled: bool
    error: Refusal | None
    accepted: dict[str, bool]
    ms: float
    failures: tuple[str, ...] = ()


def read_case(text: str) -> Mapping[str, object]:
    """A case file, numbers kept as they are written. Raises InvalidConstraint when it is not an object of JSON."""
    try:
        case = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InvalidConstraint(f"not a case file: {error}", keyword="json", where="line 1 column 1") from error
    if not isinstance(case, dict) or "kind" not in case:
        raise InvalidConstraint("not a case file: it has no kind", keyword="kind", where="#",
                                fix="To check a sample against a schema of yours, name that with --schema.")
    return case


def check_case(case: Mapping[str, object], produce: Produce, *, complete: bool = False,
               limits: Limits = Limits()) -> CaseReport | Skipped:  # noqa: B008  (frozen)
    """complete: a refusal fails too, unless the case's policy allows one."""
    name, kind = str(case.get("id", "")), str(case.get("kind", ""))
    if kind not in COMPILED_KINDS:
        return Skipped(name, kind)
    started = time.perf_counter()
    try:
        grammar = compile_constraint(_constraint(case), limits)
        ms = (time.perf_counter() - started) * 1000
        accepts = produce(grammar)
    except ConstraintError as error:
        return _refused(name, error, (time.perf_counter() - started) * 1000, str(case.get("policy", "")), complete)
    verdicts = {key: tuple(accepts(text) for text in _texts(case, key)) for key in _LISTS}
    return CaseReport(name, True, None, **verdicts, ms=round(ms, 3), failures=_failures(case, verdicts))


def check_samples(constraint: JsonSchema, samples: Mapping[str, str], produce: Produce,
                  limits: Limits = Limits()) -> SampleReport:  # noqa: B008
    """A user's own schema: every sample is read as JSON, spelled in the spacing of the constraint and tried."""
    started = time.perf_counter()
    try:
        grammar = compile_constraint(constraint, limits)
        ms = (time.perf_counter() - started) * 1000
        accepts = produce(grammar)
    except ConstraintError as error:
        ms = (time.perf_counter() - started) * 1000
        return SampleReport(False, _refusal(error), {}, round(ms, 3), (str(error),))
    accepted: dict[str, bool] = {}
    failures: list[str] = []
    for name, text in samples.items():
        try:
            accepted[name] = accepts(spell(read_json(text, limits), constraint.spacing))
        except ConstraintError as error:
            accepted[name] = False
            failures.append(f"{name}: {str(error).replace('the schema', 'the sample', 1)}")
            continue
        if not accepted[name]:
            order = " (keys come in its order)" if constraint.order == "schema" else ""
            failures.append(f"{name}: cannot be produced under the schema{order}")
    return SampleReport(True, None, accepted, round(ms, 3), tuple(failures))


def _constraint(case: Mapping[str, object]) -> Constraint:
    """The key inside `input` decides the dialect."""
    given = case.get("input")
    if isinstance(given, Mapping) and "schema" in given:
        return JsonSchema(_schema_text(given["schema"]))
    for key, kind in (("regex", Regex), ("lark", Lark), ("gbnf", Gbnf)):
        if isinstance(given, Mapping) and isinstance(given.get(key), str):
            return kind(given[key])
    raise InvalidConstraint("the case has no schema, regex or grammar", keyword="input", where="input")


def _schema_text(schema: JsonValue) -> str:
    try:
        return spell(schema, "compact")
    except RecursionError as error:
        raise InvalidConstraint("the schema of the case is nested too deeply to be spelled", keyword="depth",
                                where="input/schema") from error


def _refusal(error: ConstraintError) -> Refusal:
    return Refusal(error.keyword, error.where, error.message)


def _refused(name: str, error: ConstraintError, ms: float, policy: str, complete: bool) -> CaseReport:
    failures: list[str] = []
    if not error.where:
        failures.append(f"the refusal names no place: {error}")
    if complete and policy not in _MAY_REFUSE:
        failures.append(f"refused: {error}")
    return CaseReport(name, False, _refusal(error), ms=round(ms, 3), failures=tuple(failures))


def _texts(case: Mapping[str, object], key: str) -> Sequence[str]:
    found = case.get(key)
    return [str(text) for text in found] if isinstance(found, list) else []


def _failures(case: Mapping[str, object], verdicts: Mapping[str, tuple[bool, ...]]) -> tuple[str, ...]:
    failures = ["the input must be refused, and it compiled"] if case.get("policy") == "must_reject_schema" else []
    for text, accepted in zip(_texts(case, "valid"), verdicts["valid"], strict=True):
        if not accepted:
            failures.append(f"valid, and cannot be produced: {_short(text)}")
    for text, accepted in zip(_texts(case, "invalid"), verdicts["invalid"], strict=True):
        if accepted:
            failures.append(f"invalid, and can be produced: {_short(text)}")
    return tuple(failures)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
