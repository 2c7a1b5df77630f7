"""Findings on files: machine code that is missing for an architecture, and line tables that are missing."""

from __future__ import annotations

from gpuprof.code.binary.cubin import CubinKernel
from gpuprof.review.contract import CodeFinding
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.kernel import CompiledKernel, InputModule, KnownLaunch
from gpuprof.review.rules.files import file_findings
from tests.table import each_row

NAME = "lib.so"
WITH_LINES = b"\x7fELF .shstrtab\0.debug_line\0"
WITHOUT = b"\x7fELF .shstrtab\0"


def module(target: str, form: str = "sass", *, cubin: bytes = WITH_LINES, launch: int | None = None) -> InputModule:
    kernel = CompiledKernel(
        name="kernel",
        target=target,
        origin=NAME,
        cubin=cubin,
        kernel=CubinKernel(mangled="kernel", code=bytes(16)),
        shape=KnownLaunch(),
        launch=launch,
    )
    return InputModule(
        origin=f"{NAME}: member 1",
        target=target,
        form="ptx" if form == "ptx" else "sass",
        holds=1,
        kernels=() if form == "ptx" else (kernel,),
    )


def told(modules: list[InputModule], *targets: str) -> list[CodeFinding]:
    return list(file_findings(modules, ReviewRequest(files=(NAME,), targets=targets)))


@each_row("target", ["sm_80", "sm_86", "sm_89"])
def test_machine_code_runs_on_its_own_major_version_from_its_minor_version_on(target: str) -> None:
    assert told([module("sm_80")], target) == []


@each_row(("code", "target"), [("sm_86", "sm_80"), ("sm_80", "sm_90"), ("sm_90a", "sm_100")])
def test_what_does_not_run_is_told_of(code: str, target: str) -> None:
    (finding,) = told([module(code)], target)
    assert finding.rule == "no-sass-for-target"
    assert finding.headline == f"lib.so: nothing in it runs on {target}"
    assert f"-gencode arch=compute_{target[3:]},code={target}" in finding.advice


def test_ptx_of_an_older_architecture_is_compiled_at_the_start() -> None:
    (finding,) = told([module("sm_80"), module("sm_80", "ptx")], "sm_120")
    assert finding.headline == "lib.so: no machine code for sm_120, only PTX of sm_80"
    assert "Its machine code is for sm_80." in finding.why


def test_ptx_of_a_target_with_an_a_runs_on_nothing_else() -> None:
    (finding,) = told([module("sm_90a"), module("sm_90a", "ptx")], "sm_120")
    assert finding.headline == "lib.so: nothing in it runs on sm_120"


def test_nothing_is_said_of_other_architectures_unless_one_is_asked_for() -> None:
    assert told([module("sm_80"), module("sm_80", "ptx")]) == []


def test_a_file_with_nothing_but_ptx_is_told_of() -> None:
    (finding,) = told([module("sm_90", "ptx")])
    assert finding.headline == "lib.so: no machine code, only PTX of sm_90"


def test_launches_of_a_report_are_not_asked_what_else_they_run_on() -> None:
    assert told([module("sm_80", launch=0)], "sm_90") == []


def test_missing_line_tables_are_told_of_once_a_file() -> None:
    (finding,) = told([module("sm_80", cubin=WITHOUT), module("sm_86", cubin=bytes(WITHOUT))])
    assert finding.rule == "no-line-info"
    assert finding.headline == "lib.so: no line table"
    assert "-lineinfo" in finding.advice


def test_some_missing_line_tables_are_counted() -> None:
    (finding,) = told([module("sm_80", cubin=WITHOUT), module("sm_86")])
    assert finding.headline == "lib.so: 1 of 2 kernels have no line table"


def test_a_long_name_is_shortened() -> None:
    request = ReviewRequest(files=("x" * 15_000,), targets=())
    bare = InputModule(origin="x" * 15_000, target="sm_90", form="ptx", holds=1, kernels=())
    (finding,) = file_findings([bare], request)
    assert len(finding.headline) < 200
