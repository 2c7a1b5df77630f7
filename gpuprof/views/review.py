"""The view of a review of compiled code: a screen, a comment on a pull request, everything in a terminal, a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.review.contract import Review
from gpuprof.units import counted
from gpuprof.views.document import (
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Findings,
    Fold,
    Heading,
    Inline,
    Note,
    Recommendation,
    Recommendations,
    Table,
)
from gpuprof.views.kernel import finding_anchor
from gpuprof.views.options import WriteOptions
from gpuprof.views.review_changes import review_changes
from gpuprof.views.review_groups import FoundIn, KernelGroup, SharedFinding, grouped_kernels, shared_findings
from gpuprof.views.review_kernel import code_finding, code_section, section_anchor
from gpuprof.views.review_table import review_table
from gpuprof.words.file_names import file_name
from gpuprof.words.review_values import code_certainty, code_place, left_out, loops_text, only_text
from gpuprof.words.sentences import full_stop, joined_by, short_list

if TYPE_CHECKING:
    from rich.console import Console

_TOP = 20
_MOST_SECTIONS = 500
# Rows that the tables of all sections share: with them a page of 500 kernels stays below 5 MB.
_ROWS_OF_SECTIONS = 3000
_MOST_NOTES = 40
_BRIEF_NOTES = 3
_MOST_MODULES = 60
_ABOUT_ACCESSES = (
    "Memory accesses have the cost of a request of a full warp: sectors of 32 bytes, or wavefronts in shared memory. "
    "They need what consecutive addresses would cost."
)
_FEW = 3
_MODULE_COLUMNS = (Column("module", "name"), Column("architecture"), Column("form"), Column("kernels", "number"))


def print_review(
    console: Console, review: Review, *, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> None:
    """Print the first `top` kernels (0: all; None: as many as a screen of 30 lines has room for).

    With `verbose` each kernel is printed in depth; with `chosen`, if the user named kernels, without lists of them.
    """
    from gpuprof.views.terminal import SCREEN_HEIGHT, print_document

    if verbose or chosen:
        print_document(console, whole_review(review, top, lists=not chosen))
    else:
        height = SCREEN_HEIGHT if top is None else None
        print_document(console, brief_review(review, top or 0), "short", height)


def comment_lines(review: Review, options: WriteOptions) -> Iterator[str]:
    """Yield Markdown for a pull request, at most as long as a comment may be."""
    from gpuprof.views.markdown import markdown_lines

    # CI finds its comment again by this line, to update it.
    yield "<!-- gpuprof-check -->"
    yield from markdown_lines(brief_review(review, _TOP if options.top is None else options.top))


def page_lines(review: Review, options: WriteOptions) -> list[str]:
    """Return the lines of the page."""
    from gpuprof.views.html import render_page

    return render_page(whole_review(review, min(options.top or _MOST_SECTIONS, _MOST_SECTIONS))).split("\n")


def brief_review(review: Review, top: int) -> Document:
    """Return the `top` first findings and kernels (0: all); all else is folded away."""
    groups = grouped_kernels(review)
    shared = shared_findings(review, groups)
    shown = shared[: top or None]
    blocks = [*_summary(review, groups), *review_changes(review), *_fixes(shared, len(shown), title="Fix first")]
    if groups:
        blocks.append(review_table(groups, top))
    blocks += _notes(review.notes, _BRIEF_NOTES, "-v shows all")
    if shown:
        reasons = tuple(Findings((code_finding(FoundIn(item.finding)),)) for item in shown)
        blocks.append(Fold("Why, and on what the findings rest", reasons))
    blocks.append(Fold("How this was reviewed", (Facts(tuple(_origin(review))),)))
    return Document(_title(review), tuple(blocks), review.gpuprof_version)


def whole_review(review: Review, top: int | None = None, *, lists: bool = True) -> Document:
    """Return everything about the first `top` kernels (0 or None: all), with `lists` of all findings and kernels."""
    every = grouped_kernels(review)
    groups = every[: top or None]
    targets = dict.fromkeys((kernel.id for kernel in review.kernels), "")
    for group in groups:
        targets |= dict.fromkeys((variant.kernel.id for variant in group.variants), section_anchor(group))
    blocks = list(_summary(review, every))
    if lists:
        blocks.append(Note("Read from the compiled code, without a GPU: nothing here is a measured time.", "muted"))
    blocks += review_changes(review, targets)
    if lists:
        fixes = tuple(_fixes(shared_findings(review, groups), _TOP, has_sections=True))
        if fixes:
            blocks += [Heading("Fix first", anchor="fix-first"), *fixes]
        if groups:
            blocks += [Heading("Kernels", anchor="kernels"), review_table(groups, 0, has_sections=True)]
            blocks += [Heading("Kernel by kernel", anchor="details"), Note(_ABOUT_ACCESSES, "muted")]
    rows = min(max(_ROWS_OF_SECTIONS // (len(groups) or 1), 6), 80)
    for group in groups:
        blocks.append(code_section(group, rows, is_open=group is groups[0]))
    rest = left_out(len(every) - len(groups), "kernel", "--kernel REGEX chooses some")
    blocks += [*_notes((rest,), 1, ""), Heading("Provenance", anchor="provenance"), *_provenance(review)]
    blocks += _notes(review.notes, _MOST_NOTES, "--format json has all")
    return Document(_title(review), tuple(blocks), review.gpuprof_version)


def _summary(review: Review, groups: Sequence[KernelGroup]) -> Iterator[Block]:
    """Yield the verdict, and the kernels that were not reviewed."""
    yield Note(headline(review, groups), "strong")
    unread: dict[str, list[str]] = {}
    for group in groups:
        if group.unreviewed:
            unread.setdefault(group.unreviewed, []).append(group.name)
    for why, names in unread.items():
        yield Note(f"not reviewed: {short_list(names, _FEW)}: {full_stop(why)}", "warning")


def headline(review: Review, groups: Sequence[KernelGroup]) -> str:
    """Write what was read and how much there is to change: "transpose.cu for sm_90: 3 kernels, 2 with findings"."""
    targets = ", ".join(dict.fromkeys(kernel.target for kernel in review.kernels))
    launches = sum(group.launches for group in groups)
    in_launches = f"in {counted(launches, 'launch', 'es')}" if launches else ""
    kernels = joined_by(" ", counted(len(groups), "kernel"), in_launches) if groups else "no kernel with machine code"
    found = [len(group.findings) for group in groups if group.findings]
    findings = counted(sum(found), "finding") if found else "no findings"
    if found and len(groups) > 1:
        findings += f" in {len(found)} of them"
    unread = sum(bool(group.unreviewed) for group in groups)
    if unread:
        findings += f"; {unread} of them not reviewed" if unread < len(groups) else ", not reviewed"
    of_files = ""
    if review.unreviewed:
        part = any(item.file in review.files for item in review.unreviewed)
        of_files = f"{'part of ' if part else ''}{_files(item.file for item in review.unreviewed)} not reviewed"
    return joined_by("; ", f"{joined_by(' for ', _files(review.files), targets)}: {kernels}, {findings}", of_files)


def _fixes(
    shared: Sequence[SharedFinding], most: int, title: str = "", *, has_sections: bool = False
) -> Iterator[Block]:
    """Yield the first findings of all kernels, with links to the kernels' sections if there are some."""
    if shared:
        items = tuple(_fix(item, has_section=has_sections) for item in shared[:most])
        rest = "below at their kernels" if has_sections else "--top 0 shows all"
        yield Recommendations(items, more=left_out(len(shared) - len(items), "finding", rest), title=title)


def _fix(item: SharedFinding, *, has_section: bool) -> Recommendation:
    finding = item.finding
    place = item.place
    names = []
    for group, found in item.owners:
        only = f"({only_text(found.only)})" if found.only else ""
        names.append(joined_by(" ", f"#{group.kernel.id} {group.name}", only))
    anchor = section_anchor(item.owners[0][0]) if item.owners and has_section else ""
    return Recommendation(
        headline=finding.headline,
        action=finding.action,
        gain=finding.severity,
        of="",
        condition=loops_text(finding.loops),
        place=code_place(place.file, place.line, place.pc) if place is not None else "",
        kernels=Cell("".join(names[:1]), href=anchor),
        certainty=code_certainty(finding),
        spread=f", {short_list(names[1:], _FEW - 1)}" if names[1:] else "",
        rule=finding.rule,
        severity=finding.severity,
        doubted=finding.confidence == "guess",
        href=finding_anchor(finding.id) if anchor else "",
    )


def _notes(notes: Sequence[str], most: int, rest: str) -> Iterator[Block]:
    for note in filter(None, (*notes[:most], left_out(len(notes) - most, "note", rest))):
        yield Note(note, "muted")


def _title(review: Review) -> str:
    return f"Code review: {_files(review.files)}"


def _files(files: Iterable[str]) -> str:
    return short_list(list(map(file_name, files)), _FEW)


def _origin(review: Review) -> Iterator[tuple[str, Inline]]:
    yield "gpuprof", f"{review.gpuprof_version}, from the code alone, without a GPU"
    yield "tools", "; ".join(review.tools)


def _provenance(review: Review) -> Iterator[Block]:
    """Yield the tools, and the device code of the files."""
    yield Facts(tuple(_origin(review)))
    rows = []
    for module in review.modules[:_MOST_MODULES]:
        rows.append((file_name(module.origin), module.target, module.form.upper(), str(module.kernels)))
    if rows:
        more = left_out(len(review.modules) - len(rows), "module", "--format json has all")
        yield Table("Device code in the files", _MODULE_COLUMNS, tuple(rows), more=more)
