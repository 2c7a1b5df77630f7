"""The view of a review of compiled code: a screen, a comment on a pull request, everything in a terminal, a page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.review.alike import FoundIn, KernelGroup, SharedFinding, grouped_kernels, shared_findings
from gpuprof.review.contract import Review, ReviewedKernel
from gpuprof.text import cut_middle
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
from gpuprof.views.review_kernel import code_finding, code_section, label_in_file, only_text, section_anchor
from gpuprof.views.review_table import review_table
from gpuprof.words.file_names import file_name
from gpuprof.words.review_values import code_certainty, code_place, loops_text
from gpuprof.words.sentences import full_stop, joined_by, short_list

if TYPE_CHECKING:
    from rich.console import Console

# CI finds its comment again by this line, to update it.
MARKER = "<!-- gpuprof-check -->"
_TOP = 20
_SCREEN_ROWS = 26
_MOST_ROWS = 1000
_MOST_SECTIONS = 500
# Rows that the tables of all sections share: with them a page of 500 kernels stays below 5 MB.
_ROWS_OF_SECTIONS = 3000
_MOST_NOTES = 40
_BRIEF_NOTES = 3
_MOST_MODULES = 60
_FEW = 3
_NAME_LENGTH = 100
_TOOL_LENGTH = 300
_FORMS = {"sass": "machine code", "ptx": "PTX"}
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
    elif top is None:
        print_document(console, brief_review(review, 0, _SCREEN_ROWS), "short", SCREEN_HEIGHT)
    else:
        print_document(console, brief_review(review, top, top), "short")


def comment_lines(review: Review, options: WriteOptions) -> Iterator[str]:
    """Yield Markdown for a pull request, at most as long as a comment may be."""
    from gpuprof.views.markdown import markdown_lines

    yield MARKER
    top = _TOP if options.top is None else options.top
    yield from markdown_lines(brief_review(review, top, top))


def page_lines(review: Review, options: WriteOptions) -> list[str]:
    """Return the lines of the page."""
    from gpuprof.views.html import render_page

    return render_page(whole_review(review, options.top)).split("\n")


def brief_review(review: Review, findings: int, kernels: int) -> Document:
    """Return the first findings and the table of the first kernels (0: all); all else is folded away."""
    groups = grouped_kernels(review)
    shared = shared_findings(review, groups)
    shown = shared[: findings or None]
    blocks = [*_summary(review, groups), *_fixes(shared, len(shown), title="Fix first")]
    if groups:
        blocks.append(review_table(groups, kernels or len(groups)))
    blocks += _notes(review.notes, _BRIEF_NOTES, "-v shows all")
    if shown:
        reasons = Findings(tuple(code_finding(FoundIn(item.finding)) for item in shown))
        blocks.append(Fold("Why, and on what the findings rest", (reasons,)))
    blocks.append(Fold("How this was reviewed", (Facts(tuple(_origin(review))),)))
    return Document(_title(review), tuple(blocks), review.gpuprof_version)


def whole_review(review: Review, top: int | None = None, *, lists: bool = True) -> Document:
    """Return everything about the first `top` kernels (0 or None: all), with `lists` of all findings and kernels."""
    every = grouped_kernels(review)
    groups = every[: top or None]
    sections = groups[:_MOST_SECTIONS]
    anchors = set(map(section_anchor, sections))
    blocks = list(_summary(review, every))
    if lists:
        blocks.append(Note("Read from the compiled code, without a GPU: nothing here is a measured time.", "muted"))
        fixes = tuple(_fixes(shared_findings(review, groups), _TOP, anchors))
        if fixes:
            blocks += [Heading("Fix first", anchor="fix-first"), *fixes]
        if groups:
            blocks.append(Heading("Kernels", anchor="kernels"))
            blocks.append(review_table(every, min(len(groups), _MOST_ROWS), anchors))
        about = (
            "Memory accesses have the cost of a request of a full warp: sectors of 32 bytes, or wavefronts in shared "
            "memory. They need what consecutive addresses would cost."
        )
        if sections:
            blocks += [Heading("Kernel by kernel", anchor="details"), Note(about, "muted")]
    rows = min(max(_ROWS_OF_SECTIONS // (len(sections) or 1), 6), 80)
    for group in sections:
        blocks.append(code_section(group, rows, is_open=group is sections[0]))
    rest = len(every) - len(sections)
    if rest:
        blocks.append(Note(f"… and {counted(rest, 'more kernel')}: --kernel REGEX chooses some", "muted"))
    notes = (*review.notes, *_counted_notes(review.kernels)) if lists else review.notes
    blocks += [Heading("Provenance", anchor="provenance"), *_provenance(review)]
    blocks += _notes(notes, _MOST_NOTES, "--format json has all")
    return Document(_title(review), tuple(blocks), review.gpuprof_version)


def _summary(review: Review, groups: Sequence[KernelGroup]) -> Iterator[Block]:
    """Yield the verdict, and the kernels that were not reviewed."""
    yield Note(_headline(review, groups), "strong")
    unread: dict[str, list[str]] = {}
    for group in groups:
        if group.unreviewed:
            unread.setdefault(group.unreviewed, []).append(cut_middle(label_in_file(group), _NAME_LENGTH))
    for why, names in unread.items():
        yield Note(f"not reviewed: {short_list(names, _FEW)}: {full_stop(why)}", "warning")


def _headline(review: Review, groups: Sequence[KernelGroup]) -> str:
    """Write what was read and how much there is to change: "transpose.cu for sm_90: 3 kernels, 2 with findings"."""
    files = _listed(map(file_name, review.files), _FEW)
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
    left_out = []
    for item in review.unreviewed:
        left_out.append(joined_by(" ", "part of" if item.file in review.files else "", file_name(item.file)))
    of_files = f"{_listed(left_out, _FEW)} not reviewed" if left_out else ""
    return joined_by("; ", f"{joined_by(' for ', files, targets)}: {kernels}, {findings}", of_files)


def _fixes(
    shared: Sequence[SharedFinding], most: int, anchors: Collection[str] = (), title: str = ""
) -> Iterator[Block]:
    """Yield the first findings of all kernels, with links to the kernels that have a section."""
    if shared:
        items = tuple(_fix(item, anchors) for item in shared[:most])
        left_out = len(shared) - len(items)
        where = ", below at their kernels" if anchors else ": --top 0 shows all"
        more = f"And {counted(left_out, 'more finding')}{where}." if left_out > 0 else ""
        yield Recommendations(items, more=more, title=title)


def _fix(item: SharedFinding, anchors: Collection[str]) -> Recommendation:
    finding = item.finding
    kernels: Inline = ""
    href = ""
    names = []
    has_line = finding.place is not None and finding.place.file is not None
    for group, found in item.owners:
        name = cut_middle(f"#{group.kernel.id} {label_in_file(group)}", _NAME_LENGTH)
        names.append(joined_by(" ", name, f"({only_text(found)})" if found.only else ""))
    if item.owners:
        first = section_anchor(item.owners[0][0])
        is_linked = first in anchors
        kernels = Cell(names[0], href=first if is_linked else "")
        href = finding_anchor(item.owners[0][1].finding.id) if is_linked else ""
    return Recommendation(
        headline=finding.headline,
        action=finding.action,
        gain=finding.severity,
        of="",
        condition=loops_text(finding.loops),
        place=code_place(finding.place) if len(item.owners) == 1 or has_line else "",
        kernels=kernels,
        certainty=code_certainty(finding),
        spread=f", {short_list(names[1:], _FEW - 1)}" if names[1:] else "",
        rule=finding.rule,
        severity=finding.severity,
        doubted=finding.confidence == "guess",
        href=href,
    )


def _notes(notes: Sequence[str], most: int, rest: str) -> Iterator[Block]:
    for note in notes[:most]:
        yield Note(note, "muted")
    if len(notes) > most:
        yield Note(f"… and {counted(len(notes) - most, 'more note')}: {rest}", "muted")


def _title(review: Review) -> str:
    return f"Code review: {_listed(map(file_name, review.files), _FEW)}"


def _listed(names: Iterable[str], most: int) -> str:
    return short_list([cut_middle(name, _NAME_LENGTH) for name in names], most)


def _origin(review: Review) -> Iterator[tuple[str, Inline]]:
    yield "gpuprof", f"{review.gpuprof_version}, from the code alone, without a GPU"
    for index, tool in enumerate(review.tools[:_TOP]):
        yield "" if index else "tools", cut_middle(tool[: 8 * _TOOL_LENGTH], _TOOL_LENGTH)


def _provenance(review: Review) -> Iterator[Block]:
    """Yield the tools, and the device code of the files."""
    yield Facts(tuple(_origin(review)))
    rows = []
    for module in review.modules[:_MOST_MODULES]:
        name = cut_middle(file_name(module.origin), _NAME_LENGTH)
        rows.append((name, module.target, _FORMS[module.form], str(module.kernels)))
    if rows:
        left_out = len(review.modules) - len(rows)
        more = f"… and {counted(left_out, 'more module')}" if left_out else ""
        yield Table("Device code in the files", _MODULE_COLUMNS, tuple(rows), more=more)


def _counted_notes(kernels: Iterable[ReviewedKernel]) -> Iterator[str]:
    """Yield each note on kernels, with the number of those that have it."""
    numbers: dict[str, int] = {}
    for kernel in kernels:
        for note in dict.fromkeys(kernel.notes):
            numbers[note] = numbers.get(note, 0) + 1
    for note, number in numbers.items():
        yield f"{note} ({counted(number, 'kernel')})"
