"""The steps of a tokenizer.json between a text and its tokens: those that keep the text as it is, others refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from .errors import TokenizerError

SPACE_MARK = "\u2581"  # how SentencePiece spells a space
Step = Mapping[str, Any]
_FIX = "Use a model whose tokenizer keeps texts as they are, or its GGUF file."
# Kind of step -> whether it keeps texts.
_NORMALIZERS: Mapping[str, Callable[[Step], bool]] = MappingProxyType({
    "Replace": lambda step: step.get("pattern") == {"String": " "} and step.get("content") == SPACE_MARK,
})
_CUTTERS: Mapping[str, Callable[[Step], bool]] = MappingProxyType({
    "ByteLevel": lambda step: step.get("add_prefix_space") is False,
    "Split": lambda step: step.get("behavior") != "Removed",
    "Digits": lambda step: True,
    "Metaspace": lambda step: step.get("prepend_scheme") == "never" and step.get("replacement") == SPACE_MARK,
})


def check_steps(data: Mapping[str, Any], file: str) -> None:
    """data: of a file that the library has read. Raises TokenizerError, which names the step."""
    _check_model(data["model"], file)
    _check_part(_flat(data.get("normalizer"), "normalizers"), _NORMALIZERS, f"{file}: normalizer")
    _check_part(_flat(data.get("pre_tokenizer"), "pretokenizers"), _CUTTERS, f"{file}: pre_tokenizer")


def _check_part(steps: Iterable[Step], known: Mapping[str, Callable[[Step], bool]], where: str) -> None:
    for step in steps:
        if step["type"] not in known or not known[step["type"]](step):
            raise TokenizerError(f"{step['type']} changes texts in a way that is not supported", where=where, fix=_FIX)


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


def _flat(step: Step | None, inside: str) -> Iterator[Step]:
    """A step, or those of a sequence."""
    if step is None:
        return
    if step["type"] != "Sequence":
        yield step
        return
    for each in step[inside]:
        yield from _flat(each, inside)
