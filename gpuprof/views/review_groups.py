"""Groups of a review that are one thing for a reader: variants of a kernel, equal findings, equal accesses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.groups import by_key, collected
from gpuprof.model.recorded import Dim3, dims_text
from gpuprof.model.session import Finding, Location
from gpuprof.review.contract import CodeAccess, CodeLoop, Review, ReviewedKernel
from gpuprof.words.file_names import file_name
from gpuprof.words.sentences import joined_by

FILES = "the files"
_PREDICATE = re.compile(r"^@!?\w+\s+")


class Variant(Struct, frozen=True):
    """A kernel for one architecture and launch configuration, with its number of launches (0: not from a report).

    `name` has the values in which it differs from other variants of the kernel; the architecture if it is the only one.
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
    seen: Counter[Hashable] = Counter()
    owned: list[tuple[Hashable, ReviewedKernel]] = []
    for kernel in review.kernels:
        owner = (kernel.name, kernel.mangled, _file(kernel))
        again = -1
        if kernel.launch is None:
            # A file can have several kernels of a name: the first ones for each architecture belong together.
            for_target = (*owner, kernel.target)
            again = seen[for_target]
            seen[for_target] += 1
        owned.append(((*owner, again), kernel))
    several = len({_file(kernel) for kernel in review.kernels}) > 1
    groups = [_group(kernels, several=several) for kernels in collected(owned)]
    return sorted(groups, key=lambda group: (min(map(_gravity, group.findings), default=(9, 0)), not group.unreviewed))


def _file(kernel: ReviewedKernel) -> str:
    return kernel.origin.partition("[")[0]


def _gravity(found: FoundIn | SharedFinding) -> tuple[int, int]:
    return SEVERITIES.index(found.finding.severity), -found.finding.loops


def _group(kernels: Sequence[ReviewedKernel], *, several: bool) -> KernelGroup:
    """Return a kernel with its variants, named by the values in which they differ."""
    launched = by_key((_shape(kernel), kernel) for kernel in kernels)
    values = list(zip(*launched, strict=True))
    differing = [texts for texts in values if len(set(texts)) > 1] or values[:1]
    variants = []
    for alike, texts in zip(launched.values(), zip(*differing, strict=True), strict=True):
        launches = len(alike) if alike[0].launch is not None else 0
        variants.append(Variant(alike[0], launches, ", ".join(texts)))
    return KernelGroup(tuple(variants), _findings(variants), file_name(_file(kernels[0])) if several else "")


def _shape(kernel: ReviewedKernel) -> Sequence[str]:
    dynamic = kernel.resources.dynamic_shared_bytes
    return (
        kernel.target,
        _size("block", kernel.block),
        _size("grid", kernel.grid),
        f"{dynamic} B dynamic" if dynamic is not None else "dynamic shared memory not known",
    )


def _size(what: str, size: Dim3 | None) -> str:
    return f"{what} {dims_text(size)}" if size is not None else f"{what} not known"


def _findings(variants: Sequence[Variant]) -> tuple[FoundIn, ...]:
    """Return each finding once: those that say the same of the same line are one."""
    found = []
    for variant in variants:
        for finding in variant.kernel.findings:
            found.append(((finding.rule, finding.headline, finding.action, _line(finding)), (finding, variant.name)))
    result = []
    for same in collected(found):
        names = tuple(dict.fromkeys(name for _, name in same))
        result.append(FoundIn(same[0][0], names if len(names) < len(variants) else ()))
    return tuple(sorted(result, key=_gravity))


def _line(finding: Finding) -> tuple[str, int | None] | None:
    place = finding.place
    return (place.file, place.line) if place is not None and place.file is not None else None


def shared_findings(review: Review, groups: Sequence[KernelGroup]) -> list[SharedFinding]:
    """Return those on the files, then those of kernels, each once, the gravest first; those without a fix last.

    The instances of a template share the lines of their findings; without lines they say the same.
    """
    found = []
    for group in groups:
        for item in group.findings:
            found.append(((item.finding.rule, item.finding.headline, _line(item.finding)), (group, item)))
    shared = []
    for same in collected(found):
        of_kernels: dict[int, tuple[KernelGroup, FoundIn]] = {}
        for group, item in same:
            of_kernels.setdefault(group.kernel.id, (group, item))
        shared.append(SharedFinding(same[0][1].finding, tuple(of_kernels.values())))
    shared = [*map(SharedFinding, review.findings), *sorted(shared, key=_gravity)]
    return sorted(shared, key=lambda item: item.finding.severity == "info")


def kernel_labels(kernels: Sequence[ReviewedKernel]) -> dict[int, str]:
    """Map the ids of kernels to names that no two share: the short one, with architecture and number as needed."""
    targets = Counter(label for label, _ in {(kernel.label, kernel.target) for kernel in kernels})
    names = {}
    for kernel in kernels:
        names[kernel.id] = f"{kernel.label} ({kernel.target})" if targets[kernel.label] > 1 else kernel.label
    uses = Counter(names.values())
    return {number: f"#{number} {name}" if uses[name] > 1 else name for number, name in names.items()}


def same_resources(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Return the variants in groups that take the same resources and have findings of the same rules."""
    return collected((_taken(variant.kernel), variant) for variant in variants)


def _taken(kernel: ReviewedKernel) -> Hashable:
    resources = replace(kernel.resources, code_bytes=None, instructions=None, barriers=None)
    limits = (kernel.occupancy.fraction, kernel.occupancy.limiters) if kernel.occupancy is not None else None
    return resources, limits, tuple(finding.rule for finding in kernel.findings), kernel.unreviewed


def same_places(finding: Finding) -> list[list[Location]]:
    """Return the places of a finding in groups of one line and opcode."""
    return collected((_line_and_opcode(place), place) for place in finding.places)


def _line_and_opcode(place: Location) -> Hashable:
    if place.line is None:
        return place.pc
    return place.file, place.line, _PREDICATE.sub("", place.sass or "").partition(" ")[0]


def same_accesses(accesses: Iterable[CodeAccess]) -> list[list[CodeAccess]]:
    """Return the accesses in order, as groups of those of one line that differ at most in offset and opcode."""
    ordered = sorted(accesses, key=lambda access: access.offset)
    return collected((access if access.file is None else _unplaced(access), access) for access in ordered)


def _unplaced(access: CodeAccess) -> CodeAccess:
    """Return an access without what differs between architectures although the line is the same."""
    return replace(access, offset=0, opcode="")


def costliest(groups: Sequence[list[CodeAccess]], most: int) -> list[list[CodeAccess]]:
    """Return `most` groups in their order: those that cost more than they need, then those of unknown cost."""

    def rank(index: int) -> tuple[bool, bool, float]:
        access = groups[index][0]
        return not access.is_costly, access.cost is not None, -(access.cost or 0.0)

    return [groups[index] for index in sorted(sorted(range(len(groups)), key=rank)[:most])]


def same_memory(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Return the variants in groups that have the same loops and accesses, but for offsets and opcodes."""
    return collected((_memory(variant.kernel), variant) for variant in variants)


def _memory(kernel: ReviewedKernel) -> Hashable:
    loops = tuple(map(_loop_of_line, kernel.loops))
    return loops, tuple(map(_unplaced, kernel.accesses))


def _loop_of_line(loop: CodeLoop) -> Hashable:
    return loop.depth, loop.trips, loop.file, loop.line
