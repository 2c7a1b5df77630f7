"""Whether files that are shown as one run look like runs of one program: those are to be compared, not added up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuprof.cli.output import say, to_type

if TYPE_CHECKING:
    from gpuprof.model.session import Session

_SHARED = 0.5
"""From this share of the fewer kernels on, two files are taken for runs of one program; parts of a run share few."""


def point_to_compare(session: Session, files: Sequence[str]) -> None:
    """Say on stderr that the files of a session may be versions of one program, where they have the same kernels."""
    if len(files) < 2 or len(session.sources) != len(files) or not _look_alike(session):
        return
    sides = to_type(files) if len(files) == 2 else "--base BASE... --new NEW..."
    say(f"note: these files have the same kernels, whose times are added up; to compare them: gpuprof compare {sides}")


def _look_alike(session: Session) -> bool:
    """Tell whether every file has kernels of the first one; ranks and traces of one run do, and are none."""
    from gpuprof.model.kernel_key import kernel_key

    if session.timeline is not None or any(source.is_survey for source in session.sources):
        return False
    names: defaultdict[int, set[str]] = defaultdict(set)
    for kernel in session.kernels:
        if kernel.rank is not None:
            return False
        names[kernel.source].add(kernel_key(kernel.demangled))
    first = names.get(0, set())
    others = [names.get(number, set()) for number in range(1, len(session.sources))]
    return all(len(first & other) >= _SHARED * min(len(first), len(other)) > 0 for other in others)
