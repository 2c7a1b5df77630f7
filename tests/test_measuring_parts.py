"""What measuring is made of, without a GPU: shapes, chases, contents, windows, tiles, plans, claims."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.characterize.counted_run import launch
from gpuprof.characterize.counters import ToCount, _count, claimed, counted, counted_each
from gpuprof.characterize.judge.verdict import counter_check
from gpuprof.characterize.maths.two_groups import two_groups
from gpuprof.characterize.measure.effort import EFFORTS, QUICK
from gpuprof.characterize.measure.forecast import Where
from gpuprof.characterize.measure.step import Step
from gpuprof.characterize.methods.table import method_of
from gpuprof.characterize.on_gpu.chase import chase, random_cycle
from gpuprof.characterize.probes.contents import PATTERN_BYTES, decoded, encoded, random_bytes
from gpuprof.characterize.probes.library import load_probes, probe_folder, select
from gpuprof.characterize.probes.tiles import Tile, elements, wrong
from gpuprof.characterize.record.gpu import RECORD, Properties
from gpuprof.characterize.record.reduction import rounds_of
from gpuprof.characterize.record.series import Sample, Series, SeriesConfig
from gpuprof.characterize.record.windows import first_wave, missing, most_at_once, sm_cycles, window
from gpuprof.characterize.schedule import _QUICK, allotted, duration_s, plan
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.recorded import DictMetrics, Launch, Metric
from gpuprof.resources import data_dir
from tests import fake_probes
from tests.fake_gpu import FakeGpu, Misbehaviour, compiled
from tests.ncu_bytes import simple_report
from tests.table import each_row

ARCH = SpecLibrary(folders=(data_dir("specs"),)).arch("sm_80")
GIB = 2**30
PROBES = load_probes(probe_folder())


# Chases


def test_cycle_leaves_a_window_when_all_its_nodes_were_visited_and_has_no_stride_to_prefetch() -> None:
    order = random_cycle(64, 16, seed=1)
    assert [sorted(order[start : start + 16].tolist()) for start in range(0, 64, 16)] == [
        list(range(start, start + 16)) for start in range(0, 64, 16)
    ]
    steps = np.diff(random_cycle(10_000, None, seed=0).astype(np.int64))
    assert np.bincount(np.abs(steps)).max() < 20


@given(st.integers(2, 100), st.integers(1, 20))
def test_walk_by_words_comes_back_after_all_nodes_and_to_where_after_says(nodes: int, steps: int) -> None:
    base, stride = 4096, 32
    made = chase(base, nodes * stride, stride, None, seed=nodes)
    memory = {base + index * stride: int(word) for index, word in enumerate(made.words())}
    address, seen = base, set()
    for _ in range(nodes):
        seen.add(address)
        address = memory[address]
    assert (len(seen), address) == (nodes, base)
    for _ in range(steps):
        address = memory[address]
    assert made.after(base, steps) == made.after(base, nodes + steps) == address


# Contents


@each_row(("kind", "worst"), [
    ("f64", 0.0), ("f32", 2**-24), ("f16", 2**-11), ("bf16", 2**-8), ("e4m3", 2**-4), ("e5m2", 2**-3),
])  # fmt: skip
def test_encoded_numbers_are_the_nearest_of_their_type(kind: str, worst: float) -> None:
    values = np.random.default_rng(0).uniform(-1, 1, 4096)
    back = decoded(encoded(values, kind), kind)
    assert np.max(np.abs(back - values)) <= worst * 1.0001
    assert np.max(np.abs(back)) <= 1


def test_codes_and_rounding_are_those_of_the_standards() -> None:
    codes = np.array([0x00, 0x38, 0x7E, 0xC0, 0x01, 0x7F], dtype=np.uint8)
    assert decoded(codes, "e4m3").tolist()[:5] == [0.0, 1.0, 448.0, -2.0, 2.0**-9]
    assert math.isnan(decoded(codes, "e4m3")[5])
    assert decoded(np.array([0x3C, 0x7B, 0x01], dtype=np.uint8), "e5m2").tolist() == [1.0, 57344.0, 2.0**-16]
    to_even = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20])
    assert decoded(encoded(to_even, "bf16"), "bf16").tolist() == [1.0, 1 + 2**-6, 1 + 2**-7]
    with pytest.raises(ValueError, match="int9"):
        encoded(np.zeros(1), "int9")
    assert {len(random_bytes("bits")), PATTERN_BYTES} == {PATTERN_BYTES}
    assert len(set(random_bytes("bits")[:65536])) > 100


# Windows


def records(*rows: tuple[int, int, int, int, int]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    return np.array([(*row, 0) for row in rows], dtype=np.dtype(RECORD))


def test_window_goes_from_the_first_begin_to_the_last_end_and_cycles_are_the_longest_sms() -> None:
    made = window(records((100, 200, 1000, 2000, 0), (90, 150, 1100, 2500, 1), (160, 260, 1600, 2600, 1)))
    assert made == (1600, 170, 2)
    assert sm_cycles(records((10, 20, 0, 1, 3), (30, 45, 0, 1, 3), (5, 9, 0, 1, 1))) == {1: 4, 3: 35}
    # A block without an end, and one whose clock does not advance.
    assert missing(records((1, 2, 3, 4, 0), (0, 0, 0, 0, 0), (5, 5, 3, 4, 0))) == 2
    # The first wave is what began before anything had ended.
    assert first_wave(records((0, 1, 10, 20, 0), (0, 1, 19, 30, 1), (0, 1, 20, 40, 0))) == 2
    overlapping = records((0, 10, 0, 1, 0), (5, 15, 0, 1, 0), (10, 20, 0, 1, 0), (0, 9, 0, 1, 1))
    assert most_at_once(overlapping) == {0: 2, 1: 1}


# Tiles


def product_of(tile: Tile, seed: int = 0) -> tuple[bytes, bytes, bytes]:
    """A, B and the right D of a tile of FP16 and FP32."""
    generator = np.random.default_rng(seed)
    a, b = (generator.uniform(-1, 1, (rows, tile.k)).astype(np.float16) for rows in (tile.m, tile.n))
    d = tile.times * (a.astype(np.float64) @ b.astype(np.float64).T)
    return a.tobytes(), b.tobytes(), d.astype(np.float32).tobytes()


HALF = Tile(16, 24, 32, 4, "f16", "f16", "f32")


def test_right_product_is_right_and_a_wrong_element_is_named() -> None:
    a, b, d = product_of(HALF)
    assert wrong(HALF, a, b, d) is None
    values = np.frombuffer(d, dtype=np.float32).copy()
    values[3 * 24 + 5] += 0.1
    why = wrong(HALF, a, b, values.tobytes()) or ""
    assert "1 of 384" in why and "D[3, 5]" in why


def test_layouts_that_are_mixed_up_are_wrong() -> None:
    a, b, d = product_of(HALF)
    left, right = np.frombuffer(a, np.float16).reshape(16, 32), np.frombuffer(b, np.float16).reshape(24, 32)
    swapped = left[[8, *range(1, 8), 0, *range(9, 16)]].tobytes()
    a_step_of_k_left_out = np.where(np.arange(32) < 16, left, 0).astype(np.float16).tobytes()
    for mixed in ((swapped, b, d), (a, right.reshape(32, 24).T.tobytes(), d), (a, b, b"\xff" * len(d)),
                  (a_step_of_k_left_out, b, d)):  # fmt: skip
        assert wrong(HALF, *mixed) is not None


def test_sparse_operand_holds_the_elements_that_the_tile_names() -> None:
    tile = Tile(1, 1, 8, 1, "f32", "f32", "f32", held=(0, 2), of=4)
    a = np.array([1, 2, 3, 4], dtype=np.float32).tobytes()
    b = np.array([1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7], dtype=np.float32).tobytes()
    d = np.array([1 + 200 + 3e4 + 4e6], dtype=np.float32).tobytes()
    assert wrong(tile, a, b, d) is None
    assert wrong(replace(tile, held=(1, 3)), a, b, d) is not None


@each_row(("kind", "content", "numbers"), [
    ("s8", b"\x01\xff\x80", [1, -1, -128]),
    ("s4", b"\xf1\x78", [1, -1, -8, 7]),
    ("b1", b"\x05", [1, 0, 1, 0, 0, 0, 0, 0]),
    ("e2m1", b"\x71", [0.5, 6.0]),
    ("e2m1 in bytes", b"\x04\x1c\x3c", [0.5, 6.0, -6.0]),
    ("e3m2 in bytes", b"\x1f\x20\x01", [28.0, 0.0, 0.0625]),
    ("e2m3 in bytes", b"\x1f\x01", [7.5, 0.125]),
    ("s32", b"\xfe\xff\xff\xff", [-2]),
])  # fmt: skip
def test_small_types_are_read_as_the_instructions_read_them(kind: str, content: bytes, numbers: list[float]) -> None:
    assert elements(content, kind).tolist() == numbers


@each_row(("by", "ones"), [("and", 2), ("xor", 4)])
def test_bits_are_multiplied_by_and_or_by_xor(by: str, ones: int) -> None:
    tile = Tile(1, 1, 8, 1, "b1", "b1", "s32", by=by)
    assert wrong(tile, b"\x0f", b"\x35", ones.to_bytes(4, "little")) is None
    assert wrong(tile, b"\x0f", b"\x35", (ones + 1).to_bytes(4, "little")) is not None


# Two groups


def test_two_partitions_are_told_apart_and_one_is_not_split() -> None:
    generator = np.random.default_rng(0)
    near, far = generator.normal(258, 6, 300).tolist(), generator.normal(470, 12, 200).tolist()
    low, high = two_groups([*near, *far])
    assert (len(low), len(high)) == (300, 200)
    assert two_groups(near)[1] == ()
    assert two_groups(generator.uniform(222, 339, 400).tolist())[1] == ()
    assert two_groups([5.0, 5.0, 5.0]) == ((5.0, 5.0, 5.0), ())


# Rounds


def test_rounds_are_complete_and_sorted_by_iterations() -> None:
    taken = [Sample(count, float(count)) for count in (40, 10, 20, 10, 40)]
    assert [[sample.iterations for sample in taken] for taken in rounds_of(taken)] == [[10, 20, 40]]
    assert rounds_of([Sample(1, 1.0), Sample(2, 2.0)]) == []
    assert rounds_of([]) == []


# Plans


def where(name: str, target: str, sm_count: int, memory_gib: int, l2_mib: int, shared_kib: int) -> Where:
    properties = Properties(
        name=name, compute_capability=f"{target[3]}.{target[4]}", sm_count=sm_count, memory_bytes=memory_gib * GIB,
        l2_bytes=l2_mib * 2**20, shared_per_block=shared_kib * 1024, threads_per_sm=2048,
    )  # fmt: skip
    return Where(target, properties, (memory_gib - 2.0) * GIB)


H200 = where("H200", "sm_90a", sm_count=132, memory_gib=140, l2_mib=50, shared_kib=227)


def test_spare_time_is_shared_out_and_what_is_needed_is_never_cut() -> None:
    first = Step(PROBES[0], "short", "zeros", seconds=5.0, least_s=1.0, good_s=2.0)
    other = Step(PROBES[0], "short", "zeros", seconds=3.0, least_s=2.0, good_s=2.0)
    assert duration_s([first, other], 0.0) == 3.0
    assert duration_s([first, other], 100.0) == 8.0
    # What nobody else needs is there for a step that takes longer than forecast, up to three times.
    assert allotted([first, other], 100.0) == 2.0 + 3.0 * 3.0
    assert allotted([first, other], 4.0 + 4.0) == 5.0
    assert allotted([first, other], 0.5) == 1.0
    assert allotted([other], 0.0) == 2.0
    # Half a second to spare is half of what the first needs to be good.
    assert allotted([first, other], 3.5) == 1.5
    # Of three seconds one makes it good; two are half of the four that both might take besides.
    assert allotted([first, other], 6.0) == 2.0 + 3.0 * (2.0 / 4.0)


def test_full_plan_goes_from_idle_to_sustained_and_has_what_shorter_ones_leave_out() -> None:
    steps = {mode: plan(PROBES, H200, mode, EFFORTS[mode]).steps for mode in ("quick", "default", "full")}
    phases = [method_of(step.probe).phase(step) for step in steps["full"]]
    assert phases == sorted(phases, key=("idle", "latency", "short", "sustained").index)
    assert set(phases) == {"idle", "latency", "short", "sustained"}
    quick, default, full = ({step.probe.id for step in planned} for planned in steps.values())
    assert {"tensor/wgmma-bf16-f32", "bandwidth/dram-read", "clocks/idle"} <= quick
    assert "tensor/mma-sync-bf16-f32" not in quick  # the newest instruction of each matrix type will do
    assert default < full
    assert {"latency/tlb", "latency/l2-map"} <= full - default
    tlb = [probe for probe in PROBES if probe.id == "latency/tlb"]
    assert [step.probe.id for step in plan(tlb, H200, "quick", QUICK, named=True).steps] == ["latency/tlb"]
    assert set(_QUICK) <= {probe.id for probe in PROBES}


# Counters


def series_of(probe_id: str) -> Series:
    values = {"DEPTH": "4", "CHAINS": "8"}
    config = SeriesConfig(values=values, block=256, grid=32, data="random", regime="short")
    return Series(probe=probe_id, config=config, round=1, samples=(Sample(1, 1.0),))


def test_claims_are_the_work_of_all_threads(tmp_path: Path) -> None:
    assert claimed(fake_probes.ffma(tmp_path), "sm_80", series_of("x"), 3) == {"work.fp32": 32 * 256 * 64 * 3}
    assert claimed(fake_probes.dram(tmp_path), "sm_80", series_of("x"), 2) == {"traffic.dram": 32 * 256 * 16 * 4 * 2}
    assert claimed(fake_probes.chase(tmp_path), "sm_80", series_of("x"), 2) == {}


def test_claim_of_a_sparse_product_is_what_is_multiplied() -> None:
    sparse, dense = select(PROBES, ["tensor/mma-sp-bf16-f32", "tensor/mma-sync-bf16-f32"])
    config = SeriesConfig(values={"TILES": "4", "DEPTH": "2", "REPEAT": "4"}, block=256, grid=132, data="zeros",
                          regime="short")  # fmt: skip
    claims = [claimed(probe, "sm_90a", Series(probe=probe.id, config=config, round=1, samples=()), 3)
              for probe in (sparse, dense)]  # fmt: skip
    # The shape of the sparse instruction has twice the k.
    assert claims[0] == claims[1] == {"work.tensor.bf16": 2 * 16 * 8 * 16 * 32 * 8 * 132 * 3}


def counted_launch(**metrics: float) -> Launch:
    named = {name.replace("__dot__", "."): Metric(value, "byte") for name, value in metrics.items()}
    return Launch("k", "k", 0, metrics=DictMetrics(named))


def test_counts_are_differences_so_that_set_up_drops_out_and_ways_to_count_are_kept_apart() -> None:
    assert ARCH is not None
    few, many = counted_launch(dram__bytes__dot__sum=1_000_100.0), counted_launch(dram__bytes__dot__sum=4_000_100.0)
    assert counted(few, many, ARCH, ["traffic.dram"]) == {"traffic.dram": 3e6}
    assert counted(few, counted_launch(), ARCH, ["traffic.dram"]) == {}
    few = counted_launch(dram__bytes__dot__sum=100.0, dram__bytes_read__dot__sum=60.0, dram__bytes_write__dot__sum=40.0)
    many = counted_launch(dram__bytes__dot__sum=500.0, dram__bytes_read__dot__sum=300.0)
    assert counted_each(few, many, ARCH, ["traffic.dram"]) == {("traffic.dram", frozenset({"dram__bytes"})): 400.0}
    for ratio, state in ((1.0, "passed"), (1.019, "passed"), (0.981, "passed"), (1.03, "failed")):
        assert counter_check({"traffic.dram": 1e9}, {"traffic.dram": ratio * 1e9}).state == state


def standin(folder: Path, monkeypatch: pytest.MonkeyPatch, **step: object) -> Path:
    """What stands in for ncu, about to do one step."""
    (folder / "steps.json").write_text(json.dumps([step]))
    monkeypatch.setenv("STANDIN", str(folder))
    return Path(__file__).with_name("standin_ncu.py")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its pipe is left open
def test_counts_come_out_of_the_report_that_ncu_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ARCH is not None
    probe = fake_probes.dram(tmp_path)
    claims = claimed(probe, "sm_80", series_of(probe.id), 3 * 64)
    total = claims["traffic.dram"]
    # A launch before the two, as that of clusters, does not count; nor does what other probes have launched between.
    counts = [("bandwidth_dram_read", 7e6), ("bandwidth_dram_read", 5e6 + total / 3), ("other", 1e6),
              ("bandwidth_dram_read", 5e6 + 4 * total / 3)]  # fmt: skip
    report = simple_report([(name, {"dram__bytes.sum": count}) for name, count in counts])
    (tmp_path / "made.ncu-rep").write_bytes(report)
    ncu = standin(tmp_path, monkeypatch, report=str(tmp_path / "made.ncu-rep"))
    lost = fake_probes.ffma(tmp_path)
    asked = [ToCount(probe, series_of(probe.id), claims), ToCount(lost, series_of(lost.id), {"work.fp32": 1.0})]
    made = _count(ncu, asked, ARCH, 0)
    assert list(made) == [probe.id]
    assert made[probe.id].counted == pytest.approx({"traffic.dram": total})
    assert made[probe.id].each == pytest.approx({("traffic.dram", frozenset({"dram__bytes"})): total})


def test_program_under_ncu_launches_the_configuration_of_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuprof.characterize import characterization as run

    monkeypatch.setattr(run, "fitting_compiler", lambda _gpu, _target: compiled)
    probe = fake_probes.dram(tmp_path)
    # Under ncu clocks and events need not fit: they may be of different passes.
    gpu, seen = FakeGpu([probe], bad=Misbehaviour(events_short=True, lost_blocks=1)), []
    gpu.laws["bandwidth_dram_read"] = lambda call: seen.append(call) or 100.0  # type: ignore[func-returns-value]
    config = SeriesConfig(
        values={"DEPTH": "1"}, block=128, grid=16, blocks_per_sm=2, data="random", regime="sustained", cubin="0",
        allocation=0,
    )  # fmt: skip
    absent = replace(config, values={"DEPTH": "9"})
    assert launch(gpu, [(probe, absent), (probe, config)], [64, 256]) == [
        f"{probe.id}: it has no configuration {json.dumps(absent.settings())}"
    ]
    assert [(call.assignment["DEPTH"], call.shape.grid, call.arguments["iterations"]) for call in seen] == [
        ("1", 16, 64), ("1", 16, 256),
    ]  # fmt: skip
