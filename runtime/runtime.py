"""A model, ready: sessions in front, an engine behind a link."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from ..grammars.constraint import Constraint
from .call_format import CallFormat
from .compiler import Compile, Compiled, Compiler
from .config import EngineConfig
from .errors import EngineFault, InvalidParameter
from .link import EngineLink
from .messages import AskStats, Command, Event, LoadWeights, Stats, WeightsLoaded
from .router import Router
from .session import Session
from .specials import named_specials, naming_specials
from .thinking import Thinking
from .words import Template, Words


class Runtime:
    """Safe to use from several event loops, each session from its own. Close it to end the engine."""

    def __init__(self, *, link: EngineLink, tokenizer: Words, template: Template, model_name: str,
                 context: int, compile: Compile | None = None, end_compile: Callable[[], None] | None = None) -> None:
        """compile: a constraint -> its encoded grammar; None: this runtime takes no constraints. end_compile: called by
        `close`, ends what `compile` runs in."""
        self.link = link
        self.tokenizer = tokenizer
        self.specials = named_specials(tokenizer)
        self.template = template
        self.model_name = model_name
        self.context = context
        self.router = Router()
        self._compiler = Compiler(compile or _no_constraints, send=link.send, next_id=self.router.next_id)
        self._end_compile = end_compile
        link.listen(self.router.deliver)

    @classmethod
    def load(cls, model: str, config: EngineConfig | None = None, *, process: bool = False,
             progress: Callable[[str], None] | None = None) -> Runtime:
        """model: a name of the catalogue (fetched once), or the path of a .gguf file or of a folder in the form of
        Hugging Face. process: the engine runs in a process of its own, and constraints are compiled in others.
        progress: told in words what is being done. Raises ModelError."""
        from .loading import load_runtime

        return load_runtime(model, config or EngineConfig(), process=process, progress=progress or (lambda words: None))

    @property
    def calls(self) -> CallFormat:
        """How the model writes calls of functions."""
        return self.template.calls

    @property
    def thinking(self) -> Thinking | None:
        """How it thinks before it answers; None: it is not known to."""
        return self.template.thinking

    @property
    def switches(self) -> Collection[str]:
        """By which the chat template is told whether it thinks."""
        return self.template.switches

    def spelled(self, token: int) -> bytes:
        """The bytes of a token; a special one is spelled as templates write it."""
        if token in self.tokenizer.special_ids:
            return self.tokenizer.text_of_special(token).encode()
        return self.tokenizer.token_bytes[token] if token < self.tokenizer.vocab_size else b""

    def session(self, salt: str = "", adapter: str = "") -> Session:
        """salt: the tenant; two salts never share a page. adapter: the same, kept apart from salts for weights that are
        adapted for a session; this runtime computes none."""
        return Session(self, salt, adapter)

    async def stats(self) -> Stats:
        """Raises EngineFault when the engine has ended."""
        answer = await self._ask(AskStats)
        if not isinstance(answer, Stats):
            raise EngineFault(f"the engine answered with {type(answer).__name__}", where="stats")
        return answer

    async def load_weights(self, path: str | Path, *, end: bool = False) -> int:
        """Compute with the weights of another file or folder of this model: of the same shape, tokenizer and chat
        template. The file is read while the engine goes on. Then requests that have begun are finished with the old
        weights, or end with WeightsReplaced (end); nothing that was cached of the old ones stays; what waits is
        computed with the new ones. Branches keep their tokens. Returns how many weights there were so far, the first
        included.

        Raises WeightsError (the old weights stay), Overloaded while others are being loaded. Who stops waiting for it
        does not stop it."""
        file = _absolute(path)
        answer = await self._ask(lambda request: LoadWeights(request, file, end))
        if not isinstance(answer, WeightsLoaded):
            raise EngineFault(f"the engine answered with {type(answer).__name__}", where="weights")
        return answer.load

    async def _ask(self, command: Callable[[int], Command]) -> Event:
        """command: of the id that its one answer will have."""
        box = self.router.open()
        try:
            self.link.send(command(box.request))
            return await box.get()
        finally:
            self.router.close(box)

    async def compile(self, constraint: Constraint) -> Compiled:
        """Compiled off the event loop, kept in an LRU bounded by bytes, known to the engine. Raises ConstraintError."""
        return await self._compiler.compiled(naming_specials(constraint, self.specials))

    def close(self) -> None:
        """Open requests fail with EngineFault."""
        self.link.close()
        self._compiler.close()
        if self._end_compile is not None:
            self._end_compile()
        self.template.close()


def _no_constraints(constraint: Constraint) -> bytes:
    raise InvalidParameter("this runtime was built without a compiler of constraints", where="constraint")


def _absolute(path: str | Path) -> str:
    """The engine may run elsewhere."""
    return str(Path(path).expanduser().absolute())


def name_of(model: str) -> str:
    """What a model is served as: its catalogue name, the file's name without its ending, or the folder's."""
    path = Path(model).expanduser()
    if model.endswith(".gguf"):
        return path.stem
    return path.resolve().name if path.is_dir() else model
