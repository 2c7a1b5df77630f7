"""The problems of a comparison: exceeded limits, slower kernels, findings that came, at their lines of code."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import FindingChange, Gate, GateCheck, KernelChange, SourceLine
from gpuprof.comparison.finding_changes import source_line
from gpuprof.comparison.pair import Pair
from gpuprof.model.session import Finding, KernelProfile
from gpuprof.privacy.source_files import path_in_repository
from gpuprof.views.exports.problems import (
    ACCEPTED,
    LEVELS,
    REGRESSION,
    SLOWER,
    UNCLEAR,
    Problem,
    ProblemLevel,
    short_limit,
    short_name,
    short_text,
)
from gpuprof.views.options import WriteOptions
from gpuprof.words.file_names import file_name
from gpuprof.words.sentences import sentences

# The largest line number that readers of the formats accept: a signed 32-bit integer.
_LAST_LINE = 2**31 - 1
# All launches of a kernel have the same code; only so many are searched for the names of source files.
_MOST_LAUNCHES = 50
# A finding of severity info is nothing to fix.
_FINDING_LEVELS: dict[str, ProblemLevel] = {"high": "warning", "medium": "warning", "low": "note"}
_CHECKS = {
    "regression": (REGRESSION, "regression"),
    "accepted": (ACCEPTED, "accepted regression"),
    "unclear": (UNCLEAR, "unclear result"),
    "not-compared": (UNCLEAR, "no comparison"),
}
WHOLE_RUN = "the whole run"


def comparison_problems(compared: Compared, options: WriteOptions) -> tuple[Problem, ...]:
    """Return what is to be reported, errors first, each level in the order of the kernels; no two have one key."""
    gate = compared.comparison.gate
    kernels = list(zip(compared.comparison.kernels, compared.pairs, strict=False))
    problems = []
    judged = set()
    if gate is not None:
        by_id: dict[int | None, tuple[KernelChange, Pair]] = {kernel.id: (kernel, pair) for kernel, pair in kernels}
        for check in gate.checks:
            problems.append(_of_check(check, gate, by_id.get(check.kernel), options))
            if check.word in ("regression", "accepted"):
                judged.add(check.kernel)
    for kernel, pair in kernels:
        if kernel.time.verdict == "slower" and kernel.id not in judged:
            problems.append(_of_slower(kernel, pair, options))
    for kernel, pair in kernels:
        problems += _of_findings(kernel, pair, options)
    problems.sort(key=lambda problem: (LEVELS.index(problem.level), not problem.alarm))
    return tuple(_with_own_keys(problems))


def _of_check(
    check: GateCheck, gate: Gate, kernel_and_pair: tuple[KernelChange, Pair] | None, options: WriteOptions
) -> Problem:
    rule, word = _CHECKS[check.word]
    alarm = gate.fails(check)
    kernel = None
    places: Iterable[SourceLine | None] = ()
    texts = [check.sentence]
    if kernel_and_pair is not None:
        kernel = kernel_and_pair[0]
        texts.append(kernel.sentence)
        if alarm:
            places = _places(*kernel_and_pair)
    if check.accepted:
        texts.append(f"Accepted: {check.accepted}")
    subject = check.quantity if check.pattern is None else f"{check.pattern}={check.quantity}"
    level: ProblemLevel = "error" if alarm else "note"
    problem = _problem(kernel, rule, level, f": {word} of {short_limit(check.limit)}", texts, subject)
    return _placed(replace(problem, alarm=alarm), places, options)


def _of_slower(kernel: KernelChange, pair: Pair, options: WriteOptions) -> Problem:
    problem = _problem(kernel, SLOWER, "warning", " is slower", [kernel.sentence])
    return _placed(problem, _places(kernel, pair), options)


def _of_findings(kernel: KernelChange, pair: Pair, options: WriteOptions) -> Iterator[Problem]:
    for change in kernel.findings:
        if change.word != "came" or change.severity not in _FINDING_LEVELS:
            continue
        texts = [change.new]
        place = None
        finding = _finding(pair, change)
        if finding is not None:
            texts += [finding.why, finding.action]
            place = source_line(finding)
        place = place or _with_folder(change.location, _files(_profiles(pair)))
        problem = _problem(kernel, change.rule, _FINDING_LEVELS[change.severity], f": {change.rule} came", texts)
        yield _placed(problem, [place], options)


def _problem(
    kernel: KernelChange | None, rule: str, level: ProblemLevel, title: str, texts: Iterable[str], *subject: str
) -> Problem:
    """Return a problem of a kernel or of the whole run; its message has each text once."""
    name = short_name(kernel.label) if kernel is not None else WHOLE_RUN
    message = sentences(dict.fromkeys(map(short_text, texts)))
    return Problem(
        rule=rule,
        level=level,
        title=f"{name}{title}",
        message=f"{name}: {message}" if message else f"{name}.",
        key=_hashed(rule, *subject, *_identity(kernel)),
    )


def _finding(pair: Pair, change: FindingChange) -> Finding | None:
    for kernel in pair.new:
        for profile in kernel.profiles:
            for finding in profile.findings:
                if finding.id == change.id:
                    return finding
    return None


def _identity(kernel: KernelChange | None) -> tuple[str, ...]:
    """Return what a kernel is known by in each run: its name, ranges and launch configuration."""
    if kernel is None:
        return ("run",)
    for side in (*kernel.new, *kernel.base):
        return (side.demangled, *side.ranges, str(side.grid), str(side.block))
    return (kernel.label,)


def _hashed(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()


def _with_own_keys(problems: Iterable[Problem]) -> Iterator[Problem]:
    seen: Counter[str] = Counter()
    for problem in problems:
        seen[problem.key] += 1
        number = seen[problem.key]
        yield problem if number == 1 else replace(problem, key=_hashed(problem.key, str(number)))


def _placed(problem: Problem, places: Iterable[SourceLine | None], options: WriteOptions) -> Problem:
    """Return a problem with the first of its places that is in the repository."""
    for place in places:
        if place is None:
            continue
        path = path_in_repository(place.file, options.root, options.path_maps)
        if path is not None and 1 <= place.line <= _LAST_LINE:
            return replace(problem, place=SourceLine(path, place.line))
        problem = replace(problem, outside=True)
    return problem


def _places(kernel: KernelChange, pair: Pair) -> Iterator[SourceLine | None]:
    """Yield places of a kernel on the new side, the one that says most first.

    These are the lines of what makes it slower, those that do more than before, those of other causes and of findings
    that came, and its hottest line.
    """
    slower = [cause.location for cause in kernel.causes if cause.direction == "slower"]
    others = [cause.location for cause in kernel.causes if cause.direction != "slower"]
    more = [
        SourceLine(line.file, line.new_line)
        for line in kernel.lines
        if line.new_line is not None and (line.new or 0.0) > (line.base or 0.0)
    ]
    came = [change.location for change in kernel.findings if change.word == "came"]
    profiles = _profiles(pair)
    files = _files(profiles)
    for place in (*slower, *more, *others, *came):
        yield _with_folder(place, files)
    if profiles:
        yield _hottest(profiles[0])


def _profiles(pair: Pair) -> list[KernelProfile]:
    return [profile for side in pair.new for profile in (side.representative, *side.profiles[:_MOST_LAUNCHES])]


def _files(profiles: Sequence[KernelProfile]) -> frozenset[str]:
    """Return the source files that the report of a kernel names."""
    files: set[str | None] = set()
    for profile in profiles:
        files.update(line.file for line in profile.lines)
        files.update(excerpt.file for excerpt in profile.excerpts)
        files.update(finding.place.file for finding in profile.findings if finding.place is not None)
    return frozenset(filter(None, files))


def _with_folder(place: SourceLine | None, files: Iterable[str]) -> SourceLine | None:
    """Return a place with the folder of its file, which a comparison leaves out; None if it may be one of several."""
    if place is None or file_name(place.file) != place.file:
        return place
    fitting = [file for file in files if file_name(file) == place.file and file != place.file]
    if len(fitting) > 1:
        return None
    return SourceLine(fitting[0], place.line) if fitting else place


def _hottest(profile: KernelProfile) -> SourceLine | None:
    """Return the source line of a kernel with most weight."""
    weights = [
        (line.share, SourceLine(excerpt.file, line.number))
        for excerpt in profile.excerpts
        if excerpt.language == "source" and excerpt.file
        for line in excerpt.lines
        if line.number is not None
    ]
    if weights:
        return max(weights, key=lambda weight: weight[0])[1]
    if not profile.lines:
        return None
    most = max(profile.lines, key=lambda line: (line.samples or 0.0, line.instructions or 0.0))
    return SourceLine(most.file, most.number)
