"""What NVIDIA's rules tell in words, in the wordings of several releases: units, schedulers, occupancy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprof.model.recorded import FixedDetails, RuleResult
from gpuprof.model.told import ToldWarps, bottleneck, told_warps
from tests.kernels import Made, lasting, made
from tests.table import each_row

HEAVIER = (
    "Memory is more heavily utilized than Compute: Look at the Memory Workload Analysis {}to identify the {} "
    "bottleneck. Check memory replay metrics."
)
WELL_USED = (
    "{} is utilizing greater than 80.0% of the available compute or memory performance of the device. To further "
    "improve performance, work will likely need to be shifted from the most utilized to another unit. Start by "
    "analyzing {} in the {} Workload Analysis section."
)
ISSUE = (
    "Every scheduler is capable of issuing one instruction per cycle, but for this {0} each scheduler only issues an "
    "instruction every 8.0 cycles. Out of the maximum of 12 warps per scheduler, this {0} allocates an average of 3.00 "
    "active warps per scheduler, but only an average of 0.25 warps were eligible per cycle."
)
FEW = (
    "each scheduler only issues an instruction every 20.0 cycles. Out of the maximum of 16 warps per scheduler, this "
    "kernel allocates an average of 0.80 active warps per scheduler, which already limits the scheduler to less than a "
    "warp per instruction."
)
LIMITED = "This kernel's theoretical occupancy (25.0%) is limited by {}"
REGISTERS, SHARED = "the number of required registers", "the required amount of shared memory"
WARPS, BLOCKS = "the number of warps within each block", "the number of blocks that can fit on the SM"
BOTH = "The difference between calculated theoretical (75.0%) and measured achieved occupancy (50.5%) can be the result"


def said(*texts: str) -> tuple[RuleResult, ...]:
    return tuple(RuleResult(rule="", section="", kind="warning", title="", message=text) for text in texts)


def told(launch: Made, *texts: str) -> Made:
    return replace(launch, details=FixedDetails(said(*texts)))


@each_row(
    ("text", "sm", "unit", "at_least"),
    [
        (HEAVIER.format("section ", "L2"), None, "l2", 0.6),
        (HEAVIER.format("report section ", "DRAM"), 0.3, "dram", 0.6),
        # Ten points above the SM, or the rule would call them balanced.
        (HEAVIER.format("section ", "L1"), 0.65, "l1", 0.75),
        (WELL_USED.format("This workload", "L1", "Memory"), 0.5, "l1", 0.8),
        (WELL_USED.format("The kernel", "L2", "Memory"), 0.9, "l2", 0.9),
    ],
)
def test_the_level_that_a_rule_names_is_busy_from_its_threshold_on(
    text: str, sm: float | None, unit: str, at_least: float
) -> None:
    found = bottleneck(said("Something else.", text), sm)
    assert found is not None and found.unit == unit and found.at_least == pytest.approx(at_least)


@each_row(
    ("texts", "warps"),
    [
        ((ISSUE.format("kernel"),), ToldWarps(0.125, 3.0, 0.25)),
        ((ISSUE.format("workload"),), ToldWarps(0.125, 3.0, 0.25)),
        ((FEW,), ToldWarps(0.05, 0.8)),
        ((f"{LIMITED.format(SHARED)}.",), ToldWarps(theoretical=0.25, limiters=("shared memory",))),
        # Releases say several limits in one sentence, in several, or without full stops between them.
        (
            (LIMITED.format(f"{REGISTERS}, and {SHARED}."),),
            ToldWarps(theoretical=0.25, limiters=("registers", "shared memory")),
        ),
        (
            (f"{LIMITED.format(REGISTERS)} {LIMITED.format(WARPS)}. {LIMITED.format(BLOCKS)}.",),
            ToldWarps(theoretical=0.25, limiters=("registers", "block size", "blocks")),
        ),
        ((BOTH,), ToldWarps(theoretical=0.75, achieved=0.505)),
        ((), ToldWarps()),
    ],
)
def test_warps_are_read_from_the_words_of_several_releases(texts: tuple[str, ...], warps: ToldWarps) -> None:
    assert told_warps(said(*texts)) == warps


def test_a_profile_has_what_rules_tell_of_warps_where_metrics_do_not() -> None:
    # 3 of the 16 warps that a scheduler of an A100 holds.
    kernel = told(made(lasting()), ISSUE.format("kernel"), f"{LIMITED.format(SHARED)}.").profile()
    assert kernel.scheduler is not None
    assert (kernel.scheduler.issue_active, kernel.scheduler.eligible_warps) == (0.125, 0.25)
    assert kernel.occupancy.theoretical == 0.25 and kernel.occupancy.limiters == ("shared memory",)
    assert kernel.occupancy.achieved == pytest.approx(3 / 16)
