"""`gpuprof demo`: the main job on recordings that come with gpuprof, on a report of the user's, or on this GPU."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from gpuprof.cli.interrupt import cleaned_up_by
from gpuprof.cli.options import overwriting, reading, refuse_overwrite
from gpuprof.cli.output import to_type, write_files
from gpuprof.cli.report import write_report
from gpuprof.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session
    from gpuprof.recordings import Recording

_PAGE, _SESSION, _PICTURES = "report.html", "session.json", ("roofline.svg", "roofline.png")
_PROGRAM = "demo"


@click.command("demo")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("gpuprof-demo"),
    show_default=True,
    metavar="DIR",
    help="Folder for what it leaves.",
)
@click.option("--run", "here", is_flag=True, help="Compile a small program and profile it on this machine's GPU.")
@reading
@overwriting
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    folder: Path,
    here: bool,
    spec: str | None,
    salvage: bool,
    force: bool,
) -> int:
    """Do the main job: which kernels matter, how close each is to its roof, what to change first.

    Without FILE it reads recordings that come with gpuprof: real kernels of three GPUs. DIR gets the page, the
    roofline, the session and the report of the first one, and a folder for each of the others. With FILE it writes the
    page of that report to DIR/report.html. --run needs a GPU, ncu and nvcc.
    """
    if here and files:
        raise UsageError("--run and a report exclude each other", "name a report, or add --run")
    if here:
        return _profile_here(ctx, folder, spec, force=force)
    if files:
        from gpuprof.api import load

        output = folder / _PAGE
        refuse_overwrite([output], files, force=force)
        session = load(*files, spec=spec, salvage=salvage, groups=True)
        write_report(session, output, title=None, top=12, keep_paths=False)
        return 0
    if spec is not None or salvage:
        raise UsageError(f"{'--spec' if spec is not None else '--salvage'} is about a report", "name one")
    _show_recordings(folder, force=force)
    return 0


class _Shown(NamedTuple):
    """A recording that was read, and where what it leaves goes."""

    recording: Recording
    session: Session
    kernels: list[KernelProfile]
    place: Path


def _show_recordings(folder: Path, *, force: bool) -> None:
    """Read the recordings that ship, print each, and leave their files; all of them or none."""
    from gpuprof.recordings import recordings

    found = recordings()
    places = [folder if index == 0 else folder / recording.name for index, recording in enumerate(found)]
    reports = {place / recording.file_name: recording for recording, place in zip(found, places, strict=True)}
    others = [place / name for place in places for name in (_PAGE, _SESSION, *_PICTURES)]
    refuse_overwrite([*reports, *others], force=force)
    missing = [path for path in reports if not path.exists()]
    with cleaned_up_by(lambda: _remove(missing, places)):
        try:
            write_files({path: recording.report() for path, recording in reports.items()})
            shown = [_read(recording, path) for path, recording in reports.items()]
            write_files({path: content for one in shown for path, content in _files(one).items()})
        except BaseException:
            _remove(missing, places)
            raise
    _print(shown)
    _say_what_is_next(shown)


def _remove(reports: Sequence[Path], places: Sequence[Path]) -> None:
    """Take back the reports that were not there before, and folders that are empty then."""
    for report in reports:
        report.unlink(missing_ok=True)
    for place in reversed(places):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


def _read(recording: Recording, path: Path) -> _Shown:
    """Read a recording as any report, equal launches as one kernel."""
    from gpuprof.api import load
    from gpuprof.cli.select import sort_kernels

    session = load(path, groups=True)
    return _Shown(recording, session, sort_kernels(list(session.kernels), "time"), path.parent)


def _files(shown: _Shown) -> Mapping[Path, bytes]:
    """Return the page, the session and, where there are rooflines, their pictures."""
    from gpuprof.present.figures import overview
    from gpuprof.present.html import render_html
    from gpuprof.present.json_out import session_bytes
    from gpuprof.present.plot import render_png, render_svg

    page = render_html(shown.session, title=shown.recording.title)
    contents = {_PAGE: page.encode("utf-8", "backslashreplace"), _SESSION: session_bytes(shown.session)}
    figure = overview(shown.session)
    if figure.points:
        pictures = (render_svg(figure, "light").encode("utf-8", "backslashreplace"), render_png(figure, "light"))
        contents |= dict(zip(_PICTURES, pictures, strict=True))
    return {shown.place / name: content for name, content in contents.items()}


def _print(shown: Sequence[_Shown]) -> None:
    from gpuprof.diagnose.repairs import repairs
    from gpuprof.present.console import make_console
    from gpuprof.present.console_recording import print_recording

    console = make_console()
    for number, one in enumerate(shown, start=1):
        steps = repairs(one.session.kernels) if one.recording.steps else ()
        place = f"Recording {number} of {len(shown)}"
        print_recording(console, place, one.recording, one.session, one.kernels, steps, fix_first=number == 1)


def _say_what_is_next(shown: Sequence[_Shown]) -> None:
    from gpuprof.present.text import printable

    first = shown[0]
    *others, last = (str(one.place / _PAGE) for one in shown)
    pages = f"{', '.join(others)} and {last}; open them in a browser" if others else f"{last}; open it in a browser"
    report = first.place / first.recording.file_name
    click.echo(printable(f"wrote {pages}"), err=True)
    click.echo(printable(f"next: gpuprof show --explain '#{first.kernels[0].id}' {to_type([report])}"), err=True)


def _profile_here(ctx: click.Context, folder: Path, spec: str | None, *, force: bool) -> int:
    """Compile the program that ships for this machine's GPU, and do with it what `gpuprof run` does."""
    from gpuprof.cli.run import command as run
    from gpuprof.collect.installation import choose_ncu
    from gpuprof.collect.machine import gpus_here
    from gpuprof.collect.nvcc import compile_program, find_nvcc
    from gpuprof.resources import data_dir

    gpus = gpus_here(os.environ)
    if not gpus:
        raise EnvironmentProblem("no NVIDIA GPU answers on this machine", "gpuprof demo shows recordings without one")
    program = folder / _PROGRAM
    refuse_overwrite([program, folder / _PAGE, folder / _SESSION], force=force)
    nvcc = find_nvcc(os.environ)
    choose_ncu(os.environ)
    click.echo(f"compiling a small program for {gpus[0].name} with {nvcc}", err=True)
    with tempfile.TemporaryDirectory() as scratch:
        compiled = Path(scratch) / _PROGRAM
        compile_program(nvcc, data_dir("recordings") / "demo.cu", compiled, gpus[0].arch)
        write_files({program: compiled.read_bytes()})
    program.chmod(0o755)
    code = ctx.invoke(run, program=(str(program),), folder=folder, kernel=None, coverage=100.0, spec=spec, force=force)
    assert isinstance(code, int)
    return code
