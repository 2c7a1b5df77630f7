"""Entry point: finds the command, runs it, and turns every error into one message and an exit code."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

import click

from gpuprof._version import __version__
from gpuprof.errors import PIPE_CLOSED, GpuprofError, Interrupted
from gpuprof.present.text import printable, tolerate

COMMANDS = {
    "run": "Profile a program: find the kernels that matter and diagnose them.",
    "show": "Print a report, CSV export or session: kernels, rooflines, occupancy, stalls.",
    "roofline": "Draw rooflines of a report as SVG, PNG and HTML.",
    "report": "Write one self-contained HTML page.",
    "characterize": "Measure a GPU with micro-kernels; check the kernels without one.",
    "compare": "Show two measured GPUs side by side.",
    "doctor": "Check what profiling needs, with the fix for what is missing.",
    "specs": "List, show, check and match hardware specs.",
    "demo": "Do the main job on recordings that come along, on a report, or on this GPU.",
}
"""Command and its one-line help. Help is printed from here, so that `gpuprof --help` imports no command."""


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands in the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import `gpuprof.cli.NAME` and return its `command`."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"gpuprof.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print names and one-line helps without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gpuprof")
def cli() -> None:
    """Which GPU kernels matter, how close each is to what the GPU can do, and why it is not closer."""


def main() -> None:
    """Run the command line, and end with the exit code of `gpuprof.errors` that fits."""
    # A command lives for a fraction of a second and makes no cycles worth collecting.
    gc.disable()
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        tolerate(stream)
    code = _run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = code or PIPE_CLOSED
    # Leaving without taking the interpreter apart saves 15 ms; nothing of ours waits for its end.
    os._exit(code)


def _open_closed_streams() -> None:
    """Let a stream that the caller closed (`>&-`) read as empty and swallow what is written."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _run() -> int:
    """Run a command and return its exit code; every error has been printed."""
    try:
        result = cli.main(prog_name="gpuprof", standalone_mode=False)
    except SystemExit:
        # Click's way to end where the reader of a pipe has gone.
        return _explain(BrokenPipeError())
    except Exception as error:
        return _explain(error)
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Print what went wrong and what to do, and return the exit code."""
    if isinstance(error, GpuprofError):
        _print_error(error.message, error.hint)
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        # The reader (head, less) has gone: point stdout elsewhere so that the last flush is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    if isinstance(error, click.Abort):
        _print_error("interrupted", None)
        return Interrupted.exit_code
    if isinstance(error, MemoryError):
        _print_error("there is not enough memory", None)
    elif isinstance(error, OSError):
        _print_error(_os_error(error), None)
    elif os.environ.get("GPUPROF_DEBUG"):
        raise error
    else:
        hint = "this is a defect of gpuprof; GPUPROF_DEBUG=1 shows where it happened"
        _print_error(f"internal error: {type(error).__name__}: {error}", hint)
    return GpuprofError.exit_code


def _print_error(message: str, hint: str | None) -> None:
    click.echo(f"error: {printable(message)}", err=True)
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)


def _os_error(error: OSError) -> str:
    name = f"{error.filename}: " if error.filename else ""
    return f"{name}{error.strerror or error}"
