"""From a model's name to an engine and a runtime. Torch is imported here, inside the functions, and nowhere before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..grammars.constraint import Constraint
from ..grammars.library import Library
from .config import EngineConfig
from .constraints import Constraints
from .specials import named_specials
from .words import Words

if TYPE_CHECKING:
    from .engine import Engine
    from .executor import Executor
    from .models.llama import Llama
    from .runtime import Runtime

Progress = Callable[[str], None]


def load_runtime(model: str, config: EngineConfig, *, process: bool, progress: Progress) -> Runtime:
    from .catalogue import resolve
    from .compile_process import CompileProcess
    from .link import EngineLink, ThreadLink
    from .models.files import open_model
    from .process_link import Boot, ProcessLink
    from .runtime import Runtime, name_of
    from .template import ChatTemplate
    from .tokenizer import Tokenizer

    path = resolve(model, progress=progress)
    progress(f"reading {path.name}")
    files = open_model(path)
    context = min(config.context or files.config.context, files.config.context)
    tokenizer = Tokenizer(files.vocabulary(), context=context)
    with ExitStack() as undo:
        template = ChatTemplate(files.template(), tokenizer)
        undo.callback(template.close)
        progress("starting the engine")
        link: EngineLink
        compiler: CompileProcess | None = None
        if process:
            compiler = CompileProcess()  # it gets ready while the engine does
            undo.callback(compiler.close)
            link = ProcessLink.start(Boot(model=str(path), config=config))
        else:
            link = ThreadLink(load_engine(path, config, tokenizer))
        undo.pop_all()
    return Runtime(
        link=link, tokenizer=tokenizer, template=template, model_name=name_of(model), context=context,
        compile=compiler.compile if compiler else partial(compile_grammar, library=Library()),
        end_compile=compiler.close if compiler else None,
    )


def load_engine(path: Path, config: EngineConfig, tokenizer: Words | None = None) -> Engine:
    """The engine of a .gguf file or of a folder, with torch behind it. Raises ModelError."""
    from .engine import Engine
    from .models.files import open_model
    from .models.load import load_model
    from .sizing import sized
    from .tokenizer import Tokenizer

    words: Words = tokenizer or Tokenizer(open_model(path).vocabulary())
    model = load_model(path, config)
    config = sized(config, model)
    executor = executor_of(model, config)
    grammars = bind_grammars(words, executor.vocabulary_size, config)
    return Engine(executor, config, end_ids=words.stop_ids, constraints=grammars)


def executor_of(model: Llama, config: EngineConfig) -> Executor:
    """For the device of the configuration, on which the model was loaded. Raises InvalidParameter."""
    from .paged_executor import PagedExecutor
    from .torch_executor import TorchExecutor

    return PagedExecutor(model, config) if config.device == "cuda" else TorchExecutor(model, config)


def bind_grammars(words: Words, size: int, config: EngineConfig) -> Constraints:
    """Grammars over the vocabulary of these words. size: width of the logits."""
    from ..grammars.compiled import CompiledGrammar
    from ..grammars.ir import Grammar
    from ..grammars.rows import MaskTable
    from ..grammars.standard import prepare_bodies
    from ..grammars.vocabulary import Vocabulary

    vocabulary = Vocabulary(
        words.token_bytes, special=words.special_ids, stop=words.stop_ids, encode=words.encode_exactly, size=size,
        specials=named_specials(words),
    )
    prepare_bodies(vocabulary)
    table = MaskTable(size, config.mask_bytes)
    decoder = msgspec.msgpack.Decoder(Grammar)
    return Constraints(
        lambda grammar: CompiledGrammar(decoder.decode(grammar), vocabulary, table), lambda: table.array,
        lambda: table.version,
    )


def compile_grammar(constraint: Constraint, library: Library | None = None) -> bytes:
    """The encoded grammar of a constraint. library: what earlier compilations made. Raises ConstraintError."""
    from ..grammars.compile import compile_constraint

    return msgspec.msgpack.encode(compile_constraint(constraint, library=library))
