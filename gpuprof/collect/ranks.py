"""Programs of several ranks: what `torchrun`, `mpirun` or `srun` starts is put under the profiler rank by rank.

The profiler has to start the ranks' own command, not the launcher, for one rank to be profiled and the others not, and
for each to leave a report of its own. So a small shell script takes the place of that command.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuprof.collect.python_programs import python_of

ALL = "all"
SCRIPT = "rank.sh"
RANK = "@RANK@"
"""Stands for the rank in what the script is made of."""
_RANK_VARIABLES = (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID",
)  # fmt: skip
"""By torchrun, Open MPI, PMIx, MPICH and its kin, MVAPICH2, Slurm."""
_MPI = re.compile(r"(?:mpirun|mpiexec|orterun|prterun|srun)(?:[.-].*)?")
_TORCH = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_TAKE_TWO = {"--mca", "-mca", "--gmca", "-gmca", "-env", "-genv", "--prtemca", "--pmixmca"}
_TAKE_ONE = {
    # Open MPI, MPICH's Hydra
    "-n", "-np", "--np", "-c", "-N", "-npernode", "--npernode", "--n", "-H", "-host", "--host", "-hosts", "-hostfile",
    "--hostfile", "-machinefile", "--machinefile", "-f", "-ppn", "-perhost", "-map-by", "--map-by", "-rank-by",
    "--rank-by", "-bind-to", "--bind-to", "-x", "-wdir", "--wdir", "-wd", "-path", "--path", "--prefix", "-timeout",
    "--timeout", "-output-filename", "--output-filename", "-iface", "-launcher", "-genvlist", "-envlist", "--output",
    # Slurm
    "-A", "-D", "-G", "-J", "-e", "-i", "-o", "-p", "-t", "-w", "--account", "--chdir", "--constraint",
    "--container-image", "--container-mounts", "--cpu-bind", "--cpus-per-task", "--distribution", "--error",
    "--exclude", "--export", "--gpu-bind", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gres", "--input",
    "--job-name", "--mem", "--mpi", "--nodelist", "--nodes", "--ntasks", "--ntasks-per-node", "--partition", "--qos",
    "--reservation", "--time",
}  # fmt: skip


class RankLauncher(NamedTuple):
    """A command that starts ranks. `at` is where the ranks' own command begins in it; None for torchrun, which has
    another way to be given one: `python` is what it would start.
    """

    argv: tuple[str, ...]
    at: int | None
    python: str | None = None

    def start(self, script: Path) -> tuple[list[str], dict[str, str]]:
        """Return the command line that starts `script` in place of the ranks' own command, and variables to be set."""
        if self.at is None:
            return list(self.argv), {"PYTHON_EXEC": str(script)}
        return [*self.argv[: self.at], str(script), *self.argv[self.at :]], {}


def launcher_of(program: Sequence[str]) -> RankLauncher | None:
    """Return the launcher of ranks that a program is; None for any other program."""
    argv = tuple(program)
    name = Path(argv[0]).name
    if _MPI.fullmatch(name):
        at = _own_command(argv)
        return RankLauncher(argv, at) if at is not None else None
    module = argv[2] if argv[1:2] == ("-m",) and len(argv) > 2 else None
    if name in _TORCH or module in _TORCH:
        return RankLauncher(argv, None, python_of(argv))
    return None


def _own_command(argv: Sequence[str]) -> int | None:
    """Return where the ranks' command begins: the first program that can be run and is no option's value."""
    place = 1
    while place < len(argv):
        argument = argv[place]
        if argument == "--":
            return place + 1 if place + 1 < len(argv) else None
        if argument.startswith("-"):
            place += 3 if argument in _TAKE_TWO else 2 if argument in _TAKE_ONE else 1
        elif shutil.which(argument) is not None:
            return place
        else:
            place += 1
    return None


def script_text(profiler: Sequence[str], ranks: str, python: str | None, variables: Mapping[str, str]) -> str:
    """Return a script that runs its arguments: on the chosen ranks under the profiler, on the others as they are.

    `profiler` are arguments in which RANK stands for the rank's number; `ranks` is a number or ALL.
    """
    rank = "0"
    for name in reversed(_RANK_VARIABLES):
        rank = f"${{{name}:-{rank}}}"
    own = f'{_quoted(python)} "$@"' if python is not None else '"$@"'
    chosen = "*" if ranks == ALL else ranks
    settings = "".join(f" {_quoted(f'{name}={value}')}" for name, value in variables.items())
    before = "".join(f"{_quoted(word)} " for word in profiler)
    return f"""#!/bin/sh
rank={rank}
case "$rank" in
{chosen}) exec env{settings} {before}{own} ;;
*) exec {own} ;;
esac
"""


def _quoted(word: str) -> str:
    inside = word.replace("'", "'\"'\"'").replace(RANK, "'\"$rank\"'")
    return f"'{inside}'"


def of_rank(path: Path, rank: str) -> Path:
    """Return where a rank writes in place of a path: profile.ncu-rep → profile.rank3.ncu-rep."""
    stem, dot, suffix = path.name.partition(".")
    return path.with_name(f"{stem}.rank{rank}{dot}{suffix}")


def rank_files(path: Path) -> dict[int, Path]:
    """Return the files that ranks have written in place of one path, by rank."""
    before, after = of_rank(path, RANK).name.split(RANK)
    pattern = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
    matches = ((pattern.fullmatch(file.name), file) for file in path.parent.glob("*"))
    return dict(sorted((int(match[1]), file) for match, file in matches if match is not None))
