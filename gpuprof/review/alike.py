"""The parts of a review that are one thing: a kernel on several architectures, equal launches, findings, accesses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.recorded import Dim3, dims_text
from gpuprof.model.session import Finding, Location
from gpuprof.review.contract import CodeAccess, Review, ReviewedKernel
from gpuprof.words.file_names import file_name
from gpuprof.words.sentences import joined_by

_PREDICATE = re.compile(r"^@!?\w+\s+")
_BY_PLACE = ("offset", "opcode", "start", "end", "instructions", "id", "parent")
"""Fields of loops and accesses that differ between architectures although the line is the same."""


class Variant(Struct, frozen=True):
    """A kernel for one architecture and launch configuration, with its number of launches (0: not from a report).

    `name` is in what it differs from the other variants of the kernel; the architecture if it is the only one.
    """

    kernel: ReviewedKernel
    launches: int
    name: str


class FoundIn(Struct, frozen=True):
    """A finding, and the names of the variants that have it; none if all have."""

    finding: Finding
    only: tuple[str, ...] = ()


class KernelGroup(Struct, frozen=True):
    """A kernel in all its variants, with its findings, the gravest first. `file` is empty if there is only one."""

    variants: tuple[Variant, ...]
    findings: tuple[FoundIn, ...]
    file: str

    @property
    def kernel(self) -> ReviewedKernel:
        """Return the first variant, whose number and name the group has."""
        return self.variants[0].kernel

    @property
    def name(self) -> str:
        """Return the short name, with the file if there are several."""
        return joined_by(" in ", self.kernel.label, self.file)

    @property
    def launches(self) -> int:
        """Return the number of launches in a report; 0 without one."""
        return sum(variant.launches for variant in self.variants)

    @property
    def unreviewed(self) -> str:
        """Return why the code of a variant was not reviewed; empty if all were."""
        return next((variant.kernel.unreviewed for variant in self.variants if variant.kernel.unreviewed), "")


class SharedFinding(Struct, frozen=True):
    """A finding, and the kernels that have it; none if it is on the files as a whole."""

    finding: Finding
    owners: tuple[tuple[KernelGroup, FoundIn], ...] = ()

    @property
    def place(self) -> Location | None:
        """Return its place; None if it is at another offset in each kernel."""
        place = self.finding.place
        return place if place is not None and (place.file is not None or len(self.owners) < 2) else None


def grouped_kernels(review: Review) -> list[KernelGroup]:
    """Return the kernels with the gravest findings first, then those that were not reviewed."""
    groups: dict[tuple[object, ...], dict[tuple[object, ...], list[ReviewedKernel]]] = {}
    seen: dict[tuple[object, ...], int] = {}
    for kernel in review.kernels:
        owner: tuple[object, ...] = (kernel.name, kernel.mangled, _file(kernel))
        if kernel.launch is None:
            # A file can have several kernels of a name: the first ones for each architecture belong together.
            again = (*owner, kernel.target)
            owner = (*owner, seen.setdefault(again, 0))
            seen[again] += 1
        like = (kernel.target, kernel.block, kernel.grid, kernel.resources.dynamic_shared_bytes)
        groups.setdefault(owner, {}).setdefault(like, []).append(kernel)
    several = len({_file(kernel) for kernel in review.kernels}) > 1
    made = [_group(list(variants.values()), several=several) for variants in groups.values()]
    return sorted(made, key=lambda group: (min(map(_gravity, group.findings), default=(9, 0)), not group.unreviewed))


def _file(kernel: ReviewedKernel) -> str:
    return kernel.origin.partition("[")[0]


def _gravity(found: FoundIn | SharedFinding) -> tuple[int, int]:
    return SEVERITIES.index(found.finding.severity), -found.finding.loops


def _group(launched: Sequence[Sequence[ReviewedKernel]], *, several: bool) -> KernelGroup:
    firsts = [kernels[0] for kernels in launched]
    variants = []
    for kernels, name in zip(launched, _names(firsts), strict=True):
        launches = len(kernels) if kernels[0].launch is not None else 0
        variants.append(Variant(kernels[0], launches, name))
    file = file_name(_file(firsts[0])) if several else ""
    return KernelGroup(tuple(variants), _findings(variants), file)


def _names(kernels: Sequence[ReviewedKernel]) -> list[str]:
    """Name kernels by the values in which they differ: architecture, block, grid, dynamic shared memory."""
    values = [
        [kernel.target for kernel in kernels],
        [_size("block", kernel.block) for kernel in kernels],
        [_size("grid", kernel.grid) for kernel in kernels],
        [_dynamic(kernel.resources.dynamic_shared_bytes) for kernel in kernels],
    ]
    differing = [texts for texts in values if len(set(texts)) > 1] or values[:1]
    return [", ".join(texts) for texts in zip(*differing, strict=True)]


def _size(what: str, size: Dim3 | None) -> str:
    return f"{what} {dims_text(size)}" if size is not None else f"{what} not known"


def _dynamic(size: int | None) -> str:
    return f"{size} B dynamic" if size is not None else "dynamic shared memory not known"


def _findings(variants: Sequence[Variant]) -> tuple[FoundIn, ...]:
    """Return each finding once: those of one rule that say the same of the same line are one."""
    found: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for variant in variants:
        for finding in variant.kernel.findings:
            key = (finding.rule, finding.headline, finding.action, _line(finding))
            names = found.setdefault(key, (finding, []))[1]
            if variant.name not in names:
                names.append(variant.name)
    result = []
    for finding, names in found.values():
        result.append(FoundIn(finding, tuple(names) if len(names) < len(variants) else ()))
    return tuple(sorted(result, key=_gravity))


def _line(finding: Finding) -> tuple[str, int | None] | None:
    place = finding.place
    return (place.file, place.line) if place is not None and place.file is not None else None


def shared_findings(review: Review, groups: Sequence[KernelGroup]) -> list[SharedFinding]:
    """Return those on the files, then those of kernels, each once, the gravest first.

    The instances of a template share the lines of their findings; without lines they say the same.
    """
    owners: dict[tuple[object, ...], list[tuple[KernelGroup, FoundIn]]] = {}
    for group in groups:
        for found in group.findings:
            key = (found.finding.rule, found.finding.headline, _line(found.finding))
            owners.setdefault(key, []).append((group, found))
    shared = [SharedFinding(having[0][1].finding, tuple(having)) for having in owners.values()]
    return [*map(SharedFinding, review.findings), *sorted(shared, key=_gravity)]


def same_resources(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Return the variants in groups that take the same resources and have findings of the same rules."""
    groups: dict[tuple[object, ...], list[Variant]] = {}
    for variant in variants:
        kernel = variant.kernel
        taken = replace(kernel.resources, code_bytes=None, instructions=None, barriers=None)
        limits = (kernel.occupancy.fraction, kernel.occupancy.limiters) if kernel.occupancy is not None else None
        rules = tuple(finding.rule for finding in kernel.findings)
        groups.setdefault((taken, limits, rules, kernel.unreviewed), []).append(variant)
    return list(groups.values())


def same_places(finding: Finding) -> list[list[Location]]:
    """Return the places of a finding in groups of one line and opcode."""
    groups: dict[tuple[object, ...], list[Location]] = {}
    for place in finding.places:
        opcode = _PREDICATE.sub("", place.sass or "").partition(" ")[0]
        key = (place.file, place.line, opcode) if place.line is not None else (place.pc,)
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def same_accesses(accesses: Sequence[CodeAccess]) -> list[tuple[CodeAccess, ...]]:
    """Return the accesses in order, as groups of those of one line that differ at most in offset and opcode."""
    groups: dict[CodeAccess, list[CodeAccess]] = {}
    for access in sorted(accesses, key=lambda access: access.offset):
        key = access if access.file is None else replace(access, offset=0, opcode="")
        groups.setdefault(key, []).append(access)
    return list(map(tuple, groups.values()))


def costliest(groups: Sequence[tuple[CodeAccess, ...]], most: int) -> list[tuple[CodeAccess, ...]]:
    """Return `most` groups in their order: those that cost more than they need, then those of unknown cost."""
    kept = sorted(range(len(groups)), key=lambda index: _cheapness(groups[index][0]))[:most]
    return [groups[index] for index in sorted(kept)]


def _cheapness(access: CodeAccess) -> tuple[int, float]:
    cost = request_cost(access)
    if cost is None:
        return 1, 0.0
    return (0 if is_costly(access) else 2), -cost


def request_cost(access: CodeAccess) -> float | None:
    """Return the cost of a request: wavefronts in shared memory, sectors elsewhere."""
    return access.wavefronts_per_request if access.space == "shared" else access.sectors_per_request


def is_costly(access: CodeAccess) -> bool:
    """Return whether a request costs more than it needs."""
    cost = request_cost(access)
    return cost is not None and access.needed_per_request is not None and cost > access.needed_per_request


def same_memory(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Return the variants in groups that have the same loops and accesses, but for offsets and opcodes."""
    groups: dict[tuple[object, ...], list[Variant]] = {}
    for variant in variants:
        kernel = variant.kernel
        key = tuple(map(_without_place, (*kernel.loops, *kernel.accesses)))
        groups.setdefault(key, []).append(variant)
    return list(groups.values())


def _without_place(item: Struct) -> tuple[object, ...]:
    return tuple(getattr(item, name) for name in item.__struct_fields__ if name not in _BY_PLACE)
