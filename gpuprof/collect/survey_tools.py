"""Tools that time every kernel and disturb a program less than ncu: PyTorch's own profiler, Nsight Systems, CUPTI."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuprof.collect.annotate import annotation, survey_variables
from gpuprof.collect.machine import Machine
from gpuprof.collect.python_imports import imported, is_without_torch, isolated_by
from gpuprof.collect.python_programs import packages_of, python_of
from gpuprof.collect.shell import shell_line
from gpuprof.own_files import read_plain
from gpuprof.working_folder import program_on_path

AUTO, TORCH, NSYS, CUPTI, NCU = "auto", "torch", "nsys", "cupti", "ncu"
TOOLS = (AUTO, TORCH, NSYS, CUPTI, NCU)
TOOL_NAMES = {TORCH: "PyTorch's own profiler", NSYS: "Nsight Systems", CUPTI: "CUPTI", NCU: "ncu"}
INJECTED = (TORCH, CUPTI)
"""Those that record in the program's own Python."""
SURVEY_TRACE, SURVEY_EXPORT = "survey.pt.trace.json.gz", "survey.sqlite"
_NSYS_UNREAD = "survey.qdstrm"
_NSYS_LEAVES = (_NSYS_UNREAD, "survey.nsys-rep")
_FOLDER = ".survey"
_TRACES, _NOTES = "*.pt.trace.json.gz", "*.note"
_NSYS_FOLDERS = (
    ("usr/local", "cuda*/bin/nsys"),
    ("opt/nvidia/nsight-systems", "*/bin/nsys"),
    ("opt/nvidia", "nsight-systems*/bin/nsys"),
    ("usr/lib/nsight-systems", "bin/nsys"),
)


@dataclass(frozen=True, slots=True)
class SurveyCommand:
    """A run of the program under another tool than ncu. `variables` are set on top of its environment."""

    tool: str
    arguments: tuple[str, ...]
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def argv(self) -> list[str]:
        """Return the arguments to execute, the program first."""
        return list(self.arguments)

    def shell(self) -> str:
        """Return the command as one line that a POSIX shell runs as it is."""
        return shell_line(["env", *(f"{name}={value}" for name, value in self.variables.items()), *self.arguments])

    def prepare(self) -> None:
        """Make the folder into which the program's processes write."""
        for name in (_FOLDER, *_NSYS_LEAVES):
            _remove(self.folder / name)
        if self.tool in INJECTED:
            (self.folder / _FOLDER).mkdir()

    def collect(self) -> tuple[str, ...]:
        """Put what the program's processes have written beside the other reports, and return what they noted."""
        place, unread = self.folder / _FOLDER, self.folder / _NSYS_UNREAD
        if self.tool == NSYS and unread.exists():
            return (
                f"nsys could not convert its recording {unread.name}: its importer, part of the host package, is "
                "missing or fails",
            )
        if place.is_symlink() or not place.is_dir():
            return ()
        traces = sorted(place.glob(_TRACES))
        noted = (read_plain(note).decode(errors="replace").strip() for note in sorted(place.glob(_NOTES)))
        notes = tuple(dict.fromkeys(noted))
        for number, trace in enumerate(traces, 1):
            trace.replace(self.folder / (SURVEY_TRACE if len(traces) == 1 else f"survey.{number}.pt.trace.json.gz"))
        for cut in place.glob("*.part"):  # the process ended while it wrote
            cut.replace(self.folder / f"survey.{cut.stem}.unread")
        _remove(place)
        return notes


def _remove(place: Path) -> None:
    """Remove a file, a folder or a link, but not what a link points to."""
    if place.is_symlink() or not place.is_dir():
        place.unlink(missing_ok=True)
    else:
        shutil.rmtree(place, ignore_errors=True)


def results(folder: Path) -> list[Path]:
    """Return the timelines that a survey has left in a folder, to be read."""
    exports = [folder / SURVEY_EXPORT] if os.path.lexists(folder / SURVEY_EXPORT) else []
    return [*sorted(folder.glob("survey*.pt.trace.json.gz")), *exports]


def injected_command(tool: str, program: Sequence[str], folder: Path, environ: Mapping[str, str]) -> SurveyCommand:
    """Return the plain run of a Python program in which PyTorch, or cupti-python, records what the GPUs do."""
    variables = survey_variables(environ, (folder / _FOLDER).absolute())
    return SurveyCommand(tool, tuple(program), folder, variables={**variables, "GPUPROF_SURVEY_BY": tool})


def nsys_command(
    nsys: str, program: Sequence[str], folder: Path, environ: Mapping[str, str], *, annotate: bool
) -> SurveyCommand:
    """Return the run under Nsight Systems: CUDA and NVTX alone, exported to SQLite, graphs by their kernels."""
    options = (
        "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node", "--export=sqlite",
        "--stats=false", "--force-overwrite=true", f"--output={folder / 'survey'}",
    )  # fmt: skip
    variables = annotation(environ) if annotate else {}
    return SurveyCommand(NSYS, (nsys, "profile", *options, *program), folder, variables=variables)


def tools_for(program: Sequence[str], environ: Mapping[str, str], machine: Machine | None = None) -> tuple[str, ...]:
    """Return the tools to try on a program, the least disturbing first; without a driver ncu alone, which says so."""
    machine = machine or Machine()
    if machine.driver_version() is None:
        return (NCU,)
    python = python_of(program, environ.get("PATH"))
    packages = frozenset[str]()
    if python is not None and isolated_by(program) is None:
        packages = packages_of(python, ("torch", "cupti"), environ)
    with_torch = "torch" in packages and not is_without_torch(imported(program))
    usable = {
        TORCH: with_torch,
        NSYS: find_nsys(environ, machine) is not None,
        # Only one in a process may subscribe to CUPTI, and PyTorch's profiler would.
        CUPTI: "cupti" in packages and not with_torch,
        NCU: True,
    }
    return tuple(tool for tool, is_usable in usable.items() if is_usable)


def find_nsys(environ: Mapping[str, str], machine: Machine | None = None) -> str | None:
    """Return Nsight Systems' nsys: on PATH, else the newest in the folders of installers."""
    on_path = program_on_path("nsys", environ)
    if on_path is not None:
        return on_path
    machine = machine or Machine()
    programs = [path for folder, pattern in _NSYS_FOLDERS for path in machine.path(folder).glob(pattern)]
    usable = [path for path in programs if os.access(path, os.X_OK)]
    return str(max(usable, key=_newest)) if usable else None


def _newest(path: Path) -> tuple[int, ...]:
    """Return the numbers in a path, by which versions are compared: nsight-systems/2024.5.1/bin/nsys."""
    numbers: list[int] = []
    for part in path.parts:
        for word in part.replace("-", ".").split("."):
            with contextlib.suppress(ValueError):
                numbers.append(int(word))
    return tuple(numbers)
