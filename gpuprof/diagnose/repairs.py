"""What repairs gave, beside what the finding said before: for kernels of which each repairs the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuprof.model.session import Finding, KernelProfile


@dataclass(frozen=True, slots=True)
class Repair:
    """A kernel and its repair. `saved` is the fraction of its time that went; negative where the repair is slower.

    `finding` is the first one of the kernel before it that has a bound on the kernel's own time.
    """

    before: KernelProfile
    after: KernelProfile
    finding: Finding
    saved: float

    @property
    def within_bound(self) -> bool:
        """Tell whether the repair saved no more than the finding said it could at most, if it said so."""
        assert self.finding.gain_kernel is not None
        return self.finding.gain_kind != "bound" or self.saved <= self.finding.gain_kernel


def repairs(kernels: Sequence[KernelProfile]) -> Iterator[Repair]:
    """Yield each kernel with its repair, where both have a duration and something was found in the first."""
    for before, after in pairwise(kernels):
        finding = next((finding for finding in before.findings if finding.gain_kernel), None)
        if finding is not None and before.duration_s and after.duration_s:
            yield Repair(before, after, finding, saved=1 - after.duration_s / before.duration_s)
