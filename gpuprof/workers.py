"""Does work in several processes: each gets a job at a time, and one that dies or hangs costs its job alone.

The processes are forks of this one, so that a job is a few numbers and what they stand for need not be sent. They are
in process groups of their own: Ctrl-C reaches the parent, which ends them and waits for them to clear up.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from gpuprof.errors import GpuprofError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

Answer = TypeVar("Answer")
Job = list[int]

_CLEARS_UP_S = 3.0
_PATIENCE_S = 600.0
_JOBS = 8
"""Each process gets so many jobs of a list, so that they end at about the same time."""
_GARBAGE = 100_000
"""So many new objects lead to a search for garbage: a review makes millions, and next to no garbage in circles."""
_SENT = (pickle.UnpicklingError, EOFError, OSError)


class Worth(NamedTuple):
    """How much work is worth several processes at all, and how much each of them.

    A process takes 15 ms of processors, and what it answers has to be sent: that should be a small part of its work.
    """

    least: int
    each: int


def processors() -> int:
    """Return how many processes may run at a time; 1 where none can be forked, as in a worker of a pool."""
    from multiprocessing import current_process, get_all_start_methods

    if "fork" not in get_all_start_methods() or sys.platform == "darwin" or current_process().daemon:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes_for(amount: int, worth: Worth) -> int:
    """Return how many processes an amount of work is worth, as far as there are processors for them."""
    return max(1, min(processors(), amount // worth.each)) if amount >= worth.least else 1


def made_by_workers(numbers: Sequence[int], make: Callable[[int], Answer], worth: Worth) -> Iterator[Answer]:
    """Yield what `make` gives for each number from 0 on, in their order; by several processes where it is worth it.

    `numbers` are all of them, in any order; neighbours in it are made by the same process. What a process could not
    make is made here, so that its error is raised here.
    """
    count = processes_for(len(numbers), worth)
    if count < 2:
        made_here = {number: make(number) for number in numbers}
        yield from (made_here[number] for number in range(len(numbers)))
        return
    size = -(-len(numbers) // (count * _JOBS))
    jobs = [list(numbers[first : first + size]) for first in range(0, len(numbers), size)]

    def made(job: Job) -> list[Answer]:
        try:
            return [make(number) for number in job]
        except GpuprofError:
            return []

    done: dict[int, Answer] = {}
    following = 0
    for job, answers in done_by_workers(jobs, made, count, lambda _: _PATIENCE_S):
        done.update(zip(job, answers, strict=True) if answers else ())
        while following in done:
            yield done.pop(following)
            following += 1
    for number in range(following, len(numbers)):
        yield done.pop(number) if number in done else make(number)


def done_by_workers(
    jobs: Iterable[Job], work: Callable[[Job], Answer], count: int, patience_s: Callable[[Job], float]
) -> Iterator[tuple[Job, Answer | None]]:
    """Yield what became of each job, in the order in which they end.

    A job whose process dies, or takes longer than it may, is halved and tried again; None for one that cannot be.
    """
    waiting = iter(jobs)
    again: deque[Job] = deque()
    workers: list[_Worker[Answer]] = []
    try:
        while True:
            busy = [worker for worker in workers if worker.job is not None]
            job = again.popleft() if again else next(waiting, None) if len(busy) < count else None
            if job is not None and len(busy) >= count:
                again.appendleft(job)
            elif job is not None:
                idle = next((worker for worker in workers if worker.job is None), None)
                if idle is None:
                    idle = _Worker(work, [worker.pipe for worker in workers])
                    workers.append(idle)
                idle.begin(job, patience_s(job))
                continue
            if not busy:
                return
            for worker, job, result in _ended(busy):
                if result is not None or len(job) < 2:
                    yield job, result
                else:
                    again += [job[: len(job) // 2], job[len(job) // 2 :]]
                if result is None:
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.end()


def begun(make: Callable[[], Answer]) -> Callable[[], Answer]:
    """Start work in another process, and return a function that waits for its answer.

    The function does the work itself if there is no other processor, or if the other process failed: errors are raised
    here.
    """
    if processors() < 2:
        return cache(make)

    def made(_: Job) -> Answer | None:
        with suppress(Exception):
            return make()
        return None

    worker = _Worker(made, [])
    worker.begin([], _PATIENCE_S)

    @cache
    def answer() -> Answer:
        try:
            (_, _, answer), *_ = _ended([worker])
        finally:
            worker.end()
        return answer if answer is not None else make()

    return answer


def _ended(busy: list[_Worker[Answer]]) -> Iterator[tuple[_Worker[Answer], Job, Answer | None]]:
    """Wait until a job has ended or its time is over, and yield those."""
    from multiprocessing import connection

    first = min(worker.until_s for worker in busy)
    ready = connection.wait([worker.pipe for worker in busy], max(0.0, first - time.monotonic()))
    for worker in busy:
        job = worker.job or []
        if worker.pipe in ready:
            yield worker, job, worker.result()
        elif time.monotonic() >= worker.until_s:
            worker.end()
            yield worker, job, None


class _Worker(Generic[Answer]):
    """One process. `job` is what it does; `until_s`, by the monotonic clock, when that has to be done."""

    def __init__(self, work: Callable[[Job], Answer], others: list[Connection[Any, Any]]) -> None:
        from multiprocessing import get_context

        fork = get_context("fork")
        self.pipe, theirs = fork.Pipe()
        self.job: Job | None = None
        self.until_s = 0.0
        self._process: ForkProcess = fork.Process(target=_serve, args=(work, theirs, [self.pipe, *others]), daemon=True)
        with warnings.catch_warnings():
            # Python warns of fork() in a process with threads; the child does its work and ends by _exit.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        theirs.close()

    def begin(self, job: Job, patience_s: float) -> None:
        """Send it a job; a process that is gone shows when its result is asked for."""
        self.job, self.until_s = job, time.monotonic() + patience_s
        with suppress(OSError):
            self.pipe.send(job)

    def result(self) -> Answer | None:
        """Return what became of its job; None where it died, and then it is at an end."""
        self.job = None
        try:
            result: Answer = self.pipe.recv()
        except _SENT:
            self.end()
            return None
        return result

    def end(self) -> None:
        """End the process: it gets a moment to end what it started and to clear up."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(_CLEARS_UP_S)
        if self._process.is_alive():
            with suppress(OSError):
                os.killpg(self._process.pid or 0, signal.SIGKILL)
            self._process.kill()
            self._process.join()


def _serve(work: Callable[[Job], Answer], pipe: Connection[Any, Any], others: list[Connection[Any, Any]]) -> None:
    """Do jobs until the pipe is closed."""
    with suppress(OSError):
        os.setpgid(0, 0)
    for which in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(which, _leave)
    for other in others:
        other.close()
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    with suppress(EOFError, OSError, SystemExit):
        while True:
            pipe.send(work(pipe.recv()))
    os._exit(0)


def _leave(*_: object) -> None:
    raise SystemExit
