"""What findings turned out to be worth: savings of recorded fixes, and experts' verdicts by certainty.

Source: `tests/data/expected-causes.yaml`; `tests/test_calibration.py` has the numbers of the fixes.
No rule has ten of them, so each fraction is valid for all rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuprof.model.field_types import Confidence


class Gained(NamedTuple):
    """The saving of fixes as a part of the gain of their finding: median and quartiles."""

    low: float
    median: float
    high: float


OF_CONDITIONAL = Gained(0.41, 0.60, 0.76)
"""Of gains with a condition: five fixes saved 0.40, 0.41, 0.60, 0.76 and 0.81 of them."""
OF_ALL = Gained(0.50, 0.76, 0.81)
"""Of all gains: two more fixes saved 0.82 and 0.99 of a bound, which are too few for another factor."""

NAMED_AS_CAUSE: Mapping[Confidence, float] = {"measured": 52 / 57, "inferred": 18 / 23, "guess": 6 / 15}
"""The part of findings that an expert names as the cause, not as beside it or as misleading.

Counted for one launch of each kernel, with a gain of at least a tenth and a severity above "info".
"""


def expected_saving(gain: float | None, confidence: Confidence) -> float:
    """Return the part of the time that a fix is expected to save: the gain by its certainty."""
    return (gain or 0.0) * OF_ALL.median * NAMED_AS_CAUSE[confidence]
