"""Finds the probes that belong to this copy of gpuprof, and those among them that a user names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.probes.probe_file import read_probe
from gpuprof.errors import UsageError
from gpuprof.hardware.yaml_tree import BrokenSpec
from gpuprof.resources import data_dir

CASES = "bottlenecks"
"""The folder beside the families that holds planted bottlenecks, which are no probes."""


def probe_folder() -> Path:
    """Return the folder `microkernels`."""
    return data_dir("microkernels")


@lru_cache(maxsize=8)
def load_probes(folder: Path) -> tuple[Probe, ...]:
    """Read every `FAMILY/NAME.yaml` of a folder, in the order of their names. Raises BrokenSpec at the first defect."""
    files = (path for path in sorted(folder.glob("*/*.yaml")) if path.parent.name != CASES)
    probes = tuple(read_probe(path) for path in files)
    with_kernel = {probe.id for probe in probes if probe.kernel is not None}
    for probe in probes:
        if probe.load is not None and probe.load not in with_kernel:
            raise BrokenSpec(probe.place, f"load: no probe {probe.load!r} has a kernel")
    return probes


def select(probes: Iterable[Probe], names: Iterable[str]) -> tuple[Probe, ...]:
    """Return the probes that `names` (FAMILY or FAMILY/NAME) choose; all of them without names.

    Raises UsageError for a name that is neither.
    """
    probes, names = tuple(probes), tuple(names)
    for name in names:
        if not any(name in {probe.id, probe.family} for probe in probes):
            families = ", ".join(sorted({probe.family for probe in probes}))
            raise UsageError(
                f"unknown probe or family: --only {name}",
                f"families: {families}; gpuprof characterize --list lists the probes",
            )
    return tuple(probe for probe in probes if not names or {probe.id, probe.family} & set(names))
