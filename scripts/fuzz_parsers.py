"""Feeds the parsers mutated texts and reports whatever is not a typed error within bounded time and memory.

    python -m scripts.fuzz_parsers [--seconds 3600] [--seed 0] [--save FOLDER] [--only KIND...] SEED_FOLDER...

Kinds: json_schema, regex, lark, gbnf, tags (as JSON), gguf, tokenizer. How a schema is written (order of keys,
spelling, spacing) follows from its text. The seeds are the cases under each SEED_FOLDER (files whose
`input` holds a schema, regex, lark or gbnf, the standard's suite, and harness files with a `schema`), beside a few
written here. A finding is printed once for each place that raised it, with its text; `--save` keeps the texts. The exit
status is 1 when there were findings.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import FrameType

import msgspec

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import Constraint, Gbnf, JsonSchema, Lark, Regex, Tags
from espalier.grammars.errors import EspalierError
from espalier.grammars.library import Library
from espalier.grammars.limits import Limits
from espalier.grammars.masks.configuration import Limits as EngineLimits
from espalier.grammars.rows import MaskTable
from espalier.grammars.vocabulary import Vocabulary
from espalier.runtime.gguf import GGUFFile
from espalier.runtime.json_file import JsonFile
from espalier.runtime.tokenizer import Tokenizer
from espalier.runtime.tokenizer_file import read_tokenizer_file
from espalier.runtime.tokenizer_json import TokenizerJson

from .fuzz_seeds import KINDS, Mutator, seeds

LIMITS = Limits(seconds=2.0)
GRACE = 4.0  # seconds of the processor past LIMITS.seconds
MEMORY = 4 << 30  # address space; what needs more fails with MemoryError, which is a finding


class TooSlow(BaseException):
    """The processor time of one input is over; no parser may catch it."""


class Target:
    """Runs one kind of input. Expected are EspalierErrors only."""

    def __init__(self, folder: Path, random: Random) -> None:
        self._random = random
        tokens = [*(bytes([b]) for b in range(256)), b"", b"", b'":', b"ab", b"<t"]
        self._vocabulary = Vocabulary(tokens, special=(256, 257), stop=(256,), specials={"<s>": 257},
                                      encode=lambda text: list(text.encode()))
        self._library = Library()
        self._table = MaskTable(self._vocabulary.size, 1 << 20)
        self._file = folder / "tokenizer.json"

    def run(self, kind: str, data: bytes) -> None:
        if kind == "gguf":
            Tokenizer.from_gguf(GGUFFile(data))
        elif kind == "tokenizer":
            self._file.write_bytes(data)
            if self._random.random() < 0.5:
                read_tokenizer_file(self._file)
            else:
                TokenizerJson(self._file).vocabulary(1 << 16, JsonFile("tokenizer_config.json", {}), [0])
        else:
            constraint = self._constraint(kind, data.decode("utf-8", "surrogatepass"))
            if constraint is not None:
                self._compile(constraint)

    @staticmethod
    def _constraint(kind: str, text: str) -> Constraint | None:
        """None for JSON that is not tags at all: msgspec refuses it before the compiler sees it."""
        if kind == "tags":
            try:
                return msgspec.json.decode(text, type=Tags)
            except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
                return None
        if kind == "json_schema":
            way = zlib.crc32(text.encode("utf-8", "surrogatepass"))
            return JsonSchema(text, spacing=("compact", "spaced", "indented", "any")[way // 3 % 4],
                              order=("schema", "any", "any")[way % 3], spelling=("one", "one", "any")[way % 3],
                              format=("assertion", "annotation")[way // 9 % 2])
        kinds: dict[str, type[Regex | Lark | Gbnf]] = {"regex": Regex, "lark": Lark, "gbnf": Gbnf}
        return kinds[kind](text)

    def _compile(self, constraint: Constraint) -> None:
        """Also bound to a vocabulary, when it is small, and read for a few tokens."""
        grammar = compile_constraint(constraint, LIMITS, self._library)
        if sum(rule.states for rule in grammar.rules) > 2_000:
            return
        matcher = CompiledGrammar(grammar, self._vocabulary, self._table, EngineLimits(nodes=1 << 14)).matcher()
        for _ in range(self._random.choice((4, 8, 24))):
            matcher.row(matcher.min_tokens() + 1)
            tokens = [token for token in range(self._vocabulary.size) if matcher.allows(token)]
            if not tokens:
                break
            matcher.accept(self._random.choice(tokens))
            matcher.explain()
        matcher.close()


def attempt(target: Target, kind: str, data: bytes) -> str | None:
    """The finding, as the place that raised it; None when all is well."""
    signal.setitimer(signal.ITIMER_PROF, LIMITS.seconds + GRACE)
    try:
        try:
            target.run(kind, data)
        finally:  # here too the signal may come
            signal.setitimer(signal.ITIMER_PROF, 0)
    except EspalierError:
        pass
    except (Exception, TooSlow) as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "espalier" in frame.filename] or frames
        last = ours[-1]
        return f"{kind}: {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno} {last.name})"
    return None


def _late(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow


def fuzz(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGPROF, _late)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    random = Random(options.seed)
    corpus = {kind: list(found) for kind, found in seeds(options.folders).items() if kind in options.only}
    mutator = Mutator(random, corpus)
    known: dict[str, int] = {}
    count = 0
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder), random)
        for kind, data in _inputs(mutator, random, corpus):
            if time.monotonic() > end:
                break
            count += 1
            finding = attempt(target, kind, data)
            if finding is None:
                continue
            place = finding.rsplit("(", 1)[-1] + finding.split(":")[1]
            known[place] = known.get(place, 0) + 1
            if known[place] == 1:
                print(f"{finding}\n    {data[:400]!r}", flush=True)
                if options.save is not None:
                    (options.save / f"{kind}-{len(known)}").write_bytes(data)
    print(f"{count} inputs, {sum(known.values())} findings at {len(known)} places; "
          f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")
    return 1 if known else 0


def _inputs(mutator: Mutator, random: Random, corpus: dict[str, list[bytes]]) -> Iterator[tuple[str, bytes]]:
    kinds = sorted(corpus)
    while True:
        kind = random.choice(kinds)
        yield kind, mutator.mutated(kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--only", nargs="*", choices=KINDS, default=KINDS)
    sys.exit(fuzz(parser.parse_args()))


if __name__ == "__main__":
    main()
