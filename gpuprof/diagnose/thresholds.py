"""Thresholds: numbers that rules compare with. Those that several rules share are here."""

from __future__ import annotations

from msgspec import Struct

from gpuprof.model.session import Evidence

HIGH, MEDIUM, LOW = 0.2, 0.1, 0.03
"""Least gain of a severity: a fifth, a tenth, and the least that is more than noise."""

WELL_USED = 0.8
"""NVIDIA's speed-of-light rule calls a unit well used from this fraction on."""


class Threshold(Struct, frozen=True):
    """A number that a rule compares with. The rule's wording has the reason under `name`."""

    name: str
    value: float
    unit: str
    reason: str = ""

    def is_reached(self, share: float | None) -> bool:
        """Return whether a share (of 1) is known and reaches the threshold in percent."""
        return share is not None and 100 * share >= self.value

    def evidence(self, value: float, role: str = "", *of: str, metric: str = "") -> Evidence:
        """Return a value in the unit of this threshold as evidence, by default with its name."""
        return Evidence(metric, float(value), self.unit, self.value, role=role or self.name, of=of)


def percent(name: str, value: float, reason: str = "") -> Threshold:
    """Return a threshold of a share."""
    return Threshold(name, value, "%", reason)


def context(role: str, value: float | None, unit: str, *of: str, metric: str = "") -> tuple[Evidence, ...]:
    """Return a value as evidence without a threshold; nothing if it is not known."""
    if value is None:
        return ()
    return (Evidence(metric, float(value), unit, None, role=role, of=of),)


FULL_WAVE = Threshold("full-wave", 1.0, "wave")
STARVED_ISSUE = percent("starved-issue", 60.0)
COVERED = percent("latency-stalls", 50.0)
TAKEN = percent("slots-taken", 80.0)
FEW_WARPS = percent("few-warps", 25.0)
TAIL_SHARE = percent("last-wave", 20.0)
TAIL_SLACK = percent("tail-slack", 5.0)
BARRIERS = percent("barriers", 2.0)
FULL = percent("full-occupancy", 100.0)
SHORT = Threshold("duration", 5e-6, "s")
NOTHING = Threshold("little-work", 3e-6, "s")
LAUNCH_ALONE = percent("launch-alone", 50.0)
EMPTY_LANES = percent("empty-lanes", 100 * LOW)
OCCUPANCY_GAP = Threshold("occupancy-gap", 10.0, "percentage point")
IMBALANCE = percent("idle-sms", 10.0)
SHORT_BLOCK = Threshold("short-block", 2000.0, "cycle")
QUEUED = Threshold("queued-loads", 1500.0, "cycle")
USED_DRAM = percent("used-dram", 50.0)
SLOWER_THAN_LOADS = percent("slower-than-loads", 5.0)
DOMINANT = percent("dominant-stall", 30.0)
NOTABLE = percent("notable-stall", 20.0)
BUSY = percent("busy", 60.0)
EMPTY_SLOTS = percent("empty-warp-slots", 50.0)
NEAR_ROOF = percent("near-ceiling", 80.0)
MORE_SECTORS = Threshold("more-sectors", 1.0, "sector/request")
NARROW = percent("narrow-share", 50.0)
MANY_WAVEFRONTS = Threshold("wavefronts-per-request", 4.5, "wavefront/request")
PIPE_BUSY = percent("busy-pipe", 60.0)
PIPE_NEAR_ROOF = percent("pipe-near-ceiling", 80.0)
THROTTLED = percent("math-pipe-throttle", 30.0)
SM_PIPE = percent("pipe-of-busy-sm", 50.0)
FMA_WORK = percent("fp32-work", 30.0)
MOST_INSTRUCTIONS = percent("most-instructions", 50.0)
