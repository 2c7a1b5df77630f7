"""The kernel reads or writes host memory."""

from __future__ import annotations

from gpuprof.diagnose.bounds import OTHER_WAITS, explained, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import HOST_FILLS, HOST_MISSES
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import percent
from gpuprof.units import SECTOR_BYTES

HOST_SHARE = percent("host-share", 10.0)

HOST_FILL = percent("host-fills", 0.1)

_DEVICE_MISSES = "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum"

_HOST_WRITES = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum"

_HOST_ATOMICS = (
    "lts__t_sectors_srcunit_tex_aperture_sysmem_op_atom.sum",
    "lts__t_sectors_srcunit_tex_aperture_sysmem_op_red.sum",
)

_MISSING_ATOMICS = (
    "lts__t_sectors_srcunit_tex_aperture_sysmem_op_atom_dot_alu_lookup_miss.sum",
    "lts__t_sectors_srcunit_tex_aperture_sysmem_op_atom_dot_cas_lookup_miss.sum",
    "lts__t_sectors_srcunit_tex_aperture_sysmem_op_red_lookup_miss.sum",
)
"""Those of ncu's full set."""

_DEVICE_FILLS = "lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed"
"""Fills of L2; every set of metrics has them. Both peaks are one sector a cycle and slice."""

_ROUND_TRIP_S = 5e-6
"""An access over the host link takes little longer than this. A few of them cost at most so much each."""

_ROLES = {
    HOST_MISSES: "misses-to-host",
    _HOST_WRITES: "writes-to-host",
    **dict.fromkeys(_HOST_ATOMICS + _MISSING_ATOMICS, "atomics-to-host"),
    _DEVICE_MISSES: "misses-to-dram",
}


def _host(facts: KernelFacts) -> Findings:
    counted, host, device = _below_l2(facts)
    if host is None or device is None or facts.number("device__attribute_integrated"):
        return
    share = host / ((host + device) or 1.0)
    if not HOST_SHARE.is_reached(share) or (counted == "fills" and host < HOST_FILL.value):
        return
    saving = speedup_bound(facts).if_held(explained(facts, 0.0), OTHER_WAITS)
    if counted != "fills" and facts.kernel.duration_s:
        saving = saving.no_more_than(host * _ROUND_TRIP_S / facts.kernel.duration_s)
    kind = "atomics" if 2 * _atomics(facts) >= host else "main"
    yield finding(
        facts,
        cases_of(kind, (counted,), (kind,)),
        amounts=amounts_of(share=share),
        confidence="measured" if counted == "traffic" else "inferred",
        saving=saving,
        evidence=(
            *facts.metrics_as(_ROLES, "sector"),
            *facts.metric(HOST_FILLS, "fills-from-host", "%", HOST_FILL.value),
            *facts.metric(_DEVICE_FILLS, "fills-from-dram", "%"),
            HOST_SHARE.evidence(100 * share, f"host-share-of-{counted}"),
        ),
        place=facts.code.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


def _below_l2(facts: KernelFacts) -> tuple[str, float | None, float | None]:
    """Return the sectors that L2 passes on to the host and those of DRAM, else the misses or fills
    of both.

    Misses alone are no share of the traffic: most of it can be writes, which L2 counts as hits.
    """
    misses, device_misses, of_dram = facts.number(HOST_MISSES), facts.number(_DEVICE_MISSES), facts.bytes_of("dram")
    if misses is not None and of_dram is not None:
        # An atomic can count as a miss, too.
        host = max(misses, _atomics(facts)) + (facts.number(_HOST_WRITES) or 0.0)
        return "traffic", host, of_dram / SECTOR_BYTES
    if misses is not None and device_misses is not None:
        return "misses", misses, device_misses
    return "fills", facts.number(HOST_FILLS), facts.number(_DEVICE_FILLS)


def _atomics(facts: KernelFacts) -> float:
    return facts.total(_HOST_ATOMICS) or facts.total(_MISSING_ATOMICS) or 0.0


RULE = Rule(
    "host-memory-traffic",
    thresholds=(HOST_SHARE, HOST_FILL),
    check=_host,
    metrics=(HOST_MISSES, _DEVICE_MISSES, _HOST_WRITES),
    survives_code_change=lambda _: True,
    place=AT_MEMORY,
)
