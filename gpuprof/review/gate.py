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
from gpuprof.review.asked import refuse_files
from gpuprof.review.build_changes import BuildPair, added_findings, build_pairs, values_of, with_changes
from gpuprof.review.contract import CodeChange, Review, ReviewedKernel
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.limits import LIMITED, OPTION, CodeLimit, LimitedValue, code_limits
from gpuprof.words.review_gate import line_text, value_sentence
from gpuprof.words.sentences import joined_by

_WITHOUT_CODE = ("registers", "occupancy")
_OF_BOTH = LIMITED.keys() - {"spills"}
"""Limits that only a kernel with a base can exceed; findings and spills of a new one are new."""
_SOURCES = (".cu", ".cu.gz")
_MOST_NAMED = 5


class GateRequest(NamedTuple):
    """What a review is compared with and checked against: files of the base, limits, and whether unclear ones fail."""

    base: tuple[str, ...] = ()
    limits: tuple[CodeLimit, ...] = ()
    unclear_fails: bool = False


def gate_request(
    request: ReviewRequest, base: Iterable[str | os.PathLike[str]], fail_on: Iterable[str], unclear: str
) -> GateRequest:
    """Return what a review is compared with and checked against. Raises UsageError for what cannot be."""
    files = tuple(os.fspath(file) for file in base)
    refuse_files((*request.files, *files))
    if files and request.kernel is not None:
        name_patterns([request.kernel], "--kernel")
    return GateRequest(files, code_limits(fail_on, has_base=bool(files)), unclear == "fail")


def judged(request: ReviewRequest, gate: GateRequest, review: Callable[[ReviewRequest], Review]) -> Review:
    """Return the review of a request, with what differs from the base and with the gate.

    Raises UsageError for a limit that names no kernel, and what `review` raises for a file.
    """
    result = review(request)
    pairs = [BuildPair("new", None, kernel) for kernel in result.kernels]
    if gate.base:
        old = replaced(request, files=gate.base)
        if not any(file.lower().endswith(_SOURCES) for file in gate.base):
            old = replaced(old, defines=(), include_folders=(), standard=None, flags=())
        base = review(old)
        pairs = build_pairs(base.kernels, result.kernels)
        result = with_changes(result, base, pairs)
    if not gate.limits:
        return result
    with request.in_time():
        fitting = [[limit for limit in gate.limits if _fits(limit, pair)] for pair in pairs]
    checks = list(_checks(result, gate.limits, list(zip(pairs, fitting, strict=True))))
    return replace(result, gate=gate_of(checks, unclear_fails=gate.unclear_fails))


def _checks(
    review: Review, limits: Iterable[CodeLimit], fitting: Sequence[tuple[BuildPair, Sequence[CodeLimit]]]
) -> Iterator[GateCheck]:
    """Yield the check of each limit for each kernel that it is for; `fitting` are those for a pair."""
    has_base = review.changes is not None
    idle = set(limits)
    for pair, its in fitting:
        for limit in deciding(its):
            if pair.new is not None and (pair.base is not None or not has_base or limit.quantity not in _OF_BOTH):
                idle.discard(limit)
                yield _gate_check(limit, pair.new.id, _check(limit, pair.base, pair.new, has_base=has_base))
    for limit in limits:
        if limit.pattern is not None and not any(limit in its for _, its in fitting):
            names = "; ".join(kernel.label[:100] for kernel in review.kernels[:_MOST_NAMED])
            raise UsageError(f"{OPTION} {limit.text!r:.80} matches no kernel", f"there are: {names}")
        if limit in idle:
            yield _gate_check(limit, None, _Result("not-compared", "no kernel is in both builds"))


def _fits(limit: CodeLimit, pair: BuildPair) -> bool:
    if limit.pattern is None:
        return True
    pattern = kernel_pattern(limit.pattern, OPTION)
    return any(pattern.fits(kernel.label, kernel.name) for kernel in (pair.base, pair.new) if kernel is not None)


class _Result(NamedTuple):
    """The result of a limit, and the reason in words."""

    word: GateWord
    sentence: str = ""
    location: SourceLine | None = None


def _gate_check(limit: CodeLimit, kernel: int | None, result: _Result) -> GateCheck:
    return GateCheck(
        limit=limit.text,
        quantity=limit.quantity,
        pattern=limit.pattern,
        allowed=limit.most,
        kernel=kernel,
        word=result.word,
        change=None,
        sentence=result.sentence,
        location=result.location,
    )


def _check(limit: CodeLimit, base: ReviewedKernel | None, new: ReviewedKernel, *, has_base: bool) -> _Result:
    """Return the worst result of a limit for the values or findings of a kernel."""
    for side in (new, base):
        if side is not None and side.unreviewed is not None and limit.quantity not in _WITHOUT_CODE:
            return _Result("unclear", side.unreviewed)
    if limit.quantity in LIMITED:
        results = list(_of_values(limit, values_of(base, new), has_base=has_base))
    else:
        before = _found(limit, base) if base is not None else []
        results = list(map(_of_finding, added_findings(before, _found(limit, new))))
    return min(results, key=lambda result: ORDER.index(result.word), default=_Result("ok"))


def _found(limit: CodeLimit, kernel: ReviewedKernel) -> list[Finding]:
    levels = SEVERITIES[: SEVERITIES.index(limit.level) + 1]
    return [item for item in kernel.findings if item.rule == limit.quantity and item.severity in levels]


def _of_finding(finding: Finding) -> _Result:
    """Return the result of a finding that the base does not have; a guess is unclear."""
    location = source_line(finding)
    text = joined_by(" at ", finding.headline, line_text(location))
    return _Result("unclear" if finding.confidence == "guess" else "regression", text, location)


def _of_values(limit: CodeLimit, values: Sequence[CodeChange], *, has_base: bool) -> Iterator[_Result]:
    limited = LIMITED[limit.quantity]
    for value in values:
        if value.name == limited.name:
            excess = _rise(value, limited) if has_base else value.new
            word: GateWord = "ok"
            if excess is None:
                word = "unclear"
            elif value.name == "occupancy" and not has_base:
                word = "regression" if excess < limit.most else "ok"
            elif exceeds(excess, limit.most):
                word = "regression"
            place = joined_by(", ", value.of, line_text(value.location))
            sentence = value_sentence(value, place, limit.most, has_base=has_base, is_relative=limited.is_relative)
            yield _Result(word, sentence, value.location)


def _rise(value: CodeChange, limited: LimitedValue) -> float | None:
    """Return the change for the worse; sectors and wavefronts count beyond what a wider access needs."""
    base = 0.0 if value.added else value.base
    if base is None or value.new is None:
        return None
    rise = value.new - base - (value.new_needed or 0.0) + (value.base_needed or 0.0)
    if value.name == "occupancy":
        rise = -rise
    return rise / base if limited.is_relative and base else rise
