"""Numbers that were printed without a unit: which of them mean something, and what a duration can only be."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuprof.model.recorded import Metric
from gpuprof.read.metric_units import unit_of
from gpuprof.units import ncu_unit

DURATION = "gpu__time_duration.sum"
_SCALED = re.compile(r"byte(?!/sector)|^ns$|^hz$|/s$")
"""Units that ncu prints with the prefix that fits: Kbyte, usecond, cycle/nsecond. It scales no other."""
_MAYBE_BYTES = re.compile(r"bytes|^derived__memory_")
"""Names of what ncu takes for bytes in some reports, and for sectors or no unit in others."""
_CYCLES = tuple(f"{unit}__cycles_elapsed.{of}" for unit in ("gpc", "sm", "smsp") for of in ("max", "avg"))
_TIMES = ("s", "ms", "us", "ns")
_SLOWEST_HZ, _FASTEST_HZ = 0.1e9, 4e9
"""No GPU runs a kernel at other clocks: idle ones have at least 0.135 GHz, boosts reach about 3 GHz."""


def needs_unit(name: str, *, has_units: bool) -> bool:
    """Return whether a number under this name means nothing without its unit.

    `has_units`: other numbers of the page have one. Then ncu did not know the unit of this one, and has not scaled it.
    """
    unit = unit_of(name)
    if unit is None:
        return not has_units and not name.startswith("details:")
    if has_units:
        return _SCALED.search(unit) is not None and not unit.startswith("1/")
    return _SCALED.search(unit) is not None or (unit in {"", "sector"} and _MAYBE_BYTES.search(name) is not None)


def time_unit(number: float | str, metrics: Mapping[str, Metric]) -> str | None:
    """Return the only unit in which a duration fits the cycles that elapsed in its launch; None if none is sure.

    Cycles over duration are a clock. Units differ by 1000, the clocks of all GPUs by 40.
    """
    if isinstance(number, str) or number <= 0:
        return None
    fitting = set()
    for cycles in (metrics[name].value for name in _CYCLES if name in metrics):
        for unit in _TIMES:
            seconds = number * ncu_unit(unit)[0]
            if not isinstance(cycles, str) and _SLOWEST_HZ <= cycles / seconds <= _FASTEST_HZ:
                fitting.add(unit)
    return fitting.pop() if len(fitting) == 1 else None
