"""What results are called: the probe, what tells its results apart, and regime and data where it has several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuprof.characterize.record.samples import Parameter

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

KNEE = "knee"
NEAR_PEAK = "at 95 % of peak"
"""Parts of a curve that saturates: where both lines of its law meet, and where the curve itself is saturated."""


def value_name(probe: Probe, fixed: Mapping[str, Parameter], regime: str, data: str, part: str = "") -> str:
    """Return the name of a result: "bandwidth/l1-read WIDTH=16", "tensor/wgmma-bf16-f32 random sustained".

    `part` is a further quantity of the same measurement: "bandwidth/dram-in-flight knee".
    """
    words = [f"{name}={value}" for name, value in fixed.items()]
    if len(probe.data) > 1:
        words.append(data)
    if len(probe.regimes) > 1:
        words.append(regime)
    return " ".join([probe.id, *words, *([part] if part else [])])
