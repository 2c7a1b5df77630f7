"""The kernel reads or writes host memory."""

from __future__ import annotations

from msgspec import Struct

from gpuprof.diagnose.bounds import OTHER_WAITS, explained, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import HOST_FILLS, HOST_MISSES
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.level_limits import unit_busy
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, cases_named, finding
from gpuprof.diagnose.thresholds import FAR, IDLE, TAKES_IN, percent
from gpuprof.model.findings import Cases
from gpuprof.units import SECTOR_BYTES

HOST_SHARE = percent("host-share", 10.0)

HOST_FILL = percent("host-fills", 0.1)

_DEVICE_MISSES = "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum"

_HOST_WRITES = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum"

_HOST_ATOMICS = tuple(f"lts__t_sectors_srcunit_tex_aperture_sysmem_op_{kind}.sum" for kind in ("atom", "red"))

_DRAM_WRITES = "dram__sectors_write.sum"
"""L2 counts every write as a hit. The GPU's own memory gets the writes that DRAM counts, the
host gets all of its."""

_DEVICE_FILLS = "lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed"
"""Fills of L2; every set of metrics has them. Both peaks are one sector a cycle and slice."""

_ROLES = {
    HOST_MISSES: "misses-to-host",
    _HOST_WRITES: "writes-to-host",
    **dict.fromkeys(_HOST_ATOMICS, "atomics-to-host"),
    _DEVICE_MISSES: "misses-to-dram",
    _DRAM_WRITES: "writes-to-dram",
}


class _Passed(Struct, frozen=True):
    """What L2 passes on: to the host, to DRAM, and how both were counted."""

    counted: str
    host: float
    device: float

    @property
    def share(self) -> float:
        """The host's share, 0 to 1."""
        return self.host / ((self.host + self.device) or 1.0)


def _host(facts: KernelFacts) -> Findings:
    yield from _host_by_waits(facts)
    passed = _passed(facts)
    if passed is None or facts.shares_memory or not HOST_SHARE.is_reached(passed.share):
        return
    atomics = facts.total(_HOST_ATOMICS) or 0.0
    kind = "atomics" if 2 * atomics >= passed.host else "main"
    yield finding(
        facts,
        Cases(headline=(passed.counted,), why=(kind,), action=(kind,), advice=(kind,)),
        amounts=amounts_of(share=passed.share),
        confidence="measured" if passed.counted == "traffic" else "inferred",
        saving=speedup_bound(facts, {}).if_held(explained(facts, 0.0, MEMORY_STALLS), OTHER_WAITS),
        evidence=(
            *facts.metrics_as(_ROLES, "sector"),
            *facts.metric(HOST_FILLS, "fills-from-host", "%", HOST_FILL.value),
            *facts.metric(_DEVICE_FILLS, "fills-from-dram", "%"),
            HOST_SHARE.evidence(100 * passed.share, f"host-share-of-{passed.counted}"),
        ),
        place=facts.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


def _passed(facts: KernelFacts) -> _Passed | None:
    """Return the sectors that L2 passes on to the host and to DRAM, else the misses or fills of
    both.

    Misses alone are no share of the traffic: most of it can be writes to DRAM.
    """
    misses, writes = facts.number(HOST_MISSES), facts.number(_HOST_WRITES) or 0.0
    to_dram = facts.total((_DEVICE_MISSES, _DRAM_WRITES), of_all=True)
    moved, reads = facts.bytes_of("dram"), facts.number(_DEVICE_MISSES)
    if misses is not None:
        # An atomic can count as a miss, too.
        host = max(misses, facts.total(_HOST_ATOMICS) or 0.0)
        if to_dram is not None:
            return _Passed("traffic", host + writes, to_dram)
        if moved is not None:
            return _Passed("traffic", host + writes, moved / SECTOR_BYTES)
        return _Passed("misses", host, reads) if reads is not None else None
    fills, of_dram = facts.number(HOST_FILLS), facts.number(_DEVICE_FILLS)
    if fills is None or of_dram is None or fills < HOST_FILL.value:
        return None
    return _Passed("fills", fills, of_dram)


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
