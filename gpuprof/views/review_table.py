"""The table of reviewed kernels: a row for the variants that take the same resources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.recorded import configuration_text
from gpuprof.review.alike import KernelGroup, Variant
from gpuprof.review.contract import CodeOccupancy, KernelResources, ReviewedKernel
from gpuprof.text import cut_middle
from gpuprof.units import counted, format_percent, spaced
from gpuprof.views.document import Cell, Column, Inline, Table, filled
from gpuprof.views.kernel import finding_anchor
from gpuprof.views.review_kernel import label_in_file, section_anchor, variant_names
from gpuprof.words.review_values import NOT_KNOWN, bytes_text, shared_text
from gpuprof.words.sentences import joined_by, short_list

_NAME_LENGTH = 120
_NO_FINDING = "–"
# All architectures of the review.
_ALL = "all"
_EMPTY = ("0", "0 B", _NO_FINDING, _ALL)
_COLUMNS = (
    Column("#", "number", rank=1),
    Column("kernel", "name"),
    Column("for", rank=3),
    Column("grid×block", rank=5),
    Column("launches", "number", rank=4),
    Column("registers", "number", meaning="per thread"),
    Column("shared", "number", rank=1, meaning="memory per block"),
    Column("local", "number", rank=2, meaning="memory per thread: arrays, spills, calls"),
    Column("spills", "number", rank=2, meaning="instructions that store registers to local memory or load them back"),
    Column("occupancy", "number", meaning="theoretical"),
    Column("instructions", "number", rank=6),
    Column("loops", "number", rank=7),
    Column("findings", rank=4),
    Column("limit of occupancy", "sentence"),
)


class _Row(Struct, frozen=True):
    """Variants of a kernel that take the same."""

    group: KernelGroup
    variants: tuple[Variant, ...]


def review_table(groups: Sequence[KernelGroup], shown: int, sections: Sequence[KernelGroup] | None = None) -> Table:
    """Return the rows of the first `shown` kernels, with links to `sections`; without these for other media."""
    linked = None if sections is None else set(map(section_anchor, sections))
    targets = short_list(
        list(dict.fromkeys(variant.kernel.target for group in groups for variant in group.variants)), 4
    )
    rows = [row for group in groups[:shown] for row in _rows(group)]
    table = Table(
        "Kernels",
        _COLUMNS,
        tuple(tuple(_cells(row, linked, targets)) for row in rows),
        anchors=tuple(f"row-{row.variants[0].kernel.id}" for row in rows) if sections is not None else (),
        filter=sections is not None,
    )

    def more(count: int) -> str:
        last = groups.index(rows[count - 1].group) + 1 if count else 0
        return _more(groups[last:], groups)

    return replace(filled(table, *_EMPTY), more=more(len(rows)), short_more=more)


def _more(left_out: Sequence[KernelGroup], groups: Sequence[KernelGroup]) -> str:
    text = ""
    if left_out:
        found = sum(bool(group.findings) for group in left_out)
        with_findings = f"{found} with findings" if found else "without findings"
        text = f"… and {counted(len(left_out), 'more kernel')}, {with_findings}: --top 0 shows all"
    unknown = any(group.kernel.occupancy is None and group.kernel.block is None for group in groups)
    return joined_by("; ", text, "occupancy needs --block" if unknown else "")


def _rows(group: KernelGroup) -> Iterator[_Row]:
    same: dict[tuple[object, ...], list[Variant]] = {}
    for variant in group.variants:
        same.setdefault(_taken(variant.kernel), []).append(variant)
    for variants in same.values():
        yield _Row(group, tuple(variants))


def _taken(kernel: ReviewedKernel) -> tuple[object, ...]:
    """Return the values that the variants of a row have in common."""
    taken = kernel.resources
    occupancy = kernel.occupancy
    return (
        taken.registers,
        taken.static_shared_bytes,
        taken.dynamic_shared_bytes,
        taken.stack_bytes,
        taken.spills,
        kernel.unreviewed,
        (occupancy.fraction, occupancy.limiters) if occupancy is not None else None,
        tuple(finding.rule for finding in kernel.findings),
    )


def _cells(row: _Row, linked: Collection[str] | None, targets: str) -> Iterator[Inline]:
    kernels = [variant.kernel for variant in row.variants]
    kernel = kernels[0]
    taken = kernel.resources
    occupancy = kernel.occupancy
    yield Cell(str(kernel.id), order=kernel.id)
    label = label_in_file(row.group)
    whole = label if len(label) > _NAME_LENGTH else ""
    is_linked = linked is not None and section_anchor(row.group) in linked
    yield Cell(cut_middle(label, _NAME_LENGTH), href=section_anchor(row.group) if is_linked else "", whole=whole)
    names = variant_names(row.variants)
    yield _ALL if names == targets else names
    yield configuration_text(kernel.grid, kernel.block) if len(kernels) == 1 else ""
    launches = sum(variant.launches for variant in row.variants)
    yield Cell(spaced(launches), order=launches) if launches else ""
    yield _amount(taken.registers)
    shared = taken.static_shared_bytes
    size = shared + (taken.dynamic_shared_bytes or 0) if shared is not None else None
    yield _amount(size, shared_text(shared, taken.dynamic_shared_bytes))
    yield _amount(taken.stack_bytes, bytes_text(taken.stack_bytes))
    yield _spills(taken)
    if occupancy is None:
        yield Cell(_NO_FINDING, "muted")
    else:
        most = "≤ " if occupancy.needs_dynamic else ""
        percent = f"{most}{format_percent(occupancy.fraction)}"
        yield Cell(percent, order=occupancy.fraction, bar=occupancy.fraction, whole=_limit(occupancy))
    yield _range([each.resources.instructions for each in kernels])
    yield _range([len(each.loops) if each.unreviewed is None else None for each in kernels])
    yield _finding(row, is_linked=is_linked)
    # Sections have it.
    yield _limit(occupancy) if linked is None else ""


def _amount(value: int | None, text: str = "") -> Cell:
    if value is None:
        return Cell(text or NOT_KNOWN, "muted")
    return Cell(text or str(value), order=value)


def _spills(taken: KernelResources) -> Cell:
    spills = taken.spills
    if spills is None:
        return _amount(None)
    number = spills.loads + spills.stores
    in_loops = f" ({spills.in_loops} in loops)" if spills.in_loops else ""
    return Cell(f"{number}{in_loops}", "warning" if number else "", order=number)


def _range(values: Sequence[int | None]) -> Cell:
    """Write the values of several variants: "80–84"."""
    known = [value for value in values if value is not None]
    if not known:
        return _amount(None)
    low, high = min(known), max(known)
    return Cell(str(low) if low == high else f"{low}–{high}", order=high)


def _limit(occupancy: CodeOccupancy | None) -> str:
    """Write the limiters of occupancy, and the next step: "limited by registers: at 64 registers …"."""
    if occupancy is None or not occupancy.limiters:
        return ""
    steps = dict.fromkeys(step.sentence for step in occupancy.steps)
    return f"limited by {joined_by(': ', ' and '.join(occupancy.limiters), ' or '.join(steps))}"


def _finding(row: _Row, *, is_linked: bool) -> Cell:
    names = {variant.name for variant in row.variants}
    found = [item.finding for item in row.group.findings if not item.only or names & set(item.only)]
    unread = row.variants[0].kernel.unreviewed is not None
    if not found:
        return Cell("not reviewed", "warning") if unread else Cell(_NO_FINDING, "muted", order=0)
    first = found[0]
    more = f" +{len(found) - 1}" if len(found) > 1 else ""
    href = finding_anchor(first.id) if is_linked else ""
    return Cell(first.rule + more, first.severity, href, order=len(found), whole=first.headline)
