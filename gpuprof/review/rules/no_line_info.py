"""The rule on kernels without a line table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from gpuprof.diagnose.rule import amounts_of
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.kernel import InputModule
from gpuprof.review.rules.rule import FileRule, file_finding

_LINE_TABLE = b".debug_line"
"""The section of a cubin that nvcc and NVRTC write with -lineinfo (DWARF 5, 6.2)."""


def _missing_lines(file: str, modules: Sequence[InputModule], _targets: Sequence[str]) -> Iterator[Finding]:
    kernels = [kernel for module in modules for kernel in module.kernels if kernel.has_code]
    has_table = cache(lambda cubin: _LINE_TABLE in cubin)
    bare = 0
    for kernel in kernels:
        has_lines = bool(kernel.lines) if kernel.lines is not None else has_table(kernel.cubin)
        bare += not has_lines
    if not bare:
        return
    headline = "one-kernel" if bare == 1 else "some-kernels"
    if bare == len(kernels):
        headline = "all-kernels"
    yield file_finding(
        "no-line-info",
        file,
        Cases(headline=(headline,)),
        severity="info",
        amounts=amounts_of("kernel", bare=bare, kernels=len(kernels)),
        evidence=context("kernels", bare, ""),
    )


RULE = FileRule(id="no-line-info", check=_missing_lines)
