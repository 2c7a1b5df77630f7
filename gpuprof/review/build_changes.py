"""Compare the kernels of two builds: pair them, and list the values and findings that differ."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from gpuprof.comparison.contract import FindingChange, FindingWord, SourceLine
from gpuprof.comparison.finding_changes import source_line
from gpuprof.model.kernel_names import parse_name, unnumbered
from gpuprof.model.session import Finding
from gpuprof.review.contract import (
    BuildChange,
    BuildChanges,
    BuildMatch,
    CodeAccess,
    CodeChange,
    CodeLoop,
    Review,
    ReviewedKernel,
)

_HASH = re.compile(r"[0-9a-f]{8,}")
"""nvcc puts hashes of the file's path and text into the names of static kernels."""
_ALIKE, _ALIKE_IN_NAME = 0.8, 0.5
"""Least share of instructions with the same opcodes; the lower one for kernels of the same function."""
_MOST_COMPARED = 100_000
_MOST_ALIGNED = 40_000
"""Largest products of two lengths: pairs of kernels, and lines, whose alignment takes their square or more."""
_Item = TypeVar("_Item")


class BuildPair(NamedTuple):
    """A kernel in the base and in the new build; None on the side that lacks it."""

    match: BuildMatch
    base: ReviewedKernel | None
    new: ReviewedKernel | None


def with_changes(review: Review, base: Review, pairs: Sequence[BuildPair]) -> Review:
    """Return a review with what differs from the base."""
    kernels = tuple(map(_build_change, pairs))
    return replace(review, changes=BuildChanges(files=base.files, kernels=kernels, notes=base.notes))


def build_pairs(base: Sequence[ReviewedKernel], new: Sequence[ReviewedKernel]) -> list[BuildPair]:
    """Pair kernels of the same architecture: in the order of the new build, then those that are gone."""
    left = list(base)
    pairs: dict[int, BuildPair] = {}
    for match, key in _KEYS:
        groups: defaultdict[Hashable, list[ReviewedKernel]] = defaultdict(list)
        for kernel in left:
            groups[key(kernel)].append(kernel)
        for kernel in new:
            if kernel.id not in pairs and groups[key(kernel)]:
                pairs[kernel.id] = BuildPair(match, groups[key(kernel)].pop(0), kernel)
        left = [kernel for group in groups.values() for kernel in group]
    unpaired = [kernel for kernel in new if kernel.id not in pairs]
    for before, after in _similar(left, unpaired):
        left.remove(before)
        pairs[after.id] = BuildPair("similar", before, after)
    ordered = [pairs.get(kernel.id, BuildPair("new", None, kernel)) for kernel in new]
    return [*ordered, *(BuildPair("gone", kernel, None) for kernel in left)]


_KEYS: tuple[tuple[BuildMatch, Callable[[ReviewedKernel], Hashable]], ...] = (
    ("exact", lambda kernel: (kernel.target, kernel.name, kernel.block, kernel.grid)),
    ("exact", lambda kernel: (kernel.target, kernel.name)),
    ("renamed", lambda kernel: (kernel.target, _HASH.sub("", kernel.mangled))),
    ("renamed", lambda kernel: (kernel.target, unnumbered(kernel.name)[0])),
)


def _similar(
    base: Sequence[ReviewedKernel], new: Sequence[ReviewedKernel]
) -> Iterator[tuple[ReviewedKernel, ReviewedKernel]]:
    """Yield kernels with nearly the same opcodes, those of the same function and the most alike first."""
    if len(base) * len(new) > _MOST_COMPARED:
        return
    candidates = []
    for before in base:
        for after in new:
            same_name = parse_name(before.name).base == parse_name(after.name).base
            likeness = _likeness(before, after) if before.target == after.target else 0.0
            if likeness >= (_ALIKE_IN_NAME if same_name else _ALIKE):
                candidates.append((same_name, likeness, before, after))
    candidates.sort(key=lambda candidate: candidate[:2], reverse=True)
    paired: set[tuple[str, int]] = set()
    for *_, before, after in candidates:
        sides = {("base", before.id), ("new", after.id)}
        if paired.isdisjoint(sides):
            paired |= sides
            yield before, after


def _likeness(base: ReviewedKernel, new: ReviewedKernel) -> float:
    """Return the instructions that both have by opcode ÷ those that either has."""
    before, after = (Counter({item.opcode: item.count for item in side.opcodes}) for side in (base, new))
    return (before & after).total() / max((before | after).total(), 1)


def _build_change(pair: BuildPair) -> BuildChange:
    kernel = pair.new or pair.base
    assert kernel is not None, "a pair has a kernel"
    values = values_of(pair.base, pair.new) if pair.base is not None and pair.new is not None else ()
    return BuildChange(
        kernel=pair.new.id if pair.new is not None else None,
        label=kernel.label,
        target=kernel.target,
        match=pair.match,
        name=pair.base.name if pair.base is not None else None,
        values=tuple(value for value in values if value.base != value.new),
        findings=tuple(finding_changes(pair.base, pair.new)),
    )


def values_of(base: ReviewedKernel | None, new: ReviewedKernel) -> list[CodeChange]:
    """Return the values of a kernel in both builds, changed or not; without a base those of the new build."""
    before = _kernel_values(base) if base is not None else {}
    values = []
    for name, (value, unit) in _kernel_values(new).items():
        old, _ = before.get(name, (None, unit))
        values.append(CodeChange(name=name, unit=unit, base=old, new=value, added=base is None))
    for loop, after in _aligned(base.loops if base is not None else (), new.loops, lambda loop: loop.depth):
        if loop is not None and after is not None:
            values.append(_loop_change(loop, after))
    base_lines = _lines_of(base.accesses) if base is not None else []
    for line, new_line in _aligned(base_lines, _lines_of(new.accesses), lambda line: (line[0].space, line[0].kind)):
        if new_line is not None:
            values += _access_changes(line or [], new_line)
    return list(dict.fromkeys(values))


def _kernel_values(kernel: ReviewedKernel) -> Mapping[str, tuple[float | None, str]]:
    """Return the values of a whole kernel by name, with their units."""
    resources = kernel.resources
    spills = resources.spills
    return {
        "registers": (resources.registers, ""),
        "shared-memory": (resources.static_shared_bytes, "B"),
        "stack-bytes": (resources.stack_bytes, "B"),
        "spilled-bytes": (spills.load_bytes + spills.store_bytes if spills is not None else None, "B"),
        "occupancy": (kernel.occupancy.fraction if kernel.occupancy is not None else None, "fraction"),
        "instructions": (resources.instructions, ""),
    }


def _aligned(
    base: Sequence[_Item], new: Sequence[_Item], key: Callable[[_Item], Hashable]
) -> Iterator[tuple[_Item | None, _Item | None]]:
    """Yield the items of both sides in order, those with equal keys together: line numbers may have moved."""
    before: list[Hashable] = list(map(key, base))
    after: list[Hashable] = list(map(key, new))
    if before != after and len(before) * len(after) > _MOST_ALIGNED:
        before = list(_numbered(before))
        after = list(_numbered(after))
    for word, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if word == "equal":
            yield from zip(base[i1:i2], new[j1:j2], strict=True)
        else:
            yield from ((item, None) for item in base[i1:i2])
            yield from ((None, item) for item in new[j1:j2])


def _numbered(keys: Iterable[Hashable]) -> Iterator[Hashable]:
    """Yield keys that differ, each with how often it was there: they align in linear time."""
    seen: Counter[Hashable] = Counter()
    for key in keys:
        seen[key] += 1
        yield key, seen[key]


def _loop_change(base: CodeLoop, new: CodeLoop) -> CodeChange:
    return CodeChange(
        name="loop-instructions",
        of="loop",
        base=base.instructions,
        new=new.instructions,
        location=_location(new),
    )


def _location(item: CodeLoop | CodeAccess) -> SourceLine | None:
    return SourceLine(item.file, item.line) if item.file is not None and item.line is not None else None


def _lines_of(accesses: Iterable[CodeAccess]) -> list[list[CodeAccess]]:
    """Return the accesses of each source line and kind in the order of the lines, those of unknown and high cost first.

    Local memory is left out: its accesses are spills and arrays of the stack.
    """
    lines: defaultdict[tuple[str, int, str, str], list[CodeAccess]] = defaultdict(list)
    for access in accesses:
        if access.space != "local":
            lines[access.file or "", access.line or 0, access.space, access.kind].append(access)
    return [sorted(lines[key], key=_rank, reverse=True) for key in sorted(lines)]


def _rank(access: CodeAccess) -> float:
    passes = _passes(access)
    return passes if passes is not None else math.inf


def _passes(access: CodeAccess) -> float | None:
    """Return the sectors of a request or, of shared memory, its wavefronts."""
    return access.wavefronts_per_request if access.space == "shared" else access.sectors_per_request


def _access_changes(base: Sequence[CodeAccess], new: Sequence[CodeAccess]) -> Iterator[CodeChange]:
    """Yield the costs of accesses of a line, paired by their rank: compilers reorder and unroll them."""
    for index, access in enumerate(new):
        before = base[index * len(base) // len(new)] if base else None
        if before is not None and before.unknown and before.unknown == access.unknown:
            continue
        yield CodeChange(
            name="wavefronts-per-request" if access.space == "shared" else "sectors-per-request",
            of=f"{access.space} {access.kind}",
            base=_passes(before) if before is not None else None,
            new=_passes(access),
            base_needed=before.needed_per_request if before is not None else None,
            new_needed=access.needed_per_request,
            location=_location(access),
            added=before is None,
        )


def finding_changes(base: ReviewedKernel | None, new: ReviewedKernel | None) -> Iterator[FindingChange]:
    """Yield the findings that went and that came, by rule and their order; one of one side alone is new or gone."""
    sides = [_by_rule(side.findings if side is not None else ()) for side in (base, new)]
    words: tuple[FindingWord, FindingWord] = ("went", "came")
    for word, own, other in zip(words, sides, reversed(sides), strict=True):
        for rule, findings in own.items():
            for finding in findings[len(other[rule]) :]:
                yield _finding_change(word, finding)


def _by_rule(findings: Iterable[Finding]) -> defaultdict[str, list[Finding]]:
    rules: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        rules[finding.rule].append(finding)
    return rules


def _finding_change(word: FindingWord, finding: Finding) -> FindingChange:
    return FindingChange(
        word=word,
        id=finding.id,
        rule=finding.rule,
        severity=finding.severity,
        base=finding.headline if word == "went" else "",
        new=finding.headline if word == "came" else "",
        promised=None,
        gained=None,
        location=source_line(finding),
    )
