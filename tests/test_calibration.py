"""What fixes saved of the gain of their finding, and what certainty is worth: why findings have their order."""

from __future__ import annotations

from statistics import quantiles

import pytest

from gpuprof.diagnose.calibration import NAMED_AS_CAUSE, OF_ALL, OF_CONDITIONAL, Gained, expected_saving
from gpuprof.model.field_types import CONFIDENCES

# The `pairs` of tests/data/expected-causes.yaml whose rule had a finding: its gain, and what the change saved.
# A change that several reports recorded counts once, with the mean of its parts.
CONDITIONAL = {
    ("gmem_coalesce", "smem_blocking", "l1-bandwidth"): [(0.694, 0.28)],
    ("smem_blocking", "one_blocktiling", "l1-bandwidth"): [(0.750, 0.571)],
    ("one_blocktiling", "two_blocktiling", "l1-bandwidth"): [(0.523, 0.317), (0.523, 0.315), (0.524, 0.313)],
    ("one_blocktiling", "one_d_vec", "l1-bandwidth"): [(0.523, 0.212)],
    ("warptiling", "ampere_sgemm", "small-grid"): [(0.522, 0.23), (0.199, 0.235)],
}
BOUNDS = {
    ("compute_tendencies_x", "compute_tendencies_x", "fp64-bound"): [(0.536, 0.4375)],
    ("basic", "gmem_coalesce", "uncoalesced-global"): [(0.882, 0.87)],
}


def parts(changes: dict[tuple[str, str, str], list[tuple[float, float]]]) -> list[float]:
    return [sum(saved / gain for gain, saved in fixes) / len(fixes) for fixes in changes.values()]


def test_the_fractions_are_those_of_the_recorded_fixes() -> None:
    def is_of(gained: Gained, values: list[float]) -> None:
        assert gained == pytest.approx(quantiles(values, method="inclusive"), abs=0.006)

    is_of(OF_CONDITIONAL, parts(CONDITIONAL))
    is_of(OF_ALL, parts(CONDITIONAL) + parts(BOUNDS))


def test_a_saving_is_expected_by_gain_and_certainty() -> None:
    # 0.57 · 0.76 · 52/57 and 0.5 · 0.76 · 6/15.
    assert expected_saving(0.57, "measured") == pytest.approx(0.3952)
    assert expected_saving(0.5, "guess") == pytest.approx(0.152)
    assert expected_saving(None, "measured") == 0
    weights = [NAMED_AS_CAUSE[confidence] for confidence in CONFIDENCES]
    assert weights == sorted(weights, reverse=True)
