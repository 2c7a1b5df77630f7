"""The limit and the ceilings of a kernel as views show them, and which kernels are drawn and numbered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuprof.diagnose.drawn import headline_kernels
from gpuprof.diagnose.facts.unit_names import MEMORY
from gpuprof.diagnose.verdict import kernel_limit
from gpuprof.model.headline import by_time
from gpuprof.model.session import KernelProfile, Session
from gpuprof.words.verdict import limit_name

# Numbered kernels of a figure: their maximum, how many always have a number, and the least time share of the others.
_MOST_NUMBERED = 8
_ALWAYS_NUMBERED = 3
_LEAST_SHARE = 0.01
# Areas of marks in square points: of all of the time, the least, and of a kernel whose time is not known.
_FULL_AREA = 600.0
_LEAST_AREA = 20.0
_PLAIN_AREA = 75.0


class ShownLimit(NamedTuple):
    """The limit of a kernel: in words, the role of its colour, and the unit or compute path (None: not known)."""

    text: str
    colour: str
    subject: str | None


def shown_limit(session: Session, kernel: KernelProfile) -> ShownLimit:
    """Return the limit of a kernel by its diagnosis."""
    limit = kernel_limit(kernel, only_times=session.only_times)
    if limit.subject in MEMORY:
        colour = limit.subject
    elif limit.subject == "memory":
        colour = "other"
    elif limit.subject is not None:
        colour = "compute"
    elif limit.state in ("open", "void"):
        colour = "unknown"
    else:
        colour = "latency"
    return ShownLimit(limit_name(limit), colour, limit.subject)


def drawn_kernels(session: Session, kernels: Sequence[KernelProfile], most: int | None) -> list[KernelProfile]:
    """Return the `most` longest of these kernels, longest first, and always those of the headline."""
    ordered = by_time(kernels)
    drawn = ordered[:most]
    headline = headline_kernels(session)
    return drawn + [kernel for kernel in ordered[len(drawn) :] if kernel.id in headline]


def numbered_kernels(session: Session, kernels: Sequence[KernelProfile]) -> frozenset[int]:
    """Return the ids of the kernels that get a number: those of the headline, and the longest ones."""
    numbered = set(headline_kernels(session))
    for rank, kernel in enumerate(by_time(kernels)[:_MOST_NUMBERED]):
        if rank < _ALWAYS_NUMBERED or (kernel.time_share or 0.0) >= _LEAST_SHARE:
            numbered.add(kernel.id)
    return frozenset(numbered)


def point_area(share: float | None) -> float:
    """Return the area of a kernel's mark in square points, by its share of the time."""
    if share is None:
        return _PLAIN_AREA
    return max(_LEAST_AREA, _FULL_AREA * share)
