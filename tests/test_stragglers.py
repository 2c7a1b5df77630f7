"""Ranks that others wait for: named if one measured difference explains the waits; times worked out by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuprof.timeline.trace import Activity
from tests.table import each_row
from tests.test_timeline import kernel, moved, of_ranks, of_rule, reduction, session, trace


def late(*causes: Activity, before: float = 10) -> tuple[Activity, ...]:
    """What rank 0 does in 100 µs: it computes first, is late for a cause, and exchanges 20 µs; and so once more."""
    of_rank: list[Activity] = []
    for at in (0, 100):
        of_rank += [kernel("a", at, before)]
        of_rank += [one._replace(start_s=one.start_s + at * 1e-6) for one in causes]
        of_rank += [reduction(at + 80, 20)]
    return tuple(of_rank)


EARLY = tuple(one for at in (0, 100) for one in (kernel("a", at, 10), reduction(at + 10, 90)))


@each_row(("causes", "late_for", "named"), [
    ((kernel("b", 10, 60),), "computing", True), ((moved(10, 60, 1000),), "copies", True), ((), "idle", True),
    # Of 70 µs 55 are less than 80 %, and 57 more.
    ((kernel("b", 10, 55),), "computing", False), ((kernel("b", 10, 57),), "computing", True),
    ((kernel("b", 10, 35), moved(45, 35, 1000)), "computing", False),
    # An exchange with other ranks is no idle time: what they wait for is not known.
    ((kernel("ncclDevKernel_SendRecv", 10, 60),), "idle", False),
])  # fmt: skip
def test_a_rank_is_named_if_one_measured_difference_explains_the_waits(
    causes: tuple[Activity, ...], late_for: str, named: bool
) -> None:
    found = of_ranks(late(*causes), EARLY)
    assert found.timeline is not None
    talk = found.timeline.devices[0].communication
    assert talk is not None and talk.late_for == late_for
    ((_, finding),) = of_rule(found, "waiting-for-ranks")
    assert finding.cases.action == ((f"late-{late_for}",) if named else ("unknown",))


@each_row(("name", "paired"), [
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", True),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
    ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", True), ("ncclDevKernel_ReduceScatter", True),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", False),
    ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", False),
])  # fmt: skip
@pytest.mark.parametrize("world", [2, 4])
def test_two_ranks_alone_pair_the_kernels_of_nccl_by_their_names(name: str, paired: bool, world: int) -> None:
    traces = [
        replace(
            trace(*(one._replace(name=name, collective=None) if one.collective else one for one in of_rank)),
            file=f"r{rank}.json", sha256=f"{rank}" * 64, rank=rank, ranks=world,
        )
        for rank, of_rank in enumerate((late(), EARLY))
    ]  # fmt: skip
    timeline = session(*traces).timeline
    assert timeline is not None
    talk = timeline.devices[0].communication
    assert talk is not None and (talk.awaited_s is not None) is (paired and world == 2)
