"""`gpuprof specs`: what it prints and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuprof.cli.specs import command
from gpuprof.errors import InputError, SpecError
from gpuprof.hardware.specs import CounterLink
from gpuprof.hardware.yaml_tree import FileLine
from gpuprof.present.specs_text import terms_text
from gpuprof.resources import data_dir
from tests import ncu_bytes
from tests.cli import gpuprof
from tests.readings import session_of
from tests.table import each_row
from tests.test_specs import ARCH, GPU, changed, for_a100, write_arch, write_gpu


@pytest.fixture(autouse=True)
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user specs"
    monkeypatch.setenv("GPUPROF_SPECS", str(folder))
    return folder


def specs(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def succeed(*arguments: str) -> Result:
    result = specs(*arguments)
    assert result.exit_code == 0, result.output
    return result


def test_list_fits_eighty_columns_and_names_every_product() -> None:
    lines = succeed("list").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    names = {line.split()[0] for line in lines if line}
    assert {path.stem for path in (data_dir("specs") / "gpu").glob("*.yaml")} <= names
    assert {"sm_70", "sm_90", "sm_121"} <= names


@each_row("columns", [60, 100])
@each_row("words", [("list",), ("show", "h200-sxm"), ("show", "sm_90")])
def test_lines_are_as_wide_as_the_terminal_but_for_words_that_are_wider(columns: int, words: tuple[str, ...]) -> None:
    done = gpuprof("specs", *words, environ={**os.environ, "COLUMNS": str(columns)})
    wide = [line.split() for line in done.stdout.splitlines() if len(line) > columns]
    assert done.returncode == 0 and all(len(words) == 1 for words in wide), wide


@each_row("words", [("list",), ("show", "h200-sxm"), ("show", "sm_90")])
def test_a_terminal_without_unicode_gets_ascii(words: tuple[str, ...]) -> None:
    done = gpuprof("specs", *words, encoding="ascii")
    assert done.returncode == 0 and done.stdout.isascii() and "sm_90" in done.stdout


def test_list_shows_rated_numbers_and_marks_unconfirmed_ones() -> None:
    rows = {line.split()[0]: line.split()[1:] for line in succeed("list").stdout.splitlines() if line}
    assert rows["h200-sxm"] == ["sm_90", "132", "1980", "4800", "66.9", "989", "1979"]
    assert rows["gb10"][2] == "2418*"
    assert rows["rtx-2060-max-q"] == ["sm_75", "30", "1185", "–", "–", "–", "–"]


def test_list_as_json_is_in_base_units() -> None:
    listed = json.loads(succeed("list", "--format", "json").stdout)
    h200 = next(gpu for gpu in listed["gpus"] if gpu["name"] == "h200-sxm")
    assert h200["title"] == "NVIDIA H200 SXM 141GB"
    assert h200["dram_bytes_per_s"] == 4.8e12
    assert h200["tensor_fp16_flop_per_s"] == pytest.approx(989.4e12)
    assert h200["unconfirmed"] == []
    assert listed["architectures"][0]["compute_capability"] == "7.0"


def test_list_leaves_out_a_broken_file_and_says_so(user_folder: Path) -> None:
    path = write_gpu(user_folder, "schema: [\n")
    result = succeed("list")
    assert f"skipped: {path}:2: not valid YAML" in result.stderr
    assert "h200-sxm" in result.stdout


def test_show_gives_value_source_note_and_place() -> None:
    shown = succeed("show", "h200-sxm").stdout
    file = data_dir("specs") / "gpu" / "h200-sxm.yaml"
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "memory_bus" in text)
    assert "6016 bit  (unconfirmed)" in shown
    assert "note: tables print 6144 bit and 6.25 Gbit/s" in shown
    assert f"{file}:{line}" in shown
    assert "989.4 TFLOP/s at 1.830 GHz; 132 SMs × 4096 × 1.830 GHz = 989.4 TFLOP/s" in " ".join(shown.split())
    assert "60 MiB" in shown


def test_show_finds_a_product_by_device_name() -> None:
    assert succeed("show", "nvidia h200").stdout == succeed("show", "h200-sxm").stdout


def test_show_as_json_has_the_implied_peak() -> None:
    shown = json.loads(succeed("show", "a100-80gb-pcie", "--format", "json").stdout)
    rated = shown["rated"]["fp32"]
    assert rated["clock_hz"] == 1.41e9
    assert rated["sms_times_rate_times_clock"] == pytest.approx(108 * 128 * 1.41e9)
    assert shown["compute"]["fp64"]["value"] == 64
    assert shown["compute"]["fp64"]["file"].endswith("sm_80.yaml")


def test_show_gives_an_architecture_with_its_counters() -> None:
    shown = succeed("show", "sm_90").stdout
    assert "sm_90: Hopper, compute capability 9.0, GH100" in shown
    assert "1. total: sm__ops_path_tensor_src_fp64.sum" in shown
    assert "2. per-sm-cycle: sm__ops_path_tensor_src_fp64.sum.per_cycle_elapsed" in shown
    assert "0 B, 8 KiB, 16 KiB" in shown
    assert "long_scoreboard" in shown


def test_show_gives_an_architecture_as_json() -> None:
    shown = json.loads(succeed("show", "sm_90", "--format", "json").stdout)
    assert shown["limits"]["warps_per_sm"]["value"] == 64
    assert shown["counters"]["duration"][0]["terms"] == {"gpu__time_duration.sum": 1.0}


@each_row("name", ["sm_77", "nothing of that kind"])
def test_show_of_an_unknown_name_is_an_input_error(name: str) -> None:
    error = specs("show", name).exception
    assert isinstance(error, InputError)
    assert error.hint


def test_show_of_a_product_without_architecture_still_shows_it(user_folder: Path) -> None:
    write_gpu(user_folder, GPU.replace("sm_80", "sm_81"))
    result = succeed("show", "toy")
    assert "no spec for sm_81" in result.stderr
    assert "12.80 TFLOP/s at 1.000 GHz" in result.stdout


def test_text_that_steers_a_terminal_is_made_visible(user_folder: Path) -> None:
    write_gpu(user_folder, GPU.replace("title: Toy GPU", 'title: "Toy\\e[2J\\u202e GPU"'))
    assert "Toy\\x1b[2J\\u202e GPU" in succeed("show", "toy").stdout
    assert json.loads(succeed("show", "toy", "--format", "json").stdout)["title"] == "Toy\x1b[2J\u202e GPU"


def test_check_of_the_packaged_specs_is_clean() -> None:
    result = succeed("check")
    assert ": error: " not in result.stdout
    assert ": warning: " not in result.stdout
    assert "0 errors, 0 warnings; " in result.stderr
    assert "facts are unconfirmed" in result.stderr


def test_check_of_a_broken_file_prints_its_line_and_ends_with_5(tmp_path: Path) -> None:
    text, line = changed(GPU, "12.8 TFLOP/s", "99 TFLOP/s")
    path = write_gpu(tmp_path, text)
    result = specs("check", str(path))
    assert result.stdout.startswith(f"{path}:{line}: error: rated fp32 is 99.00 TFLOP/s, but 100 SMs × 128")
    assert len(result.stdout.splitlines()) == 1
    assert isinstance(result.exception, SpecError)
    assert result.exception.exit_code == 5


def test_check_looks_for_the_architecture_beside_the_file(tmp_path: Path) -> None:
    write_arch(tmp_path, ARCH)
    gpu = write_gpu(tmp_path, GPU.replace("sm_80", "sm_77").replace("12.8", "25.6").replace("  tensor", "# tensor"))
    assert succeed("check", str(gpu)).stdout == ""


def test_check_of_a_missing_file_is_an_error(tmp_path: Path) -> None:
    result = specs("check", str(tmp_path / "none.yaml"))
    assert result.stdout == f"{tmp_path}/none.yaml:1: error: cannot be read: No such file or directory\n"
    assert isinstance(result.exception, SpecError)


def test_warnings_do_not_fail_the_check(tmp_path: Path) -> None:
    text, _ = changed(GPU, '  names: ["Toy"]\n  pci_ids: ["10de:0001"]', "  sm_count: 100 SM")
    result = succeed("check", str(write_gpu(tmp_path, text)))
    assert ": warning: no name and no PCI id" in result.stdout


def test_match_says_which_spec_and_why(reports: Path) -> None:
    shown = succeed("match", str(reports / "cudacode-profile.ncu-rep")).stdout
    assert "NVIDIA GeForce RTX 2080 Ti (PCI id 10de:1e07, compute capability 7.5, 68 SMs" in shown
    assert "rtx-2080-ti by PCI id and name" in shown
    assert str(data_dir("specs") / "gpu" / "rtx-2080-ti.yaml") in shown
    boost = next(line for line in shown.splitlines() if "boost clock" in line)
    assert boost.split() == ["boost", "clock", "1.620", "GHz", "1.545", "GHz", "differs"]
    assert shown.count("differs") == 1


def test_match_prefers_the_users_file(reports: Path, user_folder: Path) -> None:
    path = write_gpu(user_folder, for_a100("mine", "mine"), "mine")
    shown = succeed("match", str(reports / "cutlass-384.ncu-rep")).stdout
    assert "mine by PCI id and name" in shown
    # A folder's name may have blanks, at which lines end.
    assert str(path) in " ".join(shown.split())


CSV = """\
"ID","Process ID","Kernel Name","device__attribute_display_name","device__attribute_compute_capability_major",\
"device__attribute_compute_capability_minor","gpu__time_duration.sum"
"","","","","","","nsecond"
"0","1","k","NVIDIA Unheard 9000","9","0","10"
"""


def test_match_takes_a_damaged_report_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    first = ncu_bytes.block([ncu_bytes.launch("first", {0: 5.0})], ["gpu__time_duration.sum"])
    second = ncu_bytes.block([ncu_bytes.launch("second", {0: 5.0})])
    file = tmp_path / "cut.ncu-rep"
    file.write_bytes(ncu_bytes.report(first, second)[:-6])
    assert "a GPU without a name" in succeed("match", str(file), "--salvage").stdout


def test_match_of_an_unknown_gpu_names_its_architecture(tmp_path: Path) -> None:
    file = tmp_path / "report.csv"
    file.write_text(CSV)
    shown = succeed("match", str(file)).stdout
    assert "NVIDIA Unheard 9000 (compute capability 9.0)" in shown
    assert "no product spec; using sm_90 and the report's own attributes" in shown


def test_match_of_a_session_uses_what_it_keeps(reports: Path, tmp_path: Path) -> None:
    from gpuprof.store.write import session_lines

    file = tmp_path / "session.json"
    file.write_text("\n".join(session_lines(session_of(reports / "cutlass-384.ncu-rep"))), encoding="utf-8")
    assert "a100-80gb-pcie by name" in succeed("match", str(file)).stdout


def test_match_of_something_else_is_an_input_error(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a report")
    assert isinstance(specs("match", str(file)).exception, InputError)


def test_a_product_without_its_variant_is_answered_with_its_variants() -> None:
    done = gpuprof("specs", "show", "a100")
    assert done.returncode == 5
    assert "hint: did you mean a100-40gb-pcie, a100-40gb-sxm, a100-80gb-pcie, a100-80gb-sxm? " in done.stderr


@each_row(
    ("how", "terms", "text"),
    [
        ("total", (("a", 1.0), ("b", 2.0)), "a + 2 × b"),
        ("per-cycle", (("a", 0.333333333),), "0.333333 × a"),
        ("product", (("a", 1.0), ("b", 1.0), ("c", -1.0)), "a × b ÷ c"),
        ("product", (("a", -1.0), ("b", 2.0)), "1 ÷ a × b^2"),
        ("none", (), ""),
    ],
)
def test_what_a_link_takes_reads_as_it_is_worked_out(how: str, terms: tuple[tuple[str, float], ...], text: str) -> None:
    link = CounterLink(how=how, terms=terms, basis="counted", definition=None, place=FileLine("base.yaml", 1))
    assert terms_text(link) == text
