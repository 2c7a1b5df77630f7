"""The needs of the units of a GPU as fractions of a kernel's time: a fix removes some of them, the
others remain.

A kernel cannot end before the unit with most remaining work has done it. So the bound of every gain
is 1 − the largest need that remains: of units that the fix does not relieve, and the rest of those
that it relieves in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.session import KernelProfile, Pipe, Remaining

LAUNCH_S = 1e-6
"""The shortest empty kernel takes about this long on any GPU since Volta."""

LAUNCH_MOST_S = 3e-6
"""Hardly a kernel takes longer to start and to end: 1.2 to 2.9 µs without work on any SM, in
kernels of 2.1 to 290 µs on an A100 and an H100. In a long kernel a larger difference comes from the
cycles of two passes, not from the launch.
"""

SM, ISSUE, LAUNCH, WORK = "sm", "issue", "launch", "work"
MEMORY = ("dram", "l2", "l1")
ADDRESS_PIPES = ("alu", "adu", "uniform", "cbu", "fma", "fmaheavy")
"""Pipes that run the arithmetic of addresses."""
_SHOWN = 8
"""Number of remaining needs that a finding keeps."""

UNIT_WORDS = {
    "dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "the SM", "issue": "the issue slots", "launch": "the launch itself",
    WORK: "the arithmetic",
}  # fmt: skip


def pipe_name(name: str) -> str:
    """Return the name of a pipe in capitals (FMA, ALU), except for tensor and uniform."""
    if name in ("tensor", "uniform"):
        return name
    return name.upper()


class Saving(Struct, frozen=True):
    """The part of a kernel's time that a fix saves, and its conditions.

    `fraction` is of the kernel's time. It is bounded by `remains`, the needs of the units after the
    fix. It is smaller if it is valid only while everything that it `assumes` stays as it is.
    """

    fraction: float
    remains: tuple[Remaining, ...] = ()
    assumes: tuple[str, ...] = ()

    def if_held(self, fraction: float, *assumes: str) -> Saving:
        """Return the smaller saving that is valid only on assumptions: "same-instructions"."""
        least = self.no_more_than(fraction)
        if least.fraction < self.fraction:
            return replace(least, assumes=assumes)
        return self

    def only_if(self, *assumes: str) -> Saving:
        """Return the saving with these assumptions if it has none yet."""
        if self.assumes:
            return self
        return replace(self, assumes=assumes)

    def no_more_than(self, fraction: float) -> Saving:
        """Return the saving with one more upper bound, such as the time that the fix affects."""
        return replace(self, fraction=min(self.fraction, max(0.0, fraction)))


def saving(needs: Mapping[str, float], relieved: Mapping[str, float]) -> Saving:
    """Bound the saving of a fix that leaves these parts of the units' needs (0: none)."""
    remains = remaining(needs, relieved)
    rest = remains[0].fraction if remains else 0.0
    return Saving(1.0 - rest, remains)


def remaining(needs: Mapping[str, float], relieved: Mapping[str, float]) -> tuple[Remaining, ...]:
    """Return the remaining needs of the units, largest first, without those that need nothing.

    The SM's speed of light is that of its busiest part: it stays only if the fix relieves no part
    of the SM.
    """
    kept = {unit: need * min(1.0, max(0.0, relieved.get(unit, 1.0))) for unit, need in needs.items()}
    if any(unit not in (*MEMORY, LAUNCH) and factor < 1.0 for unit, factor in relieved.items()):
        kept.pop(SM, None)
    ranked = sorted(kept.items(), key=lambda item: -item[1])
    return tuple(Remaining(unit, min(1.0, need)) for unit, need in ranked[:_SHOWN] if need > 0)


def launch_share(duration_s: float, working: float | None) -> float:
    """Return the share of a kernel's time that its launch takes: no SM works then, whatever is
    changed in the kernel.

    `working` is the share of the elapsed cycles in which SMs work; if it is None, return the least
    share.
    """
    least = LAUNCH_S / duration_s
    if working is not None:
        least = max(least, min(1.0 - working, LAUNCH_MOST_S / duration_s))
    return min(1.0, least)


def needs_of(
    kernel: KernelProfile, l1: float | None, active: float | None, busiest: float | None = None
) -> dict[str, float]:
    """Return the fraction of the elapsed time that each unit needs, without units that were not
    collected.

    `l1` is the utilization of L1 with the load/store unit before it. `active` is the share of the
    elapsed cycles in which an average SM had work: it scales metrics of active cycles, which are
    left out if it is None. `busiest` is that share of the busiest SM, which only the launch keeps
    from work.
    """
    needs: dict[str, float | None] = {unit.unit: unit.fraction for unit in kernel.throughput if unit.is_exact}
    needs.pop("memory", None)
    if l1 is not None:
        needs["l1"] = l1
    needs |= {pipe.name: need_of_pipe(pipe, active) for pipe in kernel.pipes}
    scheduler = kernel.scheduler
    if scheduler is not None and scheduler.issue_active is not None and active is not None:
        needs[ISSUE] = scheduler.issue_active * active
    if kernel.duration_s:
        needs[LAUNCH] = launch_share(kernel.duration_s, busiest)
    return {unit: min(1.0, max(0.0, need)) for unit, need in needs.items() if need is not None}


def need_of_pipe(pipe: Pipe, active: float | None) -> float | None:
    """Return the fraction of the elapsed time that a pipe needs; None if `active` is missing."""
    if pipe.metric.endswith("_elapsed"):
        return pipe.fraction
    if active is None:
        return None
    return pipe.fraction * active


def together(findings: Iterable[tuple[Remaining, ...]]) -> float:
    """Return the largest need that remains after several fixes: for each unit, the least that any
    of them leaves.

    A unit that a fix does not list needs hardly anything after it.
    """
    least: dict[str, float] | None = None
    for remains in findings:
        needs = {item.unit: item.fraction for item in remains}
        if least is None:
            least = needs
        least = {unit: min(need, needs[unit]) for unit, need in least.items() if unit in needs}
    return max((least or {}).values(), default=0.0)
