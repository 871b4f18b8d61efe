"""One question to a model, and two ways to its answer: the whole runtime, and a loop of ten lines without any of it."""

from __future__ import annotations

import asyncio
import codecs
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec

from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import Choices, Constraint, Gbnf, JsonSchema, Lark, Regex, Tag, Tags
from espalier.grammars.ir import Grammar
from espalier.grammars.rows import MaskTable
from espalier.grammars.vocabulary import Vocabulary
from espalier.runtime.branch import Answer, Chunk, GenerateSpec, Text
from espalier.runtime.config import EngineConfig
from espalier.runtime.constraints import Constraints
from espalier.runtime.loading import bind_grammars, compile_grammar
from espalier.runtime.plan import Pick, Sampled
from espalier.runtime.runtime import Runtime
from espalier.runtime.scripted_executor import draw
from espalier.runtime.session import Session
from tests.fakes import ByteTokenizer, scripted_runtime
from tests.runtime.edited import edited

# Words of several bytes, also such that begin or end inside of a character, or reach over the edge of forced text.
WORDS = ("the ", "ab", "abc", "c,", "é", '{"', '":', '":"', '",', '"}', '},{"', "name", "x-", "--", "tru", "e}", "12")
LIKED = {**dict.fromkeys(b'abcx-,: \n"', 3.0), **dict.fromkeys("é漢".encode(), 1.5), **dict.fromkeys(b"0129", 2.0)}

CONSTRAINTS: tuple[Constraint, ...] = (
    Choices(("abc", "abcabc", "ab", "x--x--")),
    Regex("(ab|c,){2,6}é?"),
    Regex("x-[0-9]{1,4}(-x){3}"),
    JsonSchema('{"type":"object","properties":{"name":{"type":"string","maxLength":6},"n":{"type":"integer",'
               '"minimum":-20,"maximum":120},"kind":{"enum":["abc","abd",true]}},"required":["name","kind"],'
               '"additionalProperties":false}'),
    JsonSchema('{"type":"array","minItems":1,"maxItems":3,"items":{"type":"object","properties":{"name":{"const":'
               '"the name"}},"required":["name"],"additionalProperties":false}}'),
    JsonSchema('{"anyOf":[{"type":"null"},{"type":"array","items":{"type":"boolean"},"maxItems":4}]}'),
    JsonSchema('{"type":"object","properties":{"name":{"enum":["abc","é"]},"n":{"type":"integer","maximum":20}},'
               '"required":["name"],"additionalProperties":false}', order="any", spelling="any"),
    Lark('start: sum\nsum: sum "-" sum | "(" sum ")" | /[ab]{1,3}/'),
    Gbnf('root ::= "the name " item ("," item){0,3}\nitem ::= "x" item "-" | "abc" | "é"'),
    Tags((Tag("x-", Regex("[abc]{2,5}"), "--"), Tag("{", Choices(("12", "name")), "}")), at_least_one=True,
         stop_after_first=True),
)


@dataclass(frozen=True, slots=True)
class Question:
    """literals: appended one after the other, each tokenized on its own. more: unless it is "", the branch goes on with
    it and is asked once more."""

    literals: tuple[str, ...]
    spec: GenerateSpec
    more: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What an answer must be the same in. logprobs: () unless they were asked for."""

    tokens: tuple[int, ...]
    text: str
    finish: str
    stop: str | None
    logprobs: tuple[tuple[float, tuple[tuple[int, float], ...]], ...]


class WildModel:
    """Logits that depend on every token before; some tokens are liked, so that stops and constraints are met."""

    def __init__(self, tokenizer: ByteTokenizer) -> None:
        self._likes = [LIKED.get(id, -2.0) for id in range(256)]
        self._likes += [2.0] * (tokenizer.vocab_size - 256)

    def __call__(self, prefix: tuple[int, ...]) -> Sequence[float]:
        source = random.Random(hash(prefix))
        return [like + source.uniform(-3.0, 3.0) for like in self._likes]


def new_tokenizer() -> ByteTokenizer:
    return ByteTokenizer(WORDS, specials=("<end>", "<turn>", "<tool>"))


@contextmanager
def opened(config: EngineConfig, *, context: int = 1 << 20, mask_rows: int = 0,
           model: Callable[[tuple[int, ...]], Sequence[float]] | None = None) -> Iterator[Runtime]:
    """The whole runtime, grammars included, over a model that is a function. mask_rows: how many masks are kept (0: as
    the config says)."""
    tokenizer = new_tokenizer()
    grammars = bind_grammars(tokenizer, tokenizer.vocab_size, config)
    if mask_rows:
        table = MaskTable(tokenizer.vocab_size, mask_rows * 4 * -(-tokenizer.vocab_size // 32))
        vocabulary = vocabulary_of(tokenizer)
        grammars = Constraints(
            lambda grammar: CompiledGrammar(msgspec.msgpack.decode(grammar, type=Grammar), vocabulary, table),
            lambda: table.array,
        )
    runtime = scripted_runtime(
        model or WildModel(tokenizer), tokenizer, config, context=context, compile=compile_grammar,
        constraints=grammars,
    )
    try:
        yield runtime
    finally:
        runtime.close()


def vocabulary_of(tokenizer: ByteTokenizer) -> Vocabulary:
    return Vocabulary(
        tokenizer.token_bytes, special=tokenizer.special_ids, stop=tokenizer.stop_ids, encode=tokenizer.encode,
    )


# Through the runtime


async def read(session: Session, branch: int, spec: GenerateSpec) -> tuple[list[Chunk], Answer]:
    generation = session.generate(branch, spec)
    chunks = [chunk async for chunk in generation]
    return chunks, generation.answer


async def ask(session: Session, branch: int, question: Question) -> list[Said]:
    """Its answer, and the answer after `more`. What was streamed must be what was said."""
    said = []
    for literals in (question.literals, *((question.more,),) * bool(question.more)):
        for literal in literals:
            session.extend(branch, [Text(literal)])
            session.length(branch)
        chunks, answer = await read(session, branch, question.spec)
        assert "".join(chunk.text for chunk in chunks) == answer.text
        if answer.stop is None:
            assert tuple(token for chunk in chunks for token in chunk.tokens) == answer.tokens
            assert tuple(one for chunk in chunks for one in chunk.logprobs) == answer.logprobs
        logprobs = tuple((one.logprob, tuple(one.top)) for one in answer.logprobs)
        said.append(Said(answer.tokens, answer.text, answer.finish, answer.stop, logprobs))
    return said


def ask_all(runtime: Runtime, questions: Sequence[Question], *, at_once: bool, forks: bool) -> list[list[Said]]:
    """forks: questions that begin with the same literal are forks of one branch."""

    async def all_of_them() -> list[list[Said]]:
        session = runtime.session()
        roots: dict[str, int] = {}

        def begin(question: Question) -> tuple[int, Question]:
            if not forks or len(question.literals) < 2:
                return session.branch(), question
            first, *rest = question.literals
            if first not in roots:
                roots[first] = session.branch()
                session.extend(roots[first], [Text(first)])
            (branch,) = session.fork(roots[first], 1)
            return branch, Question(tuple(rest), question.spec, question.more)

        asked = [ask(session, *begin(question)) for question in questions]
        try:
            return list(await asyncio.gather(*asked)) if at_once else [await one for one in asked]
        finally:
            session.close()

    return asyncio.run(all_of_them())


def answered(runtime: Runtime, spec: GenerateSpec) -> Answer:
    """What it says after "the name ", on a session of its own."""

    async def ask() -> Answer:
        session = runtime.session()
        branch = session.branch()
        session.extend(branch, [Text("the name ")])
        answer = (await read(session, branch, spec))[1]
        session.close()
        return answer

    return asyncio.run(ask())


# Without it


class Alone:
    """The same answers by definition: one token at a time over the model's function, without cache, batch or forcing
    ahead; the mask is the only thing that a constraint does."""

    def __init__(self, *, forcing: bool = True) -> None:
        self.tokenizer = new_tokenizer()
        self.model = WildModel(self.tokenizer)
        self._forcing = forcing
        self._vocabulary = vocabulary_of(self.tokenizer)
        self._grammars: dict[Constraint, CompiledGrammar] = {}
        self._table = MaskTable(self.tokenizer.vocab_size)

    def grammar(self, constraint: Constraint) -> CompiledGrammar:
        if constraint not in self._grammars:
            grammar = msgspec.msgpack.decode(compile_grammar(constraint), type=Grammar)
            self._grammars[constraint] = CompiledGrammar(grammar, self._vocabulary, self._table)
        return self._grammars[constraint]

    def answer(self, question: Question) -> list[Said]:
        before = [token for literal in question.literals for token in self.tokenizer.encode(literal)]
        said, pending = [], ""
        for turn in range(1 + bool(question.more)):
            if turn:
                before += self.tokenizer.encode(pending + question.more)
            tokens, drawn, reason = self._tokens(before, question.spec)
            cut, pending = self._cut(tokens, drawn, reason, question.spec)
            said.append(cut)
            before += cut.tokens
        return said

    def _tokens(self, before: list[int], spec: GenerateSpec) -> tuple[list[int], list[Sampled], str]:
        """What ends by itself says 'length' where more tokens to spend would have made it another answer."""
        tokens, drawn, ended = self._drawn(before, spec, spec.max_tokens, 0)
        same = spec.constraint is None or self._drawn(before, spec, len(tokens) + 1, 1 << 20)[0] == tokens
        return tokens, drawn, "stop" if ended and same else "length"

    def _drawn(self, before: list[int], spec: GenerateSpec, most: int, spare: int
               ) -> tuple[list[int], list[Sampled], bool]:
        """At most so many tokens, under masks that leave room for `spare` more."""
        matcher = None if spec.constraint is None else self.grammar(spec.constraint).matcher(forcing=self._forcing)
        tokens: list[int] = []
        drawn: list[Sampled] = []
        while len(tokens) < most and not (matcher is not None and matcher.must_end()):
            row = 0 if matcher is None else matcher.row(most - len(tokens) + spare)
            prefix = (*before, *tokens)
            pick = Pick(
                logits=0, mask=row, temperature=spec.temperature, seed=spec.seed or 0, position=len(prefix) - 1,
                top_logprobs=spec.logprobs or 0,
            )
            drawn_as = draw(edited(self.model(prefix), spec, before, tokens), pick, self._table.array)
            sampled = draw(self.model(prefix), replace(pick, target=drawn_as.token))
            if sampled.token == self.tokenizer.end:
                return tokens, drawn, True
            tokens.append(sampled.token)
            drawn.append(sampled)
            if matcher is not None:
                matcher.accept(sampled.token)
        return tokens, drawn, matcher is not None and matcher.must_end()

    def _cut(self, tokens: list[int], drawn: list[Sampled], reason: str, spec: GenerateSpec) -> tuple[Said, str]:
        """Before the earliest stop string of the whole text, the shortest of those that begin there."""
        text, stop = self.tokenizer.decode(tokens), None
        met = [(text.find(stop), len(stop), stop) for stop in spec.stop if stop in text]
        kept = len(tokens)
        if met:
            start, _, stop = min(met)
            text, reason = text[:start], "stop"
            kept = max(count for count in range(len(tokens) + 1) if self._spells(tokens[:count], text))
        pending = text[len(self.tokenizer.decode(tokens[:kept])):]
        said = tuple((one.logprob, one.top) for one in drawn[:kept]) if spec.logprobs is not None else ()
        return Said(tuple(tokens[:kept]), text, reason, stop, said), pending

    def _spells(self, tokens: list[int], text: str) -> bool:
        """Whether the tokens are whole characters, and the text begins with them."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        spelled = decoder.decode(b"".join(self.tokenizer.token_bytes[token] for token in tokens))
        return not decoder.getstate()[0] and text.startswith(spelled)
