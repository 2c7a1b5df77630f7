"""What a review says of the base as blocks: the gate, and the values and findings of each kernel that differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from gpuprof.comparison.finding_changes import source_line
from gpuprof.review.contract import BuildChange, CodeChange, Review
from gpuprof.text import cut_middle
from gpuprof.units import counted
from gpuprof.views.document import Block, Cell, Column, Heading, Inline, Note, Table
from gpuprof.views.review_groups import FILES, kernel_labels
from gpuprof.words.comparison_values import change_text, count_name, side_texts
from gpuprof.words.file_names import file_name
from gpuprof.words.review_gate import line_text
from gpuprof.words.sentences import joined_by, short_list

_MOST_NAMES = 5
_NAME_LENGTH = 120
_NONE = "–"
_COLUMNS = (
    Column("kernel", "name"),
    Column("what"),
    Column("base", "number"),
    Column("new", "number"),
    Column("change", "number"),
)


def review_changes(review: Review, targets: Mapping[int, str] | None = None) -> Iterator[Block]:
    """Yield the gate and the changes of a review; `targets` are anchors of its kernels by id, if it has some."""
    labels = kernel_labels(review.kernels)
    if review.gate is not None:
        from gpuprof.views.comparison import gate_blocks

        yield from gate_blocks(review.gate, labels, targets, whole=FILES)
    changes = review.changes
    if changes is None:
        return
    base = short_list([file_name(file) for file in changes.files], _MOST_NAMES)
    yield Heading(f"Changes against {base}", anchor="changes")
    rows = [tuple(_rows(change, labels, targets or {})) for change in changes.kernels]
    if any(rows):
        yield Table("Changes", _COLUMNS, tuple(itertools.chain(*rows)))
    same = rows.count(())
    if same:
        yield Note(f"{counted(same, 'kernel')} without a change", "muted")


def _rows(change: BuildChange, labels: Mapping[int, str], targets: Mapping[int, str]) -> Iterator[tuple[Inline, ...]]:
    """Yield the values and findings of a kernel that differ."""
    was = f"{change.base} → " if change.match == "similar" else ""
    label, href = change.label, ""
    if change.kernel is not None:
        label, href = labels[change.kernel], targets.get(change.kernel, "")
    name = Cell(cut_middle(f"{was}{label}", _NAME_LENGTH), href=href)
    if change.match in ("new", "gone"):
        yield name, f"{change.match} kernel", "", "", ""
        return
    for value in change.values:
        yield name, joined_by(", ", count_name(value.name), value.of, line_text(value.location)), *_sides(value)
    for finding in change.came:
        what = joined_by(", ", finding.rule, line_text(source_line(finding)))
        yield name, what, _NONE, finding.severity, Cell("new", finding.severity)
    for finding in change.went:
        yield name, finding.rule, finding.severity, _NONE, Cell("gone", "good")


def _sides(value: CodeChange) -> tuple[str, str, str]:
    """Write a value on both sides, and its change."""
    base, new = side_texts(value.base, value.new, value.unit, value.name)
    ratio = value.new / value.base if value.base and value.new is not None else None
    return _NONE if value.added else base, new, change_text(ratio, _NONE)
