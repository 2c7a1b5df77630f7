"""`gpuprof roofline FILE…` or `-- PROGRAM ARGS…`: the roofline as SVG, PNG and HTML with a short text, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from gpuprof.cli.completion import PROGRAM
from gpuprof.cli.config import configured
from gpuprof.cli.endings import refuse_ending
from gpuprof.cli.help import WithExamples
from gpuprof.cli.opening import open_page, opening, refuse_nothing_to_open
from gpuprof.cli.options import (
    as_text_or_json,
    excluding,
    files_to_read,
    into_file,
    keeping,
    overwriting,
    reading,
    selecting,
    was_typed,
)
from gpuprof.cli.output import to_show, warn, write_files
from gpuprof.cli.profiling import (
    exit_code,
    expression_of,
    note_passed_on,
    profile_or_show,
    profiling_options,
    refuse_file,
    refuse_folder,
    refuse_without_program,
    without_result,
)
from gpuprof.cli.select import kept, select_kernels, tell_excluded
from gpuprof.collect.choices import SESSION_FILE
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.errors import InputError, UsageError
from gpuprof.needed_packages import refuse_missing_packages
from gpuprof.own_files import refuse_linked

if TYPE_CHECKING:
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.model.field_types import CeilingOrigin
    from gpuprof.model.session import Session
    from gpuprof.views.roofline import DeviceFigures


_KINDS = (".svg", ".png", ".html")
"""What a folder gets; a file alone may be a PDF, too."""
_ALONE = (*_KINDS, ".pdf")
_USUAL_CEILING = "at-clock"


class _FilesOrProgram(WithExamples):
    """A command of files, or of a program to profile, with its own words behind it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the program out of the words and leave the files."""
        place = _completed(args) if ctx.resilient_parsing else self._place_of_program(ctx, args)
        if place is not None:
            ctx.meta[PROGRAM] = tuple(args[place:])
            args = args[: place - 1 if args[place - 1 : place] == ["--"] else place]
        return super().parse_args(ctx, args)

    def _place_of_program(self, ctx: click.Context, args: list[str]) -> int | None:
        """Return where the program begins: the first word that is no option, or what follows --."""
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        behind = args.index("--") + 1 if "--" in args else len(args)
        try:
            named = parser.parse_args(list(args))[0].get("files")
        except click.UsageError:
            # What is wrong is told when all is parsed; behind -- stands a program all the same.
            named = None
        rest = named if isinstance(named, tuple) else ()
        if not rest and behind == len(args):
            return None
        from gpuprof.cli.first_word import is_file, is_program

        first = len(args) - len(rest)
        if rest and (first == behind or is_program(rest[0])):
            return None if first == behind and is_file(rest[0]) else first
        return behind if behind < len(args) and not is_file(args[behind]) else None


def _completed(args: Sequence[str]) -> int | None:
    """Return where the program begins in a line that a shell completes: behind --, unless a file to read is there."""
    from gpuprof.read.readers import has_name_of_a_file

    if "--" not in args:
        return None
    place = args.index("--") + 1
    return None if args[place:] and has_name_of_a_file(args[place]) else place


@click.command("roofline", cls=_FilesOrProgram)
@files_to_read("[FILE]... | -- PROGRAM [ARGS]...")
@into_file(
    "gpuprof-roofline",
    "DIR|FILE",
    "Folder for roofline.svg, roofline.png and roofline.html, or one file: .svg, .png, .pdf, .html.",
)
@click.option(
    "--level",
    type=click.Choice(["dram", "l2", "l1"]),
    help="Memory level of the intensities. Default: dram, or all three levels where there is one kernel.",
)
@click.option(
    "--ceiling",
    type=click.Choice([_USUAL_CEILING, "rated", "measured"]),
    default=_USUAL_CEILING,
    show_default=True,
    help="What percentages refer to.",
)
@click.option(
    "--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True, help="Colours of the pictures."
)
@as_text_or_json("json: figure data to stdout, and no pictures.")
@selecting
@excluding
@profiling_options
@reading
@keeping
@overwriting
@opening
@configured("exclude", "top", "spec", "set", "coverage")
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    output: Path,
    level: str | None,
    ceiling: CeilingOrigin,
    theme: Literal["light", "dark"],
    form: str,
    kernels: tuple[str, ...],
    top: int,
    exclude: tuple[str, ...],
    profiling: Callable[..., ProfileRequest],
    plan_only: bool,
    dry_run: bool,
    spec: str | None,
    salvage: bool,
    keep_private: bool,
    force: bool,
    in_browser: bool,
) -> int:
    """Draw the rooflines of a report, or of a program that is profiled for it, as SVG, PNG and HTML.

    FILE is a .ncu-rep or .ncu-repz, what ncu prints, a session.json or a page of gpuprof report (.html). Each point
    is a kernel; a line of text has its arithmetic intensity, what it achieved, the percentage of its roofline, and
    what limits it. PROGRAM, a Python script, or -m and a module is profiled as gpuprof run
    does it; what follows it is passed to it. The options from --set to --timeout apply to that.
    """
    if not was_typed("output"):
        refuse_linked(output)
    refuse_ending(output, _ALONE, "rooflines are drawn as .svg, .png, .pdf and .html", _AS_DATA)
    instead = "--format json" if form == "json" else without_result(plan_only=plan_only, dry_run=dry_run)
    refuse_nothing_to_open(in_browser=in_browser, instead=instead)
    look = _Look(level=level, ceiling=ceiling, theme=theme, form=form, top=top, in_browser=in_browser)
    program: tuple[str, ...] | None = ctx.meta.get(PROGRAM)
    if (program is None) == (not files):
        raise UsageError(*_NEITHER if program is None else _BOTH)
    if program is None:
        refuse_without_program(ctx)
        from gpuprof.api import load

        session = kept(load(*files, spec=spec, salvage=salvage, keep_private=keep_private), exclude)
        _draw(session, _chosen(session, kernels), files, output, look, force=force)
        return 0
    if salvage:
        raise UsageError("--salvage is about reports, and a program was named", "leave it out")
    refuse_missing_packages()
    refuse_file(program[0])
    refuse_folder(output)
    note_passed_on(ctx, program)
    to = "stderr" if form == "json" else "inherit"
    request = profiling(
        program, output, kernel=expression_of(kernels), exclude=exclude, spec=spec, keep_private=keep_private,
        overwrite=force, output=to,
    )  # fmt: skip
    return _profile_and_draw(request, look, plan_only=plan_only, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _Look:
    """What is drawn, and how it is told."""

    level: str | None
    ceiling: CeilingOrigin
    theme: Literal["light", "dark"]
    form: str
    top: int
    in_browser: bool


def _chosen(session: Session, patterns: Sequence[str]) -> Session:
    """Return the session with the kernels that are asked for, judged by them."""
    from gpuprof.diagnose.summary import chosen
    from gpuprof.words.session import worded

    return worded(chosen(session, select_kernels(session, patterns)))


def _profile_and_draw(request: ProfileRequest, look: _Look, *, plan_only: bool, dry_run: bool) -> int:
    """Profile a program, leave its session beside its pictures, and return the exit code."""
    from gpuprof.store.write import session_pieces

    if request.only_times:
        raise UsageError("--set times collects no counters, and rooflines are drawn from them", _TIMES)
    folder, place = request.place, request.place / SESSION_FILE
    pictures = [folder / f"roofline{kind}" for kind in _KINDS]
    outcome = profile_or_show(request, [place, *pictures], plan_only=plan_only, dry_run=dry_run)
    if outcome is None:
        return 0
    write_files({place: session_pieces(outcome.session)})
    # What is replaced was looked at before the program ran.
    _draw(outcome.session, outcome.session, (str(place),), folder, look, force=True)
    return exit_code(outcome, folder)


def _draw(session: Session, chosen: Session, files: Sequence[str], output: Path, look: _Look, *, force: bool) -> None:
    """Write the figures of the chosen kernels and print their values, or print their data."""
    from gpuprof.views.roofline_table import roofline_document
    from gpuprof.views.terminal import make_console, print_document

    warn(session)
    drawn = _figures(chosen, look.level, look.ceiling)
    _refuse_without_ceiling(chosen, drawn, look)
    if look.form == "json":
        tell_excluded(session)
        click.echo(_json_text(session, drawn))
        return
    _refuse_without_data(chosen, drawn, files)
    shown = [figures for figures in drawn if figures.has_points]
    targets = _targets(shown, output)
    refuse_overwrite(targets, files, force=force)
    contents = {}
    for path, figures in targets.items():
        if figures is None:
            contents[path] = _page(session, chosen, look.level or "dram", look.ceiling)
        else:
            contents[path] = picture(chosen, figures, path, look.theme)
    write_files(contents, through_links=output in targets)
    print_document(make_console(), roofline_document(chosen, drawn, look.top))
    _say_what_was_written(drawn, list(targets), files)
    if look.in_browser:
        open_page(targets)


_NEITHER = (
    "gpuprof roofline needs a file or a program",
    "gpuprof roofline report.ncu-rep, or gpuprof roofline -- ./app",
)
_BOTH = ("files and a program cannot be combined", "name reports, or a program after --")
_COUNTERS = "collect counters: gpuprof roofline -- PROGRAM, or ncu --set full"
_TIMES = "gpuprof run --set times shows the times"
_AS_DATA = "-o DIR leaves .svg, .png and .html; --format json prints the data"


def _figures(session: Session, level: str | None, ceiling: str) -> list[DeviceFigures]:
    """Return the figures of one kernel at all levels, or those of every GPU that ran a kernel."""
    from gpuprof.views.roofline import device_figures, kernel_figures

    if len(session.kernels) == 1 and level is None:
        return [kernel_figures(session, session.kernels[0].id, ceiling)]
    used = sorted({kernel.device for kernel in session.kernels})
    return [device_figures(session, device, level or "dram", ceiling) for device in used]


def _refuse_without_ceiling(session: Session, drawn: Sequence[DeviceFigures], look: _Look) -> None:
    """Raise UsageError if only the chosen ceiling is missing: at the usual one there are points."""
    from gpuprof.words.roofline_points import without_point

    if look.ceiling == _USUAL_CEILING or any(figures.roofline.points for figures in drawn):
        return
    usual = _figures(session, look.level, _USUAL_CEILING)
    point = next((point for figures in usual for point in figures.roofline.points), None)
    if point is not None:
        kernel = next(kernel for kernel in session.kernels if kernel.id == point.kernel)
        missing = without_point(kernel, point.level, look.ceiling)
        raise UsageError(f"--ceiling {look.ceiling} gives no kernel a point: {missing.why}", missing.how)


def _refuse_without_data(session: Session, drawn: Sequence[DeviceFigures], files: Sequence[str]) -> None:
    """Raise InputError if nothing can be drawn, with what would collect it."""
    if any(figures.has_points for figures in drawn):
        return
    names = ", ".join(files)
    if session.only_times:
        raise InputError(f"no roofline can be drawn of {names}: a trace has times but no counters", _COUNTERS)
    left_out = [group for figures in drawn for group in figures.roofline.left_out]
    if not left_out:
        raise InputError(f"no roofline can be drawn of {names}: it has no kernel", _COUNTERS)
    most = max(left_out, key=lambda group: len(group.kernels))
    raise InputError(f"no roofline can be drawn of {names}: {most.why}", most.how or _COUNTERS)


def _json_text(session: Session, drawn: Sequence[DeviceFigures]) -> str:
    from gpuprof.store.write import encoded

    document = {
        "schema_version": session.schema_version,
        "gpuprof_version": session.gpuprof_version,
        "figures": [figures.roofline for figures in drawn],
        "bandwidths": [row for figures in drawn for row in figures.bandwidths],
        "throughputs": [row for figures in drawn for row in figures.throughputs],
    }
    return encoded(document)


def _targets(drawn: Sequence[DeviceFigures], output: Path) -> dict[Path, DeviceFigures | None]:
    """Return the files to write and the figures in each, None for the page; the first GPU's names have no number."""
    alone = output.suffix.lower() in _ALONE and not output.is_dir()
    kinds = [output.suffix] if alone else _KINDS
    base = output.with_suffix("") if alone else output / "roofline"
    targets: dict[Path, DeviceFigures | None] = {}
    for index, figures in enumerate(drawn):
        stem = base.name if index == 0 else f"{base.name}-gpu{figures.roofline.device}"
        targets |= {base.with_name(f"{stem}{kind}"): figures for kind in kinds if kind.lower() != ".html"}
    return targets | {base.with_name(f"{base.name}{kind}"): None for kind in kinds if kind.lower() == ".html"}


def picture(session: Session, figures: DeviceFigures, path: Path, theme: Literal["light", "dark"]) -> bytes:
    """Return the content of a file of that name: PNG, PDF, or SVG for any other."""
    from gpuprof.views.plot import plot_file
    from gpuprof.views.roofline import plots_of

    form = path.suffix.lower().removeprefix(".")
    return plot_file(plots_of(session, figures), form if form in ("png", "pdf") else "svg", theme)


def _page(session: Session, chosen: Session, level: str, ceiling: CeilingOrigin) -> bytes:
    from gpuprof.views.profile import session_page

    wanted = {kernel.id for kernel in chosen.kernels}
    return session_page(session, kernels=wanted, level=level, ceiling=ceiling).encode("utf-8", "backslashreplace")


def _say_what_was_written(drawn: Sequence[DeviceFigures], paths: Sequence[Path], files: Sequence[str]) -> None:
    from gpuprof.text import printable

    if not any(figures.roofline.points for figures in drawn):
        what = "throughput of SMs and memory" if any(figures.throughputs for figures in drawn) else "bandwidths"
        click.echo(f"note: no kernel has a roofline point; the figure shows {what}", err=True)
    names = ", ".join(path.name for path in paths)
    first = next((point.kernel for figures in drawn for point in figures.roofline.points), None)
    more = f" --kernel '#{first}'" if first is not None else ""
    click.echo(printable(f"wrote {names} to {paths[0].parent}; next: {to_show(files)}{more}"), err=True)
