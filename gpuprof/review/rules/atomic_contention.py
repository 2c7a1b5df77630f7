"""The rule on atomics: all lanes of a warp on one address, and atomics in loops."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rule import amounts_of
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Cases
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.elected_lanes import is_of_one_lane
from gpuprof.review.rules.rule import CodeRule, code_finding
from gpuprof.sass.dataflow.addresses import LaneAddress
from gpuprof.sass.dataflow.expressions import LANES

_ID = "atomic-contention"


def _atomics(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for atomics of whole warps on one address, and one for atomics in loops."""
    has_atomics = any(access.kind == "atomic" for access in facts.accesses)
    addresses = facts.addresses if has_atomics else None
    if addresses is None:
        return
    same = []
    looping = []
    for item in addresses.by_request.values():
        if item.request.kind != "atomic" or ".CAS" in item.instruction.opcode or is_of_one_lane(addresses, item):
            continue
        if item.same:
            same.append(item)
        elif facts.depth(item.instruction.address) and _may_meet(item):
            looping.append(item)
    if same:
        in_loop = any(facts.depth(item.instruction.address) for item in same)
        yield code_finding(
            facts,
            _ID,
            [item.instruction for item in same],
            Cases(
                headline=("same-address", "in-loop") if in_loop else ("same-address",),
                why=("same-address", "one-address"),
            ),
            amounts=amounts_of("lane", lanes=LANES),
            evidence=(Evidence("", float(LANES), "lane", 1.0, role="lanes-at-address"),),
        )
    if looping:
        yield code_finding(
            facts,
            _ID,
            [item.instruction for item in looping],
            Cases(headline=("atomics", "in-loop"), why=("each-iteration", "one-address")),
            amounts=amounts_of("atomic", atomics=len(looping)),
            evidence=context("atomics-in-loops", len(looping), "instruction"),
            is_guess=True,
        )


def _may_meet(item: LaneAddress) -> bool:
    """Return whether threads may update one address of global memory: not if each has its own in each iteration.

    Shared memory is left out: counters in it are the fix that this rule recommends.
    """
    is_own = item.known and len(set(item.apart)) == LANES and item.changes_in_loop
    return item.request.space != "shared" and not is_own


RULE = CodeRule(id=_ID, check=_atomics)
