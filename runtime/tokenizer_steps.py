"""The steps of a tokenizer.json between a text and its tokens: those that keep the text as it is, those that change it
in a known way, others refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from .errors import TokenizerError
from .text_changes import SPACE_MARK, TextChanges
from .words import Place

Step = Mapping[str, Any]
_FIX = "Use a model whose tokenizer keeps texts as they are, or its GGUF file."
_SECTIONS: frozenset[Place] = frozenset({"start", "section"})
_SPACED: Mapping[str, frozenset[Place]] = MappingProxyType({
    "never": frozenset(), "first": frozenset({"start"}), "always": _SECTIONS,
})
# Kind of step -> whether it is known.
_NORMALIZERS: Mapping[str, Callable[[Step], bool]] = MappingProxyType({
    "Replace": lambda step: step.get("pattern") == {"String": " "} and step.get("content") == SPACE_MARK,
    "NFC": lambda step: True,
    "Prepend": lambda step: step.get("prepend") == SPACE_MARK,
})
_CUTTERS: Mapping[str, Callable[[Step], bool]] = MappingProxyType({
    "ByteLevel": lambda step: step.get("add_prefix_space") is False,
    "Split": lambda step: step.get("behavior") != "Removed",
    "Digits": lambda step: True,
    "Metaspace": lambda step: step.get("prepend_scheme") in _SPACED and step.get("replacement") == SPACE_MARK,
})


def check_steps(data: Mapping[str, Any], file: str) -> None:
    """data: of a file that the library has read. Raises TokenizerError, which names the step."""
    _check_model(data["model"], file)
    _check_part(_normalizers(data), _NORMALIZERS, f"{file}: normalizer")
    _check_part(_cutters(data), _CUTTERS, f"{file}: pre_tokenizer")


def _check_part(steps: Iterable[Step], known: Mapping[str, Callable[[Step], bool]], where: str) -> None:
    for step in steps:
        if step["type"] not in known or not known[step["type"]](step):
            raise TokenizerError(f"{step['type']} changes texts in a way that is not supported", where=where, fix=_FIX)


def text_changes(data: Mapping[str, Any]) -> TextChanges:
    """Of steps that were checked."""
    normalizers, cutters = _normalizers(data), _cutters(data)
    prepends = any(step["type"] == "Prepend" for step in normalizers)
    spaced = [_SPACED[step["prepend_scheme"]] for step in cutters if step["type"] == "Metaspace"]
    return TextChanges(
        composed=any(step["type"] == "NFC" for step in normalizers),
        spaced=frozenset[Place]().union(*spaced, *([_SECTIONS] if prepends else [])), doubled=prepends)


def without_changes(data: Mapping[str, Any]) -> dict[str, Any]:
    """The normalizer and the pre-tokenizer with those steps taken out, so that texts are kept."""
    return {
        "normalizer": _sequence("normalizers", [
            step for step in _normalizers(data) if step["type"] not in ("NFC", "Prepend")]),
        "pre_tokenizer": _sequence("pretokenizers", [
            {**step, "prepend_scheme": "never"} if step["type"] == "Metaspace" else step for step in _cutters(data)]),
    }


def _sequence(inside: str, steps: list[Step]) -> dict[str, Any] | None:
    return {"type": "Sequence", inside: steps} if steps else None


def put_in_front(data: Mapping[str, Any], file: str) -> list[int]:
    """The ids that the post-processor puts before a text. Raises TokenizerError when it does anything else."""
    found: list[int] = []
    for step in _flat(data.get("post_processor"), "processors"):
        if step["type"] == "ByteLevel":  # moves offsets only
            continue
        *front, text = step.get("single") or [{}]
        ids = step.get("special_tokens", {})
        if "Sequence" not in text or any(part.get("SpecialToken", {}).get("id") not in ids for part in front):
            raise TokenizerError("it does more than to put tokens in front", where=f"{file}: post_processor", fix=_FIX)
        for part in front:
            found += ids[part["SpecialToken"]["id"]]["ids"]
    return found


def _check_model(model: Step, file: str) -> None:
    if model.get("type") != "BPE":
        raise TokenizerError(f"the tokenizer model {model.get('type')!r} is not supported", where=f"{file}: model",
                             fix="This runtime reads BPE.")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise TokenizerError(f"{model[key]!r} is not supported", where=f"{file}: model: {key}", fix=_FIX)


def _normalizers(data: Mapping[str, Any]) -> list[Step]:
    return list(_flat(data.get("normalizer"), "normalizers"))


def _cutters(data: Mapping[str, Any]) -> list[Step]:
    return list(_flat(data.get("pre_tokenizer"), "pretokenizers"))


def _flat(step: Step | None, inside: str) -> Iterator[Step]:
    """A step, or those of a sequence."""
    if step is None:
        return
    if step["type"] != "Sequence":
        yield step
        return
    for each in step[inside]:
        yield from _flat(each, inside)
