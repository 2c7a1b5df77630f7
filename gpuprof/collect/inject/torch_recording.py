"""Drives torch's own profiler for the survey: starts and stops it, writes annotations into it, and saves its trace.

Python 3.8 or newer, torch 1.13 or newer, the standard library alone: this runs in the program's own Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gzip
import json
import operator
import os
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import profiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_GPU_PATIENCE_S = 5.0
_HOLD_US = 20_000
_SILENT = 99
_BLOCK = 512
"""Operators in a block of torch's queue; the variable at `_BLOCKS` counts blocks."""
_BLOCKS = (
    "_ZZN5torch8profiler4impl19ThreadLocalSubqueue14TorchOpStorage10EventBlockI"
    "NS1_21KinetoObserverContext5EventELm512EEC4EvE8counter_"
)
_LOG_LEVEL = "_ZN9libkineto6Logger14severityLevel_E"
_UNWRITABLE = dict.fromkeys((*range(32), ord('"'), ord("\\"), 127), "_")

_prepare, _enable = torch.autograd._prepare_profiler, torch.autograd._enable_profiler
_open, _close = torch.autograd._record_function_with_args_enter, torch.autograd._record_function_with_args_exit


class _Thread(threading.local):
    """The annotations that are open in a thread, outermost first; None for what was opened while nothing recorded."""

    def __init__(self) -> None:
        self.handles: list[Any] = []


class _State:
    """Whether something is recorded, how many blocks of operators were before that, which annotations were written, and
    which of them are outermost modules."""

    def __init__(self) -> None:
        self.on = False
        self.blocks_before = 0
        self.written: dict[str, None] = {}
        self.outermost: dict[str, None] = {}


_state = _State()
_thread = _Thread()


# Starting


@functools.lru_cache
def configuration() -> tuple[Any, bool]:
    """Return the profiler's configuration, and whether it records the operators of all threads.

    `trace_only` spares a third of the work at the end: that for what torch.profiler returns to Python.
    """
    for options in ({"profile_all_threads": True, "trace_only": True}, {"profile_all_threads": True}, {}):
        with contextlib.suppress(TypeError):  # an option that this torch does not have
            extra = profiler._ExperimentalConfig(**options)
            settings = (True, False, False, False, False, extra)  # shapes; no memory, stacks, FLOP, modules
            return profiler.ProfilerConfig(profiler.ProfilerState.KINETO, *settings), bool(options)
    raise RuntimeError("this torch's profiler cannot be configured")


def sees_all_threads() -> bool:
    """Tell whether operators are recorded in all threads, else in the one that starts and in autograd's for it.

    A recording of all threads may also be stopped in any of them.
    """
    return configuration()[1]


def start(*, cpu_alone: bool) -> None:
    """Start to record. Raises RuntimeError if this torch cannot record what a GPU does."""
    activities = {activity for activity in torch.autograd._supported_activities() if activity.name in ("CPU", "CUDA")}
    if cpu_alone:
        activities = {profiler.ProfilerActivity.CPU}
    elif len(activities) < 2:
        raise RuntimeError("this build of torch cannot record GPU activity")
    _quietly(_prepare, configuration()[0], activities)
    _quietly(_enable, configuration()[0], activities)
    getattr(profiler, "_run_on_profiler_start", bool)()  # has the compiler name its kernels
    _state.blocks_before = _blocks()
    _state.on = True


def operators() -> int:
    """Return how many operators and annotations have been recorded, in blocks; 0 where torch does not let us know."""
    return (_blocks() - _state.blocks_before) * _BLOCK


def _blocks() -> int:
    counter = _variable(_BLOCKS, ctypes.c_uint64)
    return int(counter.value) if counter is not None else 0


def _quietly(call: Callable[..., Any], *args: Any) -> Any:
    """Call the profiler without what it says on stderr of every start and stop."""
    level = _variable(_LOG_LEVEL, ctypes.c_int)
    if level is None:
        return call(*args)
    before, level.value = level.value, _SILENT
    try:
        return call(*args)
    finally:
        if level.value == _SILENT:  # else this was the first start of all, which sets the level
            level.value = before


@functools.lru_cache
def _variable(symbol: str, kind: Any) -> Any:
    """Return a variable of torch's library, or None; torch 1.13 and 2.13 both have those that are asked for."""
    try:
        return kind.in_dll(ctypes.CDLL("libtorch_cpu.so"), symbol)
    except (OSError, ValueError):
        return None


# Annotations


def push(name: str) -> None:
    """Open an annotation in this thread.

    This way takes 2 µs, record_function 8, and it passes by the dispatcher, where modes and tracers of the program
    would see it. The newer _RecordFunctionFast writes operators, or takes 6 µs.
    """
    if not _state.on:
        _thread.handles.append(None)
        return
    written = _writable(name)
    _state.written[written] = None
    _thread.handles.append(_open(written))


def pop() -> None:
    """Close the innermost annotation of this thread."""
    handle = _thread.handles.pop()
    if handle is not None:
        _close(handle)


def note_outermost(name: str) -> None:
    """Have the trace say that the annotation of this name is that of an outermost module of the main thread."""
    if _state.on:
        _state.outermost[_writable(name)] = None


def annotated() -> bool:
    """Tell whether an annotation is open in this thread."""
    return bool(_thread.handles)


@functools.lru_cache(maxsize=65536)
def _writable(name: str) -> str:
    """Return a name that the profiler can write: it puts quotes into its JSON as they are."""
    return name.translate(_UNWRITABLE)


# Stopping


def stop() -> Any:
    """Stop to record and return the recording."""
    _state.on = False
    try:
        _close_annotations()
        with contextlib.suppress(Exception):
            _let_gpus_finish()
        with contextlib.suppress(Exception):
            told = {"from_start": True, "modules": list(_state.outermost), "ranges": list(_state.written)}
            torch.autograd._add_metadata_json("gpuprof", json.dumps(told))
        with contextlib.suppress(Exception):
            torch.autograd._add_metadata_json("distributedInfo", json.dumps(_rank()))
        getattr(profiler, "_run_on_profiler_stop", bool)()
    finally:  # also after Ctrl-C: a process that ends while its profiler is on can crash
        recorded = _quietly(_disable)
    return recorded


def drop_in_child() -> None:
    """Record nothing more in a forked child; the recording itself cannot be stopped there, where CUDA does not work."""
    _state.on = False
    torch._C._autograd._clear_callbacks()
    getattr(profiler, "_run_on_profiler_stop", bool)()


def drop() -> None:
    """Forget a recording that a forked child has from its parent, so that another one can start."""
    if sees_all_threads() or torch.autograd._profiler_enabled():
        _quietly(torch.autograd._disable_profiler)


def _close_annotations() -> None:
    """Close what this thread has open, so that it has an end in the trace."""
    for place in reversed(range(len(_thread.handles))):
        handle, _thread.handles[place] = _thread.handles[place], None
        if handle is not None:
            _close(handle)


def is_capturing() -> bool:
    """Tell whether this thread's stream is capturing a CUDA graph."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _let_gpus_finish() -> None:
    """Wait for what the GPUs have to do: a kernel that has not ended is not in the trace.

    Only for a while: at the end of a program a kernel may wait for another rank, which has gone.
    """
    if not torch.cuda.is_initialized() or is_capturing():
        return
    used = [number for number in range(torch.cuda.device_count()) if torch._C._cuda_hasPrimaryContext(number)]
    events = [torch.cuda.current_stream(number).record_event() for number in used]
    until = time.monotonic() + _GPU_PATIENCE_S
    while not all(event.query() for event in events) and time.monotonic() < until:
        time.sleep(0.001)


def _rank() -> dict[str, int]:
    """Return rank and number of ranks: of the process group, else what torchrun says in the environment."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return {"rank": torch.distributed.get_rank(), "world_size": torch.distributed.get_world_size()}
    return {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}


def _disable() -> Any:
    """Stop the profiler; where it records all threads, hold Python's lock before, until their operators are through.

    An operator that has just begun would write to what the profiler frees. No Python code runs between the two calls,
    since that would give up the lock.
    """
    disable = torch.autograd._disable_profiler
    if not sees_all_threads():
        return disable()
    hold = functools.partial(ctypes.PyDLL(None).usleep, _HOLD_US)
    _, recorded = map(operator.methodcaller("__call__"), (hold, disable))
    return recorded


# The file


def save(recorded: Any, folder: Path) -> None:
    """Write a recording as `torch-<process>.pt.trace.json.gz`; under other names first, so that what is found is whole.

    Raises OSError.
    """
    name = f"torch-{os.getpid()}"
    plain, packed = folder / f"{name}.tmp.json", folder / f"{name}.tmp.gz"
    plain.touch()  # the profiler would not raise
    try:
        _quietly(recorded.save, str(plain))
        with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        packed.replace(folder / f"{name}.pt.trace.json.gz")
    finally:
        for left in (plain, packed):
            with contextlib.suppress(OSError):
                left.unlink()


def give_memory_back() -> None:
    """Have C return to the system what a recording has taken, for a program that runs on."""
    with contextlib.suppress(AttributeError):  # only GNU's can be asked
        ctypes.CDLL(None).malloc_trim(0)
