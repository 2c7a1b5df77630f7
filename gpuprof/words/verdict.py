"""The verdict on a run in a sentence: the limit, then the cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from gpuprof.diagnose.facts.launch import LAUNCH_S
from gpuprof.diagnose.ranking import about
from gpuprof.diagnose.thresholds import BUSY, MEDIUM
from gpuprof.diagnose.verdict import (
    KernelLimit,
    is_limit,
    is_typical,
    kernel_limit,
    leading_operator,
    likely_finding,
    run_findings,
)
from gpuprof.model.headline import (
    asked_of_peak,
    line_text,
    listed,
    main_point,
    nearest_limit,
    units_not_collected,
)
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.path_names import path_name
from gpuprof.model.run_totals import is_part
from gpuprof.model.session import Finding, KernelProfile, RunVerdict, Session
from gpuprof.model.set_up import Role, roles_of
from gpuprof.model.sources import kind_named as source_kind_named
from gpuprof.model.surveyed import NOT_CHOSEN
from gpuprof.model.torch_ranges import operator_name
from gpuprof.units import counted, format_percent, format_si
from gpuprof.words.findings import cause_phrase, further_headline, run_sentence
from gpuprof.words.missing_metrics import Gap, has_only_set_up, open_gaps, without_counters
from gpuprof.words.profile_values import limit_text
from gpuprof.words.sentences import capital, full_stop, inside, joined_by
from gpuprof.words.unit_names import pipe_name
from gpuprof.words.whole_graphs import graphs_sentence
from gpuprof.words.wording import template

# Fractions that differ by less are shown once.
_SAME = 0.02
_CEILINGS = {
    "dram": "DRAM bandwidth",
    "l2": "L2 bandwidth",
    "l1": "L1 throughput",
    "sm": "SM throughput",
    "memory": "memory throughput",
    "tensor": "tensor throughput",
}
_UNITS = {"dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "the SMs", "memory": "memory"}
_BOUND = {
    "dram": "DRAM-bound",
    "l2": "L2-bound",
    "l1": "L1-bound",
    "sm": "compute-bound",
    "memory": "memory-bound",
}
_WITHOUT_LIMIT = {
    "limited": "no unit at its limit",
    "waiting": "latency-bound",
    "unfilled": "too few warps",
    "short": "too short to judge",
    "void": "stores nothing",
    "open": "limit unknown",
}
_MISSING = {
    "units": "how busy the units are",
    "stalls": "why warps stall",
    "pipes": "which pipe is busy",
}

_KERNEL_TIME = "the time of kernels"
_MOST_OF_REST = 0.5
"""A likely cause explains at least this part of the time in which the busiest unit is idle."""


class _SetUp(NamedTuple):
    """Phrases for a kernel that only sets up, and for a report that has nothing else."""

    does: str
    nothing_but: str


SET_UP: Mapping[Role | None, _SetUp] = {
    "data": _SetUp("only makes data for others", "set-up"),
    "warm-up": _SetUp("only warms the GPU up", "warm-up"),
    "try": _SetUp("is an autotuner trial", "autotuner trials"),
    None: _SetUp("only sets up what others use", "set-up"),
}
"""By the role that all kernels have; None if they have several."""


def only_role(kernels: Sequence[KernelProfile]) -> Role | None:
    """Return the role that all of these set-up kernels have; None if there are several."""
    role, *others = roles_of(kernels)
    return None if others else role


def ceiling_name(subject: str) -> str:
    """Return the ceiling of a unit or a compute path: "DRAM bandwidth", "FP32 throughput"."""
    return _CEILINGS.get(subject) or f"{path_name(subject)} throughput"


def verdict_sentence(session: Session, verdict: RunVerdict, name: str | None = None) -> str:
    """Return the sentence of a verdict; `name` replaces the name of its function.

    Raises KeyError for the case of another version.
    """
    kernel = session.numbered(verdict.kernel)
    if kernel is None:
        return ""
    finding = next((item for item in kernel.findings if item.id == verdict.cause), None)
    state = _SENTENCES[verdict.case or ""](_Facts(session, kernel, verdict, finding))
    state = _with_bytes(kernel, verdict, state)
    if verdict.state == "set-up":
        state = _set_up(session, kernel, state)
    operator = leading_operator(session) if verdict.state != "set-up" else None
    subject = kernel.function_name if name is None else name
    about = joined_by(", ", _kind(kernel), _share(session, launches_of_function(session, kernel), operator))
    if about:
        subject += f" ({about})"
    sentence = f"{subject} {state}"
    if operator is not None:
        sentence = f"{_operator_share(session, operator)}. Its longest kernel, {subject}, {state}"
    elif not is_typical(session, kernel):
        sentence = f"In #{kernel.id}, its largest part, {sentence}"
    answers = (full_stop(answer.text) for answer in kernel.answers)
    leading = _leading_sentence(session, verdict), graphs_sentence(session)
    return joined_by(" ", *leading, full_stop(sentence), *answers)


class _Facts(NamedTuple):
    """The data of a sentence on a kernel."""

    session: Session
    kernel: KernelProfile
    verdict: RunVerdict
    finding: Finding | None

    @property
    def subject(self) -> str:
        """Return the unit or compute path in words."""
        return unit_text(self.verdict.subject or "")

    @property
    def fraction(self) -> float:
        """Return the reached fraction of the ceiling; an upper bound if the verdict has none."""
        if self.verdict.fraction is not None:
            return self.verdict.fraction
        nearest = nearest_limit(self.kernel)
        return nearest.fraction if nearest is not None else 0.0

    @property
    def share(self) -> str:
        """Return that fraction in words."""
        bound = {"at-least": "at least ", "at-most": "at most "}.get(self.verdict.bound or "", "")
        return f"{bound}{format_percent(self.fraction)}"

    @property
    def cause(self) -> str:
        """Return the cause and its line: "uncoalesced global access at gather.cu:41"."""
        if self.finding is None:
            return ""
        return joined_by(" at ", cause_phrase(self.finding), line_text(self.verdict.place))


def unit_text(subject: str) -> str:
    """Return a unit or compute path in words: "DRAM", "the SMs", "FP32 arithmetic"."""
    return _UNITS.get(subject) or f"{path_name(subject)} arithmetic"


def bound_text(subject: str) -> str:
    """Return the name of a kernel's limit: "DRAM-bound"."""
    return _BOUND.get(subject) or f"bound by {path_name(subject)} arithmetic"


def limit_name(limit: KernelLimit) -> str:
    """Return what limits a kernel in a few words: "L2-bound", "latency-bound", "limit unknown"."""
    if limit.subject is not None:
        return bound_text(limit.subject)
    return _WITHOUT_LIMIT[limit.state]


def limit_and_busiest(kernel: KernelProfile, only_times: bool, shown: Mapping[str, float] = {}) -> str:
    """Write the limit of a kernel, and how busy the unit is that works closest to its peak.

    The unit is left out if `shown`, fractions of ceilings by level, already has about that value.
    """
    limit = limit_name(kernel_limit(kernel, only_times=only_times))
    busiest = nearest_limit(kernel)
    if busiest is None or abs(shown.get(busiest.unit, math.inf) - busiest.fraction) < _SAME:
        return limit
    return f"{limit}; busiest unit: {limit_text(kernel)}"


def launches_of_function(session: Session, kernel: KernelProfile) -> list[KernelProfile]:
    """Return all launches of a kernel's function in its report, or in all traces, which are shown as one run."""
    launches = [other for other in session.kernels if other.function_name == kernel.function_name]
    if session.timeline is not None:
        return launches
    return [other for other in launches if other.source == kernel.source]


def _kind(kernel: KernelProfile) -> str:
    """Return the kind of a kernel, unless the name of its function says it already."""
    kind = kind_named(kernel.kind)
    if kind is None or kind.title.lower() in kernel.function_name.lower():
        return ""
    return kind.title


def _share(session: Session, launches: Sequence[KernelProfile], named: str | None) -> str:
    """Return the share of a function's launches in their report: "87 % of GPU time in 24 launches of aten::bmm".

    If GPUs are busy longer with other things than with kernels, the share is of the kernels' time. The operator is left
    out if it is `named` already.
    Empty if it is all of the GPU time, or unknown.
    """
    shares = [kernel.time_share for kernel in launches if kernel.time_share is not None]
    whole = _whole(session)
    is_only = len({other.function_name for other in session.kernels}) == 1
    if not shares or (is_only and whole != _KERNEL_TIME):
        return ""
    share = f"{format_percent(min(1.0, sum(shares)))} of {whole}"
    number = sum(kernel.launches for kernel in launches)
    kernels = len({kernel.numbered_name for kernel in launches})
    share += f" with {kernels} kernels" if kernels > 1 else ""
    operators = {operator_name(kernel.ranges) for kernel in launches}
    operator = f" of {operators.pop()}" if len(operators) == 1 and not operators & {"", named} else ""
    if len(launches) == 1 and not operator:
        return share
    return f"{share} in {counted(number, 'launch', 'es')}{operator}"


def _operator_share(session: Session, operator: str) -> str:
    """Return the share of an operator's kernels: "aten::addmm takes 64 % of GPU time with 3 kernels"."""
    kernels = [kernel for kernel in session.kernels if operator_name(kernel.ranges) == operator]
    share = min(1.0, sum(kernel.time_share or 0.0 for kernel in kernels))
    functions = len({kernel.numbered_name for kernel in kernels})
    return f"{operator} takes {format_percent(share)} of {_whole(session)} with {counted(functions, 'kernel')}"


def _whole(session: Session) -> str:
    """Return what shares of kernels refer to: GPUs can be busy longer with other things."""
    devices = session.timeline.devices if session.timeline is not None else ()
    is_less = 2 * sum(device.kernel_s for device in devices) < sum(device.busy_s for device in devices)
    return _KERNEL_TIME if is_less else "GPU time"


def _short(facts: _Facts) -> str:
    duration_s = facts.kernel.duration_s or 0.0
    case = "less-than-launch" if duration_s < LAUNCH_S else "as-long-as-launch"
    return f"takes {format_si(duration_s, 's')}{template('short-kernel', 'headline', case)}"


def _at_roof(facts: _Facts) -> str:
    verdict = facts.verdict
    if verdict.subject is None or verdict.fraction is None:
        return f"is near the ceiling of {ceiling_name('dram')}: only moving fewer bytes helps"
    helps = "less arithmetic or a narrower type helps"
    if verdict.subject == "dram":
        helps = "moving fewer bytes helps"
    # The work as it is has something to gain, too, or the time in which SMs have none.
    finding = facts.finding
    is_partly = finding is not None and "while-working" in finding.cases.headline
    has_gap = is_partly or (finding is not None and (finding.gain_kernel or 0.0) >= MEDIUM)
    advice = f"{helps} most" if has_gap else f"only {helps}"
    return f"is at {facts.share} of {ceiling_name(verdict.subject)}: {advice}"


def _own_limit(facts: _Facts) -> str:
    """Write the memory level that limits a kernel, its rate, and the rest of its finding."""
    share = facts.share
    more = ""
    if facts.finding is not None:
        rate = facts.finding.amount("rate")
        if rate is not None:
            share += f", {format_si(rate, 'B/s')}"
        more = further_headline(facts.finding)
    return f"is {bound_text(facts.verdict.subject or '')} ({share}){more}"


def _caused(facts: _Facts) -> str:
    return f"is {bound_text(facts.verdict.subject or '')} ({facts.share}): {facts.cause}"


def _slowed(facts: _Facts, how: str = "is slowed by") -> str:
    """Write what slows a kernel down, and apart from that how busy its units are."""
    return joined_by(". ", f"{how} {facts.cause}", _how_busy(facts))


def _unoptimised(facts: _Facts) -> str:
    text = f"is an {facts.cause}: compile it with optimisation before anything else"
    return joined_by(". ", text, _how_busy(facts))


def _waits_unknown(facts: _Facts) -> str:
    return joined_by(". ", "mostly waits, and no counter in the report shows for what", _how_busy(facts))


def _how_busy(facts: _Facts) -> str:
    """Write how busy the unit is that may be the limit, else how busy the units are; empty if unknown."""
    subject = facts.verdict.subject
    if subject is None:
        return ""
    if not is_limit(facts.verdict.fraction, facts.verdict.bound):
        return _no_limit(facts)
    if subject == "dram":
        return f"It already reaches {facts.share} of {ceiling_name('dram')}"
    verb = "are" if subject == "sm" else "is"
    return f"{capital(facts.subject)} {verb} {facts.share} busy"


def _no_limit(facts: _Facts) -> str:
    """Write how busy the units are at most; one that was not collected can be busier."""
    bound = facts.verdict.bound
    unknown = units_not_collected(facts.kernel)
    pipe = max(facts.kernel.pipes, key=lambda pipe: pipe.fraction, default=None)
    if "sm" in unknown and pipe is not None and BUSY.is_reached(pipe.fraction):
        return f"The {pipe_name(pipe.name)} pipe is {format_percent(pipe.fraction)} busy"
    if bound == "at-least":
        return f"The busiest unit that is known is busy for {facts.share} of the time: {facts.subject}"
    share = _most_busy(facts)
    if not unknown:
        return f"No unit is more than {share} busy"
    if bound == "at-most":
        share = f"at most {share}"
    verb = "were" if "sm" in unknown or len(unknown) > 1 else "was"
    names = listed([_UNITS[unit] for unit in unknown])
    return f"The busiest unit that was collected is {share} busy; {names} {verb} not collected"


def _most_busy(facts: _Facts) -> str:
    """Write how busy the busiest unit is that was collected."""
    fractions = [unit.fraction for unit in facts.kernel.throughput if unit.is_exact]
    if facts.verdict.subject is not None:
        fractions.append(facts.fraction)
    return format_percent(min(1.0, max(fractions, default=0.0)))


def _counted(facts: _Facts) -> str:
    finding = facts.finding
    if finding is None:
        raise KeyError("a verdict on counts names no finding")
    text = "has no counters that show what limits it"
    return f"{text}. {finding.headline}. If that takes time: {inside(finding.action)}"


def _busiest(facts: _Facts) -> str:
    collected = " that was collected" if units_not_collected(facts.kernel) else ""
    helps = _likely_text(facts) or "no counter in the report shows what would make it faster"
    if not BUSY.is_reached(facts.fraction) and facts.verdict.bound != "at-least":
        return f"keeps no unit{collected} more than {_most_busy(facts)} busy; {helps}"
    return f"keeps {facts.subject} {facts.share} busy, more than any other unit{collected}; {helps}"


def _likely_text(facts: _Facts) -> str:
    likely = likely_finding(facts.kernel)
    if likely is None:
        return ""
    cause, gain = cause_phrase(likely), likely.gain_kernel
    if gain is not None and about(likely) != "limit" and gain < _MOST_OF_REST * (1.0 - facts.fraction):
        return f"{cause} may explain up to {format_percent(gain)} of its time (a guess)"
    return f"the likely cause is a guess: {cause}"


def _unknown(facts: _Facts) -> str:
    """Write how fast a kernel is if nothing shows why it is no faster."""
    speed = _by_shapes(launches_of_function(facts.session, facts.kernel)) or _by_dram(facts.kernel)
    limit = "has no counters that show what limits it"
    if speed:
        limit = f"{speed}; no counter in the report shows what limits it"
    return joined_by("; ", limit, _likely_text(facts))


def _by_shapes(launches: Sequence[KernelProfile]) -> str:
    """Write which part of a rated ceiling the operators of a function need: of DRAM or of arithmetic.

    It is the mean over the time of all launches; empty if it is not known of one.
    """
    least = most = whole_s = 0.0
    peaks = set()
    for kernel in launches:
        asked = asked_of_peak(kernel.own_flop, kernel.operator_bytes)
        time_s = kernel.time_total_s
        if asked is None or not time_s:
            return ""
        peaks.add((asked.of, asked.faster))
        least += asked.least * time_s
        most += asked.most * time_s
        whole_s += time_s
    peak, faster = peaks.pop()
    if peaks:
        return ""
    share = format_percent(most / whole_s)
    if peak == "dram":
        return f"moves its operands and its result at {share} of rated DRAM bandwidth"
    if faster != peak:
        share = f"{format_percent(least / whole_s)} of rated {faster.upper()} or {share}"
    elif most > least:
        share = f"{format_percent(least / whole_s)} to {share}"
    masked = any(kernel.own_flop is not None and kernel.own_flop.causal for kernel in launches)
    half = " (half of the scores of causal attention)" if masked else ""
    return f"reaches {share} of rated {peak.upper()} throughput by its operator's shapes{half}"


def _by_dram(kernel: KernelProfile) -> str:
    """Write the rate of a kernel's DRAM traffic, if no ceiling of that is known."""
    rate = next((moved.bytes_per_s for moved in kernel.traffic if moved.level == "dram"), None)
    return f"moves {format_si(rate, 'B/s')} through DRAM" if rate else ""


def _exchange(facts: _Facts) -> str:
    """Write that a kernel exchanges data, and how much of that no other kernel overlaps."""
    text = "exchanges data with other GPUs: the links and the other ranks set its time"
    devices = facts.session.timeline.devices if facts.session.timeline is not None else ()
    talks = [device.communication for device in devices if device.communication is not None]
    time_s = sum(talk.time_s for talk in talks)
    exposed_s = [talk.exposed_s for talk in talks if talk.exposed_s is not None]
    if not time_s or len(exposed_s) < len(talks):
        return text
    share = min(1.0, sum(exposed_s) / time_s)
    return f"{text}. {format_percent(share)} of the communication time is exposed: no other kernel runs meanwhile"


_SENTENCES: Mapping[str, Callable[[_Facts], str]] = {
    "short": _short,
    "void": lambda _: "stores nothing, so its time means nothing: check what it computes first",
    "at-roof": _at_roof,
    "limit": _own_limit,
    "caused": _caused,
    "slowed": _slowed,
    "unoptimised": _unoptimised,
    "unfilled": lambda facts: _slowed(facts, "does not fill the GPU:"),
    "waits": lambda facts: _slowed(facts, "mostly waits:"),
    "waits-unknown": _waits_unknown,
    "counted": _counted,
    "busiest": _busiest,
    "unknown": _unknown,
    "exchange": _exchange,
}
"""By the case of a verdict: the words after the kernel's name."""


def _with_bytes(kernel: KernelProfile, verdict: RunVerdict, state: str) -> str:
    """Add how close a kernel is to what binds its kind, if the state is of something else."""
    reached = _bytes_reached(kernel)
    if reached is None or verdict.subject == "dram" or verdict.case in ("short", "void", "exchange"):
        return state
    share = f"{format_percent(reached)} of {ceiling_name('dram')}"
    return f"{full_stop(state)} Kernels of its kind are usually memory-bound: it reaches {share}"


def _bytes_reached(kernel: KernelProfile) -> float | None:
    """Return the DRAM utilization of a kernel of a memory-bound kind; None if not known.

    A kind that can be bound by either is memory-bound if its point lies under the memory roof. If
    L2 is busier than DRAM, most bytes do not come from DRAM: None.
    """
    kind, point = kind_named(kernel.kind), main_point(kernel)
    if kind is None or kind.binds == "links":
        return None
    if kind.binds == "reuse" and (point is None or point.bound != "memory"):
        return None
    known = {unit.unit: unit.fraction for unit in kernel.throughput if unit.is_exact}
    dram = known.get("dram")
    if dram is None or known.get("l2", 0.0) > dram:
        return None
    return min(1.0, dram)


def _set_up(session: Session, kernel: KernelProfile, state: str) -> str:
    beside = "" if is_part(session) else ", and nothing else was profiled"
    return f"{SET_UP[only_role([kernel])].does}{beside}. It {state}"


def _leading_sentence(session: Session, verdict: RunVerdict) -> str:
    found = (pair for pair in run_findings(session) if pair[0].id == verdict.run_finding)
    return next((of_the_run(session, *pair) for pair in found), "")


def of_the_run(session: Session, finding: Finding, kernel: KernelProfile) -> str:
    """Return a finding on the run as a sentence, with the names of the kernel and its file."""
    return full_stop(capital(run_sentence(finding, kernel.function_name, _file_of(session, kernel))))


def _file_of(session: Session, kernel: KernelProfile) -> str:
    """Return the file that a kernel is of, without its folders if no other has that name."""
    file = session.sources[kernel.source].file
    name = PurePath(file).name
    same = [source for source in session.sources if PurePath(source.file).name == name]
    return file if len(same) > 1 else name


def unknown_sentence(session: Session, verdict: RunVerdict) -> str | None:
    """Return what the report does not show of the kernel of a verdict; None if nothing is open."""
    kernel = session.numbered(verdict.kernel)
    if kernel is None:
        return None
    if has_only_set_up(session, verdict):
        return f"Nothing but {SET_UP[only_role(session.kernels)].nothing_but} was profiled."
    gaps = open_gaps(session, verdict, kernel)
    return _gap_sentence(session, kernel, gaps) if gaps else None


def _gap_sentence(session: Session, kernel: KernelProfile, gaps: Sequence[Gap]) -> str:
    source = session.sources[kernel.source]
    if "counters" in gaps:
        if source_kind_named(source.kind).is_trace and not source.is_survey:
            return "A trace has times but no counters."
        reason = without_counters(kernel)
        if reason is None or reason == NOT_CHOSEN:
            return "It was timed, not profiled."
        return f"It was timed, not profiled: {reason.why}."
    *some, last = (_MISSING[gap] for gap in gaps)
    return f"The report has no counters that show {joined_by(' or ', ', '.join(some), last)}."
