"""`@function`: a Python function that writes to a state becomes a program that can be run, batched and streamed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import Any

from .errors import ProgramError
from .execution import Call, execute, execute_all, ignore, model_for
from .model import Model
from .state import BaseState, State
from .stream import Stream

Progress = bool | Callable[[int, int], None]
Item = Mapping[str, Any] | tuple[Any, ...] | list[Any]


def function(body: Callable[..., Any]) -> Function:
    """Make a program of a plain or async function whose first parameter is the state."""
    return Function(body)


class Function:
    """A program. Its own parameters may have any name; a parameter called `backend` is given by position or `bind`.

    Plain bodies run in a thread each, async bodies on the event loop of the model.
    """

    def __init__(self, body: Callable[..., Any], bound: Mapping[str, Any] | None = None) -> None:
        self._body = body
        self._bound = dict(bound or {})
        self._signature = _without_state(body)
        self._asynchronous = inspect.iscoroutinefunction(body)
        self.__name__ = getattr(body, "__name__", type(body).__name__)
        functools.update_wrapper(self, body)

    def run(self, /, *args: Any, backend: Model | None = None, **kwargs: Any) -> State:
        """Run to the end and return the final state. Raises what the body raises.

        backend: where to run; inside a program, the model of that program is the default.
        """
        call = self._call(args, kwargs)
        model = model_for(backend)
        return model.loop.call(lambda: execute(call, model, ignore)).unless_raised()

    async def arun(self, /, *args: Any, backend: Model | None = None, **kwargs: Any) -> State:
        """`run` for coroutines, on any event loop."""
        call = self._call(args, kwargs)
        model = model_for(backend)
        return (await model.loop.acall(lambda: execute(call, model, ignore))).unless_raised()

    def run_batch(
        self, items: Iterable[Item], *, backend: Model | None = None, concurrency: int = 32, progress: Progress = False
    ) -> list[State]:
        """One run an item, states in the items' order. A failing item is its state's `error`; the others go on.

        items: dicts by parameter, or tuples by position. All are checked before the first one runs.
        concurrency: most runs in flight. progress: True for a bar, or a function of (finished, total).
        """
        model = model_for(backend)
        calls = self._calls(items, concurrency)
        with _progress(progress, len(calls), self.__name__) as ended:
            return model.loop.call(lambda: execute_all(calls, model, concurrency, ended))

    async def arun_batch(
        self, items: Iterable[Item], *, backend: Model | None = None, concurrency: int = 32, progress: Progress = False
    ) -> list[State]:
        """`run_batch` for coroutines, on any event loop."""
        model = model_for(backend)
        calls = self._calls(items, concurrency)
        with _progress(progress, len(calls), self.__name__) as ended:
            return await model.loop.acall(lambda: execute_all(calls, model, concurrency, ended))

    def stream(self, /, *args: Any, backend: Model | None = None, **kwargs: Any) -> Stream:
        """Start a run; iterate over its events with `for` (or `async for`)."""
        call = self._call(args, kwargs)
        model = model_for(backend)
        return Stream(model.loop, lambda emit: execute(call, model, emit))

    astream = stream

    def bind(self, /, **kwargs: Any) -> Function:
        """A program with some arguments given. Arguments of a call win over bound ones."""
        self._refuse_unknown(kwargs)
        return Function(self._body, {**self._bound, **kwargs})

    def __get__(self, instance: object | None, owner: type | None = None) -> Function:
        """In a class a program is a method, `def f(self, s, ...)`: of an instance it has `self` already."""
        return self if instance is None else Function(MethodType(self._body, instance), self._bound)

    def __call__(self, state: BaseState | None = None, /, *args: Any, **kwargs: Any) -> Any:
        """Inside another program: run the body on that program's state. An async body is awaited."""
        if not isinstance(state, BaseState):
            raise ProgramError(
                f"{self.__name__} was called without a state", fix=f"Use {self.__name__}.run(..., backend=...)."
            )
        if self._asynchronous and isinstance(state, State):
            raise ProgramError(
                f"{self.__name__} is async and was called from a plain body", fix=f"Use {self.__name__}.run(...)."
            )
        arguments = self._call(args, kwargs).arguments
        return self._body(state, *arguments.args, **arguments.kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        self._refuse_unknown(kwargs)
        try:
            by_position = self._signature.bind_partial(*args).arguments
            bound = {name: value for name, value in self._bound.items() if name not in by_position}
            arguments = self._signature.bind(*args, **{**bound, **kwargs})
        except TypeError as error:
            raise ProgramError(f"{self.__name__}: {error}", fix=f"It is called as {self._shape()}.") from None
        return Call(self._body, arguments, self._asynchronous)

    def _calls(self, items: Iterable[Item], concurrency: int) -> list[Call]:
        if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
            raise ProgramError(f"concurrency must be an integer from 1 on, not {concurrency!r}", where="concurrency")
        if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
            raise ProgramError(
                f"items must be a list of dicts or tuples, not {type(items).__name__}", where="items",
                fix="Give one dict or tuple of arguments for each run.",
            )
        return [self._item(k, item) for k, item in enumerate(items)]

    def _item(self, k: int, item: Item) -> Call:
        if not isinstance(item, (Mapping, tuple, list)):
            raise ProgramError(
                f"an item must be a dict or a tuple of arguments, not {type(item).__name__}", where=f"items[{k}]",
                fix="Write a single argument as (x,).",
            )
        try:
            return self._call((), item) if isinstance(item, Mapping) else self._call(tuple(item), {})
        except ProgramError as error:
            raise ProgramError(error.message, where=f"items[{k}]", fix=error.fix) from None

    def _refuse_unknown(self, kwargs: Mapping[str, Any]) -> None:
        parameters = self._signature.parameters
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return
        unknown = [name for name in kwargs if name not in parameters]
        if unknown:
            raise ProgramError(
                f"{self.__name__} has no parameter {', '.join(map(repr, unknown))}", where=str(unknown[0]),
                fix=f"It is called as {self._shape()}.",
            )

    def _shape(self) -> str:
        return f"{self.__name__}{self._signature.replace(return_annotation=inspect.Signature.empty)}"


def _without_state(body: Callable[..., Any]) -> inspect.Signature:
    if not callable(body) or inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise ProgramError("a program must be a plain or async function", fix="Decorate `def f(s, ...)`.")
    signature = inspect.signature(body)
    first, *rest = signature.parameters.values() or [None]
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise ProgramError("a program needs the state as its first parameter", fix="Write `def f(s, ...)`.")
    return signature.replace(parameters=[parameter for parameter in rest if parameter is not None])


@contextmanager
def _progress(progress: Progress, total: int, name: str) -> Iterator[Callable[[], None]]:
    if callable(progress):
        finished = iter(range(1, total + 1))
        yield lambda: progress(next(finished), total)
    elif progress:
        from tqdm import tqdm

        with tqdm(total=total, desc=name) as bar:
            yield lambda: bar.update() and None
    else:
        yield lambda: None
