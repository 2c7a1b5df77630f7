"""`gpuprof check FILE…`: what compiled kernels say about themselves, without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprof.cli.check_gate import closing_line, gate_options
from gpuprof.cli.check_outputs import outputs_of, refuse_outputs, writing
from gpuprof.cli.check_progress import CodeProgress
from gpuprof.cli.compare_gate import keeping_exit_code, refuse_without_limits, say_result
from gpuprof.cli.compare_outputs import print_product, write_outputs
from gpuprof.cli.completion import architectures, checkable_files
from gpuprof.cli.config import configured
from gpuprof.cli.help import WithExamples
from gpuprof.cli.options import AboveZero, keeping, overwriting, path_maps_of, salvaging, tell_of_typing, was_typed
from gpuprof.cli.output import say, to_type
from gpuprof.collect.shell import shell_line
from gpuprof.errors import GpuprofError, InputError, UsageError
from gpuprof.privacy.source_files import repository_root
from gpuprof.review.kernel import NO_CODE_HINT
from gpuprof.units import counted
from gpuprof.views.formats import HTML, TABLE, Format, formats_of
from gpuprof.views.options import WriteOptions

if TYPE_CHECKING:
    from gpuprof.review.contract import Review
    from gpuprof.review.inputs.request import ReviewRequest

_OF_OUTPUT = ("files", "outputs", "force", "form", "top")


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
    outputs: Mapping[Path, Format]
    look: WriteOptions
    verbose: bool

    @classmethod
    def of(cls, files: Sequence[str], options: Mapping[str, Any]) -> _Asked:
        """Return what the options say. Raises UsageError for what they cannot say, before anything is read."""
        from gpuprof.review.asked import request_of

        outputs = outputs_of(options["outputs"])
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
    write_outputs(review, asked.outputs, asked.look)
    chosen = asked.request.kernel is not None
    form = formats_of("review")[asked.form]
    if form.name != HTML or form not in asked.outputs.values():
        # A page that is in a file is not printed, too.
        with keeping_exit_code(review.gate):
            print_product(review, form, asked.look, verbose=asked.verbose, chosen=chosen)
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
    line = _typed_again(request)
    if request.block is None and all(kernel.block is None for kernel in review.kernels):
        say(f"next: {line} --block 256")
    else:
        say(f"next: {line} --kernel '#{groups[0].kernel.id}'")


def _typed_again(request: ReviewRequest) -> str:
    """Return the command as it was typed, without what it writes; files of a build come with its database."""
    context = click.get_current_context()
    named = [name for name in request.files if name not in request.builds]
    words = ["gpuprof check", *([to_type(named)] if named else [])]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in _OF_OUTPUT or not was_typed(name):
            continue
        option = parameter.opts[0]
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            # A value that begins with a dash would be taken for an option.
            parts = [f"{option}={each}"] if f"{each}".startswith("-") else [option, f"{each}"]
            words.append(option if each is True else shell_line(parts))
    return " ".join(words)
