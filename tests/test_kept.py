"""What tests keep between runs: the tools' own answers, given again only where nothing that matters has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.diagnosis import host_run
from gpuprof.code.binary.elf import kernel_code
from gpuprof.code.tools import disassemble
from gpuprof.code.tools.disassemble import Disassembler, find_disassemblers
from gpuprof.code.tools.nvrtc import CompileOutcome, Nvrtc, find_nvrtc
from gpuprof.errors import EnvironmentProblem
from tests import kept, kept_code, kept_runs, kept_tools
from tests.cuda_tools import needs_cuda_wheels

SOURCE = '#include "a.cuh"\nextern "C" __global__ void one(int *p) { *p = VALUE; }'
OPTIONS = ("--gpu-architecture=sm_80", "--std=c++17")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep nothing of these tests."""
    monkeypatch.setattr(kept, "PLACE", tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def include(tmp_path: Path) -> Path:
    """A folder with a header."""
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "a.cuh").write_text("#define VALUE 7\n")
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often tools were asked themselves."""
    counted: list[str] = []

    def counting(name: str, ask: Callable[..., object]) -> Callable[..., object]:
        def asking(*words: object) -> object:
            counted.append(name)
            return ask(*words)

        return asking

    compile_, run, make = Nvrtc.compile, disassemble._run, host_run._make
    monkeypatch.setattr(Nvrtc, "compile", kept_tools._compiling(counting("nvrtc", compile_.asked)))  # type: ignore
    monkeypatch.setattr(disassemble, "_run", kept_tools._disassembling(counting("nvdisasm", run.asked)))  # type: ignore
    monkeypatch.setattr(host_run, "_make", kept_tools._making(counting("g++", make.asked)))  # type: ignore
    return counted


def compiled(folder: Path, *more: str, source: str = SOURCE, name: str = "one.cu") -> CompileOutcome:
    return find_nvrtc()[0].compile(source, name, (*OPTIONS, f"--include-path={folder}", *more))


@needs_cuda_wheels
def test_what_was_compiled_is_recalled_from_any_folder(include: Path, tmp_path: Path, asked: list[str]) -> None:
    first = compiled(include)
    assert first.cubin is not None
    moved = shutil.move(include, tmp_path / "moved")
    assert compiled(Path(moved)) == first
    assert asked == ["nvrtc"]


@needs_cuda_wheels
def test_a_source_with_another_text_header_name_or_option_is_compiled_anew(include: Path, asked: list[str]) -> None:
    compiled(include)
    compiled(include, source=SOURCE.replace("one", "two"))
    compiled(include, name="two.cu")
    compiled(include, "--define-macro=N=1")
    (include / "a.cuh").write_text("#define VALUE 8\n")
    compiled(include)
    assert asked == ["nvrtc"] * 5


@needs_cuda_wheels
def test_a_refusal_is_recalled_with_its_log(include: Path, asked: list[str]) -> None:
    first, second = (compiled(include, source="nonsense") for _ in range(2))
    assert first == second
    assert first.cubin is None
    assert "nonsense" in first.log or "declaration" in first.log
    assert asked == ["nvrtc"]


@needs_cuda_wheels
def test_a_log_that_names_a_folder_is_not_kept(include: Path, asked: list[str]) -> None:
    (include / "a.cuh").write_text("nonsense\n")
    for _ in range(2):
        assert str(include) in compiled(include).log
    assert asked == ["nvrtc"] * 2


@needs_cuda_wheels
def test_a_cubin_that_names_its_files_is_recalled_only_in_the_same_folder(
    include: Path, tmp_path: Path, asked: list[str]
) -> None:
    compiled(include, "--generate-line-info")
    compiled(include, "--generate-line-info")
    compiled(Path(shutil.move(include, tmp_path / "moved")), "--generate-line-info")
    assert asked == ["nvrtc"] * 2


@needs_cuda_wheels
def test_what_a_source_includes_must_be_seen_in_its_text(include: Path, asked: list[str]) -> None:
    hidden = SOURCE.replace('#include "a.cuh"', '#define FILE "a.cuh"\n#include FILE')
    for source in (hidden, '#if __has_include("b.cuh")\n#endif\n' + SOURCE):
        for _ in range(2):
            assert compiled(include, source=source).cubin is not None
    assert asked == ["nvrtc"] * 4


@needs_cuda_wheels
def test_an_option_that_fails_fails_again(include: Path, asked: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(EnvironmentProblem, match="no-such-option"):
            compiled(include, "--no-such-option")
    assert asked == ["nvrtc"] * 2


@needs_cuda_wheels
def test_what_was_disassembled_is_recalled_for_the_same_code_target_and_tool(
    include: Path, tmp_path: Path, asked: list[str]
) -> None:
    code = kernel_code(compiled(include).cubin or b"", "one")
    tool = find_disassemblers()[0]
    first, second = (disassemble.disassemble(tool, "sm_80", [code]) for _ in range(2))
    assert first == second
    assert asked == ["nvrtc", "nvdisasm"]
    disassemble.disassemble(tool, "sm_86", [code])
    disassemble.disassemble(tool, "sm_80", [code, code])
    other = tmp_path / "nvdisasm"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    with pytest.raises(EnvironmentProblem):
        disassemble.disassemble(Disassembler(other, tool.version), "sm_80", [code])
    assert asked == ["nvrtc", *["nvdisasm"] * 3]


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile for the host")
def test_what_gxx_made_is_recalled_for_a_source_of_the_checkout(tmp_path: Path, asked: list[str]) -> None:
    source = next(iter(sorted(host_run.CASES.glob("*.cu"))))
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(host_run.compile_case(source, tmp_path / name).read_bytes())
    assert made[0] == made[1]
    assert made[0].startswith(b"\x7fELF")
    passing = tmp_path / source.name
    passing.write_text(source.read_text().replace("\n", "\n\n", 1))
    for name in ("third", "fourth"):
        (tmp_path / name).mkdir()
        host_run.compile_case(passing, tmp_path / name)
    assert asked == ["g++"] * 4


def test_what_is_damaged_is_made_anew(elsewhere: Path) -> None:
    key = kept.key_of("one")
    assert kept.kept("kind", key, lambda: b"first") == b"first"
    assert kept.kept("kind", key, lambda: b"second") == b"first"
    (file,) = (file for file in elsewhere.rglob("*") if file.is_file())
    whole = file.read_bytes()
    for damaged in (b"", whole[:20], whole[:-1], whole[:-3] + b"???", b"?" + whole[1:]):
        file.write_bytes(damaged)
        assert kept.kept("kind", key, lambda: b"anew") == b"anew"
        assert kept.read("kind", key) == b"anew"


def test_what_cannot_be_written_is_not_kept(elsewhere: Path) -> None:
    elsewhere.write_text("a file in the place of the folder")
    assert kept.kept("kind", kept.key_of("one"), lambda: b"made") == b"made"
    assert kept.read("kind", kept.key_of("one")) is None


def test_what_was_not_used_for_a_month_is_forgotten_and_the_oldest_of_too_much(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        kept.write("kind", str(number) * 64, os.urandom(1000))
    files = sorted(file for file in elsewhere.rglob("*") if file.is_file())
    for days, file in zip((40, 20, 10, 2), files, strict=True):
        used = file.stat().st_mtime - days * 24 * 3600
        os.utime(file, (used, used))
    assert kept.read("kind", "1" * 64) is not None
    monkeypatch.setattr(kept, "_MOST_BYTES", 2500)
    kept.forget_the_old()
    assert [file.exists() for file in files] == [False, True, False, True]


def test_words_are_recalled_for_their_key_and_worked_out_without_one_or_where_everything_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = kept.key_of("code")
    assert kept.judged("kind", key, lambda: ["pass", "why"]) == ["pass", "why"]
    assert kept.judged("kind", key, lambda: ["fail", ""]) == ["pass", "why"]
    assert kept.judged("kind", None, lambda: ["fail", ""]) == ["fail", ""]
    monkeypatch.setattr(kept, "EVERYTHING", True)
    assert kept.judged("kind", key, lambda: ["fail", ""]) == ["fail", ""]


def test_what_a_program_left_is_recalled_for_a_folder_that_held_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def ended(name: str, text: str = "text", key: str = "key", passed: bool = True) -> tuple[int, str, str]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "given").write_text(text)

        def run() -> kept_runs.Done:
            ran.append(name)
            (folder / "traces").mkdir()
            (folder / "traces" / "made").write_text(f"by {name}")
            return kept_runs.Done("words", 3, f"out of {name}", "error")

        done = kept_runs.recalled(folder, key, run)
        kept_runs.settle(passed=passed)
        return done.returncode, done.stdout, (folder / "traces" / "made").read_text()

    assert ended("failed", passed=False) == (3, "out of failed", "by failed")
    assert ended("first") == (3, "out of first", "by first")
    assert ended("second") == ended("third") == (3, "out of first", "by first")
    assert ended("fourth", text="other") == (3, "out of fourth", "by fourth")
    assert ended("fifth", key="other") == (3, "out of fifth", "by fifth")
    monkeypatch.setattr(kept, "EVERYTHING", True)
    assert ended("sixth") == (3, "out of sixth", "by sixth")
    assert ran == ["failed", "first", "fourth", "fifth", "sixth"]


def test_a_key_of_code_has_all_that_is_imported_however_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "gpuprof"
    package.mkdir()
    texts = {
        "__init__": "from gpuprof import other", "one": "def f():\n    from gpuprof import two\n",
        "two": "import gpuprof.three\nif TYPE_CHECKING:\n    from gpuprof import other\nelse:\n    import gpuprof.four",
        "three": "from os import path\n", "four": "", "other": "", "api": "", "five": "import gpuprof",
        "six": "from gpuprof import load",
    }  # fmt: skip
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.setattr(kept_code, "ROOT", tmp_path)
    kept_code._imported.cache_clear()
    for first, others in {"one": {"two", "three", "four"}, "five": {"api"}, "six": {"api"}}.items():
        found = {file.stem for file in kept_code._all_from((f"gpuprof.{first}",))}
        assert found == {"__init__", first, *others}


@pytest.mark.parametrize(
    "modules", [("benchmarks.diagnosis.gate", "benchmarks.diagnosis.agree"), ("tests.test_virtual_run",)]
)
def test_code_that_runs_to_judge_is_in_its_key(modules: tuple[str, ...]) -> None:
    program = f"import sys; import {', '.join(modules)}; print(*sorted(sys.modules))"
    root = kept_code.ROOT
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root).stdout
    loaded = {name for name in told.split() if name.partition(".")[0] in {"gpuprof", "benchmarks", "tests"}}
    files = kept_code._all_from(modules)
    assert len(loaded) > 20
    assert {file for name in loaded for file in kept_code._files(name)} <= files
