"""Compare the kernels of two builds: pair them, and list the values and findings that differ."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.comparison.contract import SourceLine
from gpuprof.model.kernel_names import parse_name, unnumbered
from gpuprof.model.session import Finding
from gpuprof.review.contract import (
    BuildChange,
    BuildMatch,
    CodeAccess,
    CodeChange,
    CodeLoop,
    ReviewedKernel,
)

_HASH = re.compile(r"[0-9a-f]{8,}")
"""nvcc puts hashes of the file's path and text into the names of static kernels."""
_LEAST_ALIKE = 0.8
_SAME_FUNCTION = 0.3
"""Kernels are the same if their instructions have this likeness by opcode; a common function counts as a part of it."""
_MOST_PAIRS = 40_000
"""Most pairs of kernels whose instructions are compared."""
_KEYS: tuple[tuple[BuildMatch, Callable[[ReviewedKernel], Hashable]], ...] = (
    ("exact", lambda kernel: (kernel.target, kernel.name)),
    ("renamed", lambda kernel: (kernel.target, unnumbered(_HASH.sub("", kernel.mangled))[0])),
)


class BuildPair(NamedTuple):
    """A kernel in the base and in the new build; None on the side that lacks it."""

    match: BuildMatch
    base: ReviewedKernel | None
    new: ReviewedKernel | None


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


def build_change(pair: BuildPair) -> BuildChange:
    """Return the values and findings of a kernel that differ."""
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
        base=base.label if base is not None else None,
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
    """Return the values of a kernel in both builds; of accesses and loops those that the base does not have.

    Without a base they are those of the new build.
    """
    before = _kernel_values(base) if base is not None else {}
    values = []
    for name, value in _kernel_values(new).items():
        unit = _UNITS.get(name, "")
        values.append(CodeChange(name=name, unit=unit, base=before.get(name), new=value, added=base is None))
    return [*values, *_part_changes(_parts(base) if base is not None else [], _parts(new))]


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


def _parts(kernel: ReviewedKernel) -> list[CodeChange]:
    """Return loops and accesses as if the base had none, equal ones of a line once: compilers unroll them.

    Local memory is left out: its accesses are spills and arrays of the stack.
    """
    parts = []
    for loop in kernel.loops:
        of = f"loop of depth {loop.depth}"
        part = CodeChange(name="loop-instructions", of=of, new=loop.instructions, location=_line(loop), added=True)
        parts.append(part)
    for access in kernel.accesses:
        is_shared = access.space == "shared"
        part = CodeChange(
            name="wavefronts-per-request" if is_shared else "sectors-per-request",
            of=f"{access.space} {access.kind}",
            new=access.wavefronts_per_request if is_shared else access.sectors_per_request,
            new_needed=access.needed_per_request,
            location=_line(access),
            added=True,
        )
        if access.space != "local":
            parts.append(part)
    return list(dict.fromkeys(parts))


def _line(item: CodeLoop | CodeAccess) -> SourceLine | None:
    return SourceLine(item.file, item.line) if item.file is not None and item.line is not None else None


def _part_changes(base: Iterable[CodeChange], new: Sequence[CodeChange]) -> Iterator[CodeChange]:
    """Yield the parts of the new side that the base does not have, each with the next one that is left of its kind.

    Equal parts belong together wherever they are: lines move from build to build.
    """
    same = Counter(replace(part, location=None) for part in base)
    left: defaultdict[str, list[CodeChange]] = defaultdict(list)
    for part in (same - Counter(replace(part, location=None) for part in new)).elements():
        left[part.of].append(part)
    for part in new:
        key = replace(part, location=None)
        if same[key] > 0:
            same[key] -= 1
        elif left[part.of]:
            before = left[part.of].pop(0)
            yield replace(part, base=before.new, base_needed=before.new_needed, added=False)
        else:
            yield part
