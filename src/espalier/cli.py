"""The command line: models, prepare, serve, grammar. Rooms are imported inside commands, so that --help is quick."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from .grammars.check import CaseReport, SampleReport
    from .grammars.ir import Grammar
    from .grammars.rows import MaskTable
    from .grammars.vocabulary import Vocabulary

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="A prefix-caching runtime for structured-generation programs.")
models = typer.Typer(no_args_is_help=True, help="Models by name.")
grammar = typer.Typer(no_args_is_help=True, help="Constraints, without a model.")
app.add_typer(models, name="models")
app.add_typer(grammar, name="grammar")


def fail(error: Exception) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(2)


def tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("espalier"))
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Say it.")] = False,
) -> None:
    """A prefix-caching runtime for structured-generation programs."""


@models.command("list")
def models_list() -> None:
    """Names that can be given in place of a file."""
    from .runtime.catalogue import CATALOGUE, cached_path

    for name, entry in CATALOGUE.items():
        path = cached_path(name)
        typer.echo(f"{name}\t{entry.description}\t{path if path else 'not fetched'}")


@models.command("pull")
def models_pull(name: str) -> None:
    """Fetch a model once into the cache."""
    from .grammars.errors import EspalierError
    from .runtime.catalogue import resolve

    try:
        typer.echo(resolve(name, progress=lambda line: typer.echo(line, err=True)))
    except EspalierError as error:
        fail(error)


@models.command("path")
def models_path(name: str) -> None:
    """Where a fetched model lies; an error when it was not fetched."""
    from .grammars.errors import EspalierError
    from .runtime.catalogue import cached_path

    try:
        path = cached_path(name)
    except EspalierError as error:
        fail(error)
    if path is None:
        fail(EspalierError(f"{name} is not fetched", fix=f"Run: espalier models pull {name}"))
    typer.echo(path)


@app.command()
def prepare(
    processes: Annotated[int, typer.Option(min=0, help="Processes that compile; 0: one for each core, at most 4.")] = 0,
) -> None:
    """Compile the grammar engine for this machine now, not at its first use; seconds where that was done before."""
    from os import sched_getaffinity
    from time import perf_counter

    begun = perf_counter()
    from .grammars.ahead import compile_ahead
    from .grammars.errors import EspalierError

    try:
        compile_ahead(processes or min(len(sched_getaffinity(0)), 4))
    except EspalierError as error:
        fail(error)
    typer.echo(f"espalier.grammars: ready after {perf_counter() - begun:.1f} s")


@app.command()
def serve(
    model: str,
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one.")] = 8000,
    api_key: Annotated[str | None, typer.Option(envvar="ESPALIER_API_KEY", help="Ask callers for this key.")] = None,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Arithmetic of the model.")] = "bfloat16",
    pages: Annotated[int, typer.Option(help="KV pages of 16 tokens; 0: 2048, on a GPU what fits.")] = 0,
    context: Annotated[int, typer.Option(help="Most tokens of one conversation; 0: what the model allows.")] = 0,
    step_tokens: Annotated[int, typer.Option(help="Most tokens computed in one step; 0: 512, on a GPU 2048.")] = 0,
    max_rows: Annotated[int, typer.Option(help="Most answers computed in one step.")] = 64,
    threads: Annotated[int, typer.Option(help="CPU threads; 0: all cores.")] = 0,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where the model and its KV pool are.")] = "cpu",
    exact: Annotated[bool, typer.Option(help="Answers do not depend on cache and batch, bit for bit.")] = False,
    weights: Annotated[Path | None, typer.Option(help="Folder that other weights may be loaded from.")] = None,
    admin_key: Annotated[str | None, typer.Option(envvar="ESPALIER_ADMIN_KEY", help="Who may load them.")] = None,
) -> None:
    """Answer OpenAI clients."""
    from .grammars.errors import EspalierError
    from .runtime.config import EngineConfig
    from .runtime.server.serve import serve as run

    try:
        config = EngineConfig(dtype=dtype, pages=pages, context=context, step_tokens=step_tokens, max_rows=max_rows,
                              threads=threads, device=device, exact=exact)
        run(model, host=host, port=port, config=config, api_key=api_key, weights=weights, admin_key=admin_key)
    except EspalierError as error:
        fail(error)


def producer(tokenizer: Path | None) -> Callable[[Grammar], Callable[[str], bool]]:
    """For a grammar, a test whether the text's own tokenization passes its rows (overlays of laws 4 and 5 off). What
    compiles at its first import waits for the first grammar, so that a bad one is told of at once."""
    encode: Callable[[str], list[int]] = lambda text: list(text.encode("utf-8"))  # noqa: E731
    words = None
    if tokenizer is not None:
        from .runtime.tokenizer_file import read_tokenizer_file

        words = read_tokenizer_file(tokenizer)
        encode = words.encode

    @cache
    def engine() -> tuple[Vocabulary, MaskTable]:
        from .grammars.rows import MaskTable
        from .grammars.vocabulary import Vocabulary

        vocabulary = Vocabulary.bytes_only() if words is None else Vocabulary(
            words.tokens, special=words.special, stop=words.stop, encode=encode)
        return vocabulary, MaskTable(vocabulary.size)

    def of(compiled_ir: Grammar) -> Callable[[str], bool]:
        from .grammars.compiled import CompiledGrammar
        from .grammars.errors import ConstraintTooLarge

        compiled = CompiledGrammar(compiled_ir, *engine())

        def can_produce(text: str) -> bool:
            matcher = compiled.matcher(forcing=False, closing=False)
            before = matcher.left_out
            try:
                for token in encode(text):
                    if not matcher.allows(token):
                        break
                    matcher.accept(token)
                else:
                    if matcher.may_end():
                        return True
                if matcher.left_out > before:
                    raise ConstraintTooLarge("the text can be read in more ways at once than are followed",
                                             keyword="ambiguity", fix="Make the alternatives differ earlier.")
                return False
            finally:
                matcher.close()

        return can_produce

    return of


@grammar.command("check")
def grammar_check(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Case files; with --schema, JSON samples, or none.", exists=True)
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="Check samples against this schema.", exists=True)] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json; default: bytes.", exists=True)] = None,
    spacing: Annotated[
        Literal["compact", "spaced", "indented", "any"], typer.Option(help="With --schema.")
    ] = "compact",
    order: Annotated[Literal["schema", "any"], typer.Option(help="Of keys, with --schema.")] = "schema",
    formats: Annotated[
        Literal["assertion", "annotation"], typer.Option("--format", help="Whether formats hold, with --schema.")
    ] = "assertion",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a case.")] = False,
    complete: Annotated[bool, typer.Option(help="Also fail on inputs refused without a policy for it.")] = False,
) -> None:
    """Compile constraints and say for every sample text whether the engine can produce it."""
    from .grammars.check import Skipped, check_case, check_samples, read_case
    from .grammars.constraint import JsonSchema
    from .grammars.errors import EspalierError

    if schema is None and not files:
        fail(EspalierError("there is nothing to check", fix="Name case files, or a schema with --schema."))
    failed = False
    try:
        produce = producer(tokenizer)
        if schema is not None:
            samples = {str(path): path.read_text(encoding="utf-8") for path in files or ()}
            asked = JsonSchema(schema.read_text(encoding="utf-8"), spacing, format=formats, order=order)
            report = check_samples(asked, samples, produce)
            say_samples(report, as_json)
            raise typer.Exit(1 if report.failures else 0)
        for path in files or ():
            verdict = check_case(read_case(path.read_text(encoding="utf-8")), produce, complete=complete)
            if isinstance(verdict, Skipped):
                typer.echo(f"{verdict.id}: skipped, a case of kind {verdict.kind}", err=as_json)
                continue
            say_case(verdict, as_json)
            failed = failed or bool(verdict.failures)
    except (EspalierError, UnicodeDecodeError) as error:
        fail(error)
    raise typer.Exit(1 if failed else 0)


def say_case(report: CaseReport, as_json: bool) -> None:
    if as_json:
        typer.echo(report.line())
    elif report.error is not None:
        typer.echo(f"{report.id}: refused, {report.error.keyword} at {report.error.pointer}: {report.error.message}")
    else:
        lists = {"valid": report.valid, "invalid": report.invalid, "may": report.may, "should_not": report.should_not}
        counts = ", ".join(f"{name} {sum(texts)} of {len(texts)}" for name, texts in lists.items() if texts)
        typer.echo(f"{report.id}: compiled in {report.ms:.1f} ms; can be produced: {counts or 'no texts given'}")
    for failure in report.failures:
        typer.echo(f"  FAILED {failure}", err=as_json)


def say_samples(report: SampleReport, as_json: bool) -> None:
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(report))
        return
    if report.compiled:
        typer.echo(f"the schema compiled in {report.ms:.1f} ms")
    for name, accepted in report.accepted.items():
        typer.echo(f"{name}: {'can' if accepted else 'cannot'} be produced")
    for failure in report.failures:
        typer.echo(f"  FAILED {failure}")


def main() -> None:
    app(prog_name="espalier")
