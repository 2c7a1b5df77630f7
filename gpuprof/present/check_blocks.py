"""Kernels of a review put together as they are shown: a kernel with its architectures, launches that are alike once.

What is found in several of them is one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from gpuprof.model.recorded import dims_text
from gpuprof.model.session import Finding
from gpuprof.review.contract import Review, ReviewedKernel

_TARGET, _BLOCK, _GRID, _SHARED = "target", "block", "grid", "dynamic shared"


class BlockVariant(Struct, frozen=True, kw_only=True):
    """A kernel for one architecture and launch configuration; `launches` of a report are like it, 0 without a report.

    `name` tells it from the other variants of its block.
    """

    kernel: ReviewedKernel
    launches: int
    name: str


class BlockFinding(Struct, frozen=True, kw_only=True):
    """A finding, and the names of the variants that have it; none where all have."""

    finding: Finding
    only: tuple[str, ...]


class Block(Struct, frozen=True, kw_only=True):
    """One kernel: its variants, and what was found in them, that in the deepest loops first.

    `file` is the name of the file that it is from, empty where there is only one.
    """

    variants: tuple[BlockVariant, ...]
    findings: tuple[BlockFinding, ...]
    file: str

    @property
    def kernel(self) -> ReviewedKernel:
        """Return the first of its kernels, whose number and name the block has."""
        return self.variants[0].kernel

    @property
    def launches(self) -> int:
        """Return how many launches of a report it has; 0 without a report."""
        return sum(variant.launches for variant in self.variants)

    @property
    def unreviewed(self) -> str:
        """Return why its code could not be reviewed, or that of one of its variants; empty where it was."""
        return next((variant.kernel.unreviewed for variant in self.variants if variant.kernel.unreviewed), "")

    @property
    def depth(self) -> int:
        """Return how deep in loops its deepest finding is; -1 without findings."""
        return max((told.finding.loops for told in self.findings), default=-1)


def blocks_of(review: Review) -> list[Block]:
    """Return the kernels as they are shown, in the order of the review."""
    groups: dict[tuple[object, ...], list[list[ReviewedKernel]]] = {}
    places: dict[tuple[object, ...], list[ReviewedKernel]] = {}
    seen: dict[tuple[object, ...], int] = {}
    for kernel in review.kernels:
        owner = (kernel.name, kernel.mangled, kernel.origin.partition("[")[0])
        if kernel.launch is None:
            # A name may stand for several kernels of a file: the first for each architecture belong together.
            again = (*owner, kernel.target)
            owner = (*owner, seen.setdefault(again, 0))  # type: ignore[assignment]
            seen[again] += 1
        like = (*owner, kernel.target, kernel.block, kernel.grid, kernel.resources.dynamic_shared_bytes)
        if like not in places:
            places[like] = []
            groups.setdefault(owner, []).append(places[like])
        places[like].append(kernel)
    several = len({kernel.origin.partition("[")[0] for kernel in review.kernels}) > 1
    return [_block(variants, several=several) for variants in groups.values()]


def ranked(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks with findings in the deepest loops first, then what was not reviewed, and the rest last."""
    return sorted(blocks, key=lambda block: (-block.depth, not block.unreviewed))


def _block(groups: Sequence[Sequence[ReviewedKernel]], *, several: bool) -> Block:
    about = _differing([group[0] for group in groups])
    variants = tuple(
        BlockVariant(
            kernel=group[0],
            launches=len(group) if group[0].launch is not None else 0,
            name=_name(group[0], about),
        )
        for group in groups
    )
    file = file_name(groups[0][0].origin.partition("[")[0]) if several else ""
    return Block(variants=variants, findings=_findings(variants), file=file)


def file_name(path: str) -> str:
    """Return a file without its folders."""
    return path.replace("\\", "/").rpartition("/")[2] or path


def _differing(kernels: Sequence[ReviewedKernel]) -> tuple[str, ...]:
    """Return in what kernels differ: architecture, launch configuration."""
    return tuple(
        what
        for what, values in (
            (_TARGET, {kernel.target for kernel in kernels}),
            (_BLOCK, {kernel.block for kernel in kernels}),
            (_GRID, {kernel.grid for kernel in kernels}),
            (_SHARED, {kernel.resources.dynamic_shared_bytes for kernel in kernels}),
        )
        if len(values) > 1
    )


def _name(kernel: ReviewedKernel, about: Sequence[str]) -> str:
    parts = [kernel.target] if _TARGET in about or not about else []
    if _BLOCK in about:
        parts.append(f"block {dims_text(kernel.block)}" if kernel.block is not None else "block not known")
    if _GRID in about:
        parts.append(f"grid {dims_text(kernel.grid)}" if kernel.grid is not None else "grid not known")
    if _SHARED in about:
        dynamic = kernel.resources.dynamic_shared_bytes
        parts.append(f"{dynamic} B dynamic" if dynamic is not None else "dynamic shared memory not known")
    return ", ".join(parts)


def _findings(variants: Sequence[BlockVariant]) -> tuple[BlockFinding, ...]:
    """Return what was found, each once; what counts is which rule says what of which line."""
    by_text: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for variant in variants:
        for finding in variant.kernel.findings:
            first = finding.places[0] if finding.places else None
            where = (first.file, first.line) if first is not None else None
            text = (finding.rule, finding.headline, finding.action, where)
            names = by_text.setdefault(text, (finding, []))[1]
            if variant.name not in names:
                names.append(variant.name)
    told = [
        BlockFinding(finding=finding, only=tuple(names) if len(names) < len(variants) else ())
        for finding, names in by_text.values()
    ]
    return tuple(sorted(told, key=lambda item: -item.finding.loops))
