"""Options for writing a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from gpuprof.privacy.source_files import PathMap


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`top` is the maximum number of kernels (0: all, None: as many as suit the format).

    `root` is the absolute path of the repository from git; None: not known.
    """

    top: int | None = None
    root: str | None = None
    path_maps: tuple[PathMap, ...] = ()
