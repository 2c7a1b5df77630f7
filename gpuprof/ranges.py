"""`gpuprof.annotate(name)`: a named range around a part of a Python program, by which its kernels can be told apart."""

from __future__ import annotations

import functools
from contextlib import ContextDecorator
from types import ModuleType


def annotate(name: str) -> Range:
    """Return an NVTX range for `with` or as a decorator, which holds what its own thread launches.

    It does nothing where the package `nvtx` is not installed, as on macOS, and next to nothing where no profiler runs.
    """
    return Range(name)


class Range(ContextDecorator):
    """An NVTX range of that name; it can be entered again, also while it is open."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Range:
        if (nvtx := _nvtx()) is not None:
            nvtx.push_range(self.name)
        return self

    def __exit__(self, *_: object) -> None:
        if (nvtx := _nvtx()) is not None:
            nvtx.pop_range()


@functools.cache
def _nvtx() -> ModuleType | None:
    try:
        import nvtx
    except ImportError:
        return None
    return nvtx  # type: ignore[no-any-return]
