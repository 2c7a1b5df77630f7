"""A table short enough to paste into a review."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.session import KernelProfile, Session
from gpuprof.present import words
from gpuprof.present.text import printable

_SPECIAL = "\\`*_{}[]<>|#~!$&"


def markdown_lines(session: Session, kernels: list[KernelProfile], top: int) -> Iterator[str]:
    """Yield a sentence, the table of the `top` kernels (0: all) and where the numbers come from."""
    yield escape(words.verdict(session))
    yield ""
    yield "| kernel | time | share | nearest limit | of DRAM roof | occupancy | main stall |"
    yield "|---|--:|--:|--:|--:|--:|---|"
    shown = kernels[:top] if top else kernels
    for kernel in shown:
        yield _row(kernel)
    if len(kernels) > len(shown):
        yield f"\n{len(kernels) - len(shown)} more kernels are not shown."
    yield ""
    for device in session.devices:
        yield f"GPU: {escape(words.device_text(device))}  "
    for source in session.sources:
        yield f"Report: {escape(source.file)} (sha256 {source.sha256[:12]}), {escape(words.source_text(source))}  "
    yield f"gpuprof {escape(session.gpuprof_version)}; percent of roof are of the DRAM roofline at the kernel's clock."


def _row(kernel: KernelProfile) -> str:
    cells = (
        kernel.label,
        words.duration(kernel.duration_s),
        words.percent(kernel.time_share),
        words.limit_text(kernel),
        words.roof_text(kernel),
        words.percent(kernel.occupancy.achieved),
        words.stall_text(kernel),
    )
    return f"| {' | '.join(map(escape, cells))} |"


def escape(text: str) -> str:
    """Make text harmless in Markdown: no markup, no HTML, no links, one line."""
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in printable(text))
