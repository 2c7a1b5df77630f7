"""`gpuprof compare --run -- CMD_A --- CMD_B`: both programs are profiled on this GPU, interleaved."""

from __future__ import annotations

from gpuprof.cli.compare_sides import Programs, SideFiles
from gpuprof.errors import UsageError


def measured_sides(programs: Programs, budget_s: float | None) -> SideFiles:
    """Profile both programs as often as the budget allows, and return the sessions that were written."""
    del budget_s
    base, new = programs
    raise UsageError(
        f"--run cannot measure {base[0]:.100} and {new[0]:.100} yet",
        "profile each with gpuprof run, and compare the session.json in their folders",
    )
