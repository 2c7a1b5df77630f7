"""Whether a measured value may be believed: checks of the code, the scaling, the clock, the limit, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from gpuprof.characterize.judge.limits import Bound, NoBound
from gpuprof.characterize.judge.regime import NoClock, SmClock
from gpuprof.characterize.maths.fit import Scaling
from gpuprof.units import format_si

if TYPE_CHECKING:
    from gpuprof.characterize.gates.gate import Judgement

VerdictWord = Literal["verified", "plausible", "rejected", "unsupported", "not_permitted"]
CheckState = Literal["passed", "failed", "missing", "not_applicable"]
WORDS: tuple[VerdictWord, ...] = get_args(VerdictWord)

LIMIT_MARGIN = 1.005
"""Measured clocks and times have this error; what exceeds the limit by more was not measured."""
CLOCK_TOLERANCE = 0.02
COUNTER_TOLERANCE = 0.02
REPEAT_TOLERANCE = 0.02
CEILING_FLOOR = 0.1
"""A ceiling below a tenth of its limit is no ceiling: the launch did not fill the GPU, or the wrong thing was timed.
The smallest share of a GPU that MIG gives has an eighth of its memory bandwidth. A probe that is slow by nature says so
in its file."""
_NEEDED = ("gate", "scaling", "clock", "limit")


@dataclass(frozen=True, slots=True)
class VerdictCheck:
    """One check: what it found, why, and its number (a residual, or a ratio to what it was held against)."""

    name: str
    state: CheckState
    why: str | None = None
    number: float | None = None


class Verdict(NamedTuple):
    """The verdict and its reasons: what failed, or what was missing for `verified`."""

    word: VerdictWord
    reasons: tuple[str, ...] = ()


def judge(checks: Sequence[VerdictCheck]) -> Verdict:
    """Return the verdict: one failed check rejects; without the code, scaling, clock and limit it is only plausible."""
    failed = tuple(check.why or f"the check {check.name} failed" for check in checks if check.state == "failed")
    if failed:
        return Verdict("rejected", failed)
    missing = [check.why or f"{check.name} is not known" for check in checks if check.state == "missing"]
    missing += [f"{name} was not checked" for name in _NEEDED if all(check.name != name for check in checks)]
    if not missing and all(check.state != "passed" for check in checks):
        missing.append("nothing could be checked")
    return Verdict("plausible", tuple(missing)) if missing else Verdict("verified")


def unsupported(why: str) -> Verdict:
    """Return the verdict on a probe that this GPU cannot run."""
    return Verdict("unsupported", (why,))


def not_applicable(name: str, why: str) -> VerdictCheck:
    """Return a check that this probe does not need, with the reason: a power draw has no loop to scale."""
    return VerdictCheck(name, "not_applicable", why)


def gate_check(judgement: Judgement | None) -> VerdictCheck:
    """Check that the SASS is what the probe means, or the emulation that it expects. None: no disassembler."""
    if judgement is None or judgement.gate is None:
        return VerdictCheck("gate", "missing", "no disassembler: the code that ran was not checked")
    if judgement.gate in {"pass", "emulated"}:
        return VerdictCheck("gate", "passed", judgement.why)
    return VerdictCheck("gate", "failed", f"the code is not what the probe intends: {judgement.why}")


def scaling_check(scaling: Scaling | None) -> VerdictCheck:
    """Check that time grows in proportion to the iterations."""
    if scaling is None:
        return VerdictCheck("scaling", "missing", "not timed at N, 2N and 4N iterations")
    return VerdictCheck("scaling", "failed" if scaling.misfit else "passed", scaling.misfit, number=scaling.residual)


def clock_check(
    in_kernel: SmClock | NoClock,
    nvml_hz: float | None,
    held: Sequence[str] = (),
    seen_hz: tuple[float, float] | None = None,
) -> VerdictCheck:
    """Check that the clock in the kernel (clock64 over globaltimer) is NVML's within 2 %.

    `held`: what held the clocks back meanwhile, `seen_hz` NVML's lowest and highest clock but for the rarest. A clock
    that is held back moves within milliseconds, and NVML reads it between launches: it may lie anywhere in that range,
    and outside of it is a doubt.
    """
    if isinstance(in_kernel, NoClock):
        return VerdictCheck("clock", "missing", in_kernel.why)
    if nvml_hz is None:
        return VerdictCheck("clock", "missing", "NVML gives no SM clock to compare with")
    ratio = in_kernel.median_hz / nvml_hz
    if abs(ratio - 1) <= CLOCK_TOLERANCE:
        return VerdictCheck("clock", "passed", number=ratio)
    ours, theirs = format_si(in_kernel.median_hz, "Hz", 4), format_si(nvml_hz, "Hz", 4)
    both = f"the SM clock was {ours} in the kernel and {theirs} by NVML"
    if not held:
        return VerdictCheck("clock", "failed", both, number=ratio)
    low, high = seen_hz or (nvml_hz, nvml_hz)
    why = (
        f"{both}, which saw {format_si(low, 'Hz', 4)} to {format_si(high, 'Hz', 4)} while held back: {', '.join(held)}"
    )
    inside = low * (1 - CLOCK_TOLERANCE) <= in_kernel.median_hz <= high * (1 + CLOCK_TOLERANCE)
    return VerdictCheck("clock", "passed" if inside else "missing", why, number=ratio)


def limit_check(value: float, unit: str, bound: Bound | NoBound, floor: float = CEILING_FLOOR) -> VerdictCheck:
    """Check a throughput against its physical limit: at most 1.005 times, and where the limit is its own, a tenth.

    A probe that is slow by nature has a floor of its own, one that is meant to be slow (few bytes in flight) none: 0.
    A limit that is not confirmed leaves a doubt; only the one behind it rejects.
    """
    if isinstance(bound, NoBound):
        return VerdictCheck("limit", "missing", f"its limit is not known: {bound.why}")
    limit = bound.in_unit(unit)
    if limit is None:
        return VerdictCheck("limit", "missing", f"the limit {bound.name} is in {bound.unit}, the value in {unit}")
    ratio = value / limit
    against = f"{format_si(value, unit, 4)} is {ratio:.3g} × the limit {format_si(limit, unit, 4)}: {bound.source}"
    if ratio > LIMIT_MARGIN:
        doubt = "above a limit that is not confirmed, so the spec may be wrong: "
    elif ratio < floor and bound.exact:
        doubt, against = "not confirmed, the spec may be wrong: ", f"too little for a ceiling: {against}"
    else:
        return VerdictCheck("limit", "passed", number=ratio)
    if bound.confirmed:
        return VerdictCheck("limit", "failed", against, number=ratio)
    certain = limit_check(value, unit, bound.behind, floor) if bound.behind is not None else None
    if certain is not None and certain.state == "failed":
        return certain
    return VerdictCheck("limit", "missing", f"{doubt}{against}", number=ratio)


def agreement_check(
    name: str, value: float, other: float, unit: str, what: str, tolerance: float = REPEAT_TOLERANCE
) -> VerdictCheck:
    """Check a value against another that must be the same: measured again, another way into the same storage."""
    ratio = value / other
    if abs(ratio - 1) <= tolerance:
        return VerdictCheck(name, "passed", number=ratio)
    both = f"{format_si(value, unit, 4)} here and {format_si(other, unit, 4)} {what}"
    why = f"{both} differ by {abs(ratio - 1):.1%}, more than {tolerance:.0%}"
    return VerdictCheck(name, "failed", why, number=ratio)


def counter_check(claimed: Mapping[str, float], counted: Mapping[str, float] | None) -> VerdictCheck:
    """Check the work and bytes that the probe claims against ncu's counters, within 2 %."""
    if counted is None:
        return VerdictCheck("counters", "not_applicable", "not asked for")
    lacking = [name for name in claimed if name not in counted]
    if lacking:
        return VerdictCheck("counters", "missing", f"ncu reported no {', '.join(lacking)}")
    ratios = {name: counted[name] / value for name, value in claimed.items() if value}
    worst = max(ratios, key=lambda name: abs(ratios[name] - 1), default=None)
    if worst is None or abs(ratios[worst] - 1) <= COUNTER_TOLERANCE:
        return VerdictCheck("counters", "passed", number=ratios[worst] if worst is not None else None)
    why = f"ncu counts {ratios[worst]:.3g} × the {worst} that the probe claims"
    return VerdictCheck("counters", "failed", why, number=ratios[worst])


def named(checks: Iterable[VerdictCheck], name: str) -> VerdictCheck | None:
    """Return the check of that name."""
    return next((check for check in checks if check.name == name), None)
