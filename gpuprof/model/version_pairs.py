"""The savings of fixes beside the findings' bounds, for kernels that each fix the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuprof.model.session import Finding, KernelProfile

_ROUNDING = 1e-9
"""Rounding error of a quotient of two durations."""


class VersionPair(NamedTuple):
    """A kernel and its fix. `saved` is the saved fraction of its time, negative for a loss.

    The fix is compared with `finding`, which is None if nothing was found. `saved` is None without
    both durations.
    """

    before: KernelProfile
    after: KernelProfile
    finding: Finding | None
    saved: float | None

    @property
    def promised(self) -> float | None:
        """Return the fraction of the kernel's time that the finding said a fix could save.

        None if it did not say.
        """
        return (self.finding.gain_kernel or None) if self.finding is not None else None

    @property
    def breaks_promise(self) -> bool:
        """Return whether the fix saved more than the upper bound of the finding."""
        if self.finding is None or self.promised is None or self.saved is None:
            return False
        return self.finding.gain_kind == "bound" and self.saved > self.promised + _ROUNDING

    @property
    def is_found_again(self) -> bool:
        """Return whether the fixed kernel has the same finding, with something left to fix."""
        return self.finding is not None and self.finding.rule in {
            finding.rule for finding in self.after.findings if finding.severity != "info"
        }

    @property
    def is_gone(self) -> bool:
        """Return whether the fixed kernel lost the finding, with no less data collected."""
        if self.finding is None or self.is_found_again:
            return False
        return _missing(self.after) <= _missing(self.before)


def version_pairs(kernels: Sequence[KernelProfile]) -> Iterator[VersionPair]:
    """Yield each kernel with its fix."""
    for before, after in pairwise(kernels):
        saved = 1 - after.duration_s / before.duration_s if before.duration_s and after.duration_s else None
        yield VersionPair(before, after, finding=what_to_fix(before), saved=saved)


def what_to_fix(kernel: KernelProfile) -> Finding | None:
    """Return the first finding with something to gain, else the first with something to fix.

    None without either.
    """
    findings = [finding for finding in kernel.findings if finding.severity != "info"]
    return next((finding for finding in findings if finding.gain_kernel), next(iter(findings), None))


def _missing(kernel: KernelProfile) -> set[str]:
    return {what for entry in kernel.missing for what in entry.what.split(", ")}
