"""What to fix first: the findings of all kernels, those in the deepest loops first, each once for a line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from gpuprof.present.check_alike import PlacedFinding
from gpuprof.present.check_blocks import Block, BlockFinding
from gpuprof.present.check_page.texts import card_id, names_text, place, sass, sentence
from gpuprof.present.check_text import where_text
from gpuprof.present.page.parts import KernelLabel, label

_NAMES = 3


class FixOwner(Struct, frozen=True, kw_only=True):
    """A kernel that has the finding; `only` are the architectures or launches that have it, empty for all.

    `file` is the one that it is from, empty where there is one file alone."""

    label: KernelLabel
    href: str
    file: str
    only: str


class CodeFix(Struct, frozen=True, kw_only=True):
    """A finding: where it is and how deep in loops, what it is, what to change, and in which kernels."""

    where: str
    loops: str
    headline: str
    href: str
    action: str
    sass: str
    owners: tuple[FixOwner, ...]
    more_owners: int
    is_guess: bool


def code_fixes(placed: Sequence[PlacedFinding], with_section: Collection[int]) -> Iterator[CodeFix]:
    """Yield the findings; those of kernels with a section lead to their cards."""
    for item in placed:
        finding = item.finding
        yield CodeFix(
            where=place(where_text(finding)),
            loops=loops_text(finding.loops),
            headline=sentence(finding.headline),
            href=_href(*item.owners[0], with_section) if item.owners else "",
            action=sentence(finding.action),
            sass=sass(finding.place.sass or "") if finding.place is not None else "",
            owners=tuple(_owner(block, told, with_section) for block, told in item.owners[:_NAMES]),
            more_owners=max(0, len(item.owners) - _NAMES),
            is_guess=finding.confidence == "guess",
        )


def loops_text(depth: int) -> str:
    """Say how deep in loops something is; empty outside."""
    return "" if depth <= 0 else "in a loop" if depth == 1 else f"in {depth} nested loops"


def _href(block: Block, told: BlockFinding, with_section: Collection[int]) -> str:
    return f"#{card_id(block, block.findings.index(told))}" if block.kernel.id in with_section else ""


def _owner(block: Block, told: BlockFinding, with_section: Collection[int]) -> FixOwner:
    return FixOwner(
        label=label(block.kernel.label),
        href=f"#kernel-{block.kernel.id}" if block.kernel.id in with_section else "",
        file=place(block.file),
        only=names_text(told.only),
    )
