"""How busy L2 is where only its own figure was recorded, which on divided caches counts the fabric between the halves.

`lts__throughput` is the largest of the parts of L2 that `gpu__compute_memory_throughput` counts too, and of
`lts__ltcfabric2ltc_cycles_active`, which that leaves out. So L2 is no busier than either figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from msgspec import structs

from gpuprof.model.field_types import ThroughputUnit
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Finding, KernelProfile, Session, Throughput

_RULE = "l2-bandwidth"
_WHY = "L2's own figure is above that of all memory: it counts the fabric between the halves of L2"
_HOW = "profile again: gpuprof run collects the parts of L2, as ncu --set full does"


def with_l2_bounded(throughput: tuple[Throughput, ...]) -> tuple[Throughput, ...]:
    """Return the units with L2 no busier than memory as a whole, and as busy as that if no other level is.

    Only an L2 of which an upper bound is known changes.
    """
    units = {unit.unit: unit for unit in throughput}
    l2, memory = units.get("l2"), units.get("memory")
    if l2 is None or memory is None or l2.bound != "at-most":
        return throughput
    if _is_alone(units, memory) and memory.fraction <= l2.fraction + TWO_PASSES:
        bounded = Throughput("l2", memory.fraction)
    else:
        bounded = Throughput("l2", min(l2.fraction, memory.fraction), bound="at-most")
    return tuple(bounded if unit is l2 else unit for unit in throughput)


def _is_alone(units: Mapping[ThroughputUnit, Throughput], memory: Throughput) -> bool:
    """Return whether neither DRAM nor L1 is as busy as memory as a whole, as far as both are known."""
    dram, l1 = units.get("dram"), units.get("l1")
    if dram is None or l1 is None or not dram.is_exact or not l1.is_exact:
        return False
    return max(dram.fraction, l1.fraction) + TWO_PASSES < memory.fraction


def without_fabric(session: Session) -> Session:
    """Return a saved session without what rests on an L2 that is busier than memory as a whole: no part can be."""
    gone = {finding.id for kernel in session.kernels if _counts_fabric(kernel) for finding in _of_l2(kernel)}
    owners = {finding.id: kernel.id for kernel in session.kernels for finding in kernel.findings}
    opportunities = []
    for item in session.opportunities:
        findings = tuple(name for name in item.findings if name not in gone)
        kernels = {owners[name] for name in findings}
        if findings:
            left = tuple(kernel for kernel in item.kernels if kernel in kernels)
            opportunities.append(structs.replace(item, findings=findings, kernels=left))
    return structs.replace(
        session,
        kernels=tuple(_without_l2(kernel, gone) if _counts_fabric(kernel) else kernel for kernel in session.kernels),
        opportunities=tuple(opportunities),
    )


def _counts_fabric(kernel: KernelProfile) -> bool:
    units = {unit.unit: unit.fraction for unit in kernel.throughput if unit.is_exact}
    return "l2" in units and "memory" in units and units["l2"] > units["memory"]


def _of_l2(kernel: KernelProfile) -> Iterator[Finding]:
    return (finding for finding in kernel.findings if finding.rule == _RULE)


def _without_l2(kernel: KernelProfile, gone: Set[str]) -> KernelProfile:
    findings = (finding for finding in kernel.findings if finding.id not in gone)
    return structs.replace(
        kernel,
        throughput=tuple(unit for unit in kernel.throughput if unit.unit != "l2"),
        missing=(*kernel.missing, Missing("throughput.l2", _WHY, _HOW)),
        findings=tuple(
            structs.replace(finding, cause=None) if finding.cause in gone else finding for finding in findings
        ),
    )
