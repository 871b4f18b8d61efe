"""One event loop on its own thread, and jobs on it that any thread or other loop can wait for.

Why a thread: `run()` must work where a loop runs already (notebooks). Why one a model and not one a process: it ends
with its model, and there is no global to reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from .errors import BranchClosed, ProgramError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Job(Generic[T]):
    """A task on the loop. `outcome` is set when the task has really ended, its clean-up included."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Work[T], tasks: set[asyncio.Task[Any]]) -> None:
        """tasks: holds the job's task while it runs."""
        self.outcome: Future[T] = Future()
        self._loop = loop
        self._work = work
        self._tasks = tasks
        self._task: asyncio.Task[T] | None = None

    def launch(self) -> None:
        self._loop.call_soon_threadsafe(self._start)

    def cancel(self) -> None:
        """Ask the task to end; wait for `outcome` to know that it did."""
        if not self.outcome.done():
            self._loop.call_soon_threadsafe(self._cancel)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._work())
        self._tasks.add(self._task)
        self._task.add_done_callback(self._finish)

    def _cancel(self) -> None:
        """The loop keeps the order of calls: a job without a task was interrupted before it was launched."""
        if self._task is not None:
            self._task.cancel()
        elif not self.outcome.done():
            self.outcome.set_exception(BranchClosed("the run was cancelled"))

    def _finish(self, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self.outcome.set_exception(BranchClosed("the run was cancelled"))
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


class LoopThread:
    """Starts at the first job, ends at `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()

    def is_current(self) -> bool:
        return self._thread is not None and self._thread.ident == threading.get_ident()

    def soon(self, action: Callable[..., None], *args: Any) -> None:
        """Do `action` on the loop: now when called on it, else in the order of the calls."""
        if self.is_current():
            action(*args)
        else:
            self._running().call_soon_threadsafe(action, *args)

    def start(self, work: Work[T]) -> Job[T]:
        job = Job(self._running(), work, self._tasks)
        job.launch()
        return job

    def call(self, work: Work[T]) -> T:
        """Blocks for the result. When interrupted, cancels the work and waits for its clean-up."""
        if self.is_current():
            raise ProgramError(
                "a blocking call was made on the event loop of its own model",
                fix="Inside an async body use the awaited form (await f.arun(...), await s.get(...)).",
            )
        job = Job(self._running(), work, self._tasks)
        try:
            job.launch()  # an interrupt may come while the work is handed over
            return job.outcome.result()
        except (KeyboardInterrupt, SystemExit):
            job.cancel()
            job.outcome.exception()
            raise

    async def acall(self, work: Work[T]) -> T:
        """`call` for coroutines of any loop. When cancelled, cancels the work and waits for its clean-up."""
        if self.is_current():
            return await work()
        job = self.start(work)
        try:
            await ended(job.outcome)
        except asyncio.CancelledError:
            job.cancel()
            await ended(job.outcome)
            raise
        return job.outcome.result()

    def close(self, last: Work[None]) -> None:
        """Cancel all jobs, run `last`, end the thread. Does nothing the second time."""
        if self.is_current():
            raise ProgramError("a model cannot be closed by a program that runs on it")
        with self._lock:
            if self._closed:
                return
            loop = self._ensure()
            self._closed = True
        try:
            job = Job(loop, lambda: _wind_up(list(self._tasks), last), set())
            job.launch()
            job.outcome.result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not None:
                self._thread.join()
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise BranchClosed("the model was closed", fix="Open it again, or keep its `with` block open longer.")
            return self._ensure()

    def _ensure(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="espalier-loop", daemon=True)
            self._thread.start()
        return self._loop


async def _wind_up(jobs: Iterable[asyncio.Task[Any]], last: Work[None]) -> None:
    """The jobs first: each ends the tasks it began, in its own order. Then what the programs themselves left over."""
    await _cancel_all(jobs)
    await _cancel_all(asyncio.all_tasks())
    await last()
    await asyncio.get_running_loop().shutdown_asyncgens()


async def _cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    others = [task for task in tasks if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def ended(future: Future[Any]) -> None:
    """Wait for a future of another thread on the running loop; raise nothing of its outcome."""
    if not future.done():
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        future.add_done_callback(lambda _: _tell(loop, ready.set))
        await ready.wait()


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Clean-up that a cancellation must not cut short; the cancellation is raised when the work is done."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def in_thread(body: Callable[[], T]) -> T:
    """Run `body` in a thread of its own, with the caller's context variables.

    The thread is a daemon and not of a pool: a body that was cancelled, but does not come back from its own code, holds
    neither a worker nor the end of the process. How many run at once is the caller's limit.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(act: Callable[[], None]) -> None:
        if not future.done():
            act()

    def work() -> None:
        try:
            value = context.run(body)
        except BaseException as error:
            cause = error  # `error` is unbound when the handler ends
            _tell(loop, lambda: settle(lambda: future.set_exception(presentable(cause))))
        else:
            _tell(loop, lambda: settle(lambda: future.set_result(value)))

    threading.Thread(target=work, name="espalier-body", daemon=True).start()
    return await future


def _tell(loop: asyncio.AbstractEventLoop, news: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has closed, and who waited there is gone
        loop.call_soon_threadsafe(news)


def presentable(error: BaseException) -> Exception:
    """The error itself, or a ProgramError caused by it where an event loop could not carry it (SystemExit, ...)."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = ProgramError(f"the program raised {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
