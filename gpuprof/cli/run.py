"""`gpuprof run -- PROGRAM ARGS…`: profile any program, from the survey to the page."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from gpuprof.cli.options import into_folder, of_spec, overwriting
from gpuprof.cli.profiling import (
    SESSION_FILE,
    ProfiledProgram,
    Profiling,
    folder_name,
    profiling_options,
    request_for,
    tell,
)

_SETTINGS = {"allow_interspersed_args": False}
"""The first word that is no option of ours starts the program, with or without --."""
_SHOWN = 20


@click.command("run", context_settings=_SETTINGS)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM [ARGS]...")
@into_folder("Folder for the reports, session.json and report.html. Default: gpuprof-PROGRAM.")
@click.option("--kernel", metavar="REGEX", help="Profile only kernels whose demangled name matches.")
@profiling_options
@of_spec
@overwriting
def command(
    program: tuple[str, ...],
    folder: Path | None,
    kernel: str | None,
    profiling: Profiling,
    spec: str | None,
    force: bool,
) -> int:
    """Profile a program: find the kernels that matter, count what their diagnosis needs, say what to change.

    The program runs under Nsight Compute's ncu: once to time every kernel, once to profile those that take most of the
    time. Its output is shown once. The reports, the session and the page are left in a folder. PROGRAM may be a Python
    script, or -m and a module.
    """
    request = request_for(program, folder or Path(folder_name(program)), kernel, profiling)
    profiled = ProfiledProgram(request, profiling, spec)
    if profiling.dry_run:
        profiled.print_commands()
        return 0
    session_file, page_file = request.folder / SESSION_FILE, request.folder / "report.html"
    session = profiled.session([session_file, page_file], force=force)
    if session is None:
        return 0

    from gpuprof.cli.output import write_files
    from gpuprof.cli.select import sort_kernels
    from gpuprof.present.console import make_console, print_session
    from gpuprof.present.html import render_html
    from gpuprof.store.write import session_bytes

    write_files(
        {session_file: session_bytes(session), page_file: render_html(session).encode("utf-8", "backslashreplace")}
    )
    kernels = sort_kernels(list(session.kernels), "time")
    print_session(make_console(), session, kernels, _SHOWN, depth=False)
    next_step = f"gpuprof show --explain '#{kernels[0].id}' {shlex.quote(str(session_file))}"
    tell(f"wrote {page_file}; next: {next_step}")
    return profiled.exit_code()
