"""The rule on files without machine code for an architecture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.rule import labels_of
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.inputs.targets import compiles_for, runs_on
from gpuprof.review.kernel import InputModule
from gpuprof.review.rules.rule import FileRule, file_finding

_MOST_TARGETS = 100


def _missing_code(file: str, modules: Sequence[InputModule], targets: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each target without code. Without targets, yield one for a file with PTX only."""
    if any(kernel.launch is not None for module in modules for kernel in module.kernels):
        # A report only has the code of launched kernels.
        return
    sass = _targets_of(modules, "sass")
    ptx = _targets_of(modules, "ptx")
    if not targets and ptx and not sass:
        yield _finding(file, "any-target", ptx, sass)
    for target in targets:
        if any(runs_on(code, target) for code in sass):
            continue
        fitting = [text for text in ptx if compiles_for(text, target)]
        if fitting:
            yield _finding(file, "only-ptx", fitting, sass, target)
        else:
            yield _finding(file, "nothing-runs", ptx, sass, target)


def _targets_of(modules: Sequence[InputModule], form: str) -> list[str]:
    """Return the targets of the modules of a form, the oldest first."""
    targets = {module.target for module in modules if module.form == form}
    return sorted(targets, key=lambda name: (len(name), name))[:_MOST_TARGETS]


def _finding(file: str, case: str, ptx: Sequence[str], sass: Sequence[str], target: str = "") -> Finding:
    why = []
    if sass:
        why.append("has-sass")
    if case == "nothing-runs" and ptx:
        why.append("has-ptx")
    why.append("runs-on" if case == "nothing-runs" else "compiled-at-start")
    action = "one-target" if target else "any-target"
    return file_finding(
        "no-sass-for-target",
        file,
        Cases(headline=(case,), why=tuple(why), action=(action,), advice=(case,)),
        severity="medium",
        labels=labels_of(
            sass=tuple(sass),
            ptx=tuple(ptx),
            target=(target,),
            version=(target.removeprefix("sm_"),),
        ),
    )


RULE = FileRule(id="no-sass-for-target", check=_missing_code)
