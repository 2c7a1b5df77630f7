"""Why a kernel takes its time, as a tree from the top down: issue slots, warps, stall reasons, causes, findings, lines.

Read as NVIDIA's guide does: stalls matter only while issue slots stay empty, and a stall is explained by the unit that
the warps wait for. Pure: everything comes from the profile; a level that was not collected says what would collect it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpuprof.model.session import CodeLine, Excerpt, Finding, KernelProfile, Location, Stall
from gpuprof.model.stalls import NOT_STALLED
from gpuprof.model.summary import nearest_limit, stalls_of
from gpuprof.units import format_binary, format_percent, format_si, significant

ISSUES_OFTEN = 0.8
"""NVIDIA looks at stalls only while fewer than this fraction of the issue slots are used (its rule CPIStall)."""
BUSY, IDLE = 0.8, 0.6
"""Speed of light from which NVIDIA calls a unit well used, and below which latency is the limit (SOLBottleneck)."""

_REASONS_SHOWN = 5
_LEAST_SHARE = 0.02
_LEAST_LINE = 0.01
_PIPES_SHOWN = 3
_CODE_SHOWN = 60
_WARP = 32


@dataclass(frozen=True, slots=True)
class Node:
    """A step of the explanation: a number with its unit, what it is, what it means, and the steps below it.

    `kind` is one of kernel, unit, issue, warps, occupancy, stall, not-stalled, cause, finding, note, line, missing; a
    note is a finding with nothing to gain. Percentages run to 100. None: there is no number. What is `missing` says in
    `detail` what would collect it.
    """

    kind: str
    text: str
    value: float | None = None
    unit: str = ""
    detail: str = ""
    children: tuple[Node, ...] = ()


STALL_MEANINGS = {
    "long_scoreboard": "waits for global, local or texture memory",
    "short_scoreboard": "waits for shared memory or special functions",
    "lg_throttle": "the queue of global and local accesses is full",
    "mio_throttle": "the queue of shared memory and special functions is full",
    "tex_throttle": "the queue of texture accesses is full",
    "math_pipe_throttle": "the arithmetic pipe is busy",
    "wait": "waits a fixed latency for the instruction before",
    "barrier": "waits for the other warps of the block",
    "membar": "waits for a memory fence",
    "branch_resolving": "waits for a branch target",
    "dispatch_stall": "held back by the dispatcher",
    "drain": "has ended and waits for its stores",
    "imc_miss": "a constant was not in the cache",
    "no_instruction": "the next instruction was not fetched yet",
    "sleeping": "sleeps or has yielded",
    "gmma": "waits for tensor instructions of the warp group",
    "misc": "another reason",
}

_MEMORY = ("long_scoreboard", "lg_throttle", "tex_throttle", "drain", "membar")
_SHARED = ("short_scoreboard", "mio_throttle")
_MATH = ("math_pipe_throttle", "wait", "dispatch_stall")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rule's finding hangs: at the largest of these stall reasons that is shown, else at another node."""

    reasons: tuple[str, ...]
    otherwise: str


_PLACES = {
    **dict.fromkeys(
        (
            "dram-bandwidth", "l2-bandwidth", "l1-bandwidth", "memory-latency", "uncoalesced-global",
            "local-memory-spill", "narrow-access", "host-memory-traffic", "atomic-contention",
        ),
        _Place(_MEMORY, "unit"),
    ),
    **dict.fromkeys(("shared-bandwidth", "shared-bank-conflict"), _Place(_SHARED, "unit")),
    **dict.fromkeys(
        ("fp64-bound", "integer-bound", "fp32-compute-bound", "tensor-compute-bound", "tensor-cores-idle"),
        _Place(_MATH[:1], "unit"),
    ),
    "special-function-bound": _Place(("math_pipe_throttle", *_SHARED), "unit"),
    "non-fused-fp": _Place(_MATH, "unit"),
    "dependency-latency": _Place(("wait",), "issue"),
    "barrier-wait": _Place(("barrier",), "issue"),
    "branch-divergence": _Place(("branch_resolving",), "issue"),
    "instruction-fetch": _Place(("no_instruction",), "issue"),
    "constant-miss": _Place(("imc_miss",), "issue"),
    **dict.fromkeys(("low-occupancy", "small-grid", "tail-effect", "load-imbalance"), _Place((), "warps")),
    "latency-bound": _Place((), "issue"),
}  # fmt: skip
_ANYWHERE = _Place((), "kernel")


def explain(kernel: KernelProfile, *, from_text: bool = False) -> Node:
    """Return the tree of a kernel. Every finding is in it once, below the number that it explains.

    `from_text`: the profile comes from a CSV export, which never has code.
    """
    stalls = _shown_stalls(kernel)
    findings = _placed(kernel.findings, [stall.reason for stall in stalls])
    below_warps = (*_warp_states(kernel, stalls, findings), *_missing_lines(kernel, from_text=from_text))
    warps = _warps(kernel, findings.get("warps", ()))
    below_issue = _chained(warps, below_warps) if kernel.scheduler is not None else (*warps.children, *below_warps)
    launches = f"the median of {kernel.launches} launches" if kernel.launches > 1 else ""
    share = f"{format_percent(kernel.time_share)} of the run" if kernel.time_share is not None else ""
    return Node(
        "kernel",
        f"#{kernel.id} {kernel.label}",
        kernel.duration_s,
        "s",
        ", ".join(part for part in (launches, share) if part)
        if kernel.duration_s is not None
        else "duration not collected",
        (
            *_finding_nodes(kernel, findings.get("kernel", ())),
            _busiest_unit(kernel, findings.get("unit", ())),
            *_chained(_issue_slots(kernel, findings.get("issue", ())), below_issue),
        ),
    )


def _chained(node: Node, below: Sequence[Node]) -> tuple[Node, ...]:
    """Hang nodes below one; beside it where it was not collected."""
    if node.kind == "missing":
        return (replace(node, children=()), *node.children, *below)
    return (replace(node, children=(*node.children, *below)),)


def _shown_stalls(kernel: KernelProfile) -> tuple[Stall, ...]:
    stalls = [stall for stall in stalls_of(kernel) if stall.reason not in NOT_STALLED]
    ranked = sorted(stalls, key=lambda stall: -stall.share)
    return tuple(stall for stall in ranked if stall.share >= _LEAST_SHARE)[:_REASONS_SHOWN]


def _placed(findings: Sequence[Finding], reasons: Sequence[str]) -> dict[str, tuple[Finding, ...]]:
    """Return the findings by the node that they belong to; `reasons` are those shown, largest first."""
    placed: dict[str, tuple[Finding, ...]] = {}
    for finding in findings:
        place = _PLACES.get(finding.rule, _ANYWHERE)
        where = next((reason for reason in reasons if reason in place.reasons), place.otherwise)
        placed[where] = (*placed.get(where, ()), finding)
    return placed


def _busiest_unit(kernel: KernelProfile, findings: Sequence[Finding]) -> Node:
    """The speed of light: what no repair of anything else can pass."""
    below = tuple(_finding_nodes(kernel, findings))
    limit = nearest_limit(kernel)
    if limit is None:
        return Node("missing", "speed of light", detail="collect with ncu --section SpeedOfLight", children=below)
    meaning = (
        "well used, only less work for it makes the kernel faster"
        if limit.fraction >= BUSY
        else "no unit is busy, the kernel waits"
        if max(unit.fraction for unit in kernel.throughput) < IDLE
        else "busy, not full"
    )
    others = ", ".join(
        f"{unit.unit.upper()} {format_percent(unit.fraction)}{f' {unit.definition}' if unit.definition else ''}"
        for unit in kernel.throughput
        if unit.unit not in (limit.unit, "memory")
    )
    detail = "; ".join(part for part in (meaning, others) if part)
    name = "a part of memory without a figure of its own" if limit.unit == "memory" else limit.unit.upper()
    return Node("unit", f"of peak in the busiest unit, {name}", 100 * limit.fraction, "%", detail, below)


def _issue_slots(kernel: KernelProfile, findings: Sequence[Finding]) -> Node:
    below = tuple(_finding_nodes(kernel, findings))
    if kernel.scheduler is None:
        return _not_scheduled("issue slots and eligible warps", below)
    if kernel.scheduler.issue_active is None:
        return _not_scheduled("issue slots", below)
    issue = kernel.scheduler.issue_active
    if issue >= ISSUES_OFTEN:
        meaning = "the schedulers are busy, so that fewer or cheaper instructions help and stalls cost little"
        return Node("issue", "of the issue slots used", 100 * issue, "%", meaning, (*_pipes(kernel), *below))
    meaning = f"below {format_percent(ISSUES_OFTEN)}, what the warps wait for costs time"
    return Node("issue", "of the issue slots used", 100 * issue, "%", meaning, below)


def _not_scheduled(what: str, below: tuple[Node, ...]) -> Node:
    return Node("missing", what, detail="collect with ncu --section SchedulerStats", children=below)


def _warps(kernel: KernelProfile, findings: Sequence[Finding]) -> Node:
    """Eligible of active of possible warps, then what limits the active ones."""
    below = (*_occupancy(kernel), *_finding_nodes(kernel, findings))
    scheduler = kernel.scheduler
    if scheduler is None or scheduler.eligible_warps is None:
        return _not_scheduled("eligible warps", below)
    parts = (
        f"of {significant(scheduler.active_warps)} active" if scheduler.active_warps is not None else "",
        f"of {scheduler.warp_slots:.0f} slots" if scheduler.warp_slots is not None else "",
    )
    of = ", ".join(part for part in parts if part)
    ready = "often none is ready, and latency shows" if scheduler.eligible_warps < 1 else ""
    text = f"eligible per scheduler{f', {of}' if of else ''}"
    return Node("warps", text, scheduler.eligible_warps, "warp", ready, below)


def _occupancy(kernel: KernelProfile) -> Iterator[Node]:
    achieved, theoretical = kernel.occupancy.achieved, kernel.occupancy.theoretical
    limited = f"limited by {' and '.join(kernel.occupancy.limiters)}" if kernel.occupancy.limiters else ""
    possible = f"of {format_percent(theoretical)} that the launch allows" if theoretical is not None else ""
    waves = f"{significant(kernel.waves)} waves of blocks" if kernel.waves is not None else ""
    detail = "; ".join(part for part in (limited, waves) if part)
    if achieved is not None:
        text = f"of the SM's warps active{f', {possible}' if possible else ''}"
        yield Node("occupancy", text, 100 * achieved, "%", detail)
    elif theoretical is not None:
        text = "of the SM's warps is what the launch allows; achieved occupancy was not collected"
        yield Node("occupancy", text, 100 * theoretical, "%", detail)
    else:
        yield Node("missing", "occupancy", detail="collect with ncu --section Occupancy")


def _warp_states(
    kernel: KernelProfile, stalls: Sequence[Stall], findings: dict[str, tuple[Finding, ...]]
) -> Iterator[Node]:
    """Each stall reason with its causes, then the rest of them, then what is no stall."""
    states = stalls_of(kernel)
    if not states:
        yield Node("missing", "stall reasons", detail="collect with ncu --section WarpStateStats")
        return
    explained: set[tuple[str, ...]] = set()
    for stall in stalls:
        group = next((group for group in (_MEMORY, _SHARED) if stall.reason in group), (stall.reason,))
        causes = _causes(kernel, stall.reason) if group not in explained else ()
        explained.add(group)
        yield _stall(kernel, stall, tuple(causes), findings.get(stall.reason, ()))
    shown = {stall.reason for stall in stalls}
    rest = [stall for stall in states if stall.reason not in shown and stall.reason not in NOT_STALLED and stall.share]
    if rest:
        names = ", ".join(_name(stall.reason) for stall in sorted(rest, key=lambda stall: -stall.share)[:3])
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
        yield Node("stall", "other reasons", 100 * sum(stall.share for stall in rest), "%", f"{names}{more}")
    ready = [stall for stall in states if stall.reason in NOT_STALLED and stall.share]
    if ready:
        names = ", ".join(f"{_name(stall.reason)} {format_percent(stall.share)}" for stall in ready)
        yield Node("not-stalled", "not stalled", 100 * sum(stall.share for stall in ready), "%", names)


def _stall(kernel: KernelProfile, stall: Stall, causes: Sequence[Node], findings: Sequence[Finding]) -> Node:
    meaning = STALL_MEANINGS.get(stall.reason, "")
    cycles = f"{significant(stall.cycles_per_issue)} cycles per issue" if stall.cycles_per_issue is not None else ""
    detail = "; ".join(part for part in (meaning, cycles) if part)
    told = tuple(_finding_nodes(kernel, findings))
    places = {place for finding in findings for place in _places_of(finding.location)}
    hottest = tuple(node for place, node in _hottest_line(kernel, stall.reason) if place not in places)
    below = (*causes, *told, *hottest)
    return Node("stall", _name(stall.reason), 100 * stall.share, "%", detail, below)


def _name(reason: str) -> str:
    return reason.replace("_", " ")


def _causes(kernel: KernelProfile, reason: str) -> Iterator[Node]:
    """The units behind a reason, as far as the report tells of them."""
    if reason in _MEMORY:
        yield from _memory_path(kernel)
    elif reason in _SHARED:
        yield from _shared_memory(kernel)
    elif reason == "math_pipe_throttle":
        yield from _pipes(kernel)
    elif reason == "barrier" and kernel.block is not None:
        threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
        text = f"in a block of {threads} threads wait for the slowest of them"
        yield Node("cause", text, float(-(-threads // _WARP)), "warp")
    elif reason == "wait" and kernel.scheduler is not None and kernel.scheduler.active_warps is not None:
        text = "active per scheduler, whose instructions could fill the latency"
        yield Node("cause", text, kernel.scheduler.active_warps, "warp")
    elif reason == "no_instruction" and kernel.waves is not None:
        note = "each SM starts the code cold" if kernel.waves < 1 else ""
        yield Node("cause", "of blocks", kernel.waves, "wave", note)


def _memory_path(kernel: KernelProfile) -> Iterator[Node]:
    """Hit rates of L1 and L2, what DRAM does, and how much of what is asked at L1 comes from where."""
    traffic = {moved.level: moved for moved in kernel.traffic}
    for level in ("l1", "l2"):
        moved = traffic.get(level)
        if moved is None or moved.hit_rate is None:
            how = "collect with ncu --section MemoryWorkloadAnalysis"
            yield Node("missing", f"{level.upper()} hit rate", detail=how)
            continue
        rate = f"{format_si(moved.bytes_per_s, 'B/s')} asked" if moved.bytes_per_s is not None else ""
        yield Node("cause", f"of what is asked of {level.upper()} is found there", 100 * moved.hit_rate, "%", rate)
    dram = next((unit.fraction for unit in kernel.throughput if unit.unit == "dram"), None)
    moved = traffic.get("dram")
    rate = format_si(moved.bytes_per_s, "B/s") if moved is not None and moved.bytes_per_s is not None else ""
    if dram is not None:
        yield Node("cause", "of DRAM's peak bandwidth", 100 * dram, "%", rate)
    else:
        yield Node("missing", "DRAM utilisation", detail="collect with ncu --section SpeedOfLight")
    amounts = [traffic[level].bytes if level in traffic else None for level in ("l1", "l2", "dram")]
    if amounts[0] and amounts[1] is not None and amounts[2] is not None:
        to_l2, to_dram = (100 * amount / amounts[0] for amount in amounts[1:] if amount is not None)
        text = f"of 100 B asked of L1, {significant(to_l2)} B go on to L2 and {significant(to_dram)} B to DRAM"
        yield Node("cause", text)


def _shared_memory(kernel: KernelProfile) -> Iterator[Node]:
    """How busy the pipes behind the memory queue are; bank conflicts are told by their own finding."""
    pipes = {pipe.name: pipe.fraction for pipe in kernel.pipes}
    known = [(name, text) for name, text in _QUEUE_PIPES.items() if name in pipes]
    for name, text in known:
        yield Node("cause", text, 100 * pipes[name], "%")
    if not known:
        yield Node("missing", "pipes", detail="collect with ncu --section ComputeWorkloadAnalysis")
    if kernel.shared_memory_per_block:
        yield Node("cause", f"{format_binary(kernel.shared_memory_per_block)} of shared memory in each block")


_QUEUE_PIPES = {
    "lsu": "busy: LSU, the pipe of loads and stores, shared memory included",
    "xu": "busy: XU, the pipe of special functions and conversions",
}


def _pipes(kernel: KernelProfile) -> Iterator[Node]:
    busiest = sorted(kernel.pipes, key=lambda pipe: -pipe.fraction)[:_PIPES_SHOWN]
    for pipe in busiest:
        yield Node("cause", f"busy: the {pipe_name(pipe.name)} pipe", 100 * pipe.fraction, "%")
    if not busiest:
        yield Node("missing", "pipes", detail="collect with ncu --section ComputeWorkloadAnalysis")


def pipe_name(name: str) -> str:
    """Write the name of an execution pipe: FMA, ALU, but tensor and uniform, which are words."""
    return name if name in ("tensor", "uniform") else name.upper()


def _finding_nodes(kernel: KernelProfile, findings: Sequence[Finding]) -> Iterator[Node]:
    """A finding by its gain for the kernel, with the line that it is about below."""
    for finding in findings:
        gain = 100 * finding.gain_kernel if finding.gain_kernel is not None else None
        line = tuple(_location_node(kernel, finding.location))
        if finding.severity == "info":
            yield Node("note", finding.headline, None, "", finding.rule, line)
        else:
            yield Node("finding", finding.headline, gain, "%", f"{finding.severity}, {finding.rule}", line)


def _location_node(kernel: KernelProfile, location: Location | None) -> Iterator[Node]:
    places = _places_of(location)
    if location is None or not places:
        return
    share = 100 * location.share if location.share is not None else None
    line, excerpt = next(((line, excerpt) for at, line, excerpt in _lines(kernel) if at == places[0]), (None, None))
    weight = f"{format_percent(line.share)} of all {excerpt.weight}" if line is not None and excerpt is not None else ""
    detail = ", ".join(part for part in ("of the finding" if share is not None else "", weight) if part)
    yield Node(
        "line", _line_text(places[0], line.text if line is not None else location.sass or ""), share, "%", detail
    )


Place = tuple[str | None, int]


def _places_of(location: Location | None) -> list[Place]:
    """Return what identifies a place in the code: file and line, and the address."""
    if location is None:
        return []
    line = [(location.file, location.line)] if location.file is not None and location.line is not None else []
    return [*line, *([(None, location.pc)] if location.pc is not None else [])]


def _hottest_line(kernel: KernelProfile, reason: str) -> Iterator[tuple[Place, Node]]:
    """The line with most samples of a reason: its source where the report has it, else its instruction."""
    weighed = [
        (line.share * stall.share, stall.share, place, line)
        for place, line, excerpt in _lines(kernel)
        if excerpt.weight == "samples"
        for stall in line.stalls
        if stall.reason == reason
    ]
    from_source = [entry for entry in weighed if entry[2][0] is not None] or weighed
    weight, part, place, line = max(from_source, key=lambda entry: entry[0], default=(0.0, 0.0, (None, 0), None))
    if line is not None and weight >= _LEAST_LINE:
        detail = f"of all samples, {format_percent(part)} of these"
        yield place, Node("line", _line_text(place, line.text), 100 * line.share, "%", detail)


def _lines(kernel: KernelProfile) -> Iterator[tuple[Place, CodeLine, Excerpt]]:
    for excerpt in kernel.excerpts:
        for line in excerpt.lines:
            if excerpt.language == "source" and excerpt.file is not None and line.number is not None:
                yield (excerpt.file, line.number), line, excerpt
            elif line.pc is not None:
                yield (None, line.pc), line, excerpt


def _line_text(place: Place, code: str) -> str:
    file, number = place
    where = f"{file.replace(chr(92), '/').rpartition('/')[2]}:{number}" if file is not None else f"0x{number:x}"
    code = code.strip()
    return f"{where}  {code[:_CODE_SHOWN]}{'…' if len(code) > _CODE_SHOWN else ''}".rstrip()


def _missing_lines(kernel: KernelProfile, *, from_text: bool) -> Iterator[Node]:
    if from_text:
        yield Node("missing", "source lines", detail="a CSV export has no code, the .ncu-rep may have it")
    elif not kernel.excerpts:
        how = "compile with -lineinfo, collect with ncu --section SourceCounters --import-source yes"
        yield Node("missing", "source lines", detail=how)
    elif all(excerpt.language != "source" for excerpt in kernel.excerpts):
        how = "compile with -lineinfo, collect with ncu --import-source yes; the instructions are there"
        yield Node("missing", "source lines", detail=how)
