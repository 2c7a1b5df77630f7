"""Marks what the autotuners of Triton and inductor try, so that a survey does not take it for the program's own work.

Their methods that time one candidate are wrapped, in whichever module this release has them, when that module is
loaded. `triton.testing.do_bench` itself is left alone: programs call it for their own measurements.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from gpuprof.collect.inject import torch_compiling as compiling
else:
    compiling = sys.modules["_gpuprof_torch_compiling"]

RANGE = "gpuprof: autotuning"
METHODS = {
    "triton.runtime.autotuner": ("_bench",),
    "torch._inductor.runtime.triton_heuristics": ("bench",),
    "torch._inductor.triton_heuristics": ("bench",),
    "torch._inductor.select_algorithm": ("benchmark",),
    "torch._inductor.autotune_process": ("benchmark",),
}
"""The modules, and the methods of their classes that time a candidate."""


def install(marks: Any, wait_for: Callable[[str, Callable[[ModuleType], None]], None]) -> None:
    """Wrap the methods of the modules, loaded or to be; `marks` has `open_range` and `close_range`."""
    for name in _modules():
        if name in sys.modules:
            wrap(sys.modules[name], marks)
        else:
            wait_for(name, lambda module: wrap(module, marks))


def _modules() -> list[str]:
    """Return those that this torch may load: inductor's heuristics have another place from 2.4 on."""
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    other = "torch._inductor.triton_heuristics" if version >= (2, 4) else "torch._inductor.runtime.triton_heuristics"
    return [name for name in METHODS if name != other]


def wrap(module: ModuleType, marks: Any) -> None:
    """Wrap the methods of all classes that a module itself defines."""
    for member in list(vars(module).values()):
        if isinstance(member, type) and member.__module__ == module.__name__:
            for method in METHODS[module.__name__]:
                function = vars(member).get(method)
                if callable(function) and hasattr(function, "__code__"):
                    setattr(member, method, _in_range(function, marks))


def _in_range(function: Any, marks: Any) -> Any:
    @functools.wraps(function)
    def call_in_range(*args: Any, **kwargs: Any) -> Any:
        is_open = marks.open_range(RANGE)
        try:
            return function(*args, **kwargs)
        finally:
            if is_open:
                marks.close_range()

    compiling.pass_over(call_in_range)
    return call_in_range
