"""What is planned for a card: launches that its SMs have room for, buffers that its memory has room for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuprof.characterize.probes.library import load_probes, probe_folder, select
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.configurations import Configuration, buffer_bytes, points
from gpuprof.characterize.record.gpu import Properties
from tests.cuda_tools import kernel_of
from tests.fake_gpu import GIB, MIB, PROPERTIES
from tests.table import each_row

PROBES = [probe for probe in load_probes(probe_folder()) if probe.kernel is not None]
SMS = {
    "sm_75": replace(PROPERTIES, compute_capability="7.5", threads_per_sm=1024, shared_per_block=64 * 1024),
    "sm_86": replace(PROPERTIES, compute_capability="8.6", threads_per_sm=1536, shared_per_block=99 * 1024),
    "sm_90a": replace(PROPERTIES, compute_capability="9.0", threads_per_sm=2048, shared_per_block=227 * 1024),
}
CARDS = {4: 2, 6: 3, 8: 32, 16: 64, 24: 72, 141: 50}
"""Gigabytes of memory, MiB of L2."""
cards = each_row(("memory_gb", "l2_mib"), CARDS.items())


def planned(probe: Probe, target: str, properties: Properties) -> Iterator[Configuration]:
    found = points(
        probe,
        kernel_of(probe),
        list(kernel_of(probe).assignments(target)),
        properties,
        data=probe.data[0],
        regime=probe.regimes[0],
        free_bytes=properties.memory_bytes,
        overfull=probe.method == "resident",
    )
    for point in found:
        yield from point.configurations


def the(name: str) -> Probe:
    (probe,) = select(PROBES, [name])
    return probe


def card(memory_gb: int, l2_mib: int) -> Properties:
    return replace(SMS["sm_86"], memory_bytes=memory_gb * 1e9, l2_bytes=l2_mib * MIB)


@each_row("target", SMS)
def test_no_launch_is_planned_that_an_sm_has_no_room_for(target: str) -> None:
    properties = SMS[target]
    for probe in PROBES:
        if target not in probe.targets or probe.method == "resident":
            continue
        for one in planned(probe, target, properties):
            shared = properties.shared_per_block + (0 if target == "sm_75" else 1024)
            assert (one.blocks or 1) * one.block <= properties.threads_per_sm, f"{probe.id}: {one.config}"
            assert (one.blocks or 1) * one.shape.shared_bytes <= shared, f"{probe.id}: {one.config}"


@each_row(("target", "most"), [("sm_75", 2), ("sm_86", 3), ("sm_90a", 4)])
def test_all_blocks_are_all_that_fit_the_most_first(target: str, most: int) -> None:
    found = {one.blocks for one in planned(the("bandwidth/dram-read"), target, SMS[target])}
    assert found == set(range(1, most + 1))
    assert next(planned(the("bandwidth/dram-read"), target, SMS[target])).blocks == most


@cards
def test_buffers_fit_the_card_and_those_of_dram_miss_its_cache(memory_gb: int, l2_mib: int) -> None:
    properties = card(memory_gb, l2_mib)
    for probe in PROBES:
        kernel = kernel_of(probe)
        if "sm_86" not in probe.targets or any(buffer.size is None for buffer in kernel.buffers.values()):
            continue
        of_dram = any(limit.bandwidth == "dram" for limit in probe.limits) or probe.id.startswith("latency/dram")
        for one in planned(probe, "sm_86", properties):
            sizes = buffer_bytes(kernel, one, properties)
            assert sizes is not None
            assert sum(sizes.values()) <= 0.8 * properties.memory_bytes, probe.id
            for name, size in sizes.items():
                if of_dram and kernel.buffers[name].per == "grid":
                    assert size >= 8 * properties.l2_bytes, f"{probe.id}: {name}"


def test_buffers_shrink_by_the_same_factor_and_small_ones_stay() -> None:
    triad, far = the("bandwidth/dram-triad"), the("latency/dram-far-pages")
    properties = card(8, 4)
    one = next(planned(triad, "sm_86", properties))
    sizes = buffer_bytes(kernel_of(triad), one, properties)
    assert sizes == dict.fromkeys(("sum", "left", "right"), int(0.8 * 8e9 / 3) // (2 * MIB) * 2 * MIB)
    sizes = buffer_bytes(kernel_of(far), next(planned(far, "sm_86", properties)), properties)
    assert sizes is not None
    assert (sizes["walk"], sizes["chain"]) == (32 * 16, int(0.8 * 8e9 - 512) // (2 * MIB) * 2 * MIB)
    one = next(planned(triad, "sm_86", card(24, 4)))
    assert buffer_bytes(kernel_of(triad), one, card(24, 4)) == dict.fromkeys(("sum", "left", "right"), 4 * GIB)
