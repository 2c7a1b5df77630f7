"""The demo's first kernel and its fix as two runs: a session of each, and the page that compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprof.comparison.compare import Compared
    from gpuprof.model.session import KernelProfile, Session

BASE_FILE, NEW_FILE, COMPARISON_FILE = "before.json", "after.json", "comparison.html"
VERSION_FILES = (BASE_FILE, NEW_FILE, COMPARISON_FILE)


@dataclass(frozen=True, slots=True)
class Versions:
    """A kernel and its fix, each as a run of its own in a file, and what became of it."""

    sessions: Mapping[Path, Session]
    page: Path
    compared: Compared

    @property
    def files(self) -> Mapping[Path, bytes]:
        """Return the sessions and the page."""
        from gpuprof.store.write import session_bytes
        from gpuprof.views.comparison import page_lines

        written = {path: session_bytes(session) for path, session in self.sessions.items()}
        return {**written, self.page: "\n".join(page_lines(self.compared)).encode("utf-8", "backslashreplace")}

    @property
    def words(self) -> Sequence[str]:
        """Return what `gpuprof` is called with to compare the files: one kernel is the fix of the other."""
        return ["compare", *map(str, self.sessions), "--match", ".=."]


def versions_of(session: Session, folder: Path) -> Versions:
    """Return the first fix of a story whose kernels come in the order of the fixes; its files will lie in `folder`."""
    from gpuprof._version import __version__
    from gpuprof.api_compare import worded
    from gpuprof.comparison.compare import compare
    from gpuprof.comparison.pair import NamedMatch
    from gpuprof.comparison.sides import Run

    ends = session.kernels[:2]
    sessions = {
        folder / name: _alone(session, kernel) for name, kernel in zip((BASE_FILE, NEW_FILE), ends, strict=True)
    }
    base, new = ([Run(str(path), alone)] for path, alone in sessions.items())
    compared = compare(base, new, __version__, [NamedMatch(".", ".")])
    return Versions(sessions, folder / COMPARISON_FILE, compared=worded(compared))


def _alone(session: Session, kernel: KernelProfile) -> Session:
    """Return a run of this kernel and nothing else."""
    from msgspec.structs import replace

    from gpuprof.diagnose.summary import summarised
    from gpuprof.words.session import worded

    findings = tuple(replace(finding, gain_total=finding.gain_kernel) for finding in kernel.findings)
    alone = replace(kernel, time_share=1.0 if kernel.time_total_s is not None else None, findings=findings)
    return worded(summarised(replace(session, kernels=(alone,), run=None)))
