"""`gpuprof demo`: what gpuprof does, on recordings that come with it, on a report of the user's, or on this GPU."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import click

from gpuprof.cli.completion import any_file
from gpuprof.cli.demo_recordings import PAGE_FILE, scratch_folder, show_recordings
from gpuprof.cli.opening import open_page, opening
from gpuprof.cli.options import files_to_read, into_folder, overwriting, reading
from gpuprof.cli.output import write_files
from gpuprof.cli.report import command as report
from gpuprof.cli.run import command as run
from gpuprof.collect.choices import SESSION_FILE
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.errors import EnvironmentProblem, UsageError
from gpuprof.own_files import refuse_linked

_FOLDER, _FOLDER_HERE = "gpuprof-demo", "gpuprof-demo-run"
_PROGRAM = "demo"


@click.command("demo")
@files_to_read("[FILE]...")
@into_folder(f"Folder for the results. Default: {_FOLDER}, with --run {_FOLDER_HERE}.")
@click.option("--run", "here", is_flag=True, help="Compile a small program and profile it on this machine's GPU.")
@click.option(
    "--ncu",
    metavar="PATH",
    shell_complete=any_file,
    help="The ncu to use with --run. Default: the newest that the driver supports.",
)
@reading
@overwriting
@opening
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    folder: Path | None,
    here: bool,
    ncu: str | None,
    spec: str | None,
    salvage: bool,
    force: bool,
    in_browser: bool,
) -> int:
    """Show what gpuprof does, on recorded kernels: what is slow, why, the fix, and what the fix gained.

    Without FILE it needs no GPU: it reads recordings that come with gpuprof. DIR gets a folder for each of them, with
    its page, its session and the report itself; files of an earlier demo are replaced. With FILE it writes the page of
    that report to DIR/report.html. --run needs a GPU, ncu and nvcc.
    """
    _refuse_contradictions(files, here=here, ncu=ncu, spec=spec, salvage=salvage)
    if folder is None:
        folder = Path(_FOLDER_HERE if here else _FOLDER)
        refuse_linked(folder)
    if here:
        return _profile_here(ctx, folder, ncu, spec, force=force, in_browser=in_browser)
    if not files:
        page = show_recordings(folder, force=force)
        if in_browser:
            open_page([page])
        return 0
    page = folder / PAGE_FILE
    ctx.invoke(report, files=files, output=page, spec=spec, salvage=salvage, force=force, in_browser=in_browser)
    return 0


def _refuse_contradictions(
    files: Sequence[str], *, here: bool, ncu: str | None, spec: str | None, salvage: bool
) -> None:
    """Raise UsageError for options that mean nothing with what is asked for."""
    if here and files:
        raise UsageError("--run profiles this GPU and takes no report", "leave out --run, or the report")
    if ncu is not None and not here:
        raise UsageError("--ncu works only with --run", "add --run, or leave out --ncu")
    if salvage and not files:
        raise UsageError("--salvage needs a report", "gpuprof demo --salvage REPORT.ncu-rep")
    if spec is not None and not files and not here:
        raise UsageError("--spec needs a report, or --run", "gpuprof demo --spec NAME REPORT.ncu-rep")


def _profile_here(
    ctx: click.Context, folder: Path, ncu: str | None, spec: str | None, *, force: bool, in_browser: bool
) -> int:
    """Compile the program that ships for this machine's GPUs, and do with it what `gpuprof run` does."""
    from gpuprof.collect.installation import choose_ncu
    from gpuprof.collect.machine import gpus_here
    from gpuprof.collect.nvcc import compile_program, find_nvcc
    from gpuprof.collect.stopping import noted_signals
    from gpuprof.hardware_finder import HardwareFinder
    from gpuprof.resources import data_dir

    gpus = gpus_here(os.environ)
    if not gpus:
        raise EnvironmentProblem("no NVIDIA GPU answers on this machine", "gpuprof demo shows recordings without one")
    nvcc = find_nvcc(os.environ)
    choose_ncu(os.environ, ncu)
    HardwareFinder(spec)
    program = folder / _PROGRAM
    refuse_overwrite([program, folder / PAGE_FILE, folder / SESSION_FILE], force=force)
    click.echo(f"compiling a small program for {gpus[0].name} with {nvcc}", err=True)
    with scratch_folder() as scratch:
        compiled = scratch / _PROGRAM
        with noted_signals():
            compile_program(nvcc, data_dir("recordings") / "demo.cu", compiled, sorted({gpu.arch for gpu in gpus}))
        content = compiled.read_bytes()
    made, made_folder = not program.exists(), not folder.exists()
    write_files({program: content})
    program.chmod(0o755)
    # A name without a folder would be looked for on PATH, and a Path drops the dot.
    argv = (os.path.join(os.curdir, program),)  # noqa: PTH118
    try:
        code = ctx.invoke(
            run, program=argv, folder=folder, coverage=1.0, ncu=ncu, spec=spec, force=force, in_browser=in_browser
        )
    except BaseException:
        if made:
            _take_back(program, folder=made_folder)
        raise
    assert isinstance(code, int)
    return code


def _take_back(program: Path, *, folder: bool) -> None:
    """Remove a program that could not be profiled, and an empty folder that was made for it."""
    with contextlib.suppress(OSError):
        program.unlink(missing_ok=True)
        if folder:
            program.parent.rmdir()
