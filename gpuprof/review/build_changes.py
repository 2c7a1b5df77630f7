"""Compare the kernels of two builds: pair them, and list the values and findings that differ."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.comparison.contract import SourceLine
from gpuprof.model.groups import collected
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
_PLACE = re.compile(r" at (?:offset 0x[0-9a-f]{1,16}|[^:]{1,100}:[0-9]{1,9})")
"""Lines and offsets in the reasons for unknown costs: they differ between builds."""
_LEAST_ALIKE = 0.8
_SAME_FUNCTION = 0.3
"""Kernels are paired if their likeness is at least `_LEAST_ALIKE`. An equal function name adds `_SAME_FUNCTION`."""
_MOST_PAIRS = 40_000
"""Limit on the pairs of kernels whose instructions are compared."""
_KEYS: tuple[tuple[BuildMatch, Callable[[ReviewedKernel], Hashable]], ...] = (
    ("exact", lambda kernel: (kernel.target, kernel.name)),
    ("renamed", lambda kernel: (kernel.target, unnumbered(_HASH.sub("", kernel.mangled))[0])),
)


@dataclass(frozen=True)
class BuildPair:
    """A kernel in the base and in the new build; None on the side that lacks it."""

    match: BuildMatch
    base: ReviewedKernel | None
    new: ReviewedKernel | None

    @cached_property
    def values(self) -> tuple[CodeChange, ...]:
        """Return the values of both builds; none if the kernel is gone."""
        return tuple(_values(self.base, self.new)) if self.new is not None else ()


def build_pairs(base: Iterable[ReviewedKernel], new: Sequence[ReviewedKernel]) -> list[BuildPair]:
    """Pair kernels of the same architecture, in the order of the new build; kernels that are gone come last."""
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
    """Return the common instructions by opcode ÷ those of either kernel; more for an equal function name."""
    if base.target != new.target:
        return 0.0
    before = Counter({item.opcode: item.count for item in base.opcodes})
    after = Counter({item.opcode: item.count for item in new.opcodes})
    alike = (before & after).total() / max((before | after).total(), 1)
    return alike + _SAME_FUNCTION * (parse_name(base.name).base == parse_name(new.name).base)


def build_change(pair: BuildPair) -> BuildChange:
    """Return the values and findings of a kernel that differ."""
    base, new = pair.base, pair.new
    kernel = new or base
    assert kernel is not None, "a pair has a kernel"
    before = base.findings if base is not None else ()
    after = new.findings if new is not None else ()
    return BuildChange(
        kernel=new.id if new is not None else None,
        label=kernel.label,
        match=pair.match,
        base=base.label if base is not None else None,
        values=tuple(value for value in pair.values if value.base != value.new) if base is not None else (),
        came=tuple(added_findings(before, after)),
        went=tuple(added_findings(after, before)),
    )


def added_findings(base: Iterable[Finding], new: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of each rule beyond the number that the base has, guesses last.

    A guess in the base may have been wrong, so it offsets only guesses.
    """
    left = Counter((finding.rule, finding.confidence == "guess") for finding in base)
    for finding in sorted(new, key=lambda finding: finding.confidence == "guess"):
        kind = (finding.rule, finding.confidence == "guess" and left[finding.rule, False] <= 0)
        left[kind] -= 1
        if left[kind] < 0:
            yield finding


def _values(base: ReviewedKernel | None, new: ReviewedKernel) -> Iterator[CodeChange]:
    """Yield the values of a kernel in both builds, and the loops and accesses that the base does not have.

    Without a base, yield all values, loops and accesses of the new build.
    """
    before = _kernel_values(base) if base is not None else {}
    for name, value in _kernel_values(new).items():
        unit = _UNITS.get(name, "")
        yield CodeChange(name=name, unit=unit, base=before.get(name), new=value, added=base is None)
    if base is None:
        for part in _parts(new.loops, new.accesses):
            yield part.change
    else:
        old_parts = _parts(base.loops, _cheapest_copies(base.accesses))
        new_parts = _parts(new.loops, _cheapest_copies(new.accesses))
        yield from _part_changes(old_parts, new_parts)


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


class _Part(NamedTuple):
    """A loop or an access as an added change, and the reason if its cost is unknown."""

    change: CodeChange
    unknown: str = ""

    def anywhere(self) -> _Part:
        """Return the part without lines and offsets, which differ between builds."""
        return _Part(replace(self.change, location=None), _PLACE.sub("", self.unknown))


def _parts(loops: Iterable[CodeLoop], accesses: Iterable[CodeAccess]) -> list[_Part]:
    """Return loops and accesses. Equal ones of one line are copies by loop unrolling, and are returned once.

    Local memory is left out: its accesses are spills and arrays on the stack.
    """
    parts = []
    for loop in loops:
        of = f"loop of depth {loop.depth}"
        change = CodeChange(name="loop-instructions", of=of, new=loop.instructions, location=_line(loop), added=True)
        parts.append(_Part(change))
    for access in accesses:
        change = CodeChange(
            name="wavefronts-per-request" if access.space == "shared" else "sectors-per-request",
            of=f"{access.space} {access.kind}",
            new=access.cost,
            new_needed=access.needed_per_request,
            location=_line(access),
            added=True,
        )
        if access.space != "local":
            parts.append(_Part(change, access.unknown))
    return list(dict.fromkeys(parts))


def _line(item: CodeLoop | CodeAccess) -> SourceLine | None:
    return SourceLine(item.file, item.line) if item.file is not None and item.line is not None else None


def _cheapest_copies(accesses: Iterable[CodeAccess]) -> list[CodeAccess]:
    """Return the cheapest of each group of accesses that differ only in their start address.

    They are copies by loop unrolling; those that start inside a sector take one more sector.
    """
    copies = collected((_but_for_beginning(access), access) for access in accesses)
    return [min(same, key=lambda access: access.cost or 0.0) for same in copies]


def _but_for_beginning(access: CodeAccess) -> CodeAccess:
    if access.lane_stride_bytes is None:
        return access
    return replace(access, offset=0, opcode="", loop=None, sectors_per_request=None, wavefronts_per_request=None)


def _part_changes(base: Sequence[_Part], new: Sequence[_Part]) -> Iterator[CodeChange]:
    """Yield the parts that only the new build has, each paired with the next unmatched part of its kind in the base."""
    same = Counter(part.anywhere() for part in base)
    keys = [part.anywhere() for part in new]
    left: defaultdict[str, list[CodeChange]] = defaultdict(list)
    for part in (same - Counter(keys)).elements():
        left[part.change.of].append(part.change)
    for part, key in zip(new, keys, strict=True):
        if same[key] > 0:
            same[key] -= 1
        elif left[part.change.of]:
            before = left[part.change.of].pop(0)
            yield replace(part.change, base=before.new, base_needed=before.new_needed, added=False)
        else:
            yield part.change
