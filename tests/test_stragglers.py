"""Ranks that others wait for: named if one measured difference explains the waits; times worked out by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuprof.model.run_totals import run_of
from gpuprof.model.session import Session
from gpuprof.timeline.trace import Activity, ProgramStep
from gpuprof.words.recommendations import headline_text
from gpuprof.words.timeline import NO_RATES, rank_facts
from gpuprof.words.verdict import launches_of_function
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


LATE = late(kernel("b", 10, 60))


@each_row(("ranks", "cause", "explained"), [
    # Each of two ranks computes 60 µs longer once, which explains 60 of the other's wait of 70.
    ((LATE[:3] + EARLY[2:], EARLY[:2] + LATE[3:]), "turns-computing", 120 / 140),
    # Each comes late once: one for 70 µs of computing and 0 of idle time, the other for 70 of idle time.
    ((late(kernel("b", 10, 70))[:3] + EARLY[2:], EARLY[:2] + late()[2:]), "no-one", 0.5),
    # A rank that exchanges with others until it comes late: for what it waits is not known.
    ((late(kernel("ncclDevKernel_SendRecv", 10, 60)), EARLY), "unknown", 10 / 70),
])  # fmt: skip
def test_ranks_that_are_late_in_turns_for_one_reason_are_said_to_be(
    ranks: tuple[tuple[Activity, ...], ...], cause: str, explained: float
) -> None:
    ((_, finding),) = of_rule(of_ranks(*ranks), "waiting-for-ranks")
    assert finding.cases.action == (cause,)
    amounts = {amount.name: amount.value for amount in finding.amounts}
    assert amounts["explained"] == pytest.approx(explained)
    assert amounts["waits_for_one"] == (1.0 if cause == "unknown" else pytest.approx(0.5))


def test_shapes_of_all_ranks_are_one_and_those_of_other_traces_are_not() -> None:
    # Both compute 80 + 20 µs in each of two steps; rank 1 only half of the time.
    busy = tuple(kernel(name, at + start, us) for at in (0, 100) for name, start, us in (("a", 0, 80), ("b", 80, 20)))
    rare = tuple(one._replace(start_s=one.start_s + 100e-6 * (one.start_s >= 100e-6)) for one in busy)
    fast, slow = (tuple(ProgramStep("S", n * us * 1e-6, us * 1e-6) for n in (0, 1)) for us in (100, 200))

    def of(ranks: tuple[int | None, ...]) -> Session:
        own = zip((busy, rare), (fast, slow), ranks, strict=True)
        traces = (replace(trace(*one, steps=steps), rank=rank) for one, steps, rank in own)
        return session(*(replace(one, file=f"{at}", sha256=f"{at}" * 64) for at, one in enumerate(traces)))

    found, apart = of((0, 1)), of((None, None))
    assert (run_of(found).timed_shapes, run_of(apart).timed_shapes) == (2, 4)
    # All files are shown as one run.
    assert [len(launches_of_function(one, one.kernels[0])) for one in (found, apart)] == [2, 2]
    assert "80 %" in headline_text(found) and "rank" not in headline_text(found)
    lines = dict(rank_facts(found, NO_RATES))
    assert lines["GPU 0"].startswith("rank 1, the least busy of 2 (100 % to 50 %): busy 50 % of 400 µs")
    assert lines["steps"].startswith("rank 1, the slowest of 2 (100 µs to 200 µs): S: 2 of 200 µs")
    alike = of_ranks(EARLY, tuple(one._replace() for one in EARLY))
    assert dict(rank_facts(alike, NO_RATES))["GPU 0"].startswith("each of 2 ranks: busy 100 %")


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
