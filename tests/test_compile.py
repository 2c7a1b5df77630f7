"""From a kernel's source to its instructions: compilers and disassemblers found, cubins made and read."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.characterize.gates.check import Variant, check, variants
from gpuprof.characterize.gates.compile import compile_kernel, compile_options
from gpuprof.characterize.probes.probe import Kernel, Probe
from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.sass.binary.cubin import kernel_code
from gpuprof.sass.tools import compile as compiling
from gpuprof.sass.tools import nvrtc as border
from gpuprof.sass.tools import programs
from gpuprof.sass.tools.compile import Compiled, NotCompiled, compiler_for
from gpuprof.sass.tools.disassemble import Disassembler, disassemble, disassembler_for, find_disassemblers
from gpuprof.sass.tools.nvrtc import CompileOutcome, Nvrtc, find_nvrtc
from tests.cuda_tools import kernel_of, needs_cuda_wheels, twin_named
from tests.table import each_row

DEFAULT = {"CHAINS": "8", "UNROLL": "16"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the probes of the tests."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def probe(folder: Path) -> Probe:
    """A probe with a kernel called `fused`."""
    return twin_named("fma", folder)


@pytest.fixture(scope="module")
def cubin(probe: Probe) -> bytes:
    """That kernel for sm_90a."""
    return compiled(probe, "sm_90a").cubin


def compiled(probe: Probe, target: str) -> Compiled:
    result = compile_kernel(kernel_of(probe), target, DEFAULT)
    assert isinstance(result, Compiled)
    return result


def with_text(probe: Probe, text: str, file: Path) -> Kernel:
    """The probe's kernel with another source."""
    file.write_text(text, encoding="utf-8")
    return replace(kernel_of(probe), source=file)


def refused(probe: Probe, tmp_path: Path, statement: str, target: str) -> NotCompiled:
    """Compile a kernel that runs one statement, and return why it cannot be."""
    text = f'extern "C" __global__ void one(unsigned *p) {{ {statement} }}'
    result = compile_kernel(with_text(probe, text, tmp_path / "one.cu"), target, {})
    assert isinstance(result, NotCompiled)
    return result


# Options


def test_options_name_the_exact_target_and_the_parameters(probe: Probe, folder: Path) -> None:
    options = compile_options(kernel_of(probe), "sm_90a", DEFAULT)
    assert options[:4] == (
        "--gpu-architecture=sm_90a",
        "--std=c++17",
        "--define-macro=CHAINS=8",
        "--define-macro=UNROLL=16",
    )
    assert {Path(option.partition("=")[2]) for option in options[4:]} == {folder, folder / "twins"}


# Compiling


@needs_cuda_wheels
def test_a_cubin_is_for_its_target_and_the_same_each_time(probe: Probe) -> None:
    first, second = compiled(probe, "sm_90a"), compiled(probe, "sm_90a")
    assert first == second
    assert first.sha256 == hashlib.sha256(first.cubin).hexdigest()
    assert first.compiler == str(find_nvrtc()[0])
    assert first.options == compile_options(kernel_of(probe), "sm_90a", DEFAULT)[:4]
    assert compiled(probe, "sm_80").sha256 != first.sha256


@needs_cuda_wheels
@each_row(
    ("statement", "target", "why"),
    [
        ('asm volatile("fma.rn.bf16x2 %0, %0, %0, %0;" : "+r"(*p));', "sm_75", ".target sm_80"),
        ('asm volatile("wgmma.fence.sync.aligned;");', "sm_100a", "'sm_100a'"),
        ('asm volatile("tcgen05.fence::before_thread_sync;");', "sm_120a", "'sm_120a'"),
    ],
)
def test_what_a_target_does_not_have_is_unsupported(
    probe: Probe, tmp_path: Path, statement: str, target: str, why: str
) -> None:
    result = refused(probe, tmp_path, statement, target)
    assert result.unsupported
    assert why in result.why
    assert not result.why.startswith("ptxas application")


def test_what_the_compiler_is_too_old_for_is_unsupported(probe: Probe, tmp_path: Path) -> None:
    log = "ptxas application ptx input, line 25; error   : Illegal vector size: 8\nptxas fatal   : Ptx assembly aborted"
    too_old = SimpleNamespace(compile=lambda *_words: CompileOutcome(None, log))
    kernel = with_text(probe, "// 256 bits", tmp_path / "one.cu")
    assert compile_kernel(kernel, "sm_100a", {}, cast(Nvrtc, too_old)) == NotCompiled(
        "ptxas: error: Illegal vector size: 8", unsupported=True
    )


@needs_cuda_wheels
@each_row(
    ("statement", "why"),
    [
        ("undeclared = 1;", "one.cu:1: error: identifier"),
        ('asm volatile("fma.rn.f99 %0, %0, %0, %0;" : "+r"(*p));', "'.f99'"),
        ("__shared__ char c[99999]; c[*p] = 1; *p = c[p[1]];", "shared data"),
    ],
)
def test_a_wrong_source_is_not_unsupported(probe: Probe, tmp_path: Path, statement: str, why: str) -> None:
    result = refused(probe, tmp_path, statement, "sm_75")
    assert not result.unsupported
    assert why in result.why


@needs_cuda_wheels
def test_an_old_target_needs_the_old_compiler(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = find_nvrtc()[0]
    monkeypatch.setattr(compiling, "find_nvrtc", lambda: (newest,))
    result = compile_kernel(kernel_of(probe), "sm_70", DEFAULT)
    assert isinstance(result, NotCompiled)
    assert result.unsupported
    assert str(newest) in result.why and "nvidia-cuda-nvrtc-cu12" in result.why


@needs_cuda_wheels
def test_each_target_has_a_compiler_that_knows_it() -> None:
    versions = [compiler.version for compiler in map(compiler_for, ("sm_75", "sm_90a", "sm_121a")) if compiler]
    assert len(versions) == 3 and min(versions) >= (13, 0)
    assert compiler_for("sm_37") is None
    outcome = find_nvrtc()[0].compile("", "empty.cu", ["--no-such-option"])
    assert outcome.cubin is None and "--no-such-option" in outcome.log


def test_without_a_compiler_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(border, "_candidates", lambda: [tmp_path / "libnvrtc.so.13"])
    find_nvrtc.cache_clear()
    try:
        with pytest.raises(EnvironmentProblem) as caught:
            find_nvrtc()
    finally:
        find_nvrtc.cache_clear()
    assert caught.value.hint is not None and "nvidia-cuda-nvrtc nvidia-cuda-nvdisasm" in caught.value.hint


"""Looks for its other library as NVRTC 13.0 does: by name alone, not in its own folder."""


# Cubins


@needs_cuda_wheels
def test_the_code_of_a_kernel_is_whole_instructions(cubin: bytes) -> None:
    code = kernel_code(cubin, "fused")
    assert len(code) % 128 == 0
    assert len(code) > 16 * 128


@needs_cuda_wheels
def test_a_cubin_without_the_kernel_names_those_that_it_has(cubin: bytes) -> None:
    with pytest.raises(DamagedInput, match=r"'other'.*fused"):
        kernel_code(cubin, "other")


@given(st.binary(max_size=200))
def test_bytes_that_are_no_cubin_are_damaged_input(content: bytes) -> None:
    for start in (b"", b"\x7fELF\x02\x01"):
        with pytest.raises(DamagedInput):
            kernel_code(start + content, "kernel")


@needs_cuda_wheels
@given(st.data())
def test_a_cut_cubin_is_damaged_input(cubin: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(cubin) - 1))
    try:
        code = kernel_code(cubin[:cut], "fused")
    except DamagedInput:
        return
    assert code == kernel_code(cubin, "fused")


# Disassembling


def program(path: Path, prints: str, code: int = 0) -> Path:
    """A program that prints a text and ends with a code."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\nexit {code}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def found_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Disassembler, ...]]]:
    """Let these be all the nvdisasm there are, and return what is found."""

    def found(*paths: Path) -> tuple[Disassembler, ...]:
        monkeypatch.setattr(programs, "_candidates", lambda name: paths)
        programs.find_programs.cache_clear()
        return find_disassemblers()

    yield found
    programs.find_programs.cache_clear()


def test_the_newest_disassembler_reads_all_but_the_oldest_target(
    tmp_path: Path, found_in: Callable[..., tuple[Disassembler, ...]]
) -> None:
    new = program(tmp_path / "new" / "nvdisasm", "Cuda compilation tools, release 13.5, V13.5.37")
    old = program(tmp_path / "old" / "nvdisasm", "Cuda compilation tools, release 12.4, V12.4.99")
    broken = program(tmp_path / "broken" / "nvdisasm", "no version")
    found = found_in(tmp_path / "none", broken, old, new)
    assert found == (Disassembler(new, (13, 5)), Disassembler(old, (12, 4)))
    assert disassembler_for("sm_90a") == found[0]
    assert disassembler_for("sm_70") == found[1]
    assert disassembler_for("sm_61") is None
    found_in(new)
    assert disassembler_for("sm_70") is None


def test_the_disassembler_in_a_package_of_triton_reads_volta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "site-packages"
    old = program(packages / "triton/backends/nvidia/bin/nvdisasm", "Cuda compilation tools, release 12.8, V12.8.55")
    toolkit = program(tmp_path / "cuda-12.4" / "bin" / "nvdisasm", "Cuda compilation tools, release 12.4, V12.4.99")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr(programs, "_TOOLKITS", tmp_path)
    programs.find_programs.cache_clear()
    try:
        assert {old, toolkit} <= {tool.path for tool in find_disassemblers()}
        assert disassembler_for("sm_70") == Disassembler(old, (12, 8))
    finally:
        programs.find_programs.cache_clear()


def test_a_disassembler_that_fails_says_why(tmp_path: Path) -> None:
    tool = Disassembler(program(tmp_path / "nvdisasm", "", code=1), (13, 5))
    with pytest.raises(EnvironmentProblem, match=r"nvdisasm 13\.5 .*sm_90a: 1"):
        disassemble(tool, "sm_90a", [b"\0" * 128])
    with pytest.raises(EnvironmentProblem):
        disassemble(Disassembler(tmp_path / "none", (13, 5)), "sm_90a", [b"\0" * 128])


@needs_cuda_wheels
def test_kernels_read_together_are_those_read_alone(folder: Path) -> None:
    tool = find_disassemblers()[0]
    codes = [
        kernel_code(item.compiled.cubin, item.variant.kernel.entry)
        for name in ("fma", "read", "mma")
        for item in check([next(variants(twin_named(name, folder), "sm_90a"))])
        if item.compiled is not None
    ]
    together = disassemble(tool, "sm_90a", codes)
    assert together == [disassemble(tool, "sm_90a", [code])[0] for code in codes]
    assert [len(code) for code in codes] == [16 * len(instructions) for instructions in together]


@needs_cuda_wheels
def test_a_kernel_that_does_not_compile_fails_and_one_that_the_target_cannot_is_unsupported(
    probe: Probe, tmp_path: Path
) -> None:
    wrong = with_text(probe, "nonsense", tmp_path / "wrong.cu")
    cannot = with_text(
        probe, '__global__ void f() { asm volatile("wgmma.fence.sync.aligned;"); }', tmp_path / "cannot.cu"
    )
    found = check([Variant(probe, one, "sm_120a", DEFAULT) for one in (wrong, cannot)])
    assert [item.judgement.gate for item in found] == ["fail", "unsupported"]
    assert [item.compiled for item in found] == [None, None]
