"""A library's matrix product on tensor cores loads fewer than 16 bytes at once, because its operands are unaligned."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE, WORK
from gpuprof.diagnose.facts.work import SCALAR_PIPES
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import Threshold
from gpuprof.model.field_types import Severity
from gpuprof.model.findings import CaseName
from gpuprof.model.product_names import FULL_ALIGNMENT_BYTES, OperandAlignment, operand_alignment
from gpuprof.model.torch_ranges import ProductSize, product_size

ALIGNMENT = Threshold("alignment", FULL_ALIGNMENT_BYTES, "B")
_OF_LOADS = dict.fromkeys((*SCALAR_PIPES, "l1", "lsu", ISSUE), 0.0)
"""The units that wider loads relieve."""
_LIMITS = {"tensor", "l2", "dram", WORK}
"""The units that they do not."""
_LEAST_OF_RUN = 0.005
"""A change of which no gain is known is worth its effort from this share of the run on."""


def _unaligned(facts: KernelFacts) -> Findings:
    alignment = operand_alignment(facts.kernel.demangled)
    if alignment is None or alignment.elements >= alignment.full:
        return
    size = product_size(facts.kernel.ranges)
    unaligned = tuple(_unaligned_row_lengths(size, alignment)) if size is not None else ()
    headline: tuple[CaseName, ...] = ("main",)
    why: tuple[CaseName, ...] = ("main",)
    change = f"pad-{alignment.full}"
    if unaligned:
        headline, why = ("main", "sizes"), ("main", "sizes")
    elif size is not None and not any(length % alignment.full for length in size):
        change, why = "view", ("main", "view")
    is_bounded = not _LIMITS.isdisjoint(facts.needs)
    yield finding(
        facts,
        cases_of(change, headline, why),
        amounts=amounts_of("element", elements=alignment.elements, full=alignment.full)
        + amounts_of("B", loaded=alignment.elements * alignment.element_bytes),
        labels=labels_of(sizes=unaligned),
        confidence="guess" if change == "view" else "inferred",
        saving=speedup_bound(facts, _OF_LOADS) if is_bounded else None,
        severity=None if is_bounded else _severity_by_share(facts),
        evidence=(
            ALIGNMENT.evidence(alignment.elements * alignment.element_bytes),
            *facts.pipe_evidence("tensor"),
        ),
    )


def _severity_by_share(facts: KernelFacts) -> Severity:
    """Return the severity if the gain is not known: a kernel that hardly takes time needs no change."""
    return "low" if facts.run_share is None or facts.run_share >= _LEAST_OF_RUN else "info"


def _unaligned_row_lengths(size: ProductSize, alignment: OperandAlignment) -> Iterator[str]:
    """Yield the lengths of rows of the operands and of the result that are not whole multiples of 16 bytes.

    BLAS counts columns first, so its first operand is the second one of the framework. Transposed, that has rows as
    long as the sums, and the other one rows as long as the result has rows.
    """
    first = size.depth if alignment.layout.startswith("t") else size.columns
    second = size.rows if alignment.layout.endswith("t") else size.depth
    for length in dict.fromkeys((first, second, size.columns)):
        if length % alignment.full:
            yield str(length)


RULE = Rule(
    "unaligned-product",
    thresholds=(ALIGNMENT,),
    check=_unaligned,
    by_times=True,
    of_libraries=True,
    place=AT_KERNEL,
)
