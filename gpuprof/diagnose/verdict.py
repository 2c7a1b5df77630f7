"""The verdict on a session as data: the ceiling nearest to its longest kernel, and why.

Only useful work counts towards a ceiling: bytes that have to move, or arithmetic of a type that the
result needs. A busy integer pipe, full issue slots or wasted sectors are a limit, but never a
ceiling. A guess decides the state only if it is the first finding; the verdict then names it as
likely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.diagnose.facts.unit_names import LAUNCH, MEMORY, SM
from gpuprof.diagnose.ranking import about, is_counted
from gpuprof.diagnose.registry import is_of_run, rule_of
from gpuprof.diagnose.rule import SHORT_KERNEL
from gpuprof.diagnose.thresholds import BUSY, HIGH
from gpuprof.diagnose.without_durations import largest_untimed
from gpuprof.model.field_types import Bound, RunState
from gpuprof.model.groups import summed
from gpuprof.model.headline import TWO_PASSES, main_point, nearest_limit
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.run_totals import busy_share
from gpuprof.model.session import Finding, KernelProfile, RunVerdict, Session
from gpuprof.model.set_up import set_up_kernels
from gpuprof.model.time_by import is_of_torch
from gpuprof.model.torch_ranges import operator_name

_LEVELS_OF_RULES = {"dram-bandwidth": "dram", "l2-bandwidth": "l2", "l1-bandwidth": "l1"}
_PATHS_OF_RULES = {"dram-bandwidth": "dram", "fp32-compute-bound": "fp32", "tensor-compute-bound": "tensor"}
"""Rules on a useful ceiling."""
_MOST = 0.5
_OF_THE_GRID = ("small-grid", "tail-effect", "load-imbalance")
"""Findings of SMs without work.

Other unfilled kernels have blocks on all SMs, and empty slots or lanes.
"""
_TYPICAL = 0.9
"""If so much of a function's time is in one state, the function is."""
_NEARLY_ALL = 90.0
"""In percent of the time: the rest is the ramp at the start and the end of most kernels."""
_NOTHING_BUSY = "latency-bound"
_INTEGER_PIPE = "alu"
_ROUNDING = 1.0 + 1e-9


class _Reached(NamedTuple):
    """How close a kernel is to a ceiling: unit or compute path, fraction of it, and bound."""

    subject: str
    fraction: float
    bound: Bound | None = None


class _State(NamedTuple):
    """The state, the case of its sentence, and the reached part of a ceiling."""

    name: RunState
    case: str
    reached: _Reached | None = None
    finding: Finding | None = None


class KernelLimit(NamedTuple):
    """What limits a kernel: the state of its diagnosis, and the unit or compute path at its limit (None: none is)."""

    state: RunState
    subject: str | None


def kernel_limit(kernel: KernelProfile, *, only_times: bool = False) -> KernelLimit:
    """Return what limits a kernel by its diagnosis."""
    state = _state(kernel, only_times=only_times)
    reached = state.reached
    if state.name not in ("at-roof", "limited", "open"):
        return KernelLimit(state.name, None)
    if reached is None:
        return KernelLimit(state.name, "dram" if state.name == "at-roof" else None)
    is_shown = state.case in ("at-roof", "limit") or is_limit(reached.fraction, reached.bound)
    return KernelLimit(state.name, reached.subject if is_shown else None)


def run_verdict(session: Session) -> RunVerdict:
    """Return the verdict on the kernel that takes most time; on set-up kernels only if all are."""
    set_up = set_up_kernels(session.kernels)
    working = [kernel for kernel in session.kernels if kernel.id not in set_up]
    operator = leading_operator(session)
    if operator is not None:
        working = [kernel for kernel in working if operator_name(kernel.ranges) == operator]
    kernel = _longest(working or session.kernels)
    if kernel is None:
        return RunVerdict(kernel=None, state="open", ceiling=None, fraction=None)
    state = _state(kernel, only_times=session.only_times)
    if kernel.kind == COMMUNICATION and (state.name == "open" or state.case == "waits-unknown"):
        state = _State("open", "exchange")
    verdict = RunVerdict(
        kernel=kernel.id,
        state=state.name if working else "set-up",
        case=state.case,
        ceiling=None,
        fraction=None,
        explains_limit=state.case == "caused",
        run_finding=_leading_finding(session),
    )
    if state.finding is not None:
        verdict = replace(verdict, cause=state.finding.id, place=state.finding.place)
    if state.reached is not None:
        subject, fraction, bound = state.reached
        verdict = replace(verdict, subject=subject, fraction=fraction if bound != "at-most" else None, bound=bound)
    return verdict


def leading_operator(session: Session) -> str | None:
    """Return PyTorch's operator that takes more time than any function; None without one, or if there are counters.

    Libraries have many functions for one operator, each for other shapes. Counters are those of a function.
    """
    if not session.only_times or not is_of_torch(session):
        return None
    set_up = set_up_kernels(session.kernels)
    working = [kernel for kernel in session.kernels if kernel.id not in set_up]
    functions = summed((kernel.function_name, kernel.time_total_s or 0.0) for kernel in working)
    operators = summed((operator_name(kernel.ranges), kernel.time_total_s or 0.0) for kernel in working)
    operators.pop("", None)
    longest = max(operators, key=lambda name: operators[name], default=None)
    if longest is None or operators[longest] <= _ROUNDING * max(functions.values()):
        return None
    return longest


def _longest(kernels: Sequence[KernelProfile]) -> KernelProfile | None:
    """Return the longest launch of the function that takes most time.

    Without durations the one with most known work.
    """
    if all(kernel.time_total_s is None for kernel in kernels):
        return largest_untimed(kernels)
    times = summed((kernel.function_name, kernel.time_total_s or 0.0) for kernel in kernels)
    function = max(times, key=lambda name: times[name])
    own = [kernel for kernel in kernels if kernel.function_name == function]
    return max(own, key=lambda kernel: kernel.time_total_s or 0.0)


def is_typical(session: Session, kernel: KernelProfile) -> bool:
    """Return whether nearly all of the time of a kernel's function is in the same state, by the same cause."""
    alike_s = total_s = 0.0
    wanted = _kind_of_state(kernel, only_times=session.only_times)
    for other in session.kernels:
        if other.function_name != kernel.function_name:
            continue
        time_s = other.time_total_s or 0.0
        total_s += time_s
        if _kind_of_state(other, only_times=session.only_times) == wanted:
            alike_s += time_s
    return alike_s >= _TYPICAL * total_s


def _kind_of_state(kernel: KernelProfile, *, only_times: bool) -> tuple[str, str | None, str | None]:
    """Return the case of a kernel's state, its unit or compute path, and the rule of its cause."""
    state = _state(kernel, only_times=only_times)
    subject = state.reached.subject if state.reached is not None else None
    return state.case, subject, state.finding.rule if state.finding is not None else None


def _state(kernel: KernelProfile, *, only_times: bool) -> _State:
    proven = first_proven(kernel)
    if proven is not None and proven.rule == SHORT_KERNEL and kernel.duration_s is not None:
        return _State("short", "short")
    at_roof = _at_roof(proven, kernel)
    if at_roof is not None:
        return at_roof
    finding = first_proven(kernel, with_facts=False)
    return _likely(kernel) or _proven(kernel, finding) or _open_state(kernel, None if only_times else proven)


def first_proven(kernel: KernelProfile, *, with_facts: bool = True) -> Finding | None:
    """Return the first finding on the kernel that the report proves and no other one explains.

    Without facts it is the first with something to fix.
    """
    return next((finding for finding in _leading(kernel, with_facts) if finding.confidence != "guess"), None)


def computes_integers(kernel: KernelProfile) -> bool:
    """Return whether integers are the work of a kernel, and not only the arithmetic of its addresses."""
    finding = first_proven(kernel)
    if finding is not None and finding.rule == "integer-bound":
        return True
    if any(work.path != "int32" and (work.flop or work.flop_per_s) for work in kernel.work):
        return False
    busiest = max(kernel.pipes, key=lambda pipe: pipe.fraction, default=None)
    if busiest is None or busiest.name != _INTEGER_PIPE:
        return False
    return all(busiest.fraction > unit.fraction for unit in kernel.throughput if unit.unit != "sm")


def likely_finding(kernel: KernelProfile) -> Finding | None:
    """Return the first finding with something to fix if it is a guess."""
    first = next(_leading(kernel, with_facts=False), None)
    return first if first is not None and first.confidence == "guess" else None


def _leading(kernel: KernelProfile, with_facts: bool) -> Iterator[Finding]:
    for finding in kernel.findings:
        if finding.cause is None and not is_of_run(finding) and (with_facts or finding.severity != "info"):
            yield finding


def _at_roof(finding: Finding | None, kernel: KernelProfile) -> _State | None:
    """Return the state "at-roof" if the first finding shows a kernel near a useful ceiling."""
    if finding is None or finding.severity != "info":
        return None
    path = _PATHS_OF_RULES.get(finding.rule)
    if path == "dram":
        fraction = next((unit.fraction for unit in kernel.throughput if unit.unit == "dram"), None)
        reached = _Reached(path, fraction) if fraction is not None else None
        return _State("at-roof", "at-roof", reached, finding)
    fraction = finding.amount("of-ceiling")
    if path is None or fraction is None:
        return None
    return _State("at-roof", "at-roof", _Reached(path, min(1.0, fraction)), finding)


def _likely(kernel: KernelProfile) -> _State | None:
    """Return a kernel's state if its first finding is a guess."""
    likely = likely_finding(kernel)
    if likely is None:
        return None
    if likely.rule == _NOTHING_BUSY and (likely.gain_kernel or 0.0) >= _MOST:
        return _State("waiting", "waits-unknown", _busiest(kernel))
    return _open_state(kernel, None)


def _proven(kernel: KernelProfile, finding: Finding | None) -> _State | None:
    """Return a kernel's state by the first proven finding with something to fix."""
    if finding is None:
        return None
    rule = rule_of(finding)
    busy = _busiest(kernel)
    if rule.invalidates == "time":
        return _State("void", "void", finding=finding)
    if rule.invalidates:
        return _State("limited", "unoptimised", busy, finding)
    is_wait = rule.kind == "symptom"
    case = "slowed"
    if is_wait and (finding.gain_kernel or 0.0) >= _MOST:
        case = "waits"
    elif finding.rule in _OF_THE_GRID and not _have_work(finding):
        case = "unfilled"
    if rule.place.otherwise == "warps" and finding.subject not in MEMORY:
        return _State("unfilled", case, busy, finding)
    if is_wait:
        return _State("waiting", case, busy, finding)
    return _limited(kernel, finding, busy) or _State("limited", case, busy, finding)


def _have_work(finding: Finding) -> bool:
    """Return whether an average SM has work for nearly all of the time, even if only for a few warps at the end."""
    return any(item.role == "sms-with-work" and item.value >= _NEARLY_ALL for item in finding.evidence)


def _limited(kernel: KernelProfile, finding: Finding, busy: _Reached | None) -> _State | None:
    """Return the state of a kernel that this finding limits, or whose limit it causes."""
    if busy is None:
        return None
    level = _LEVELS_OF_RULES.get(finding.rule)
    if level is None or finding.subject not in (None, level):
        is_caused = is_limit(busy.fraction, busy.bound) and _is_cause(finding, busy, kernel)
        return _State("limited", "caused", busy, finding) if is_caused else None
    fraction = finding.amount("busy")
    if fraction is None and level == busy.subject:
        fraction = busy.fraction
    # A part of the level can be busier than its average: use the finding's number.
    if fraction is not None and fraction >= busy.fraction - TWO_PASSES:
        return _State("limited", "limit", _Reached(level, fraction), finding)
    return None


def is_limit(fraction: float | None, bound: Bound | None) -> bool:
    """Return whether a unit that is so busy can be the limit."""
    return BUSY.is_reached(fraction) and bound != "at-most"


def _is_cause(finding: Finding, busy: _Reached, kernel: KernelProfile) -> bool:
    """Return whether fixing a finding takes a good part of the busiest unit's work.

    A full pipe is why the SM is busy, unless another is fuller. The other findings list the need of
    each unit that remains: nothing remains of a known unit that is not in the list. Not known is
    which unit keeps memory busy if none of its levels does.
    """
    own_pipe = [pipe.fraction for pipe in kernel.pipes if pipe.name == finding.subject]
    if own_pipe and own_pipe[0] < busy.fraction - TWO_PASSES and finding.amount("sm") is None:
        return False
    if busy.subject == "memory":
        return False
    if about(finding) == "limit":
        return busy.subject not in MEMORY
    if busy.subject == SM:
        is_known = bool(kernel.pipes)
        left = [item.fraction for item in finding.remains if item.unit not in (*MEMORY, LAUNCH)]
    else:
        is_known = any(unit.unit == busy.subject and unit.is_exact for unit in kernel.throughput)
        left = [item.fraction for item in finding.remains if item.unit == busy.subject]
    if left:
        return max(left) <= (1.0 - HIGH) * busy.fraction
    return is_known and finding.remains != ()


def _busiest(kernel: KernelProfile) -> _Reached | None:
    """Return the busiest unit.

    Without speeds of light, the fraction of the roof that traffic or work reaches.
    """
    nearest = nearest_limit(kernel)
    if nearest is not None:
        return _Reached(nearest.unit, nearest.fraction, nearest.bound)
    point = main_point(kernel)
    if point is None:
        return None
    return _Reached("dram" if point.bound == "memory" else point.path, point.fraction_of_roof)


def _open_state(kernel: KernelProfile, finding: Finding | None) -> _State:
    busy = _busiest(kernel)
    if busy is not None:
        return _State("open", "busiest", busy)
    if finding is not None and is_counted(finding):
        return _State("open", "counted", finding=finding)
    return _State("open", "unknown")


def run_findings(session: Session) -> list[tuple[Finding, KernelProfile]]:
    """Return the findings on the run, each with the kernel that has it, largest gain first."""
    of_run = [
        (finding, kernel)
        for kernel in session.kernels
        for finding in kernel.findings
        if is_of_run(finding) and finding.severity in ("high", "medium")
    ]
    return sorted(of_run, key=lambda entry: -(entry[0].gain_total or 0.0))


def _leading_finding(session: Session) -> str | None:
    """Return the id of the finding on the run if its gain is larger than the share of any function.

    Shares of kernels are of the time of all kernels; a gain of the run is of its whole time.
    """
    found = run_findings(session)
    if not found:
        return None
    busy = busy_share(session)
    shares = summed((kernel.function_name, busy * (kernel.time_share or 0.0)) for kernel in session.kernels)
    finding = found[0][0]
    return finding.id if (finding.gain_total or 0.0) > max(shares.values()) else None
