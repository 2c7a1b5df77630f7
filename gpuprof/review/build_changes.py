"""Compare the kernels of two builds: pair them, and list the values and findings that differ."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from gpuprof.comparison.contract import SourceLine
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
_LEAST_ALIKE = 0.8
_SAME_FUNCTION = 0.3
"""Kernels are the same if their instructions have this likeness by opcode; a common function counts as a part of it."""
_MOST_PAIRS = 40_000
"""Most pairs of kernels, or of lines, that are tried: aligning takes their number or more."""
_KEYS: tuple[tuple[BuildMatch, Callable[[ReviewedKernel], Hashable]], ...] = (
    ("exact", lambda kernel: (kernel.target, kernel.name)),
    ("renamed", lambda kernel: (kernel.target, _HASH.sub("", kernel.mangled))),
    ("renamed", lambda kernel: (kernel.target, unnumbered(kernel.name)[0])),
)
_Item = TypeVar("_Item")


class BuildPair(NamedTuple):
    """A kernel in the base and in the new build; None on the side that lacks it."""

    match: BuildMatch
    base: ReviewedKernel | None
    new: ReviewedKernel | None


def with_changes(review: Review, base: Review, pairs: Iterable[BuildPair]) -> Review:
    """Return a review with what differs from the base."""
    return replace(review, changes=BuildChanges(files=base.files, kernels=tuple(map(_build_change, pairs))))


def build_pairs(base: Iterable[ReviewedKernel], new: Sequence[ReviewedKernel]) -> list[BuildPair]:
    """Pair kernels of the same architecture: in the order of the new build, then those that are gone."""
    left = {kernel.id: kernel for kernel in base}
    pairs = {kernel.id: BuildPair("new", None, kernel) for kernel in new}
    for match, key in _KEYS:
        groups: defaultdict[Hashable, list[ReviewedKernel]] = defaultdict(list)
        for kernel in left.values():
            groups[key(kernel)].append(kernel)
        for kernel in new:
            if pairs[kernel.id].base is None and groups[key(kernel)]:
                first = groups[key(kernel)].pop(0)
                pairs[kernel.id] = BuildPair(match, left.pop(first.id), kernel)
    for kernel in new:
        if pairs[kernel.id].base is None and 0 < len(left) * len(new) <= _MOST_PAIRS:
            likeness, number = max((_likeness(other, kernel), -other.id) for other in left.values())
            if likeness >= _LEAST_ALIKE:
                pairs[kernel.id] = BuildPair("similar", left.pop(-number), kernel)
    return [*pairs.values(), *(BuildPair("gone", kernel, None) for kernel in left.values())]


def _likeness(base: ReviewedKernel, new: ReviewedKernel) -> float:
    """Return the instructions that both have by opcode ÷ those that either has; more for the same function."""
    if base.target != new.target:
        return 0.0
    before, after = (Counter({item.opcode: item.count for item in side.opcodes}) for side in (base, new))
    alike = (before & after).total() / max((before | after).total(), 1)
    return alike + _SAME_FUNCTION * (parse_name(base.name).base == parse_name(new.name).base)


def _build_change(pair: BuildPair) -> BuildChange:
    base, new = pair.base, pair.new
    kernel = new or base
    assert kernel is not None, "a pair has a kernel"
    values = values_of(base, new) if base is not None and new is not None else []
    before = base.findings if base is not None else ()
    after = new.findings if new is not None else ()
    return BuildChange(
        kernel=new.id if new is not None else None,
        label=kernel.label,
        match=pair.match,
        name=base.name if base is not None else None,
        values=tuple(value for value in values if value.base != value.new),
        came=tuple(added_findings(before, after)),
        went=tuple(added_findings(after, before)),
    )


def added_findings(base: Iterable[Finding], new: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of each rule beyond as many as the base has."""
    left = Counter(finding.rule for finding in base)
    for finding in new:
        left[finding.rule] -= 1
        if left[finding.rule] < 0:
            yield finding


def values_of(base: ReviewedKernel | None, new: ReviewedKernel) -> list[CodeChange]:
    """Return the values of a kernel in both builds, changed or not; without a base those of the new build."""
    before = _kernel_values(base) if base is not None else {}
    values = []
    for name, value in _kernel_values(new).items():
        unit = _UNITS.get(name, "")
        values.append(CodeChange(name=name, unit=unit, base=before.get(name), new=value, added=base is None))
    for loop, after in _aligned(base.loops if base is not None else (), new.loops, lambda loop: loop.depth):
        if loop is not None:
            change = CodeChange(
                name="loop-instructions",
                of="loop",
                base=loop.instructions,
                new=after.instructions,
                location=_location(after),
            )
            values.append(change)
    lines = _lines_of(base.accesses) if base is not None else []
    for line, new_line in _aligned(lines, _lines_of(new.accesses), lambda line: (line[0].space, line[0].kind)):
        values += _access_changes(line or [], new_line)
    return list(dict.fromkeys(values))


_UNITS = {"shared-memory": "B", "stack-bytes": "B", "spilled-bytes": "B", "occupancy": "fraction"}


def _kernel_values(kernel: ReviewedKernel) -> dict[str, float | None]:
    """Return the values of a whole kernel by name."""
    resources = kernel.resources
    spills = resources.spills
    return {
        "registers": resources.registers,
        "shared-memory": resources.static_shared_bytes,
        "stack-bytes": resources.stack_bytes,
        "spilled-bytes": spills.load_bytes + spills.store_bytes if spills is not None else None,
        "occupancy": kernel.occupancy.fraction if kernel.occupancy is not None else None,
        "instructions": resources.instructions,
    }


def _aligned(
    base: Sequence[_Item], new: Sequence[_Item], key: Callable[[_Item], Hashable]
) -> Iterator[tuple[_Item | None, _Item]]:
    """Yield the items of the new side in order, each with that of the base: line numbers may have moved."""
    before: Sequence[Hashable] = list(map(key, base))
    after: Sequence[Hashable] = list(map(key, new))
    if len(base) * len(new) > _MOST_PAIRS:
        before = _numbered(before)
        after = _numbered(after)
    for word, start, _, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for index in range(new_start, new_end):
            yield base[start + index - new_start] if word == "equal" else None, new[index]


def _numbered(keys: Iterable[Hashable]) -> Sequence[Hashable]:
    """Return each key with how often it was before it: keys that differ are aligned in linear time."""
    seen = Counter[Hashable]()
    numbered = []
    for key in keys:
        numbered.append((key, seen[key]))
        seen[key] += 1
    return numbered


def _lines_of(accesses: Iterable[CodeAccess]) -> list[list[CodeAccess]]:
    """Return the accesses of each source line and kind in the order of the lines, those of unknown and high cost first.

    Local memory is left out: its accesses are spills and arrays of the stack.
    """
    lines: defaultdict[tuple[str, int, str, str], list[CodeAccess]] = defaultdict(list)
    for access in accesses:
        if access.space != "local":
            lines[access.file or "", access.line or 0, access.space, access.kind].append(access)
    return [sorted(lines[key], key=_rank) for key in sorted(lines)]


def _rank(access: CodeAccess) -> float:
    passes = _passes(access)
    return -passes if passes is not None else -math.inf


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


def _location(item: CodeLoop | CodeAccess) -> SourceLine | None:
    return SourceLine(item.file, item.line) if item.file is not None and item.line is not None else None
