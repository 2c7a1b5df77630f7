"""The table of reviewed kernels: a row for the variants that take the same resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.model.recorded import configuration_text
from gpuprof.review.contract import SpillCount
from gpuprof.units import counted, format_percent
from gpuprof.views.document import Cell, Column, Inline, Table, filled
from gpuprof.views.kernel import finding_anchor
from gpuprof.views.review_groups import KernelGroup, Variant, same_resources
from gpuprof.views.review_kernel import section_anchor, variant_names
from gpuprof.words.review_values import bytes_text, left_out, limit_text, range_text, shared_text
from gpuprof.words.sentences import joined_by

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


def review_table(groups: Sequence[KernelGroup], shown: int, *, has_sections: bool = False) -> Table:
    """Return the rows of the first `shown` kernels (0: all), with links to their sections if they have some."""
    targets = list(dict.fromkeys(variant.kernel.target for group in groups for variant in group.variants))
    rows: list[tuple[Inline, ...]] = []
    owners: list[int] = []
    anchors = []
    for place, group in enumerate(groups[: shown or None], 1):
        for variants in same_resources(group.variants):
            rows.append(tuple(_cells(group, variants, targets, has_sections=has_sections)))
            owners.append(place)
            anchors.append(f"row-{variants[0].kernel.id}")
    without = sum(group.kernel.occupancy is None and group.kernel.block is None for group in groups)
    needs = ""
    if without:
        needs = "occupancy needs --block"
    if 0 < without < len(groups):
        needs = f"occupancy of {counted(without, 'kernel')} needs a fitting --block"

    def more(count: int) -> str:
        rest = groups[owners[count - 1] :]
        found = sum(bool(group.findings) for group in rest)
        text = left_out(len(rest), "kernel", f"{found} with findings, --top 0 shows all")
        return joined_by("; ", text, needs)

    table = Table("Kernels", _COLUMNS, tuple(rows), tuple(anchors), more(len(rows)), filter=has_sections)
    return replace(filled(table, "0", "0 B", _NONE, _ALL), short_more=more)


def _cells(
    group: KernelGroup, variants: Sequence[Variant], targets: Sequence[str], *, has_sections: bool
) -> Iterator[Inline]:
    kernels = [variant.kernel for variant in variants]
    kernel = kernels[0]
    taken = kernel.resources
    occupancy = kernel.occupancy
    yield Cell(str(kernel.id), order=kernel.id)
    yield Cell(group.name, href=section_anchor(group) if has_sections else "")
    yield _finding(group, variants, has_section=has_sections)
    yield _ALL if [variant.name for variant in variants] == targets else variant_names(variants)
    yield configuration_text(kernel.grid, kernel.block) if len(kernels) == 1 else ""
    launches = sum(variant.launches for variant in variants)
    yield str(launches) if launches else ""
    yield _amounts([taken.registers])
    static = taken.static_shared_bytes
    shared = static + (taken.dynamic_shared_bytes or 0) if static is not None else None
    yield _amounts([shared], shared_text(static, taken.dynamic_shared_bytes))
    yield _amounts([taken.stack_bytes], bytes_text(taken.stack_bytes))
    yield _spills(taken.spills)
    limit = ""
    if occupancy is None:
        yield Cell(_NONE, "muted")
    else:
        limit = limit_text(occupancy.limiters, (step.sentence for step in occupancy.steps))
        percent = f"{'≤ ' if occupancy.needs_dynamic else ''}{format_percent(occupancy.fraction)}"
        yield Cell(percent, order=occupancy.fraction, bar=occupancy.fraction, whole=limit)
    yield _amounts([each.resources.instructions for each in kernels])
    yield _amounts([len(each.loops) if each.unreviewed is None else None for each in kernels])
    yield "" if has_sections else limit


def _amounts(values: Sequence[int | None], text: str = "") -> Cell:
    known = [value for value in values if value is not None]
    return Cell(text or range_text(values), "" if known else "muted", order=max(known, default=None))


def _spills(spills: SpillCount | None) -> Cell:
    if spills is None:
        return _amounts([None])
    number = spills.loads + spills.stores
    in_loops = f" ({spills.in_loops} in loops)" if spills.in_loops else ""
    return Cell(f"{number}{in_loops}", "warning" if number else "", order=number)


def _finding(group: KernelGroup, variants: Sequence[Variant], *, has_section: bool) -> Cell:
    names = {variant.name for variant in variants}
    found = [item.finding for item in group.findings if not item.only or names.intersection(item.only)]
    if found:
        more = f" +{len(found) - 1}" if len(found) > 1 else ""
        href = finding_anchor(found[0].id) if has_section else ""
        return Cell(found[0].rule + more, found[0].severity, href, order=len(found), whole=found[0].headline)
    if variants[0].kernel.unreviewed is not None:
        return Cell("not reviewed", "warning")
    return Cell(_NONE, "muted", order=0)
