"""Entry point: finds the command, runs it, and turns every error into one message and an exit code."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from gpuprof._version import __version__
from gpuprof.cli.help import ARGUMENTS, START
from gpuprof.errors import PIPE_CLOSED, GpuprofError, Interrupted, UsageError
from gpuprof.needed_packages import problem_of
from gpuprof.text import printable, tolerate

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from click.shell_completion import CompletionItem

COMMANDS = {
    "run": "Profile a program: which kernels matter, what to fix first.",
    "show": "Print a report: what to fix first, kernels, rooflines, stalls.",
    "roofline": "Draw the rooflines of a report or a program.",
    "report": "Write a report as one self-contained HTML page.",
    "characterize": "Measure what this GPU can do, with micro-kernels.",
    "compare": "Compare two runs: what changed, why; a gate for CI.",
    "check": "Review compiled kernels without a GPU: what their code shows.",
    "doctor": "Check what profiling needs, with the fix for what is missing.",
    "specs": "List, show, check and match hardware specs.",
    "demo": "Show what gpuprof says of recorded kernels, or of this GPU.",
}
"""Command and its one-line help. Help is printed from here, so that `gpuprof --help` imports no command."""


COMPLETE = "_GPUPROF_COMPLETE"
"""By this variable a shell asks for completions; click names it after the program."""


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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words for what an error may say of them."""
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take a file to read, without a command, as one to show. Raises UsageError for any other word."""
        if args[0] in COMMANDS or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from gpuprof.cli.first_word import is_file, wrong_command

        if is_file(args[0]):
            file = f"./{args[0]}" if args[0].startswith("-") and args[0] != "-" else args[0]
            return super().resolve_command(ctx, ["show", file, *args[1:]])
        raise wrong_command(args, COMMANDS)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of which click does not say whose it is gets the command's context."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = self.get_command(ctx, name) if error.ctx is None and name is not None else None
            if command is not None:
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print what gpuprof does, and what to type first."""
        super().format_help_text(ctx, formatter)
        with formatter.section("Start here"):
            formatter.write_dl(START)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Say where the options of a command are."""
        formatter.write("\ngpuprof COMMAND --help shows the options of a command.\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name, or an option, without importing the commands."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print names and one-line helps without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="gpuprof")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Which GPU kernels matter, how close each is to what the GPU can do, and why it is not closer."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command line, and end with the exit code of `gpuprof.errors` that fits."""
    # A command lives for a fraction of a second and makes no cycles worth collecting.
    gc.disable()
    _prepare_streams()
    for stream in (sys.stdout, sys.stderr):
        tolerate(stream)
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or PIPE_CLOSED
    except OSError as error:
        code = code or _explain(error)
    sys.stderr.flush()
    # Leaving without taking the interpreter apart saves 15 ms; nothing of ours waits for its end.
    os._exit(code)


def _prepare_streams() -> None:
    """Name standard output in its errors, and ignore errors of standard error, which must not change the exit code.

    Reopen the descriptor of a stream that the caller closed (`>&-`), so that no other file gets it: standard input is
    empty, standard output refuses writes, and standard error discards them.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _occupy(number, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))
    sys.stdout = _over(_NamedOutput, sys.stdout)
    sys.stderr = _over(_Talk, sys.stderr)


def _occupy(number: int, flags: int) -> None:
    """Open /dev/null under a descriptor that child processes inherit."""
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)


_STANDARD_OUTPUT = "standard output"


class _NamedOutput(io.FileIO):
    """Standard output, whose errors say so: the system's own have no name, and could be those of any file."""

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        """Write bytes, as many as the system takes."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = _STANDARD_OUTPUT
            raise


class _Talk(io.FileIO):
    """Standard error; output that it does not accept is discarded."""

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        """Write bytes, and report them as written even if that fails."""
        with contextlib.suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def _over(raw: type[io.FileIO], stream: TextIO) -> io.TextIOWrapper:
    """Return a stream to the same descriptor with the same settings that writes through `raw`."""
    buffer = io.BufferedWriter(raw(stream.fileno(), "wb", closefd=False))
    # With PYTHONUNBUFFERED, as in many containers, the stream is written through instead of line by line.
    by_line = bool(stream.line_buffering or getattr(stream, "write_through", False))
    return io.TextIOWrapper(buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=by_line)


def _run() -> int:
    """Run a command and return its exit code; every error has been printed."""
    completing = COMPLETE in os.environ
    if completing:
        from gpuprof.cli.completion import prepare

        prepare()
    try:
        result = cli.main(prog_name="gpuprof", standalone_mode=False)
    except SystemExit as end:
        if completing:
            return end.code if isinstance(end.code, int) else 0
        # Click's way to end where the reader of a pipe has gone.
        return _explain(BrokenPipeError())
    except Exception as error:
        # A shell would print it into the line that is being typed.
        return GpuprofError.exit_code if completing else _explain(error)
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Print what went wrong and what to do, and return the exit code."""
    if isinstance(error, ModuleNotFoundError):
        error = problem_of(error) or error
    if isinstance(error, GpuprofError):
        _print_error(error.message, error.hint)
        return error.exit_code
    if isinstance(error, click.ClickException):
        return _explain_usage(error)
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
        return _explain_os_error(error)
    elif os.environ.get("GPUPROF_DEBUG"):
        raise error
    else:
        hint = "this is a defect of gpuprof; GPUPROF_DEBUG=1 shows where it happened"
        _print_error(f"internal error: {type(error).__name__}: {error}", hint)
    return GpuprofError.exit_code


def _explain_usage(error: click.ClickException) -> int:
    """Print what is wrong with the command line; of a group without a command, its help."""
    from gpuprof.cli.usage import wrong

    if type(error).__name__ == "NoArgsIsHelpError":
        try:
            click.echo(error.format_message())
        except OSError as refused:
            return _explain(refused)
        return 0
    told = wrong(error)
    _print_error(told.message, told.hint, told.usage)
    return UsageError.exit_code


def _explain_os_error(error: OSError) -> int:
    """Print what the system refused; a name that no file can have is one that was typed wrongly."""
    if error.errno == errno.ENAMETOOLONG:
        _print_error(f"{error.filename!s:.80}…: the name is too long", None)
        return UsageError.exit_code
    if error.errno == errno.ENOENT and not error.filename:
        _print_error("the working folder is gone", "change to another one with cd")
        return GpuprofError.exit_code
    if error.filename == _STANDARD_OUTPUT:
        why = "it is closed" if error.errno == errno.EBADF else error.strerror or error
        _print_error(f"cannot write {error.filename}: {why}", None)
        return UsageError.exit_code
    name = f"{error.filename}: " if error.filename else ""
    _print_error(f"{name}{error.strerror or error}", None)
    return GpuprofError.exit_code


def _print_error(message: str, hint: str | None, usage: str | None = None) -> None:
    click.echo(f"error: {printable(message)}", err=True)
    if usage:
        click.echo(f"usage: {printable(usage)}", err=True)
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)
