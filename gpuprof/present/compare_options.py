"""Options for writing a comparison: how many kernels, and the root of the repository."""

from __future__ import annotations

from dataclasses import dataclass

from gpuprof.privacy.source_files import PathMap


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """`top` is how many kernels are shown if there is little room (0: all); None: as many as a format holds well.

    `root` is the absolute path of the repository, from git; None: not known.
    """

    top: int | None = None
    root: str | None = None
    path_maps: tuple[PathMap, ...] = ()


DEFAULTS = CompareOptions()
