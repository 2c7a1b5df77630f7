"""The state of what takes the time, in one sentence: how close the longest kernel is to which ceiling, and why.

Only useful work makes a kernel done: bytes that have to move, or arithmetic of a type that the result needs. A busy
integer pipe, full issue slots or wasted sectors are a limit, and never a ceiling. A guess is no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from msgspec import Struct

from gpuprof.diagnose.clocks import clock_notes
from gpuprof.diagnose.compute import PIPE_BUSY
from gpuprof.diagnose.effects import STORES_NOTHING
from gpuprof.diagnose.exclusion_text import exclusion_text
from gpuprof.diagnose.kinds import bytes_reached
from gpuprof.diagnose.more import command_for_more, command_for_rest, has_failed, unknown_of
from gpuprof.diagnose.needs import MEMORY, SM, beside_launch
from gpuprof.diagnose.order import about, is_counted
from gpuprof.diagnose.registry import is_of_run, rule_named
from gpuprof.diagnose.set_up import Role, roles_of, set_up_kernels
from gpuprof.diagnose.untimed import most_telling
from gpuprof.hardware.specs import is_geforce_rtx
from gpuprof.model.denominators import told
from gpuprof.model.field_types import RunState
from gpuprof.model.headline import asked_of_peak, line_text, listed, main_point, nearest_limit, units_not_collected
from gpuprof.model.kernel_kinds import COMMUNICATION, kind_named
from gpuprof.model.run_totals import busy_share, is_part
from gpuprof.model.session import Finding, KernelProfile, OperatorBytes, OperatorFlop, RunVerdict, Session
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.units import format_percent, format_si

UNIT_CEILINGS = {
    "dram": "DRAM bandwidth", "l2": "L2 bandwidth", "l1": "L1 throughput", "sm": "SM throughput",
    "memory": "memory throughput",
}  # fmt: skip
_UNITS = {"dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "the SMs", "memory": "memory"}
_WORK_CEILINGS = {"fp32-compute-bound": "FP32 throughput", "tensor-compute-bound": "tensor throughput"}
_MOST = 0.5
"""Two reports that share at least half of their kernels' names can be versions of one program."""
_MOST_SHOWN = 3
_NOTHING_BUSY = "latency-bound"
_SMALL_PART = 0.1
"""What saves less is no answer to why a kernel takes its time."""
_TIME_ALONE = "needs counters: its time alone does not say why"
_LEAST_KINDS, _KINDS_SHOWN = 3, 5
_LEAST_SHARE = 0.005


class _SetUp(NamedTuple):
    """What is said of a kernel that only sets up, of a session that holds nothing else, and where its work is."""

    does: str
    nothing_but: str
    note: str


_SET_UP: dict[Role | None, _SetUp] = {
    "data": _SetUp(
        "only makes data for others",
        "set-up",
        "Only random numbers, fills and copies were profiled: the kernels that use them come later.",
    ),
    "warm-up": _SetUp("only warms the GPU up", "warm-up", "Only warm-up was profiled: the work is launched later."),
    "try": _SetUp(
        "is an autotuner trial",
        "autotuner trials",
        "Only autotuner trials were profiled: the kernel that the autotuner chooses is launched later.",
    ),
    None: _SetUp(
        "only sets up what others use",
        "set-up",
        "Only set-up was profiled, such as data, warm-up and autotuner trials: the work is launched later.",
    ),
}
"""By the role that all have; None where they have several."""


class _Reached(Struct, frozen=True):
    """How close a kernel is to a ceiling: the unit in words, the ceiling's name, and the fraction of it if known, or no
    less or no more than that."""

    unit: str
    ceiling: str
    fraction: float | None
    or_more: bool = False
    or_less: bool = False

    @property
    def share(self) -> str:
        """The fraction in words."""
        bound = "at least " if self.or_more else "at most " if self.or_less else ""
        return f"{bound}{format_percent(self.fraction or 0.0)}"


class _State(NamedTuple):
    """What the state is called, in words after the kernel's name, and what of a ceiling is reached."""

    name: RunState
    text: str
    reached: _Reached | None = None


def run_verdict(session: Session) -> RunVerdict:
    """Return the verdict on a session: of the kernel that takes most time, set-up kernels only where all are."""
    set_up = set_up_kernels(session.kernels)
    working = [kernel for kernel in session.kernels if kernel.id not in set_up]
    kernel = _longest(working or session.kernels)
    notes = (*_notes(session, set_up), *_counted_beside(session, kernel), *_of_no_effect(kernel))
    most = _most_of_run(session)
    of_run = _of_the_run(session, *most) if most is not None else ""
    if kernel is None:
        return RunVerdict(sentence="", kernel=None, state="open", ceiling=None, fraction=None, notes=notes)
    state = _state(kernel) if not session.only_times else _timed_state(kernel)
    if state.name == "open" and state.reached is not None and _is_one_of_many(kernel, session.kernels):
        state = _open_longest(kernel, state.reached)
    unknown, command = _more(session, kernel, state)
    reached = state.reached if state.reached is not None and not state.reached.or_less else None
    state = _held(session, kernel, state)
    if not working and is_part(session):
        state = _set_up_state(state, roles_of([kernel]), beside="")
    elif not working:
        state = _set_up_state(state, roles_of([kernel]), beside=", and nothing else was profiled")
        nothing_but = _SET_UP[_only(roles_of(session.kernels))].nothing_but
        unknown, command = f"Nothing but {nothing_but} was profiled.", command_for_rest(session, kernel)
    return RunVerdict(
        sentence=f"{of_run} {_sentence(f'{_title(kernel)}{_share(kernel, session)} {state.text}')}".lstrip(),
        kernel=kernel.id,
        state=state.name,
        ceiling=reached.ceiling if reached is not None else None,
        fraction=reached.fraction if reached is not None else None,
        notes=notes,
        unknown=unknown,
        command=command,
    )


def _more(session: Session, kernel: KernelProfile, state: _State) -> tuple[str | None, str | None]:
    """Return what cannot be told of a kernel and the command that would collect it; nothing where nothing is open."""
    if state.name in ("at-roof", "short", "void") or kernel.kind == COMMUNICATION:
        return None, None
    unknown = unknown_of(session, kernel)
    if unknown is None or has_failed(session, kernel):
        return unknown, None
    return unknown, command_for_more(session, kernel)


def _title(kernel: KernelProfile) -> str:
    """Return a kernel's label with what it does, where the label has another word for it."""
    kind = kind_named(kernel.kind)
    if kind is None or kind.title.lower() in kernel.label.lower():
        return kernel.label
    return f"{kernel.label} ({kind.title})"


def _held(session: Session, kernel: KernelProfile, state: _State) -> _State:
    """Add how close a kernel is to what binds its kind, where the state is of something else."""
    if kernel.kind == COMMUNICATION and state.name == "open":
        text = "exchanges data with other GPUs: the links and the other ranks set its time"
        return state._replace(text=text + _exposed(session))
    reached = bytes_reached(kernel)
    on_dram = state.reached is not None and state.reached.ceiling == UNIT_CEILINGS["dram"]
    if reached is None or on_dram or state.name in ("short", "void"):
        return state
    share = f"{format_percent(reached)} of {UNIT_CEILINGS['dram']}"
    text = f"{state.text.rstrip('. ')}. Kernels of its kind are memory-bound: it reaches {share}"
    return state._replace(text=text)


def _exposed(session: Session) -> str:
    """Say how much of the communication in a timeline no other kernel runs beside; empty without one."""
    devices = session.timeline.devices if session.timeline is not None else ()
    talks = [device.communication for device in devices if device.communication is not None]
    time_s = sum(talk.time_s for talk in talks)
    if not time_s:
        return ""
    share = min(1.0, sum(talk.exposed_s for talk in talks) / time_s)
    return f". {format_percent(share)} of the communication time is exposed: no other kernel runs meanwhile"


def _sentence(text: str) -> str:
    return f"{text.rstrip('. ')}."


def _longest(kernels: Sequence[KernelProfile]) -> KernelProfile | None:
    """Return the longest launch of the label that takes most time; without durations what tells most."""
    if all(kernel.time_total_s is None for kernel in kernels):
        return most_telling(kernels)
    times: dict[str, float] = {}
    for kernel in kernels:
        times[kernel.label] = times.get(kernel.label, 0.0) + (kernel.time_total_s or 0.0)
    label = max(times, key=lambda name: times[name])
    return max((kernel for kernel in kernels if kernel.label == label), key=lambda kernel: kernel.time_total_s or 0.0)


def _share(kernel: KernelProfile, session: Session) -> str:
    """Write what the launches of a label take in their report: ", 87 % of the time,"; empty if all, or unknown.

    Where GPUs are busy longer with other things than with kernels, it is said that the share is of the kernels' time.
    """
    shares = [
        other.time_share
        for other in session.kernels
        if other.label == kernel.label and other.source == kernel.source and other.time_share is not None
    ]
    devices = session.timeline.devices if session.timeline is not None else ()
    of_less = 2 * sum(device.kernel_s for device in devices) < sum(device.busy_s for device in devices)
    if not shares or (len({other.label for other in session.kernels}) == 1 and not of_less):
        return ""
    of = "the kernels' time" if of_less else "the time"
    return f", {format_percent(min(1.0, sum(shares)))} of {of},"


def _state(kernel: KernelProfile) -> _State:
    busy = _busiest(kernel)
    finding = _first_proven(kernel)
    if finding is not None and finding.rule == "short-kernel" and kernel.duration_s is not None:
        return _State("short", f"takes {format_si(kernel.duration_s, 's')}, {beside_launch(kernel.duration_s)}")
    if finding is not None and finding.rule == STORES_NOTHING and finding.severity != "info":
        return _State("void", "stores nothing: check what it computes, for its time says nothing of that")
    if finding is not None:
        at_roof = _at_roof(finding, kernel)
        if at_roof is not None:
            return at_roof
    if finding is None or finding.severity == "info":
        return _open(kernel, busy, finding)
    return _unanswered(kernel, busy, finding) or _answered(kernel, busy, finding)


def _unanswered(kernel: KernelProfile, busy: _Reached | None, finding: Finding) -> _State | None:
    """Return the state of a kernel whose first finding explains a small part of its time, and whose rest is open."""
    gain = finding.gain_kernel
    if gain is None or gain >= _SMALL_PART or about(finding) == "limit":
        return None
    if _waits_for_unknown(kernel):
        text = f"mostly waits, and the report does not show for what. {_no_unit(kernel, busy)}"
        return _State("waiting", text, busy)
    if busy is not None and busy.unit == _UNITS[SM] and _is_full_of_unknown(kernel, gain):
        return _State("open", f"keeps {busy.unit} {busy.share} busy, and the report does not show with what", busy)
    return None


def _answered(kernel: KernelProfile, busy: _Reached | None, finding: Finding) -> _State:
    name = _state_name(finding)
    level = next((unit for unit in MEMORY if finding.headline.startswith(f"{_UNITS[unit]} bandwidth: ")), None)
    if name == "limited" and busy is not None and level is not None:
        # Its parts can be busier than the unit as a whole, and another unit as busy: it has a single number, its own.
        reached = _Reached(_UNITS[level], UNIT_CEILINGS[level], fraction=finding.evidence[0].value / 100)
        return _State(name, f"is limited by {finding.headline}", reached)
    return _State(name, _clause(name, busy, finding, kernel), busy)


def _cause(finding: Finding) -> str:
    """Write what holds a kernel back, and where: "uncoalesced global access at gather.cu:41"."""
    title = _lowered(finding.headline.partition(": ")[0].rstrip(". "))
    line = line_text(finding.location)
    return f"{title} at {line}" if line else title


def _lowered(text: str) -> str:
    """Write what begins a sentence inside of one: "Pad the array", but "FP64 work"."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _timed_state(kernel: KernelProfile) -> _State:
    """Return the state of a kernel that was only timed: its launch can tell that it does not fill the GPU."""
    finding = _first_proven(kernel)
    if finding is not None and finding.rule == "short-kernel" and kernel.duration_s is not None:
        return _State("short", f"takes {format_si(kernel.duration_s, 's')}, {beside_launch(kernel.duration_s)}")
    if finding is not None and finding.severity != "info":
        name = _state_name(finding)
        return _State(name, _clause(name, None, finding, kernel))
    return _State("open", _of_time(kernel))


def _of_time(kernel: KernelProfile) -> str:
    """Say what is known of a kernel's speed where nothing says why it is no faster."""
    asked = _by_shapes(kernel.operator_flop, kernel.operator_bytes) or _by_dram(kernel)
    return f"{asked}; only counters tell what holds it back" if asked else _TIME_ALONE


def _by_shapes(asked: OperatorFlop | None, moved: OperatorBytes | None) -> str:
    """Say what part of a rated ceiling an operator asks for: of DRAM, where its operands take more of that."""
    nearer = asked_of_peak(asked, moved)
    if nearer is None:
        return ""
    share = format_percent(nearer.most)
    if nearer.of == "dram":
        return f"moves its operands and its result at {share} of rated DRAM bandwidth"
    span = f"{format_percent(nearer.least)} to {share}" if nearer.most > nearer.least else share
    return f"reaches {span} of rated {nearer.of.upper()} throughput by its operator's shapes"


def _by_dram(kernel: KernelProfile) -> str:
    """Say how fast a kernel moves bytes through DRAM, where no ceiling of that is known."""
    rate = next((traffic.bytes_per_s for traffic in kernel.traffic if traffic.level == "dram"), None)
    return f"moves {format_si(rate, 'B/s')} through DRAM" if rate else ""


def _first_proven(kernel: KernelProfile) -> Finding | None:
    """Return the first finding on the kernel that the report proves and no other one explains."""
    return next(
        (
            finding
            for finding in kernel.findings
            if finding.cause is None and finding.confidence != "guess" and not is_of_run(finding)
        ),
        None,
    )


def _state_name(finding: Finding) -> RunState:
    rule = rule_named(finding.rule)
    if rule is not None and rule.place.otherwise == "warps":
        return "unfilled"
    return "waiting" if about(finding) == "symptom" else "limited"


def _clause(name: RunState, busy: _Reached | None, finding: Finding, kernel: KernelProfile) -> str:
    """Write the state with its cause: what the kernel keeps busy, or that nothing is."""
    waits = "waits in part" if _may_be_busy_else(kernel, finding) else "mostly waits"
    state, cause = {"unfilled": "does not fill the GPU", "waiting": waits}.get(name), _cause(finding)
    if busy is None:
        return f"{state or 'can be faster'}: {cause}"
    if state is None and units_not_collected(kernel) and (busy.fraction or 0.0) < _MOST:
        state = "can be faster"  # by a unit that is idle for most of the time nothing is limited
    if state is None:
        return f"keeps {busy.unit} {busy.share} busy: {cause}"
    return f"{state}: {cause}. {_no_unit(kernel, busy)}"


def _may_be_busy_else(kernel: KernelProfile, finding: Finding) -> bool:
    """Tell whether a wait takes the smaller part of a kernel of which a unit that was not collected may be busy."""
    return bool(units_not_collected(kernel)) and (finding.gain_kernel or 0.0) < _MOST


def _no_unit(kernel: KernelProfile, busy: _Reached | None) -> str:
    """Say how busy the units are at most: what speaks for a kernel can be a little less busy than another unit.

    A unit of which it was not collected can be busier than all others.
    """
    most = max((unit.fraction for unit in kernel.throughput if unit.is_exact), default=0.0)
    share = format_percent(min(1.0, max(most, (busy.fraction if busy is not None else None) or 0.0)))
    unknown = [_UNITS[unit] for unit in units_not_collected(kernel)]
    if busy is not None and busy.or_more:
        return f"The busiest unit that is known is busy for {busy.share} of the time: {busy.unit}"
    if unknown:
        verb = "was" if len(unknown) == 1 and unknown[0] != _UNITS[SM] else "were"
        at_most = "at most " if busy is not None and busy.or_less else ""
        return f"The busiest unit that was collected is {at_most}{share} busy; {listed(unknown)} {verb} not collected"
    return f"No unit is more than {share} busy"


def _is_full_of_unknown(kernel: KernelProfile, gain: float) -> bool:
    """Tell whether the SMs are busy with instructions of an unknown kind, of which fewer would gain more."""
    guesses = (other for other in kernel.findings if other.confidence == "guess" and other.cause is None)
    return any(about(other) == "limit" and (other.gain_kernel or 0.0) > gain for other in guesses)


def _waits_for_unknown(kernel: KernelProfile) -> bool:
    """Tell whether no unit is busy in a kernel, and nothing tells what it waits for."""
    idle = next((other for other in kernel.findings if other.rule == _NOTHING_BUSY and other.cause is None), None)
    return idle is not None and idle.confidence == "guess" and (idle.gain_kernel or 0.0) >= _MOST


def _busiest(kernel: KernelProfile) -> _Reached | None:
    """Return the busiest unit; without speeds of light, what the traffic or the work is of its ceiling."""
    nearest = nearest_limit(kernel)
    if nearest is None:
        point = main_point(kernel)
        if point is None:
            return None
        if point.bound == "memory":
            return _Reached(_UNITS["dram"], UNIT_CEILINGS["dram"], point.fraction_of_roof)
        return _Reached(f"{point.path.upper()} arithmetic", f"{point.path} throughput", point.fraction_of_roof)
    return _Reached(
        _UNITS[nearest.unit],
        UNIT_CEILINGS[nearest.unit],
        fraction=nearest.fraction,
        or_more=nearest.or_more,
        or_less=nearest.or_less,
    )


def _at_roof(finding: Finding, kernel: KernelProfile) -> _State | None:
    """Return the state of a kernel that its first finding takes for done: near the ceiling of useful work."""
    if finding.severity != "info" or about(finding) != "limit":
        return None
    if finding.rule == "dram-bandwidth":
        dram = next((unit for unit in kernel.throughput if unit.unit == "dram"), None)
        fraction = dram.fraction if dram is not None else None
        text = f"is at {format_percent(fraction)} of" if fraction is not None else "is near the ceiling of"
        ceiling = UNIT_CEILINGS["dram"]
        reached = _Reached(_UNITS["dram"], ceiling, fraction)
        return _State("at-roof", f"{text} {ceiling}: only moving fewer bytes helps", reached)
    known = _WORK_CEILINGS.get(finding.rule)
    if known is None:
        return None
    pipe = finding.evidence[0]
    # A pipe's threshold is that share of what its instructions can fill of it.
    full = pipe.threshold / PIPE_BUSY.value if pipe.threshold else 1.0
    fraction = min(1.0, pipe.value / 100 / full)
    text = f"is at {format_percent(fraction)} of {known}: only less arithmetic or a narrower type helps"
    return _State("at-roof", text, _Reached("the pipe", known, fraction))


def _open(kernel: KernelProfile, busy: _Reached | None, finding: Finding | None) -> _State:
    if finding is not None and busy is None and is_counted(finding):
        told = f"{finding.headline}. If that takes time: {_lowered(finding.action)}"
        return _State("open", f"has counts of its work, but none of what that work costs. {told}")
    if busy is not None:
        text = f"keeps {busy.unit} {busy.share} busy, more than {_any_other(kernel)}"
        return _State("open", f"{text}; {_what_helps(kernel, 'it')}", busy)
    if kernel.duration_s is None:
        has_counts = any(map(is_counted, kernel.findings))
        lacks = "no times in the report" if has_counts else "no numbers in the report that tell what it costs"
        return _State("open", f"has {lacks}")
    return _State("open", _of_time(kernel))


def _any_other(kernel: KernelProfile) -> str:
    return "any other unit that was collected" if units_not_collected(kernel) else "any other unit"


def _is_one_of_many(kernel: KernelProfile, kernels: Sequence[KernelProfile]) -> bool:
    return sum(other.label == kernel.label for other in kernels) > 1


def _what_helps(kernel: KernelProfile, subject: str) -> str:
    """Say that nothing shows what would make a kernel faster, or that a finding only guesses it."""
    guesses = (finding for finding in kernel.findings if finding.confidence == "guess" and finding.cause is None)
    if any(finding.severity != "info" for finding in guesses):
        return f"what would make {subject} faster is only a guess"
    return f"nothing in the report shows what would make {subject} faster"


def _open_longest(kernel: KernelProfile, busy: _Reached) -> _State:
    """Say of the longest of several launches that nothing is known of it; of others there may be something."""
    text = f"keeps {busy.unit} {busy.share} busy in its longest launch, more than {_any_other(kernel)}"
    return _State("open", f"{text}; {_what_helps(kernel, 'that launch')}", busy)


def _set_up_state(state: _State, roles: frozenset[Role], beside: str) -> _State:
    """Say what a kernel is launched for that does no work, what else was profiled, and what is known of it."""
    text = f"{_SET_UP[_only(roles)].does}{beside}. It {state.text}"
    return state._replace(name="set-up", text=text)


def _only(roles: frozenset[Role]) -> Role | None:
    """Return the role that all have; None where there are several."""
    return next(iter(roles)) if len(roles) == 1 else None


def _notes(session: Session, set_up: frozenset[int]) -> Iterator[str]:
    yield from _without_spec(session)
    first = _most_of_run(session)
    yield from (_of_the_run(session, *told) for told in _of_run(session) if told != first)
    shares = [kernel.time_share or 0.0 for kernel in session.kernels if kernel.id in set_up]
    if shares and len(shares) == len(session.kernels):
        if not is_part(session):
            yield _SET_UP[_only(roles_of(session.kernels))].note
    elif sum(shares) >= _LEAST_SHARE:
        roles = roles_of(kernel for kernel in session.kernels if kernel.id in set_up)
        what = "set up data" if roles == {"data"} else "set up data or warm up"
        share = format_percent(min(1.0, sum(shares)))
        yield f"Kernels that only {what} take {share} of the time; their fixes come last."
    yield from _whole_graphs(session.kernels)
    yield from _kinds(session.kernels)
    yield from _versions(session)
    yield from clock_notes(session)
    # Several GPUs of one kind differ from their spec alike.
    yield from dict.fromkeys(text for device in session.devices for text in told(device, session.denominators))
    if session.excluded is not None:
        yield exclusion_text(session.excluded)


def _without_spec(session: Session) -> Iterator[str]:
    """Say which ceilings are not known of a GPU that has counters and no spec, and how to give one."""
    counted = {kernel.device for kernel in session.kernels if kernel.throughput or kernel.work}
    for device in session.devices:
        if device.spec is not None or device.id not in counted:
            continue
        if device.name is None:
            yield "The report does not name its GPU: no tensor, FP64 or FP16 ceiling is known. Name a spec with --spec."
        elif is_geforce_rtx(device.name):
            yield f"{device.name} has no spec: its tensor and FP64 ceilings are those of other GeForce RTX cards."
        else:
            yield (
                f"{device.name} has no spec: no tensor, FP64 or FP16 ceiling is known, unless the report has it. "
                "Give one with --spec FILE."
            )


def _whole_graphs(kernels: Sequence[KernelProfile]) -> Iterator[str]:
    """Say what the times of CUDA graphs are that were profiled as a whole, and that kernels' times are others."""
    graphs = [kernel for kernel in kernels if kernel.duration_source == GRAPH_REPLAY]
    if not graphs:
        return
    labels = [*dict.fromkeys(kernel.label for kernel in graphs)]
    which = f"{labels[0]} is a whole CUDA graph" if len(labels) == 1 else f"{len(labels)} entries are whole CUDA graphs"
    beside = any(kernel.time_total_s is None for kernel in graphs)
    no_share = ", and has no share of theirs" if beside else ""
    yield (
        f"{which}. Its time is that of a replay under ncu, with the gaps before and between the nodes; all rates are "
        f"over that time. It is not the time of its kernels{no_share}: ncu --graph-profiling node measures these."
    )


def _counted_beside(session: Session, spoken: KernelProfile | None) -> Iterator[str]:
    """Say what was counted of other kernels, where no durations tell which of them matters."""
    if spoken is None or any(kernel.time_total_s is not None for kernel in session.kernels):
        return
    counted = {
        kernel.label: finding
        for kernel in session.kernels
        for finding in [_first_proven(kernel)]
        if finding is not None and is_counted(finding) and kernel.label != spoken.label
    }
    for label, finding in [*counted.items()][:_MOST_SHOWN]:
        yield _sentence(f"{label}: {finding.headline}")


def _of_no_effect(kernel: KernelProfile | None) -> Iterator[str]:
    """Say that a kernel stores nothing, where nothing tells whether it should."""
    findings = kernel.findings if kernel is not None else ()
    for finding in findings:
        if kernel is not None and finding.rule == STORES_NOTHING and finding.severity == "info":
            yield f"{kernel.label} stores nothing: if it should, check what it computes before its speed."


def _kinds(kernels: Sequence[KernelProfile]) -> Iterator[str]:
    """Say what the time goes to by kind, where most of it is of several known ones."""
    shares: dict[str, float] = {}
    for kernel in kernels:
        kind = kind_named(kernel.kind)
        if kind is not None and kernel.time_share:
            shares[kind.title] = shares.get(kind.title, 0.0) + kernel.time_share
    if len(shares) < _LEAST_KINDS or sum(shares.values()) < _MOST:
        return
    largest = sorted(shares.items(), key=lambda item: -item[1])[:_KINDS_SHOWN]
    rest = 1.0 - sum(share for _, share in largest)
    listed = ", ".join(f"{title} {format_percent(min(1.0, share))}" for title, share in largest)
    yield f"By kind: {listed}{f', others {format_percent(rest)}' if rest >= _LEAST_SHARE else ''}."


def _of_run(session: Session) -> Iterator[tuple[Finding, KernelProfile]]:
    """Yield what is told of the run and not of a kernel, with the kernel that it hangs at, what gains most first."""
    told = (
        (finding, kernel)
        for kernel in session.kernels
        for finding in kernel.findings
        if is_of_run(finding) and finding.severity in ("high", "medium")
    )
    yield from sorted(told, key=lambda entry: -(entry[0].gain_total or 0.0))


def _most_of_run(session: Session) -> tuple[Finding, KernelProfile] | None:
    """Return what is said first of the run: what is of most of its time, and of more than any kernel takes."""
    most = next(_of_run(session), None)
    return most if most is not None and _is_most(most[0], session) else None


def _is_most(finding: Finding, session: Session) -> bool:
    """Tell whether a finding on the run is of more of its time than any kernel takes: then it is said first.

    Shares are of the time of kernels, a gain of the run is of all of its time.
    """
    busy = busy_share(session)
    shares: dict[str, float] = {}
    for kernel in session.kernels:
        shares[kernel.label] = shares.get(kernel.label, 0.0) + busy * (kernel.time_share or 0.0)
    return (finding.gain_total or 0.0) > max(shares.values(), default=1.0)


def _of_the_run(session: Session, finding: Finding, kernel: KernelProfile) -> str:
    """Write a finding on the run as a sentence of its own, with the names of the kernel and its file."""
    text = finding.headline.partition(": ")[2] or finding.headline
    named = text.replace("this kernel's file", _file_of(session, kernel)).replace("this kernel", kernel.label)
    return _sentence(f"{named[:1].upper()}{named[1:]}")


def _file_of(session: Session, kernel: KernelProfile) -> str:
    """Return the file that a kernel is of, without its folders where no other has that name."""
    file = session.sources[kernel.source].file
    name = PurePath(file).name
    return name if sum(PurePath(source.file).name == name for source in session.sources) == 1 else file


def _versions(session: Session) -> Iterator[str]:
    """Say which reports hold the same kernels, unless they are ranks of one run, or one timed what the other counts."""
    if session.timeline is not None or any(source.is_survey for source in session.sources):
        return
    names: dict[int, set[str]] = {}
    for kernel in session.kernels:
        if kernel.rank is None:
            names.setdefault(kernel.source, set()).add(kernel.name)
    alike = next((group for group in (_alike(source, names) for source in names) if len(group) > 1), [])
    if alike:
        files = [session.sources[source].file for source in alike]
        more = len(files) - _MOST_SHOWN
        shown = [*files[:_MOST_SHOWN], f"{more} more"] if more > 0 else files
        yield (
            f"{', '.join(shown[:-1])} and {shown[-1]} hold the same kernels. If they are versions of one program, read "
            "them side by side: their times do not add up, and shares are of all together."
        )


def _alike(source: int, names: dict[int, set[str]]) -> list[int]:
    """Return a report and those after it that share at least half of the kernels of the smaller one."""
    return [
        other
        for other in names
        if other == source
        or (other > source and len(names[source] & names[other]) >= _MOST * min(len(names[source]), len(names[other])))
    ]
