"""What the units need of a kernel's time, and the bounds that follow: numbers worked out by hand, and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.diagnose.bounds import saving, together
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.units import WAVEFRONTS
from gpuprof.model.analyse import analyse
from gpuprof.model.session import Remaining
from tests import builders
from tests.kernels import Made, busy, issued, lasting, made, pipes

FRACTIONS = st.floats(0, 1)
UNITS = st.sampled_from(["dram", "l2", "l1", "sm", "issue", "fma", "lsu", "launch"])
NEEDS = st.dictionaries(UNITS, FRACTIONS)


def facts_of(launch: Made) -> KernelFacts:
    """The facts of a launch on an A100."""
    analysis = analyse([builders.report(launch.launch())], lambda _: builders.a100(), "9.9")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


def test_the_busiest_unit_that_a_fix_leaves_alone_bounds_it() -> None:
    told = saving({"dram": 0.02, "l1": 0.9, "fp64": 0.85, "sm": 0.85}, {"l1": 0.1, "dram": 0.5})
    assert told.fraction == pytest.approx(0.15) and not told.assumes
    assert told.remains[:2] == (Remaining("fp64", 0.85), Remaining("sm", 0.85))


def test_what_a_fix_leaves_to_the_units_that_it_relieves_bounds_it_too() -> None:
    # DRAM keeps half of its 80 %: 40 % remain, more than L2's 10 %.
    told = saving({"dram": 0.8, "l2": 0.4}, {"dram": 0.5, "l2": 0.25})
    assert told.fraction == pytest.approx(0.6)
    assert told.remains == (Remaining("dram", 0.4), Remaining("l2", 0.1))


def test_the_sm_as_a_whole_goes_with_a_part_of_it_that_is_relieved() -> None:
    assert saving({"sm": 0.9, "fp64": 0.9, "issue": 0.3}, {"fp64": 0.0}).fraction == pytest.approx(0.7)
    assert saving({"sm": 0.9, "dram": 0.9}, {"dram": 0.0}).fraction == pytest.approx(0.1)


def test_a_saving_with_something_held_fixed_is_no_bound() -> None:
    bound = saving({"dram": 0.5}, {})
    held = bound.if_held(0.2, "same-bytes")
    assert (held.fraction, held.assumes) == (0.2, ("same-bytes",))
    assert held.remains == bound.remains
    assert bound.if_held(0.7, "same-bytes") is bound
    assert not bound.no_more_than(0.3).assumes and bound.no_more_than(0.3).fraction == 0.3


def test_needs_are_of_elapsed_time_and_what_was_not_collected_is_none() -> None:
    launch = made(
        {"sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active": 40.0, WAVEFRONTS: 70.0},
        busy(dram=30, memory=70), pipes(fma=50), issued(60), lasting(1e-5),
    )  # fmt: skip
    # A kernel that does nothing takes 1 of these 10 µs.
    known = {"dram": 0.3, "l1": 0.7, "fma": 0.5, "launch": 0.1}
    assert facts_of(launch).needs == pytest.approx(known)
    # An average SM had work in half of the cycles.
    half = launch.plus({"sm__cycles_active.avg": 50.0, "sm__cycles_elapsed.max": 100.0})
    assert facts_of(half).needs == pytest.approx(known | {"alu": 0.2, "issue": 0.3})


def test_after_two_fixes_each_unit_needs_the_least_that_either_leaves() -> None:
    first = (Remaining("dram", 0.5), Remaining("l1", 0.1))
    second = (Remaining("l1", 0.9), Remaining("dram", 0.2))
    assert together([first, second]) == pytest.approx(0.2)
    assert together([first]) == 0.5
    assert together([]) == 0.0


@given(NEEDS, st.dictionaries(UNITS, FRACTIONS))
def test_a_bound_is_a_fraction_and_grows_with_what_is_relieved(
    needs: dict[str, float], relieved: dict[str, float]
) -> None:
    told = saving(needs, relieved).fraction
    assert 0 <= told <= 1
    assert told >= saving(needs, {}).fraction
    assert saving(needs, {unit: factor / 2 for unit, factor in relieved.items()}).fraction >= told


@given(NEEDS, UNITS, FRACTIONS)
def test_a_need_that_was_not_collected_never_tightens_a_bound(needs: dict[str, float], unit: str, part: float) -> None:
    without = {name: need for name, need in needs.items() if name != unit}
    assert saving(without, {"dram": part}).fraction >= saving(needs, {"dram": part}).fraction


@given(NEEDS, st.dictionaries(UNITS, FRACTIONS), st.dictionaries(UNITS, FRACTIONS))
def test_two_fixes_together_leave_no_more_than_either(
    needs: dict[str, float], some: dict[str, float], others: dict[str, float]
) -> None:
    first, second = saving(needs, some).remains, saving(needs, others).remains
    least = min(max((item.fraction for item in remains), default=0.0) for remains in (first, second))
    assert together([first, second]) <= least
