"""`gpuprof run -- PROGRAM ARGS…`: profile any program, from the survey to the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.completion import any_file
from gpuprof.cli.config import configured
from gpuprof.cli.help import WithExamples
from gpuprof.cli.opening import open_page, opening, refuse_nothing_to_open
from gpuprof.cli.options import excluding, into_folder, keeping, of_spec, overwriting
from gpuprof.cli.output import say, to_type
from gpuprof.cli.profiling import (
    exit_code,
    expression_of,
    note_passed_on,
    profile_or_show,
    profiling_options,
    refuse_file,
    refuse_folder,
    without_result,
)
from gpuprof.collect.choices import SESSION_FILE
from gpuprof.needed_packages import refuse_missing_packages

if TYPE_CHECKING:
    from gpuprof.collect.request import ProfileRequest

_SETTINGS = {"allow_interspersed_args": False}
"""The first word that is no option of ours starts the program, with or without --."""


@click.command("run", cls=WithExamples, context_settings=_SETTINGS)
@click.argument(
    "program",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="-- PROGRAM [ARGS]...",
    shell_complete=any_file,
)
@into_folder("Folder for the reports, session.json and report.html. Default: gpuprof-PROGRAM.")
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="REGEX",
    help="Profile only kernels whose demangled name matches. Repeatable.",
)
@excluding
@profiling_options
@of_spec
@keeping
@overwriting
@opening
@configured("exclude", "spec", "set", "coverage")
@click.pass_context
def command(
    ctx: click.Context,
    program: tuple[str, ...],
    folder: Path | None,
    kernels: tuple[str, ...],
    exclude: tuple[str, ...],
    profiling: Callable[..., ProfileRequest],
    plan_only: bool,
    dry_run: bool,
    spec: str | None,
    keep_private: bool,
    force: bool,
    in_browser: bool,
) -> int:
    """Profile a program: which kernels matter, how close each is to its ceiling, and what to fix first.

    The program runs several times: once to time every kernel, then under Nsight Compute's ncu, to count what limits
    those that take most of the time, and why. Its output is shown once. The reports, the session and the page are left
    in a folder. PROGRAM may be a Python script, or -m and a module; what follows it is passed to it. Options that ncu
    has may be typed by ncu's names.
    """
    refuse_missing_packages()
    refuse_file(program[0])
    refuse_folder(folder)
    note_passed_on(ctx, program)
    refuse_nothing_to_open(in_browser=in_browser, instead=without_result(plan_only=plan_only, dry_run=dry_run))
    request = profiling(
        program, folder, kernel=expression_of(kernels), exclude=exclude, spec=spec, keep_private=keep_private,
        overwrite=force,
    )  # fmt: skip
    session_file, page_file = request.place / SESSION_FILE, request.place / "report.html"
    outcome = profile_or_show(request, [session_file, page_file], plan_only=plan_only, dry_run=dry_run)
    if outcome is None:
        return 0

    from gpuprof.cli.output import write_files
    from gpuprof.cli.select import next_look, sort_kernels
    from gpuprof.model.time_by import first_times
    from gpuprof.store.write import session_pieces
    from gpuprof.views.profile import print_session, session_page
    from gpuprof.views.terminal import make_console

    session = outcome.session
    page = session_page(session).encode("utf-8", "backslashreplace")
    longest_first = sort_kernels(list(session.kernels), "time")
    try:
        write_files({session_file: session_pieces(session), page_file: page})
    finally:  # the result is shown even if the disk is full
        print_session(make_console(), session, longest_first, times=first_times(session, longest_first))
    say(f"wrote {page_file}; next: gpuprof show {to_type([session_file])} {next_look(session, longest_first)}")
    if in_browser:
        open_page([page_file])
    return exit_code(outcome, request.place)
