"""`gpuprof demo`: the main job on recordings that come with gpuprof, on a report of the user's, or on this GPU."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.interrupt import cleaned_up_by
from gpuprof.cli.options import into_folder, overwriting, reading
from gpuprof.cli.output import to_type, write_files
from gpuprof.cli.report import command as report
from gpuprof.cli.roofline import picture
from gpuprof.cli.run import command as run
from gpuprof.collect.choices import SESSION_FILE
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.errors import DamagedInput, EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session
    from gpuprof.recordings import Recording

_FOLDER, _FOLDER_HERE = "gpuprof-demo", "gpuprof-demo-run"
_PAGE, _PICTURES = "report.html", ("roofline.svg", "roofline.png")
_PROGRAM = "demo"


@click.command("demo")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@into_folder(f"Folder for what it leaves. Default: {_FOLDER}, with --run {_FOLDER_HERE}.")
@click.option("--run", "here", is_flag=True, help="Compile a small program and profile it on this machine's GPU.")
@click.option("--ncu", metavar="PATH", help="The ncu to use with --run. Default: the newest that the driver supports.")
@reading
@overwriting
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
) -> int:
    """Do the main job: which kernels matter, how close each is to its roof, what to change first.

    Without FILE it reads recordings that come with gpuprof: real kernels of three GPUs. DIR gets the page, the
    roofline, the session and the report of the first one, and a folder for each of the others. With FILE it writes the
    page of that report to DIR/report.html. --run needs a GPU, ncu and nvcc.
    """
    _refuse_contradictions(files, here=here, ncu=ncu, spec=spec, salvage=salvage)
    if here:
        return _profile_here(ctx, folder or Path(_FOLDER_HERE), ncu, spec, force=force)
    folder = folder or Path(_FOLDER)
    if not files:
        _show_recordings(folder, force=force)
        return 0
    ctx.invoke(report, files=files, output=folder / _PAGE, spec=spec, salvage=salvage, force=force)
    return 0


def _refuse_contradictions(
    files: Sequence[str], *, here: bool, ncu: str | None, spec: str | None, salvage: bool
) -> None:
    """Raise UsageError for options that mean nothing with what is asked for."""
    if here and files:
        raise UsageError("--run and a report exclude each other", "name a report, or add --run")
    if ncu is not None and not here:
        raise UsageError("--ncu is about --run", "add --run, or leave --ncu out")
    if salvage and not files:
        raise UsageError("--salvage is about a report", "name one")
    if spec is not None and not files and not here:
        raise UsageError("--spec is about a report, or --run", "name a report, or add --run")


@dataclass(frozen=True, slots=True)
class _Demo:
    """A recording that was read, its report's bytes, and where what it leaves goes."""

    recording: Recording
    report: bytes
    session: Session
    kernels: list[KernelProfile]
    place: Path


def _show_recordings(folder: Path, *, force: bool) -> None:
    """Read the recordings that ship, leave their files, all of them or none, and print each."""
    from gpuprof.recordings import recordings

    shipped = recordings()
    places = [folder if index == 0 else folder / recording.name for index, recording in enumerate(shipped)]
    names = (_PAGE, SESSION_FILE, *_PICTURES)
    targets = [
        place / name for place, recording in zip(places, shipped, strict=True) for name in (recording.file_name, *names)
    ]
    refuse_overwrite(targets, force=force)
    click.echo(f"reading {len(shipped)} recordings", err=True)
    with _scratch() as scratch:
        demos = [_read(recording, scratch, place) for recording, place in zip(shipped, places, strict=True)]
    write_files({path: content for demo in demos for path, content in _files(demo).items()})
    _print(demos)
    _say_what_is_next(demos)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """Make a folder that is gone afterwards, also where Ctrl-C ends the program."""
    folder = Path(tempfile.mkdtemp(prefix="gpuprof-"))
    with cleaned_up_by(lambda: shutil.rmtree(folder, ignore_errors=True)):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _read(recording: Recording, scratch: Path, place: Path) -> _Demo:
    """Read a recording as any report, equal launches as one kernel; its file is named where it will lie."""
    from msgspec.structs import replace

    from gpuprof.api import load
    from gpuprof.cli.select import sort_kernels
    from gpuprof.recordings import REINSTALL

    unpacked, data = scratch / recording.file_name, recording.report()
    unpacked.write_bytes(data)
    try:
        session = load(unpacked, groups=True)
    except DamagedInput as error:
        raise DamagedInput(f"{recording.place}: {error.message}", REINSTALL) from error
    sources = tuple(replace(source, file=str(place / recording.file_name)) for source in session.sources)
    session = replace(session, sources=sources)
    return _Demo(recording, data, session, kernels=sort_kernels(list(session.kernels), "time"), place=place)


def _files(demo: _Demo) -> Mapping[Path, bytes]:
    """Return the report, the page, the session and, where there are rooflines, their pictures."""
    from gpuprof.present.figures import overview
    from gpuprof.present.html import render_html
    from gpuprof.store.write import session_bytes

    origin = demo.recording.origin
    title = demo.recording.title + (f", recorded by {origin.repository}" if origin is not None else "")
    page = render_html(demo.session, title=title).encode("utf-8", "backslashreplace")
    session = session_bytes(demo.session)
    contents = {demo.recording.file_name: demo.report, _PAGE: page, SESSION_FILE: session}
    figure = overview(demo.session)
    if figure.points:
        contents |= {name: picture(figure, Path(name), "light") for name in _PICTURES}
    return {demo.place / name: content for name, content in contents.items()}


def _print(demos: Sequence[_Demo]) -> None:
    from gpuprof.diagnose.repairs import repairs
    from gpuprof.present.console import make_console
    from gpuprof.present.console_recording import print_recording

    console = make_console()
    for number, demo in enumerate(demos, start=1):
        steps = repairs(demo.session.kernels) if demo.recording.steps else ()
        place = f"Recording {number} of {len(demos)}"
        print_recording(console, place, demo.recording, demo.session, demo.kernels, steps, fix_first=number == 1)


def _say_what_is_next(demos: Sequence[_Demo]) -> None:
    from gpuprof.present.text import printable

    first = demos[0]
    *others, last = (str(demo.place / _PAGE) for demo in demos)
    pages = f"{', '.join(others)} and {last}; open them in a browser" if others else f"{last}; open it in a browser"
    file = first.place / first.recording.file_name
    click.echo(printable(f"wrote {pages}"), err=True)
    click.echo(printable(f"next: gpuprof show --explain '#{first.kernels[0].id}' {to_type([file])}"), err=True)


def _profile_here(ctx: click.Context, folder: Path, ncu: str | None, spec: str | None, *, force: bool) -> int:
    """Compile the program that ships for this machine's GPUs, and do with it what `gpuprof run` does."""
    from gpuprof.collect.installation import choose_ncu
    from gpuprof.collect.machine import gpus_here
    from gpuprof.collect.nvcc import compile_program, find_nvcc
    from gpuprof.hardware_finder import HardwareFinder
    from gpuprof.resources import data_dir

    gpus = gpus_here(os.environ)
    if not gpus:
        raise EnvironmentProblem("no NVIDIA GPU answers on this machine", "gpuprof demo shows recordings without one")
    nvcc = find_nvcc(os.environ)
    choose_ncu(os.environ, ncu)
    HardwareFinder(spec)
    program = folder / _PROGRAM
    refuse_overwrite([program, folder / _PAGE, folder / SESSION_FILE], force=force)
    click.echo(f"compiling a small program for {gpus[0].name} with {nvcc}", err=True)
    with _scratch() as scratch:
        compiled = scratch / _PROGRAM
        compile_program(nvcc, data_dir("recordings") / "demo.cu", compiled, sorted({gpu.arch for gpu in gpus}))
        content = compiled.read_bytes()
    made, made_folder = not program.exists(), not folder.exists()
    write_files({program: content})
    program.chmod(0o755)
    # A name without a folder would be looked for on PATH, and a Path drops the dot.
    argv = (os.path.join(os.curdir, program),)  # noqa: PTH118
    try:
        code = ctx.invoke(run, program=argv, folder=folder, coverage=1.0, ncu=ncu, spec=spec, force=force)
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
