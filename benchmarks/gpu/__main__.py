"""What only a GPU can tell: everything measured and recorded by one command, in one file, and taken in by another.

python -m benchmarks.gpu run OUT [--visit A] [--only NAME] [--minutes 8]   on a machine with an NVIDIA GPU
python -m benchmarks.gpu take FILE…                                       here: what a pack holds, as tests' data
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.command_line import LEFT as SOME_LEFT
from benchmarks.command_line import minutes
from benchmarks.command_line import run as run_command
from gpuprof.errors import GpuprofError, UsageError

if TYPE_CHECKING:
    from benchmarks.gpu.runner import Kit
    from benchmarks.gpu.steps import Step

NEUTRAL = Path("/tmp/gpuprof-gpu")
"""Where all runs, and what is said in its place where it is another folder."""
_NOTE = "Of visit D, changing a slow program until it is fast is left to a person: NAME_v2, NAME_repaired beside it."


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the first word says and return the exit code."""
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_gpu = commands.add_parser("run", help="run the steps on this machine's GPU; go on where an earlier call ended")
    of_gpu.add_argument("out", type=Path, metavar="OUT", help="folder for the results and the pack")
    of_gpu.add_argument("--visit", choices=("A", "B", "C", "D"), help="only the steps of one visit")
    of_gpu.add_argument("--only", action="append", metavar="NAME", help="only this step, also if it failed; repeatable")
    of_gpu.add_argument("--minutes", type=minutes, metavar="M", help="begin only what fits in so many minutes")
    of_gpu.add_argument("--ncu", metavar="PATH", help="this ncu instead of the newest that the driver supports")
    of_gpu.add_argument("--python", default=sys.executable, metavar="PATH", help="Python that has torch and the like")
    of_gpu.add_argument("--scratch", type=Path, metavar="DIR", help="folder to run in; its name is in what is sent")
    of_gpu.add_argument("--packs", type=Path, metavar="DIR", help="folder for the pack alone; else it is in OUT")
    of_gpu.add_argument("--list", action="store_true", help="list the steps and what each needs")
    of_gpu.set_defaults(run=run)
    of_packs = commands.add_parser("take", help="check packs, and take what they hold as data of tests and results")
    of_packs.add_argument("files", nargs="+", type=Path, metavar="FILE")
    of_packs.set_defaults(run=take)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run steps; return 0 only where all that can run here have run well."""
    from benchmarks.gpu.context import Places
    from benchmarks.gpu.needs import environment, find_tools
    from benchmarks.gpu.runner import Kit, pack, run_steps, scratch_folder
    from benchmarks.gpu.scrub import names_here
    from benchmarks.gpu.steps import steps

    began, every = time.monotonic(), steps()
    chosen = _chosen(every, options.visit, options.only)
    out, scratch = options.out.absolute(), (options.scratch or NEUTRAL).absolute()
    if options.list:
        _list(chosen)
        return 0
    with _writable(out), scratch_folder(scratch):
        environ = environment(scratch, Places(scratch, out).tree)
        if options.ncu is not None:
            environ["PATH"] = os.pathsep.join((str(Path(options.ncu).absolute().parent), environ.get("PATH", "")))
        tools = find_tools(environ, options.ncu, _program(options.python))
        folders = [(out, "/out"), (Path(__file__).resolve().parents[2], "/gpuprof")]
        if scratch != NEUTRAL:
            folders.append((scratch, str(NEUTRAL)))
        if not tools.prefix.startswith(("/usr", "/opt")):
            folders.append((Path(tools.prefix), "/python"))
        kit = Kit(
            places=Places(scratch, out),
            tools=tools,
            names=names_here(folders),
            environ=environ,
            tell=_tell,
            visit=options.visit,
        )
        if options.packs is not None:
            kit.packs = options.packs.absolute()
            kit.packs.mkdir(parents=True, exist_ok=True)
        if options.minutes is not None:
            kit.until = began + 60 * options.minutes
        states = run_steps(kit, chosen, every, again=bool(options.only))
        files = pack(kit, every, states)
        return _ended(kit, states, chosen, files)


@contextlib.contextmanager
def _writable(out: Path) -> Iterator[None]:
    """Make the folder of results. Raises GpuprofError where nothing can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        where = error.filename or out
        raise GpuprofError(f"cannot write {where}: {error.strerror or error}", "what was there stays good") from error


def _chosen(every: Sequence[Step], visit: str | None, only: Sequence[str] | None) -> list[Step]:
    names = {step.name for step in every}
    for name in only or ():
        if name not in names:
            raise UsageError(f"there is no step {name}", "--list lists them")
    return [step for step in every if visit in (None, step.visit) and (not only or step.name in only)]


def _program(python: str) -> str:
    return python if os.sep not in python else str(Path(python).absolute())


def _list(chosen: Sequence[Step]) -> None:
    print(f"{'':2}{'step':24} {'forecast':>8}  {'needs':60} what")
    for step in chosen:
        print(f"{step.visit} {step.name:24} {step.forecast_s:6.0f} s  {' '.join(step.needs):60} {step.what}")
    print(f"Forecasts of visit A are from an H100, in part; all others are estimates. {_NOTE}")


def _ended(kit: Kit, states: Mapping[str, str], chosen: Sequence[Step], files: Sequence[Path]) -> int:
    """Tell what became of the steps, and return the exit code."""
    from benchmarks.gpu.runner import CUT, LEFT, SKIPPED, WELL, forecast_left_s, why_not

    for step in chosen:
        if states[step.name] == SKIPPED:
            _tell(f"skipped {step.name}: {why_not(kit, step)}")
    kinds = sorted(set(states.values()))
    _tell(", ".join(f"{list(states.values()).count(kind)} {kind}" for kind in kinds) + f". {_NOTE}")
    for file in files:
        print(file)
    left = [f"{step.name} ({forecast_left_s(kit, step):.0f} s)" for step in chosen if states[step.name] in (LEFT, CUT)]
    if left:
        _tell(f"left, the same command goes on: {', '.join(left)}")
    if kit.stopped:
        return 130
    if set(states.values()) <= {WELL, SKIPPED}:
        return 0
    return SOME_LEFT if set(states.values()) <= {WELL, SKIPPED, LEFT, CUT} else 1


def take(options: argparse.Namespace) -> int:
    """Take packs in; tell what was left out."""
    from benchmarks.gpu.take import take_in

    for line in take_in(options.files, Path(__file__).resolve().parents[2]):
        print(line)
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
