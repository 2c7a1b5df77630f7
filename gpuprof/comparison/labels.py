"""Unique labels for the kernels of a comparison: launch configuration or range beside a name that several have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from gpuprof.comparison.contract import ComparedKernel, KernelChange
from gpuprof.model.recorded import configuration_text

_MOST = 40
"""Characters of a range that are shown."""


def unique_labels(changes: Sequence[KernelChange]) -> list[str]:
    """Return a label for each change, made unique by launch configuration, range, or a number.

    Labels are those of the new side, of the base for a kernel that is gone, "base → new" for one
    with two names.
    """
    kernels = [(*change.new, *change.base)[0] for change in changes]
    labels = _distinguished(list(map(_label, changes)), list(map(_configuration, kernels)))
    return _numbered(_distinguished(labels, list(map(_range, kernels))))


def _label(change: KernelChange) -> str:
    if change.match in ("renamed", "named") and len(change.base) == len(change.new) == 1:
        base = change.base[0].label
        new = change.new[0].label
        return new if base == new else f"{base} → {new}"
    return (*change.new, *change.base)[0].label


def _configuration(kernel: ComparedKernel) -> str:
    text = configuration_text(kernel.grid, kernel.block)
    return f" {text}" if text else ""


def _range(kernel: ComparedKernel) -> str:
    return f" @{kernel.ranges[-1][:_MOST]}" if kernel.ranges else ""


def _distinguished(labels: Sequence[str], additions: Sequence[str]) -> list[str]:
    """Add to labels that several kernels have an addition for each, if the additions differ."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    pairs = list(zip(labels, additions, strict=True))
    for label, addition in pairs:
        known[label].add(addition)
    distinguished = []
    for label, addition in pairs:
        is_unique = len(known[label]) == 1
        distinguished.append(label if is_unique else label + addition)
    return distinguished


def _numbered(labels: Sequence[str]) -> list[str]:
    taken = set(labels)
    counts = Counter[str]()
    unique = []
    for label in labels:
        counts[label] += 1
        candidate = label
        while counts[label] > 1 and (candidate := f"{label}#{counts[label]}") in taken:
            counts[label] += 1
        taken.add(candidate)
        unique.append(candidate)
    return unique
