"""The table of reviewed kernels: a row for the variants that take the same resources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from gpuprof.model.recorded import configuration_text
from gpuprof.review.alike import KernelGroup, Variant, same_resources
from gpuprof.review.contract import CodeOccupancy, SpillCount
from gpuprof.text import cut_middle
from gpuprof.units import counted, format_percent
from gpuprof.views.document import Cell, Column, Inline, Table, filled
from gpuprof.views.kernel import finding_anchor
from gpuprof.views.review_kernel import label_in_file, section_anchor, variant_names
from gpuprof.words.review_values import NOT_KNOWN, bytes_text, shared_text
from gpuprof.words.sentences import joined_by, short_list

_NAME_LENGTH = 120
_NONE = "–"
# All architectures of the review.
_ALL = "all"
_COLUMNS = (
    Column("#", "number", rank=1),
    Column("kernel", "name"),
    Column("findings", rank=4),
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
    Column("limit of occupancy", "sentence"),
)


def review_table(groups: Sequence[KernelGroup], shown: int, sections: Collection[str] | None = None) -> Table:
    """Return the rows of the first `shown` kernels, with links to `sections`; without these for other media."""
    targets = dict.fromkeys(variant.kernel.target for group in groups for variant in group.variants)
    rows: list[tuple[Inline, ...]] = []
    owners: list[int] = []
    anchors = []
    for place, group in enumerate(groups[:shown], 1):
        for variants in same_resources(group.variants):
            rows.append(tuple(_cells(group, variants, sections, short_list(list(targets), len(targets)))))
            owners.append(place)
            anchors.append(f"row-{variants[0].kernel.id}")
    no_block = any(group.kernel.occupancy is None and group.kernel.block is None for group in groups)

    def more(count: int) -> str:
        left_out = groups[owners[count - 1] :]
        found = sum(bool(group.findings) for group in left_out)
        kernels = f"… and {counted(len(left_out), 'more kernel')}, {found} with findings: --top 0 shows all"
        return joined_by("; ", kernels if left_out else "", "occupancy needs --block" if no_block else "")

    is_page = sections is not None
    table = Table("Kernels", _COLUMNS, tuple(rows), tuple(anchors) if is_page else (), more(len(rows)), filter=is_page)
    return replace(filled(table, "0", "0 B", _NONE, _ALL), short_more=more)


def _cells(
    group: KernelGroup, variants: Sequence[Variant], sections: Collection[str] | None, targets: str
) -> Iterator[Inline]:
    kernels = [variant.kernel for variant in variants]
    kernel = kernels[0]
    taken = kernel.resources
    occupancy = kernel.occupancy
    anchor = section_anchor(group)
    is_linked = sections is not None and anchor in sections
    yield Cell(str(kernel.id), order=kernel.id)
    yield Cell(cut_middle(label_in_file(group), _NAME_LENGTH), href=anchor if is_linked else "")
    yield _finding(group, variants, is_linked=is_linked)
    names = variant_names(variants)
    yield _ALL if names == targets else names
    yield configuration_text(kernel.grid, kernel.block) if len(kernels) == 1 else ""
    launches = sum(variant.launches for variant in variants)
    yield str(launches) if launches else ""
    yield _amounts([taken.registers])
    static = taken.static_shared_bytes
    shared = static + (taken.dynamic_shared_bytes or 0) if static is not None else None
    yield replace(_amounts([shared]), text=shared_text(static, taken.dynamic_shared_bytes))
    yield replace(_amounts([taken.stack_bytes]), text=bytes_text(taken.stack_bytes))
    yield _spills(taken.spills)
    if occupancy is None:
        yield Cell(_NONE, "muted")
    else:
        percent = f"{'≤ ' if occupancy.needs_dynamic else ''}{format_percent(occupancy.fraction)}"
        yield Cell(percent, order=occupancy.fraction, bar=occupancy.fraction, whole=_limit(occupancy))
    yield _amounts([each.resources.instructions for each in kernels])
    yield _amounts([len(each.loops) if each.unreviewed is None else None for each in kernels])
    # The sections of a page have it.
    yield _limit(occupancy) if sections is None and occupancy is not None else ""


def _amounts(values: Sequence[int | None]) -> Cell:
    """Write the values of variants: "80–84"."""
    known = sorted({value for value in values if value is not None})
    if not known:
        return Cell(NOT_KNOWN, "muted")
    return Cell("–".join(map(str, dict.fromkeys((known[0], known[-1])))), order=known[-1])


def _spills(spills: SpillCount | None) -> Cell:
    if spills is None:
        return _amounts([None])
    number = spills.loads + spills.stores
    in_loops = f" ({spills.in_loops} in loops)" if spills.in_loops else ""
    return Cell(f"{number}{in_loops}", "warning" if number else "", order=number)


def _limit(occupancy: CodeOccupancy) -> str:
    """Write the limiters of occupancy, and the next step: "limited by registers: at 64 registers …"."""
    steps = dict.fromkeys(step.sentence for step in occupancy.steps)
    limiters = " and ".join(occupancy.limiters)
    return joined_by(": ", f"limited by {limiters}" if limiters else "", " or ".join(steps))


def _finding(group: KernelGroup, variants: Sequence[Variant], *, is_linked: bool) -> Cell:
    names = {variant.name for variant in variants}
    found = [item.finding for item in group.findings if not item.only or names.intersection(item.only)]
    if found:
        more = f" +{len(found) - 1}" if len(found) > 1 else ""
        href = finding_anchor(found[0].id) if is_linked else ""
        return Cell(found[0].rule + more, found[0].severity, href, order=len(found), whole=found[0].headline)
    if variants[0].kernel.unreviewed is not None:
        return Cell("not reviewed", "warning")
    return Cell(_NONE, "muted", order=0)
