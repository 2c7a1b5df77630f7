"""The floating-point work that NVIDIA's roofline rule tells of: a text export has that and no counts of work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuprof.model.recorded import RuleResult

TOLD_WORK = "rule SOLFPRoofline"
"""What such a number comes from, where evidence names its metric."""
_PERCENT = r"(?:\s*close to)?\s*(?P<{}>\d+(?:\.\d+)?)%"
_ACHIEVED = re.compile(
    rf"achieved{_PERCENT.format('fp32')} of this device's fp32 peak performance"
    rf"\s+and{_PERCENT.format('fp64')} of its fp64 peak performance",
    re.IGNORECASE,
)


def work_of_peak(messages: Iterable[RuleResult]) -> Mapping[str, float]:
    """Return the FP32 and the FP64 work of their peaks, in whole percent; empty where the rule did not say so.

    Half precision, integers and tensor cores are no part of them.
    """
    match = next(filter(None, (_ACHIEVED.search(message.message) for message in messages)), None)
    return {path: min(1.0, float(match[path]) / 100) for path in ("fp32", "fp64")} if match is not None else {}
