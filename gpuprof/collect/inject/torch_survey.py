"""Has torch's own profiler record a program, in the program's own Python, and leaves its trace in a folder.

**From where to where.** From the first use of CUDA (programs fork until then) to the end of the process, as atexit and
multiprocessing know it. A signal that kills and `os._exit` leave nothing: the program would see a handler of ours for
SIGTERM, and one that hangs would live on by it. A recording also ends where the program starts a profiler of torch
itself, since there can be only one, and at a limit: of seconds, and of operators. An operator takes 0.4 KB until the
end, then 3 KB and 10 µs of work, and 0.4 KB in the trace, which is read as a whole.

**Where it may end.** Not in a thread of ours, and not wherever a clock strikes: autograd may be at work in threads of
its own, torch.compile trace, a CUDA graph be captured. Limits are looked at where the outermost module of a thread has
returned. For programs without modules a thread has Python look, four times a second, between two bytecodes of the main
thread; if that is in one of those, the recording goes on.

**Threads.** torch 2.7 or newer records the operators of all threads. Older ones record those of the main thread and of
autograd for it, and start there; of other threads there are the kernels alone.

**Forked children** neither record nor write what the parent began to record.

What goes wrong in here never reaches the program: the recording ends, and one line on stderr says so.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from _thread import start_new_thread
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import profiler

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprof.collect.inject import torch_compiling as compiling
    from gpuprof.collect.inject import torch_recording as recording
else:
    compiling = sys.modules["_gpuprof_torch_compiling"]
    recording = sys.modules["_gpuprof_torch_recording"]

_FOLDER = "GPUPROF_SURVEY_TO"
_SECONDS, _DEFAULT_SECONDS = "GPUPROF_SURVEY_SECONDS", 120.0
_OPERATORS, _DEFAULT_OPERATORS = "GPUPROF_SURVEY_OPERATORS", 500_000
_CPU = "GPUPROF_SURVEY_CPU"
"""For tests: record the CPU alone, at once if it is `now`, else from the first use of CUDA."""

_LOOK_EVERY_S, _LOOK_IS_OVER_S, _PATIENCE_S = 0.25, 0.01, 10.0
_STARTS = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")
_BUSY = ("torch.autograd", "torch.autograd.graph", "torch.autograd.function", "torch.cuda.graphs")
_THEIRS = "the survey with PyTorch's profiler ended when the program started that profiler itself"


class _State:
    """What is recorded. `process` is the one that began it, 0 before: a forked child has this state too.

    `waiting`: CUDA is in use, and the main thread has to begin. `asked`: another thread waits for the main one to end
    the recording. `inherited`: the profiler is on from before this process was forked.
    """

    def __init__(self) -> None:
        self.folder = Path(os.environ[_FOLDER])
        self.on_end: Callable[[], object] = bool
        self.process = 0
        self.recording = self.over = False
        self.waiting = self.asked = self.inherited = False
        self.began_s = 0.0
        self.done = threading.Event()
        self.lock = threading.RLock()


_state = _State()


def writer() -> tuple[Callable[[str], object], Callable[[], object]] | None:
    """Return functions that open and close an annotation in this thread; None where torch knows no CUDA."""
    return (recording.push, recording.pop) if torch.version.cuda is not None or os.environ.get(_CPU) else None


def install(on_end: Callable[[], object]) -> None:
    """Have the recording begin with the first use of CUDA; `on_end` is called when it has ended."""
    _state.on_end = on_end
    _give_way_to_profilers()
    atexit.register(_end_at_exit)
    os.register_at_fork(after_in_child=_leave_child_alone)
    if os.environ.get(_CPU) == "now":
        _begin()
    else:
        torch.cuda._lazy_call(_begin)


def begin(module: str) -> None:
    """Begin what could not begin where CUDA was first used; called where an outermost module is called."""
    if not _in_main_thread():
        return
    if _state.waiting:
        _begin()
    recording.note_outermost(module)


def rest() -> None:
    """End a recording that is to end; called where an outermost module has returned."""
    if _state.recording:
        why = _why_end()
        if why is not None:
            compiling.unseen(lambda: end(why) if _at_rest() else None)


def end(why: str = "") -> None:
    """End the recording of this process, if there is one, and write it; `why` tells of an early end."""
    if _state.process != os.getpid():
        return
    with _state.lock:
        if not _state.recording:
            return
        _state.recording, _state.over = False, True
        _state.done.set()
        try:
            recording.save(recording.stop(), _state.folder)
            if why:
                _note(why)
                recording.give_memory_back()
        except Exception as error:
            _fail(error)
        finally:
            _state.on_end()


# Beginning


def _begin() -> None:
    try:
        if _state.process:
            return
        if _state.over:
            _note(_THEIRS)
            return
        _state.waiting = not _may_end_here()
        if not _state.waiting:
            _state.process = os.getpid()
            recording.start(cpu_alone=bool(os.environ.get(_CPU)))
            _state.recording, _state.began_s = True, time.monotonic()
            _end_before_multiprocessing()
            start_new_thread(_watch, ())  # not of `threading`, whose threads a program can count
    except Exception as error:
        _fail(error)


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _end_before_multiprocessing() -> None:
    """Have a process of multiprocessing end its recording: a forked one never comes by atexit."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _end_at_exit, exitpriority=-100)


def _end_at_exit() -> None:
    with contextlib.suppress(KeyboardInterrupt, SystemExit):  # the program has ended, and its exit code stands
        end()


# Limits


def _why_end() -> str | None:
    """Return why the recording is to end now, if it is."""
    limit = None
    seconds, operators = _number(_SECONDS, _DEFAULT_SECONDS), _number(_OPERATORS, _DEFAULT_OPERATORS)
    if time.monotonic() - _state.began_s >= seconds:
        limit = f"{seconds:g} s"
    elif recording.operators() >= operators:
        limit = f"{operators:.0f} operators"
    elif _state.asked:
        return _THEIRS
    return limit and f"the survey with PyTorch's profiler ended at its limit of {limit}; the program went on"


@functools.lru_cache
def _number(variable: str, default: float) -> float:
    try:
        return float(os.environ.get(variable) or default)
    except ValueError:
        return default


def _watch() -> None:
    """Have Python look between two bytecodes of the main thread, when the recording is to end."""
    with contextlib.suppress(Exception):  # of a Python that comes to its end
        while not _state.done.wait(_LOOK_EVERY_S):
            if _why_end() is not None:
                ctypes.pythonapi.Py_AddPendingCall(_LOOK, None)


def _look(_: object) -> int:
    try:
        compiling.unseen(rest)
    except Exception as error:
        _fail(error)
    except BaseException as error:
        start_new_thread(_raise_again, (error, threading.get_ident()))
    return 0


def _raise_again(error: BaseException, thread: int) -> None:
    """Raise in a thread, once its look is over, what a signal handler of the program has raised in the look."""
    kind = again = type(error)
    if error.args:  # only a class can be raised in another thread
        namespace = {"__init__": lambda self, *_: kind.__init__(self, *error.args), "__module__": kind.__module__}
        again = type(kind.__name__, (kind,), namespace)
    time.sleep(_LOOK_IS_OVER_S)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(again))


_LOOK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_look)


def _at_rest() -> bool:
    """Tell whether this thread does nothing that the end of the recording would cut or disturb."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") in _BUSY:
            return False
        frame = frame.f_back
    return _may_end_here() and not (recording.annotated() or compiling.is_compiling() or recording.is_capturing())


def _may_end_here() -> bool:
    return recording.sees_all_threads() or _in_main_thread()


compiling.pass_over(begin, rest, _in_main_thread, _look, _why_end)
compiling.pass_over(recording.operators, recording.push, recording.pop, recording.note_outermost)


# What the program does besides


def _give_way_to_profilers() -> None:
    """End the recording for good when the program starts a profiler of torch, which would fail beside ours."""
    for name in _STARTS:
        start = getattr(torch.autograd, name, None)
        for module in (torch.autograd, profiler, sys.modules.get("torch.autograd.profiler_legacy")):
            if start is not None and hasattr(module, name):
                setattr(module, name, _giving_way(start))


def _giving_way(start: Any) -> Any:
    @functools.wraps(start)
    def give_way_and_start(*args: Any, **kwargs: Any) -> Any:
        _give_way()
        return start(*args, **kwargs)

    return give_way_and_start


def _give_way() -> None:
    if _state.inherited:
        _state.inherited = False
        recording.drop()
    elif _state.recording:
        if _may_end_here():
            end(_THEIRS)
        else:
            _have_main_thread_end()
        _tell(_THEIRS)
    _state.over = True


def _have_main_thread_end() -> None:
    """Wait until the main thread, the only one that can, has ended the recording: another profiler would crash."""
    _state.asked = True
    until = time.monotonic() + _PATIENCE_S
    while _state.recording:
        if time.monotonic() > until:
            raise RuntimeError("gpuprof records the main thread, and two torch profilers cannot run at the same time")
        time.sleep(_LOOK_EVERY_S)
    with _state.lock:  # until it is written
        pass


def _leave_child_alone() -> None:
    """In a forked child: record nothing of it with the parent's recording, and let it end.

    The profiler's thread is not there, and at a normal exit its destructor would wait for it forever. So the child ends
    before C++ destructors run, after C has written its files.
    """
    _state.lock = threading.RLock()
    if not _state.process:
        return
    if _state.recording:
        _state.recording, _state.over, _state.inherited = False, True, True
        recording.drop_in_child()
        _state.on_end()
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)
    getattr(libc, "__cxa_atexit")(libc.fflush, None, None)


def _note(text: str) -> None:
    (_state.folder / f"torch-{os.getpid()}.note").write_text(f"{text}\n", encoding="utf-8")


def _fail(error: Exception) -> None:
    _state.over = True
    text = f"the survey with PyTorch's profiler failed: {type(error).__name__}: {error}"
    with contextlib.suppress(OSError):
        _note(text)
    _tell(text)
    _state.on_end()


def _tell(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"gpuprof: {text}\n")
