"""Keeps torch.compile away from our functions, so that what it makes of a program is what it makes without us."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
is_compiling: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def pass_over(*functions: Any, inside: bool = False) -> None:
    """Have torch.compile leave functions as they are; by `inside` what they call too, where its version can."""
    for function in functions:
        if hasattr(_frames, "skip_code"):  # until torch 2.6
            _frames.skip_code(function.__code__)
        elif hasattr(_frames, "set_code_exec_strategy"):
            skip, default = _frames._FrameAction.SKIP, _frames._FrameAction.DEFAULT
            strategy = _frames._FrameExecStrategy(skip, skip if inside else default)
            _frames.set_code_exec_strategy(function.__code__, strategy)


def unseen(call: Callable[[], object]) -> None:
    """Call a function while torch.compile, which may be at work around it, sees nothing."""
    before = _frames.set_eval_frame(None) if _frames is not None else None
    try:
        call()
    finally:
        if _frames is not None:
            _frames.set_eval_frame(before)


pass_over(unseen)
