"""Marks what torch does with NVTX ranges, in the program's own Python: the path of the module, and the operator.

In a survey by torch's profiler the same ranges of modules are annotations of its recording, and operators are its own.

**Modules, forward.** `torch.nn.Module.__call__` is wrapped. The hooks on all modules that torch offers would do, but
torch.export in its strict mode fails while there are any, and torch.compile warns of them; neither looks at `__call__`.
The path of a module is that inside the outermost module that was called: `layers.3.mlp.up_proj`; the outermost has its
class' name.

**Operators, forward and backward.** torch's own observer in C++, the one behind `torch.autograd.profiler.emit_nvtx`.
It writes ranges such as `aten::addmm, op_id = 7, sizes = [[8], [4, 16], [16, 8]]`, goes along into autograd's threads
and into compiled code, and changes nothing of how a call is dispatched. A TorchDispatchMode would see as much, but
torch.compile does nothing while one is active; a TorchFunctionMode sees no backward. There can be only one profiler in
a thread: a program that starts torch's own gets it, and the operators' ranges end there.

**Modules, backward.** Autograd gives every node that a forward call makes the next number of its thread. So the numbers
at the start and the end of a module's call say which nodes are its own, and each of them gets a hook before and after
it. Full backward hooks of modules are not used: they put nodes of their own around a module, and a program that changes
the module's output in place fails then. Nodes that no output of the outermost module leads to, and functions outside
any module, have the operator's range alone, and so have nodes that accumulate gradients.

What goes wrong in here never reaches the program: the ranges end, and one line on stderr says so. torch.compile passes
over the wrapper, so that it leaves no trace in what is compiled; the modules inside have no ranges then.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gpuprof.collect.inject import torch_compiling as compiling
else:
    compiling = sys.modules["_gpuprof_torch_compiling"]

_RECORD_TO = "GPUPROF_RANGES_TO"
"""Names a file to which ranges are written instead, a line each: process, thread, + or -, name. For tests."""
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_DEEPEST_OUTPUT = 6


class _Thread(threading.local):
    """What is open in a thread.

    `calls` are those of modules, outermost first: the number of the first node, the module's name. `spans` are those
    that have ended: first number, number after the last, name. `backward` counts the open ranges of nodes, `others`
    those of what is neither.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, str]] = []
        self.spans: list[tuple[int, int, str]] = []
        self.backward = 0
        self.others = 0
        self.observed = False


class _State:
    """What this process has installed: how ranges are written, how modules were called before, what is observed.

    `begin` is called with its name where an outermost module of a thread is called, and `rest` where it has returned.
    """

    def __init__(self) -> None:
        self.push: Callable[[str], object] = str
        self.pop: Callable[[], object] = str
        self.begin: Callable[[str], object] = str
        self.rest: Callable[[], object] = str
        self.call: Any = None
        self.observe = False
        self.stopped = False


_state = _State()
_thread = _Thread()
_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_next_number = getattr(torch.autograd, "_get_sequence_nr", None)


def install(survey: Any = None) -> None:
    """Start to mark, if there is something to mark with. A survey is told where outermost modules begin and end."""
    writer = _writer() if survey is None else survey.writer()
    if writer is None:
        return
    _state.push, _state.pop = writer
    _state.begin, _state.rest = (survey.begin, survey.rest) if survey else (_observe, _end_observing_thread)
    _wrap_calls()
    if survey is not None:
        survey.install(on_end=_end_marking)
    elif torch.version.cuda is not None:
        _state.observe = True
        torch.cuda._lazy_call(_observe_main_thread)
        _give_way_to_profilers()
        atexit.register(_end_observing)


def go_through(wrap: Callable[..., Any]) -> None:
    """Have ranges and the beginnings of outermost modules go through what `wrap` makes of our functions for them.

    It is given those that open and close a range, that for a beginning, and one to call with a failure of ours.
    """
    _state.push, _state.pop, _state.begin = wrap(_state.push, _state.pop, _state.begin, _stop)


# Modules, forward


def _wrap_calls() -> None:
    """Have every call of a module go through `_enter` and `_leave`, but for those that torch.compile traces."""
    _state.call = call = torch.nn.Module.__call__

    @functools.wraps(call)
    def call_in_range(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _state.stopped or compiling.is_compiling() or not _enter(self):
            return call(self, *args, **kwargs)
        output = None
        try:
            output = call(self, *args, **kwargs)
            return output
        finally:
            _leave(output)

    torch.nn.Module.__call__ = call_in_range
    compiling.pass_over(call_in_range)
    compiling.pass_over(_enter, _leave, inside=True)


def _enter(module: Any) -> bool:
    """Open the range of a module's call and tell whether that went well."""
    try:
        calls = _thread.calls
        name = _names.get(module)
        if name is None:
            name = _named(module, calls[-1][1] if calls else None)
        if not calls:
            _state.begin(name)
        first = _next_number() if _next_number is not None else 0
        _state.push(name)
        calls.append((first, name))
    except Exception as error:
        _stop(error)
        return False
    return True


def _leave(output: object) -> None:
    """Close the innermost call of a module; after the outermost, name the nodes that all of them have made."""
    try:
        calls = _thread.calls
        if not calls:
            return  # closed by `_stop`
        first, name = calls.pop()
        _state.pop()
        if _next_number is not None and torch.is_grad_enabled():
            _thread.spans.append((first, _next_number(), name))
        if not calls:
            spans, _thread.spans = _thread.spans, []
            if spans:
                _mark_backward(output, spans)
            _state.rest()
    except Exception as error:
        _stop(error)


def _named(module: Any, inside: str | None) -> str:
    """Name a module that is not known yet, and all modules in it, and return its name.

    An outermost module gives new names to what was called by itself before. One that is called inside another, but is
    not registered there, is named by that one and its own class.
    """
    kind = type(getattr(module, "_orig_mod", module)).__name__
    prefix = "" if inside is None else f"{inside}.{kind}"
    for path, child in module.named_modules(prefix=prefix):
        if inside is None or child not in _names:
            parts = [part for part in path.split(".") if part not in _WRAPPERS]
            _names[child] = ".".join(parts) or kind
    return _names.setdefault(module, prefix or kind)


def open_range(name: str) -> bool:
    """Open a range around something else than a module's call, and tell whether that went well.

    Also while torch.compile is at work, which is when inductor tries candidates.
    """
    if _state.stopped:
        return False
    try:
        _state.push(name)
        _thread.others += 1
    except Exception as error:
        _stop(error)
        return False
    return True


def close_range() -> None:
    """Close what `open_range` has opened in this thread, unless a failure has closed it."""
    if not _thread.others:
        return
    try:
        _thread.others -= 1
        _state.pop()
    except Exception as error:
        _stop(error)


# Modules, backward


def _mark_backward(output: object, spans: Iterable[tuple[int, int, str]]) -> None:
    """Give the nodes that a call has made hooks with the name of the innermost module that made them."""
    owners: dict[int, str] = {}
    for first, end, name in spans:  # an inner call ends before the outer one, so it is first to claim its numbers
        for number in range(first, end):
            owners.setdefault(number, name)
    seen = set()
    todo = [tensor.grad_fn for tensor in _tensors(output, _DEEPEST_OUTPUT)]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        owner = owners.get(node._sequence_nr())
        if owner is None:
            continue  # made before this call
        seen.add(node)
        _mark_node(node, owner)
        todo.extend(following for following, _ in node.next_functions)


def _mark_node(node: Any, name: str) -> None:
    """Open a range before a node runs, and close it after. The hooks hold nothing but the name."""
    text = f"{name} (backward)"

    def open_range(*_: object) -> None:
        if compiling.is_compiling() or _state.stopped:
            return
        try:
            _state.push(text)
            _thread.backward += 1
        except Exception as error:
            _stop(error)

    node.register_prehook(open_range)
    node.register_hook(_close_backward_range)


def _close_backward_range(*_: object) -> None:
    if compiling.is_compiling() or not _thread.backward:
        return
    try:
        _thread.backward -= 1
        _state.pop()
    except Exception as error:
        _stop(error)


def _tensors(output: object, depth: int) -> Iterator[Any]:
    """Yield the tensors in what a module returned: in tuples, lists, dicts and data classes."""
    parts: Iterable[object] = ()
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, dict):
        parts = output.values()
    elif isinstance(output, (list, tuple)):
        parts = output
    elif hasattr(type(output), "__dataclass_fields__"):
        parts = vars(output).values()
    if depth:
        for part in parts:
            yield from _tensors(part, depth - 1)


# Operators


def _observe_main_thread() -> None:
    """Start to observe when the program first uses CUDA, and not before: programs fork until then."""
    if threading.current_thread() is threading.main_thread():
        try:
            _observe(in_use=True)
        except Exception as error:
            _stop(error)


def _observe(_: str = "", *, in_use: bool = False) -> None:
    """Have this thread's operators marked, unless they are, another profiler is at work, or CUDA is not in use yet."""
    if _thread.observed or not _state.observe or not (in_use or torch.cuda.is_initialized()):
        return
    if torch.autograd._profiler_enabled():
        return  # also in autograd's threads, which take over what was on where backward was called
    from torch.autograd import profiler

    # What emit_nvtx does, without its wait for the GPU, which a CUDA graph under capture forbids.
    settings = (True, False, False, False, False, profiler._ExperimentalConfig())
    torch.autograd._enable_profiler(profiler.ProfilerConfig(profiler.ProfilerState.NVTX, *settings), set())
    _thread.observed = True


def _end_observing() -> None:
    """End what `_observe` has started in this thread."""
    if _thread.observed:
        _thread.observed = False
        torch.autograd._disable_profiler()


def _end_observing_thread() -> None:
    """End what was started in another than the main thread: torch complains of one that ends while it is observed."""
    if threading.current_thread() is not threading.main_thread():
        _end_observing()


def _give_way_to_profilers() -> None:
    """End the operators' ranges for good when the program starts a profiler of torch, which would fail beside ours."""
    from torch.autograd import profiler

    enable = profiler._enable_profiler

    def give_way_and_enable(*args: Any, **kwargs: Any) -> Any:
        if _state.observe:
            _state.observe = False
            _tell("kernels get no operator names from here on: the program uses torch's profiler itself")
        _end_observing()
        return enable(*args, **kwargs)

    profiler._enable_profiler = give_way_and_enable


# Where ranges go


def _writer() -> tuple[Callable[[str], object], Callable[[], object]] | None:
    """Return functions that open and close a range in this thread, or None where nothing takes ranges."""
    if os.environ.get(_RECORD_TO):
        return _recorder(os.environ[_RECORD_TO])
    if torch.version.cuda is not None:
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    try:
        import nvtx
    except ImportError:
        return _nvtx_library()
    return nvtx.push_range, nvtx.pop_range


def _nvtx_library() -> tuple[Callable[[str], object], Callable[[], object]] | None:
    try:
        library = ctypes.CDLL("libnvToolsExt.so.1")
    except OSError:
        return None
    return lambda name: library.nvtxRangePushA(name.encode()), library.nvtxRangePop


def _recorder(path: str) -> tuple[Callable[[str], object], Callable[[], object]]:
    def write(sign: str, name: str = "") -> None:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{os.getpid()} {threading.get_ident()} {sign} {name}\n".encode())
        os.close(file)

    return lambda name: write("+", name), lambda: write("-")


def _end_marking() -> None:
    """Open no more ranges; what is open will be closed."""
    _state.stopped = True


def _stop(error: Exception) -> None:
    """Take everything away after a failure of ours, close what this thread has open, and say so once."""
    if _state.stopped:
        return
    _state.stopped = True
    _state.observe = False
    try:
        torch.nn.Module.__call__ = _state.call
        for _ in range(len(_thread.calls) + _thread.others):
            _state.pop()
        _thread.others = 0
        _end_observing()
    except Exception:  # noqa: S110
        pass  # what went wrong first is told below
    _thread.calls.clear()
    _tell(f"kernels get no module names from here on: {type(error).__name__}: {error}")


def _tell(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"gpuprof: {text}\n")
