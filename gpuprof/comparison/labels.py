"""Unique labels for the kernels of a comparison: launch configuration or range beside a name that several have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from gpuprof.comparison.contract import KernelChange
from gpuprof.model.recorded import configuration_text

_MOST = 40
"""Characters of a range that are shown."""


def unique_labels(changes: Sequence[KernelChange]) -> list[str]:
    """Return a label for each change, in order; the first that differ of name, configuration and range, else a number.

    Labels are those of the new side, of the base for what is gone; of a kernel with two names "base → new".
    """
    kernels = [(*change.new, *change.base)[0] for change in changes]
    labels = list(map(_label, changes))
    configurations = [configuration_text(kernel.grid, kernel.block) for kernel in kernels]
    labels = _distinguished(labels, [f" {text}" if text else "" for text in configurations])
    labels = _distinguished(labels, [f" @{kernel.ranges[-1][:_MOST]}" if kernel.ranges else "" for kernel in kernels])
    return _numbered(labels)


def _label(change: KernelChange) -> str:
    base, new = ([kernel.label for kernel in side] for side in (change.base, change.new))
    if change.match in ("renamed", "named") and len(base) == len(new) == 1 and base != new:
        return f"{base[0]} → {new[0]}"
    return (*new, *base)[0]


def _distinguished(labels: Sequence[str], additions: Sequence[str]) -> list[str]:
    """Return the labels; those that several kernels have with an addition for each, if the additions differ."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    for label, addition in zip(labels, additions, strict=True):
        known[label].add(addition)
    return [
        label + addition if len(known[label]) > 1 else label for label, addition in zip(labels, additions, strict=True)
    ]


def _numbered(labels: Sequence[str]) -> list[str]:
    taken, counts, unique = set(labels), Counter[str](), []
    for label in labels:
        counts[label] += 1
        number, candidate = counts[label], label
        while number > 1 and (candidate := f"{label}#{number}") in taken:
            number += 1
        counts[label] = number
        taken.add(candidate)
        unique.append(candidate)
    return unique
