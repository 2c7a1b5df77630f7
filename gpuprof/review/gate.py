"""The gate of `gpuprof check`: the limits of --fail-on for each kernel, alone or against another build."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace as replaced
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.comparison.contract import GateCheck, GateWord, SourceLine
from gpuprof.comparison.finding_changes import source_line
from gpuprof.comparison.gate.gate import ORDER, deciding, exceeds, gate_of
from gpuprof.errors import UsageError
from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.kernel_match import kernel_pattern, name_patterns
from gpuprof.model.session import Finding
from gpuprof.review.build_changes import BuildPair, added_findings, build_change, build_pairs
from gpuprof.review.contract import BuildChanges, CodeChange, Review
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.limits import LIMITED, OF_FILES, OPTION, CodeLimit, code_limits
from gpuprof.review.options import refuse_files
from gpuprof.words.review_gate import limited_text, line_text
from gpuprof.words.sentences import joined_by

_WITHOUT_CODE = ("registers", "occupancy")
_OF_BOTH = LIMITED.keys() - {"spills"}
"""Limits that only a kernel in both builds can exceed. Findings and spills of a new kernel count as added."""
_SOURCES = (".cu", ".cu.gz")
_MOST_NAMED = 5


class _Result(NamedTuple):
    """The result of a limit for a value or a finding, in words, with its line."""

    word: GateWord
    sentence: str = ""
    location: SourceLine | None = None


def gated_review(
    request: ReviewRequest,
    review: Callable[[ReviewRequest], Review],
    *,
    base: Iterable[str | os.PathLike[str]] = (),
    fail_on: Iterable[str] = (),
    unclear: str = "pass",
) -> Review:
    """Return the review of a request, with the changes against a base and the checks of limits.

    Raises UsageError for invalid options before any file is read, and for a limit that matches no kernel. Errors of
    `review` pass through.
    """
    files = tuple(os.fspath(file) for file in base)
    refuse_files((*request.files, *files))
    if files and request.kernel is not None:
        name_patterns([request.kernel.text], "--kernel")
    limits = code_limits(fail_on, has_base=bool(files))
    result = review(request)
    pairs = [BuildPair("new", None, kernel) for kernel in result.kernels]
    old_findings: Sequence[Finding] = ()
    if files:
        old = review(_request_of_base(request, files))
        old_findings = old.findings
        pairs = build_pairs(old.kernels, result.kernels)
        result = replace(result, changes=BuildChanges(files=old.files, kernels=tuple(map(build_change, pairs))))
    if not limits:
        return result
    of_kernels = [limit for limit in limits if limit.quantity not in OF_FILES]
    with request.in_time():
        fitting = [[limit for limit in of_kernels if _fits(limit, pair)] for pair in pairs]
    checks = [*_checks(of_kernels, pairs, fitting)]
    for limit in limits:
        if limit.quantity in OF_FILES:
            checks.append(_check(limit, _of_findings(limit, old_findings, result.findings)))
    return replace(result, gate=gate_of(checks, unclear_fails=unclear == "fail"))


def _request_of_base(request: ReviewRequest, files: tuple[str, ...]) -> ReviewRequest:
    """Return the request for the base; compiler options are kept only if it has sources."""
    old = replaced(request, files=files)
    if any(file.lower().endswith(_SOURCES) for file in files):
        return old
    return replaced(old, defines=(), include_folders=(), standard=None, flags=())


def _fits(limit: CodeLimit, pair: BuildPair) -> bool:
    if limit.pattern is None:
        return True
    pattern = kernel_pattern(limit.pattern, OPTION)
    return any(pattern.fits(kernel.label, kernel.name) for kernel in (pair.base, pair.new) if kernel is not None)


def _checks(
    limits: Iterable[CodeLimit], pairs: Sequence[BuildPair], fitting: Sequence[Sequence[CodeLimit]]
) -> Iterator[GateCheck]:
    """Yield the checks of the kernels of the new build, then a check for each limit that applied to no kernel.

    Raises UsageError for a limit whose pattern matches no kernel of either build.
    """
    decided = set()
    for pair, own in zip(pairs, fitting, strict=True):
        for limit in deciding(own):
            needs_base = limit.of_change and limit.quantity in _OF_BOTH
            if pair.new is not None and (pair.base is not None or not needs_base):
                decided.add(limit)
                yield _check(limit, _results(limit, pair), pair.new.id)
    quantities = {limit.quantity for limit in decided}
    for limit in limits:
        if limit.pattern is not None and all(limit not in own for own in fitting):
            labels = [pair.new.label[:100] for pair in pairs if pair.new is not None]
            there = "; ".join(labels[:_MOST_NAMED])
            raise UsageError(f"{OPTION} {limit.text!r:.80} matches no kernel", f"there are: {there}")
        # A limit for all kernels may apply to none because limits with a pattern, of its quantity, apply to all.
        if limit not in decided and (limit.pattern is not None or limit.quantity not in quantities):
            why = "no kernel is in both builds" if limit.of_change else "there is no kernel to check"
            yield _check(limit, [_Result("not-compared", why)])


def _check(limit: CodeLimit, results: Iterable[_Result], kernel: int | None = None) -> GateCheck:
    """Return the check of a limit with its worst result, for a kernel or for the files; ok if there is no result."""
    worst = min(results, key=lambda result: ORDER.index(result.word), default=_Result("ok"))
    return GateCheck(
        limit=limit.text,
        quantity=limit.quantity,
        pattern=limit.pattern,
        allowed=limit.most,
        kernel=kernel,
        word=worst.word,
        change=None,
        sentence=worst.sentence,
        location=worst.location,
    )


def _results(limit: CodeLimit, pair: BuildPair) -> Iterable[_Result]:
    """Return the results of a limit for the values or findings of a kernel."""
    sides = [side for side in (pair.new, pair.base) if side is not None]
    for side in sides:
        if side.unreviewed is not None and limit.quantity not in _WITHOUT_CODE:
            return [_Result("unclear", side.unreviewed)]
    if limit.quantity in LIMITED:
        return _of_values(limit, pair.values)
    new = pair.new.findings if pair.new is not None else ()
    base = pair.base.findings if pair.base is not None else ()
    return _of_findings(limit, base, new)


def _of_findings(limit: CodeLimit, base: Iterable[Finding], new: Iterable[Finding]) -> Iterator[_Result]:
    """Yield a result for each finding that the base does not have; a guess is unclear."""
    levels = SEVERITIES[: SEVERITIES.index(limit.level) + 1]
    before = [item for item in base if item.rule == limit.quantity and item.severity in levels]
    after = [item for item in new if item.rule == limit.quantity and item.severity in levels]
    for finding in added_findings(before, after):
        location = source_line(finding)
        word: GateWord = "unclear" if finding.confidence == "guess" else "regression"
        yield _Result(word, joined_by(": ", line_text(location), finding.headline), location)


def _of_values(limit: CodeLimit, values: Iterable[CodeChange]) -> Iterator[_Result]:
    for value in values:
        if value.name == LIMITED[limit.quantity].name:
            place = joined_by(", ", value.of, line_text(value.location))
            text = joined_by(": ", place, limited_text(value, is_added=value.added))
            yield _Result(_word(limit, value), text, value.location)


def _word(limit: CodeLimit, value: CodeChange) -> GateWord:
    excess = _rise(limit, value) if limit.of_change else value.new
    if excess is None:
        return "unclear"
    if limit.quantity == "occupancy" and not limit.of_change:
        return "regression" if excess < limit.most else "ok"
    return "regression" if exceeds(excess, limit.most) else "ok"


def _rise(limit: CodeLimit, value: CodeChange) -> float | None:
    """Return the change for the worse. Sectors and wavefronts that wider accesses need do not count."""
    base = 0.0 if value.added else value.base
    if base is None or value.new is None:
        return None
    rise = value.new - base - (value.new_needed or 0.0) + (value.base_needed or 0.0)
    if limit.quantity == "occupancy":
        rise = -rise
    return rise / base if LIMITED[limit.quantity].is_relative and base else rise
