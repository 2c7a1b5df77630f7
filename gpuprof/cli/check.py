"""`gpuprof check FILE…`: what compiled kernels say about themselves, without a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
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
from gpuprof.views.formats import HTML, TABLE, formats_of
from gpuprof.views.options import WriteOptions

if TYPE_CHECKING:
    from gpuprof.review.contract import Review
    from gpuprof.review.inputs.request import ReviewRequest

_OF_REQUEST = (
    "arch", "kernel", "block", "grid", "dynamic_shared", "args", "defines", "include", "std", "flags",
    "compile_commands", "file", "torch", "compile_timeout", "compile_memory", "salvage", "keep_private",
)  # fmt: skip
_OF_OUTPUT = ("files", "outputs", "force", "form", "top")


@click.command("check", cls=WithExamples)
@click.argument("files", nargs=-1, metavar="FILE...", shell_complete=checkable_files)
@click.option(
    "--arch",
    multiple=True,
    metavar="sm_90",
    shell_complete=architectures,
    help="Architecture to compile for, or to take of those in a file. Repeatable, or a list: sm_80,sm_90.",
)
@click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Macro for the compiler. Repeatable.")
@click.option("-I", "include", multiple=True, metavar="DIR", help="Folder of headers. Repeatable.")
@click.option("--std", metavar="c++20", help="C++ that sources are compiled as, c++03 to c++23. Default: c++17.")
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
@click.option("--file", metavar="GLOB", help="Of that build, only sources whose name matches.")
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
    "args",
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
    from gpuprof.review.gate import gated_review
    from gpuprof.review.options import request_of

    if options["kernel"] is not None and not options["kernel"].strip():
        raise UsageError("--kernel is empty", "leave it out to review all kernels")
    outputs = outputs_of(options["outputs"])
    request = request_of(files, **{name: options[name] for name in _OF_REQUEST})
    refuse_without_limits(options["fail_on"], options["unclear"])
    inputs = (*files, *options["base"])
    refuse_outputs(options["form"], outputs, inputs, has_limits=bool(options["fail_on"]), force=options["force"])
    path_maps = path_maps_of(options["path_maps"])
    # Cleaning shortens paths to the repository, so path maps apply before it.
    look = WriteOptions(options["top"], repository_root(), path_maps if request.keep_private else ())
    tell_of_typing(files)
    refused: list[GpuprofError] = []
    review = gated_review(
        _in_time(replace(request, path_maps=path_maps)),
        partial(_reviewed, refused=refused),
        **{name: options[name] for name in ("base", "fail_on", "unclear")},
    )
    write_outputs(review, outputs, look)
    verbose, chosen = options["verbose"], request.kernel is not None
    form = formats_of("review")[options["form"]]
    if form.name != HTML or form not in outputs.values():
        # A page that is in a file is not printed, too.
        with keeping_exit_code(review.gate):
            print_product(review, form, look, verbose=verbose, chosen=chosen)
    if review.gate is not None:
        say_result(closing_line(review))
    if refused:
        raise refused[0]
    _refuse_unreviewed(review)
    if review.gate is not None:
        return review.gate.exit_code
    if form.name == TABLE and not chosen and not verbose and not options["base"]:
        _tell_next(review, request)
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
    from gpuprof.sass.tools.disassemble import brings, disassembler_for

    unread = [kernel for kernel in review.kernels if kernel.unreviewed is not None]
    if not unread:
        return
    hint = "--kernel REGEX reviews the others alone"
    if unread[0].resources.code_bytes is None:
        hint = NO_CODE_HINT
    elif disassembler_for(unread[0].target) is None:
        hint = brings(unread[0].target)
    which = f"{len(unread)} of {counted(len(review.kernels), 'kernel')} not reviewed, such as {unread[0].label:.100}"
    if len(unread) == 1:
        which = f"{unread[0].label:.100} was not reviewed"
    raise InputError(
        f"{which}: {unread[0].unreviewed}",
        hint,
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
    """Return the typed command without its output options. Sources of a build are named by its database."""
    context = click.get_current_context()
    named = [name for name in request.files if name not in request.builds]
    words = ["gpuprof check", *([to_type(named)] if named else [])]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in _OF_OUTPUT or name not in context.params or not was_typed(name):
            continue
        option = parameter.opts[0]
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            # A value that begins with a dash would be taken for an option.
            parts = [f"{option}={each}"] if f"{each}".startswith("-") else [option, f"{each}"]
            words.append(option if each is True else shell_line(parts))
    return " ".join(words)
