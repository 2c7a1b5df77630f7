"""What a comparison has to report at a line of code: limits that do not hold, slower kernels, findings that came."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import FindingChange, Gate, GateCheck, KernelChange, SourceLine
from gpuprof.comparison.pair import Pair
from gpuprof.model.session import Finding
from gpuprof.present.compare_lines import candidates, finding_candidates, place_in_repository
from gpuprof.present.compare_options import CompareOptions
from gpuprof.present.text import cut_end, cut_middle, printable
from gpuprof.words.comparison_values import closed, joined

ProblemLevel = Literal["error", "warning", "note"]
LEVELS: tuple[ProblemLevel, ...] = get_args(ProblemLevel)
REGRESSION, ACCEPTED, UNCLEAR, SLOWER = "gate-regression", "gate-accepted", "gate-unclear", "kernel-slower"
"""Rules of the comparison; the others are the diagnosis'."""
_EXIT_UNCLEAR = 7
"""Exit code of a gate that fails for what is unclear, as `Gate.exit_code` has it."""
_NAME_WIDTH, _TEXT_WIDTH = 120, 600
_FINDING_LEVELS: dict[str, ProblemLevel] = {"high": "warning", "medium": "warning", "low": "note"}
"""A finding of severity info is nothing to fix and is not reported."""


class Problem(Struct, frozen=True):
    """One thing to report. `place` is where in the repository; None: nowhere, for files `outside` or for no line.

    `key` is the same in each run for the same rule and kernel, whatever the numbers. `told` marks what is no alarm: an
    accepted regression, or an unclear limit that fails no gate.
    """

    rule: str
    level: ProblemLevel
    title: str
    message: str
    key: str
    place: SourceLine | None = None
    outside: bool = False
    told: bool = False


def problems(compared: Compared, options: CompareOptions) -> list[Problem]:
    """Return what is to be reported, errors first, each level by effect on the total; no two have one key."""
    paired = list(zip(compared.comparison.kernels, compared.pairs, strict=False))
    by_id = {kernel.id: (kernel, pair) for kernel, pair in paired}
    gate = compared.comparison.gate
    checks = gate.checks if gate is not None else ()
    judged = {check.kernel for check in checks if check.word in ("regression", "accepted")}
    listed = [
        *(_of_check(check, gate, by_id, options) for check in checks if check.word != "ok"),
        *(_of_slower(kernel, pair, options) for kernel, pair in paired if _is_slower(kernel, judged)),
        *(problem for kernel, pair in paired for problem in _of_findings(kernel, pair, options)),
    ]
    listed.sort(key=lambda problem: (LEVELS.index(problem.level), problem.told))
    return list(_with_own_keys(listed))


def _with_own_keys(listed: Iterable[Problem]) -> Iterator[Problem]:
    seen: Counter[str] = Counter()
    for problem in listed:
        seen[problem.key] += 1
        number = seen[problem.key]
        yield replace(problem, key=_hashed(problem.key, str(number))) if number > 1 else problem


def fails(check: GateCheck, gate: Gate) -> bool:
    """Return whether a check fails the gate: a regression, and an unclear one if the gate fails for that alone."""
    if check.word == "regression":
        return True
    return gate.exit_code == _EXIT_UNCLEAR and check.word in ("unclear", "not-compared")


def kernel_name(kernel: KernelChange) -> str:
    """Return a kernel's short name, safe to print and not too long."""
    return cut_middle(printable(kernel.label), _NAME_WIDTH)


def sentence(text: str) -> str:
    """Return a text of the comparison safe to print, not too long, and with a full stop."""
    return closed(_shown(text))


def _shown(text: str) -> str:
    return cut_end(printable(text).strip(), _TEXT_WIDTH)


def _of_check(
    check: GateCheck, gate: Gate | None, by_id: Mapping[int, tuple[KernelChange, Pair]], options: CompareOptions
) -> Problem:
    kernel, pair = by_id.get(check.kernel, (None, None)) if check.kernel is not None else (None, None)
    name = kernel_name(kernel) if kernel is not None else "the whole run"
    told = (check.sentence, kernel.sentence if kernel is not None else "", _accepted_text(check))
    limit = cut_end(printable(check.limit), _NAME_WIDTH)
    rule = REGRESSION if check.word == "regression" else ACCEPTED if check.word == "accepted" else UNCLEAR
    fails_gate = gate is not None and fails(check, gate)
    problem = Problem(
        rule=rule,
        level="error" if fails_gate else "note",
        title=f"{name}: {_GATE_WORDS[check.word]} of {limit}",
        message=_message(name, *told),
        key=_hashed(rule, _subject(check), *_identity(kernel)),
        told=not fails_gate,
    )
    return problem if problem.told else _placed(problem, kernel, pair, options)


def _subject(check: GateCheck) -> str:
    """Return the kernels and the quantity of a limit, without the rise that it allows."""
    return f"{check.pattern}={check.quantity}" if check.pattern is not None else check.quantity


_GATE_WORDS = {
    "regression": "regression", "accepted": "accepted regression", "unclear": "unclear result",
    "not-compared": "no comparison",
}  # fmt: skip


def _is_slower(kernel: KernelChange, judged: Collection[int | None]) -> bool:
    """Return whether a kernel is slower and the gate has not said so."""
    return kernel.time.verdict == "slower" and kernel.id not in judged


def _of_slower(kernel: KernelChange, pair: Pair, options: CompareOptions) -> Problem:
    name = kernel_name(kernel)
    problem = Problem(
        rule=SLOWER,
        level="warning",
        title=f"{name} is slower",
        message=_message(name, kernel.sentence),
        key=_hashed(SLOWER, *_identity(kernel)),
    )
    return _placed(problem, kernel, pair, options)


def _of_findings(kernel: KernelChange, pair: Pair, options: CompareOptions) -> Iterator[Problem]:
    name = kernel_name(kernel)
    for change in kernel.findings:
        if change.word != "came" or change.severity not in _FINDING_LEVELS:
            continue
        finding = _finding(pair, change)
        how = (finding.why, finding.action) if finding is not None else ()
        problem = Problem(
            rule=change.rule,
            level=_FINDING_LEVELS[change.severity],
            title=f"{name}: {change.rule} came",
            message=_message(name, change.new, *how),
            key=_hashed(change.rule, *_identity(kernel)),
        )
        place = _finding_place(finding)
        yield _placed(problem, kernel, pair, options, (change, place))


def _finding(pair: Pair, change: FindingChange) -> Finding | None:
    """Return the finding of the new side of a change."""
    every = (finding for kernel in pair.new for profile in kernel.profiles for finding in profile.findings)
    return next((finding for finding in every if finding.id == change.id), None)


def _finding_place(finding: Finding | None) -> SourceLine | None:
    location = finding.place if finding is not None else None
    if location is None or location.file is None or location.line is None:
        return None
    return SourceLine(location.file, location.line)


def _placed(
    problem: Problem,
    kernel: KernelChange | None,
    pair: Pair | None,
    options: CompareOptions,
    finding: tuple[FindingChange, SourceLine | None] | None = None,
) -> Problem:
    """Return a problem with its line: the first candidate that is in the repository."""
    if kernel is None or pair is None:
        return problem
    outside = False
    for place in candidates(kernel, pair) if finding is None else finding_candidates(pair, *finding):
        inside = place_in_repository(place, options)
        if inside is not None:
            return replace(problem, place=inside)
        outside = True
    return replace(problem, outside=outside)


def _identity(kernel: KernelChange | None) -> tuple[str, ...]:
    """Return what a kernel is known by in each run: its name, ranges and launch configuration."""
    if kernel is None:
        return ("run",)
    side = (*kernel.new, *kernel.base)
    if not side:
        return (kernel.label,)
    return (side[0].demangled, *side[0].ranges, str(side[0].grid), str(side[0].block))


def _accepted_text(check: GateCheck) -> str:
    return f"Accepted: {check.accepted}" if check.accepted else ""


def _message(name: str, *texts: str) -> str:
    """Return sentences about a kernel as one text, each once."""
    message = joined(dict.fromkeys(map(_shown, texts)))
    return f"{name}: {message}" if message else f"{name}."


def _hashed(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()
