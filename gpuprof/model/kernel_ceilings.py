"""Ceilings at the clock that a kernel ran at."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.model.session import Ceiling, KernelProfile, Session


def at_kernel_clock(ceiling: Ceiling, kernel: KernelProfile) -> Ceiling:
    """Return an at-clock ceiling at the kernel's own clock: as a point of the kernel shows it, else in scale."""
    if ceiling.origin != "at-clock":
        return ceiling
    exact = _value_of_points(ceiling, kernel)
    scale = 1.0
    if kernel.sm_clock_hz and ceiling.clock_hz:
        scale = kernel.sm_clock_hz / ceiling.clock_hz
    if ceiling.path is not None:
        clock_hz = kernel.sm_clock_hz or ceiling.clock_hz
        return replace(ceiling, value=exact or ceiling.value * scale, clock_hz=clock_hz)
    if exact is None and ceiling.level == "l1":
        exact = ceiling.value * scale
    if exact is None:
        return ceiling
    # L2's can be lower because of the kernel's writes, not of its clock.
    clock_hz = None
    if ceiling.clock_hz and ceiling.level != "l2":
        clock_hz = ceiling.clock_hz * exact / ceiling.value
    return replace(ceiling, value=exact, clock_hz=clock_hz)


def _value_of_points(ceiling: Ceiling, kernel: KernelProfile) -> float | None:
    """Return the ceiling that limits one of the kernel's own points."""
    for point in kernel.roofline:
        if point.ceiling != ceiling.origin:
            continue
        if ceiling.path == point.path and point.bound == "compute":
            return point.roof_flop_per_s
        if ceiling.level == point.level and point.bound == "memory":
            return point.roof_flop_per_s / point.intensity
    return None


def ceilings_of(session: Session, kernel: KernelProfile, origin: str) -> dict[str | None, float]:
    """Return the ceilings of one origin at a kernel's clock, by path in FLOP/s or OP/s and by level in bytes/s."""
    ceilings = {}
    for ceiling in session.ceilings:
        if ceiling.device == kernel.device and ceiling.origin == origin:
            ceilings[ceiling.path or ceiling.level] = at_kernel_clock(ceiling, kernel).value
    return ceilings
