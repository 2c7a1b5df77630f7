"""The parts of L2, of which the busiest one limits: only some of them carry bytes.

What each counts is in NVIDIA's descriptions of the metrics (`ncu --query-metrics`). In recorded launches on V100, A100,
A40 and H100 the crossbar from the SMs is busy for a cycle or less per load request, for one per sector that a store
fills, and for two per sector of which it fills a part. The crossbar to the SMs carries one sector per cycle and slice,
on A100 and H100 two.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gpuprof.diagnose.case import Case
from gpuprof.diagnose.rule import percent
from gpuprof.model.headline import AS_BUSY

FABRIC_FULL = percent("full-fabric", 80.0)
_FABRIC = "fabric.l2"
_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


class L2Part(Struct, frozen=True):
    """A part of L2: its case in the wording, whether fewer bytes relieve it, and whether its bytes are those of L2."""

    name: str
    by_bytes: bool = False
    is_level: bool = False


_SECTORS = L2Part("data", by_bytes=True, is_level=True)
_PARTS: Mapping[str, L2Part] = {
    "lts__t_sectors": _SECTORS,
    "lts__d_sectors": _SECTORS,
    "lts__lts2xbar_cycles_active": L2Part("crossbar-to-sms", by_bytes=True, is_level=True),
    "lts__xbar2lts_cycles_active": L2Part("crossbar-from-sms"),
    "lts__t_tag_requests": L2Part("tag-lookups"),
    "lts__d_atomic_input_cycles_active": L2Part("atomic-unit"),
}
FABRIC = L2Part("fabric", by_bytes=True)


def busiest_part(case: Case) -> L2Part | None:
    """Return the busiest part of L2; None where no part that was collected is as busy as L2."""
    known = {name: busy for name in _PARTS if (busy := case.number(f"{name}{_ELAPSED}")) is not None}
    name = max(known, key=lambda part: known[part], default=None)
    return _PARTS[name] if name is not None and known[name] >= AS_BUSY * 100 * case.needs["l2"] else None


def fabric_busy(case: Case) -> tuple[str, float] | None:
    """Return the metric of the fabric between the halves of L2 and how busy it is; None where it was not collected."""
    chain = case.recorded.hardware.arch.counters.get(_FABRIC, ())
    for link in chain:
        for metric, factor in link.terms:
            busy = case.number(metric)
            if busy is not None:
                return metric, factor * busy
    return None
