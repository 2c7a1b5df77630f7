"""The gate of `gpuprof check`: the limits of --fail-on for each kernel, alone or against another build."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace as replaced

from msgspec.structs import replace

from gpuprof.comparison.contract import GateCheck, GateWord
from gpuprof.comparison.finding_changes import source_line
from gpuprof.comparison.gate.gate import ORDER, deciding, exceeds, gate_of
from gpuprof.errors import UsageError
from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.kernel_match import kernel_pattern, name_patterns
from gpuprof.model.session import Finding
from gpuprof.review.build_changes import BuildPair, added_findings, build_change, build_pairs, values_of
from gpuprof.review.contract import BuildChanges, CodeChange, Review, ReviewedKernel
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.limits import LIMITED, OPTION, CodeLimit, LimitedValue, code_limits
from gpuprof.review.options import refuse_files
from gpuprof.words.review_gate import limited_text, line_text
from gpuprof.words.sentences import joined_by

_WITHOUT_CODE = ("registers", "occupancy")
_OF_BOTH = LIMITED.keys() - {"spills"}
"""Limits that only a kernel with a base can exceed; findings and spills of a new one are new."""
_SOURCES = (".cu", ".cu.gz")
_MOST_NAMED = 5


def judged(
    request: ReviewRequest,
    review: Callable[[ReviewRequest], Review],
    *,
    base: Iterable[str | os.PathLike[str]] = (),
    fail_on: Iterable[str] = (),
    unclear: str = "pass",
) -> Review:
    """Return the review of a request, with what differs from the files of a base and with the gate of limits.

    Raises UsageError for what cannot be, before anything is read, and for a limit that names no kernel; and what
    `review` raises for a file.
    """
    files = tuple(os.fspath(file) for file in base)
    refuse_files((*request.files, *files))
    if files and request.kernel is not None:
        name_patterns([request.kernel.text], "--kernel")
    limits = code_limits(fail_on, has_base=bool(files))
    result = review(request)
    pairs = [BuildPair("new", None, kernel) for kernel in result.kernels]
    if files:
        old = replaced(request, files=files)
        if not any(file.lower().endswith(_SOURCES) for file in files):
            old = replaced(old, defines=(), include_folders=(), standard=None, flags=())
        before = review(old)
        pairs = build_pairs(before.kernels, result.kernels)
        result = replace(result, changes=BuildChanges(files=before.files, kernels=tuple(map(build_change, pairs))))
    if not limits:
        return result
    with request.in_time():
        fitting = [[limit for limit in limits if _fits(limit, pair)] for pair in pairs]
    _refuse_idle(limits, fitting, result.kernels)
    checks = list(_checks(pairs, fitting, has_base=bool(files)))
    checked = {name for check in checks for name in (check.limit, check.quantity)}
    for limit in limits:
        if limit.text not in checked and (limit.pattern is not None or limit.quantity not in checked):
            checks.append(_not_compared(limit, in_both=bool(files)))
    return replace(result, gate=gate_of(checks, unclear_fails=unclear == "fail"))


def _fits(limit: CodeLimit, pair: BuildPair) -> bool:
    if limit.pattern is None:
        return True
    pattern = kernel_pattern(limit.pattern, OPTION)
    return any(pattern.fits(kernel.label, kernel.name) for kernel in (pair.base, pair.new) if kernel is not None)


def _refuse_idle(
    limits: Iterable[CodeLimit], fitting: Iterable[Sequence[CodeLimit]], kernels: Sequence[ReviewedKernel]
) -> None:
    """Raise UsageError for a limit on kernels that neither build has."""
    for limit in limits:
        if limit.pattern is not None and not any(limit in its for its in fitting):
            names = "; ".join(kernel.label[:100] for kernel in kernels[:_MOST_NAMED])
            raise UsageError(f"{OPTION} {limit.text!r:.80} matches no kernel", f"there are: {names}")


def _checks(pairs: Iterable[BuildPair], fitting: Iterable[list[CodeLimit]], *, has_base: bool) -> Iterator[GateCheck]:
    """Yield the checks of kernels of the new build, with the limits that are for each pair."""
    for (_, base, new), limits in zip(pairs, fitting, strict=True):
        if new is not None:
            values = values_of(base, new)
            for limit in deciding(limits):
                if base is not None or not has_base or limit.quantity not in _OF_BOTH:
                    yield _check(limit, base, new, values, has_base=has_base)


def _not_compared(limit: CodeLimit, *, in_both: bool = False) -> GateCheck:
    return GateCheck(
        limit=limit.text,
        quantity=limit.quantity,
        pattern=limit.pattern,
        allowed=limit.most,
        kernel=None,
        word="not-compared",
        change=None,
        sentence="no kernel is in both builds" if in_both else "there is no kernel to check",
    )


def _check(
    limit: CodeLimit,
    base: ReviewedKernel | None,
    new: ReviewedKernel,
    values: Iterable[CodeChange],
    *,
    has_base: bool,
) -> GateCheck:
    """Return the worst result of a limit for the values or findings of a kernel."""
    check = replace(_not_compared(limit), kernel=new.id)
    for side in (new, base):
        if side is not None and side.unreviewed is not None and limit.quantity not in _WITHOUT_CODE:
            return replace(check, word="unclear", sentence=side.unreviewed)
    if limit.quantity in LIMITED:
        results = list(_of_values(check, values, has_base=has_base))
    else:
        before = _found(limit, base) if base is not None else []
        results = [_of_finding(check, finding) for finding in _added(before, _found(limit, new))]
    return min(results, key=lambda result: ORDER.index(result.word), default=replace(check, word="ok"))


def _found(limit: CodeLimit, kernel: ReviewedKernel) -> list[Finding]:
    levels = SEVERITIES[: SEVERITIES.index(limit.level) + 1]
    return [item for item in kernel.findings if item.rule == limit.quantity and item.severity in levels]


def _added(base: Sequence[Finding], new: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings that the base does not have. A guess of the base may not have been true."""
    sure_base, sure_new = ([item for item in side if item.confidence != "guess"] for side in (base, new))
    yield from added_findings(sure_base, sure_new)
    yield from [item for item in added_findings(base, new) if item.confidence == "guess"]


def _of_finding(check: GateCheck, finding: Finding) -> GateCheck:
    """Return the result of a finding that the base does not have; a guess is unclear."""
    location = source_line(finding)
    word: GateWord = "unclear" if finding.confidence == "guess" else "regression"
    return replace(check, word=word, sentence=joined_by(": ", line_text(location), finding.headline), location=location)


def _of_values(check: GateCheck, values: Iterable[CodeChange], *, has_base: bool) -> Iterator[GateCheck]:
    limited = LIMITED[check.quantity]
    for value in values:
        if value.name == limited.name:
            excess = _rise(value, limited) if has_base else value.new
            word: GateWord = "ok"
            if excess is None:
                word = "unclear"
            elif value.name == "occupancy" and not has_base:
                word = "regression" if excess < check.allowed else "ok"
            elif exceeds(excess, check.allowed):
                word = "regression"
            place = joined_by(", ", value.of, line_text(value.location))
            text = joined_by(": ", place, limited_text(value, is_added=value.added))
            yield replace(check, word=word, sentence=text, location=value.location)


def _rise(value: CodeChange, limited: LimitedValue) -> float | None:
    """Return the change for the worse; sectors and wavefronts count beyond what a wider access needs."""
    base = 0.0 if value.added else value.base
    if base is None or value.new is None:
        return None
    rise = value.new - base - (value.new_needed or 0.0) + (value.base_needed or 0.0)
    if value.name == "occupancy":
        rise = -rise
    return rise / base if limited.is_relative and base else rise
