"""What is planned for a card: launches that its SMs have room for, buffers that its memory has room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gpuprof.characterize.on_gpu.buffers import Pool
from gpuprof.characterize.probes.library import load_probes, probe_folder, select
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.configurations import Configuration, buffer_bytes, most_blocks, points
from gpuprof.characterize.record.gpu import Memory, OutOfMemory, Properties
from tests import fake_probes
from tests.cuda_tools import kernel_of
from tests.fake_gpu import GIB, MIB, PROPERTIES, FakeGpu
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
    """Every configuration of a probe."""
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


# Blocks


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


def test_many_small_blocks_are_tried_in_steps_up_to_the_most() -> None:
    small = {one.blocks for one in planned(the("occupancy/ffma"), "sm_86", SMS["sm_86"])}
    assert small == {1, 2, 3, 4, 6, 8, 12}
    shared = {one.blocks for one in planned(the("async-copy/tma-size"), "sm_90a", SMS["sm_90a"])}
    assert {1, 2, 3, 4, 6, 8, 12, 16, 24, 32} <= shared
    assert max(shared, key=lambda count: count or 0) == 32


@each_row(
    ("threads", "shared_bytes", "target", "most"),
    [
        (512, 0, "sm_86", 3),
        (1000, 0, "sm_86", 1),
        (32, 0, "sm_90a", 32),
        (128, 227 * 1024, "sm_90a", 1),
        (128, 227 * 1024 + 1, "sm_90a", 0),
        (128, 75 * 1024, "sm_90a", 3),
        (128, 32 * 1024, "sm_75", 2),
    ],
)
def test_threads_and_shared_memory_bound_the_blocks(threads: int, shared_bytes: int, target: str, most: int) -> None:
    assert most_blocks(threads, shared_bytes, SMS[target]) == most


# Buffers


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


def test_a_card_whose_memory_is_hardly_larger_than_its_cache_has_no_probe_of_dram() -> None:
    tiny = replace(PROPERTIES, memory_bytes=1 * GIB, l2_bytes=64 * MIB)
    assert list(planned(the("bandwidth/dram-triad"), "sm_80", tiny)) == []
    assert list(planned(the("bandwidth/l2-read"), "sm_80", tiny))
    triad = the("bandwidth/dram-triad")
    one = next(planned(triad, "sm_80", PROPERTIES))
    gpu = FakeGpu([triad], properties=tiny)
    with pytest.raises(OutOfMemory, match="L2"):
        Pool(gpu).buffers(kernel_of(triad), one)


# Chases


class Recorder(FakeGpu):
    """Notes what happens to memory, in order."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        super().__init__(probes)
        self.done: list[tuple[str, int]] = []

    def zero(self, memory: Memory) -> None:
        self.done.append(("zero", memory.bytes))
        super().zero(memory)

    def scatter(self, memory: Memory, stride: int, words: NDArray[np.uint64]) -> None:
        self.done.append(("scatter", memory.bytes))
        super().scatter(memory, stride, words)


@each_row(("size", "evicted"), [(64 * MIB, True), (2 * MIB, False)])
def test_what_a_large_chase_has_left_in_l2_is_evicted_once(tmp_path: Path, size: int, evicted: bool) -> None:
    probe = fake_probes.chase(tmp_path, size=f"least: {size // MIB} MiB")
    gpu = Recorder([probe])
    pool, one = Pool(gpu), next(planned(probe, "sm_80", gpu.properties))
    pool.buffers(kernel_of(probe), one)
    pool.buffers(kernel_of(probe), one)
    place = gpu.done.index(("scatter", size))
    scratch = ("zero", 2 * int(gpu.properties.l2_bytes))
    assert gpu.done[place + 1 :] == ([scratch] if evicted else [])
    assert sum(memory.bytes for memory in gpu.memory.values()) < size + MIB


def test_windows_of_the_capacity_probe_are_pages_and_every_line_is_visited_once() -> None:
    probe = the("latency/l2-capacity")
    gpu = FakeGpu([probe])
    for one in planned(probe, "sm_80", gpu.properties):
        stride = int(one.values["stride"])
        found = Pool(gpu).buffers(kernel_of(probe), one)["chain"].chase
        assert found is not None
        order = found.cycle.order.astype(np.int64)
        pages = order * stride // (2 * MIB)
        assert np.array_equal(np.sort(order), np.arange(len(order)))
        # Windows may end within a page, and the round ends in the first one.
        assert np.count_nonzero(np.diff(pages)) <= (len(set(pages)) if stride == 128 else len(order) / 50)
