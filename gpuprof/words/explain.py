"""Why a kernel takes its time, as a tree: issue slots, warps, stalls, causes, findings, lines.

As in NVIDIA's guide, stalls matter only while issue slots stay empty, and a stall is explained by
the unit that the warps wait for. A level that was not collected says what would collect it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.registry import rule_named
from gpuprof.diagnose.rule import AT_KERNEL, AT_MEMORY, AT_SHARED
from gpuprof.model.headline import (
    limited_by,
    listed,
    nearest_limit,
    stalls_of,
    units_not_collected,
)
from gpuprof.model.session import Finding, KernelProfile, Stall, Throughput
from gpuprof.model.stalls import NOT_STALLED, stall_name
from gpuprof.units import format_percent, format_waves, significant
from gpuprof.words.explain_causes import cause_nodes, pipe_nodes
from gpuprof.words.explain_lines import hottest_line, location_node, missing_lines, places_of
from gpuprof.words.explain_node import ExplanationNode, Nodes, missing_node, percent_node
from gpuprof.words.finding_text import cause_of, held_text
from gpuprof.words.sentences import joined_by, short_list

ISSUES_OFTEN = 0.8
"""NVIDIA looks at stalls only below this fraction of used issue slots (its rule CPIStall)."""
_WELL_USED, _LITTLE_USED = 0.8, 0.6
"""In NVIDIA's rule SOLBottleneck, a unit is well utilized from the first fraction of its peak on.

Below the second one, latency is the limit.
"""

_FAMILIES = {"sampled": "of the samples", "sampled-not-issued": "of the samples without an issue"}
_REASONS_SHOWN = 5
_LEAST_SHARE = 0.02

_ByParent = defaultdict[str, list[Finding]]
"""Findings by the name of the node above them: a stall reason, or another part of the tree."""
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
    findings = _by_parent(kernel.findings, [stall.reason for stall in stalls])
    states = (*_warp_states(kernel, stalls, findings), *missing_lines(kernel, from_text=from_text))
    warps = _warps(kernel, findings["warps"])
    below_issue = _chained(warps, states)
    if kernel.scheduler is None:
        # The missing issue slots name the eligible warps, too.
        below_issue = below_issue[1:]
    below = (
        *_finding_nodes(kernel, findings["kernel"]),
        _busiest_unit(kernel, findings["unit"]),
        *_chained(_issue_slots(kernel, findings["issue"]), below_issue),
    )
    tree = ExplanationNode(
        "kernel",
        f"#{kernel.id} {kernel.label}",
        kernel.duration_s,
        unit="s",
        detail=_weight_text(kernel),
        children=below,
    )
    return _of_export(tree) if from_text else tree


def _of_export(node: ExplanationNode) -> ExplanationNode:
    """Mark each missing step as one that the text export may have left out."""
    below = tuple(map(_of_export, node.children))
    if node.kind != "missing":
        return replace(node, children=below)
    detail = f"the .ncu-rep may have it, else {node.detail}"
    return replace(node, kind="left-out", detail=detail, children=below)


def _weight_text(kernel: KernelProfile) -> str:
    if kernel.duration_s is None:
        return "duration not collected"
    what = "median" if kernel.averages is None else "average"
    launches = f"{what} of {kernel.launches} launches" if kernel.launches > 1 else ""
    share = ""
    if kernel.time_share is not None:
        share = f"{format_percent(kernel.time_share)} of the run"
    return joined_by(", ", launches, share)


def _chained(node: ExplanationNode, below: Sequence[ExplanationNode]) -> Nodes:
    """Return a node with others below it; beside it if it was not collected."""
    if node.kind == "missing":
        return (replace(node, children=()), *node.children, *below)
    return (replace(node, children=(*node.children, *below)),)


def _shown_stalls(kernel: KernelProfile) -> tuple[Stall, ...]:
    stalls = [stall for stall in stalls_of(kernel) if stall.reason not in NOT_STALLED]
    ranked = sorted(stalls, key=lambda stall: -stall.share)
    return tuple(stall for stall in ranked if stall.share >= _LEAST_SHARE)[:_REASONS_SHOWN]


def _by_parent(findings: Sequence[Finding], reasons: Sequence[str]) -> _ByParent:
    """Return the findings by the node above them; `reasons` are the stalls shown, largest first."""
    by_parent = _ByParent(list)
    for finding in findings:
        rule = rule_named(finding.rule)
        place = rule.place if rule is not None else AT_KERNEL
        parent = next((reason for reason in reasons if reason in place.reasons), place.otherwise)
        by_parent[parent].append(finding)
    return by_parent


def _busiest_unit(kernel: KernelProfile, findings: Sequence[Finding]) -> ExplanationNode:
    """Return the speed of light of the busiest unit, which bounds gains that leave its work as it is."""
    below = tuple(_finding_nodes(kernel, findings))
    limit = nearest_limit(kernel)
    if limit is None:
        return missing_node("speed of light", "SpeedOfLight", below)
    others = []
    for unit in kernel.throughput:
        if unit.unit not in (limit.unit, "memory"):
            others.append(joined_by(" ", unit.unit.upper(), format_percent(unit.fraction), unit.note))
    detail = joined_by("; ", _utilization(kernel, limit), ", ".join(others))
    name = limit.unit.upper()
    if limit.unit == "memory":
        name = "a part of memory that is not reported on its own"
    text = f"of peak in the busiest unit, {name}"
    return percent_node("unit", text, limit.fraction, detail, below)


def _utilization(kernel: KernelProfile, limit: Throughput) -> str:
    """Write how well the busiest unit is used, and how sure that is."""
    if limit.bound == "at-most":
        return "an upper bound: measured while an SM is active"
    if limit.fraction >= _WELL_USED:
        return "nearly full: less work for it helps most"
    if limit.bound == "at-least":
        return "or more"
    if max(unit.fraction for unit in kernel.throughput) >= _LITTLE_USED:
        return "busy, not full"
    unknown = listed([unit.upper() for unit in units_not_collected(kernel)])
    if unknown:
        return f"not busy; {unknown}, not collected, may be"
    return "no unit is busy, the kernel waits"


def _issue_slots(kernel: KernelProfile, findings: Sequence[Finding]) -> ExplanationNode:
    below = tuple(_finding_nodes(kernel, findings))
    scheduler = kernel.scheduler
    if scheduler is None:
        return missing_node("issue slots and eligible warps", "SchedulerStats", below)
    issue = scheduler.issue_active
    if issue is None:
        return missing_node("issue slots", "SchedulerStats", below)
    if issue < ISSUES_OFTEN:
        meaning = f"below {format_percent(ISSUES_OFTEN)}, stalls cost time"
    else:
        meaning = "the schedulers are busy: fewer or cheaper instructions help, stalls cost little"
        below = (*pipe_nodes(kernel), *below)
    return percent_node("issue", "of issue slots used", issue, meaning, below)


def _warps(kernel: KernelProfile, findings: Sequence[Finding]) -> ExplanationNode:
    """Return eligible, active and possible warps, with the occupancy below."""
    below = (_occupancy(kernel), *_finding_nodes(kernel, findings))
    scheduler = kernel.scheduler
    if scheduler is None or scheduler.eligible_warps is None:
        return missing_node("eligible warps", "SchedulerStats", below)
    eligible = scheduler.eligible_warps
    text = "eligible per scheduler"
    if scheduler.active_warps is not None:
        text += f", of {significant(scheduler.active_warps)} active"
    if scheduler.warp_slots is not None:
        text += f", of {scheduler.warp_slots:.0f} slots"
    detail = "often no warp is ready, and latency shows" if eligible < 1 else ""
    return ExplanationNode("warps", text, eligible, unit="warp", detail=detail, children=below)


def _occupancy(kernel: KernelProfile) -> ExplanationNode:
    achieved = kernel.occupancy.achieved
    theoretical = kernel.occupancy.theoretical
    waves = format_waves(kernel.waves) if kernel.waves is not None else ""
    detail = joined_by("; ", limited_by(kernel.occupancy), waves)
    if achieved is not None:
        text = "achieved occupancy"
        if theoretical is not None:
            text += f", of {format_percent(theoretical)} theoretical"
        return percent_node("occupancy", text, achieved, detail)
    if theoretical is not None:
        text = "theoretical occupancy; achieved occupancy was not collected"
        return percent_node("occupancy", text, theoretical, detail)
    return missing_node("occupancy", "Occupancy")


def _warp_states(
    kernel: KernelProfile,
    stalls: Sequence[Stall],
    findings: _ByParent,
) -> Iterator[ExplanationNode]:
    """Yield the largest stall reasons with their causes, then the other states."""
    states = stalls_of(kernel)
    if not states:
        yield missing_node("stall reasons", "WarpStateStats")
        return
    explained: set[tuple[str, ...]] = set()
    for stall in stalls:
        reason = stall.reason
        alike = next((group for group in _EXPLAINED_ALIKE if reason in group), (reason,))
        causes = tuple(cause_nodes(kernel, reason)) if alike not in explained else ()
        explained.add(alike)
        yield _stall(kernel, stall, causes, findings[reason])
    shown = {stall.reason for stall in stalls}
    yield from _other_states([stall for stall in states if stall.reason not in shown and stall.share])
    unknown = 1.0 - sum(stall.share for stall in states)
    if unknown >= _LEAST_SHARE:
        text = "of warp time in states that were not collected"
        yield percent_node("stall", text, unknown, "collect with ncu --section WarpStateStats")


def _other_states(states: Sequence[Stall]) -> Iterator[ExplanationNode]:
    """Yield the sum of the other stall reasons, and that of the states that are no stall."""
    stalled = [stall for stall in states if stall.reason not in NOT_STALLED]
    if stalled:
        ranked = sorted(stalled, key=lambda stall: -stall.share)
        names = short_list([stall_name(stall.reason) for stall in ranked], 3)
        yield percent_node("stall", "other stall reasons", sum(stall.share for stall in stalled), names)
    ready = [stall for stall in states if stall.reason in NOT_STALLED]
    if ready:
        names = ", ".join(f"{stall_name(stall.reason)} {format_percent(stall.share)}" for stall in ready)
        yield percent_node("not-stalled", "not stalled", sum(stall.share for stall in ready), names)


def _stall(
    kernel: KernelProfile,
    stall: Stall,
    causes: Sequence[ExplanationNode],
    findings: Sequence[Finding],
) -> ExplanationNode:
    amount = _FAMILIES.get(stall.family, "")
    if stall.cycles_per_issue is not None:
        amount = f"{significant(stall.cycles_per_issue)} cycles per issue"
    detail = joined_by("; ", STALL_MEANINGS.get(stall.reason, ""), amount)
    below = [*causes, *_finding_nodes(kernel, findings)]
    places = {place for finding in findings for place in places_of(finding.place)}
    for place, node in hottest_line(kernel, stall.reason):
        if place not in places:
            below.append(node)
    return percent_node("stall", stall_name(stall.reason), stall.share, detail, tuple(below))


def _finding_nodes(kernel: KernelProfile, findings: Sequence[Finding]) -> Iterator[ExplanationNode]:
    """Yield findings by their gain for the kernel, each with its line below."""
    for finding in findings:
        line = tuple(location_node(kernel, finding.place))
        if finding.severity == "info":
            cause = cause_of(finding, kernel)
            detail = finding.rule if cause is None else f"{finding.rule}, explained by {cause.rule}"
            yield ExplanationNode("note", finding.headline, detail=detail, children=line)
            continue
        kind = "finding" if finding.gain_kind == "bound" else "finding-held"
        gain = 100 * finding.gain_kernel if finding.gain_kernel is not None else None
        detail = joined_by(", ", finding.severity, finding.rule, held_text(finding.held))
        yield ExplanationNode(kind, finding.headline, gain, unit="%", detail=detail, children=line)
