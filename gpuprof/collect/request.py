"""What the user asked to be profiled, and the names of the files that it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuprof.collect.command import as_ncu_may_call
from gpuprof.collect.counter_sets import DEFAULT
from gpuprof.collect.plan import COVERAGE
from gpuprof.collect.survey_tools import AUTO, results

SURVEY_FILE, PROFILE_FILE = "survey.ncu-rep", "profile.ncu-rep"
SURVEY_LOG, PROFILE_LOG = "survey.log", "profile.log"
AGAIN_FILE, AGAIN_LOG = "profile-again.ncu-rep", "profile-again.log"
"""Of a third run, for kernels that did not come in the second as planned."""
PROGRAM_LOG = "program.log"


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What the user asked for. `program` is a command and its words; `folder` takes all that is written.

    `survey` is a file to plan by instead of a first run, `survey_by` one of TOOLS for that run. `ranks`, a number or
    ALL, matters for a program that starts ranks.
    """

    program: tuple[str, ...]
    folder: Path
    counters: str = DEFAULT
    coverage: float = COVERAGE
    samples: int = 1
    kernel: str | None = None
    ranges: tuple[str, ...] = ()
    launch_skip: int = 0
    launch_count: int | None = None
    peers: bool = False
    survey: Path | None = None
    survey_by: str = AUTO
    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    targets: str = "all"
    graphs: str = "node"
    timeout_s: float | None = None
    annotate: bool = True
    program_to_stderr: bool = False
    ranks: str = "0"

    @property
    def selects_launches(self) -> bool:
        """Tell whether the user has chosen launches by number, so that no survey is needed."""
        return self.launch_skip > 0 or self.launch_count is not None


def survey_files(folder: Path) -> list[Path]:
    """Return what the survey of an earlier run has left in a folder."""
    by_ncu = [file for file in as_ncu_may_call(folder / SURVEY_FILE) if file.exists()]
    return [*by_ncu, *results(folder)]
