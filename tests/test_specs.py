"""Hardware specs: the packaged data, the parser, the library's search order, and every check rule on a broken file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import SpecError
from gpuprof.hardware.check import (
    SpecCheckResult,
    SpecIssue,
    check_files,
    check_library,
    compare_device,
    implied_peak,
    match_reasons,
    own_facts,
)
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.parse import parse_arch, parse_gpu
from gpuprof.hardware.parse_facts import parse_compute_key
from gpuprof.hardware.specs import ArchSpec, ComputeKey, Fact, GpuSpec, compute_rates, rates_without_spec
from gpuprof.hardware.yaml_tree import BrokenSpec, FileLine, YamlNode, load_tree, parse_tree
from gpuprof.recordings import recordings
from gpuprof.resources import data_dir
from tests.readings import report_of, unpacked
from tests.table import each_row

SPECS = data_dir("specs")
PACKAGED = SpecLibrary(folders=(SPECS,))
H100 = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3"
NOT_LISTED = ("sass__", "launch__", "smsp__pcsamp", "derived__", "device__", "breakdown:")
"""Metrics that ncu computes itself; `--query-metrics` does not print them."""

A100 = RecordedDevice(name="NVIDIA A100 80GB PCIe", compute_capability="8.0", pci_id="10de:20b5", sm_count=108)

GPU = """\
schema: 1
kind: gpu
name: toy
title: Toy GPU
arch: sm_80
sources:
  sheet: {kind: datasheet, text: "the toy's sheet"}
match:
  names: ["Toy"]
  pci_ids: ["10de:0001"]
facts:
  sm_count: {value: 100 SM, source: sheet}
  boost_clock: {value: 1000 MHz, source: sheet}
  memory_bus: {value: 1024 bit, source: sheet}
  memory_rate: {value: 2 Gbit/s, source: sheet}
rated:
  dram: {value: 256 GB/s, source: sheet}
  fp32: {value: 12.8 TFLOP/s, clock: 1000 MHz, source: sheet}
  tensor.fp16 fp32: {value: 204.8 TFLOP/s, clock: 1000 MHz, source: sheet}
"""
"""100 SMs × 1 GHz: 12.8 TFLOP/s at 128 FLOP/clk/SM, 204.8 at 2048; 1024 bit × 2 Gbit/s ÷ 8 = 256 GB/s."""

ARCH = """\
schema: 1
kind: arch
name: sm_77
compute_capability: "7.7"
family: Toy
chips: [TOY]
sources:
  guide: {kind: programming guide, text: "the toy's guide"}
limits:
  threads_per_warp: {value: 32 thread, source: guide}
  sub_partitions: {value: 4 scheduler, source: guide}
  registers_per_sm: {value: 65536 register, source: guide}
  register_allocation_unit: {value: 256 register, source: guide}
  warps_per_sm: {value: 48 warp, source: guide}
  threads_per_sm: {value: 1536 thread, source: guide}
  blocks_per_sm: {value: 16 block, source: guide}
  shared_per_sm: {value: 100 KiB, source: guide}
  shared_per_block_optin: {value: 99 KiB, source: guide}
  shared_reserved_per_block: {value: 1 KiB, source: guide}
  shared_allocation_unit: {value: 128 B, source: guide}
  shared_carveouts: {value: [0 KiB, 64 KiB, 100 KiB], source: guide}
compute:
  fp32: {value: 256 FLOP/clk/SM, source: guide}
bandwidth:
  l1: {value: 128 B/clk/SM, source: guide}
  l2: {value: 64 B/clk/SM, source: guide}
counters:
  work.fp32:
    - {how: total, terms: {sm__flop.sum: 1}}
    - {how: thread-opcodes, terms: {FFMA: 2}}
stalls: [wait]
"""


def write_gpu(folder: Path, text: str = GPU, name: str = "toy") -> Path:
    path = folder / "gpu" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_arch(folder: Path, text: str = ARCH, name: str = "sm_77") -> Path:
    path = folder / "arch" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def changed(text: str, old: str, new: str) -> tuple[str, int]:
    """Return the text with one replacement, and the line at which it happened."""
    assert text.count(old) == 1, old
    return text.replace(old, new), text[: text.index(old)].count("\n") + 1


def only(result: SpecCheckResult) -> SpecIssue:
    assert len(result.findings) == 1, [str(finding) for finding in result.findings]
    return result.findings[0]


def with_user(folder: Path) -> SpecLibrary:
    return SpecLibrary(folders=(folder, SPECS))


# The packaged data


@pytest.mark.slow
def test_packaged_specs_have_no_error_and_no_warning() -> None:
    result = check_library(PACKAGED)
    assert {(finding.severity, finding.rule) for finding in result.findings} <= {("info", "rated-clock")}
    assert result.files == len(list(SPECS.rglob("*.yaml")))
    assert result.facts > 900


def packaged_archs() -> list[ArchSpec]:
    archs = [PACKAGED.arch(path.stem) for path in PACKAGED.arch_files()]
    return [arch for arch in archs if arch is not None]


def packaged_gpus() -> list[GpuSpec]:
    gpus = [PACKAGED.gpu(path.stem) for path in PACKAGED.gpu_files()]
    return [gpu for gpu in gpus if gpu is not None]


# Sources of the packaged data

THIRD_PARTY = re.compile(
    r"\b(?!nvidia\.com\b)[\w-]+\.(?:ai|ch|cn|com|de|edu|eu|fr|info|io|it|jp|kr|net|org|pl|ru|se|tech|tw|uk)\b",
    re.I,
)
NOT_READ = re.compile(r"recalled|not read|as (?:quoted|copied|tabulated|excerpted|reported)", re.I)
READ_KINDS = ("datasheet", "programming guide")


def sources(pattern: re.Pattern[str], facts: Iterable[Fact]) -> list[str]:
    """Return the files, and the sources in them, that facts cite and that the pattern is found in."""
    return sorted({f"{Path(fact.place.file).name}: {fact.source}" for fact in facts if pattern.search(fact.source)})


def packaged_facts() -> Iterator[Fact]:
    specs: list[ArchSpec | GpuSpec] = [*packaged_archs(), *packaged_gpus()]
    for spec in specs:
        yield from own_facts(spec)


def test_no_fact_rests_on_a_web_page_of_a_third_party() -> None:
    assert sources(THIRD_PARTY, packaged_facts()) == []


def test_a_document_that_was_not_read_is_no_datasheet() -> None:
    assert sources(NOT_READ, (fact for fact in packaged_facts() if fact.kind in READ_KINDS)) == []


def test_products_rest_on_pages_and_tables_of_nvidia() -> None:
    def rests_on_a_page(gpu: GpuSpec) -> bool:
        facts = [gpu.facts["sm_count"], *(fact for key, fact in gpu.rated.items() if key.path != "dram")]
        return any(fact.kind in READ_KINDS and re.search(r"\b(?:pages?|table)\b", fact.source, re.I) for fact in facts)

    assert len([gpu.name for gpu in packaged_gpus() if rests_on_a_page(gpu)]) >= 25


# Rates


def test_product_overrides_and_removes_rates_of_its_architecture() -> None:
    arch = PACKAGED.arch("sm_89")
    assert arch is not None
    rates = compute_rates(arch, PACKAGED.gpu("l40"))
    assert rates[ComputeKey("tensor.fp16", "fp32", "mma.sync")].value == 512
    assert ComputeKey("tensor.fp16", "fp16", "mma.sync") not in rates
    assert rates[ComputeKey("fp32")].value == 256
    assert {key.path for key in rates_without_spec(arch, "NVIDIA RTX 5000 Ada Generation")} == {"fp32", "int32"}
    geforce = rates_without_spec(arch, "NVIDIA GeForce RTX 4070 Laptop GPU")
    own = compute_rates(arch, PACKAGED.gpu("rtx-4090"))
    assert {key: fact.value for key, fact in geforce.items()} == {key: fact.value for key, fact in own.items()}


def test_mma_sync_is_no_faster_than_wgmma() -> None:
    """A product whose tensor cores are cut has exceptions for both."""
    for gpu in packaged_gpus():
        arch = PACKAGED.arch(gpu.arch)
        assert arch is not None
        rates = compute_rates(arch, gpu)
        for key in (key for key in rates if key.instruction == "wgmma"):
            slower = rates.get(key._replace(instruction="mma.sync"))
            assert slower is None or slower.value <= rates[key].value, (gpu.name, str(key))


def key_of(text: str, *, instruction: bool = True) -> ComputeKey:
    return parse_compute_key(text, YamlNode(None, FileLine("f.yaml", 7)), instruction=instruction)


def test_compute_keys() -> None:
    assert key_of("fp32") == ComputeKey("fp32")
    assert key_of("tensor.fp16 fp32 wgmma") == ComputeKey("tensor.fp16", "fp32", "wgmma")
    assert key_of("tensor.fp16 fp32", instruction=False) == ComputeKey("tensor.fp16", "fp32")
    assert str(key_of("tensor.fp16  fp32   wgmma")) == "tensor.fp16 fp32 wgmma"
    for text in ("", "fp31", "fp32 fp32", "tensor.fp16", "tensor.fp16 fp32 mma", "tensor.fp16 x wgmma"):
        with pytest.raises(SpecError, match=r"^f\.yaml:7: "):
            key_of(text)


def test_a_noted_contradiction_is_information_but_for_a_sparse_figure(tmp_path: Path) -> None:
    for rule, severity, old, new in (
        ("rated-peak", "info", FP32, FP32.replace("12.8", "13.1")),
        ("rated-clock", "info", FP32, FP32.replace("1000 MHz", "1030 MHz").replace("12.8", "13.18")),
        ("rated-dram", "info", DRAM, DRAM.replace("256", "270")),
        ("sparse", "error", FP16, FP16.replace("204.8", "409.6")),
    ):
        text, _ = changed(GPU, old, new[:-1] + ", note: NOTED}")
        finding = only(check_text(tmp_path, text))
        assert (finding.rule, finding.severity) == (rule, severity)
        assert severity == "error" or "NOTED" in finding.message
    for peak in ("12.55 TFLOP/s", "13.05 TFLOP/s"):
        text, _ = changed(GPU, "12.8 TFLOP/s", peak)
        assert check_text(tmp_path, text).findings == ()


# Trees


def tree(text: str) -> YamlNode:
    return parse_tree(text, "f.yaml")


def plain(node: YamlNode) -> object:
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    return node.value


BAD_YAML = {
    "alias": ("a: &x 1\nb: *x\n", 1),
    "bomb": ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", 1),
    "twice": ("a: 1\nb: 2\na: 3\n", 3),
    "deep": ("a: 1\nb: " + "[" * 100 + "]" * 100, 2),
    "open brackets": ("a:\n" + "[" * 50_000, 2),
    "deep block": ("- " * 5_000 + "x", 1),
    "tab": ("a:\n\tb: 1\n", 2),
    "open quote": ("a: 1\nb: 'x\n", 3),
    "control": ("a: 1\nb: \x00\n", 2),
    "surrogate": ("a: \ud800\n", 1),
    "tag": ("a: 1\nb: !!python/object:os.system x\n", 2),
    "two documents": ("a: 1\n---\nb: 1\n", 2),
    "list as key": ("a: 1\n? [b]\n: 1\n", 2),
    "empty": ("# nothing\n", 1),
}


def test_bad_yaml_names_the_line() -> None:
    for name, (text, line) in BAD_YAML.items():
        with pytest.raises(BrokenSpec) as caught:
            tree(text)
        assert caught.value.place == FileLine("f.yaml", line), name
        assert str(caught.value).startswith(f"f.yaml:{line}: ") and caught.value.exit_code == 5


def test_bad_files_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    for data, line in ((b"a: 1\nb: \xff\n", 2), (b"a: 1\n" + b"#" * 1_000_001, 1), (b"\x7fELF\x00", 1)):
        path.write_bytes(data)
        with pytest.raises(BrokenSpec) as caught:
            load_tree(path)
        assert caught.value.place == FileLine(str(path), line)
    for name in ("missing.yaml", ".", "nul\0byte.yaml"):
        with pytest.raises(BrokenSpec):
            load_tree(tmp_path / name)


yaml_text = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="abc:-[]{},&*!|>'\"#%@ \n\t?~0", max_size=120),
    st.lists(st.sampled_from(GPU.splitlines()), max_size=20).map("\n".join),
    st.lists(st.sampled_from(ARCH.splitlines()), max_size=30).map("\n".join),
)


@given(yaml_text)
def test_arbitrary_text_gives_a_spec_or_a_spec_error(text: str) -> None:
    for parse in (parse_gpu, parse_arch):
        try:
            parse(tree(text))
        except SpecError as error:
            assert str(error).startswith("f.yaml:")


# Search order


def for_a100(title: str, name: str) -> str:
    return (
        GPU.replace("name: toy", f"name: {name}")
        .replace("Toy GPU", title)
        .replace('"Toy"', '"NVIDIA A100 80GB PCIe"')
        .replace("10de:0001", "10de:20b5")
    )


def matched(library: SpecLibrary, device: RecordedDevice = A100) -> GpuSpec:
    spec = library.match(device)
    assert spec is not None
    return spec


def test_explicit_file_comes_before_user_folder_before_packaged(tmp_path: Path) -> None:
    user, explicit = tmp_path / "user", tmp_path / "explicit"
    assert matched(with_user(user)).title == "NVIDIA A100 80GB PCIe"
    write_gpu(user, for_a100("from the user's folder", "my-a100"), "my-a100")
    assert matched(with_user(user)).title == "from the user's folder"
    # Even if it describes another GPU.
    for text, name in ((for_a100("named on the command line", "x"), "x"), (GPU, "toy")):
        path = write_gpu(explicit, text, name)
        assert matched(SpecLibrary(explicit=(path,), folders=(user, SPECS))).name == name


def test_a_users_architecture_hides_the_packaged_one_and_may_start_from_it(tmp_path: Path) -> None:
    text = (
        'schema: 1\nkind: arch\nname: sm_80\nbase: sm_80\nsources:\n  mine: {kind: measured, text: "my run"}\n'
        "compute:\n  fp16: {value: 500 FLOP/clk/SM, source: mine}\n"
    )
    write_arch(tmp_path, text, "sm_80")
    arch = with_user(tmp_path).arch("sm_80")
    assert arch is not None
    assert arch.compute[ComputeKey("fp16")].value == 500
    assert arch.compute[ComputeKey("fp32")].value == 128
    assert check_files([tmp_path / "arch" / "sm_80.yaml"], with_user(tmp_path)).findings == ()


def break_folder(folder: Path) -> None:
    """Fill a user's folder with files that nobody can read."""
    write_gpu(folder, "schema: 1\nkind: [", "half-written")
    (folder / "gpu" / "binary.yaml").write_bytes(bytes(range(256)) * 100)
    (folder / "gpu" / "huge.yaml").write_bytes(b"# 10de:20b5\n" * 200_000)
    (folder / "gpu" / "folder.yaml").mkdir()
    (folder / "gpu" / "dangling.yaml").symlink_to(folder / "nowhere")
    secret = write_gpu(
        folder, GPU.replace("name: toy", "name: secret").replace("0001", "0002").replace('"Toy"', '"S"'), "secret"
    )
    secret.chmod(0)


def test_broken_files_do_not_disturb_the_lookup_of_others(tmp_path: Path) -> None:
    break_folder(tmp_path)
    os.mkfifo(tmp_path / "gpu" / "pipe.yaml")
    library = with_user(tmp_path)
    assert matched(library).name == "a100-80gb-pcie"
    assert library.gpu("NVIDIA H200").name == "h200-sxm"
    assert library.match(RecordedDevice(name="NVIDIA Unheard 9000", pci_id="10de:ffff")) is None
    write_gpu(tmp_path)
    result = check_files(sorted(tmp_path.rglob("*.yaml")), library)
    broken = {Path(finding.place.file).name for finding in result.findings if finding.severity == "error"}
    expected = {f"{name}.yaml" for name in ("half-written", "binary", "huge", "folder", "dangling", "secret", "pipe")}
    assert broken == expected - ({"secret.yaml"} if os.access(tmp_path / "gpu" / "secret.yaml", os.R_OK) else set())


def test_a_broken_file_for_this_device_is_an_error_with_file_line_and_hint(tmp_path: Path) -> None:
    text, line = changed(for_a100("mine", "my-a100"), "100 SM", "100 XM")
    path = write_gpu(tmp_path, text, "my-a100")
    with pytest.raises(SpecError) as caught:
        with_user(tmp_path).match(A100)
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert caught.value.hint is not None
    assert f"gpuprof specs check {path}" in caught.value.hint


def test_of_two_products_that_fit_equally_well_neither_is_taken(tmp_path: Path) -> None:
    device = RecordedDevice(name="Toy", pci_id="10de:0001")
    write_gpu(tmp_path)
    assert with_user(tmp_path).match(device) is not None
    write_gpu(tmp_path, GPU.replace("name: toy", "name: toy2"), "toy2")
    assert with_user(tmp_path).match(device) is None


def test_a_name_of_several_products_is_told_apart_by_what_a_device_has() -> None:
    """An Orin says no more than that; AGX Orin has 16 SMs with 64 GB of memory and 14 with 32."""
    assert PACKAGED.match(RecordedDevice(name="Orin", compute_capability="8.7")) is None
    agx = PACKAGED.match(RecordedDevice(name="Orin", compute_capability="8.7", sm_count=16))
    assert agx is not None and agx.name == "jetson-agx-orin"


def test_recorded_devices_match_their_spec_and_agree_on_it() -> None:
    """On reports of an H100 of ours and of the recordings that ship."""
    specs = set()
    for file in (H100 / "passes/full/profile.ncu-rep", *(unpacked(recording) for recording in recordings())):
        (device,) = report_of(file).devices
        gpu = matched(PACKAGED, device)
        specs.add(gpu.name)
        assert "name" in match_reasons(gpu, device)
        assert [row.what for row in compare_device(gpu, device) if row.differs] == []
    assert {"h100-sxm", "a40"} <= specs


def test_sm_count_and_memory_tell_products_of_one_name_apart(tmp_path: Path) -> None:
    for name, sms, memory in (("small", 100, "16 GB"), ("large", 100, "32 GB"), ("wide", 120, "32 GB")):
        limits = f'pci_ids: ["10de:0001"]\n  sm_count: {sms} SM\n  memory_size: {memory}'
        text = GPU.replace("name: toy", f"name: {name}").replace('pci_ids: ["10de:0001"]', limits)
        write_gpu(tmp_path, text.replace("100 SM,", f"{sms} SM,"), name)
    library = with_user(tmp_path)
    gib = 2**30
    for name, sms, size in (("small", 100, 15.8 * gib), ("large", 100, 31.7 * gib), ("wide", 120, 32 * gib)):
        device = RecordedDevice(name="Toy", pci_id="10de:0001", sm_count=sms, memory_bytes=round(size))
        assert matched(library, device).name == name
    ambiguous = [
        finding for finding in check_files(library.gpu_files()[:3], library).findings if finding.rule == "ambiguous"
    ]
    assert ambiguous == []


# One broken spec for each rule


def check_text(tmp_path: Path, text: str, name: str = "toy") -> SpecCheckResult:
    kind = "arch" if "kind: arch" in text else "gpu"
    path = write_arch(tmp_path, text, name) if kind == "arch" else write_gpu(tmp_path, text, name)
    return check_files([path], with_user(tmp_path))


FP32 = "fp32: {value: 12.8 TFLOP/s, clock: 1000 MHz, source: sheet}"
FP16 = "tensor.fp16 fp32: {value: 204.8 TFLOP/s, clock: 1000 MHz, source: sheet}"
DRAM = "dram: {value: 256 GB/s, source: sheet}"
BUS = "memory_bus: {value: 1024 bit, source: sheet}"

GPU_RULES: dict[str, tuple[str, str, str]] = {
    # name: (replaced, by, rule)
    "no source": ("100 SM, source: sheet", "100 SM", "parse"),
    "unknown source": ("100 SM, source: sheet", "100 SM, source: web", "parse"),
    "placeholder": ("title: Toy GPU", "title: TODO", "parse"),
    "placeholder source": ("100 SM, source: sheet", "100 SM, source: '?'", "parse"),
    "unknown key": ("title: Toy GPU", "title: Toy GPU\ncolour: red", "parse"),
    "unknown fact": ("memory_bus:", "memory_buss:", "parse"),
    "bare number": ("1024 bit", "1024", "parse"),
    "unit": ("1024 bit", "1024 GB", "parse"),
    "unit unknown": ("1024 bit", "1024 bits", "parse"),
    "negative": ("1024 bit", "-1024 bit", "parse"),
    "too large": ("256 GB/s", "1e300 EB/s", "parse"),
    "a list": ("1024 bit", "[512 bit, 1024 bit]", "parse"),
    "confirmed": (BUS, BUS[:-1] + ", confirmed: {a: b}}", "parse"),
    "fraction of an SM": ("100 SM", "100.5 SM", "parse"),
    "zero rate": ("12.8 TFLOP/s", "0 TFLOP/s", "parse"),
    "no clock": (FP32, "fp32: {value: 12.8 TFLOP/s, source: sheet}", "parse"),
    "zero clock": (FP32, FP32.replace("1000 MHz", "0 MHz"), "parse"),
    "pci id": ("10de:0001", "10DE:0001", "parse"),
    "schema": ("schema: 1", "schema: 2", "parse"),
    "kind": ("kind: gpu", "kind: cpu", "parse"),
    "arch form": ("arch: sm_80", "arch: ../sm_80", "parse"),
    "arch not found": ("arch: sm_80", "arch: sm_81", "arch"),
    "file name": ("name: toy", "name: tay", "file-name"),
    "peak too high": ("12.8 TFLOP/s", "13.1 TFLOP/s", "rated-peak"),
    "sparse": ("204.8 TFLOP/s", "409.6 TFLOP/s", "sparse"),
    "no rate": (FP16, "tensor.fp8 fp32: {value: 1 TFLOP/s, clock: 1 GHz, source: sheet}", "rate-missing"),
    "clock": (FP32, FP32.replace("1000 MHz", "1030 MHz").replace("12.8", "13.18"), "rated-clock"),
    "highest clock": (BUS, "highest_clock: {value: 990 MHz, source: sheet}", "highest-clock"),
    "sparse clock": (FP16, FP16.replace("1000 MHz", "2000 MHz").replace("204.8", "409.6"), "rated-clock"),
    "dram": ("value: 256 GB/s", "value: 270 GB/s", "rated-dram"),
    "l2 above l1": (BUS, "l2_bandwidth: {value: 12801 B/clk, source: sheet}", "bandwidth"),
    "dram above l2": (BUS, "l2_bandwidth: {value: 200 B/clk, source: sheet}", "bandwidth"),
    "matches nothing": ('  names: ["Toy"]\n  pci_ids: ["10de:0001"]', "  sm_count: 100 SM", "match"),
    "removes nothing": (FP16, "compute:\n    tensor.fp16 fp32 wgmma: null".replace("  ", ""), "removes-nothing"),
}
WORKED_OUT = {
    "peak too high": "100 SMs × 128 FLOP/clk/SM × 1.000 GHz = 12.80 TFLOP/s (+2.3%)",
    "dram": "1024 bit × 2.000 Gbit/s ÷ 8 = 256.0 GB/s (+5.5%)",
    "l2 above l1": "12.8 TB/s",
}
"""What a message says of the numbers that contradict."""
MOVED = {"dram above l2": "dram:", "matches nothing": "schema:", "unknown key": "colour:", "removes nothing": "wgmma"}
"""Where the finding is not at the line that was changed: a text of its line."""


@each_row("name", GPU_RULES)
def test_a_broken_product_is_found_at_its_line(tmp_path: Path, name: str) -> None:
    old, new, rule = GPU_RULES[name]
    text, line = changed(GPU, old, new)
    if name == "removes nothing":
        text = text.replace("  compute:\ntensor.fp16", "compute:\n  tensor.fp16")
    if name in MOVED:
        line = text[: text.index(MOVED[name])].count("\n") + 1
    finding = only(check_text(tmp_path, text))
    assert (finding.place.line, finding.rule) == (line, rule), str(finding)
    assert WORKED_OUT.get(name, "") in finding.message
    assert finding.severity == ("warning" if rule in {"match", "removes-nothing"} else "error")
    assert str(finding).startswith(f"{tmp_path / 'gpu' / 'toy.yaml'}:{line}: {finding.severity}: ")


def test_products_of_a_folder_must_not_match_the_same_device(tmp_path: Path) -> None:
    first = write_gpu(tmp_path)
    text, line = changed(GPU, "pci_ids", "memory_size: 16 GB\n  pci_ids")
    second = write_gpu(tmp_path, text.replace("name: toy", "name: toy2").replace('"Toy"', '"Toy 2"'), "toy2")
    for paths in ([first, second], [second]):
        finding = only(check_files(paths, with_user(tmp_path)))
        assert (finding.place, finding.rule) == (FileLine(str(second), line + 1), "ambiguous")
        assert "'10de:0001'" in finding.message
    # Counts of SMs keep them apart. Findings come in the order of files and lines.
    for name, sms in (("toy", 100), ("toy2", 90)):
        text = GPU.replace("name: toy", f"name: {name}").replace("  pci_ids", f"  sm_count: {sms} SM\n  pci_ids")
        write_gpu(tmp_path, text, name)
    assert check_files([first, second], with_user(tmp_path)).findings == ()
    bad = GPU.replace("12.8 TFLOP/s", "99 TFLOP/s").replace("256 GB/s", "99 GB/s")
    other = tmp_path / "other"
    paths = [write_gpu(other, bad), write_arch(other, ARCH.replace("1536 thread", "1 thread"))]
    places = [(Path(f.place.file).name, f.place.line) for f in check_files(paths, with_user(other)).findings]
    assert places == [("toy.yaml", 17), ("toy.yaml", 18), ("sm_77.yaml", 15)]


ARCH_RULES: dict[str, tuple[str, str, str]] = {
    "warps": ("1536 thread", "1024 thread", "limits"),
    "block and reserve": ("value: 99 KiB", "value: 100 KiB", "limits"),
    "carve-outs": ("[0 KiB, 64 KiB, 100 KiB]", "[0 KiB, 64 KiB]", "limits"),
    "registers": ("65536 register", "65535 register", "limits"),
    "no limit": ("  shared_allocation_unit: {value: 128 B, source: guide}\n", "", "parse"),
    "zero limit": ("256 register", "0 register", "parse"),
    "unknown limit": ("blocks_per_sm", "blocks_pro_sm", "parse"),
    "limit unit": ("48 warp", "48 thread", "parse"),
    "ports": ("l2: {value: 64", "l2: {value: 256", "bandwidth"),
    "no stalls": ("stalls: [wait]", "stalls: []", "stalls"),
    "metric": ("sm__flop.sum", "sm_flop.sum", "metric-name"),
    "opcode": ("{FFMA: 2}", "{ffma: 2}", "metric-name"),
    "factor": ("{FFMA: 2}", "{FFMA: two}", "parse"),
    "endless factor": ("{FFMA: 2}", "{FFMA: inf}", "parse"),
    "how": ("how: total", "how: sum", "parse"),
    "no terms": (", terms: {FFMA: 2}", "", "parse"),
    "quantity": ("work.fp32:", "work.fp33:", "quantity"),
    "name": ('"7.7"', '"7.8"', "compute-capability"),
    "base not found": ("family: Toy", "family: Toy\nbase: bass", "parse"),
}
ARCH_MOVED = {
    "no limit": "limits:",
    "no stalls": "schema:",
    "name": "name:",
    "base not found": "base:",
    "quantity": "- {how",
}


@each_row("name", ARCH_RULES)
def test_a_broken_architecture_is_found_at_its_line(tmp_path: Path, name: str) -> None:
    old, new, rule = ARCH_RULES[name]
    text, line = changed(ARCH, old, new)
    if name in ARCH_MOVED:
        line = text[: text.index(ARCH_MOVED[name])].count("\n") + 1
    finding = only(check_text(tmp_path, text, "sm_77"))
    assert (finding.place.line, finding.rule, finding.severity) == (line, rule, "error"), str(finding)


def test_the_fastest_rate_with_the_same_accumulator_implies_the_peak() -> None:
    # B200: tcgen05 8192 FLOP/clk/SM, mma.sync 2048; 148 × 8192 × 1.856 GHz = 2.2503 PFLOP/s.
    arch, gpu = PACKAGED.arch("sm_100"), PACKAGED.gpu("b200")
    assert arch is not None
    key = ComputeKey("tensor.fp16", "fp32")
    implied = implied_peak(key, gpu.rated[key], gpu, compute_rates(arch, gpu))
    assert implied is not None
    assert implied[0].value == 8192 and implied[1] == pytest.approx(148 * 8192 * 1.856e9)
    arch, gpu = PACKAGED.arch("sm_86"), PACKAGED.gpu("rtx-3090")
    assert arch is not None
    for accumulator, rate in (("fp32", 512), ("fp16", 1024)):
        key = ComputeKey("tensor.fp16", accumulator)
        implied = implied_peak(key, gpu.rated[key], gpu, compute_rates(arch, gpu))
        assert implied is not None and implied[0].value == rate


@given(st.sampled_from([GPU, ARCH]), st.data())
def test_a_spec_with_one_damaged_line_gives_a_spec_or_a_spec_error(text: str, data: st.DataObject) -> None:
    lines = text.splitlines()
    index = data.draw(st.integers(0, len(lines) - 1))
    cut = data.draw(st.integers(0, len(lines[index])))
    lines[index] = lines[index][:cut] + data.draw(
        st.sampled_from(["", "{", "[x]", "{a: b}", ": ", "~", "-1 SM", "nan"])
    )
    try:
        node = tree("\n".join(lines))
        (parse_gpu if text is GPU else parse_arch)(node)
    except SpecError as error:
        assert str(error).startswith("f.yaml:")


def test_counters_and_stall_reasons_exist_on_an_h100() -> None:
    arch = PACKAGED.arch("sm_90")
    assert arch is not None
    listed = (H100 / "ask-ncu/metrics-profiling.csv").read_text(encoding="utf-8").splitlines()
    known = {line.split(",")[0] for line in listed}
    first = (links[0] for links in arch.counters.values() if links[0].how != "thread-opcodes")
    wanted = {name.partition(".")[0] for link in first for name, _ in link.terms}
    wanted |= {f"smsp__average_warps_issue_stalled_{reason}_per_issue_active" for reason in arch.stalls}
    assert sorted(name for name in wanted if not name.startswith(NOT_LISTED) and name not in known) == []
