"""Findings on files: machine code that is missing for an architecture, and line tables that are missing."""

from __future__ import annotations

from gpuprof.review.file_findings import file_findings
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.kernel import CompiledKernel, InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel
from tests.table import each_row

NAME = "lib.so"
WITH_LINES = b"\x7fELF .shstrtab\0.debug_line\0"
WITHOUT = b"\x7fELF .shstrtab\0"


def module(target: str, form: str = "sass", *, cubin: bytes = WITH_LINES, launch: int | None = None) -> InputModule:
    binary = CubinKernel(mangled="kernel", code=bytes(16))
    kernel = CompiledKernel(
        name="kernel", target=target, origin=NAME, cubin=cubin, kernel=binary, shape=KnownLaunch(), launch=launch
    )
    if form == "ptx":
        return InputModule(origin=NAME, target=target, form="ptx", holds=1, kernels=())
    return InputModule(origin=NAME, target=target, form="sass", holds=1, kernels=(kernel,))


@each_row(
    ("modules", "targets", "found"),
    [
        # Machine code runs on its own major version from its minor version on.
        ([module("sm_80")], ("sm_80",), []),
        ([module("sm_80")], ("sm_86",), []),
        ([module("sm_80")], ("sm_89",), []),
        ([module("sm_86")], ("sm_80",), [("no-sass-for-target", "nothing-runs")]),
        ([module("sm_80")], ("sm_90",), [("no-sass-for-target", "nothing-runs")]),
        ([module("sm_90a")], ("sm_100",), [("no-sass-for-target", "nothing-runs")]),
        # PTX of an older architecture is compiled at the start; that of a target with an a runs on nothing else.
        ([module("sm_80"), module("sm_80", "ptx")], ("sm_120",), [("no-sass-for-target", "only-ptx")]),
        ([module("sm_90a"), module("sm_90a", "ptx")], ("sm_120",), [("no-sass-for-target", "nothing-runs")]),
        ([module("sm_80"), module("sm_80", "ptx")], (), []),
        ([module("sm_90", "ptx")], (), [("no-sass-for-target", "any-target")]),
        # Launches of a report are not asked what else they run on.
        ([module("sm_80", launch=0)], ("sm_90",), []),
        (
            [module("sm_80", cubin=WITHOUT), module("sm_86", cubin=bytes(WITHOUT))],
            (),
            [("no-line-info", "all-kernels")],
        ),
        ([module("sm_80", cubin=WITHOUT), module("sm_86")], (), [("no-line-info", "one-kernel")]),
        (
            [*(module(target, cubin=WITHOUT) for target in ("sm_80", "sm_90")), module("sm_86")],
            (),
            [("no-line-info", "some-kernels")],
        ),
    ],
)
def test_files_without_code_for_a_target_or_without_lines_have_a_finding(
    modules: list[InputModule], targets: tuple[str, ...], found: list[tuple[str, str]]
) -> None:
    findings = file_findings(modules, ReviewRequest(files=(NAME,), targets=targets))
    assert [(finding.rule, *finding.cases.headline) for finding in findings] == found
    assert all(NAME in finding.headline for finding in findings)
