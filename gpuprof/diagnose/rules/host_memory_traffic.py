"""The kernel reads or writes host memory."""

from __future__ import annotations

from gpuprof.diagnose.bounds import OTHER_WAITS, explained, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import HOST_FILLS, HOST_MISSES
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.level_limits import unit_busy
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, cases_named, finding
from gpuprof.diagnose.thresholds import FAR, IDLE, TAKES_IN, percent
from gpuprof.model.findings import Cases

HOST_SHARE = percent("host-share", 10.0)

HOST_FILL = percent("host-fills", 0.1)

_DEVICE_MISSES = "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum"

_HOST_WRITES = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum"

_DRAM_WRITES = "dram__sectors_write.sum"
"""L2 counts every write as a hit. The GPU's own memory gets the writes that DRAM counts, the
host gets all of its."""

_DEVICE_FILLS = "lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed"
"""Fills of L2; every set of metrics has them. Both peaks are one sector a cycle and slice."""

_BELOW_L2 = (
    ("traffic", (HOST_MISSES, _HOST_WRITES), (_DEVICE_MISSES, _DRAM_WRITES)),
    ("traffic", (HOST_MISSES,), (_DEVICE_MISSES,)),
    ("fills", (HOST_FILLS,), (_DEVICE_FILLS,)),
)

_HOST_ROLES = {
    HOST_MISSES: "misses-to-host",
    _HOST_WRITES: "writes-to-host",
    _DEVICE_MISSES: "misses-to-dram",
    _DRAM_WRITES: "writes-to-dram",
}


def _below_l2(facts: KernelFacts) -> tuple[str, float, float] | None:
    """Return the sectors that L2 passes on to the host and to DRAM, else the fills from either."""
    for kind, of_host, of_device in _BELOW_L2:
        host, device = facts.total(of_host, of_all=True), facts.total(of_device, of_all=True)
        if host is not None and device is not None:
            return kind, host, device
    return None


def _host(facts: KernelFacts) -> Findings:
    yield from _host_by_waits(facts)
    passed = _below_l2(facts)
    if passed is None or facts.shares_memory:
        return
    kind, host, device = passed
    share = host / ((host + device) or 1.0)
    if not HOST_SHARE.is_reached(share) or (kind == "fills" and host < HOST_FILL.value):
        return
    yield finding(
        facts,
        Cases(headline=(kind,)),
        amounts=amounts_of(share=share),
        confidence="measured" if kind == "traffic" else "inferred",
        saving=speedup_bound(facts, {}).if_held(explained(facts, 0.0, MEMORY_STALLS), OTHER_WAITS),
        evidence=(
            *facts.metrics_as(_HOST_ROLES, "sector"),
            *facts.metric(HOST_FILLS, "fills-from-host", "%", HOST_FILL.value),
            *facts.metric(_DEVICE_FILLS, "fills-from-dram", "%"),
            HOST_SHARE.evidence(100 * share, f"host-share-of-{kind}"),
        ),
        place=facts.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


def _host_by_waits(facts: KernelFacts) -> Findings:
    """Guess host traffic if warps wait longer than the GPU's memory takes, without a counter."""
    cycles = facts.far_memory
    if cycles is None:
        return
    yield finding(
        facts,
        cases_named("waits"),
        amounts=(
            *amounts_of("cycle", cycles=cycles),
            *amounts_of(l2=facts.needs["l2"], dram=facts.needs["dram"]),
        ),
        confidence="guess",
        saving=speedup_bound(facts, {}).only_if("same-instructions-and-bytes"),
        evidence=(
            FAR.evidence(cycles, "least-cycles"),
            unit_busy(facts, "l2", TAKES_IN),
            unit_busy(facts, "dram", IDLE),
            *facts.issue_evidence(),
        ),
        place=facts.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


RULE = Rule(
    "host-memory-traffic",
    kind="defect",
    thresholds=(HOST_SHARE, HOST_FILL, FAR, IDLE, TAKES_IN),
    check=_host,
    metrics=(HOST_MISSES, _DEVICE_MISSES, _HOST_WRITES, _DRAM_WRITES),
    survives_code_change=lambda _: True,
    place=AT_MEMORY,
)
