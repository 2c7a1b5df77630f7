"""`gpuprof check FILE…`: what compiled kernels say about themselves, without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprof.cli.check_gate import closing_line, gate_options
from gpuprof.cli.check_outputs import is_in_file, print_reviewed, refuse_outputs, writing, written
from gpuprof.cli.check_progress import CodeProgress
from gpuprof.cli.compare_gate import keeping_exit_code, refuse_without_limits, say_result
from gpuprof.cli.completion import architectures, checkable_files
from gpuprof.cli.config import configured
from gpuprof.cli.help import WithExamples
from gpuprof.cli.options import AboveZero, keeping, overwriting, path_maps_of, salvaging, tell_of_typing
from gpuprof.cli.output import say, to_type
from gpuprof.collect.shell import shell_line
from gpuprof.errors import GpuprofError, InputError, UsageError
from gpuprof.privacy.source_files import repository_root
from gpuprof.review.kernel import NO_CODE_HINT
from gpuprof.units import counted
from gpuprof.views.formats import TABLE
from gpuprof.views.options import WriteOptions

if TYPE_CHECKING:
    from gpuprof.review.contract import Review
    from gpuprof.review.inputs.request import ReviewRequest
    from gpuprof.sass.tools.programs import CompileLimits


@click.command("check", cls=WithExamples)
@click.argument("files", nargs=-1, metavar="FILE...", shell_complete=checkable_files)
@click.option(
    "--arch",
    "targets",
    multiple=True,
    metavar="sm_90",
    shell_complete=architectures,
    help="Architecture to compile for, or to take of those in a file. Repeatable, or a list: sm_80,sm_90.",
)
@click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Macro for the compiler. Repeatable.")
@click.option("-I", "include_folders", multiple=True, metavar="DIR", help="Folder of headers. Repeatable.")
@click.option(
    "--std", "standard", metavar="c++20", help="C++ that sources are compiled as, c++03 to c++23. Default: c++17."
)
@click.option(
    "--flag",
    "flags",
    multiple=True,
    metavar="FLAG",
    help="Other flag of NVRTC or nvcc: --flag=-use_fast_math, --flag=-maxrregcount=64. Repeatable.",
)
@click.option(
    "--compile-commands",
    metavar="FILE",
    help="Review the CUDA sources of a build, with its own flags: its compile_commands.json.",
)
@click.option("--file", "chosen_files", metavar="GLOB", help="Of that build, only sources whose name matches.")
@click.option("--torch", is_flag=True, help="Compile sources as extensions of the installed PyTorch: headers, flags.")
@click.option(
    "--compile-timeout",
    type=AboveZero(),
    metavar="SECONDS",
    default=60.0,
    show_default="60",
    help="Time that compiling a source may take, for each architecture.",
)
@click.option(
    "--compile-memory",
    metavar="BYTES",
    default="2GB",
    show_default=True,
    help="Memory that compiling a source may take, such as 4GB.",
)
@click.option("--block", metavar="X[,Y[,Z]]", help="Threads per block: for occupancy, and which threads share a warp.")
@click.option("--grid", metavar="X[,Y[,Z]]", help="Blocks in the grid.")
@click.option("--dynamic-shared", metavar="BYTES", help="Dynamic shared memory per block, such as 48KiB.")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of an argument, by its name, place from 0, or part: n=4Ki, 3=4096, in.stride=1, in+8=1. Repeatable.",
)
@click.option("--kernel", metavar="REGEX|#N", help="Only kernels whose name matches, or kernel number N; in depth.")
@gate_options
@writing
@salvaging
@keeping
@overwriting
@configured("top")
def command(files: tuple[str, ...], **options: Any) -> int:
    """Review compiled kernels without a GPU: resources, occupancy, loops, memory accesses, costly habits.

    FILE is a source (.cu, .ptx), a .cubin, a .fatbin, a program, an object, a library or an archive (.o, .so, .a), a
    folder of Triton's cache, or a report (.ncu-rep), of which each launch is reviewed. No kernel is run. Exit code 6: a
    limit of --fail-on is exceeded; 7: one cannot be judged, with --unclear fail.
    """
    asked = _Asked.of(files, options)
    tell_of_typing(files)
    return _check(asked)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is reviewed, what is compared and checked, and where it is written."""

    request: ReviewRequest
    gate: Mapping[str, Any]
    form: str
    outputs: tuple[Path, ...]
    look: WriteOptions
    verbose: bool

    @classmethod
    def of(cls, files: Sequence[str], options: Mapping[str, Any]) -> _Asked:
        """Return what the options say. Raises UsageError for what they cannot say, before anything is read."""
        from gpuprof.review.asked import request_of

        outputs = tuple(options["outputs"])
        request = request_of(
            files,
            arch=options["targets"],
            kernel=_kernel(options["kernel"]),
            block=options["block"],
            grid=options["grid"],
            dynamic_shared=options["dynamic_shared"],
            args=options["arguments"],
            defines=options["defines"],
            include=options["include_folders"],
            std=options["standard"],
            flags=options["flags"],
            compile_commands=options["compile_commands"],
            file=options["chosen_files"],
            torch=options["torch"],
            compile_timeout=options["compile_timeout"],
            compile_memory=options["compile_memory"],
            salvage=options["salvage"],
            keep_private=options["keep_private"],
        )
        refuse_without_limits(options["fail_on"], options["unclear"])
        inputs = (*files, *options["base"])
        refuse_outputs(options["form"], outputs, inputs, has_limits=bool(options["fail_on"]), force=options["force"])
        path_maps = path_maps_of(options["path_maps"])
        return cls(
            request=_in_time(replace(request, path_maps=path_maps)),
            gate={name: options[name] for name in ("base", "fail_on", "unclear")},
            form=options["form"],
            outputs=outputs,
            # Cleaning shortens paths to the repository, so path maps apply before it.
            look=WriteOptions(options["top"], repository_root(), path_maps if request.keep_private else ()),
            verbose=options["verbose"],
        )


def _kernel(pattern: str | None) -> str | None:
    """Return an expression that can be tried on names in time."""
    if pattern is not None and not pattern.strip():
        raise UsageError("--kernel is empty", "leave it out to review all kernels")
    return pattern


def _check(asked: _Asked) -> int:
    """Review, write what is asked for, and say what to type next; raise what the first file was refused for.

    Returns the exit code of the gate.
    """
    from gpuprof.review.gate import judged

    refused: list[GpuprofError] = []
    review = judged(asked.request, partial(_reviewed, refused=refused), **asked.gate)
    written(review, asked.outputs, asked.look)
    chosen = asked.request.kernel is not None
    if not is_in_file(asked.form, asked.outputs):
        with keeping_exit_code(review.gate):
            print_reviewed(review, asked.form, asked.look, verbose=asked.verbose, chosen=chosen)
    if review.gate is not None:
        say_result(closing_line(review))
    if refused:
        raise refused[0]
    _refuse_unreviewed(review)
    if review.gate is not None:
        return review.gate.exit_code
    if asked.form == TABLE and not chosen and not asked.verbose and not asked.gate["base"]:
        _tell_next(review, asked.request)
    return 0


def _in_time(request: ReviewRequest) -> ReviewRequest:
    """Return a request that limits how long expressions may take."""
    from gpuprof.cli import patience

    limit = UsageError(
        f"an expression of --kernel or --fail-on takes longer than {patience.LIMIT_S:g} s on the kernels' names",
        "write it without a repeat inside a repeat",
    )
    return replace(request, in_time=lambda: patience.within(patience.LIMIT_S, limit))


def _reviewed(request: ReviewRequest, refused: list[GpuprofError]) -> Review:
    """Review what can be; `refused` gets the errors of the other files."""
    from gpuprof._version import __version__
    from gpuprof.cli.interrupt import unwinding
    from gpuprof.review.review import review

    with unwinding(), CodeProgress() as progress:
        return review(request, __version__, progress, refused)


def _refuse_unreviewed(review: Review) -> None:
    """Raise InputError if the code of a kernel was not reviewed: no findings in it means nothing."""
    unread = [kernel for kernel in review.kernels if kernel.unreviewed is not None]
    if not unread:
        return
    has_code = unread[0].resources.code_bytes is not None
    which = f"{len(unread)} of {counted(len(review.kernels), 'kernel')} not reviewed, such as {unread[0].label:.100}"
    if len(unread) == 1:
        which = f"{unread[0].label:.100} was not reviewed"
    raise InputError(
        f"{which}: {unread[0].unreviewed}",
        "--kernel REGEX reviews the others alone" if has_code else NO_CODE_HINT,
    )


def _tell_next(review: Review, request: ReviewRequest) -> None:
    """Name the command that shows more: with the block if that is not known, else the first kernel in depth."""
    from gpuprof.views.review_groups import grouped_kernels

    groups = grouped_kernels(review)
    if not groups:
        return
    line = _to_check(request)
    if request.block is None and all(kernel.block is None for kernel in review.kernels):
        say(f"next: {line} --block 256")
    else:
        say(f"next: {line} --kernel '#{groups[0].kernel.id}'")


def _to_check(request: ReviewRequest) -> str:
    """Return the command that reviews the same files as this one does."""
    options = ["--salvage"] if request.salvage else []
    options += ["--keep-private"] if request.keep_private else []
    options += ["--arch", ",".join(request.targets)] if request.targets else []
    options += [*request.compiler_options(), *_limits(request.limits)]
    for option, size in (("--block", request.block), ("--grid", request.grid)):
        options += [option, _size(size)] if size is not None else []
    if request.dynamic_shared_bytes is not None:
        options += ["--dynamic-shared", str(request.dynamic_shared_bytes)]
    options += [part for name, value in request.arguments.items() for part in ("--arg", f"{name}={value}")]
    return " ".join(("gpuprof check", *_typed(request), *([shell_line(options)] if options else [])))


def _typed(request: ReviewRequest) -> list[str]:
    """Return the files that were named, as they are typed; those of a build come with its database."""
    named = [name for name in request.files if name not in request.builds]
    return [to_type(named)] if named else []


def _limits(limits: CompileLimits) -> list[str]:
    """Return the options for compile limits that differ from the defaults."""
    from gpuprof.sass.tools.programs import LIMITS

    options = [] if limits.seconds == LIMITS.seconds else ["--compile-timeout", f"{limits.seconds:g}"]
    same = limits.memory_bytes == LIMITS.memory_bytes
    return options if same else [*options, "--compile-memory", str(limits.memory_bytes)]


def _size(size: Sequence[int]) -> str:
    """Write a block or a grid as it is typed, without trailing ones."""
    parts = list(size)
    while len(parts) > 1 and parts[-1] == 1:
        parts.pop()
    return ",".join(map(str, parts))
