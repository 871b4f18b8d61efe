"""How much of JSON Schema is enforced, counted over folders of schemas with labelled instances.

    python -m bench.grammars.coverage FOLDER [--profile harness] [--part K/N] [--verdicts FILE.json] [--list]

FOLDER: files of {"schema", "tests": [{"valid", "data"}], "split"}. Each instance is tried as `json.dumps` spells it
(", " and ": ", its keys as they stand), through the plain recogniser of the tests. The verdict on a schema is
    right        compiled, and every instance came out as its label says
    order        as right, once the keys of a valid instance are written in the order of the schema
    strict       a valid instance is refused          lax     an invalid one is accepted
    refused      not compiled, with the keyword       empty   not compiled as no value fits, and none is labelled so
The profile `default` has the order of the schema; `harness` takes keys in any order and every spelling.
--part takes every N-th schema, from the K-th on; --verdicts writes the verdicts by name; --list prints every schema
that is not right.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from typing import Any

import msgspec

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintError, Unsatisfiable
from espalier.grammars.limits import Limits
from tests.grammars.naive import Naive

ARTIFICIAL = frozenset({"Synthesized", "Handwritten"})
# The limit is wall time, which on a busy machine says little; `ms` is what is measured.
_PATIENT = Limits(seconds=60.0)
PROFILES = {"default": JsonSchema("", "spaced"), "harness": JsonSchema("", "spaced", order="any", spelling="any")}
# Orders of keys that are tried for one instance.
_TRIES = 4_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """detail: the keyword and the place of a refusal. ms: CPU time of the compilation. counts: of instances, by what
    became of them: accepted, reordered, missed (valid); rejected, let in (invalid)."""

    name: str
    split: str
    kind: str
    detail: str
    ms: float
    counts: Counter[str]

    def line(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


def judge(name: str, case: dict[str, Any], profile: str = "default") -> Verdict:
    """One schema with its instances."""
    counts: Counter[str] = Counter()
    started = thread_time()
    try:
        text = json.dumps(case["schema"], ensure_ascii=False)
        grammar = compile_constraint(msgspec.structs.replace(PROFILES[profile], schema=text), _PATIENT)
    except ConstraintError as error:
        elapsed = (thread_time() - started) * 1000
        empty = isinstance(error, Unsatisfiable) and not any(test["valid"] for test in case["tests"])
        return Verdict(name, str(case.get("split")), "empty" if empty else "refused",
                       "" if empty else f"{error.keyword} {error.where}", elapsed, counts)
    elapsed = (thread_time() - started) * 1000
    recogniser = Naive(grammar)
    orders = list(_orders(case["schema"]))
    for test in case["tests"]:
        counts[_outcome(recogniser, orders, test)] += 1
    kind = next((kind for kind, sign in (("lax", "let in"), ("strict", "missed"), ("order", "reordered"))
                 if counts[sign]), "right")
    return Verdict(name, str(case.get("split")), kind, "", elapsed, counts)


def _outcome(recogniser: Naive, orders: list[dict[str, int]], test: dict[str, Any]) -> str:
    accepted = recogniser.accepts(json.dumps(test["data"], ensure_ascii=False))
    if not test["valid"]:
        return "let in" if accepted else "rejected"
    if accepted:
        return "accepted"
    return "reordered" if _Writer(recogniser, orders).accepts(test["data"]) else "missed"


def _orders(schema: object) -> Iterator[dict[str, int]]:
    """The orders in which `properties` are declared, wherever they stand."""
    stack = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(value)
        elif isinstance(value, dict):
            declared = value.get("properties")
            if isinstance(declared, dict):
                yield {name: place for place, name in enumerate(declared)}
            stack.extend(value.values())


class _Writer:
    """Writes a value with the keys of its objects in any order that the grammar takes, within a number of tries."""

    def __init__(self, recogniser: Naive, orders: list[dict[str, int]]) -> None:
        self._recogniser = recogniser
        self._orders = orders
        self._left = _TRIES

    def accepts(self, value: object) -> bool:
        after = self._write(self._recogniser.start(), value)
        return any(self._recogniser.may_end(threads) for threads in after)

    def _text(self, threads: frozenset, text: str) -> Iterator[frozenset]:
        for byte in text.encode():
            threads = self._recogniser.step(threads, byte)
            if not threads:
                return
        yield threads

    def _write(self, threads: frozenset, value: object) -> Iterable[frozenset]:
        """The sets of threads after the value, one for each order that works."""
        if isinstance(value, dict) and value:
            return self._object(threads, value)
        if isinstance(value, list) and value:
            return self._list(threads, value)
        return self._text(threads, json.dumps(value, ensure_ascii=False))

    def _list(self, threads: frozenset, items: list[object]) -> Iterator[frozenset]:
        for opened in self._text(threads, "["):
            yield from self._items(opened, items)

    def _items(self, threads: frozenset, items: list[object]) -> Iterator[frozenset]:
        for after in self._write(threads, items[0]):
            for closed in self._text(after, ", " if len(items) > 1 else "]"):
                if len(items) > 1:
                    yield from self._items(closed, items[1:])
                else:
                    yield closed

    def _object(self, threads: frozenset, value: dict[str, object]) -> Iterator[frozenset]:
        rank = max(self._orders, key=lambda order: len(order.keys() & value.keys()), default={})
        names = sorted(value, key=lambda name: rank.get(name, len(rank)))
        for opened in self._text(threads, "{"):
            yield from self._members(opened, value, names)

    def _members(self, threads: frozenset, value: dict[str, object], names: list[str]) -> Iterator[frozenset]:
        for name in names:
            if self._left <= 0:
                return
            self._left -= 1
            rest = [other for other in names if other != name]
            for before in self._text(threads, json.dumps(name, ensure_ascii=False) + ": "):
                for after in self._write(before, value[name]):
                    for closed in self._text(after, ", " if rest else "}"):
                        if rest:
                            yield from self._members(closed, value, rest)
                        else:
                            yield closed


def tally(verdicts: list[Verdict]) -> list[str]:
    """The lines of the summary."""
    kinds = Counter(verdict.kind for verdict in verdicts)
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        counts.update(verdict.counts)
    refused = Counter(verdict.detail.split(" ")[0] for verdict in verdicts if verdict.kind == "refused")
    total = max(len(verdicts), 1)
    times = sorted(verdict.ms for verdict in verdicts)
    compiled = total - kinds["refused"] - kinds["empty"]
    in_order = kinds["right"] + kinds["order"]
    shares = [("compiled", compiled), ("right", kinds["right"]), ("right in schema order", in_order)]
    return [
        f"{len(verdicts)} schemas: " + ", ".join(f"{name} {100 * count / total:.1f} %" for name, count in shares),
        "  " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()),
        "  valid: " + ", ".join(f"{key} {counts[key]}" for key in ("accepted", "reordered", "missed"))
        + "; invalid: " + ", ".join(f"{key} {counts[key]}" for key in ("rejected", "let in")),
        "  refused: " + ", ".join(f"{keyword} {count}" for keyword, count in refused.most_common()),
        f"  compile ms: p50 {times[len(times) // 2]:.1f}, p99 {times[len(times) * 99 // 100]:.1f}, max {times[-1]:.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--profile", choices=list(PROFILES), default="default")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--verdicts", type=Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    found = [judge(path.stem, json.loads(path.read_text(encoding="utf-8")), options.profile)
             for path in sorted(options.folder.glob("*.json"))[part - 1::parts]]
    if options.list:
        print("\n".join(f"{one.name}: {one.line()}" for one in found if one.kind != "right"))
    real = [one for one in found if one.split not in ARTIFICIAL]
    print("\n".join(tally(found)))
    if len(real) < len(found):
        print("real ones only:", *tally(real), sep="\n")
    if options.verdicts:
        options.verdicts.write_text(json.dumps({one.name: one.kind for one in found}, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
