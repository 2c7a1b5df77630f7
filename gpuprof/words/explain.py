"""Why a kernel takes its time, as a tree from the top down: issue slots, warps, stall reasons, causes, findings, lines.

Read as NVIDIA's guide does: stalls matter only while issue slots stay empty, and a stall is explained by the unit that
the warps wait for. Pure: everything comes from the profile; a level that was not collected says what would collect it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.registry import rule_named
from gpuprof.diagnose.rule import AT_KERNEL, AT_MEMORY, AT_SHARED
from gpuprof.model.headline import limited_by, listed, nearest_limit, stalls_of, units_not_collected
from gpuprof.model.session import Finding, KernelProfile, Stall
from gpuprof.model.stalls import NOT_STALLED, stall_name
from gpuprof.units import format_percent, format_waves, significant
from gpuprof.words.explain_causes import cause_nodes, pipe_nodes
from gpuprof.words.explain_lines import hottest_line, location_node, missing_lines, places_of
from gpuprof.words.explain_node import ExplanationNode, missing_node, percent_node
from gpuprof.words.finding_text import cause_of

ISSUES_OFTEN = 0.8
"""NVIDIA looks at stalls only while fewer than this fraction of the issue slots are used (its rule CPIStall)."""
_WELL_USED, _LITTLE_USED = 0.8, 0.6
"""Speed of light from which NVIDIA calls a unit well used, and below which latency is the limit (SOLBottleneck)."""

_FAMILIES = {"sampled": "of the samples", "sampled-not-issued": "of the samples without an issue"}
_REASONS_SHOWN = 5
_LEAST_SHARE = 0.02

_EXPLAINED_ALIKE = (AT_MEMORY.reasons, AT_SHARED.reasons)
"""Stall reasons with the same units behind them: the units are shown once."""

STALL_MEANINGS = {
    "long_scoreboard": "waits for data of global, local, texture or surface memory",
    "short_scoreboard": "waits for shared memory or for a special-function result",
    "lg_throttle": "waits for room in the queue of global and local memory",
    "mio_throttle": "waits for room in the queue of shared memory, special functions and dynamic branches",
    "tex_throttle": "waits for room in the queue of the texture unit",
    "math_pipe_throttle": "waits for a busy arithmetic pipe",
    "wait": "waits for a fixed-latency dependency",
    "barrier": "waits for the other warps of its block at a barrier",
    "membar": "waits for a memory fence",
    "branch_resolving": "waits for the target of a branch",
    "no_instruction": "waits for its next instruction to be fetched",
    "imc_miss": "waits for a constant that missed its cache",
    "dispatch_stall": "is held back by the dispatcher",
    "drain": "has ended and waits for its stores to leave",
    "sleeping": "sleeps because the program asked for it",
    "gmma": "waits for a warp-group matrix instruction",
    "misc": "is held back for another reason",
    "selected": "issued an instruction: no stall",
    "not_selected": "could issue, but another warp did: no stall",
}
"""What a warp does in each state."""


def explain(kernel: KernelProfile, *, from_text: bool = False) -> ExplanationNode:
    """Return the tree of a kernel. Every finding is in it once, below the number that it explains.

    `from_text`: the profile comes from CSV or text of ncu, which never have code.
    """
    stalls = _shown_stalls(kernel)
    findings = _placed(kernel.findings, [stall.reason for stall in stalls])
    below_warps = (*_warp_states(kernel, stalls, findings), *missing_lines(kernel, from_text=from_text))
    warps = _warps(kernel, findings.get("warps", ()))
    below_issue = _chained(warps, below_warps) if kernel.scheduler is not None else (*warps.children, *below_warps)
    below = (
        *_finding_nodes(kernel, findings.get("kernel", ())),
        _busiest_unit(kernel, findings.get("unit", ())),
        *_chained(_issue_slots(kernel, findings.get("issue", ())), below_issue),
    )
    name, weight = f"#{kernel.id} {kernel.label}", _weight_text(kernel)
    tree = ExplanationNode("kernel", name, kernel.duration_s, unit="s", detail=weight, children=below)
    return _of_export(tree) if from_text else tree


def _of_export(node: ExplanationNode) -> ExplanationNode:
    """Say of each missing step that the text export may have left it out."""
    below = tuple(map(_of_export, node.children))
    if node.kind != "missing":
        return replace(node, children=below)
    return replace(node, kind="left-out", detail=f"the .ncu-rep may have it, else {node.detail}", children=below)


def _weight_text(kernel: KernelProfile) -> str:
    if kernel.duration_s is None:
        return "duration not collected"
    launches = f"median of {kernel.launches} launches" if kernel.launches > 1 else ""
    share = f"{format_percent(kernel.time_share)} of the run" if kernel.time_share is not None else ""
    return ", ".join(part for part in (launches, share) if part)


def _chained(node: ExplanationNode, below: Sequence[ExplanationNode]) -> tuple[ExplanationNode, ...]:
    """Put nodes below one; beside it if it was not collected."""
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
        rule = rule_named(finding.rule)
        place = rule.place if rule is not None else AT_KERNEL
        parent = next((reason for reason in reasons if reason in place.reasons), place.otherwise)
        placed[parent] = (*placed.get(parent, ()), finding)
    return placed


def _busiest_unit(kernel: KernelProfile, findings: Sequence[Finding]) -> ExplanationNode:
    """Return the speed of light of the busiest unit, which bounds every gain that leaves its work as it is."""
    below = tuple(_finding_nodes(kernel, findings))
    limit = nearest_limit(kernel)
    if limit is None:
        return missing_node("speed of light", "SpeedOfLight", below)
    unknown = [unit.upper() for unit in units_not_collected(kernel)]
    meaning = (
        "at most: only while an SM is active"
        if limit.bound == "at-most"
        else "well used: only less work for it makes the kernel faster"
        if limit.fraction >= _WELL_USED
        else "or more"
        if limit.bound == "at-least"
        else "busy, not full"
        if max(unit.fraction for unit in kernel.throughput) >= _LITTLE_USED
        else f"not busy; {listed(unknown)}, not collected, may be"
        if unknown
        else "no unit is busy, the kernel waits"
    )
    units = ", ".join(
        f"{unit.unit.upper()} {format_percent(unit.fraction)}{f' {unit.note}' if unit.note else ''}"
        for unit in kernel.throughput
        if unit.unit not in (limit.unit, "memory")
    )
    detail = "; ".join(part for part in (meaning, units) if part)
    name = "a part of memory that is not reported on its own" if limit.unit == "memory" else limit.unit.upper()
    return percent_node("unit", f"of peak in the busiest unit, {name}", limit.fraction, detail, below)


def _issue_slots(kernel: KernelProfile, findings: Sequence[Finding]) -> ExplanationNode:
    below = tuple(_finding_nodes(kernel, findings))
    if kernel.scheduler is None:
        return missing_node("issue slots and eligible warps", "SchedulerStats", below)
    if kernel.scheduler.issue_active is None:
        return missing_node("issue slots", "SchedulerStats", below)
    issue = kernel.scheduler.issue_active
    if issue >= ISSUES_OFTEN:
        meaning = "the schedulers are busy: fewer or cheaper instructions help, stalls cost little"
        below = (*pipe_nodes(kernel), *below)
    else:
        meaning = f"below {format_percent(ISSUES_OFTEN)}, stalls cost time"
    return percent_node("issue", "of issue slots used", issue, meaning, below)


def _warps(kernel: KernelProfile, findings: Sequence[Finding]) -> ExplanationNode:
    """Eligible of active of possible warps, then what limits the active ones."""
    below = (*_occupancy(kernel), *_finding_nodes(kernel, findings))
    scheduler = kernel.scheduler
    if scheduler is None or scheduler.eligible_warps is None:
        return missing_node("eligible warps", "SchedulerStats", below)
    parts = (
        f"of {significant(scheduler.active_warps)} active" if scheduler.active_warps is not None else "",
        f"of {scheduler.warp_slots:.0f} slots" if scheduler.warp_slots is not None else "",
    )
    of = ", ".join(part for part in parts if part)
    ready = "often no warp is ready, and latency shows" if scheduler.eligible_warps < 1 else ""
    text = f"eligible per scheduler{f', {of}' if of else ''}"
    return ExplanationNode("warps", text, scheduler.eligible_warps, unit="warp", detail=ready, children=below)


def _occupancy(kernel: KernelProfile) -> Iterator[ExplanationNode]:
    achieved, theoretical = kernel.occupancy.achieved, kernel.occupancy.theoretical
    possible = f"of {format_percent(theoretical)} theoretical" if theoretical is not None else ""
    waves = f"{format_waves(kernel.waves)}" if kernel.waves is not None else ""
    detail = "; ".join(part for part in (limited_by(kernel.occupancy), waves) if part)
    if achieved is not None:
        text = f"achieved occupancy{f', {possible}' if possible else ''}"
        yield percent_node("occupancy", text, achieved, detail)
    elif theoretical is not None:
        text = "theoretical occupancy; achieved occupancy was not collected"
        yield percent_node("occupancy", text, theoretical, detail)
    else:
        yield missing_node("occupancy", "Occupancy")


def _warp_states(
    kernel: KernelProfile, stalls: Sequence[Stall], findings: dict[str, tuple[Finding, ...]]
) -> Iterator[ExplanationNode]:
    """Yield the largest stall reasons with their causes, then the other reasons, then the states that are no stall."""
    states = stalls_of(kernel)
    if not states:
        yield missing_node("stall reasons", "WarpStateStats")
        return
    explained: set[tuple[str, ...]] = set()
    for stall in stalls:
        group = next((group for group in _EXPLAINED_ALIKE if stall.reason in group), (stall.reason,))
        causes = tuple(cause_nodes(kernel, stall.reason)) if group not in explained else ()
        explained.add(group)
        yield _stall(kernel, stall, causes, findings.get(stall.reason, ()))
    shown = {stall.reason for stall in stalls}
    rest = [stall for stall in states if stall.reason not in shown and stall.reason not in NOT_STALLED and stall.share]
    if rest:
        names = ", ".join(stall_name(stall.reason) for stall in sorted(rest, key=lambda stall: -stall.share)[:3])
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
        yield percent_node("stall", "other stall reasons", sum(stall.share for stall in rest), f"{names}{more}")
    ready = [stall for stall in states if stall.reason in NOT_STALLED and stall.share]
    if ready:
        names = ", ".join(f"{stall_name(stall.reason)} {format_percent(stall.share)}" for stall in ready)
        yield percent_node("not-stalled", "not stalled", sum(stall.share for stall in ready), names)
    unknown = 1.0 - sum(stall.share for stall in states)
    if unknown >= _LEAST_SHARE:
        section = "collect with ncu --section WarpStateStats"
        yield percent_node("stall", "of warp time in states that were not collected", unknown, section)


def _stall(
    kernel: KernelProfile, stall: Stall, causes: Sequence[ExplanationNode], findings: Sequence[Finding]
) -> ExplanationNode:
    meaning = STALL_MEANINGS.get(stall.reason, "")
    cycles = f"{significant(stall.cycles_per_issue)} cycles per issue" if stall.cycles_per_issue is not None else ""
    detail = "; ".join(part for part in (meaning, cycles or _FAMILIES.get(stall.family, "")) if part)
    below_finding = tuple(_finding_nodes(kernel, findings))
    places = {place for finding in findings for place in places_of(finding.place)}
    hottest = tuple(node for place, node in hottest_line(kernel, stall.reason) if place not in places)
    below = (*causes, *below_finding, *hottest)
    return percent_node("stall", stall_name(stall.reason), stall.share, detail, below)


def _finding_nodes(kernel: KernelProfile, findings: Sequence[Finding]) -> Iterator[ExplanationNode]:
    """Yield findings by their gain for the kernel, each with its line below."""
    for finding in findings:
        gain = 100 * finding.gain_kernel if finding.gain_kernel is not None else None
        line = tuple(location_node(kernel, finding.place))
        if finding.severity == "info":
            detail = f"{finding.rule}{_behind(kernel, finding)}"
            yield ExplanationNode("note", finding.headline, None, unit="", detail=detail, children=line)
        else:
            held = f", with {finding.held}" if finding.held else ""
            kind = "finding" if finding.gain_kind == "bound" else "finding-held"
            detail = f"{finding.severity}, {finding.rule}{held}"
            yield ExplanationNode(kind, finding.headline, gain, unit="%", detail=detail, children=line)


def _behind(kernel: KernelProfile, finding: Finding) -> str:
    """Say which other finding explains this one: ", explained by uncoalesced-global"."""
    cause = cause_of(finding, kernel)
    return f", explained by {cause.rule}" if cause is not None else ""
