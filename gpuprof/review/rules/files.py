"""Findings on files as a whole: code that is missing for an architecture, and line tables that are missing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.ranking import unique
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.targets import compiles_for, runs_on
from gpuprof.review.kernel import CompiledKernel, InputModule
from gpuprof.review.rules.rule import FileRule, code_evidence
from gpuprof.units import counted

NO_SASS, NO_LINES = "no-sass-for-target", "no-line-info"
_LINE_TABLE = b".debug_line"
"""The section of a cubin that nvcc and NVRTC write with -lineinfo (DWARF 5, 6.2)."""
_LONGEST_NAME = 100
_MOST_TARGETS = 12


def file_findings(
    modules: Sequence[InputModule], request: ReviewRequest, refused: Container[str] = ()
) -> tuple[Finding, ...]:
    """Return what the files lack: machine code for an architecture that is asked for, and line tables.

    Of a file among `refused` that is told already: it does not compile for an architecture.
    """
    findings: list[Finding] = []
    for name, of_file in _by_file(modules, request.files).items():
        for rule in FILE_RULES:
            wanted = request.targets if name not in refused else [module.target for module in of_file]
            findings += rule.check(name, of_file, wanted)
    names = unique(finding.rule for finding in findings)
    return tuple(replace(finding, id=name) for finding, name in zip(findings, names, strict=True))


def _by_file(modules: Iterable[InputModule], files: Sequence[str]) -> Mapping[str, list[InputModule]]:
    """Return the modules by the file that they are from; of a folder or an archive, all together."""
    longest = sorted(files, key=len, reverse=True)
    by_file: dict[str, list[InputModule]] = {}
    for module in modules:
        name = next((file for file in longest if module.origin.startswith(file)), module.origin)
        by_file.setdefault(name, []).append(module)
    return by_file


def _missing_code(name: str, modules: Sequence[InputModule], wanted: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each architecture that a file has no machine code for; a report has what was launched.

    Where no architecture is asked for, it is told of a file that has nothing but PTX.
    """
    if any(kernel.launch is not None for module in modules for kernel in module.kernels):
        return
    sass = _targets(modules, "sass")
    ptx = _targets(modules, "ptx")
    for target in wanted:
        if not any(runs_on(code, target) for code in sass):
            fitting = [text for text in ptx if compiles_for(text, target)]
            yield _compiled_at_start(name, target, fitting, sass) if fitting else _does_not_run(name, target, sass, ptx)
    if not wanted and ptx and not sass:
        yield _compiled_at_start(name, None, ptx, sass)


def _targets(modules: Sequence[InputModule], form: str) -> list[str]:
    """Return what the modules of a form are for, the oldest first."""
    return sorted({module.target for module in modules if module.form == form}, key=lambda name: (len(name), name))


def _compiled_at_start(name: str, target: str | None, ptx: Sequence[str], sass: Sequence[str]) -> Finding:
    what = f"no machine code for {target}" if target is not None else "no machine code"
    has = f" Its machine code is for {_listed(sass)}." if sass else ""
    flag = _flag(target) if target is not None else "-gencode for the architectures that it runs on"
    return _finding(
        NO_SASS,
        headline=f"{_short(name)}: {what}, only PTX of {_listed(ptx)}",
        why="The driver compiles the PTX when the program first starts, and keeps the result in a cache of the user."
        f"{has} The driver's compiler may choose other registers and instructions than ptxas does.",
        action=f"Compile for {target if target is not None else 'the architectures that it runs on'}",
        advice=f"Add {flag} to nvcc (CMake: CMAKE_CUDA_ARCHITECTURES; PyTorch extensions: TORCH_CUDA_ARCH_LIST).",
    )


def _does_not_run(name: str, target: str, sass: Sequence[str], ptx: Sequence[str]) -> Finding:
    return _finding(
        NO_SASS,
        headline=f"{_short(name)}: nothing in it runs on {target}",
        why=f"It has machine code for {_listed(sass) or 'nothing'} and PTX of {_listed(ptx) or 'nothing'}. Machine "
        "code runs on its own major version, from its minor version on; PTX is compiled for its own version and newer "
        "ones. What is for a target with a runs on nothing else, with f within its family.",
        action=f"Compile for {target}",
        advice=f"Add {_flag(target)} to nvcc (CMake: CMAKE_CUDA_ARCHITECTURES; PyTorch extensions: "
        "TORCH_CUDA_ARCH_LIST), and PTX of a plain architecture for newer ones.",
    )


def _flag(target: str) -> str:
    return f"-gencode arch=compute_{target.removeprefix('sm_')},code={target}"


def _missing_lines(name: str, modules: Sequence[InputModule], _wanted: Sequence[str]) -> Iterator[Finding]:
    """Yield one finding for the kernels of a file that no source line is known of."""
    tables: dict[int, bool] = {}
    kernels = [kernel for module in modules for kernel in module.kernels if kernel.has_code]
    bare = sum(not _has_lines(kernel, tables) for kernel in kernels)
    if not bare:
        return
    some = f"{bare} of {counted(len(kernels), 'kernel')} have no line table"
    yield _finding(
        NO_LINES,
        headline=f"{_short(name)}: {some if bare < len(kernels) else 'no line table'}",
        why="Findings can then name instructions only, and not the lines that they were compiled from.",
        action="Compile with -lineinfo",
        advice="-lineinfo (NVRTC: --generate-line-info) leaves the instructions as they are. CMake: add it to "
        "CMAKE_CUDA_FLAGS; PyTorch extensions: extra_compile_args={'nvcc': ['-lineinfo']}; Numba: lineinfo=True. "
        "Triton writes line tables unless TRITON_DISABLE_LINE_INFO is set.",
        evidence=(code_evidence(bare, "", "kernels without a line table"),),
    )


def _has_lines(kernel: CompiledKernel, tables: dict[int, bool]) -> bool:
    if kernel.lines is not None:
        return bool(kernel.lines)
    key = id(kernel.cubin)
    if key not in tables:
        tables[key] = _LINE_TABLE in kernel.cubin
    return tables[key]


def _finding(
    rule: str, *, headline: str, why: str, action: str, advice: str, evidence: tuple[Evidence, ...] = ()
) -> Finding:
    return Finding(
        rule=rule,
        severity="medium" if rule == NO_SASS else "info",
        confidence="inferred",
        headline=headline,
        why=why,
        action=action,
        advice=advice,
        evidence=evidence,
        place=None,
        gain_kernel=None,
        gain_total=None,
    )


def _listed(targets: Sequence[str]) -> str:
    more = f" and {len(targets) - _MOST_TARGETS} more" if len(targets) > _MOST_TARGETS else ""
    return ", ".join(targets[:_MOST_TARGETS]) + more


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME:]}"


FILE_RULES: tuple[FileRule, ...] = (
    FileRule(
        id=NO_SASS,
        title="No machine code for an architecture",
        looks_at="For which architectures a file has machine code and PTX, against those that --arch names; without "
        "--arch, whether it has any machine code.",
        silent="No architecture is named, and the file has machine code; reports, which have what was launched.",
        check=_missing_code,
    ),
    FileRule(
        id=NO_LINES,
        title="No line table",
        looks_at="Whether the kernels that are reviewed have line tables (.debug_line), or their report has lines.",
        silent="Sources and PTX, which are compiled with line tables here.",
        check=_missing_lines,
    ),
)
