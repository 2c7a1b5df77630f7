"""Operations of many instructions that are a notable share of a loop, or of the kernel outside of loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_high

from gpuprof.diagnose.rule import amounts_of
from gpuprof.diagnose.thresholds import Threshold, context, percent
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.long_operations import LongOperation
from gpuprof.review.rules.rule import code_finding
from gpuprof.sass.instruction import Instruction

IN_LOOP = percent("operations-in-loop", 5.0)
IN_KERNEL = percent("operations-in-kernel", 33.0)


@dataclass(frozen=True, eq=False)
class CostlyOperations:
    """Operations of some kinds, and their share of the instructions of each loop; None: outside of loops."""

    facts: CodeFacts
    operations: Sequence[LongOperation]
    shares: Mapping[int | None, float]

    @property
    def slow(self) -> int:
        """Return the number of instructions of the longest slow path."""
        return max(operation.slow for operation in self.operations)

    @cached_property
    def in_loops(self) -> int:
        """Return the number of results that are computed in loops."""
        return sum(item.times for item in self.operations if self.facts.depth(_place(self.facts, item).address))

    @cached_property
    def total(self) -> int:
        """Return the number of results."""
        return sum(operation.times for operation in self.operations)

    @property
    def location(self) -> str:
        """Return the wording case of a headline for their place."""
        if not self.in_loops:
            return "shared/outside-loops"
        return "shared/in-loops" if self.in_loops == self.total else "shared/partly-in-loops"

    def finding(self, rule: str, cases: Cases) -> Finding:
        """Return the finding of a rule: their number and, if all their instructions are known, the largest share."""
        evidence = context("operations", self.total, "")
        if not any(operation.is_call for operation in self.operations):
            loop = max(self.shares, key=lambda loop: (loop is not None, self.shares[loop]))
            evidence += (_threshold(loop).evidence(100 * self.shares[loop]),)
        cost = median_high(operation.cost // operation.times for operation in self.operations)
        counts = amounts_of("time", operations=self.total, in_loops=self.in_loops)
        return code_finding(
            self.facts,
            rule,
            [_place(self.facts, operation) for operation in self.operations],
            cases,
            amounts=counts + amounts_of("instruction", cost=cost, slow=self.slow),
            evidence=evidence,
        )


def costly_operations(facts: CodeFacts, kinds: Iterable[str]) -> CostlyOperations | None:
    """Return the operations of these kinds that are a notable share of a loop, or of the code outside of loops."""
    found = [operation for operation in facts.operations if operation.kind in kinds]
    shares = _shares(facts, found)
    notable = {loop: share for loop, share in shares.items() if _threshold(loop).is_reached(share)}
    chosen = [operation for operation in found if not notable.keys().isdisjoint(_loops(facts, operation))]
    return CostlyOperations(facts, chosen, notable) if chosen else None


def _threshold(loop: int | None) -> Threshold:
    return IN_KERNEL if loop is None else IN_LOOP


def _shares(facts: CodeFacts, operations: Iterable[LongOperation]) -> Mapping[int | None, float]:
    costs: defaultdict[int | None, float] = defaultdict(float)
    for operation in operations:
        loops = _loops(facts, operation)
        for loop in loops:
            costs[loop] += operation.cost / len(loops)
    sizes = {loop: len(facts.code) if loop is None else facts.loops[loop].instructions for loop in costs}
    return {loop: min(1.0, cost / sizes[loop]) for loop, cost in costs.items()}


def _loops(facts: CodeFacts, operation: LongOperation) -> list[int | None]:
    """Return the innermost loop of each part: the reciprocal of an invariant divisor may be before the loop."""
    return [facts.innermost.get(address) for address in operation.parts]


def _place(facts: CodeFacts, operation: LongOperation) -> Instruction:
    """Return the first product with the reciprocal of an operation if that is deeper in loops, else its marker."""
    place = operation.at
    for address in operation.parts:
        if facts.at[address].is_a("IMAD.HI") and facts.depth(address) > facts.depth(place.address):
            place = facts.at[address]
    return place
