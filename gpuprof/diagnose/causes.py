"""Which finding of a kernel explains which other one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE, LAUNCH, MEMORY, SM
from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.ranking import ENOUGH
from gpuprof.diagnose.rule import CONFLICT_SHARE, Rule
from gpuprof.diagnose.thresholds import LAUNCH_ALONE, NOTHING
from gpuprof.model.session import Finding


class Cause(Struct, frozen=True):
    """A rule whose finding explains another one, if `when` is true of the kernel and `what` of the
    finding.

    `most` is true if the finding accounts for most of the other one, however large the other one's
    gain is.
    """

    rule: str
    when: Callable[[KernelFacts], bool] = lambda _: True
    what: Callable[[Finding], bool] = lambda _: True
    most: Callable[[Finding], bool] = lambda _: False


_FELT = 0.1
"""Less than a tenth of a level's bytes does not make it the limit."""


def _past_l1(level: str) -> tuple[Cause, Cause]:
    """Return causes of a full level that let more bytes pass L1, if the level can carry them."""

    def is_local_felt(facts: KernelFacts) -> bool:
        share = facts.local_share_of(level)
        return share is None or share >= _FELT

    return (
        Cause("uncoalesced-global", lambda facts: facts.excess_reaches(level)),
        Cause("local-memory-spill", is_local_felt),
    )


_MOST_PASSES = 50.0
_ASKS_FOR_WIDE = frozenset({"wide", "neighbours"})
"""Actions of `uncoalesced-global` that are wider accesses."""


def _are_mostly_conflicts(found: Finding) -> bool:
    """Return whether conflicts are most passes of shared memory and worth a fifth of the time.

    The gain of the limit assumes no access at all, which no fix reaches.
    """
    are_most = any(item.role == CONFLICT_SHARE and item.value >= _MOST_PASSES for item in found.evidence)
    return found.severity == "high" and are_most


def _are_few_lanes_side_by_side(facts: KernelFacts) -> bool:
    """Return whether a block's few lanes explain all excess: requests are as small as possible.

    Adjacent lanes take at most half a sector each, and one sector more if the first address is not
    aligned to a sector.
    """
    most = (facts.threads_per_block or 0) / 2 + 1
    return facts.has_few_lanes and all((facts.counted_request_sectors(what) or 0.0) <= most for what in ("ld", "st"))


def _is_about_a_launch(facts: KernelFacts) -> bool:
    """Return whether a kernel takes little longer than an empty one, whatever its grid."""
    duration = facts.kernel.duration_s
    return duration is not None and (duration < NOTHING.value or 100 * facts.need(LAUNCH) > LAUNCH_ALONE.value)


def _last_round_is_shorter(unit: str) -> Callable[[KernelFacts], bool]:
    """Return a check whether the last round takes less time than a full one, because of the need of
    a unit.

    A pipe has the need of the SM's busiest part or of its issue slots if these need more. Blocks
    occupy such a unit in the full rounds and a part of the last one. If the unit was busy for a
    larger part of the time, it limits the blocks while all of them run, and the few blocks of the
    last round run faster.
    """

    def is_shorter(facts: KernelFacts) -> bool:
        need = facts.need(unit)
        if unit not in MEMORY:
            need = max(need, facts.need(SM), facts.need(ISSUE))
        return facts.tail is not None and need > 1.0 - facts.tail

    return is_shorter


_LIMITS = {
    "dram-bandwidth": "dram", "l2-bandwidth": "l2", "l1-bandwidth": "l1", "fp32-compute-bound": "fma",
    "tensor-compute-bound": "tensor", "integer-bound": "alu", "special-function-bound": "xu", "fp64-bound": "fp64",
    "issue-bound": ISSUE,
}  # fmt: skip
"""Rules on a full unit, and the unit."""


def _behind(cause: str) -> Callable[[KernelFacts], bool]:
    """Return a check whether warps wait for this at least as much as at barriers."""
    return lambda facts: facts.waits[cause] >= facts.waits["barrier"]


def _drains(facts: KernelFacts) -> bool:
    """Return whether most warps that wait for memory are finished and wait for their stores."""
    return 2 * facts.stall("drain") >= facts.waits["memory"]


def _waits_for_shared(facts: KernelFacts) -> bool:
    """Return whether the main other wait is for the queue of shared memory and functions."""
    return facts.other_reason in SHARED_STALLS


_OF_MEMORY = (
    "uncoalesced-global", "local-memory-spill", "host-memory-traffic", "narrow-access", "atomic-contention",
    "dram-bandwidth", "l2-bandwidth", "l1-bandwidth",
)  # fmt: skip
_OF_SHARED = ("shared-bank-conflict", "shared-bandwidth", "special-function-bound", "atomic-contention")
_FEW_WARPS = (
    Cause("low-occupancy"),
    Cause("small-grid"),
    Cause("short-kernel"),
    Cause("block-size", lambda facts: facts.has_few_lanes or facts.is_held_by_blocks),
)
_NEW_BLOCKS = (Cause("short-blocks"),)
"""Every block reads its parameters, fetches its code and drains its stores."""
_WASTED = (Cause("branch-divergence"), Cause("block-size", lambda facts: facts.leaves_lanes_empty))
"""Partly filled warps execute instructions for nothing; matrix instructions use whole warps."""
_TENSOR = Cause("tensor-compute-bound", lambda facts: facts.is_busiest("tensor"))
"""Warps that issue matrix instructions, or use their results, wait for the pipe, in whatever state."""
_SPILL, _ATOMIC = Cause("local-memory-spill"), Cause("atomic-contention")
_CONFLICT = Cause("shared-bank-conflict", most=_are_mostly_conflicts)

CAUSES: Mapping[str, tuple[Cause, ...]] = {
    "dram-bandwidth": _past_l1("dram"),
    "l2-bandwidth": (*_past_l1("l2"), _ATOMIC),
    "l1-bandwidth": (Cause("uncoalesced-global"), _CONFLICT, _SPILL, Cause("narrow-access"), _ATOMIC),
    "shared-bandwidth": (
        _CONFLICT,
        Cause("atomic-contention", what=lambda found: found.subject == "shared"),
        Cause("reduction-tree"),
    ),
    "uncoalesced-global": (
        Cause("block-size", _are_few_lanes_side_by_side),
        Cause("atomic-contention", lambda facts: facts.excess_is_of_atomics),
    ),
    "shared-bank-conflict": (Cause("reduction-tree"),),
    "narrow-access": (
        Cause("uncoalesced-global", what=lambda found: not _ASKS_FOR_WIDE.isdisjoint(found.cases.action)),
    ),
    "fp64-bound": (Cause("tensor-cores-idle"),),
    "fp32-compute-bound": (Cause("tensor-cores-idle"), Cause("non-fused-fp"), *_WASTED),
    "integer-bound": _WASTED,
    "issue-bound": (*_WASTED, Cause("tensor-cores-idle")),
    "special-function-bound": _WASTED,
    "tensor-compute-bound": (Cause("old-architecture"),),
    "short-kernel": (Cause("unfused-attention"), Cause("elementwise-chain")),
    "small-grid": (Cause("short-kernel", _is_about_a_launch),),
    "tail-effect": tuple(Cause(rule, _last_round_is_shorter(unit)) for rule, unit in _LIMITS.items()),
    "low-occupancy": (Cause("block-size", lambda facts: facts.is_held_by_blocks),),
    "branch-divergence": (Cause("reduction-tree"),),
    "memory-latency": (*map(Cause, _OF_MEMORY), *_FEW_WARPS, Cause("short-blocks", _drains)),
    "dependency-latency": (*_FEW_WARPS, _TENSOR),
    "barrier-wait": (
        *(Cause(rule, _behind("memory")) for rule in ("memory-latency", *_OF_MEMORY)),
        *(Cause(rule, _behind("shared")) for rule in _OF_SHARED),
        *(Cause(rule, _behind("dispatch")) for rule, unit in _LIMITS.items() if unit not in MEMORY),
        _TENSOR,
        Cause("reduction-tree"),
        Cause("branch-divergence"),
        Cause("load-imbalance"),
        *_FEW_WARPS,
    ),
    "instruction-fetch": (
        Cause("branch-divergence", lambda facts: facts.stall("branch_resolving") >= facts.stall("no_instruction")),
        *_FEW_WARPS,
        *_NEW_BLOCKS,
    ),
    "constant-miss": (*_FEW_WARPS, *_NEW_BLOCKS),
    "latency-bound": (
        *_FEW_WARPS,
        Cause("tail-effect"),
        Cause("load-imbalance"),
        *_NEW_BLOCKS,
        Cause("reduction-tree"),
        *(Cause(rule, _waits_for_shared) for rule in _OF_SHARED),
    ),
}
"""The rules whose findings explain those of a rule, by the id of the explained one."""


_Found = Sequence[tuple[Rule, Finding]]


def with_causes(
    findings: _Found, facts: KernelFacts, causes_of: Mapping[str, tuple[Cause, ...]] = CAUSES
) -> list[Finding]:
    """Return the findings; explained ones with the `cause`'s id and severity "info".

    Of several causes the one with the largest gain counts, guesses last, and of a chain of causes the
    first. A finding that invalidates all others explains them before any other cause does.
    """
    causes: dict[str, str] = {}
    for rule, finding in findings:
        causing = [*_voiding(rule, finding, findings, facts)]
        causing = causing or [*_explaining(rule, finding, findings, facts, causes_of.get(rule.id, ()))]
        if causing:
            causes[finding.id] = max(causing, key=_rank).id
    explained = []
    for _, finding in findings:
        first = _first_cause(finding.id, causes)
        explained.append(replace(finding, cause=first, severity="info") if first is not None else finding)
    return explained


def _voiding(rule: Rule, finding: Finding, findings: _Found, facts: KernelFacts) -> Iterator[Finding]:
    """Yield the findings that invalidate this one.

    A finding that invalidates the code does not invalidate findings from the launch alone, nor a
    roof that the kernel is at.
    """
    if rule.of_run or rule.invalidates:
        return
    stays = rule.by_times or rule.survives_code_change(facts) or (rule.kind == "limit" and finding.severity == "info")
    for other_rule, other in findings:
        if not other_rule.invalidates or other.severity == "info" or other.confidence == "guess":
            continue
        if other_rule.invalidates == "time" or not stays:
            yield other


def _explaining(
    rule: Rule, symptom: Finding, findings: _Found, facts: KernelFacts, causes: Sequence[Cause]
) -> Iterator[Finding]:
    """Yield the findings that are sure and large enough to explain this one."""
    # A guess of a defect can explain a guess of waits.
    is_guess = rule.kind == "symptom" and symptom.confidence == "guess"
    for cause in causes:
        for other_rule, other in findings:
            if other_rule.id != cause.rule or other.id == symptom.id:
                continue
            is_sure = other.confidence != "guess" or (is_guess and other_rule.kind == "defect")
            is_large = cause.most(other) or _is_enough(other_rule, other, symptom)
            if is_sure and is_large and cause.what(other) and cause.when(facts):
                yield other


def _is_enough(rule: Rule, finding: Finding, symptom: Finding) -> bool:
    """Return whether a finding is large enough to explain a symptom.

    A limit that the kernel is at explains all waits for it, whatever its gain. So does a kernel
    that is as short as its launch.
    """
    if rule.kind == "limit" and (finding.severity == "info" or rule.by_times):
        return True
    return finding.severity != "info" and (finding.gain_kernel or 0.0) >= ENOUGH * (symptom.gain_kernel or 0.0)


def _rank(finding: Finding) -> tuple[bool, float]:
    return finding.confidence != "guess", finding.gain_kernel or 0.0


def _first_cause(name: str, causes: dict[str, str]) -> str | None:
    """Return the first of a chain of causes; None if it has none, or two of them explain each other."""
    first = None
    seen = {name}
    while name in causes:
        name = first = causes[name]
        if name in seen:
            return None
        seen.add(name)
    return first
