"""What is said below a roofline: clocks, certificates, and the kernels that it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.hardware.specs import PATHS
from gpuprof.model.path_names import path_name
from gpuprof.model.session import Ceiling, KernelProfile, Session
from gpuprof.present.roofline_figure import FigurePoint, LeftOut
from gpuprof.text import cut_middle
from gpuprof.units import format_si
from gpuprof.words.profile_values import count_text, row_noun

_CLOCK_TOLERANCE = 0.05
"""Kernels whose clock differs more than this from that of the drawn ceilings are mentioned."""

_NAME_LENGTH = 80
"""Of a kernel's name in a note."""


def clock_notes(
    kernels: Sequence[KernelProfile], points: Sequence[FigurePoint], ceilings: Sequence[Ceiling]
) -> Iterator[str]:
    """Say so where the drawn at-clock ceilings are not those of every kernel that is drawn."""
    shown = {point.kernel for point in points}
    clocks = [kernel.sm_clock_hz for kernel in kernels if kernel.id in shown and kernel.sm_clock_hz is not None]
    roof = next(
        (ceiling.clock_hz for ceiling in ceilings if ceiling.origin == "at-clock" and ceiling.path is not None), None
    )
    if not clocks or not roof or all(abs(clock / roof - 1) <= _CLOCK_TOLERANCE for clock in clocks):
        return
    spread = f"{format_si(min(clocks), 'Hz')} to {format_si(max(clocks), 'Hz')}"
    yield (
        f"Kernels ran at {spread}; the at-clock ceilings are drawn for {format_si(roof, 'Hz')}, the clock of the "
        "longest. Each kernel's percentage is taken at its own clock."
    )


def certificate_notes(points: Sequence[FigurePoint]) -> Iterator[str]:
    """Say so where the counters of a path are taken on trust."""
    paths = sorted({point.path for point in points if point.uncertified}, key=PATHS.index)
    if paths:
        names = " and ".join(filter(None, [", ".join(map(path_name, paths[:-1])), path_name(paths[-1])]))
        yield f"Hollow: the counters of {names} are neither certified nor checked on this architecture."


def left_out_notes(session: Session, left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Say which kernels have no point, and why."""
    labels = {kernel.id: kernel.label for kernel in session.kernels}
    times = {kernel.id: kernel.launches for kernel in session.kernels}
    for group in left_out:
        names = list(dict.fromkeys(labels[kernel] for kernel in group.kernels))
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        listed = ", ".join(cut_middle(name, _NAME_LENGTH) for name in names[:2]) + more
        count = sum(times[kernel] for kernel in group.kernels)
        how = f"; {group.how}" if group.how else ""
        yield f"Not drawn: {listed} ({count_text(count, 'launch', 'es')}): {group.why}{how}."


def too_many_notes(kernels: Sequence[KernelProfile], drawn: int, placed: int) -> Iterator[str]:
    """Say which are drawn where more of these kernels have a point."""
    plural = "".join(row_noun(kernels))
    if drawn < placed == len(kernels):
        yield f"Drawn: the {drawn} of {placed} {plural} with most time."
    elif drawn < placed:
        yield f"Drawn: of the {placed} {plural} that have a point, the {drawn} with most time."
