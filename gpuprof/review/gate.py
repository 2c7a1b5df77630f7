"""The gate of `gpuprof check`: the limits of --fail-on for each kernel, alone or against another build."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace as replaced
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.comparison.contract import GateCheck, GateWord, SourceLine
from gpuprof.comparison.finding_changes import source_line
from gpuprof.comparison.gate.gate import ORDER, deciding, exceeds, gate_of
from gpuprof.errors import UsageError
from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.kernel_match import kernel_number, kernel_pattern
from gpuprof.model.session import Finding
from gpuprof.review.asked import refuse_files
from gpuprof.review.build_changes import BuildPair, build_pairs, values_of, with_changes
from gpuprof.review.contract import CodeChange, Review, ReviewedKernel
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.limits import LIMITED, OPTION, CodeLimit, code_limits
from gpuprof.words.review_gate import line_text, value_sentence
from gpuprof.words.sentences import joined_by

_WITHOUT_CODE = ("registers", "occupancy")
_SOURCES = (".cu", ".cu.gz")
_MOST_NAMED = 5


InTime = Callable[[], AbstractContextManager[None]]


class GateRequest(NamedTuple):
    """What a review is compared with and checked against: files of the base, limits, and what is unclear."""

    base: tuple[str, ...] = ()
    limits: tuple[CodeLimit, ...] = ()
    unclear_fails: bool = False


def gate_request(
    files: Sequence[str], base: Iterable[str | os.PathLike[str]], fail_on: Iterable[str], unclear: str
) -> GateRequest:
    """Return what `files` are compared with and checked against. Raises UsageError for what cannot be."""
    named = tuple(os.fspath(file) for file in base)
    refuse_files((*files, *named))
    return GateRequest(named, code_limits(list(fail_on), has_base=bool(named)), unclear == "fail")


def judged(
    request: ReviewRequest,
    gate: GateRequest,
    review: Callable[[ReviewRequest], Review],
    in_time: InTime = nullcontext,
) -> Review:
    """Return the review of a request, with what differs from the base and with the gate.

    `in_time` limits how long the expressions of limits may take. Raises UsageError for a limit that names no kernel,
    and what `review` raises for a file.
    """
    result = review(request)
    pairs = [BuildPair("new", None, kernel) for kernel in result.kernels]
    if gate.base:
        base = review(_base_request(request, gate.base))
        pairs = build_pairs(base.kernels, result.kernels)
        if request.kernel is not None and kernel_number(request.kernel) is not None:
            pairs = [pair for pair in pairs if pair.new is not None]
        result = with_changes(result, base, pairs)
    return _with_gate(result, pairs, gate, in_time) if gate.limits else result


def _base_request(request: ReviewRequest, files: tuple[str, ...]) -> ReviewRequest:
    """Return the same request for the base: without what only sources take, and without a kernel's number in NEW."""
    if not any(file.lower().endswith(_SOURCES) for file in files):
        request = replaced(request, defines=(), include_folders=(), standard=None, flags=())
    if request.kernel is not None and kernel_number(request.kernel) is not None:
        request = replaced(request, kernel=None)
    return replaced(request, files=files)


def _with_gate(review: Review, pairs: Sequence[BuildPair], gate: GateRequest, in_time: InTime) -> Review:
    has_base = review.changes is not None
    with in_time():
        fitting = [[limit for limit in gate.limits if _fits(limit, pair)] for pair in pairs]
    checks = []
    idle = set(gate.limits)
    for pair, limits in zip(pairs, fitting, strict=True):
        for limit in deciding(limits):
            if pair.new is not None and (pair.base is not None or not has_base or _is_of_new_kernels(limit)):
                result = _check(limit, pair, pair.new, has_base=has_base)
                checks.append(_gate_check(limit, pair.new.id, result))
                idle.discard(limit)
    for limit in gate.limits:
        if limit.pattern is not None and not any(limit in limits for limits in fitting):
            names = "; ".join(kernel.label[:100] for kernel in review.kernels[:_MOST_NAMED])
            raise UsageError(f"{OPTION} {limit.text!r:.80} matches no kernel", f"there are: {names}")
        if limit in idle:
            checks.append(_gate_check(limit, None, _Result("not-compared", "no kernel is in both builds")))
    return replace(review, gate=gate_of(checks, unclear_fails=gate.unclear_fails))


def _fits(limit: CodeLimit, pair: BuildPair) -> bool:
    if limit.pattern is None:
        return True
    pattern = kernel_pattern(limit.pattern, OPTION)
    return any(pattern.fits(kernel.label, kernel.name) for kernel in (pair.base, pair.new) if kernel is not None)


def _is_of_new_kernels(limit: CodeLimit) -> bool:
    """Return whether a limit is for kernels without a base, too: those had no findings and no spills before."""
    return limit.quantity not in LIMITED or limit.quantity == "spills"


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


def _check(limit: CodeLimit, pair: BuildPair, kernel: ReviewedKernel, *, has_base: bool) -> _Result:
    """Return the worst result of a limit for the values or findings of a kernel."""
    for side in (kernel, pair.base):
        if side is not None and side.unreviewed is not None and limit.quantity not in _WITHOUT_CODE:
            return _Result("unclear", side.unreviewed)
    if limit.quantity in LIMITED:
        results = list(_of_values(limit, values_of(pair.base, kernel), has_base=has_base))
    else:
        results = list(_of_findings(limit, pair.base, kernel))
    return min(results, key=lambda result: ORDER.index(result.word), default=_Result("ok"))


def _of_values(limit: CodeLimit, values: Sequence[CodeChange], *, has_base: bool) -> Iterator[_Result]:
    limited = LIMITED[limit.quantity]
    for value in values:
        if value.name == limited.name:
            word = _word(limit, value) if has_base else _word_alone(limit, value)
            place = joined_by(", ", value.of, line_text(value.location))
            sentence = value_sentence(value, place, limit.most, has_base=has_base, is_relative=limited.is_relative)
            yield _Result(word, sentence, value.location)


def _word_alone(limit: CodeLimit, value: CodeChange) -> GateWord:
    if value.new is None:
        return "unclear"
    if value.name == "occupancy":
        return "regression" if value.new < limit.most else "ok"
    return "regression" if value.new > limit.most else "ok"


def _word(limit: CodeLimit, value: CodeChange) -> GateWord:
    """Check the change of a value; sectors and wavefronts count beyond what a wider access needs."""
    base = 0.0 if value.added else value.base
    if base is None or value.new is None or (value.added and value.of and value.new_needed is None):
        return "unclear"
    rise = value.new - base
    if value.new_needed is not None:
        rise -= value.new_needed - (value.base_needed or 0.0)
    if value.name == "occupancy":
        rise = -rise
    if LIMITED[limit.quantity].is_relative and base:
        rise /= base
    return "regression" if exceeds(rise, limit.most) else "ok"


def _of_findings(limit: CodeLimit, base: ReviewedKernel | None, new: ReviewedKernel) -> Iterator[_Result]:
    """Yield the findings that the base does not have; a guess is unclear."""
    before = _found(limit, base) if base is not None else []
    for finding in _found(limit, new)[len(before) :]:
        location = source_line(finding)
        text = joined_by(" at ", finding.headline, line_text(location))
        yield _Result("unclear" if finding.confidence == "guess" else "regression", text, location)


def _found(limit: CodeLimit, kernel: ReviewedKernel) -> list[Finding]:
    levels = SEVERITIES[: SEVERITIES.index(limit.level) + 1]
    return [item for item in kernel.findings if item.rule == limit.quantity and item.severity in levels]
