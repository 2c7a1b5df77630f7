"""Probe files: what a good one says, what is wrong with a bad one, and what those that ship have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.characterize.probes.library import CASES, load_probes, probe_folder, select
from gpuprof.characterize.probes.probe import (
    Argument,
    GateRules,
    IntegerProduct,
    Probe,
    Size,
    Transfer,
    all_targets,
    target_named,
    target_of,
    targets_named,
)
from gpuprof.characterize.probes.probe_file import read_probe
from gpuprof.characterize.probes.tiles import Tile
from gpuprof.errors import UsageError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ComputeKey
from gpuprof.hardware.yaml_tree import BrokenSpec
from tests.cuda_tools import kernel_of
from tests.table import each_row

PROBES = load_probes(probe_folder())
SPECS = SpecLibrary()

GOOD = """\
schema: 1
name: good
family: example
title: Multiply-adds per clock
quantity: throughput
unit: FLOP/clk/SM
method: slope
statistic: median
regimes: [short, sustained]
data: [zeros, random]
architectures: {lowest: sm_80, unsupported: {sm_110: no such unit}}
entry: good
arguments: [clocks, iterations, sink, buffer values, bytes values, u32 STRIDE, f32 0.5]
parameters:
  CHAINS: [8, 4]
  WIDTH: [4, 16]
left_out:
  - {when: {WIDTH: 16}, architectures: [..sm_89], why: too narrow}
buffers:
  values: {least: 4 MiB, times_l2: 64, fill: data, type: f16}
sweep:
  STRIDE: [32 B, 1 KiB]
launch: {block: [256, [2, CHAINS, 32]], blocks_per_sm: [2, 1], shared: [WIDTH, 1024]}
work: {per: thread, iteration: {flop: [2, CHAINS, WIDTH]}}
unrolled: CHAINS
series: [WIDTH]
gate:
  required: {FFMA: [CHAINS, WIDTH]}
  no_zero_operands: [FFMA]
  max_overhead: 8
  overrides:
    - architectures: [sm_90..sm_103]
      max_overhead: 6
    - when: {WIDTH: 16}
      required: {FFMA2: {least: 1, most: CHAINS}}
check: sum
limit:
  - {compute: fp16, architectures: [sm_80]}
  - {rate: 256 FLOP/clk/SM, source: whitepaper}
expected:
  - {low: 95 %, high: 100 %, source: paper}
"""


HOST = """\
schema: 1
name: good
family: example
title: Copies
quantity: bandwidth
unit: B/s
method: copy
statistic: median
regimes: [short]
data: [zeros]
architectures: {lowest: sm_70}
transfer: {from: pinned, to: device}
sweep:
  size: {first: {least: 4 KiB}, last: {least: 1 GiB}, per_doubling: 1}
along: size
limit: {bandwidth: pcie}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "example" / "good.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.with_suffix(".cu").write_text("// nothing\n", encoding="utf-8")
    return file


@pytest.fixture
def good(tmp_path: Path) -> Probe:
    return read_probe(write(tmp_path, GOOD))


def test_file_of_a_probe_gives_its_head_arguments_shapes_and_work(good: Probe) -> None:
    assert (good.id, good.quantity, good.unit, good.method) == ("example/good", "throughput", "FLOP/clk/SM", "slope")
    assert (good.regimes, good.data) == (("short", "sustained"), ("zeros", "random"))
    assert (good.check, good.series, good.along, good.place.line) == ("sum", ("WIDTH",), None, 1)
    kernel = kernel_of(good)
    assert kernel.arguments[3:] == (
        Argument("buffer", "values"), Argument("bytes", "values"), Argument("u32", "STRIDE"), Argument("f32", "0.5"),
    )  # fmt: skip
    buffer = kernel.buffers["values"]
    assert (kernel.clocked, buffer.size, buffer.fill, buffer.type) == (True, Size(4 * 2**20, 64), "data", "f16")
    assert good.sweeps["STRIDE"].values == (32.0, 1024.0)
    values = {"CHAINS": "4", "WIDTH": "16"}
    assert [block.value(values) for block in kernel.launch.block] == [256, 256]
    assert (kernel.launch.shared_bytes.value(values), kernel.launch.cluster.value(values)) == (16384, 1)
    assert (kernel.work.amount("flop", values), kernel.work.amount("byte", values)) == (128, None)
    assert kernel.unrolled.value(values) == 4


@pytest.fixture
def twelve(monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets as they were when these tests were written, whatever architectures have come since."""
    plain = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89")
    newer = ("sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
    known = {name: name for name in plain} | {name: f"{name}a" for name in newer}
    monkeypatch.setattr("gpuprof.characterize.probes.probe.compile_targets", lambda: known)


def test_assignments_begin_with_the_default_and_leave_out_what_a_target_cannot(good: Probe) -> None:
    kernel = kernel_of(good)
    assert list(kernel.assignments("sm_90a")) == [
        {"CHAINS": "8", "WIDTH": "4"}, {"CHAINS": "8", "WIDTH": "16"}, {"CHAINS": "4", "WIDTH": "4"},
        {"CHAINS": "4", "WIDTH": "16"},
    ]  # fmt: skip
    assert list(kernel.assignments("sm_89")) == [{"CHAINS": "8", "WIDTH": "4"}, {"CHAINS": "4", "WIDTH": "4"}]


def test_overrides_of_the_gate_replace_what_they_name(good: Probe) -> None:
    def rules(target: str, width: str) -> GateRules:
        return kernel_of(good).gate.rules(target, {"CHAINS": "8", "WIDTH": width})

    assert rules("sm_80", "4").max_overhead == IntegerProduct((8,))
    assert rules("sm_100a", "4").max_overhead == IntegerProduct((6,))
    assert rules("sm_100a", "4").no_zero_operands == ("FFMA",)
    ((opcode, count),) = rules("sm_120a", "16").required or ()
    assert (opcode, count.low.factors, count.high) == ("FFMA2", (1,), IntegerProduct(("CHAINS",)))
    assert rules("sm_120a", "16").max_overhead == IntegerProduct((8,))


def test_first_limit_that_applies_counts_and_percentages_are_of_it(good: Probe, tmp_path: Path) -> None:
    first, second = good.limit("sm_80", {}), good.limit("sm_90a", {})
    assert first is not None and second is not None
    assert first.compute == ComputeKey("fp16")
    assert (second.rate, second.source) == (256.0, "whitepaper")
    (expected,) = good.expected
    assert (expected.low, expected.high, expected.of_limit) == (0.95, 1.0, True)
    tensor = GOOD.replace("compute: fp16", "compute: tensor.fp16 fp32 mma.sync")
    assert read_probe(write(tmp_path, tensor)).limits[0].compute == ComputeKey("tensor.fp16", "fp32", "mma.sync")
    latency = GOOD.replace("unit: FLOP/clk/SM", "unit: cycle").replace("{flop: [2,", "{result: [2,")
    latency = latency[: latency.index("limit:")] + "expected:\n  - {low: 28 cycle, high: 40.5 cycle, source: paper}\n"
    (expected,) = read_probe(write(tmp_path, latency)).expected
    assert (expected.low, expected.high, expected.of_limit) == (28.0, 40.5, False)


def test_a_probe_of_the_host_has_no_kernel(tmp_path: Path) -> None:
    probe = read_probe(write(tmp_path, HOST))
    assert probe.kernel is None
    assert probe.transfer == Transfer("pinned", "device")
    assert (probe.along, probe.limits[0].bandwidth) == ("size", "pcie")
    assert probe.targets == all_targets()


BAD = [
    ("schema: 1", "schema: 2", "schema: 2", "must be 1"),
    ("name: good", "name: better", "name: better", "must be 'good'"),
    ("check: sum", "cheque: sum", "cheque: sum", "unknown key 'cheque'"),
    ("quantity: throughput", "quantity: speed", "quantity: speed", "'speed'"),
    ("unit: FLOP/clk/SM", "unit: B/s", "work:", "byte"),
    ("data: [zeros, random]", "data: []", "data: []", "data is empty"),
    ("lowest: sm_80", "lowest: sm_81", "architectures:", "'sm_81'"),
    ("lowest: sm_80, ", "", "architectures:", "either lowest"),
    ("clocks, iterations", "clock, iterations", "arguments:", "one of clocks"),
    ("u32 STRIDE", "u32 STEP", "arguments:", "(STEP)"),
    ("  CHAINS: [8, 4]", "  chains: [8, 4]", "chains: [8, 4]", "macro name"),
    ("  WIDTH: [4, 16]", "  WIDTH: [float, 16]", "launch:", "WIDTH"),
    ("least: 4 MiB", "least: 4", "values:", "amount in B"), ("fill: data", "fill: ones", "values:", "'ones'"),
    ("blocks_per_sm: [2, 1]", "blocks_per_sm: 2, grid: 1", "launch:", "either blocks_per_sm"),
    ("series: [WIDTH]", "series: [DEPTH]", "series: [DEPTH]", "'DEPTH'"),
    ("method: slope", "method: curve", "method: curve", "along"),
    ("  required: {FFMA: [CHAINS, WIDTH]}\n", "", "gate:", "required"),
    ("sm_90..sm_103", "sm_75", "- architectures:", "targets"),
    ("when: {WIDTH: 16}\n", "when: {WIDTH: 8}\n", "- when: {WIDTH: 8}", "8 is not"),
    ("compute: fp16,", "compute: fp16, bandwidth: l1,", "- {compute:", "names one of"),
    ("compute: fp16", "compute: fp15", "- {compute:", "'fp15'"),
    ("256 FLOP/clk/SM", "256 B/clk/SM", "- {rate:", "FLOP/clk/SM"),
    (", source: whitepaper", "", "- {rate:", "source is missing"),
    ("low: 95 %", "low: 101 %", "- {low:", "above high"), ("entry: good\n", "", "arguments:", "entry"),
    ("check: sum", "check: tile", "check: tile", "tile"),
    ("{FFMA: [CHAINS, WIDTH]}", "{FFMA: STRIDE}", "required:", "'STRIDE'"),
]  # fmt: skip
"""A mistake: the old text, the new, how the line begins that the error names, and what it names."""


@each_row(("old", "new", "line", "named"), BAD)
def test_an_error_names_its_file_and_line(tmp_path: Path, old: str, new: str, line: str, named: str) -> None:
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    file = write(tmp_path, text)
    with pytest.raises(BrokenSpec) as caught:
        read_probe(file)
    assert named in caught.value.problem
    assert caught.value.place.file == str(file)
    assert text.splitlines()[caught.value.place.line - 1].strip().startswith(line)


@each_row(
    ("old", "new", "named"), [("transfer: {from: pinned, to: device}\n", "", "needs transfer"),
        ("method: copy", "method: launch", "curve, not launch"), ("method: copy", "method: power", "copy, not power"),
        ("from: pinned", "from: disk", "'disk'"), ("limit: {bandwidth: pcie}", "load: a/b", "'a/b'")],
)  # fmt: skip
def test_what_belongs_to_a_method(tmp_path: Path, old: str, new: str, named: str) -> None:
    write(tmp_path, HOST.replace(old, new))
    with pytest.raises(BrokenSpec) as caught:
        load_probes(tmp_path)
    assert named in caught.value.problem


def test_tile_that_is_checked_takes_its_sizes_and_types_from_the_parameters(tmp_path: Path) -> None:
    tile = "tile: {m: 16, n: [8, CHAINS], k: WIDTH, times: 2, a: KIND in bytes, b: KIND, d: f32"
    text = GOOD.replace("  WIDTH: [4, 16]", "  WIDTH: [4, 16]\n  KIND: [e2m1, e3m2]")
    values = {"CHAINS": "4", "WIDTH": "16", "KIND": "e3m2"}
    for ending, more in ((", held: [0, 2], of: 4, by: xor}", ((0, 2), 4, "xor")), ("}", ())):
        probe = read_probe(write(tmp_path, text.replace("check: sum", f"check: tile\n{tile}{ending}")))
        assert probe.tile is not None
        assert probe.tile.resolved(values) == Tile(16, 32, 16, 2, "e3m2 in bytes", "e3m2", "f32", *more)
    with pytest.raises(BrokenSpec, match="tile"):
        read_probe(write(tmp_path, GOOD.replace("check: sum", f"check: sum\n{tile}}}")))


@settings(max_examples=30)
@given(st.text(max_size=200))
def test_any_text_is_a_probe_or_an_error_with_its_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = write(tmp_path_factory.getbasetemp(), "")
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BrokenSpec):
        read_probe(file)


@given(st.integers(0, len(GOOD) - 1), st.sampled_from("[]{}:,-0aA \n"))
def test_any_changed_character_gives_a_probe_or_an_error_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, place: int, character: str
) -> None:
    file = write(tmp_path_factory.getbasetemp(), GOOD[:place] + character + GOOD[place + 1 :])
    try:
        read_probe(file)
    except BrokenSpec as error:
        assert error.place.file == str(file)
        assert 1 <= error.place.line <= GOOD.count("\n") + 2


# Targets


@each_row(
    ("text", "targets"),
    [
        ("sm_90", ("sm_90a",)), ("sm_86", ("sm_86",)), ("sm_86a", ()), ("..sm_75", ("sm_70", "sm_75")),
        ("sm_80..sm_89", ("sm_80", "sm_86", "sm_87", "sm_89")), ("sm_120..", ("sm_120a", "sm_121a")),
        ("sm_89..sm_80", ()), ("sm_80..sm_88", ()), ("9.0", ()), ("", ()),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("twelve")
def test_names_of_targets(text: str, targets: tuple[str, ...]) -> None:
    assert targets_named(text) == targets


def test_every_architecture_of_the_specs_has_its_target() -> None:
    names = {path.stem for path in SpecLibrary().arch_files()} - {"base", "sm_72"}
    assert {target_named(name) for name in names} == set(all_targets())
    assert [target_of(version) for version in ("9.0", "12.1", "8.6", "7.2")] == ["sm_90a", "sm_121a", "sm_86", None]


# The probes that ship


def test_every_source_has_a_probe_file() -> None:
    assert {probe.family for probe in PROBES} >= {"bandwidth", "instruction", "tensor"}
    sources = {path.with_suffix("") for path in probe_folder().glob("*/*.cu") if path.parent.name != CASES}
    assert sources == {probe_folder() / probe.id for probe in PROBES if probe.kernel is not None}


@each_row("probe", PROBES, ids=lambda probe: probe.id)
def test_limits_are_known_to_the_specs_of_some_target(probe: Probe) -> None:
    for limit in probe.limits:
        archs = [SPECS.arch(target.rstrip("a")) for target in limit.condition.targets or probe.targets]
        known = [
            key in table
            for arch in archs if arch is not None
            for key, table in (
                (limit.compute, arch.compute), (limit.bandwidth, {*arch.bandwidth, "dram", "pcie"}),
                (limit.operation, {*arch.operations, "issue"}),
            ) if key is not None
        ]  # fmt: skip
        assert limit.rate is not None or any(known)


def test_probes_are_chosen_by_family_or_by_name() -> None:
    family = PROBES[0].family
    assert select(PROBES, ()) == PROBES
    assert {probe.family for probe in select(PROBES, [family])} == {family}
    assert select(PROBES, [PROBES[0].id]) == PROBES[:1]
    with pytest.raises(UsageError, match="--only nothing"):
        select(PROBES, ["nothing"])
