"""What a comparison has to report at a line of code: limits that do not hold, slower kernels, findings that came."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import FindingChange, Gate, GateCheck, KernelChange, SourceLine
from gpuprof.comparison.finding_changes import source_line
from gpuprof.comparison.pair import Pair
from gpuprof.model.session import Finding, KernelProfile
from gpuprof.present.compare_options import CompareOptions
from gpuprof.privacy.source_files import path_in_repository
from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.words.file_names import file_name
from gpuprof.words.sentences import full_stop, sentences

ProblemLevel = Literal["error", "warning", "note"]
LEVELS: tuple[ProblemLevel, ...] = get_args(ProblemLevel)
REGRESSION, ACCEPTED, UNCLEAR, SLOWER = "gate-regression", "gate-accepted", "gate-unclear", "kernel-slower"
"""Rules of the comparison; the others are the diagnosis'."""
_EXIT_UNCLEAR = 7
"""Exit code of a gate that fails for what is unclear, as `Gate.exit_code` has it."""
_LAST_LINE = 2**31 - 1
"""The largest line number that readers of the formats accept: a signed 32-bit integer."""
_PROFILES = 50
"""Launches of a kernel whose files are looked through: all have the same code."""
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
    """Return what is to be reported, errors first, each level in the order of the kernels; no two have one key."""
    paired = list(zip(compared.comparison.kernels, compared.pairs, strict=False))
    by_id: dict[int | None, tuple[KernelChange, Pair]] = {kernel.id: (kernel, pair) for kernel, pair in paired}
    gate = compared.comparison.gate
    listed = [_of_check(check, gate, by_id.get(check.kernel), options) for check in gate.checks] if gate else []
    judged = {check.kernel for check in gate.checks if check.word in ("regression", "accepted")} if gate else set()
    for kernel, pair in paired:
        if kernel.time.verdict == "slower" and kernel.id not in judged:
            listed.append(_of_slower(kernel, pair, options))
    listed += [problem for kernel, pair in paired for problem in _of_findings(kernel, pair, options)]
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
    return full_stop(_shown(text))


def _shown(text: str) -> str:
    return cut_end(printable(text).strip(), _TEXT_WIDTH)


def _of_check(
    check: GateCheck, gate: Gate, checked: tuple[KernelChange, Pair] | None, options: CompareOptions
) -> Problem:
    kernel = checked[0] if checked is not None else None
    name = kernel_name(kernel) if kernel is not None else "the whole run"
    accepted = f"Accepted: {check.accepted}" if check.accepted else ""
    rule = REGRESSION if check.word == "regression" else ACCEPTED if check.word == "accepted" else UNCLEAR
    fails_gate = fails(check, gate)
    problem = Problem(
        rule=rule,
        level="error" if fails_gate else "note",
        title=f"{name}: {_GATE_WORDS[check.word]} of {cut_end(printable(check.limit), _NAME_WIDTH)}",
        message=_message(name, check.sentence, kernel.sentence if kernel is not None else "", accepted),
        key=_hashed(rule, _subject(check), *_identity(kernel)),
        told=not fails_gate,
    )
    return _placed(problem, candidates(*checked), options) if checked is not None and fails_gate else problem


def _subject(check: GateCheck) -> str:
    """Return the kernels and the quantity of a limit, without the rise that it allows."""
    return f"{check.pattern}={check.quantity}" if check.pattern is not None else check.quantity


_GATE_WORDS = {
    "regression": "regression", "accepted": "accepted regression", "unclear": "unclear result",
    "not-compared": "no comparison",
}  # fmt: skip


def _of_slower(kernel: KernelChange, pair: Pair, options: CompareOptions) -> Problem:
    name = kernel_name(kernel)
    problem = Problem(
        rule=SLOWER,
        level="warning",
        title=f"{name} is slower",
        message=_message(name, kernel.sentence),
        key=_hashed(SLOWER, *_identity(kernel)),
    )
    return _placed(problem, candidates(kernel, pair), options)


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
        place = source_line(finding) if finding is not None else None
        yield _placed(problem, finding_candidates(pair, change, place), options)


def _finding(pair: Pair, change: FindingChange) -> Finding | None:
    """Return the finding of the new side of a change."""
    every = (finding for kernel in pair.new for profile in kernel.profiles for finding in profile.findings)
    return next((finding for finding in every if finding.id == change.id), None)


def _placed(problem: Problem, places: Iterable[SourceLine], options: CompareOptions) -> Problem:
    """Return a problem with its line: the first candidate that is in the repository."""
    outside = False
    for place in places:
        path = path_in_repository(place.file, options.root, options.path_maps)
        if path is not None and 1 <= place.line <= _LAST_LINE:
            return replace(problem, place=SourceLine(path, place.line))
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


def _message(name: str, *texts: str) -> str:
    """Return sentences about a kernel as one text, each once."""
    message = sentences(dict.fromkeys(map(_shown, texts)))
    return f"{name}: {message}" if message else f"{name}."


def _hashed(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()


def candidates(kernel: KernelChange, pair: Pair) -> Iterator[SourceLine]:
    """Yield places of a kernel on the new side, files as its report names them.

    The line of what makes it slower, the lines that do more than before, those of other causes and of findings that
    came, and last its hottest line. A comparison names a file without its folders; the report has them.
    """
    profiles = _profiles(pair)
    files = _files(profiles)
    yield from _known([cause.location for cause in kernel.causes if cause.direction == "slower"], files)
    for line in kernel.lines:
        if line.new_line is not None and (line.new or 0.0) > (line.base or 0.0):
            yield from _whole(SourceLine(line.file, line.new_line), files)
    yield from _known([cause.location for cause in kernel.causes if cause.direction != "slower"], files)
    yield from _known([change.location for change in kernel.findings if change.word == "came"], files)
    for profile in profiles[:1]:
        yield from _hottest(profile)


def finding_candidates(pair: Pair, change: FindingChange, place: SourceLine | None) -> Iterator[SourceLine]:
    """Yield the place of a finding that came: what the report has of it, else what the comparison says."""
    if place is not None:
        yield place
    else:
        yield from _known([change.location], _files(_profiles(pair)))


def _profiles(pair: Pair) -> list[KernelProfile]:
    return [profile for side in pair.new for profile in (side.representative, *side.profiles[:_PROFILES])]


def _known(lines: Iterable[SourceLine | None], files: Sequence[str]) -> Iterator[SourceLine]:
    for line in lines:
        if line is not None:
            yield from _whole(line, files)


def _whole(place: SourceLine, files: Sequence[str]) -> Iterator[SourceLine]:
    """Yield a place with the folders of its file, if only the name is given and one file of the report has it."""
    if file_name(place.file) != place.file:
        yield place
        return
    fitting = [file for file in files if file_name(file) == place.file and file != place.file]
    if len(fitting) < 2:
        yield SourceLine(fitting[0], place.line) if fitting else place


def _files(profiles: Sequence[KernelProfile]) -> tuple[str, ...]:
    """Return the source files that the report of a kernel names."""
    files: dict[str, None] = {}
    for profile in profiles:
        files.update(dict.fromkeys(line.file for line in profile.lines))
        files.update(dict.fromkeys(excerpt.file for excerpt in profile.excerpts if excerpt.file))
        places = (finding.place for finding in profile.findings)
        files.update(dict.fromkeys(place.file for place in places if place is not None and place.file))
    return tuple(files)


def _hottest(profile: KernelProfile) -> Iterator[SourceLine]:
    """Yield the source line of a kernel with most weight."""
    hot = [
        (line.share, excerpt.file, line.number)
        for excerpt in profile.excerpts
        if excerpt.language == "source" and excerpt.file
        for line in excerpt.lines
        if line.number is not None
    ]
    if hot:
        _, file, number = max(hot, key=lambda place: place[0])
        yield SourceLine(file, number)
    elif profile.lines:
        most = max(profile.lines, key=lambda line: (line.samples or 0.0, line.instructions or 0.0))
        yield SourceLine(most.file, most.number)
