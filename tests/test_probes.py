"""Probe files: what a good one says, what is wrong with a bad one, and what those that ship have."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.characterize.gates.gate import NEVER_MEANT
from gpuprof.characterize.probes.gate_file import CODE_RULES
from gpuprof.characterize.probes.library import CASES, load_probes, probe_folder, select
from gpuprof.characterize.probes.probe import (
    CHECKS,
    DATA,
    FILLS,
    METHODS,
    QUANTITIES,
    REGIMES,
    SHARES,
    STATISTICS,
    TYPES,
    WORK,
    Argument,
    Condition,
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
from gpuprof.characterize.probes.probe_file import KEYS, UNITS, read_probe
from gpuprof.characterize.probes.tiles import Tile
from gpuprof.errors import UsageError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ComputeKey
from gpuprof.hardware.yaml_tree import BrokenSpec
from tests.cuda_tools import kernel_of
from tests.table import each_row

PROBES = load_probes(probe_folder())
every_probe = each_row("probe", PROBES, ids=lambda probe: probe.id)

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


def test_head_of_a_probe(good: Probe) -> None:
    assert (good.id, good.quantity, good.unit, good.method) == ("example/good", "throughput", "FLOP/clk/SM", "slope")
    assert good.regimes == ("short", "sustained")
    assert good.data == ("zeros", "random")
    assert (good.check, good.series, good.along) == ("sum", ("WIDTH",), None)
    assert good.place.line == 1


@pytest.fixture
def twelve(monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets as they were when these tests were written, whatever architectures have come since."""
    plain = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89")
    newer = ("sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
    known = {name: name for name in plain} | {name: f"{name}a" for name in newer}
    monkeypatch.setattr("gpuprof.characterize.probes.probe.compile_targets", lambda: known)


@pytest.mark.usefixtures("twelve")
def test_targets_are_those_from_the_lowest_without_the_unsupported(tmp_path: Path) -> None:
    good = read_probe(write(tmp_path, GOOD))
    assert good.targets == (
        "sm_80", "sm_86", "sm_87", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a",
    )  # fmt: skip
    assert good.unsupported == {"sm_110a": "no such unit"}


def test_kernel_of_a_probe(good: Probe) -> None:
    kernel = kernel_of(good)
    assert kernel.arguments[3:] == (
        Argument("buffer", "values"),
        Argument("bytes", "values"),
        Argument("u32", "STRIDE"),
        Argument("f32", "0.5"),
    )
    assert kernel.clocked
    assert kernel.buffers["values"].size == Size(4 * 2**20, 64)
    assert (kernel.buffers["values"].fill, kernel.buffers["values"].type) == ("data", "f16")
    assert good.sweeps["STRIDE"].values == (32.0, 1024.0)
    values = {"CHAINS": "4", "WIDTH": "16"}
    assert [block.value(values) for block in kernel.launch.block] == [256, 256]
    assert kernel.launch.shared_bytes.value(values) == 16384
    assert kernel.launch.cluster.value(values) == 1
    assert kernel.work.amount("flop", values) == 128
    assert kernel.work.amount("byte", values) is None
    assert kernel.unrolled.value(values) == 4


def test_assignments_begin_with_the_default_and_leave_out_what_a_target_cannot(good: Probe) -> None:
    kernel = kernel_of(good)
    assert list(kernel.assignments("sm_90a")) == [
        {"CHAINS": "8", "WIDTH": "4"},
        {"CHAINS": "8", "WIDTH": "16"},
        {"CHAINS": "4", "WIDTH": "4"},
        {"CHAINS": "4", "WIDTH": "16"},
    ]
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


def test_the_first_limit_that_applies_counts(good: Probe) -> None:
    first, second = good.limit("sm_80", {}), good.limit("sm_90a", {})
    assert first is not None
    assert second is not None
    assert first.compute == ComputeKey("fp16")
    assert (second.rate, second.source) == (256.0, "whitepaper")


def test_expected_percentages_are_of_the_limit(good: Probe) -> None:
    (expected,) = good.expected
    assert (expected.low, expected.high, expected.of_limit) == (0.95, 1.0, True)


def test_expected_latency_is_in_cycles(tmp_path: Path) -> None:
    text = GOOD.replace("unit: FLOP/clk/SM", "unit: cycle").replace("{flop: [2,", "{result: [2,")
    text = text[: text.index("limit:")] + "expected:\n  - {low: 28 cycle, high: 40.5 cycle, source: paper}\n"
    (expected,) = read_probe(write(tmp_path, text)).expected
    assert (expected.low, expected.high, expected.of_limit) == (28.0, 40.5, False)


def test_a_probe_of_the_host_has_no_kernel(tmp_path: Path) -> None:
    probe = read_probe(write(tmp_path, HOST))
    assert probe.kernel is None
    assert probe.transfer == Transfer("pinned", "device")
    assert (probe.along, probe.limits[0].bandwidth) == ("size", "pcie")
    assert probe.targets == all_targets()


BAD = {
    "another schema": ("schema: 1", "schema: 2", "schema: 2", "schema must be 1"),
    "another name": ("name: good", "name: better", "name: better", "name must be 'good'"),
    "another family": ("family: example", "family: other", "family: other", "family must be 'example'"),
    "an unknown key": ("check: sum", "cheque: sum", "cheque: sum", "unknown key 'cheque'"),
    "a placeholder": ("title: Multiply-adds per clock", "title: TODO", "title: TODO", "title is a placeholder"),
    "a load that is not named": ("check: sum", "check: sum\nload:", "load:", "load must be text"),
    "an unknown quantity": (
        "quantity: throughput",
        "quantity: speed",
        "quantity: speed",
        "quantity 'speed' is not one of",
    ),
    "a unit whose work is not counted": ("unit: FLOP/clk/SM", "unit: B/s", "work:", "needs work: iteration: byte"),
    "no data": ("data: [zeros, random]", "data: []", "data: []", "data is empty"),
    "an unknown target": ("lowest: sm_80", "lowest: sm_81", "architectures:", "'sm_81' names no target"),
    "both lowest and targets": (
        "lowest: sm_80",
        "lowest: sm_80, targets: [sm_80]",
        "architectures:",
        "either lowest or targets",
    ),
    "no architectures": ("lowest: sm_80, ", "", "architectures:", "either lowest or targets"),
    "an unknown argument": ("clocks, iterations", "clock, iterations", "arguments:", "an argument is one of clocks"),
    "a buffer that is not there": ("buffer values", "buffer other", "arguments:", "buffers has no 'other'"),
    "a sweep that is not there": ("u32 STRIDE", "u32 STEP", "arguments:", "or the name of a sweep (STEP)"),
    "a parameter in small letters": ("  CHAINS: [8, 4]", "  chains: [8, 4]", "chains: [8, 4]", "must be a macro name"),
    "a parameter without a value": ("  CHAINS: [8, 4]", "  CHAINS: []", "CHAINS: []", "CHAINS has no value"),
    "a product of text": (
        "  WIDTH: [4, 16]",
        "  WIDTH: [float, 16]",
        "launch:",
        "values of WIDTH are not whole numbers",
    ),
    "a product of what is not there": (
        "unrolled: CHAINS",
        "unrolled: CHAIN",
        "unrolled: CHAIN",
        "neither a whole number nor one of",
    ),
    "a size without a unit": ("least: 4 MiB", "least: 4", "values:", "not an amount in B"),
    "an unknown fill": ("fill: data", "fill: ones", "values:", "fill 'ones' is not one of"),
    "a stride without a chase": ("fill: data", "fill: data, stride: 8 B", "values:", "fill chase needs a stride"),
    "a grid and blocks per SM": (
        "blocks_per_sm: [2, 1]",
        "blocks_per_sm: 2, grid: 1",
        "launch:",
        "either blocks_per_sm or grid",
    ),
    "half a block": ("blocks_per_sm: [2, 1]", "blocks_per_sm: 0.5", "launch:", "not a whole number from 1 on"),
    "a result for each of nothing": (
        "series: [WIDTH]",
        "series: [DEPTH]",
        "series: [DEPTH]",
        "series 'DEPTH' is not one of",
    ),
    "a curve without an axis": ("method: slope", "method: curve", "method: curve", "method curve needs along"),
    "a gate without requirements": ("  required: {FFMA: [CHAINS, WIDTH]}\n", "", "gate:", "which opcodes are required"),
    "a gate without overhead": ("  max_overhead: 8\n", "", "gate:", "must give max_overhead"),
    "an override for none of the targets": (
        "sm_90..sm_103",
        "sm_75",
        "- architectures:",
        "none of the probe's targets",
    ),
    "an override for everything": ("    - when: {WIDTH: 16}\n", "    -\n", "required:", "where it applies"),
    "a value that the parameter never has": (
        "when: {WIDTH: 16}\n",
        "when: {WIDTH: 8}\n",
        "- when: {WIDTH: 8}",
        "8 is not one of the values",
    ),
    "two limits in one": ("compute: fp16,", "compute: fp16, bandwidth: l1,", "- {compute:", "a limit names one of"),
    "an unknown path": ("compute: fp16", "compute: fp15", "- {compute:", "'fp15' is not a compute path"),
    "a rate in another unit": ("256 FLOP/clk/SM", "256 B/clk/SM", "- {rate:", "not an amount in FLOP/clk/SM"),
    "a rate without a source": (", source: whitepaper", "", "- {rate:", "source is missing"),
    "a range upside down": ("low: 95 %", "low: 101 %", "- {low:", "low is above high"),
    "a range without a source": (", source: paper", "", "- {low:", "source is missing"),
}
"""A mistake: the old text, the new, how the line begins that the error names, and the rule."""


@each_row("name", BAD)
def test_an_error_names_file_line_and_rule(name: str, tmp_path: Path) -> None:
    old, new, line, problem = BAD[name]
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    file = write(tmp_path, text)
    with pytest.raises(BrokenSpec) as caught:
        read_probe(file)
    assert problem in caught.value.problem
    assert caught.value.place.file == str(file)
    assert text.splitlines()[caught.value.place.line - 1].strip().startswith(line)


@each_row(
    ("old", "new", "problem"),
    [
        ("transfer: {from: pinned, to: device}\n", "", "method copy needs transfer"),
        ("method: copy", "method: launch", "along belongs to method curve, not launch"),
        ("method: copy", "method: power", "transfer belongs to method copy, not power"),
        ("from: pinned", "from: disk", "from 'disk' is not one of pinned, pageable, device, peer"),
        ("limit: {bandwidth: pcie}", "load: a/b", None),
    ],
)
def test_what_belongs_to_a_method(tmp_path: Path, old: str, new: str, problem: str | None) -> None:
    file = write(tmp_path, HOST.replace(old, new))
    if problem is not None:
        with pytest.raises(BrokenSpec) as caught:
            read_probe(file)
        assert problem in caught.value.problem
        return
    with pytest.raises(BrokenSpec, match="load: no probe 'a/b' has a kernel"):
        load_probes(tmp_path)


def test_work_and_shared_memory_may_depend_on_a_sweep(tmp_path: Path) -> None:
    text = GOOD.replace("flop: [2, CHAINS, WIDTH]", "flop: [2, STRIDE]").replace("[WIDTH, 1024]", "[STRIDE, 4]")
    kernel = kernel_of(read_probe(write(tmp_path, text)))
    values = {"CHAINS": "8", "WIDTH": "4", "STRIDE": "32"}
    assert kernel.work.amount("flop", values) == 64
    assert kernel.launch.shared_bytes.value(values) == 128
    with pytest.raises(BrokenSpec, match="'STRIDE' is neither a whole number nor one of the parameters"):
        read_probe(write(tmp_path, GOOD.replace("{FFMA: [CHAINS, WIDTH]}", "{FFMA: STRIDE}")))


TILE = "check: tile\ntile: {m: 16, n: [8, CHAINS], k: WIDTH, times: 2, a: KIND in bytes, b: KIND, d: f32"


def test_the_tile_that_is_checked(tmp_path: Path) -> None:
    text = GOOD.replace("  WIDTH: [4, 16]", "  WIDTH: [4, 16]\n  KIND: [e2m1, e3m2]")
    probe = read_probe(write(tmp_path, text.replace("check: sum", TILE + ", held: [0, 2], of: 4, by: xor}")))
    assert probe.tile is not None
    values = {"CHAINS": "4", "WIDTH": "16", "KIND": "e3m2"}
    assert probe.tile.resolved(values) == Tile(16, 32, 16, 2, "e3m2 in bytes", "e3m2", "f32", (0, 2), 4, "xor")
    dense = read_probe(write(tmp_path, text.replace("check: sum", TILE + "}"))).tile
    assert dense is not None
    assert dense.resolved(values) == Tile(16, 32, 16, 2, "e3m2 in bytes", "e3m2", "f32")


@each_row("new", ["check: tile", TILE.replace("check: tile", "check: sum") + "}"])
def test_a_check_of_a_tile_needs_the_tile(tmp_path: Path, new: str) -> None:
    with pytest.raises(BrokenSpec, match="check tile needs tile, and no other has it"):
        read_probe(write(tmp_path, GOOD.replace("check: sum", new)))


def test_limits_and_expected_ranges_may_depend_on_a_sweep(tmp_path: Path) -> None:
    text = GOOD.replace("architectures: [sm_80]}", "when: {STRIDE: 1024}}")
    probe = read_probe(write(tmp_path, text))
    assert probe.limit("sm_90a", {"STRIDE": "1024"}) == probe.limits[0]
    assert probe.limit("sm_90a", {"STRIDE": "32"}) == probe.limits[1]
    assert probe.limit("sm_90a", {}) == probe.limits[1]
    with pytest.raises(BrokenSpec, match="1 KiB is not one of the values of STRIDE"):
        read_probe(write(tmp_path, text.replace("STRIDE: 1024", "STRIDE: 1 KiB")))


def test_a_sparse_limit(tmp_path: Path) -> None:
    text = GOOD.replace("compute: fp16", "compute: tensor.fp16 fp32 mma.sync sparse")
    limit = read_probe(write(tmp_path, text)).limits[0]
    assert (limit.compute, limit.sparse) == (ComputeKey("tensor.fp16", "fp32", "mma.sync"), True)


def test_a_kernel_without_source_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    file.with_suffix(".cu").unlink()
    with pytest.raises(BrokenSpec, match=r"there is no good\.cu beside this file"):
        read_probe(file)


def test_a_gate_without_a_kernel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BrokenSpec, match="arguments needs an entry"):
        read_probe(write(tmp_path, GOOD.replace("entry: good\n", "")))


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
        ("sm_90", ("sm_90a",)),
        ("sm_90a", ("sm_90a",)),
        ("sm_86", ("sm_86",)),
        ("sm_86a", ()),
        ("sm_80..sm_89", ("sm_80", "sm_86", "sm_87", "sm_89")),
        ("..sm_75", ("sm_70", "sm_75")),
        ("sm_120..", ("sm_120a", "sm_121a")),
        ("sm_89..sm_80", ()),
        ("sm_80..sm_88", ()),
        ("9.0", ()),
        ("", ()),
    ],
)
@pytest.mark.usefixtures("twelve")
def test_names_of_targets(text: str, targets: tuple[str, ...]) -> None:
    assert targets_named(text) == targets


def test_every_architecture_of_the_specs_has_its_target() -> None:
    names = {path.stem for path in SpecLibrary().arch_files()} - {"base", "sm_72"}
    assert {target_named(name) for name in names} == set(all_targets())
    assert (target_of("9.0"), target_of("12.1"), target_of("8.6"), target_of("7.2")) == (
        "sm_90a",
        "sm_121a",
        "sm_86",
        None,
    )


def test_a_condition_without_words_always_holds() -> None:
    assert Condition().holds("sm_80", {})
    assert not Condition(("sm_90a",)).holds("sm_80", {})
    assert Condition((), (("WIDTH", ("4", "8")),)).holds("sm_80", {"WIDTH": "8"})
    assert not Condition((), (("WIDTH", ("4", "8")),)).holds("sm_80", {"WIDTH": "16"})


# The probes that ship


def test_there_are_probes() -> None:
    assert {probe.family for probe in PROBES} >= {"bandwidth", "instruction", "tensor"}


def test_every_source_has_a_probe_file() -> None:
    sources = {path.with_suffix("") for path in probe_folder().glob("*/*.cu") if path.parent.name != CASES}
    assert sources == {probe_folder() / probe.id for probe in PROBES if probe.kernel is not None}


@every_probe
def test_source_says_mechanism_formula_and_what_would_make_it_lie(probe: Probe) -> None:
    if probe.kernel is None:
        pytest.skip("measured by the host alone")
    said = headers(probe.kernel.source)
    for word in ("Mechanism: ", "Formula: ", "What would make it lie: "):
        assert word in said


def headers(source: Path) -> str:
    """The comment at the head of a source, and those of the files that it includes from its folder."""
    text = source.read_text(encoding="utf-8")
    comment = "".join(takewhile(lambda line: line.startswith("//"), text.splitlines(keepends=True)))
    assert comment
    included = (source.parent / name for name in re.findall(r'^#include "([\w.-]+)"', text, re.MULTILINE))
    return comment + "".join(headers(file) for file in included if file.is_file())


@every_probe
def test_limits_are_known_to_the_specs_of_some_target(probe: Probe) -> None:
    library = SpecLibrary()
    for limit in probe.limits:
        archs = [library.arch(target.rstrip("a")) for target in limit.condition.targets or probe.targets]
        found = [
            key in table
            for arch in archs
            if arch is not None
            for key, table in (
                (limit.compute, arch.compute),
                (limit.bandwidth, {*arch.bandwidth, "dram", "pcie"}),
                (limit.operation, {*arch.operations, "issue"}),
            )
            if key is not None
        ]
        assert limit.rate is not None or any(found)


def test_the_guide_names_every_key_and_every_word_that_a_probe_file_may_use() -> None:
    guide = (probe_folder() / "README.md").read_text(encoding="utf-8")
    words = re.findall(r"[\w/.-]+", guide)
    keys = {*KEYS, *CODE_RULES, "overrides"}
    choices = {*QUANTITIES, *METHODS, *STATISTICS, *REGIMES, *DATA, *CHECKS, *FILLS, *TYPES, *SHARES, *WORK, *UNITS}
    assert (keys | choices | {*NEVER_MEANT}) - set(words) == set()


def test_probes_are_chosen_by_family_or_by_name() -> None:
    family = PROBES[0].family
    assert select(PROBES, ()) == PROBES
    assert {probe.family for probe in select(PROBES, [family])} == {family}
    assert select(PROBES, [PROBES[0].id]) == PROBES[:1]
    with pytest.raises(UsageError, match="unknown probe or family: --only nothing"):
        select(PROBES, ["nothing"])
