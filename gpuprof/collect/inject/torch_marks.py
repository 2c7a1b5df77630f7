"""Marks chosen parts of one step of the program, so that ncu can profile what they launch, whatever its kernels' names.

`GPUPROF_MARK` names a JSON file: `{"step": 3, "by": "optimizer", "module": "", "units": ["layers.0.linear1"], "with":
"nvtx"}`. A unit is the range of a module, forward (`layers.0.linear1`) or backward (`layers.0.linear1 (backward)`), by
the name that it is given in `torch_ranges`, or `optimizer step`, a call of Optimizer.step.

**Steps.** By "optimizer" step n begins where n calls of Optimizer.step have ended in this process; of calls inside
others the outermost count. By "module" it begins with the n-th outermost call of a module in the main thread: of the
one that `module` names, else of any. What comes before CUDA is in use does not count, since surveys do not see it.

**Marks.** With "nvtx" a range `gpuprof-chosen` is around a chosen unit, in the thread that opens it; with "profiler"
cudaProfilerStart is called before it and cudaProfilerStop after it, for the whole process. Of chosen units inside
others only the outermost has a mark. Nothing waits for the GPU before cudaProfilerStop: ncu decides at the call that
launches a kernel, and has it run alone. That this is enough was not verified on a GPU.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprof.collect.inject import torch_compiling as compiling
else:
    compiling = sys.modules["_gpuprof_torch_compiling"]

_TOLD_IN = "GPUPROF_MARK"
MARK = "gpuprof-chosen"
OPTIMIZER = "optimizer step"


class _Thread(threading.local):
    """What is open in a thread: how many units, the number of the one with a mark, if any, and calls of optimizers.

    `counts`: the outermost call of an optimizer counts.
    """

    def __init__(self) -> None:
        self.units = 0
        self.marked = 0
        self.optimizers = 0
        self.counts = False


class _Marks:
    """Which units are to be marked in which step, the step that the program is in, and how many marks are open.

    It stands between `torch_ranges` and what it writes ranges with.
    """

    def __init__(
        self,
        told: dict[str, Any],
        push: Callable[[str], object],
        pop: Callable[[], object],
        begin: Callable[[str], object],
        fail: Callable[[Exception], object],
    ) -> None:
        self.chosen, self.units = told["step"], frozenset(told["units"])
        self.by, self.module, self.by_range = told["by"], told["module"], told["with"] == "nvtx"
        self.push_range, self.pop_range, self.begin_module, self.fail = push, pop, begin, fail
        self.step = self.open = 0
        self.failed = False
        self.lock = threading.Lock()
        self.own = _Thread()

    def push(self, name: str) -> None:
        """Open a range, within a mark if it is chosen."""
        self._enter(name)
        try:
            self.push_range(name)
        except Exception:
            self._leave()
            raise

    def pop(self) -> None:
        """Close the innermost range of this thread, and its mark."""
        try:
            self.pop_range()
        finally:
            self._leave()

    def begin(self, name: str) -> None:
        """Note that an outermost module is called."""
        self.begin_module(name)
        in_main = threading.current_thread() is threading.main_thread()
        if self.by == "module" and self.module in ("", name) and in_main and torch.cuda.is_initialized():
            self.step += 1

    def begin_optimizer(self) -> bool:
        """Note that an optimizer's step begins, and tell whether that went well."""
        if self.failed:
            return False
        try:
            self._enter(OPTIMIZER)
        except Exception as error:
            self._give_up(error)
            return False
        if not self.own.optimizers:
            self.own.counts = torch.cuda.is_initialized()
        self.own.optimizers += 1
        return True

    def end_optimizer(self) -> None:
        """Note that it has ended."""
        self.own.optimizers -= 1
        try:
            self._leave()
        except Exception as error:
            self._give_up(error)
        if self.by == "optimizer" and self.own.counts and not self.own.optimizers:
            self.step += 1

    def _enter(self, unit: str) -> None:
        own = self.own
        if not own.marked and self.step == self.chosen and unit in self.units and torch.cuda.is_initialized():
            self._open()
            own.marked = own.units + 1
        own.units += 1

    def _leave(self) -> None:
        own = self.own
        own.units -= 1
        if own.marked > own.units:
            own.marked = 0
            self._close()

    def _open(self) -> None:
        if self.by_range:
            self.push_range(MARK)
            return
        with self.lock:
            if not self.open:
                _call_cuda("cudaProfilerStart")
            self.open += 1

    def _close(self) -> None:
        if self.by_range:
            self.pop_range()
            return
        with self.lock:
            self.open -= 1
            if not self.open:
                _call_cuda("cudaProfilerStop")

    def _give_up(self, error: Exception) -> None:
        self.failed = True
        self.fail(error)


def install(ranges: Any) -> None:
    """Start to mark what the file tells; `ranges` is `torch_ranges`, which has been installed."""
    with open(os.environ[_TOLD_IN], encoding="utf-8") as file:  # noqa: PTH123
        told = json.load(file)

    def wrap(*functions: Any) -> tuple[Any, Any, Any]:
        marks = _Marks(told, *functions)
        own = (marks.push, marks.pop, marks.begin, marks.begin_optimizer, marks.end_optimizer)
        compiling.pass_over(*own, inside=True)
        _wrap_optimizers(marks)
        return marks.push, marks.pop, marks.begin

    ranges.go_through(wrap)


def _wrap_optimizers(marks: _Marks) -> None:
    """Have every call of an optimizer's step go through `marks`, within the range that torch itself opens around it.

    torch makes that range with `profile_hook_step`, for each class of optimizers when it is first used. Before 2.0 that
    cannot be reached: optimizers are neither marked nor counted. What torch.compile makes of it opens no range, and
    calls us from other code: no survey sees such a call, so it is not counted here either.
    """
    with_range = getattr(torch.optim.Optimizer, "profile_hook_step", None)
    if with_range is None:
        return

    def profile_hook_step(step: Any) -> Any:
        @functools.wraps(step)
        def marked_step(*args: Any, **kwargs: Any) -> Any:
            if compiling.is_compiling() or sys._getframe(1).f_code is not opens_range or not marks.begin_optimizer():
                return step(*args, **kwargs)
            try:
                return step(*args, **kwargs)
            finally:
                marks.end_optimizer()

        compiling.pass_over(marked_step)
        step_in_range = with_range(marked_step)
        opens_range = step_in_range.__code__
        step_in_range.__wrapped__ = step  # which torch.compile takes in its place until torch 2.4
        return step_in_range

    torch.optim.Optimizer.profile_hook_step = staticmethod(profile_hook_step)


def _call_cuda(name: str) -> None:
    """Call a function of CUDA's runtime that takes nothing. Raises RuntimeError if that fails."""
    code = int(getattr(torch.cuda.cudart(), name)())
    if code:
        raise RuntimeError(f"{name} returned {code}")
