"""What results are called: the probe, what tells its results apart, and regime and data where it has several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprof.characterize.record.series import FixedValues, Series

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

KNEE = "knee"
NEAR_PEAK = "at 95 % of peak"
"""Parts of a curve that saturates: where both lines of its law meet, and where the curve itself is saturated."""


def value_name(probe: Probe, fixed: FixedValues, regime: str, data: str, part: str = "") -> str:
    """Return the name of a result: "bandwidth/l1-read WIDTH=16", "tensor/wgmma-bf16-f32 random sustained".

    `part` is a further quantity of the same measurement: "bandwidth/dram-in-flight knee".
    """
    parts = [probe.id, *(f"{name}={value}" for name, value in fixed)]
    if len(probe.data) > 1:
        parts.append(data)
    if len(probe.regimes) > 1:
        parts.append(regime)
    return " ".join([*parts, *([part] if part else [])])


def series_name(probe: Probe, series: Series, part: str = "") -> str:
    """Return the name of a result of a series; what a kernel under which power is read has not, its name has not."""
    config, settings = series.config, series.config.settings()
    fixed = config.fixed([axis for axis in probe.series if axis in settings])
    return value_name(probe, fixed, config.regime, config.data, part)
