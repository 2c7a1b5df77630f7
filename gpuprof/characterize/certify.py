"""A certificate of what ncu's counters count, from probes whose work is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gpuprof.hardware.certificates import CERTIFIED, Agreement, Certificate, release_of

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.results.judging import Counted

SPARSE = " sparse"


def certificate_of(
    counted: Mapping[str, Counted],
    probes: Iterable[Probe],
    arch: str,
    *,
    ncu: str | None,
    gpu: str | None,
    driver: str | None,
    date: str,
) -> Certificate:
    """Return what the counts of a run certify: for each probe, quantity and way to count it, counted ÷ claimed.

    `ncu` is its version, such as "2025.3.1.0".
    """
    sparse = frozenset(probe.id for probe in probes if any(limit.sparse for limit in probe.limits))
    release = release_of(ncu)
    return Certificate(
        arch=arch,
        level=CERTIFIED,
        ncu=(release,) if release is not None else (),
        gpu=gpu,
        driver=driver,
        date=date,
        agreements=tuple(_agreements(counted, sparse)),
        file="",
    )


def _agreements(counted: Mapping[str, Counted], sparse: frozenset[str]) -> Iterator[Agreement]:
    """Yield one for each probe. Structured sparsity is a quantity of its own: half of what is claimed is multiplied."""
    for probe, one in counted.items():
        for (name, counters), value in one.each.items():
            claim = one.claimed.get(name)
            if claim and value >= 0:
                quantity = name + SPARSE if probe in sparse else name
                yield Agreement(quantity, counters, f"probe {probe}", value / claim, value / claim, 1, None)
