"""The session layer: branches as text and tokens, in front of the engine. It tokenizes and detokenizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..grammars.constraint import Tags
from .answering import Cut, Writer
from .branch import BranchId, Closing, GenerateSpec, Opening, Piece, Scores, Text, TokenIds
from .branch_state import BranchState
from .checks import check_integer, check_length, check_text
from .conversation import Message, Tool
from .errors import EngineFault, InvalidParameter, RequestAborted, TemplateError
from .generation import Generation, Started
from .messages import (
    Abort,
    Choose,
    Chosen,
    CloseSession,
    Command,
    Event,
    Finished,
    Generate,
    OpenLease,
    OpenSession,
    Prefill,
    ReleaseLease,
    Sampling,
    TokenLogprob,
    TrimLease,
    Usage,
)
from .spec_checks import check_spec
from .specials import Shown
from .words import NO_SWITCHES, Switches, TokenBytes

if TYPE_CHECKING:
    from .runtime import Runtime


Asking = Callable[[int, tuple[int, ...]], Command]
"""The id of a request and the tokens that are new -> its command."""


class Session:
    """The owner of its branches. All methods are called from one event loop; the async ones await the engine."""

    def __init__(self, runtime: Runtime, salt: str, adapter: str) -> None:
        self._runtime = runtime
        self._tokenizer = runtime.tokenizer
        self._id = runtime.router.next_id()
        self._branches: dict[BranchId, BranchState] = {}
        self._closed = False
        check_text("salt", salt)
        check_text("adapter", adapter)
        self._send(OpenSession(self._id, salt, adapter))

    # Branches

    def branch(self) -> BranchId:
        """A new, empty branch."""
        self._check_open()
        id = self._runtime.router.next_id()
        self._branches[id] = BranchState(self._runtime.tokenizer)
        self._send(OpenLease(id, self._id))
        return id

    def extend(self, branch: BranchId, pieces: Sequence[Piece]) -> None:
        """Append; computes nothing. Adjacent texts are one text, tokenized when it is needed. Raises TemplateError for
        a role that the template lacks, InvalidParameter for ids outside of the vocabulary."""
        state = self._idle(branch)
        for piece in pieces:
            match piece:
                case Text(text):
                    state.append_text(text)
                case Opening(role):
                    state.append_parts(self._runtime.template.opening_parts(role, state.empty))
                case Closing(role):
                    state.append_parts(self._runtime.template.closing_parts(role))
                case TokenIds(ids):
                    state.append_ids(ids)

    def extend_chat(self, branch: BranchId, messages: Sequence[Message], generation_prompt: bool = True,
                    tools: Sequence[Tool] = (), switches: Switches = NO_SWITCHES) -> None:
        """Append a conversation through the template. On an empty branch it is rendered; later messages are appended,
        which a template that rewrites earlier messages does not allow (TemplateError). tools: functions that the model
        is told of, at the beginning of a conversation. switches: of the template, there."""
        state = self._idle(branch)
        if not messages:
            raise InvalidParameter("there are no messages", where="messages", fix="Send at least one message.")
        template = self._runtime.template
        if not template.calls.told:
            messages, tools = template.calls.folded(messages, tools), ()
        if state.empty:
            state.append_ids(template.render(messages, generation_prompt, tools, switches))
            return
        if not template.stable or tools or switches or any(
            message.calls or message.answers or message.name for message in messages
        ):
            raise TemplateError(
                "this conversation cannot be appended to by this model's chat template", where="messages",
                fix="Render the whole conversation on a new branch.",
            )
        for message in messages:
            content = message.content.strip() if template.trims else message.content
            self.extend(branch, (Opening(message.role), Text(content), Closing(message.role)))
        if generation_prompt:
            self.extend(branch, (Opening("assistant"),))

    def thinks(self, branch: BranchId, begin: bool = False) -> bool:
        """Whether the branch ends inside of thoughts, which the answer goes on with. begin: where it leaves that to a
        model that begins with thoughts by itself, they are begun here."""
        state, thinking = self._idle(branch), self._runtime.template.thinking
        if thinking is None:
            return False
        prompt = state.whole_text()
        if not begin or not thinking.wanted or thinking.opened(prompt) or thinking.closed(prompt):
            return thinking.opened(prompt)
        state.append_parts(self._runtime.template.thinking_parts())
        return True

    def fork(self, branch: BranchId, count: int) -> list[BranchId]:
        """Copies, O(1) whatever the length. What the branch has not computed yet is computed once, for all of them."""
        state = self._idle(branch)
        check_integer("count", count, 0, 1 << 20)
        state.flush()
        if state.unsent:
            self._send(Prefill(self._runtime.router.next_id(), branch, state.hand_over()))
        return [self._fork_one(branch, state) for _ in range(count)]

    def _fork_one(self, branch: BranchId, state: BranchState) -> BranchId:
        id = self._runtime.router.next_id()
        self._branches[id] = state.copy()
        self._send(OpenLease(id, self._id, branch))
        return id

    def release(self, branch: BranchId) -> None:
        """Gives the branch back; its work is aborted. Releasing twice is no error."""
        if self._branches.pop(branch, None) is not None:
            self._send(ReleaseLease(branch))

    def text(self, branch: BranchId) -> str:
        """Everything that was appended and generated, special tokens as the template spells them."""
        return self._state(branch).whole_text()

    def tokens(self, branch: BranchId) -> list[int]:
        return self._state(branch).all_tokens()

    def length(self, branch: BranchId) -> int:
        """Tokens of the branch. Raises MissingByte when its text cannot be spelled."""
        return self._state(branch).flush()

    def close(self) -> None:
        """Aborts what runs and frees everything. Closing twice is no error."""
        if not self._closed:
            self._closed = True
            self._branches.clear()
            self._send(CloseSession(self._id))

    # Work

    def generate(self, branch: BranchId, spec: GenerateSpec) -> Generation:
        """Raises InvalidParameter, EmptyPrompt, PromptTooLong, MissingByte here; the first `__anext__` sends the
        request and raises what its constraint or the engine say (ConstraintError, Overloaded, EngineFault)."""
        state = self._idle(branch)
        check_spec(spec, self._tokenizer)
        self._begin(state, spec.max_tokens)
        state.busy = True
        return Generation(
            start=lambda: self._start(branch, state, spec), settle=lambda cut: self._settle(branch, state, cut),
            send=self._send, router=self._runtime.router,
        )

    async def _start(self, branch: BranchId, state: BranchState, spec: GenerateSpec) -> Started:
        self._check_open()
        constraint = None
        spelled: TokenBytes = self._tokenizer.token_bytes
        if spec.constraint is not None:
            constraint = (await self._runtime.compile(spec.constraint)).id
            if isinstance(spec.constraint, Tags):
                spelled = Shown(spelled, self._runtime.specials)
        if spec.thoughts is not None and not isinstance(spec.constraint, Tags):
            spelled = Shown(spelled, spec.thoughts.thinking.delimiters(self._runtime.specials))
        self._state(branch)  # it may have been released while the constraint was compiled
        box = self._runtime.router.open()
        seed = random.getrandbits(63) if spec.seed is None else spec.seed
        sampling = Sampling(
            temperature=float(spec.temperature), top_k=spec.top_k, top_p=float(spec.top_p), min_p=float(spec.min_p),
            seed=seed, stop_ids=spec.stop_ids, min_tokens=spec.min_tokens, ignore_end=bool(spec.ignore_end),
            logprobs=spec.logprobs,
            frequency_penalty=float(spec.frequency_penalty), presence_penalty=float(spec.presence_penalty),
            repetition_penalty=float(spec.repetition_penalty),
            logit_bias=tuple((token, float(bias)) for token, bias in spec.logit_bias),
        )
        self._send(Generate(box.request, branch, state.hand_over(), spec.max_tokens, sampling, constraint))
        return Started(box, Writer(spelled, spec))

    def _settle(self, branch: BranchId, state: BranchState, cut: Cut | None) -> None:
        """The branch takes over the tokens that stay; the engine's lease is cut to the same length.

        Raises RequestAborted when branch or session were closed meanwhile, even if the engine had been quicker."""
        state.busy = False
        if cut is not None and branch not in self._branches:
            closed = "the session was closed" if self._closed else "the branch was released"
            raise RequestAborted(f"{closed} before its answer was read")
        if cut is not None:
            state.take_answer(cut)
        if branch in self._branches:
            self._send(TrimLease(branch, state.sent))

    async def choose(self, branch: BranchId, choices: Sequence[str]) -> Scores:
        """Score every choice as the text that follows; the branch itself does not change. Raises like `generate`."""
        state = self._idle(branch)
        if not choices:
            raise InvalidParameter("there are no choices", where="choices", fix="Give at least one.")
        if "" in choices:
            raise InvalidParameter("a choice is empty", where=f"choices/{list(choices).index('')}")
        state.flush()
        encoded = tuple(tuple(state.encode_next(choice)) for choice in choices)
        self._begin(state, max(map(len, encoded)))
        chosen = await self._ask(state, lambda request, new: Choose(request, branch, new, encoded))
        if not isinstance(chosen, Chosen):
            raise EngineFault(f"a choice was answered by {type(chosen).__name__}", where="session")
        totals = tuple(sum(scores) for scores in chosen.logprobs)
        best = max(range(len(totals)), key=lambda index: (totals[index], -index))
        return Scores(totals, encoded, chosen.logprobs, best, chosen.usage)

    async def score(self, branch: BranchId, top: int = 0) -> tuple[TokenLogprob, ...]:
        """Log-probabilities of the branch's own tokens but the first, each given all before it, with `top` of the most
        likely ones. Raises like `generate`."""
        tokens = self.tokens(branch)
        check_length(len(tokens), 0, self._runtime.context)
        if len(tokens) == 1:
            return ()
        other = self.branch()
        try:
            state = self._idle(other)
            state.append_ids(tokens[:1])
            rest = (tuple(tokens[1:]),)
            chosen = await self._ask(state, lambda request, new: Choose(request, other, new, rest, top))
        finally:
            self.release(other)
        if not isinstance(chosen, Chosen):
            raise EngineFault(f"scores were answered by {type(chosen).__name__}", where="session")
        alternatives = chosen.top[0] if chosen.top else ((),) * len(rest[0])
        return tuple(map(TokenLogprob, chosen.logprobs[0], alternatives))

    async def prefill(self, branch: BranchId) -> Usage:
        """Compute the branch, so that forks of it share the work."""
        state = self._idle(branch)
        check_length(state.flush(), 0, self._runtime.context)
        done = await self._ask(state, lambda request, new: Prefill(request, branch, new))
        if not isinstance(done, Finished):
            raise EngineFault(f"a prefill was answered by {type(done).__name__}", where="session")
        return done.usage

    async def _ask(self, state: BranchState, build: Asking) -> Event:
        """Send a request that has one answer and wait for it; a caller that goes away aborts it."""
        box = self._runtime.router.open()
        state.busy = True
        self._send(build(box.request, state.hand_over()))
        answered = False
        try:
            event = await box.get()
            answered = True
            return event
        finally:
            state.busy = False
            self._runtime.router.close(box)
            if not answered:
                self._send(Abort(box.request))

    # State

    def _begin(self, state: BranchState, more: int) -> None:
        check_length(state.flush() or len(state.lead), more, self._runtime.context)
        state.begin()

    def _send(self, command: Command) -> None:
        self._runtime.link.send(command)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidParameter("the session is closed", where="session", fix="Open another one.")

    def _state(self, branch: BranchId) -> BranchState:
        self._check_open()
        state = self._branches.get(branch)
        if state is None:
            raise InvalidParameter(f"branch {branch} is not open in this session", where="branch")
        return state

    def _idle(self, branch: BranchId) -> BranchState:
        state = self._state(branch)
        if state.busy:
            raise InvalidParameter(
                f"branch {branch} is generating", where="branch", fix="Read the answer to its end, or fork before.",
            )
        return state
