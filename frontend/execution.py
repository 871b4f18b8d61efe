"""One run of a program, and many: sessions opened and closed around bodies, whatever happens inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import BoundArguments
from typing import Any

from .async_state import AsyncState
from .backends.base import Backend
from .errors import ProgramError
from .interpreter import Emit, Interpreter
from .loop import in_thread, presentable, to_the_end
from .model import Model
from .state import BaseState, State

# The model of the run that the current body belongs to, so that a program can run another one without naming it again.
_current: ContextVar[Model | None] = ContextVar("espalier_model", default=None)


@dataclass(frozen=True, slots=True)
class Call:
    """A body with its arguments, the state excepted."""

    body: Callable[..., Any]
    arguments: BoundArguments
    asynchronous: bool


def model_for(backend: Model | None) -> Model:
    """`backend`, or the model of the surrounding run."""
    model = backend if backend is not None else _current.get()
    if model is None:
        raise ProgramError("no backend was given", where="backend", fix="Pass backend=esp.local(...).")
    if not isinstance(model, Model):
        raise ProgramError(
            f"backend must be a model handle, not {type(model).__name__}", where="backend",
            fix="Open one with esp.local.",
        )
    return model


async def execute(call: Call, model: Model, emit: Emit) -> State:
    """Run to the end: the body, everything it queued, all branches; then free them all.

    Raises nothing but a cancellation: what went wrong is the state's error.
    """
    session = model.session()
    root = Interpreter(session, emit)
    face = AsyncState(root, model.loop) if call.asynchronous else State(root, model.loop)
    result, raised = None, None
    try:
        try:
            await session.open()
            await root.begin(await session.branch())
            result = await _run_body(call, face, model)
            await root.settle()
        except Exception as error:
            raised = root.ended_by = error
        finally:
            await to_the_end(_free(root, session))
    except Exception as error:
        raised = raised or error  # what went wrong first is the cause
    return State.ended(face, result, raised)


async def _free(root: Interpreter, session: Backend) -> None:
    try:
        await root.stop()
    finally:
        await session.close()


async def _run_body(call: Call, face: BaseState, model: Model) -> Any:
    token = _current.set(model)
    try:
        if not call.asynchronous:
            return await in_thread(lambda: call.body(face, *call.arguments.args, **call.arguments.kwargs))
        return await call.body(face, *call.arguments.args, **call.arguments.kwargs)
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        raise presentable(error) from error
    finally:
        _current.reset(token)


async def execute_all(
    calls: Sequence[Call], model: Model, concurrency: int, ended: Callable[[], None]
) -> list[State]:
    """States in the order of the calls, at most `concurrency` in flight. `ended` is called after each."""
    states: list[State | None] = [None] * len(calls)
    pending = iter(enumerate(calls))

    async def work() -> None:
        for k, call in pending:
            states[k] = await execute(call, model, ignore)
            ended()

    # Not a TaskGroup: an error of `ended` shall reach the caller as it is, not inside an ExceptionGroup.
    workers = [asyncio.create_task(work()) for _ in range(min(concurrency, len(calls)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [state for state in states if state is not None]


def ignore(event: object) -> None:
    """For runs that nobody streams."""
