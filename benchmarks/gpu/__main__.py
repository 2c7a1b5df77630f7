"""What only a GPU can tell, in calls of less than three minutes that each bring their results home.

python -m benchmarks.gpu call N [--packs DIR]   on a machine with an NVIDIA GPU, in this folder
python -m benchmarks.gpu take FILE…             here: what packs hold, as data of tests and results
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.command_line import LEFT as SOME_LEFT
from benchmarks.command_line import minutes
from benchmarks.command_line import run as run_command
from gpuprof.errors import GpuprofError, UsageError
from gpuprof.needed_packages import refuse_missing_packages

if TYPE_CHECKING:
    from benchmarks.gpu.runner import Kit
    from benchmarks.gpu.steps import Step

RESULTS = "gpuprof-gpu-results"
"""The folder of all results, in which each kind of GPU has one."""
SCRATCH = "gpuprof-gpu"
"""The folder for temporary files that all runs in, and what is said in its place where it is not in /tmp."""
_ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the first word says and return the exit code."""
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("call", help="run the steps of a call on this machine's GPU, those that are not done yet")
    one.add_argument("number", type=int, metavar="N", help="which call")
    one.add_argument("--packs", type=Path, metavar="DIR", help=f"folder for the pack; else it is in {RESULTS}")
    one.add_argument("--minutes", type=minutes, metavar="M", help="let it take so long, on a slower machine")
    one.set_defaults(run=call)
    of_packs = commands.add_parser("take", help="check packs, and take what they hold as data of tests and results")
    of_packs.add_argument("files", nargs="+", type=Path, metavar="FILE")
    of_packs.set_defaults(run=take)
    return parser


def call(options: argparse.Namespace) -> int:
    """Run a call; return 0 only where all of its steps that can run here have run well."""
    refuse_missing_packages()
    from benchmarks.gpu.context import Places
    from benchmarks.gpu.needs import environment, find_tools
    from benchmarks.gpu.runner import Kit, pack, run_steps, scratch_folder
    from benchmarks.gpu.scrub import names_here
    from benchmarks.gpu.steps import CALL_S, PREPARATION_S, calls, steps_of
    from benchmarks.gpu.take import slug

    began = time.monotonic()
    if options.number not in calls():
        raise UsageError(f"there is no call {options.number}", f"choose one of 1 to {max(calls())}")
    chosen, results = steps_of(options.number), Path(RESULTS).absolute()
    scratch = Path(tempfile.gettempdir()).absolute() / SCRATCH
    with _writable(), scratch_folder(scratch):
        environ = environment(scratch, Places(scratch, results).tree)
        tools = find_tools(environ)
        name = slug(tools.gpu.name) if tools.gpu is not None else "no-gpu"
        kit = Kit(
            places=Places(scratch, results / name),
            tools=tools,
            names=names_here(_folders(results, scratch)),
            environ=environ,
            tell=_tell,
            until=began + (60 * options.minutes if options.minutes else CALL_S - PREPARATION_S),
            title=f"{name}-call-{options.number}",
            packs=(options.packs or results).absolute(),
        )
        for folder in (kit.places.out, kit.packs):
            folder.mkdir(parents=True, exist_ok=True)
        states = run_steps(kit, chosen)
        return _ended(kit, states, chosen, pack(kit, chosen))


def _folders(results: Path, scratch: Path) -> Iterator[tuple[Path, str]]:
    """Yield folders, each with what is said in its place."""
    yield results, "/out"
    yield _ROOT, "/gpuprof"
    yield scratch, f"/tmp/{SCRATCH}"
    if not sys.prefix.startswith(("/usr", "/opt")):
        yield Path(sys.prefix), "/python"


@contextlib.contextmanager
def _writable() -> Iterator[None]:
    """Raise GpuprofError where nothing can be written."""
    try:
        yield
    except OSError as error:
        where = error.filename or RESULTS
        raise GpuprofError(f"cannot write {where}: {error.strerror or error}", "what was there stays good") from error


def _ended(kit: Kit, states: Mapping[str, str], chosen: Sequence[Step], files: Sequence[Path]) -> int:
    """Tell what became of the steps, and return the exit code."""
    from benchmarks.gpu.runner import CUT, LEFT, SKIPPED, WELL, forecast_left_s, why_not

    for step in chosen:
        if states[step.name] == SKIPPED:
            _tell(f"skipped {step.name}: {why_not(kit, step)}")
    _tell(", ".join(f"{list(states.values()).count(state)} {state}" for state in sorted(set(states.values()))))
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

    for line in take_in(options.files, _ROOT):
        print(line)
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
