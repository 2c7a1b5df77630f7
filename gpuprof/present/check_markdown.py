"""A review as Markdown for a pull request: findings with their lines first, then what the kernels take, folded.

The first line is a comment that does not show: by it CI finds its comment again, to update it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.model.session import Finding
from gpuprof.present.check_alike import PlacedFinding, placed_findings
from gpuprof.present.check_blocks import Block, BlockFinding, blocks_of, ranked
from gpuprof.present.check_text import (
    evidence_texts,
    headline,
    more_places_text,
    occupancy_text,
    shared_size_text,
    spills_text,
    sure_text,
    unreviewed_text,
    where_text,
)
from gpuprof.present.markdown_parts import MOST_CHARACTERS, Page, cell
from gpuprof.review.contract import Review
from gpuprof.units import ARROW
from gpuprof.words.profile_values import count_text

MARKER = "<!-- gpuprof-check -->"
ROWS = 20
_WIDTH = 300
_NAMES, _NOTES, _VARIANTS = 3, 5, 4
_TABLE = ("| kernel | for | registers | shared memory | spills | occupancy |", "|---|---|--:|--:|--:|---|")


def lines(review: Review, top: int | None = None) -> Iterator[str]:
    """Yield the comment: a line a finding, `top` of them (0: all that fit), then folded what the kernels take."""
    blocks = ranked(blocks_of(review))
    findings = [(item.finding, _names(item)) for item in placed_findings(review, blocks)]
    most = ROWS if top is None else top
    shown = findings[:most] if most else findings
    ending = Page(MOST_CHARACTERS)
    ending.add(*_provenance(review))
    page = Page(MOST_CHARACTERS - ending.length)
    page.add(MARKER, f"**{cell(headline(review), _WIDTH)}**", "")
    page.table((), (_line(finding, names) for finding, names in shown), "more finding")
    page.table((), (_unreviewed_line(block) for block in blocks if block.unreviewed), "more kernel")
    page.add("")
    if len(findings) > len(shown):
        page.add(f"{count_text(len(findings) - len(shown), 'more finding')}: gpuprof check shows all.", "")
    page.folded("Why, and what else to know", [_details(finding) for finding, _ in shown], "more finding")
    if blocks:
        page.folded_table("What the kernels take", _TABLE, (row for block in blocks for row in _rows(block)))
    yield from (*page.lines, *ending.lines)


def _names(item: PlacedFinding) -> list[str]:
    """Return the kernels that have a finding, each once."""
    return list(dict.fromkeys(_name(block, told) for block, told in item.owners))


def _name(block: Block, told: BlockFinding) -> str:
    only = f" ({', '.join(told.only[:_VARIANTS])})" if told.only else ""
    return f"{block.kernel.label}{f' in {block.file}' if block.file else ''}{only}"


def _line(finding: Finding, names: Sequence[str]) -> str:
    where = where_text(finding)
    begin = f"**{cell(where)}** " if where else ""
    action = f" {ARROW} {cell(finding.action, _WIDTH)}" if finding.action else ""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    guess = ", a guess" if finding.confidence == "guess" else ""
    about = f" – {', '.join(map(cell, names[:_NAMES]))}{more}{guess}" if names else ""
    return f"- {begin}{cell(finding.headline, _WIDTH)}{action}{about}"


def _unreviewed_line(block: Block) -> str:
    name = f"{block.kernel.label}{f' in {block.file}' if block.file else ''}"
    return f"- **{cell(name)}** {cell(unreviewed_text(block.unreviewed), _WIDTH)}"


def _details(finding: Finding) -> list[str]:
    where = where_text(finding)
    begin = f"**{cell(where)}** " if where else ""
    parts = [finding.why, *evidence_texts(finding), more_places_text(finding)]
    told = "; ".join(cell(part.rstrip("."), _WIDTH) for part in parts if part)
    return [f"- {begin}{told} ({cell(sure_text(finding))}, {cell(finding.rule)})"]


def _rows(block: Block) -> Iterator[str]:
    """Yield what a kernel takes, a row for each architecture and launch configuration."""
    for variant in block.variants[:_VARIANTS]:
        resources = variant.kernel.resources
        cells = (
            f"{block.kernel.label} in {block.file}" if block.file else block.kernel.label,
            variant.name,
            str(resources.registers) if resources.registers is not None else "–",
            shared_size_text(resources),
            spills_text(resources.spills) or ("0" if resources.spills is not None else "–"),
        )
        occupancy = occupancy_text(variant.kernel)
        yield f"| {' | '.join((*map(cell, cells), cell(occupancy, _WIDTH)))} |"
    if len(block.variants) > _VARIANTS:
        more = count_text(len(block.variants) - _VARIANTS, "more launch configuration")
        yield f"| {cell(block.kernel.label)} | {more} | | | | |"


def _provenance(review: Review) -> Iterator[str]:
    for note in review.notes[:_NOTES]:
        yield f"- {cell(note, _WIDTH)}"
    yield ""
    tools = f" with {', '.join(map(cell, review.tools[:_NOTES]))}" if review.tools else ""
    yield f"From the code alone, without a GPU: gpuprof {cell(review.gpuprof_version)}{tools}."
